//! Reno: fast retransmit and fast recovery, left at the first new ACK (RFC 5681 s3.2; 4.3BSD-Reno, ns
//! `Agent/TCP/Reno`). What the implementations of the 1990s did otherwise is in `EraRules`.

use super::dupack::DupAcks;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::cc::Cause;
use crate::tcp::flight::Flight;
use crate::time::Time;

/// Reno's loss recovery.
#[derive(Debug, Default)]
pub(crate) struct Reno {
    dupacks: DupAcks,
    /// True in fast recovery, in which every further duplicate ACK inflates the window.
    recovering: bool,
}

impl Registered for Reno {
    const NAME: &str = "reno";
    const DOC: &str = "Fast retransmit and fast recovery, left at the first new ACK (4.3BSD-Reno; RFC 5681).";
    const FOLLOWS_ERA: bool = true;
}

impl LossRecovery for Reno {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.dupacks.on_sent(now, start, end, resend, flight.una);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let in_flight = flight.max - ack.before;
        if self.dupacks.on_ack(flight, ack) {
            self.dupacks.count = 0;
            self.dupacks.inflation = 0;
            self.recovering = false;
            // 4.4BSD and ns open the deflated window with this same ACK.
            let may_grow = self.dupacks.on_marks(flight, ack.now);
            flight.grow(ack.now, ack.acked(flight), in_flight, may_grow, flight.rtt);
        } else if ack.duplicate {
            self.on_duplicate(flight, ack.now);
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
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

impl Reno {
    fn on_duplicate(&mut self, flight: &mut Flight, now: Time) {
        let retransmit = self.dupacks.duplicate(flight);
        let (count, threshold) = (self.dupacks.count, flight.dupack_threshold);
        let inflates = self.recovering || retransmit || flight.era.inflate_when_refused;
        if retransmit {
            self.dupacks.inflation = 0;
            self.dupacks.fast_retransmit(flight, now, Cause::Loss);
            self.recovering = true;
        }
        if count == threshold && inflates {
            // RFC 5681 s3.2 step 3: the segments that caused the duplicates have left the network.
            self.dupacks.inflation = u64::from(threshold) * flight.mss;
        } else if count > threshold && inflates {
            self.dupacks.inflation += flight.mss;
        } else if count < threshold && flight.limited_transmit && count <= 2 && flight.nxt == flight.max {
            // RFC 3042 s2: one new segment for each of the first two.
            self.dupacks.inflation = u64::from(count) * flight.mss;
        }
    }
}
