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
const CHECKSUM_AT: usize = 6;

impl UdpHeader {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Reads the header of `datagram`; with it comes the payload, as much of it as is there. The checksum is not looked
    /// at: see [`verify`](UdpHeader::verify).
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

    /// Checks a datagram, header and payload, against its checksum; `pseudo_header` is the sum that it begins with. Over
    /// IPv4 a checksum of zero means that there is none (RFC 768); over IPv6 there always is one (RFC 8200 s8.1), and a
    /// caller refuses a datagram without.
    ///
    /// # Errors
    /// [`CodecError::Short`] if there is no header, [`CodecError::Checksum`] if a bit has changed.
    pub fn verify(bytes: &[u8], pseudo_header: Checksum) -> Result<(), CodecError> {
        let checked = pseudo_header.verify(KIND, bytes, UdpHeader::LEN, CHECKSUM_AT);
        match checked {
            Err(CodecError::Checksum { found: 0, .. }) => Ok(()),
            Err(CodecError::Checksum { header, found, right }) => {
                Err(CodecError::Checksum { header, found, right: on_the_wire(right) })
            }
            checked => checked,
        }
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
const fn on_the_wire(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

fn wrong(value: u64, right: &'static str) -> CodecError {
    CodecError::Field { header: KIND, field: "length", at: 4, value, right }
}
