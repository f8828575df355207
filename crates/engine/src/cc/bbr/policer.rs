//! Linux's detection of policers (`tcp_bbr.c`, its "long-term" rate): token buckets that let bursts through and drop what
//! is beyond their rate, without a queue whose delay would tell of it (Flach et al. 2016).
//!
//! From a loss on, intervals of 4 to 16 round trips are measured, each until a loss again. If in two of them one after the
//! other at least a fifth as much was lost as was delivered, and both had the same rate but for an eighth, that rate is
//! taken for the policer's: BBR keeps to it, without looking for more, for 48 round trips.

use crate::time::Time;

/// Round trips that an interval lasts at least, and four times as many at most (bbr_lt_intvl_min_rtts).
const ROUNDS_MIN: u32 = 4;
/// Lost over delivered from which on an interval is lossy, in units of 1/256: a fifth (bbr_lt_loss_thresh).
const LOSS_MIN: u64 = 50;
/// How far the rates of two intervals may be apart: an eighth (bbr_lt_bw_ratio), or 4 kbit/s (bbr_lt_bw_diff).
const RATE_SHARE: u64 = 8;
const RATE_DIFFERENCE: u64 = 4_000;
/// Round trips for which the rate is believed (bbr_lt_bw_max_rtts).
const ROUNDS_BELIEVED: u32 = 48;

/// What the connection has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// The time when something was last delivered.
    pub at: Time,
    /// Bytes delivered so far.
    pub delivered: u64,
    /// Bytes found lost so far.
    pub lost: u64,
}

/// What an acknowledgement says of losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub progress: Progress,
    /// A round trip began with it.
    pub round_started: bool,
    /// It found losses.
    pub found_loss: bool,
    pub is_app_limited: bool,
    /// The pace goes round its cycle.
    pub probes_rate: bool,
}

/// The detector, of which all is forgotten by assigning `Policer::default()`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// The rate of the last interval, or the policer's [bit/s].
    rate: Option<u64>,
    is_believed: bool,
    /// Where the interval under way began.
    began: Option<Progress>,
    rounds: u32,
}

impl Policer {
    /// The policer's rate [bit/s], while one is believed to be there.
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate.filter(|_| self.is_believed)
    }

    /// Takes an acknowledgement. True if a rate that was believed no longer is.
    pub(super) fn on_ack(&mut self, look: &Look) -> bool {
        if self.is_believed {
            self.rounds += u32::from(look.probes_rate && look.round_started);
            let has_expired = self.rounds >= ROUNDS_BELIEVED;
            if has_expired {
                *self = Policer::default();
            }
            return has_expired;
        }
        let began = match self.began {
            Some(began) => began,
            // Before the first loss the bucket is not empty.
            None if !look.found_loss => return false,
            None => {
                self.begin(look.progress);
                look.progress
            }
        };
        if look.is_app_limited {
            *self = Policer::default();
            return false;
        }
        self.rounds += u32::from(look.round_started);
        if self.rounds > 4 * ROUNDS_MIN {
            *self = Policer::default();
        } else if self.rounds >= ROUNDS_MIN && look.found_loss {
            self.end(began, look.progress);
        }
        false
    }

    fn begin(&mut self, progress: Progress) {
        self.began = Some(progress);
        self.rounds = 0;
    }

    /// Ends an interval at a loss, if it was lossy.
    fn end(&mut self, began: Progress, progress: Progress) {
        let lost = progress.lost - began.lost;
        let delivered = progress.delivered - began.delivered;
        let millis = progress.at.as_nanos() / 1_000_000 - began.at.as_nanos() / 1_000_000;
        if delivered == 0 || lost * 256 < LOSS_MIN * delivered || millis == 0 {
            return;
        }
        let rate = delivered * 8_000 / millis;
        if let Some(before) = self.rate {
            let apart = rate.abs_diff(before);
            if apart * RATE_SHARE <= before || apart <= RATE_DIFFERENCE {
                self.rate = Some(u64::midpoint(rate, before));
                self.is_believed = true;
                self.rounds = 0;
                return;
            }
        }
        self.rate = Some(rate);
        self.begin(progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 100 ms in each of which so many bytes come through and so many are lost.
    struct Line {
        policer: Policer,
        progress: Progress,
    }

    impl Line {
        fn new() -> Line {
            Line { policer: Policer::default(), progress: Progress::default() }
        }

        fn round(&mut self, delivered: u64, lost: u64) -> bool {
            self.progress.at = Time::from_nanos(self.progress.at.as_nanos() + 100_000_000);
            self.progress.delivered += delivered;
            self.progress.lost += lost;
            self.policer.on_ack(&Look {
                progress: self.progress,
                round_started: true,
                found_loss: lost > 0,
                is_app_limited: false,
                probes_rate: true,
            })
        }
    }

    #[test]
    fn two_lossy_intervals_of_one_rate_are_a_policer_for_48_round_trips() {
        let mut line = Line::new();
        for _ in 0..4 {
            line.round(100_000, 30_000);
            assert_eq!(line.policer.rate(), None);
        }
        for _ in 0..4 {
            line.round(100_000, 30_000);
        }
        assert_eq!(line.policer.rate(), Some(8_000_000));
        for _ in 0..47 {
            assert!(!line.round(200_000, 0));
        }
        assert!(line.round(200_000, 0), "forgotten");
        assert_eq!(line.policer.rate(), None);
    }

    #[test]
    fn a_loss_of_a_sixth_is_no_policers() {
        let mut line = Line::new();
        for _ in 0..200 {
            line.round(100_000, 18_000);
        }
        assert_eq!(line.policer.rate(), None);
    }

    #[test]
    fn rates_that_change_by_more_than_an_eighth_are_no_policers() {
        let mut line = Line::new();
        let mut delivered = 100_000;
        for _ in 0..8 {
            for _ in 0..4 {
                line.round(delivered, delivered / 2);
            }
            delivered = delivered * 5 / 4;
        }
        assert_eq!(line.policer.rate(), None);
    }

    #[test]
    fn a_sender_that_runs_out_of_data_begins_again() {
        let mut line = Line::new();
        for _ in 0..6 {
            line.round(100_000, 30_000);
        }
        let look = Look {
            progress: line.progress,
            round_started: false,
            found_loss: false,
            is_app_limited: true,
            probes_rate: true,
        };
        line.policer.on_ack(&look);
        for _ in 0..7 {
            line.round(100_000, 30_000);
            assert_eq!(line.policer.rate(), None);
        }
    }
}
