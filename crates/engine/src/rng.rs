//! Chance as an argument: one generator per component, named, so that adding a node shifts no other draw.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Chance;

/// A random generator that belongs to one component: xoshiro256++ (Blackman and Vigna), the same values everywhere.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The generator of the component called `name` in the run with this `seed`.
    pub fn named(seed: u64, name: &str) -> Rng {
        // FNV-1a (draft-eastlake-fnv) spreads the name; seed_from_u64's SplitMix64 spreads the sum.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Rng(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with probability `chance`. Draws nothing for `NEVER` and `ALWAYS`.
    pub fn strikes(&mut self, chance: Chance) -> bool {
        match chance {
            Chance::NEVER => false,
            Chance::ALWAYS => true,
            _ => self.bits() < chance.raw(),
        }
    }

    /// A uniform number in `0..bound`; zero if `bound` is zero. (Lemire 2019, without the rejection step: the bias is
    /// below `bound / 2^64`.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}
