//! Which node a packet from outside is for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use headend_engine::codec::ip::{self, IpHeader};
use headend_engine::packet::{Class, Ecn};

/// Addresses and the numbers of the nodes that have them.
pub type Addresses = BTreeMap<IpAddr, u16>;

/// The place at a port of the reactor's node.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The number of the node in whose place the device is: the source of what it sends.
    pub node: u16,
    /// The destination of its packets.
    pub to: Destination,
}

/// The way to find out where the packets of a device go.
#[derive(Clone, Debug)]
pub enum Destination {
    /// All go to this node, whatever their addresses: the device is one end of a path.
    Always(u16),
    /// Each goes to the node that has its destination address. All nodes in it must be within reach; a packet for any
    /// other address is counted as a stray and goes nowhere.
    Of(Arc<Addresses>),
}

impl Attachment {
    /// The number of the node that `packet` is for; `None` if there is none.
    pub(super) fn destination(&self, packet: &[u8]) -> Option<u16> {
        match &self.to {
            Destination::Always(node) => Some(*node),
            Destination::Of(addresses) => addresses.get(&IpHeader::decode(packet).ok()?.0.dst()).copied(),
        }
    }
}

/// The marks of a packet: by its differentiated services code point, and its word on congestion. None if it is no packet of IP.
pub(super) fn marks(packet: &[u8]) -> (Class, Ecn) {
    ip::traffic_class(packet)
        .map_or((Class::Unmarked, Ecn::NotEct), |octet| (Class::of_code_point(octet >> 2), Ecn::of_bits(octet)))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_packet_goes_to_the_node_with_its_address_and_a_stray_nowhere() {
        let v4 = Ipv4Addr::new(10, 0, 2, 1);
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);
        let addresses = Arc::new(Addresses::from([(v4.into(), 2), (v6.into(), 7)]));
        let attachment = Attachment { node: 0, to: Destination::Of(addresses) };
        let mut packet_v4 = vec![0x45; 20];
        packet_v4[16..].copy_from_slice(&v4.octets());
        let mut packet_v6 = vec![0x60; 40];
        packet_v6[24..].copy_from_slice(&v6.octets());
        assert_eq!(attachment.destination(&packet_v4), Some(2));
        assert_eq!(attachment.destination(&packet_v6), Some(7));
        packet_v4[19] = 9;
        for stray in [&packet_v4[..], &packet_v4[..19], &packet_v6[..39], &[0x10; 40], &[]] {
            assert_eq!(attachment.destination(stray), None);
        }
        assert_eq!(Attachment { node: 0, to: Destination::Always(5) }.destination(&[]), Some(5));
    }

    #[test]
    fn both_marks_are_read_of_both_versions() {
        for class in [Class::Header, Class::User, Class::Unmarked] {
            for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
                let octet = class.code_point() << 2 | ecn.bits();
                assert_eq!(marks(&[0x45, octet, 0, 0]), (class, ecn));
                assert_eq!(marks(&[0x60 | octet >> 4, octet << 4, 0, 0]), (class, ecn));
                assert_eq!(marks(&[0x05, octet]), (Class::Unmarked, Ecn::NotEct), "no packet of IP");
            }
        }
        assert_eq!(marks(&[0x45]), (Class::Unmarked, Ecn::NotEct));
        assert_eq!(marks(&[0x45, 46 << 2]).0, Class::Unmarked, "a call");
    }
}
