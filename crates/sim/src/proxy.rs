//! A split-connection proxy: it ends connections on one side and connects on at the other, and passes on at once, as a
//! router, what is not for it.

mod pair;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Endpoint, Packet};
use headend_engine::relay::Side;
use headend_engine::tcp::connection::Output;
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;

use crate::host::PORTS;
use crate::router::REACHABLE;
use crate::trace::Event;
use headend_scenario::results::trace::What;
use headend_scenario::topology::{FIRST_PORT, Routes};

pub(crate) use pair::{Leg, Opening, Pair};

/// Joins pairs of connections. A pair has two ports: the even one faces the subscriber.
#[derive(Debug)]
pub(crate) struct Proxy {
    node: u16,
    routes: Routes,
    local: Personality,
    remote: Personality,
    pairs: Vec<Pair>,
    /// Pairs to be polled now, in the order in which something happened to them.
    touched: VecDeque<u32>,
    /// Times to look at a pair again, never later than it wants.
    alarms: BinaryHeap<Reverse<(Time, u32)>>,
    next_id: u64,
    log: Option<Vec<Event>>,
    /// Ends in the whole world that are still under way.
    live: Rc<Cell<usize>>,
}

impl Proxy {
    /// A proxy without connections: number `node` of its network, with a TCP for each side. `live` counts the ends in
    /// the world that are under way; `log` asks for a record of all packets of its connections.
    pub(crate) fn new(node: u16, routes: Routes, tcp: [&Personality; 2], live: Rc<Cell<usize>>, log: bool) -> Proxy {
        let [local, remote] = tcp.map(Clone::clone);
        Proxy {
            node,
            routes,
            local,
            remote,
            pairs: Vec::new(),
            touched: VecDeque::new(),
            alarms: BinaryHeap::new(),
            next_id: 0,
            log: log.then(Vec::new),
            live,
        }
    }

    /// The options of the connections of this side.
    pub(crate) fn personality(&self, side: Side) -> &Personality {
        match side {
            Side::Local => &self.local,
            Side::Remote => &self.remote,
        }
    }

    /// The addresses that the next pair's connections will have, local and remote.
    pub(crate) fn next_endpoints(&self) -> [Endpoint; 2] {
        let port = |side: usize| u16::try_from(usize::from(FIRST_PORT) + 2 * self.pairs.len() + side).expect(PORTS);
        [port(0), port(1)].map(|port| Endpoint { node: self.node, port })
    }

    /// Adds a pair of connections.
    pub(crate) fn add(&mut self, pair: Pair) {
        if pair.closes() {
            self.live.set(self.live.get() + 1);
        }
        self.pairs.push(pair);
        self.touch(self.pairs.len() - 1);
    }

    /// The side that the connection at this address is on.
    pub(crate) fn side_of(&self, at: Endpoint) -> Side {
        if at.port.is_multiple_of(2) { Side::Local } else { Side::Remote }
    }

    /// The pair of which one connection is at this address.
    pub(crate) fn pair(&self, at: Endpoint) -> &Pair {
        &self.pairs[index_of(at)]
    }

    /// The record of what happened to packets of connections here.
    pub(crate) fn log(&self) -> &[Event] {
        self.log.as_deref().unwrap_or_default()
    }

    fn touch(&mut self, index: usize) {
        let pair = &mut self.pairs[index];
        if !pair.is_touched {
            pair.is_touched = true;
            self.touched.push_back(index as u32);
        }
    }

    /// Sends a segment: the packet in which it leaves, and the port.
    fn send(&mut self, now: Time, index: usize, side: Side, segment: Segment) -> Step {
        let leg = self.pairs[index].leg(side);
        let (out, dst, ecn) = (leg.out, leg.peer, leg.connection.departing_ecn());
        let src = Endpoint { node: self.node, port: FIRST_PORT + 2 * index as u16 + side as u16 };
        let len = self.personality(side).wire_len(&segment);
        let packet = Packet { id: self.next_id, src, dst, len, class: Class::default(), ecn, body: Body::Tcp(segment) };
        self.next_id += 1;
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Sent, packet });
        }
        Step::Send(out, packet)
    }

    /// Lets the pair at `index` wait until `wake`, or for a packet.
    fn rest(&mut self, index: usize, wake: Option<Time>) {
        let pair = &mut self.pairs[index];
        pair.is_touched = false;
        if pair.has_just_ended() {
            self.live.set(self.live.get() - 1);
        }
        if let Some(wake) = wake
            && wake < pair.alarm
        {
            pair.alarm = wake;
            self.alarms.push(Reverse((wake, index as u32)));
        }
    }
}

/// The index of the pair that this address belongs to.
fn index_of(at: Endpoint) -> usize {
    usize::from((at.port - FIRST_PORT) / 2)
}

impl Node for Proxy {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        debug_assert_eq!(packet.dst.node, self.node, "what is for others passes through");
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Received, packet: *packet });
        }
        if packet.is_corrupted() {
            // Its checksum is wrong.
            return;
        }
        let Body::Tcp(segment) = &packet.body else { return };
        let side = self.side_of(packet.dst);
        let index = index_of(packet.dst);
        self.pairs[index].receive(now, side, segment, packet.ecn);
        self.touch(index);
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            let Some(&index) = self.touched.front() else {
                match self.alarms.peek() {
                    Some(&Reverse((alarm, index))) if alarm <= now => {
                        self.alarms.pop();
                        let pair = &mut self.pairs[index as usize];
                        if pair.alarm == alarm {
                            pair.alarm = Time::MAX;
                        }
                        self.touch(index as usize);
                        continue;
                    }
                    first => return Step::Wait(first.map(|&Reverse((alarm, _))| alarm)),
                }
            };
            let index = index as usize;
            match self.pairs[index].poll(now) {
                (side, Output::Send(segment)) => return self.send(now, index, side, segment),
                (_, Output::Wait(wake)) => {
                    self.touched.pop_front();
                    self.rest(index, wake);
                }
            }
        }
    }

    fn through(&self, _port: Port, packet: &Packet) -> Option<Port> {
        (packet.dst.node != self.node).then(|| {
            let port = self.routes[usize::from(packet.dst.node)];
            port.expect(REACHABLE)
        })
    }
}
