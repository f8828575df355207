//! Closing, resetting and giving up: RFC 9293 s3.6, s3.10.4, s3.10.5, s3.10.7.4, s3.8.3.

use headend_engine::tcp::connection::{Fault, State};
use headend_engine::units::Bytes;

use crate::bench::{Bench, Edit, Wire, ack, data, fin, ms, plain, rst};

#[test]
fn whoever_closes_first_waits_for_stray_segments_at_the_end() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.close(), ["FIN 1 ack 1"]);
    assert_eq!(bench.tcp.state(), State::FinWait1);
    assert_eq!(bench.hear(ack(2)), [""; 0]);
    assert_eq!(bench.tcp.state(), State::FinWait2);
    assert_eq!(bench.hear(fin(1).acks(2)), ["ack 2 win 8000"]);
    assert_eq!(bench.tcp.state(), State::TimeWait);
    assert_eq!(bench.until(ms(60_099)), [""; 0]);
    assert_eq!(bench.tcp.state(), State::TimeWait);
    bench.until(ms(60_100));
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, None));
}

#[test]
fn whoever_closes_second_is_done_with_the_last_acknowledgement() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(fin(1)), ["ack 2 win 8000"]);
    assert_eq!(bench.tcp.state(), State::CloseWait);
    assert!(bench.tcp.is_peer_closed());
    assert_eq!(bench.close(), ["FIN 1 ack 2"]);
    assert_eq!(bench.tcp.state(), State::LastAck);
    assert_eq!(bench.hear(data(2, 0).acks(2)), [""; 0]);
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, None));
}

#[test]
fn both_ends_may_close_at_once() {
    let mut bench = Bench::client(&plain());
    bench.close();
    assert_eq!(bench.hear(fin(1)), ["ack 2 win 8000"]);
    assert_eq!(bench.tcp.state(), State::Closing);
    assert_eq!(bench.hear(data(2, 0).acks(2)), [""; 0]);
    assert_eq!(bench.tcp.state(), State::TimeWait);
}

#[test]
fn a_fin_that_acknowledges_ours_leads_to_time_wait_at_once() {
    let mut bench = Bench::client(&plain());
    bench.close();
    assert_eq!(bench.hear(fin(1).acks(2)), ["ack 2 win 8000"]);
    assert_eq!(bench.tcp.state(), State::TimeWait);
}

#[test]
fn two_ends_close_in_either_order_and_together() {
    for (first, second) in [(0, 100), (100, 0), (50, 50)] {
        let mut wire = Wire::dialling(&plain());
        wire.run(ms(1_000));
        assert_eq!(wire.states(), [State::Established; 2]);
        for at in [0, 50, 100] {
            wire.run(ms(1_000 + at));
            if first == at {
                wire.ends[0].close();
            }
            if second == at {
                wire.ends[1].close();
            }
        }
        wire.run(ms(70_000));
        assert_eq!(wire.states(), [State::Closed; 2], "closed after {first} and {second} ms");
        assert_eq!([wire.ends[0].fault(), wire.ends[1].fault()], [None; 2]);
    }
}

#[test]
fn the_fin_follows_the_last_byte() {
    let mut bench = Bench::client(&plain());
    bench.tcp.write(Bytes::new(6_000));
    assert_eq!(bench.close().last().unwrap(), "3001:4001 ack 1", "the window holds four");
    assert_eq!(bench.tcp.state(), State::Established, "the FIN has not left");
    assert_eq!(bench.hear(ack(4_001)), ["4001:5001 ack 1", "FIN 5001:6001 ack 1"]);
    assert_eq!(bench.tcp.state(), State::FinWait1);
    bench.hear(ack(6_001));
    assert_eq!(bench.tcp.state(), State::FinWait1, "all but the FIN is acknowledged");
    bench.hear(ack(6_002));
    assert_eq!(bench.tcp.state(), State::FinWait2);
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(6_000));
}

#[test]
fn data_still_comes_in_after_our_close() {
    let mut bench = Bench::client(&plain());
    bench.close();
    bench.hear(ack(2));
    assert_eq!(bench.hear(data(1, 1_000).acks(2)), [""; 0]);
    assert_eq!(bench.hear(data(1_001, 1_000).acks(2)), ["ack 2001 win 6000"]);
    assert_eq!(bench.tcp.readable(), Bytes::new(2_000));
    assert_eq!(bench.tcp.state(), State::FinWait2);
}

#[test]
fn data_still_goes_out_after_the_peers_close() {
    let mut bench = Bench::client(&plain());
    bench.hear(fin(1));
    assert_eq!(bench.write(1_500), ["1:1001 ack 2", "1001:1501 ack 2"]);
    bench.hear(data(2, 0).acks(1_501));
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(1_500));
    assert_eq!(bench.tcp.state(), State::CloseWait);
}

#[test]
fn acknowledgements_count_though_the_peers_fin_lies_beyond_a_full_window() {
    let mut bench = Bench::client(&plain());
    let mut last = fin(7_001);
    last.len = 1_000;
    for start in (1..7_001).step_by(1_000) {
        bench.hear(data(start, 1_000));
    }
    assert_eq!(bench.hear(last), ["ack 8002 win 0"]);
    bench.write(1_000);
    // Its number is one beyond the window that was offered, and the next expected.
    bench.hear(data(8_002, 0).acks(1_001));
    assert_eq!(bench.tcp.acknowledged(), Bytes::new(1_000));
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut bench = Bench::client(&plain());
    bench.close();
    assert_eq!(bench.until(ms(4_000)), ["1100ms: FIN 1 ack 1", "3100ms: FIN 1 ack 1"]);
}

#[test]
fn a_fin_ahead_of_missing_data_waits_for_it() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(fin(1_001)), ["ack 1 win 8000"]);
    assert_eq!(bench.tcp.state(), State::Established);
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 1002 win 7000"]);
    assert_eq!(bench.tcp.state(), State::CloseWait);
    assert_eq!(bench.tcp.received(), Bytes::new(1_000));
}

#[test]
fn time_wait_answers_a_repeated_fin_and_starts_anew() {
    let mut bench = Bench::client(&plain());
    bench.close();
    bench.hear(fin(1).acks(2));
    assert_eq!(bench.until(ms(50_000)), [""; 0]);
    assert_eq!(bench.hear(fin(1).acks(2)), ["ack 2 win 8000"]);
    bench.until(ms(109_999));
    assert_eq!(bench.tcp.state(), State::TimeWait);
    bench.until(ms(110_000));
    assert_eq!(bench.tcp.state(), State::Closed);
}

#[test]
fn a_closed_stream_takes_no_more_data() {
    let mut bench = Bench::client(&plain());
    bench.close();
    assert_eq!(bench.tcp.write(Bytes::new(10)), Bytes::ZERO);
}

#[test]
fn a_connection_that_was_reset_takes_no_more_data() {
    let mut bench = Bench::client(&plain());
    bench.hear(rst(1));
    assert_eq!(bench.tcp.write(Bytes::new(10)), Bytes::ZERO);
}

#[test]
fn a_reset_with_the_exact_number_ends_the_connection() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(rst(1)), [""; 0]);
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, Some(Fault::Reset)));
}

#[test]
fn a_reset_elsewhere_in_the_window_is_challenged() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(rst(500)), ["ack 1 win 8000"]);
    assert_eq!(bench.tcp.state(), State::Established);
}

#[test]
fn a_reset_outside_the_window_is_ignored() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(rst(8_002)), [""; 0]);
    assert_eq!(bench.hear(rst(0)), [""; 0]);
    assert_eq!(bench.tcp.state(), State::Established);
}

#[test]
fn a_reset_after_both_ends_have_closed_is_no_fault() {
    let mut bench = Bench::client(&plain());
    bench.close();
    bench.hear(fin(1).acks(2));
    bench.hear(rst(2));
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, None));
}

#[test]
fn aborting_resets_the_peer() {
    let mut wire = Wire::dialling(&plain());
    wire.run(ms(1_000));
    wire.ends[0].abort();
    // Again, before the reset has left: that changes nothing.
    wire.ends[0].abort();
    wire.run(ms(2_000));
    assert_eq!(wire.states(), [State::Closed; 2]);
    assert_eq!([wire.ends[0].fault(), wire.ends[1].fault()], [Some(Fault::Aborted), Some(Fault::Reset)]);
}

#[test]
fn aborting_resets_the_peer_while_lost_data_is_being_sent_again() {
    let mut wire = Wire::dialling(&plain());
    wire.run(ms(1_000));
    wire.loses = |from, _| from == 1;
    wire.losses_max = 4;
    // All data arrives and no acknowledgement does; the timer sends the sender back to the first byte.
    wire.ends[0].write(Bytes::new(4_000));
    wire.run(ms(2_010));
    assert_eq!(wire.ends[1].received(), Bytes::new(4_000));
    assert_eq!(wire.ends[0].counters().timeouts, 1);
    wire.ends[0].abort();
    wire.run(ms(3_000));
    assert_eq!(wire.ends[1].fault(), Some(Fault::Reset));
}

#[test]
fn aborting_a_connection_that_both_ends_have_closed_sends_nothing() {
    let mut bench = Bench::client(&plain());
    bench.close();
    bench.hear(fin(1));
    assert_eq!(bench.tcp.state(), State::Closing);
    bench.tcp.abort();
    assert_eq!(bench.poll(), [""; 0]);
    assert_eq!(bench.tcp.state(), State::Closed);
}

#[test]
fn a_segment_outside_the_window_is_acknowledged_and_dropped() {
    let mut bench = Bench::client(&plain());
    assert_eq!(bench.hear(data(8_001, 100)), ["ack 1 win 8000"], "to the right");
    bench.hear(data(1, 1_000));
    assert_eq!(bench.hear(data(1, 1_000)), ["ack 1001 win 7000"], "to the left");
    assert_eq!(bench.tcp.received(), Bytes::new(1_000));
}

#[test]
fn what_sticks_out_of_the_window_is_cut_off() {
    let mut bench = Bench::client(&plain());
    bench.hear(data(1, 1_000));
    bench.hear(data(501, 1_000));
    assert_eq!(bench.tcp.received(), Bytes::new(1_500), "on the left");
    bench.hear(data(1_501, 60_000));
    assert_eq!(bench.tcp.received(), Bytes::new(8_000), "on the right");
}

#[test]
fn an_acknowledgement_of_data_never_sent_is_answered_and_dropped() {
    let mut bench = Bench::client(&plain());
    bench.write(1_000);
    assert_eq!(bench.hear(data(1, 500).acks(1_002)), ["ack 1 win 8000"]);
    assert_eq!((bench.tcp.acknowledged(), bench.tcp.received()), (Bytes::ZERO, Bytes::ZERO));
}

#[test]
fn a_segment_that_acknowledges_nothing_at_all_is_dropped() {
    let mut bench = Bench::client(&plain());
    let mut mute = data(1, 500);
    mute.flags.ack = false;
    assert_eq!(bench.hear(mute), [""; 0]);
    assert_eq!(bench.tcp.received(), Bytes::ZERO);
}

#[test]
fn a_peer_that_never_answers_is_given_up_after_fifteen_retransmissions() {
    let mut bench = Bench::client(&plain());
    bench.write(1_000);
    let resent = bench.until(ms(10_000_000));
    assert_eq!(resent.len(), 15, "{resent:?}");
    assert_eq!((bench.tcp.state(), bench.tcp.fault()), (State::Closed, Some(Fault::TimedOut)));
}
