//! The queue at a trunk's edge: packets of a class wait in a queue for each flow, flows take turns, and classes go by priority
//! or by weight.
//!
//! Whoever has one keeps users' packets here and not in the [tunnel queue](super::tunnel): it asks
//! [`Sender::allows`](super::Sender::allows) and pushes a packet when that may leave. So what came last can still leave
//! first: a flow with little to send waits for one turn of the others, however much these have waiting.

use std::collections::VecDeque;

use super::tunnel::Schedule;
use crate::units::Bytes;

/// Flows whose numbers leave the same rest share a queue (RFC 8290 s4.1.1: 1024 by default).
const QUEUES: usize = 1_024;
/// Bytes that a flow may send in its turn, with or without the rest of a packet: a full Ethernet frame (RFC 8290 s4.1.2).
const QUANTUM: i64 = 1_514;

/// A packet that waits. The holder of its bytes finds them again by `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The holder's name for it.
    pub id: u64,
    /// The number of its flow.
    pub flow: u64,
    /// Bytes on the wire.
    pub len: u32,
}

/// A class of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Bytes of the class that may wait.
    pub room: Bytes,
    /// Its share, where classes take turns; at least 1.
    pub weight: u32,
}

/// Counts of a class's packets so far, and of those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Packets that left.
    pub left: u64,
    /// Bytes that left.
    pub left_bytes: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Bytes that wait.
    pub waiting_bytes: u64,
}

/// Packets that wait for a circuit, by class and flow.
#[derive(Debug)]
pub struct Turns {
    lanes: Vec<Lane>,
    schedule: Schedule,
    /// The index of the class whose turn it is, where classes take turns.
    turn: usize,
    packets: u64,
}

#[derive(Debug)]
struct Lane {
    class: Class,
    queues: Vec<Flow>,
    /// Queues that have just begun: they come first, once (RFC 8290 s4.2).
    fresh: VecDeque<usize>,
    /// Queues that have had a turn.
    known: VecDeque<usize>,
    /// Bytes that the class may still send in this turn.
    allowance: i64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<Waiting>,
    bytes: u64,
    allowance: i64,
    /// True if it is in one of the two lists.
    is_listed: bool,
}

impl Turns {
    /// A queue with these classes, the most urgent first.
    ///
    /// # Panics
    /// If there is no class, or one without weight.
    pub fn new(classes: &[Class], schedule: Schedule) -> Turns {
        assert!(!classes.is_empty(), "packets wait in a class");
        assert!(classes.iter().all(|class| class.weight > 0), "a class without weight would wait for ever");
        let lane = |class: &Class| Lane {
            class: *class,
            queues: (0..QUEUES).map(|_| Flow::default()).collect(),
            fresh: VecDeque::new(),
            known: VecDeque::new(),
            allowance: 0,
            counters: Counters::default(),
        };
        Turns { lanes: classes.iter().map(lane).collect(), schedule, turn: 0, packets: 0 }
    }

    /// Puts a packet of class `class` behind those of its flow. If the class has too much then, the oldest packet of the flow
    /// that has most waiting is dropped and returned; call [`overflow`](Turns::overflow) until that returns none.
    pub fn push(&mut self, class: usize, packet: Waiting) -> Option<Waiting> {
        self.lanes[class].push(packet);
        self.packets += 1;
        self.overflow(class)
    }

    /// The packet that is dropped next because the class has too much waiting. A packet that is alone is never dropped.
    pub fn overflow(&mut self, class: usize) -> Option<Waiting> {
        let lane = &mut self.lanes[class];
        if lane.counters.waiting_bytes <= lane.class.room.get() || lane.counters.waiting <= 1 {
            return None;
        }
        self.packets -= 1;
        Some(lane.drop_from_longest())
    }

    /// Takes the packet whose turn it is, with its class.
    pub fn pop(&mut self) -> Option<(usize, Waiting)> {
        let class = match self.schedule {
            Schedule::Priority => self.lanes.iter().position(|lane| lane.counters.waiting > 0)?,
            Schedule::RoundRobin => self.next_lane()?,
        };
        let lane = &mut self.lanes[class];
        let packet = lane.pop();
        lane.allowance -= i64::from(packet.len);
        self.packets -= 1;
        Some((class, packet))
    }

    /// The class that may send next, where classes take turns; as [`Tunnel`](super::tunnel::Tunnel) does it.
    fn next_lane(&mut self) -> Option<usize> {
        if self.packets == 0 {
            return None;
        }
        loop {
            let lane = &mut self.lanes[self.turn];
            if lane.counters.waiting == 0 {
                // Nobody saves for later.
                lane.allowance = lane.allowance.min(0);
            } else if lane.allowance > 0 {
                return Some(self.turn);
            }
            self.turn = (self.turn + 1) % self.lanes.len();
            let next = &mut self.lanes[self.turn];
            next.allowance += i64::from(next.class.weight) * QUANTUM;
        }
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The counters of each class, in the order in which the classes were given.
    pub fn counters(&self) -> impl Iterator<Item = Counters> {
        self.lanes.iter().map(|lane| lane.counters)
    }
}

impl Lane {
    fn push(&mut self, packet: Waiting) {
        self.counters.arrived += 1;
        self.counters.waiting += 1;
        self.counters.waiting_bytes += u64::from(packet.len);
        let at = (packet.flow % QUEUES as u64) as usize;
        let flow = &mut self.queues[at];
        flow.packets.push_back(packet);
        flow.bytes += u64::from(packet.len);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.allowance = QUANTUM;
            self.fresh.push_back(at);
        }
    }

    /// Takes the next packet in the order of RFC 8290 s4.2: new queues come first, each for a quantum, and a queue that is found
    /// empty among them goes to the others, so that no flow comes first again and again.
    fn pop(&mut self) -> Waiting {
        loop {
            let (list, is_fresh) = match self.fresh.is_empty() {
                false => (&mut self.fresh, true),
                true => (&mut self.known, false),
            };
            let &at = list.front().expect("a lane with packets has a queue with packets");
            let flow = &mut self.queues[at];
            if flow.allowance <= 0 {
                flow.allowance += QUANTUM;
                list.pop_front();
                self.known.push_back(at);
                continue;
            }
            let Some(packet) = flow.packets.pop_front() else {
                list.pop_front();
                if is_fresh && !self.known.is_empty() {
                    self.known.push_back(at);
                } else {
                    flow.is_listed = false;
                }
                continue;
            };
            flow.allowance -= i64::from(packet.len);
            flow.bytes -= u64::from(packet.len);
            self.counters.left += 1;
            self.counters.left_bytes += u64::from(packet.len);
            self.took_out(packet);
            return packet;
        }
    }

    fn drop_from_longest(&mut self) -> Waiting {
        let listed = self.fresh.iter().chain(&self.known);
        let &longest =
            listed.max_by_key(|&&at| self.queues[at].bytes).expect("a lane with packets has a queue with packets");
        let flow = &mut self.queues[longest];
        let packet = flow.packets.pop_front().expect("the longest queue of a lane with packets has some");
        flow.bytes -= u64::from(packet.len);
        self.counters.dropped += 1;
        self.took_out(packet);
        packet
    }

    fn took_out(&mut self, packet: Waiting) {
        self.counters.waiting -= 1;
        self.counters.waiting_bytes -= u64::from(packet.len);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turns(classes: &[(u64, u32)], schedule: Schedule) -> Turns {
        let class = |&(room, weight): &(u64, u32)| Class { room: Bytes::new(room), weight };
        Turns::new(&classes.iter().map(class).collect::<Vec<_>>(), schedule)
    }

    fn packet(id: u64, flow: u64, len: u32) -> Waiting {
        Waiting { id, flow, len }
    }

    #[test]
    fn a_flow_that_has_just_begun_goes_before_one_that_has_much_waiting() {
        let mut turns = turns(&[(1_000_000, 1)], Schedule::Priority);
        for id in 0..100 {
            turns.push(0, packet(id, 1, 1_500));
        }
        assert!((0..5).all(|id| turns.pop() == Some((0, packet(id, 1, 1_500)))));
        turns.push(0, packet(1_000, 2, 84));
        assert!((0..2).any(|_| turns.pop().unwrap().1.id == 1_000), "it waits for one packet at most");
    }

    #[test]
    fn flows_share_evenly_by_bytes_whatever_their_packets() {
        let mut turns = turns(&[(100_000_000, 1)], Schedule::Priority);
        for id in 0..10_000 {
            turns.push(0, packet(id, 1, 1_500));
            turns.push(0, packet(id, 2, 300));
            turns.push(0, packet(id, 3, 64_000));
        }
        let mut sent = [0_u64; 4];
        for _ in 0..10_000 {
            let (_, packet) = turns.pop().unwrap();
            sent[packet.flow as usize] += u64::from(packet.len);
        }
        for flow in 2..4 {
            assert!(sent[flow].abs_diff(sent[1]) <= 70_000, "{sent:?}");
        }
    }

    #[test]
    fn a_full_class_drops_from_the_flow_that_has_most() {
        let mut turns = turns(&[(15_000, 1)], Schedule::Priority);
        assert!((0..10).all(|id| turns.push(0, packet(id, 1, 1_500)).is_none()));
        assert_eq!(turns.push(0, packet(10, 2, 100)), Some(packet(0, 1, 1_500)), "not the one that came");
        assert_eq!(turns.overflow(0), None);
    }

    #[test]
    fn a_packet_larger_than_the_room_passes_if_it_is_alone() {
        let mut turns = turns(&[(1_000, 1)], Schedule::Priority);
        assert_eq!(turns.push(0, packet(0, 1, 1_500)), None);
        assert_eq!(turns.pop(), Some((0, packet(0, 1, 1_500))));
    }

    #[test]
    fn an_urgent_class_goes_first_and_weights_share_the_rest() {
        let mut first = turns(&[(1_000_000, 1), (1_000_000, 1)], Schedule::Priority);
        first.push(1, packet(0, 1, 1_500));
        first.push(0, packet(1, 1, 1_500));
        assert_eq!(first.pop().unwrap().0, 0);
        let mut shared = turns(&[(10_000_000, 3), (10_000_000, 1)], Schedule::RoundRobin);
        for id in 0..4_000 {
            shared.push((id % 2) as usize, packet(id, id, 1_500));
        }
        let urgent = (0..2_000).filter(|_| shared.pop().unwrap().0 == 0).count();
        assert!((1_495..=1_505).contains(&urgent), "{urgent} of 2000 with a weight of 3 to 1");
    }

    proptest! {
        #[test]
        fn whatever_comes_leaves_or_is_dropped_once_and_flows_keep_their_order(
            steps in prop::collection::vec((0..2_usize, 0..40_u64, 40..65_000_u32, any::<bool>()), 1..600),
            by_weight in any::<bool>(),
        ) {
            let schedule = if by_weight { Schedule::RoundRobin } else { Schedule::Priority };
            let mut turns = turns(&[(200_000, 1), (100_000, 5)], schedule);
            let (mut gone, mut last, mut pushed) = (std::collections::BTreeSet::new(), std::collections::BTreeMap::new(), 0);
            let mut note = |class: usize, packet: Waiting, gone: &mut std::collections::BTreeSet<u64>| {
                assert!(gone.insert(packet.id), "{packet:?} is gone twice");
                let before = last.insert((class, packet.flow), packet.id);
                assert!(before.is_none_or(|before| before < packet.id), "{packet:?} after {before:?}");
            };
            for (class, flow, len, pops) in steps {
                let mut victim = turns.push(class, packet(pushed, flow, len));
                pushed += 1;
                while let Some(dropped) = victim {
                    note(class, dropped, &mut gone);
                    victim = turns.overflow(class);
                }
                if pops && let Some((class, packet)) = turns.pop() {
                    note(class, packet, &mut gone);
                }
            }
            while let Some((class, packet)) = turns.pop() {
                note(class, packet, &mut gone);
            }
            prop_assert!(turns.is_empty());
            prop_assert_eq!(gone.len() as u64, pushed);
            prop_assert!(turns.counters().all(|class| class.waiting == 0 && class.waiting_bytes == 0));
        }
    }
}
