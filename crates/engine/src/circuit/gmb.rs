//! The guaranteed minimum bandwidth of a circuit: a leaky bucket that a timer fills (thesis s2.2.5.3).

use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// The thesis's timer.
pub const TICK: Duration = Duration::from_millis(1);
/// The bucket counts in parts of a byte, so that every rate in bit/s fills it exactly: a millisecond of 1 bit/s.
const PARTS: i64 = 8_000;

/// Says when packets may leave at a guaranteed rate, with no regard to congestion.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: Rate,
    /// Credit that is left to send; below zero after a packet that was larger than the credit.
    parts: i64,
    /// Ticks that have filled the bucket.
    ticks: u64,
}

impl Bucket {
    /// A bucket for `rate`, empty.
    pub fn new(rate: Rate) -> Bucket {
        Bucket { rate, parts: 0, ticks: 0 }
    }

    /// The guaranteed rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The queue was empty and is not from now on. What could have been sent meanwhile is gone; what was sent too much is
    /// made up for.
    pub fn resume(&mut self, now: Time) {
        self.fill(now);
        self.drain();
    }

    /// True if a packet may leave now.
    pub fn allows(&mut self, now: Time) -> bool {
        self.fill(now);
        self.parts > 0
    }

    /// A packet of `len` leaves.
    pub fn spend(&mut self, len: Bytes) {
        self.parts -= i64::try_from(len.get()).unwrap_or(i64::MAX / PARTS) * PARTS;
    }

    /// There is nothing to send: what is left is not kept for later.
    pub fn drain(&mut self) {
        self.parts = self.parts.min(0);
    }

    /// The next time at which the bucket is filled.
    pub fn next_tick(&self) -> Time {
        Time::from_nanos((self.ticks + 1) * TICK.as_nanos())
    }

    fn fill(&mut self, now: Time) {
        let ticks = now.as_nanos() / TICK.as_nanos();
        let earned = u128::from(ticks - self.ticks) * u128::from(self.rate.get());
        self.parts = self.parts.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        self.ticks = ticks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes sent in the first `ms` milliseconds by one who always has packets of `len`.
    fn sent(rate: Rate, len: u64, ms: u64) -> u64 {
        let mut bucket = Bucket::new(rate);
        let mut bytes = 0;
        for tick in 1..=ms {
            let now = Time::ZERO + TICK * tick;
            assert_eq!(bucket.next_tick(), now);
            while bucket.allows(now) {
                bucket.spend(Bytes::new(len));
                bytes += len;
            }
        }
        bytes
    }

    #[test]
    fn the_bytes_sent_are_the_rate_times_the_time_within_a_packet_always() {
        for (rate, len) in
            [(Rate::kbit(3_200), 1_500), (Rate::bit(1), 40), (Rate::mbit(1_000), 1_500), (Rate::kbit(1), 9)]
        {
            for ms in [1, 10, 999, 1_000, 10_000] {
                let due = rate.get() * ms / 8_000;
                let sent = sent(rate, len, ms);
                assert!((due..=due + len).contains(&sent), "{rate}: {sent} of {due} bytes after {ms} ms");
            }
        }
    }

    #[test]
    fn an_idle_time_is_not_made_up_for_by_a_burst_but_a_debt_is_forgotten() {
        let mut bucket = Bucket::new(Rate::kbit(800));
        bucket.resume(Time::ZERO + Duration::from_secs(5));
        assert!(!bucket.allows(Time::ZERO + Duration::from_secs(5)));
        let tick = Time::ZERO + Duration::from_millis(5_001);
        assert!(bucket.allows(tick));
        bucket.spend(Bytes::new(1_500));
        assert!(!bucket.allows(tick + Duration::from_millis(14)), "1500 bytes take 15 ms at 100 bytes a tick");
        assert!(bucket.allows(tick + Duration::from_millis(15)));
        bucket.drain();
        assert!(!bucket.allows(tick + Duration::from_millis(15)));
    }
}
