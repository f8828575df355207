//! Frames that their sender left to hardware: a checksum to be completed, a large segment to be cut into packets.
//!
//! Where no hardware comes, as behind a veth, nobody else does it. Linux says what is left to do in a header before each frame
//! (`struct virtio_net_hdr`, uapi/linux/virtio_net.h), as it says it to virtual machines.

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 10;

/// The longest frame that Linux leaves uncut: an IP packet of 64 KiB behind its addresses and type.
pub(super) const FRAME_BYTES_MAX: usize = 65_536 + super::HEADER_BYTES;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
/// A flag beside the type: the segment is of a TCP with ECN (RFC 3168 section 6.1.2, CWR on the first packet alone).
const GSO_ECN: u8 = 0x80;

/// Places of a checksum in its header, which tell the protocol (RFC 9293 section 3.1, RFC 768).
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// Flags of TCP that only the first, or only the last of several packets has.
const CWR: u8 = 0x80;
const FIN_PSH: u8 = 0x01 | 0x08;

/// The work that is left to do on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offload {
    needs_checksum: bool,
    /// The kind of a large segment; 0 for a packet.
    kind: u8,
    /// Payload of each packet of a large segment.
    size: usize,
    /// The place at which the header with the checksum begins, and the place of the checksum in it.
    start: usize,
    offset: usize,
}

impl Offload {
    pub(super) fn read(header: &[u8; HEADER_BYTES]) -> Offload {
        let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        Offload {
            needs_checksum: header[0] & NEEDS_CHECKSUM != 0,
            kind: header[1] & !GSO_ECN,
            size: number(4),
            start: number(6),
            offset: number(8),
        }
    }

    /// True if the frame is a large segment.
    pub(super) fn is_large(&self) -> bool {
        self.kind != 0
    }

    /// Completes the checksum of a packet, if it is left open. Its place holds the sum of the pseudo-header.
    pub(super) fn complete(&self, frame: &mut [u8]) {
        let at = self.start + self.offset;
        if !self.needs_checksum || at + 2 > frame.len() {
            return;
        }
        let checksum = folded(sum(&frame[self.start..]), self.offset == UDP_CHECKSUM);
        frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The packets of a large segment, with their checksums; none if it is of a kind that is not known here.
    pub(super) fn cut(&self, frame: &[u8]) -> Vec<Vec<u8>> {
        let is_tcp = match (self.kind, self.offset) {
            (GSO_TCP_V4 | GSO_TCP_V6, TCP_CHECKSUM) => true,
            (GSO_UDP, UDP_CHECKSUM) => false,
            _ => return Vec::new(),
        };
        let ip = super::HEADER_BYTES;
        let header_bytes = match frame.get(self.start + 12) {
            Some(offset) if is_tcp => 4 * usize::from(offset >> 4),
            _ => 8,
        };
        let end = self.start + header_bytes;
        let version = frame.get(ip).map_or(0, |byte| byte >> 4);
        let least = if version == 6 { 40 } else { 20 };
        if self.size == 0 || !matches!(version, 4 | 6) || self.start < ip + least || end > frame.len() {
            return Vec::new();
        }
        let count = (frame.len() - end).div_ceil(self.size);
        let packet = |(index, payload): (usize, &[u8])| {
            let mut packet = [&frame[..end], payload].concat();
            let len = packet.len();
            if version == 4 {
                let id = u16::from_be_bytes([packet[ip + 4], packet[ip + 5]]).wrapping_add(index as u16);
                put(&mut packet, ip + 2, len - ip);
                put(&mut packet, ip + 4, usize::from(id));
                put(&mut packet, ip + 10, 0);
                // RFC 791: of the header alone.
                let checksum = folded(sum(&packet[ip..self.start]), false);
                put(&mut packet, ip + 10, usize::from(checksum));
            } else {
                put(&mut packet, ip + 4, len - ip - 40);
            }
            let transport = self.start;
            if is_tcp {
                let at = transport + 4;
                let sequence = u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
                let sequence = sequence.wrapping_add((index * self.size) as u32);
                packet[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
                packet[transport + 13] &= if index > 0 { !CWR } else { !0 };
                packet[transport + 13] &= if index + 1 < count { !FIN_PSH } else { !0 };
            } else {
                put(&mut packet, transport + 4, len - transport);
            }
            put(&mut packet, transport + self.offset, 0);
            // The addresses are the last of an IPv4 header without options, and of an IPv6 one.
            let addresses = if version == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
            let protocol = if is_tcp { 6 } else { 17 };
            let pseudo = sum(&packet[addresses]) + protocol + (len - transport) as u64;
            let checksum = folded(pseudo + sum(&packet[transport..]), !is_tcp);
            put(&mut packet, transport + self.offset, usize::from(checksum));
            packet
        };
        frame[end..].chunks(self.size).enumerate().map(packet).collect()
    }
}

/// Writes a number of 16 bits.
fn put(packet: &mut [u8], at: usize, number: usize) {
    packet[at..at + 2].copy_from_slice(&(number as u16).to_be_bytes());
}

/// The sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)));
    words.sum()
}

/// The checksum of a sum: its complement; of UDP never 0, which would mean that there is none (RFC 768).
fn folded(mut sum: u64, is_udp: bool) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !(sum as u16);
    if is_udp && checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of IPv4 or IPv6 with a TCP segment whose checksum is left open.
    fn frame(is_v4: bool, flags: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![0; super::super::HEADER_BYTES];
        let segment = 20 + payload.len();
        if is_v4 {
            frame.extend([0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        } else {
            frame.extend([0x60, 0, 0, 0, 0, 0, 6, 64]);
            frame.extend([0x20; 32]);
        }
        let start = frame.len();
        frame.extend([0, 80, 1, 2, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend_from_slice(payload);
        let addresses = if is_v4 { 26..34 } else { 22..54 };
        let pseudo = !folded(sum(&frame[addresses]) + 6 + segment as u64, false);
        put(&mut frame, start + TCP_CHECKSUM, usize::from(pseudo));
        (frame, start)
    }

    /// True if the checksum of the TCP segment is right for these addresses and this length.
    fn is_right(packet: &[u8], start: usize) -> bool {
        let addresses = if packet[14] >> 4 == 4 { 26..34 } else { 22..54 };
        let pseudo = sum(&packet[addresses]) + 6 + (packet.len() - start) as u64;
        folded(pseudo + sum(&packet[start..]), false) == 0
    }

    fn offload(start: usize, kind: u8, size: usize) -> Offload {
        let [start, size] = [start, size].map(|number| (number as u16).to_ne_bytes());
        let offset = (TCP_CHECKSUM as u16).to_ne_bytes();
        let header = [1, kind, 0, 0, size[0], size[1], start[0], start[1], offset[0], offset[1]];
        Offload::read(&header)
    }

    #[test]
    fn an_open_checksum_is_completed() {
        for (is_v4, payload) in [(true, &b"abc"[..]), (false, b"abcd"), (true, b"")] {
            let (mut frame, start) = frame(is_v4, 0x18, payload);
            assert!(!is_right(&frame, start));
            offload(start, 0, 0).complete(&mut frame);
            assert!(is_right(&frame, start), "{payload:?}");
        }
    }

    #[test]
    fn a_large_segment_is_cut_into_packets_that_say_the_same() {
        let payload: Vec<u8> = (0..2_500_u32).map(|n| n as u8).collect();
        for (is_v4, kind) in [(true, GSO_TCP_V4), (false, GSO_TCP_V6 | GSO_ECN)] {
            let (frame, start) = frame(is_v4, CWR | 0x10 | FIN_PSH, &payload);
            let packets = offload(start, kind, 1_000).cut(&frame);
            let data: Vec<u8> = packets.iter().flat_map(|packet| packet[start + 20..].to_vec()).collect();
            assert_eq!((packets.len(), data), (3, payload.clone()));
            let flags: Vec<u8> = packets.iter().map(|packet| packet[start + 13]).collect();
            assert_eq!(flags, [CWR | 0x10, 0x10, 0x10 | FIN_PSH]);
            let sequences: Vec<[u8; 4]> =
                packets.iter().map(|packet| packet[start + 4..start + 8].try_into().unwrap()).collect();
            assert_eq!(sequences, [0xffff_fff0_u32, 0x3d8, 0x7c0].map(u32::to_be_bytes));
            for packet in &packets {
                assert!(is_right(packet, start));
                if is_v4 {
                    assert_eq!(usize::from(u16::from_be_bytes([packet[16], packet[17]])), packet.len() - 14);
                    assert_eq!(folded(sum(&packet[14..34]), false), 0, "the header's own checksum");
                } else {
                    assert_eq!(usize::from(u16::from_be_bytes([packet[18], packet[19]])), packet.len() - 54);
                }
            }
        }
    }

    #[test]
    fn a_header_that_points_outside_of_its_frame_does_no_harm() {
        let (frame, start) = frame(true, 0, b"x");
        for start in [0, start, frame.len() - 1, 60_000] {
            offload(start, 0, 0).complete(&mut frame.clone());
            for size in [0, 1, 60_000] {
                assert!(offload(start, GSO_TCP_V4, size).cut(&frame).len() <= frame.len());
            }
            assert!(offload(start, 3, 10).cut(&frame).is_empty(), "of a kind that is not known");
        }
    }
}
