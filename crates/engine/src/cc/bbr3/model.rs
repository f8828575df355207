//! What BBRv3 knows of the path without losses: its rate, its round trip, and how acknowledgements come (s5.5 of the draft).

use super::Bbr3;
use crate::cc::RateSample;
use crate::cc::max_filter::MaxFilter;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// The path is full once its rate has not grown by a quarter in three round trips (s5.3.1.2).
const FULL_ROUNDS: u32 = 3;
/// The time for which a round trip is believed to be the shortest (s2.14.1, MinRTTFilterLen).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The time after which the queue shall have been empty once (s2.14.2, ProbeRTTInterval).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Round trips over which the most is taken of what was acknowledged early (s2.11, ExtraAckedFilterLen), and before the path
/// was full once (s5.5.9).
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_ROUNDS_AT_START: u64 = 1;

/// Round trips by packets (s5.5.1): each ends once something is delivered that was sent after it began.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// The last acknowledgement began one.
    pub(super) has_begun: bool,
    /// Bytes that had been delivered when the one under way began [next_round_delivered].
    from: u64,
}

impl Rounds {
    /// [StartRound].
    pub(super) fn start(&mut self, delivered: u64) {
        self.from = delivered;
    }
}

/// The most that was delivered in this cycle of probing and in the one before [bit/s] (s5.5.5).
#[derive(Clone, Debug, Default)]
pub(super) struct MaxRate([u64; 2]);

impl MaxRate {
    pub(super) fn most(&self) -> u64 {
        self.0[0].max(self.0[1])
    }

    fn push(&mut self, rate: u64) {
        self.0[1] = self.0[1].max(rate);
    }

    /// [AdvanceMaxBwFilter]. A cycle without a sample forgets nothing.
    pub(super) fn advance(&mut self) {
        if self.0[1] > 0 {
            self.0 = [self.0[1], 0];
        }
    }
}

/// Whether the rate still grows (s5.3.1.2).
#[derive(Clone, Debug, Default)]
pub(super) struct FullRate {
    /// It has been full once in the connection's life [full_bw_reached].
    pub(super) was_reached: bool,
    /// It is full as far as this search shows [full_bw_now].
    pub(super) is_reached: bool,
    /// The rate when it last grew [bit/s], and round trips since.
    base: u64,
    pub(super) rounds: u32,
}

impl FullRate {
    /// [ResetFullBW], with a rate to begin with.
    pub(super) fn search(&mut self, base: u64) {
        *self = FullRate { was_reached: self.was_reached, is_reached: false, base, rounds: 0 };
    }
}

/// The shortest round trip, and whether it is time to look for it (s5.3.4.3).
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrip {
    /// The shortest of the last ten seconds [min_rtt], and since when.
    pub(super) least: Option<Duration>,
    least_at: Time,
    /// The shortest of the last five seconds [probe_rtt_min_delay], and since when.
    recent: Option<Duration>,
    pub(super) recent_at: Time,
    /// The latter is too old [probe_rtt_expired].
    pub(super) is_old: bool,
}

impl RoundTrip {
    /// The connection begins to send.
    pub(super) fn begin(&mut self, now: Time) {
        self.least_at = now;
        self.recent_at = now;
    }

    /// [UpdateMinRTT].
    pub(super) fn on_ack(&mut self, sample: &RateSample) {
        self.is_old = sample.now > self.recent_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = sample.rtt
            && (self.is_old || self.recent.is_none_or(|recent| rtt < recent))
        {
            self.recent = Some(rtt);
            self.recent_at = sample.now;
        }
        let is_expired = sample.now > self.least_at + MIN_RTT_WINDOW;
        if let Some(recent) = self.recent
            && (is_expired || self.least.is_none_or(|least| recent < least))
        {
            self.least = Some(recent);
            self.least_at = self.recent_at;
        }
    }
}

/// How much more was acknowledged than the rate would have delivered in the same time (s5.5.9).
#[derive(Clone, Debug, Default)]
pub(super) struct ExtraAcked {
    filter: MaxFilter,
    pub(super) since: Time,
    delivered: u64,
}

impl ExtraAcked {
    /// [UpdateACKAggregation].
    pub(super) fn on_ack(&mut self, sample: &RateSample, rate: Rate, window: u64, round: u64, was_full: bool) {
        let mut expected = rate.bytes_in(sample.now.since(self.since)).get();
        if self.delivered <= expected {
            self.delivered = 0;
            self.since = sample.now;
            expected = 0;
        }
        self.delivered += sample.acked.get();
        let extra = self.delivered.saturating_sub(expected).min(window);
        let rounds = if was_full { EXTRA_ACKED_ROUNDS } else { EXTRA_ACKED_ROUNDS_AT_START };
        self.filter.push(round, extra, rounds);
    }

    /// Bytes to add to a window.
    pub(super) fn most(&self) -> u64 {
        self.filter.max()
    }
}

impl Bbr3 {
    /// [UpdateMaxBw], [UpdateRound].
    pub(super) fn update_rate(&mut self, sample: &RateSample) {
        self.rounds.has_begun = false;
        if sample.acked == Bytes::ZERO {
            return;
        }
        if sample.prior_delivered.get() >= self.rounds.from {
            self.rounds.start(self.delivered);
            self.rounds.count += 1;
            self.rounds.has_begun = true;
            self.probe.rounds_since += 1;
            self.window_full = [false, self.window_full[0]];
        }
        // A sender that was kept waiting can only show that the path is faster.
        if let Some(rate) = sample.rate.map(Rate::get)
            && (rate >= self.max_rate.most() || !sample.is_app_limited)
        {
            self.max_rate.push(rate);
        }
    }

    /// [CheckFullBWReached].
    pub(super) fn update_full_rate(&mut self, sample: &RateSample) {
        let full = &mut self.full_rate;
        if full.is_reached || !self.rounds.has_begun || sample.is_app_limited {
            return;
        }
        let rate = sample.rate.map_or(0, Rate::get);
        if u128::from(rate) * 4 >= u128::from(full.base) * 5 {
            full.search(rate);
            return;
        }
        full.rounds += 1;
        full.is_reached = full.rounds >= FULL_ROUNDS;
        full.was_reached |= full.is_reached;
    }
}
