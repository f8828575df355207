//! Error control without congestion control: the data TCP of a reliable decoupling socket (thesis s4.4 and s4.5). No window
//! bounds it but its peer's; a circuit says when its segments leave, and how large the circuit's window is.
//!
//! F1: what selective acknowledgements show to be missing is sent again. F2: the first segment that is not acknowledged is sent
//! again after each further X duplicates, X being the circuit's window. F3, a fine timer without back-off, is the
//! personality's.

use super::selective::Selective;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::tcp::flight::Flight;
use crate::tcp::timestamp;
use crate::time::Time;

/// Finds losses and repairs them, and never slows down.
#[derive(Debug, Default)]
pub(crate) struct ErrorControl {
    common: Selective,
    /// Positions below this have been judged: by SACK a segment is found lost once.
    judged: u64,
    /// Duplicates since the first segment became the first, or was sent again.
    duplicates: u64,
    /// X of F2: the duplicates that mean that what was sent again was lost again.
    patience: u64,
    /// The timer expired then, when everything below this position had been sent.
    expired: Option<(u64, Time)>,
}

impl Registered for ErrorControl {
    const NAME: &str = "error-control";
    const DOC: &str = "Losses are repaired and the window stays open: the data TCP of a reliable decoupling socket, \
                       which a circuit holds back.";
}

impl LossRecovery for ErrorControl {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.common.on_sent(now, start, end, resend);
        if resend && start == flight.una {
            self.duplicates = 0;
            flight.restart_timer = true;
        }
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let delivery = self.common.deliver(flight, ack, |_| {});
        if ack.acked(flight) > 0 {
            self.duplicates = 0;
            self.look_back(flight, ack);
        } else if delivery.bytes > 0 {
            // RFC 6675 s2: a duplicate is an ACK whose blocks report something new.
            self.duplicates += 1;
        }
        if self.detect(flight) {
            flight.counters.fast_retransmits += 1;
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        if self.common.board.first().is_some_and(|first| first.sacked) {
            // RFC 2018 s8: the receiver discarded what it had reported.
            self.common.board.forget_sacks();
        }
        // Section 4.4: one packet is sent again, not the window.
        self.common.board.mark_lost(|segment| (segment.start == flight.una).then_some(true));
        self.expired = Some((flight.max, now));
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        if let Some(lost) = self.common.board.next_lost() {
            return Some(Want { start: lost.start, limit: lost.end, forced: true });
        }
        Some(Want { start: flight.max, limit: u64::MAX, forced: false })
    }

    fn in_flight(&self, _flight: &Flight) -> u64 {
        self.common.board.pipe()
    }

    fn set_patience(&mut self, segments: u64) {
        self.patience = segments;
    }
}

impl ErrorControl {
    /// Finds losses by SACK as RFC 6675 s4 has it, the first segment's also by the number of duplicates, and again by F2.
    fn detect(&mut self, flight: &Flight) -> bool {
        let threshold = flight.dupack_threshold;
        let board = &mut self.common.board;
        let Some(first) = board.first().copied() else { return false };
        let by_count = if self.duplicates >= u64::from(threshold) { first.end } else { 0 };
        let below = board.lost_below(threshold).unwrap_or(0).max(by_count);
        let judged = self.judged;
        self.judged = judged.max(below);
        let missing = below > judged
            && board.mark_lost(|segment| {
                (segment.start < below).then_some(segment.start >= judged && !segment.retransmitted)
            });
        let again = first.retransmitted && !first.lost && self.duplicates >= self.patience.max(u64::from(threshold));
        if again {
            self.duplicates = 0;
            board.mark_lost(|segment| (segment.start == first.start).then_some(true));
        }
        missing || again
    }

    /// The first acknowledgement after the timer expired. If it is for what was sent again then, all that was sent before and
    /// is not reported has been lost: packets do not overtake each other. If it is for the original, nothing was lost.
    fn look_back(&mut self, flight: &Flight, ack: &Acknowledgement<'_>) {
        let Some((end, at)) = self.expired.take() else { return };
        // The timestamp clock may have ticked since, but not before.
        let may_echo_it = ack.echoed.is_none_or(|echoed| timestamp::ticks(echoed) >= timestamp::ticks(at));
        if flight.una < end && may_echo_it {
            self.common.board.mark_lost(|segment| (segment.start < end).then_some(segment.at <= at));
        }
    }
}
