//! In-band control: a circuit whose signal is what happens to the datagrams that carry its packets.
//!
//! Headers beside the data are sampled by a router that knows of them, and by any other as packets of 52 bytes are and not as
//! packets of 1500. Here every datagram of a circuit has a number, the receiving end acknowledges ranges of numbers, and the
//! controllers are told what became of the datagrams themselves, as QUIC's are (RFC 9002). There are no header packets,
//! and nothing is sent again.
//!
//! A circuit that stands for n TCPs has n *flows*: a window each, which only its own losses shrink. Numbers are the circuit's, and
//! the receiving end knows nothing of flows. Bytes are counted and never held, so the same two ends serve a simulated
//! circuit and one on the wire. A driver calls:
//!
//! ```text
//! Sender::new(&personality, flows, Losses)         the sending end
//! permits(now, len) -> bool                        whether a datagram of this length may leave now
//! allowance(now) -> Bytes                          how much may leave now in all, for who sends in batches
//! on_sent(now, len) -> u64                         it has left, and this is its number
//! on_acknowledgement(now, &Acknowledgement)        what the other end says
//! deadline(), on_deadline(now)                     timers
//! with_fates(), fate() -> Option<Fate>             what became of each datagram, for who sends its contents again
//! skip_number(now)                                 a number that only a liar acknowledges
//!
//! Receiver::new(every)                             the receiving end
//! receive(now, number)                             a datagram came
//! poll(now) -> Option<Acknowledgement>, deadline() what to tell the sending end, and when to ask again
//!
//! Acknowledgement::encode, decode                  as it is on the wire
//! Circuit::new(tunnel, sender, guaranteed)         a tunnel queue and a sending end
//! ```

mod acknowledgement;
mod circuit;
mod clock;
mod damage;
mod flow;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use acknowledgement::{Acknowledgement, Malformed};
pub use circuit::{Circuit, Output};
pub use receiver::Receiver;
pub use sender::{Counters, Fate, Losses, NeverSent, Sender};

use crate::packet::DATAGRAM_HEADERS;
use crate::time::Duration;

/// Bytes of a datagram's number.
pub const NUMBER: u64 = 8;
/// Bytes that a datagram adds to the packet that it carries: IPv4 and UDP headers, and its number. A seal comes on top.
pub const OVERHEAD: u64 = DATAGRAM_HEADERS + NUMBER;
/// The longest that an acknowledgement is held back (RFC 9000 s18.2, max_ack_delay).
pub const HELD_MAX: Duration = Duration::from_millis(25);
