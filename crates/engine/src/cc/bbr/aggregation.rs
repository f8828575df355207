//! Linux's allowance for acknowledgements that come in bunches (`tcp_bbr.c`, its extra_acked): on links that gather what
//! they send, such as Wi-Fi and cable, a window of what the path holds is used up while nothing is heard. How much more
//! was acknowledged than the rate would have delivered in the same time, at most in the last 5 to 10 round trips, is
//! added to the window.

use crate::time::{Duration, Time};
use crate::units::Rate;

/// Round trips of a half of the window over which the most is taken (bbr_extra_acked_win_rtts).
const ROUNDS: u32 = 5;
/// Packets acknowledged in an epoch after which another begins (bbr_ack_epoch_acked_reset_thresh).
const EPOCH_PACKETS_MAX: u64 = 1 << 20;
/// The most that is added: what the path delivers in this time (bbr_extra_acked_max_us).
const TIME_MAX: Duration = Duration::from_millis(100);

/// The most that was acknowledged beyond what was expected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    /// The most of the half under way and of the one before [bytes].
    extra: [u64; 2],
    half: usize,
    rounds: u32,
    /// Since when acknowledgements are compared with the rate, and bytes that they acknowledged.
    since: Time,
    acked: u64,
}

impl Aggregation {
    /// Begins to compare anew, after a pause.
    pub(super) fn restart(&mut self, now: Time) {
        self.since = now;
        self.acked = 0;
    }

    /// Takes an acknowledgement of `acked` bytes, of which a window of `window` bytes bounds what may be extra.
    pub(super) fn on_ack(&mut self, now: Time, acked: u64, rate: u64, window: u64, mss: u64, round_started: bool) {
        if round_started {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.half = 1 - self.half;
                self.extra[self.half] = 0;
            }
        }
        let mut expected = Rate::bit(rate).bytes_in(now.since(self.since)).get();
        if self.acked <= expected || self.acked + acked >= EPOCH_PACKETS_MAX * mss {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        let extra = self.acked.saturating_sub(expected).min(window);
        self.extra[self.half] = self.extra[self.half].max(extra);
    }

    /// Bytes to add to a window.
    pub(super) fn allowance(&self, rate: u64) -> u64 {
        self.extra[0].max(self.extra[1]).min(Rate::bit(rate).bytes_in(TIME_MAX).get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 8_000_000;
    const MSS: u64 = 1_000;

    /// Acknowledgements of `bunch` segments each, at a steady rate of a segment a millisecond.
    fn bunched(aggregation: &mut Aggregation, from_ms: u64, to_ms: u64, bunch: u64) {
        for ms in (from_ms..to_ms).step_by(usize::try_from(bunch).expect("small")) {
            let now = Time::from_nanos(ms * 1_000_000);
            aggregation.on_ack(now, bunch * MSS, RATE, 1_000_000, MSS, ms % 50 == 0);
        }
    }

    #[test]
    fn a_bunch_is_allowed_for_and_forgotten_after_ten_round_trips() {
        let mut aggregation = Aggregation::default();
        bunched(&mut aggregation, 0, 1_000, 25);
        let allowed = aggregation.allowance(RATE) / MSS;
        assert!((25..=50).contains(&allowed), "{allowed} segments for bunches of 25");
        bunched(&mut aggregation, 1_000, 2_000, 1);
        assert!(aggregation.allowance(RATE) <= 2 * MSS, "{}", aggregation.allowance(RATE));
    }

    #[test]
    fn no_more_is_allowed_for_than_the_path_delivers_in_100_ms() {
        let mut aggregation = Aggregation::default();
        bunched(&mut aggregation, 0, 4_000, 250);
        assert_eq!(aggregation.allowance(RATE), 100 * MSS);
    }
}
