//! `headend trunk` with tunnelled carriage between two sites in namespaces: these tests need root, ip and iptables, and say so where
//! they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use headend_host::packet::{HEADER_BYTES, Interface};
use sites::{Sites, USERS, headend, ip, wait_for};

const TUNNELLED: &str = "carriage = \"tunnelled\"\n";

/// The rules of a site's tables raw.
fn raw(sites: &Sites, side: usize) -> String {
    let of = |command: &str| {
        let output = sites.in_site(side, || Command::new(command).args(["-t", "raw", "-S"]).output());
        String::from_utf8(output.expect("it runs").stdout).expect("rules are ASCII")
    };
    format!("{}{}", of("iptables"), of("ip6tables"))
}

/// Two sites that reach each other, and not each other's users; `None` where there is no VXLAN.
fn tunnelled(of: &str) -> Option<(Sites, [PathBuf; 2])> {
    if !sites::are_possible() {
        return None;
    }
    let sites = Sites::new(of, true);
    sites.unroute();
    let words = ["-n", sites.site_name(0), "link", "add", "vx", "type", "vxlan", "id", "1", "dstport", "4790"];
    let made = Command::new("ip").args(words).output().expect("ip runs");
    if !made.status.success() {
        eprintln!("skipped: the kernel has no VXLAN: {}", String::from_utf8_lossy(&made.stderr));
        return None;
    }
    ip(&format!("-n {} link del vx", sites.site_name(0)));
    let files = sites.write_both(TUNNELLED, "");
    Some((sites, files))
}

#[test]
fn users_and_control_packets_are_one_flow_and_nothing_is_left_behind() {
    let Some((sites, files)) = tunnelled("tpass") else { return };
    let output = sites.in_site(0, || headend().args(["trunk", "check"]).arg(&files[0]).output());
    let listed = String::from_utf8(output.expect("the binary runs").stdout).expect("text");
    for line in [
        "ip link add hd-west type vxlan id ",
        "remote 10.77.9.2 dstport 4789 srcport 4789 4790 nolearning",
        "ip link set hd-west up mtu 1450 address 02:",
        "ip route add 10.77.2.0/24 via inet6 fd",
        "sysctl -w net/ipv6/conf/hd-west/accept_ra=0",
        "iptables -t mangle -A headend-west -d 10.77.2.0/24 -j NFQUEUE --queue-num 4700 --queue-bypass",
        "iptables -t raw -A headend-west -s 10.77.2.0/24 -i hd-west -j RETURN",
        "UDP port 4789 takes packets for this site from anybody: let in only 10.77.9.2",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
    let before = [0, 1].map(|side| (sites.routes(side), sites.rules(side), raw(&sites, side)));
    let [west, east] = sites.up_both(&files);
    let mut wire = sites.in_site(1, || Interface::open("ab").expect("it is up"));
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut seen, mut frame) = (0, [0; 2_000]);
            while !is_done.load(Ordering::Relaxed) {
                let Ok((len, _)) = wire.receive(&mut frame) else {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let packet = &frame[HEADER_BYTES.min(len)..len];
                if packet.first() == Some(&0x45) {
                    let ports = [packet[20..22].to_vec(), packet[22..24].to_vec()];
                    assert_eq!(
                        (packet[9], ports),
                        (17, [vec![0x12, 0xb5], vec![0x12, 0xb5]]),
                        "UDP from port 4789 to it"
                    );
                    seen += 1;
                }
            }
            seen
        });
        sites.transfer(0, 10_000_000);
        sites.transfer(1, 2_000_000);
        assert!(sites.reaches(0) && sites.reaches(1));
        is_done.store(true, Ordering::Relaxed);
        assert!(watching.join().expect("it saw nothing else") > 100);
    });
    wait_for("all passed under control", || west.peer()["to"]["controlled_bytes"].as_u64() >= Some(10_000_000));
    let peer = west.peer();
    assert_eq!((&peer["to"]["carriage"], &peer["direct"]), (&"tunnelled".into(), &0.into()));
    west.end();
    east.end();
    assert_eq!([0, 1].map(|side| (sites.routes(side), sites.rules(side), raw(&sites, side))), before);
}

#[test]
fn nobody_else_s_packets_come_out_of_the_tunnel_nor_a_router_s_word() {
    let Some((sites, files)) = tunnelled("tforeign") else { return };
    let [west, _east] = sites.up_both(&files);
    for setting in
        ["ipv6/conf/hd-west/accept_ra", "ipv6/conf/hd-west/accept_redirects", "ipv4/conf/hd-west/accept_redirects"]
    {
        let value = sites.in_site(0, || fs::read_to_string(format!("/proc/sys/net/{setting}")).expect("it is there"));
        assert_eq!(value.trim(), "0", "{setting}");
    }
    // Of the other site, but from an address that is none of its networks'.
    ip(&format!("-n {} addr add 10.99.0.1/32 dev lo", sites.site_name(1)));
    let user = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    user.set_nonblocking(true).expect("a socket may be so");
    let to = user.local_addr().expect("it is bound");
    let stranger = sites.in_site(1, || UdpSocket::bind("10.99.0.1:0").expect("the address is there"));
    wait_for("it is dropped", || {
        stranger.send_to(b"let me in", to).expect("it is sent");
        let words = ["-t", "raw", "-L", "headend-west", "-v", "-n", "-x"];
        let output = sites.in_site(0, || Command::new("iptables").args(words).output().expect("iptables runs"));
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let drops = listed.lines().find(|line| line.contains(" DROP ")).expect("the last rule");
        drops.split_whitespace().next().expect("a count") != "0"
    });
    assert!(user.recv(&mut [0; 64]).is_err(), "nothing has come");
    assert!(sites.reaches(1), "what is of its networks comes");
    west.kill();
    let (code, said) = sites.down(0, &files[0]);
    assert!(code == Some(0) && said.contains("removed the chain headend-west"), "{said}");
    assert!(!raw(&sites, 0).contains("headend-west"), "{}", raw(&sites, 0));
}

#[test]
fn what_a_killed_daemon_leaves_carries_on_and_is_found() {
    let Some((sites, files)) = tunnelled("tkill") else { return };
    let before = (sites.routes(0), sites.rules(0));
    let [west, east] = sites.up_both(&files);
    west.kill();
    assert!(sites.reaches(0), "the tunnel is the kernel's, and passes without control");
    let west = sites.up(0, &files[0]);
    assert!(west.log().contains("removed the device hd-west that a trunk of this name left"), "{}", west.log());
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    west.kill();
    let (code, said) = sites.down(0, &files[0]);
    assert!(code == Some(0) && said.contains("removed the device hd-west"), "{said}");
    assert_eq!((sites.routes(0), sites.rules(0)), before);
    // A device of somebody else's is not touched.
    ip(&format!("-n {} link add hd-west type vxlan id 9 dstport 4790", sites.site_name(0)));
    let output = sites.in_site(0, || headend().args(["trunk", "up"]).arg(&files[0]).output().expect("the binary runs"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is a device of this name already: say another `device`"), "{said}");
}
