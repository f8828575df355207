//! CUBIC (RFC 9438): between congestion events the window follows a cubic of the time since the last one, flat where the
//! last loss happened, and never grows slower than Reno would.
//!
//! Integers throughout, so that simulation, wire and kernel agree bit for bit: windows in 2^-16 byte, times on the cubic
//! in 2^-16 second. With C = 0.4 and a segment of 1460 B that places the cubic to a few bytes for any window that fits
//! a connection.

mod linux;
#[cfg(test)]
mod tests;

use super::hystart::{HyStart, SlowStart};
use super::{Ack, Cause, Congestion, Controller, Factory, Setup};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Value, Values, names};
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// Fraction bits of windows and of times on the cubic.
const FRACTION: u32 = 16;

/// The parameters of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The way in which slow start ends before a loss.
    pub hystart: HyStart,
}

impl Parameters {
    /// Slow start lasts until a loss (RFC 5681 s3.1).
    pub const DEFAULT: Parameters = Parameters { hystart: HyStart::Off };
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "cubic",
        doc: "A window that follows a cubic of the time since the last loss (RFC 9438).",
        fields: &[Field {
            name: "hystart",
            kind: Kind::Choice(|| names(HyStart::ALL)),
            absent: Absent::Is("off"),
            doc: "How slow start ends before a loss: `classic` as in Linux, `plus-plus` as in RFC 9406.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { hystart: values.choice("hystart", HyStart::ALL) })
    }
}

impl Factory for Parameters {
    fn name(&self) -> &str {
        Parameters::DESCRIPTION.name
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        if setup.in_segments { Box::new(linux::Cubic::new(*self, setup)) } else { Box::new(Cubic::new(*self, *setup)) }
    }

    fn values(&self) -> Values {
        Values::new(vec![("hystart", Value::Text(self.hystart.name().to_owned()))])
    }
}

/// CUBIC's window.
#[derive(Debug)]
pub struct Cubic {
    setup: Setup,
    state: State,
    /// The state before the last congestion event, which may turn out to have been a mistake (RFC 9438 s4.9).
    before: State,
    slow_start: SlowStart,
    rtt_min: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The congestion window in 2^-16 byte, as are all windows here.
    cwnd: u64,
    /// The slow-start threshold in bytes.
    ssthresh: u64,
    /// `cwnd` before the last reduction (RFC 9438 s4.1.2).
    cwnd_prior: u64,
    /// The window at the last loss, or a little less (RFC 9438 s4.7); zero if nothing is known, as after a time-out.
    w_max: u64,
    /// The current congestion-avoidance stage; `None` in slow start and in recovery.
    epoch: Option<Epoch>,
    /// The time when the window was last in use: the clock of an epoch does not run over gaps.
    seen: Time,
}

/// A congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Time in this stage, without what the application did not use (RFC 9438 s4.2: t).
    elapsed: Duration,
    /// The window at which the cubic is flat.
    origin: u64,
    /// The time that the cubic takes to get there, in 2^-16 second (RFC 9438 s4.2: K).
    k: u64,
    /// The window that Reno would have (RFC 9438 s4.3: W_est).
    w_est: u64,
}

impl Cubic {
    /// A controller at its initial window.
    pub fn new(parameters: Parameters, setup: Setup) -> Cubic {
        let cwnd = fixed(setup.initial_window.get());
        let state = State {
            cwnd,
            ssthresh: setup.initial_threshold.get(),
            cwnd_prior: cwnd,
            w_max: 0,
            epoch: None,
            seen: Time::ZERO,
        };
        Cubic { setup, state, before: state, slow_start: SlowStart::new(parameters.hystart), rtt_min: None }
    }

    /// Congestion avoidance for `acked` bytes.
    fn avoid(&mut self, acked: u64, rtt: Duration) {
        let mss = self.setup.mss.get();
        let state = &mut self.state;
        let epoch = state.epoch.get_or_insert_with(|| begin(state.cwnd, state.w_max, mss));
        // The share of the window that was acknowledged. RFC 9438 s4.4 speaks of ACKs of one segment each; counted in
        // bytes, a window's worth of ACKs has the same effect when they are delayed.
        let share = (acked.min(whole(state.cwnd)) << 32) / whole(state.cwnd).max(1);
        let part = |of: u64| ((u128::from(of) * u128::from(share)) >> 32) as u64;

        // RFC 9438 s4.3: W_est grows by alpha_cubic = 3 (1 - 0.7) / (1 + 0.7) = 9/17 segments a window, which has the
        // mean of a Reno flow that halves, and by one as a Reno flow does once it is back at cwnd_prior.
        epoch.w_est += if epoch.w_est < state.cwnd_prior { part(fixed(mss) * 9 / 17) } else { part(fixed(mss)) };
        if epoch.window(epoch.elapsed, mss) < epoch.w_est {
            // RFC 9438 s4.3: the Reno-friendly region. An ACK never makes the window smaller.
            state.cwnd = state.cwnd.max(epoch.w_est);
            return;
        }
        // RFC 9438 s4.2: aim at where the cubic will be a round trip from now, but not beyond 1.5 windows; s4.4 and
        // s4.5: go there in a window's worth of ACKs.
        let target = epoch.window(epoch.elapsed + rtt, mss).clamp(state.cwnd, state.cwnd + state.cwnd / 2);
        state.cwnd += part(target - state.cwnd);
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Time, len: Bytes, in_flight: Bytes) {
        if in_flight <= len {
            // Nothing was in flight: the application paused (RFC 9438 s4.2: t must not include such times).
            self.state.seen = now;
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        let since = ack.now.since(self.state.seen);
        self.state.seen = ack.now;
        let slow_start = whole(self.state.cwnd) < self.state.ssthresh;
        if slow_start {
            self.rtt_min = ack.rtt.map(|rtt| self.rtt_min.map_or(rtt, |least| least.min(rtt))).or(self.rtt_min);
            let segments = whole(self.state.cwnd) / self.setup.mss.get().max(1);
            if self.slow_start.is_over(ack, ack.rtt, self.rtt_min, segments) {
                self.state.ssthresh = whole(self.state.cwnd);
            }
        }
        // RFC 9438 s5.8: no growth while the window is not what limits, and its time does not count.
        if !ack.may_grow || !ack.window_limited {
            return;
        }
        if whole(self.state.cwnd) < self.state.ssthresh {
            // RFC 9438 s4.10: slow start as in Reno (RFC 5681 s3.1 eq. 2). At ssthresh itself, where a reduction leaves
            // the window, RFC 5681 s3.1 allows either.
            self.state.cwnd += fixed(self.slow_start.share(ack.acked.min(self.setup.abc_limit).get()));
            return;
        }
        if let Some(epoch) = &mut self.state.epoch {
            epoch.elapsed += since;
        }
        self.avoid(ack.acked.get(), ack.srtt.unwrap_or(Duration::ZERO));
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        let mss = self.setup.mss.get();
        let Congestion { cause, repeated, .. } = *congestion;
        if cause == Cause::Idle {
            // RFC 5681 s4.1: the restart window is min(IW, cwnd); slow start leads back to ssthresh.
            self.state.cwnd = self.state.cwnd.min(fixed(self.setup.initial_window.get()));
            self.state.epoch = None;
            return;
        }
        if !repeated {
            self.before = self.state;
        }
        let state = &mut self.state;
        state.epoch = None;
        if !repeated {
            state.cwnd_prior = state.cwnd;
            // RFC 9438 s4.7, fast convergence: who loses before getting back to where it lost last time leaves room for
            // newcomers, W_max = cwnd (1 + 0.7) / 2.
            state.w_max = if state.cwnd < state.w_max { state.cwnd / 100 * 85 } else { state.cwnd };
            // RFC 9438 s4.6: beta_cubic = 0.7 of the bytes in flight, never below two segments.
            state.ssthresh = (congestion.in_flight.get() * 7 / 10).max(2 * mss);
        }
        match cause {
            Cause::Loss | Cause::Marked => state.cwnd = fixed(state.ssthresh),
            Cause::LossTahoe | Cause::Timeout => {
                state.cwnd = fixed(if cause == Cause::Timeout { self.setup.loss_window.get() } else { mss });
                // RFC 9438 s4.8: the stage after a time-out starts where it starts, K = 0, without a memory of W_max.
                state.w_max = 0;
                self.slow_start.restart();
            }
            Cause::Idle => unreachable!("handled above"),
        }
    }

    fn on_spurious(&mut self) {
        // RFC 9438 s4.9: as it was, epoch and all, unless the window has grown past it meanwhile.
        let cwnd = self.state.cwnd.max(self.before.cwnd);
        self.state = State { cwnd, ..self.before };
    }

    fn window(&self) -> Bytes {
        Bytes::new(whole(self.state.cwnd))
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.state.ssthresh)
    }
}

/// A new stage at `cwnd` (RFC 9438 s4.2): the cubic through it that is flat at `w_max`, or, with nothing to go back to
/// (after slow start or a time-out, s4.8 and s4.10), flat here, K = 0.
fn begin(cwnd: u64, w_max: u64, mss: u64) -> Epoch {
    let origin = w_max.max(cwnd);
    // K^3 = (W_max - cwnd) / (C mss) in seconds cubed, C = 4/10; 48 fraction bits, of which the windows have 16.
    let k = cube_root((u128::from(origin - cwnd) << 32) * 10 / (4 * u128::from(mss)));
    Epoch { elapsed: Duration::ZERO, origin, k, w_est: cwnd }
}

impl Epoch {
    /// W_cubic(t) = C (t - K)^3 + W_max (RFC 9438 s4.2, figure 1), not below zero.
    fn window(&self, t: Duration, mss: u64) -> u64 {
        // An hour and more on one cubic is beyond any window; the limit keeps the cube within 128 bits.
        const SECONDS_MAX: u64 = 1 << 12;
        let (seconds, nanos) = (t.as_nanos() / 1_000_000_000, t.as_nanos() % 1_000_000_000);
        let t = (seconds.min(SECONDS_MAX) << FRACTION) + (nanos << FRACTION) / 1_000_000_000;
        let distance = u128::from(t.abs_diff(self.k));
        let c = u128::from(fixed(mss) * 4 / 10);
        // 48 fraction bits from the cube and 16 from c leave 16.
        let rise = u64::try_from((distance * distance * distance * c) >> 48).unwrap_or(u64::MAX);
        if t < self.k { self.origin.saturating_sub(rise) } else { self.origin.saturating_add(rise) }
    }
}

/// The largest number whose cube is at most `n`.
fn cube_root(n: u128) -> u64 {
    let mut root = 0_u128;
    for bit in (0..42).rev() {
        let larger = root | 1 << bit;
        if larger * larger * larger <= n {
            root = larger;
        }
    }
    root as u64
}

const fn fixed(bytes: u64) -> u64 {
    bytes << FRACTION
}

const fn whole(window: u64) -> u64 {
    window >> FRACTION
}
