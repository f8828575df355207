//! A rate that changes at known times.

use super::Service;
use crate::link::recording::{Place, Series};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// A rate and when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The rates; none is zero for good.
    pub steps: Series<Rate>,
}

impl Parameters {
    /// The link at the start.
    pub fn build(&self) -> Box<dyn Service> {
        Box::new(Steps::new(self.steps.clone()))
    }

    /// The time that the link takes for so many bytes at its first rate that is none of zero.
    pub fn usual_time_for(&self, len: Bytes) -> Duration {
        self.steps.values().find(|&rate| rate > Rate::bit(0)).expect("some rate is above zero").time_for(len)
    }
}

/// Serves at a rate from a time on, until the next. A packet in service when the rate changes goes on at the new one; while the
/// rate is zero it waits.
#[derive(Debug)]
pub struct Steps {
    steps: Series<Rate>,
    /// What a whole turn serves, in bits times nanoseconds per second; zero without turns.
    turn: u128,
    /// The step in which the last service began; later ones begin no earlier.
    at: Place,
}

impl Steps {
    /// Serves at each rate from its time on.
    ///
    /// # Panics
    /// If a rate of zero holds for good.
    pub fn new(steps: Series<Rate>) -> Steps {
        let serves = |rate: &Rate| *rate > Rate::bit(0);
        let goes_on = steps.values().any(|rate| serves(&rate)) && steps.last_held().is_none_or(|rate| serves(&rate));
        assert!(goes_on, "a link that serves nothing never ends a service");
        let turn = steps.spans().map(|(rate, span)| u128::from(rate.get()) * u128::from(span.as_nanos())).sum();
        Steps { steps, turn, at: Place::default() }
    }
}

impl Service for Steps {
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        const NANOS_PER_BYTE: u128 = 8 * 1_000_000_000;
        self.at = self.steps.seek(self.at, start);
        // What is left of the packet, in bits times nanoseconds per second: at r bit/s a nanosecond takes r of it.
        let (mut at, mut now, mut left) = (self.at, start, u128::from(len.get()) * NANOS_PER_BYTE);
        loop {
            if at.is_first() && self.turn > 0 && left > self.turn {
                // Many turns of a short recording.
                let turns = u64::try_from((left - 1) / self.turn).unwrap_or(u64::MAX);
                left -= self.turn * u128::from(turns);
                at = self.steps.later(at, turns);
                now += self.steps.turn().unwrap_or_default() * turns;
            }
            let rate = u128::from(self.steps.value(at).get());
            let nanos = if rate == 0 { u128::MAX } else { left.div_ceil(rate) };
            match self.steps.end(at) {
                Some(end) if u128::from((end - now).as_nanos()) < nanos => {
                    left -= u128::from((end - now).as_nanos()) * rate;
                    (at, now) = (self.steps.next(at), end);
                }
                _ => {
                    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                    return Time::from_nanos(now.as_nanos().saturating_add(nanos));
                }
            }
        }
    }
}
