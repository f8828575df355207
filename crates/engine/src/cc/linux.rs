//! Reno and CUBIC as Linux computes them: the window in whole segments, and growth by counting acknowledged segments.
//!
//! Three things differ from [`reno`](super::reno) and [`cubic`](super::cubic), which follow the RFCs in bytes. A reduction
//! takes its share of the window, not of the bytes in flight, and rounds it down to whole segments; growth in congestion
//! avoidance is a segment for every so many that were acknowledged, however many ACKs told of them; after a time-out the
//! window is what is still in the network and a segment. With windows of ten segments the rounding alone is 5% of the
//! throughput. Behaviour as documented for Linux 6 and measured on it; the arithmetic of CUBIC is that of Ha, Rhee and Xu
//! 2008, whose constants RFC 9438 keeps.

#[cfg(test)]
mod tests;

use super::{Congestion, Setup};
use crate::units::Bytes;

/// A window in whole segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    mss: u64,
    pub(super) cwnd: u64,
    /// The window below which slow start goes on; `u64::MAX` until the first congestion.
    pub(super) ssthresh: u64,
    /// Segments acknowledged and not yet turned into growth.
    credit: u64,
    /// Bytes acknowledged beyond whole segments.
    rest: u64,
    /// `cwnd` and `ssthresh` before the last reduction.
    before: (u64, u64),
    initial: u64,
}

impl Window {
    pub(super) fn new(setup: &Setup) -> Window {
        let mss = setup.mss.get().max(1);
        let cwnd = (setup.initial_window.get() / mss).max(1);
        let ssthresh = setup.initial_threshold.get();
        let ssthresh = if ssthresh == u64::MAX { u64::MAX } else { ssthresh / mss };
        Window { mss, cwnd, ssthresh, credit: 0, rest: 0, before: (cwnd, ssthresh), initial: cwnd }
    }

    /// The number of segments that `acked` bytes complete.
    pub(super) fn segments(&mut self, acked: Bytes) -> u64 {
        self.rest += acked.get();
        let whole = self.rest / self.mss;
        self.rest -= whole * self.mss;
        whole
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by all of `acked` segments up to the threshold; returns how many are left for congestion avoidance.
    pub(super) fn slow_start(&mut self, acked: u64) -> u64 {
        let grown = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (grown - self.cwnd);
        self.cwnd = grown;
        left
    }

    /// Grows by a segment for every `each` of the `acked` segments.
    pub(super) fn avoid(&mut self, each: u64, acked: u64) {
        if self.credit >= each {
            // Earned while growth was slower: worth one segment, not a burst.
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += acked;
        if self.credit >= each {
            self.cwnd += self.credit / each;
            self.credit %= each;
        }
    }

    /// Three quarters of the window, if that is more than the threshold: where slow start may end after a pause.
    fn threshold_kept(&self) -> u64 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }

    /// Congestion that leaves slow start and the window at `ssthresh`.
    pub(super) fn reduce(&mut self, ssthresh: u64) {
        self.before = (self.cwnd, self.threshold_kept());
        self.ssthresh = ssthresh;
        self.cwnd = ssthresh;
        self.credit = 0;
    }

    /// Sets the window after a time-out: what was not taken for lost is still counted, and a segment is sent.
    pub(super) fn after_timeout(&mut self, congestion: &Congestion) {
        self.cwnd = congestion.pipe.get() / self.mss + 1;
        self.credit = 0;
    }

    /// RFC 2861 s3.1: the window halves with every timeout that the pause lasted, down to the initial window.
    pub(super) fn decay(&mut self, timeouts: u64) {
        self.ssthresh = self.threshold_kept();
        let restart = self.initial.min(self.cwnd);
        let halved = self.cwnd.checked_shr(u32::try_from(timeouts).unwrap_or(u32::MAX)).unwrap_or(0);
        self.cwnd = halved.max(restart);
    }

    /// RFC 4015 s3.2's intent: the window and the threshold are at least what they were.
    pub(super) fn undo(&mut self) {
        self.cwnd = self.cwnd.max(self.before.0);
        self.ssthresh = self.ssthresh.max(self.before.1);
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes::new(self.cwnd * self.mss)
    }

    pub(super) fn threshold(&self) -> Bytes {
        Bytes::new(self.ssthresh.saturating_mul(self.mss))
    }
}
