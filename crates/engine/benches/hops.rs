//! Measures the cost of a packet's hop over a link, graph included: rings of links with packets going round, no hosts.
//!
//!     cargo bench -p headend-engine --bench hops [HOPS]
//!     valgrind --tool=callgrind target/release/deps/hops-...       divide by the hops it prints
//!
//! Prints CPU-free facts only (hops, virtual time) and the wall time for a first impression: instructions under
//! callgrind are the stable measure.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)] // a driver, not the engine

use std::time::Instant;

use headend_engine::graph::Graph;
use headend_engine::link::Link;
use headend_engine::link::loss::Bernoulli;
use headend_engine::link::queue::DropTail;
use headend_engine::link::service::Constant;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::rng::Rng;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Capacity, Chance, Rate};

/// The number of rings, made so that there are as many links as in a dumbbell of ten flows: two access links and a shared one,
/// each way.
const RINGS: usize = 14;
/// Packets in a ring: 190 of 1500 B take 22.8 ms at 100 Mbit/s, and once round takes 20 ms and a little.
const WINDOW: u64 = 190;
const LINKS: [(Rate, Duration); 3] = [
    (Rate::mbit(1000), Duration::from_millis(1)),
    (Rate::mbit(100), Duration::from_millis(8)),
    (Rate::mbit(1000), Duration::from_millis(1)),
];

fn link((rate, delay): (Rate, Duration)) -> Link {
    // A loss that never strikes, because a link with one is the common case.
    let loss = Bernoulli::new(Chance::from_raw(1), Rng::named(1, "loss"));
    Link::new(
        Box::new(DropTail::new(Capacity::Packets(1000))),
        Box::new(Constant::new(rate)),
        Some(Box::new(loss)),
        delay,
    )
}

/// Rings of three links: data that keeps the middle one busy in every other, acknowledgements in the rest.
fn rings() -> Graph<Link> {
    let mut graph = Graph::new();
    for ring in 0..RINGS {
        let nodes = LINKS.map(|kind| graph.add(link(kind)));
        let entry = graph.expose(nodes[0], Port(0));
        for i in 0..LINKS.len() {
            graph.wire(nodes[i], Port(1), nodes[(i + 1) % LINKS.len()], Port(0));
        }
        // Rings in step would share the cost of an event.
        let start = Time::from_nanos(7_001 * ring as u64);
        for id in 0..WINDOW {
            let end = Endpoint { node: ring as u16, port: 1 };
            let len = if ring % 2 == 0 { 1500 } else { 40 };
            graph.receive(
                start,
                entry,
                &Packet {
                    id,
                    src: end,
                    dst: end,
                    len,
                    class: Class::default(),
                    ecn: Ecn::NotEct,
                    body: Body::Tcp(Segment::default()),
                },
            );
        }
    }
    graph
}

fn hops(graph: &Graph<Link>) -> u64 {
    graph.nodes().iter().map(|link| link.stats().delivered).sum()
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(3_000_000);
    let mut graph = rings();
    let (mut now, mut polls) = (Time::from_nanos(7_001 * RINGS as u64), 0_u64);
    let start = Instant::now();
    while let Step::Wait(Some(wake)) = graph.poll(now) {
        now = wake;
        polls += 1;
        if polls.is_multiple_of(1000) && hops(&graph) >= wanted {
            break;
        }
    }
    let (hops, spent) = (hops(&graph), start.elapsed());
    println!("{hops} hops in {now} of virtual time, {:.1} ns each", spent.as_nanos() as f64 / hops as f64);
}
