//! Losses by number, for exact sequences.

use super::Loss;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::Time;
use crate::units::Bytes;

/// The packets to lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Numbers of the packets to lose, counted from 1 as they pass.
    pub packets: Vec<u64>,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "list",
        doc: "The packets named are lost.",
        fields: &[Field {
            name: "packets",
            kind: Kind::Numbers,
            absent: Absent::Required,
            doc: "Numbers of the lost packets, from 1, as they pass.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { packets: values.numbers("packets") })
    }
}

impl Parameters {
    /// The medium, before its first packet.
    pub fn build(&self, _rng: Rng) -> Option<Box<dyn Loss>> {
        Some(Box::new(List::new(self.packets.clone())))
    }
}

/// The packets with these numbers are lost, counted from 1 as they pass: for exact sequences.
#[derive(Debug)]
pub struct List {
    /// Numbers of the packets to lose, ascending.
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
