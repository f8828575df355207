//! Explicit congestion notification (RFC 3168 s6.1).

use headend_engine::packet::Ecn;
use headend_engine::tcp::connection::Output;
use headend_engine::tcp::personality::{DelayedAck, EcnPolicy, Personality, Recovery};
use headend_engine::tcp::segment::{EcnFlags, Segment};

use crate::bench::{Bench, Edit, ack, data, ms, plain, syn, syn_ack};

const ECE: EcnFlags = EcnFlags::ECE;
const CWR: EcnFlags = EcnFlags::CWR;

fn asks() -> Personality {
    Personality { ecn: EcnPolicy::Request, ..plain() }
}

fn with(ecn: EcnFlags, mut segment: Segment) -> Segment {
    segment.flags.ecn = ecn;
    segment
}

/// A client whose server agreed to use ECN, with a window of four segments, all of them in flight.
fn busy_client(personality: &Personality) -> Bench {
    let mut answer = with(ECE, syn_ack());
    answer.options.sack_permitted = personality.sack;
    let mut bench = Bench::client_of(personality, answer);
    bench.poll();
    assert_eq!(bench.write(20_000).len(), 4);
    bench
}

#[test]
fn ecn_is_asked_for_in_a_syn_and_granted_in_its_answer() {
    let mut client = Bench::connecting(&asks());
    client.poll();
    assert_eq!(client.last.flags.ecn, EcnFlags::BOTH);
    assert_eq!(client.tcp.departing_ecn(), Ecn::NotEct, "s6.1.1: no SYN is to be marked");
    for policy in [EcnPolicy::Accept, EcnPolicy::Request] {
        let mut server = Bench::listening(&Personality { ecn: policy, ..plain() });
        server.hear(with(EcnFlags::BOTH, syn()));
        assert_eq!(server.last.flags.ecn, ECE);
        assert!(server.tcp.uses_ecn());
        assert_eq!(server.tcp.departing_ecn(), Ecn::NotEct);
    }
}

#[test]
fn without_both_ends_wish_there_is_no_ecn() {
    let mut off = Bench::listening(&plain());
    off.hear(with(EcnFlags::BOTH, syn()));
    assert_eq!(off.last.flags.ecn, EcnFlags::NONE);
    let mut unasked = Bench::listening(&asks());
    unasked.hear(syn());
    assert_eq!(unasked.last.flags.ecn, EcnFlags::NONE);
    // One that has it off, and one that reflects what it does not know.
    for answer in [EcnFlags::NONE, EcnFlags::BOTH] {
        assert!(!Bench::client_of(&asks(), with(answer, syn_ack())).tcp.uses_ecn());
    }
    assert!(!Bench::client_of(&plain(), with(ECE, syn_ack())).tcp.uses_ecn(), "it had not asked");
}

#[test]
fn a_lost_syn_is_repeated_without_asking_for_ecn() {
    let mut bench = Bench::connecting(&asks());
    bench.until(ms(1_500));
    assert_eq!(bench.last.flags.ecn, EcnFlags::NONE);
    bench.hear(with(ECE, syn_ack()));
    assert!(!bench.tcp.uses_ecn());
}

#[test]
fn only_new_data_may_be_marked() {
    let mut bench = busy_client(&asks());
    assert_eq!(bench.tcp.departing_ecn(), Ecn::Ect0);
    assert_eq!(bench.hear(data(1, 1_000)).len(), 0);
    bench.until(ms(310));
    assert_eq!((bench.last.len, bench.tcp.departing_ecn()), (0, Ecn::NotEct), "a delayed ACK");
    bench.until(ms(1_500));
    assert!(bench.last.len > 0 && bench.tcp.counters().retransmits > 0);
    assert_eq!(bench.tcp.departing_ecn(), Ecn::NotEct, "s6.1.5: a retransmission");
}

#[test]
fn a_mark_is_echoed_at_once_and_until_it_is_answered() {
    let delayed_ack = DelayedAck { segments: 2, ..plain().delayed_ack };
    let mut bench = Bench::server_of(&Personality { delayed_ack, ..asks() }, with(EcnFlags::BOTH, syn()));
    assert!(bench.hear_with(data(1, 1_000), Ecn::Ect0).is_empty());
    bench.hear_with(data(1_001, 1_000), Ecn::Ect0);
    assert_eq!(bench.last.flags.ecn, EcnFlags::NONE);
    assert_eq!(bench.hear_with(data(2_001, 1_000), Ecn::Ce), ["ack 3001 win 5000"], "without a second segment");
    assert_eq!(bench.last.flags.ecn, ECE);
    bench.hear_with(data(3_001, 1_000), Ecn::Ect0);
    bench.hear_with(data(4_001, 1_000), Ecn::Ect0);
    assert_eq!(bench.last.flags.ecn, ECE, "s6.1.3: the answer has not come");
    bench.hear_with(with(CWR, data(5_001, 1_000)), Ecn::Ect0);
    assert_eq!(bench.last.flags.ecn, EcnFlags::NONE);
    bench.hear_with(data(6_001, 1_000), Ecn::Ce);
    bench.hear_with(with(CWR, data(7_001, 1_000)), Ecn::Ce);
    assert_eq!(bench.last.flags.ecn, ECE, "the answer met congestion itself");
}

#[test]
fn what_is_outside_the_window_says_nothing_of_congestion() {
    let mut bench = Bench::server_of(&asks(), with(EcnFlags::BOTH, syn()));
    bench.hear_with(data(1, 1_000), Ecn::Ect0);
    bench.hear_with(data(1, 1_000), Ecn::Ce);
    bench.hear_with(data(90_000, 1_000), Ecn::Ce);
    assert_eq!(bench.last.flags.ecn, EcnFlags::NONE);
}

#[test]
fn an_echo_halves_the_window_once_a_window_of_data() {
    for recovery in [Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        let mut bench = busy_client(&Personality { recovery, sack: recovery.needs_sack(), ..asks() });
        bench.now = ms(200);
        bench.hear(with(ECE, ack(1_001)));
        assert_eq!(bench.cwnd(), 2_000, "{}: half of four segments", recovery.name());
        bench.hear(with(ECE, ack(2_001)));
        bench.hear(with(ECE, ack(3_001)));
        assert_eq!(bench.cwnd(), 2_000, "{}: of the same window", recovery.name());
        let counters = bench.tcp.counters();
        assert_eq!((counters.marks, counters.retransmits, counters.fast_retransmits), (1, 0, 0));
    }
}

#[test]
fn the_first_new_data_after_the_reduction_says_so_once() {
    let mut bench = busy_client(&asks());
    bench.now = ms(200);
    bench.hear(with(ECE, ack(2_001)));
    assert_eq!(bench.last.flags.ecn, EcnFlags::NONE, "nothing leaves while two are in flight");
    bench.hear(with(ECE, ack(3_001)));
    assert_eq!((bench.last.seq, bench.last.flags.ecn), (ack(4_001).ack, CWR));
    bench.hear(with(ECE, ack(4_001)));
    assert_eq!((bench.last.seq, bench.last.flags.ecn), (ack(5_001).ack, EcnFlags::NONE));
    assert_eq!(bench.cwnd(), 2_000);
}

#[test]
fn a_loss_among_marked_data_costs_no_second_reduction() {
    let sack = Personality { sack: true, recovery: Recovery::Sack, limited_transmit: true, ..asks() };
    let mut answer = with(ECE, syn_ack());
    answer.options.sack_permitted = true;
    let mut bench = Bench::client_of(&Personality { initial_window_segments: Some(8), ..sack }, answer);
    bench.write(40_000);
    bench.now = ms(200);
    bench.hear(with(ECE, ack(1_001)));
    let reduced = bench.cwnd();
    for end in [3_001, 4_001, 5_001] {
        bench.hear(with(ECE, ack(1_001).sacks(&[(2_001, end)])));
    }
    let counters = bench.tcp.counters();
    assert_eq!((counters.marks, counters.fast_retransmits, counters.retransmits), (1, 1, 1));
    assert_eq!(bench.cwnd(), reduced);
}

#[test]
fn a_loss_is_answered_with_the_word_that_the_window_was_reduced() {
    let mut bench = busy_client(&asks());
    bench.now = ms(200);
    for _ in 0..2 {
        bench.hear(ack(1));
    }
    bench.tcp.receive(bench.now, &ack(1));
    let mut next = || match bench.tcp.poll(bench.now) {
        Output::Send(segment) => (segment.seq, segment.flags.ecn, bench.tcp.departing_ecn()),
        Output::Wait(_) => panic!("the third duplicate lets two segments out"),
    };
    assert_eq!(next(), (ack(1).ack, EcnFlags::NONE, Ecn::NotEct), "the retransmission");
    assert_eq!(next(), (ack(4_001).ack, CWR, Ecn::Ect0), "new data");
}
