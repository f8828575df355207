//! The header of an IP packet of either version, as its first four bits say.

use core::net::IpAddr;

use super::checksum::Checksum;
use super::ipv4::Ipv4Header;
use super::ipv6::Ipv6Header;
use super::{CodecError, HeaderKind};

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

/// The version of IP that a packet says it is of, whatever follows.
///
/// # Errors
/// If the packet is empty.
pub fn version(packet: &[u8]) -> Result<u8, CodecError> {
    let first = packet.first().ok_or(CodecError::Short { header: HeaderKind::Ip, need: 1, have: 0 })?;
    Ok(first >> 4)
}
