//! Flow control: RFC 9293 s3.8.6, RFC 1122 s4.2.3.3, s4.2.3.4, s4.2.2.17.

use headend_engine::tcp::connection::{Fault, State};
use headend_engine::tcp::personality::{Personality, WindowUpdate};
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, Wire, ack, data, fin, ms, plain, syn, syn_ack};

/// A receiver whose buffer of 8000 B is full.
fn full() -> Bench {
    let mut bench = Bench::client(&plain());
    for start in (1..8_001).step_by(1_000) {
        bench.hear(data(start, 1_000));
    }
    assert_eq!((bench.last.window, bench.tcp.readable()), (0, Bytes::new(8_000)));
    bench
}

#[test]
fn the_window_is_the_free_buffer_and_its_right_edge_never_moves_left() {
    let mut bench = Bench::client(&plain());
    let mut edge = 0;
    for (n, read) in [0, 300, 0, 1_700, 900, 0, 2_500, 0, 0, 100, 1_000, 3_000].into_iter().enumerate() {
        bench.hear(data(1 + n as u64 * 600, 600));
        bench.read(read);
        bench.until(bench.now + headend_engine::time::Duration::from_millis(300));
        let offered = u64::from(bench.last.ack.wrapping_sub(crate::bench::THEIRS)) + u64::from(bench.last.window);
        assert!(offered >= edge, "from {edge} to {offered} at segment {n}");
        edge = offered;
        assert!(u64::from(bench.last.window) + bench.tcp.readable().get() <= 8_000, "no more than there is room for");
    }
    assert!(edge > 9_001, "it moved right: {edge}");
}

#[test]
fn a_window_that_opens_a_little_is_not_announced() {
    let mut bench = full();
    assert_eq!(bench.read(999), [""; 0], "less than a segment");
    assert_eq!(bench.read(1), ["ack 8001 win 1000"]);
}

#[test]
fn a_small_buffer_announces_its_half() {
    let p = Personality { receive_buffer: Bytes::new(1_200), ..plain() };
    let mut bench = Bench::client(&p);
    bench.hear(data(1, 1_000));
    bench.hear(data(1_001, 200));
    bench.until(ms(1_000));
    assert_eq!(bench.last.window, 0);
    assert_eq!(bench.read(599), [""; 0]);
    assert_eq!(bench.read(1), ["ack 1201 win 600"]);
}

#[test]
fn a_reader_that_keeps_up_causes_no_window_updates() {
    let mut bench = Bench::client(&plain());
    let mut sent = 0;
    for n in 0..100 {
        sent += bench.hear(data(1 + n * 1_000, 1_000)).len();
        sent += bench.read(1_000).len();
    }
    assert_eq!(sent, 50, "one for every second segment");
}

/// A receiver that has 4000 B in its buffer of 8000 B, all of them acknowledged.
fn half_full(window_update: WindowUpdate) -> Bench {
    let mut bench = Bench::client(&Personality { window_update, ..plain() });
    for start in (1..4_001).step_by(1_000) {
        bench.hear(data(start, 1_000));
    }
    assert_eq!((bench.last.window, bench.tcp.readable()), (4_000, Bytes::new(4_000)));
    bench
}

#[test]
fn a_4_4bsd_announces_two_segments_and_linux_a_doubled_window() {
    let mut bsd = half_full(WindowUpdate::TwoSegments);
    assert_eq!(bsd.read(1_999), [""; 0], "less than two segments");
    assert_eq!(bsd.read(1), ["ack 4001 win 6000"]);
    assert_eq!(bsd.read(2_000), ["ack 4001 win 8000"]);
    let mut linux = half_full(WindowUpdate::Doubled);
    assert_eq!(linux.read(3_999), [""; 0], "less than twice what is offered");
    assert_eq!(linux.read(1), ["ack 4001 win 8000"]);
}

#[test]
fn a_receiver_of_4_4bsd_announces_half_of_a_small_buffer() {
    let window_update = WindowUpdate::TwoSegments;
    let mut bench = Bench::client(&Personality { window_update, receive_buffer: Bytes::new(3_000), ..plain() });
    bench.hear(data(1, 1_000));
    bench.hear(data(1_001, 1_000));
    assert_eq!(bench.last.window, 1_000);
    assert_eq!(bench.read(1_499), [""; 0], "less than half");
    assert_eq!(bench.read(1), ["ack 2001 win 2500"]);
}

#[test]
fn a_reader_of_4_4bsd_that_keeps_up_causes_no_window_updates() {
    let mut bench = Bench::client(&Personality { window_update: WindowUpdate::TwoSegments, ..plain() });
    let mut sent = 0;
    for n in 0..100 {
        bench.tcp.receive(bench.now, &data(1 + n * 1_000, 1_000));
        sent += bench.read(1_000).len();
    }
    assert_eq!(sent, 50, "one for every second segment, as delayed acknowledgement has it");
}

#[test]
fn nothing_but_acknowledgements_is_taken_by_a_closed_window() {
    let mut bench = full();
    assert_eq!(bench.hear(data(8_001, 1)), ["ack 8001 win 0"], "a probe is answered");
    assert_eq!(bench.tcp.received(), Bytes::new(8_000));
    bench.write(1_000);
    bench.hear(data(8_001, 0).acks(1_001));
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(1_000), "an acknowledgement counts");
    bench.hear(fin(8_001).acks(1_001));
    assert_eq!(bench.tcp.state(), State::Established, "a FIN takes room in the window as well");
}

#[test]
fn a_sender_fills_the_window_and_no_more() {
    let p = Personality { initial_window_segments: Some(20), ..plain() };
    let mut bench = Bench::client(&p);
    assert_eq!(bench.write(20_000).len(), 8);
    assert_eq!(bench.hear(ack(2_001).offers(6_000)), [""; 0], "the right edge stood still");
    assert_eq!(bench.hear(ack(2_001).offers(8_000)), ["8001:9001 ack 1", "9001:10001 ack 1"], "it moved");
}

#[test]
fn an_old_segment_does_not_take_the_window_back() {
    // RFC 9293 s3.10.7.4 with SND.WL1 and SND.WL2.
    let p = Personality { initial_window_segments: Some(20), ..plain() };
    let mut bench = Bench::client(&p);
    bench.write(20_000);
    bench.hear(data(1_001, 500).acks(2_001).offers(8_000));
    assert_eq!(bench.hear(data(1, 0).acks(2_001).offers(20_000)), [""; 0], "a segment sent later came earlier");
    assert_eq!(bench.hear(data(1_001, 0).acks(2_001).offers(9_000)).len(), 1, "an equally recent one counts");
}

#[test]
fn a_sliver_of_window_is_not_filled() {
    let p = Personality { initial_window_segments: Some(20), ..plain() };
    let mut bench = Bench::client(&p);
    bench.write(20_000);
    assert_eq!(bench.hear(ack(1_001).offers(7_400)), [""; 0], "400 B: neither a segment nor half the largest window");
    assert_eq!(bench.hear(ack(2_001).offers(7_000)), ["8001:9001 ack 1"]);
}

#[test]
fn half_of_a_window_that_is_smaller_than_a_segment_is_filled() {
    let mut bench = Bench::server_of(&plain(), syn().offers(600));
    assert_eq!(bench.write(2_000), ["1:601 ack 1"]);
    assert_eq!(bench.hear(ack(601).offers(299)), [""; 0]);
    assert_eq!(bench.hear(ack(601).offers(300)), ["601:901 ack 1"]);
}

#[test]
fn a_closed_window_is_probed_ever_more_slowly_while_it_is_answered() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    assert_eq!(bench.hear(ack(4_001).offers(0)), [""; 0]);
    bench.tcp.write(Bytes::new(4_000));
    let mut probes = Vec::new();
    for _ in 0..40 {
        let before = bench.now;
        while bench.tcp.counters().window_probes == probes.len() as u64 {
            let next = bench.now + headend_engine::time::Duration::from_millis(100);
            bench.until(next);
        }
        assert_eq!((bench.last.len, bench.last.seq), (1, crate::bench::OURS.wrapping_add(4_001)), "the next byte");
        probes.push((bench.now - before).as_millis() / 1_000);
        assert_eq!(bench.hear(ack(4_001).offers(0)), [""; 0]);
    }
    assert_eq!(probes[..8], [1, 2, 4, 8, 16, 32, 60, 60], "seconds");
    assert_eq!(probes[39], 60);
    assert_eq!(bench.tcp.state(), State::Established);
}

#[test]
fn a_peer_that_answers_no_probe_is_given_up_after_fifteen() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    bench.hear(ack(4_001).offers(0));
    bench.tcp.write(Bytes::new(4_000));
    let probes = bench.until(ms(10_000_000));
    assert_eq!(probes.len(), 15, "{probes:?}");
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, Some(Fault::TimedOut)));
}

#[test]
fn a_window_that_is_taken_back_is_followed() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(8_000));
    bench.write(8_000);
    assert_eq!(bench.hear(ack(2_001).offers(2_000)), [""; 0], "the edge was 8001 and is 4001 now");
    assert_eq!(bench.hear(ack(4_001).offers(3_000)), ["4001:5001 ack 1", "5001:6001 ack 1", "6001:7001 ack 1"]);
    // Not by an older segment, nor by one that only says less.
    assert_eq!(bench.hear(ack(4_001).offers(1_000)), [""; 0]);
    assert_eq!(bench.hear(ack(7_001).offers(8_000)), ["7001:8001 ack 1"]);
}

#[test]
fn a_peer_that_closes_its_window_and_answers_is_not_given_up() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    for _ in 0..40 {
        bench.until(bench.now + headend_engine::time::Duration::from_secs(70));
        bench.hear(ack(1).offers(0));
    }
    assert!(bench.tcp.counters().timeouts > 20, "{:?}", bench.tcp.counters());
    assert_eq!(bench.tcp.state(), State::Established);
    let left = bench.hear(ack(4_001).offers(4_000));
    assert_eq!((left.len(), bench.tcp.acknowledged()), (0, Bytes::new(4_000)));
}

#[test]
fn a_sliver_that_does_not_grow_is_filled_after_a_second() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    assert_eq!(bench.hear(ack(4_001).offers(300)), [""; 0]);
    bench.tcp.write(Bytes::new(2_000));
    assert_eq!(bench.until(ms(1_090)), [""; 0]);
    assert_eq!(bench.until(ms(1_110)), ["1100ms: 4001:4301 ack 1"], "RFC 9293 s3.8.6.2.1 (4)");
    assert_eq!(bench.hear(ack(4_301).offers(4_000)), ["4301:5301 ack 1", "5301:6001 ack 1"]);
    assert_eq!(bench.tcp.counters().window_probes, 0);
}

#[test]
fn a_sliver_that_was_lost_is_sent_again() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    bench.hear(ack(4_001).offers(300));
    bench.tcp.write(Bytes::new(2_000));
    assert_eq!(bench.until(ms(2_200)), ["1100ms: 4001:4301 ack 1", "2100ms: 4001:4301 ack 1"]);
}

#[test]
fn a_window_that_opens_ends_the_probing() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    bench.hear(ack(4_001).offers(0));
    bench.tcp.write(Bytes::new(4_000));
    bench.until(ms(3_500));
    let sent = bench.hear(ack(4_001).offers(4_000));
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert_eq!(sent[0], "4001:5001 ack 1", "the probed byte again, with what follows");
    bench.hear(ack(8_001).offers(0));
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(8_000));
}

#[test]
fn a_probe_whose_byte_is_taken_moves_the_stream_on() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    bench.hear(ack(4_001).offers(0));
    bench.tcp.write(Bytes::new(3_000));
    bench.until(ms(1_500));
    assert_eq!(bench.tcp.counters().window_probes, 1);
    assert_eq!(bench.hear(ack(4_002).offers(4_000)), ["4002:5002 ack 1", "5002:6002 ack 1", "6002:7001 ack 1"]);
    bench.hear(ack(7_001).offers(4_000));
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(7_000));
}

#[test]
fn a_probe_carries_the_fin_if_nothing_else_is_left() {
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(4_000));
    bench.write(4_000);
    bench.hear(ack(4_001).offers(0));
    bench.tcp.close();
    let sent = bench.until(ms(1_500));
    assert!(sent.iter().any(|said| said.ends_with("FIN 4001 ack 1")), "{sent:?}");
    bench.hear(ack(4_002).offers(0));
    assert_eq!(bench.tcp.state(), State::FinWait2);
    assert_eq!(bench.until(ms(200_000)), [""; 0], "all is acknowledged: no probe is due any more");
}

#[test]
fn a_slow_reader_gets_every_byte_and_no_sliver_is_sent_to_it() {
    let mut wire = Wire::dialling(&plain());
    wire.run(ms(1_000));
    let (mut written, mut read) = (0, 0);
    for step in 0..600 {
        wire.run(ms(1_000 + step * 100));
        written += wire.ends[0].write(Bytes::new(50_000 - written)).get();
        read += wire.ends[1].read(Bytes::new(130)).get();
    }
    wire.run(ms(61_100));
    read += wire.ends[1].read(Bytes::MAX).get();
    assert!(read > 70 * 600, "the reader set the pace: {read}");
    while read < 50_000 {
        let now = wire.now;
        wire.run(now + headend_engine::time::Duration::from_millis(100));
        read += wire.ends[1].read(Bytes::MAX).get();
        assert!(wire.now < ms(600_000), "{read} of 50000 B were read");
    }
    let small = wire.sent.iter().filter(|(from, segment)| *from == 0 && (2..1_000).contains(&segment.len)).count();
    assert_eq!(small, 0, "full segments and probes of a byte");
}

#[test]
fn a_lost_window_update_is_made_up_for_by_a_probe() {
    let mut wire = Wire::dialling(&plain());
    wire.run(ms(1_000));
    wire.ends[0].write(Bytes::new(10_000));
    wire.run(ms(5_000));
    assert_eq!(wire.ends[1].readable(), Bytes::new(8_000));
    wire.loses = |from, segment| from == 1 && segment.window > 0;
    wire.losses_max = 1;
    wire.ends[1].read(Bytes::new(8_000));
    wire.run(ms(90_000));
    assert_eq!(wire.ends[1].received(), Bytes::new(10_000));
    assert!(wire.ends[0].counters().window_probes > 0);
}
