//! Drop-tail: first in, first out, and what does not fit is dropped on arrival.

use super::{Fifo, Queue, Site};
use crate::packet::Packet;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::time::Time;
use crate::units::{Bytes, Capacity};

/// The parameters of a drop-tail queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// A limit to what may wait; the packet in service is not counted.
    pub buffer: Capacity,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "drop-tail",
        doc: "What does not fit is dropped.",
        fields: &[Field {
            name: "buffer",
            kind: Kind::Capacity,
            absent: Absent::Is("unlimited"),
            doc: "How much may wait.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { buffer: values.capacity("buffer") })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, _site: Site<'_>) -> Box<dyn Queue> {
        Box::new(DropTail::new(self.buffer))
    }
}

/// First in, first out; what does not fit is dropped on arrival.
///
/// A packet that finds the server idle never enters the queue, so even a queue of zero lets it through.
#[derive(Debug)]
pub struct DropTail {
    waiting: Fifo,
    packets_max: u64,
    bytes_max: Bytes,
    /// True if the packet in service takes room in the buffer.
    holds_service: bool,
}

impl DropTail {
    /// A queue in which at most this much waits.
    pub fn new(buffer: Capacity) -> DropTail {
        let (packets_max, bytes_max) = buffer.limits();
        DropTail { waiting: Fifo::default(), packets_max, bytes_max, holds_service: false }
    }

    /// A buffer that keeps a packet until its last bit has left, as in a modem: with room for 7 packets, 6 wait and 1 is in
    /// transmission.
    pub fn holding_service(buffer: Capacity) -> DropTail {
        DropTail { holds_service: true, ..DropTail::new(buffer) }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Time, packet: &Packet, in_service: Bytes) -> Option<(Time, Packet)> {
        let (packets_held, bytes_held) = if self.holds_service { (1, in_service) } else { (0, Bytes::ZERO) };
        let bytes = self.waiting.bytes() + packet.len();
        if self.waiting.packets() + packets_held >= self.packets_max || bytes + bytes_held > self.bytes_max {
            return Some((now, *packet));
        }
        self.waiting.push(now, packet);
        None
    }

    fn dequeue(&mut self, _now: Time) -> Option<(Time, Packet)> {
        self.waiting.pop()
    }

    fn bytes(&self) -> Bytes {
        self.waiting.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.waiting.waited(now)
    }
}
