//! A chance of loss that changes at known times.

use super::Loss;
use crate::link::recording::{Place, Recording, Series};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Recorded, Values};
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// A chance of loss and when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The chances.
    pub steps: Series<Chance>,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "trace",
        doc: "The chance that was recorded.",
        fields: &[
            Field {
                name: "trace",
                kind: Kind::Recording(Recorded::Loss),
                absent: Absent::Required,
                doc: "A recording with a column `loss_percent` or `loss_share`, relative to the scenario's folder.",
            },
            Field::AT_END,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let Recording::Losses(steps) = values.recording("trace") else { panic!("a recording of losses has chances") };
        Ok(Parameters { steps: if values.starts_again() { steps } else { steps.hold() } })
    }
}

impl Parameters {
    /// The medium, at the start.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Loss>> {
        Some(Box::new(Steps::new(self.steps.clone(), rng)))
    }
}

/// Each packet is lost with the chance of the step in which its service ends, independent of the others.
#[derive(Debug)]
pub struct Steps {
    steps: Series<Chance>,
    at: Place,
    rng: Rng,
}

impl Steps {
    /// Loses with each chance from its time on.
    pub fn new(steps: Series<Chance>, rng: Rng) -> Steps {
        Steps { steps, at: Place::default(), rng }
    }
}

impl Loss for Steps {
    fn strikes(&mut self, now: Time, _len: Bytes) -> bool {
        self.at = self.steps.seek(self.at, now);
        self.rng.strikes(self.steps.value(self.at))
    }
}
