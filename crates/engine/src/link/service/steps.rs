//! A rate that changes at known times.

use std::sync::Arc;

use super::Service;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// A rate and when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Each rate and the time from which on it holds, the first from zero on, each later than the one before.
    pub steps: Arc<[(Time, Rate)]>,
}

impl Parameters {
    /// The link at the start.
    pub fn build(&self) -> Box<dyn Service> {
        Box::new(Steps::new(self.steps.clone()))
    }

    /// The time that the link takes for so many bytes at its first rate.
    pub fn usual_time_for(&self, len: Bytes) -> Duration {
        self.steps[0].1.time_for(len)
    }
}

/// Serves at a rate from a time on, until the next. A packet in service when the rate changes goes on at the new one.
#[derive(Debug)]
pub struct Steps {
    steps: Arc<[(Time, Rate)]>,
    /// The step in which the last service began; later ones begin no earlier.
    at: usize,
}

impl Steps {
    /// Serves at each rate from its time on.
    ///
    /// # Panics
    /// If the first time is not zero, a time is not later than the one before, or a rate is zero.
    pub fn new(steps: Arc<[(Time, Rate)]>) -> Steps {
        assert!(steps.first().is_some_and(|&(time, _)| time == Time::ZERO), "there is a rate from the start on");
        assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0), "each step is later than the one before");
        assert!(steps.iter().all(|&(_, rate)| rate > Rate::bit(0)), "a link that serves nothing never ends a service");
        Steps { steps, at: 0 }
    }

    fn end(&self, at: usize) -> Option<Time> {
        self.steps.get(at + 1).map(|&(time, _)| time)
    }
}

impl Service for Steps {
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        const NANOS_PER_BYTE: u128 = 8 * 1_000_000_000;
        while self.end(self.at).is_some_and(|end| end <= start) {
            self.at += 1;
        }
        // What is left of the packet, in bits times nanoseconds per second: at r bit/s a nanosecond takes r of it.
        let (mut at, mut now, mut left) = (self.at, start, u128::from(len.get()) * NANOS_PER_BYTE);
        loop {
            let rate = u128::from(self.steps[at].1.get());
            let nanos = left.div_ceil(rate);
            match self.end(at) {
                Some(end) if u128::from((end - now).as_nanos()) < nanos => {
                    left -= u128::from((end - now).as_nanos()) * rate;
                    (at, now) = (at + 1, end);
                }
                _ => {
                    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                    return Time::from_nanos(now.as_nanos().saturating_add(nanos));
                }
            }
        }
    }
}
