//! Waiting packets in the order of their arrival.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::room;
use crate::time::Time;
use crate::units::Bytes;

/// Waiting packets, first in, first out: what a discipline without another order is made of.
#[derive(Debug, Default)]
pub struct Fifo {
    waiting: VecDeque<(Time, Packet)>,
    bytes: Bytes,
}

impl Fifo {
    /// Packets waiting.
    pub fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Puts a packet behind all others.
    pub fn push(&mut self, now: Time, packet: &Packet) {
        self.bytes += packet.len();
        room::for_one_more(&mut self.waiting);
        self.waiting.push_back((now, *packet));
    }

    /// Takes the packet that has waited longest, with the time at which it came.
    pub fn pop(&mut self) -> Option<(Time, Packet)> {
        let (entered, packet) = self.waiting.pop_front()?;
        self.bytes -= packet.len();
        Some((entered, packet))
    }

    /// The time at which the packet came that has waited longest.
    pub(super) fn first_came(&self) -> Option<Time> {
        self.waiting.front().map(|&(entered, _)| entered)
    }

    /// Takes the packet that came last.
    #[cfg(test)]
    pub(super) fn take_back(&mut self) {
        let (_, packet) = self.waiting.pop_back().expect("a packet waits");
        self.bytes -= packet.len();
    }

    /// The time that the packets have waited until `now`, summed, in nanoseconds.
    pub fn waited(&self, now: Time) -> u128 {
        self.waiting.iter().map(|&(entered, _)| u128::from((now - entered).as_nanos())).sum()
    }
}
