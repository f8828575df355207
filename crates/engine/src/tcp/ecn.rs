//! Explicit congestion notification at one end of a connection (RFC 3168 s6.1): which packets may be marked, the echo of
//! marks that came, and the word that the echo was heard.

use super::flight::Flight;
use super::personality::EcnPolicy;
use super::segment::{EcnFlags, Segment};
use crate::packet::Ecn;

/// The state of an end whose connection uses ECN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// A mark came: every acknowledgement says so until the peer has answered (s6.1.3).
    echoes: bool,
    /// The field for the packet of the segment that leaves now.
    departing: Ecn,
}

impl Marks {
    /// The field for the packet of the segment that left last.
    pub(crate) fn departing(&self) -> Ecn {
        self.departing
    }

    /// A segment with data arrived in a packet with this field; true if its acknowledgement shall not wait.
    pub(crate) fn arrive(&mut self, segment: &Segment, ecn: Ecn) -> bool {
        let before = self.echoes;
        // s6.1.3: the answer ends the echo, and a mark on the very packet that brings it begins another.
        let is_answered = segment.flags.ecn.has(EcnFlags::CWR);
        self.echoes = ecn == Ecn::Ce || before && !is_answered;
        // Whoever slows down may have little under way: as in Linux, the first word of a mark and that of its end wait for
        // no second segment.
        self.echoes != before || is_answered && self.echoes
    }

    /// The most bytes that an acknowledgement may report as marked: all that it reports, or none.
    pub(crate) fn echoed(&self, segment: &Segment) -> u64 {
        if segment.flags.ecn.has(EcnFlags::ECE) && !segment.flags.syn { u64::MAX } else { 0 }
    }

    /// Completes a segment that leaves; `is_new` if it carries data for the first time.
    pub(crate) fn depart(&mut self, segment: &mut Segment, flight: Option<&mut Flight>, is_new: bool) {
        if self.echoes {
            segment.flags.ecn = EcnFlags::ECE;
        }
        // s6.1.4 to s6.1.6: pure acknowledgements, retransmissions and window probes are not to be marked.
        self.departing = if is_new { Ecn::Ect0 } else { Ecn::NotEct };
        if let Some(flight) = flight
            && is_new
            && std::mem::take(&mut flight.reduced)
        {
            // s6.1.2: on the first new data after the reduction, which is so known to arrive after it.
            segment.flags.ecn = segment.flags.ecn.with(EcnFlags::CWR);
        }
    }
}

impl EcnPolicy {
    /// The bits of the SYN that opens a connection (s6.1.1). One that was lost may have been so for its bits, so that it is
    /// repeated without (s6.1.1.1).
    pub(crate) fn syn(self, attempts: u32) -> EcnFlags {
        if self == EcnPolicy::Request && attempts <= 1 { EcnFlags::BOTH } else { EcnFlags::NONE }
    }

    /// True if a SYN, or the SYN-ACK in answer to one that asked for it, agrees to use ECN.
    pub(crate) fn agrees(self, asked: bool, segment: &Segment) -> bool {
        let theirs = segment.flags.ecn;
        if segment.flags.ack {
            // s6.1.1: a peer that reflects both bits does not know them.
            return asked && theirs == EcnFlags::ECE;
        }
        self != EcnPolicy::Off && theirs == EcnFlags::BOTH
    }
}
