use super::*;
use crate::time::Time;

const MSS: u64 = 1_000;

/// A path of a set delay and rate, as a window sees it: what the path does not hold waits.
struct Path {
    vegas: Vegas,
    base_ms: u64,
    holds: u64,
}

impl Path {
    fn new(initial: u64, holds: u64) -> Path {
        let vegas = Vegas::new(Parameters::DEFAULT, &Setup::linux(MSS, initial));
        Path { vegas, base_ms: 100, holds }
    }

    fn segments(&self) -> u64 {
        self.vegas.window().get() / MSS
    }

    /// A window's worth of acknowledgements, one for each segment.
    fn round(&mut self) -> u64 {
        let window = self.segments();
        let rtt_ms = self.base_ms * window.max(self.holds) / self.holds;
        for _ in 0..window {
            self.ack(rtt_ms, self.segments(), true);
        }
        self.segments()
    }

    fn ack(&mut self, rtt_ms: u64, in_flight: u64, may_grow: bool) {
        self.vegas.on_ack(&Ack {
            now: Time::ZERO,
            acked: Bytes::new(MSS),
            in_flight: Bytes::new(in_flight * MSS),
            rtt: Some(Duration::from_millis(rtt_ms)),
            srtt: None,
            may_grow,
            window_limited: true,
            marked: Bytes::ZERO,
        });
    }

    fn congest(&mut self, cause: Cause, pipe: u64) {
        self.vegas.on_congestion(&Congestion {
            now: Time::ZERO,
            cause,
            in_flight: Bytes::ZERO,
            usable: Bytes::ZERO,
            repeated: false,
            pipe: Bytes::new(pipe * MSS),
            timeouts: 1,
        });
    }
}

#[test]
fn slow_start_doubles_in_every_other_round_trip() {
    let mut path = Path::new(4, 1_000);
    let mut windows = Vec::new();
    for _ in 0..8 {
        windows.push(path.round());
    }
    for rounds in windows.windows(3) {
        assert!((2 * rounds[0]..=2 * rounds[0] + rounds[0] / 4).contains(&rounds[2]), "{windows:?}");
    }
}

#[test]
fn slow_start_ends_with_what_the_path_carries_and_a_packet() {
    let mut path = Path::new(4, 20);
    path.round();
    while path.vegas.threshold() == Bytes::MAX {
        path.round();
    }
    assert!((18..=23).contains(&path.segments()), "{} where the path carries 20", path.segments());
}

#[test]
fn the_window_comes_to_rest_with_alpha_to_beta_packets_in_the_queue() {
    for holds in [10, 25, 200] {
        for initial in [2, 3 * holds] {
            let mut path = Path::new(initial, holds);
            // The base round trip is known from before.
            path.ack(path.base_ms, initial, true);
            path.vegas.ssthresh = path.segments();
            for _ in 0..600 {
                path.round();
            }
            let at_rest = path.segments();
            assert!(
                (holds + 2..=holds + 5).contains(&at_rest),
                "{at_rest} from {initial} where the path holds {holds}"
            );
            assert_eq!(path.round(), at_rest, "at rest");
        }
    }
}

#[test]
fn the_window_moves_by_a_packet_a_round_trip() {
    let mut path = Path::new(40, 100);
    path.ack(path.base_ms, 40, true);
    path.vegas.ssthresh = 1;
    let first = path.segments();
    for round in 1..=20 {
        path.round();
        let grown = path.segments() - first;
        assert!((round - 1..=round + 1).contains(&grown), "{grown} packets in {round} round trips");
    }
}

#[test]
fn a_loss_halves_the_window_and_a_mistake_is_taken_back() {
    let mut path = Path::new(40, 100);
    path.congest(Cause::Loss, 0);
    assert_eq!((path.segments(), path.vegas.threshold().get() / MSS), (20, 20));
    for _ in 0..100 {
        path.ack(100, 40, false);
    }
    assert_eq!(path.segments(), 20, "held by recovery");
    path.vegas.on_spurious();
    assert_eq!((path.segments(), path.vegas.threshold()), (40, Bytes::MAX));
}

#[test]
fn a_timeout_and_a_pause_begin_slow_start_again() {
    let mut path = Path::new(10, 100);
    path.vegas.cwnd = 40;
    path.congest(Cause::Idle, 0);
    assert_eq!((path.segments(), path.vegas.threshold().get() / MSS), (10, 40));
    path.congest(Cause::Timeout, 3);
    assert_eq!((path.segments(), path.vegas.threshold().get() / MSS), (4, 5));
}
