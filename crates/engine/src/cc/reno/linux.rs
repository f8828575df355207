//! Linux's Reno: half of the window, and a segment more for every window of segments acknowledged.

use crate::cc::linux::Window;
use crate::cc::{Ack, Cause, Congestion, Controller, Setup};
use crate::units::Bytes;

/// Reno in whole segments.
#[derive(Debug)]
pub(super) struct Reno {
    window: Window,
}

impl Reno {
    /// A controller at its initial window.
    pub(super) fn new(setup: &Setup) -> Reno {
        Reno { window: Window::new(setup) }
    }
}

impl Controller for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.may_grow || !ack.window_limited {
            return;
        }
        let mut acked = self.window.segments(ack.acked);
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked > 0 {
            self.window.avoid(self.window.cwnd, acked);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        if congestion.cause == Cause::Idle {
            self.window.decay(congestion.timeouts);
            return;
        }
        if !congestion.repeated {
            self.window.reduce((self.window.cwnd / 2).max(2));
        }
        if congestion.cause == Cause::Timeout {
            self.window.after_timeout(congestion);
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
