//! A route that becomes longer while a connection uses it: delay-based controls must not take the difference for a queue.

use std::collections::VecDeque;

use headend_engine::cc::Algorithm;
use headend_engine::cc::fast::Parameters;
use headend_engine::graph::Graph;
use headend_engine::link::Link;
use headend_engine::link::queue::DropTail;
use headend_engine::link::service::Constant;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::connection::{Connection, Output};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity, Rate};

const RATE: Rate = Rate::mbit(20);
/// Each way, at first.
const DELAY: Duration = Duration::from_millis(20);

/// A host with one connection, which writes without end and reads all.
struct Host {
    personality: Personality,
    connection: Connection,
    writes: bool,
    packets: u64,
}

impl Node for Host {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        let Body::Tcp(segment) = &packet.body else { return };
        self.connection.receive(now, segment);
        self.connection.read(Bytes::MAX);
    }

    fn poll(&mut self, now: Time) -> Step {
        if self.writes {
            self.connection.write(Bytes::new(1_000_000));
        }
        let segment = match self.connection.poll(now) {
            Output::Send(segment) => segment,
            Output::Wait(until) => return Step::Wait(until),
        };
        self.packets += 1;
        let (src, dst) = (Endpoint::default(), Endpoint::default());
        let len = self.personality.wire_len(&segment);
        let body = Body::Tcp(segment);
        Step::Send(Port(0), Packet { id: self.packets, src, dst, len, class: Class::Unmarked, ecn: Ecn::NotEct, body })
    }
}

/// A stretch of a route, with a delay that is another one from `changes` on.
struct Stretch {
    before: Duration,
    after: Duration,
    changes: Time,
    under_way: VecDeque<(Time, Packet)>,
}

impl Node for Stretch {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        let delay = if now < self.changes { self.before } else { self.after };
        self.under_way.push_back((now + delay, *packet));
    }

    fn poll(&mut self, now: Time) -> Step {
        match self.under_way.front() {
            Some((due, _)) if *due <= now => {
                let (_, packet) = self.under_way.pop_front().expect("it was looked at");
                Step::Send(Port(1), packet)
            }
            next => Step::Wait(next.map(|(due, _)| *due)),
        }
    }
}

/// The nodes of the graph.
enum Part {
    Host(Box<Host>),
    Link(Box<Link>),
    Stretch(Stretch),
}

impl Node for Part {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Part::Host(host) => host.receive(now, port, packet),
            Part::Link(link) => link.receive(now, port, packet),
            Part::Stretch(stretch) => stretch.receive(now, port, packet),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self {
            Part::Host(host) => host.poll(now),
            Part::Link(link) => link.poll(now),
            Part::Stretch(stretch) => stretch.poll(now),
        }
    }
}

/// What FAST got through [Mbit/s] in each second, over a route of 40 ms that has `longer` more from `at_s` on.
fn seconds(parameters: Parameters, longer: Duration, at_s: u64, until_s: u64) -> Vec<f64> {
    let personality = Personality { controller: Algorithm::Fast(parameters), ..Personality::linux() };
    let host = |connection, writes| {
        Part::Host(Box::new(Host { personality: personality.clone(), connection, writes, packets: 0 }))
    };
    let link = || {
        let (queue, service) = (DropTail::new(Capacity::Packets(1_000)), Constant::new(RATE));
        Part::Link(Box::new(Link::new(Box::new(queue), Box::new(service), None, DELAY)))
    };
    let mut graph = Graph::new();
    let sender = graph.add(host(Connection::connect(&personality, 1, Duration::ZERO), true));
    let receiver = graph.add(host(Connection::listen(&personality, 2, Duration::ZERO), false));
    let (there, back) = (graph.add(link()), graph.add(link()));
    let changes = Time::from_nanos(at_s * 1_000_000_000);
    let stretch = graph.add(Part::Stretch(Stretch {
        before: Duration::ZERO,
        after: longer,
        changes,
        under_way: VecDeque::new(),
    }));
    for (from, from_port, to, to_port) in [
        (sender, 0, there, 0),
        (there, 1, stretch, 0),
        (stretch, 1, receiver, 0),
        (receiver, 0, back, 0),
        (back, 1, sender, 0),
    ] {
        graph.wire(from, Port(from_port), to, Port(to_port));
    }
    let (mut now, mut rates, mut before) = (Time::ZERO, Vec::new(), Bytes::ZERO);
    while rates.len() < until_s as usize {
        let Step::Wait(Some(next)) = graph.poll(now) else { panic!("the connection ended early") };
        let end = Time::from_nanos((rates.len() as u64 + 1) * 1_000_000_000);
        if next >= end {
            let Part::Host(host) = &graph.nodes()[receiver] else { unreachable!("it was added as a host") };
            let received = host.connection.received();
            rates.push((received - before).get() as f64 * 8e-6);
            before = received;
        }
        now = next;
    }
    rates
}

#[test]
fn fast_fills_a_route_again_within_ten_seconds_of_its_growing_longer() {
    let longer = Duration::from_millis(60);
    let rates = seconds(Parameters::DEFAULT, longer, 20, 45);
    assert!(rates[10..20].iter().all(|rate| *rate > 18.0), "before: {rates:.1?} Mbit/s");
    assert!(rates[30..].iter().all(|rate| *rate > 0.9 * 19.3), "from 10 s after: {rates:.1?} Mbit/s");
    // As published it never does.
    let published = seconds(Parameters { check_seconds: 0, ..Parameters::DEFAULT }, longer, 20, 45);
    assert!(published[44] < 5.0, "{published:.1?} Mbit/s");
}

#[test]
fn fast_loses_little_to_the_checks_of_a_route_that_stays() {
    let rates = seconds(Parameters::DEFAULT, Duration::ZERO, 1, 60);
    let mean = rates[10..].iter().sum::<f64>() / 50.0;
    assert!(mean > 0.98 * 19.3, "{mean} Mbit/s");
}
