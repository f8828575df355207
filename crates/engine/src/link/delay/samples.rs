//! A delay drawn from those that were measured.

use std::sync::Arc;

use super::{Delay, OVERTAKE};
use crate::link::recording::Recording;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Recorded, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// The delays to draw from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The delays, each as likely; there is at least one.
    pub delays: Arc<[Duration]>,
    /// True if packets overtake those that take longer.
    pub overtake: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "samples",
        doc: "Each packet takes one of the delays that were measured, independent of the others.",
        fields: &[
            Field {
                name: "trace",
                kind: Kind::Recording(Recorded::Delay),
                absent: Absent::Required,
                doc: "A recording as of `trace`, whose lines are drawn, each as likely; their times do not matter.",
            },
            OVERTAKE,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let delays = match values.recording("trace") {
            Recording::Delays(delays) => delays.values().collect(),
            Recording::DelaysBySpan(delays) => delays,
            other => panic!("a recording of delays has some, not {other:?}"),
        };
        Ok(Parameters { delays, overtake: values.flag("overtake") })
    }
}

impl Parameters {
    /// The delay, with the generator that it draws from.
    pub fn build(&self, rng: Rng) -> Option<Box<dyn Delay>> {
        Some(Box::new(Samples { delays: self.delays.clone(), rng }))
    }

    /// The shortest of them.
    pub fn shortest(&self) -> Duration {
        *self.delays.iter().min().expect("there is a delay")
    }

    /// True if packets overtake those that take longer.
    pub fn overtakes(&self) -> bool {
        self.overtake
    }
}

/// One of the delays, each as likely.
#[derive(Debug)]
pub struct Samples {
    delays: Arc<[Duration]>,
    rng: Rng,
}

impl Delay for Samples {
    fn after(&mut self, _sent: Time) -> Duration {
        self.delays[self.rng.below(self.delays.len() as u64) as usize]
    }
}
