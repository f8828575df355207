//! A token bucket that delays: a packet that finds too few tokens waits for them, and then for the calendar's next entry.

use super::config::Shaping;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// A token bucket as the time at which it is full again (the virtual scheduling form of ITU-T I.371's algorithm).
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    shaping: Shaping,
    full_at: Time,
    /// The time at which the latest bytes leave: nothing that came after them leaves before it.
    last: Time,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(shaping: Shaping) -> Bucket {
        Bucket { shaping, full_at: Time::ZERO, last: Time::ZERO }
    }

    /// Takes the tokens of `len` bytes that come at `now` and says when they may leave; or takes none, if that were more
    /// than `delay_max` later. More bytes than the bucket holds wait for a full one.
    pub(super) fn take(&mut self, now: Time, len: Bytes, delay_max: Duration) -> Option<Time> {
        let Shaping { rate, burst, granularity } = self.shaping;
        let slack = rate.time_for(burst.saturating_sub(len));
        let conforms = Time::ZERO + self.full_at.since(Time::ZERO + slack);
        let mut leaves = now.max(self.last);
        if conforms > now {
            leaves = leaves.max(round_up(conforms, granularity));
        }
        if leaves - now > delay_max {
            return None;
        }
        self.full_at = self.full_at.max(now) + rate.time_for(len);
        self.last = leaves;
        Some(leaves)
    }
}

/// The first multiple of `grain` not before `time`.
fn round_up(time: Time, grain: Duration) -> Time {
    let grain = grain.as_nanos().max(1);
    Time::from_nanos(time.as_nanos().div_ceil(grain) * grain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    fn departures(granularity_ms: u64, burst: u64, arrivals_us: &[u64]) -> Vec<u64> {
        let rate = Rate::mbit(3);
        let granularity = Duration::from_millis(granularity_ms);
        let mut bucket = Bucket::new(Shaping { rate, burst: Bytes::new(burst), granularity });
        let take = |&us: &u64| bucket.take(Time::from_nanos(us * 1_000), Bytes::new(1_500), Duration::MAX);
        arrivals_us.iter().map(take).map(|time| time.expect("no limit").as_nanos() / 1_000).collect()
    }

    #[test]
    fn packets_leave_at_the_rate_and_a_full_bucket_lets_the_first_through() {
        assert_eq!(departures(0, 1_500, &[0, 0, 0, 50_000]), [0, 4_000, 8_000, 50_000]);
        assert_eq!(departures(0, 4_500, &[0, 0, 0, 0, 0]), [0, 0, 0, 4_000, 8_000]);
    }

    #[test]
    fn what_must_wait_leaves_by_the_calendar_and_no_rate_is_lost_to_it() {
        assert_eq!(departures(8, 1_500, &[1_000; 6]), [1_000, 8_000, 16_000, 16_000, 24_000, 24_000]);
        // 16 ms are four packets.
        let twelve = departures(16, 1_500, &[0; 13]);
        assert_eq!(twelve, [0, 16, 16, 16, 16, 32, 32, 32, 32, 48, 48, 48, 48].map(|ms| ms * 1_000));
    }

    #[test]
    fn a_packet_with_tokens_overtakes_none_that_waits_for_the_calendar() {
        assert_eq!(departures(16, 1_500, &[0, 0, 9_000]), [0, 16_000, 16_000]);
    }

    #[test]
    fn what_would_wait_too_long_is_refused_and_takes_no_tokens() {
        let shaping = Shaping { rate: Rate::mbit(3), burst: Bytes::new(1_500), granularity: Duration::ZERO };
        let mut bucket = Bucket::new(shaping);
        let mut take = || bucket.take(Time::ZERO, Bytes::new(1_500), Duration::from_millis(10));
        let taken: Vec<_> = (0..5).map(|_| take().map(|time| time.as_nanos() / 1_000_000)).collect();
        assert_eq!(taken, [Some(0), Some(4), Some(8), None, None]);
    }
}
