//! Packets as a TUN device with offloads gives them: whole, or several segments of one flow that are cut when they leave.

use super::layout::{HEADERS_MAX, Layout, TCP_FLAGS, TCP_SEQ, put, u16_at, u32_at};
use crate::offload::HEADER_BYTES as OFFLOAD_HEADER;

/// The header's flag of a checksum that is left open, and its kinds of bundles (uapi/linux/virtio_net.h).
pub(super) const NEEDS_CHECKSUM: u8 = 1;
pub(super) const GSO_TCP_V4: u8 = 1;
pub(super) const GSO_TCP_V6: u8 = 4;
pub(super) const GSO_UDP: u8 = 5;
/// A flag beside the kind: a TCP with ECN, of which the first segment alone has CWR.
const GSO_ECN: u8 = 0x80;

/// Flags of TCP that only the first, or only the last of several segments has.
pub(super) const CWR: u8 = 0x80;
const FIN_PSH: u8 = 0x01 | 0x08;

/// A packet, or several segments as one.
#[derive(Debug)]
pub(super) struct Bundle {
    bytes: Vec<u8>,
    /// Where its headers are, if its checksums are left open.
    open: Option<Layout>,
    /// Bytes of payload in each segment; 0 if it is one packet.
    size: usize,
}

impl Bundle {
    /// Takes what the device gave; `None` if that is no packet of IP, or a bundle of a kind that was not asked for.
    pub(super) fn read(header: &[u8; OFFLOAD_HEADER], mut bytes: Vec<u8>) -> Option<Bundle> {
        let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let (kind, size) = (header[1] & !GSO_ECN, number(4));
        if bytes.len() < 20 {
            return None;
        }
        let needs_checksum = header[0] & NEEDS_CHECKSUM != 0;
        let layout = Layout::read(&bytes).filter(|layout| layout.payload <= HEADERS_MAX);
        if kind != 0 {
            let layout = layout?;
            let is_known = match kind {
                GSO_TCP_V4 | GSO_TCP_V6 => layout.is_tcp,
                GSO_UDP => !layout.is_tcp,
                _ => false,
            };
            return (is_known && size > 0).then_some(Bundle { bytes, open: Some(layout), size });
        }
        let open = layout.filter(|layout| needs_checksum && number(6) == layout.transport);
        if needs_checksum && open.is_none() {
            // Behind extension headers: nobody else could complete it later.
            complete(&mut bytes, number(6), number(8))?;
        }
        Some(Bundle { bytes, open, size: 0 })
    }

    /// The packet, or all segments as one.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes again, to be used for another packet.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// True if the checksums of its packets are left open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The number of packets that it is cut into.
    pub(super) fn count(&self) -> usize {
        match self.open {
            Some(layout) if self.size > 0 => (self.bytes.len() - layout.payload).div_ceil(self.size).max(1),
            _ => 1,
        }
    }

    /// The length of its packet with this number.
    pub(super) fn len_of(&self, number: usize) -> usize {
        match self.open {
            Some(layout) if self.size > 0 => {
                let rest = self.bytes.len() - layout.payload - number * self.size;
                layout.payload + rest.min(self.size)
            }
            _ => self.bytes.len(),
        }
    }

    /// Writes its packet with this number behind what is in `out`. A checksum that was left open still is.
    pub(super) fn write(&self, number: usize, out: &mut Vec<u8>) {
        let (Some(layout), true) = (self.open, self.size > 0) else {
            out.extend_from_slice(&self.bytes);
            return;
        };
        let (count, begin) = (self.count(), out.len());
        let from = layout.payload + number * self.size;
        out.extend_from_slice(&self.bytes[..layout.payload]);
        out.extend_from_slice(&self.bytes[from..self.bytes.len().min(from + self.size)]);
        let packet = &mut out[begin..];
        if !layout.is_ipv6 {
            let id = u16_at(packet, 4).expect("an IPv4 header").wrapping_add(number as u16);
            put(packet, 4, usize::from(id));
        }
        if layout.is_tcp {
            let at = layout.transport + TCP_SEQ;
            let seq = u32_at(packet, at).expect("a TCP header").wrapping_add((number * self.size) as u32);
            packet[at..at + 4].copy_from_slice(&seq.to_be_bytes());
            packet[layout.transport + TCP_FLAGS] &= if number > 0 { !CWR } else { !0 };
            packet[layout.transport + TCP_FLAGS] &= if number + 1 < count { !FIN_PSH } else { !0 };
        }
        let len = packet.len();
        layout.set_len(packet, len);
    }
}

/// Completes the checksum at `offset` of the header that begins at `start`.
fn complete(bytes: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let at = start + offset;
    (at + 2 <= bytes.len()).then_some(())?;
    let sum = headend_engine::codec::checksum::Checksum::ZERO.with(&bytes[start..]).finish();
    put(bytes, at, usize::from(if sum == 0 { 0xffff } else { sum }));
    Some(())
}

#[cfg(test)]
pub(super) mod tests {
    use headend_engine::codec::checksum::Checksum;

    use super::*;

    fn header(kind: u8, size: usize, start: usize, offset: usize) -> [u8; OFFLOAD_HEADER] {
        let number = |n: usize| (n as u16).to_ne_bytes();
        let ([s0, s1], [a, b], [c, d]) = (number(size), number(start), number(offset));
        [NEEDS_CHECKSUM, kind, 0, 0, s0, s1, a, b, c, d]
    }

    /// A packet of TCP or UDP with its checksum left open.
    pub(in super::super) fn packet(is_ipv6: bool, is_tcp: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
        let protocol = if is_tcp { 6 } else { 17 };
        let mut bytes = if is_ipv6 {
            let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            bytes.extend([0x20; 32]);
            bytes
        } else {
            vec![0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]
        };
        bytes.extend([0, 80, 1, 2]);
        if is_tcp {
            bytes.extend([0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        } else {
            bytes.extend([0; 4]);
        }
        bytes.extend_from_slice(payload);
        let len = bytes.len();
        put(&mut bytes, if is_ipv6 { 4 } else { 2 }, if is_ipv6 { len - 40 } else { len });
        let layout = Layout::read(&bytes).unwrap();
        layout.set_len(&mut bytes, len);
        bytes
    }

    fn is_right(packet: &[u8]) -> bool {
        let mut packet = packet.to_vec();
        let layout = Layout::read(&packet).expect("the lengths are right");
        layout.complete(&mut packet);
        let at = layout.transport + layout.checksum_offset();
        let found = u16_at(&packet, at);
        put(&mut packet, at, 0);
        let end = if layout.is_ipv6 { 8..40 } else { 12..20 };
        let mut all = packet[end].to_vec();
        all.extend([0, if layout.is_tcp { 6 } else { 17 }]);
        all.extend(((packet.len() - layout.transport) as u16).to_be_bytes());
        all.extend_from_slice(&packet[layout.transport..]);
        found == Some(Checksum::ZERO.with(&all).finish())
    }

    #[test]
    fn a_bundle_is_cut_into_packets_that_say_the_same() {
        let payload: Vec<u8> = (0..2_500_u32).map(|n| n as u8).collect();
        for (is_ipv6, is_tcp, kind) in [
            (false, true, GSO_TCP_V4),
            (true, true, GSO_TCP_V6 | GSO_ECN),
            (false, false, GSO_UDP),
            (true, false, GSO_UDP),
        ] {
            let whole = packet(is_ipv6, is_tcp, CWR | 0x10 | FIN_PSH, &payload);
            let layout = Layout::read(&whole).unwrap();
            let header = header(kind, 1_000, layout.transport, layout.checksum_offset());
            let bundle = Bundle::read(&header, whole).unwrap();
            assert_eq!(bundle.count(), 3);
            let packets: Vec<Vec<u8>> = (0..3)
                .map(|number| {
                    let mut out = vec![7];
                    bundle.write(number, &mut out);
                    assert_eq!(out.len() - 1, bundle.len_of(number));
                    out.split_off(1)
                })
                .collect();
            let data: Vec<u8> = packets.iter().flat_map(|packet| packet[layout.payload..].to_vec()).collect();
            assert_eq!(data, payload);
            assert!(packets.iter().all(|packet| is_right(packet)));
            if is_tcp {
                let at = layout.transport;
                let flags: Vec<u8> = packets.iter().map(|packet| packet[at + TCP_FLAGS]).collect();
                assert_eq!(flags, [CWR | 0x10, 0x10, 0x10 | FIN_PSH]);
                let sequences: Vec<u32> = packets.iter().map(|packet| u32_at(packet, at + TCP_SEQ).unwrap()).collect();
                assert_eq!(sequences, [0xffff_fff0, 0x3d8, 0x7c0]);
            }
        }
    }

    #[test]
    fn a_packet_stays_as_it_is_with_its_checksum_open_or_not() {
        let bytes = packet(false, true, 0x10, b"abc");
        let open = Bundle::read(&header(0, 0, 20, 16), bytes.clone()).unwrap();
        let closed = Bundle::read(&[0; OFFLOAD_HEADER], bytes.clone()).unwrap();
        assert_eq!((open.is_open(), closed.is_open(), open.count()), (true, false, 1));
        let mut out = Vec::new();
        open.write(0, &mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_header_that_says_what_is_not_so_is_refused() {
        let bytes = packet(false, true, 0x10, b"abc");
        for (kind, size, start) in [(3, 10, 20), (GSO_TCP_V4, 0, 20), (GSO_UDP, 10, 20), (0, 0, 60_000)] {
            assert!(Bundle::read(&header(kind, size, start, 16), bytes.clone()).is_none(), "{kind} {size} {start}");
        }
        assert!(Bundle::read(&[0; OFFLOAD_HEADER], vec![0x45; 19]).is_none());
    }
}
