//! Where packets wait for service. Drop-tail here; active queue management will be files beside this one.

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::packet::Packet;
use crate::time::Time;
use crate::units::Bytes;

/// A queue of waiting packets; the one in service is not in it.
pub trait Queue: Debug + Send {
    /// Takes a packet, or refuses it, or evicts another for it: whichever is dropped is returned, with the time at
    /// which it came.
    fn enqueue(&mut self, now: Time, packet: Packet) -> Option<(Time, Packet)>;

    /// The packet to serve next and the time at which it was taken.
    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)>;

    /// Packets waiting.
    fn packets(&self) -> u64;

    /// Bytes waiting.
    fn bytes(&self) -> Bytes;
}

/// First in, first out; what does not fit is dropped on arrival.
#[derive(Debug)]
pub struct DropTail {
    waiting: VecDeque<(Time, Packet)>,
    bytes: Bytes,
    packets_max: u64,
    bytes_max: Bytes,
}

impl DropTail {
    /// A queue that takes whatever comes.
    pub fn unlimited() -> DropTail {
        DropTail { waiting: VecDeque::new(), bytes: Bytes::ZERO, packets_max: u64::MAX, bytes_max: Bytes::MAX }
    }

    /// A queue of at most `packets_max` waiting packets.
    pub fn packets(packets_max: u64) -> DropTail {
        DropTail { packets_max, ..DropTail::unlimited() }
    }

    /// A queue of at most `bytes_max` waiting bytes.
    pub fn bytes(bytes_max: Bytes) -> DropTail {
        DropTail { bytes_max, ..DropTail::unlimited() }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Time, packet: Packet) -> Option<(Time, Packet)> {
        let bytes = self.bytes + packet.len();
        if self.waiting.len() as u64 >= self.packets_max || bytes > self.bytes_max {
            return Some((now, packet));
        }
        self.bytes = bytes;
        self.waiting.push_back((now, packet));
        None
    }

    fn dequeue(&mut self, _now: Time) -> Option<(Time, Packet)> {
        let (entered, packet) = self.waiting.pop_front()?;
        self.bytes -= packet.len();
        Some((entered, packet))
    }

    fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }
}
