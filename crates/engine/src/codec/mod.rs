//! Headers to and from bytes: [IPv4](ipv4), [IPv6](ipv6), [TCP](tcp) and [UDP](udp), with their [checksums](checksum).
//!
//! The engine itself counts bytes and never holds them. Whoever puts its segments on a wire, or takes them from one,
//! translates here. Nothing is allocated and nothing is read or sent: `decode` looks at a slice, `encode` fills one.
//!
//! A packet that leaves is made from the inside out, because a TCP checksum covers addresses and payload:
//!
//! ```
//! use headend_engine::codec::ipv4::Ipv4Header;
//! use headend_engine::codec::tcp::TcpHeader;
//! use headend_engine::codec::{CodecError, protocol};
//! use headend_engine::tcp::segment::{Flags, Segment};
//!
//! let flags = Flags { ack: true, psh: true, ..Flags::default() };
//! let segment = Segment { seq: 1, ack: 1, len: 5, window: 1_000, flags, ..Segment::default() };
//! let tcp = TcpHeader { src_port: 80, dst_port: 50_000, segment };
//! let ip = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), protocol::TCP, tcp.wire_len() + 5);
//!
//! let mut packet = [0; 45];
//! let payload = ip.encode(&mut packet)? + tcp.wire_len();
//! packet[payload..].copy_from_slice(b"hello");
//! let (header, rest) = packet.split_at_mut(payload);
//! tcp.encode(ip.pseudo_header().with(rest), &mut header[Ipv4Header::LEN..])?;
//!
//! let (ip, inside) = Ipv4Header::decode(&packet)?;
//! TcpHeader::verify(inside, ip.pseudo_header())?;
//! assert_eq!(TcpHeader::decode(inside)?, (tcp, &b"hello"[..]));
//! # Ok::<(), CodecError>(())
//! ```

pub mod checksum;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod udp;

use core::fmt;

/// Numbers of the protocols inside of IP packets (IANA, "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// TCP (RFC 9293 s3.1).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
}

/// The reason why bytes are not a header, or why a header cannot become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The slice ends before the header, or before what the header announces.
    Short {
        /// The header whose bytes are missing.
        header: HeaderKind,
        /// Bytes that it takes, from the beginning of the slice.
        need: usize,
        /// Bytes that the slice has.
        have: usize,
    },
    /// A field has a value that it must not have.
    Field {
        /// The header in which the field is.
        header: HeaderKind,
        /// The field, as its RFC calls it.
        field: &'static str,
        /// The byte, from the beginning of the header, at which the field begins.
        at: usize,
        /// The value that was found.
        value: u64,
        /// The values that would be right, in words.
        right: &'static str,
    },
    /// The checksum is not that of the bytes.
    Checksum {
        /// The header in which the checksum is.
        header: HeaderKind,
        /// The checksum that is there.
        found: u16,
        /// The checksum that the bytes have.
        right: u16,
    },
}

/// The kinds of headers that the codec knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// A header of IP whose version is not known.
    Ip,
    /// An IPv4 header (RFC 791).
    Ipv4,
    /// An IPv6 header (RFC 8200).
    Ipv6,
    /// A TCP header (RFC 9293).
    Tcp,
    /// A UDP header (RFC 768).
    Udp,
}

impl fmt::Display for HeaderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeaderKind::Ip => "IP header",
            HeaderKind::Ipv4 => "IPv4 header",
            HeaderKind::Ipv6 => "IPv6 header",
            HeaderKind::Tcp => "TCP header",
            HeaderKind::Udp => "UDP header",
        })
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::Short { header, need, have } => {
                write!(f, "{header}: {need} bytes are needed, and there are {have}")
            }
            CodecError::Field { header, field, at, value, right } => {
                write!(f, "{header}, byte {at}: the {field} is {value}, and should be {right}")
            }
            CodecError::Checksum { header, found, right } => {
                write!(f, "{header}: the checksum is {found:#06x}, and that of the bytes {right:#06x}")
            }
        }
    }
}

impl core::error::Error for CodecError {}

/// The first `len` bytes and the rest; `header` is what is short if there are fewer.
fn split(bytes: &[u8], len: usize, header: HeaderKind) -> Result<(&[u8], &[u8]), CodecError> {
    bytes.split_at_checked(len).ok_or(CodecError::Short { header, need: len, have: bytes.len() })
}

/// The first `len` bytes of a slice to be filled.
fn room(out: &mut [u8], len: usize, header: HeaderKind) -> Result<&mut [u8], CodecError> {
    let have = out.len();
    out.get_mut(..len).ok_or(CodecError::Short { header, need: len, have })
}

/// The number at `at`, of which the caller knows that it is there.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The number at `at`, of which the caller knows that it is there.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
