//! Tahoe: fast retransmit, then slow start from the lost segment (Jacobson 1988; 4.3BSD-Tahoe, ns `Agent/TCP`).

use super::dupack::DupAcks;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::cc::Cause;
use crate::tcp::flight::Flight;
use crate::time::Time;

/// Tahoe's loss recovery.
#[derive(Debug, Default)]
pub(crate) struct Tahoe {
    dupacks: DupAcks,
}

impl Registered for Tahoe {
    const NAME: &str = "tahoe";
    const DOC: &str = "Fast retransmit, then slow start (4.3BSD-Tahoe, 1988).";
    const FOLLOWS_ERA: bool = true;
}

impl LossRecovery for Tahoe {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.dupacks.on_sent(now, start, end, resend, flight.una);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let in_flight = flight.max - ack.before;
        if self.dupacks.on_ack(flight, ack) {
            self.dupacks.count = 0;
            let may_grow = self.dupacks.on_marks(flight, ack.now);
            flight.grow(ack.now, ack.acked(flight), in_flight, may_grow, flight.rtt);
        } else if ack.duplicate && self.dupacks.duplicate(flight) {
            self.dupacks.fast_retransmit(flight, ack.now, Cause::LossTahoe);
            flight.nxt = flight.una;
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        self.dupacks.on_timeout(flight, now);
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        self.dupacks.next(flight)
    }

    fn in_flight(&self, flight: &Flight) -> u64 {
        flight.nxt - flight.una
    }
}
