//! NewReno: fast recovery lasts until all that was sent before it is acknowledged (RFC 6582).

use super::dupack::DupAcks;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::cc::Cause;
use crate::tcp::flight::Flight;
use crate::time::Time;

/// NewReno's loss recovery.
#[derive(Debug, Default)]
pub(crate) struct NewReno {
    dupacks: DupAcks,
    recovering: bool,
    partial_acks: u32,
}

impl Registered for NewReno {
    const NAME: &str = "newreno";
    const DOC: &str = "Fast recovery that stays until all that was sent before it is acknowledged (RFC 6582).";
    const FOLLOWS_ERA: bool = true;
}

impl LossRecovery for NewReno {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.dupacks.on_sent(now, start, end, resend, flight.una);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let in_flight = flight.max - ack.before;
        if self.dupacks.on_ack(flight, ack) {
            self.on_new_ack(flight, ack, in_flight);
        } else if ack.duplicate {
            self.on_duplicate(flight, ack.now);
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        // RFC 6582 s4: `recover` becomes the highest position sent, and fast recovery ends.
        self.recovering = false;
        self.dupacks.on_timeout(flight, now);
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        self.dupacks.next(flight)
    }

    fn in_flight(&self, flight: &Flight) -> u64 {
        flight.nxt - flight.una
    }
}

impl NewReno {
    fn on_new_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>, in_flight: u64) {
        let acked = ack.acked(flight);
        if self.recovering && flight.una < self.dupacks.recover {
            // RFC 6582 s3.2 step 3, partial acknowledgement: the next hole is sent at once, the window deflated by what
            // was acknowledged and inflated by one segment that left the network.
            self.partial_acks += 1;
            self.dupacks.resend = true;
            self.dupacks.inflation = self.dupacks.inflation.saturating_sub(acked);
            if acked >= flight.mss {
                self.dupacks.inflation += flight.mss;
            }
            // The Impatient variant (s4): only the first partial ACK restarts the timer.
            flight.restart_timer = self.partial_acks == 1;
            flight.grow(ack.now, acked, in_flight, false, flight.rtt);
            return;
        }
        let was_recovering = std::mem::take(&mut self.recovering);
        self.dupacks.count = 0;
        self.dupacks.inflation = 0;
        // Full acknowledgement, option 2: cwnd is ssthresh, and this ACK does not grow it.
        let may_grow = self.dupacks.on_marks(flight, ack.now) && !was_recovering;
        flight.grow(ack.now, acked, in_flight, may_grow, flight.rtt);
    }

    fn on_duplicate(&mut self, flight: &mut Flight, now: Time) {
        if self.recovering {
            self.dupacks.count += 1;
            self.dupacks.inflation += flight.mss;
            return;
        }
        let retransmit = self.dupacks.duplicate(flight);
        let count = self.dupacks.count;
        if retransmit {
            self.dupacks.inflation = 0;
            self.dupacks.fast_retransmit(flight, now, Cause::Loss);
            self.recovering = true;
            self.partial_acks = 0;
            self.dupacks.inflation = u64::from(count) * flight.mss;
        } else if count < flight.dupack_threshold && flight.limited_transmit && count <= 2 && flight.nxt == flight.max {
            // RFC 3042 s2.
            self.dupacks.inflation = u64::from(count) * flight.mss;
        }
    }
}
