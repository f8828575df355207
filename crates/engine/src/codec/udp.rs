//! The header of UDP (RFC 768).

use super::checksum::Checksum;
use super::{CodecError, HeaderKind, room, split, u16_at};

/// The header of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// The port that it came from.
    pub src_port: u16,
    /// The port that it is going to.
    pub dst_port: u16,
    /// Bytes behind the header: 65,527 at most.
    pub payload_len: u16,
}

const KIND: HeaderKind = HeaderKind::Udp;
pub(super) const CHECKSUM_AT: usize = 6;

impl UdpHeader {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Reads the header of `datagram`; with it comes the payload, as much of it as is there. The checksum is not looked
    /// at: see [`Checksum::verify_udp`].
    ///
    /// # Errors
    /// If it ends within the header, or gives a length that its own header exceeds.
    pub fn decode(datagram: &[u8]) -> Result<(UdpHeader, &[u8]), CodecError> {
        let (fixed, behind) = split(datagram, UdpHeader::LEN, KIND)?;
        let len = u16_at(fixed, 4);
        let Some(payload_len) = len.checked_sub(UdpHeader::LEN as u16) else {
            return Err(wrong(u64::from(len), "8 or more"));
        };
        let header = UdpHeader { src_port: u16_at(fixed, 0), dst_port: u16_at(fixed, 2), payload_len };
        Ok((header, &behind[..behind.len().min(usize::from(payload_len))]))
    }

    /// Writes the header to the beginning of `out`, its checksum included, and returns its length. `covered` is the sum
    /// of what the checksum covers besides: the pseudo-header and the payload.
    ///
    /// # Errors
    /// If `out` is too short, or the payload too long.
    pub fn encode(&self, covered: Checksum, out: &mut [u8]) -> Result<usize, CodecError> {
        let Some(len) = self.payload_len.checked_add(UdpHeader::LEN as u16) else {
            return Err(wrong(u64::from(self.payload_len) + UdpHeader::LEN as u64, "65535 or less"));
        };
        let out = room(out, UdpHeader::LEN, KIND)?;
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..6].copy_from_slice(&len.to_be_bytes());
        out[CHECKSUM_AT..].copy_from_slice(&[0, 0]);
        let sum = on_the_wire(covered.before(out).finish());
        out[CHECKSUM_AT..].copy_from_slice(&sum.to_be_bytes());
        Ok(UdpHeader::LEN)
    }
}

/// RFC 768: a checksum of zero is sent as all ones, because zero says that there is none.
pub(super) const fn on_the_wire(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

fn wrong(value: u64, right: &'static str) -> CodecError {
    CodecError::Field { header: KIND, field: "length", at: 4, value, right }
}
