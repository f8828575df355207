//! Linux's CUBIC: Ha, Rhee and Xu 2008 in whole segments, times in 1/1024 second.

use super::{Parameters, cube_root};
use crate::cc::hystart::SlowStart;
use crate::cc::linux::Window;
use crate::cc::{Ack, Cause, Congestion, Controller, Setup};
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// beta_cubic = 0.7 in 1024ths (RFC 9438 s4.6).
const BETA: u64 = 717;
/// C = 0.4 in 1024ths (RFC 9438 s5).
const C: u64 = 410;
/// The grain of the kernel's clock: the curve is aimed at once a tick, and unless the window moved 32 times a second.
const TICK: Duration = Duration::from_millis(4);
const AIM_PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 32);
/// Growth while nothing is known of a maximum: a segment more for every 20, 5% a round trip.
const BLIND_GROWTH: u64 = 20;
/// Round trips within this long of the first ACK after a recovery say nothing about the path.
const SAMPLES_AFTER: Duration = Duration::from_secs(1);

/// CUBIC in whole segments.
#[derive(Debug)]
pub(super) struct Cubic {
    window: Window,
    slow_start: SlowStart,
    /// Window at the last loss, or a little less (fast convergence); 0 if unknown.
    w_max: u64,
    epoch: Option<Epoch>,
    /// Segments to be acknowledged for a segment more.
    each: u64,
    aimed: Option<(Time, u64)>,
    rtt_min: Option<Duration>,
    sent: Time,
}

/// A congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// The window at which the cubic is flat, in segments, and the time when it is, in 1/1024 second.
    origin: u64,
    k: u64,
    /// The window that Reno would have, and segments acknowledged towards its next.
    w_est: u64,
    acked: u64,
}

impl Cubic {
    /// A controller at its initial window.
    pub(super) fn new(parameters: Parameters, setup: &Setup) -> Cubic {
        Cubic {
            window: Window::new(setup),
            slow_start: SlowStart::new(parameters.hystart),
            w_max: 0,
            epoch: None,
            each: 0,
            aimed: None,
            rtt_min: None,
            sent: Time::ZERO,
        }
    }

    fn sample(&mut self, now: Time, rtt: Option<Duration>) -> Option<Duration> {
        let fresh = rtt.filter(|_| self.epoch.is_none_or(|epoch| now.since(epoch.start) >= SAMPLES_AFTER))?;
        self.rtt_min = Some(self.rtt_min.map_or(fresh, |least| least.min(fresh)));
        Some(fresh)
    }

    /// Sets `each` for `acked` more segments.
    fn aim(&mut self, now: Time, acked: u64) {
        let cwnd = self.window.cwnd;
        let epoch = self.epoch.get_or_insert_with(|| {
            self.aimed = None;
            begin(now, cwnd, self.w_max)
        });
        epoch.acked += acked;
        let tick = |time: Time| time.as_nanos() / TICK.as_nanos();
        let due = self.aimed.is_none_or(|(at, window)| window != cwnd || now.since(at) > AIM_PERIOD);
        if !due {
            return;
        }
        // Within a tick the curve stays, but Reno's share is still counted.
        if self.aimed.is_none_or(|(at, _)| tick(at) != tick(now)) {
            self.aimed = Some((now, cwnd));
            let t = now.since(epoch.start) + self.rtt_min.unwrap_or(Duration::ZERO);
            let target = epoch.window(t);
            self.each = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
            if self.w_max == 0 {
                self.each = self.each.min(BLIND_GROWTH);
            }
        }
        // RFC 9438 s4.3 with alpha_cubic = 8/15 where the RFC has 9/17: Reno's mean with a factor of 0.7.
        let round = cwnd * 15 / 8;
        if epoch.acked > round {
            let grown = (epoch.acked - 1) / round.max(1);
            epoch.acked -= grown * round;
            epoch.w_est += grown;
        }
        if epoch.w_est > cwnd {
            self.each = self.each.min(cwnd / (epoch.w_est - cwnd));
        }
        // At most half a window a round trip.
        self.each = self.each.max(2);
    }
}

fn begin(now: Time, cwnd: u64, w_max: u64) -> Epoch {
    let origin = w_max.max(cwnd);
    // K^3 = (W_max - cwnd) / C in seconds cubed (RFC 9438 s4.2), in 1/1024 s.
    let k = cube_root(u128::from(origin - cwnd) * (1 << 40) / u128::from(C));
    Epoch { start: now, origin, k, w_est: cwnd, acked: 0 }
}

impl Epoch {
    /// W_cubic(t) in segments, the distance from its flat place rounded down.
    fn window(&self, t: Duration) -> u64 {
        // An hour on one cubic is beyond any window.
        let t = (t.as_nanos().min(3_600_000_000_000) << 10) / 1_000_000_000;
        let distance = u128::from(t.abs_diff(self.k));
        let rise = u64::try_from((u128::from(C) * distance * distance * distance) >> 40).unwrap_or(u64::MAX);
        if t < self.k { self.origin.saturating_sub(rise) } else { self.origin.saturating_add(rise) }
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Time, len: Bytes, in_flight: Bytes) {
        if in_flight <= len
            && let Some(epoch) = &mut self.epoch
        {
            // Nothing was in flight: the curve waits while the application pauses (RFC 9438 s4.2).
            epoch.start = (epoch.start + now.since(self.sent)).min(now);
        }
        self.sent = now;
    }

    fn on_ack(&mut self, ack: &Ack) {
        let rtt = self.sample(ack.now, ack.rtt);
        if self.window.in_slow_start() && self.slow_start.is_over(ack, rtt, self.rtt_min, self.window.cwnd) {
            self.window.ssthresh = self.window.cwnd;
        }
        if !ack.may_grow || !ack.window_limited {
            return;
        }
        let mut acked = self.window.segments(ack.acked);
        if self.window.in_slow_start() {
            acked = self.slow_start.share(acked);
            acked = self.window.slow_start(acked);
        }
        if acked > 0 {
            self.aim(ack.now, acked);
            self.window.avoid(self.each, acked);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        if congestion.cause == Cause::Idle {
            self.window.decay(congestion.timeouts);
            return;
        }
        let cwnd = self.window.cwnd;
        self.epoch = None;
        if !congestion.repeated {
            // RFC 9438 s4.7, fast convergence.
            self.w_max = if cwnd < self.w_max { cwnd * (1024 + BETA) / 2048 } else { cwnd };
            self.window.reduce((cwnd * BETA / 1024).max(2));
        }
        if congestion.cause == Cause::Timeout {
            self.window.after_timeout(congestion);
            // Nothing is known any more, the path included.
            self.w_max = 0;
            self.rtt_min = None;
            self.slow_start.restart();
        }
    }

    fn on_spurious(&mut self) {
        self.window.undo();
    }

    fn window(&self) -> Bytes {
        self.window.bytes()
    }

    fn threshold(&self) -> Bytes {
        self.window.threshold()
    }
}
