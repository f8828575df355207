//! A trunk that takes over a changed file while it runs, between two sites in namespaces. These tests need root, ip and iptables,
//! and say so where they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::fs;
use std::path::Path;
use std::thread;

use rustix::process::Signal;
use sites::{Sites, headend, ip, wait_for};

const SEALED: &str = "carriage = \"sealed\"\n";

/// Replaces text in a file.
fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("it was written");
    assert!(text.contains(from), "{from} is in {text}");
    fs::write(file, text.replace(from, to)).expect("a file");
}

/// A peer that is never there.
fn nobody(sites: &Sites, name: &str, network: &str) -> String {
    let output = headend().args(["trunk", "keygen"]).arg(sites.folder.path().join(name)).output();
    let key = String::from_utf8(output.expect("the binary runs").stdout).expect("base64");
    format!("\n[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\nnetworks = [\"{network}\"]\n", key.trim())
}

/// Has a site's daemon take over its file. Returns the exit code, and what was said.
fn reload(sites: &Sites, side: usize, file: &Path) -> (Option<i32>, String) {
    let output = sites.in_site(side, || headend().args(["trunk", "reload"]).arg(file).output());
    let output = output.expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn peers_come_change_and_go_while_others_carry() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("reload", true);
    sites.unroute();
    let files = sites.write_both(SEALED, "");
    let [west, east] = sites.up_both(&files);
    let before = sites.routes(0);
    let peer = nobody(&sites, "north", "10.77.3.0/24");
    thread::scope(|scope| {
        let moving = scope.spawn(|| sites.transfer(0, 10_000_000));
        // A longer list of networks, another class, and a peer more; and all of it gone again.
        edit(&files[0], "[\"10.77.2.0/24\"]", "[\"10.77.2.0/24\", \"10.77.4.0/24\"]");
        let text = fs::read_to_string(&files[0]).expect("it was written");
        fs::write(&files[0], format!("{text}{peer}[[class]]\nname = \"voice\"\ndscp = [\"ef\"]\n")).expect("a file");
        let (code, said) = reload(&sites, 0, &files[0]);
        assert_eq!(code, Some(0), "{said}");
        for line in ["peer east: changed", "peer north: added", "classes: changed"] {
            assert!(said.contains(line), "{said}");
        }
        let routes = sites.routes(0);
        for line in ["10.77.3.0/24 dev hd-west", "10.77.4.0/24 dev hd-west", "unreachable 10.77.4.0/24"] {
            assert!(routes.contains(line), "{routes}");
        }
        wait_for("both peers are shown", || west.status()["peers"].as_array().is_some_and(|peers| peers.len() == 2));
        fs::write(&files[0], text.replace(", \"10.77.4.0/24\"", "")).expect("a file");
        west.signal(Signal::HUP);
        wait_for("SIGHUP is obeyed", || west.log().contains("reload: peer north: removed"));
        moving.join().expect("every byte in order");
    });
    wait_for("it is gone", || west.status()["peers"].as_array().is_some_and(|peers| peers.len() == 1));
    assert_eq!(sites.routes(0), before);
    assert_eq!((&west.peer()["circuits"], &east.peer()["circuits"]), (&1.into(), &1.into()), "nobody noticed");
    // Other terms, on both sides.
    edit(&files[0], "networks", "controls = 7\nnetworks");
    assert_eq!(reload(&sites, 0, &files[0]).0, Some(0));
    wait_for("the new terms hold", || west.peer()["to"]["controls"] == 7);
    edit(&files[1], "networks", "controls_max = 3\nnetworks");
    assert_eq!(reload(&sites, 1, &files[1]).0, Some(0));
    wait_for("less is granted", || west.peer()["to"]["controls"] == 3);
    sites.transfer(0, 1_000_000);
    let (code, said) = reload(&sites, 0, &files[0]);
    assert!(code == Some(0) && said.contains("nothing about peers or classes has changed"), "{said}");
}

#[test]
fn what_cannot_be_taken_over_is_refused_and_nothing_changes() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("rrefuse", true);
    sites.unroute();
    let files = sites.write_both(SEALED, "");
    let [west, _east] = sites.up_both(&files);
    // Of two new networks one has a route of somebody else's.
    ip(&format!("-n {} route add 10.77.6.0/24 dev lo", sites.site_name(0)));
    let before = sites.routes(0);
    let text = fs::read_to_string(&files[0]).expect("it was written");
    let other = fs::read(sites.folder.path().join("east.key")).expect("it was written");
    for (from, to, expected, with_code) in [
        ("0.0.0.0:7700", "0.0.0.0:7701", "west.toml:3: listen: this cannot change while the trunk runs", 2),
        (
            "sealed",
            "native",
            "carriage: this cannot change while the trunk runs: it has sealed, and the file native",
            2,
        ),
        ("\"west\"", "\"west2\"", "name: this cannot change", 2),
        ("west.key", "other.key", "private_key: this cannot change", 2),
        ("networks", "networking", "unknown field `networking`", 2),
        ("[\"10.77.2.0/24\"]", "[\"10.77.2.0/24\", \"10.77.5.0/24\", \"10.77.6.0/24\"]", "there is another already", 1),
    ] {
        if to == "other.key" {
            let key = sites.folder.path().join(to);
            let status = headend().args(["trunk", "keygen"]).arg(&key).output().expect("the binary runs").status;
            assert!(status.success() && fs::read(key).expect("it was written") != other);
        }
        fs::write(&files[0], text.replace(from, to)).expect("a file");
        let (code, said) = reload(&sites, 0, &files[0]);
        assert!(code == Some(with_code) && said.contains(expected), "{to}: {said}");
    }
    assert_eq!(sites.routes(0), before);
    west.signal(Signal::HUP);
    wait_for("SIGHUP is answered", || west.log().matches("the trunk goes on as before").count() >= 2);
    assert_eq!(west.peer()["circuits"], 1);
    sites.transfer(0, 100_000);
}

#[test]
fn in_native_carriage_queues_come_and_go_with_their_peers() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("rnative", true);
    let files = sites.write_both("carriage = \"native\"\n", "");
    let [west, east] = sites.up_both(&files);
    let text = fs::read_to_string(&files[0]).expect("it was written");
    thread::scope(|scope| {
        let moving = scope.spawn(|| sites.transfer(0, 10_000_000));
        fs::write(&files[0], format!("{text}{}", nobody(&sites, "north", "10.77.3.0/24"))).expect("a file");
        let (code, said) = reload(&sites, 0, &files[0]);
        assert!(code == Some(0) && said.contains("peer north: added"), "{said}");
        let rules = sites.rules(0);
        for (network, queue) in [("10.77.2.0/24", 4_700), ("10.77.3.0/24", 4_701)] {
            assert!(rules.contains(&format!("-d {network} -j NFQUEUE --queue-num {queue}")), "{rules}");
        }
        // Another takes the place of that one, under a number of its own.
        fs::write(&files[0], format!("{text}{}", nobody(&sites, "south", "10.77.4.0/24"))).expect("a file");
        let (code, said) = reload(&sites, 0, &files[0]);
        assert!(code == Some(0) && said.contains("peer north: removed"), "{said}");
        assert!(sites.rules(0).contains("-d 10.77.4.0/24 -j NFQUEUE --queue-num 4702"), "{}", sites.rules(0));
        moving.join().expect("every byte in order");
    });
    assert_eq!((&west.peer()["circuits"], &east.peer()["circuits"]), (&1.into(), &1.into()), "nobody noticed");
    west.end();
    assert!(!sites.rules(0).contains("headend"), "{}", sites.rules(0));
}
