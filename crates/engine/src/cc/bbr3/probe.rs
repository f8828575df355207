//! Probing: for the rate, in a cycle of four states (s5.3.3 of the draft), and for the shortest round trip (s5.3.4).

use super::{Bbr3, State, WINDOW_MIN};
use crate::cc::RateSample;
use crate::time::{Duration, Time};
use crate::units::Rate;

/// The part of the long-term bound that is left to others outside of probes, in percent (s2.6, Headroom).
const HEADROOM_PERCENT: u64 = 15;
/// The least time between two probes, and what chance adds to it (s5.3.3.5.3, PickProbeWait).
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_CHANCE_NS: u64 = 1_000_000_000;
/// Round trips after which Reno would have caused a loss, at the most (s5.3.3.5.3, IsRenoCoexistenceProbeTime).
const RENO_ROUNDS_MAX: u64 = 63;
/// Round trips in a probe after which the bound grows no faster (s5.3.3.6, RaiseInflightLongtermSlope).
const SLOPE_ROUNDS_MAX: u32 = 30;
/// The least time of a search for the shortest round trip (s2.14.2, ProbeRTTDuration).
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// The meaning of what comes in with regard to the probe (s2.12, ack_phase).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Feedback {
    /// Nothing of a probe.
    #[default]
    None,
    /// Of what refills the path.
    Refilling,
    /// The probe has begun, nothing of it came yet.
    Starting,
    /// Of the probe.
    Probing,
    /// The probe is over, and still of it.
    Stopping,
}

/// The state of the cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    feedback: Feedback,
    /// What comes was sent in a probe, whose losses have not been answered [is_bw_probe_sample].
    pub(super) is_sampled: bool,
    /// The last probe lost too much [prev_probe_too_high].
    pub(super) was_too_high: bool,
    /// The last probe ended as soon as as much was in flight as had been too much before [prev_probe_precautionary].
    was_cautious: bool,
    /// Bytes acknowledged since the long-term bound grew, how many it takes, and round trips in which it has grown.
    acked: u64,
    acked_per_segment: u64,
    pub(super) slope_rounds: u32,
    /// Round trips since the last probe, the time that it began to drain, and the time to wait.
    pub(super) rounds_since: u64,
    since: Time,
    wait: Duration,
    /// When the search for the shortest round trip may end, once the window is small enough, and whether a round trip has
    /// passed since.
    rtt_until: Option<Time>,
    rtt_round_over: bool,
}

impl Bbr3 {
    /// [StartProbeBW_DOWN], and [PickProbeWait].
    pub(super) fn start_down(&mut self, now: Time) {
        self.losses.reset();
        // No two flows come here in the same nanosecond, having delivered as much; and a run is repeatable.
        let mixed = (now.as_nanos() ^ self.delivered.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let probe = &mut self.probe;
        probe.acked_per_segment = u64::MAX;
        probe.rounds_since = mixed >> 63;
        probe.wait = WAIT_MIN + Duration::from_nanos((mixed >> 24) % WAIT_CHANCE_NS);
        probe.since = now;
        probe.feedback = Feedback::Stopping;
        self.rounds.start(self.delivered);
        self.state = State::Down;
    }

    /// [StartProbeBW_REFILL].
    pub(super) fn start_refill(&mut self) {
        self.forget_short_term();
        self.probe.slope_rounds = 0;
        self.probe.acked = 0;
        self.probe.was_cautious = false;
        self.probe.feedback = Feedback::Refilling;
        self.rounds.start(self.delivered);
        self.state = State::Refill;
    }

    /// [StartProbeBW_UP].
    fn start_up(&mut self, sample: &RateSample) {
        self.probe.is_sampled = true;
        self.probe.feedback = Feedback::Starting;
        self.rounds.start(self.delivered);
        self.full_rate.search(sample.rate.map_or(0, Rate::get));
        self.state = State::Up;
        self.raise_slope();
    }

    /// [UpdateProbeBWCyclePhase].
    pub(super) fn update_cycle(&mut self, sample: &RateSample) {
        if !self.full_rate.was_reached || self.adapt_long_term(sample) {
            return;
        }
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.is_time_to_probe(sample.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise(sample) => self.state = State::Cruise,
            // After a round trip the path is full.
            State::Refill if self.rounds.has_begun => self.start_up(sample),
            State::Up if self.is_time_to_go_down(sample) => {
                self.probe.was_too_high = false;
                self.start_down(sample.now);
            }
            _ => {}
        }
    }

    /// [IsTimeToProbeBW].
    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno = (self.target() / self.mss).min(RENO_ROUNDS_MAX);
        now > self.probe_due() || self.probe.rounds_since >= reno
    }

    /// The time of the next probe at the latest.
    pub(super) fn probe_due(&self) -> Time {
        self.probe.since + self.probe.wait
    }

    /// [IsTimeToCruise].
    fn is_time_to_cruise(&self, sample: &RateSample) -> bool {
        let in_flight = sample.in_flight.get();
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_rate.most())
    }

    /// [IsTimeToGoDown].
    fn is_time_to_go_down(&mut self, sample: &RateSample) -> bool {
        if self.probe.was_too_high && sample.in_flight.get() >= self.bounds.inflight_long {
            self.probe.was_cautious = true;
            return true;
        }
        if self.is_window_limited() && self.cwnd >= self.bounds.inflight_long {
            // The bound, and not the path, limits the rate.
            self.full_rate.search(sample.rate.map_or(0, Rate::get));
            return false;
        }
        self.full_rate.is_reached
    }

    /// [InflightWithHeadroom].
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        let long = self.bounds.inflight_long;
        if long == u64::MAX {
            return long;
        }
        let headroom = (long * HEADROOM_PERCENT / 100).max(self.mss);
        long.saturating_sub(headroom).max(WINDOW_MIN * self.mss)
    }

    /// [RaiseInflightLongtermSlope]: a segment in the first round trip, then two, four, eight.
    fn raise_slope(&mut self) {
        let segments = 1 << self.probe.slope_rounds;
        self.probe.slope_rounds = (self.probe.slope_rounds + 1).min(SLOPE_ROUNDS_MAX);
        self.probe.acked_per_segment = (self.cwnd / segments).max(self.mss);
    }

    /// [ProbeInflightLongtermUpward].
    fn raise_long_term(&mut self, sample: &RateSample) {
        if !self.is_window_limited() || self.cwnd < self.bounds.inflight_long {
            return;
        }
        let probe = &mut self.probe;
        probe.acked += sample.acked.get();
        self.bounds.inflight_long += probe.acked / probe.acked_per_segment * self.mss;
        probe.acked %= probe.acked_per_segment;
        if self.rounds.has_begun {
            self.raise_slope();
        }
    }

    /// [AdaptLongTermModel]; true if it has decided on the next state.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        let has_begun = self.rounds.has_begun;
        if self.probe.feedback == Feedback::Starting && has_begun {
            self.probe.feedback = Feedback::Probing;
        }
        if self.probe.feedback == Feedback::Stopping && has_begun {
            self.probe.is_sampled = false;
            self.probe.feedback = Feedback::None;
            if self.state.probes_rate() && !sample.is_app_limited {
                self.max_rate.advance();
            }
            if self.state.probes_rate() && self.probe.was_cautious && !self.probe.was_too_high {
                self.start_refill();
                return true;
            }
        }
        if !self.is_inflight_too_high(sample) && self.bounds.inflight_long != u64::MAX {
            self.bounds.inflight_long = self.bounds.inflight_long.max(sample.sent_in_flight.get());
            if self.state == State::Up {
                self.raise_long_term(sample);
            }
        }
        false
    }

    /// [CheckProbeRTT].
    pub(super) fn check_probe_rtt(&mut self, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.round_trip.is_old && !self.resumes {
            self.state = State::ProbeRtt;
            self.keep_window();
            self.probe.rtt_until = None;
            self.probe.feedback = Feedback::Stopping;
            self.rounds.start(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.probe_rtt(sample);
        }
        if sample.acked.get() > 0 {
            self.resumes = false;
        }
    }

    /// [HandleProbeRTT].
    fn probe_rtt(&mut self, sample: &RateSample) {
        if self.probe.rtt_until.is_none() {
            if sample.in_flight.get() <= self.probe_rtt_window() {
                self.probe.rtt_until = Some(sample.now + PROBE_RTT_TIME);
                self.probe.rtt_round_over = false;
                self.rounds.start(self.delivered);
            }
            return;
        }
        self.probe.rtt_round_over |= self.rounds.has_begun;
        if self.probe.rtt_round_over {
            self.leave_probe_rtt(sample.now);
        }
    }

    /// [CheckProbeRTTDone], [ExitProbeRTT].
    pub(super) fn leave_probe_rtt(&mut self, now: Time) {
        if self.probe.rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.round_trip.recent_at = now;
        self.restore_window();
        self.forget_short_term();
        if self.full_rate.was_reached {
            // What is in flight is less than the path holds: nothing is left to drain.
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
