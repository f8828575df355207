use super::law::{Heard, Law, averaged, has_queue, step};
use super::*;
use crate::rng::Rng;
use crate::time::Duration;

const MSS: u64 = 1_000;

/// FAST as published: its base is never checked.
fn controller(alpha_packets: u32, segments: u64) -> Box<dyn Controller> {
    Parameters { alpha_packets, check_seconds: 0, ..Parameters::DEFAULT }.start(&Setup::linux(MSS, segments))
}

fn ack(at_ms: u64, rtt_ms: u64, segments: u64) -> Ack {
    Ack {
        now: Time::from_nanos(at_ms * 1_000_000),
        acked: Bytes::new(segments * MSS),
        in_flight: Bytes::new(MSS),
        rtt: Some(Duration::from_millis(rtt_ms)),
        srtt: None,
        may_grow: true,
        window_limited: true,
        marked: Bytes::ZERO,
    }
}

fn congestion(at_ms: u64, cause: Cause, pipe: u64) -> Congestion {
    Congestion {
        now: Time::from_nanos(at_ms * 1_000_000),
        cause,
        in_flight: Bytes::ZERO,
        usable: Bytes::ZERO,
        repeated: false,
        pipe: Bytes::new(pipe * MSS),
        timeouts: 1,
    }
}

/// The window at which the law comes to rest from `w` with these round trips.
fn rest(mut w: u64, base: u64, average: u64, alpha: u64, gamma: u64) -> u64 {
    for _ in 0..100_000 {
        let next = step(w, base, average, alpha, gamma);
        if next == w {
            return w;
        }
        w = next;
    }
    panic!("no rest from d = {base}, D = {average}, alpha = {alpha}, gamma = {gamma}%: last at {w}");
}

#[test]
fn the_windows_are_those_of_the_vectors() {
    let text = include_str!("vectors.csv");
    let mut law = Law::new(Parameters::DEFAULT, 1, u64::MAX);
    let mut checked = 0;
    for (number, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number_in = |column: usize| cells[column].parse::<u64>();
        let value =
            |column: usize| number_in(column).unwrap_or_else(|_| panic!("line {}: column {column}", number + 1));
        let now_us = value(5);
        match cells[4] {
            "start" => {
                let parameters = Parameters {
                    alpha_packets: value(1) as u32,
                    gamma_percent: value(2) as u32,
                    update_rounds: value(3) as u32,
                    check_seconds: value(14) as u32,
                };
                law = Law::new(parameters, value(12), value(13));
            }
            "ack" => law.on_ack(Heard {
                now_us,
                rtt_us: number_in(6).ok(),
                acked: value(7),
                is_recovering: value(8) == 1,
                is_window_limited: value(9) == 1,
            }),
            "halve" => law.halve(now_us),
            "restart" => law.restart(now_us, value(10), value(11)),
            "begin" => law.begin(value(6)),
            "undo" => law.undo(value(10), value(11)),
            other => panic!("line {}: {other:?} is no event", number + 1),
        }
        assert_eq!((law.cwnd, law.ssthresh), (value(12), value(13)), "line {}: {line}", number + 1);
        checked += 1;
    }
    assert!(checked > 500, "{checked} rows");
}

#[test]
fn at_rest_the_window_is_that_of_alpha_within_the_rounding() {
    // Equation (5): (alpha - 2) D / (D - d) < w <= alpha D / (D - d).
    let mut rng = Rng::named(5, "fast");
    for _ in 0..2_000 {
        let base = rng.below(200_000) + 1;
        let average = base + rng.below(base) + 1;
        let alpha = rng.below(40) + 1;
        let start = rng.below(2_000) + 1;
        let w = rest(start, base, average, alpha, 50);
        let (left, waits) = (w * (average - base), average);
        let case = format!("seed 5: w = {w} from {start}, d = {base}, D = {average}, alpha = {alpha}");
        assert!(left <= alpha * waits || w == 1, "{case}");
        assert!(left + 2 * waits > alpha * waits, "{case}");
    }
}

#[test]
fn both_bounds_of_the_window_at_rest_are_reached() {
    // d = 100, D = 104: alpha D / (D - d) = 26 alpha. From above the law stops at the upper bound, from below just over
    // the lower one.
    assert_eq!(rest(1_000, 100, 104, 4, 50), 104);
    assert_eq!(rest(1, 100, 104, 4, 50), 53);
    assert_eq!(rest(10, 100, 104, 2, 50), 10, "for alpha up to 2 every small window is at rest");
}

#[test]
fn without_the_floor_the_window_at_rest_would_be_that_of_equation_4() {
    // In steps a thousandth of a segment long, the floor is one of a thousandth too.
    for (base, average, alpha) in [(100, 104, 4), (100, 150, 10), (100, 101, 1)] {
        let exact = 1_000 * alpha * average / (average - base);
        let reached = rest(1_000, base, average, 1_000 * alpha, 50);
        let slack = 2 * average / (average - base);
        assert!(exact - reached <= slack, "{reached} of {exact} thousandths, d = {base}, D = {average}");
    }
}

#[test]
fn the_largest_of_everything_does_not_overflow() {
    let widest = (1 << 34) - 1;
    assert_eq!(step(1 << 22, widest, widest, 1_000_000, 100), (1 << 22) + 1_000_000);
    assert_eq!(averaged(widest, 0, 1 << 22), widest - widest * 3 / (1 << 22));
    assert!(has_queue(1 << 22, 1, widest, 1_000_000));
}

#[test]
fn a_window_at_most_doubles_and_never_vanishes() {
    assert_eq!(step(3, 100, 100, 1_000, 50), 6);
    assert_eq!(step(1, 1, 1_000, 1, 50), 1);
}

#[test]
fn slow_start_ends_where_alpha_packets_wait() {
    let mut fast = controller(4, 10);
    fast.on_ack(&ack(100, 100, 2));
    assert_eq!(fast.window(), Bytes::new(12 * MSS), "no queue: a segment for each acknowledged");
    assert_eq!(fast.threshold(), Bytes::MAX);
    // 12 segments, of which 3.9 wait at D = 148 ms and 4.1 at 153.
    fast.on_ack(&ack(110, 292, 2));
    assert_eq!((fast.window().get() / MSS, fast.threshold()), (14, Bytes::MAX));
    fast.on_ack(&ack(120, 292, 2));
    assert_eq!((fast.window().get() / MSS, fast.threshold().get() / MSS), (14, 14), "now it does");
}

#[test]
fn the_window_moves_in_one_round_trip_and_stays_in_the_next() {
    let mut fast = controller(20, 10);
    fast.on_ack(&ack(0, 100, 0));
    fast.on_congestion(&congestion(0, Cause::Loss, 0));
    assert_eq!(fast.window().get() / MSS, 5);
    let mut windows = Vec::new();
    for at in (20..=480).step_by(20) {
        fast.on_ack(&ack(at, 100, 1));
        windows.push(fast.window().get() / MSS);
    }
    // At 200 ms the window is to be min(2w, w + alpha / 2) = 10, a segment with each acknowledgement; at 400 ms, 20.
    assert_eq!(windows[..9], [5; 9]);
    assert_eq!(windows[9..14], [6, 7, 8, 9, 10]);
    assert_eq!(windows[14..19], [10; 5]);
    assert_eq!(windows[19..], [11, 12, 13, 14, 15]);
}

#[test]
fn a_window_that_the_law_has_shrunk_is_in_no_slow_start() {
    let mut fast = controller(4, 40);
    fast.on_ack(&ack(0, 100, 0));
    for at in 0..1_000 {
        fast.on_ack(&ack(10 * at, 150, 1));
    }
    // D = 150 ms: 4 packets wait of 12, and with equation (5) 7 is at rest too.
    let shrunk = fast.window().get() / MSS;
    assert!((7..=12).contains(&shrunk), "{shrunk}");
    for at in 0..9 {
        // No queue, but the law has not come round again.
        fast.on_ack(&ack(9_990 + at, 100, 1));
    }
    assert!(fast.window().get() / MSS <= shrunk + 2, "{} after {shrunk}", fast.window());
}

#[test]
fn a_window_that_is_not_used_does_not_grow_but_may_shrink() {
    let mut fast = controller(20, 100);
    fast.on_ack(&Ack { window_limited: false, ..ack(100, 100, 50) });
    assert_eq!(fast.window().get() / MSS, 100);
    for at in 0..100 {
        fast.on_ack(&Ack { window_limited: false, ..ack(200 + 50 * at, 400, 1) });
    }
    assert!(fast.window() < Bytes::new(50 * MSS), "{} with most of it waiting", fast.window());
}

#[test]
fn a_loss_halves_the_window_and_a_mistake_is_taken_back() {
    let mut fast = controller(20, 40);
    fast.on_ack(&ack(100, 100, 0));
    fast.on_congestion(&congestion(100, Cause::Loss, 0));
    assert_eq!((fast.window().get() / MSS, fast.threshold().get() / MSS), (20, 20));
    fast.on_ack(&Ack { may_grow: false, ..ack(1_000, 100, 10) });
    assert_eq!(fast.window().get() / MSS, 20, "held by recovery");
    fast.on_spurious();
    assert_eq!((fast.window().get() / MSS, fast.threshold()), (40, Bytes::MAX));
}

#[test]
fn a_timeout_begins_slow_start_again_with_what_is_known_of_the_path() {
    let mut fast = controller(20, 40);
    fast.on_ack(&ack(100, 100, 0));
    fast.on_congestion(&congestion(200, Cause::Timeout, 3));
    assert_eq!((fast.window().get() / MSS, fast.threshold().get() / MSS), (4, 20));
    fast.on_ack(&ack(300, 100, 2));
    assert_eq!(fast.window().get() / MSS, 6);
    fast.on_congestion(&Congestion { repeated: true, ..congestion(400, Cause::Timeout, 0) });
    assert_eq!((fast.window().get() / MSS, fast.threshold().get() / MSS), (1, 20));
}

#[test]
fn after_a_pause_slow_start_ends_where_the_window_was() {
    let mut fast = controller(20, 10);
    for at in 0..10 {
        fast.on_ack(&ack(100 + at, 100, 2));
    }
    assert_eq!(fast.window().get() / MSS, 30);
    fast.on_congestion(&congestion(9_000, Cause::Idle, 0));
    assert_eq!((fast.window().get() / MSS, fast.threshold().get() / MSS), (10, 30));
}
