//! What a process must be allowed to do before it can make networks.

use std::fs::OpenOptions;

use rustix::thread::CapabilitySet;

/// What this process lacks to make namespaces and devices, in words; empty if nothing.
pub fn missing() -> Vec<String> {
    let held = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let needed = [
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN, to make network namespaces"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, to make devices and routes"),
    ];
    let mut missing: Vec<String> =
        needed.iter().filter(|(one, _)| !held.contains(*one)).map(|(_, words)| (*words).to_owned()).collect();
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        missing.push(format!("/dev/net/tun, to carry packets ({error})"));
    }
    missing
}
