//! The classification of packets by their first bytes, which tell the flow and the class in which a packet waits.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Bytes of a packet that are copied from the kernel: the longest IPv4 header and the ports after it.
pub(super) const COPIED: usize = 64;

/// The packets that a class takes: those that fit all that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Its differentiated services code point is one of these (RFC 2474).
    pub dscp: Vec<u8>,
    /// Its protocol, by number, is one of these.
    pub protocols: Vec<u8>,
    /// One of its ports is one of these.
    pub ports: Vec<u16>,
    /// One of its addresses is in one of these.
    pub networks: Vec<IpNet>,
}

/// The protocol, addresses and ports of a packet, as its first bytes tell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Its ports; zeros where there are none, or where a fragment does not tell.
    ports: (u16, u16),
}

/// Protocols that begin with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];
/// Headers of IPv6 that only lead on to others (RFC 8200 s4.1).
const LEADING: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;

/// Makes numbers of flows that no user can foresee, so that nobody can hit another's queue on purpose.
#[derive(Debug, Default)]
pub(super) struct Numbers(RandomState);

impl Numbers {
    /// The number of the flow that a packet belongs to.
    pub(super) fn of(&self, facts: &Facts) -> u64 {
        self.0.hash_one(facts)
    }
}

/// Reads the beginning of an IP packet: what it tells, and its code point. `None` if that is no IP.
pub(super) fn read(bytes: &[u8]) -> Option<(Facts, u8)> {
    match bytes.first()? >> 4 {
        4 => ipv4(bytes),
        6 => ipv6(bytes),
        _ => None,
    }
}

fn ipv4(bytes: &[u8]) -> Option<(Facts, u8)> {
    let (header, _) = bytes.split_first_chunk::<20>()?;
    let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(*header.get(at..)?.first_chunk::<4>()?)));
    let len = usize::from(header[0] & 15) * 4;
    // More fragments, or not the first of them: later ones have no ports, so none of them counts with its ports.
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let protocol = header[9];
    let ports = if is_fragment { None } else { ports(protocol, bytes.get(len..).unwrap_or_default()) };
    let facts = Facts { source: address(12)?, destination: address(16)?, protocol, ports: ports.unwrap_or_default() };
    Some((facts, header[1] >> 2))
}

fn ipv6(bytes: &[u8]) -> Option<(Facts, u8)> {
    let (header, mut rest) = bytes.split_first_chunk::<40>()?;
    let address = |at: usize| Some(IpAddr::V6(Ipv6Addr::from(*header.get(at..)?.first_chunk::<16>()?)));
    let mut protocol = header[6];
    while LEADING.contains(&protocol)
        && let Some((&[next, len], _)) = rest.split_first_chunk::<2>()
    {
        let Some(behind) = rest.get((usize::from(len) + 1) * 8..) else { break };
        (protocol, rest) = (next, behind);
    }
    let found = if protocol == FRAGMENT { None } else { ports(protocol, rest) };
    let facts = Facts { source: address(8)?, destination: address(24)?, protocol, ports: found.unwrap_or_default() };
    Some((facts, (u16::from_be_bytes([header[0], header[1]]) >> 6) as u8 & 0x3f))
}

fn ports(protocol: u8, bytes: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = bytes.first_chunk::<4>()?;
    WITH_PORTS.contains(&protocol).then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

impl Facts {
    pub(super) fn destination(&self) -> IpAddr {
        self.destination
    }
}

impl Matches {
    pub(super) fn takes(&self, facts: &Facts, dscp: u8) -> bool {
        let either = |ports: &[u16]| ports.contains(&facts.ports.0) || ports.contains(&facts.ports.1);
        let among = |networks: &[IpNet]| {
            networks.iter().any(|network| network.contains(&facts.source) || network.contains(&facts.destination))
        };
        (self.dscp.is_empty() || self.dscp.contains(&dscp))
            && (self.protocols.is_empty() || self.protocols.contains(&facts.protocol))
            && (self.ports.is_empty() || either(&self.ports))
            && (self.networks.is_empty() || among(&self.networks))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn udp4(dscp: u8, fragment: u16) -> Vec<u8> {
        let mut bytes = vec![0x45, dscp << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes.extend_from_slice(&[0x13, 0x88, 0, 53, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn addresses_ports_and_code_points_are_read_of_both_versions() {
        let (facts, dscp) = read(&udp4(46, 0)).unwrap();
        assert_eq!((facts.source, facts.ports, dscp), ("10.0.0.1".parse().unwrap(), (5_000, 53), 46));
        let mut six = vec![0x6b, 0x80, 0, 0, 0, 16, 0, 64];
        six.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        six.extend_from_slice(&Ipv6Addr::UNSPECIFIED.octets());
        // A hop-by-hop header before TCP's ports.
        six.extend_from_slice(&[6, 0, 0, 0, 0, 0, 0, 0, 0, 80, 0x1f, 0x90]);
        let (facts, dscp) = read(&six).unwrap();
        assert_eq!((facts.protocol, facts.ports, dscp), (6, (80, 8_080), 46));
    }

    #[test]
    fn all_fragments_of_a_packet_are_of_one_flow() {
        let numbers = Numbers::default();
        let number = |fragment| numbers.of(&read(&udp4(0, fragment)).unwrap().0);
        assert_eq!(number(0x2000), number(0x2005));
        assert_eq!(number(0x2000), number(0x0005));
        assert_eq!(number(0), number(0x4000), "do not fragment");
    }

    #[test]
    fn a_class_takes_what_fits_all_that_is_said_of_it() {
        let (facts, dscp) = read(&udp4(46, 0)).unwrap();
        let fits = |matches: Matches| matches.takes(&facts, dscp);
        assert!(fits(Matches::default()));
        assert!(fits(Matches { dscp: vec![46], ports: vec![53], ..Matches::default() }));
        assert!(!fits(Matches { dscp: vec![46], ports: vec![80], ..Matches::default() }));
        assert!(fits(Matches { networks: vec!["10.0.0.2/32".parse().unwrap()], ..Matches::default() }));
        assert!(!fits(Matches { protocols: vec![6], ..Matches::default() }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(mut bytes in prop::collection::vec(any::<u8>(), 0..COPIED), version in 3..8_u8) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 15 | version << 4;
            }
            if let Some((_, dscp)) = read(&bytes) {
                prop_assert!(dscp < 64);
            }
        }
    }
}
