use super::*;
use crate::cc::{Ack, Algorithm, Cause, Controller, cubic, reno};
use crate::time::{Duration, Time};

const MSS: u64 = 1_000;
const RENO: Algorithm = Algorithm::Reno(reno::Parameters);
const CUBIC: Algorithm = Algorithm::Cubic(cubic::Parameters::DEFAULT);

/// A controller of Linux's and its clock.
struct Clocked {
    controller: Box<dyn Controller>,
    now: Time,
    rtt: Duration,
}

impl Clocked {
    fn new(algorithm: &Algorithm, segments: u64, rtt_ms: u64) -> Clocked {
        let setup = Setup::linux(MSS, segments);
        Clocked { controller: algorithm.start(&setup), now: Time::from_nanos(1), rtt: Duration::from_millis(rtt_ms) }
    }

    fn ack(&mut self, segments: u64) {
        self.controller.on_ack(&Ack {
            now: self.now,
            acked: Bytes::new(segments * MSS),
            in_flight: self.controller.window(),
            rtt: Some(self.rtt),
            srtt: Some(self.rtt),
            may_grow: true,
            window_limited: true,
            marked: Bytes::ZERO,
        });
    }

    /// A window's worth of ACKs, each of so many segments, in a round trip.
    fn round(&mut self, each: u64) {
        let acks = (self.segments() / each).max(1);
        for _ in 0..acks {
            self.now += self.rtt / acks;
            self.ack(each);
        }
    }

    fn congest(&mut self, cause: Cause, pipe: u64, timeouts: u64) {
        let window = self.controller.window();
        self.controller.on_congestion(&Congestion {
            now: self.now,
            cause,
            in_flight: window,
            usable: window,
            repeated: false,
            pipe: Bytes::new(pipe * MSS),
            timeouts,
        });
    }

    fn segments(&self) -> u64 {
        assert_eq!(self.controller.window().get() % MSS, 0, "a window in whole segments");
        self.controller.window().get() / MSS
    }

    fn threshold(&self) -> u64 {
        self.controller.threshold().get() / MSS
    }
}

#[test]
fn a_loss_leaves_whole_segments_of_the_window() {
    for (algorithm, windows) in [(RENO, [(21, 10), (3, 2)]), (CUBIC, [(21, 14), (3, 2)])] {
        for (before, after) in windows {
            let mut clocked = Clocked::new(&algorithm, before, 50);
            clocked.congest(Cause::Loss, 0, 0);
            assert_eq!((clocked.segments(), clocked.threshold()), (after, after), "{algorithm:?} at {before}");
        }
    }
}

#[test]
fn delayed_acknowledgements_cost_reno_no_growth() {
    for each in [1, 2, 4] {
        let mut clocked = Clocked::new(&RENO, 40, 50);
        clocked.congest(Cause::Loss, 0, 0);
        for _ in 0..20 {
            clocked.round(each);
        }
        let grown = clocked.segments() - 20;
        assert!((17..=20).contains(&grown), "a segment a round, with an ACK for every {each}: {grown}");
    }
}

#[test]
fn slow_start_stops_at_the_threshold_and_hands_the_rest_on() {
    let mut clocked = Clocked::new(&RENO, 40, 50);
    clocked.congest(Cause::Timeout, 0, 0);
    assert_eq!((clocked.segments(), clocked.threshold()), (1, 20));
    clocked.ack(15);
    assert_eq!(clocked.segments(), 16);
    clocked.ack(8);
    assert_eq!(clocked.segments(), 20, "four in slow start, four towards the next segment");
    clocked.ack(15);
    assert_eq!(clocked.segments(), 20);
    clocked.ack(1);
    assert_eq!(clocked.segments(), 21, "4 + 15 + 1 are a window");
}

#[test]
fn after_a_timeout_the_window_is_what_is_still_out_and_a_segment() {
    for algorithm in [RENO, CUBIC] {
        let mut clocked = Clocked::new(&algorithm, 30, 50);
        clocked.congest(Cause::Timeout, 4, 0);
        assert_eq!(clocked.segments(), 5, "{algorithm:?}");
    }
}

#[test]
fn a_pause_halves_the_window_for_every_timeout_that_it_lasted() {
    for algorithm in [RENO, CUBIC] {
        let mut clocked = Clocked::new(&algorithm, 10, 50);
        clocked.ack(90);
        assert_eq!(clocked.segments(), 100);
        clocked.congest(Cause::Idle, 0, 2);
        assert_eq!(clocked.segments(), 25, "{algorithm:?}");
        clocked.congest(Cause::Idle, 0, 70);
        assert_eq!(clocked.segments(), 10, "not below the initial window");
    }
}

#[test]
fn a_mistaken_reduction_leaves_the_window_where_it_was() {
    for (algorithm, cause) in [(RENO, Cause::Loss), (CUBIC, Cause::Timeout)] {
        let mut clocked = Clocked::new(&algorithm, 30, 50);
        clocked.congest(cause, 0, 0);
        clocked.controller.on_spurious();
        assert_eq!((clocked.segments(), clocked.controller.threshold()), (30, Bytes::MAX), "{algorithm:?}");
    }
}

/// RFC 9438 s4.2, figure 1, in segments and seconds.
fn w_cubic(t: f64, w_max: f64) -> f64 {
    let k = (0.3 * w_max / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn cubic_follows_its_curve_within_one_percent() {
    let mut clocked = Clocked::new(&CUBIC, 1_000, 100);
    clocked.congest(Cause::Loss, 0, 0);
    let start = clocked.now;
    for _ in 0..150 {
        clocked.round(2);
        let t = clocked.now.since(start).as_secs_f64();
        let (cwnd, ideal) = (clocked.segments() as f64, w_cubic(t, 1_000.0));
        assert!((cwnd / ideal - 1.0).abs() < 0.01, "at {t} s: {cwnd} is not {ideal} segments");
    }
}

#[test]
fn where_the_cubic_is_slow_the_window_grows_by_8_15_of_a_segment() {
    let mut clocked = Clocked::new(&CUBIC, 30, 10);
    clocked.congest(Cause::Loss, 0, 0);
    assert_eq!(clocked.segments(), 21);
    for _ in 0..30 {
        clocked.round(2);
    }
    let grown = clocked.segments() - 21;
    assert!((14..=16).contains(&grown), "30 rounds of 8/15: {grown}");
}

#[test]
fn after_slow_start_without_a_loss_cubic_grows_by_five_percent_a_round() {
    let mut clocked = Clocked::new(&CUBIC, 200, 100);
    clocked.congest(Cause::Timeout, 139, 0);
    assert_eq!((clocked.segments(), clocked.threshold()), (140, 140));
    for _ in 0..5 {
        clocked.round(2);
    }
    let grown = clocked.segments() as f64 / 140.0;
    assert!((1.24..1.30).contains(&grown), "1.05 to the fifth is 1.28: {grown}");
}
