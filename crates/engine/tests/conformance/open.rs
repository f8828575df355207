//! Connection set-up: RFC 9293 s3.5, s3.10.7.1 to s3.10.7.4.

use headend_engine::tcp::connection::{Connection, Fault, State};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, OURS, THEIRS, Wire, ack, data, ms, plain, rst, syn, syn_ack};

#[test]
fn three_segments_open_a_connection() {
    let mut client = Bench::connecting(&plain());
    assert_eq!(client.poll(), ["SYN"]);
    assert_eq!(client.tcp.state(), State::SynSent);
    assert_eq!(client.hear(syn_ack()), ["ack 1 win 8000"]);
    assert_eq!(client.tcp.state(), State::Established);

    let mut server = Bench::listening(&plain());
    assert_eq!(server.poll(), [""; 0]);
    assert_eq!(server.tcp.state(), State::Listen);
    assert_eq!(server.hear(syn()), ["SYN ack 1"]);
    assert_eq!(server.tcp.state(), State::SynReceived);
    assert_eq!(server.hear(ack(1)), [""; 0]);
    assert_eq!(server.tcp.state(), State::Established);
}

#[test]
fn data_that_waits_leaves_with_the_acknowledgement_of_the_syn_ack() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    client.tcp.receive(client.now, &syn_ack());
    assert_eq!(client.write(500), ["1:501 ack 1"], "no bare ACK before it");
}

#[test]
fn data_with_the_third_segment_opens_the_connection_and_is_taken() {
    let mut server = Bench::listening(&plain());
    server.hear(syn());
    server.hear(data(1, 700));
    assert_eq!((server.tcp.state(), server.tcp.readable()), (State::Established, Bytes::new(700)));
}

#[test]
fn nothing_can_be_written_before_the_connection_is_established() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    assert_eq!(client.tcp.write(Bytes::new(100)), Bytes::ZERO);
    client.hear(syn_ack());
    assert_eq!(client.tcp.write(Bytes::new(100)), Bytes::new(100));
}

#[test]
fn both_ends_may_open_at_once() {
    let p = plain();
    let mut wire =
        Wire::between(Connection::connect(&p, OURS, Duration::ZERO), Connection::connect(&p, THEIRS, Duration::ZERO));
    wire.run(ms(49));
    assert_eq!(wire.states(), [State::SynSent; 2]);
    wire.run(ms(60));
    assert_eq!(wire.states(), [State::SynReceived; 2]);
    wire.run(ms(400));
    assert_eq!(wire.states(), [State::Established; 2]);
    wire.ends[0].write(Bytes::new(3_000));
    wire.ends[1].write(Bytes::new(2_000));
    wire.run(ms(1_000));
    assert_eq!(wire.ends[1].received(), Bytes::new(3_000));
    assert_eq!(wire.ends[0].received(), Bytes::new(2_000));
}

#[test]
fn a_lost_syn_is_sent_again_after_twice_as_long_and_then_given_up() {
    let mut client = Bench::connecting(&plain());
    let seconds = ["0s", "1s", "3s", "7s", "15s", "31s", "63s"];
    assert_eq!(client.until(ms(122_999)), seconds.map(|at| format!("{at}: SYN")));
    assert_eq!(client.tcp.state(), State::SynSent);
    // The longest timeout is 60 s.
    assert_eq!(client.until(ms(123_000)), [""; 0]);
    assert_eq!((client.tcp.state(), client.tcp.fault()), (State::Closed, Some(Fault::TimedOut)));
}

#[test]
fn a_lost_syn_ack_is_sent_again_by_the_timer() {
    let mut server = Bench::listening(&plain());
    server.hear(syn());
    assert_eq!(server.until(ms(5_000)), ["1s: SYN ack 1", "3s: SYN ack 1"]);
    server.hear(ack(1));
    assert_eq!(server.tcp.state(), State::Established);
}

#[test]
fn a_repeated_syn_is_answered_with_the_syn_ack_again() {
    let mut server = Bench::listening(&plain());
    server.hear(syn());
    server.now = ms(700);
    assert_eq!(server.hear(syn()), ["SYN ack 1"]);
}

#[test]
fn a_repeated_syn_ack_is_acknowledged() {
    let mut client = Bench::client(&plain());
    assert_eq!(client.hear(syn_ack()), ["ack 1 win 8000"], "the third segment was lost");
    assert_eq!(client.tcp.state(), State::Established);
}

#[test]
fn after_a_lost_syn_data_begins_with_one_segment_and_three_seconds() {
    let mut client = Bench::connecting(&plain());
    client.until(ms(1_050));
    client.hear(syn_ack());
    // RFC 5681 s3.1.
    assert_eq!(client.write(8_000), ["1:1001 ack 1"]);
    // RFC 6298 s5.7: there is no sample, and what the SYN needed says that one second may be too little.
    assert_eq!(client.until(ms(4_100)), ["4050ms: 1:1001 ack 1"]);
}

#[test]
fn one_lost_syn_does_not_cost_the_large_initial_window_but_two_do() {
    // RFC 6928 s2.
    let p = headend_engine::tcp::personality::Personality { initial_window_segments: None, ..plain() };
    for (answered_at, segments) in [(1_050, 8), (3_050, 1)] {
        let mut client = Bench::connecting(&p);
        client.until(ms(answered_at));
        client.hear(syn_ack());
        assert_eq!(client.write(20_000).len(), segments, "SYN-ACK at {answered_at} ms, peer's window 8 segments");
    }
}

#[test]
fn a_reset_that_acknowledges_the_syn_refuses_the_connection() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    let mut refusal = rst(0).acks(1);
    refusal.flags.ack = true;
    assert_eq!(client.hear(refusal), [""; 0]);
    assert_eq!((client.tcp.state(), client.tcp.fault()), (State::Closed, Some(Fault::Refused)));
    assert_eq!(client.until(ms(100_000)), [""; 0], "no further SYN");
}

#[test]
fn a_reset_that_does_not_acknowledge_the_syn_is_ignored() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    client.hear(rst(0));
    let mut stale = rst(0).acks(0);
    stale.flags.ack = true;
    assert_eq!(client.hear(stale), [""; 0]);
    assert_eq!(client.tcp.state(), State::SynSent);
}

#[test]
fn an_acknowledgement_of_nothing_sent_is_reset_before_the_open() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    assert_eq!(client.hear(ack(500)), ["RST 500"]);
    assert_eq!(client.tcp.state(), State::SynSent);

    let mut server = Bench::listening(&plain());
    server.hear(syn());
    assert_eq!(server.hear(ack(500)), ["RST 500"]);
    assert_eq!(server.tcp.state(), State::SynReceived);
}

#[test]
fn a_listener_resets_what_is_not_a_syn_and_ignores_resets() {
    let mut server = Bench::listening(&plain());
    assert_eq!(server.hear(ack(77)), ["RST 77"]);
    assert_eq!(server.hear(rst(1)), [""; 0]);
    assert_eq!(server.tcp.state(), State::Listen);
    assert_eq!(server.hear(syn()), ["SYN ack 1"]);
}

#[test]
fn a_closed_connection_resets_whatever_comes_but_a_reset() {
    let mut gone = Bench::listening(&plain());
    gone.close();
    assert_eq!(gone.tcp.state(), State::Closed);
    assert_eq!(gone.hear(rst(9)), [""; 0]);
    assert_eq!(gone.hear(ack(77)), ["RST 77"], "its number is what was acknowledged");
    let mut plain_data = data(1, 300);
    plain_data.flags.ack = false;
    gone.hear(plain_data);
    assert_eq!((gone.last.seq, gone.last.ack), (0, THEIRS.wrapping_add(301)), "or it acknowledges the segment");
}

#[test]
fn closing_before_an_answer_came_forgets_the_connection() {
    let mut client = Bench::connecting(&plain());
    client.poll();
    assert_eq!(client.close(), [""; 0]);
    assert_eq!((client.tcp.state(), client.tcp.fault()), (State::Closed, None));
    client.hear(syn_ack());
    assert!(client.last.flags.rst, "a late answer is reset");
}

#[test]
fn a_syn_in_an_established_connection_is_challenged() {
    // RFC 9293 s3.10.7.4 step 4, from RFC 5961 s4: whoever restarted learns from the ACK, and resets.
    let mut client = Bench::client(&plain());
    let mut restarted = syn();
    restarted.seq = THEIRS.wrapping_add(900);
    assert_eq!(client.hear(restarted), ["ack 1 win 8000"]);
    assert_eq!(client.tcp.state(), State::Established);
}
