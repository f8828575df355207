//! The Internet checksum: the complement of the ones' complement sum of 16-bit words (RFC 1071).

use core::net::{Ipv4Addr, Ipv6Addr};

use super::{CodecError, HeaderKind, u16_at};

/// A sum that is not complemented yet, of as many bytes as were added.
///
/// TCP and UDP begin with that of a *pseudo-header*: the addresses, the protocol and the length (RFC 9293 s3.1,
/// RFC 8200 s8.1). [`Ipv4Header::pseudo_header`](super::ipv4::Ipv4Header::pseudo_header) and its like make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// The sum of 16-bit words, carries not folded in.
    sum: u64,
    /// True if half a word was added last.
    odd: bool,
}

impl Checksum {
    /// The sum of no bytes.
    pub const ZERO: Checksum = Checksum { sum: 0, odd: false };

    /// The pseudo-header of `len` bytes of `protocol` between two addresses (RFC 9293 s3.1).
    pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u32) -> Checksum {
        Checksum::ZERO.with(&src.octets()).with(&dst.octets()).plus(u32::from(protocol)).plus(len)
    }

    /// The pseudo-header of `len` bytes of `protocol` between two IPv6 addresses (RFC 8200 s8.1).
    pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Checksum {
        Checksum::ZERO.with(&src.octets()).with(&dst.octets()).plus(u32::from(protocol)).plus(len)
    }

    /// The sum with `bytes` added. Zeros change nothing, however many.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Checksum {
        let mut rest = bytes;
        if self.odd
            && let Some((&low, after)) = rest.split_first()
        {
            self.sum += u64::from(low);
            self.odd = false;
            rest = after;
        }
        // RFC 1071 s2(C): wider words may be added, for 2^16 is 1 modulo 2^16 - 1.
        let mut words = rest.chunks_exact(4);
        for word in &mut words {
            self = self.plus(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        }
        for half in words.remainder().chunks(2) {
            self.odd = half.len() == 1;
            self.sum += u64::from(half[0]) << 8 | u64::from(*half.get(1).unwrap_or(&0));
        }
        self
    }

    /// The sum with a number of 32 bits added, where a word begins.
    const fn plus(mut self, number: u32) -> Checksum {
        debug_assert!(!self.odd, "a word begins at an even place");
        self.sum += number as u64;
        self
    }

    /// The sum with that of a header added, whose bytes come before all others and are even in number.
    #[must_use]
    pub(super) fn before(mut self, header: &[u8]) -> Checksum {
        debug_assert!(header.len().is_multiple_of(2), "a header is a number of words");
        self.sum += Checksum::ZERO.with(header).sum;
        self
    }

    /// The checksum: what a header's field must be if it counted as zero. An odd last byte is padded with zero.
    pub const fn finish(self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// Checks a header of at least `len` bytes with what the checksum at `at` covers behind it. The sum of all, the checksum
    /// included, is zero; otherwise the error says what was found and what would be right.
    pub(super) fn verify(self, header: HeaderKind, bytes: &[u8], len: usize, at: usize) -> Result<(), CodecError> {
        if bytes.len() < len {
            return Err(CodecError::Short { header, need: len, have: bytes.len() });
        }
        if self.with(bytes).finish() == 0 {
            return Ok(());
        }
        let found = u16_at(bytes, at);
        let right = self.with(&bytes[..at]).with(&[0, 0]).with(&bytes[at + 2..]).finish();
        Err(CodecError::Checksum { header, found, right })
    }
}
