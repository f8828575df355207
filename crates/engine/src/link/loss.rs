//! Losses that no queue caused: on the medium, after service.

use std::fmt::Debug;

use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// Decides which packets the medium destroys.
pub trait Loss: Debug + Send {
    /// True if the packet of `len` bytes whose service ends at `now` is lost.
    fn strikes(&mut self, now: Time, len: Bytes) -> bool;
}

/// Each packet is lost with the same chance, independent of its length and of the others.
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

/// The packets with these numbers are lost, counted from 1 as they pass: for exact sequences.
#[derive(Debug)]
pub struct List {
    /// Ascending.
    numbers: Vec<u64>,
    passed: u64,
}

impl List {
    /// Loses the packets with these numbers, counted from 1.
    pub fn new(mut numbers: Vec<u64>) -> List {
        numbers.sort_unstable();
        List { numbers, passed: 0 }
    }
}

impl Loss for List {
    fn strikes(&mut self, _now: Time, _len: Bytes) -> bool {
        self.passed += 1;
        self.numbers.binary_search(&self.passed).is_ok()
    }
}
