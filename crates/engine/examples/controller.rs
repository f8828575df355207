//! A congestion control of one's own: a window for a path of which the rate and the round trip are known.
//!
//! The same 10 MB cross a path that loses a packet in fifty, once with this controller and once with CUBIC. CUBIC takes
//! each loss for congestion; a window that is known to fit the path need not.
//!
//!     cargo run --release -p headend-engine --example controller
#![expect(clippy::disallowed_macros, reason = "an example prints what came of it")]

use headend_engine::cc::{Ack, Congestion, Controller, Custom, Factory, Setup};
use headend_engine::graph::Graph;
use headend_engine::link::Link;
use headend_engine::link::loss::Bernoulli;
use headend_engine::link::queue::DropTail;
use headend_engine::link::service::Constant;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, Output};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity, Chance, Rate};

const RATE: Rate = Rate::mbit(20);
const DELAY: Duration = Duration::from_millis(25);
const TRANSFER: Bytes = Bytes::new(10_000_000);

/// The parameters, which all connections of a personality have in common.
#[derive(Debug)]
struct KnownPath {
    rate: Rate,
    round_trip: Duration,
}

/// The controller of one connection: its state.
#[derive(Debug)]
struct Window(Bytes);

impl Factory for KnownPath {
    fn name(&self) -> &str {
        "known-path"
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        // What the path holds, and two segments, so that delayed acknowledgements keep nobody waiting.
        let bits = u128::from(self.rate.get()) * u128::from(self.round_trip.as_nanos()) / 1_000_000_000;
        Box::new(Window(Bytes::new((bits / 8) as u64) + setup.mss * 2))
    }
}

impl Controller for Window {
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn window(&self) -> Bytes {
        self.0
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }
}

/// A host with one connection, whose application writes so many bytes and reads whatever comes.
struct Host {
    personality: Personality,
    connection: Connection,
    to_write: Bytes,
    packets: u64,
}

impl Node for Host {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        let Body::Tcp(segment) = &packet.body else { return };
        self.connection.receive(now, segment);
        self.connection.read(Bytes::MAX);
    }

    fn poll(&mut self, now: Time) -> Step {
        self.to_write = self.to_write - self.connection.write(self.to_write);
        let segment = match self.connection.poll(now) {
            Output::Send(segment) => segment,
            Output::Wait(until) => return Step::Wait(until),
        };
        self.packets += 1;
        let (src, dst) = (Endpoint::default(), Endpoint::default());
        let len = self.personality.wire_len(&segment);
        Step::Send(
            Port(0),
            Packet {
                id: self.packets,
                src,
                dst,
                len,
                class: Class::Unmarked,
                ecn: Ecn::NotEct,
                body: Body::Tcp(segment),
            },
        )
    }
}

/// The nodes of the graph.
enum Part {
    Host(Box<Host>),
    Link(Box<Link>),
}

impl Node for Part {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Part::Host(host) => host.receive(now, port, packet),
            Part::Link(link) => link.receive(now, port, packet),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self {
            Part::Host(host) => host.poll(now),
            Part::Link(link) => link.poll(now),
        }
    }
}

/// The time that the transfer takes from a sender with this personality.
fn transfer(personality: &Personality) -> Duration {
    let host = |connection, to_write| {
        Part::Host(Box::new(Host { personality: personality.clone(), connection, to_write, packets: 0 }))
    };
    let link = |name: &str, loss: Chance| {
        let loss = Bernoulli::new(loss, Rng::named(1, name));
        let (queue, service) = (DropTail::new(Capacity::Packets(100)), Constant::new(RATE));
        Part::Link(Box::new(Link::new(Box::new(queue), Box::new(service), Some(Box::new(loss)), DELAY)))
    };
    let mut graph = Graph::new();
    let sender = graph.add(host(Connection::connect(personality, 1, Duration::ZERO), TRANSFER));
    let receiver = graph.add(host(Connection::listen(personality, 2, Duration::ZERO), Bytes::ZERO));
    let there = graph.add(link("there", Chance::from_raw(u64::MAX / 50)));
    let back = graph.add(link("back", Chance::NEVER));
    for (from, link, to) in [(sender, there, receiver), (receiver, back, sender)] {
        graph.wire(from, Port(0), link, Port(0));
        graph.wire(link, Port(1), to, Port(0));
    }
    let mut now = Time::ZERO;
    loop {
        let Step::Wait(Some(next)) = graph.poll(now) else { panic!("the connection ended early") };
        let Part::Host(host) = &graph.nodes()[receiver] else { unreachable!("it was added as a host") };
        if host.connection.received() == TRANSFER {
            return now.since(Time::ZERO);
        }
        now = next;
    }
}

/// The time of the transfer with the controller above, and with CUBIC.
fn compare() -> [Duration; 2] {
    let cubic = Personality::linux();
    let known = Custom::new(KnownPath { rate: RATE, round_trip: DELAY * 2 });
    let own = Personality { controller: known.into(), ..cubic.clone() };
    [&own, &cubic].map(transfer)
}

fn main() {
    let [own, cubic] = compare();
    let [own, cubic] = [own, cubic].map(Duration::as_millis);
    println!("10 MB over 20 Mbit/s and 50 ms with 2% loss: {own} ms with known-path, {cubic} ms with CUBIC");
}

#[test]
fn a_window_that_is_known_to_fit_beats_one_that_shrinks_with_losses() {
    let [own, cubic] = compare();
    let least = RATE.time_for(TRANSFER);
    assert!(least < own && own < least * 2, "{own}, and the line alone takes {least}");
    assert!(cubic > own * 3, "{cubic} and {own}");
}
