//! `headend trunk` between two sites in namespaces: these tests need root and iptables, and say so where they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::chown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use sites::{Sites, headend, headend_as_nobody, wait_for};

#[test]
fn traffic_passes_under_control_and_nothing_is_left_behind() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("pass", true);
    let before = sites.rules(0);
    let files = sites.write_both("", "");
    let [west, east] = sites.up_both(&files);
    assert!(sites.rules(0).contains("-A headend-west -d 10.77.2.0/24 -j NFQUEUE --queue-num 4700 --queue-bypass"));
    sites.transfer(0, 20_000_000);
    sites.transfer(1, 5_000_000);
    assert!(sites.reaches(0) && sites.reaches(1));
    wait_for("all is counted", || west.peer()["to"]["controlled_bytes"].as_u64() >= Some(20_000_000));
    let sent = |what: &str| west.peer()["to"][what].as_u64().expect("a number");
    wait_for("a header has come for each 6000 bytes", || {
        let received = east.peer()["from"]["headers"].as_u64().expect("a number");
        // Each control TCP owes less than a VMSS, and acknowledgements of the other direction are charged.
        received == sent("headers") && received + 4 >= sent("controlled_bytes") / 6_000
    });
    assert!(sent("headers") < 4_500, "{}", sent("headers"));
    west.end();
    east.end();
    assert_eq!(sites.rules(0), before);
    assert!(!sites.folder.path().join("west.sock").exists());
    assert!(sites.reaches(0), "without a trunk as before");
}

#[test]
fn packets_of_a_flow_keep_their_order() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("order", true);
    let files = sites.write_both("", "vmss = \"1500B\"\ncontrols = 3\n");
    let [west, _east] = sites.up_both(&files);
    let (got, sent) = sites.numbered();
    assert!(got * 10 >= sent * 9, "{got} of {sent} came");
    wait_for("headers are counted", || west.peer()["to"]["headers"].as_u64() > Some(1_000));
}

#[test]
fn a_killed_daemon_lets_traffic_pass_and_the_next_finds_its_rules() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("kill", true);
    let before = sites.rules(0);
    let files = sites.write_both("", "");
    let [west, east] = sites.up_both(&files);
    west.kill();
    assert!(sites.rules(0).contains("headend-west"), "nobody was there to take them away");
    sites.transfer(0, 1_000_000);
    let west = sites.up(0, &files[0]);
    assert!(west.log().contains("replaced the chain headend-west that a trunk of this name left"), "{}", west.log());
    assert_eq!(sites.rules(0).matches("-j headend-west").count(), 1);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    sites.transfer(1, 1_000_000);
    west.end();
    assert_eq!(sites.rules(0), before);
}

#[test]
fn traffic_goes_direct_while_the_far_end_is_gone() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("far", true);
    let files = sites.write_both("", "");
    let [west, east] = sites.up_both(&files);
    east.kill();
    wait_for("the peer counts as gone", || west.peer()["state"] == "down");
    sites.transfer(0, 1_000_000);
    wait_for("it is counted", || west.peer()["direct_bytes"].as_u64() >= Some(1_000_000));
    let east = sites.up(1, &files[1]);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    wait_for("it is counted", || west.peer()["to"]["controlled_bytes"].as_u64() >= Some(1_000_000));
    // An orderly end is told, and not found out.
    east.end();
    wait_for("the peer is gone", || west.peer()["state"] == "down");
    assert!(sites.reaches(0));
}

#[test]
fn a_daemon_that_is_stopped_for_a_while_goes_on() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("stop", true);
    let files = sites.write_both("", "");
    let [west, east] = sites.up_both(&files);
    east.signal(Signal::STOP);
    wait_for("the peer counts as gone", || west.peer()["state"] == "down");
    east.signal(Signal::CONT);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
}

#[test]
fn without_a_circuit_packets_wait_if_the_file_says_so() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("block", true);
    let files = sites.write_both("fallback = \"block\"", "");
    let west = sites.up(0, &files[0]);
    assert!(!sites.rules(0).contains("--queue-bypass"));
    assert!(!sites.reaches(0), "nobody is at the far end");
    let east = sites.up(1, &files[1]);
    west.carries();
    east.carries();
    assert!(sites.reaches(0));
    west.kill();
    assert!(!sites.reaches(0), "the rules hold what nobody lets go");
    let left = sites.rules(0);
    let text = std::fs::read_to_string(&files[0]).expect("it was written");
    // A start that fails when the rules are set already: what is at its `status` is no socket.
    let (precious, fails) = (sites.folder.path().join("precious"), sites.folder.path().join("fails.toml"));
    std::fs::write(&precious, "mine").expect("a file");
    std::fs::write(&fails, text.replace("west.sock", "precious").replace("10.77.2.0/24", "10.77.2.0/25"))
        .expect("a file");
    let output = sites.in_site(0, || headend().args(["trunk", "up"]).arg(&fails).output().expect("the binary runs"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is there and is no socket"), "{said}");
    assert_eq!(sites.rules(0), left, "those of the one that was killed");
    assert!(!sites.reaches(0), "and they still hold");
    let text = std::fs::read_to_string(&files[0]).expect("it was written");
    std::fs::write(&files[0], format!("at_end = \"block\"\n{text}")).expect("a file");
    sites.up(0, &files[0]).end();
    assert!(!sites.reaches(0), "after an orderly end too, because the file says so");
    assert!(sites.down(0, &files[0]).1.contains("removed the chain headend-west"));
    assert!(sites.reaches(0), "as without a trunk");
}

#[test]
fn forged_and_replayed_datagrams_change_nothing() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("forge", true);
    // The west speaks to somebody who forwards its datagrams to the east, and back, and much else beside.
    let files = [sites.write(0, Some("10.77.9.2:7701"), "", ""), sites.write(1, None, "", "")];
    let relay = sites.in_site(1, || UdpSocket::bind(("10.77.9.2", 7_701)).expect("the address is there"));
    relay.set_read_timeout(Some(Duration::from_millis(500))).expect("a time-out is allowed");
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let forwarding = thread::spawn(move || sites::attack(&relay, &is_done));
    let [west, east] = sites.up_both(&files);
    sites.transfer(0, 3_000_000);
    sites.transfer(1, 3_000_000);
    wait_for("all is counted", || {
        let counts =
            [&west, &east].map(|daemon| (daemon.peer()["refused"].as_u64(), daemon.status()["strangers"].as_u64()));
        counts.iter().all(|(refused, strangers)| *refused > Some(100) && *strangers > Some(100))
    });
    for daemon in [&west, &east] {
        let peer = daemon.peer();
        assert_eq!(peer["circuits"], 1, "none was torn down: {peer}");
        assert_eq!(peer["to"]["timeouts"], 0, "{peer}");
    }
    done.store(true, Ordering::Relaxed);
    forwarding.join().expect("the attack ends");
}

#[test]
fn strangers_get_no_answer() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("strange", true);
    let files = sites.write_both("", "");
    let [west, _east] = sites.up_both(&files);
    let stranger = sites.in_site(1, || UdpSocket::bind(("10.77.9.2", 0)).expect("the address is there"));
    stranger.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out is allowed");
    let mut first = [0; 128];
    first[..2].copy_from_slice(&[1, 1]);
    for bytes in [&first[..], &[4, 1, 0, 0, 0, 0, 0, 0], b"hello", &[0; 1_400], &[]] {
        stranger.send_to(bytes, "10.77.9.1:7700").expect("it is sent");
        assert!(stranger.recv(&mut [0; 2_000]).is_err(), "{bytes:?} was answered");
    }
    wait_for("they are counted", || west.status()["strangers"].as_u64() >= Some(4));
    assert_eq!(west.peer()["state"], "carrying");
}

#[test]
fn a_key_that_is_not_in_the_file_gets_no_session() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("unknown", true);
    let files = sites.write_both("", "");
    let west = sites.up(0, &files[0]);
    // The east with another private key than the west has the public one of.
    let key = sites.folder.path().join("east.key");
    fs::remove_file(&key).expect("it is there");
    assert!(headend().args(["trunk", "keygen"]).arg(&key).output().expect("the binary runs").status.success());
    let east = sites.up(1, &files[1]);
    wait_for("its hand-shakes are counted", || west.status()["strangers"].as_u64() >= Some(2));
    for daemon in [&west, &east] {
        assert_eq!((&daemon.peer()["state"], &daemon.peer()["sessions"]), (&"down".into(), &0.into()));
    }
    assert!(sites.reaches(0), "and traffic passes");
}

#[test]
fn a_guarantee_is_what_the_receiver_grants() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("grant", true);
    let peer = "gmb = \"5Mbit/s\"\ngmb_max = \"2Mbit/s\"\ncontrols = 8\ncontrols_max = 3\n";
    let files = sites.write_both("link = \"10Mbit/s\"", peer);
    let [west, east] = sites.up_both(&files);
    for daemon in [&west, &east] {
        assert_eq!(
            (&daemon.peer()["to"]["guaranteed_bps"], &daemon.peer()["to"]["controls"]),
            (&2_000_000.into(), &3.into())
        );
    }
    wait_for("something leaves by the guarantee", || {
        sites.transfer(0, 5_000_000);
        west.peer()["to"]["guaranteed_bytes"].as_u64() > Some(0)
    });
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_sets_nothing() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("second", true);
    let files = sites.write_both("", "");
    let west = sites.up(0, &files[0]);
    let fails = |command: &mut std::process::Command, expected: &str| {
        let output =
            sites.in_site(0, || command.args(["trunk", "up"]).arg(&files[0]).output().expect("the binary runs"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    fails(&mut headend(), "listen on 0.0.0.0:7700: Address already in use");
    assert!(sites.rules(0).contains("headend-west"), "the first one's are still there");
    // Not one of its name either, which has nothing else in common with it.
    let twin = sites.folder.path().join("twin.toml");
    let text = fs::read_to_string(&files[0]).expect("it was written");
    let text = text.replace("7700\"\nstatus = \"west", "7703\"\nqueue = 4900\nstatus = \"twin");
    fs::write(&twin, text).expect("a file");
    let started = |file: &std::path::Path| {
        let output = sites.in_site(0, || headend().args(["trunk", "up"]).arg(file).output().expect("the binary runs"));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = started(&twin);
    assert!(code == Some(1) && said.contains("a trunk called west runs already"), "{said}");
    assert_eq!(sites.rules(0).matches("-j headend-west").count(), 1, "the first one's are still there");
    west.end();
    // What is no socket is not taken for the status that a killed one left.
    let precious = sites.folder.path().join("precious");
    fs::write(&precious, "mine").expect("a file");
    let text = fs::read_to_string(&files[0]).expect("it was written").replace("west.sock", "precious");
    fs::write(&twin, text).expect("a file");
    let (code, said) = started(&twin);
    assert!(code == Some(2) && said.contains("is there and is no socket"), "{said}");
    assert_eq!(fs::read_to_string(&precious).expect("it is still there"), "mine");
    assert!(!sites.rules(0).contains("headend-west"), "nothing half set");
    let other = sites.write(0, None, "queue = 4700\n", "");
    let text =
        fs::read_to_string(&other).expect("it was written").replace("7700", "7702").replace("\"west\"", "\"other\"");
    let other = sites.folder.path().join("other.toml");
    fs::write(&other, text).expect("a file");
    let west = sites.up(0, &files[0]);
    let output = sites.in_site(0, || headend().args(["trunk", "up"]).arg(&other).output().expect("the binary runs"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("take netfilter's queue 4700") && said.contains("another program uses it"), "{said}");
    assert!(!sites.rules(0).contains("headend-other"));
    west.end();
    // Who may do nothing can still read the file.
    fs::set_permissions(sites.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    chown(sites.folder.path().join("west.key"), Some(65_534), Some(65_534)).expect("root gives it away");
    fails(&mut headend_as_nobody(), "CAP_NET_ADMIN");
    assert!(!sites.rules(0).contains("headend"));
}

#[test]
fn what_would_be_set_is_listed_without_setting_it() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("check", true);
    let files = sites.write_both("", "");
    let before = sites.rules(0);
    let output =
        sites.in_site(0, || headend().args(["trunk", "check"]).arg(&files[0]).output().expect("the binary runs"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(sites.rules(0), before);
    let west = sites.up(0, &files[0]);
    let new = sites.rules(0);
    let set: Vec<&str> = new.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    assert_eq!(set.len(), 3);
    for rule in set {
        assert!(said.contains(&format!("iptables -t mangle {rule}")), "{rule} is not in {said}");
    }
    west.end();
}
