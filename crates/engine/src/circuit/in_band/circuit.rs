//! A circuit's sending end: users' packets in a tunnel queue, and when each may leave in a datagram.

use super::{OVERHEAD, Sender};
use crate::circuit::fair::Shrinking;
use crate::circuit::gmb::Bucket;
use crate::circuit::tunnel::{Ticket, Tunnel};
use crate::packet::Packet;
use crate::time::{Time, earlier};
use crate::units::{Bytes, Rate};

use super::acknowledgement::Acknowledgement;

/// The next action of the sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A user's packet leaves in the datagram with this number; without one, at the guaranteed rate and under no control.
    Datagram(Option<u64>, Packet),
    /// It has nothing to send until this time, or until something arrives.
    Wait(Option<Time>),
}

/// The sending end of a circuit with in-band control.
#[derive(Debug)]
pub struct Circuit {
    tunnel: Tunnel,
    sender: Sender,
    guaranteed: Option<Bucket>,
    /// Bytes of users' packets that left in numbered datagrams, and at the guaranteed rate.
    controlled: Bytes,
    uncontrolled: Bytes,
    /// Bytes that left beside the tunnel queue, and which no datagram has been charged with.
    owed: Bytes,
    charged: Bytes,
}

impl Circuit {
    /// A circuit with this tunnel queue, and with the rate at which packets leave without permission.
    pub fn new(tunnel: Tunnel, sender: Sender, guaranteed: Option<Rate>) -> Circuit {
        let guaranteed = guaranteed.map(Bucket::new);
        let none = Bytes::ZERO;
        Circuit { tunnel, sender, guaranteed, controlled: none, uncontrolled: none, owed: none, charged: none }
    }

    /// Offers a user's packet to class `class` of the tunnel queue; `None` if it was dropped.
    pub fn push(&mut self, now: Time, class: usize, packet: Packet) -> Option<Ticket> {
        if self.tunnel.is_empty()
            && let Some(bucket) = &mut self.guaranteed
        {
            bucket.resume(now);
        }
        self.tunnel.push(now, class, packet)
    }

    /// The tunnel queue, to be read.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }

    /// The control, to be read.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Bytes of users' packets that left under control.
    pub fn controlled(&self) -> Bytes {
        self.controlled
    }

    /// Counts a packet that left beside the tunnel queue, an acknowledgement of the reverse circuit, as data (s2.3.2): the
    /// next datagram takes as much more of a window. A circuit without data owes no more than a full datagram.
    pub fn charge(&mut self, len: Bytes) {
        self.owed = (self.owed + len).min(self.sender.unit());
    }

    /// Bytes that were charged to windows.
    pub fn charged(&self) -> Bytes {
        self.charged
    }

    /// Bytes of users' packets that left at the guaranteed rate.
    pub fn guaranteed(&self) -> Bytes {
        self.uncontrolled
    }

    /// Takes an acknowledgement of the other end. One of numbers that never left is passed over.
    pub fn receive(&mut self, now: Time, told: &Acknowledgement) {
        let shrank = self.sender.on_acknowledgement(now, told).unwrap_or(0);
        self.tell_tunnel(now, shrank);
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        while self.sender.deadline().is_some_and(|due| due <= now) {
            let shrank = self.sender.on_deadline(now);
            self.tell_tunnel(now, shrank);
        }
        let Some(len) = self.tunnel.first().map(|packet| packet.len() + Bytes::new(OVERHEAD)) else {
            self.sender.on_nothing_to_send();
            return Output::Wait(self.sender.deadline());
        };
        let number = if self.guaranteed.as_mut().is_some_and(|bucket| bucket.allows(now)) {
            None
        } else if self.sender.permits(now, len + self.owed) {
            let number = self.sender.on_sent(now, len + self.owed);
            self.charged += std::mem::take(&mut self.owed);
            Some(number)
        } else {
            let tick = self.guaranteed.as_ref().map(Bucket::next_tick);
            let paced = earlier(self.sender.release(now), self.sender.deadline());
            return Output::Wait(earlier(tick, paced));
        };
        let packet = self.tunnel.pop(now).expect("the first packet waits");
        match number {
            Some(_) => self.controlled += packet.len(),
            None => self.uncontrolled += packet.len(),
        }
        if let Some(bucket) = &mut self.guaranteed {
            if number.is_none() {
                bucket.spend(packet.len());
            }
            if self.tunnel.is_empty() {
                bucket.drain();
            }
        }
        Output::Datagram(number, packet)
    }

    /// Tells the classes that are fair to flows that windows shrank.
    fn tell_tunnel(&mut self, now: Time, shrank: u32) {
        if shrank > 0 && self.tunnel.is_fair() {
            let window = self.sender.window().get() / self.sender.unit().get();
            let controls = self.sender.flows();
            for _ in 0..shrank {
                self.tunnel.trunk_shrank(Shrinking { now, window, controls });
            }
        }
    }
}
