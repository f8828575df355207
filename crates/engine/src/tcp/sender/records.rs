//! A stream whose segments are what was written, each whole: a TCP that was changed to recognise packets (decoupling thesis,
//! s3.4.2).

use std::collections::VecDeque;

use super::Piece;
use crate::tcp::flight::Flight;
use crate::tcp::recovery::Want;

/// The ends of the writes that are not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Records {
    ends: VecDeque<u64>,
}

impl Records {
    /// Adds a write that ends at `end`, one past its last position.
    pub(super) fn write(&mut self, end: u64) {
        self.ends.push_back(end);
    }

    /// Lets go the writes that `una` acknowledges.
    pub(super) fn acknowledge(&mut self, una: u64) {
        while self.ends.front().is_some_and(|end| *end <= una) {
            self.ends.pop_front();
        }
    }

    /// The write that holds the wanted position, if it may leave as a whole. With nothing in flight it may whatever the
    /// congestion window says, which may be smaller and would never grow.
    pub(super) fn piece(&self, want: Want, flight: &Flight) -> Option<Piece> {
        let at = self.ends.partition_point(|end| *end <= want.start);
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(flight.una, |before| self.ends[before]);
        let resend = start < flight.max;
        let fits_window = end <= want.limit || want.forced || flight.size() == 0;
        let fits_peer = end <= flight.edge || resend && want.forced;
        (fits_window && fits_peer).then_some(Piece { start, len: end - start, fin: false })
    }
}
