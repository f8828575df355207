//! Loss recovery: how a sender finds losses and repairs them. One file per algorithm, behind [`LossRecovery`].
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
use crate::time::Time;

/// An acceptable acknowledgement, in positions: made where its segment arrives, and seen by all that follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    /// SND.UNA before it; `flight.una` is already the new one.
    pub(crate) before: u64,
    /// True if it is a duplicate: it acknowledges nothing new, carries no data, changes no window, and data is outstanding (RFC
    /// 5681 s2). The sender clears it where that is not so.
    pub(crate) duplicate: bool,
    /// SACK blocks, the D-SACK removed.
    pub(crate) sacks: &'a [(u64, u64)],
    /// The range that arrived twice (RFC 2883).
    pub(crate) dsack: Option<(u64, u64)>,
    /// The time when the segment left that this acknowledgement echoes (RFC 7323 s4), if timestamps are on.
    pub(crate) echoed: Option<Time>,
}

impl Acknowledgement<'_> {
    /// Bytes that it acknowledges cumulatively for the first time.
    pub(crate) fn acked(&self, flight: &Flight) -> u64 {
        flight.una - self.before
    }
}

/// The piece of the stream that recovery wants to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// First position.
    pub(crate) start: u64,
    /// The position at which it ends at the latest.
    pub(crate) limit: u64,
    /// True if the segment is sent whatever its size, because a loss or a probe calls for it.
    pub(crate) forced: bool,
}

/// A loss-recovery algorithm.
pub(crate) trait LossRecovery: Debug + Send {
    /// `start..end` leaves now; `resend` if it has been sent before.
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool);

    /// An acknowledgement arrived; `flight.una` and `flight.edge` are already moved.
    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>);

    /// The retransmission timer expired.
    fn on_timeout(&mut self, flight: &mut Flight, now: Time);

    /// The piece to send next, as far as loss and the congestion window are concerned.
    fn next(&mut self, flight: &Flight) -> Option<Want>;

    /// The number of bytes of new data that [`next`](LossRecovery::next) would say, if that is all that it would say and do.
    fn room(&self, _flight: &Flight) -> Option<u64> {
        None
    }

    /// Bytes believed to be in the network.
    fn in_flight(&self, flight: &Flight) -> u64;

    /// Sets how many duplicates of the same acknowledgement mean that what was sent again was lost again, for an algorithm
    /// whose window is somebody else's.
    fn set_patience(&mut self, _segments: u64) {}

    /// Notes each segment that is found lost from now on, for [`take_losses`](LossRecovery::take_losses).
    fn note_losses(&mut self) {}

    /// The segments found lost since this was last asked: none of an algorithm that knows no more than that there is a loss.
    fn take_losses(&mut self) -> Vec<(u64, u64)> {
        Vec::new()
    }

    /// The time of a timer of the algorithm's own.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// The algorithm's own timer is due.
    fn on_deadline(&mut self, _flight: &mut Flight, _now: Time) {}
}

/// An algorithm's entry in the registry: all that is known of it without one at work.
trait Registered: LossRecovery + Default + 'static {
    /// The name in scenario files.
    const NAME: &str;
    /// A sentence about what it does.
    const DOC: &str;
    /// True if it keeps the rules of the 1990s that a personality names. The others came after the RFCs had settled them.
    const FOLLOWS_ERA: bool = false;
    /// True if it works on selective acknowledgements only: NewReno takes its place where they were not agreed on (RFC 6582
    /// s1).
    const NEEDS_SACK: bool = false;
}

/// Declares [`Recovery`] and its registry. An algorithm after the semicolon cannot be asked for by name.
macro_rules! recoveries {
    ($($Name:ident($Type:ty),)+; $($Unlisted:ident($Of:ty),)+) => {
        /// The way in which losses are found and repaired.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Recovery {
            $(
                #[doc = concat!("`", stringify!($Type), "`; see [`doc`](Recovery::doc).")]
                $Name,
            )+
            $(
                #[doc = concat!("`", stringify!($Of), "`; see [`doc`](Recovery::doc).")]
                $Unlisted,
            )+
        }

        impl Recovery {
            /// The registry: all that may stand alone. Nobody can ask for a TCP without congestion control.
            pub const ALL: &[Recovery] = &[$(Recovery::$Name),+];

            fn entry(self) -> Entry {
                match self {
                    $(Recovery::$Name => Entry::of::<$Type>(),)+
                    $(Recovery::$Unlisted => Entry::of::<$Of>(),)+
                }
            }
        }
    };
}

recoveries! {
    Tahoe(tahoe::Tahoe),
    Reno(reno::Reno),
    NewReno(newreno::NewReno),
    Sack(sack::Sack),
    RackTlp(rack::RackTlp),
    ;
    ErrorControl(error_control::ErrorControl),
}

/// A line of the registry.
struct Entry {
    name: &'static str,
    doc: &'static str,
    follows_era: bool,
    needs_sack: bool,
    start: fn() -> Box<dyn LossRecovery>,
}

impl Entry {
    fn of<R: Registered>() -> Entry {
        Entry {
            name: R::NAME,
            doc: R::DOC,
            follows_era: R::FOLLOWS_ERA,
            needs_sack: R::NEEDS_SACK,
            start: || Box::<R>::default(),
        }
    }
}

impl Recovery {
    /// The algorithm's name in scenario files.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// A sentence about what the algorithm does.
    pub fn doc(self) -> &'static str {
        self.entry().doc
    }

    /// True for an algorithm that keeps the rules of the 1990s that a personality names.
    pub fn follows_era(self) -> bool {
        self.entry().follows_era
    }

    /// True for an algorithm that works on selective acknowledgements only.
    pub fn needs_sack(self) -> bool {
        self.entry().needs_sack
    }

    /// The algorithm of a connection that has agreed on selective acknowledgements, or has not.
    pub(crate) fn with(self, sack: bool) -> Recovery {
        if self.needs_sack() && !sack { Recovery::NewReno } else { self }
    }

    /// The algorithm at work for a new connection.
    pub(crate) fn start(self) -> Box<dyn LossRecovery> {
        (self.entry().start)()
    }
}
