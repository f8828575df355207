//! BBR, version 1: a model of the path, its rate and its round trip without a queue, and a pace and a window that follow
//! from it (draft-cardwell-iccrg-bbr-congestion-control-00; Cardwell, Cheng et al. 2016). A loss is no sign of
//! congestion here: it holds the window for a round trip and changes nothing of the model.
//!
//! The pace is the rate times a gain that goes round: a quarter more for a round trip, to see whether there is more, a
//! quarter less for the next, so that the queue which that made drains, and six round trips level. The window, twice
//! what the path holds, only bounds what is out. Every ten seconds the window shrinks to four segments for 200 ms, to
//! see the round trip without a queue of one's own.
//!
//! Names that begin with BBR are the draft's. Where it leaves a choice, it is Linux's (`tcp_bbr.c`): windows in whole
//! segments, a pace 1% below the rate, room in the window for three bursts. Linux's two additions are here as well:
//! `policer`, which detects policers, and `aggregation`, an allowance for acknowledgements that come in bunches.

mod aggregation;
mod policer;
#[cfg(test)]
mod tests;

use super::max_filter::MaxFilter;
use super::{Ack, Cause, Congestion, Controller, Factory, RateSample, Setup};
use crate::part::{Description, Mistake, Part, Values};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};
use aggregation::Aggregation;
use policer::{Look, Policer, Progress};

/// Gains are in units of 1/256.
const UNIT: u64 = 256;
/// 2 / ln 2, the least that doubles the rate each round trip (the draft's BBRHighGain), and its inverse, which drains the
/// queue that it made in one.
const STARTUP_GAIN: u64 = 739;
const DRAIN_GAIN: u64 = 88;
/// The gains of the pace, one after the other, each for a round trip without a queue (ProbeBW).
const CYCLE: [u64; 8] = [320, 192, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The window in [`CYCLE`], over what the path holds: twice, for receivers that delay acknowledgements (cwnd_gain).
const WINDOW_GAIN: u64 = 2 * UNIT;
/// The path is full once its rate has not grown by a quarter in three round trips (BBRCheckFullPipe).
const FULL_ROUNDS: u32 = 3;
/// Round trips for which a rate is believed (BtlBwFilterLen).
const RATE_ROUNDS: u64 = 10;
/// The time for which a round trip is believed to be the shortest, and the time that the search for it takes
/// (RTpropFilterLen, ProbeRTTDuration).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The least window, in segments (BBRMinPipeCwnd).
const WINDOW_MIN: u64 = 4;
/// The round trip that the pace assumes before one has been measured: a millisecond (BBRInitPacingRate).
const RTT_UNKNOWN: Duration = Duration::from_millis(1);
/// The rate from which on bursts have two segments (BBRSetSendQuantum).
const BURST_RATE: u64 = 1_200_000;

/// The state of the draft's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The rate doubles each round trip.
    Startup,
    /// The queue that this made drains.
    Drain,
    /// The pace goes round [`CYCLE`]; since when it has been where.
    ProbeRate { phase: usize, since: Time },
    /// The window is four segments until this time, once it is known, and for a round trip.
    ProbeRtt { until: Option<Time>, round_over: bool },
}

/// The repair of losses, if one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Not,
    /// The loss was noticed just now.
    Noticed(Notice),
    /// The repair is under way until all before this place is acknowledged.
    Until {
        end: u64,
        by_timer: bool,
    },
}

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    ByDuplicates,
    ByTimer,
    /// By the acknowledgement that ended a repair. To Linux that is still the same repair: it looks at the state after each
    /// acknowledgement, and keeps neither packets back nor gives the window back.
    Again,
}

/// The parameters of BBR: it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters;

impl Parameters {
    /// The only value.
    pub const DEFAULT: Parameters = Parameters;
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "bbr",
        doc: "A pace and a window that follow a model of the path's rate and delay (Cardwell, Cheng et al. 2016, version 1).",
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
        Box::new(Bbr::new(setup))
    }
}

/// BBR's model, pace and window.
#[derive(Debug)]
pub struct Bbr {
    mss: u64,
    initial: u64,
    mode: Mode,
    /// The most that the path delivered of late [bit/s], by round trip.
    rate: MaxFilter,
    policer: Policer,
    aggregation: Aggregation,
    /// What was delivered and lost so far.
    progress: Progress,
    /// The shortest round trip of late, and when it was seen.
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    /// Counts round trips: each ends once something is delivered that was sent after it began.
    round: u64,
    round_started: bool,
    /// Bytes that had been delivered when it began.
    round_from: u64,
    /// The rate when the path last looked fuller, how many round trips ago, and whether it is full.
    full_rate: u64,
    full_rounds: u32,
    is_full: bool,
    pace: u64,
    has_paced_by_rtt: bool,
    cwnd: u64,
    /// The window before losses or a search for the shortest round trip.
    cwnd_before: u64,
    /// Bytes acknowledged beyond whole segments.
    rest: u64,
    repair: Repair,
    /// No more leaves than arrives, in the first round trip of a repair.
    conserves: bool,
    /// The sender began again after a pause: its round trips were not watched meanwhile.
    resumes: bool,
}

impl Bbr {
    /// A controller at its initial window.
    pub fn new(setup: &Setup) -> Bbr {
        let mss = setup.mss.get().max(1);
        let initial = (setup.initial_window.get() / mss).max(1);
        let mut bbr = Bbr {
            mss,
            initial,
            mode: Mode::Startup,
            rate: MaxFilter::default(),
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            progress: Progress::default(),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            round: 0,
            round_started: false,
            round_from: 0,
            full_rate: 0,
            full_rounds: 0,
            is_full: false,
            pace: 0,
            has_paced_by_rtt: false,
            cwnd: initial,
            cwnd_before: 0,
            rest: 0,
            repair: Repair::Not,
            conserves: false,
            resumes: false,
        };
        bbr.pace_by_rtt(RTT_UNKNOWN);
        bbr
    }

    /// The pace of the initial window in a round trip, as long as no rate is known (BBRInitPacingRate).
    fn pace_by_rtt(&mut self, rtt: Duration) {
        let bits = u128::from(self.cwnd * self.mss) * 8_000_000_000 / u128::from(rtt.as_nanos().max(1));
        self.pace = scaled(u64::try_from(bits).unwrap_or(u64::MAX), STARTUP_GAIN).max(1);
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => DRAIN_GAIN,
            // A policer drops what is beyond its rate: none is probed for.
            Mode::ProbeRate { .. } if self.policer.rate().is_some() => UNIT,
            Mode::ProbeRate { phase, .. } => CYCLE[phase],
            Mode::ProbeRtt { .. } => UNIT,
        }
    }

    fn window_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup | Mode::Drain => STARTUP_GAIN,
            Mode::ProbeRate { .. } => WINDOW_GAIN,
            Mode::ProbeRtt { .. } => UNIT,
        }
    }

    /// The rate to keep to: a policer's, or the most that the path delivered of late.
    fn believed_rate(&self) -> u64 {
        self.policer.rate().unwrap_or(self.rate.max())
    }

    /// BBRSetPacingRate, 1% below, and never slower while the path is not full.
    fn pace_at(&mut self, gain: u64) {
        let pace = scaled(self.believed_rate(), gain) / 100 * 99;
        if pace > 0 && (self.is_full || pace > self.pace) {
            self.pace = pace;
        }
    }

    /// Segments of a burst (BBRSetSendQuantum): what leaves in a millisecond.
    fn burst(&self) -> u64 {
        let least = if self.pace < BURST_RATE { 1 } else { 2 };
        (self.pace / 8 / 1024 / self.mss).clamp(least, 127)
    }

    /// The segments that the path holds at its most, times `gain`, with room for bursts (BBRInflight).
    fn inflight(&self, gain: u64) -> u64 {
        self.held(self.rate.max(), gain).map_or(self.initial, |segments| self.with_bursts(segments))
    }

    /// The window that is aimed at (BBRUpdateTargetCwnd), with Linux's allowance for bunches.
    fn target(&self) -> u64 {
        let rate = self.believed_rate();
        let Some(segments) = self.held(rate, self.window_gain()) else { return self.initial };
        let bunches = if self.is_full { self.aggregation.allowance(rate) / self.mss } else { 0 };
        self.with_bursts(segments + bunches)
    }

    /// The segments that the path holds at `rate`, times `gain`; `None` before a round trip was measured.
    fn held(&self, rate: u64, gain: u64) -> Option<u64> {
        let bytes = u128::from(rate) * u128::from(self.min_rtt?.as_nanos()) / 8_000_000_000;
        Some((bytes * u128::from(gain) / u128::from(UNIT)).div_ceil(u128::from(self.mss)) as u64)
    }

    /// A window with room for bursts at both ends and in between.
    fn with_bursts(&self, segments: u64) -> u64 {
        // An even number, for receivers that acknowledge every second segment.
        let even = (segments + 3 * self.burst()).next_multiple_of(2);
        // A quarter more of a small window must be a segment or two.
        even + if matches!(self.mode, Mode::ProbeRate { phase: 0, .. }) { 2 } else { 0 }
    }

    /// BBRUpdateRound and BBRUpdateBtlBw.
    fn update_rate(&mut self, sample: &RateSample) {
        self.round_started = false;
        let Some(rate) = sample.rate else { return };
        if sample.prior_delivered.get() >= self.round_from {
            self.round_from = sample.delivered.get();
            self.round += 1;
            self.round_started = true;
            self.conserves = false;
        }
        self.look_for_policer(sample.lost > Bytes::ZERO, sample.is_app_limited, sample.now);
        // A sender that was kept waiting can only show that the path is faster.
        if !sample.is_app_limited || rate.get() >= self.rate.max() {
            self.rate.push(self.round, rate.get(), RATE_ROUNDS);
        }
        if sample.acked > Bytes::ZERO {
            let (acked, window) = (sample.acked.get(), self.cwnd * self.mss);
            let rate = self.believed_rate();
            self.aggregation.on_ack(sample.now, acked, rate, window, self.mss, self.round_started);
        }
    }

    fn look_for_policer(&mut self, found_loss: bool, is_app_limited: bool, now: Time) {
        let probes_rate = matches!(self.mode, Mode::ProbeRate { .. });
        let (progress, round_started) = (self.progress, self.round_started);
        if self.policer.on_ack(&Look { progress, round_started, found_loss, is_app_limited, probes_rate }) {
            self.mode = probe_rate(now);
        }
    }

    /// BBRCheckCyclePhase: a quarter more until it is out there, a quarter less until the queue is gone.
    fn update_phase(&mut self, sample: &RateSample) {
        let Mode::ProbeRate { phase, since } = self.mode else { return };
        let has_lasted = sample.now.since(since) > self.min_rtt.unwrap_or(Duration::ZERO);
        let before = sample.prior_in_flight.get().div_ceil(self.mss);
        let is_over = match self.pacing_gain() {
            gain if gain > UNIT => has_lasted && (sample.lost > Bytes::ZERO || before >= self.inflight(gain)),
            gain if gain < UNIT => has_lasted || before <= self.inflight(UNIT),
            _ => has_lasted,
        };
        if is_over {
            self.mode = Mode::ProbeRate { phase: (phase + 1) % CYCLE.len(), since: sample.now };
        }
    }

    /// Finds out whether the path is full (BBRCheckFullPipe).
    fn update_full(&mut self, sample: &RateSample) {
        if self.is_full || !self.round_started || sample.is_app_limited {
            return;
        }
        if self.rate.max() >= self.full_rate + self.full_rate / 4 {
            self.full_rate = self.rate.max();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Begins Drain once the path is full, and ends it (BBRCheckDrain).
    fn update_drain(&mut self, sample: &RateSample) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && sample.in_flight.get().div_ceil(self.mss) <= self.inflight(UNIT) {
            self.mode = probe_rate(sample.now);
        }
    }

    /// BBRUpdateRTprop and BBRCheckProbeRTT.
    fn update_min_rtt(&mut self, sample: &RateSample) {
        let expired = sample.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = sample.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = sample.now;
        }
        if expired && !self.resumes && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.keep_window();
            self.mode = Mode::ProbeRtt { until: None, round_over: false };
        }
        if let Mode::ProbeRtt { until, round_over } = &mut self.mode {
            match until {
                None if sample.in_flight.get().div_ceil(self.mss) <= WINDOW_MIN => {
                    *until = Some(sample.now + PROBE_RTT_TIME);
                    self.round_from = sample.delivered.get();
                }
                None => {}
                Some(_) => *round_over |= self.round_started,
            }
            self.leave_probe_rtt(sample.now);
        }
        if sample.acked > Bytes::ZERO {
            self.resumes = false;
        }
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        if let Mode::ProbeRtt { until: Some(until), round_over: true } = self.mode
            && now > until
        {
            self.min_rtt_at = now;
            self.cwnd = self.cwnd.max(self.cwnd_before);
            self.mode = if self.is_full { probe_rate(now) } else { Mode::Startup };
        }
    }

    fn keep_window(&mut self) {
        let is_whole = self.repair == Repair::Not && !matches!(self.mode, Mode::ProbeRtt { .. });
        self.cwnd_before = if is_whole { self.cwnd } else { self.cwnd_before.max(self.cwnd) };
    }

    /// Sets the window (BBRSetCwnd).
    fn update_window(&mut self, sample: &RateSample) {
        if sample.acked > Bytes::ZERO {
            self.rest += sample.acked.get();
            let acked = self.rest / self.mss;
            self.rest -= acked * self.mss;
            self.cwnd = self.cwnd.saturating_sub(sample.lost.get() / self.mss).max(1);
            self.repair_losses(sample, acked);
            if self.conserves {
                let out = sample.in_flight.get().div_ceil(self.mss);
                self.cwnd = self.cwnd.max(out + acked);
            } else {
                let target = self.target();
                if self.is_full {
                    self.cwnd = (self.cwnd + acked).min(target);
                } else if self.cwnd < target || sample.delivered.get() < self.initial * self.mss {
                    self.cwnd += acked;
                }
                self.cwnd = self.cwnd.max(WINDOW_MIN);
            }
        }
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.cwnd = self.cwnd.min(WINDOW_MIN);
        }
    }

    /// BBRModulateCwndForRecovery: as much leaves as arrives, for a round trip; afterwards the window is what it was.
    fn repair_losses(&mut self, sample: &RateSample, acked: u64) {
        match self.repair {
            Repair::Noticed(notice) => {
                self.repair = Repair::Until { end: sample.sent, by_timer: notice == Notice::ByTimer };
                if notice == Notice::ByDuplicates {
                    self.conserves = true;
                    self.round_from = sample.delivered.get();
                    self.cwnd = sample.in_flight.get().div_ceil(self.mss) + acked;
                }
            }
            Repair::Until { end, .. } if sample.una >= end => {
                self.repair = Repair::Not;
                self.conserves = false;
                self.cwnd = self.cwnd.max(self.cwnd_before);
            }
            Repair::Until { .. } | Repair::Not => {}
        }
    }
}

/// The cycle begins anywhere but with the phase that drains, so that flows which began together do not probe together
/// (BBREnterProbeBW). Chance comes from the time of entry: no two flows enter in the same nanosecond, and a run is repeatable.
fn probe_rate(now: Time) -> Mode {
    let mixed = now.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let phase = [0, 2, 3, 4, 5, 6, 7][(mixed % 7) as usize];
    Mode::ProbeRate { phase, since: now }
}

fn scaled(rate: u64, gain: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(gain) / u128::from(UNIT)).unwrap_or(u64::MAX)
}

impl Controller for Bbr {
    fn on_established(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.min_rtt = Some(rtt);
            self.has_paced_by_rtt = true;
            self.pace_by_rtt(rtt);
        }
    }

    fn on_sent(&mut self, now: Time, len: Bytes, in_flight: Bytes) {
        if in_flight <= len && self.repair == Repair::Not {
            // BBRHandleRestartFromIdle: after a pause, at the pace of the path and no faster.
            self.resumes = true;
            self.aggregation.restart(now);
            match self.mode {
                Mode::ProbeRate { .. } => self.pace_at(UNIT),
                Mode::ProbeRtt { .. } => self.leave_probe_rtt(now),
                Mode::Startup | Mode::Drain => {}
            }
        }
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn wants_delivery(&self) -> bool {
        true
    }

    fn on_delivery(&mut self, sample: &RateSample) -> bool {
        if !self.has_paced_by_rtt
            && let Some(rtt) = sample.rtt
        {
            self.has_paced_by_rtt = true;
            self.pace_by_rtt(rtt);
        }
        self.progress.lost = sample.lost_so_far.get();
        if sample.acked > Bytes::ZERO {
            self.progress.at = sample.now;
            self.progress.delivered = sample.delivered.get();
        }
        self.update_rate(sample);
        self.update_phase(sample);
        self.update_full(sample);
        self.update_drain(sample);
        self.update_min_rtt(sample);
        self.pace_at(self.pacing_gain());
        self.update_window(sample);
        matches!(self.mode, Mode::ProbeRtt { .. })
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        match congestion.cause {
            // A pause needs no smaller window: what follows is paced. Marks are no part of the model of version 1.
            Cause::Idle | Cause::Marked => {}
            Cause::Loss | Cause::LossTahoe => {
                self.keep_window();
                let is_again =
                    matches!(self.repair, Repair::Until { by_timer: false, .. } | Repair::Noticed(Notice::Again));
                self.repair = Repair::Noticed(if is_again { Notice::Again } else { Notice::ByDuplicates });
            }
            Cause::Timeout => {
                if !congestion.repeated {
                    self.keep_window();
                }
                self.full_rate = 0;
                self.conserves = false;
                // The end of a round trip, whatever was heard.
                self.round_started = true;
                self.look_for_policer(true, false, congestion.now);
                self.repair = Repair::Noticed(Notice::ByTimer);
                // What is still in the network is counted, and a segment is sent.
                self.cwnd = congestion.pipe.get() / self.mss + 1;
            }
        }
    }

    fn on_spurious(&mut self) {
        self.full_rate = 0;
        self.full_rounds = 0;
        self.policer = Policer::default();
        if self.repair != Repair::Not {
            self.repair = Repair::Until { end: 0, by_timer: false };
        }
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.cwnd * self.mss)
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        Some(Rate::bit(self.pace))
    }
}
