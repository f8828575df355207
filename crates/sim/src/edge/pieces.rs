//! Fragments of a trunk's packets that are longer than its links carry: made at one end, put together at the other
//! (RFC 791).

use std::collections::BTreeMap;

use headend_engine::circuit::carried::fragments;
use headend_engine::packet::Packet;

/// The fragments under way, in the place of the fields that their headers would have.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The number of its packet's first fragment and how many there are, by each fragment's number.
    of: BTreeMap<u64, (u64, u64)>,
    /// The first fragment of the packet that is coming, and how many of its fragments are here.
    begun: (u64, u64),
    divided: u64,
}

impl Pieces {
    /// Divides `packet` for links that carry `mtu`; every fragment has its body. Numbers go on from the packet's.
    pub(super) fn divide(&mut self, packet: Packet, mtu: u32) -> impl Iterator<Item = Packet> {
        let lens: Vec<u32> = fragments(packet.len, mtu).collect();
        if lens.len() > 1 {
            self.divided += 1;
            self.of.extend((packet.id..).take(lens.len()).map(|id| (id, (packet.id, lens.len() as u64))));
        }
        (packet.id..).zip(lens).map(move |(id, len)| Packet { id, len, ..packet })
    }

    /// The number of packets that were divided.
    pub(crate) fn divided(&self) -> u64 {
        self.divided
    }

    /// A packet of the trunk arrived: true if with it a whole one has. No path of ours reorders packets, so what was
    /// not whole when the next begins never will be.
    pub(super) fn completes(&mut self, id: u64) -> bool {
        let Some((first, count)) = self.of.remove(&id) else { return true };
        if self.begun.0 != first {
            self.of = self.of.split_off(&first);
            self.begun = (first, 0);
        }
        self.begun.1 += 1;
        self.begun.1 == count
    }
}

#[cfg(test)]
mod tests {
    use headend_engine::packet::{Body, Class, Ecn, Endpoint};

    use super::*;

    fn packet(id: u64, len: u32) -> Packet {
        let at = |node| Endpoint { node, port: 0 };
        Packet { id, src: at(1), dst: at(2), len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
    }

    #[test]
    fn a_packet_is_whole_with_its_last_fragment_and_never_if_one_is_lost() {
        let mut pieces = Pieces::default();
        let mut sent: Vec<Packet> = Vec::new();
        for (id, len) in [(0, 1_552), (2, 100), (3, 1_552), (5, 3_500), (8, 1_500)] {
            sent.extend(pieces.divide(packet(id, len), 1_500));
        }
        let lens: Vec<(u64, u32)> = sent.iter().map(|packet| (packet.id, packet.len)).collect();
        let expected =
            [(0, 1_500), (1, 72), (2, 100), (3, 1_500), (4, 72), (5, 1_500), (6, 1_500), (7, 540), (8, 1_500)];
        assert_eq!(lens, expected);
        assert_eq!(pieces.divided, 3);
        let whole: Vec<u64> =
            sent.iter().map(|packet| packet.id).filter(|id| *id != 3 && pieces.completes(*id)).collect();
        assert_eq!(whole, [1, 2, 7, 8], "all but the third, whose first fragment is lost");
        assert!(pieces.of.is_empty(), "nothing is kept: {:?}", pieces.of);
    }
}
