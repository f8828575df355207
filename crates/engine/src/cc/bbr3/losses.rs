//! What losses tell BBRv3 (s5.5.10 and s5.5.11 of the draft): how much in flight is too much while it probes, and how far to
//! slow down while it does not.

use super::{Bbr3, State};
use crate::cc::{Lost, RateSample};
use crate::time::Time;
use crate::units::Rate;

/// The losses of a round trip while probing that are too many: 2% (s2.6, LossThresh).
const LOSS_PERCENT: u64 = 2;
/// The least that a round trip with losses leaves of a bound, in tenths (s2.6, Beta).
const BETA_TENTHS: u64 = 7;
/// Losses apart from each other in a round trip that end the start (s5.3.1.3, BBRStartupFullLossCnt).
const STARTUP_LOSSES: u32 = 6;

/// The bounds of both models; `u64::MAX` for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes in flight at which a probe lost no more than it may [inflight_longterm].
    pub(super) inflight_long: u64,
    /// Bytes in flight [inflight_shortterm] and rate [bit/s; bw_shortterm] since the last probe.
    pub(super) inflight_short: u64,
    pub(super) rate_short: u64,
}

impl Bounds {
    pub(super) const NONE: Bounds = Bounds { inflight_long: u64::MAX, inflight_short: u64::MAX, rate_short: u64::MAX };
}

/// The repair of losses, if one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Not,
    /// The loss was noticed just now.
    Noticed,
    /// Until all before this place is acknowledged; of a fast recovery also the bytes delivered when it began.
    Until {
        end: u64,
        from: Option<u64>,
    },
}

/// The round trip with regard to losses (s5.5.10.3): the most delivered in it, and whether something was lost.
#[derive(Clone, Debug)]
pub(super) struct LossRound {
    /// Bytes that had been delivered when it began [loss_round_delivered].
    from: u64,
    /// The last acknowledgement ended it [loss_round_start].
    has_ended: bool,
    /// Something was lost [is_loss_in_round].
    is_lossy: bool,
    /// The most of its samples [bw_latest, in bit/s; inflight_latest, in bytes].
    rate: u64,
    pub(super) inflight: u64,
    /// The number of its losses that are apart from each other, and where the last one ended.
    ranges: u32,
    last_end: u64,
    /// Losses were told one by one since the last acknowledgement.
    is_told: bool,
    /// The bounds and the state before: to go back to if nothing had been lost.
    pub(super) before: Bounds,
    left: Option<State>,
}

impl Default for LossRound {
    fn default() -> LossRound {
        LossRound {
            from: 0,
            has_ended: false,
            is_lossy: false,
            rate: 0,
            inflight: 0,
            ranges: 0,
            last_end: 0,
            is_told: false,
            before: Bounds { inflight_long: 0, inflight_short: 0, rate_short: 0 },
            left: None,
        }
    }
}

impl LossRound {
    /// [ResetCongestionSignals].
    pub(super) fn reset(&mut self) {
        self.is_lossy = false;
        self.rate = 0;
        self.inflight = 0;
    }
}

/// True if so many bytes lost, of so many in flight, are too many [IsInflightTooHigh].
pub(super) fn is_too_much(lost: u64, in_flight: u64) -> bool {
    u128::from(lost) * 100 > u128::from(in_flight) * u128::from(LOSS_PERCENT)
}

/// The bytes in flight at which losses became too many, within a segment or several [InflightAtLoss].
pub(super) fn inflight_at_loss(in_flight: u64, lost: u64, size: u64) -> u64 {
    let before = in_flight.saturating_sub(size);
    let lost_before = lost.saturating_sub(size);
    before + (before * LOSS_PERCENT).saturating_sub(lost_before * 100) / (100 - LOSS_PERCENT)
}

impl Bbr3 {
    /// [SaveStateUponLoss].
    pub(super) fn keep_state(&mut self) {
        self.keep_window();
        self.losses.left = None;
        self.losses.before = self.bounds;
    }

    /// [NoteLoss].
    fn note_loss(&mut self) {
        if !self.losses.is_lossy {
            self.losses.from = self.delivered;
            self.keep_state();
        }
        self.losses.is_lossy = true;
    }

    /// [HandleLostPacket].
    pub(super) fn take_loss(&mut self, lost: &Lost) {
        self.delivered = lost.delivered.get();
        self.losses.is_told = true;
        if lost.start != self.losses.last_end {
            self.losses.ranges += 1;
        }
        self.losses.last_end = lost.end;
        self.note_loss();
        let (since, sent) = (lost.lost_since.get(), lost.sent_in_flight.get());
        if self.probe.is_sampled && is_too_much(since, sent) {
            let inflight = inflight_at_loss(sent, since, lost.end - lost.start);
            self.inflight_is_too_high(lost.now, inflight, lost.is_app_limited);
        }
    }

    /// Losses of which a sender knows no more than that there are: without SACK any is too much [IsInflightTooHigh]. A circuit
    /// knows how many.
    pub(super) fn take_untold_loss(&mut self, sample: &RateSample) {
        if std::mem::take(&mut self.losses.is_told) {
            return;
        }
        let lost = if self.selective { sample.lost.get() } else { 0 };
        let is_blind = !self.selective && self.repair == Repair::Noticed;
        if lost == 0 && !is_blind {
            return;
        }
        self.losses.ranges += 1;
        self.note_loss();
        let (since, sent) = (sample.lost_since.get(), sample.sent_in_flight.get());
        if self.probe.is_sampled && (is_blind || is_too_much(since, sent)) {
            self.inflight_is_too_high(sample.now, inflight_at_loss(sent, since, lost), sample.is_app_limited);
        }
    }

    /// [HandleInflightTooHigh].
    fn inflight_is_too_high(&mut self, now: Time, inflight: u64, is_app_limited: bool) {
        self.probe.was_too_high = true;
        self.probe.is_sampled = false;
        if !is_app_limited {
            self.bounds.inflight_long = inflight.max(self.target() * BETA_TENTHS / 10);
        }
        if self.state == State::Up {
            self.losses.left = Some(State::Up);
            self.start_down(now);
        }
    }

    /// [AdaptLongTermModel]'s question whether the bound may grow.
    pub(super) fn is_inflight_too_high(&self, sample: &RateSample) -> bool {
        is_too_much(sample.lost_since.get(), sample.sent_in_flight.get())
    }

    /// [CheckStartupHighLoss].
    pub(super) fn check_startup_losses(&mut self, sample: &RateSample) {
        // Of each round apart, whether or not it is one of repair.
        let ranges = if self.losses.has_ended { std::mem::take(&mut self.losses.ranges) } else { 0 };
        let Repair::Until { from: Some(from), .. } = self.repair else { return };
        let is_full_round = sample.prior_delivered.get() >= from;
        let has_lost = ranges >= STARTUP_LOSSES && is_full_round && self.is_inflight_too_high(sample);
        if self.state != State::Startup || self.full_rate.was_reached || self.selective && !has_lost {
            return;
        }
        self.losses.left = Some(State::Startup);
        self.full_rate.is_reached = true;
        self.full_rate.was_reached = true;
        self.bounds.inflight_long = self.held(self.rate, 100).max(self.losses.inflight);
    }

    /// [UpdateLatestDeliverySignals].
    pub(super) fn update_latest(&mut self, sample: &RateSample) {
        self.losses.has_ended = false;
        if sample.acked.get() == 0 {
            return;
        }
        self.losses.rate = self.losses.rate.max(sample.rate.map_or(0, Rate::get));
        self.losses.inflight = self.losses.inflight.max(delivered_since(sample));
        if sample.prior_delivered.get() >= self.losses.from {
            self.losses.from = self.delivered;
            self.losses.has_ended = true;
        }
    }

    /// [AdvanceLatestDeliverySignals].
    pub(super) fn advance_latest(&mut self, sample: &RateSample) {
        if self.losses.has_ended {
            self.losses.rate = sample.rate.map_or(0, Rate::get);
            self.losses.inflight = delivered_since(sample);
        }
    }

    /// [UpdateCongestionSignals], [AdaptLowerBoundsFromCongestion]: once a round trip, and not while it probes.
    pub(super) fn update_bounds(&mut self) {
        if !self.losses.has_ended {
            return;
        }
        let is_lossy = std::mem::take(&mut self.losses.is_lossy);
        if !is_lossy || self.state.accelerates() {
            return;
        }
        let bounds = &mut self.bounds;
        if bounds.rate_short == u64::MAX {
            bounds.rate_short = self.max_rate.most();
        }
        if bounds.inflight_short == u64::MAX {
            bounds.inflight_short = self.cwnd;
        }
        bounds.rate_short = self.losses.rate.max(bounds.rate_short / 10 * BETA_TENTHS);
        bounds.inflight_short = self.losses.inflight.max(bounds.inflight_short * BETA_TENTHS / 10);
    }

    /// [ResetShortTermModel].
    pub(super) fn forget_short_term(&mut self) {
        self.bounds = Bounds { inflight_long: self.bounds.inflight_long, ..Bounds::NONE };
    }

    /// Follows the repair: once all is repaired, the window is what it was.
    pub(super) fn settle_repair(&mut self, sample: &RateSample) {
        match self.repair {
            Repair::Noticed => self.repair = Repair::Until { end: sample.sent, from: Some(self.delivered) },
            // A time-out: the first acknowledgement after it says how far it went.
            Repair::Until { end: u64::MAX, from } => self.repair = Repair::Until { end: sample.sent, from },
            Repair::Until { end, .. } if sample.una >= end => {
                self.repair = Repair::Not;
                self.restore_window();
            }
            Repair::Until { .. } | Repair::Not => {}
        }
    }

    /// [HandleSpuriousLossDetection].
    pub(super) fn undo(&mut self) {
        self.repair = Repair::Not;
        self.restore_window();
        self.losses.is_lossy = false;
        self.full_rate.search(0);
        let (bounds, before) = (&mut self.bounds, self.losses.before);
        bounds.rate_short = bounds.rate_short.max(before.rate_short);
        bounds.inflight_short = bounds.inflight_short.max(before.inflight_short);
        bounds.inflight_long = bounds.inflight_long.max(before.inflight_long);
        match self.losses.left.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_rate.was_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(),
            _ => {}
        }
    }
}

/// RS.delivered: bytes delivered from when the segment left that a sample is of.
fn delivered_since(sample: &RateSample) -> u64 {
    sample.delivered.get() - sample.prior_delivered.get()
}
