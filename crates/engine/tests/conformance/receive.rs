//! The receiving half: reassembly, delayed and selective acknowledgements. RFC 9293 s3.10.7.4, RFC 1122 s4.2.3.2,
//! RFC 5681 s4.2, RFC 2018 s4, RFC 2883 s4.

use headend_engine::tcp::personality::{DelayedAck, Personality};
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, data, ms, plain, syn_ack};

/// SACK agreed on, and room for eight segments.
fn selective() -> Bench {
    let p = Personality { sack: true, ..plain() };
    let options = Options { mss: Some(1_000), sack_permitted: true, ..Options::default() };
    Bench::client_of(&p, Segment { options, ..syn_ack() })
}

fn acknowledging(change: impl FnOnce(DelayedAck) -> DelayedAck) -> Bench {
    let p = plain();
    Bench::client(&Personality { delayed_ack: change(p.delayed_ack), ..p })
}

#[test]
fn segments_in_any_order_come_out_in_sequence() {
    let mut bench = Bench::client(&plain());
    for start in [4_001, 2_001, 1_001, 3_001] {
        assert_eq!(bench.hear(data(start, 1_000)), ["ack 1 win 8000"]);
        assert_eq!(bench.tcp.readable(), Bytes::ZERO);
    }
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 5001 win 3000"]);
    assert_eq!(bench.tcp.readable(), Bytes::new(5_000));
}

#[test]
fn overlapping_segments_count_once() {
    let mut bench = Bench::client(&plain());
    for (start, len) in [(2_001, 1_000), (1_501, 1_000), (2_501, 1_500), (1, 1_700), (1_000, 4_000)] {
        bench.hear(data(start, len));
    }
    assert_eq!(bench.tcp.received(), Bytes::new(4_999));
}

#[test]
fn a_segment_out_of_order_is_acknowledged_at_once() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(data(1, 1_000)), [""; 0], "in order, so delayed");
    assert_eq!(bench.hear(data(2_001, 1_000)), ["ack 1001 win 7000"]);
    assert_eq!(bench.hear(data(3_001, 1_000)), ["ack 1001 win 7000"], "every one of them");
}

#[test]
fn a_segment_that_fills_a_gap_is_acknowledged_at_once() {
    let mut bench = Bench::client(&plain());
    bench.hear(data(2_001, 1_000));
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 1001 win 7000"], "in part");
    assert_eq!(bench.hear(data(1_001, 1_000)), ["ack 3001 win 5000"], "wholly");
}

#[test]
fn the_receiver_of_1996_delays_the_acknowledgement_of_half_a_gap() {
    let mut bench = acknowledging(|policy| DelayedAck { gap_fill_at_once: false, ..policy });
    bench.hear(data(2_001, 1_000));
    assert_eq!(bench.hear(data(1, 1_000)), [""; 0]);
    assert_eq!(bench.hear(data(1_001, 1_000)), ["ack 3001 win 5000"]);
}

#[test]
fn the_receiver_of_1988_delays_even_what_answers_a_segment_out_of_order() {
    let mut bench = acknowledging(|policy| DelayedAck { out_of_order_at_once: false, ..policy });
    assert_eq!(bench.hear(data(2_001, 1_000)), [""; 0]);
    assert_eq!(bench.until(ms(300)), ["300ms: ack 1 win 8000"]);
}

#[test]
fn every_second_full_segment_is_acknowledged() {
    let mut bench = Bench::client(&plain());
    let answers: Vec<_> = (0..6).map(|n| bench.hear(data(1 + n * 1_000, 1_000)).len()).collect();
    assert_eq!(answers, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn small_segments_are_acknowledged_once_they_add_up_to_two_full_ones() {
    let mut bench = Bench::client(&plain());
    bench.hear(data(1, 1_000));
    bench.hear(data(1_001, 1_000));
    let answers: Vec<_> = (0..4).map(|n| bench.hear(data(2_001 + n * 500, 500)).len()).collect();
    assert_eq!(answers, [0, 0, 0, 1]);
}

#[test]
fn a_receiver_may_acknowledge_every_segment() {
    let mut bench = acknowledging(|policy| DelayedAck { segments: 1, ..policy });
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 1001 win 7000"]);
    assert_eq!(bench.hear(data(1_001, 10)), ["ack 1011 win 6990"]);
}

#[test]
fn a_delayed_acknowledgement_leaves_exactly_when_its_time_is_up() {
    let mut bench = Bench::client(&plain());
    bench.now = ms(130);
    bench.hear(data(1, 1_000));
    assert_eq!(bench.until(ms(1_000)), ["330ms: ack 1001 win 7000"]);
}

#[test]
fn a_heartbeat_ends_the_delay_on_its_next_tick() {
    let mut bench = acknowledging(|policy| DelayedAck { heartbeat: true, ..policy });
    bench.now = ms(130);
    bench.hear(data(1, 1_000));
    assert_eq!(bench.until(ms(1_000)), ["200ms: ack 1001 win 7000"]);
    bench.hear(data(1_001, 1_000));
    assert_eq!(bench.until(ms(2_000)), ["1200ms: ack 2001 win 6000"], "on a tick, the next one counts");
}

#[test]
fn a_heartbeat_has_a_phase_of_its_own() {
    let p = plain();
    let p = Personality { delayed_ack: DelayedAck { heartbeat: true, ..p.delayed_ack }, ..p };
    let mut bench = Bench::connecting(&p);
    bench.tcp = headend_engine::tcp::connection::Connection::connect(&p, crate::bench::OURS, Duration::from_millis(50));
    bench.poll();
    bench.hear(syn_ack());
    bench.hear(data(1, 1_000));
    assert_eq!(bench.until(ms(1_000)), ["150ms: ack 1001 win 7000"], "ticks at -50, 150, 350 ms");
}

#[test]
fn data_carries_the_acknowledgement_that_was_delayed() {
    let mut bench = Bench::client(&plain());
    bench.hear(data(1, 1_000));
    assert_eq!(bench.write(100), ["1:101 ack 1001"]);
    bench.hear(data(1_001, 0).acks(101));
    assert_eq!(bench.until(ms(1_000)), [""; 0]);
}

#[test]
fn a_duplicate_acknowledgement_travels_alone_though_data_could_carry_it() {
    // RFC 5681 s2: an ACK with data is no duplicate, so the peer would miss the loss; nor would its SACK block fit.
    let mut bench = selective();
    bench.tcp.write(Bytes::new(3_000));
    assert_eq!(
        bench.hear(data(1_001, 1_000)),
        ["ack 1 win 8000 sack 1001:2001", "1:1001 ack 1", "1001:2001 ack 1", "2001:3001 ack 1"]
    );
    let mut bench = Bench::client(&plain());
    bench.tcp.write(Bytes::new(1_000));
    assert_eq!(bench.hear(data(1_001, 1_000)), ["ack 1 win 8000", "1:1001 ack 1"], "without SACK as well");
}

#[test]
fn the_first_sack_block_is_the_one_that_changed_last() {
    let mut bench = selective();
    assert_eq!(bench.hear(data(1_001, 500)), ["ack 1 win 8000 sack 1001:1501"]);
    assert_eq!(bench.hear(data(3_001, 500)), ["ack 1 win 8000 sack 3001:3501 sack 1001:1501"]);
    assert_eq!(bench.hear(data(5_001, 500)), ["ack 1 win 8000 sack 5001:5501 sack 3001:3501 sack 1001:1501"]);
    assert_eq!(
        bench.hear(data(1_501, 500)),
        ["ack 1 win 8000 sack 1001:2001 sack 5001:5501 sack 3001:3501"],
        "the first grew"
    );
    assert_eq!(bench.hear(data(2_001, 1_000)), ["ack 1 win 8000 sack 1001:3501 sack 5001:5501"], "two became one");
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 3501 win 4500 sack 5001:5501"], "the rest stays");
}

#[test]
fn at_most_four_sack_blocks_fit_and_three_beside_timestamps() {
    for (timestamps, fit) in [(false, 4), (true, 3)] {
        let p = Personality { sack: true, timestamps, ..plain() };
        let stamp = timestamps.then_some((0, 0));
        let options = Options { mss: Some(1_000), sack_permitted: true, timestamps: stamp, ..Options::default() };
        let mut bench = Bench::client_of(&p, Segment { options, ..syn_ack() });
        for start in (1_001..7_000).step_by(1_000) {
            let mut segment = data(start, 500);
            segment.options.timestamps = stamp;
            bench.hear(segment);
        }
        assert_eq!(bench.last.options.sack.as_slice().len(), fit);
        assert!(bench.last.options.wire_len() <= 40, "RFC 9293 s3.1: the data offset leaves 40 bytes for options");
    }
}

#[test]
fn what_came_twice_is_reported_once_and_first() {
    // RFC 2883 s4, below the acknowledgement.
    let mut bench = selective();
    bench.hear(data(1, 1_000));
    bench.hear(data(1_001, 1_000));
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 2001 win 6000 sack 1:1001"]);
    assert_eq!(bench.hear(data(3_001, 1_000)), ["ack 2001 win 6000 sack 3001:4001"]);
    // Beyond it, followed by the block that holds it.
    assert_eq!(bench.hear(data(4_001, 1_000)), ["ack 2001 win 6000 sack 3001:5001"]);
    assert_eq!(bench.hear(data(3_001, 1_000)), ["ack 2001 win 6000 sack 3001:4001 sack 3001:5001"]);
    assert_eq!(bench.hear(data(5_001, 500)), ["ack 2001 win 6000 sack 3001:5501"]);
    assert_eq!(bench.tcp.duplicates_received(), 2);
}
