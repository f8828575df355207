//! A TCP transfer by hand: two connections, a link each way, and a loop that does what a driver does.
//!
//! `cargo run -p headend-engine --example transfer`
#![allow(clippy::disallowed_macros, reason = "an example prints")]

use headend_engine::link::Link;
use headend_engine::link::loss::Bernoulli;
use headend_engine::link::queue::DropTail;
use headend_engine::link::service::Constant;
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, Fault, Output, State};
use headend_engine::tcp::counters::SenderCounters;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::{Bytes, Capacity, Chance, Rate};

const FILE: Bytes = Bytes::new(1_000_000);

fn main() {
    for percent in [0.0, 0.01, 0.03] {
        let loss = Chance::from_f64(percent).expect("a chance");
        let transfer = transfer(&Personality::linux(), loss, 1);
        let SenderCounters { segments, retransmits, timeouts, .. } = transfer.sender;
        let (arrived, closed) = (transfer.arrived.as_secs_f64(), transfer.closed.as_secs_f64());
        println!("{FILE} with {:.0}% loss: {arrived:.3} s, closed after {closed:.3} s", 100.0 * percent);
        println!("    {segments} segments, {retransmits} of them again, {timeouts} time-outs, {:?}", transfer.fault);
    }
}

/// The result of a transfer.
struct Transfer {
    /// The time at which the last byte reached the client.
    arrived: Time,
    /// The time at which the client had heard that its own end of the stream arrived: both are closed then.
    closed: Time,
    fault: Option<Fault>,
    sender: SenderCounters,
}

/// The client connects, the server sends it the file and closes, and the client closes too.
fn transfer(tcp: &Personality, loss: Chance, seed: u64) -> Transfer {
    const SERVER: usize = 0;
    const CLIENT: usize = 1;
    let mut ends = [Connection::listen(tcp, 1_000, Duration::ZERO), Connection::connect(tcp, 2_000, Duration::ZERO)];
    // `links[SERVER]` is the link that leads from the server to the client.
    let mut links = ["down", "up"].map(|name| link(loss, Rng::named(seed, name)));
    let (mut now, mut unwritten, mut arrived) = (Time::ZERO, FILE, Time::ZERO);
    loop {
        // The applications: one writes as the send buffer allows, the other reads whatever came.
        if ends[SERVER].is_established() {
            unwritten -= ends[SERVER].write(unwritten);
            if unwritten == Bytes::ZERO {
                ends[SERVER].close();
            }
        }
        if ends[CLIENT].read(Bytes::MAX) > Bytes::ZERO {
            arrived = now;
        }
        if ends[CLIENT].is_peer_closed() {
            ends[CLIENT].close();
        }

        // Each end is polled until it waits, and then each link; what a link delivers may have an end send again.
        let mut next = None;
        for end in [SERVER, CLIENT] {
            next = earlier(next, send(now, tcp, &mut ends[end], &mut links[end]));
        }
        let mut is_settled = true;
        for (from, to) in [(SERVER, CLIENT), (CLIENT, SERVER)] {
            match links[from].poll(now) {
                Step::Wait(due) => next = earlier(next, due),
                Step::Send(_, packet) => {
                    let Body::Tcp(segment) = packet.body else { unreachable!("only TCP was sent") };
                    ends[to].receive(now, &segment);
                    is_settled = false;
                }
            }
        }
        if !is_settled {
            continue;
        }
        // The server waits in TIME-WAIT for a minute in case its last acknowledgement was lost; nobody else has to.
        match next {
            Some(due) if ends[CLIENT].state() != State::Closed => now = due,
            _ => break,
        }
    }
    Transfer { arrived, closed: now, fault: ends[CLIENT].fault(), sender: ends[SERVER].counters() }
}

/// 10 Mbit/s, 20 ms, and room for 500 packets.
fn link(loss: Chance, rng: Rng) -> Link {
    Link::new(
        Box::new(DropTail::new(Capacity::Packets(500))),
        Box::new(Constant::new(Rate::mbit(10))),
        Some(Box::new(Bernoulli::new(loss, rng))),
        Duration::from_millis(20),
    )
}

/// Puts onto `link` what `end` sends now, and returns for when it waits.
fn send(now: Time, tcp: &Personality, end: &mut Connection, link: &mut Link) -> Option<Time> {
    loop {
        match end.poll(now) {
            Output::Wait(due) => return due,
            Output::Send(segment) => {
                let packet = Packet {
                    id: 0,
                    src: Endpoint::default(),
                    dst: Endpoint::default(),
                    len: tcp.wire_len(&segment),
                    class: Class::Unmarked,
                    ecn: Ecn::NotEct,
                    body: Body::Tcp(segment),
                };
                link.receive(now, Port(0), &packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_arrives_whole_and_loss_only_delays_it() {
        let clean = transfer(&Personality::linux(), Chance::NEVER, 1);
        // 1 MB and 4% of headers take 0.83 s at 10 Mbit/s; the hand-shake and slow start some round trips of 40 ms.
        let seconds = clean.arrived.as_secs_f64();
        assert!((0.87..1.2).contains(&seconds), "{seconds} s");
        assert_eq!((clean.fault, clean.sender.retransmits), (None, 0));
        assert!(clean.closed > clean.arrived);
        let lossy = transfer(&Personality::linux(), Chance::from_f64(0.03).expect("a chance"), 1);
        assert_eq!(lossy.fault, None);
        assert!(lossy.sender.retransmits > 5, "of 700 segments 3% are lost");
        assert!(lossy.arrived > clean.arrived);
    }
}
