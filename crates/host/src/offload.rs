//! Packets that their sender left to hardware: a checksum to be completed, a large segment to be cut into packets; and packets
//! joined again on the way out.
//!
//! Where no hardware comes, as behind a veth or a TUN device, nobody else does it. Linux says what is left to do in a header before
//! each packet (`struct virtio_net_hdr`, uapi/linux/virtio_net.h), as it says it to virtual machines, and takes the same.

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 10;

/// The longest packet that Linux leaves uncut, without a frame.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536;

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
/// The flag that every packet of an open connection has.
const ACK: u8 = 0x10;

/// A checksum that is left open: its place holds the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenChecksum {
    /// The place at which the header with the checksum begins.
    start: u16,
    /// The place of the checksum in it.
    offset: u16,
}

impl OpenChecksum {
    /// Completes the checksum. A header that points outside of its packet changes nothing.
    pub fn complete(self, packet: &mut [u8]) {
        let (start, offset) = (usize::from(self.start), usize::from(self.offset));
        let at = start + offset;
        if at + 2 > packet.len() {
            return;
        }
        let checksum = folded(sum(&packet[start..]), offset == UDP_CHECKSUM);
        packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The header of a packet whose checksum is left to whoever takes it.
    pub(crate) fn header(self) -> [u8; HEADER_BYTES] {
        let [start, offset] = [self.start, self.offset].map(u16::to_ne_bytes);
        [NEEDS_CHECKSUM, 0, 0, 0, 0, 0, start[0], start[1], offset[0], offset[1]]
    }
}

/// The work that is left to do on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offload {
    /// The checksum, if it is open. A large segment's always is.
    pub(crate) open: Option<OpenChecksum>,
    /// The kind of a large segment; 0 for a packet.
    kind: u8,
    /// Payload of each packet of a large segment.
    size: usize,
    /// As [`OpenChecksum`] has them.
    start: usize,
    offset: usize,
}

impl Offload {
    pub(crate) fn read(header: &[u8; HEADER_BYTES]) -> Offload {
        let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let (start, offset) = (number(6), number(8));
        Offload {
            open: (header[0] & NEEDS_CHECKSUM != 0).then_some(OpenChecksum { start, offset }),
            kind: header[1] & !GSO_ECN,
            size: number(4).into(),
            start: start.into(),
            offset: offset.into(),
        }
    }

    /// True if the packet is a large segment.
    pub(crate) fn is_large(&self) -> bool {
        self.kind != 0
    }
}

/// A large segment that is being cut into packets.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// The segment, with its frame if it has one.
    bytes: Vec<u8>,
    /// The place of the IP header.
    ip: usize,
    /// The place of TCP's or UDP's header, and where its payload begins.
    start: usize,
    end: usize,
    /// Payload of each packet.
    size: usize,
    is_tcp: bool,
    is_v4: bool,
    /// The number of the next packet, and of packets in all: equal if there are no more.
    next: usize,
    count: usize,
}

impl Segment {
    /// Begins with another segment, in two parts, whose IP header is at `ip`. One of a kind that is not known here has no packets.
    pub(crate) fn begin(&mut self, offload: Offload, parts: [&[u8]; 2], ip: usize) {
        self.bytes.clear();
        self.bytes.extend_from_slice(parts[0]);
        self.bytes.extend_from_slice(parts[1]);
        (self.next, self.count) = (0, 0);
        self.is_tcp = match (offload.kind, offload.offset) {
            (GSO_TCP_V4 | GSO_TCP_V6, TCP_CHECKSUM) => true,
            (GSO_UDP, UDP_CHECKSUM) => false,
            _ => return,
        };
        (self.ip, self.start, self.size) = (ip, offload.start, offload.size);
        let header_bytes = match self.bytes.get(self.start + 12) {
            Some(offset) if self.is_tcp => 4 * usize::from(offset >> 4),
            _ => 8,
        };
        self.end = self.start + header_bytes;
        let version = self.bytes.get(ip).map_or(0, |byte| byte >> 4);
        self.is_v4 = version == 4;
        let least = if self.is_v4 { 20 } else { 40 };
        let is_tcp_whole = !self.is_tcp || header_bytes >= 20;
        let is_sound = is_tcp_whole && self.size > 0 && self.start >= ip + least && self.end <= self.bytes.len();
        if is_sound && matches!(version, 4 | 6) {
            self.count = (self.bytes.len() - self.end).div_ceil(self.size);
        }
    }

    /// True if there are packets left.
    pub(crate) fn has_more(&self) -> bool {
        self.next < self.count
    }

    /// Writes the next packet to `buffer`, as far as it has room, its checksum left open. Returns the packet's length and its
    /// checksum; `None` if there are no more.
    pub(crate) fn cut(&mut self, buffer: &mut [u8]) -> Option<(usize, OpenChecksum)> {
        let index = self.next;
        if index >= self.count {
            return None;
        }
        self.next += 1;
        let payload = &self.bytes[self.end + index * self.size..];
        let payload = &payload[..payload.len().min(self.size)];
        let len = self.end + payload.len();
        let offset = if self.is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
        let open = OpenChecksum { start: self.start as u16, offset: offset as u16 };
        if len > buffer.len() {
            // Longer than any packet may be: whoever reads it sees that from the length.
            return Some((len, open));
        }
        let packet = &mut buffer[..len];
        packet[..self.end].copy_from_slice(&self.bytes[..self.end]);
        packet[self.end..].copy_from_slice(payload);
        let (ip, transport) = (self.ip, self.start);
        if self.is_v4 {
            let id = u16::from_be_bytes([packet[ip + 4], packet[ip + 5]]).wrapping_add(index as u16);
            put(packet, ip + 4, usize::from(id));
        }
        set_length(packet, ip, transport);
        if self.is_tcp {
            let at = transport + 4;
            let sequence = sequence(packet, transport).wrapping_add((index * self.size) as u32);
            packet[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
            packet[transport + 13] &= if index > 0 { !CWR } else { !0 };
            packet[transport + 13] &= if index + 1 < self.count { !FIN_PSH } else { !0 };
        } else {
            put(packet, transport + 4, len - transport);
        }
        put(packet, transport + offset, usize::from(pseudo(packet, ip, transport, self.is_tcp)));
        Some((len, open))
    }
}

/// Packets of a TCP connection or a UDP flow that follow each other, on their way out as one large segment: what costs time is to hand a
/// packet to the kernel, whatever its length. The packets have left at the same time; a network interface would join them as well.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// True if the kernel takes large segments of UDP.
    takes_udp: bool,
    /// The packet or the segment, without a frame.
    bytes: Vec<u8>,
    /// The first packet's checksum.
    open: Option<OpenChecksum>,
    /// The place at which the payload begins; payload of each packet.
    end: usize,
    size: usize,
    count: usize,
    /// The sequence number that the next packet of a TCP must have.
    sequence: u32,
    /// True if nothing may follow what is there.
    is_closed: bool,
}

impl Joined {
    /// Nothing yet. UDP is joined if `takes_udp`.
    pub(crate) fn new(takes_udp: bool) -> Joined {
        Joined { takes_udp, ..Joined::default() }
    }

    /// True if there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The packets that are here.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes a packet; false if it does not continue what is here, which is then to be sent first, or is none to be joined.
    pub(crate) fn take(&mut self, packet: &[u8], open: OpenChecksum) -> bool {
        let start = usize::from(open.start);
        let is_tcp = usize::from(open.offset) == TCP_CHECKSUM;
        let header_bytes = match packet.get(start + 12) {
            Some(offset) if is_tcp => 4 * usize::from(offset >> 4),
            _ => 8,
        };
        let end = start + header_bytes;
        if start < 20 || end >= packet.len() {
            return false;
        }
        // A segment of a connection that is open, neither its first nor urgent.
        let is_joined = match is_tcp {
            true => header_bytes >= 20 && packet[start + 13] & !(CWR | FIN_PSH) == ACK,
            false => self.takes_udp && usize::from(open.offset) == UDP_CHECKSUM,
        };
        if !is_joined {
            return false;
        }
        let payload = packet.len() - end;
        if self.count == 0 {
            self.bytes.clear();
            self.bytes.extend_from_slice(packet);
            (self.open, self.end, self.size, self.count) = (Some(open), end, payload, 1);
        } else {
            let is_next = self.open == Some(open) && self.end == end && self.continues(packet, start, is_tcp);
            if !is_next || payload > self.size || self.bytes.len() + payload >= PACKET_BYTES_MAX {
                return false;
            }
            self.bytes.extend_from_slice(&packet[end..]);
            self.count += 1;
            self.is_closed |= payload < self.size;
        }
        if is_tcp {
            let last = packet[start + 13] & FIN_PSH;
            self.bytes[start + 13] |= last;
            self.is_closed |= last != 0;
            self.sequence = sequence(packet, start).wrapping_add(payload as u32);
        }
        true
    }

    /// True if nothing but what counts up differs between the headers.
    fn continues(&self, packet: &[u8], start: usize, is_tcp: bool) -> bool {
        let (mine, its) = (&self.bytes[..self.end], &packet[..self.end]);
        let is_same = |range: std::ops::Range<usize>| mine[range.clone()] == its[range];
        let number = |packet: &[u8]| u16::from_be_bytes([packet[4], packet[5]]);
        // Of IPv4 its length, its number and its checksum differ; of IPv6 its length. Then come addresses, options and ports.
        let is_ip_same = match mine[0] >> 4 {
            4 => {
                let is_numbered = number(its) == number(mine).wrapping_add(self.count as u16);
                is_same(0..2) && is_same(6..10) && is_same(12..start + 4) && is_numbered
            }
            _ => is_same(0..4) && is_same(6..start + 4),
        };
        let is_tcp_same = || {
            sequence(its, start) == self.sequence
                && is_same(start + 8..start + 13)
                && (mine[start + 13] ^ its[start + 13]) & !FIN_PSH == 0
                && its[start + 13] & CWR == 0
                && is_same(start + 14..start + 16)
                && is_same(start + 18..self.end)
        };
        !self.is_closed && is_ip_same && (!is_tcp || is_tcp_same())
    }

    /// The header before what is here, and what is here; then nothing is.
    pub(crate) fn send(&mut self) -> ([u8; HEADER_BYTES], &[u8]) {
        let open = self.open.take().expect("there is something to send");
        let mut header = open.header();
        if self.count > 1 {
            let (start, offset) = (usize::from(open.start), usize::from(open.offset));
            let is_tcp = offset == TCP_CHECKSUM;
            set_length(&mut self.bytes, 0, start);
            if !is_tcp {
                let len = self.bytes.len() - start;
                put(&mut self.bytes, start + 4, len);
            }
            let pseudo = pseudo(&self.bytes, 0, start, is_tcp);
            put(&mut self.bytes, start + offset, usize::from(pseudo));
            header[1] = match (is_tcp, self.bytes[0] >> 4) {
                (false, _) => GSO_UDP,
                (true, 4) => GSO_TCP_V4,
                (true, _) => GSO_TCP_V6,
            };
            header[2..4].copy_from_slice(&(self.end as u16).to_ne_bytes());
            header[4..6].copy_from_slice(&(self.size as u16).to_ne_bytes());
        }
        (self.count, self.is_closed) = (0, false);
        (header, &self.bytes)
    }
}

/// The sequence number of the TCP segment whose header is at `start`.
fn sequence(packet: &[u8], start: usize) -> u32 {
    u32::from_be_bytes([packet[start + 4], packet[start + 5], packet[start + 6], packet[start + 7]])
}

/// Writes the packet's length to its IP header at `ip`, and of IPv4 the header's checksum.
fn set_length(packet: &mut [u8], ip: usize, transport: usize) {
    let len = packet.len();
    if packet[ip] >> 4 == 4 {
        put(packet, ip + 2, len - ip);
        put(packet, ip + 10, 0);
        // RFC 791: of the header alone.
        let checksum = folded(sum(&packet[ip..transport]), false);
        put(packet, ip + 10, usize::from(checksum));
    } else {
        put(packet, ip + 4, len - ip - 40);
    }
}

/// The sum of the pseudo-header, as it stands in the place of an open checksum.
fn pseudo(packet: &[u8], ip: usize, transport: usize, is_tcp: bool) -> u16 {
    // The addresses are the last of an IPv4 header without options, and of an IPv6 one.
    let addresses = if packet[ip] >> 4 == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
    let protocol = if is_tcp { 6 } else { 17 };
    !folded(sum(&packet[addresses]) + protocol + (packet.len() - transport) as u64, false)
}

/// Writes a number of 16 bits.
fn put(packet: &mut [u8], at: usize, number: usize) {
    packet[at..at + 2].copy_from_slice(&(number as u16).to_be_bytes());
}

/// The sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    // A word of 32 bits is the same modulo 2^16 - 1 as the sum of its halves.
    let words: u64 = words.map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let rest = rest.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)));
    words + rest.sum::<u64>()
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

    /// Bytes of an Ethernet frame before the packet.
    const FRAME: usize = 14;

    /// A frame of IPv4 or IPv6 with a TCP segment whose checksum is left open.
    fn frame(is_v4: bool, flags: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = vec![0; FRAME];
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

    /// All packets of a large segment, checksums completed.
    fn cut(offload: Offload, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut segment = Segment::default();
        let middle = frame.len() / 2;
        segment.begin(offload, [&frame[..middle], &frame[middle..]], FRAME);
        let mut buffer = vec![0; 70_000];
        std::iter::from_fn(|| {
            let (len, open) = segment.cut(&mut buffer)?;
            open.complete(&mut buffer[..len]);
            Some(buffer[..len].to_vec())
        })
        .collect()
    }

    #[test]
    fn an_open_checksum_is_completed() {
        for (is_v4, payload) in [(true, &b"abc"[..]), (false, b"abcd"), (true, b"")] {
            let (mut frame, start) = frame(is_v4, 0x18, payload);
            assert!(!is_right(&frame, start));
            offload(start, 0, 0).open.expect("it is open").complete(&mut frame);
            assert!(is_right(&frame, start), "{payload:?}");
        }
    }

    #[test]
    fn a_large_segment_is_cut_into_packets_that_say_the_same() {
        let payload: Vec<u8> = (0..2_500_u32).map(|n| n as u8).collect();
        for (is_v4, kind) in [(true, GSO_TCP_V4), (false, GSO_TCP_V6 | GSO_ECN)] {
            let (frame, start) = frame(is_v4, CWR | 0x10 | FIN_PSH, &payload);
            let packets = cut(offload(start, kind, 1_000), &frame);
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
            offload(start, 0, 0).open.expect("it is open").complete(&mut frame.clone());
            for size in [0, 1, 60_000] {
                assert!(cut(offload(start, GSO_TCP_V4, size), &frame).len() <= frame.len());
            }
            assert!(cut(offload(start, 3, 10), &frame).is_empty(), "of a kind that is not known");
        }
    }

    /// The packets of a large segment without a frame, checksums open.
    fn packets(is_v4: bool, flags: u8, payload: usize, size: usize) -> (Vec<Vec<u8>>, OpenChecksum) {
        let (frame, start) = frame(is_v4, flags, &vec![7; payload]);
        let kind = if is_v4 { GSO_TCP_V4 } else { GSO_TCP_V6 };
        let mut segment = Segment::default();
        segment.begin(offload(start - FRAME, kind, size), [&frame[FRAME..], &[]], 0);
        let mut buffer = vec![0; 2_000];
        let mut packets = Vec::new();
        while let Some((len, _)) = segment.cut(&mut buffer) {
            packets.push(buffer[..len].to_vec());
        }
        (packets, OpenChecksum { start: (start - FRAME) as u16, offset: TCP_CHECKSUM as u16 })
    }

    #[test]
    fn packets_that_follow_each_other_are_joined_and_cut_again_the_same() {
        for is_v4 in [true, false] {
            let (packets, open) = packets(is_v4, ACK | FIN_PSH, 4_500, 1_000);
            let mut joined = Joined::default();
            assert!(packets.iter().all(|packet| joined.take(packet, open)));
            assert_eq!(joined.count(), 5);
            let (header, bytes) = joined.send();
            let mut segment = Segment::default();
            segment.begin(Offload::read(&header), [bytes, &[]], 0);
            let mut buffer = vec![0; 2_000];
            for packet in &packets {
                let (len, again) = segment.cut(&mut buffer).expect("as many");
                assert_eq!((&buffer[..len], again), (&packet[..], open));
            }
            assert!(!segment.has_more() && joined.is_empty());
        }
    }

    #[test]
    fn datagrams_are_joined_where_the_kernel_takes_them() {
        let (mut frame, start) = frame(true, 0, &[7; 3_500]);
        frame[FRAME + 9] = 17;
        let start = start - FRAME;
        let header = [1, GSO_UDP, 0, 0, 0xe8, 3, start as u8, 0, UDP_CHECKSUM as u8, 0];
        let mut segment = Segment::default();
        segment.begin(Offload::read(&header), [&frame[FRAME..], &[]], 0);
        let mut buffer = vec![0; 2_000];
        let mut packets = Vec::new();
        while let Some((len, open)) = segment.cut(&mut buffer) {
            packets.push((buffer[..len].to_vec(), open));
        }
        assert_eq!(packets.len(), 4);
        let taken = |joined: &mut Joined| packets.iter().filter(|(packet, open)| joined.take(packet, *open)).count();
        assert_eq!(taken(&mut Joined::new(false)), 0);
        let mut joined = Joined::new(true);
        assert_eq!(taken(&mut joined), 4);
        let (header, bytes) = joined.send();
        segment.begin(Offload::read(&header), [bytes, &[]], 0);
        for (packet, _) in &packets {
            let (len, _) = segment.cut(&mut buffer).expect("as many");
            assert_eq!(&buffer[..len], packet);
        }
    }

    #[test]
    fn what_does_not_follow_is_not_joined() {
        let (good, open) = packets(true, ACK, 3_000, 1_000);
        let follows = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut joined = Joined::default();
            assert!(joined.take(&good[0], open));
            let mut second = good[1].clone();
            change(&mut second);
            joined.take(&second, open)
        };
        assert!(follows(&|_| ()));
        // Its number, its TTL, an address, a port, the sequence number, the acknowledgement, a flag, the window.
        for (at, what) in [(5, 1), (8, 1), (15, 1), (21, 1), (27, 1), (31, 1), (33, 0x20), (35, 1)] {
            assert!(!follows(&|packet| packet[at] ^= what), "byte {at}");
        }
        assert!(!follows(&|packet| packet.truncate(40)), "without payload");
        assert!(!follows(&|packet| packet.push(0)), "longer than the first");
        let mut joined = Joined::default();
        assert!(joined.take(&good[0], open) && !joined.take(&good[2], open), "one between is missing");
    }
}
