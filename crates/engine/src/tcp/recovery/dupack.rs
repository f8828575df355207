//! The part that Tahoe, Reno and NewReno share: counting duplicate ACKs, timing one segment at a time, going back after a
//! timeout.

use super::{Acknowledgement, Want};
use crate::cc::Cause;
use crate::tcp::flight::{Flight, Shrink};
use crate::tcp::personality::Repeat;
use crate::time::Time;

/// The common state.
#[derive(Debug, Default)]
pub(crate) struct DupAcks {
    /// Duplicate ACKs since the last new one.
    pub(crate) count: u32,
    /// The bytes that duplicate ACKs add to the window.
    pub(crate) inflation: u64,
    /// One past the highest position sent when the last loss was found (RFC 6582 `recover`, plus one).
    pub(crate) recover: u64,
    /// The first segment must be sent again, whatever the window.
    pub(crate) resend: bool,
    timed_out: bool,
    /// The segment being timed: its end and when it left (one at a time, as in 4.4BSD).
    timed: Option<(u64, Time)>,
    timeouts_of: Option<u64>,
    /// One past the highest position sent when the window was last reduced because of marks.
    marked: u64,
}

impl DupAcks {
    pub(crate) fn on_sent(&mut self, now: Time, start: u64, end: u64, resend: bool, una: u64) {
        if resend {
            // Karn's rule: a sample over a retransmission says nothing (RFC 6298 s3).
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        if start == una {
            self.resend = false;
        }
    }

    /// Measures the round trip; true if the acknowledgement is a new one.
    pub(crate) fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) -> bool {
        if ack.acked(flight) == 0 {
            return false;
        }
        flight.nxt = flight.nxt.max(flight.una);
        self.timeouts_of = None;
        let timed = self.timed.filter(|&(end, _)| flight.una >= end).map(|(_, sent)| sent);
        if timed.is_some() {
            self.timed = None;
        }
        if let Some(sent) = timed {
            flight.measure(sent, ack.now);
        } else if let Some(sent) = ack.echoed {
            // RFC 7323 s4: the echo of an ACK that moves the window is a sample, of retransmissions too. Its clock is
            // coarse: while a segment is being timed, the echo is for the timeout alone.
            if self.timed.is_some() {
                flight.rto.measure(sent, ack.now);
            } else {
                flight.measure(sent, ack.now);
            }
        }
        true
    }

    /// Reduces the window if the acknowledgement tells of marks, once a window of data (RFC 3168 s6.1.2); true if it lets the
    /// window grow.
    pub(crate) fn on_marks(&mut self, flight: &mut Flight, now: Time) -> bool {
        if flight.marked_max == 0 {
            return true;
        }
        if flight.una > self.marked && flight.una >= self.recover && flight.size() > 0 {
            flight.congest(now, Shrink::new(Cause::Marked, flight.size()));
            self.marked = flight.max;
        }
        false
    }

    /// Counts a duplicate; true if it is the one that means a loss and fast retransmit is allowed.
    pub(crate) fn duplicate(&mut self, flight: &Flight) -> bool {
        self.count += 1;
        if self.count != flight.dupack_threshold {
            return false;
        }
        match flight.era.repeat {
            Repeat::Always => true,
            Repeat::UnlessTimedOut => !self.timed_out || flight.una > self.recover,
            // RFC 6582 s3.2 step 2: the ACK must cover more than `recover`.
            Repeat::Never => flight.una > self.recover,
        }
    }

    /// Fast retransmit: halves, and asks for the first segment to be sent again.
    pub(crate) fn fast_retransmit(&mut self, flight: &mut Flight, now: Time, cause: Cause) {
        flight.counters.fast_retransmits += 1;
        // RFC 3168 s6.1.2: once for the marks and the losses of one window.
        if flight.una >= self.marked {
            flight.congest(now, Shrink { inflation: self.inflation, ..Shrink::new(cause, flight.size()) });
        }
        // Set before the back-off, which so lengthens the next timer and not this one.
        flight.retransmit_at = Some(flight.rto.deadline(now));
        if flight.era.fast_retransmit_backs_off {
            flight.rto.back_off();
        }
        self.recover = flight.max;
        self.timed_out = false;
        self.timed = None;
        self.resend = true;
    }

    /// Goes back to the first segment and to slow start.
    pub(crate) fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        let repeated = self.timeouts_of == Some(flight.una);
        self.timeouts_of = Some(flight.una);
        self.count = 0;
        self.inflation = 0;
        self.resend = false;
        self.recover = flight.max;
        self.timed_out = true;
        self.timed = None;
        flight.congest(now, Shrink { repeated, ..Shrink::new(Cause::Timeout, flight.size()) });
        flight.nxt = flight.una;
    }

    pub(crate) fn next(&self, flight: &Flight) -> Option<Want> {
        if self.resend {
            return Some(Want { start: flight.una, limit: flight.una + flight.mss, forced: true });
        }
        let window = flight.controller.window().get() + self.inflation;
        // Halving without a floor can leave no window at all; with nothing in flight, no ACK would ever open it.
        let window = if flight.size() == 0 { window.max(flight.mss) } else { window };
        let limit = flight.una + window;
        (flight.nxt < limit).then_some(Want { start: flight.nxt, limit, forced: false })
    }
}
