//! TCP decoupling: congestion control taken off the data that it controls (thesis, chapter 2).
//!
//! A *circuit* sends users' packets unchanged from a [tunnel queue](tunnel), and after every VMSS bytes of them a header
//! packet of a *control TCP*: a [`Connection`](crate::tcp::connection::Connection) with nothing attached, over the same
//! path. What the control TCP may send, the circuit may. A driver calls:
//!
//! ```text
//! Sender::new(tunnel, connections, vmss, guaranteed)  the sending end
//! push(now, class, packet) -> Option<Ticket>          a user's packet; None: it was dropped
//! withdraw(now, ticket), replace(ticket, packet)      while it still waits
//! receive(now, which, &Segment)                       an acknowledgement for control TCP `which`
//! backlog(now, waits), allows(now)                    whoever keeps users' packets in a queue of its own
//! charge(len)                                         a packet of the reverse circuit left beside the queue
//! poll(now) -> Output                                 User(packet), Control(which, segment) or Wait(time)
//!
//! Receiver::new(connections)                          the receiving end
//! receive(now, which, &Segment), poll(now)            users' packets never come near it
//! ```
//!
//! A circuit may join two hosts as well: then it is a [socket of an application that streams](unreliable), or holds back a
//! TCP that only controls errors, which is a [reliable socket](reliable).

pub mod carried;
pub mod fair;
pub mod gmb;
pub mod in_band;
mod receiver;
pub mod reliable;
pub mod repair;
mod sender;
pub mod size;
pub mod tunnel;
pub mod turns;
pub mod unreliable;

pub use receiver::Receiver;
pub use sender::{Counters, Sender};

use crate::packet::Packet;
use crate::tcp::personality::Personality;
use crate::tcp::segment::Segment;
use crate::time::Time;
use crate::units::Bytes;

/// The next thing that an end of a circuit asks its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A user's packet leaves, as it came.
    User(Packet),
    /// A segment of this control TCP leaves, in a packet of [`wire_len`] bytes.
    Control(usize, Segment),
    /// Nothing is to be done until this time, or until something arrives.
    Wait(Option<Time>),
}

/// A number of bytes larger than any circuit ever carries.
const ENDLESS: Bytes = Bytes::new(1 << 62);
/// The largest window that RFC 7323 can offer: the payload is never there, so the buffer for it costs nothing.
const WINDOW_MAX: Bytes = Bytes::new(65_535 << 14);
/// Bytes that timestamps take off a segment's payload (RFC 7323 s3).
const TIMESTAMPS: Bytes = Bytes::new(12);

/// The TCP of a circuit's ends: `base` with segments of `vmss` bytes of data, and buffers that hold nothing back.
pub fn control_personality(base: &Personality, vmss: Bytes) -> Personality {
    let options = if base.timestamps { TIMESTAMPS } else { Bytes::ZERO };
    Personality {
        mss: vmss + options,
        send_buffer: ENDLESS,
        receive_buffer: WINDOW_MAX,
        window_scaling: true,
        ..base.clone()
    }
}

/// Bytes that a segment of a control TCP takes on the wire: its headers alone.
pub fn wire_len(personality: &Personality, segment: &Segment) -> u32 {
    personality.wire_len(&Segment { len: 0, ..*segment })
}

#[cfg(test)]
mod tests;
