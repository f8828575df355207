//! The scoreboard of a sender with SACK: its knowledge of each segment in flight (RFC 2018, RFC 6675).

use std::collections::VecDeque;

use crate::room;
use crate::time::Time;

/// A segment that was sent and is not yet cumulatively acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// First position.
    pub(crate) start: u64,
    /// One past the last position.
    pub(crate) end: u64,
    /// The time at which it was last sent.
    pub(crate) at: Time,
    /// True if it was sent more than once.
    pub(crate) retransmitted: bool,
    /// True if a SACK block reported it.
    pub(crate) sacked: bool,
    /// True if it was taken for lost and not sent again since.
    pub(crate) lost: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The segments in flight, ascending and without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Sent>,
    bytes: u64,
    sacked_bytes: u64,
    sacked_segments: u64,
    lost_bytes: u64,
    /// No segment before this position is marked lost.
    lost_from: u64,
    /// One past the highest position that a SACK block covered.
    highest_sacked: u64,
    /// The blocks reported last, in which no segment is left to be marked; and which of them is the oldest. A receiver
    /// repeats them, each longer than before, and what is known of them need not be walked again.
    known: [(u64, u64); 4],
    oldest: u8,
    /// What was found lost since it was last taken, for those who [ask](Scoreboard::note_losses).
    losses: Option<Vec<(u64, u64)>>,
}

impl Scoreboard {
    /// Notes what is found lost from now on, for [`take_losses`](Scoreboard::take_losses).
    pub(crate) fn note_losses(&mut self) {
        self.losses.get_or_insert_default();
    }

    /// What was found lost since this was last asked, in the order in which it was found.
    pub(crate) fn take_losses(&mut self) -> Vec<(u64, u64)> {
        self.losses.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a new segment at the end.
    pub(crate) fn push(&mut self, start: u64, end: u64, at: Time) {
        self.bytes += end - start;
        room::for_one_more(&mut self.segments);
        self.segments.push_back(Sent { start, end, at, retransmitted: false, sacked: false, lost: false });
    }

    /// Notes that the segment at `start` is sent again.
    pub(crate) fn resend(&mut self, start: u64, at: Time) {
        if let Some(segment) = self.find_mut(start) {
            segment.at = at;
            segment.retransmitted = true;
            if std::mem::take(&mut segment.lost) {
                self.lost_bytes -= segment.len();
            }
        }
    }

    /// Removes what `una` acknowledges, calling `each` with every segment that leaves.
    pub(crate) fn acknowledge(&mut self, una: u64, mut each: impl FnMut(&Sent)) {
        while let Some(first) = self.segments.front_mut()
            && first.start < una
        {
            let gone = Sent { end: first.end.min(una), ..*first };
            first.start = gone.end;
            let whole = first.start == first.end;
            if whole {
                self.segments.pop_front();
            }
            self.bytes -= gone.len();
            if gone.sacked {
                self.sacked_bytes -= gone.len();
                self.sacked_segments -= u64::from(whole);
            }
            if gone.lost {
                self.lost_bytes -= gone.len();
            }
            each(&gone);
        }
    }

    /// Marks the segments that lie wholly in `[left, right)`, calling `each` with every one newly marked.
    pub(crate) fn sack(&mut self, left: u64, right: u64, mut each: impl FnMut(&Sent)) {
        let Some(known) = self.extend_known(left, right) else { return };
        let first = self.segments.partition_point(|segment| segment.start < left || segment.end <= known);
        for segment in self.segments.range_mut(first..) {
            if segment.end > right {
                break;
            }
            if segment.sacked {
                continue;
            }
            segment.sacked = true;
            self.sacked_bytes += segment.len();
            self.sacked_segments += 1;
            if std::mem::take(&mut segment.lost) {
                self.lost_bytes -= segment.len();
            }
            self.highest_sacked = self.highest_sacked.max(segment.end);
            each(segment);
        }
    }

    /// Takes `[left, right)` among the blocks known, and returns up to where it was known before; `None` if wholly.
    fn extend_known(&mut self, left: u64, right: u64) -> Option<u64> {
        if let Some(known) = self.known.iter_mut().find(|(from, to)| (*from..*to).contains(&left)) {
            // Not from the old begin: a segment across `left` is in neither block.
            return (known.1 < right).then(|| std::mem::replace(known, (left, right)).1);
        }
        self.known[usize::from(self.oldest)] = (left, right);
        self.oldest = (self.oldest + 1) % self.known.len() as u8;
        Some(0)
    }

    /// Marks as lost every segment that `dead` says is, from the first on until `dead` answers `None`.
    /// Returns true if there was one.
    pub(crate) fn mark_lost(&mut self, dead: impl FnMut(&Sent) -> Option<bool>) -> bool {
        self.mark_lost_from(0, dead)
    }

    /// As [`mark_lost`](Scoreboard::mark_lost), of the segments that begin at `from` or later.
    pub(crate) fn mark_lost_from(&mut self, from: u64, mut dead: impl FnMut(&Sent) -> Option<bool>) -> bool {
        let mut any = false;
        let first = if from == 0 { 0 } else { self.segments.partition_point(|segment| segment.start < from) };
        for segment in self.segments.range_mut(first..) {
            if segment.sacked || segment.lost {
                continue;
            }
            match dead(segment) {
                None => break,
                Some(false) => {}
                Some(true) => {
                    segment.lost = true;
                    self.lost_bytes += segment.len();
                    self.lost_from = self.lost_from.min(segment.start);
                    if let Some(losses) = &mut self.losses {
                        losses.push((segment.start, segment.end));
                    }
                    any = true;
                }
            }
        }
        any
    }

    /// The position below which every segment has at least `threshold` SACKed segments above it (RFC 6675 s4,
    /// IsLost), if any.
    pub(crate) fn lost_below(&self, threshold: u32) -> Option<u64> {
        if self.sacked_segments < u64::from(threshold) {
            return None;
        }
        let top = self.segments.partition_point(|segment| segment.start < self.highest_sacked);
        let mut above = 0;
        self.segments
            .range(..top)
            .rev()
            .filter(|segment| segment.sacked)
            .find(|_| {
                above += 1;
                above >= threshold
            })
            .map(|segment| segment.start)
    }

    /// The first segment that is taken for lost and waits to be sent again.
    pub(crate) fn next_lost(&mut self) -> Option<Sent> {
        if self.lost_bytes == 0 {
            self.lost_from = u64::MAX;
            return None;
        }
        let from = self.segments.partition_point(|segment| segment.start < self.lost_from);
        let found = self.segments.range(from..).find(|segment| segment.lost).copied();
        if let Some(segment) = found {
            self.lost_from = segment.start;
        }
        found
    }

    /// Forgets what SACK blocks said, for a receiver that reneged (RFC 2018 s8).
    pub(crate) fn forget_sacks(&mut self) {
        for segment in &mut self.segments {
            segment.sacked = false;
        }
        self.sacked_bytes = 0;
        self.sacked_segments = 0;
        self.highest_sacked = 0;
        self.known = Default::default();
    }

    /// Takes nothing for lost any more.
    pub(crate) fn forget_losses(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
        }
        self.lost_bytes = 0;
    }

    /// The first segment.
    pub(crate) fn first(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// The last segment.
    pub(crate) fn last(&self) -> Option<&Sent> {
        self.segments.back()
    }

    /// Bytes believed to be in the network (RFC 6675 s2, pipe).
    pub(crate) fn pipe(&self) -> u64 {
        self.bytes - self.sacked_bytes - self.lost_bytes
    }

    /// Bytes reported by SACK blocks.
    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// One past the highest position that a SACK block covered.
    pub(crate) fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }

    /// Bytes taken for lost and not sent again since.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    fn find_mut(&mut self, start: u64) -> Option<&mut Sent> {
        let at = self.segments.partition_point(|segment| segment.start < start);
        self.segments.get_mut(at).filter(|segment| segment.start == start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_mark_what_lies_in_them_whatever_was_reported_before(
            segments in vec(1..4_u64, 1..40),
            blocks in vec((0..80_u64, 0..20_u64), 0..40),
        ) {
            let mut board = Scoreboard::default();
            let mut end = 0;
            let mut wanted: Vec<(u64, u64, bool)> = Vec::new();
            for len in segments {
                board.push(end, end + len, Time::ZERO);
                wanted.push((end, end + len, false));
                end += len;
            }
            for (left, len) in blocks {
                let right = (left + len).min(end);
                let mut newly = 0;
                board.sack(left, right, |segment| newly += segment.len());
                let mut expected = 0;
                for (from, to, is_sacked) in &mut wanted {
                    if *from >= left && *to <= right && !*is_sacked {
                        *is_sacked = true;
                        expected += *to - *from;
                    }
                }
                prop_assert_eq!(newly, expected);
                let marked = board.segments.iter().map(|segment| (segment.start, segment.end, segment.sacked));
                prop_assert!(marked.eq(wanted.iter().copied()), "{:?} of {:?}", board, wanted);
            }
        }
    }
}
