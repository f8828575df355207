//! The tunnel queue: where users' packets wait for a circuit (thesis s2.2.5.1).

use std::collections::VecDeque;

use super::fair::{Fair, Shrinking};
use crate::link::queue::red::{Law, Thresholds};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::Time;
use crate::units::{Bytes, Capacity};

/// Bytes that a class with the weight 1 sends in a round, with or without the rest of a packet.
const QUANTUM: i64 = 1_500;

/// Names a waiting packet, so that it can be withdrawn or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The rule by which packets of a class are dropped when they arrive.
#[derive(Debug)]
pub enum Drops {
    /// Packets that find no room are dropped.
    Tail,
    /// Packets are dropped by chance before room runs out (Floyd and Jacobson 1993), counted in packets.
    Early(Thresholds, Rng),
    /// Packets are dropped by the principles P2 and P3 of the thesis: early, and no flow twice in a row.
    Fair(Fair),
}

/// A class of packets.
#[derive(Debug)]
pub struct Class {
    /// A limit to what may wait of it.
    pub room: Capacity,
    /// The rule by which packets are dropped before the room is full.
    pub drops: Drops,
    /// The class's share, where classes take turns; at least 1.
    pub weight: u32,
}

/// The rule by which the next class to send is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The first class that has packets sends.
    Priority,
    /// All classes send in turn, each for its weight in bytes: deficit round robin (Shreedhar and Varghese 1995), with debts.
    RoundRobin,
}

/// Counters of packets, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that were dropped on arrival.
    pub dropped: u64,
    /// Packets that were withdrawn.
    pub withdrawn: u64,
    /// Packets whose place another took.
    pub replaced: u64,
    /// Packets that left in their turn.
    pub left: u64,
    /// Most bytes that ever waited.
    pub bytes_max: u64,
    /// Most packets that ever waited.
    pub packets_max: u64,
}

/// Packets that wait for a circuit, by class.
#[derive(Debug)]
pub struct Tunnel {
    lanes: Vec<Lane>,
    schedule: Schedule,
    /// The class whose turn it is, where classes take turns.
    turn: usize,
    next_ticket: u64,
    packets: u64,
    bytes: Bytes,
    counters: Counters,
}

#[derive(Debug)]
struct Lane {
    waiting: VecDeque<(Ticket, Packet)>,
    bytes: Bytes,
    room: Capacity,
    weight: u32,
    drops: LaneDrops,
    /// Bytes that the class may still send in this turn.
    allowance: i64,
}

#[derive(Debug)]
enum LaneDrops {
    Tail,
    Early(Law),
    Fair(Fair),
}

impl Tunnel {
    /// A queue with these classes, the most urgent first.
    ///
    /// # Panics
    /// If there is no class, or one without weight.
    pub fn new(classes: Vec<Class>, schedule: Schedule) -> Tunnel {
        assert!(!classes.is_empty(), "packets wait in a class");
        let lane = |class: Class| {
            assert!(class.weight > 0, "a class without weight would wait for ever");
            let drops = match class.drops {
                Drops::Tail => LaneDrops::Tail,
                Drops::Early(thresholds, rng) => LaneDrops::Early(Law::new(thresholds, rng)),
                Drops::Fair(fair) => LaneDrops::Fair(fair),
            };
            let (room, weight) = (class.room, class.weight);
            Lane { waiting: VecDeque::new(), bytes: Bytes::ZERO, room, weight, drops, allowance: 0 }
        };
        Tunnel {
            lanes: classes.into_iter().map(lane).collect(),
            schedule,
            turn: 0,
            next_ticket: 0,
            packets: 0,
            bytes: Bytes::ZERO,
            counters: Counters::default(),
        }
    }

    /// A queue of one class that drops what finds no room.
    pub fn drop_tail(room: Capacity) -> Tunnel {
        Tunnel::new(vec![Class { room, drops: Drops::Tail, weight: 1 }], Schedule::Priority)
    }

    /// Puts a packet of class `class` at the end of its queue; `None` if it is dropped.
    pub fn push(&mut self, now: Time, class: usize, packet: Packet) -> Option<Ticket> {
        self.counters.arrived += 1;
        let lane = &mut self.lanes[class];
        if !lane.admits(now, &packet) {
            self.counters.dropped += 1;
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        lane.waiting.push_back((ticket, packet));
        lane.bytes += packet.len();
        self.packets += 1;
        self.bytes += packet.len();
        self.note_most();
        Some(ticket)
    }

    /// The packet whose turn it is, which [`pop`](Tunnel::pop) would take.
    pub fn first(&mut self) -> Option<&Packet> {
        let lane = self.next_lane()?;
        self.lanes[lane].waiting.front().map(|(_, packet)| packet)
    }

    fn next_lane(&mut self) -> Option<usize> {
        match self.schedule {
            Schedule::Priority => self.lanes.iter().position(|lane| !lane.waiting.is_empty()),
            Schedule::RoundRobin => self.turn(),
        }
    }

    /// Takes the packet whose turn it is.
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        let lane = self.next_lane()?;
        let lane = &mut self.lanes[lane];
        let (_, packet) = lane.waiting.pop_front()?;
        lane.allowance -= i64::from(packet.len);
        lane.took_out(now, &packet);
        self.packets -= 1;
        self.bytes -= packet.len();
        self.counters.left += 1;
        Some(packet)
    }

    /// The class that may send next, where classes take turns.
    fn turn(&mut self) -> Option<usize> {
        if self.packets == 0 {
            return None;
        }
        loop {
            let lane = &mut self.lanes[self.turn];
            if lane.waiting.is_empty() {
                // Nobody saves for later.
                lane.allowance = lane.allowance.min(0);
            } else if lane.allowance > 0 {
                return Some(self.turn);
            }
            self.turn = (self.turn + 1) % self.lanes.len();
            let next = &mut self.lanes[self.turn];
            next.allowance += i64::from(next.weight) * QUANTUM;
        }
    }

    /// Puts `packet` right behind one that waits, whatever has come since; `None` if that one has left, or if its class has no
    /// room.
    pub fn insert_after(&mut self, ticket: Ticket, packet: Packet) -> Option<Ticket> {
        let (lane, at) = self.find(ticket)?;
        let lane = &mut self.lanes[lane];
        if !lane.has_room(packet.len()) {
            return None;
        }
        self.counters.arrived += 1;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        lane.waiting.insert(at + 1, (ticket, packet));
        lane.bytes += packet.len();
        self.packets += 1;
        self.bytes += packet.len();
        self.note_most();
        Some(ticket)
    }

    /// Takes a packet back that has not left.
    pub fn withdraw(&mut self, now: Time, ticket: Ticket) -> Option<Packet> {
        let (lane, at) = self.find(ticket)?;
        let (_, packet) = self.lanes[lane].waiting.remove(at)?;
        self.lanes[lane].took_out(now, &packet);
        self.packets -= 1;
        self.bytes -= packet.len();
        self.counters.withdrawn += 1;
        Some(packet)
    }

    /// Puts `packet` in the place of one that has not left, and returns that one: it keeps its place in the queue and its
    /// ticket. `Err` gives the new packet back if the old one has left, or if the class has no room for what it is longer.
    pub fn replace(&mut self, ticket: Ticket, packet: Packet) -> Result<Packet, Packet> {
        let Some((lane, at)) = self.find(ticket) else { return Err(packet) };
        let lane = &mut self.lanes[lane];
        let old = lane.waiting[at].1;
        let bytes = (lane.bytes - old.len()) + packet.len();
        if matches!(lane.room, Capacity::Bytes(most) if bytes > most && packet.len > old.len) {
            return Err(packet);
        }
        lane.waiting[at].1 = packet;
        lane.bytes = bytes;
        self.bytes = (self.bytes - old.len()) + packet.len();
        self.counters.replaced += 1;
        self.note_most();
        Ok(old)
    }

    fn find(&self, ticket: Ticket) -> Option<(usize, usize)> {
        let at = |lane: &Lane| lane.waiting.iter().position(|(waiting, _)| *waiting == ticket);
        self.lanes.iter().enumerate().find_map(|(index, lane)| at(lane).map(|at| (index, at)))
    }

    fn note_most(&mut self) {
        self.counters.bytes_max = self.counters.bytes_max.max(self.bytes.get());
        self.counters.packets_max = self.counters.packets_max.max(self.packets);
    }

    /// The circuit's window shrank: the classes that are fair to flows shall know.
    pub(crate) fn trunk_shrank(&mut self, shrinking: Shrinking) {
        for lane in &mut self.lanes {
            if let LaneDrops::Fair(fair) = &mut lane.drops {
                fair.trunk_shrank(shrinking);
            }
        }
    }

    /// True if a class wants to know when the circuit's window shrinks.
    pub(crate) fn is_fair(&self) -> bool {
        self.lanes.iter().any(|lane| matches!(lane.drops, LaneDrops::Fair(_)))
    }

    /// K of a class that is fair to flows: packets of a flow that pass after one was dropped (thesis s3.6).
    pub fn exempt_packets(&self, class: usize) -> Option<u64> {
        match &self.lanes[class].drops {
            LaneDrops::Fair(fair) => Some(fair.exempt()),
            LaneDrops::Tail | LaneDrops::Early(_) => None,
        }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets and bytes that wait.
    pub fn occupancy(&self) -> (u64, Bytes) {
        (self.packets, self.bytes)
    }

    /// Packets and bytes of one class that wait.
    pub fn occupancy_of(&self, class: usize) -> (u64, Bytes) {
        let lane = &self.lanes[class];
        (lane.waiting.len() as u64, lane.bytes)
    }

    /// True if so many packets of so many bytes would find room in `class` together.
    pub fn has_room_for(&self, class: usize, packets: u64, bytes: Bytes) -> bool {
        let lane = &self.lanes[class];
        match lane.room {
            Capacity::Unlimited => true,
            Capacity::Packets(most) => (lane.waiting.len() as u64).saturating_add(packets) <= most,
            Capacity::Bytes(most) => lane.bytes + bytes <= most,
        }
    }

    /// True if a packet of `len` would find room in `class`.
    pub fn has_room(&self, class: usize, len: Bytes) -> bool {
        self.lanes[class].has_room(len)
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl Lane {
    fn has_room(&self, len: Bytes) -> bool {
        match self.room {
            Capacity::Unlimited => true,
            Capacity::Packets(most) => (self.waiting.len() as u64) < most,
            Capacity::Bytes(most) => self.bytes + len <= most,
        }
    }

    fn admits(&mut self, now: Time, packet: &Packet) -> bool {
        let waiting = self.waiting.len() as u64;
        let has_room = self.has_room(packet.len());
        match &mut self.drops {
            LaneDrops::Tail => has_room,
            LaneDrops::Early(law) => !law.strikes(now, waiting) && has_room,
            LaneDrops::Fair(fair) => fair.admits(now, packet, waiting, has_room),
        }
    }

    fn took_out(&mut self, now: Time, packet: &Packet) {
        self.bytes -= packet.len();
        if self.waiting.is_empty()
            && let LaneDrops::Early(law) = &mut self.drops
        {
            law.emptied(now);
        }
    }
}

#[cfg(test)]
mod tests;
