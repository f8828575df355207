//! Independent losses: bit by bit.

use super::Loss;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// The chance of a wrong bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The chance: a bit error rate.
    pub chance_per_bit: Chance,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "bit",
        doc: "Each bit is wrong with the same chance, and a packet is lost with any of its bits.",
        fields: &[Field {
            name: "rate",
            kind: Kind::Chance,
            absent: Absent::Required,
            doc: "Chance that a bit is wrong.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { chance_per_bit: values.chance("rate") })
    }
}

impl Parameters {
    /// The medium.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Loss>> {
        Some(Box::new(Bit::new(self.chance_per_bit, rng)))
    }
}

/// Each bit is wrong with the same chance, and one wrong bit loses the packet: a bit error rate.
///
/// A packet survives with `(1 - chance_per_bit)^(8 len)`, so long packets are lost more often than short ones.
#[derive(Debug)]
pub struct Bit {
    chance_per_bit: Chance,
    /// The length seen last and its chance of loss: most packets in one direction are equally long.
    last: (Bytes, Chance),
    rng: Rng,
}

impl Bit {
    /// Makes each bit wrong with `chance_per_bit`.
    pub fn new(chance_per_bit: Chance, rng: Rng) -> Bit {
        Bit { chance_per_bit, last: (Bytes::ZERO, Chance::NEVER), rng }
    }
}

impl Loss for Bit {
    fn strikes(&mut self, _now: Time, len: Bytes) -> bool {
        if self.last.0 != len {
            self.last = (len, chance_of_loss(self.chance_per_bit, len));
        }
        self.rng.strikes(self.last.1)
    }
}

/// `1 - (1 - chance_per_bit)^(8 len)`.
///
/// Every squaring doubles the relative error and rounding adds 2^-65, so the result is within `8 len * 2^-64`: for a
/// bit error rate of 10^-12, whatever the length, better than one part in ten million.
pub(super) fn chance_of_loss(chance_per_bit: Chance, len: Bytes) -> Chance {
    let mut bits = 8 * len.get();
    if bits == 0 || chance_per_bit == Chance::NEVER {
        return Chance::NEVER;
    }
    if chance_per_bit == Chance::ALWAYS {
        return Chance::ALWAYS;
    }
    // In units of 2^-64, in which one is not representable; nothing here reaches it.
    let mut survival = None;
    let mut power = chance_per_bit.raw().wrapping_neg();
    while bits > 0 {
        if bits & 1 == 1 {
            survival = Some(survival.map_or(power, |survival| product(survival, power)));
        }
        power = product(power, power);
        bits >>= 1;
    }
    match survival {
        None | Some(0) => Chance::ALWAYS,
        Some(survival) => Chance::from_raw(survival.wrapping_neg()),
    }
}

/// The product of two numbers below one in units of 2^-64, rounded to the nearest.
fn product(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b) + (1 << 63)) >> 64) as u64
}
