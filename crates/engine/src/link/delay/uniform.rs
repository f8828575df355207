//! A delay that is drawn evenly.

use super::{Delay, OVERTAKE, SPAN};
use crate::part::{Absent, Description, Field, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// The bounds of the delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The shortest.
    pub least: Duration,
    /// The longest, not less.
    pub most: Duration,
    /// True if packets overtake those that take longer.
    pub overtake: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "uniform",
        doc: "Each packet's delay is drawn evenly between two bounds, independent of the others.",
        fields: &[
            Field { name: "least", kind: SPAN, absent: Absent::Is("0s"), doc: "The shortest delay." },
            Field { name: "most", kind: SPAN, absent: Absent::Required, doc: "The longest delay." },
            OVERTAKE,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let (least, most) = (values.span("least"), values.span("most"));
        if most < least {
            return Err(Mistake { field: "most", text: format!("must not be below `least`, {least}") });
        }
        Ok(Parameters { least, most, overtake: values.flag("overtake") })
    }
}

impl Parameters {
    /// The delay, with the generator that it draws from.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Delay>> {
        Some(Box::new(Uniform { least: self.least, range: (self.most - self.least).as_nanos() + 1, rng }))
    }

    /// The lower bound.
    pub fn shortest(&self) -> Duration {
        self.least
    }

    /// True if packets overtake those that take longer.
    pub fn overtakes(&self) -> bool {
        self.overtake
    }
}

/// A delay evenly among `range` nanoseconds from the shortest on.
#[derive(Debug)]
pub struct Uniform {
    least: Duration,
    range: u64,
    rng: Rng,
}

impl Delay for Uniform {
    fn after(&mut self, _sent: Time) -> Duration {
        self.least + Duration::from_nanos(self.rng.below(self.range))
    }
}
