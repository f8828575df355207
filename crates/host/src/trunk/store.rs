//! Users' packets that wait in this process, whole or as bundles that are cut when their segments leave.

use super::bundle::Bundle;
use super::layout::put;

/// Bits of a packet's name that tell its number in a bundle.
const NUMBER_BITS: u32 = 16;
/// Buffers of the largest packet that are kept for others.
const SPARE_MAX: usize = 64;
/// Bytes of a packet at most.
pub(super) const PACKET_MAX: usize = 65_536;
/// Packets shorter than this are copied out of the buffer that they were read into: a queue of them would else take many times
/// its bytes.
const COPIED_BELOW: usize = 16_384;

/// Bundles, each held until its last packet has left or was dropped.
#[derive(Debug, Default)]
pub(super) struct Store {
    bundles: Vec<Option<Held>>,
    free: Vec<usize>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Held {
    bundle: Bundle,
    left: usize,
}

impl Store {
    /// A buffer of [`PACKET_MAX`] bytes.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; PACKET_MAX])
    }

    /// Takes a buffer back whose first `len` bytes are a packet. Returns those.
    pub(super) fn cut_to(&mut self, mut buffer: Vec<u8>, len: usize) -> Vec<u8> {
        if len >= COPIED_BELOW {
            buffer.truncate(len);
            return buffer;
        }
        let bytes = buffer[..len].to_vec();
        self.keep(buffer);
        bytes
    }

    /// Takes a buffer back.
    pub(super) fn keep(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() >= PACKET_MAX && self.spare.len() < SPARE_MAX {
            buffer.resize(PACKET_MAX, 0);
            self.spare.push(buffer);
        }
    }

    /// Takes a bundle. Returns the name of its first packet; those of the others follow.
    pub(super) fn insert(&mut self, bundle: Bundle) -> u64 {
        let held = Held { left: bundle.count(), bundle };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.bundles.push(None);
            self.bundles.len() - 1
        });
        self.bundles[slot] = Some(held);
        (slot as u64) << NUMBER_BITS
    }

    /// The bundle of a packet, and the packet's number in it.
    pub(super) fn find(&self, name: u64) -> (&Bundle, usize) {
        let (slot, number) = split(name);
        (&self.bundles[slot].as_ref().expect("a packet that waits is held").bundle, number)
    }

    /// Forgets a packet, because it has left or was dropped.
    pub(super) fn remove(&mut self, name: u64) {
        let (slot, _) = split(name);
        let held = self.bundles[slot].as_mut().expect("a packet that waits is held");
        held.left -= 1;
        if held.left == 0 {
            let held = self.bundles[slot].take().expect("it was just there");
            self.free.push(slot);
            self.keep(held.bundle.into_bytes());
        }
    }
}

fn split(name: u64) -> (usize, usize) {
    ((name >> NUMBER_BITS) as usize, (name & ((1 << NUMBER_BITS) - 1)) as usize)
}

/// The ECN field of a packet of IP (RFC 3168 s5), which the outer header takes over (RFC 6040 s4.1).
pub(super) fn ecn_of(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 4 => second & 3,
        [_, second, ..] => second >> 4 & 3,
        _ => 0,
    }
}

/// Congestion experienced.
pub(super) const CE: u8 = 3;

/// Marks a packet whose outer header was marked on the way. Returns false if it is to be dropped, because its ends do not know such
/// marks (RFC 6040 s4.2).
pub(super) fn mark(packet: &mut [u8]) -> bool {
    if ecn_of(packet) == 0 {
        return false;
    }
    if packet[0] >> 4 == 4 {
        packet[1] |= CE;
        let header = usize::from(packet[0] & 15) * 4;
        if header >= 20 && header <= packet.len() {
            put(packet, 10, 0);
            let sum = headend_engine::codec::checksum::Checksum::ZERO.with(&packet[..header]).finish();
            put(packet, 10, usize::from(sum));
        }
    } else {
        packet[1] |= CE << 4;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::bundle::tests::packet;
    use super::*;
    use crate::offload::HEADER_BYTES as OFFLOAD_HEADER;

    #[test]
    fn a_bundle_is_held_until_its_last_packet_has_left() {
        let mut store = Store::default();
        let bytes = packet(false, true, 0x10, &[0; 2_000]);
        // Its checksum at 16 of what begins at 20, and segments of 1000 bytes.
        let mut header = [1, 1, 0, 0, 0, 0, 20, 0, 16, 0];
        header[4..6].copy_from_slice(&1_000_u16.to_ne_bytes());
        let first = store.insert(Bundle::read(&header, bytes.clone()).unwrap());
        let other = store.insert(Bundle::read(&[0; OFFLOAD_HEADER], bytes).unwrap());
        store.remove(first + 1);
        assert_eq!(store.find(first).0.count(), 2);
        store.remove(first);
        let again = store.insert(Bundle::read(&[0; OFFLOAD_HEADER], packet(true, true, 0, b"x")).unwrap());
        assert_eq!((again, store.find(other).0.len_of(0)), (first, 2_040));
    }

    #[test]
    fn a_mark_of_the_outer_header_is_passed_on_or_the_packet_dropped() {
        for is_ipv6 in [false, true] {
            let mut bytes = packet(is_ipv6, true, 0x10, b"abc");
            assert!(!mark(&mut bytes), "its ends do not know marks");
            bytes[1] |= if is_ipv6 { 2 << 4 } else { 2 };
            assert!(mark(&mut bytes));
            assert_eq!(ecn_of(&bytes), CE);
        }
        let mut bytes = packet(false, true, 0x10, b"abc");
        bytes[1] = 1;
        mark(&mut bytes);
        assert_eq!(headend_engine::codec::checksum::Checksum::ZERO.with(&bytes[..20]).finish(), 0);
    }
}
