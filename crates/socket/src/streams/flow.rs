//! Flow control of all streams together: how much each end may send, and how windows grow.
//!
//! A window begins small. Who uses half of one in less than two round trips gets one of twice the size, as long as the endpoint's
//! [budget](Budget) lasts: so memory goes to the paths that need it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headend_engine::time::{Duration, Time};

use super::Violation;
use crate::frame::code;

/// Streams that have the least window for themselves in that of their connection.
pub(crate) const SHARE: u64 = 4;
/// The time for which an end without memory for larger windows does not ask for it again.
const BROKE: Duration = Duration::from_secs(1);
/// The part of the largest window of a connection that one stream may have: those that nobody reads must leave some.
const STREAM_PART: u64 = 16;

/// Memory that connections may take beyond what each has from the start; all of an endpoint share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget(Arc::new(AtomicU64::new(bytes)))
    }

    pub(crate) fn take(&self, bytes: u64) -> bool {
        let spent = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What both ends may send, of all streams of a connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// Bytes that have left for the first time, and that may.
    sent: u64,
    sent_max: u64,
    /// Bytes that came, that were read, and that may come.
    came: u64,
    consumed: u64,
    told: u64,
    window: u64,
    window_max: u64,
    tuned: Time,
    /// There was no memory for larger windows, and until then nobody asks again.
    broke_until: Time,
    /// The time and the round trip, as they were told last.
    pub(super) now: Time,
    rtt: Duration,
    budget: Budget,
    /// Bytes of the budget that are taken.
    taken: u64,
}

impl Flow {
    /// Windows at their beginning: `window` for a stream, at most `window_max` for all; the peer takes `sent_max` bytes.
    pub(super) fn new(window: u64, window_max: u64, sent_max: u64, budget: Budget) -> Flow {
        Flow {
            sent: 0,
            sent_max,
            came: 0,
            consumed: 0,
            told: window * SHARE,
            window: window * SHARE,
            window_max,
            tuned: Time::ZERO,
            broke_until: Time::ZERO,
            now: Time::ZERO,
            rtt: Duration::ZERO,
            budget,
            taken: 0,
        }
    }

    pub(super) fn set_time(&mut self, now: Time, rtt: Duration) {
        (self.now, self.rtt) = (now, rtt);
    }

    // What leaves.

    /// Bytes that may leave for the first time.
    pub(super) fn credit(&self) -> u64 {
        self.sent_max - self.sent
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// The peer takes so many bytes since the beginning.
    pub(super) fn raise(&mut self, most: u64) {
        self.sent_max = self.sent_max.max(most);
    }

    // What comes.

    /// Counts bytes that came and bytes that were read.
    pub(super) fn on_came(&mut self, came: u64, read: u64) -> Result<(), Violation> {
        self.came += came;
        self.consumed += read;
        if self.came > self.told {
            return Err(Violation(code::FLOW, "more bytes than were allowed"));
        }
        Ok(())
    }

    /// Counts bytes that were read.
    pub(super) fn on_read(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// Returns true if enough was read for the peer to be told so.
    pub(super) fn wants_to_tell(&self) -> bool {
        self.told - self.consumed < self.window / 2
    }

    /// Returns true if the peer has used up half of what all streams together may bring.
    pub(super) fn is_tight(&self) -> bool {
        let may_grow = self.window < self.window_max && self.now >= self.broke_until;
        may_grow && self.told - self.came < self.window / 2
    }

    /// Bytes that may come since the beginning, as the peer is to be told now.
    pub(super) fn tell(&mut self) -> u64 {
        let before = if self.is_tight() { self.now } else { self.tuned };
        (self.window, self.tuned) = self.grown(self.window, before, self.window_max);
        self.told = self.told.max(self.consumed + self.window);
        self.told
    }

    /// Returns true if a window that was looked at then may be looked at again: what it grew by takes a round trip to be used.
    pub(super) fn may_tune(&self, before: Time) -> bool {
        self.now.since(before) >= self.rtt / 2
    }

    /// The window of one stream that was looked at then, and when it was looked at.
    pub(super) fn grown_stream(&mut self, window: u64, before: Time) -> (u64, Time) {
        self.grown(window, before, self.window.min(self.window_max / STREAM_PART))
    }

    /// The window for who has used half of one in less than two round trips: twice as much, if there is memory for it.
    fn grown(&mut self, window: u64, before: Time, most: u64) -> (u64, Time) {
        let is_fast = before > Time::ZERO && self.now.since(before) < self.rtt * 2;
        let more = window.min(most.saturating_sub(window));
        if is_fast && more > 0 {
            if self.budget.take(more) {
                self.taken += more;
                return (window + more, self.now);
            }
            self.broke_until = self.now + BROKE;
        }
        (window, self.now)
    }

    /// A stream has ended whose window had grown by so much.
    pub(super) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.taken);
        self.taken -= bytes;
        self.budget.give(bytes);
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}
