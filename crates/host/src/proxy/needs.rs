//! The needs of a configuration: descriptors, and capabilities beyond an ordinary user's rights.

use rustix::thread::CapabilitySet;

use super::config::{self, Config, Way};
use super::{FAREWELLS_MAX, WAITING_MAX, listen};

/// The descriptors that a proxy may come to need: two or four for each connection, those that wait for one or for a last word, the
/// servers' that are kept, and some of its own.
pub(super) fn descriptors(config: &Config) -> u64 {
    let limits = &config.limits;
    let own = 64 + 16 * config.workers.get();
    // With TLS, two for the inside of a connection as well.
    let each = if config.listeners.iter().any(|one| one.tls.is_some()) { 4 } else { 2 };
    (each * limits.connections.min(config::CONNECTIONS_MAX) + limits.pool + WAITING_MAX + FAREWELLS_MAX + own) as u64
}

/// The capabilities that sockets still to be made take beyond an ordinary user's rights.
pub(super) fn needed_later(config: &Config) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    if config.listeners.iter().any(|one| one.way == Way::Transparent || one.keep_client_address) {
        // ip(7): either this or CAP_NET_ADMIN, which may do much more, allows IP_TRANSPARENT.
        needed |= CapabilitySet::NET_RAW;
    }
    if config.remote.takes_privilege() {
        needed |= CapabilitySet::NET_ADMIN;
    }
    if config.listeners.iter().any(|one| listen::takes_privilege(one.address.port())) {
        // For ways in that a file has when it is read again.
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    needed
}

/// The capabilities with which queues and sets of netfilter can be asked.
pub(super) fn needed_to_hold(config: &Config) -> CapabilitySet {
    match config.listeners.iter().any(|one| one.way == Way::Transparent) {
        true => CapabilitySet::NET_ADMIN,
        false => CapabilitySet::empty(),
    }
}
