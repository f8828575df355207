//! Packets on the express links of a graph, each with the event of its arrival.

use crate::lanes::{Event, Lanes, NEVER};
use crate::link::express::{Express, Passage};
use crate::node::Port;
use crate::packet::Packet;
use crate::time::Time;

/// The number of no link, and the place of no packet.
pub(super) const NONE: u32 = u32::MAX;
/// In [`Hop::to`] and [`Arrival::to`]: the number is that of a table of routes, not of a node.
const TABLE: u32 = 1 << 31;

/// The express links of a graph and the packets on them.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    hops: Vec<Hop>,
    tables: Vec<Table>,
    /// By the graph's node: its number among the express links.
    numbers: Vec<u32>,
    packets: Packets,
    arrivals: Lanes<Arrival>,
    /// Bits of an event's key that hold a node's index.
    index_bits: u32,
}

/// An express link in its place, on as few cache lines as may be.
#[derive(Debug)]
#[repr(C, align(64))]
struct Hop {
    /// The node at its far end, or a table of routes.
    to: u32,
    into: Port,
    /// The lane of its last arrival.
    lane: u8,
    link: Express,
    /// Its own index in the graph.
    index: u32,
}

/// The routes of a node that only redirects, to spare packets a look at it.
#[derive(Debug)]
struct Table {
    node: u32,
    /// By destination: the express link there, if it is one.
    next: Vec<u32>,
}

/// A packet comes to the end of a link.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    packet: u32,
    to: u32,
}

/// What becomes of a packet that comes off an express link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrived {
    /// It has entered another one.
    GoesOn,
    /// It has entered another one, the node of this index, which another packet is to leave now.
    Touches(u32),
    /// It comes to a node.
    Lands(Landing),
}

/// A packet that comes off an express link, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) node: u32,
    pub(super) into: Port,
    /// The place of the packet.
    pub(super) packet: u32,
}

/// Packets in places, where each stays for all of its way. The place that was left last is taken first: it is still in the
/// cache.
#[derive(Debug, Default)]
struct Packets {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Place {
    packet: Packet,
    /// The link that it is on, and its time there.
    hop: u32,
    into: Port,
    entered: Time,
    finish: Time,
}

impl UnderWay {
    /// Adds a link: node `index` of its graph.
    pub(super) fn add(&mut self, index: usize, link: Express) {
        self.numbers.resize(index, NONE);
        self.numbers.push(self.hops.len() as u32);
        self.hops.push(Hop { to: NONE, into: Port(0), lane: 0, link, index: index as u32 });
    }

    /// The link that is node `index`, if it is one.
    pub(super) fn link(&self, index: usize) -> Option<&Express> {
        Some(&self.hops[self.number(index as u32)?].link)
    }

    /// The number of the link that is node `index`, if it is one.
    #[inline]
    pub(super) fn number(&self, index: u32) -> Option<usize> {
        let number = *self.numbers.get(index as usize)?;
        (number != NONE).then_some(number as usize)
    }

    /// True if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.arrivals.first() == NEVER
    }

    /// Learns how the links are wired: what follows each, by its index, and the routes of a node that only redirects.
    pub(super) fn connect(
        &mut self,
        index_bits: u32,
        end_of: impl Fn(usize) -> (u32, Port),
        routes_of: impl Fn(u32) -> Option<Vec<Option<u32>>>,
    ) {
        self.index_bits = index_bits;
        self.tables.clear();
        for number in 0..self.hops.len() {
            let (node, into) = end_of(self.hops[number].index as usize);
            let table = self.tables.iter().position(|table| table.node == node).or_else(|| {
                let next = routes_of(node)?.into_iter().map(|next| Some(self.number(next?)? as u32));
                let next = next.map(|number| number.unwrap_or(NONE)).collect();
                self.tables.push(Table { node, next });
                Some(self.tables.len() - 1)
            });
            let hop = &mut self.hops[number];
            (hop.to, hop.into) = (table.map_or(node, |table| TABLE | table as u32), into);
        }
    }

    /// The key of the first arrival: its time, and below it the index of the link.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.arrivals.first()
    }

    /// A packet enters link `number`. True if another is due to leave that link at this very instant: as from any node that
    /// is touched, it then leaves before its turn.
    #[inline]
    pub(super) fn enter(&mut self, now: Time, number: usize, packet: &Packet) -> bool {
        let place = self.packets.put(packet);
        self.enter_from(now, number, place);
        self.is_due(now, number)
    }

    /// True if a packet is to leave link `number` now.
    #[inline]
    fn is_due(&self, now: Time, number: usize) -> bool {
        self.arrivals.first() >> self.index_bits == now.as_nanos() && self.is_due_among_others(now, number)
    }

    #[cold]
    fn is_due_among_others(&self, now: Time, number: usize) -> bool {
        self.arrivals.contains(self.key(now, number))
    }

    fn key(&self, time: Time, number: usize) -> u64 {
        time.as_nanos() << self.index_bits | u64::from(self.hops[number].index)
    }

    /// The packet in this place enters link `number`.
    #[inline]
    fn enter_from(&mut self, now: Time, number: usize, place: u32) {
        let hop = &mut self.hops[number];
        let at = &mut self.packets.places[place as usize];
        let Some(finish) = hop.link.enter(now, &at.packet) else { return self.packets.leave(place) };
        (at.hop, at.into, at.entered, at.finish) = (number as u32, hop.into, now, finish);
        // What is to arrive beyond the horizon of the graph's times never does.
        let arrival = (finish + hop.link.propagation()).as_nanos().min((NEVER >> self.index_bits) - 1);
        let key = arrival << self.index_bits | u64::from(hop.index);
        self.arrivals.push(&mut hop.lane, Event { key, what: Arrival { packet: place, to: hop.to } });
    }

    /// The first arrival happens.
    #[inline]
    pub(super) fn arrive(&mut self, now: Time) -> Arrived {
        let arrival = self.arrivals.pop();
        self.follow(now, arrival)
    }

    /// The arrival from link `number` happens that is due now, if there is one, before its turn.
    #[cold]
    pub(super) fn arrive_early(&mut self, now: Time, number: usize) -> Option<Arrived> {
        let arrival = self.arrivals.take(self.key(now, number))?;
        Some(self.follow(now, arrival))
    }

    /// A packet comes off a link, and enters the next at once if that is an express link by a table of routes.
    #[inline]
    fn follow(&mut self, now: Time, Arrival { packet, to }: Arrival) -> Arrived {
        let mut node = to;
        let at = &self.packets.places[packet as usize];
        if to & TABLE != 0 {
            let table = &self.tables[(to & !TABLE) as usize];
            let next = table.next[usize::from(at.packet.dst.node)];
            if next != NONE {
                self.enter_from(now, next as usize, packet);
                let is_due = self.is_due(now, next as usize);
                return if is_due { Arrived::Touches(self.hops[next as usize].index) } else { Arrived::GoesOn };
            }
            node = table.node;
        }
        Arrived::Lands(Landing { node, into: at.into, packet })
    }

    /// The packet in this place.
    #[inline]
    pub(super) fn packet(&self, place: u32) -> &Packet {
        &self.packets.places[place as usize].packet
    }

    /// The packet in this place is no longer under way.
    #[inline]
    pub(super) fn leave(&mut self, place: u32) {
        self.packets.leave(place);
    }

    /// Brings the books of all links up to `now`.
    pub(super) fn settle(&mut self, now: Time) {
        self.hops.iter_mut().for_each(|hop| hop.link.open_books(now));
        for event in self.arrivals.iter() {
            let Place { packet, hop, entered, finish, .. } = self.packets.places[event.what.packet as usize];
            self.hops[hop as usize].link.note(now, Passage { entered, finish, len: packet.len });
        }
    }
}

impl Packets {
    #[inline]
    fn put(&mut self, packet: &Packet) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize].packet = *packet;
            return place;
        }
        self.put_at_the_end(packet)
    }

    #[cold]
    fn put_at_the_end(&mut self, packet: &Packet) -> u32 {
        let place = Place { packet: *packet, hop: NONE, into: Port(0), entered: Time::ZERO, finish: Time::ZERO };
        self.places.push(place);
        (self.places.len() - 1) as u32
    }

    #[inline]
    fn leave(&mut self, place: u32) {
        self.free.push(place);
    }
}
