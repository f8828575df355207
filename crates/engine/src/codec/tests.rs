use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::checksum::Checksum;
use super::ip::{self, IpHeader};
use super::ipv4::Ipv4Header;
use super::ipv6::Ipv6Header;
use super::tcp::{OPTIONS_MAX, TcpHeader};
use super::udp::UdpHeader;
use super::*;
use crate::tcp::segment::{EcnFlags, Flags, Options, SackBlocks, Segment};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

#[test]
fn the_checksum_of_rfc_1071s_example_is_right() {
    // RFC 1071 s3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
    assert_eq!(Checksum::ZERO.with(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).finish(), !0xddf2);
}

#[test]
fn packets_that_linux_sent_are_read_as_tshark_reads_them() {
    let mut lines = include_str!("tests/linux.txt").lines().filter(|line| !line.starts_with('#'));
    let mut packets = 0;
    while let (Some(expected), Some(digits)) = (lines.next(), lines.next()) {
        let packet = bytes(digits);
        assert_eq!(describe(&packet).as_deref(), Ok(expected));
        if let Ok((IpHeader::V4(header), _)) = IpHeader::decode(&packet) {
            let mut again = [0; Ipv4Header::LEN];
            assert_eq!(header.encode(&mut again), Ok(again.len()));
            assert_eq!(again, packet[..Ipv4Header::LEN], "{expected}");
        }
        packets += 1;
    }
    assert_eq!(packets, 14, "all of the file");
}

fn bytes(digits: &str) -> Vec<u8> {
    digits.as_bytes().chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// The description of a packet whose checksums are right, in the words of `tests/linux.txt`.
fn describe(packet: &[u8]) -> Result<String, CodecError> {
    let (ip, inside) = IpHeader::decode(packet)?;
    let outer = match ip {
        IpHeader::V4(header) => {
            Ipv4Header::verify(packet)?;
            format!("ipv4 id {} ttl {} payload {}", header.id, header.ttl, header.payload_len)
        }
        IpHeader::V6(Ipv6Header { hop_limit, flow_label, payload_len, .. }) => {
            format!("ipv6 hop limit {hop_limit} flow {flow_label:#x} payload {payload_len}")
        }
    };
    let (src, dst) = (ip.src(), ip.dst());
    if ip.protocol() == protocol::UDP {
        UdpHeader::verify(inside, ip.pseudo_header())?;
        let (UdpHeader { src_port, dst_port, payload_len }, _) = UdpHeader::decode(inside)?;
        return Ok(format!("{outer}; udp {src} {src_port} to {dst} {dst_port} len {payload_len}"));
    }
    TcpHeader::verify(inside, ip.pseudo_header())?;
    let (TcpHeader { src_port, dst_port, segment }, _) = TcpHeader::decode(inside)?;
    let Segment { seq, ack, len, window, flags, options } = segment;
    let Flags { syn, ack: acks, fin, rst, psh, ecn } = flags;
    let (ece, cwr) = (ecn.has(EcnFlags::ECE), ecn.has(EcnFlags::CWR));
    let names = [(syn, "syn"), (acks, "ack"), (fin, "fin"), (rst, "rst"), (psh, "psh"), (ece, "ece"), (cwr, "cwr")];
    let names: Vec<&str> = names.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let names = names.join("+");
    let mut text = format!("{outer}; tcp {src} {src_port} to {dst} {dst_port} {names} seq {seq} ack {ack}");
    text += &format!(" window {window} len {len}");
    text += &options.mss.map(|mss| format!(" mss {mss}")).unwrap_or_default();
    text += &options.window_scale.map(|shift| format!(" scale {shift}")).unwrap_or_default();
    text += if options.sack_permitted { " sack permitted" } else { "" };
    text += &options.timestamps.map(|(value, echo)| format!(" timestamps {value} {echo}")).unwrap_or_default();
    text += if options.sack.is_empty() { "" } else { " sack" };
    options.sack.as_slice().iter().for_each(|(left, right)| text += &format!(" {left}-{right}"));
    Ok(text)
}

#[test]
fn sack_blocks_are_encoded_as_rfc_2018_says() {
    let mut sack = SackBlocks::default();
    sack.push(100, 200);
    sack.push(300, 400);
    let segment = Segment { options: Options { sack, ..Options::default() }, ..Segment::default() };
    let mut out = [0; 60];
    assert_eq!(TcpHeader { src_port: 1, dst_port: 2, segment }.encode(Checksum::ZERO, &mut out), Ok(40));
    assert_eq!(out[20..30], [5, 18, 0, 0, 0, 100, 0, 0, 0, 200]);
    assert_eq!(out[38..40], [1, 1]);
}

#[test]
fn options_that_the_engine_does_not_have_are_skipped() {
    let mut header = vec![0; 20];
    header[12] = 10 << 4;
    // RFC 5482's user timeout, RFC 7413's cookie of four bytes, no-operations, a segment size, an end and what follows.
    header.extend([28, 4, 0, 9, 34, 6, 1, 2, 3, 4, 1, 1, 2, 4, 5, 180, 0, 5, 99, 99]);
    let (read, payload) = TcpHeader::decode(&header).expect("a header");
    assert_eq!(read.segment.options, Options { mss: Some(1_460), ..Options::default() });
    assert_eq!(payload, [0; 0]);
}

#[test]
fn errors_say_what_is_wrong_where_and_what_would_be_right() {
    let text = |error: CodecError| error.to_string();
    let ip = |packet: &[u8]| text(IpHeader::decode(packet).expect_err("no header"));
    assert_eq!(ip(&[]), "IP header: 1 bytes are needed, and there are 0");
    assert_eq!(ip(&[0x10; 40]), "IP header, byte 0: the version is 1, and should be 4 or 6");
    assert_eq!(ip(&[0x45; 19]), "IPv4 header: 20 bytes are needed, and there are 19");
    assert_eq!(ip(&[0x44; 20]), "IPv4 header, byte 0: the header length in words is 4, and should be 5 or more");
    assert_eq!(ip(&[0x4f; 59]), "IPv4 header: 60 bytes are needed, and there are 59");
    let short = [&[0x45, 0, 0, 19][..], &[0; 16]].concat();
    let right = "no less than the header's own length";
    assert_eq!(ip(&short), format!("IPv4 header, byte 2: the total length is 19, and should be {right}"));
    assert_eq!(ip(&[0x60; 39]), "IPv6 header: 40 bytes are needed, and there are 39");

    let udp = |datagram: &[u8]| text(UdpHeader::decode(datagram).expect_err("no header"));
    assert_eq!(udp(&[0; 8]), "UDP header, byte 4: the length is 0, and should be 8 or more");

    let tcp = |words: u8, options: &[u8]| {
        let mut header = vec![0; 20];
        header[12] = words << 4;
        header.extend(options);
        text(TcpHeader::decode(&header).expect_err("no header"))
    };
    assert_eq!(tcp(4, &[]), "TCP header, byte 12: the data offset is 4, and should be 5 or more");
    assert_eq!(tcp(6, &[]), "TCP header: 24 bytes are needed, and there are 20");
    let option = "TCP header, byte 21: the length of an option is";
    assert_eq!(tcp(6, &[99, 0, 0, 0]), format!("{option} 0, and should be 2 or more"));
    assert_eq!(tcp(6, &[2, 3, 0, 0]), format!("{option} 3, and should be 4"));
    assert_eq!(tcp(6, &[8, 10, 0, 0]), format!("{option} 10, and should be within the header"));
    assert!(tcp(6, &[1, 1, 1, 3]).starts_with("TCP header, byte 23: the option without a length"));

    let right = Checksum::pseudo_v4(A, B, protocol::TCP, 20).with(&[0; 20]).finish();
    let wrong = TcpHeader::verify(&[0; 20], Checksum::pseudo_v4(A, B, protocol::TCP, 20)).expect_err("no checksum");
    assert_eq!(text(wrong), format!("TCP header: the checksum is 0x0000, and that of the bytes {right:#06x}"));
}

#[test]
fn a_header_that_does_not_fit_its_place_is_refused() {
    let header = Ipv4Header { payload_len: u16::MAX, ..Ipv4Header::new(A, B, protocol::TCP, 0) };
    assert!(matches!(header.encode(&mut [0; 20]), Err(CodecError::Field { at: 2, value: 65_535, .. })));
    let header = Ipv4Header { fragment_offset: 1 << 13, ..Ipv4Header::new(A, B, protocol::TCP, 0) };
    assert!(matches!(header.encode(&mut [0; 20]), Err(CodecError::Field { at: 6, .. })));
    let header = Ipv6Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, protocol::UDP, 70_000);
    assert_eq!(header.payload_len, u16::MAX);
    let wide = Ipv6Header { flow_label: 1 << 20, ..header };
    assert!(matches!(wide.encode(&mut [0; 40]), Err(CodecError::Field { at: 1, .. })));
    assert_eq!(header.encode(&mut [0; 39]), Err(CodecError::Short { header: HeaderKind::Ipv6, need: 40, have: 39 }));

    let mut options = Options { mss: Some(536), timestamps: Some((1, 2)), ..Options::default() };
    (1..=4).for_each(|n| options.sack.push(10 * n, 10 * n + 5));
    let segment = Segment { options, ..Segment::default() };
    let refused = TcpHeader { src_port: 1, dst_port: 2, segment }.encode(Checksum::ZERO, &mut [0; 80]);
    assert!(matches!(refused, Err(CodecError::Field { at: 20, value: 48, .. })), "{refused:?}");
}

#[test]
fn a_datagram_without_a_checksum_is_not_checked() {
    let pseudo = Checksum::pseudo_v4(A, B, protocol::UDP, 8);
    let header = UdpHeader { src_port: 1, dst_port: 2, payload_len: 0 };
    let mut out = [0; 8];
    header.encode(pseudo, &mut out).expect("room");
    assert_eq!(UdpHeader::verify(&out, pseudo), Ok(()));
    assert_eq!(UdpHeader::verify(&[0, 1, 0, 2, 0, 8, 0, 0], pseudo), Ok(()));
    assert!(UdpHeader::verify(&[0, 1, 0, 2, 0, 8, 0, 1], pseudo).is_err());
}

#[test]
fn what_a_link_has_padded_or_a_capture_cut_is_no_payload() {
    let mut packet = [7; 60];
    Ipv4Header::new(A, B, protocol::UDP, 10).encode(&mut packet).expect("room");
    assert_eq!(Ipv4Header::decode(&packet).map(|(_, payload)| payload.len()), Ok(10), "of 40 that are there");
    assert_eq!(Ipv4Header::decode(&packet[..25]).map(|(ip, payload)| (ip.payload_len, payload.len())), Ok((10, 5)));
}

fn options() -> impl Strategy<Value = Options> {
    let sack = vec((any::<u32>(), 1..u32::MAX), 0..=4);
    let timestamps = option::of(any::<(u32, u32)>());
    (option::of(any::<u16>()), option::of(any::<u8>()), any::<bool>(), timestamps, sack)
        .prop_map(|(mss, window_scale, sack_permitted, timestamps, blocks)| {
            let mut sack = SackBlocks::default();
            blocks.into_iter().for_each(|(left, len)| sack.push(left, left.wrapping_add(len)));
            Options { mss, window_scale, sack_permitted, timestamps, sack }
        })
        .prop_filter("options that fit", |options| options.wire_len() as usize <= OPTIONS_MAX)
}

prop_compose! {
    fn tcp_header()(
        (src_port, dst_port, seq, ack, window) in any::<(u16, u16, u32, u32, u16)>(),
        [syn, acks, fin, rst, psh, ece, cwr] in any::<[bool; 7]>(),
        options in options(),
    ) -> TcpHeader {
        let bit = |is_set, bit| if is_set { bit } else { EcnFlags::NONE };
        let ecn = bit(ece, EcnFlags::ECE).with(bit(cwr, EcnFlags::CWR));
        let flags = Flags { syn, ack: acks, fin, rst, psh, ecn };
        // Without the flag the field means nothing.
        let segment = Segment { seq, ack: if acks { ack } else { 0 }, len: 0, window, flags, options };
        TcpHeader { src_port, dst_port, segment }
    }
}

prop_compose! {
    fn ipv4_header()(
        (traffic_class, id, dont_fragment, more_fragments) in any::<(u8, u16, bool, bool)>(),
        fragment_offset in 0..=0x1fff_u16,
        (ttl, protocol, src, dst) in any::<(u8, u8, u32, u32)>(),
        payload_len in 0..=65_515_u16,
    ) -> Ipv4Header {
        Ipv4Header {
            traffic_class,
            id,
            dont_fragment,
            more_fragments,
            fragment_offset,
            ttl,
            protocol,
            src: src.into(),
            dst: dst.into(),
            payload_len,
        }
    }
}

prop_compose! {
    fn ipv6_header()(
        (traffic_class, payload_len, next_header, hop_limit, src, dst) in any::<(u8, u16, u8, u8, u128, u128)>(),
        flow_label in 0..=0xf_ffff_u32,
    ) -> Ipv6Header {
        Ipv6Header { traffic_class, flow_label, payload_len, next_header, hop_limit, src: src.into(), dst: dst.into() }
    }
}

/// A segment with its payload, as it travels.
fn emit(header: &TcpHeader, pseudo: Checksum, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; header.wire_len() + payload.len()];
    let len = header.encode(pseudo.with(payload), &mut out).expect("there is room");
    assert_eq!(len, header.wire_len());
    out[len..].copy_from_slice(payload);
    out
}

proptest! {
    #[test]
    fn a_tcp_header_is_read_back_as_it_was_written(mut header in tcp_header(), payload in vec(any::<u8>(), 0..100)) {
        let bytes = emit(&header, Checksum::ZERO, &payload);
        header.segment.len = payload.len() as u32;
        prop_assert_eq!(TcpHeader::decode(&bytes), Ok((header, &payload[..])));
    }

    #[test]
    fn ip_headers_are_read_back_as_they_were_written(v4 in ipv4_header(), v6 in ipv6_header()) {
        let mut out = [0xa5; 40];
        prop_assert_eq!(v4.encode(&mut out), Ok(20));
        prop_assert_eq!(Ipv4Header::verify(&out), Ok(()));
        prop_assert_eq!(IpHeader::decode(&out[..20]), Ok((IpHeader::V4(v4), &[][..])));
        prop_assert_eq!(v6.encode(&mut out), Ok(40));
        prop_assert_eq!(IpHeader::decode(&out), Ok((IpHeader::V6(v6), &[][..])));
    }

    #[test]
    fn a_udp_header_is_read_back_as_it_was_written(
        (src_port, dst_port) in any::<(u16, u16)>(),
        payload in vec(any::<u8>(), 0..100),
    ) {
        let header = UdpHeader { src_port, dst_port, payload_len: payload.len() as u16 };
        let pseudo = Checksum::pseudo_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 17, 8 + payload.len() as u32);
        let mut out = [&[0xa5; 8][..], &payload].concat();
        prop_assert_eq!(header.encode(pseudo.with(&payload), &mut out), Ok(8));
        prop_assert!(out[6..8] != [0, 0], "there is a checksum");
        prop_assert_eq!(UdpHeader::verify(&out, pseudo), Ok(()));
        prop_assert_eq!(UdpHeader::decode(&out), Ok((header, &payload[..])));
    }

    #[test]
    fn bytes_that_are_a_header_become_the_same_header_again(bytes in vec(any::<u8>(), 0..80), words in 5..=15_u8) {
        let mut bytes = bytes;
        if let Some(offset) = bytes.get_mut(12) {
            *offset = words << 4;
        }
        if let Ok((header, payload)) = TcpHeader::decode(&bytes) {
            let again = emit(&header, Checksum::ZERO, payload);
            prop_assert_eq!(TcpHeader::decode(&again), Ok((header, payload)));
        }
    }

    #[test]
    fn whatever_bytes_come_they_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), first in any::<u8>()) {
        let mut bytes = bytes;
        for version in [0x45, 0x4f, 0x60, first] {
            if let Some(byte) = bytes.first_mut() {
                *byte = version;
            }
            let _ = IpHeader::decode(&bytes);
            let _ = Ipv4Header::verify(&bytes);
        }
        let _ = UdpHeader::decode(&bytes);
        let _ = TcpHeader::decode(&bytes);
        let _ = TcpHeader::verify(&bytes, Checksum::ZERO);
        let _ = UdpHeader::verify(&bytes, Checksum::ZERO);
    }

    #[test]
    fn a_flipped_bit_is_found_by_the_checksum(
        header in tcp_header(),
        payload in vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let len = header.wire_len() + payload.len();
        let pseudo = Checksum::pseudo_v4(A, B, protocol::TCP, len as u32);
        let mut segment = emit(&header, pseudo, &payload);
        prop_assert_eq!(TcpHeader::verify(&segment, pseudo), Ok(()));
        segment[at.index(len)] ^= 1 << bit;
        let found = TcpHeader::verify(&segment, pseudo);
        prop_assert!(matches!(found, Err(CodecError::Checksum { .. })), "{:?}", found);
    }

    #[test]
    fn a_flipped_bit_in_an_ipv4_header_is_found(header in ipv4_header(), at in 1..20_usize, bit in 0..8_u8) {
        let mut bytes = [0; 20];
        prop_assert_eq!(header.encode(&mut bytes), Ok(20));
        bytes[at] ^= 1 << bit;
        let found = Ipv4Header::verify(&bytes);
        prop_assert!(matches!(found, Err(CodecError::Checksum { .. })), "{:?}", found);
    }

    #[test]
    fn a_sum_is_the_same_wherever_its_bytes_are_split(bytes in vec(any::<u8>(), 0..300), cuts in any::<[prop::sample::Index; 2]>()) {
        let mut cuts = cuts.map(|cut| cut.index(bytes.len() + 1));
        cuts.sort_unstable();
        let [first, second] = cuts;
        let split = Checksum::ZERO.with(&bytes[..first]).with(&bytes[first..second]).with(&bytes[second..]);
        let whole = bytes.chunks(2).map(|two| u64::from(two[0]) << 8 | u64::from(*two.get(1).unwrap_or(&0)));
        // RFC 1071: modulo 2^16 - 1, with zero as all ones unless nothing was added.
        let sum = whole.sum::<u64>();
        let folded = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
        prop_assert_eq!(split.finish(), !(folded as u16));
    }
}

#[test]
fn a_mark_is_set_in_packets_of_both_versions_and_their_checksums_stay_right() {
    let mut packets = 0;
    for digits in include_str!("tests/linux.txt").lines().filter(|line| line.chars().all(|c| c.is_ascii_hexdigit())) {
        let whole = bytes(digits);
        for ecn in 0..4 {
            let mut packet = whole.clone();
            match IpHeader::decode(&whole).expect("a packet") {
                (IpHeader::V4(header), _) => {
                    let header = Ipv4Header { traffic_class: header.traffic_class & !3 | ecn, ..header };
                    header.encode(&mut packet).expect("there is room");
                }
                (IpHeader::V6(header), _) => {
                    let header = Ipv6Header { traffic_class: header.traffic_class & !3 | ecn, ..header };
                    header.encode(&mut packet).expect("there is room");
                }
            }
            let before = ip::traffic_class(&packet).expect("it is a packet of IP");
            assert_eq!(before & 3, ecn);
            ip::mark(&mut packet);
            assert_eq!(ip::traffic_class(&packet), Some(before | 3));
            assert!(describe(&packet).is_ok(), "checksums are right: {:?}", describe(&packet));
            packets += 1;
        }
    }
    assert_eq!(packets, 4 * 14);
    for mut other in [vec![], vec![0x45; 19], vec![0x05; 40]] {
        let before = other.clone();
        ip::mark(&mut other);
        assert_eq!(other, before, "no packet of IP");
    }
}

#[test]
fn ports_tell_flows_apart_and_fragments_have_none() {
    let ip = Ipv4Header::new(A, B, protocol::TCP, 20);
    let mut packet = [0; 40];
    ip.encode(&mut packet).expect("there is room");
    packet[20..24].copy_from_slice(&[0x1f, 0x90, 0, 80]);
    assert_eq!(ip::ports(&packet), Some((8_080, 80)));
    Ipv4Header { fragment_offset: 1, ..ip }.encode(&mut packet).expect("there is room");
    assert_eq!(ip::ports(&packet), None);
    Ipv4Header { protocol: 1, ..ip }.encode(&mut packet).expect("there is room");
    assert_eq!(ip::ports(&packet), None, "no port of ICMP");
}
