//! Unreliable frames: units that are worth something whole and in time, or nothing (thesis, chapter 5).
//!
//! An application that streams does not want an old picture before a new one. It gives each frame a deadline, reads how much
//! waits and at what rate it leaves, and so knows how much to encode; a frame that waits it takes back, or puts a newer one in its
//! place. It hears what became of each. The bytes of frames leave under the connection's one control, in turns with streams.
//!
//! A frame that is longer than a datagram is cut into parts, and joined at the other end; what does not become whole there is thrown
//! away. The thesis sends nothing twice. Here a part that was lost leaves again, in another datagram, if it can still come before the
//! deadline (as RFC 3758 has it for messages): of frames of eight datagrams, a loss of 2% would else spoil every seventh.
//!
//! What waits to leave is bounded, and so is what waits to be joined and to be read; frames of several *flows* leave in turns.

mod receiving;
mod sending;
#[cfg(test)]
mod tests;

use headend_engine::time::Time;

use crate::frame::code;
use crate::streams::{Budget, Violation};
pub(crate) use receiving::Receiving;
pub(crate) use sending::{Part, Path, Sending};

/// What the memory of a frame is counted as besides its bytes, so that empty ones are bounded as well.
const EACH: u64 = 64;

/// A frame's name at the end that has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// What became of a frame. One that was withdrawn or replaced in time is not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of it has left.
    Sent,
    /// All of it has come to the other end.
    Acknowledged,
    /// A part of it was lost, too late to leave again.
    Lost,
    /// Its deadline came before all of it had left. The rest was not sent.
    Expired,
}

/// Frames that wait to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Frames of which something waits.
    pub frames: usize,
    /// Bytes of them that wait.
    pub bytes: u64,
}

/// Why a frame was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is longer than both ends take.
    #[error("a frame of {len} bytes: at most {most} are taken")]
    TooLong {
        /// Its length.
        len: usize,
        /// The longest that is taken; 0 if the peer takes no frames.
        most: usize,
    },
    /// Too much waits.
    #[error("too much waits to leave: send less, or withdraw a frame that is older")]
    Full,
    /// Nothing of the frame to be replaced waits any more.
    #[error("nothing of the frame to be replaced waits any more: send the new one")]
    Left,
    /// The connection has ended.
    #[error("the connection has ended")]
    Ended,
}

/// What an application is told of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// A frame has come, after there was none to read.
    Came,
    /// What became of a frame that was sent here.
    Became(Ticket, Fate),
}

/// Frames of a connection, both ways.
#[derive(Debug)]
pub(crate) struct Unreliable {
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
}

impl Unreliable {
    /// Frames of an end that holds at most `limit` bytes of them in each direction, and whose peer takes frames of `most` bytes.
    pub(crate) fn new(limit: u64, most: u64, budget: Budget) -> Unreliable {
        Unreliable { sending: Sending::new(limit, most), receiving: Receiving::new(limit, budget) }
    }

    pub(crate) fn event(&mut self) -> Option<FrameEvent> {
        if self.receiving.take_news() {
            return Some(FrameEvent::Came);
        }
        self.sending.fate().map(|(ticket, fate)| FrameEvent::Became(ticket, fate))
    }

    pub(crate) fn take(&mut self, now: Time, part: Part, bytes: &[u8]) -> Result<(), Violation> {
        self.receiving.take(now, part, bytes).map_err(|what| Violation(code::PROTOCOL, what))
    }
}

/// The longest frame of an end that holds so much: two of them fit.
pub(crate) fn longest(limit: u64) -> u64 {
    (limit / 2).saturating_sub(EACH)
}
