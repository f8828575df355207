//! A host: connections, the applications at their ends, and one port per link.

mod end;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use headend_engine::graph::Wakes;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Endpoint, Packet};
use headend_engine::tcp::connection::Output;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Time;

use crate::trace::{Event, What};

pub(crate) use end::{Closing, End, Setup};

/// The first port number of a host; those below are left to well-known services.
const FIRST_PORT: u16 = 1024;

/// Runs connections and their applications.
#[derive(Debug)]
pub struct Host {
    node: u16,
    personality: Personality,
    /// By port number, from `FIRST_PORT`.
    ends: Vec<End>,
    wakes: Wakes,
    /// Ends to be polled now, in the order in which something happened to them.
    touched: VecDeque<u32>,
    is_touched: Vec<bool>,
    next_id: u64,
    /// Ends in the whole world that are still under way.
    live: Rc<Cell<usize>>,
    log: Option<Vec<Event>>,
}

impl Host {
    /// A host without connections, and room for `ends` of them: number `node` of its network. `live` counts the ends in
    /// the world that are under way; `log` asks for a record of all packets.
    pub fn new(node: u16, personality: Personality, ends: usize, live: Rc<Cell<usize>>, log: bool) -> Host {
        Host {
            node,
            personality,
            ends: Vec::with_capacity(ends),
            wakes: Wakes::default(),
            touched: VecDeque::new(),
            is_touched: Vec::new(),
            next_id: 0,
            live,
            log: log.then(Vec::new),
        }
    }

    /// The options of every connection here.
    pub(crate) fn personality(&self) -> &Personality {
        &self.personality
    }

    /// Where the next end to be added will be; `None` if all ports are taken.
    pub(crate) fn next_endpoint(&self) -> Option<Endpoint> {
        let port = u16::try_from(self.ends.len() + usize::from(FIRST_PORT)).ok()?;
        Some(Endpoint { node: self.node, port })
    }

    /// Adds one end of a flow.
    pub(crate) fn add(&mut self, setup: Setup) {
        let end = End::new(setup);
        let index = self.ends.len();
        self.live.set(self.live.get() + 1);
        self.ends.push(end);
        self.is_touched.push(false);
        self.wakes.grow(self.ends.len());
        self.touch(index);
    }

    /// The end at this address.
    pub(crate) fn end(&self, at: Endpoint) -> &End {
        &self.ends[usize::from(at.port - FIRST_PORT)]
    }

    /// What happened to packets here.
    pub(crate) fn log(&self) -> &[Event] {
        self.log.as_deref().unwrap_or_default()
    }

    fn touch(&mut self, index: usize) {
        if !self.is_touched[index] {
            self.is_touched[index] = true;
            self.touched.push_back(index as u32);
        }
    }
}

impl Node for Host {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        debug_assert_eq!(packet.dst.node, self.node, "routes lead packets to their destination");
        if let Some(log) = &mut self.log {
            log.push(Event { time: now, what: What::Received, packet: *packet });
        }
        let Body::Tcp(segment) = &packet.body else { return };
        let index = usize::from(packet.dst.port - FIRST_PORT);
        self.ends[index].receive(now, segment, packet.len());
        self.touch(index);
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            let index = match self.touched.front() {
                Some(&index) => index as usize,
                None => match self.wakes.first() {
                    Some((wake, index)) if wake <= now => {
                        self.touch(index);
                        index
                    }
                    first => return Step::Wait(first.map(|(wake, _)| wake)),
                },
            };
            let end = &mut self.ends[index];
            match end.poll(now) {
                Output::Send(segment) => {
                    let id = self.next_id;
                    self.next_id += 1;
                    let src = Endpoint { node: self.node, port: index as u16 + FIRST_PORT };
                    let dst = end.peer();
                    let len = self.personality.wire_len(&segment);
                    let packet = Packet { id, src, dst, len, body: Body::Tcp(segment) };
                    if let Some(log) = &mut self.log {
                        log.push(Event { time: now, what: What::Sent, packet });
                    }
                    return Step::Send(end.out(), packet);
                }
                Output::Wait(wake) => {
                    if end.has_just_ended(now) {
                        self.live.set(self.live.get() - 1);
                    }
                    self.wakes.set(index, wake);
                    self.is_touched[index] = false;
                    self.touched.pop_front();
                }
            }
        }
    }
}
