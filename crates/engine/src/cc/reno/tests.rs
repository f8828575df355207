use std::fmt::Write;

use insta::assert_snapshot;

use super::*;
use crate::time::Time;

const MSS: u64 = 1_000;

/// RFC 5681's rules, or those of 1996: halves in whole segments of what was usable, without a floor.
fn setup(of_1996: bool) -> Setup {
    Setup { floor_segments: if of_1996 { 0 } else { 2 }, halve_usable: of_1996, ..Setup::rfc(MSS, 2) }
}

fn ack(reno: &mut Reno, bytes: u64) {
    reno.on_ack(&Ack {
        now: Time::ZERO,
        acked: Bytes::new(bytes),
        in_flight: reno.window(),
        rtt: None,
        srtt: None,
        may_grow: true,
        window_limited: true,
        marked: Bytes::ZERO,
    });
}

fn congestion(cause: Cause, in_flight: u64, usable: u64) -> Congestion {
    let (in_flight, usable) = (Bytes::new(in_flight), Bytes::new(usable));
    Congestion { now: Time::ZERO, cause, in_flight, usable, repeated: false, pipe: Bytes::ZERO, timeouts: 0 }
}

/// A controller in congestion avoidance at `segments`.
fn avoiding(setup: Setup, segments: u64) -> Reno {
    Reno { cwnd: segments * MSS, ssthresh: segments * MSS, ..Reno::new(setup) }
}

#[test]
fn slow_start_doubles_up_to_the_threshold_and_then_adds_a_segment() {
    let mut reno = Reno { ssthresh: 16 * MSS, ..Reno::new(setup(false)) };
    let mut table = String::from("round  ack  cwnd [bytes]\n");
    let mut windows = vec![reno.window().get()];
    for round in 1..=6 {
        // One ACK for each segment that the window held.
        for number in 1..=reno.window().get() / MSS {
            ack(&mut reno, MSS);
            writeln!(table, "{round:5}  {number:3}  {:12}", reno.window().get()).expect("a string");
        }
        windows.push(reno.window().get());
    }
    // In congestion avoidance an ACK adds mss^2 / cwnd: a segment in all but for the part of a segment that gets no ACK of
    // its own and for cwnd growing within the round.
    assert_eq!(windows[..4], [2_000, 4_000, 8_000, 16_000]);
    for pair in windows[3..].windows(2) {
        assert!((900..=1_000).contains(&(pair[1] - pair[0])), "{windows:?}");
    }
    assert_snapshot!(table);
}

#[test]
fn one_ack_of_many_bytes_adds_no_more_than_the_limit_in_slow_start() {
    for (limit, window) in [(MSS, 3_000), (2 * MSS, 4_000), (u64::MAX, 7_000)] {
        let mut reno = Reno::new(Setup { abc_limit: Bytes::new(limit), ..setup(false) });
        ack(&mut reno, 5 * MSS);
        assert_eq!(reno.window().get(), window, "limit {limit}");
    }
    let mut reno = Reno::new(setup(false));
    ack(&mut reno, 10);
    assert_eq!(reno.window().get(), 2_010, "an ACK of ten bytes adds ten");
}

#[test]
fn a_large_window_loses_nothing_to_rounding() {
    // At 2 MB an ACK adds half a byte: 2000 of them must add a segment, or very nearly.
    let mut reno = avoiding(setup(false), 2_000);
    for _ in 0..2_000 {
        ack(&mut reno, MSS);
    }
    assert!((999..=1_000).contains(&(reno.window().get() - 2_000 * MSS)), "{}", reno.window());
}

#[test]
fn halving_takes_what_was_in_flight_and_leaves_two_segments() {
    let mut table = String::from("cause     in flight [bytes]  cwnd [bytes]  ssthresh [bytes]\n");
    for in_flight in [11_500, 3_000, 1_000] {
        for (name, cause) in [("loss", Cause::Loss), ("tahoe", Cause::LossTahoe), ("timeout", Cause::Timeout)] {
            let mut reno = avoiding(setup(false), 12);
            reno.on_congestion(&congestion(cause, in_flight, 12_000));
            let (cwnd, ssthresh) = (reno.window().get(), reno.threshold().get());
            writeln!(table, "{name:8}  {in_flight:17}  {cwnd:12}  {ssthresh:16}").expect("a string");
            // RFC 5681 eq. 4.
            assert_eq!(ssthresh, (in_flight / 2).max(2 * MSS));
            assert_eq!(cwnd, if cause == Cause::Loss { ssthresh } else { MSS });
        }
    }
    assert_snapshot!(table);
}

#[test]
fn the_halving_of_1996_takes_whole_segments_of_what_was_usable() {
    let mut table = String::from("usable [segments]  cwnd [segments]  ssthresh [segments]\n");
    for segments in 1..=9 {
        let mut reno = avoiding(setup(true), segments);
        reno.on_congestion(&congestion(Cause::Loss, 100 * MSS, segments * MSS + 999));
        let (cwnd, ssthresh) = (reno.window().get(), reno.threshold().get());
        assert_eq!((cwnd, ssthresh), (segments / 2 * MSS, (segments / 2).max(2) * MSS), "no floor for the window");
        writeln!(table, "{segments:17}  {:15}  {:19}", cwnd / MSS, ssthresh / MSS).expect("a string");
    }
    assert_snapshot!(table);
}

#[test]
fn nothing_grows_in_recovery_or_without_use_of_the_window() {
    for (may_grow, window_limited) in [(false, true), (true, false)] {
        for mut reno in [Reno::new(setup(false)), avoiding(setup(false), 8)] {
            let (before, acked) = (reno.window(), Bytes::new(MSS));
            let now = Time::ZERO;
            reno.on_ack(&Ack {
                now,
                acked,
                in_flight: before,
                rtt: None,
                srtt: None,
                may_grow,
                window_limited,
                marked: Bytes::ZERO,
            });
            assert_eq!(reno.window(), before);
        }
    }
}

#[test]
fn an_idle_connection_restarts_small_and_keeps_its_threshold() {
    let mut reno = avoiding(setup(false), 12);
    reno.on_congestion(&congestion(Cause::Idle, 0, 12_000));
    assert_eq!((reno.window().get(), reno.threshold().get()), (2_000, 12_000));
}

#[test]
fn a_timeout_that_was_none_is_undone_even_if_it_struck_twice() {
    let mut reno = avoiding(setup(false), 12);
    reno.on_congestion(&congestion(Cause::Timeout, 12_000, 12_000));
    let again = Congestion { repeated: true, ..congestion(Cause::Timeout, 1_000, 1_000) };
    reno.on_congestion(&again);
    assert_eq!((reno.window().get(), reno.threshold().get()), (1_000, 6_000), "RFC 5681 s3.1 keeps ssthresh");
    reno.on_spurious();
    assert_eq!((reno.window().get(), reno.threshold().get()), (12_000, 12_000));
}
