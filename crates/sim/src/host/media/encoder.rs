//! The encoder of a source of frames: the size of each, at the one of its rates that is in use.

use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

/// The time without much waiting after which a source goes to its next higher rate. This rule is ours: section 5.4 of
/// the thesis says that a sender should adjust its encoding by the occupancy that it reads, and not how.
const CALM: Duration = Duration::from_secs(2);
/// The part of the deadline, one in this many, beyond which what waits makes the encoder go to the next lower rate.
const DEADLINE_PART: u64 = 4;

/// Makes frames.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    /// The time from one frame to the next.
    pub(crate) interval: Duration,
    /// Rates of all frames together, the lowest first.
    rates: Vec<Rate>,
    /// The number of frames from one key frame to the next.
    key_every: u64,
    /// The size of a key frame as a multiple of the others'.
    key_size: u64,
    deadline: Duration,
    /// The index of the rate in use.
    rung: usize,
    /// The time since which hardly anything has waited.
    calm_since: Time,
    /// The earliest time for a further step down: what waits has to leave first.
    settled_at: Time,
    changes: u64,
}

impl Encoder {
    /// An encoder that begins at the lowest of `rates`.
    pub(crate) fn new(
        rates: Vec<Rate>,
        interval: Duration,
        key: (u64, u64),
        deadline: Duration,
        start: Time,
    ) -> Encoder {
        let (key_every, key_size) = key;
        Encoder {
            interval,
            rates,
            key_every,
            key_size,
            deadline,
            rung: 0,
            calm_since: start,
            settled_at: start,
            changes: 0,
        }
    }

    /// The number of times that the rate was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The size of frame `number`. A group from one key frame to the next has its share of the rate.
    pub(crate) fn frame(&self, number: u64) -> Bytes {
        let group_ns = u128::from(self.interval.as_nanos()) * u128::from(self.key_every);
        let group_bytes = u128::from(self.rates[self.rung].get()) * group_ns / 8_000_000_000;
        let parts = u128::from(self.key_every - 1 + self.key_size);
        let size = if number.is_multiple_of(self.key_every) { self.key_size } else { 1 };
        let bytes = group_bytes * u128::from(size) / parts;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX).max(1))
    }

    /// Chooses the rate by the `waiting` bytes that have not left.
    pub(crate) fn read_occupancy(&mut self, now: Time, waiting: Bytes) {
        let waits = self.rates[self.rung].time_for(waiting);
        if waits > self.interval {
            self.calm_since = now;
        }
        if waits > Duration::from_nanos(self.deadline.as_nanos() / DEADLINE_PART) {
            if self.rung > 0 && now >= self.settled_at {
                self.rung -= 1;
                self.changes += 1;
                self.settled_at = now + self.deadline;
            }
        } else if now.since(self.calm_since) >= CALM && self.rung + 1 < self.rates.len() {
            self.rung += 1;
            self.changes += 1;
            self.calm_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(key: (u64, u64)) -> Encoder {
        let rates = [500, 1_000, 2_000].map(Rate::kbit).into();
        Encoder::new(rates, Duration::from_millis(40), key, Duration::from_millis(200), Time::ZERO)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_group_of_frames_has_its_share_of_the_rate_and_its_first_is_larger() {
        let frames: Vec<u64> = (0..12).map(|number| encoder((12, 5)).frame(number).get()).collect();
        assert_eq!((frames[0], frames[1], frames[11]), (9_375, 1_875, 1_875));
        assert_eq!(frames.iter().sum::<u64>(), 30_000, "500 kbit/s for 480 ms");
        assert!((0..9).all(|number| encoder((1, 1)).frame(number).get() == 2_500));
    }

    #[test]
    fn a_source_climbs_while_nothing_waits_and_steps_down_when_much_does() {
        let mut encoder = encoder((1, 1));
        for frame in 0..200 {
            encoder.read_occupancy(at(40 * frame), Bytes::ZERO);
        }
        assert_eq!((encoder.rung, encoder.changes()), (2, 2));
        // At 2 Mbit/s 12,500 bytes are a quarter of the deadline.
        encoder.read_occupancy(at(8_000), Bytes::new(12_500));
        assert_eq!(encoder.rung, 2);
        encoder.read_occupancy(at(8_040), Bytes::new(12_501));
        assert_eq!(encoder.rung, 1);
        for frame in 2..6 {
            encoder.read_occupancy(at(8_000 + 40 * frame), Bytes::new(20_000));
        }
        assert_eq!(encoder.rung, 1, "what waits has to leave first");
        encoder.read_occupancy(at(8_240), Bytes::new(20_000));
        assert_eq!(encoder.rung, 0);
        encoder.read_occupancy(at(9_000), Bytes::new(1_000_000));
        assert_eq!(encoder.rung, 0, "there is no lower one");
        encoder.read_occupancy(at(10_999), Bytes::ZERO);
        assert_eq!(encoder.rung, 0, "not yet two seconds of calm");
        encoder.read_occupancy(at(11_000), Bytes::ZERO);
        assert_eq!(encoder.rung, 1);
    }
}
