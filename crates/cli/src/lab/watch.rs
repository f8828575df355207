//! A watch on the packets between the hosts and the network: it tells what no socket tells.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use headend_engine::codec::ipv4::Ipv4Header;
use headend_engine::codec::protocol;
use headend_engine::codec::tcp::TcpHeader;
use headend_engine::node::Port;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;
use headend_engine::units::Bytes;
use headend_host::reactor::Tap;
use headend_sim::histogram::Histogram;

use super::between::Between;

/// Sees every packet of a run's flows, from the reactor's thread.
#[derive(Debug)]
pub(super) struct Eyes {
    /// The flows' listening ports: this and as many as there are flows.
    pub(super) first_port: u16,
    pub(super) watched: Arc<Mutex<Vec<Watched>>>,
    /// The listening ports of flows of datagrams: this and as many as there are such flows.
    pub(super) first_stream: u16,
    pub(super) beside: Arc<Mutex<Beside>>,
    /// By port of the network, true where a circuit begins or ends: what passes there is on its way.
    pub(super) are_edges: Vec<bool>,
    /// True if there are flows of programs or through sockets, which take what is left.
    pub(super) has_others: bool,
}

/// Counts of packets that belong to no connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The arrivals of each flow of datagrams.
    pub(super) streams: Vec<Arrivals>,
    /// The bytes of each circuit.
    pub(super) crossings: Vec<Crossing>,
    /// The packets of each flow through sockets, and then of each flow of programs.
    pub(super) programs: Vec<Between>,
}

/// The packets of a flow that have reached its receiver's host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrivals {
    pub(super) packets: u64,
    /// Headers included.
    pub(super) bytes: u64,
}

/// The bytes that leave the two ends of a circuit for each other.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    /// The ports of the network at which the sending end is, and the receiving one.
    pub(super) ports: [Port; 2],
    /// The addresses of the two.
    pub(super) ends: [Ipv4Addr; 2],
    /// The hosts whose packets it carries.
    pub(super) hosts: BTreeSet<Ipv4Addr>,
    /// Bytes from the sending end, users' packets included, and those back.
    pub(super) sent: u64,
    pub(super) answered: u64,
}

impl Crossing {
    /// A packet enters the network at a circuit's end.
    fn packet(&mut self, port: Port, to: Ipv4Addr, len: u64) {
        if port == self.ports[0] && (to == self.ends[1] || self.hosts.contains(&to)) {
            self.sent += len;
        }
        if port == self.ports[1] && to == self.ends[0] {
            self.answered += len;
        }
    }
}

impl Eyes {
    /// A packet enters the network at a circuit's end, or a datagram leaves it. True if it is of a flow of datagrams.
    fn beside(&self, port: Port, is_edge: bool, inward: bool, bytes: &[u8]) -> bool {
        if is_edge != inward {
            return false;
        }
        let Ok((ip, inside)) = Ipv4Header::decode(bytes) else { return false };
        let mut beside = self.beside.lock().expect("nobody panics while it watches");
        if is_edge {
            beside.crossings.iter_mut().for_each(|crossing| crossing.packet(port, ip.dst, bytes.len() as u64));
            return false;
        }
        let to = inside.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
        let index = to.and_then(|to| to.checked_sub(self.first_stream)).filter(|_| ip.protocol == protocol::UDP);
        let Some(arrivals) = index.and_then(|index| beside.streams.get_mut(usize::from(index))) else { return false };
        arrivals.packets += 1;
        arrivals.bytes += bytes.len() as u64;
        true
    }

    /// A packet of a flow's connection enters or leaves the network at a host; false if it is of none.
    fn connection(&self, time: Time, inward: bool, bytes: &[u8]) -> bool {
        let Some(header) = tcp_header(bytes) else { return false };
        let mut watched = self.watched.lock().expect("nobody panics while it watches");
        let index = |port: u16| port.checked_sub(self.first_port).map(usize::from);
        let is_known = |index: &usize| *index < watched.len();
        let (source, destination) = (header.src_port, header.dst_port);
        let (flow, client, to_listener) = match (index(destination).filter(is_known), index(source).filter(is_known)) {
            (Some(flow), _) => (flow, source, true),
            (None, Some(flow)) => (flow, destination, false),
            (None, None) => return false,
        };
        let flow = &mut watched[flow];
        let place = match (to_listener != flow.sender_listens, inward) {
            (true, true) => Where::Leaving,
            (true, false) => Where::Arriving,
            (false, false) => Where::Answer,
            (false, true) => return true,
        };
        let seen = flow.connections.entry(client).or_insert_with(|| Seen::new(flow.enough));
        seen.packet(time, place, &header.segment, bytes.len());
        true
    }
}

/// A flow instance to be watched. A real program may open several connections: the one with the most data is the flow.
#[derive(Debug)]
pub(super) struct Watched {
    /// True if the data's sender is the end that listens.
    pub(super) sender_listens: bool,
    /// Data beyond this are none of the flow's: programs send more than they are asked to.
    enough: Bytes,
    /// The connections by the connecting end's port.
    connections: BTreeMap<u16, Seen>,
}

impl Watched {
    pub(super) fn new(sender_listens: bool, enough: Bytes) -> Watched {
        Watched { sender_listens, enough, connections: BTreeMap::new() }
    }

    /// Bytes that have reached the receiver's host, headers and repetitions included, of all its connections.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.connections.values().map(|seen| seen.wire_bytes).sum()
    }

    /// Bytes of the flow's data that have reached the receiver's host, in order.
    pub(super) fn arrived(&self) -> Bytes {
        self.connections.values().map(Seen::arrived).max().unwrap_or(Bytes::ZERO)
    }

    /// The packets that were seen of the flow's data.
    pub(super) fn into_seen(self) -> Seen {
        self.connections.into_values().max_by_key(|seen| seen.segments).unwrap_or_default()
    }
}

impl Tap for Eyes {
    fn packet(&mut self, time: Time, port: Port, inward: bool, bytes: &[u8]) {
        let is_edge = self.are_edges.get(usize::from(port.0)).copied().unwrap_or(false);
        let is_stream = self.beside(port, is_edge, inward, bytes);
        if is_edge || is_stream || self.connection(time, inward, bytes) || !self.has_others {
            return;
        }
        let mut beside = self.beside.lock().expect("nobody panics while it watches");
        beside.programs.iter_mut().any(|program| program.packet(time, inward, bytes));
    }
}

/// The packets that were seen of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Round trips, from when the sender's host let a segment go to when the ACK for it came.
    pub(super) rtt: Histogram,
    /// Data segments that left the sender's host.
    pub(super) segments: u64,
    /// SYNs that left the sender's host, each after the first upon a time-out.
    pub(super) syns: u64,
    /// Data segments with data that had left before.
    pub(super) retransmits: u64,
    /// Data segments that reached the receiver's host though all of their bytes had.
    pub(super) spurious: u64,
    /// Bytes that reached the receiver's host, headers and repetitions included.
    pub(super) wire_bytes: u64,
    /// The time at which the first packet of the connection was seen.
    pub(super) opened_at: Option<Time>,
    /// The time at which the last ACK for new data of the flow reached the sender's host.
    pub(super) acked_at: Time,
    /// The time at which data of the flow last reached the receiver's host that it can read at once.
    pub(super) arrived_at: Time,
    enough: u64,
    sent: Sent,
    arrived: Arrived,
}

/// Which of a flow's packets this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// The packet leaves the host of the data's sender.
    Leaving,
    /// The packet comes from the data's sender and reaches the receiver's host.
    Arriving,
    /// The packet comes from the data's receiver and reaches the sender's host.
    Answer,
}

impl Seen {
    /// A connection of a flow of so many bytes.
    fn new(enough: Bytes) -> Seen {
        Seen { enough: enough.get(), ..Seen::default() }
    }

    /// Bytes of data that reached the receiver's host, in order.
    pub(super) fn arrived(&self) -> Bytes {
        Bytes::new(self.arrived.next)
    }

    /// A packet of this flow, `len` bytes long, passed at `now`.
    pub(super) fn packet(&mut self, now: Time, place: Where, segment: &Segment, len: usize) {
        self.opened_at.get_or_insert(now);
        match place {
            Where::Leaving => {
                if segment.flags.syn {
                    self.syns += 1;
                    self.sent.isn = segment.seq;
                    self.sent.near = 0;
                } else if segment.len > 0 {
                    self.segments += 1;
                    self.retransmits += u64::from(self.sent.send(now, segment));
                }
            }
            Where::Arriving => {
                self.wire_bytes += len as u64;
                if segment.flags.syn {
                    self.arrived.isn = segment.seq;
                } else if segment.len > 0 {
                    let before = self.arrived.next;
                    self.spurious += u64::from(!self.arrived.take(segment));
                    if self.arrived.next > before && before < self.enough {
                        self.arrived_at = now;
                    }
                }
            }
            Where::Answer => {
                let before = self.sent.acked;
                if let Some(sent) = self.sent.acknowledge(segment) {
                    self.rtt.record(now - sent);
                }
                if self.sent.acked > before && before < self.enough {
                    self.acked_at = now;
                }
            }
        }
    }
}

/// The data that the sender has in flight. Places in the stream count from its first byte.
#[derive(Clone, Debug, Default)]
struct Sent {
    isn: u32,
    /// A place near which the next sequence number lies.
    near: u64,
    end: u64,
    acked: u64,
    /// The parts by place, without gaps or overlaps.
    flight: VecDeque<Part>,
}

/// A piece of the stream as it was first sent.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    end: u64,
    at: Time,
    /// Sent again, so that an ACK for it tells no round trip (Karn's rule, RFC 6298 s3).
    again: bool,
    /// Selectively acknowledged.
    sacked: bool,
}

impl Sent {
    /// A data segment leaves; true if it has data that had left before.
    fn send(&mut self, now: Time, segment: &Segment) -> bool {
        let start = place(segment.seq, self.isn, self.near);
        let end = start + u64::from(segment.len);
        self.near = self.near.max(end);
        let is_again = start < self.end;
        if is_again {
            let first = self.flight.partition_point(|part| part.end <= start);
            self.flight.iter_mut().skip(first).take_while(|part| part.start < end).for_each(|part| part.again = true);
        }
        if end > self.end {
            let start = start.max(self.end);
            self.flight.push_back(Part { start, end, at: now, again: is_again, sacked: false });
            self.end = end;
        }
        is_again
    }

    /// An ACK comes; returns when the latest was sent of the pieces that it is the first to acknowledge. Karn's rule
    /// goes for the whole ACK, as in the engine: one for a retransmission may acknowledge what had arrived long ago.
    fn acknowledge(&mut self, segment: &Segment) -> Option<Time> {
        if !segment.flags.ack {
            return None;
        }
        let ack = place(segment.ack, self.isn, self.acked);
        let mut latest = None;
        let mut is_ambiguous = false;
        let mut note = |part: &Part| {
            if !part.sacked {
                latest = latest.max(Some(part.at));
                is_ambiguous |= part.again;
            }
        };
        while let Some(part) = self.flight.front()
            && part.end <= ack
        {
            note(part);
            self.flight.pop_front();
        }
        // The FIN takes a place as well, but is no data.
        self.acked = self.acked.max(ack.min(self.end));
        for &(from, to) in segment.options.sack.as_slice() {
            let [from, to] = [from, to].map(|edge| place(edge, self.isn, self.acked));
            let first = self.flight.partition_point(|part| part.start < from);
            for part in self.flight.iter_mut().skip(first).take_while(|part| part.end <= to) {
                note(part);
                part.sacked = true;
            }
        }
        latest.filter(|_| !is_ambiguous)
    }
}

/// The data that has reached the receiver.
#[derive(Clone, Debug, Default)]
struct Arrived {
    isn: u32,
    /// All before this has come.
    next: u64,
    /// Pieces beyond, by start.
    beyond: BTreeMap<u64, u64>,
}

impl Arrived {
    /// A data segment arrives; false if all of it had come before.
    fn take(&mut self, segment: &Segment) -> bool {
        let mut start = place(segment.seq, self.isn, self.next).max(self.next);
        let mut end = place(segment.seq, self.isn, self.next) + u64::from(segment.len);
        if end <= start || self.beyond.range(..=start).next_back().is_some_and(|(_, &to)| to >= end) {
            return false;
        }
        // Joins all that it touches.
        while let Some((&from, &to)) = self.beyond.range(..=end).next_back()
            && to >= start
        {
            (start, end) = (start.min(from), end.max(to));
            self.beyond.remove(&from);
        }
        if start <= self.next {
            self.next = end;
        } else {
            self.beyond.insert(start, end);
        }
        true
    }
}

/// The place in the stream that sequence number `number` means, the first byte after the SYN being 0: the nearest to
/// `near`.
fn place(number: u32, isn: u32, near: u64) -> u64 {
    let near_number = isn.wrapping_add(1).wrapping_add(near as u32);
    near.saturating_add_signed(i64::from(number.wrapping_sub(near_number) as i32))
}

/// The TCP header in an IPv4 packet; `None` if there is none, or not all of the segment.
fn tcp_header(packet: &[u8]) -> Option<TcpHeader> {
    let (ip, inside) = Ipv4Header::decode(packet).ok()?;
    let is_whole = inside.len() == usize::from(ip.payload_len) && ip.fragment_offset == 0;
    let (header, _) = TcpHeader::decode(inside).ok().filter(|_| is_whole && ip.protocol == protocol::TCP)?;
    Some(header)
}

#[cfg(test)]
mod tests {
    use headend_engine::tcp::segment::{EcnFlags, Flags};
    use headend_engine::time::Duration;

    use super::*;

    const ISN: u32 = u32::MAX - 1_000;

    const ACK: Flags = Flags { syn: false, ack: true, fin: false, rst: false, psh: false, ecn: EcnFlags::NONE };

    fn data(start: u32, len: u32) -> Segment {
        Segment { seq: ISN.wrapping_add(1 + start), len, flags: ACK, ..Segment::default() }
    }

    fn answer(ack: u32) -> Segment {
        Segment { seq: 7, ack: ISN.wrapping_add(1 + ack), flags: ACK, ..Segment::default() }
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn connected() -> Seen {
        let mut seen = Seen::new(Bytes::MAX);
        let syn = Segment { seq: ISN, flags: Flags { syn: true, ack: false, ..ACK }, ..Segment::default() };
        seen.packet(ms(0), Where::Leaving, &syn, 60);
        seen.packet(ms(1), Where::Arriving, &syn, 60);
        seen
    }

    #[test]
    fn a_round_trip_lasts_from_the_segment_to_its_acknowledgement() {
        let mut seen = connected();
        seen.packet(ms(10), Where::Leaving, &data(0, 1_000), 1_040);
        seen.packet(ms(12), Where::Leaving, &data(1_000, 1_000), 1_040);
        seen.packet(ms(32), Where::Answer, &answer(2_000), 40);
        assert_eq!(seen.rtt.min(), Some(Duration::from_millis(20)), "of the latest that it acknowledges");
        assert_eq!((seen.segments, seen.retransmits, seen.acked_at), (2, 0, ms(32)));
    }

    #[test]
    fn bytes_beyond_the_flow_s_own_do_not_delay_its_end() {
        let mut seen = Seen { enough: 1_500, ..connected() };
        for part in 0..3 {
            let at = 10 * (1 + u64::from(part));
            seen.packet(ms(at), Where::Leaving, &data(part * 1_000, 1_000), 1_040);
            seen.packet(ms(at + 5), Where::Arriving, &data(part * 1_000, 1_000), 1_040);
            seen.packet(ms(at + 9), Where::Answer, &answer((part + 1) * 1_000), 40);
        }
        assert_eq!((seen.arrived_at, seen.acked_at), (ms(25), ms(29)), "the second segment has the last of 1500 bytes");
        assert_eq!(seen.arrived(), Bytes::new(3_000));
    }

    #[test]
    fn a_segment_sent_again_tells_no_round_trip_and_is_counted() {
        let mut seen = connected();
        seen.packet(ms(10), Where::Leaving, &data(0, 1_000), 1_040);
        seen.packet(ms(210), Where::Leaving, &data(0, 1_000), 1_040);
        seen.packet(ms(220), Where::Answer, &answer(1_000), 40);
        assert_eq!((seen.segments, seen.retransmits, seen.rtt.min()), (2, 1, None));
    }

    #[test]
    fn the_selective_acknowledgement_that_comes_first_tells_the_round_trip() {
        let mut seen = connected();
        for part in 0..3 {
            seen.packet(ms(10), Where::Leaving, &data(part * 1_000, 1_000), 1_040);
        }
        let mut selective = answer(0);
        selective.options.sack.push(ISN.wrapping_add(1_001), ISN.wrapping_add(3_001));
        seen.packet(ms(30), Where::Answer, &selective, 52);
        assert_eq!(seen.rtt.quantile(99), seen.rtt.min(), "one round trip");
        seen.packet(ms(31), Where::Leaving, &data(0, 1_000), 1_040);
        seen.packet(ms(51), Where::Answer, &answer(3_000), 40);
        assert_eq!(seen.rtt.quantile(99).map(Duration::as_millis), Some(20), "and no other");
        assert_eq!((seen.retransmits, seen.acked_at), (1, ms(51)));
    }

    #[test]
    fn only_what_had_arrived_whole_is_spurious_and_numbers_wrap() {
        let mut seen = connected();
        for (start, len) in [(0, 1_000), (2_000, 1_000), (2_000, 1_000), (500, 1_000), (1_000, 1_500), (0, 3_000)] {
            seen.packet(ms(20), Where::Arriving, &data(start, len), 40 + len as usize);
        }
        assert_eq!(seen.spurious, 2, "the second copy of 2000 to 3000, and all of it at the end");
        assert_eq!(seen.wire_bytes, 60 + 6 * 40 + 8_500);
    }

    #[test]
    fn a_packet_that_is_cut_short_or_no_tcp_is_no_segment() {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[9] = 6;
        packet[20 + 12] = 5 << 4;
        assert!(tcp_header(&packet).is_some());
        assert!(tcp_header(&packet[..39]).is_none());
        assert!(tcp_header(&[]).is_none());
        for (at, value) in [(0, 0x65), (0, 0x44), (9, 17), (20 + 12, 15 << 4), (20 + 12, 4 << 4), (7, 1)] {
            let mut other = packet.clone();
            other[at] = value;
            assert!(tcp_header(&other).is_none(), "byte {at} = {value}");
        }
    }
}
