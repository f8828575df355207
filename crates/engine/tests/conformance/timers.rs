//! The retransmission timer: RFC 6298 and Karn's rule.

use headend_engine::tcp::personality::{Personality, Recovery};
use headend_engine::tcp::segment::{Options, Segment};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, ack, ms, plain, syn, syn_ack};

fn rto_ms(bench: &Bench) -> u64 {
    bench.tcp.snapshot().unwrap().rto.as_millis()
}

/// Every loss recovery, with the options that it needs.
fn each_recovery() -> Vec<Personality> {
    Recovery::ALL.iter().map(|&recovery| Personality { recovery, sack: true, ..plain() }).collect()
}

fn open(p: &Personality) -> Bench {
    let options = Options { mss: Some(1_000), sack_permitted: true, ..Options::default() };
    Bench::client_of(p, Segment { options, ..syn_ack() })
}

#[test]
fn the_handshake_gives_the_first_sample() {
    let p = Personality {
        rto: headend_engine::tcp::personality::RtoPolicy { min: Duration::from_millis(10), ..plain().rto },
        ..plain()
    };
    let client = Bench::client(&p);
    // R = 100 ms: SRTT + 4 RTTVAR with RTTVAR = R/2.
    assert_eq!(rto_ms(&client), 300);
    assert_eq!(rto_ms(&Bench::server_of(&p, syn())), 300, "of the accepting end as well");
}

#[test]
fn the_timeout_is_never_below_the_minimum() {
    assert_eq!(rto_ms(&Bench::client(&plain())), 1_000);
}

#[test]
fn the_timer_runs_from_the_oldest_segment_and_from_each_new_ack() {
    for p in each_recovery().iter().filter(|p| p.recovery != Recovery::RackTlp) {
        let mut bench = open(p);
        bench.write(2_000);
        bench.now = ms(400);
        bench.write(1_000);
        bench.now = ms(600);
        // RFC 6298 s5.3: restart with what is still unacknowledged.
        bench.hear(ack(1_001));
        let sent = bench.until(ms(1_900));
        assert_eq!(sent, ["1600ms: 1001:2001 ack 1"], "{:?}", p.recovery);
    }
}

#[test]
fn the_timer_stops_when_all_is_acknowledged() {
    for p in each_recovery() {
        let mut bench = open(&p);
        bench.write(2_000);
        bench.hear(ack(2_001));
        assert_eq!(bench.until(ms(300_000)), [""; 0], "{:?}", p.recovery);
    }
}

#[test]
fn the_timeout_doubles_up_to_its_largest_value() {
    for p in each_recovery().iter().filter(|p| p.recovery != Recovery::RackTlp) {
        let mut bench = open(p);
        bench.write(1_000);
        let sent = bench.until(ms(200_000));
        let at: Vec<_> = sent.iter().map(|said| said.split("ms").next().unwrap().parse::<u64>().unwrap()).collect();
        assert_eq!(at, [1_100, 3_100, 7_100, 15_100, 31_100, 63_100, 123_100, 183_100], "{:?}", p.recovery);
    }
}

#[test]
fn a_tail_loss_probe_comes_before_the_timeout_and_starts_it_anew() {
    // RFC 8985 s7: 2 SRTT and the longest delayed ACK, for a single segment.
    let mut bench = open(&each_recovery()[4]);
    bench.write(1_000);
    assert_eq!(bench.until(ms(4_000)), ["500ms: 1:1001 ack 1", "1500ms: 1:1001 ack 1", "3500ms: 1:1001 ack 1"]);
    assert_eq!((bench.tcp.counters().tail_loss_probes, bench.tcp.counters().timeouts), (1, 2));
}

#[test]
fn a_retransmitted_segment_gives_no_sample() {
    for p in each_recovery() {
        let mut bench = open(&p);
        let before = bench.tcp.snapshot().unwrap().srtt;
        bench.write(1_000);
        let timed_out = bench.until(ms(1_600)).len();
        assert!(timed_out > 0, "{:?}", p.recovery);
        bench.now = ms(1_700);
        bench.hear(ack(1_001));
        assert_eq!(bench.tcp.snapshot().unwrap().srtt, before, "{:?}", p.recovery);
        assert_eq!(bench.tcp.take_rtt(), None);
    }
}

#[test]
fn the_back_off_lasts_until_a_segment_that_was_sent_once_is_acknowledged() {
    for p in each_recovery() {
        let mut bench = open(&p);
        bench.write(1_000);
        bench.until(ms(1_700));
        bench.hear(ack(1_001));
        assert_eq!(rto_ms(&bench), 2_000, "{:?}: Karn's second rule", p.recovery);
        bench.write(1_000);
        bench.now = ms(1_800);
        bench.hear(ack(2_001));
        assert_eq!(rto_ms(&bench), 1_000, "{:?}", p.recovery);
    }
}

#[test]
fn timestamps_tell_a_retransmission_from_its_original() {
    let p = Personality { timestamps: true, recovery: Recovery::NewReno, ..plain() };
    let options = Options { mss: Some(1_012), timestamps: Some((0, 0)), ..Options::default() };
    let mut bench = Bench::client_of(&p, Segment { options, ..syn_ack() });
    bench.write(900);
    bench.until(ms(1_150));
    assert_eq!(bench.tcp.counters().timeouts, 1);
    bench.hear(ack(901).stamped(1_150, 1_100));
    assert_eq!(bench.tcp.take_rtt(), Some(Duration::from_millis(50)), "since 1100 ms, when the copy left");
}

#[test]
fn under_sack_too_an_echo_ends_the_back_off() {
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let p = Personality { timestamps: true, sack: true, recovery, ..plain() };
        let options =
            Options { mss: Some(1_012), timestamps: Some((0, 0)), sack_permitted: true, ..Options::default() };
        let mut bench = Bench::client_of(&p, Segment { options, ..syn_ack() });
        bench.write(900);
        while bench.tcp.counters().timeouts == 0 {
            bench.until(bench.now + Duration::from_millis(1));
        }
        assert_eq!(rto_ms(&bench), 2_000, "{recovery:?}");
        let left = (bench.now - headend_engine::time::Time::ZERO).as_millis() as u32;
        bench.now += Duration::from_millis(50);
        bench.hear(ack(901).stamped(left + 50, left));
        assert_eq!(rto_ms(&bench), 1_000, "{recovery:?}");
    }
}

#[test]
fn in_1996_a_fast_retransmit_backed_off_the_next_timer_and_not_its_own() {
    let p =
        Personality { recovery: Recovery::Reno, era: headend_engine::tcp::personality::EraRules::NS_1996, ..plain() };
    let mut bench = Bench::client(&p);
    bench.write(4_000);
    bench.now = ms(200);
    bench.hear(ack(1_001));
    for _ in 0..3 {
        bench.hear(ack(1_001));
    }
    assert_eq!(bench.tcp.counters().fast_retransmits, 1);
    assert_eq!(rto_ms(&bench), 2_000, "backed off");
    assert_eq!(bench.until(ms(1_199)), [""; 0]);
    assert!(
        bench.until(ms(1_201))[0].starts_with("1200ms: 1001:2001"),
        "one second after the retransmission all the same"
    );
}

#[test]
fn a_timeout_begins_slow_start_with_one_segment() {
    for p in each_recovery() {
        let mut bench = open(&p);
        bench.write(8_000);
        let first = bench.until(ms(1_700));
        assert!(first.last().unwrap().ends_with("1:1001 ack 1"), "{:?}: {first:?}", p.recovery);
        assert_eq!(bench.cwnd(), 1_000, "{:?}", p.recovery);
        // A tail-loss probe had sent a fifth segment.
        let in_flight = if p.recovery == Recovery::RackTlp { 5_000 } else { 4_000 };
        assert_eq!(bench.tcp.snapshot().unwrap().ssthresh, Bytes::new(in_flight / 2), "{:?}", p.recovery);
        let next = bench.hear(ack(1_001));
        assert_eq!(next, ["1001:2001 ack 1", "2001:3001 ack 1"], "{:?}", p.recovery);
    }
}

#[test]
fn a_second_timeout_of_the_same_data_keeps_the_threshold() {
    // RFC 5681 s3.1.
    let mut bench = Bench::client_of(&plain(), syn_ack().offers(60_000));
    bench.write(20_000);
    for n in 1..=4 {
        bench.hear(ack(1 + n * 1_000).offers(60_000));
    }
    bench.until(ms(1_500));
    let ssthresh = bench.tcp.snapshot().unwrap().ssthresh;
    assert_eq!(ssthresh, Bytes::new(4_000), "half of 8000 B in flight");
    bench.until(ms(8_000));
    assert_eq!(bench.tcp.counters().timeouts, 3);
    assert_eq!(bench.tcp.snapshot().unwrap().ssthresh, ssthresh);
}
