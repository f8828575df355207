//! What a process must be allowed to do before it can make networks.

use std::fs::OpenOptions;

use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;

/// Allows this process, and those that it starts, as many open files as it may allow itself.
pub fn raise_open_files() {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    // What is refused stays as it is: who needs more hears of it where one cannot be opened.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

/// What this process lacks to make namespaces and devices, in words; empty if nothing.
pub fn missing() -> Vec<String> {
    let mut missing = lacking(&[
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN, to make network namespaces"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, to make devices and routes"),
    ]);
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        missing.push(format!("/dev/net/tun, to carry packets ({error})"));
    }
    missing
}

/// What this process lacks to take over interfaces that are there, in words; empty if nothing.
pub fn missing_for_interfaces() -> Vec<String> {
    lacking(&[
        (CapabilitySet::NET_RAW, "CAP_NET_RAW, to read and write whole frames"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, for room in which frames wait while the machine pauses"),
    ])
}

/// The words of those capabilities that this thread does not have.
fn lacking(needed: &[(CapabilitySet, &str)]) -> Vec<String> {
    let held = held();
    needed.iter().filter(|(one, _)| !held.contains(*one)).map(|(_, words)| (*words).to_owned()).collect()
}

/// The capabilities of this thread.
pub(crate) fn held() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}
