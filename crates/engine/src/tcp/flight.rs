//! Data between the two ends, and its bounds: the send sequence variables of RFC 9293 s3.3.1 with the
//! congestion window and the clock that recovery algorithms steer by.

use super::counters::SenderCounters;
use super::personality::EraRules;
use super::rto::Rto;
use crate::cc::{Ack, Cause, Congestion, Controller};
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// The state that a sender shares with its loss recovery. Positions as in [`seq`](super::seq).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Flight {
    /// Oldest position not acknowledged (SND.UNA).
    pub(crate) una: u64,
    /// Next position to send (SND.NXT); behind `max` while going back.
    pub(crate) nxt: u64,
    /// One past the highest position ever sent.
    pub(crate) max: u64,
    /// One past the last position that the application has written, its FIN included.
    pub(crate) end: u64,
    /// Right edge of the window that the peer offers.
    pub(crate) edge: u64,
    /// Payload of a full segment, in bytes.
    pub(crate) mss: u64,
    /// The time at which the retransmission timer expires.
    pub(crate) retransmit_at: Option<Time>,
    /// Congestion control.
    pub(crate) controller: Box<dyn Controller>,
    /// The last round trip measured, exact; taken by whoever keeps statistics.
    pub(crate) rtt: Option<Duration>,
    /// Duplicate ACKs that mean a loss.
    pub(crate) dupack_threshold: u32,
    /// New segments leave upon the first duplicate ACKs (limited transmit, RFC 3042).
    pub(crate) limited_transmit: bool,
    /// Look whether a timeout was spurious (RFC 5682).
    pub(crate) frto: bool,
    /// Look whether a retransmission was (RFC 3522, RFC 3708).
    pub(crate) undo_spurious: bool,
    /// Set to restart the retransmission timer; the sender does so and clears it.
    pub(crate) restart_timer: bool,
    /// The most bytes of those that the acknowledgement at hand reports which it may report as marked: none without ECN.
    pub(crate) marked_max: u64,
    /// The window was reduced for congestion since this was last cleared: the peer is told (RFC 3168 s6.1.2, CWR).
    pub(crate) reduced: bool,
    /// Rules of the 1990s.
    pub(crate) era: EraRules,
    /// Counts of what has happened so far.
    pub(crate) counters: SenderCounters,
    /// The retransmission timeout.
    pub(crate) rto: Rto,
}

/// An event upon which the window shrinks, and what it shrinks from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shrink {
    pub(crate) cause: Cause,
    /// Bytes in flight then.
    pub(crate) in_flight: u64,
    /// Bytes that duplicate ACKs had added to the window.
    pub(crate) inflation: u64,
    /// A further event of the same loss.
    pub(crate) repeated: bool,
    /// Bytes not taken for lost at a timeout.
    pub(crate) pipe: u64,
    /// Timeouts that an idle time lasted.
    pub(crate) timeouts: u64,
}

impl Shrink {
    pub(crate) fn new(cause: Cause, in_flight: u64) -> Shrink {
        Shrink { cause, in_flight, inflation: 0, repeated: false, pipe: 0, timeouts: 0 }
    }
}

impl Flight {
    /// Bytes sent and not cumulatively acknowledged (RFC 5681 FlightSize).
    pub(crate) fn size(&self) -> u64 {
        self.max - self.una
    }

    /// Takes a round trip that Karn's rule allows.
    pub(crate) fn measure(&mut self, sent: Time, now: Time) {
        self.rtt = Some(now - sent);
        self.rto.measure(sent, now);
    }

    /// Tells the controller of `acked` new bytes.
    pub(crate) fn grow(&mut self, now: Time, acked: u64, in_flight: u64, may_grow: bool, rtt: Option<Duration>) {
        let window = self.controller.window().get();
        // RFC 7661 s4.1, RFC 5681 s4.1's spirit: a window that was not used is not grown. In slow start twice what was
        // in flight is allowed, so that an ACK clock with gaps does not stall it. 4.4BSD and ns grow it regardless.
        let limited = if window < self.controller.threshold().get() {
            window < 2 * in_flight.max(self.mss)
        } else {
            in_flight + self.mss > window
        };
        self.controller.on_ack(&Ack {
            now,
            acked: Bytes::new(acked),
            in_flight: Bytes::new(in_flight),
            rtt,
            srtt: self.rto.srtt(),
            may_grow,
            window_limited: limited || self.era.halve_usable,
            marked: Bytes::new(acked.min(self.marked_max)),
        });
    }

    /// Tells the controller that the window must shrink.
    pub(crate) fn congest(&mut self, now: Time, event: Shrink) {
        let Shrink { cause, in_flight, inflation, repeated, pipe, timeouts } = event;
        // RFC 5681 s3.2 step 2: what limited transmit sent beyond the window does not count.
        let in_flight = match cause {
            Cause::Loss | Cause::LossTahoe | Cause::Marked => {
                in_flight.min(self.controller.window().get().max(self.mss))
            }
            Cause::Timeout | Cause::Idle => in_flight,
        };
        self.reduced |= cause != Cause::Idle;
        self.counters.marks += u64::from(cause == Cause::Marked);
        let usable = (self.controller.window().get() + inflation).min(self.edge.saturating_sub(self.una));
        self.controller.on_congestion(&Congestion {
            now,
            cause,
            in_flight: Bytes::new(in_flight),
            usable: Bytes::new(usable),
            // 4.4BSD and ns halve ssthresh again at every timeout; RFC 5681 s3.1 does not.
            repeated: repeated && !self.era.halve_usable,
            pipe: Bytes::new(pipe),
            timeouts,
        });
    }

    /// Tells the controller that the last reduction was a mistake.
    pub(crate) fn undo(&mut self) {
        self.counters.undone += 1;
        self.controller.on_spurious();
    }
}
