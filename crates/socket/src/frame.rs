//! Frames: what is inside of a sealed datagram.
//!
//! Each begins with its kind. Ids, offsets and lengths are variable-length integers as QUIC has them (RFC 9000 s16).

use headend_engine::circuit::in_band::Acknowledgement;

/// The largest number that a variable-length integer holds.
pub const VARINT_MAX: u64 = (1 << 62) - 1;
/// The largest number of a datagram in its circuit.
pub const NUMBER_MAX: u64 = (1 << 48) - 1;
/// The longest reason in words of a close.
pub const REASON_MAX: usize = 200;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// So many bytes of nothing.
    Padding(usize),
    /// The sender wants to hear that this has come.
    Ping,
    /// The datagram's number under control. Only a datagram that has one is acknowledged.
    Number {
        /// The circuit, one more with each path.
        circuit: u8,
        /// The number in the circuit.
        number: u64,
    },
    /// The numbers that have come.
    Acknowledged {
        /// The circuit.
        circuit: u8,
        /// The numbers.
        told: Acknowledgement,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: u64,
        /// The place of the first byte in the stream.
        offset: u64,
        /// True if the stream ends behind them.
        is_last: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The sender has ended a stream before its time.
    Reset {
        /// The stream.
        stream: u64,
        /// The reason, which the application knows.
        code: u64,
        /// The length of the stream, of which not all comes.
        end: u64,
    },
    /// The receiver reads no more of a stream.
    Stop {
        /// The stream.
        stream: u64,
        /// The reason, which the application knows.
        code: u64,
    },
    /// So many bytes of all streams together may be sent since the beginning.
    DataMax(u64),
    /// So many bytes of a stream may be sent.
    StreamMax {
        /// The stream.
        stream: u64,
        /// The bytes.
        most: u64,
    },
    /// So many streams may be opened since the beginning.
    StreamsMax(u64),
    /// The connection ends.
    Close {
        /// The reason: below 64 one of [`code`], from there on the application's.
        code: u64,
        /// The reason in words.
        reason: &'a str,
    },
    /// Who receives this sends it back: so that a path is known to lead there.
    Challenge([u8; 8]),
    /// The answer.
    Response([u8; 8]),
    /// A part of an unreliable frame.
    Part {
        /// The unreliable frame.
        number: u64,
        /// Its length.
        total: u64,
        /// The place of the first byte in it.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Reasons for which a connection itself is closed.
pub mod code {
    /// Nothing is wrong.
    pub const NONE: u64 = 0;
    /// The peer has broken the rules of this protocol.
    pub const PROTOCOL: u64 = 1;
    /// The peer has sent more than it was allowed.
    pub const FLOW: u64 = 2;
    /// The first code of applications.
    pub const APPLICATION: u64 = 64;
}

/// Bytes that are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no frame of this version at byte {at}")]
pub struct Malformed {
    /// Where reading ended.
    pub at: usize,
}

/// Reads one frame after the other.
#[derive(Debug)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// The frames in these bytes.
    pub fn new(bytes: &'a [u8]) -> Frames<'a> {
        Frames { bytes, at: 0 }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn varint(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        let bytes = self.take(1 << (first >> 6))?;
        let (head, tail) = bytes.split_first()?;
        let value = tail.iter().fold(u64::from(head & 0x3f), |value, byte| value << 8 | u64::from(*byte));
        // One form for each number, so that what is read is what would be written.
        (varint_len(value) == bytes.len()).then_some(value)
    }

    fn frame(&mut self) -> Option<Frame<'a>> {
        Some(match self.chunk::<1>()?[0] {
            0 => {
                let rest = &self.bytes[self.at..];
                let zeros = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
                self.at += zeros;
                Frame::Padding(1 + zeros)
            }
            1 => Frame::Ping,
            2 => {
                let [circuit] = self.chunk()?;
                let [a, b, c, d, e, f] = self.chunk()?;
                Frame::Number { circuit, number: u64::from_be_bytes([0, 0, a, b, c, d, e, f]) }
            }
            3 => {
                let [circuit, len] = self.chunk()?;
                let told = Acknowledgement::decode(self.take(len.into())?).ok()?;
                Frame::Acknowledged { circuit, told }
            }
            kind @ (4 | 5) => {
                let (stream, offset) = (self.varint()?, self.varint()?);
                let len = usize::from(u16::from_be_bytes(self.chunk()?));
                let bytes = self.take(len)?;
                (offset + len as u64 <= VARINT_MAX).then_some(())?;
                Frame::Data { stream, offset, is_last: kind == 5, bytes }
            }
            6 => Frame::Reset { stream: self.varint()?, code: self.varint()?, end: self.varint()? },
            7 => Frame::Stop { stream: self.varint()?, code: self.varint()? },
            8 => Frame::DataMax(self.varint()?),
            9 => Frame::StreamMax { stream: self.varint()?, most: self.varint()? },
            10 => Frame::StreamsMax(self.varint()?),
            11 => {
                let code = self.varint()?;
                let [len] = self.chunk()?;
                let reason = self.take(len.into()).filter(|reason| reason.len() <= REASON_MAX)?;
                Frame::Close { code, reason: std::str::from_utf8(reason).ok()? }
            }
            12 => Frame::Challenge(self.chunk()?),
            13 => Frame::Response(self.chunk()?),
            14 => {
                let (number, total, offset) = (self.varint()?, self.varint()?, self.varint()?);
                let len = u16::from_be_bytes(self.chunk()?);
                Frame::Part { number, total, offset, bytes: self.take(len.into())? }
            }
            _ => return None,
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Result<Frame<'a>, Malformed>> {
        let at = self.at;
        if at >= self.bytes.len() {
            return None;
        }
        let frame = self.frame();
        if frame.is_none() {
            self.at = self.bytes.len();
        }
        Some(frame.ok_or(Malformed { at }))
    }
}

impl Frame<'_> {
    /// Writes it behind what is in `out`.
    ///
    /// # Panics
    /// If a number is larger than its field, or a reason longer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Padding(len) => out.resize(out.len() + len, 0),
            Frame::Ping => out.push(1),
            Frame::Number { circuit, number } => {
                assert!(*number <= NUMBER_MAX, "a circuit has at most 2^48 datagrams");
                out.extend_from_slice(&[2, *circuit]);
                out.extend_from_slice(&number.to_be_bytes()[2..]);
            }
            Frame::Acknowledged { circuit, told } => {
                out.extend_from_slice(&[3, *circuit, 0]);
                let at = out.len();
                told.encode(out);
                out[at - 1] = u8::try_from(out.len() - at).expect("sixteen ranges take less");
            }
            Frame::Data { stream, offset, is_last, bytes } => {
                data_header(*stream, *offset, bytes.len(), *is_last, out);
                out.extend_from_slice(bytes);
            }
            Frame::Reset { stream, code, end } => numbers(6, &[*stream, *code, *end], out),
            Frame::Stop { stream, code } => numbers(7, &[*stream, *code], out),
            Frame::DataMax(most) => numbers(8, &[*most], out),
            Frame::StreamMax { stream, most } => numbers(9, &[*stream, *most], out),
            Frame::StreamsMax(most) => numbers(10, &[*most], out),
            Frame::Close { code, reason } => {
                assert!(reason.len() <= REASON_MAX, "a short reason: {reason}");
                numbers(11, &[*code], out);
                out.push(reason.len() as u8);
                out.extend_from_slice(reason.as_bytes());
            }
            Frame::Challenge(bytes) => {
                out.push(12);
                out.extend_from_slice(bytes);
            }
            Frame::Response(bytes) => {
                out.push(13);
                out.extend_from_slice(bytes);
            }
            Frame::Part { number, total, offset, bytes } => {
                part_header(*number, *total, *offset, bytes.len(), out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Writes what goes before a stream's bytes.
pub(crate) fn data_header(stream: u64, offset: u64, len: usize, is_last: bool, out: &mut Vec<u8>) {
    numbers(if is_last { 5 } else { 4 }, &[stream, offset], out);
    out.extend_from_slice(&u16::try_from(len).expect("less than a datagram").to_be_bytes());
}

/// Bytes that go before a stream's bytes.
pub(crate) fn data_header_len(stream: u64, offset: u64) -> usize {
    1 + varint_len(stream) + varint_len(offset) + 2
}

/// Writes what goes before a part's bytes.
pub(crate) fn part_header(number: u64, total: u64, offset: u64, len: usize, out: &mut Vec<u8>) {
    numbers(14, &[number, total, offset], out);
    out.extend_from_slice(&u16::try_from(len).expect("less than a datagram").to_be_bytes());
}

/// Bytes that go before a part's bytes.
pub(crate) fn part_header_len(number: u64, total: u64, offset: u64) -> usize {
    1 + varint_len(number) + varint_len(total) + varint_len(offset) + 2
}

fn numbers(kind: u8, numbers: &[u64], out: &mut Vec<u8>) {
    out.push(kind);
    for number in numbers {
        let len = varint_len(*number);
        let at = out.len();
        out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
        out[at] |= (len.trailing_zeros() as u8) << 6;
    }
}

fn varint_len(number: u64) -> usize {
    match number {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => {
            assert!(number <= VARINT_MAX, "{number} is more than a variable-length integer holds");
            8
        }
    }
}

#[cfg(test)]
mod tests {
    use headend_engine::time::{Duration, Time};
    use proptest::prelude::*;

    use super::*;

    fn varint() -> impl Strategy<Value = u64> {
        prop_oneof![0..100_u64, 0..100_000_u64, 0..=VARINT_MAX]
    }

    fn told() -> impl Strategy<Value = Acknowledgement> {
        (1_000_000..1_u64 << 47, prop::collection::vec((0..100_u64, 0..100_u64), 1..=16)).prop_map(|(last, steps)| {
            let (mut ranges, mut last) = (Vec::new(), last);
            for (len, gap) in steps {
                ranges.push((last - len, last));
                last -= len + 2 + gap;
            }
            Acknowledgement { received: Time::from_nanos(7), held: Duration::from_micros(9), ranges }
        })
    }

    fn frame() -> impl Strategy<Value = Frame<'static>> {
        const BYTES: [u8; 100] = [7; 100];
        prop_oneof![
            Just(Frame::Ping),
            (any::<u8>(), 0..=NUMBER_MAX).prop_map(|(circuit, number)| Frame::Number { circuit, number }),
            (any::<u8>(), told()).prop_map(|(circuit, told)| Frame::Acknowledged { circuit, told }),
            (varint(), 0..VARINT_MAX - 100, any::<bool>(), 0..100_usize).prop_map(|(stream, offset, is_last, len)| {
                Frame::Data { stream, offset, is_last, bytes: &BYTES[..len] }
            }),
            (varint(), varint(), varint()).prop_map(|(stream, code, end)| Frame::Reset { stream, code, end }),
            (varint(), varint()).prop_map(|(stream, code)| Frame::Stop { stream, code }),
            varint().prop_map(Frame::DataMax),
            (varint(), varint()).prop_map(|(stream, most)| Frame::StreamMax { stream, most }),
            varint().prop_map(Frame::StreamsMax),
            varint().prop_map(|code| Frame::Close { code, reason: "enough" }),
            any::<[u8; 8]>().prop_map(Frame::Challenge),
            any::<[u8; 8]>().prop_map(Frame::Response),
            (varint(), varint(), varint(), 0..100_usize).prop_map(|(number, total, offset, len)| {
                Frame::Part { number, total, offset, bytes: &BYTES[..len] }
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written(frames in prop::collection::vec(frame(), 0..20), padding in 0..9_usize) {
            let mut frames = frames;
            if padding > 0 {
                frames.push(Frame::Padding(padding));
            }
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.write(&mut bytes));
            let read: Result<Vec<_>, _> = Frames::new(&bytes).collect();
            prop_assert_eq!(read, Ok(frames));
        }

        #[test]
        fn what_is_read_is_what_would_be_written(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut again = Vec::new();
            for frame in Frames::new(&bytes) {
                match frame {
                    Ok(frame) => frame.write(&mut again),
                    Err(_) => break,
                }
            }
            prop_assert!(bytes.starts_with(&again));
        }
    }
}
