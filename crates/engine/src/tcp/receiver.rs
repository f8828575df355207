//! The receiving half: reassembly, window, delayed and selective acknowledgements. It counts bytes and holds none.

use super::personality::{DelayedAck, Personality, WindowUpdate};
use super::segment::SackBlocks;
use super::seq;
use crate::time::{Duration, Time};

/// The receiving half of a connection: what has arrived, what was read, and when to acknowledge.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Receiver {
    /// Next position expected (RFC 9293 RCV.NXT).
    next: u64,
    /// Position up to which the application has read.
    read: u64,
    /// Right edge of the window last offered; it never moves left (RFC 9293 s3.8.6).
    edge: u64,
    /// Bytes of buffer.
    capacity: u64,
    /// Bytes that arrived in order and are not acknowledged yet.
    unacknowledged: u64,
    /// Largest payload seen: a full-sized segment, for the every-second-segment rule (RFC 1122 s4.2.3.2).
    full_segment: u64,
    pace: Pace,
    delayed_until: Option<Time>,
    acknowledge_now: bool,
    /// Position of the peer's FIN, once known.
    fin: Option<u64>,
    policy: DelayedAck,
    window_update: WindowUpdate,
    /// Ranges beyond `next` that have arrived, ascending and apart.
    islands: Vec<Island>,
    /// A duplicate to report with the next acknowledgement (RFC 2883).
    duplicate: Option<(u64, u64)>,
    /// The time between the last tick of a heartbeat's clock and time zero.
    phase: Duration,
    /// Counts arrivals, to say which island is the most recent.
    arrivals: u64,
    /// Payload-bearing segments that brought nothing new.
    duplicates: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Island {
    start: u64,
    end: u64,
    /// The arrival that touched it last.
    touched: u64,
}

/// The pace of acknowledgements of an adaptive receiver (Linux).
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Segments still to be acknowledged one by one.
    quick: u32,
    /// The delay now; zero before the first segment.
    delay: Duration,
    /// The time at which data came last.
    last: Time,
    /// The round trip, once known: the delay does not grow beyond it.
    round_trip: Option<Duration>,
}

impl Pace {
    /// A segment with payload arrived.
    fn arrive(&mut self, now: Time, policy: &DelayedAck, quick: u32) {
        let gap = now.since(self.last);
        self.last = now;
        if self.delay == Duration::ZERO {
            self.quick = quick;
            self.delay = policy.timeout;
        } else if gap <= policy.timeout / 2 {
            self.delay = self.delay / 2 + policy.timeout / 2;
        } else if gap < self.delay {
            self.delay = self.delay / 2 + gap;
        } else if gap > policy.timeout + self.round_trip.unwrap_or(policy.timeout_max) {
            // The sender paused, and may begin again with one segment.
            self.quick = quick;
        }
    }

    fn timeout(&self, policy: &DelayedAck) -> Duration {
        let longest = self.round_trip.unwrap_or(policy.timeout_max).clamp(policy.timeout, policy.timeout_max);
        self.delay.min(longest)
    }
}

impl Receiver {
    /// A receiver that expects position 1, just after the peer's SYN.
    pub(crate) fn new(personality: &Personality, phase: Duration) -> Receiver {
        let capacity = personality.receive_buffer.get();
        Receiver {
            policy: personality.delayed_ack,
            window_update: personality.window_update,
            phase,
            next: 1,
            read: 1,
            capacity,
            edge: 1 + capacity,
            islands: Vec::new(),
            arrivals: 0,
            duplicate: None,
            unacknowledged: 0,
            full_segment: 0,
            acknowledge_now: false,
            pace: Pace::default(),
            delayed_until: None,
            fin: None,
            duplicates: 0,
        }
    }

    /// Takes `len` bytes at `start`, then a FIN if `fin`. Positions outside the window are cut off.
    pub(crate) fn arrive(&mut self, now: Time, start: u64, len: u64, fin: bool) {
        self.full_segment = self.full_segment.max(len);
        if self.policy.quick_segments > 0 || self.policy.timeout_max > self.policy.timeout {
            // Not more than keep the window in motion: each tells of a segment.
            let quick = self.capacity / (2 * self.full_segment.max(1));
            self.pace.arrive(now, &self.policy, self.policy.quick_segments.min(quick.clamp(2, 1_000) as u32));
        }
        let end = start + len;
        if fin && self.fin.is_none() && end < self.edge + 1 {
            self.fin = Some(end);
        }
        // Nothing follows a FIN, whatever a peer says.
        let end = self.fin.map_or(end, |known| end.min(known));
        let end = (end + u64::from(fin)).min(self.edge + u64::from(self.fin.is_some()));
        if end <= self.next || start >= end {
            // RFC 9293 s3.10.7.4: not acceptable, so acknowledge at once.
            self.note_repeat(start, len);
            self.acknowledge_now = true;
            return;
        }
        let start = start.max(self.next);
        if start > self.next {
            self.add_island(start, end);
            if self.policy.out_of_order_at_once {
                self.acknowledge_now = true;
            } else {
                self.delay(now, len);
            }
            return;
        }
        let had_gap = !self.islands.is_empty();
        self.next = end;
        self.absorb_islands();
        let joined = self.next > end;
        if self.has_fin() || joined || (had_gap && self.policy.gap_fill_at_once) {
            self.acknowledge_now = true;
        } else {
            self.delay(now, len);
        }
    }

    /// A segment of `len` bytes at `start` came: if all of it had come before, counts it and has D-SACK report it.
    pub(crate) fn note_repeat(&mut self, start: u64, len: u64) {
        let end = start + len;
        if len > 0 && end <= self.next {
            self.duplicates += 1;
            self.duplicate = Some((start, end));
        }
    }

    fn delay(&mut self, now: Time, len: u64) {
        self.unacknowledged += len;
        // RFC 1122 s4.2.3.2, RFC 5681 s4.2: at least every second full-sized segment.
        let due = self.full_segment * u64::from(self.policy.segments);
        if self.policy.segments <= 1 || self.unacknowledged >= due || self.pace.quick > 0 {
            self.acknowledge_now = true;
        } else if self.delayed_until.is_none() {
            let adapts = self.policy.timeout_max > self.policy.timeout && self.pace.delay > Duration::ZERO;
            let timeout = if adapts { self.pace.timeout(&self.policy) } else { self.policy.timeout };
            self.delayed_until = Some(if self.policy.heartbeat {
                let beat = timeout.as_nanos();
                let next_beat = ((now + self.phase).as_nanos() / beat + 1) * beat;
                Time::from_nanos(next_beat.saturating_sub(self.phase.as_nanos()))
            } else {
                now + timeout
            });
        }
    }

    fn add_island(&mut self, start: u64, end: u64) {
        self.arrivals += 1;
        let mut new = Island { start, end, touched: self.arrivals };
        let first = self.islands.partition_point(|island| island.end < start);
        let after = self.islands.partition_point(|island| island.start <= end);
        if let Some(overlapped) = self.islands.get(first)
            && overlapped.start <= start
            && overlapped.end >= end
        {
            self.duplicates += 1;
            self.duplicate = Some((start, end));
        }
        for island in &self.islands[first..after] {
            new.start = new.start.min(island.start);
            new.end = new.end.max(island.end);
        }
        self.islands.splice(first..after, [new]);
    }

    fn absorb_islands(&mut self) {
        let absorbed = self.islands.partition_point(|island| island.start <= self.next);
        if let Some(last) = absorbed.checked_sub(1) {
            self.next = self.next.max(self.islands[last].end);
            self.islands.drain(..absorbed);
        }
    }

    /// True if an acknowledgement must leave now: for data, a full delay, or a window worth announcing.
    pub(crate) fn wants_acknowledgement(&self, now: Time) -> bool {
        self.acknowledge_now || self.delayed_until.is_some_and(|due| due <= now)
    }

    /// True if an acknowledgement is due that tells of a gap or of a duplicate.
    pub(crate) fn wants_bare_acknowledgement(&self) -> bool {
        self.acknowledge_now && (!self.islands.is_empty() || self.duplicate.is_some())
    }

    /// The hand-shake, or our own data, took this long to be acknowledged.
    pub(crate) fn note_round_trip(&mut self, round_trip: Duration) {
        self.pace.round_trip = Some(round_trip);
    }

    /// Asks for an acknowledgement at the next opportunity.
    pub(crate) fn acknowledge(&mut self) {
        self.acknowledge_now = true;
    }

    /// The time at which the delayed acknowledgement is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.delayed_until
    }

    /// An acknowledgement leaves: its position, and the window to offer with it, in bytes.
    pub(crate) fn acknowledged(&mut self) -> (u64, u64) {
        if self.unacknowledged > 0 || self.acknowledge_now {
            self.pace.quick = self.pace.quick.saturating_sub(1);
        }
        self.acknowledge_now = false;
        self.delayed_until = None;
        self.unacknowledged = 0;
        self.edge = self.edge.max(self.offer());
        (self.next, self.edge - self.data_next())
    }

    /// The SACK blocks for the acknowledgement that leaves, most recent first (RFC 2018 s4), a duplicate before them
    /// (RFC 2883 s4); at most `blocks_max`.
    pub(crate) fn sack_blocks(&mut self, isn: u32, blocks_max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if self.islands.is_empty() && self.duplicate.is_none() {
            return blocks;
        }
        let mut room = blocks_max;
        if let Some((start, end)) = self.duplicate.take() {
            blocks.push(seq::number(isn, start), seq::number(isn, end));
            room -= 1;
        }
        let mut newest_before = u64::MAX;
        while room > 0
            && let Some(island) = self.islands.iter().filter(|i| i.touched < newest_before).max_by_key(|i| i.touched)
        {
            blocks.push(seq::number(isn, island.start), seq::number(isn, island.end));
            newest_before = island.touched;
            room -= 1;
        }
        blocks
    }

    /// The right edge that the free buffer allows, moved only by a step worth sending (RFC 1122 s4.2.3.3).
    fn offer(&self) -> u64 {
        let edge = self.read + self.capacity;
        let step = (self.capacity / 2).min(self.full_segment.max(1));
        if edge >= self.edge + step { edge } else { self.edge }
    }

    /// The application takes up to `len` bytes; returns how many there were. A window that thereby opens enough for a
    /// waiting sender is announced at once (RFC 9293 s3.8.6.2.2).
    pub(crate) fn read(&mut self, len: u64) -> u64 {
        let taken = len.min(self.readable());
        if taken == 0 {
            return 0;
        }
        self.read += taken;
        if self.is_update_due() {
            self.acknowledge_now = true;
        }
        taken
    }

    /// The window would open by enough to say so although no data are to be acknowledged.
    fn is_update_due(&self) -> bool {
        let offered = self.edge - self.data_next();
        let growth = self.offer() - self.edge;
        let (full, capacity) = (self.full_segment.max(1), self.capacity.max(2));
        match self.window_update {
            WindowUpdate::TwoSegments => growth >= (2 * full).min(capacity / 2),
            // RFC 9293 s3.8.6.2.2: a window that was closed opens with what the sender waits for.
            WindowUpdate::Doubled if offered < full => growth >= full.min(capacity / 2),
            WindowUpdate::Doubled => growth >= offered && growth >= (2 * full).min(capacity),
        }
    }

    /// The number of bytes that arrived in order and were not read.
    pub(crate) fn readable(&self) -> u64 {
        self.data_next() - self.read
    }

    /// The number of bytes that arrived in order, read or not.
    pub(crate) fn received(&self) -> u64 {
        self.data_next() - 1
    }

    /// The next position expected, the peer's FIN not counted as a byte.
    fn data_next(&self) -> u64 {
        self.next - u64::from(self.has_fin())
    }

    /// True once the peer's FIN and all before it have arrived.
    pub(crate) fn has_fin(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Next position expected, the FIN counted.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Right edge of the offered window.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// Payload-bearing segments that brought nothing new.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }
}
