//! FQ-CoDel: flows take turns, byte for byte, those that have just begun before the others; each has a CoDel of its own
//! (Hoeiland-Joergensen, McKenney, Taht, Gettys and Dumazet, RFC 8290).

use std::collections::VecDeque;

use super::codel::{INTERVAL, Law, TARGET, Times, Waiting};
use super::late::{MARKS, Struck};
use super::{Fifo, Queue, Site};
use crate::packet::Packet;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::time::Time;
use crate::units::{Bytes, Capacity};

/// The parameters of a queue of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// A limit to what may wait, of all flows together.
    pub buffer: Capacity,
    /// CoDel's target and interval.
    pub times: Times,
    /// Queues that flows are spread over.
    pub flows: u64,
    /// Bytes that a flow may send before the next has its turn.
    pub quantum: u64,
    /// True if packets that may be marked are marked, and not dropped.
    pub marks: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "fq-codel",
        doc: "Flows take turns, new ones first, and each has a CoDel of its own (RFC 8290).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How much may wait at all, of all flows together. What is too much is dropped from the head of the longest \
                      queue.",
            },
            TARGET,
            INTERVAL,
            Field {
                name: "flows",
                kind: Kind::Count { min: 1, max: 65_536 },
                absent: Absent::Is("1024"),
                doc: "Queues that flows are spread over by their addresses and ports.",
            },
            Field {
                name: "quantum",
                kind: Kind::Size { min: 64, max: 1_000_000 },
                absent: Absent::Is("1514B"),
                doc: "How much a flow sends before the next has its turn.",
            },
            MARKS,
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters {
            buffer: values.capacity("buffer"),
            times: Times::read(values)?,
            flows: values.count("flows"),
            quantum: values.size("quantum").get(),
            marks: values.flag(MARKS.name),
        })
    }
}

impl Parameters {
    /// An empty queue. How flows are spread is the link's own, so that no sender can know it (RFC 8290 s4.1.2).
    pub fn build(&self, site: Site<'_>) -> Box<dyn Queue> {
        let mut rng = site.rng;
        Box::new(FqCodel::new(*self, rng.bits()))
    }
}

/// A flow's queue.
#[derive(Debug, Default)]
struct Flow {
    waiting: Fifo,
    law: Law,
    /// Bytes that it may still send in its turn.
    credit: i64,
    is_listed: bool,
}

/// The queue of the flow whose turn it is, seen by its CoDel: it drops while more than a packet waits for the link, of any flow.
struct OfFlow<'a> {
    flow: &'a mut Fifo,
    others: Bytes,
}

impl Waiting for OfFlow<'_> {
    fn pop(&mut self) -> Option<(Time, Packet)> {
        self.flow.pop()
    }

    fn left(&self) -> Bytes {
        self.flow.bytes() + self.others
    }
}

/// Flows that take turns, each under CoDel.
#[derive(Debug)]
pub struct FqCodel {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: u64,
    bytes: Bytes,
    packets_max: u64,
    bytes_max: Bytes,
    times: Times,
    quantum: i64,
    /// The number that is hashed with a flow's addresses and ports.
    salt: u64,
    struck: Struck,
}

impl FqCodel {
    /// An empty queue that spreads flows with `salt`.
    pub fn new(parameters: Parameters, salt: u64) -> FqCodel {
        let Parameters { buffer, times, flows, quantum, marks } = parameters;
        let (packets_max, bytes_max) = buffer.limits();
        FqCodel {
            flows: (0..flows).map(|_| Flow::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: Bytes::ZERO,
            packets_max,
            bytes_max,
            times,
            quantum: i64::try_from(quantum).expect("a turn is a few packets"),
            salt,
            struck: Struck::new(marks),
        }
    }

    fn flow_of(&self, packet: &Packet) -> u32 {
        let end = |node: u16, port: u16| u64::from(node) << 16 | u64::from(port);
        let key = end(packet.src.node, packet.src.port) << 32 | end(packet.dst.node, packet.dst.port);
        // SplitMix64's finaliser (Steele, Lea and Flood 2014), and Lemire's reduction.
        let mut hash = key ^ self.salt;
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        ((u128::from(hash) * self.flows.len() as u128) >> 64) as u32
    }

    /// Drops the first packet of the flow with most bytes (RFC 8290 s4.1.3): of two alike, of the first.
    fn drop_from_longest(&mut self) {
        let longest = (0..self.flows.len()).max_by_key(|&flow| (self.flows[flow].waiting.bytes(), usize::MAX - flow));
        let flow = &mut self.flows[longest.expect("there is a flow")];
        let (entered, packet) = flow.waiting.pop().expect("the longest queue has a packet if any has");
        self.packets -= 1;
        self.bytes -= packet.len();
        self.struck.drop(entered, packet);
    }

    /// The packet of the flow whose turn it is, by its CoDel.
    fn dequeue_from(&mut self, now: Time, index: u32) -> Option<(Time, Packet)> {
        let flow = &mut self.flows[index as usize];
        let (packets, bytes) = (flow.waiting.packets(), flow.waiting.bytes());
        let others = self.bytes - bytes;
        let mut waiting = OfFlow { flow: &mut flow.waiting, others };
        let next = flow.law.dequeue(now, &self.times, &mut waiting, &mut self.struck);
        self.packets -= packets - flow.waiting.packets();
        self.bytes = others + flow.waiting.bytes();
        next
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        if packet.len() > self.bytes_max || self.packets_max == 0 {
            return Some((now, *packet));
        }
        let index = self.flow_of(packet);
        let flow = &mut self.flows[index as usize];
        flow.waiting.push(now, packet);
        if !flow.is_listed {
            (flow.is_listed, flow.credit) = (true, self.quantum);
            self.new.push_back(index);
        }
        self.packets += 1;
        self.bytes += packet.len();
        while self.packets > self.packets_max || self.bytes > self.bytes_max {
            self.drop_from_longest();
        }
        None
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        // RFC 8290 s4.2.
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = list.pop_front()?;
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                self.old.push_back(index);
                continue;
            }
            let Some((entered, packet)) = self.dequeue_from(now, index) else {
                if is_new && !self.old.is_empty() {
                    // So that a flow is not new again before the others had their turn.
                    self.old.push_back(index);
                } else {
                    self.flows[index as usize].is_listed = false;
                }
                continue;
            };
            self.flows[index as usize].credit -= i64::from(packet.len);
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.push_front(index);
            return Some((entered, packet));
        }
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn waited(&self, now: Time) -> u128 {
        self.flows.iter().map(|flow| flow.waiting.waited(now)).sum()
    }

    fn drops_late(&self) -> bool {
        true
    }

    fn take_dropped(&mut self) -> Option<(Time, Packet)> {
        self.struck.take()
    }

    fn marked(&self) -> u64 {
        self.struck.marked()
    }
}
