use headend_engine::packet::Class;
use headend_engine::tcp::segment::{Flags, SackBlocks};

use super::tshark::tshark;
use super::*;

const CLIENT: Endpoint = Endpoint { node: 0, port: 1024 };
const SERVER: Endpoint = Endpoint { node: 1, port: 1024 };

fn packet(id: u64, src: Endpoint, dst: Endpoint, segment: Segment) -> Packet {
    let len = 40 + segment.options.wire_len() + segment.len;
    Packet { id, src, dst, len, class: Class::default(), body: Body::Tcp(segment) }
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

#[test]
fn sack_blocks_are_encoded_as_rfc_2018_says() {
    let mut sack = SackBlocks::default();
    sack.push(100, 200);
    sack.push(300, 400);
    let bytes = options(&Options { sack, ..Options::default() });
    assert_eq!(bytes.len(), Options { sack, ..Options::default() }.wire_len() as usize);
    assert_eq!(bytes[..10], [5, 18, 0, 0, 0, 100, 0, 0, 0, 200]);
    assert_eq!(bytes[18..], [1, 1]);
}

#[test]
fn the_checksum_of_rfc_1071s_example_is_right() {
    // RFC 1071 s3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
    assert_eq!(checksum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
}
