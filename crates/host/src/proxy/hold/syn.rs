//! The ends of a connection, as its first segment tells them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a packet that suffice: the longest header of IPv4, or that of IPv6, and the ports.
pub(super) const COPIED: usize = 128;

/// The two ends of a connection, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
}

impl Ends {
    /// Reads them from the beginning of a packet; `None` if that is no TCP, or not told so simply: then nobody holds it.
    pub(super) fn read(packet: &[u8]) -> Option<Ends> {
        let (source, destination, ports) = match packet.first()? >> 4 {
            4 if *packet.get(9)? == TCP => {
                let header = usize::from(packet[0] & 15) * 4;
                let address = |at| Some(IpAddr::V4(Ipv4Addr::from(*packet.get(at..)?.first_chunk::<4>()?)));
                (address(12)?, address(16)?, packet.get(header..)?)
            }
            6 if *packet.get(6)? == TCP => {
                let address = |at| Some(IpAddr::V6(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?)));
                (address(8)?, address(24)?, packet.get(40..)?)
            }
            _ => return None,
        };
        let port = |at| Some(u16::from_be_bytes(*ports.get(at..)?.first_chunk()?));
        Some(Ends { client: SocketAddr::new(source, port(0)?), server: SocketAddr::new(destination, port(2)?) })
    }
}

const TCP: u8 = 6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_ends_are_read_from_either_version_of_ip() {
        let mut four = vec![0x46; 24];
        four[9] = TCP;
        four[12..20].copy_from_slice(&[10, 0, 0, 7, 192, 0, 2, 1]);
        four.extend([0x1f, 0x90, 0, 80]);
        let ends = Ends::read(&four).unwrap();
        assert_eq!((ends.client.to_string(), ends.server.to_string()), ("10.0.0.7:8080".into(), "192.0.2.1:80".into()));
        let mut six = vec![0x60; 40];
        six[6] = TCP;
        six[8..24].copy_from_slice(&"fd00::7".parse::<Ipv6Addr>().unwrap().octets());
        six[24..40].copy_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        six.extend([0x1f, 0x90, 1, 0xbb]);
        let ends = Ends::read(&six).unwrap();
        assert_eq!(
            (ends.client.to_string(), ends.server.to_string()),
            ("[fd00::7]:8080".into(), "[2001:db8::1]:443".into())
        );
        six[6] = 0;
        assert_eq!(Ends::read(&six), None, "behind other headers");
    }

    proptest! {
        #[test]
        fn any_bytes_are_ends_or_none(bytes in prop::collection::vec(any::<u8>(), 0..COPIED)) {
            Ends::read(&bytes);
        }
    }
}
