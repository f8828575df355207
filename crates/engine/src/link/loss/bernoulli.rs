//! Independent losses: packet by packet.

use super::Loss;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// The chance of losing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The chance that a packet is lost.
    pub chance: Chance,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "bernoulli",
        doc: "Each packet is lost with the same chance, as a probability alone says.",
        fields: &[Field {
            name: "rate",
            kind: Kind::Chance,
            absent: Absent::Required,
            doc: "Chance of loss of a packet.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { chance: values.chance("rate") })
    }
}

impl Parameters {
    /// The medium; `None` if it never loses a packet.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Loss>> {
        (self.chance != Chance::NEVER).then(|| Box::new(Bernoulli::new(self.chance, rng)) as Box<dyn Loss>)
    }
}

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
