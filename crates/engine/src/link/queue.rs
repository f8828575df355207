//! Where packets wait for service. Drop-tail here; what drops earlier, a file each.

pub mod header_drop;
pub mod red;

pub use header_drop::{Early, HeaderDrop};
pub use red::{Counts, Red, Thresholds};

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::packet::Packet;
use crate::room;
use crate::time::Time;
use crate::units::Bytes;

/// A queue of waiting packets; the one in service is not in it.
pub trait Queue: Debug + Send {
    /// Takes a packet, or refuses it, or evicts another for it: whichever is dropped is returned, with the time at
    /// which it came. Called only while the server is busy, with a packet of `in_service` bytes.
    fn enqueue(&mut self, now: Time, packet: &Packet, in_service: Bytes) -> Option<(Time, Packet)>;

    /// The packet to serve next and the time at which it came; not `None` while more were taken than left.
    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)>;

    /// Bytes waiting.
    fn bytes(&self) -> Bytes;

    /// How long the waiting packets have waited until `now`, summed, in nanoseconds.
    fn waited(&self, now: Time) -> u128;
}

/// How much a buffer holds that keeps a packet until its last bit has left: the one in transmission counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Whatever comes.
    Unlimited,
    /// So many packets: 7 are 6 waiting and 1 in transmission.
    Packets(u64),
    /// So many bytes.
    Bytes(Bytes),
}

/// First in, first out; what does not fit is dropped on arrival.
///
/// A packet that finds the server idle never enters the queue, so even a queue of zero lets it through.
#[derive(Debug)]
pub struct DropTail {
    waiting: VecDeque<(Time, Packet)>,
    bytes: Bytes,
    packets_max: u64,
    bytes_max: Bytes,
    /// Whether the packet in service takes part of what there is.
    holds_service: bool,
}

impl DropTail {
    /// A queue that takes whatever comes.
    pub fn unlimited() -> DropTail {
        DropTail {
            waiting: VecDeque::new(),
            bytes: Bytes::ZERO,
            packets_max: u64::MAX,
            bytes_max: Bytes::MAX,
            holds_service: false,
        }
    }

    /// A queue of at most `packets_max` waiting packets.
    pub fn packets(packets_max: u64) -> DropTail {
        DropTail { packets_max, ..DropTail::unlimited() }
    }

    /// A queue of at most `bytes_max` waiting bytes.
    pub fn bytes(bytes_max: Bytes) -> DropTail {
        DropTail { bytes_max, ..DropTail::unlimited() }
    }

    /// A buffer from which packets are transmitted: the one in transmission still takes its place.
    pub fn buffer(capacity: Capacity) -> DropTail {
        let queue = match capacity {
            Capacity::Unlimited => DropTail::unlimited(),
            Capacity::Packets(packets) => DropTail::packets(packets),
            Capacity::Bytes(bytes) => DropTail::bytes(bytes),
        };
        DropTail { holds_service: true, ..queue }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Time, packet: &Packet, in_service: Bytes) -> Option<(Time, Packet)> {
        let (packets_held, bytes_held) = if self.holds_service { (1, in_service) } else { (0, Bytes::ZERO) };
        let bytes = self.bytes + packet.len();
        if self.waiting.len() as u64 + packets_held >= self.packets_max || bytes + bytes_held > self.bytes_max {
            return Some((now, *packet));
        }
        self.bytes = bytes;
        room::for_one_more(&mut self.waiting);
        self.waiting.push_back((now, *packet));
        None
    }

    fn dequeue(&mut self, _now: Time) -> Option<(Time, Packet)> {
        let (entered, packet) = self.waiting.pop_front()?;
        self.bytes -= packet.len();
        Some((entered, packet))
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn waited(&self, now: Time) -> u128 {
        self.waiting.iter().map(|&(entered, _)| u128::from((now - entered).as_nanos())).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::packet::{Body, Class, Endpoint, Packet};

    /// A packet of so many bytes.
    pub(super) fn packet(len: u32) -> Packet {
        let (src, dst) = (Endpoint::default(), Endpoint::default());
        Packet { id: 0, src, dst, len, class: Class::Unmarked, body: Body::Opaque }
    }
}
