use std::net::Ipv6Addr;

use headend_engine::codec::ipv6::Ipv6Header;
use headend_engine::codec::udp::UdpHeader;
use headend_engine::packet::{Class, Ecn};
use headend_engine::rng::Rng;
use headend_engine::tcp::segment::{Flags, Options, SackBlocks};

use super::tshark::tshark;
use super::*;

const CLIENT: Endpoint = Endpoint { node: 0, port: 1024 };
const SERVER: Endpoint = Endpoint { node: 1, port: 1024 };

fn packet(id: u64, src: Endpoint, dst: Endpoint, segment: Segment) -> Packet {
    let len = 40 + segment.options.wire_len() + segment.len;
    Packet { id, src, dst, len, class: Class::default(), ecn: Ecn::NotEct, body: Body::Tcp(segment) }
}

/// A hand-shake, two segments that arrive in the wrong order, and an end: what a clean capture at the client shows.
fn exchange() -> Vec<Packet> {
    let ack = Flags { ack: true, ..Flags::default() };
    let syn = Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..Options::default() };
    let stamped = Options { timestamps: Some((1, 2)), ..Options::default() };
    let to = |id, segment| packet(id, CLIENT, SERVER, segment);
    let from = |id, segment| packet(id, SERVER, CLIENT, segment);
    let base = Segment { window: 65_535, flags: ack, ..Segment::default() };
    // The server's sequence numbers wrap within the data.
    let isn = u32::MAX - 100;
    let at = |position| isn.wrapping_add(position);
    vec![
        to(1, Segment { seq: 999, flags: Flags { syn: true, ..Flags::default() }, options: syn, ..base }),
        from(1, Segment { seq: isn, ack: 1000, flags: Flags { syn: true, ..ack }, options: syn, ..base }),
        to(2, Segment { seq: 1000, ack: at(1), ..base }),
        to(3, Segment { seq: 1000, ack: at(1), len: 300, flags: Flags { psh: true, ..ack }, options: stamped, ..base }),
        from(2, Segment { seq: at(1), ack: 1300, len: 1460, options: stamped, ..base }),
        to(4, Segment { seq: 1300, ack: at(1461), options: stamped, ..base }),
        from(3, Segment { seq: at(1461), ack: 1300, flags: Flags { fin: true, ..ack }, ..base }),
        to(5, Segment { seq: 1300, ack: at(1462), flags: Flags { fin: true, ..ack }, ..base }),
        from(4, Segment { seq: at(1462), ack: 1301, ..base }),
    ]
}

fn capture(packets: &[Packet], snap_len: u32) -> Vec<u8> {
    let mut capture = Capture::new("client", snap_len);
    for (i, packet) in packets.iter().enumerate() {
        capture.record(Time::from_nanos(1_000_000_007 * i as u64), packet);
    }
    capture.into_bytes()
}

#[test]
fn tshark_finds_no_fault_in_a_clean_exchange() {
    let whole = capture(&exchange(), 65_535);
    // tshark notes even that a connection begins and ends; its complaints are warnings (0x600000), errors, what its
    // analysis of the sequence flags, and sums that it did not find good (1).
    let filter = "_ws.malformed || _ws.expert.severity >= 0x600000 || tcp.analysis.flags || ip.checksum.status != 1 || \
                  tcp.checksum.status != 1";
    let Some(complaints) = tshark(&whole, "clean", &["-Y", filter]) else { return };
    assert_eq!(complaints, "");
}

#[test]
fn tshark_reads_back_times_lengths_and_options_of_truncated_packets() {
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "tcp.len",
        "tcp.options.mss_val",
        "tcp.options.timestamp.tsecr",
    ];
    let mut arguments = vec!["-T", "fields", "-E", "separator=,"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    let Some(read) = tshark(&capture(&exchange(), 80), "fields", &arguments) else { return };
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(lines.len(), exchange().len());
    assert_eq!(lines[0], "0.000000000,52,52,0,1460,");
    assert_eq!(lines[4], "4.000000028,1512,80,1460,,2");
}

/// The values of `fields` that tshark prints for each packet, separated by commas, lists by spaces.
fn fields_of(capture: &[u8], name: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut arguments = vec!["-o", "tcp.relative_sequence_numbers:FALSE", "-T", "fields", "-E", "separator=,"];
    arguments.extend(["-E", "aggregator=/s"]);
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    tshark(capture, name, &arguments).map(|read| read.lines().map(str::to_owned).collect())
}

#[test]
fn tshark_reads_any_segment_as_it_was_and_finds_its_sums_right() {
    let mut rng = Rng::named(1, "segments");
    let packets: Vec<Packet> = (0..500).map(|id| packet(id, CLIENT, SERVER, any_segment(&mut rng))).collect();
    let fields = ["tcp.seq_raw", "tcp.ack_raw", "tcp.window_size_value", "tcp.len", "tcp.options.mss_val"];
    let more = ["tcp.options.wscale.shift", "tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr"];
    let last = ["tcp.options.sack_le", "tcp.options.sack_re", "ip.checksum.status", "tcp.checksum.status"];
    let whole = capture(&packets, 65_535);
    let Some(read) = fields_of(&whole, "segments", &[&fields[..], &more, &last].concat()) else { return };
    assert_eq!(read.len(), packets.len());
    for (read, packet) in read.iter().zip(&packets) {
        let Body::Tcp(segment) = packet.body else { unreachable!("all are TCP") };
        assert_eq!(*read, expected_fields(&segment), "{segment:?}");
    }
}

/// Any numbers and flags, and options as far as a header has room.
fn any_segment(rng: &mut Rng) -> Segment {
    let bits = rng.bits();
    let is = |bit: u32| bits >> bit & 1 != 0;
    let mut options = Options {
        mss: is(0).then(|| rng.bits() as u16),
        window_scale: is(1).then(|| rng.bits() as u8 % 15),
        sack_permitted: is(2),
        timestamps: is(3).then(|| (rng.bits() as u32, rng.bits() as u32)),
        ..Options::default()
    };
    while options.wire_len() <= 32 && rng.bits() & 1 == 0 {
        let left = rng.bits() as u32;
        options.sack.push(left, left.wrapping_add(1 + (rng.bits() as u32 >> 8)));
        if options.wire_len() > 40 {
            options.sack = SackBlocks::default();
            break;
        }
    }
    // A reset's payload is text to tshark, and its length none.
    let flags = Flags { syn: is(4), ack: is(5), fin: is(6), rst: false, psh: is(7), ..Flags::default() };
    let ack = if flags.ack { rng.bits() as u32 } else { 0 };
    let (seq, len, window) = (rng.bits() as u32, rng.bits() as u32 % 1_400, rng.bits() as u16);
    Segment { seq, ack, len, window, flags, options }
}

fn expected_fields(segment: &Segment) -> String {
    let Options { mss, window_scale, timestamps, sack, .. } = segment.options;
    let or_empty = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let edges = |edge: fn(&(u32, u32)) -> u32| {
        sack.as_slice().iter().map(|block| edge(block).to_string()).collect::<Vec<_>>().join(" ")
    };
    [
        segment.seq.to_string(),
        segment.ack.to_string(),
        segment.window.to_string(),
        segment.len.to_string(),
        or_empty(mss.map(u32::from)),
        or_empty(window_scale.map(u32::from)),
        or_empty(timestamps.map(|(value, _)| value)),
        or_empty(timestamps.map(|(_, echo)| echo)),
        edges(|block| block.0),
        edges(|block| block.1),
        "1".to_owned(),
        "1".to_owned(),
    ]
    .join(",")
}

#[test]
fn tshark_finds_no_fault_in_datagrams_and_segments_over_either_ip() {
    let payload = b"odd bytes";
    let (src, dst) = (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
    let udp = UdpHeader { src_port: 40_000, dst_port: 40_001, payload_len: payload.len() as u16 };
    let flags = Flags { ack: true, psh: true, ..Flags::default() };
    let segment = Segment { seq: 7, ack: 9, window: 1_000, flags, ..Segment::default() };
    let tcp = TcpHeader { src_port: 40_000, dst_port: 40_001, segment };
    let mut capture = Capture::new("any", 65_535);
    for protocol in [protocol::UDP, protocol::TCP] {
        let header_len = if protocol == protocol::UDP { UdpHeader::LEN } else { tcp.wire_len() };
        let v4 = Ipv4Header::new(address(CLIENT), address(SERVER), protocol, header_len + payload.len());
        let v6 = Ipv6Header { flow_label: 0xabcde, ..Ipv6Header::new(src, dst, protocol, header_len + payload.len()) };
        let mut packets = [vec![0; Ipv4Header::LEN], vec![0; Ipv6Header::LEN]];
        v4.encode(&mut packets[0]).unwrap();
        v6.encode(&mut packets[1]).unwrap();
        for (packet, pseudo) in packets.iter_mut().zip([v4.pseudo_header(), v6.pseudo_header()]) {
            let at = packet.len();
            packet.resize(at + header_len, 0);
            let covered = pseudo.with(payload);
            if protocol == protocol::UDP {
                udp.encode(covered, &mut packet[at..]).unwrap();
            } else {
                tcp.encode(covered, &mut packet[at..]).unwrap();
            }
            packet.extend(payload);
            capture.record_bytes(0, packet);
        }
    }
    let fields = ["udp.checksum.status", "tcp.checksum.status", "ipv6.hlim", "udp.length", "tcp.len"];
    let arguments = [&fields[..], &["_ws.malformed"]].concat();
    let Some(read) = fields_of(&capture.into_bytes(), "either", &arguments) else { return };
    assert_eq!(read, ["1,,,17,,", "1,,64,17,,", ",1,,,9,", ",1,64,,9,"]);
}
