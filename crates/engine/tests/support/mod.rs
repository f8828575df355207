//! Two TCP ends and what lies between them, in virtual time, for the tests of this crate.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod chaos;

use headend_engine::graph::Graph;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::connection::{Connection, Output, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

/// A host with one connection and an application that writes `to_write` bytes as the buffer allows, closes if told to,
/// and reads whatever arrives.
#[derive(Debug)]
pub struct Talker {
    pub connection: Connection,
    pub personality: Personality,
    pub to_write: u64,
    pub close_after: bool,
    pub reads: bool,
    /// Every segment that left or arrived, with its time.
    pub sent: Vec<(Time, Segment)>,
    pub heard: Vec<(Time, Segment)>,
    /// The time at which the last in-order byte arrived.
    pub last_data: Time,
    pub last_ack: Time,
    pub received: u64,
    pub cwnd: Vec<(Time, u64)>,
    packets: u64,
}

impl Talker {
    pub fn new(personality: &Personality, connection: Connection, to_write: u64) -> Talker {
        Talker {
            connection,
            personality: personality.clone(),
            to_write,
            close_after: false,
            reads: true,
            sent: Vec::new(),
            heard: Vec::new(),
            last_data: Time::ZERO,
            last_ack: Time::ZERO,
            received: 0,
            cwnd: Vec::new(),
            packets: 0,
        }
    }

    pub fn write(&mut self) {
        if self.to_write > 0 {
            self.to_write -= self.connection.write(Bytes::new(self.to_write)).get();
        }
        if self.to_write == 0 && self.close_after && self.connection.is_established() {
            self.connection.close();
        }
    }
}

impl Node for Talker {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        let Body::Tcp(segment) = packet.body else { panic!("a talker hears TCP only") };
        self.heard.push((now, segment));
        let before = self.connection.acknowledged();
        self.connection.receive(now, &segment);
        if self.connection.acknowledged() > before {
            self.last_ack = now;
        }
        let received = self.connection.received().get();
        assert!(received >= self.received, "the stream never shrinks");
        if received > self.received {
            self.received = received;
            self.last_data = now;
        }
        if self.reads {
            self.connection.read(Bytes::MAX);
        }
        self.write();
    }

    fn poll(&mut self, now: Time) -> Step {
        self.write();
        let step = match self.connection.poll(now) {
            Output::Wait(until) => Step::Wait(until),
            Output::Send(segment) => {
                self.sent.push((now, segment));
                self.packets += 1;
                Step::Send(
                    Port(0),
                    Packet {
                        id: self.packets,
                        src: Endpoint::default(),
                        dst: Endpoint::default(),
                        len: self.personality.wire_len(&segment),
                        class: Class::default(),
                        ecn: Ecn::NotEct,
                        body: Body::Tcp(segment),
                    },
                )
            }
        };
        if let Some(snapshot) = self.connection.snapshot()
            && self.cwnd.last().is_none_or(|&(_, cwnd)| cwnd != snapshot.cwnd.get())
        {
            self.cwnd.push((now, snapshot.cwnd.get()));
        }
        step
    }
}

/// A node of a test graph.
pub enum Piece {
    Talker(Box<Talker>),
    Other(Box<dyn Node>),
}

impl Piece {
    pub fn talker(&self) -> &Talker {
        match self {
            Piece::Talker(talker) => talker,
            Piece::Other(_) => panic!("not a talker"),
        }
    }
}

impl Node for Piece {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Piece::Talker(talker) => talker.receive(now, port, packet),
            Piece::Other(node) => node.receive(now, port, packet),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self {
            Piece::Talker(talker) => talker.poll(now),
            Piece::Other(node) => node.poll(now),
        }
    }
}

/// `left` at port 0 of `path`, `right` at port 1.
pub fn connect(left: Talker, right: Talker, path: Box<dyn Node>) -> Graph<Piece> {
    let mut graph = Graph::new();
    let left = graph.add(Piece::Talker(Box::new(left)));
    let path = graph.add(Piece::Other(path));
    let right = graph.add(Piece::Talker(Box::new(right)));
    graph.wire(left, Port(0), path, Port(0));
    graph.wire(path, Port(0), left, Port(0));
    graph.wire(path, Port(1), right, Port(0));
    graph.wire(right, Port(0), path, Port(1));
    graph
}

/// Runs until nothing is left to do, `done` says so, or `limit` is reached; returns the time.
pub fn run(graph: &mut Graph<Piece>, limit: Time, mut done: impl FnMut(&[Piece]) -> bool) -> Time {
    let mut now = Time::ZERO;
    loop {
        match graph.poll(now) {
            Step::Send(port, _) => panic!("a packet left through port {}", port.0),
            Step::Wait(Some(next)) if next <= limit && !done(graph.nodes()) => {
                assert!(next >= now, "time runs forward");
                now = next;
            }
            Step::Wait(_) => return now,
        }
    }
}

/// Two talkers whose connection is established beforehand; the left one writes `bytes`.
pub fn established(left: &Personality, right: &Personality, bytes: u64) -> (Talker, Talker) {
    let (a, b) = Connection::pair(
        PairedEnd { personality: left, isn: 0xffff_f000, clock_phase: Duration::ZERO },
        PairedEnd { personality: right, isn: 77, clock_phase: Duration::ZERO },
    );
    (Talker::new(left, a, bytes), Talker::new(right, b, 0))
}
