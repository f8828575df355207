//! The part that SACK and RACK-TLP share: the scoreboard, entering and leaving recovery, the window within it.

use super::prr::Prr;
use super::spurious::Spurious;
use super::{Acknowledgement, Want};
use crate::cc::Cause;
use crate::tcp::flight::{Flight, Shrink};
use crate::tcp::scoreboard::{Scoreboard, Sent};
use crate::time::{Duration, Time};

/// The repair of losses that is under way, if any.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// No segment is known to be lost.
    Open,
    /// Fast recovery until `end` is acknowledged (RFC 6675 s5). Without `prr` the controller's window holds.
    Recovery { end: u64, prr: Option<Prr> },
    /// Fast recovery's reduction without losses, because of marks, until something beyond `end` is acknowledged: until the
    /// peer has heard that its echo was (RFC 3168 s6.1.2).
    Marked { end: u64, prr: Option<Prr> },
    /// Slow start after a timeout until `end` is acknowledged (RFC 6675 s5.1).
    AfterTimeout { end: u64 },
}

/// The common state.
#[derive(Debug)]
pub(crate) struct Selective {
    pub(crate) board: Scoreboard,
    mode: Mode,
    timeouts_of: Option<u64>,
    /// The timer expired: the first segment leaves whatever else is believed to be in the network.
    resend_first: bool,
    /// A window whose repair ends in a timeout is not charged for again (Linux); RFC 5681 s3.1 says nothing of it.
    charges_once: bool,
    /// The inquiry into whether the last reduction was a mistake.
    pub(crate) spurious: Spurious,
}

/// The segments that one acknowledgement delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Bytes newly acknowledged or reported by SACK.
    pub(crate) bytes: u64,
    /// Bytes in flight before it.
    pub(crate) in_flight: u64,
    /// Round trip of the newest segment that was delivered and sent only once.
    pub(crate) rtt: Option<Duration>,
    /// The least end of a segment that was sent only once; `u64::MAX` if there is none.
    pub(crate) original: u64,
}

impl Default for Selective {
    fn default() -> Self {
        Selective {
            board: Scoreboard::default(),
            mode: Mode::Open,
            timeouts_of: None,
            resend_first: false,
            charges_once: false,
            spurious: Spurious::default(),
        }
    }
}

impl Selective {
    /// The form that Linux keeps.
    pub(crate) fn charging_once() -> Selective {
        Selective { charges_once: true, ..Selective::default() }
    }

    pub(crate) fn on_sent(&mut self, now: Time, start: u64, end: u64, resend: bool) {
        self.resend_first = false;
        if resend {
            self.spurious.on_resent(now, end);
            self.board.resend(start, now);
        } else {
            self.board.push(start, end, now);
        }
        if let Mode::Recovery { prr: Some(prr), .. } | Mode::Marked { prr: Some(prr), .. } = &mut self.mode {
            prr.on_sent(end - start);
        }
    }

    /// Updates the scoreboard, calling `each` with every segment delivered, and takes the round trip.
    pub(crate) fn deliver(
        &mut self,
        flight: &mut Flight,
        ack: &Acknowledgement<'_>,
        mut each: impl FnMut(&Sent),
    ) -> Delivery {
        let mut delivery = Delivery { bytes: 0, in_flight: self.board.pipe(), rtt: None, original: u64::MAX };
        let mut newest: Option<Time> = None;
        let mut ambiguous = false;
        let mut count = |segment: &Sent| {
            delivery.bytes += segment.end - segment.start;
            newest = newest.max(Some(segment.at));
            ambiguous |= segment.retransmitted;
            if !segment.retransmitted {
                delivery.original = delivery.original.min(segment.end);
            }
            each(segment);
        };
        self.board.acknowledge(flight.una, |segment| {
            if !segment.sacked {
                count(segment);
            }
        });
        for &(left, right) in ack.sacks {
            self.board.sack(left.max(flight.una), right, &mut count);
        }
        if ack.acked(flight) > 0 {
            flight.nxt = flight.nxt.max(flight.una);
            self.timeouts_of = None;
            self.resend_first = false;
        }
        // Karn's rule for the whole ACK: one that a retransmission brought about may acknowledge a segment that had
        // arrived long ago.
        if let Some(sent) = newest.filter(|_| !ambiguous) {
            flight.measure(sent, ack.now);
            delivery.rtt = Some(ack.now - sent);
        } else if let Some(sent) = ack.echoed.filter(|_| ack.acked(flight) > 0) {
            // RFC 7323 s4: the echo tells which copy arrived. Its clock is coarse: for the timeout, and nothing else.
            flight.rto.measure(sent, ack.now);
        }
        delivery
    }

    /// Enters, continues or leaves recovery after losses were marked, and tells the controller.
    pub(crate) fn settle(
        &mut self,
        flight: &mut Flight,
        ack: &Acknowledgement<'_>,
        delivery: Delivery,
        found_loss: bool,
    ) {
        if self.spurious.is_open() && self.is_spurious(flight, ack, delivery) {
            flight.undo();
            self.board.forget_losses();
            self.timeouts_of = None;
            self.resend_first = false;
            self.mode = Mode::Open;
        }
        match self.mode {
            Mode::Recovery { end, .. } | Mode::AfterTimeout { end } if flight.una >= end => self.mode = Mode::Open,
            Mode::Marked { end, .. } if flight.una > end => self.mode = Mode::Open,
            _ => {}
        }
        if self.board.lost_bytes() > 0 {
            match self.mode {
                Mode::Open => self.enter(flight, ack.now, delivery),
                Mode::Marked { prr, .. } => {
                    // RFC 3168 s6.1.2: the window is reduced once for the marks and the losses of one window.
                    flight.counters.fast_retransmits += 1;
                    self.mode = Mode::Recovery { end: flight.max, prr };
                    flight.restart_timer = true;
                }
                Mode::Recovery { .. } | Mode::AfterTimeout { .. } => {}
            }
        }
        if flight.marked_max > 0 && matches!(self.mode, Mode::Open) && flight.size() > 0 {
            self.spurious = Spurious::default();
            let prr = self.reduce(flight, ack.now, delivery, Cause::Marked);
            self.mode = Mode::Marked { end: flight.max, prr };
        }
        let acked = ack.acked(flight);
        match &mut self.mode {
            Mode::Recovery { prr, .. } | Mode::Marked { prr, .. } => {
                if let Some(prr) = prr {
                    prr.on_ack(delivery.bytes, self.board.pipe(), acked > 0 && !found_loss, flight.mss);
                }
                flight.grow(ack.now, delivery.bytes, delivery.in_flight, false, delivery.rtt);
            }
            // RFC 5681 s3.1 grows the window for ACKs of new data; a SACK that moves no edge grows nothing.
            Mode::Open | Mode::AfterTimeout { .. } => {
                // RFC 3168 s6.1.2: an ACK that tells of marks grows none either.
                let may_grow = acked > 0 && flight.marked_max == 0;
                if delivery.bytes > 0 || may_grow {
                    flight.grow(ack.now, delivery.bytes, delivery.in_flight, may_grow, delivery.rtt);
                }
            }
        }
    }

    fn is_spurious(&mut self, flight: &Flight, ack: &Acknowledgement<'_>, delivery: Delivery) -> bool {
        let news = delivery.bytes > ack.acked(flight);
        let repairing = self.repairing();
        self.spurious.is_shown(flight, ack, repairing, delivery.original, news)
    }

    fn enter(&mut self, flight: &mut Flight, now: Time, delivery: Delivery) {
        flight.counters.fast_retransmits += 1;
        let prr = self.reduce(flight, now, delivery, Cause::Loss);
        self.spurious.on_reduction(flight);
        self.mode = Mode::Recovery { end: flight.max, prr };
        flight.restart_timer = true;
    }

    /// Tells the controller, and begins the proportional reduction if the window is not the controller's own.
    fn reduce(&mut self, flight: &mut Flight, now: Time, delivery: Delivery, cause: Cause) -> Option<Prr> {
        // RFC 9937 s6.1, RecoverFS: what was in flight before this ACK. RFC 6675 s5 halves all that is unacknowledged.
        let in_flight = (flight.size() - self.board.sacked_bytes() + delivery.bytes).min(flight.size());
        flight.congest(now, Shrink::new(cause, flight.size()));
        let reduces = !flight.controller.wants_delivery();
        reduces.then(|| Prr::start(flight.controller.window().get(), in_flight))
    }

    /// A loss that was repaired before it was noticed still calls for a smaller window (RFC 8985 s7.4.2).
    /// `in_flight` is what was out then.
    pub(crate) fn congest_without_recovery(&mut self, flight: &mut Flight, now: Time, in_flight: u64) {
        if matches!(self.mode, Mode::Open) {
            flight.congest(now, Shrink::new(Cause::Loss, in_flight));
        }
    }

    /// The timer expired: the first segment is lost, with all others that `dead` says are; slow start.
    pub(crate) fn on_timeout(&mut self, flight: &mut Flight, now: Time, dead: impl Fn(&Sent) -> bool) {
        let again = self.timeouts_of == Some(flight.una);
        let in_recovery = self.charges_once && (self.recovering() || matches!(self.mode, Mode::Marked { .. }));
        self.timeouts_of = Some(flight.una);
        if !again && !in_recovery {
            self.spurious.on_reduction(flight);
        }
        self.spurious.on_timeout(flight, again || !self.repairing());
        if self.board.first().is_some_and(|first| first.sacked) {
            // RFC 2018 s8: the receiver discarded what it had reported.
            self.board.forget_sacks();
        }
        let in_flight = flight.size() - self.board.sacked_bytes();
        self.board.mark_lost(|segment| Some(segment.start == flight.una || dead(segment)));
        let (repeated, pipe) = (again || in_recovery, self.board.pipe());
        flight.congest(now, Shrink { repeated, pipe, ..Shrink::new(Cause::Timeout, in_flight) });
        self.mode = Mode::AfterTimeout { end: flight.max };
        self.resend_first = true;
    }

    /// The lost first, then new data, as far as the window allows.
    pub(crate) fn next(&mut self, flight: &Flight) -> Option<Want> {
        if self.resend_first
            && let Some(first) = self.board.first()
        {
            return Some(Want { start: first.start, limit: first.end, forced: true });
        }
        let outstanding = self.outstanding(flight);
        let window = if flight.size() == 0 { self.window(flight).max(flight.mss) } else { self.window(flight) };
        let room = window.saturating_sub(outstanding);
        if room == 0 {
            return None;
        }
        if !self.spurious.wants_new_data()
            && let Some(lost) = self.board.next_lost()
        {
            let forced = room >= lost.end - lost.start || outstanding == 0;
            return forced.then_some(Want { start: lost.start, limit: lost.end, forced });
        }
        Some(Want { start: flight.max, limit: flight.max + room, forced: false })
    }

    /// The room for new data, while something is under way and nothing is to be sent again.
    pub(crate) fn room(&self, flight: &Flight) -> Option<u64> {
        let sends_again = self.resend_first || self.board.lost_bytes() > 0;
        let room = self.window(flight).saturating_sub(self.outstanding(flight));
        (!sends_again && flight.size() > 0).then_some(room)
    }

    /// Bytes that take up the window.
    fn outstanding(&self, flight: &Flight) -> u64 {
        if flight.limited_transmit || self.repairing() {
            self.board.pipe()
        } else {
            // Without limited transmit (RFC 3042), what SACK reports frees no window before recovery.
            flight.size()
        }
    }

    fn window(&self, flight: &Flight) -> u64 {
        match self.mode {
            Mode::Recovery { prr: Some(prr), .. } | Mode::Marked { prr: Some(prr), .. } => prr.window(),
            Mode::Recovery { prr: None, .. } | Mode::Marked { prr: None, .. } => flight.controller.window().get(),
            Mode::Open | Mode::AfterTimeout { .. } => flight.controller.window().get(),
        }
    }

    /// True in fast recovery.
    pub(crate) fn recovering(&self) -> bool {
        matches!(self.mode, Mode::Recovery { .. })
    }

    /// True while any loss is being repaired.
    pub(crate) fn repairing(&self) -> bool {
        matches!(self.mode, Mode::Recovery { .. } | Mode::AfterTimeout { .. })
    }
}
