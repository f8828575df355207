//! SACK: a segment is lost once enough segments above it were reported (RFC 6675), repaired under PRR.

use super::selective::Selective;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::tcp::flight::Flight;
use crate::time::Time;

/// RFC 6675's loss recovery.
#[derive(Debug, Default)]
pub(crate) struct Sack {
    common: Selective,
    /// Positions below this have been judged; a segment is marked lost once, and a second loss of it needs the timer.
    judged: u64,
    dupacks: u32,
}

impl Registered for Sack {
    const NAME: &str = "sack";
    const DOC: &str = "Scoreboard and pipe (RFC 2018, RFC 6675) with proportional rate reduction (RFC 6937, RFC 9937).";
    const NEEDS_SACK: bool = true;
}

impl LossRecovery for Sack {
    fn on_sent(&mut self, _flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.common.on_sent(now, start, end, resend);
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let delivery = self.common.deliver(flight, ack, |_| {});
        if ack.acked(flight) > 0 {
            self.dupacks = 0;
        } else if delivery.bytes > 0 {
            // RFC 6675 s2: a duplicate is an ACK whose blocks report something new.
            self.dupacks += 1;
        }
        let found = self.detect(flight);
        self.common.settle(flight, ack, delivery, found);
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        self.dupacks = 0;
        self.common.on_timeout(flight, now, |_| true);
        self.judged = flight.max;
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        self.common.next(flight)
    }

    fn room(&self, flight: &Flight) -> Option<u64> {
        self.common.room(flight)
    }

    fn in_flight(&self, _flight: &Flight) -> u64 {
        self.common.board.pipe()
    }

    fn note_losses(&mut self) {
        self.common.board.note_losses();
    }

    fn take_losses(&mut self) -> Vec<(u64, u64)> {
        self.common.board.take_losses()
    }
}

impl Sack {
    /// RFC 6675 s4 IsLost by segments: DupThresh SACKed above it; s5 step 2: or DupThresh duplicate ACKs for the first.
    fn detect(&mut self, flight: &Flight) -> bool {
        let by_count = self.dupacks >= flight.dupack_threshold && !self.common.repairing();
        let first_end = self.common.board.first().map_or(0, |first| first.end);
        let below = self.common.board.lost_below(flight.dupack_threshold).unwrap_or(0).max(if by_count {
            first_end
        } else {
            0
        });
        if below <= self.judged {
            return false;
        }
        let judged = std::mem::replace(&mut self.judged, below);
        self.common.board.mark_lost_from(judged, |segment| (segment.start < below).then_some(!segment.retransmitted))
    }
}
