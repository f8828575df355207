//! A link that was recorded: the times at which it could have delivered a packet.

use std::sync::Arc;

use super::Service;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// Serves so many bytes at each of some times, over and over: mahimahi's links (Netravali et al. 2015, s2; its
/// `mm-link(1)`).
///
/// Small packets share an opportunity, a large one takes several, and what nobody used at its time is gone. The
/// recording starts again when its last opportunity has come.
#[derive(Debug)]
pub struct Opportunities {
    times: Arc<[Duration]>,
    each: Bytes,
    /// The opportunity that is next or in use: its number, and the start of its turn of the recording.
    at: usize,
    turn: Time,
    /// Bytes that are left of this opportunity.
    left: Bytes,
}

impl Opportunities {
    /// Serves `each` bytes at each of `times`, counted from the start of each turn; a turn ends with the last of them.
    ///
    /// # Panics
    /// If there is none, they do not ascend, the last is at zero, or `each` is zero.
    pub fn new(times: Arc<[Duration]>, each: Bytes) -> Opportunities {
        assert!(times.last().is_some_and(|&last| last > Duration::ZERO), "a recording lasts for some time");
        assert!(times.is_sorted(), "the opportunities are in order");
        assert!(each > Bytes::ZERO, "an opportunity is good for something");
        Opportunities { times, each, at: 0, turn: Time::ZERO, left: each }
    }

    fn time(&self) -> Time {
        self.turn + self.times[self.at]
    }

    fn length(&self) -> Duration {
        *self.times.last().expect("there are opportunities")
    }

    fn next(&mut self) {
        self.left = self.each;
        self.at += 1;
        if self.at == self.times.len() {
            self.at = 0;
            self.turn += self.length();
        }
    }

    /// Skips the opportunities that were before `start`.
    fn skip_to(&mut self, start: Time) {
        if self.time() >= start {
            return;
        }
        // The turn whose last opportunity is the first not before `start`, then the first such in it.
        let length = self.length().as_nanos();
        let turn = start.as_nanos().div_ceil(length).saturating_sub(1) * length;
        let turn = Time::from_nanos(turn).max(self.turn);
        self.at = self.times.partition_point(|&time| turn + time < start);
        self.turn = turn;
        self.left = self.each;
    }
}

impl Service for Opportunities {
    fn finish(&mut self, start: Time, len: Bytes) -> Time {
        self.skip_to(start);
        let mut len = len;
        loop {
            if self.left == Bytes::ZERO {
                self.next();
            }
            let used = len.min(self.left);
            self.left -= used;
            len -= used;
            if len == Bytes::ZERO {
                return self.time().max(start);
            }
        }
    }
}
