//! The proxy among changes and failures: nothing may crash, leak, or come out wrong.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use proxied::{PATIENCE, Proxy, Tongue, noise, rest_of, server_and_client};

/// Flows that are alive during a reload.
const FLOWS: u64 = 1_000;

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Waits until so many descriptors are open and no more.
fn settles_at(pid: u32, expected: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors(pid) > expected {
        assert!(Instant::now() < end, "{} descriptors are open, and {expected} were before", descriptors(pid));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reload_under_a_thousand_flows_changes_no_byte_of_them_and_leaves_nothing_behind() {
    headend_host::privilege::raise_open_files();
    let mut proxy = Proxy::start("[limits]\nconnections_per_client = 4000\n");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let mut pairs = Vec::new();
    for flow in 0..FLOWS {
        let (server, client) = server_and_client(&proxy, Tongue::Forward);
        let sent = noise(flow, 40_000);
        (&server).write_all(&sent[..20_000]).unwrap();
        pairs.push((flow, server, client, sent));
    }
    let open = descriptors(pid);
    assert!(open as u64 >= 2 * FLOWS, "each flow has two sockets, and {open} descriptors are open");
    for connections in [3_000, 3_500] {
        proxy.edit(|text| {
            let kept: String =
                text.lines().filter(|line| !line.starts_with("connections =")).flat_map(|line| [line, "\n"]).collect();
            kept.replace("[limits]\n", &format!("[limits]\nconnections = {connections}\n"))
        });
        proxy.signal("HUP");
        proxy.says("read again");
    }
    for (_, server, _, sent) in &mut pairs {
        server.write_all(&sent[20_000..]).unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
    }
    for (flow, _server, mut client, sent) in pairs {
        assert!(rest_of(&mut client) == sent, "flow {flow}");
    }
    settles_at(pid, before);
}
