//! FAST's arithmetic on plain unsigned integers: no type of this crate, no sign, no float and nothing that overflows, so
//! that a program in the kernel can do the same steps. `vectors.csv` beside this file holds both to the same windows.

use super::Parameters;

/// The average round trip is kept in units of 2^-8 us: 3/w of a difference is otherwise soon nothing.
const FRACTION_BITS: u32 = 8;
/// Longest round trip taken for one, 67 s; with [`CWND_MAX`] and 100 percent it keeps [`step`] within 64 bits.
const RTT_US_MAX: u64 = (1 << 26) - 1;
/// Largest window, in segments.
const CWND_MAX: u64 = 1 << 22;

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

impl Law {
    /// A law that has measured nothing.
    pub fn new(parameters: Parameters, cwnd: u64, ssthresh: u64) -> Law {
        let cwnd = cwnd.clamp(1, CWND_MAX);
        Law { parameters, cwnd, ssthresh, target: cwnd, base_us: 0, average: 0, update_at_us: 0 }
    }

    /// Takes an acknowledgement of new data.
    pub fn on_ack(&mut self, heard: Heard) {
        if let Some(rtt_us) = heard.rtt_us {
            self.measure(rtt_us.clamp(1, RTT_US_MAX));
        }
        if heard.is_recovering || self.base_us == 0 {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.slow_start(heard);
        } else {
            self.avoid(heard);
        }
    }

    fn measure(&mut self, rtt_us: u64) {
        let sample = rtt_us << FRACTION_BITS;
        if self.base_us == 0 {
            self.base_us = rtt_us;
            self.average = sample;
        } else {
            self.base_us = self.base_us.min(rtt_us);
            self.average = averaged(self.average, sample, self.cwnd);
        }
    }

    /// A segment for each acknowledged, until alpha wait: then the law is near its aim and takes over.
    fn slow_start(&mut self, heard: Heard) {
        let alpha = u64::from(self.parameters.alpha_packets);
        if has_queue(self.cwnd, self.base_us << FRACTION_BITS, self.average, alpha) {
            self.ssthresh = self.cwnd;
            self.pause(heard.now_us);
        } else if heard.is_window_limited {
            self.cwnd = (self.cwnd + heard.acked).min(self.ssthresh).min(CWND_MAX);
        }
        self.target = self.cwnd;
    }

    fn avoid(&mut self, heard: Heard) {
        if heard.now_us >= self.update_at_us {
            let Parameters { alpha_packets, gamma_percent, .. } = self.parameters;
            let base = self.base_us << FRACTION_BITS;
            let next = step(self.cwnd, base, self.average, u64::from(alpha_packets), u64::from(gamma_percent));
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
    }

    /// Slow start from `cwnd` to `ssthresh`. What was measured of the path stays.
    pub fn restart(&mut self, now_us: u64, cwnd: u64, ssthresh: u64) {
        self.cwnd = cwnd.clamp(1, CWND_MAX);
        self.ssthresh = ssthresh;
        self.target = self.cwnd;
        self.pause(now_us);
    }

    /// The last reduction was a mistake: the window and the threshold are at least what they were (RFC 4015 s3.2).
    pub fn undo(&mut self, cwnd: u64, ssthresh: u64) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.target = self.cwnd;
    }
}
