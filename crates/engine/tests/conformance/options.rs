//! Options of the SYN and what follows from them: RFC 9293 s3.7.1, RFC 6691, RFC 7323, RFC 2018.

use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, ack, data, fin, ms, plain, rst, syn, syn_ack};

/// A personality with window scaling, timestamps and SACK.
fn modern() -> Personality {
    Personality { window_scaling: true, timestamps: true, sack: true, receive_buffer: Bytes::new(200_000), ..plain() }
}

fn offering(options: Options) -> Segment {
    Segment { options: Options { mss: Some(1_000), ..options }, ..syn() }
}

#[test]
fn segments_are_as_large_as_the_smaller_of_both_mss_options() {
    for (ours, theirs, agreed) in [(1_460, 1_000, 1_000), (536, 1_460, 536), (1_460, 1_460, 1_460)] {
        let p = Personality { mss: Bytes::new(ours), ..plain() };
        let mut bench =
            Bench::client_of(&p, Segment { options: Options { mss: Some(theirs), ..Options::default() }, ..syn_ack() });
        bench.write(5_000);
        assert_eq!(bench.tcp.mss(), Bytes::new(agreed), "{ours} and {theirs}");
    }
}

#[test]
fn a_peer_without_an_mss_option_gets_536_bytes() {
    let mut bench = Bench::client_of(&plain(), Segment { options: Options::default(), ..syn_ack() });
    assert_eq!(bench.write(536), ["1:537 ack 1"]);
    assert_eq!(bench.write(537), ["537:1073 ack 1", "1073:1074 ack 1"]);
}

#[test]
fn every_syn_says_the_mss() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    assert_eq!(client.last.options.mss, Some(1_000));
    let mut server = Bench::listening(&plain());
    server.hear(syn());
    assert_eq!(server.last.options.mss, Some(1_000));
    let mut later = Bench::client(&plain());
    later.write(10);
    assert_eq!(later.last.options, Options::default(), "and nothing but a SYN");
}

#[test]
fn timestamps_come_off_the_payload_and_not_off_the_mss() {
    let both = Options { timestamps: Some((5, 0)), ..Options::default() };
    let mut bench = Bench::server_of(&modern(), offering(both));
    assert_eq!(bench.write(2_000), ["1:989 ack 1", "989:1977 ack 1", "1977:2001 ack 1"]);
    assert_eq!(bench.last.options.wire_len(), 12);
}

#[test]
fn windows_are_scaled_only_if_both_ends_offer_it() {
    let mut scaled = Bench::listening(&modern());
    scaled.hear(offering(Options { window_scale: Some(3), ..Options::default() }));
    assert_eq!(scaled.last.options.window_scale, Some(2), "200000 B need a shift of 2");
    assert_eq!(scaled.last.window, u16::MAX, "the window of a SYN is not scaled");
    scaled.hear(ack(1).offers(500));
    assert_eq!(scaled.write(10_000).len(), 4, "4000 B of 500 << 3");
    scaled.hear(data(1, 1_000));
    assert_eq!(scaled.hear(data(1_001, 1_000)), ["ack 2001 win 49500"], "(200000 - 2000) >> 2");

    let mut refused = Bench::listening(&modern());
    refused.hear(syn());
    assert_eq!(refused.last.options.window_scale, None);
    refused.hear(ack(1).offers(2_000));
    assert_eq!(refused.write(10_000).len(), 2, "2000 B as they stand");

    let mut mute = Bench::listening(&Personality { window_scaling: false, ..modern() });
    mute.hear(offering(Options { window_scale: Some(3), ..Options::default() }));
    assert_eq!(mute.last.options.window_scale, None);
}

#[test]
fn a_shift_beyond_14_is_taken_for_14() {
    let wide = Options { window_scale: Some(15), ..Options::default() };
    let p = Personality { send_buffer: Bytes::new(1_000_000), initial_window_segments: Some(100), ..modern() };
    let mut bench = Bench::listening(&p);
    bench.hear(offering(wide));
    bench.hear(ack(1).offers(1));
    assert_eq!(bench.write(100_000).len(), 16, "1 << 14 is 16384 B: sixteen full segments");
}

#[test]
fn sack_is_used_only_if_both_ends_permit_it() {
    for (ours, theirs) in [(true, true), (true, false), (false, true)] {
        let p = Personality { sack: ours, timestamps: false, ..modern() };
        let mut bench = Bench::listening(&p);
        bench.hear(offering(Options { sack_permitted: theirs, ..Options::default() }));
        assert_eq!(bench.last.options.sack_permitted, ours && theirs, "the SYN-ACK answers what it can use");
        bench.hear(ack(1));
        bench.hear(data(1_001, 500));
        assert_eq!(!bench.last.options.sack.is_empty(), ours && theirs, "we {ours}, they {theirs}");
    }
}

#[test]
fn timestamps_are_used_only_if_both_ends_offer_them() {
    for (ours, theirs) in [(true, Some((5, 0))), (true, None), (false, Some((5, 0)))] {
        let p = Personality { timestamps: ours, ..modern() };
        let mut bench = Bench::server_of(&p, offering(Options { timestamps: theirs, ..Options::default() }));
        bench.write(10);
        assert_eq!(bench.last.options.timestamps.is_some(), ours && theirs.is_some(), "we {ours}, they {theirs:?}");
    }
}

/// A server with timestamps whose peer's clock showed 100 in the segment that opened the connection.
fn stamped_server() -> Bench {
    Bench::server_of(&modern(), offering(Options { timestamps: Some((0, 0)), ..Options::default() }))
}

#[test]
fn every_segment_carries_our_clock_and_echoes_the_peers() {
    let mut bench = stamped_server();
    assert_eq!(bench.write(10).len(), 1);
    assert_eq!(bench.last.options.timestamps, Some((100, 100)), "100 ms, and what the third segment said");
    bench.now = ms(250);
    bench.hear(data(1, 1_000).stamped(240, 100).acks(11));
    bench.hear(data(1_001, 1_000).stamped(245, 100).acks(11));
    assert_eq!(bench.last.options.timestamps, Some((250, 240)), "a delayed ACK echoes the first of its segments");
}

#[test]
fn a_segment_beyond_a_gap_is_not_echoed() {
    // RFC 7323 s4.3 (C): the echo is of the segment that last advanced the window.
    let mut bench = stamped_server();
    bench.hear(data(1_001, 1_000).stamped(200, 0));
    assert_eq!(bench.last.options.timestamps, Some((100, 100)));
    bench.hear(data(1, 1_000).stamped(190, 0));
    assert_eq!(bench.last.options.timestamps, Some((100, 190)), "the segment that fills the gap is");
}

#[test]
fn a_segment_older_than_one_seen_before_is_acknowledged_and_dropped() {
    let mut bench = stamped_server();
    let answer = bench.hear(data(1, 1_000).stamped(99, 0));
    assert_eq!(answer, ["ack 1 win 65535"]);
    assert_eq!(bench.tcp.received(), Bytes::ZERO);
    bench.hear(data(1, 1_000).stamped(100, 0));
    assert_eq!(bench.tcp.received(), Bytes::new(1_000), "an equal one is taken");
}

#[test]
fn a_timestamp_is_compared_with_for_24_days() {
    for (days, taken) in [(23, 0), (25, 1_000)] {
        let mut bench = stamped_server();
        bench.now += Duration::from_secs(days * 24 * 3_600);
        bench.hear(data(1, 1_000).stamped(99, 0));
        assert_eq!(bench.tcp.received(), Bytes::new(taken), "after {days} days");
    }
}

#[test]
fn a_reset_is_taken_whatever_its_timestamp() {
    let mut bench = stamped_server();
    bench.hear(rst(1).stamped(1, 0));
    assert!(bench.tcp.fault().is_some());
}

#[test]
fn timestamps_are_compared_across_their_wrap() {
    let opening = offering(Options { timestamps: Some((u32::MAX - 10, 0)), ..Options::default() });
    let mut bench = Bench::listening(&modern());
    bench.hear(opening);
    bench.hear(ack(1).stamped(u32::MAX - 5, 0));
    bench.hear(data(1, 1_000).stamped(3, 0));
    assert_eq!(bench.tcp.received(), Bytes::new(1_000));
    bench.hear(data(1_001, 1_000).stamped(u32::MAX, 0));
    assert_eq!(bench.tcp.received(), Bytes::new(1_000), "before the wrap is older");
}

#[test]
fn a_fin_is_stamped_and_taken_as_data_is() {
    let mut bench = stamped_server();
    bench.hear(fin(1).stamped(150, 100));
    assert_eq!(bench.last.options.timestamps, Some((100, 150)));
    assert!(bench.tcp.is_peer_closed());
}
