//! The judgement whether a loss was congestion or damage, by the delay of what came before and behind it.
//!
//! A queue that drops at its tail is full when it does, so what passes it just before and behind a drop is late. A damaged
//! packet is as likely to be an early one. A loss counts as congestion if the one-way delay next to it is in the upper quarter
//! of its range over the last half minute or whole one. Clocks at the two ends need not agree: only differences are used.
//!
//! A queue that drops early does so at any delay, and nobody can tell that from damage. So there is a limit in the manner of
//! RFC 8084: where more than a tenth is lost, every loss is congestion.

use std::collections::VecDeque;

use crate::time::{Duration, Time};

/// The length of a span: a range of delays is that of the last span and the one under way.
const SPAN: Duration = Duration::from_secs(30);
/// The least range of delays, in nanoseconds, that is taken for a queue.
const FLOOR: i64 = 2_000_000;
/// The largest part of what is sent that may be lost to damage is one in so many.
const DAMAGED_MAX: u64 = 10;
/// Datagrams that must be counted before the lost part is judged. At twice as many, the counts are halved.
const COUNTED: u64 = 256;
/// Delays that are remembered by number.
const REMEMBERED: usize = 64;

/// One-way delays in nanoseconds, each with the same unknown offset.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// The least and the largest of the span under way, and of the one before.
    current: Option<(i64, i64)>,
    previous: Option<(i64, i64)>,
    since: Option<Time>,
    /// Datagrams that are known to be delivered or lost, and the lost ones among them.
    settled: u64,
    lost: u64,
    /// The last ones with their numbers, ascending.
    recent: VecDeque<(u64, i64)>,
}

impl Delays {
    /// Takes the delay of datagram `number`, which left at `sent` and came at `received` by the other end's clock.
    pub(super) fn sample(&mut self, now: Time, number: u64, sent: Time, received: Time) {
        let delay = received.as_nanos().wrapping_sub(sent.as_nanos()) as i64;
        let since = *self.since.get_or_insert(now);
        if now.since(since) > SPAN {
            (self.previous, self.current, self.since) = (self.current.take(), None, Some(now));
        }
        let (least, largest) = self.current.unwrap_or((delay, delay));
        self.current = Some((least.min(delay), largest.max(delay)));
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((number, delay));
    }

    /// Counts another datagram that is known to be delivered or lost.
    pub(super) fn settle(&mut self, lost: bool) {
        self.settled += 1;
        self.lost += u64::from(lost);
        if self.settled == 2 * COUNTED {
            self.settled /= 2;
            self.lost /= 2;
        }
    }

    /// Returns true if the loss of datagram `number` was congestion.
    pub(super) fn congested_at(&self, number: u64) -> bool {
        if self.settled >= COUNTED && self.lost * DAMAGED_MAX > self.settled {
            return true;
        }
        let next = self.recent.partition_point(|(known, _)| *known < number);
        let nearby = [next.checked_sub(1), Some(next)];
        let beside = nearby.into_iter().flatten().filter_map(|at| self.recent.get(at)).map(|(_, delay)| *delay);
        let ranges = [self.current, self.previous].into_iter().flatten();
        let range = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (Some(delay), Some((least, largest))) = (beside.max(), range) else { return true };
        let width = largest.saturating_sub(least);
        width >= FLOOR && delay.saturating_sub(least) >= width / 4 * 3
    }
}
