//! BBR, version 3 ([draft-ietf-ccwg-bbr-06](https://datatracker.ietf.org/doc/html/draft-ietf-ccwg-bbr-06), with the changes of
//! its repository up to August 2026): the model of version 1, and bounds that follow from losses.
//!
//! Two models bound what is sent. The long-term one has the rate that the path delivered in this cycle of probing and the one
//! before, and the most in flight at which no more than 2% were lost while it was probed. The short-term one follows losses
//! between two probes, by at most 0.7 each round trip, and is forgotten with the next probe. A probe is a quarter faster until
//! the rate grows no more or too much is lost, and comes every two to three seconds, or as often as Reno would cause a loss on
//! so short a path, at most every 63 round trips. Every five seconds the window is half of what the path holds for 200 ms.
//!
//! Names in `[...]` or with capitals are the draft's. Windows are in bytes, as it recommends. Where it asks for chance, that
//! comes from the time, as in [`bbr`](super::bbr). What it leaves to the sender is as for version 1: the pace is that of the
//! path from the first segment on, and recovery holds the controller's window.

mod losses;
mod model;
mod probe;
#[cfg(test)]
mod tests;

use super::{Ack, Cause, Congestion, Controller, Factory, Lost, RateSample, Setup};
use crate::part::{Description, Mistake, Part, Values};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};
use losses::{Bounds, LossRound, Repair};
use model::{ExtraAcked, FullRate, MaxRate, RoundTrip, Rounds};
use probe::Probe;

/// The time that the pace takes for a round trip before one has been measured (s5.6.2, InitPacingRate).
const RTT_UNKNOWN: Duration = Duration::from_millis(1);
/// The least window, in segments (s2.6, MinPipeCwnd).
const WINDOW_MIN: u64 = 4;
/// The pace over the rate, in percent: 1% below (s2.4, PacingMarginPercent).
const PACED: u64 = 99;
/// The most that leaves as one (s5.6.3, SetSendQuantum).
const QUANTUM_MAX: u64 = 65_536;

/// The states of the draft's machine (s5.1.1). Gains are in percent (s5.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The rate doubles each round trip.
    Startup,
    /// The queue that this made drains.
    Drain,
    /// ProbeBW_DOWN: what the probe put into the queue drains.
    Down,
    /// ProbeBW_CRUISE: as fast as the path delivers.
    Cruise,
    /// ProbeBW_REFILL: a round trip without the short-term bounds, so that the path is full when the probe begins.
    Refill,
    /// ProbeBW_UP: a quarter faster.
    Up,
    /// ProbeRTT: half of what the path holds, so that the queue drains.
    ProbeRtt,
}

impl State {
    fn pacing_gain(self) -> u64 {
        match self {
            State::Startup => 277,
            State::Drain => 50,
            State::Down => 90,
            State::Up => 125,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
        }
    }

    fn window_gain(self) -> u64 {
        match self {
            State::Up => 225,
            State::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// [IsInAProbeBWState].
    fn probes_rate(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// [IsProbingBW]: losses tell how much is too much, and bound nothing for now.
    fn accelerates(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// The parameters of BBRv3: it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters;

impl Parameters {
    /// The only value.
    pub const DEFAULT: Parameters = Parameters;
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "bbr3",
        doc: "BBR with bounds that follow from losses, version 3 (draft-ietf-ccwg-bbr-06).",
        fields: &[],
    };

    fn read(_values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters)
    }
}

impl Factory for Parameters {
    fn name(&self) -> &str {
        Parameters::DESCRIPTION.name
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Bbr3::new(setup))
    }
}

/// BBRv3's models, pace and window.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    mss: u64,
    initial: u64,
    selective: bool,
    state: State,
    /// C.pacing_rate [bit/s].
    pace: u64,
    has_paced_by_rtt: bool,
    cwnd: u64,
    /// The window before losses or a search for the shortest round trip [prior_cwnd].
    cwnd_before: u64,
    /// C.delivered: bytes delivered so far.
    delivered: u64,
    /// The application has had no more to send (C.app_limited).
    runs_dry: bool,
    /// The window was full in the round trip under way, and in the one before (C.is_cwnd_limited).
    window_full: [bool; 2],
    has_sent: bool,
    /// The sender began again after a pause [idle_restart].
    resumes: bool,
    rounds: Rounds,
    max_rate: MaxRate,
    /// The lesser of `max_rate` and the short-term bound, as of the last acknowledgement [bw].
    rate: u64,
    full_rate: FullRate,
    round_trip: RoundTrip,
    extra_acked: ExtraAcked,
    bounds: Bounds,
    losses: LossRound,
    repair: Repair,
    probe: Probe,
    /// The round trip with which Drain began.
    drain_from: u64,
}

impl Bbr3 {
    /// A controller at its initial window.
    pub fn new(setup: &Setup) -> Bbr3 {
        let mss = setup.mss.get().max(1);
        let initial = setup.initial_window.get().max(mss);
        let mut bbr = Bbr3 {
            mss,
            initial,
            selective: setup.selective,
            state: State::Startup,
            pace: 0,
            has_paced_by_rtt: false,
            cwnd: initial,
            cwnd_before: 0,
            delivered: 0,
            runs_dry: false,
            window_full: [false; 2],
            has_sent: false,
            resumes: false,
            rounds: Rounds::default(),
            max_rate: MaxRate::default(),
            rate: 0,
            full_rate: FullRate::default(),
            round_trip: RoundTrip::default(),
            extra_acked: ExtraAcked::default(),
            bounds: Bounds::NONE,
            losses: LossRound::default(),
            repair: Repair::Not,
            probe: Probe::default(),
            drain_from: 0,
        };
        bbr.pace_by_rtt(RTT_UNKNOWN);
        bbr
    }

    /// [InitPacingRate].
    fn pace_by_rtt(&mut self, rtt: Duration) {
        let bits = u128::from(self.initial) * 8_000_000_000 / u128::from(rtt.as_nanos().max(1));
        let bits = bits * u128::from(State::Startup.pacing_gain()) / 100;
        self.pace = u64::try_from(bits).unwrap_or(u64::MAX).max(1);
    }

    /// [SetPacingRateWithGain]: never slower before the path was full once.
    fn pace_at(&mut self, gain: u64) {
        let pace = u128::from(self.rate) * u128::from(gain * PACED) / 10_000;
        let pace = u64::try_from(pace).unwrap_or(u64::MAX);
        if pace > 0 && (self.full_rate.was_reached || pace > self.pace) {
            self.pace = pace;
        }
    }

    /// [SetSendQuantum]: what leaves in a millisecond.
    fn quantum(&self) -> u64 {
        (self.pace / 8_000).min(QUANTUM_MAX).max(2 * self.mss)
    }

    /// Bytes that the path holds at this rate, times `gain` [BDPMultiple].
    fn held(&self, rate: u64, gain: u64) -> u64 {
        let Some(least) = self.round_trip.least else { return self.initial };
        let held = u128::from(Rate::bit(rate).bytes_in(least).get()) * u128::from(gain) / 100;
        u64::try_from(held).unwrap_or(u64::MAX)
    }

    /// [QuantizationBudget]: room for three bursts (s5.5.8), and for the least window.
    fn with_bursts(&self, bytes: u64) -> u64 {
        let bytes = bytes.max(3 * self.quantum()).max(WINDOW_MIN * self.mss);
        if self.state == State::Up { bytes + 2 * self.mss } else { bytes }
    }

    /// [Inflight] of 1 at this rate.
    fn inflight(&self, rate: u64) -> u64 {
        self.with_bursts(self.held(rate, 100))
    }

    /// [UpdateMaxInflight].
    fn inflight_max(&self) -> u64 {
        self.with_bursts(self.held(self.rate, self.state.window_gain()).saturating_add(self.extra_acked.most()))
    }

    /// [TargetInflight].
    fn target(&self) -> u64 {
        self.held(self.rate, 100).min(self.cwnd)
    }

    /// [ProbeRTTCwnd].
    fn probe_rtt_window(&self) -> u64 {
        self.held(self.rate, State::ProbeRtt.window_gain()).max(WINDOW_MIN * self.mss)
    }

    /// [SaveCwnd].
    fn keep_window(&mut self) {
        let is_whole = self.repair == Repair::Not && self.state != State::ProbeRtt;
        self.cwnd_before = if is_whole { self.cwnd } else { self.cwnd_before.max(self.cwnd) };
    }

    /// [RestoreCwnd].
    fn restore_window(&mut self) {
        self.cwnd = self.cwnd.max(self.cwnd_before);
    }

    /// [SetCwnd].
    fn update_window(&mut self, sample: &RateSample) {
        let (acked, most) = (sample.acked.get(), self.inflight_max());
        if self.full_rate.was_reached {
            self.cwnd = (self.cwnd + acked).min(most);
        } else if self.cwnd < most || self.delivered < self.initial {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.max(WINDOW_MIN * self.mss);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_window());
        }
        self.bound_window();
    }

    /// [BoundCwndForModel].
    fn bound_window(&mut self) {
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.inflight_long,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        self.cwnd = self.cwnd.min(long.min(self.bounds.inflight_short).max(WINDOW_MIN * self.mss));
    }

    /// [UpdateModelAndState].
    fn update_model(&mut self, sample: &RateSample) {
        self.update_latest(sample);
        self.update_rate(sample);
        self.update_bounds();
        self.extra_acked.on_ack(sample, Rate::bit(self.rate), self.cwnd, self.rounds.count, self.full_rate.was_reached);
        self.update_full_rate(sample);
        self.check_startup(sample);
        self.check_drain(sample);
        if sample.acked > Bytes::ZERO {
            self.update_cycle(sample);
        }
        self.round_trip.on_ack(sample);
        self.check_probe_rtt(sample);
        self.advance_latest(sample);
        self.rate = self.max_rate.most().min(self.bounds.rate_short);
    }

    /// [CheckStartupDone].
    fn check_startup(&mut self, sample: &RateSample) {
        self.check_startup_losses(sample);
        if self.state == State::Startup && self.full_rate.was_reached {
            self.state = State::Drain;
            self.drain_from = self.rounds.count;
        }
    }

    /// [CheckDrainDone]: as many round trips at most as overestimates of the rate need (s5.3.2).
    fn check_drain(&mut self, sample: &RateSample) {
        let is_empty = sample.in_flight.get() <= self.inflight(self.rate);
        if self.state == State::Drain && (is_empty || self.rounds.count > self.drain_from + 3) {
            self.start_down(sample.now);
        }
    }

    /// [HandleRestartFromIdle].
    fn restart(&mut self, now: Time) {
        self.resumes = true;
        self.extra_acked.since = now;
        if self.state.probes_rate() {
            self.pace_at(100);
        } else if self.state == State::ProbeRtt {
            self.leave_probe_rtt(now);
        }
    }

    /// True if the window was full at some time in the last round trip (C.is_cwnd_limited).
    fn is_window_limited(&self) -> bool {
        self.window_full[0] || self.window_full[1]
    }
}

impl Controller for Bbr3 {
    fn on_established(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.round_trip.least = Some(rtt);
            self.has_paced_by_rtt = true;
            self.pace_by_rtt(rtt);
        }
    }

    fn on_sent(&mut self, now: Time, len: Bytes, in_flight: Bytes) {
        if !self.has_sent {
            self.has_sent = true;
            self.round_trip.begin(now);
            self.extra_acked.since = now;
        }
        if in_flight <= len && self.runs_dry {
            self.restart(now);
        }
        self.window_full[0] |= in_flight.get() + self.mss > self.cwnd;
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn wants_delivery(&self) -> bool {
        true
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.take_loss(lost);
    }

    fn on_delivery(&mut self, sample: &RateSample) -> bool {
        if !self.has_paced_by_rtt
            && let Some(rtt) = sample.rtt
        {
            self.has_paced_by_rtt = true;
            self.pace_by_rtt(rtt);
        }
        self.delivered = sample.delivered.get();
        self.runs_dry = sample.runs_dry;
        self.take_untold_loss(sample);
        self.settle_repair(sample);
        self.update_model(sample);
        if sample.acked > Bytes::ZERO {
            self.pace_at(self.state.pacing_gain());
            self.update_window(sample);
        }
        // [HandleProbeRTT]: what is sent meanwhile says nothing of the path.
        self.state == State::ProbeRtt
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        match congestion.cause {
            // What follows a pause is paced. The draft leaves marks for later (s3.7).
            Cause::Idle | Cause::Marked => {}
            Cause::Loss | Cause::LossTahoe => {
                self.keep_state();
                self.repair = Repair::Noticed;
            }
            Cause::Timeout => {
                // [OnEnterRTO]
                self.keep_state();
                self.repair = Repair::Until { end: u64::MAX, from: None };
                self.cwnd = congestion.pipe.get() + self.mss;
            }
        }
    }

    fn on_spurious(&mut self) {
        self.undo();
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.cwnd)
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        Some(Rate::bit(self.pace))
    }
}
