//! DOCSIS 1.1: modems that ask a headend for each burst they send, and a headend that shapes what it sends to them.
//!
//! ```text
//!   headend side                                                                     subscriber's side
//!   port 2m ---> token bucket, calendar ---> downstream channel, interleaver ---------------> port 2m + 1
//!                 (one for each modem)        (shared; MAPs on it are not simulated)
//!   port 2m <--- upstream channel <--------- modem m: buffer, requests, bursts <------------- port 2m + 1
//!                 (shared, by MAPs)
//! ```
//!
//! All upstream times are those of the headend's receiver, as in the standard: a modem sends a propagation delay before
//! its mini-slot. A modem knows of a MAP before the first mini-slot in it, and what it learns earlier changes nothing, so
//! one state machine, the headend's, has everything. MAPs of times at which nobody wants anything are not made.

mod books;
mod config;
mod contention;
mod frame;
mod modem;
mod shaper;
#[cfg(test)]
mod tests;
mod upstream;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::link::Stats;
use crate::node::{Node, Port, Step};
use crate::packet::{Discard, Packet};
use crate::time::{Duration, Time, earlier};
use crate::units::Bytes;

use books::Books;
use shaper::Bucket;
use upstream::Upstream;

pub use config::{Access, Channel, Drawing, Modem, Shaping, TICK};
pub use upstream::UpstreamCounters;

/// A channel each way and its modems. Modem `m` has port `2m` on the headend's side and `2m + 1` on the subscriber's.
#[derive(Debug)]
pub struct Docsis {
    down: Vec<Downstream>,
    /// Packets that a token bucket releases at a time yet to come, by modem.
    releases: BinaryHeap<Reverse<(Time, u32)>>,
    channel: Channel,
    /// The time at which the downstream channel is done with what was released.
    free_at: Time,
    /// Packets on the downstream channel, in order.
    line: VecDeque<(Time, u32, Time, Packet)>,
    up: Upstream,
    out: VecDeque<(Port, Packet)>,
}

/// The downstream half of a modem.
#[derive(Debug)]
struct Downstream {
    bucket: Option<Bucket>,
    delay_max: Duration,
    waiting: VecDeque<(Time, Packet)>,
    books: Books,
}

/// Most modems on a channel: each has two of 65536 ports.
pub const MODEMS_MAX: usize = 1 << 15;

/// One of the two channels, by where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelDirection {
    /// The downstream channel, to the subscriber.
    Down,
    /// The upstream channel, to the headend.
    Up,
}

impl Docsis {
    /// Idle modems on an idle channel.
    ///
    /// # Errors
    /// Those that [`Channel::check`] finds.
    ///
    /// # Panics
    /// If there are more than [`MODEMS_MAX`].
    pub fn new(channel: Channel, modems: Vec<Drawing>) -> Result<Docsis, String> {
        channel.check()?;
        assert!(modems.len() <= MODEMS_MAX, "a modem has two of 65536 ports");
        let down = modems
            .iter()
            .map(|(modem, _)| Downstream {
                bucket: modem.down.map(Bucket::new),
                delay_max: modem.down_delay_max,
                waiting: VecDeque::new(),
                books: Books::default(),
            })
            .collect();
        Ok(Docsis {
            down,
            releases: BinaryHeap::new(),
            free_at: Time::ZERO,
            line: VecDeque::new(),
            up: Upstream::new(channel.clone(), modems),
            channel,
            out: VecDeque::new(),
        })
    }

    /// The port of a modem on the headend's side.
    pub fn headend_port(modem: usize) -> Port {
        Port(2 * modem as u16)
    }

    /// The port of a modem on the subscriber's side.
    pub fn subscriber_port(modem: usize) -> Port {
        Port(2 * modem as u16 + 1)
    }

    /// The number of modems.
    pub fn modems(&self) -> usize {
        self.down.len()
    }

    fn books(&self, modem: usize, way: ChannelDirection) -> &Books {
        match way {
            ChannelDirection::Down => &self.down[modem].books,
            ChannelDirection::Up => &self.up.modems[modem].books,
        }
    }

    fn books_mut(&mut self, modem: usize, way: ChannelDirection) -> &mut Books {
        match way {
            ChannelDirection::Down => &mut self.down[modem].books,
            ChannelDirection::Up => &mut self.up.modems[modem].books,
        }
    }

    /// The counts of a modem one way. A packet is inside from its arrival until its delivery at the far end.
    pub fn stats(&self, modem: usize, way: ChannelDirection) -> Stats {
        self.books(modem, way).stats()
    }

    /// Packets and bytes inside, those on their way included.
    pub fn backlog(&self, modem: usize, way: ChannelDirection) -> (u64, Bytes) {
        self.books(modem, way).backlog()
    }

    /// The counts of the upstream channel.
    pub fn counters(&self) -> &UpstreamCounters {
        &self.up.counters
    }

    /// The counts of a modem one way when a run ends, checked.
    ///
    /// # Panics
    /// If packets were not conserved, or Little's law does not hold.
    pub fn close_books(&mut self, modem: usize, way: ChannelDirection, now: Time) -> Stats {
        self.settle(now);
        self.books_mut(modem, way).close(now)
    }

    /// Keeps a record from now on of every packet that is dropped.
    pub fn record_discards(&mut self) {
        for modem in 0..self.modems() {
            for way in [ChannelDirection::Down, ChannelDirection::Up] {
                self.books_mut(modem, way).discards.get_or_insert_default();
            }
        }
    }

    /// The packets that a modem dropped one way since the record began, in the order of time.
    pub fn discards(&self, modem: usize, way: ChannelDirection) -> &[Discard] {
        self.books(modem, way).discards.as_deref().unwrap_or_default()
    }

    fn enter_downstream(&mut self, now: Time, modem: usize, packet: &Packet) {
        let down = &mut self.down[modem];
        down.books.arrives(now, packet);
        let leaves = match &mut down.bucket {
            Some(bucket) => bucket.take(now, Bytes::new(frame::ethernet(packet)), down.delay_max),
            None => (self.free_at.since(now) <= down.delay_max).then_some(now),
        };
        match leaves {
            Some(time) if time > now => {
                down.waiting.push_back((now, *packet));
                self.releases.push(Reverse((time, modem as u32)));
            }
            Some(_) => self.release(now, modem as u32, now, packet),
            None => down.books.drops(now, now, packet),
        }
    }

    /// Puts a packet on the downstream channel.
    fn release(&mut self, now: Time, modem: u32, entered: Time, packet: &Packet) {
        self.free_at = self.free_at.max(now) + self.channel.down.time_for(frame::downstream(packet));
        let arrival = self.free_at + self.channel.propagation + self.channel.interleaving;
        self.line.push_back((arrival, modem, entered, *packet));
    }

    fn settle(&mut self, now: Time) {
        while let Some(&Reverse((time, modem))) = self.releases.peek()
            && time <= now
        {
            self.releases.pop();
            let (entered, packet) = self.down[modem as usize].waiting.pop_front().expect("what is released waits");
            self.release(time, modem, entered, &packet);
        }
        while let Some(&(time, modem, entered, packet)) = self.line.front()
            && time <= now
        {
            self.line.pop_front();
            let books = &mut self.down[modem as usize].books;
            books.delivers(time, entered, &packet);
            books.busy(self.channel.down.time_for(frame::downstream(&packet)));
            self.out.push_back((Docsis::subscriber_port(modem as usize), packet));
        }
        self.up.settle(now, &mut self.out);
    }
}

impl Node for Docsis {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        self.settle(now);
        let modem = usize::from(port.0 / 2);
        assert!(modem < self.modems(), "port {} is of modem {modem}, of {}", port.0, self.modems());
        if port.0.is_multiple_of(2) {
            self.enter_downstream(now, modem, packet);
        } else {
            self.up.receive(now, modem, packet);
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        self.settle(now);
        if let Some((port, packet)) = self.out.pop_front() {
            return Step::Send(port, packet);
        }
        let release = self.releases.peek().map(|&Reverse((time, _))| time);
        let arrival = self.line.front().map(|&(time, ..)| time);
        Step::Wait(earlier(earlier(release, arrival), self.up.next()))
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        for modem in 0..self.modems() {
            for way in [ChannelDirection::Down, ChannelDirection::Up] {
                if let Some(discards) = &mut self.books_mut(modem, way).discards {
                    into.append(discards);
                }
            }
        }
    }
}
