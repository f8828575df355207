//! The header of an IP packet of either version, as its first four bits say.

use core::net::IpAddr;

use super::checksum::Checksum;
use super::ipv4::Ipv4Header;
use super::ipv6::Ipv6Header;
use super::{CodecError, HeaderKind, protocol, u16_at};
use crate::packet::Ecn;

/// The place of the checksum in a header of IPv4 (RFC 791 s3.1).
const CHECKSUM_AT: usize = 10;

/// The header of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader {
    /// Version 4.
    V4(Ipv4Header),
    /// Version 6.
    V6(Ipv6Header),
}

impl IpHeader {
    /// Reads the header of `packet`; with it comes the payload, as much of it as is there.
    ///
    /// # Errors
    /// If it is of neither version, and as for the version that it is of.
    pub fn decode(packet: &[u8]) -> Result<(IpHeader, &[u8]), CodecError> {
        match version(packet)? {
            4 => Ipv4Header::decode(packet).map(|(header, payload)| (IpHeader::V4(header), payload)),
            6 => Ipv6Header::decode(packet).map(|(header, payload)| (IpHeader::V6(header), payload)),
            other => Err(CodecError::Field {
                header: HeaderKind::Ip,
                field: "version",
                at: 0,
                value: u64::from(other),
                right: "4 or 6",
            }),
        }
    }

    /// The address that the packet came from.
    pub fn src(&self) -> IpAddr {
        match self {
            IpHeader::V4(header) => header.src.into(),
            IpHeader::V6(header) => header.src.into(),
        }
    }

    /// The address that the packet is going to.
    pub fn dst(&self) -> IpAddr {
        match self {
            IpHeader::V4(header) => header.dst.into(),
            IpHeader::V6(header) => header.dst.into(),
        }
    }

    /// The protocol that the payload begins with.
    pub fn protocol(&self) -> u8 {
        match self {
            IpHeader::V4(header) => header.protocol,
            IpHeader::V6(header) => header.next_header,
        }
    }

    /// The sum that the checksum of the protocol inside begins with.
    pub fn pseudo_header(&self) -> Checksum {
        match self {
            IpHeader::V4(header) => header.pseudo_header(),
            IpHeader::V6(header) => header.pseudo_header(),
        }
    }
}

/// The octet with the differentiated services code point and, in its lower two bits, the ECN field (RFC 2474, RFC 3168 s5); `None`
/// if it is no packet of IP.
pub fn traffic_class(packet: &[u8]) -> Option<u8> {
    match packet {
        // RFC 791: the octet after version and length. RFC 8200 s3: the one after the version, across two bytes.
        [first, second, ..] if first >> 4 == 4 => Some(*second),
        [first, second, ..] if first >> 4 == 6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Marks a packet as having met congestion (RFC 3168 s5, CE), and keeps its checksum right. What is no packet of IP stays as it
/// is.
pub fn mark(packet: &mut [u8]) {
    let ce = Ecn::Ce.bits();
    match packet {
        [first, second, ..] if *first >> 4 == 6 => *second |= ce << 4,
        [first, ..] if *first >> 4 == 4 && packet.len() >= Ipv4Header::LEN => {
            let before = u16_at(packet, 0);
            packet[1] |= ce;
            // RFC 1624 s3, eq. 3: HC' = ~(~HC + ~m + m').
            let sum = u32::from(!u16_at(packet, CHECKSUM_AT)) + u32::from(!before) + u32::from(u16_at(packet, 0));
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            packet[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
}

/// The source and destination port of a packet of TCP or UDP, as far as it has them: later fragments, and packets with extension
/// headers, have none here.
pub fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    let (header, payload) = IpHeader::decode(packet).ok()?;
    let is_first = !matches!(header, IpHeader::V4(v4) if v4.fragment_offset > 0);
    let has_ports = matches!(header.protocol(), protocol::TCP | protocol::UDP);
    (is_first && has_ports && payload.len() >= 4).then(|| (u16_at(payload, 0), u16_at(payload, 2)))
}

/// The version of IP that a packet says it is of, whatever follows.
///
/// # Errors
/// If the packet is empty.
pub fn version(packet: &[u8]) -> Result<u8, CodecError> {
    let first = packet.first().ok_or(CodecError::Short { header: HeaderKind::Ip, need: 1, have: 0 })?;
    Ok(first >> 4)
}
