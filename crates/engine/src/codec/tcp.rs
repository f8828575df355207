//! The header of TCP (RFC 9293 s3.1) with the options that the engine has: maximum segment size, window scale and
//! timestamps (RFC 7323), SACK-permitted and SACK blocks (RFC 2018). Other options are skipped.

use super::checksum::Checksum;
use super::{CodecError, HeaderKind, room, split, u16_at, u32_at};
use crate::tcp::segment::{EcnFlags, Flags, Options, Segment};

/// The header of a TCP segment: the ports, and what the engine knows of the segment.
///
/// The urgent pointer and the bit URG are not the engine's: they are skipped, and written as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// The port that it came from.
    pub src_port: u16,
    /// The port that it is going to.
    pub dst_port: u16,
    /// The rest; `len` is the payload's.
    pub segment: Segment,
}

const KIND: HeaderKind = HeaderKind::Tcp;
/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes that the options take at most: a header has up to 15 words.
pub const OPTIONS_MAX: usize = 40;
const CHECKSUM_AT: usize = 16;

/// Kinds of options (IANA, "TCP Option Kind Numbers").
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

impl TcpHeader {
    /// Bytes of the header, options included.
    pub fn wire_len(&self) -> usize {
        HEADER_LEN + self.segment.options.wire_len() as usize
    }

    /// Reads the header of a segment, all of which `bytes` are: what follows the header is the payload, and comes with
    /// it. The checksum is not looked at: see [`verify`](TcpHeader::verify).
    ///
    /// # Errors
    /// If the bytes end within the header, or the length of the header or of an option is not possible.
    pub fn decode(bytes: &[u8]) -> Result<(TcpHeader, &[u8]), CodecError> {
        let (fixed, _) = split(bytes, HEADER_LEN, KIND)?;
        let words = fixed[12] >> 4;
        if words < 5 {
            return Err(wrong("data offset", 12, u64::from(words), "5 or more"));
        }
        let (header, payload) = split(bytes, 4 * usize::from(words), KIND)?;
        let bits = fixed[13];
        let ece = if bits & ECE != 0 { EcnFlags::ECE } else { EcnFlags::NONE };
        let cwr = if bits & CWR != 0 { EcnFlags::CWR } else { EcnFlags::NONE };
        let flags = Flags {
            syn: bits & SYN != 0,
            ack: bits & ACK != 0,
            fin: bits & FIN != 0,
            rst: bits & RST != 0,
            psh: bits & PSH != 0,
            ecn: ece.with(cwr),
        };
        let segment = Segment {
            seq: u32_at(fixed, 4),
            // RFC 9293 s3.1: without the bit the field means nothing.
            ack: if flags.ack { u32_at(fixed, 8) } else { 0 },
            len: payload.len() as u32,
            window: u16_at(fixed, 14),
            flags,
            options: decode_options(header)?,
        };
        Ok((TcpHeader { src_port: u16_at(fixed, 0), dst_port: u16_at(fixed, 2), segment }, payload))
    }

    /// Checks a segment, header and payload, against its checksum; `pseudo_header` is the sum that it begins with.
    ///
    /// # Errors
    /// [`CodecError::Short`] if there is no header, [`CodecError::Checksum`] if a bit has changed.
    pub fn verify(bytes: &[u8], pseudo_header: Checksum) -> Result<(), CodecError> {
        pseudo_header.verify(KIND, bytes, HEADER_LEN, CHECKSUM_AT)
    }

    /// Writes the header to the beginning of `out`, its checksum included, and returns its length. `covered` is the sum
    /// of what the checksum covers besides: the pseudo-header and the payload.
    ///
    /// # Errors
    /// If `out` is too short, or the options take more than [`OPTIONS_MAX`] bytes.
    pub fn encode(&self, covered: Checksum, out: &mut [u8]) -> Result<usize, CodecError> {
        let len = self.wire_len();
        if len > HEADER_LEN + OPTIONS_MAX {
            return Err(wrong("length of all options", HEADER_LEN, (len - HEADER_LEN) as u64, "40 or less"));
        }
        let out = room(out, len, KIND)?;
        let segment = &self.segment;
        let Flags { syn, ack, fin, rst, psh, ecn } = segment.flags;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..8].copy_from_slice(&segment.seq.to_be_bytes());
        out[8..12].copy_from_slice(&(if ack { segment.ack } else { 0 }).to_be_bytes());
        out[12] = (len as u8 / 4) << 4;
        out[13] = bit(fin, FIN) | bit(syn, SYN) | bit(rst, RST) | bit(psh, PSH) | bit(ack, ACK);
        out[13] |= bit(ecn.has(EcnFlags::ECE), ECE) | bit(ecn.has(EcnFlags::CWR), CWR);
        out[14..16].copy_from_slice(&segment.window.to_be_bytes());
        out[CHECKSUM_AT..HEADER_LEN].copy_from_slice(&[0; 4]);
        encode_options(&segment.options, &mut out[HEADER_LEN..]);
        let sum = covered.before(out).finish();
        out[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        Ok(len)
    }
}

/// The options that stand in `header`, which is all of it.
fn decode_options(header: &[u8]) -> Result<Options, CodecError> {
    let mut options = Options::default();
    let mut at = HEADER_LEN;
    while let Some(&kind) = header.get(at) {
        match kind {
            kind::END => break,
            kind::NO_OPERATION => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let len = option_len(header, at, kind)?;
        let value = &header[at + 2..at + len];
        match kind {
            kind::MSS => options.mss = Some(u16_at(value, 0)),
            kind::WINDOW_SCALE => options.window_scale = Some(value[0]),
            kind::SACK_PERMITTED => options.sack_permitted = true,
            kind::TIMESTAMPS => options.timestamps = Some((u32_at(value, 0), u32_at(value, 4))),
            kind::SACK => {
                value.chunks_exact(8).for_each(|block| options.sack.push(u32_at(block, 0), u32_at(block, 4)));
            }
            _ => {}
        }
        at += len;
    }
    Ok(options)
}

/// The length of the option at `at`, kind and length included, which lies within the header.
fn option_len(header: &[u8], at: usize, kind: u8) -> Result<usize, CodecError> {
    let Some(&len) = header.get(at + 1) else {
        return Err(wrong("option without a length, its kind", at, u64::from(kind), "an end of options or none"));
    };
    let (is_right, right) = match kind {
        kind::MSS => (len == 4, "4"),
        kind::WINDOW_SCALE => (len == 3, "3"),
        kind::SACK_PERMITTED => (len == 2, "2"),
        kind::SACK => (len >= 10 && len % 8 == 2, "2 and 8 for each block"),
        kind::TIMESTAMPS => (len == 10, "10"),
        _ => (len >= 2, "2 or more"),
    };
    if !is_right {
        return Err(wrong("length of an option", at + 1, u64::from(len), right));
    }
    if at + usize::from(len) > header.len() {
        return Err(wrong("length of an option", at + 1, u64::from(len), "within the header"));
    }
    Ok(usize::from(len))
}

/// Writes the options in the order in which Linux does, and fills the rest of `out` with no-operations.
fn encode_options(options: &Options, out: &mut [u8]) {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if let Some(mss) = options.mss {
        put(&[kind::MSS, 4]);
        put(&mss.to_be_bytes());
    }
    if options.sack_permitted {
        put(&[kind::SACK_PERMITTED, 2]);
    }
    if let Some((value, echo)) = options.timestamps {
        put(&[kind::TIMESTAMPS, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        put(&[kind::WINDOW_SCALE, 3, shift]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        put(&[kind::SACK, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            put(&left.to_be_bytes());
            put(&right.to_be_bytes());
        }
    }
    out[at..].fill(kind::NO_OPERATION);
}

fn wrong(field: &'static str, at: usize, value: u64, right: &'static str) -> CodecError {
    CodecError::Field { header: KIND, field, at, value, right }
}
