//! Rates, sizes and probabilities. Decimal prefixes: 1 KB is 1000 bytes, 1 Mbit/s is 10^6 bit/s.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

pub mod quantity;

use crate::time::Duration;

/// A rate in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// A limit to what may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// No limit: whatever comes may wait.
    Unlimited,
    /// The number of packets that may wait, however long they are.
    Packets(u64),
    /// The number of bytes that may wait.
    Bytes(Bytes),
}

/// A probability in units of 2^-64: `n / 2^64`, and `u64::MAX` means certain.
///
/// 2^-64 and not 2^-32, because a bit error rate of 10^-9 must not be rounded by a fifth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chance(u64);

impl Rate {
    /// A rate of `n` bit/s.
    pub const fn bit(n: u64) -> Rate {
        Rate(n)
    }

    /// A rate of `n` kbit/s.
    pub const fn kbit(n: u64) -> Rate {
        Rate(n * 1_000)
    }

    /// A rate of `n` Mbit/s.
    pub const fn mbit(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }

    /// The rate in bit/s.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The whole bytes that this rate carries in a time.
    pub const fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = self.0 as u128 * time.as_nanos() as u128 / 8_000_000_000;
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }

    /// The time that `len` takes at this rate, rounded up to a nanosecond. Panics if the rate is zero.
    pub const fn time_for(self, len: Bytes) -> Duration {
        const NANOS_PER_BYTE: u64 = 8 * 1_000_000_000;
        match len.0.checked_mul(NANOS_PER_BYTE) {
            Some(bit_nanos) => Duration::from_nanos(bit_nanos.div_ceil(self.0)),
            None => {
                let nanos = (len.0 as u128 * NANOS_PER_BYTE as u128).div_ceil(self.0 as u128);
                Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
            }
        }
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// A number of bytes larger than any buffer.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// `n` bytes.
    pub const fn new(n: u64) -> Bytes {
        Bytes(n)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Capacity {
    /// The most packets, and the most bytes, that may wait.
    pub const fn limits(self) -> (u64, Bytes) {
        match self {
            Capacity::Unlimited => (u64::MAX, Bytes::MAX),
            Capacity::Packets(packets) => (packets, Bytes::MAX),
            Capacity::Bytes(bytes) => (u64::MAX, bytes),
        }
    }
}

impl Chance {
    /// The chance of what never happens.
    pub const NEVER: Chance = Chance(0);
    /// The chance of what always happens.
    pub const ALWAYS: Chance = Chance(u64::MAX);

    /// The chance `n / 2^64`.
    pub const fn from_raw(n: u64) -> Chance {
        Chance(n)
    }

    /// The chance in units of 2^-64.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The chance nearest to `p`, which must lie in 0..=1; `None` otherwise. For reading configurations.
    #[allow(clippy::float_arithmetic, reason = "for reading configurations")]
    pub fn from_f64(p: f64) -> Option<Chance> {
        // 2^64 is a power of two, so the product is exact and the conversion the same on every machine.
        (0.0..=1.0).contains(&p).then_some(Chance((p * 18_446_744_073_709_551_616.0) as u64))
    }

    /// The chance as a number in 0..=1; for reports only.
    #[allow(clippy::float_arithmetic, reason = "for reports")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 18_446_744_073_709_551_616.0
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        debug_assert!(other <= self, "a size is never negative: {self} - {other}");
        self.saturating_sub(other)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0.saturating_mul(factor))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(items: I) -> Bytes {
        items.fold(Bytes::ZERO, Add::add)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n > 0 && n.is_multiple_of(1_000_000) => write!(f, "{}Mbit/s", n / 1_000_000),
            n if n > 0 && n.is_multiple_of(1_000) => write!(f, "{}kbit/s", n / 1_000),
            n => write!(f, "{n}bit/s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}
