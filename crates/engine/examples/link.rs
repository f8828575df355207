//! A link with a loss model of one's own, and a graph that runs it: a microwave oven beside a wireless link.
//!
//! `cargo run -p headend-engine --example link`
#![allow(clippy::disallowed_macros, reason = "an example prints")]

use headend_engine::graph::Graph;
use headend_engine::link::Link;
use headend_engine::link::loss::Loss;
use headend_engine::link::queue::DropTail;
use headend_engine::link::service::Constant;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::connection::{Connection, Output, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity, Rate};

/// An oven radiates during a part of each cycle of the mains, and nothing gets through meanwhile. It is told the time, as
/// everything here is, and needs no clock.
#[derive(Debug)]
struct Oven {
    cycle: Duration,
    radiates: Duration,
}

impl Loss for Oven {
    fn strikes(&mut self, now: Time, _len: Bytes) -> bool {
        now.as_nanos() % self.cycle.as_nanos() < self.radiates.as_nanos()
    }
}

fn main() {
    println!("radiates [ms of 20]  goodput [Mbit/s] of NewReno, and of Linux");
    for millis in [0, 1, 2, 4, 8] {
        let senders = [Personality::newreno(), Personality::linux()];
        let [newreno, linux] = senders.map(|tcp| goodput(&tcp, Duration::from_millis(millis)));
        println!("{millis:>19}  {:>16.3}  {:.3}", newreno / 1e6, linux / 1e6);
    }
}

/// The goodput of a stream of `tcp` over 10 Mbit/s beside an oven in a minute, in bit/s.
fn goodput(tcp: &Personality, radiates: Duration) -> f64 {
    const SECONDS: u64 = 60;
    let end = |isn| PairedEnd { personality: tcp, isn, clock_phase: Duration::ZERO };
    let (source, sink) = Connection::pair(end(1), end(2));
    // The mains, of 50 Hz, are a little slow: an oven in step with a TCP clock strikes each retransmission or none.
    let oven = Oven { cycle: Duration::from_micros(20_070), radiates };

    let mut graph = Graph::new();
    let from = graph.add(Part::Host(Host { connection: source, tcp: tcp.clone(), writes: true }));
    let to = graph.add(Part::Host(Host { connection: sink, tcp: tcp.clone(), writes: false }));
    let down = graph.add(Part::Link(link(Some(Box::new(oven)))));
    let up = graph.add(Part::Link(link(None)));
    for (host, out, back) in [(from, down, up), (to, up, down)] {
        graph.wire(host, Port(0), out, Port(0));
        graph.wire(back, Port(1), host, Port(0));
    }

    let mut now = Time::ZERO;
    while let Step::Wait(Some(due)) = graph.poll(now)
        && due.as_nanos() < SECONDS * 1_000_000_000
    {
        now = due;
    }
    let Part::Host(sink) = &graph.nodes()[to] else { unreachable!("the sink is a host") };
    sink.connection.received().get() as f64 * 8.0 / SECONDS as f64
}

fn link(loss: Option<Box<dyn Loss>>) -> Link {
    let queue = DropTail::new(Capacity::Packets(50));
    Link::new(Box::new(queue), Box::new(Constant::new(Rate::mbit(10))), loss, Duration::from_millis(10))
}

/// A node of the graph.
enum Part {
    Host(Host),
    Link(Link),
}

/// A host with one connection, whose application writes without end, or reads.
struct Host {
    connection: Connection,
    tcp: Personality,
    writes: bool,
}

impl Node for Part {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Part::Link(link) => link.receive(now, port, packet),
            Part::Host(host) => {
                let Body::Tcp(segment) = packet.body else { unreachable!("only TCP was sent") };
                host.connection.receive(now, &segment);
                host.connection.read(Bytes::MAX);
            }
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        let host = match self {
            Part::Link(link) => return link.poll(now),
            Part::Host(host) => host,
        };
        if host.writes {
            host.connection.write(Bytes::new(100_000));
        }
        match host.connection.poll(now) {
            Output::Wait(due) => Step::Wait(due),
            Output::Send(segment) => {
                let (src, dst) = (Endpoint::default(), Endpoint::default());
                let len = host.tcp.wire_len(&segment);
                Step::Send(
                    Port(0),
                    Packet { id: 0, src, dst, len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Tcp(segment) },
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oven_takes_more_than_its_share_of_the_time() {
        let tcp = Personality::linux();
        let without = goodput(&tcp, Duration::ZERO);
        assert!((9.0e6..9.7e6).contains(&without), "10 Mbit/s less the headers: {without} bit/s");
        let beside = goodput(&tcp, Duration::from_millis(4));
        assert!((1e4..0.7 * without).contains(&beside), "a fifth of the time is the oven's: {beside} bit/s");
    }
}
