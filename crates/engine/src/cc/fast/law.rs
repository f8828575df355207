//! FAST's arithmetic on plain unsigned integers: no type of this crate, no sign, no float and nothing that overflows, so
//! that a program in the kernel can do the same steps. `vectors.csv` beside this file holds both to the same windows.

use super::Parameters;

/// The average round trip is kept in units of 2^-8 us: 3/w of a difference is otherwise soon nothing.
const FRACTION_BITS: u32 = 8;
/// Longest round trip taken for one, 67 s; with [`CWND_MAX`] and 100 percent it keeps [`step`] within 64 bits.
const RTT_US_MAX: u64 = (1 << 26) - 1;
/// Largest window, in segments.
const CWND_MAX: u64 = 1 << 22;
/// A check lets the queue drain: the window is three quarters of what the path would hold.
const DRAIN_QUARTERS: u64 = 3;
/// An alpha by rate: so many packets, and as many more as the flow sends in this time. The constant part makes flows share alike, the
/// other keeps the delay above what hosts and devices add at any rate.
const AUTO_PACKETS: u64 = 20;
/// See [`AUTO_PACKETS`].
const AUTO_US: u64 = 2_000;
/// The queue is other packets' than ours if less than this part of it goes when ours leave it.
const OWN_PART: u64 = 32;

/// The things that an acknowledgement of new data says.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// The time at which the acknowledgement came.
    pub now_us: u64,
    /// The round trip that it measured, if it did.
    pub rtt_us: Option<u64>,
    /// Segments that it acknowledged.
    pub acked: u64,
    /// Loss recovery holds the window.
    pub is_recovering: bool,
    /// The window, and nothing else, limits what is in flight.
    pub is_window_limited: bool,
}

/// A step of a check of the base round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// None is under way.
    Rest,
    /// The shortest round trip is taken with our packets in the queue.
    Before,
    /// The queue drains; acknowledgements do not show it yet.
    Drain,
    /// The shortest round trip is taken without our packets in the queue.
    After,
}

/// The window and what it is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// The parameters that the user chose.
    pub parameters: Parameters,
    /// Segments that may be in flight.
    pub cwnd: u64,
    /// The window below which slow start goes on; `u64::MAX` until slow start has ended.
    pub ssthresh: u64,
    /// The window that the last update wants; growth gets there by a segment for each acknowledged.
    pub target: u64,
    /// d: the shortest round trip so far; 0 before the first.
    pub base_us: u64,
    /// D: the average round trip, in units of 2^-8 us.
    pub average: u64,
    /// The time when the window is next computed.
    pub update_at_us: u64,
    /// The time when the next check of the base begins, or the step under way ends.
    pub check_at_us: u64,
    /// The shortest round trip of this step, and that before the queue was drained.
    pub least_us: u32,
    /// See `least_us`.
    pub before_us: u32,
    /// The step of a check.
    pub check: Check,
}

/// The window law, equation (1) of Andrew et al. with gamma for its half and no more than a doubling (Jin, Wei and
/// Low 2004): min(2w, floor((1 - gamma) w + gamma (w d / D + alpha))), at least 1. `base` and `average` are in the same unit.
pub fn step(w: u64, base: u64, average: u64, alpha: u64, gamma_percent: u64) -> u64 {
    let kept = (100 - gamma_percent) * w * average;
    let aimed = gamma_percent * (w * base + alpha * average);
    ((kept + aimed) / (100 * average)).clamp(1, 2 * w)
}

/// The average after a sample, whose weight is min(3/w, 1/4) (Jin, Wei and Low 2004): that of a third of a window's
/// acknowledgements. `average` and `sample` are in the same unit.
pub fn averaged(average: u64, sample: u64, w: u64) -> u64 {
    let part = |difference: u64| if w > 12 { difference * 3 / w } else { difference / 4 };
    if sample >= average { average + part(sample - average) } else { average - part(average - sample) }
}

/// True if more than `alpha` of `w` segments wait: w (D - d) / D > alpha.
pub fn has_queue(w: u64, base: u64, average: u64, alpha: u64) -> bool {
    w * average.saturating_sub(base) > alpha * average
}

/// The alpha of a flow that sends `w` segments in each round trip of this average, by its rate.
pub fn alpha_by_rate(w: u64, average: u64) -> u64 {
    AUTO_PACKETS + w * (AUTO_US << FRACTION_BITS) / average.max(1)
}

impl Law {
    /// A law that has measured nothing.
    pub fn new(parameters: Parameters, cwnd: u64, ssthresh: u64) -> Law {
        let cwnd = cwnd.clamp(1, CWND_MAX);
        Law {
            parameters,
            cwnd,
            ssthresh,
            target: cwnd,
            base_us: 0,
            average: 0,
            update_at_us: 0,
            check_at_us: 0,
            least_us: u32::MAX,
            before_us: 0,
            check: Check::Rest,
        }
    }

    /// The packets that are to wait now.
    pub fn alpha(&self) -> u64 {
        match self.parameters.alpha_packets {
            Parameters::ALPHA_BY_RATE => alpha_by_rate(self.cwnd, self.average),
            alpha => alpha.into(),
        }
    }

    /// Takes an acknowledgement of new data.
    pub fn on_ack(&mut self, heard: Heard) {
        if let Some(rtt_us) = heard.rtt_us {
            self.measure(heard.now_us, rtt_us);
        }
        if heard.is_recovering || self.base_us == 0 {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.slow_start(heard);
        } else if !self.checks(heard) {
            self.avoid(heard);
        }
    }

    /// Takes the round trip of the hand-shake, which no queue of one's own has lengthened.
    ///
    /// FAST as published has measured none there, and so has one that is never checked.
    pub fn begin(&mut self, rtt_us: u64) {
        if self.parameters.check_seconds == 0 {
            return;
        }
        self.base_us = rtt_us.clamp(1, RTT_US_MAX);
        self.average = self.base_us << FRACTION_BITS;
    }

    fn measure(&mut self, now_us: u64, rtt_us: u64) {
        let rtt_us = rtt_us.clamp(1, RTT_US_MAX);
        let sample = rtt_us << FRACTION_BITS;
        if self.base_us == 0 {
            self.average = sample;
        } else if matches!(self.check, Check::Rest | Check::Before) {
            self.average = averaged(self.average, sample, self.cwnd);
        }
        if self.base_us == 0 || rtt_us <= self.base_us {
            self.base_us = rtt_us;
            self.rest(now_us);
        }
        self.least_us = self.least_us.min(rtt_us as u32);
    }

    /// Ends a check; the next one is due so many seconds after the base was last seen.
    fn rest(&mut self, now_us: u64) {
        if matches!(self.check, Check::Drain | Check::After) {
            self.pause(now_us);
        }
        self.check = Check::Rest;
        self.check_at_us = now_us + u64::from(self.parameters.check_seconds) * 1_000_000;
    }

    /// Goes on with a check of the base; true while it holds the window.
    ///
    /// A route may have become longer, and then the law takes the difference for a queue. If our packets wait in one,
    /// it gets shorter when they leave it. If it does not, the base is out of date, and the shortest round trip without
    /// them is the new one.
    fn checks(&mut self, heard: Heard) -> bool {
        if self.parameters.check_seconds == 0 {
            return false;
        }
        let is_due = heard.now_us >= self.check_at_us;
        let round_us = (self.average >> FRACTION_BITS).max(1);
        match self.check {
            Check::Rest if self.check_at_us == 0 => self.rest(heard.now_us),
            Check::Rest if is_due && heard.is_window_limited => self.step_to(Check::Before, heard.now_us + round_us),
            Check::Before if is_due => {
                self.before_us = self.least_us;
                self.target = self.cwnd;
                let held = self.cwnd * self.base_us / round_us.max(self.base_us);
                self.cwnd = (held * DRAIN_QUARTERS / 4).clamp(self.cwnd.min(2), self.cwnd);
                self.ssthresh = self.ssthresh.min(self.cwnd);
                self.step_to(Check::Drain, heard.now_us + round_us);
            }
            Check::Drain if is_due => self.step_to(Check::After, heard.now_us + round_us + round_us / 2),
            Check::After if is_due => self.judge(heard.now_us, round_us),
            _ => {}
        }
        matches!(self.check, Check::Drain | Check::After)
    }

    fn step_to(&mut self, check: Check, until_us: u64) {
        self.check = check;
        self.check_at_us = until_us;
        self.least_us = u32::MAX;
    }

    fn judge(&mut self, now_us: u64, round_us: u64) {
        let queue = round_us.saturating_sub(self.base_us);
        let gone = u64::from(self.before_us.saturating_sub(self.least_us));
        if self.least_us != u32::MAX && self.before_us != u32::MAX && gone * OWN_PART < queue {
            self.base_us = u64::from(self.least_us);
        }
        self.rest(now_us);
    }

    /// A segment for each acknowledged, until alpha wait: then the law is near its aim and takes over.
    fn slow_start(&mut self, heard: Heard) {
        if has_queue(self.cwnd, self.base_us << FRACTION_BITS, self.average, self.alpha()) {
            self.ssthresh = self.cwnd;
            self.pause(heard.now_us);
        } else if heard.is_window_limited {
            self.cwnd = (self.cwnd + heard.acked).min(self.ssthresh).min(CWND_MAX);
        }
        self.target = self.cwnd;
    }

    fn avoid(&mut self, heard: Heard) {
        if heard.now_us >= self.update_at_us {
            let gamma_percent = u64::from(self.parameters.gamma_percent);
            let base = self.base_us << FRACTION_BITS;
            let next = step(self.cwnd, base, self.average, self.alpha(), gamma_percent);
            self.target = next.min(CWND_MAX);
            // A smaller window is one at once; a larger one is spread over acknowledgements, as no burst.
            self.cwnd = self.cwnd.min(self.target);
            // The law has shrunk it: that is no reason for slow start.
            self.ssthresh = self.ssthresh.min(self.cwnd);
            self.pause(heard.now_us);
        }
        if heard.is_window_limited {
            self.cwnd = self.target.min(self.cwnd + heard.acked);
        }
    }

    fn pause(&mut self, now_us: u64) {
        let round_us = self.average >> FRACTION_BITS;
        self.update_at_us = now_us + u64::from(self.parameters.update_rounds) * round_us;
    }

    /// A loss: half of the window as with Reno, at least 2 (RFC 5681 s3.1).
    pub fn halve(&mut self, now_us: u64) {
        self.ssthresh = (self.cwnd / 2).max(2);
        self.cwnd = self.ssthresh;
        self.target = self.cwnd;
        self.pause(now_us);
        self.rest(now_us);
    }

    /// Slow start from `cwnd` to `ssthresh`. What was measured of the path stays.
    pub fn restart(&mut self, now_us: u64, cwnd: u64, ssthresh: u64) {
        self.cwnd = cwnd.clamp(1, CWND_MAX);
        self.ssthresh = ssthresh;
        self.target = self.cwnd;
        self.pause(now_us);
        self.rest(now_us);
    }

    /// The last reduction was a mistake: the window and the threshold are at least what they were (RFC 4015 s3.2).
    pub fn undo(&mut self, cwnd: u64, ssthresh: u64) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.target = self.cwnd;
    }
}
