//! Any loss recovery, with the rate of delivery measured beside it and told to the controller. Only controllers that ask
//! for it pay for it.

use super::{Acknowledgement, LossRecovery, Want};
use crate::tcp::delivery::DeliveryRate;
use crate::tcp::flight::Flight;
use crate::time::Time;
use crate::units::Bytes;

/// A recovery algorithm and the estimator.
#[derive(Debug)]
pub(crate) struct Measured {
    inner: Box<dyn LossRecovery>,
    rate: DeliveryRate,
    /// Bytes found lost so far.
    lost: u64,
}

impl Measured {
    pub(crate) fn new(inner: Box<dyn LossRecovery>) -> Measured {
        Measured { inner, rate: DeliveryRate::default(), lost: 0 }
    }

    /// Marks a sender whose application keeps it waiting: less than a segment is unsent, and the window has room.
    fn look_for_data(&mut self, flight: &Flight) {
        let unsent = flight.end - flight.max.min(flight.end);
        let in_flight = self.inner.in_flight(flight);
        if unsent < flight.mss && in_flight < flight.controller.window().get() {
            self.rate.on_app_limited(in_flight);
        }
    }
}

impl LossRecovery for Measured {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.rate.on_sent(now, start, end, resend);
        self.inner.on_sent(flight, now, start, end, resend);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let before = self.inner.in_flight(flight);
        self.inner.on_ack(flight, ack);
        let after = self.inner.in_flight(flight);
        let mut sample = self.rate.on_ack(ack.now, flight.una, ack.sacks, flight.rtt);
        sample.prior_in_flight = Bytes::new(before);
        sample.in_flight = Bytes::new(after);
        sample.lost = Bytes::new(before.saturating_sub(sample.acked.get()).saturating_sub(after));
        self.lost += sample.lost.get();
        sample.lost_so_far = Bytes::new(self.lost);
        sample.sent = flight.max;
        if flight.controller.on_delivery(&sample) {
            self.rate.on_app_limited(after);
        }
        self.look_for_data(flight);
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        let before = self.inner.in_flight(flight);
        self.inner.on_timeout(flight, now);
        self.lost += before.saturating_sub(self.inner.in_flight(flight));
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        self.look_for_data(flight);
        self.inner.next(flight)
    }

    fn in_flight(&self, flight: &Flight) -> u64 {
        self.inner.in_flight(flight)
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }

    fn on_deadline(&mut self, flight: &mut Flight, now: Time) {
        let before = self.inner.in_flight(flight);
        self.inner.on_deadline(flight, now);
        self.lost += before.saturating_sub(self.inner.in_flight(flight));
    }
}
