//! The bytes of the packets that are inside the node. A packet's `id` is the number of its buffer, so nothing is looked
//! up; buffers are used again, so nothing is allocated once there are enough.

use headend_engine::codec::ip;
use headend_engine::packet::{Discard, Packet};
use headend_engine::time::Duration;

use crate::offload::OpenChecksum;

pub(super) struct Buffers {
    buffers: Vec<Buffer>,
    free: Vec<u32>,
    packet_bytes_max: usize,
    buffers_max: usize,
    /// Packets that will not arrive, on their way to `free`.
    discards: Vec<Discard>,
}

struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
    /// How much later than it came the packet entered the node.
    unread: Duration,
    /// Its checksum, if its sender has left it open.
    open: Option<OpenChecksum>,
    is_held: bool,
    /// True if one of two packets that the node has made of it is gone.
    is_one_gone: bool,
}

impl Buffers {
    pub(super) fn new(packet_bytes_max: usize, buffers_max: usize) -> Buffers {
        Buffers { buffers: Vec::new(), free: Vec::new(), packet_bytes_max, buffers_max, discards: Vec::new() }
    }

    /// Buffers in use.
    pub(super) fn held(&self) -> usize {
        self.buffers.len() - self.free.len()
    }

    /// True if a buffer is free already.
    pub(super) fn has_spare(&self) -> bool {
        !self.free.is_empty()
    }

    /// True if another buffer can be had.
    pub(super) fn has_room(&self) -> bool {
        self.has_spare() || self.buffers.len() < self.buffers_max
    }

    /// A buffer to read into, and the id of the packet that will be in it. There must be room.
    pub(super) fn take(&mut self) -> (u64, &mut [u8]) {
        let index = self.free.pop().unwrap_or_else(|| {
            // A byte more than any packet: one that fills it was longer and is cut off.
            let bytes = vec![0; self.packet_bytes_max + 1].into();
            self.buffers.push(Buffer {
                bytes,
                len: 0,
                unread: Duration::ZERO,
                open: None,
                is_held: false,
                is_one_gone: false,
            });
            self.buffers.len() as u32 - 1
        });
        let buffer = &mut self.buffers[index as usize];
        buffer.is_held = true;
        (u64::from(index), &mut buffer.bytes)
    }

    /// True if `len` bytes read are only the beginning of a packet.
    pub(super) fn is_cut_off(&self, len: usize) -> bool {
        len > self.packet_bytes_max
    }

    /// The whole buffer of `id`.
    pub(super) fn bytes(&self, id: u64) -> &[u8] {
        &self.buffers[id as usize].bytes
    }

    /// Notes how long the packet in the buffer is, and its checksum if it is open.
    pub(super) fn fill(&mut self, id: u64, len: usize, open: Option<OpenChecksum>) {
        let buffer = &mut self.buffers[id as usize];
        (buffer.len, buffer.unread, buffer.open) = (len, Duration::ZERO, open);
    }

    /// Notes how much later than it came the packet in the buffer entered the node.
    pub(super) fn waited(&mut self, id: u64, unread: Duration) {
        self.buffers[id as usize].unread = unread;
    }

    /// The packet in the buffer, and what was noted of it.
    pub(super) fn packet(&self, id: u64) -> (&[u8], Duration, Option<OpenChecksum>) {
        let buffer = &self.buffers[id as usize];
        (&buffer.bytes[..buffer.len], buffer.unread, buffer.open)
    }

    /// Marks the packet in the buffer as having met congestion; `frame` bytes come before it.
    pub(super) fn mark(&mut self, id: u64, frame: usize) {
        let buffer = &mut self.buffers[id as usize];
        ip::mark(&mut buffer.bytes[frame..buffer.len]);
    }

    /// Gives the buffer of a packet back that is gone; of two, when both are.
    pub(super) fn done(&mut self, packet: &Packet) {
        let buffer = &mut self.buffers[packet.number() as usize];
        if packet.is_one_of_two() && !buffer.is_one_gone {
            buffer.is_one_gone = true;
            return;
        }
        self.put_back(packet.number());
    }

    /// Gives a buffer back.
    pub(super) fn put_back(&mut self, id: u64) {
        let buffer = &mut self.buffers[id as usize];
        assert!(
            buffer.is_held,
            "buffer {id} is given back twice: a node has sent or discarded a packet it did not have"
        );
        (buffer.is_held, buffer.is_one_gone) = (false, false);
        self.free.push(id as u32);
    }

    /// The list that takes the records of packets that will not arrive.
    pub(super) fn discards(&mut self) -> &mut Vec<Discard> {
        &mut self.discards
    }

    /// Gives back the buffers of those.
    pub(super) fn put_back_discarded(&mut self) {
        while let Some(discard) = self.discards.pop() {
            self.done(&discard.packet);
        }
    }
}
