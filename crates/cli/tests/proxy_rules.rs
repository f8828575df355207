//! The rules of the transparent mode, on a path of three namespaces: these tests need root, `ip`, `nft` and `iptables`, and say
//! so where they are skipped.
#![cfg(target_os = "linux")]

#[path = "support/diverted.rs"]
mod diverted;

use std::net::IpAddr;

use diverted::{BOTH, CLIENT, Path, ROUTER, echo, ip, run};

#[test]
fn connections_are_forwarded_untouched_whenever_the_proxy_is_down() {
    let Some(path) = Path::new("open") else { return };
    path.rules(BOTH);
    for is_v4 in [true, false] {
        let (client, router) = (ip(CLIENT[usize::from(is_v4)]), ip(ROUTER[usize::from(is_v4)]));
        assert_eq!(path.seen(is_v4), client, "before the proxy is there");
        let (mut old_client, mut old_server, _) = path.call(is_v4);
        let proxy = path.proxy(false);
        assert_eq!(path.seen(is_v4), router, "the proxy connects on, with its own address");
        echo(&mut old_client, &mut old_server);
        drop(proxy);
        assert_eq!(path.seen(is_v4), client, "after the proxy was killed");
        echo(&mut old_client, &mut old_server);
        let again = path.proxy(false);
        assert_eq!(path.seen(is_v4), router, "when it is back");
        drop(again);
    }
}

#[test]
fn a_server_sees_the_client_s_address_where_the_proxy_keeps_it() {
    let Some(path) = Path::new("keep") else { return };
    path.rules(BOTH);
    let _proxy = path.proxy(true);
    for is_v4 in [true, false] {
        assert_eq!(path.seen(is_v4), ip(CLIENT[usize::from(is_v4)]));
    }
    // Not because nothing was diverted: both ends of the connection have their other end on the router.
    let (_client, _server, _) = path.call(true);
    let sockets = run(&format!("ip netns exec {} ss -Htn state established", path.router.name()));
    assert_eq!(sockets.lines().filter(|line| line.contains("10.83.2.2:80")).count(), 2, "{sockets}");
}

#[test]
fn beyond_the_limit_connections_are_forwarded() {
    let Some(path) = Path::new("limit") else { return };
    path.rules(&format!("{BOTH} --connections-max 2"));
    let _proxy = path.proxy(false);
    let calls: Vec<_> = (0..4).map(|_| path.call(true)).collect();
    let seen: Vec<IpAddr> = calls.iter().map(|(_, _, from)| *from).collect();
    let (client, router) = (ip(CLIENT[1]), ip(ROUTER[1]));
    assert_eq!(seen, [router, router, client, client]);
}

#[test]
fn only_the_ports_interfaces_and_networks_that_were_named_are_diverted() {
    let Some(path) = Path::new("named") else { return };
    let _proxy = path.proxy(false);
    let (client, router) = (ip(CLIENT[1]), ip(ROUTER[1]));
    let cases = [
        ("--ports 80,443", router),
        ("--ports 443", client),
        ("--interface lan", router),
        ("--interface wan", client),
        ("--clients 10.83.0.0/16", router),
        ("--clients 10.83.7.0/24", client),
    ];
    for (words, expected) in cases {
        path.rules(&format!("apply --listener 127.0.0.1:3129 {words}"));
        assert_eq!(path.seen(true), expected, "{words}");
    }
}

#[test]
fn rules_are_applied_once_and_removed_whole() {
    let Some(path) = Path::new("whole") else { return };
    let before = path.traces();
    path.rules("remove");
    assert_eq!(path.traces(), before, "to remove nothing is no error");
    path.rules(BOTH);
    let once = path.traces();
    assert_ne!(once, before);
    path.rules(BOTH);
    assert_eq!(path.traces(), once, "the same again");
    path.rules(&format!("{BOTH} --mark 77 --table 78"));
    path.rules(BOTH);
    assert_eq!(path.traces(), once, "another mark and table, and back");
    path.rules("remove");
    assert_eq!(path.traces(), before);
    // Nothing of this was done where the test runs.
    assert!(!run("nft list tables").contains("inet headend"));
}
