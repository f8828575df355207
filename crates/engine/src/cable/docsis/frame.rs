//! Sizes on the channel: packets as frames, frames as bursts, bursts as mini-slots.

use super::config::Channel;
use crate::packet::Packet;
use crate::units::Bytes;

/// Ethernet: header and check sequence, and the least that a frame has.
const ETHERNET: u64 = 14 + 4;
const ETHERNET_MIN: u64 = 64;
/// The MAC header without extensions (RFIv1.1, "MAC Header Format"); also what a concatenation is preceded by, and the
/// whole of a request.
pub(super) const MAC_HEADER: u64 = 6;
/// An extended header with a request, type and length included (RFIv1.1, "Extended Header").
const REQUEST_ELEMENT: u64 = 4;
/// Bytes that each fragment carries besides data: MAC header, fragment header, check sequence (RFIv1.1, "Fragmentation").
pub(super) const FRAGMENT: u64 = 6 + 6 + 4;

/// A packet as an Ethernet frame: what rates are counted in.
pub(super) fn ethernet(packet: &Packet) -> u64 {
    (u64::from(packet.len) + ETHERNET).max(ETHERNET_MIN)
}

/// A packet on the downstream channel.
pub(super) fn downstream(packet: &Packet) -> Bytes {
    Bytes::new(ethernet(packet) + MAC_HEADER)
}

/// A packet on the upstream channel, in a modem that asks in its bursts or does not.
pub(super) fn upstream(packet: &Packet, piggyback: bool) -> u64 {
    ethernet(packet) + MAC_HEADER + if piggyback { REQUEST_ELEMENT } else { 0 }
}

/// The way in which a burst of one kind is sent: the profile that Cisco's CMTS uses with QPSK unless told otherwise.
struct Profile {
    preamble_bits: u64,
    /// Bytes of a code word before and of its parity; no code if zero.
    word: u64,
    parity: u64,
    guard_symbols: u64,
}

const REQUEST: Profile = Profile { preamble_bits: 64, word: 0, parity: 0, guard_symbols: 8 };
const SHORT: Profile = Profile { preamble_bits: 72, word: 75, parity: 10, guard_symbols: 8 };
const LONG: Profile = Profile { preamble_bits: 80, word: 220, parity: 16, guard_symbols: 8 };
/// The longest burst that is sent as a short one.
const SHORT_SLOTS_MAX: u64 = 6;

impl Profile {
    /// Bits of a burst of `bytes`. The last code word is shortened.
    fn bits(&self, bytes: u64, bits_per_symbol: u64) -> u64 {
        let words = bytes.checked_div(self.word).map_or(0, |_| bytes.div_ceil(self.word));
        self.preamble_bits + 8 * (bytes + words * self.parity) + self.guard_symbols * bits_per_symbol
    }
}

impl Channel {
    fn slots(&self, profile: &Profile, bytes: u64) -> u64 {
        // A slot's bits: symbols per second times its length, whole because a tick is 6.25 us.
        let slot_bits = self.symbols * self.bits_per_symbol * self.slot().as_nanos() / 1_000_000_000;
        profile.bits(bytes, self.bits_per_symbol).div_ceil(slot_bits)
    }

    /// Mini-slots of a request.
    pub(super) fn request_slots(&self) -> u64 {
        self.slots(&REQUEST, MAC_HEADER)
    }

    /// Mini-slots of a burst that carries so many bytes, MAC headers included.
    pub fn burst_slots(&self, bytes: u64) -> u64 {
        let short = self.slots(&SHORT, bytes);
        if short <= SHORT_SLOTS_MAX { short } else { self.slots(&LONG, bytes) }
    }
}
