//! Independent losses: packet by packet.

use super::Loss;
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// Each packet is lost with the same chance, independent of its length and of the others.
///
/// This is how the tuning paper's "poisson" media errors are read (s4.1): a mean loss without memory.
#[derive(Debug)]
pub struct Bernoulli {
    chance: Chance,
    rng: Rng,
}

impl Bernoulli {
    /// Loses each packet with `chance`.
    pub fn new(chance: Chance, rng: Rng) -> Bernoulli {
        Bernoulli { chance, rng }
    }
}

impl Loss for Bernoulli {
    fn strikes(&mut self, _now: Time, _len: Bytes) -> bool {
        self.rng.strikes(self.chance)
    }
}
