//! The checks at the end of a run notice when they are needed: links whose queues cheat.

use headend_engine::link::Link;
use headend_engine::link::queue::{DropTail, Queue};
use headend_engine::link::service::Constant;
use headend_engine::packet::Packet;
use headend_engine::units::Capacity;

use super::*;
use crate::network::Piece;

/// A queue that forwards to an honest one, but for what `cheat` does to what comes out.
#[derive(Debug)]
struct Cheating {
    honest: DropTail,
    cheat: Cheat,
    taken: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cheat {
    Not,
    /// Says of every packet that it came a nanosecond before it did.
    Backdates,
    /// Forgets the fifth packet.
    Swallows,
}

impl Queue for Cheating {
    fn enqueue(&mut self, now: Time, packet: &Packet, in_service: Bytes) -> Option<(Time, Packet)> {
        self.taken += 1;
        if self.cheat == Cheat::Swallows && self.taken == 5 {
            return None;
        }
        self.honest.enqueue(now, packet, in_service)
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        let (entered, packet) = self.honest.dequeue(now)?;
        let early = u64::from(self.cheat == Cheat::Backdates);
        Some((Time::from_nanos(entered.as_nanos() - early), packet))
    }

    fn bytes(&self) -> Bytes {
        self.honest.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.honest.waited(now)
    }
}

/// A transfer over the paper's path with such a queue in front of the Ethernet; how many packets waited in it.
fn run_with(cheat: Cheat) -> u64 {
    let mut world = World::build(&paper(300_000, LossModel::NONE), 0, false);
    let down = world.network.links[1].ways[0].piece;
    let queue = Cheating { honest: DropTail::new(Capacity::Unlimited), cheat, taken: 0 };
    let service = Box::new(Constant::new(Rate::mbit(10)));
    *world.network.graph.node_mut(down) = Piece::Link(Link::new(Box::new(queue), service, None, Duration::ZERO));
    let (outcome, _) = world.run(0, &|| false).unwrap();
    assert!(outcome.flows[0].transfer_ns.is_some());
    outcome.links[2].queue_max
}

#[test]
fn an_honest_queue_passes_the_checks_at_the_end_of_a_run() {
    assert!(run_with(Cheat::Not) > 1, "packets do wait there");
}

#[test]
#[should_panic(expected = "Little's law")]
fn a_queue_that_lies_about_waiting_times_fails_the_run() {
    run_with(Cheat::Backdates);
}

#[test]
#[should_panic(expected = "the queue has what was put in and not taken out")]
fn a_queue_that_swallows_a_packet_fails_the_run() {
    run_with(Cheat::Swallows);
}
