//! A delay that is always the same.

use super::Delay;
use crate::rng::Rng;
use crate::time::Duration;

/// A delay that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The delay.
    pub delay: Duration,
}

impl Parameters {
    /// None: a link has such a delay of itself.
    pub fn build(&self, _rng: Rng) -> Option<Box<dyn Delay>> {
        None
    }

    /// The delay.
    pub fn shortest(&self) -> Duration {
        self.delay
    }

    /// No packet overtakes another.
    pub fn overtakes(&self) -> bool {
        false
    }
}
