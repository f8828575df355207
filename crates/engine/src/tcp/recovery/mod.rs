//! How a sender finds and repairs losses. One file per algorithm, behind [`Recovery`].
//!
//! Two families: those that count duplicate ACKs and inflate the window ([`tahoe`], [`reno`], [`newreno`], over
//! [`dupack`]), and those that keep a scoreboard and a pipe ([`sack`], [`rack`], over [`selective`]). Beside them
//! [`error_control`] repairs losses and leaves the window to a circuit.

pub(crate) mod dupack;
pub(crate) mod error_control;
pub(crate) mod measured;
pub(crate) mod newreno;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reno;
pub(crate) mod sack;
pub(crate) mod selective;
pub(crate) mod spurious;
pub(crate) mod tahoe;

use std::fmt::Debug;

use super::flight::Flight;
use super::personality;
use crate::time::Time;

/// An acceptable acknowledgement, in positions: made where its segment arrives, and seen by all that follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    /// SND.UNA before it; `flight.una` is already the new one.
    pub(crate) before: u64,
    /// It acknowledges nothing new, carries no data, changes no window, and data is outstanding (RFC 5681 s2). The sender
    /// clears it where that is not so.
    pub(crate) duplicate: bool,
    /// SACK blocks, the D-SACK removed.
    pub(crate) sacks: &'a [(u64, u64)],
    /// The range that arrived twice (RFC 2883).
    pub(crate) dsack: Option<(u64, u64)>,
    /// When the segment left that this acknowledgement echoes (RFC 7323 s4), if timestamps are on.
    pub(crate) echoed: Option<Time>,
}

impl Acknowledgement<'_> {
    /// Bytes that it acknowledges cumulatively for the first time.
    pub(crate) fn acked(&self, flight: &Flight) -> u64 {
        flight.una - self.before
    }
}

/// What recovery wants to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// First position.
    pub(crate) start: u64,
    /// Not beyond this position.
    pub(crate) limit: u64,
    /// Whatever the size: the segment that a loss or a probe calls for.
    pub(crate) forced: bool,
}

/// A loss-recovery algorithm.
pub(crate) trait Recovery: Debug + Send {
    /// `start..end` leaves now; `resend` if it has been sent before.
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool);

    /// An acknowledgement arrived; `flight.una` and `flight.edge` are already moved.
    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>);

    /// The retransmission timer expired.
    fn on_timeout(&mut self, flight: &mut Flight, now: Time);

    /// What to send next, as far as loss and the congestion window are concerned.
    fn next(&mut self, flight: &Flight) -> Option<Want>;

    /// Bytes believed to be in the network.
    fn in_flight(&self, flight: &Flight) -> u64;

    /// How many duplicates of the same acknowledgement mean that what was sent again was lost again, for an algorithm whose
    /// window is somebody else's.
    fn set_patience(&mut self, _segments: u64) {}

    /// A timer of the algorithm's own.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// That timer is due.
    fn on_deadline(&mut self, _flight: &mut Flight, _now: Time) {}
}

/// The algorithm that a personality names.
pub(crate) fn start(which: personality::Recovery) -> Box<dyn Recovery> {
    match which {
        personality::Recovery::Tahoe => Box::<tahoe::Tahoe>::default(),
        personality::Recovery::Reno => Box::<reno::Reno>::default(),
        personality::Recovery::NewReno => Box::<newreno::NewReno>::default(),
        personality::Recovery::Sack => Box::<sack::Sack>::default(),
        personality::Recovery::RackTlp => Box::<rack::RackTlp>::default(),
        personality::Recovery::ErrorControl => Box::<error_control::ErrorControl>::default(),
    }
}
