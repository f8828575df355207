//! `headend trunk` with sealed carriage between two sites in namespaces: these tests need root, ip and iptables, and say so where
//! they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use headend_host::packet::{HEADER_BYTES, Interface};
use headend_host::socket::Info;
use headend_host::trunk::{PublicKey, wire};
use rustix::process::Signal;
use sites::{SITES, Sites, USERS, headend, ip, wait_for};

const SEALED: &str = "carriage = \"sealed\"\n";

/// Two sites that reach each other, and not each other's users.
fn sealed(of: &str, peer: &str) -> (Sites, [PathBuf; 2]) {
    let sites = Sites::new(of, true);
    sites.unroute();
    let files = sites.write_both(SEALED, peer);
    (sites, files)
}

#[test]
fn traffic_passes_encrypted_and_nothing_is_left_behind() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("spass", "");
    let before = [0, 1].map(|side| sites.routes(side));
    let [west, east] = sites.up_both(&files);
    let log = west.log();
    assert!(log.contains("carriage: sealed, for the file says so"), "{log}");
    let mut wire = sites.in_site(1, || Interface::open("ab").expect("it is up"));
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    // Whatever passes between the sites is the trunk's.
    let watching = thread::spawn(move || {
        let (mut seen, mut frame) = (0, [0; 2_000]);
        while !done.load(Ordering::Relaxed) {
            let Ok((len, _)) = wire.receive(&mut frame) else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let packet = &frame[HEADER_BYTES.min(len)..len];
            if packet.first() == Some(&0x45) {
                let ports = [packet[20..22].to_vec(), packet[22..24].to_vec()];
                assert_eq!((packet[9], ports), (17, [vec![0x1e, 0x14], vec![0x1e, 0x14]]), "UDP from port 7700 to it");
                seen += 1;
            }
        }
        seen
    });
    sites.transfer(0, 20_000_000);
    sites.transfer(1, 5_000_000);
    assert!(sites.reaches(0) && sites.reaches(1));
    wait_for("all is counted", || west.peer()["to"]["controlled_bytes"].as_u64() >= Some(20_000_000));
    is_done.store(true, Ordering::Relaxed);
    assert!(watching.join().expect("it saw nothing else") > 1_000);
    for daemon in [&west, &east] {
        let status = daemon.status();
        assert_eq!((&status["foreign"], &status["unwritten"]), (&0.into(), &0.into()), "{status}");
    }
    west.end();
    east.end();
    for (side, file) in files.iter().enumerate() {
        sites.down(side, file);
    }
    assert_eq!([0, 1].map(|side| sites.routes(side)), before);
    assert!(!sites.reaches(0), "there is no other way");
}

#[test]
fn an_orderly_end_stops_packets_until_the_next_start_or_down() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("sstop", "");
    // Another way, which packets would take unencrypted.
    for side in 0..2 {
        ip(&format!("-n {} route add default via {}", sites.site_name(side), SITES[1 - side]));
    }
    let before = sites.routes(0);
    let [west, east] = sites.up_both(&files);
    let (code, said) = sites.down(0, &files[0]);
    assert!(code == Some(1) && said.contains("the trunk west runs: end it first"), "{said}");
    let log = west.end();
    assert!(log.contains("users' packets stay stopped until the next `up`, or `headend trunk down"), "{log}");
    assert!(!sites.reaches(0), "nothing goes past the trunk");
    let west = sites.up(0, &files[0]);
    assert!(west.log().contains("took over 1 routes that a trunk of this name left"), "{}", west.log());
    west.carries();
    east.carries();
    sites.transfer(0, 100_000);
    west.end();
    assert!(!sites.reaches(0));
    let (code, said) = sites.down(0, &files[0]);
    assert!(code == Some(0) && said.contains("removed 1 routes that stopped packets"), "{said}");
    assert_eq!(sites.routes(0), before);
    assert!(sites.reaches(0), "as without a trunk");
    assert!(sites.down(0, &files[0]).1.contains("nothing of the trunk west was left"));
    let text = fs::read_to_string(&files[0]).expect("it was written");
    fs::write(&files[0], format!("at_end = \"direct\"\n{text}")).expect("a file");
    sites.up(0, &files[0]).end();
    assert_eq!(sites.routes(0), before, "the file says so");
}

#[test]
fn a_trunk_can_be_looked_at_and_announces_segments_that_fit() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("slook", true);
    sites.unroute();
    let files = sites.write_both(&format!("{SEALED}clamp_mss = true\n[admin]\nlisten = \"127.0.0.1:9081\"\n"), "");
    let [_west, _east] = sites.up_both(&files);
    let asked = |path: &str, host: &str| {
        sites.in_site(0, || {
            let mut stream = TcpStream::connect("127.0.0.1:9081").expect("it listens");
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("text");
            answer
        })
    };
    wait_for("all peers carry", || asked("/healthz", "localhost").starts_with("HTTP/1.1 200"));
    assert!(asked("/metrics", "localhost").contains("headend_trunk_carrying{peer="), "metrics are of each peer");
    assert!(asked("/status", "127.0.0.1").contains("\"state\":\"carrying\""));
    assert!(asked("/", "127.0.0.1").contains("<title>headend trunk</title>"));
    assert!(asked("/status", "evil.example").starts_with("HTTP/1.1 403"), "a page from elsewhere may not read it");
    // What the device takes is 1426 bytes: less headers of 40, and 12 for the timestamps of each segment.
    let server = sites.in_user(1, || TcpListener::bind((USERS[1], 0)).expect("the address is there"));
    let to = server.local_addr().expect("it is bound");
    let client = sites.in_user(0, || TcpStream::connect(to).expect("the other user is reached"));
    let (served, _) = server.accept().expect("it came");
    let segments = [&client, &served].map(|end| Info::of(end).expect("it is open").mss.get());
    assert_eq!(segments, [1_374; 2], "both ways, and before anything was too long");
}

#[test]
fn packets_of_a_flow_keep_their_order_in_sealed_carriage() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("sorder", "controls = 3\n");
    let [_west, _east] = sites.up_both(&files);
    let (got, sent) = sites.numbered();
    assert!(got * 10 >= sent * 9, "{got} of {sent} came");
}

#[test]
fn a_killed_daemon_leaks_nothing_and_the_next_goes_on() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("skill", "");
    // Another way, which packets would take unencrypted.
    for side in 0..2 {
        ip(&format!("-n {} route add default via {}", sites.site_name(side), SITES[1 - side]));
    }
    assert!(sites.reaches(0), "without a trunk there is one");
    let before = sites.routes(0);
    let [west, east] = sites.up_both(&files);
    sites.transfer(0, 1_000_000);
    west.kill();
    assert!(sites.routes(0).contains("unreachable 10.77.2.0/24"), "{}", sites.routes(0));
    assert!(!sites.reaches(0), "nothing goes past the trunk");
    let west = sites.up(0, &files[0]);
    assert!(west.log().contains("took over 1 routes that a trunk of this name left"), "{}", west.log());
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    sites.transfer(1, 1_000_000);
    west.end();
    sites.down(0, &files[0]);
    assert_eq!(sites.routes(0), before);
}

#[test]
fn packets_wait_while_the_far_end_is_gone_or_stopped() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("sfar", "");
    let [west, east] = sites.up_both(&files);
    east.signal(Signal::STOP);
    wait_for("the peer counts as gone", || west.peer()["state"] == "down");
    assert!(!sites.reaches(0));
    east.signal(Signal::CONT);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    east.kill();
    wait_for("the peer counts as gone", || west.peer()["state"] == "down");
    let east = sites.up(1, &files[1]);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    assert_eq!(west.peer()["direct"], 0);
}

#[test]
fn a_packet_that_is_too_long_is_told_so_and_none_is_cut() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("smtu", "");
    let [_west, _east] = sites.up_both(&files);
    let receiver = sites.in_user(1, || UdpSocket::bind((USERS[1], 7_000)).expect("the address is there"));
    receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out is allowed");
    let sender = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    let path_mtu = || {
        let output = Command::new("ip").args(["-n", sites.user_name(0), "route", "get", USERS[1]]).output();
        String::from_utf8(output.expect("ip runs").stdout).expect("ASCII")
    };
    // 1500 bytes less the headers of IP, UDP and the trunk; and of those 28 for the datagram's own.
    sender.send_to(&[7; 1_398], (USERS[1], 7_000)).expect("it is sent");
    assert_eq!(receiver.recv(&mut [0; 2_000]).expect("it fits"), 1_398);
    assert!(!path_mtu().contains("mtu"), "{}", path_mtu());
    // Not to be cut on its way, as Linux sends it first (ip(7), IP_PMTUDISC_WANT).
    sender.send_to(&[7; 1_399], (USERS[1], 7_000)).expect("it is sent");
    wait_for("the router says what fits", || path_mtu().contains("mtu 1426"));
}

#[test]
fn a_path_that_is_narrower_than_it_says_is_found_out() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("snarrow", "");
    // What is longer is lost there without a word (and four bytes more pass, for a VLAN).
    ip(&format!("-n {} link set ab mtu 1400", sites.site_name(1)));
    // Several datagrams that leave together would cross a veth as one, whatever its MTU.
    (0..2).for_each(|side| ip(&format!("-n {} link set ab gso_max_segs 1", sites.site_name(side))));
    let [west, east] = sites.up_both(&files);
    let fits = |mtu: &serde_json::Value| mtu.as_u64().is_some_and(|mtu| (576..=1_404 - 74).contains(&mtu));
    wait_for("it is found", || fits(&west.peer()["mtu"]) && fits(&east.peer()["mtu"]));
    let sender = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    wait_for("users are told", || {
        // Not to be cut on its way, as Linux sends it first; what the kernel knows already it refuses.
        let _ = sender.send_to(&[7; 1_398], (USERS[1], 7_000));
        let output = Command::new("ip").args(["-n", sites.user_name(0), "route", "get", USERS[1]]).output();
        let text = String::from_utf8(output.expect("ip runs").stdout).expect("ASCII");
        let told = text.split(" mtu ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        told.is_some_and(|told: u64| told <= 1_404 - 74)
    });
    sites.transfer(0, 1_000_000);
    sites.transfer(1, 1_000_000);
    assert_eq!(west.peer()["circuits"], 1);
}

#[test]
fn a_flood_of_forged_hand_shakes_keeps_no_peer_out() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("sflood", "");
    let east = sites.up(1, &files[1]);
    let key = PublicKey::read(&sites.keys[1]).expect("a key");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Each of many addresses that the machine takes for its own.
            let forgers: Vec<UdpSocket> = sites.in_site(1, || {
                let forger = |last| UdpSocket::bind((Ipv4Addr::new(127, 0, 7, last), 0)).expect("loopback is up");
                (1..=100).map(forger).collect()
            });
            for number in 0..100_000_u32 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let mut initiation = wire::initiation_header(number).to_vec();
                initiation.resize(8 + wire::NOISE_1, number as u8);
                initiation.extend_from_slice(&key.proof(&initiation));
                initiation.resize(wire::INITIATION, 0);
                let _ = forgers[number as usize % forgers.len()].send_to(&initiation, "127.0.0.1:7700");
                if number % 10 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        wait_for("it is a flood", || east.status()["flooded"].as_u64() > Some(100));
        let west = sites.up(0, &files[0]);
        west.carries();
        east.carries();
        sites.transfer(0, 100_000);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn ends_with_other_carriages_say_so() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("sother", true);
    sites.unroute();
    let files = [
        sites.write(0, Some(&format!("{}:7700", SITES[1])), SEALED, ""),
        sites.write(1, Some(&format!("{}:7700", SITES[0])), "carriage = \"native\"\n", ""),
    ];
    let daemons = [sites.up(0, &files[0]), sites.up(1, &files[1])];
    for (daemon, theirs) in daemons.iter().zip(["native", "sealed"]) {
        wait_for("the offer is refused", || daemon.peer()["state"] == "refused");
        assert_eq!(daemon.peer()["refuses_with"], theirs);
    }
}

#[test]
fn forged_replayed_and_reflected_packets_never_reach_a_user() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("sforge", true);
    sites.unroute();
    // The west speaks to somebody who forwards its datagrams to the east, and back, and much else beside.
    let files = [sites.write(0, Some("10.77.9.2:7701"), SEALED, ""), sites.write(1, None, SEALED, "")];
    let relay = sites.in_site(1, || UdpSocket::bind(("10.77.9.2", 7_701)).expect("the address is there"));
    relay.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out is allowed");
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let forwarding = thread::spawn(move || sites::attack(&relay, &is_done));
    let [west, east] = sites.up_both(&files);
    let receiver = sites.in_user(1, || UdpSocket::bind((USERS[1], 7_000)).expect("the address is there"));
    receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out is allowed");
    let sender = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    for number in 0..200_u32 {
        sender.send_to(&number.to_be_bytes(), (USERS[1], 7_000)).expect("it is sent");
        thread::sleep(Duration::from_millis(2));
    }
    let mut came = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(len) = receiver.recv(&mut buffer) {
        came.push(u32::from_be_bytes(buffer[..len].try_into().expect("as it was sent")));
    }
    assert_eq!(came, (0..200).collect::<Vec<_>>(), "each once");
    sites.transfer(0, 1_000_000);
    wait_for("all is counted", || [&west, &east].iter().all(|daemon| daemon.peer()["refused"].as_u64() > Some(100)));
    assert!([&west, &east].iter().all(|daemon| daemon.peer()["circuits"] == 1), "none was torn down");
    done.store(true, Ordering::Relaxed);
    forwarding.join().expect("the attack ends");
}

#[test]
fn a_peer_sends_only_from_its_own_networks() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("sfrom", "");
    let [_west, east] = sites.up_both(&files);
    ip(&format!("-n {} addr add 10.99.0.1/32 dev u0", sites.user_name(0)));
    let receiver = sites.in_user(1, || UdpSocket::bind((USERS[1], 7_000)).expect("the address is there"));
    receiver.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out is allowed");
    let sender = sites.in_user(0, || UdpSocket::bind(("10.99.0.1", 0)).expect("the address is there"));
    sender.send_to(b"not from there", (USERS[1], 7_000)).expect("it is sent");
    wait_for("it is counted", || east.status()["foreign"].as_u64() >= Some(1));
    assert!(receiver.recv(&mut [0; 64]).is_err());
}

#[test]
fn a_guarantee_in_sealed_carriage_is_what_the_receiver_grants() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("sgrant", true);
    sites.unroute();
    let peer = "gmb = \"5Mbit/s\"\ngmb_max = \"2Mbit/s\"\ncontrols = 8\ncontrols_max = 3\n";
    let files = sites.write_both(&format!("{SEALED}link = \"10Mbit/s\""), peer);
    let [west, east] = sites.up_both(&files);
    for daemon in [&west, &east] {
        let to = &daemon.peer()["to"];
        assert_eq!((&to["guaranteed_bps"], &to["controls"]), (&2_000_000.into(), &3.into()));
    }
    wait_for("something leaves by the guarantee", || {
        sites.transfer(0, 5_000_000);
        west.peer()["to"]["guaranteed_bytes"].as_u64() > Some(0)
    });
    assert_eq!(east.peer()["ungranted"], 0, "and the receiver takes it");
}

#[test]
fn what_is_in_the_way_is_named_and_nothing_is_half_set() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("sway", true);
    let files = sites.write_both(SEALED, "");
    let before = sites.routes(0);
    let fails = |expected: &str| {
        let output =
            sites.in_site(0, || headend().args(["trunk", "up"]).arg(&files[0]).output().expect("the binary runs"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    // The test's own route to the far users.
    fails("there is another already; remove it (`ip route`), for the trunk makes its own");
    assert_eq!(sites.routes(0), before);
    sites.unroute();
    ip(&format!("-n {} link add hd-west type veth peer name other", sites.site_name(0)));
    fails("there is a device of this name already: say another `device`");
    ip(&format!("-n {} link del hd-west", sites.site_name(0)));
    let west = sites.up(0, &files[0]);
    let text = fs::read_to_string(&files[0]).expect("it was written");
    fs::write(&files[0], text.replace("7700\"\nstatus", "7703\"\ndevice = \"hd-two\"\nstatus")).expect("a file");
    fails("a trunk called west runs already in this network namespace");
    assert!(!sites.routes(0).contains("hd-two"));
    west.end();
}

#[test]
fn what_sealed_carriage_would_set_is_listed() {
    if !sites::are_possible() {
        return;
    }
    let (sites, files) = sealed("scheck", "");
    let before = sites.routes(0);
    let output =
        sites.in_site(0, || headend().args(["trunk", "check"]).arg(&files[0]).output().expect("the binary runs"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "carriage: sealed, for the file says so",
        "ip tuntap add hd-west mode tun; ip link set hd-west up mtu 1426",
        "ip route add 10.77.2.0/24 dev hd-west proto 104",
        "ip route add unreachable 10.77.2.0/24 metric",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(sites.routes(0), before);
}
