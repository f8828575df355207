//! Proportional rate reduction: what may be sent in recovery, one ACK at a time (RFC 6937, RFC 9937).

/// The state of one recovery, all in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    ssthresh: u64,
    /// Data in flight when recovery began (RFC 9937 RecoverFS).
    recover_flight: u64,
    delivered: u64,
    out: u64,
    /// The size to which the pipe may grow now.
    window: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes in flight and shall end with a window of `ssthresh`.
    pub(crate) fn start(ssthresh: u64, flight: u64) -> Prr {
        Prr { ssthresh, recover_flight: flight.max(1), ..Prr::default() }
    }

    /// An ACK delivered `delivered` bytes and left `pipe` in flight; `safe` if it moved SND.UNA and reported no further
    /// loss (RFC 9937 SafeACK).
    pub(crate) fn on_ack(&mut self, delivered: u64, pipe: u64, safe: bool, mss: u64) {
        self.delivered += delivered;
        let send = if pipe > self.ssthresh {
            // In proportion: ssthresh bytes leave for every recover_flight delivered.
            let due =
                (u128::from(self.delivered) * u128::from(self.ssthresh)).div_ceil(u128::from(self.recover_flight));
            (due as u64).saturating_sub(self.out)
        } else {
            // Slow-start reduction bound with SafeACK, conservative reduction bound without.
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + if safe { mss } else { 0 };
            bound.min(self.ssthresh - pipe)
        };
        // The fast retransmit itself is always sent.
        let send = if self.out == 0 { send.max(mss) } else { send };
        self.window = pipe + send;
    }

    /// `len` bytes were sent in recovery.
    pub(crate) fn on_sent(&mut self, len: u64) {
        self.out += len;
    }

    /// The size to which the pipe may grow.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }
}
