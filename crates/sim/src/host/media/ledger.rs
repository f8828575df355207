//! A ledger of what becomes of each frame. Both ends write into it: it stands for the headers of frames, which no
//! packet of a simulation carries.

use std::collections::BTreeMap;

use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

/// The frames of one flow.
#[derive(Debug)]
pub(crate) struct Ledger {
    deadline: Duration,
    frames: Vec<Fate>,
    /// The frame of each datagram and its number in the order of departures, by its packet's id.
    datagrams: BTreeMap<u64, (u64, u64)>,
    departures: u64,
    /// The number of the last departure whose datagram has arrived.
    last_arrival: u64,
    /// Frames that were written to a connection, each with the place in the stream where it ends.
    stream: Vec<(u64, u64)>,
    /// The number of those that have arrived whole.
    read: usize,
}

#[derive(Clone, Copy, Debug)]
struct Fate {
    captured: Time,
    bytes: Bytes,
    /// Datagrams of it, of which `left` have left and `arrived` have arrived; none in a stream of bytes.
    datagrams: u64,
    left: u64,
    arrived: u64,
    /// The number of its last datagram in the order of departures.
    last_departure: u64,
    end: Option<End>,
    /// True if some of it left after its deadline.
    stale: bool,
}

/// The end of a frame: where, and why there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The source dropped it: there was no room for it.
    Skipped,
    /// The source took back all of it, or what was left, because it was too old.
    Withdrawn,
    /// The source put the newest in its place, because it was too old.
    Replaced,
    /// The frame arrived whole.
    Arrived(Time),
}

/// Numbers of frames by the way in which they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// All frames that were made.
    pub(crate) captured: u64,
    pub(crate) on_time: u64,
    pub(crate) late: u64,
    /// Frames that did not arrive whole, because something of them was lost.
    pub(crate) broken: u64,
    pub(crate) skipped: u64,
    pub(crate) withdrawn: u64,
    pub(crate) replaced: u64,
    /// Frames among the withdrawn and replaced of which something had left.
    pub(crate) cut: u64,
    /// Frames on the way, or at the source, when the run ended.
    pub(crate) pending: u64,
    /// Frames of which something left after the deadline, for nothing.
    pub(crate) stale_sent: u64,
    pub(crate) on_time_bytes: u64,
    /// Times from capture to arrival as a whole, of frames on time and late: ascending.
    pub(crate) delays: Vec<Duration>,
}

impl Ledger {
    pub(crate) fn new(deadline: Duration) -> Ledger {
        Ledger {
            deadline,
            frames: Vec::new(),
            datagrams: BTreeMap::new(),
            departures: 0,
            last_arrival: 0,
            stream: Vec::new(),
            read: 0,
        }
    }

    /// The number of frames that have been made, which is the number of the next.
    pub(crate) fn captured(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Notes that a frame is made, and returns its number.
    pub(crate) fn capture(&mut self, now: Time, bytes: Bytes) -> u64 {
        self.frames.push(Fate {
            captured: now,
            bytes,
            datagrams: 0,
            left: 0,
            arrived: 0,
            last_departure: 0,
            end: None,
            stale: false,
        });
        self.captured() - 1
    }

    /// Notes that the frame will leave in `datagrams` datagrams.
    pub(crate) fn divide(&mut self, number: u64, datagrams: u64) {
        self.frames[number as usize].datagrams = datagrams;
    }

    /// Notes that a frame ended at its source.
    pub(crate) fn drop_at_source(&mut self, number: u64, end: End) {
        let fate = &mut self.frames[number as usize];
        assert!(fate.end.is_none(), "a frame ends once");
        fate.end = Some(end);
    }

    /// Notes that a datagram of a frame leaves the host.
    pub(crate) fn leaves(&mut self, now: Time, number: u64, id: u64) {
        self.departures += 1;
        let fate = &mut self.frames[number as usize];
        fate.left += 1;
        fate.last_departure = self.departures;
        fate.stale |= now.since(fate.captured) > self.deadline;
        self.datagrams.insert(id, (number, self.departures));
    }

    /// Notes that a datagram arrived.
    pub(crate) fn arrives(&mut self, now: Time, id: u64) {
        let (number, departure) = self.datagrams.remove(&id).expect("no datagram comes from nowhere, or twice");
        self.last_arrival = self.last_arrival.max(departure);
        let fate = &mut self.frames[number as usize];
        fate.arrived += 1;
        if fate.arrived == fate.datagrams && fate.end.is_none() {
            fate.end = Some(End::Arrived(now));
        }
    }

    /// Notes that a frame begins to be written to a stream, in which it will end at `end`.
    pub(crate) fn write(&mut self, number: u64, end: u64) {
        self.stream.push((end, number));
    }

    /// Notes that bytes of a stream leave the host, for the first time or again.
    pub(crate) fn leave(&mut self, now: Time, from: u64, to: u64) {
        let first = self.stream.partition_point(|(end, _)| *end <= from);
        let mut begin = first.checked_sub(1).map_or(0, |before| self.stream[before].0);
        for (end, number) in &self.stream[first..] {
            if begin >= to {
                break;
            }
            let fate = &mut self.frames[*number as usize];
            fate.stale |= now.since(fate.captured) > self.deadline;
            begin = *end;
        }
    }

    /// Notes that the first `total` bytes of a stream have arrived in order.
    pub(crate) fn read_to(&mut self, now: Time, total: u64) {
        while let Some((_, number)) = self.stream.get(self.read).filter(|(end, _)| *end <= total) {
            self.frames[*number as usize].end = Some(End::Arrived(now));
            self.read += 1;
        }
    }

    /// Bytes of frames that have arrived whole.
    pub(crate) fn delivered(&self) -> Bytes {
        let whole = self.frames.iter().filter(|fate| matches!(fate.end, Some(End::Arrived(_))));
        whole.map(|fate| fate.bytes).sum()
    }

    /// The account of all frames at the end of the run.
    pub(crate) fn account(&self) -> Account {
        let mut account = Account { captured: self.frames.len() as u64, ..Account::default() };
        for fate in &self.frames {
            account.stale_sent += u64::from(fate.stale);
            match fate.end {
                Some(End::Arrived(at)) => {
                    let delay = at.since(fate.captured);
                    account.delays.push(delay);
                    let on_time = delay <= self.deadline;
                    account.on_time += u64::from(on_time);
                    account.late += u64::from(!on_time);
                    account.on_time_bytes += if on_time { fate.bytes.get() } else { 0 };
                }
                Some(End::Skipped) => account.skipped += 1,
                Some(end) => {
                    account.withdrawn += u64::from(end == End::Withdrawn);
                    account.replaced += u64::from(end == End::Replaced);
                    account.cut += u64::from(fate.left > 0);
                }
                // No path here reorders packets: what left before one that has arrived will not come any more.
                None if fate.left > 0 && fate.left == fate.datagrams && fate.last_departure < self.last_arrival => {
                    account.broken += 1;
                }
                None => account.pending += 1,
            }
        }
        account.delays.sort_unstable();
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn ledger(frames: u64) -> Ledger {
        let mut ledger = Ledger::new(Duration::from_millis(100));
        for number in 0..frames {
            assert_eq!(ledger.capture(at(10 * number), Bytes::new(1_000)), number);
        }
        ledger
    }

    #[test]
    fn every_frame_ends_in_one_way() {
        let mut ledger = ledger(7);
        for number in 0..7 {
            ledger.divide(number, 2);
        }
        // 0 on time, 1 late, 2 loses a datagram, 3 has no room, 4 is taken back half sent, 5 replaced, 6 under way.
        for (ms, number, id) in [(0, 0, 1), (0, 0, 2), (10, 1, 3), (115, 1, 4), (115, 2, 5), (116, 2, 6), (117, 4, 7)] {
            ledger.leaves(at(ms), number, id);
        }
        ledger.drop_at_source(3, End::Skipped);
        ledger.drop_at_source(4, End::Withdrawn);
        ledger.drop_at_source(5, End::Replaced);
        for (ms, id) in [(50, 1), (100, 2), (120, 3), (121, 4), (122, 5), (130, 7)] {
            ledger.arrives(at(ms), id);
        }
        ledger.leaves(at(131), 6, 8);
        let account = ledger.account();
        let expected = Account {
            captured: 7,
            on_time: 1,
            late: 1,
            broken: 1,
            skipped: 1,
            withdrawn: 1,
            replaced: 1,
            cut: 1,
            pending: 1,
            stale_sent: 1,
            on_time_bytes: 1_000,
            delays: [100, 111].map(Duration::from_millis).into(),
        };
        assert_eq!(account, expected);
        assert_eq!(ledger.delivered(), Bytes::new(2_000));
    }

    #[test]
    fn a_stream_s_frame_comes_with_its_last_byte_and_is_stale_if_any_is_late() {
        let mut ledger = ledger(4);
        // The second is never written.
        ledger.drop_at_source(1, End::Skipped);
        for (number, end) in [(0, 1_000), (2, 2_000), (3, 3_000)] {
            ledger.write(number, end);
        }
        ledger.leave(at(20), 0, 1_460);
        ledger.leave(at(20), 1_460, 2_920);
        // Sent again when the third is 110 ms old, and the fourth exactly 100.
        ledger.leave(at(130), 1_460, 2_500);
        ledger.read_to(at(60), 999);
        ledger.read_to(at(61), 1_000);
        ledger.read_to(at(140), 2_999);
        let account = ledger.account();
        assert_eq!((account.on_time, account.late, account.pending, account.skipped), (1, 1, 1, 1));
        assert_eq!(account.stale_sent, 1);
        assert_eq!(account.delays, [61, 120].map(Duration::from_millis));
    }
}
