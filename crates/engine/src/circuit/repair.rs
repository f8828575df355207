//! Repair: what a damaged path loses between the two ends of a circuit with [in-band control](super::in_band) is sent
//! again, if that can still be in time.
//!
//! A trunk that repairs nothing leaves it to users' ends, which are far away: a lost packet costs them a round trip of theirs and, if
//! they are TCP or QUIC, half of a window. Where the damage is between the two ends of a trunk, these can be faster. A copy
//! of each packet is kept for as long as it may be wanted; when the control finds its datagram lost, the copy leaves in another
//! datagram, under control like any, at most [`tries`](Rules::tries) times and no later than [`within`](Rules::within)
//! after it first left. The loss stays what it was for the control: a signal, or damage by the delay rule.
//!
//! Packets come in order within a flow: each tells its flow and its turn in it, and one that comes too early waits for those
//! before it, as long as `within` after its own arrival at most. Then what is missing is given up: later ones go on, and if it
//! comes after all it is dropped, for late is worse than lost. Other flows do not wait. That is what SRT does with a stream
//! ("too-late packet drop", draft-sharabayko-srt s4.6), here for each flow in an aggregate.
//!
//! Both parts hold what a driver gives them, and never look into it. A driver calls:
//!
//! ```text
//! Sender::new(Rules)                               the sending end
//! place(flow, is_numbered) -> Place                where a packet that leaves now stands in its flow
//! keep(now, number, place, len, copy)              it left in the datagram with this number
//! on_fate(now, Fate)                               what the control says of datagrams
//! on_probe(now)                                    the control wants to hear of the last datagram
//! due(now) -> Option<len>, again(number) -> (Place, &copy)   the packet that is to leave again, and that it does
//!
//! Receiver::new(within)                            the receiving end
//! arrive(now, place, is_numbered, len, copy) -> bool   a packet came; true if it passes now
//! released() -> Option<copy>                       packets that waited and pass now, after that one
//! poll(now) -> Option<Time>                        gives up what is missing for too long
//! ```

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{Receiver, Waited};
pub use sender::{Repaired, Sender};

use crate::time::Duration;

/// Flows that are told apart: those whose numbers leave the same rest wait for each other.
pub const FLOWS: u64 = 4_096;
/// Bytes of packets that either end holds at most, each counted with what its place takes.
pub const HELD_BYTES_MAX: u64 = 4 << 20;
/// What a packet's place takes, in bytes: enough for its entry in a map and in a queue.
const ENTRY: u64 = 128;
/// The longest that an acknowledgement is held back where losses are to be repaired: a fifth of what in-band control else
/// allows, for the last packet of a burst is missed only when that time is over too.
pub const ACKNOWLEDGEMENT_HELD_MAX: Duration = Duration::from_millis(5);

/// The rules of what is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The longest that a packet waits for an earlier one of its flow, and that a copy may leave after the packet first did.
    pub within: Duration,
    /// Copies of one packet at most.
    pub tries: u8,
}

/// A packet's place among those of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its flow, below [`FLOWS`].
    pub flow: u16,
    /// Numbered packets of the flow before it, modulo 2^16: many more than are ever under way or wait.
    pub turn: u16,
}
