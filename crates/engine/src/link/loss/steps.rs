//! A chance of loss that changes at known times.

use std::sync::Arc;

use super::Loss;
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Chance};

/// A chance of loss and when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Each chance and the time from which on it holds, the first from zero on, each later than the one before.
    pub steps: Arc<[(Time, Chance)]>,
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
    steps: Arc<[(Time, Chance)]>,
    at: usize,
    rng: Rng,
}

impl Steps {
    /// Loses with each chance from its time on.
    ///
    /// # Panics
    /// If the first time is not zero, or a time is not later than the one before.
    pub fn new(steps: Arc<[(Time, Chance)]>, rng: Rng) -> Steps {
        assert!(steps.first().is_some_and(|&(time, _)| time == Time::ZERO), "there is a chance from the start on");
        assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0), "each step is later than the one before");
        Steps { steps, at: 0, rng }
    }
}

impl Loss for Steps {
    fn strikes(&mut self, now: Time, _len: Bytes) -> bool {
        while self.steps.get(self.at + 1).is_some_and(|&(time, _)| time <= now) {
            self.at += 1;
        }
        self.rng.strikes(self.steps[self.at].1)
    }
}
