//! Values that change at known times, and what was recorded of a link.

use std::sync::Arc;

use crate::time::{Duration, Time};
use crate::units::{Chance, Rate};

/// What can be read from a recording of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recording {
    /// The times, ascending, at which the link could deliver a packet, of which the last is not zero.
    Opportunities(Arc<[Duration]>),
    /// The rates at which the link served, in turns; not all of them are zero.
    Rates(Series<Rate>),
    /// The delays, one way, in turns.
    Delays(Series<Duration>),
    /// The delays of spans of time of one length, which the recording does not tell; there is at least one.
    DelaysBySpan(Arc<[Duration]>),
    /// The chances of loss, in turns.
    Losses(Series<Chance>),
}

/// A value that holds from a time on, until the next does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series<T> {
    steps: Arc<[(Time, T)]>,
    /// The time after which it starts again; without one the last value holds.
    turn: Option<Duration>,
}

/// A place in a series: a step, in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    at: usize,
    /// The time at which this turn began.
    begun: Time,
}

impl Place {
    /// True for the first step of a turn.
    pub fn is_first(self) -> bool {
        self.at == 0
    }
}

impl<T: Copy> Series<T> {
    /// Each value holds from its time on, and the last of them for good.
    ///
    /// # Panics
    /// If the first time is not zero, or a time is not later than the one before.
    pub fn held(steps: impl Into<Arc<[(Time, T)]>>) -> Series<T> {
        let steps = steps.into();
        assert!(steps.first().is_some_and(|&(time, _)| time == Time::ZERO), "there is a value from the start on");
        assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0), "each step is later than the one before");
        Series { steps, turn: None }
    }

    /// Each value holds from its time on; it all starts again every `turn`.
    ///
    /// # Panics
    /// As with [`held`](Series::held), and if a step is not before the end of the turn.
    pub fn repeated(steps: impl Into<Arc<[(Time, T)]>>, turn: Duration) -> Series<T> {
        let series = Series { turn: Some(turn), ..Series::held(steps) };
        let last = series.steps[series.steps.len() - 1].0;
        assert!(last < Time::ZERO + turn, "every step is part of the turn");
        series
    }

    /// The same, with its last value held instead of starting again.
    pub fn hold(self) -> Series<T> {
        Series { turn: None, ..self }
    }

    /// The value that holds for good in the end; `None` if it starts again.
    pub fn last_held(&self) -> Option<T> {
        let last = self.steps[self.steps.len() - 1].1;
        self.turn.is_none().then_some(last)
    }

    /// All values, in their order.
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        self.steps.iter().map(|&(_, value)| value)
    }

    /// The value that holds at a place.
    pub fn value(&self, place: Place) -> T {
        self.steps[place.at].1
    }

    /// The time at which the step at a place ends; `None` if it never does.
    pub fn end(&self, place: Place) -> Option<Time> {
        match self.steps.get(place.at + 1) {
            Some(&(time, _)) => Some(place.begun + time.since(Time::ZERO)),
            None => self.turn.map(|turn| place.begun + turn),
        }
    }

    /// The place behind one that [ends](Series::end).
    pub fn next(&self, place: Place) -> Place {
        match self.turn {
            Some(turn) if place.at + 1 == self.steps.len() => Place { at: 0, begun: place.begun + turn },
            _ => Place { at: place.at + 1, ..place },
        }
    }

    /// The place at `now`, which is not before `place`.
    pub fn seek(&self, mut place: Place, now: Time) -> Place {
        if let Some(turn) = self.turn
            && now >= place.begun + turn
        {
            let turns = now.since(place.begun).as_nanos() / turn.as_nanos();
            place = Place { at: 0, begun: place.begun + turn * turns };
        }
        if self.end(place).is_none_or(|end| now < end) {
            return place;
        }
        let since = Time::ZERO + now.since(place.begun);
        let passed = self.steps[place.at + 1..].partition_point(|&(time, _)| time <= since);
        Place { at: place.at + passed, ..place }
    }

    /// The time after which it starts again; `None` if it never does.
    pub fn turn(&self) -> Option<Duration> {
        self.turn
    }

    /// All values, each with the time for which it holds in a turn; without a turn, none.
    pub fn spans(&self) -> impl Iterator<Item = (T, Duration)> + '_ {
        let ends = self.steps.iter().skip(1).map(|&(time, _)| time).chain(self.turn.map(|turn| Time::ZERO + turn));
        let spans = self.steps.iter().zip(ends).map(|(&(begin, value), end)| (value, end.since(begin)));
        spans.filter(|_| self.turn.is_some())
    }

    /// The place so many turns later; the same if there are no turns.
    pub fn later(&self, place: Place, turns: u64) -> Place {
        Place { begun: place.begun + self.turn.unwrap_or_default() * turns, ..place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn seen(series: &Series<u32>, times: &[u64]) -> Vec<u32> {
        let mut place = Place::default();
        let value = |&ms: &u64| {
            place = series.seek(place, at(ms));
            series.value(place)
        };
        times.iter().map(value).collect()
    }

    #[test]
    fn a_value_holds_until_the_next_and_the_last_for_good() {
        let series = Series::held([(at(0), 1), (at(10), 2), (at(15), 3)]);
        assert_eq!(seen(&series, &[0, 9, 10, 14, 15, 1_000_000]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(series.end(series.seek(Place::default(), at(15))), None);
    }

    #[test]
    fn a_series_starts_again_each_turn_however_long_nobody_asked() {
        let series = Series::repeated([(at(0), 1), (at(10), 2)], Duration::from_millis(15));
        assert_eq!(seen(&series, &[9, 10, 14, 15, 24, 25, 30, 15_000_009, 15_000_010]), [1, 2, 2, 1, 1, 2, 1, 1, 2]);
        assert_eq!(seen(&series.hold(), &[9, 10, 14, 15, 24]), [1, 2, 2, 2, 2]);
    }

    #[test]
    #[should_panic(expected = "every step is part of the turn")]
    fn a_step_at_the_end_of_the_turn_is_none() {
        let _ = Series::repeated([(at(0), 1), (at(10), 2)], Duration::from_millis(10));
    }
}
