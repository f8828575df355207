//! The packets between the two hosts of a flow of programs: which are its own, and what its connections carried.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use headend_engine::codec::ipv4::Ipv4Header;
use headend_engine::codec::protocol;
use headend_engine::codec::tcp::TcpHeader;
use headend_engine::time::Time;
use headend_sim::histogram::Histogram;

use super::watch::{Seen, Where};

/// Connections that are followed at a time; of those before them sums are kept.
const CONNECTIONS_MAX: usize = 1_024;
/// The header of a datagram (RFC 768).
const UDP_HEADER: u64 = 8;

/// The packets of one instance of a flow of programs.
#[derive(Clone, Debug)]
pub(super) struct Between {
    /// The addresses of the hosts at the flow's `from` and `to`.
    hosts: [Ipv4Addr; 2],
    /// The port that its programs were told.
    port: u16,
    /// True if it takes what is no other flow's: no other flow of programs joins these hosts.
    takes_all: bool,
    /// TCP connections by the ports at `from` and `to`, in the order of their first packets.
    connections: BTreeMap<[u16; 2], (u64, Seen)>,
    opened: u64,
    /// What connections carried that are followed no more, and what others than TCP did.
    past: Sums,
    /// Bytes that arrived at `to`, and at `from`; headers included.
    arrived: [u64; 2],
}

/// Sums over all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Bytes of data that arrived at `to`: of TCP each once, in order.
    pub(super) delivered: u64,
    /// TCP segments with data that left `from`.
    pub(super) segments: u64,
    /// Of those, the ones with data that had left before.
    pub(super) retransmits: u64,
    /// TCP segments with data that arrived at `to` though all of it had.
    pub(super) spurious: u64,
    /// Round trips from `from`.
    pub(super) rtt: Histogram,
}

impl Sums {
    fn add(&mut self, seen: &Seen) {
        self.delivered += seen.arrived().get();
        self.segments += seen.segments;
        self.retransmits += seen.retransmits;
        self.spurious += seen.spurious;
        self.rtt.add(&seen.rtt);
    }
}

impl Between {
    pub(super) fn new(hosts: [Ipv4Addr; 2], port: u16, takes_all: bool) -> Between {
        let connections = BTreeMap::new();
        Between { hosts, port, takes_all, connections, opened: 0, past: Sums::default(), arrived: [0; 2] }
    }

    /// Bytes that arrived at `to`, headers and repetitions included.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.arrived[0]
    }

    /// Bytes that arrived at `from`, likewise.
    pub(super) fn wire_bytes_back(&self) -> u64 {
        self.arrived[1]
    }

    /// All that was seen so far.
    pub(super) fn sums(&self) -> Sums {
        let mut sums = self.past.clone();
        self.connections.values().for_each(|(_, seen)| sums.add(seen));
        sums
    }

    /// Takes a packet into or out of the network if it is this flow's; false if it is not.
    pub(super) fn packet(&mut self, now: Time, inward: bool, packet: &[u8]) -> bool {
        let Ok((ip, inside)) = Ipv4Header::decode(packet) else { return false };
        let is_forward = if [ip.src, ip.dst] == self.hosts {
            true
        } else if [ip.dst, ip.src] == self.hosts {
            false
        } else {
            return false;
        };
        let has_ports = matches!(ip.protocol, protocol::TCP | protocol::UDP) && ip.fragment_offset == 0;
        let port_at = |at: usize| inside.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
        let ports = port_at(0).zip(port_at(2)).filter(|_| has_ports);
        let is_named = ports.is_some_and(|(source, destination)| source == self.port || destination == self.port);
        if !(is_named || self.takes_all) {
            return false;
        }
        if !inward {
            self.arrived[usize::from(!is_forward)] += packet.len() as u64;
        }
        if ip.protocol == protocol::TCP {
            if let Ok((header, _)) = TcpHeader::decode(inside) {
                self.segment(now, [is_forward, inward], &header, packet.len());
            }
        } else if is_forward && !inward {
            let is_datagram = ip.protocol == protocol::UDP && ip.fragment_offset == 0;
            self.past.delivered += (inside.len() as u64).saturating_sub(if is_datagram { UDP_HEADER } else { 0 });
        }
        true
    }

    fn segment(&mut self, now: Time, [is_forward, inward]: [bool; 2], header: &TcpHeader, len: usize) {
        let place = match (is_forward, inward) {
            (true, true) => Where::Leaving,
            (true, false) => Where::Arriving,
            (false, false) => Where::Answer,
            (false, true) => return,
        };
        let (source, destination) = (header.src_port, header.dst_port);
        let key = if is_forward { [source, destination] } else { [destination, source] };
        let segment = &header.segment;
        // The same ports again, for another connection: nobody sends data before its SYN.
        if place == Where::Leaving
            && segment.flags.syn
            && let Some((_, old)) = self.connections.get(&key)
            && old.segments > 0
        {
            self.past.add(old);
            self.connections.remove(&key);
        }
        if !self.connections.contains_key(&key) {
            self.forget_the_oldest();
            self.opened += 1;
        }
        let opened = self.opened;
        let (_, seen) = self.connections.entry(key).or_insert_with(|| (opened, Seen::default()));
        seen.packet(now, place, segment, len);
    }

    fn forget_the_oldest(&mut self) {
        if self.connections.len() < CONNECTIONS_MAX {
            return;
        }
        let oldest = self.connections.iter().min_by_key(|(_, (opened, _))| *opened).map(|(&key, _)| key);
        if let Some((_, seen)) = oldest.and_then(|key| self.connections.remove(&key)) {
            self.past.add(&seen);
        }
    }
}
