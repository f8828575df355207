//! Reno: slow start and congestion avoidance (RFC 5681), and the integer halving of the 1990s.

mod linux;
#[cfg(test)]
mod tests;

use super::{Ack, Cause, Congestion, Controller, Factory, Setup};
use crate::part::{Description, Mistake, Part, Values};
use crate::units::Bytes;

/// The parameters of Reno: it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters;

impl Parameters {
    /// The only value.
    pub const DEFAULT: Parameters = Parameters;
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "reno",
        doc: "Half of the window after a loss, a segment more each round trip (RFC 5681).",
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
        if setup.in_segments { Box::new(linux::Reno::new(setup)) } else { Box::new(Reno::new(*setup)) }
    }
}

/// RFC 5681's window.
#[derive(Debug)]
pub struct Reno {
    setup: Setup,
    cwnd: u64,
    /// The part of `cwnd` beyond whole bytes, in units of 2^-16 byte: without it, a large window would need an
    /// ACK more than RFC 5681 says to grow by a segment.
    fraction: u64,
    ssthresh: u64,
    /// `cwnd` and `ssthresh` before the last congestion event.
    before: (u64, u64),
}

impl Reno {
    /// A controller at its initial window.
    pub fn new(setup: Setup) -> Reno {
        let cwnd = setup.initial_window.get();
        let ssthresh = setup.initial_threshold.get();
        Reno { setup, cwnd, fraction: 0, ssthresh, before: (cwnd, ssthresh) }
    }
}

/// The window after halving, as the era prescribes; shared by every controller that halves.
pub(super) fn halved(setup: &Setup, congestion: &Congestion) -> u64 {
    let mss = setup.mss.get();
    if setup.halve_usable {
        // 4.4BSD tcp_input.c and ns: min(cwnd, peer's window) / 2 in whole segments.
        congestion.usable.get() / mss / 2 * mss
    } else {
        congestion.in_flight.get() / 2
    }
}

impl Controller for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.may_grow || !ack.window_limited {
            return;
        }
        let mss = self.setup.mss.get();
        if self.cwnd < self.ssthresh {
            // RFC 5681 s3.1 eq. 2: at most so much for each ACK of new data, delayed or not.
            self.cwnd += ack.acked.min(self.setup.abc_limit).get();
        } else {
            // RFC 5681 s3.1 eq. 3, an ACK of any size; RFC 3465 s2.1 counts what it acknowledges.
            let counted = if self.setup.abc_limit.get() > mss { ack.acked.get() } else { mss };
            self.fraction += ((mss * counted) << 16) / self.cwnd.max(1);
            self.cwnd += self.fraction >> 16;
            self.fraction &= 0xffff;
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        let mss = self.setup.mss.get();
        let half = halved(&self.setup, congestion);
        // A further time-out of the same data changes neither ssthresh (RFC 5681 s3.1) nor what to go back to.
        if congestion.cause != Cause::Idle && !congestion.repeated {
            self.before = (self.cwnd, self.ssthresh);
            // RFC 5681 eq. 4: never below two segments.
            self.ssthresh = half.max(2 * mss);
        }
        self.fraction = 0;
        self.cwnd = match congestion.cause {
            Cause::Loss | Cause::Marked => half.max(self.setup.floor_segments * mss),
            Cause::LossTahoe => mss,
            Cause::Timeout => self.setup.loss_window.get(),
            // RFC 5681 s4.1: the restart window is min(IW, cwnd).
            Cause::Idle => self.setup.initial_window.get().min(self.cwnd),
        };
    }

    fn on_spurious(&mut self) {
        self.cwnd = self.cwnd.max(self.before.0);
        self.ssthresh = self.before.1;
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.cwnd)
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.ssthresh)
    }
}
