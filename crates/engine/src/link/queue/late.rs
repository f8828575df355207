//! What disciplines that manage a queue have in common: what has become of the packets that they struck.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::part::{Absent, Field, Kind};
use crate::room;
use crate::time::Time;

/// The field that says whether a queue marks, without what that means for it.
pub(super) const MARKS: Field = Field { name: "marks", kind: Kind::Flag, absent: Absent::Is("true"), doc: MARKS_DOC };

const MARKS_DOC: &str =
    "Packets of connections that use ECN are marked where others are dropped (RFC 3168, section 7).";

/// The packets that were struck after the queue had taken them: dropped, until somebody asks for them, or marked.
#[derive(Debug, Default)]
pub(super) struct Struck {
    /// True if packets that may be marked are.
    marks: bool,
    dropped: VecDeque<(Time, Packet)>,
    marked: u64,
}

impl Struck {
    pub(super) fn new(marks: bool) -> Struck {
        Struck { marks, ..Struck::default() }
    }

    /// Marks a packet, if that is possible.
    pub(super) fn mark(&mut self, packet: &mut Packet) -> bool {
        let is_marked = self.marks && packet.mark();
        self.marked += u64::from(is_marked);
        is_marked
    }

    /// Drops a packet that came at `entered`.
    pub(super) fn drop(&mut self, entered: Time, packet: Packet) {
        room::for_one_more(&mut self.dropped);
        self.dropped.push_back((entered, packet));
    }

    /// The next of the dropped packets.
    pub(super) fn take(&mut self) -> Option<(Time, Packet)> {
        self.dropped.pop_front()
    }

    /// Packets marked so far.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }
}
