//! The header of IPv4 (RFC 791 s3.1). Options are skipped, and none are written: hardly a router lets them through.

use core::net::Ipv4Addr;

use super::checksum::Checksum;
use super::{CodecError, HeaderKind, room, split, u16_at};

/// The header of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Differentiated services and ECN (RFC 2474, RFC 3168); RFC 791's type of service.
    pub traffic_class: u8,
    /// Tells the fragments of one packet from those of another (RFC 6864).
    pub id: u16,
    /// Routers must not fragment it.
    pub dont_fragment: bool,
    /// Fragments follow this one.
    pub more_fragments: bool,
    /// The place of this fragment's payload in the whole, in units of eight bytes; 13 bits.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// The protocol inside: see [`protocol`](super::protocol).
    pub protocol: u8,
    /// The address that it came from.
    pub src: Ipv4Addr,
    /// The address that it is going to.
    pub dst: Ipv4Addr,
    /// Bytes behind the header: 65,515 at most.
    pub payload_len: u16,
}

const KIND: HeaderKind = HeaderKind::Ipv4;
const CHECKSUM_AT: usize = 10;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MAX: u16 = 0x1fff;

impl Ipv4Header {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;
    /// The most that a packet carries: its total length has 16 bits.
    pub const PAYLOAD_MAX: usize = u16::MAX as usize - Ipv4Header::LEN;

    /// The header of a packet that is not to be fragmented, with 64 hops to live (RFC 1700) and a payload of
    /// `payload_len` bytes or, if that is less, [`PAYLOAD_MAX`](Ipv4Header::PAYLOAD_MAX).
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: usize) -> Ipv4Header {
        Ipv4Header {
            traffic_class: 0,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
            payload_len: payload_len.min(Ipv4Header::PAYLOAD_MAX) as u16,
        }
    }

    /// Reads the header of `packet`; with it comes the payload, as much of it as is there: a capture may have cut it
    /// short, and a link may have padded it. The checksum is not looked at: see [`verify`](Ipv4Header::verify).
    ///
    /// # Errors
    /// If the packet ends within the header, is not of version 4, or gives a length that its own header exceeds.
    pub fn decode(packet: &[u8]) -> Result<(Ipv4Header, &[u8]), CodecError> {
        let (fixed, _) = split(packet, Ipv4Header::LEN, KIND)?;
        let header_len = header_len(fixed)?;
        let (_, behind) = split(packet, header_len, KIND)?;
        let total = u16_at(fixed, 2);
        let Some(payload_len) = total.checked_sub(header_len as u16) else {
            return Err(wrong("total length", 2, u64::from(total), "no less than the header's own length"));
        };
        let fragment = u16_at(fixed, 6);
        let header = Ipv4Header {
            traffic_class: fixed[1],
            id: u16_at(fixed, 4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            fragment_offset: fragment & OFFSET_MAX,
            ttl: fixed[8],
            protocol: fixed[9],
            src: address(fixed, 12),
            dst: address(fixed, 16),
            payload_len,
        };
        Ok((header, &behind[..behind.len().min(usize::from(payload_len))]))
    }

    /// Writes the header to the beginning of `out`, its checksum included, and returns its length.
    ///
    /// # Errors
    /// If `out` is too short, or a field has more bits than its place.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        if usize::from(self.payload_len) > Ipv4Header::PAYLOAD_MAX {
            return Err(wrong("payload's length", 2, u64::from(self.payload_len), "65515 or less"));
        }
        if self.fragment_offset > OFFSET_MAX {
            return Err(wrong("fragment offset", 6, u64::from(self.fragment_offset), "8191 or less"));
        }
        let out = room(out, Ipv4Header::LEN, KIND)?;
        let fragment = self.fragment_offset
            | if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        out[0] = 0x45;
        out[1] = self.traffic_class;
        out[2..4].copy_from_slice(&(self.payload_len + Ipv4Header::LEN as u16).to_be_bytes());
        out[4..6].copy_from_slice(&self.id.to_be_bytes());
        out[6..8].copy_from_slice(&fragment.to_be_bytes());
        out[8] = self.ttl;
        out[9] = self.protocol;
        out[CHECKSUM_AT..12].copy_from_slice(&[0, 0]);
        out[12..16].copy_from_slice(&self.src.octets());
        out[16..20].copy_from_slice(&self.dst.octets());
        let sum = Checksum::ZERO.with(out).finish();
        out[CHECKSUM_AT..12].copy_from_slice(&sum.to_be_bytes());
        Ok(Ipv4Header::LEN)
    }

    /// Checks the header at the beginning of `packet` against its checksum.
    ///
    /// # Errors
    /// As [`decode`](Ipv4Header::decode), and [`CodecError::Checksum`] if a bit has changed.
    pub fn verify(packet: &[u8]) -> Result<(), CodecError> {
        let (fixed, _) = split(packet, Ipv4Header::LEN, KIND)?;
        let (header, _) = split(packet, header_len(fixed)?, KIND)?;
        Checksum::ZERO.verify(KIND, header, Ipv4Header::LEN, CHECKSUM_AT)
    }

    /// The sum that the checksum of the protocol inside begins with.
    pub fn pseudo_header(&self) -> Checksum {
        Checksum::pseudo_v4(self.src, self.dst, self.protocol, u32::from(self.payload_len))
    }
}

/// The length of the header, options included, from its first byte.
fn header_len(fixed: &[u8]) -> Result<usize, CodecError> {
    let (version, words) = (fixed[0] >> 4, fixed[0] & 0xf);
    if version != 4 {
        return Err(wrong("version", 0, u64::from(version), "4"));
    }
    if words < 5 {
        return Err(wrong("header length in words", 0, u64::from(words), "5 or more"));
    }
    Ok(4 * usize::from(words))
}

fn wrong(field: &'static str, at: usize, value: u64, right: &'static str) -> CodecError {
    CodecError::Field { header: KIND, field, at, value, right }
}

fn address(fixed: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3])
}
