use std::fmt::Write;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

const MSS: u64 = 1_000;

/// A controller with an ACK clock: one segment acknowledged at a time, a window in each round trip.
struct Clocked {
    cubic: Cubic,
    now: Time,
    rtt: Duration,
}

impl Clocked {
    /// A window in congestion avoidance just after a loss at `segments` in flight.
    fn after_loss(segments: u64, rtt: Duration) -> Clocked {
        let mut clocked = Clocked::starting(segments, rtt);
        clocked.congestion(Cause::Loss);
        clocked
    }

    fn starting(segments: u64, rtt: Duration) -> Clocked {
        let setup = Setup::rfc(MSS, segments);
        Clocked { cubic: Cubic::new(Parameters::DEFAULT, setup), now: Time::from_nanos(1), rtt }
    }

    fn ack(&mut self, window_limited: bool) {
        let window = self.cubic.window();
        self.now += self.rtt.saturating_mul(MSS) / window.get();
        self.cubic.on_ack(&Ack {
            now: self.now,
            acked: Bytes::new(MSS),
            in_flight: window,
            rtt: Some(self.rtt),
            srtt: Some(self.rtt),
            may_grow: true,
            window_limited,
            marked: Bytes::ZERO,
        });
    }

    /// A window's worth of ACKs.
    fn round(&mut self) {
        let end = self.now + self.rtt;
        while self.now < end {
            self.ack(true);
        }
    }

    fn congestion(&mut self, cause: Cause) {
        let (now, flight) = (self.now, self.cubic.window());
        self.cubic.on_congestion(&Congestion {
            now,
            cause,
            in_flight: flight,
            usable: flight,
            repeated: false,
            pipe: Bytes::ZERO,
            timeouts: 0,
        });
    }

    fn segments(&self) -> f64 {
        self.cubic.state.cwnd as f64 / 65_536.0 / MSS as f64
    }

    fn threshold_segments(&self) -> f64 {
        self.cubic.threshold().get() as f64 / MSS as f64
    }

    /// The time that the present stage has lasted, in seconds.
    fn stage(&self) -> f64 {
        self.cubic.state.epoch.map_or(0.0, |epoch| epoch.elapsed.as_secs_f64())
    }
}

/// RFC 9438 s4.2, figure 1, in segments and seconds.
fn w_cubic(t: f64, w_max: f64, k: f64) -> f64 {
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn after_a_loss_the_window_follows_the_cubic_through_its_old_maximum() {
    let mut clocked = Clocked::after_loss(1_000, Duration::from_millis(100));
    assert_eq!(clocked.segments(), 700.0, "beta_cubic is 0.7");
    let k = ((1_000.0 - 700.0) / 0.4_f64).cbrt(); // 9.086 s
    let mut table = String::from("t [s]  cwnd [segments]  W_cubic(t) [segments]\n");
    let mut second = 0.0;
    while clocked.stage() < 20.0 {
        clocked.ack(true);
        let (t, cwnd) = (clocked.stage(), clocked.segments());
        let ideal = w_cubic(t, 1_000.0, k);
        // A window aimed a round trip R ahead and approached within one runs R^2 W''/2 ahead: 0.13 segments at 20 s.
        // What is left of the half segment is the ACKs' grain.
        assert!((cwnd - ideal).abs() < 0.5, "at {t} s: {cwnd} is not {ideal} segments");
        if t >= second {
            writeln!(table, "{t:5.2}  {cwnd:15.2}  {ideal:21.2}").expect("a string");
            second += 1.0;
        }
    }
    assert!(clocked.segments() > 1_500.0, "beyond the plateau the window probes ever faster");
    assert_snapshot!(table);
}

#[test]
fn where_bandwidth_times_delay_is_small_the_window_grows_as_renos() {
    let mut clocked = Clocked::after_loss(20, Duration::from_millis(10));
    let mut table = String::from("round  cwnd [segments]\n");
    for round in 0..=20 {
        writeln!(table, "{round:5}  {:15.2}", clocked.segments()).expect("a string");
        // 9/17 of a segment a round trip from 14 up to 20, then one.
        let rounds_back = 6.0 / (9.0 / 17.0);
        let grown = f64::from(round).min(rounds_back) * 9.0 / 17.0 + (f64::from(round) - rounds_back).max(0.0);
        assert!((clocked.segments() - 14.0 - grown).abs() < 0.6, "round {round}: {}", clocked.segments());
        clocked.round();
    }
    assert_snapshot!(table);
}

#[test]
fn who_loses_before_getting_back_aims_lower() {
    let mut clocked = Clocked::after_loss(1_000, Duration::from_millis(100));
    for _ in 0..20 {
        clocked.round();
    }
    let window = clocked.segments();
    assert!((800.0..950.0).contains(&window), "on the way back: {window}");
    clocked.congestion(Cause::Loss);
    let w_max = clocked.cubic.state.w_max as f64 / 65_536.0 / MSS as f64;
    assert!((w_max - 0.85 * window).abs() < 0.01, "(1 + 0.7) / 2 of {window} is not {w_max}");
    assert!((clocked.segments() - 0.7 * window).abs() < 0.01);
}

#[test]
fn after_a_timeout_the_cubic_starts_flat_where_slow_start_ends() {
    let mut clocked = Clocked::starting(100, Duration::from_millis(200));
    clocked.congestion(Cause::Timeout);
    assert_eq!((clocked.segments(), clocked.threshold_segments()), (1.0, 70.0));
    let mut acks = 0;
    while clocked.segments() < 70.0 {
        clocked.ack(true);
        acks += 1;
    }
    assert_eq!(acks, 69, "slow start adds a segment for each ACK");
    clocked.ack(true);
    let epoch = clocked.cubic.state.epoch.expect("congestion avoidance");
    assert_eq!((epoch.k, whole(epoch.origin)), (0, 70 * MSS));
    for _ in 0..50 {
        clocked.round();
    }
    let t = clocked.stage();
    assert!((clocked.segments() - w_cubic(t, 70.0, 0.0)).abs() < 1.0, "{} segments after {t} s", clocked.segments());
}

#[test]
fn a_further_timeout_of_the_same_data_keeps_the_threshold() {
    let mut clocked = Clocked::starting(100, Duration::from_millis(200));
    clocked.congestion(Cause::Timeout);
    let (now, flight) = (clocked.now, clocked.cubic.window());
    let again = Congestion {
        now,
        cause: Cause::Timeout,
        in_flight: flight,
        usable: flight,
        repeated: true,
        pipe: Bytes::ZERO,
        timeouts: 0,
    };
    clocked.cubic.on_congestion(&again);
    assert_eq!((clocked.segments(), clocked.threshold_segments()), (1.0, 70.0));
    clocked.cubic.on_spurious();
    assert_eq!((clocked.segments(), clocked.cubic.threshold()), (100.0, Bytes::MAX), "both were mistakes");
}

#[test]
fn time_that_the_application_did_not_use_does_not_count() {
    let rtt = Duration::from_millis(100);
    let (mut busy, mut pausing) = (Clocked::after_loss(1_000, rtt), Clocked::after_loss(1_000, rtt));
    for clocked in [&mut busy, &mut pausing] {
        for _ in 0..1_000 {
            clocked.ack(true);
        }
    }
    // Half a minute with nothing in flight, then as before.
    pausing.now += Duration::from_secs(30);
    pausing.cubic.on_sent(pausing.now, Bytes::new(MSS), Bytes::new(MSS));
    for clocked in [&mut busy, &mut pausing] {
        for _ in 0..1_000 {
            clocked.ack(true);
        }
    }
    assert_eq!(pausing.cubic.window(), busy.cubic.window());
    // ACKs of data that did not fill the window neither grow it nor count.
    let window = pausing.cubic.window();
    for _ in 0..1_000 {
        pausing.ack(false);
    }
    assert_eq!(pausing.cubic.window(), window);
    pausing.ack(true);
    busy.ack(true);
    assert_eq!(pausing.cubic.window(), busy.cubic.window());
}

#[test]
fn a_loss_that_was_none_leaves_no_trace() {
    let mut clocked = Clocked::after_loss(1_000, Duration::from_millis(100));
    for _ in 0..30 {
        clocked.round();
    }
    for cause in [Cause::Loss, Cause::Timeout] {
        let before = format!("{:?}", clocked.cubic.state);
        clocked.congestion(cause);
        assert_ne!(format!("{:?}", clocked.cubic.state), before);
        clocked.cubic.on_spurious();
        assert_eq!(format!("{:?}", clocked.cubic.state), before, "{cause:?}");
    }
}

#[test]
fn a_window_of_acks_grows_the_window_by_half_at_most() {
    // With a round trip of 20 s the cubic asks for 0.4 (20 - 1.96)^3 segments more at once.
    let mut clocked = Clocked::after_loss(10, Duration::from_secs(20));
    let mut most = 0.0_f64;
    for _ in 0..14 {
        let before = clocked.segments();
        clocked.ack(true);
        most = most.max(clocked.segments() - before);
    }
    assert!((most - 0.5).abs() < 1e-3, "half a window for a window of ACKs is half a segment for each: {most}");
}

#[test]
fn the_window_after_an_idle_time_is_the_initial_one() {
    let mut clocked = Clocked::starting(10, Duration::from_millis(100));
    for _ in 0..90 {
        clocked.ack(true);
    }
    assert_eq!(clocked.segments(), 100.0);
    clocked.congestion(Cause::Idle);
    assert_eq!((clocked.segments(), clocked.cubic.threshold()), (10.0, Bytes::MAX));
}

proptest! {
    #[test]
    fn the_cube_root_is_the_largest_whose_cube_fits(n in any::<u128>().prop_map(|n| n >> 4)) {
        let root = u128::from(cube_root(n));
        prop_assert!(root.pow(3) <= n && n < (root + 1).pow(3));
    }

    #[test]
    fn a_stage_begins_at_its_window_and_passes_its_maximum_at_k(
        segments in 2..2_000_000_u64,
        share in 1..100_u64,
        mss in 64..9_000_u64,
    ) {
        let (cwnd, w_max) = (fixed(segments * mss) * share / 100, fixed(segments * mss));
        let epoch = begin(cwnd, w_max, mss);
        // The slope of the cubic at its start, 3 C K^2, times the unit of K, and rounding.
        let k = epoch.k as f64 / 65_536.0;
        let bound = 3.0 * 0.4 * mss as f64 * k * k / 65_536.0 + 0.001 + segments as f64 * mss as f64 * 1e-6;
        let off = (epoch.window(Duration::ZERO, mss) as f64 - cwnd as f64) / 65_536.0;
        prop_assert!(off.abs() <= bound, "{off} bytes off, bound {bound}");
        let at_k = epoch.window(Duration::from_nanos((k * 1e9) as u64), mss);
        prop_assert!(w_max - at_k <= 65_536, "a byte of W_max at K");
    }

    #[test]
    fn the_window_never_falls_on_an_ack_nor_below_two_segments_on_a_loss(
        events in proptest::collection::vec((0..40_u8, 1..200_000_u64, 0..2_000_000_000_u64), 1..300),
    ) {
        let mut clocked = Clocked::starting(10, Duration::from_millis(50));
        for (kind, acked, gap) in events {
            let before = clocked.cubic.window();
            clocked.now += Duration::from_nanos(gap);
            match kind {
                0 => clocked.congestion(Cause::Loss),
                1 => clocked.congestion(Cause::Timeout),
                2 => clocked.cubic.on_spurious(),
                _ => clocked.cubic.on_ack(&Ack {
                    now: clocked.now,
                    acked: Bytes::new(acked),
                    in_flight: before,
                    rtt: None,
                    srtt: Some(Duration::from_nanos(gap)),
                    may_grow: true,
                    window_limited: kind % 4 != 0,
                    marked: Bytes::ZERO,
                }),
            }
            match kind {
                0 => prop_assert!(clocked.cubic.window() >= Bytes::new(2 * MSS)),
                1 => prop_assert_eq!(clocked.cubic.window(), Bytes::new(MSS)),
                _ => prop_assert!(clocked.cubic.window() >= before),
            }
        }
    }
}
