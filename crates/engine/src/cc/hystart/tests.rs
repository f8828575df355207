use super::*;
use crate::units::Bytes;

const MSS: u64 = 1_000;

/// Slow start over a path: rounds of ACKs, two segments each, so far apart and with such a round trip.
struct Path {
    slow_start: SlowStart,
    cwnd: u64,
    rtt_min: Option<Duration>,
    now: Time,
}

impl Path {
    fn of(which: HyStart, cwnd: u64) -> Path {
        Path { slow_start: SlowStart::new(which), cwnd, rtt_min: None, now: Time::from_nanos(1) }
    }

    /// One round: the window grows by what `share` leaves. Returns true if slow start ended in it.
    fn round(&mut self, rtt_ms: u64, gap: Duration) -> bool {
        let rtt = Duration::from_millis(rtt_ms);
        let begun = self.now;
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        let flight = self.cwnd * MSS;
        for number in 0..self.cwnd / 2 {
            self.now = begun + gap * number;
            let ack = Ack {
                now: self.now,
                acked: Bytes::new(2 * MSS),
                // What the window held, less what is acknowledged, with what that let out.
                in_flight: Bytes::new(flight + number * 2 * MSS),
                rtt: Some(rtt),
                srtt: Some(rtt),
                may_grow: true,
                window_limited: true,
                marked: Bytes::ZERO,
            };
            if self.slow_start.is_over(&ack, Some(rtt), self.rtt_min, self.cwnd) {
                return true;
            }
            self.cwnd += self.slow_start.share(2);
        }
        self.now = begun + rtt;
        false
    }
}

#[test]
fn a_train_of_acks_half_a_round_trip_long_ends_slow_start() {
    let gap = Duration::from_micros(500);
    let mut path = Path::of(HyStart::Classic, 20);
    let mut windows = vec![path.cwnd];
    while !path.round(40, gap) {
        windows.push(path.cwnd);
    }
    assert_eq!(windows, [20, 40, 80, 160], "80 segments are 40 ACKs: 19.5 ms, where half of 40 ms and 0.5 ms are 20.5");
    assert_eq!(path.cwnd, 160 + 2 * 42, "at the first ACK that comes after 20.5 ms, number 43 of its round");
}

/// A train that begins with a flight is found in its whole length, in Linux too, however small the window was at first.
#[test]
fn rounds_begin_with_flights_also_where_the_window_was_small() {
    let mut path = Path::of(HyStart::Classic, 10);
    let mut rounds = 0;
    while !path.round(40, Duration::from_micros(500)) {
        rounds += 1;
    }
    assert_eq!((rounds, path.cwnd), (4, 160 + 2 * 42), "as from a window of 20, one round later");
}

#[test]
fn a_train_with_gaps_is_none() {
    let mut path = Path::of(HyStart::Classic, 20);
    for _ in 0..3 {
        assert!(!path.round(40, Duration::from_millis(3)), "3 ms apart");
    }
}

#[test]
fn a_round_trip_longer_by_an_eighth_ends_slow_start_after_eight_samples() {
    let far = Duration::from_millis(3);
    for (rtt, longer, ends) in [(80, 90, false), (80, 91, true), (20, 24, false), (20, 25, true), (400, 417, true)] {
        let mut path = Path::of(HyStart::Classic, 40);
        assert!(!path.round(rtt, far));
        assert_eq!(path.round(longer, far), ends, "{longer} ms after {rtt} ms");
    }
}

#[test]
fn classic_hystart_leaves_small_windows_alone() {
    let mut path = Path::of(HyStart::Classic, 4);
    assert!(!path.round(20, Duration::from_millis(3)));
    assert!(!path.round(200, Duration::from_millis(3)), "8 segments");
}

#[test]
fn hystart_plus_plus_grows_by_a_quarter_for_five_rounds_first() {
    let far = Duration::from_millis(3);
    let mut path = Path::of(HyStart::PlusPlus, 40);
    assert!(!path.round(80, far));
    assert_eq!(path.cwnd, 80);
    // RFC 9406 s4.2: the ninth ACK of this round has eight samples before it.
    assert!(!path.round(95, far));
    assert!(path.cwnd < 120, "conservative: {}", path.cwnd);
    let mut rounds = 0;
    while !path.round(95, far) {
        rounds += 1;
    }
    assert_eq!(rounds, 4, "CSS_ROUNDS is 5, the first of them in part");
}

#[test]
fn hystart_plus_plus_goes_back_to_slow_start_when_the_delay_was_jitter() {
    let far = Duration::from_millis(3);
    let mut path = Path::of(HyStart::PlusPlus, 40);
    assert!(!path.round(80, far));
    assert!(!path.round(95, far));
    assert!(!path.round(80, far));
    let before = path.cwnd;
    assert!(!path.round(80, far));
    assert_eq!(path.cwnd, 2 * before, "doubling again");
}
