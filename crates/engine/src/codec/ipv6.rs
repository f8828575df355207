//! The header of IPv6 (RFC 8200 s3). Extension headers are part of the payload: `next_header` says what it begins with.

use core::net::Ipv6Addr;

use super::checksum::Checksum;
use super::{CodecError, HeaderKind, room, split, u16_at, u32_at};

/// The header of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Differentiated services and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// The label that the packets of a flow have in common (RFC 6437); 20 bits.
    pub flow_label: u32,
    /// Bytes behind the header, extension headers included.
    pub payload_len: u16,
    /// The kind of header that the payload begins with: an extension header, or one of [`protocol`](super::protocol).
    pub next_header: u8,
    /// Hops that it may still go.
    pub hop_limit: u8,
    /// The address that it came from.
    pub src: Ipv6Addr,
    /// The address that it is going to.
    pub dst: Ipv6Addr,
}

const KIND: HeaderKind = HeaderKind::Ipv6;
const FLOW_LABEL_MAX: u32 = 0xf_ffff;

impl Ipv6Header {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// The header of a packet with 64 hops to go (RFC 1700) and a payload of `payload_len` bytes or, if that is less,
    /// 65,535.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: usize) -> Ipv6Header {
        let payload_len = payload_len.min(usize::from(u16::MAX)) as u16;
        Ipv6Header { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, src, dst }
    }

    /// Reads the header of `packet`; with it comes the payload, as much of it as is there.
    ///
    /// # Errors
    /// If the packet ends within the header, or is not of version 6.
    pub fn decode(packet: &[u8]) -> Result<(Ipv6Header, &[u8]), CodecError> {
        let (fixed, behind) = split(packet, Ipv6Header::LEN, KIND)?;
        let first = u32_at(fixed, 0);
        let version = first >> 28;
        if version != 6 {
            return Err(wrong("version", 0, u64::from(version), "6"));
        }
        let payload_len = u16_at(fixed, 4);
        let header = Ipv6Header {
            traffic_class: (first >> 20) as u8,
            flow_label: first & FLOW_LABEL_MAX,
            payload_len,
            next_header: fixed[6],
            hop_limit: fixed[7],
            src: address(fixed, 8),
            dst: address(fixed, 24),
        };
        Ok((header, &behind[..behind.len().min(usize::from(payload_len))]))
    }

    /// Writes the header to the beginning of `out` and returns its length.
    ///
    /// # Errors
    /// If `out` is too short, or the flow label has more than 20 bits.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        if self.flow_label > FLOW_LABEL_MAX {
            return Err(wrong("flow label", 1, u64::from(self.flow_label), "1048575 or less"));
        }
        let out = room(out, Ipv6Header::LEN, KIND)?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        out[0..4].copy_from_slice(&first.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.src.octets());
        out[24..40].copy_from_slice(&self.dst.octets());
        Ok(Ipv6Header::LEN)
    }

    /// The sum that the checksum of the protocol inside begins with, if it follows without extension headers. For one
    /// behind them there is [`Checksum::pseudo_v6`].
    pub fn pseudo_header(&self) -> Checksum {
        Checksum::pseudo_v6(self.src, self.dst, self.next_header, u32::from(self.payload_len))
    }
}

fn wrong(field: &'static str, at: usize, value: u64, right: &'static str) -> CodecError {
    CodecError::Field { header: KIND, field, at, value, right }
}

fn address(fixed: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&fixed[at..at + 16]);
    octets.into()
}
