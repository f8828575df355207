//! A link that sends headers of control TCPs again when its medium has lost them (automatic repeat request, thesis s4.9).

use std::collections::{BTreeMap, VecDeque};

use crate::node::{Node, Port, Step};
use crate::packet::{Class, Discard, Endpoint, Packet};
use crate::time::Time;

use super::Link;

/// A link whose far end asks for each header that it misses. Packets enter at port 0 and leave at port 1.
///
/// The far end asks when the header would have arrived, and hears nothing else until then. What it asks takes as long as any
/// packet does, takes no room on the way back and is never lost. The header then enters the queue once more, behind what waits, and
/// the counters of the link have it once for each time. Headers of a flow that come in the meantime wait at the far end, so that the
/// control TCP sees no reordering (RFC 3366, section 5); other packets do not.
#[derive(Debug)]
pub struct Repeating {
    link: Link,
    /// How often a header is sent again.
    times: u32,
    /// The headers that the far end misses and may still get, each with the times that are left.
    missing: BTreeMap<Place, u32>,
    /// The headers that the near end sends again, each with the time from which on it knows.
    asked: VecDeque<(Time, Packet)>,
    /// The headers that were lost once too often, or dropped, each with the time from which on the far end knows.
    given_up: VecDeque<(Time, Place)>,
    /// The headers that have arrived and wait for one before them.
    held: BTreeMap<Place, Packet>,
    /// The packets that leave now.
    released: VecDeque<Packet>,
    /// Scratch space for what the link reports.
    reported: Vec<Discard>,
    /// The packets that never got through, if somebody wants to know.
    discards: Option<Vec<Discard>>,
}

/// A flow, and the number of a packet in it.
type Place = ((Endpoint, Endpoint), u64);

fn place(packet: &Packet) -> Place {
    ((packet.src, packet.dst), packet.number())
}

impl Repeating {
    /// This link, with each header sent again up to so many `times`.
    pub fn new(mut link: Link, times: u32) -> Repeating {
        link.record_discards();
        Repeating {
            link,
            times,
            missing: BTreeMap::new(),
            asked: VecDeque::new(),
            given_up: VecDeque::new(),
            held: BTreeMap::new(),
            released: VecDeque::new(),
            reported: Vec::new(),
            discards: None,
        }
    }

    /// The link, whose counters have each packet once for every time that it was sent.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The link, to change it or to close its books.
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Keeps a record from now on of every packet that never gets through.
    pub fn record_discards(&mut self) {
        self.discards.get_or_insert_default();
    }

    /// The packets that never got through since the record began, in the order of time; empty without a record.
    pub fn discards(&self) -> &[Discard] {
        self.discards.as_deref().unwrap_or_default()
    }

    /// Learns what became of packets in the link since the last time.
    fn note_discards(&mut self) {
        self.link.take_discards(&mut self.reported);
        for discard in std::mem::take(&mut self.reported) {
            let Discard { time, lost, packet } = discard;
            if packet.class == Class::Header {
                let place = place(&packet);
                let missed = time + self.link.propagation;
                let before = self.missing.get(&place).copied();
                let left = before.unwrap_or(self.times);
                if lost && left > 0 {
                    self.missing.insert(place, left - 1);
                    self.asked.push_back((missed + self.link.propagation, packet));
                    continue;
                }
                if before.is_some() {
                    self.given_up.push_back((missed, place));
                }
            }
            if let Some(discards) = &mut self.discards {
                discards.push(discard);
            }
        }
    }

    /// Takes what arrives at the far end.
    fn arrive(&mut self, packet: Packet) {
        if packet.class != Class::Header || (self.missing.is_empty() && self.held.is_empty()) {
            self.released.push_back(packet);
            return;
        }
        let place = place(&packet);
        self.missing.remove(&place);
        self.held.insert(place, packet);
        self.release(place.0);
    }

    /// Lets go of the headers of a flow that wait for none before them.
    fn release(&mut self, flow: (Endpoint, Endpoint)) {
        let first_missing =
            self.missing.range((flow, 0)..=(flow, u64::MAX)).next().map_or(u64::MAX, |(&(_, first), _)| first);
        while let Some((&held, _)) = self.held.range((flow, 0)..(flow, first_missing)).next() {
            self.released.extend(self.held.remove(&held));
        }
    }
}

impl Node for Repeating {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        self.link.receive(now, port, packet);
        self.note_discards();
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            if let Some(packet) = self.released.pop_front() {
                return Step::Send(Port(1), packet);
            }
            while let Some(&(at, packet)) = self.asked.front()
                && at <= now
            {
                self.asked.pop_front();
                self.link.receive(now, Port(0), &packet);
            }
            let step = self.link.poll(now);
            self.note_discards();
            while let Some(&(at, place)) = self.given_up.front()
                && at <= now
            {
                self.given_up.pop_front();
                self.missing.remove(&place);
                self.release(place.0);
            }
            match step {
                Step::Send(_, packet) => self.arrive(packet),
                Step::Wait(at) => {
                    let asked = self.asked.front().map(|&(at, _)| at);
                    let given_up = self.given_up.front().map(|&(at, _)| at);
                    if self.released.is_empty() && asked.is_none_or(|asked| asked > now) {
                        return Step::Wait(at.into_iter().chain(asked).chain(given_up).min());
                    }
                }
            }
        }
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        if let Some(discards) = &mut self.discards {
            into.append(discards);
        }
    }
}
