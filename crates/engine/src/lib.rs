//! TCP, congestion control, links and access networks as state machines: no clock, no input or output, no payload.
//!
//! A simulator, an emulator and a proxy run the same code, each with a clock of its own. The engine is never asked to hold
//! bytes: a [`Connection`](tcp::connection::Connection) counts those of its stream, and whoever has them finds them by
//! their place in it. Time and chance are arguments, and no float decides anything, so the same calls give the same
//! results on any machine.
//!
//! # The rule
//!
//! Everything is polled by one *driver*, which owns the clock, and calls nobody back:
//!
//! 1. Something arrives: `receive(now, ..)`. The application acts: `write`, `read`, `close`.
//! 2. After either, `poll(now)` until it returns `Wait`. Each `Send` before that is something that leaves now.
//! 3. `Wait(Some(time))` asks for another poll at that time, `Wait(None)` for none before something happens.
//!
//! Time never runs backwards between calls. A [`Node`](node::Node) has the same three, with ports: a
//! [`Link`](link::Link), a [`Cable`](cable::Cable), or a whole [`Graph`](graph::Graph) of nodes, which polls those inside
//! of it by the same rule.
//!
//! # A transfer over a link that loses packets
//!
//! ```
//! use headend_engine::link::loss::{Bernoulli, Loss};
//! use headend_engine::rng::Rng;
//! use headend_engine::tcp::connection::{Connection, Output, PairedEnd};
//! use headend_engine::tcp::personality::Personality;
//! use headend_engine::time::{Duration, Time};
//! use headend_engine::units::{Bytes, Chance};
//!
//! let tcp = Personality::linux();
//! let end = |isn| PairedEnd { personality: &tcp, isn, clock_phase: Duration::ZERO };
//! let (mut server, mut client) = Connection::pair(end(1), end(2));
//! let mut loss = Bernoulli::new(Chance::from_f64(0.01).unwrap(), Rng::named(1, "loss"));
//!
//! let file = Bytes::new(100_000);
//! assert_eq!(server.write(file), file);
//! let (mut now, mut line) = (Time::ZERO, std::collections::VecDeque::new());
//! while client.received() < file {
//!     // What the client answers is heard at once; what the server sends may be lost, and arrives 20 ms later.
//!     let client_due = loop {
//!         match client.poll(now) {
//!             Output::Send(segment) => server.receive(now, &segment),
//!             Output::Wait(due) => break due,
//!         }
//!     };
//!     let server_due = loop {
//!         match server.poll(now) {
//!             Output::Send(segment) if loss.strikes(now, Bytes::new(tcp.wire_len(&segment).into())) => {}
//!             Output::Send(segment) => line.push_back((now + Duration::from_millis(20), segment)),
//!             Output::Wait(due) => break due,
//!         }
//!     };
//!     let arrival = line.front().map(|&(time, _)| time);
//!     now = [client_due, server_due, arrival].into_iter().flatten().min().expect("more is to come");
//!     while line.front().is_some_and(|&(time, _)| time <= now) {
//!         let (_, segment) = line.pop_front().expect("it was looked at");
//!         client.receive(now, &segment);
//!         client.read(Bytes::MAX);
//!     }
//! }
//! assert!(server.counters().retransmits > 0);
//! ```
//!
//! # Examples
//!
//! `cargo run -p headend-engine --example NAME` runs a file of `examples/`:
//!
//! - `transfer.rs`: a TCP transfer by hand, from the SYN to the last FIN, over two links;
//! - `link.rs`: a link with a loss model of one's own, in a graph with two hosts.
//!
//! # Where things are
//!
//! | module | what it has |
//! |---|---|
//! | [`tcp`] | connections: set-up, loss recovery, timers, flow control; personalities, named sets of their options |
//! | [`cc`] | congestion control: one file for each algorithm, behind [`Controller`](cc::Controller) |
//! | [`link`] | queue, service, loss and propagation, each behind a trait |
//! | [`cable`] | the cable path of the tuning and the proxy paper; modems on a DOCSIS channel |
//! | [`circuit`] | TCP decoupling: congestion control for a stream of packets, apart from their data |
//! | [`relay`] | what a proxy that splits connections reads, holds, writes and closes |
//! | [`codec`] | headers of IP, TCP and UDP to and from bytes |
//! | [`node`], [`graph`], [`packet`] | what all that is made to fit together with |
//! | [`time`], [`units`], [`rng`] | instants, rates, sizes, chances, and random numbers |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::float_arithmetic))]

pub mod cable;
pub mod cc;
pub mod circuit;
pub mod codec;
pub mod graph;
mod lanes;
pub mod link;
pub mod node;
pub mod packet;
pub mod part;
pub mod relay;
pub mod rng;
mod room;
pub mod tcp;
pub mod time;
pub mod units;
mod wakes;
pub mod workload;
