//! A delay that changes at known times.

use super::Delay;
use crate::link::recording::{Place, Series};
use crate::rng::Rng;
use crate::time::{Duration, Time};

/// A delay and when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The delays.
    pub steps: Series<Duration>,
}

impl Parameters {
    /// The delay from the start on.
    pub fn build(&self, _rng: Rng) -> Option<Box<dyn Delay>> {
        Some(Box::new(Steps { steps: self.steps.clone(), at: Place::default() }))
    }

    /// The shortest of them.
    pub fn shortest(&self) -> Duration {
        self.steps.values().min().expect("there is a delay from the start on")
    }

    /// Packets wait for those that went before.
    pub fn overtakes(&self) -> bool {
        false
    }
}

/// The delay of the step in which a packet's service ends.
#[derive(Debug)]
pub struct Steps {
    steps: Series<Duration>,
    at: Place,
}

impl Delay for Steps {
    fn after(&mut self, sent: Time) -> Duration {
        self.at = self.steps.seek(self.at, sent);
        self.steps.value(self.at)
    }
}
