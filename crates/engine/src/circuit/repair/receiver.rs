//! The receiving end: packets that came too early wait for those before them in their flow.

use std::collections::{BTreeMap, VecDeque};

use super::{ENTRY, FLOWS, HELD_BYTES_MAX, Place};
use crate::time::{Duration, Time};

/// Entries of packets that wait no more, beyond as many as do wait, at which they are cleared away.
const STALE_MAX: usize = 64;

/// A waiting packet's flow and turn; false for one without a number, which comes before the one with; and its order of arrival,
/// for several such.
type Key = (u16, u64, bool, u64);

/// Packets that wait, each as the driver gave it.
#[derive(Debug)]
pub struct Receiver<T> {
    within: Duration,
    /// The turn of each flow's next numbered packet.
    next: Box<[u64]>,
    held: BTreeMap<Key, (T, u32)>,
    /// The time until which each waits, in the order of arrival. Some may wait no more.
    until: VecDeque<(Time, Key)>,
    arrived: u64,
    bytes: u64,
    released: VecDeque<T>,
    counters: Waited,
}

/// Counts of what waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Packets that came too early and waited.
    pub held: u64,
    /// Times that what was missing was given up, and those that had waited for it went on.
    pub given_up: u64,
    /// Packets that were dropped because they had come before, or because later ones had gone on.
    pub surplus: u64,
}

impl<T> Receiver<T> {
    /// A receiving end of a circuit that has just begun.
    pub fn new(within: Duration) -> Receiver<T> {
        Receiver {
            within,
            next: vec![0; FLOWS as usize].into_boxed_slice(),
            held: BTreeMap::new(),
            until: VecDeque::new(),
            arrived: 0,
            bytes: 0,
            released: VecDeque::new(),
            counters: Waited::default(),
        }
    }

    /// Takes a packet of `len` bytes that came. Returns true if it passes now, and before what [`released`](Receiver::released) gives then;
    /// otherwise it is dropped, or `copy` is asked for a copy, which waits.
    pub fn arrive(&mut self, now: Time, place: Place, is_numbered: bool, len: u32, copy: impl FnOnce() -> T) -> bool {
        let flow = place.flow % FLOWS as u16;
        let next = &mut self.next[usize::from(flow)];
        // Serial numbers (RFC 1982): half of them are ahead.
        let ahead = place.turn.wrapping_sub(*next as u16) as i16;
        if ahead < 0 {
            self.counters.surplus += 1;
            return false;
        }
        if ahead == 0 {
            *next += u64::from(is_numbered);
            self.go_on(flow);
            return true;
        }
        let turn = *next + ahead as u64;
        let key = (flow, turn, is_numbered, if is_numbered { 0 } else { self.arrived });
        if self.held.contains_key(&key) {
            self.counters.surplus += 1;
            return false;
        }
        self.arrived += 1;
        self.counters.held += 1;
        self.bytes += u64::from(len) + ENTRY;
        self.held.insert(key, (copy(), len));
        self.until.push_back((now + self.within, key));
        if self.until.len() > 2 * self.held.len() + STALE_MAX {
            self.until.retain(|(_, key)| self.held.contains_key(key));
        }
        // Who waits longest makes room.
        while self.bytes > HELD_BYTES_MAX {
            self.give_up_first();
        }
        false
    }

    /// A packet that waited, and passes now.
    pub fn released(&mut self) -> Option<T> {
        self.released.pop_front()
    }

    /// Gives up what others have waited for long enough. Returns when that is due next.
    pub fn poll(&mut self, now: Time) -> Option<Time> {
        while let Some((until, key)) = self.until.front() {
            if !self.held.contains_key(key) {
                self.until.pop_front();
            } else if *until <= now {
                self.give_up_first();
            } else {
                return Some(*until);
            }
        }
        None
    }

    /// The counters so far.
    pub fn counters(&self) -> Waited {
        self.counters
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Has the packet that waits longest, and all before it in its flow, go on without what is missing.
    fn give_up_first(&mut self) {
        let Some((_, key)) = self.until.pop_front() else { return };
        if !self.held.contains_key(&key) {
            return;
        }
        self.counters.given_up += 1;
        let (flow, turn, ..) = key;
        while let Some((&first, _)) = self.held.range((flow, 0, false, 0)..=key).next() {
            self.release(first);
        }
        self.next[usize::from(flow)] = turn + u64::from(key.2);
        self.go_on(flow);
    }

    /// Releases what waits for nothing more.
    fn go_on(&mut self, flow: u16) {
        loop {
            let next = self.next[usize::from(flow)];
            let first = self.held.range((flow, 0, false, 0)..=(flow, next, true, u64::MAX)).next();
            let Some((&key, _)) = first else { return };
            self.release(key);
            self.next[usize::from(flow)] += u64::from(key.2);
        }
    }

    fn release(&mut self, key: Key) {
        if let Some((copy, len)) = self.held.remove(&key) {
            self.bytes -= u64::from(len) + ENTRY;
            self.released.push_back(copy);
        }
    }
}
