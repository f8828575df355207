//! The sending half without losses, and its first answer to duplicates: RFC 9293 s3.7.4, RFC 5681, RFC 6928, RFC 3042.

use headend_engine::tcp::personality::{EraRules, Personality, Recovery};
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, Wire, ack, ms, plain, syn, syn_ack};

#[test]
fn the_initial_window_is_what_the_personality_says() {
    for segments in [1, 2, 4] {
        let p = Personality { initial_window_segments: Some(segments), ..plain() };
        assert_eq!(Bench::client(&p).write(20_000).len(), segments as usize);
    }
}

#[test]
fn rfc_6928_s_initial_window_is_ten_segments_or_14600_bytes() {
    for (mss, bytes) in [(536, 5_360), (1_000, 10_000), (1_460, 14_600), (4_000, 14_600), (9_000, 18_000)] {
        let p = Personality { mss: Bytes::new(mss), initial_window_segments: None, ..plain() };
        let options = Options { mss: Some(mss as u16), ..Options::default() };
        let bench = Bench::client_of(&p, Segment { options, ..syn_ack().offers(65_535) });
        assert_eq!(bench.cwnd(), bytes, "MSS {mss} B");
        assert_eq!(p.initial_window(), Bytes::new(bytes));
    }
}

#[test]
fn the_ack_of_the_syn_ack_opens_a_bsd_servers_window_by_a_segment() {
    let bsd = Personality { mss: Bytes::new(1_000), ..Personality::bsd_reno_1996() };
    assert!(bsd.era.handshake_ack_opens_window);
    assert_eq!(Bench::server(&bsd).write(8_000).len(), 2);
    assert_eq!(Bench::client(&bsd).write(8_000).len(), 1, "whoever opens actively gets no such ACK");
    let rfc = Personality { era: EraRules::RFC, ..bsd };
    assert_eq!(Bench::server(&rfc).write(8_000).len(), 1);
}

#[test]
fn slow_start_adds_a_segment_for_every_acknowledgement() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(60_000));
    bench.write(90_000);
    assert_eq!(bench.hear(ack(1_001).offers(60_000)).len(), 2);
    assert_eq!(bench.hear(ack(3_001).offers(60_000)).len(), 3, "one for two as well (RFC 5681 s3.1)");
    let mut abc = Bench::client_of(&Personality { abc_limit_segments: Some(2), ..plain() }, syn_ack().offers(60_000));
    abc.write(90_000);
    assert_eq!(abc.hear(ack(2_001).offers(60_000)).len(), 4, "RFC 3465 counts bytes");
}

#[test]
fn a_window_that_the_application_does_not_fill_does_not_grow() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(60_000));
    for n in 0..20 {
        bench.write(1_000);
        bench.hear(ack(1 + (n + 1) * 1_000).offers(60_000));
    }
    assert!(bench.cwnd() <= 5_000, "cwnd is {} B with 1000 B in flight", bench.cwnd());
}

#[test]
fn nagle_holds_a_small_segment_while_anything_is_unacknowledged() {
    let mut bench = Bench::client(&Personality { nagle: true, ..plain() });
    assert_eq!(bench.write(100), ["1:101 ack 1"], "nothing is in flight");
    assert_eq!(bench.write(100), [""; 0]);
    assert_eq!(bench.write(100), [""; 0]);
    assert_eq!(bench.hear(ack(101)), ["101:301 ack 1"], "all that gathered");
    assert_eq!(bench.write(2_050), ["301:1301 ack 1", "1301:2301 ack 1"], "full ones go, the rest waits");
}

#[test]
fn without_nagle_small_segments_leave_at_once() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.write(100), ["1:101 ack 1"]);
    assert_eq!(bench.write(100), ["101:201 ack 1"]);
}

#[test]
fn nagle_does_not_hold_the_end_of_the_stream() {
    let mut bench = Bench::client(&Personality { nagle: true, ..plain() });
    bench.write(100);
    bench.write(50);
    assert_eq!(bench.close(), ["FIN 101:151 ack 1"]);
}

#[test]
fn no_small_segment_leaves_while_more_waits_than_the_buffer_takes() {
    let p = Personality { send_buffer: Bytes::new(2_500), ..plain() };
    let mut bench = Bench::client(&p);
    assert_eq!(bench.tcp.write(Bytes::new(10_000)), Bytes::new(2_500));
    assert_eq!(bench.tcp.space(), Bytes::ZERO);
    assert_eq!(bench.poll(), ["1:1001 ack 1", "1001:2001 ack 1"], "500 B wait for more");
    bench.tcp.receive(bench.now, &ack(2_001));
    assert_eq!(bench.tcp.space(), Bytes::new(2_000));
    bench.tcp.write(Bytes::new(7_500));
    assert_eq!(bench.poll(), ["2001:3001 ack 1", "3001:4001 ack 1"]);
}

#[test]
fn the_first_two_duplicates_send_new_data_under_limited_transmit() {
    for recovery in [Recovery::Reno, Recovery::NewReno] {
        let p = Personality { limited_transmit: true, recovery, ..plain() };
        let mut bench = Bench::client(&p);
        bench.write(20_000);
        let cwnd = bench.cwnd();
        assert_eq!(bench.hear(ack(1)), ["4001:5001 ack 1"], "{recovery:?}");
        assert_eq!(bench.hear(ack(1)), ["5001:6001 ack 1"]);
        assert_eq!(bench.cwnd(), cwnd, "RFC 3042 s2: cwnd is not changed");
        assert_eq!(bench.hear(ack(1))[0], "1:1001 ack 1", "the third is fast retransmit");
    }
}

#[test]
fn limited_transmit_under_sack_needs_a_new_block() {
    let p = Personality { sack: true, limited_transmit: true, recovery: Recovery::Sack, ..plain() };
    let options = Options { mss: Some(1_000), sack_permitted: true, ..Options::default() };
    let mut bench = Bench::client_of(&p, Segment { options, ..syn_ack() });
    bench.write(20_000);
    assert_eq!(bench.hear(ack(1)), [""; 0], "RFC 3042 s2: a sender that knows SACK ignores a bare duplicate");
    assert_eq!(bench.hear(ack(1).sacks(&[(1_001, 2_001)])), ["4001:5001 ack 1"]);
    assert_eq!(bench.hear(ack(1).sacks(&[(1_001, 3_001)])), ["5001:6001 ack 1"]);
}

#[test]
fn without_limited_transmit_duplicates_send_nothing_before_the_third() {
    let mut bench = Bench::client(&plain());
    bench.write(20_000);
    assert_eq!(bench.hear(ack(1)), [""; 0]);
    assert_eq!(bench.hear(ack(1)), [""; 0]);
    assert_eq!(bench.hear(ack(1))[0], "1:1001 ack 1");
}

#[test]
fn the_duplicate_ack_threshold_is_the_personalitys() {
    let mut bench = Bench::client(&Personality { dupack_threshold: 1, ..plain() });
    bench.write(20_000);
    assert_eq!(bench.hear(ack(1))[0], "1:1001 ack 1");
}

#[test]
fn an_acknowledgement_with_data_or_a_new_window_is_no_duplicate() {
    // RFC 5681 s2.
    let mut bench = Bench::client(&plain());
    bench.write(20_000);
    for n in 0..3 {
        bench.hear(crate::bench::data(1 + n * 10, 10));
    }
    for n in 1..4 {
        bench.hear(crate::bench::data(31, 0).offers(8_000 + n * 100));
    }
    assert_eq!(bench.tcp.counters().fast_retransmits, 0);
}

/// A connection that has sent and had acknowledged 40 segments; its window in segments. Its timeout is 1 s.
fn paused(idle_restart: bool) -> (Bench, usize) {
    let p = Personality { idle_restart, ..plain() };
    let mut bench = Bench::client_of(&p, syn_ack().offers(60_000));
    bench.write(40_000);
    for n in 1..=40 {
        bench.hear(ack(1 + n * 1_000).offers(60_000));
    }
    let segments = bench.cwnd() as usize / 1_000;
    assert!(segments > 20, "slow start opened the window to {segments} segments");
    (bench, segments)
}

#[test]
fn a_pause_beyond_the_timeout_closes_the_window_to_the_restart_window() {
    let (mut bench, _) = paused(true);
    bench.now += Duration::from_millis(1_001);
    assert_eq!(bench.write(90_000).len(), 4, "the initial window");
    let (mut bench, segments) = paused(false);
    bench.now += Duration::from_millis(1_001);
    assert_eq!(bench.write(90_000).len(), segments, "unless the personality is of an older day");
}

#[test]
fn a_pause_no_longer_than_the_timeout_keeps_the_window() {
    let (mut bench, segments) = paused(true);
    bench.now += Duration::from_millis(1_000);
    assert_eq!(bench.write(90_000).len(), segments);
}

#[test]
fn the_sequence_number_wraps_in_mid_stream() {
    for personality in [Personality::bsd_reno_1996(), Personality::sack(), Personality::linux()] {
        let mut wire = Wire::dialling(&personality);
        wire.run(ms(1_000));
        let mut written = 0;
        let total = 500_000;
        while wire.ends[0].acknowledged().get() < total {
            written += wire.ends[0].write(Bytes::new(total - written)).get();
            wire.ends[1].read(Bytes::MAX);
            let now = wire.now;
            wire.run(now + Duration::from_millis(10));
            assert!(wire.now < ms(120_000), "stuck at {}", wire.ends[0].acknowledged());
        }
        let numbers: Vec<u32> = wire.sent.iter().filter(|(from, _)| *from == 0).map(|(_, s)| s.seq).collect();
        assert!(numbers.iter().any(|&n| n > 0xffff_0000) && numbers.iter().any(|&n| n < 0xffff), "it did wrap");
        assert_eq!(wire.ends[0].counters().retransmits, 0);
        assert_eq!(wire.ends[1].received(), Bytes::new(total));
    }
}

#[test]
fn a_server_may_be_the_one_that_sends() {
    let mut server = Bench::server_of(&plain(), syn().offers(3_000));
    assert_eq!(server.write(10_000).len(), 3);
}
