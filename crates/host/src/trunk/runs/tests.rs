use proptest::prelude::*;

use super::super::bundle::Bundle;
use super::super::bundle::tests::packet;
use super::super::layout::put;
use super::*;

/// A packet of a flow, by its sequence number, flags and payload.
fn segment(port: u16, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = packet(false, true, flags, payload);
    put(&mut bytes, 20, usize::from(port));
    bytes[24..28].copy_from_slice(&seq.to_be_bytes());
    bytes
}

/// What the device would be given for these packets.
fn joined(packets: &[(Vec<u8>, bool)]) -> Vec<Vec<u8>> {
    let mut runs = Runs::new(true);
    let mut buffer = Vec::new();
    for (packet, is_open) in packets {
        let begin = buffer.len();
        buffer.extend_from_slice(packet);
        assert!(runs.push(packet, Place { buffer: 0, bytes: begin..buffer.len() }, *is_open));
    }
    let mut out = Vec::new();
    runs.write(|_| &buffer, |slices| out.push(slices.iter().flat_map(|slice| slice.to_vec()).collect()));
    assert!(runs.is_empty());
    out
}

/// The packets that the device makes of that again.
fn cut(written: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let bundle = |bytes: &Vec<u8>| {
        let (header, packet) = bytes.split_first_chunk::<OFFLOAD_HEADER>().unwrap();
        Bundle::read(header, packet.to_vec()).expect("a header that says what is so")
    };
    let packets = |bundle: Bundle| {
        (0..bundle.count()).map(move |number| {
            let mut out = Vec::new();
            bundle.write(number, &mut out);
            out
        })
    };
    written.iter().map(bundle).flat_map(packets).collect()
}

#[test]
fn segments_that_follow_each_other_become_one_also_between_others() {
    let payload = [7; 1_000];
    let mut packets = Vec::new();
    for number in 0..4 {
        for port in [1, 2, 3] {
            packets.push((segment(port, 100 + number * 1_000, 0x10, &payload), true));
        }
    }
    let written = joined(&packets);
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [OFFLOAD_HEADER + 40 + 4_000; 3]);
    assert_eq!(cut(&written).len(), 12);
}

#[test]
fn what_ends_a_burst_or_says_something_else_begins_anew() {
    let count =
        |packets: &[Vec<u8>]| joined(&packets.iter().map(|packet| (packet.clone(), true)).collect::<Vec<_>>()).len();
    let full = |seq, flags| segment(1, seq, flags, &[1; 1_000]);
    assert_eq!(count(&[full(0, 0x10), full(1_000, 0x18), full(2_000, 0x10)]), 2, "PSH ends one");
    assert_eq!(count(&[full(0, 0x10), segment(1, 1_000, 0x10, &[1; 10]), full(1_010, 0x10)]), 2, "a short one ends it");
    assert_eq!(count(&[full(0, 0x10), full(2_000, 0x10)]), 2, "a gap");
    assert_eq!(count(&[full(0, 0x10), full(1_000, 0x11)]), 2, "FIN");
    assert_eq!(count(&[full(0, 0x10), full(1_000, 0x90)]), 2, "CWR is of the first");
    assert_eq!(
        count(&[full(0, 0x10), segment(1, 1_000, 0x10, b""), full(1_000, 0x10)]),
        3,
        "an acknowledgement between"
    );
    let mut marked = full(1_000, 0x10);
    marked[1] = 3;
    assert_eq!(count(&[full(0, 0x10), marked]), 2, "another ECN mark");
}

#[test]
fn a_packet_with_an_open_checksum_that_is_no_tcp_or_udp_is_refused() {
    let mut runs = Runs::new(true);
    let icmp = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
    assert!(!runs.push(&icmp, Place { buffer: 0, bytes: 0..20 }, true));
    assert!(runs.push(&icmp, Place { buffer: 0, bytes: 0..20 }, false));
}

proptest! {
    #[test]
    fn every_packet_comes_out_once_as_it_was_and_in_the_order_of_its_flow(
        steps in prop::collection::vec((0..4_u16, 0..5_usize, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let mut next = [0_u32; 4];
        let mut packets = Vec::new();
        for (port, len, push, gap) in steps {
            let len = [0, 1, 500, 1_000, 1_000][len];
            let seq = &mut next[usize::from(port)];
            *seq = seq.wrapping_add(if gap && len == 1 { 7 } else { 0 });
            packets.push((segment(port, *seq, if push { 0x18 } else { 0x10 }, &vec![port as u8; len]), true));
            *seq = seq.wrapping_add(len as u32);
        }
        let came = cut(&joined(&packets));
        let of = |port: u16, all: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let mut all: Vec<Vec<u8>> = all.iter().filter(|packet| packet[20..22] == port.to_be_bytes()).cloned().collect();
            // Numbers of IPv4 mean nothing here, and so neither does that header's checksum.
            all.iter_mut().for_each(|packet| { put(packet, 4, 0); put(packet, 10, 0); put(packet, 36, 0); });
            all
        };
        let sent: Vec<Vec<u8>> = packets.into_iter().map(|(packet, _)| packet).collect();
        for port in 0..4 {
            prop_assert_eq!(of(port, &came), of(port, &sent));
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..80), any::<bool>()), 0..20)) {
        let mut runs = Runs::new(true);
        let mut buffer = Vec::new();
        for (mut packet, is_open) in packets {
            if packet.len() > 10 {
                packet[0] = if packet[0] & 1 == 0 { 0x45 } else { 0x60 };
                packet[9] = if packet[9] & 1 == 0 { 6 } else { 17 };
                packet[6] = if packet[0] == 0x60 { packet[9] } else { 0x40 };
                let len = packet.len();
                let (at, len) = if packet[0] == 0x45 { (2, len) } else { (4, len.saturating_sub(40)) };
                put(&mut packet, at, len);
            }
            let begin = buffer.len();
            buffer.extend_from_slice(&packet);
            runs.push(&packet, Place { buffer: 0, bytes: begin..buffer.len() }, is_open);
        }
        runs.write(|_| &buffer, |slices| assert!(!slices.is_empty()));
    }
}
