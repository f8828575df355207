//! The receiving end: it notes which numbers have come, and decides when to say so.

use std::collections::VecDeque;

use super::HELD_MAX;
use super::acknowledgement::{Acknowledgement, RANGES_MAX};
use crate::time::{Duration, Time};

/// Times that a range is told after its last change: so many acknowledgements in a row must be lost for the sender to miss it.
const TELLINGS: u8 = 8;
/// Ranges that are remembered at all.
const REMEMBERED_MAX: usize = 64;

/// Notes the numbers of datagrams, and makes acknowledgements of them.
#[derive(Debug)]
pub struct Receiver {
    /// The ranges of numbers that came, ascending. They neither overlap nor touch.
    ranges: VecDeque<Range>,
    /// Datagrams that make an acknowledgement due at once; fewer do after `held_max`.
    every: u32,
    held_max: Duration,
    /// Datagrams since the last acknowledgement.
    waiting: u32,
    /// True if a gap began or was filled, which is told at once.
    at_once: bool,
    /// The time at which the first of those that wait makes an acknowledgement due.
    due: Option<Time>,
    /// The time when the datagram with the largest number came.
    received: Time,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    told: u8,
}

impl Receiver {
    /// A receiving end that acknowledges every `every` datagrams: two, as a TCP does (RFC 5681 s4.2, RFC 9000 s13.2.2).
    ///
    /// # Panics
    /// If `every` is zero.
    pub fn new(every: u32) -> Receiver {
        assert!(every > 0, "something must come to be acknowledged");
        let ranges = VecDeque::new();
        Receiver { ranges, every, held_max: HELD_MAX, waiting: 0, at_once: false, due: None, received: Time::ZERO }
    }

    /// A receiving end that holds no acknowledgement back for longer than that.
    pub fn with_held_max(self, held_max: Duration) -> Receiver {
        Receiver { held_max, ..self }
    }

    /// Notes that a datagram came. It does not judge whether that came before: a range that was told long ago is forgotten.
    pub fn receive(&mut self, now: Time, number: u64) {
        let newest = self.ranges.back().map(|range| range.last);
        if newest.is_none_or(|last| number > last) {
            self.received = now;
        }
        // RFC 9000 s13.2.1: at once if it is out of order, for then a loss may be found.
        self.at_once |= newest.map_or(number > 0, |last| number != last + 1);
        self.note(number);
        self.waiting += 1;
        self.due.get_or_insert(now + self.held_max);
    }

    fn note(&mut self, number: u64) {
        // Most come in order, and the rest near the end.
        let after = self.ranges.iter().rposition(|range| range.first <= number).map_or(0, |at| at + 1);
        let fresh = Range { first: number, last: number, told: 0 };
        let follows = after > 0 && number <= self.ranges[after - 1].last.saturating_add(1);
        let leads = self.ranges.get(after).is_some_and(|next| next.first == number.saturating_add(1));
        match (follows, leads) {
            (true, true) => {
                let next = self.ranges.remove(after).expect("the range that it leads");
                self.ranges[after - 1] = Range { last: next.last, told: 0, ..self.ranges[after - 1] };
            }
            (true, false) => {
                let range = &mut self.ranges[after - 1];
                if number > range.last {
                    *range = Range { last: number, told: 0, ..*range };
                }
            }
            (false, true) => self.ranges[after] = Range { first: number, told: 0, ..self.ranges[after] },
            (false, false) => self.ranges.insert(after, fresh),
        }
        if self.ranges.len() > REMEMBERED_MAX {
            self.ranges.pop_front();
        }
    }

    /// The acknowledgement that is to be sent now, if one is due.
    pub fn poll(&mut self, now: Time) -> Option<Acknowledgement> {
        let is_due = self.at_once || self.waiting >= self.every || self.due.is_some_and(|due| due <= now);
        if self.waiting == 0 || !is_due {
            return None;
        }
        (self.waiting, self.at_once, self.due) = (0, false, None);
        let told = self.ranges.iter_mut().rev().take(RANGES_MAX);
        let ranges = told.map(|range| {
            range.told = range.told.saturating_add(1);
            (range.first, range.last)
        });
        let ranges = ranges.collect();
        // The newest grows, and says what the largest number is.
        let newest = self.ranges.back().map(|range| range.last);
        self.ranges.retain(|range| range.told < TELLINGS || Some(range.last) == newest);
        Some(Acknowledgement { received: self.received, held: now.since(self.received), ranges })
    }

    /// The time at which [`poll`](Receiver::poll) will have something to say, if nothing comes before.
    pub fn deadline(&self) -> Option<Time> {
        self.due
    }
}
