//! The half of a stream that sends: what was written and not acknowledged, and what of it is to leave next.

use std::collections::VecDeque;

use super::SPARE;
use crate::frame::VARINT_MAX;
use crate::ranges::Ranges;

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct Sending {
    /// Bytes from `base` on.
    bytes: VecDeque<u8>,
    /// The place before which all is acknowledged.
    base: u64,
    /// The place before which all has left once.
    next: u64,
    /// Places from `base` on that were acknowledged, and those that were lost and are to leave again.
    acknowledged: Ranges,
    lost: Ranges,
    /// Bytes that the peer takes.
    pub(super) most: u64,
    end: End,
    /// The peer knows where the stream ends.
    end_has_come: bool,
    /// The application waits for room, and how much there may be.
    pub(super) is_wanted: bool,
    room: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may be written.
    Open,
    /// The end is known, and is to leave with the last bytes.
    Due,
    /// It has left.
    Sent,
    /// All has come, the end included.
    Acknowledged,
    /// The stream was reset, and the peer is to hear of it.
    Reset(u64),
    /// The peer has heard of it.
    ResetHeard,
}

/// A piece of a stream that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_last: bool,
}

impl Sending {
    pub(super) fn new(most: u64) -> Sending {
        Sending {
            bytes: VecDeque::new(),
            base: 0,
            next: 0,
            acknowledged: Ranges::default(),
            lost: Ranges::default(),
            most,
            end: End::Open,
            end_has_come: false,
            is_wanted: false,
            room: 0,
        }
    }

    fn written(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Bytes that have not left yet.
    pub(super) fn unsent(&self) -> u64 {
        self.written() - self.next
    }

    /// Returns true if half of the room is free, so that a writer that waits need not any more.
    pub(super) fn has_room(&self) -> bool {
        self.unsent() <= self.room / 2
    }

    /// The place before which all has left once.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    /// Takes bytes as long as fewer than `room` wait. Returns how many.
    pub(super) fn write(&mut self, bytes: &[u8], room: u64) -> usize {
        self.room = room;
        let left = room.saturating_sub(self.unsent()).min(VARINT_MAX - self.written());
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.bytes.extend(&bytes[..taken]);
        taken
    }

    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    pub(super) fn is_reset(&self) -> bool {
        matches!(self.end, End::Reset(_) | End::ResetHeard)
    }

    /// Nothing more will be written.
    pub(super) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Due;
        }
    }

    /// Ends the stream before its time. Returns false if it had ended.
    pub(super) fn reset(&mut self, code: u64) -> bool {
        if matches!(self.end, End::Acknowledged | End::Reset(_) | End::ResetHeard) {
            return false;
        }
        self.end = End::Reset(code);
        // Nobody waits for them.
        self.bytes = VecDeque::new();
        self.base = self.next;
        (self.acknowledged, self.lost) = (Ranges::default(), Ranges::default());
        true
    }

    /// The code and the length of a stream that was reset.
    pub(super) fn reset_code(&self) -> Option<(u64, u64)> {
        match self.end {
            End::Reset(code) => Some((code, self.next)),
            _ => None,
        }
    }

    pub(super) fn on_reset_heard(&mut self) {
        if matches!(self.end, End::Reset(_)) {
            self.end = End::ResetHeard;
        }
    }

    /// Returns true if nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.end, End::Acknowledged | End::ResetHeard)
    }

    /// Returns true if there is something to send, with so much credit for bytes that have never left.
    pub(super) fn has_piece(&self, credit: u64) -> bool {
        !self.lost.is_empty() || self.end == End::Due || self.fresh(credit) > 0
    }

    fn fresh(&self, credit: u64) -> u64 {
        self.unsent().min(self.most.saturating_sub(self.next)).min(credit)
    }

    /// The next piece of at most `len` bytes: what was lost first.
    pub(super) fn piece(&mut self, len: u64, credit: u64) -> Option<Piece> {
        if self.is_reset() {
            return None;
        }
        let (start, end) = match self.lost.first() {
            Some((start, end)) => {
                let end = end.min(start + len);
                self.lost.remove(start, end);
                (start, end)
            }
            None => {
                let start = self.next;
                self.next += self.fresh(credit).min(len);
                (start, self.next)
            }
        };
        let is_last = self.end == End::Due && end == self.written() && self.next == end;
        if is_last {
            self.end = End::Sent;
        }
        (start < end || is_last).then_some(Piece { start, end, is_last })
    }

    /// Writes a piece's bytes behind what is in `out`.
    pub(super) fn copy(&self, piece: Piece, out: &mut Vec<u8>) {
        let (from, to) = ((piece.start - self.base) as usize, (piece.end - self.base) as usize);
        let (front, back) = self.bytes.as_slices();
        if from < front.len() {
            out.extend_from_slice(&front[from..to.min(front.len())]);
        }
        if to > front.len() {
            out.extend_from_slice(&back[from.saturating_sub(front.len())..to - front.len()]);
        }
    }

    /// Notes that a piece has come.
    pub(super) fn on_delivered(&mut self, piece: Piece) {
        if self.is_reset() {
            return;
        }
        if piece.end > self.base {
            self.lost.remove(piece.start, piece.end);
            self.acknowledged.insert(piece.start.max(self.base), piece.end);
            if let Some((start, end)) = self.acknowledged.first()
                && start <= self.base
            {
                self.bytes.drain(..(end - self.base) as usize);
                self.base = end;
                self.acknowledged.remove_before(end);
            }
        }
        if piece.is_last {
            // Bytes before it may be missing; the end itself has come.
            self.end = End::Sent;
            self.end_has_come = true;
        }
        if self.end_has_come && self.bytes.is_empty() {
            self.end = End::Acknowledged;
            self.bytes = VecDeque::new();
        }
    }

    /// Gives back the memory that a burst took, if all of it has come.
    pub(super) fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.shrink_to(SPARE);
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Notes that a piece is lost, and is to leave again.
    pub(super) fn on_lost(&mut self, piece: Piece) {
        if self.is_reset() {
            return;
        }
        let lost = &mut self.lost;
        self.acknowledged.gaps(piece.start.max(self.base), piece.end, |start, end| lost.insert(start, end));
        if piece.is_last && self.end == End::Sent && !self.end_has_come {
            self.end = End::Due;
        }
    }
}
