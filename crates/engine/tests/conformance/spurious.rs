//! Timeouts and retransmissions that were mistakes, and Linux's own ways.

use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, ack, data, ms, plain, syn, syn_ack};

/// Linux with the bench's sizes.
fn linux() -> Personality {
    let plain = plain();
    Personality {
        mss: plain.mss,
        initial_window_segments: Some(10),
        receive_buffer: Bytes::new(60_000),
        ..Personality::linux()
    }
}

/// Linux after ten segments of 1000 B, of fifteen, were sent at 100 ms; the peer takes SACK, and timestamps if `stamped`.
fn sending(p: &Personality, stamped: bool) -> Bench {
    let timestamps = stamped.then_some((100, 0));
    let options = Options {
        mss: Some(1_000 + if stamped { 12 } else { 0 }),
        sack_permitted: true,
        timestamps,
        ..Options::default()
    };
    let mut bench = Bench::client_of(
        &Personality { mss: Bytes::new(1_012), ..p.clone() },
        Segment { options, ..syn_ack().offers(50_000) },
    );
    let left = bench.write(15_000);
    assert_eq!(left.len(), 10, "{left:?}");
    bench
}

/// Lets the tail-loss probe and the timer go; returns when the timer expired.
fn time_out(bench: &mut Bench) -> Time {
    while bench.tcp.counters().timeouts == 0 {
        let limit = bench.now + Duration::from_millis(1);
        bench.until(limit);
        assert!(limit < ms(5_000), "the timer must expire");
    }
    bench.now
}

#[test]
fn originals_that_arrive_after_a_timeout_take_it_back() {
    let mut bench = sending(&linux(), false);
    time_out(&mut bench);
    assert_eq!(bench.cwnd(), 1_000);
    // The first ACK could be for the retransmission; the second covers what was sent once.
    bench.hear(ack(1_001).offers(50_000));
    bench.hear(ack(3_001).offers(50_000));
    assert_eq!(bench.tcp.counters().undone, 1);
    assert!(bench.cwnd() >= 10_000, "as before the timeout: {}", bench.cwnd());
    assert_eq!(bench.tcp.counters().retransmits, 1, "the first segment; the others were not lost");
}

#[test]
fn after_a_timeout_new_data_goes_before_more_retransmissions() {
    let mut bench = sending(&linux(), false);
    time_out(&mut bench);
    let left = bench.hear(ack(1_001).offers(50_000));
    assert_eq!(left, ["11001:12001 ack 1", "12001:13001 ack 1"], "RFC 5682 s3.1 step 2b; the probe was new data too");
    // They arrive, the rest has not: the timeout was right, and retransmission goes on.
    let left = bench.hear(ack(1_001).offers(50_000).sacks(&[(11_001, 12_001)]));
    assert!(left.first().is_some_and(|first| first.starts_with("1001:2001")), "{left:?}");
    assert_eq!(bench.tcp.counters().undone, 0);
}

#[test]
fn without_frto_a_timeout_stands() {
    let mut bench = sending(&Personality { frto: false, undo_spurious: false, ..linux() }, false);
    time_out(&mut bench);
    bench.hear(ack(1_001).offers(50_000));
    bench.hear(ack(3_001).offers(50_000));
    assert_eq!(bench.tcp.counters().undone, 0);
    assert!(bench.cwnd() < 5_000, "{}", bench.cwnd());
}

/// Four segments above the first are reported, and the first is sent again at 150 ms.
fn fast_retransmit(bench: &mut Bench, stamp: impl Fn(Segment) -> Segment) {
    for n in 2..=5 {
        bench.now = ms(150 + n);
        bench.hear(stamp(ack(1).offers(50_000).sacks(&[(1_001, n * 1_000 + 1)])));
    }
    assert_eq!(bench.tcp.counters().fast_retransmits, 1);
    assert!(bench.cwnd() < 10_000);
}

#[test]
fn an_echo_from_before_the_retransmission_takes_the_reduction_back() {
    for (echo, undone) in [(100, 1), (160, 0)] {
        let mut bench = sending(&linux(), true);
        fast_retransmit(&mut bench, |segment| segment.stamped(150, 100));
        bench.now = ms(170);
        bench.hear(ack(10_001).offers(50_000).stamped(170, echo));
        assert_eq!(bench.tcp.counters().undone, undone, "echo of {echo} ms");
        assert_eq!(bench.cwnd() >= 10_000, undone == 1);
    }
}

#[test]
fn reports_that_every_retransmission_came_twice_take_the_reduction_back() {
    let mut bench = sending(&linux(), false);
    fast_retransmit(&mut bench, |segment| segment);
    bench.now = ms(170);
    bench.hear(ack(10_001).offers(50_000));
    assert_eq!(bench.tcp.counters().undone, 0);
    bench.now = ms(180);
    bench.hear(ack(10_001).offers(50_000).sacks(&[(1, 1_001)]));
    assert_eq!(bench.tcp.counters().undone, 1, "RFC 3708");
    assert!(bench.cwnd() >= 10_000);
}

#[test]
fn a_timeout_in_recovery_keeps_the_threshold_of_the_recovery() {
    let mut bench = sending(&linux(), false);
    fast_retransmit(&mut bench, |segment| segment);
    let ssthresh = |bench: &Bench| bench.tcp.snapshot().expect("open").ssthresh;
    let reduced = ssthresh(&bench);
    assert!(reduced < Bytes::new(10_000));
    // The retransmission is lost, and all that follows.
    time_out(&mut bench);
    assert_eq!(ssthresh(&bench), reduced, "one window of data, one reduction");
    assert!(bench.cwnd() < reduced.get(), "but slow start");
}

#[test]
fn linux_acknowledges_the_first_seventeen_segments_one_by_one() {
    let p = Personality { receive_buffer: Bytes::new(60_000), ..linux() };
    let mut bench = Bench::server_of(&p, syn());
    let mut alone = Vec::new();
    for n in 0..21 {
        bench.now += Duration::from_millis(1);
        if !bench.hear(data(n * 1_000 + 1, 1_000)).is_empty() {
            alone.push(n + 1);
        }
    }
    assert_eq!(alone, (1..=17).chain([19, 21]).collect::<Vec<_>>(), "then every second");
}

#[test]
fn linux_delays_an_acknowledgement_longer_where_segments_come_far_apart() {
    for (apart_ms, delay_ms) in [(1, 40), (15, 40), (30, 60)] {
        let mut bench = Bench::server_of(&linux(), syn());
        // Seventeen are acknowledged at once, the next waits.
        for n in 0..18 {
            bench.now += Duration::from_millis(apart_ms);
            bench.hear(data(n * 1_000 + 1, 1_000));
        }
        let due = bench.now + Duration::from_millis(delay_ms);
        let early = bench.until(bench.now + Duration::from_millis(delay_ms - 1));
        assert!(early.is_empty(), "{apart_ms} ms apart, before {delay_ms} ms: {early:?}");
        let left = bench.until(due + Duration::from_millis(1));
        assert!(left.len() == 1 && left[0].contains("ack 18001"), "{left:?}");
    }
}

/// Linux does so too: its retrans_stamp stays while a retransmission is on its way.
#[test]
fn the_echo_of_a_retransmission_from_the_reduction_before_shows_nothing() {
    let mut bench = sending(&linux(), true);
    bench.write(30_000);
    fast_retransmit(&mut bench, |segment| segment.stamped(150, 100));
    for n in 6..=12 {
        bench.now = ms(160 + n);
        bench.hear(ack(1).offers(50_000).stamped(160, 100).sacks(&[(1_001, n * 1_000 + 1)]));
    }
    // The first segment that was sent in recovery is lost, and sent again at 200 ms; then recovery ends.
    let mut hear = |at, segment: Segment| {
        bench.now = ms(at);
        let left = bench.hear(segment);
        (left, bench.tcp.counters().fast_retransmits, bench.tcp.counters().undone)
    };
    let answer = |number| ack(number).offers(50_000);
    let (left, ..) = hear(200, answer(1).stamped(200, 100).sacks(&[(1_001, 12_001), (13_001, 15_001)]));
    assert!(left.iter().any(|sent| sent.starts_with("12001:13001")), "{left:?}");
    hear(205, answer(12_001).stamped(205, 155).sacks(&[(13_001, 15_001)]));
    // Another loss, another reduction; only then comes the ACK for what was sent again at 200 ms.
    let (left, reductions, _) =
        hear(215, answer(12_001).stamped(215, 155).sacks(&[(16_001, 18_001), (13_001, 15_001)]));
    assert!(left.iter().any(|sent| sent.starts_with("15001:16001")) && reductions == 2, "{left:?}");
    let (_, _, undone) = hear(240, answer(15_001).stamped(240, 200).sacks(&[(16_001, 18_001)]));
    assert_eq!(undone, 0, "nothing was sent twice for nothing");
}
