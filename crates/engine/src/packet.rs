//! Packets as the engine has them: headers and sizes, never payload.

use crate::codec::ipv4::Ipv4Header;
use crate::codec::udp::UdpHeader;
use crate::tcp::segment::Segment;
use crate::time::Time;
use crate::units::Bytes;

/// Bytes of the IPv4 and UDP headers of a datagram (RFC 791, RFC 768).
pub const DATAGRAM_HEADERS: u64 = (Ipv4Header::LEN + UdpHeader::LEN) as u64;

/// One end of a flow: a node's address and a port on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The node's address within its network.
    pub node: u16,
    /// The port on that node.
    pub port: u16,
}

/// A packet on its way. Whoever owns bytes finds them again by `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The packet's number, unique among the packets of its source node; the ticket for bytes that somebody else holds. What a medium
    /// has done to the packet is in its highest bits; without them it is [`number`](Packet::number).
    pub id: u64,
    /// The end that it came from.
    pub src: Endpoint,
    /// The end that it is going to.
    pub dst: Endpoint,
    /// Bytes on the wire, all headers included: what a link serves and a queue counts.
    pub len: u32,
    /// The packet's mark, for routers that know of circuits.
    pub class: Class,
    /// The packet's word on congestion, for queues that mark packets instead of dropping them.
    pub ecn: Ecn,
    /// The thing inside.
    pub body: Body,
}

/// A packet's mark in its IP header (TCP decoupling thesis, s2.2.5.2 and s3.8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// The packet has no mark: it belongs to no circuit.
    #[default]
    Unmarked,
    /// A header of a control TCP without the payload that it stands for: dropped first.
    Header,
    /// A user's packet that a circuit carries: dropped last.
    User,
}

impl Class {
    /// The mark in the header of a real packet: a differentiated services code point of those that RFC 2474 s6 leaves to local use
    /// (`xxxx11`). Both have no bits in the field that was the precedence, so that routers which know nothing of them treat such packets
    /// as all others. Zero stands for no mark, but a packet without one may have any other code point.
    pub const fn code_point(self) -> u8 {
        match self {
            Class::Unmarked => 0,
            Class::Header => 0b00_0011,
            Class::User => 0b00_0111,
        }
    }

    /// The mark of a real packet with this code point.
    pub const fn of_code_point(code_point: u8) -> Class {
        match code_point {
            0b00_0011 => Class::Header,
            0b00_0111 => Class::User,
            _ => Class::Unmarked,
        }
    }
}

/// The ECN field of a packet's IP header, by the names and the numbers of RFC 3168 s5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The ends of the packet's flow do not understand marks: a queue can only drop it.
    #[default]
    NotEct = 0,
    /// The ends understand marks, and answer them as L4S asks (RFC 9331 s4.1).
    Ect1 = 1,
    /// The ends understand marks, and answer one as they would a loss (RFC 3168 s5).
    Ect0 = 2,
    /// The packet met congestion: a queue has marked it.
    Ce = 3,
}

impl Ecn {
    /// The field as a number, the lower two bits of the octet that was the type of service.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The field of which these are the bits; those above the lower two say something else.
    pub const fn of_bits(octet: u8) -> Ecn {
        match octet & 0b11 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// True if a queue may mark the packet, or has.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// The inside of a packet, as far as the engine understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment of the engine's own.
    Tcp(Segment),
    /// A content that the engine only carries.
    Opaque,
}

/// A packet that did not get through a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// The time at which it was dropped, or at which its service ended.
    pub time: Time,
    /// True if the medium lost it, false if the queue dropped it.
    pub lost: bool,
    /// The packet.
    pub packet: Packet,
}

/// Bits of a packet's `id`: some of it are wrong; it is the one, or the other, of two that a medium made of one.
const CORRUPTED: u64 = 1 << 63;
const ONE_OF_TWO: u64 = 1 << 62;
const OTHER_OF_TWO: u64 = 1 << 61;

impl Packet {
    /// The packet's number, whatever has become of it on the way.
    pub const fn number(&self) -> u64 {
        self.id & !(CORRUPTED | ONE_OF_TWO | OTHER_OF_TWO)
    }

    /// True if bits of it are wrong, so that its receiver does not take it.
    pub const fn is_corrupted(&self) -> bool {
        self.id & CORRUPTED != 0
    }

    /// True if there are, or were, two of it.
    pub const fn is_one_of_two(&self) -> bool {
        self.id & (ONE_OF_TWO | OTHER_OF_TWO) != 0
    }

    /// Makes bits of it wrong.
    pub const fn corrupt(&mut self) {
        self.id |= CORRUPTED;
    }

    /// Makes another of it. One of two is not repeated again.
    pub const fn repeat(&mut self) -> Option<Packet> {
        if self.is_one_of_two() {
            return None;
        }
        let mut copy = *self;
        copy.id |= OTHER_OF_TWO;
        self.id |= ONE_OF_TWO;
        Some(copy)
    }

    /// Marks it as having met congestion; false if its ends would not understand, so that it can only be dropped.
    pub const fn mark(&mut self) -> bool {
        let is_capable = self.ecn.is_capable();
        if is_capable {
            self.ecn = Ecn::Ce;
        }
        is_capable
    }

    /// Bytes on the wire.
    pub const fn len(&self) -> Bytes {
        Bytes::new(self.len as u64)
    }

    /// True for a packet of no bytes at all, which no real link carries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_code_points_for_local_use_and_all_others_are_none() {
        let marked: Vec<u8> = (0..64).filter(|&point| Class::of_code_point(point) != Class::Unmarked).collect();
        assert_eq!(marked, [Class::Header, Class::User].map(Class::code_point));
        assert!(marked.iter().all(|point| point & 0b11 == 0b11 && point >> 3 == 0), "RFC 2474 s6: {marked:?}");
    }

    #[test]
    fn a_queue_can_mark_what_is_ecn_capable_and_nothing_else() {
        for bits in 0..4 {
            let ecn = Ecn::of_bits(bits);
            assert_eq!(ecn.bits(), bits);
            let (src, dst) = (Endpoint::default(), Endpoint::default());
            let mut packet = Packet { id: 0, src, dst, len: 100, class: Class::Unmarked, ecn, body: Body::Opaque };
            assert_eq!(packet.mark(), bits != 0);
            assert_eq!(packet.ecn, if bits == 0 { Ecn::NotEct } else { Ecn::Ce });
        }
    }

    #[test]
    fn a_packet_takes_a_line_and_a_half_of_cache_whatever_it_is_marked_with() {
        assert_eq!(size_of::<Packet>(), 96, "packets are copied at every hop");
    }
}
