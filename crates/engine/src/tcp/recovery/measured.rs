//! Any loss recovery, with the rate of delivery measured beside it and told to the controller. Only controllers that ask
//! for it pay for it.

use super::{Acknowledgement, LossRecovery, Want};
use crate::cc::Lost;
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
    pub(crate) fn new(mut inner: Box<dyn LossRecovery>) -> Measured {
        inner.note_losses();
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

    /// The segments found lost since this was last asked, with what was known when they left.
    fn losses(&mut self, now: Time) -> Vec<Lost> {
        let found = self.inner.take_losses();
        found.into_iter().filter_map(|(start, end)| self.rate.on_lost(now, start, end)).collect()
    }

    /// Tells the controller of what a timer has found lost.
    fn tell_losses(&mut self, flight: &mut Flight, now: Time) {
        for lost in self.losses(now) {
            flight.controller.on_lost(&lost);
        }
    }
}

impl LossRecovery for Measured {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.inner.on_sent(flight, now, start, end, resend);
        let in_flight = self.inner.in_flight(flight);
        self.rate.on_sent(now, start, end, resend, in_flight);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let before = self.inner.in_flight(flight);
        self.inner.on_ack(flight, ack);
        let after = self.inner.in_flight(flight);
        let losses = self.losses(ack.now);
        let mut sample = self.rate.on_ack(ack.now, flight.una, ack.sacks, flight.rtt);
        sample.prior_in_flight = Bytes::new(before);
        sample.in_flight = Bytes::new(after);
        sample.lost = Bytes::new(before.saturating_sub(sample.acked.get()).saturating_sub(after));
        self.lost += sample.lost.get();
        sample.lost_so_far = Bytes::new(self.lost);
        sample.sent = flight.max;
        for lost in losses {
            flight.controller.on_lost(&Lost { delivered: sample.delivered, ..lost });
        }
        if flight.controller.on_delivery(&sample) {
            self.rate.on_app_limited(after);
        }
        self.look_for_data(flight);
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        let before = self.inner.in_flight(flight);
        self.inner.on_timeout(flight, now);
        self.lost += before.saturating_sub(self.inner.in_flight(flight));
        self.tell_losses(flight, now);
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
        self.tell_losses(flight, now);
    }
}
