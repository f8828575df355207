//! The sending end: copies of packets, for as long as they may have to leave again.

use std::collections::{BTreeMap, VecDeque};

use super::{ENTRY, FLOWS, HELD_BYTES_MAX, Place, Rules};
use crate::circuit::in_band::Fate;
use crate::time::Time;

/// Numbers of datagrams that are remembered because their packets left again before they were lost.
const PROBED_MAX: usize = 16;

/// Turns of its flow by which a packet may be behind to leave again. Turns have 16 bits: of one that is half of all behind, the
/// receiver would believe that it is ahead.
const BEHIND_MAX: u16 = 1 << 14;

/// The copies that are kept, each with what the driver wants back.
#[derive(Debug)]
pub struct Sender<T> {
    rules: Rules,
    /// The turn of the next numbered packet of each flow.
    turns: Box<[u16]>,
    /// Packets that may have to leave again, by the number of the datagram in which each left last.
    kept: BTreeMap<u64, Kept<T>>,
    /// Numbers of those that are to leave again, in the order in which they were found lost. Some may be kept no more.
    lost: VecDeque<u64>,
    /// Numbers of datagrams whose packets left again to probe: their loss is nothing new.
    probed: VecDeque<u64>,
    bytes: u64,
    counters: Repaired,
}

#[derive(Debug)]
struct Kept<T> {
    place: Place,
    len: u32,
    /// The time when the packet first left.
    since: Time,
    /// Copies that may still leave.
    tries: u8,
    copy: T,
}

/// Counts of what was sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Copies that left.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that were lost with packets that could not leave again: too late, tried as often as allowed, or no longer kept.
    pub abandoned: u64,
}

impl<T> Sender<T> {
    /// A sending end that keeps nothing yet.
    pub fn new(rules: Rules) -> Sender<T> {
        Sender {
            rules,
            turns: vec![0; FLOWS as usize].into_boxed_slice(),
            kept: BTreeMap::new(),
            lost: VecDeque::new(),
            probed: VecDeque::new(),
            bytes: 0,
            counters: Repaired::default(),
        }
    }

    /// The place of the packet of this flow that leaves now. One that leaves without a number is never known to be lost, so none
    /// waits for it: it only waits for those before it.
    pub fn place(&mut self, flow: u64, is_numbered: bool) -> Place {
        let flow = (flow % FLOWS) as u16;
        let next = &mut self.turns[usize::from(flow)];
        let turn = *next;
        *next = turn.wrapping_add(u16::from(is_numbered));
        Place { flow, turn }
    }

    /// Keeps a copy of a packet of `len` bytes that left in the datagram with this number. The oldest make room.
    pub fn keep(&mut self, now: Time, number: u64, place: Place, len: u32, copy: T) {
        self.bytes += u64::from(len) + ENTRY;
        self.kept.insert(number, Kept { place, len, since: now, tries: self.rules.tries, copy });
        while let Some((&oldest, kept)) = self.kept.first_key_value() {
            if self.bytes <= HELD_BYTES_MAX && now.since(kept.since) <= self.rules.within {
                break;
            }
            self.forget(oldest);
        }
    }

    /// Takes what became of a datagram.
    pub fn on_fate(&mut self, now: Time, fate: Fate) {
        match fate {
            Fate::Delivered(number) | Fate::Late(number) => {
                self.forget(number);
            }
            Fate::Lost(number) => self.on_lost(now, number),
        }
    }

    fn on_lost(&mut self, now: Time, number: u64) {
        if let Some(at) = self.probed.iter().position(|probed| *probed == number) {
            self.probed.remove(at);
        } else if self.kept.get(&number).is_some_and(|kept| self.may_leave(now, kept)) {
            self.lost.push_back(number);
        } else {
            self.forget(number);
            self.counters.abandoned += 1;
        }
    }

    /// Has the packet that left last leave again although it is not known to be lost: the control probes (RFC 9002 s6.2.4), and
    /// if nothing came after that packet nobody could have missed it.
    pub fn on_probe(&mut self, now: Time) {
        let Some((&number, kept)) = self.kept.last_key_value() else { return };
        if !self.may_leave(now, kept) || self.lost.contains(&number) {
            return;
        }
        if self.probed.len() == PROBED_MAX {
            self.probed.pop_front();
        }
        self.probed.push_back(number);
        self.lost.push_back(number);
    }

    /// The length of the packet that is to leave again next.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        while let Some(number) = self.lost.front() {
            // It may have come after all.
            if let Some(kept) = self.kept.get(number) {
                if self.may_leave(now, kept) {
                    return Some(kept.len);
                }
                self.forget(*number);
                self.counters.abandoned += 1;
            }
            self.lost.pop_front();
        }
        None
    }

    /// Notes that the packet which is [due](Sender::due) leaves in the datagram with this number. Returns its place and copy.
    ///
    /// # Panics
    /// If none is due.
    pub fn again(&mut self, number: u64) -> (Place, &T) {
        let before = self.lost.pop_front().expect("a packet is due");
        let mut kept = self.kept.remove(&before).expect("what is due is kept");
        kept.tries -= 1;
        self.counters.copies += 1;
        self.counters.bytes += u64::from(kept.len);
        let kept = self.kept.entry(number).or_insert(kept);
        (kept.place, &kept.copy)
    }

    /// The counters so far.
    pub fn counters(&self) -> Repaired {
        self.counters
    }

    /// Bytes of what is kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn may_leave(&self, now: Time, kept: &Kept<T>) -> bool {
        let behind = self.turns[usize::from(kept.place.flow)].wrapping_sub(kept.place.turn);
        kept.tries > 0 && now.since(kept.since) <= self.rules.within && behind <= BEHIND_MAX
    }

    fn forget(&mut self, number: u64) {
        if let Some(kept) = self.kept.remove(&number) {
            self.bytes -= u64::from(kept.len) + ENTRY;
        }
    }
}
