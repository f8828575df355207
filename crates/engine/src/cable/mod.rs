//! The cable path of the papers: from a server at the headend, over the cable, through a modem, to a PC, and back.
//!
//! ```text
//!             hfc-down                      lan-down
//!     port 0 ----------> modem, its buffer ----------> port 1
//!     headend            (transmits onto the LAN)      PC
//!            <----------                   <----------
//!             hfc-up                        lan-up
//! ```
//!
//! Four [`Link`]s in a row of two each way (tuning paper s4.1 and s5.1). The HFC channels lose packets and take the
//! propagation delay; the LAN between modem and PC does neither. Downstream the cable is faster than the LAN, so packets
//! wait in the modem, and what its buffer cannot hold is dropped there. Upstream the cable is the slower part, and
//! packets wait in the modem for it.

pub mod docsis;
#[cfg(test)]
mod tests;

use crate::link::loss::Loss;
use crate::link::queue::DropTail;
use crate::link::service::Constant;
use crate::link::{Link, Stats};
use crate::node::{Node, Port, Step};
use crate::packet::{Discard, Packet};
use crate::time::{Duration, Time, earlier};
use crate::units::{Capacity, Rate};

/// The parts of a cable path.
#[derive(Debug)]
pub struct CableConfig {
    /// Rate of the downstream channel: 25 Mbit/s in the papers.
    pub down: Rate,
    /// Rate of the upstream channel: 3 Mbit/s in the papers.
    pub up: Rate,
    /// Rate of the Ethernet between modem and PC, in each direction: 10 Mbit/s in the papers.
    pub lan: Rate,
    /// Propagation delay of the cable one way: half the papers' round trip of 20 ms.
    pub delay: Duration,
    /// The losses of the downstream channel, if it has any.
    pub down_loss: Option<Box<dyn Loss>>,
    /// The losses of the upstream channel, if it has any.
    pub up_loss: Option<Box<dyn Loss>>,
    /// The modem's room for packets to the PC, the one in transmission onto the LAN included: 10 KB, 7 packets, in
    /// the tuning paper's s5.1.
    pub modem_buffer: Capacity,
    /// The queue for the downstream channel.
    pub down_queue: DropTail,
    /// The queue for the upstream channel, in the modem.
    pub up_queue: DropTail,
}

impl CableConfig {
    /// The papers' path: no loss, nothing dropped.
    pub fn papers() -> CableConfig {
        CableConfig {
            down: Rate::mbit(25),
            up: Rate::mbit(3),
            lan: Rate::mbit(10),
            delay: Duration::from_millis(10),
            down_loss: None,
            up_loss: None,
            modem_buffer: Capacity::Unlimited,
            down_queue: DropTail::new(Capacity::Unlimited),
            up_queue: DropTail::new(Capacity::Unlimited),
        }
    }
}

/// A cable path, both directions. Port 0 is the headend's side, port 1 the PC's.
#[derive(Debug)]
pub struct Cable {
    down: Pair,
    up: Pair,
}

/// The names of the four links, in the order of [`Cable::links`].
pub const LINKS: [&str; 4] = ["hfc-down", "lan-down", "lan-up", "hfc-up"];

impl Cable {
    /// The headend's side.
    pub const HEADEND: Port = Port(0);
    /// The PC's side.
    pub const PC: Port = Port(1);

    /// An idle path.
    pub fn new(config: CableConfig) -> Cable {
        let link =
            |queue, rate: Rate, loss, delay| Link::new(Box::new(queue), Box::new(Constant::new(rate)), loss, delay);
        let modem_buffer = DropTail::holding_service(config.modem_buffer);
        Cable {
            down: Pair {
                first: link(config.down_queue, config.down, config.down_loss, config.delay),
                second: link(modem_buffer, config.lan, None, Duration::ZERO),
            },
            up: Pair {
                first: link(DropTail::new(Capacity::Unlimited), config.lan, None, Duration::ZERO),
                second: link(config.up_queue, config.up, config.up_loss, config.delay),
            },
        }
    }

    /// The four links, in the order of [`LINKS`].
    pub fn links(&self) -> [&Link; 4] {
        [&self.down.first, &self.down.second, &self.up.first, &self.up.second]
    }

    /// The four links, in the order of [`LINKS`], to record their discards and to close their books.
    pub fn links_mut(&mut self) -> [&mut Link; 4] {
        [&mut self.down.first, &mut self.down.second, &mut self.up.first, &mut self.up.second]
    }

    /// The counts of the link of that name; `None` if it is not one of [`LINKS`].
    pub fn stats(&self, name: &str) -> Option<Stats> {
        let index = LINKS.iter().position(|&link| link == name)?;
        Some(self.links()[index].stats())
    }
}

impl Node for Cable {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match port {
            Cable::HEADEND => self.down.first.receive(now, Port(0), packet),
            Cable::PC => self.up.first.receive(now, Port(0), packet),
            Port(other) => panic!("a cable path has ports 0 and 1, not {other}"),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        let down = match self.down.poll(now) {
            Step::Send(_, packet) => return Step::Send(Cable::PC, packet),
            Step::Wait(wake) => wake,
        };
        match self.up.poll(now) {
            Step::Send(_, packet) => Step::Send(Cable::HEADEND, packet),
            Step::Wait(up) => Step::Wait(earlier(down, up)),
        }
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        self.links_mut().into_iter().for_each(|link| link.take_discards(into));
    }
}

/// Two links in a row.
#[derive(Debug)]
struct Pair {
    first: Link,
    second: Link,
}

impl Pair {
    fn poll(&mut self, now: Time) -> Step {
        loop {
            let first = match self.first.poll(now) {
                Step::Send(_, packet) => {
                    self.second.receive(now, Port(0), &packet);
                    continue;
                }
                Step::Wait(wake) => wake,
            };
            return match self.second.poll(now) {
                Step::Wait(second) => Step::Wait(earlier(first, second)),
                send => send,
            };
        }
    }
}
