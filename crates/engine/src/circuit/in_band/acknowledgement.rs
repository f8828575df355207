//! Acknowledgements, with which the receiving end of a circuit tells the sending end what has come, and their wire format.

use std::fmt;

use crate::packet::DATAGRAM_HEADERS;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// The most ranges that one acknowledgement holds.
pub(super) const RANGES_MAX: usize = 16;
/// Bytes of the fixed part: the largest number, the time when it came, how long it was held, how many ranges there are, and
/// the length of the first.
const FIXED: usize = 8 + 8 + 4 + 1 + 4;
/// Bytes of each further range: the gap before it, and its length.
const RANGE: usize = 4 + 4;

/// A list of the datagrams that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The time when the one with the largest number came, by the receiving end's clock, which need not agree with the sender's.
    pub received: Time,
    /// The time from then until the acknowledgement left.
    pub held: Duration,
    /// The first and the last number of each range, the largest numbers first. They neither overlap nor touch.
    pub ranges: Vec<(u64, u64)>,
}

/// Bytes that are no acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end before the acknowledgement does, or after it.
    Length {
        /// Bytes that there should be.
        expected: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// A range begins below zero.
    Underflow,
    /// The number of ranges is zero, or larger than one acknowledgement holds.
    Ranges(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Length { expected, found } => {
                write!(f, "an acknowledgement of {found} bytes, which should have {expected}")
            }
            Malformed::Underflow => f.write_str("an acknowledgement with a range that begins below zero"),
            Malformed::Ranges(count) => {
                write!(f, "an acknowledgement with {count} ranges, which should have 1 to {RANGES_MAX}")
            }
        }
    }
}

impl std::error::Error for Malformed {}

impl Acknowledgement {
    /// The largest number that has come.
    ///
    /// # Panics
    /// If there is no range.
    pub fn largest(&self) -> u64 {
        self.ranges[0].1
    }

    /// Bytes that it takes in a datagram of its own, IPv4 and UDP headers included.
    pub fn wire_len(&self) -> Bytes {
        Bytes::new(DATAGRAM_HEADERS + (FIXED + RANGE * self.ranges.len().saturating_sub(1)) as u64)
    }

    /// Appends it as on the wire: numbers in network byte order. Only the largest number is whole. Each range that follows is
    /// told by the numbers between it and the one before, and by its length; both less one, since neither is ever zero.
    ///
    /// # Panics
    /// If there is no range, or more than one acknowledgement holds.
    pub fn encode(&self, to: &mut Vec<u8>) {
        assert!((1..=RANGES_MAX).contains(&self.ranges.len()), "one to {RANGES_MAX} ranges: {self:?}");
        to.extend(self.largest().to_be_bytes());
        to.extend(self.received.as_nanos().to_be_bytes());
        to.extend(small(self.held.as_nanos() / 1_000).to_be_bytes());
        to.push(self.ranges.len() as u8);
        let mut above = None;
        for &(first, last) in &self.ranges {
            if let Some(above) = above {
                to.extend(small(above - last - 2).to_be_bytes());
            }
            to.extend(small(last - first).to_be_bytes());
            above = Some(first);
        }
    }

    /// Reads what [`encode`](Acknowledgement::encode) wrote, and nothing else may follow it. `held` is in whole microseconds.
    pub fn decode(bytes: &[u8]) -> Result<Acknowledgement, Malformed> {
        let length = |expected| Malformed::Length { expected, found: bytes.len() };
        let (fixed, _) = bytes.split_at_checked(FIXED).ok_or(length(FIXED))?;
        let long = |at: usize| u64::from_be_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let short = |at: usize| u64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        let count = fixed[20];
        if !(1..=RANGES_MAX).contains(&usize::from(count)) {
            return Err(Malformed::Ranges(count));
        }
        let expected = FIXED + RANGE * (usize::from(count) - 1);
        if bytes.len() != expected {
            return Err(length(expected));
        }
        let mut last = long(0);
        let mut ranges = Vec::with_capacity(usize::from(count));
        for range in 0..usize::from(count) {
            let at = FIXED - 4 + RANGE * range;
            let first = last.checked_sub(short(at)).ok_or(Malformed::Underflow)?;
            ranges.push((first, last));
            if range + 1 < usize::from(count) {
                last = first.checked_sub(short(at + 4) + 2).ok_or(Malformed::Underflow)?;
            }
        }
        let held = Duration::from_micros(short(16));
        Ok(Acknowledgement { received: Time::from_nanos(long(8)), held, ranges })
    }
}

/// Fits a number into four bytes: a larger one becomes the largest that fits, which for a length leaves out the oldest.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
