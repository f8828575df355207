//! The headers of a packet of TCP or UDP: where they are, and the fields that change when segments are cut and joined.

use std::net::{Ipv4Addr, Ipv6Addr};

use headend_engine::codec::checksum::Checksum;
use headend_engine::codec::protocol::{TCP, UDP};

/// Places in a header of TCP (RFC 9293 s3.1).
pub(super) const TCP_SEQ: usize = 4;
pub(super) const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
/// Places in a header of UDP (RFC 768).
pub(super) const UDP_LEN: usize = 4;
const UDP_CHECKSUM: usize = 6;
/// The longest headers of IP without extensions and TCP.
pub(super) const HEADERS_MAX: usize = 120;

/// The places of the headers in a packet of TCP or UDP that is no fragment, and has no extension headers if it is IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) is_tcp: bool,
    pub(super) is_ipv6: bool,
    /// The begin of the header of TCP or UDP.
    pub(super) transport: usize,
    /// The begin of what that header is followed by.
    pub(super) payload: usize,
}

impl Layout {
    /// Reads the first bytes of a packet of this length; `None` if it is another kind of packet, or ends too early.
    pub(super) fn read(packet: &[u8]) -> Option<Layout> {
        let (is_ipv6, transport, protocol) = match packet.first()? >> 4 {
            4 if packet.len() >= 20 => {
                let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
                let transport = usize::from(packet[0] & 15) * 4;
                if is_fragment || transport < 20 || usize::from(u16_at(packet, 2)?) != packet.len() {
                    return None;
                }
                (false, transport, packet[9])
            }
            6 if packet.len() >= 40 => {
                if usize::from(u16_at(packet, 4)?) + 40 != packet.len() {
                    return None;
                }
                (true, 40, packet[6])
            }
            _ => return None,
        };
        let is_tcp = match protocol {
            TCP => true,
            UDP => false,
            _ => return None,
        };
        let least = if is_tcp { 20 } else { 8 };
        let header = packet.get(transport..)?.get(..least)?;
        let payload = transport + if is_tcp { usize::from(header[12] >> 4) * 4 } else { least };
        (payload >= transport + least && payload <= packet.len()).then_some(Layout {
            is_tcp,
            is_ipv6,
            transport,
            payload,
        })
    }

    /// The place of the checksum in the header of TCP or UDP.
    pub(super) fn checksum_offset(&self) -> usize {
        if self.is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM }
    }

    /// Writes the lengths of a packet into its headers: `len` bytes in all, of which `head` has the first. The checksum is left
    /// open, as the sum of the pseudo-header.
    pub(super) fn set_len(&self, head: &mut [u8], len: usize) {
        if self.is_ipv6 {
            put(head, 4, len - 40);
        } else {
            put(head, 2, len);
            put(head, 10, 0);
            // RFC 791: of the header alone.
            let checksum = Checksum::ZERO.with(&head[..self.transport]).finish();
            put(head, 10, usize::from(checksum));
        }
        if !self.is_tcp {
            put(head, self.transport + UDP_LEN, len - self.transport);
        }
        let open = !self.pseudo_header(head, len - self.transport).finish();
        put(head, self.transport + self.checksum_offset(), usize::from(open));
    }

    /// Completes the checksum of a packet in which it is left open.
    #[cfg(test)]
    pub(super) fn complete(&self, packet: &mut [u8]) {
        let at = self.transport + self.checksum_offset();
        put(packet, at, 0);
        let sum = self.pseudo_header(packet, packet.len() - self.transport).with(&packet[self.transport..]).finish();
        // RFC 768: of UDP a zero would mean that there is none.
        let sum = if sum == 0 && !self.is_tcp { 0xffff } else { sum };
        put(packet, at, usize::from(sum));
    }

    fn pseudo_header(&self, head: &[u8], len: usize) -> Checksum {
        let protocol = if self.is_tcp { TCP } else { UDP };
        let len = len as u32;
        if self.is_ipv6 {
            let address = |at: usize| Ipv6Addr::from(*head[at..].first_chunk::<16>().expect("an IPv6 header"));
            Checksum::pseudo_v6(address(8), address(24), protocol, len)
        } else {
            let address = |at: usize| Ipv4Addr::from(*head[at..].first_chunk::<4>().expect("an IPv4 header"));
            Checksum::pseudo_v4(address(12), address(16), protocol, len)
        }
    }
}

/// Writes a number of 16 bits.
pub(super) fn put(bytes: &mut [u8], at: usize, number: usize) {
    bytes[at..at + 2].copy_from_slice(&(number as u16).to_be_bytes());
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
