//! Losses by number, for exact sequences.

use super::Loss;
use crate::time::Time;
use crate::units::Bytes;

/// The packets with these numbers are lost, counted from 1 as they pass: for exact sequences.
#[derive(Debug)]
pub struct List {
    /// Ascending.
    numbers: Vec<u64>,
    passed: u64,
}

impl List {
    /// Loses the packets with these numbers, counted from 1, in any order.
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
