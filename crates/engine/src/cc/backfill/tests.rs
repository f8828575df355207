use super::law::SEGMENT;
use super::*;

/// 25 Mbit/s in packets of 1500 bytes, 2^-24 segments a microsecond: 2.083 packets in a millisecond.
const RATE: u64 = (25_000_000 << 24) / 12_000_000_000;
const BASE_US: u64 = 60_000;

/// A path on which a law is told of one acknowledgement after the other.
struct Path {
    law: Law,
    now_us: u64,
    delivered: u64,
    base_us: u64,
    queue_us: u64,
}

impl Path {
    fn new() -> Path {
        Path { law: Law::new(Guard::None, 10, u64::MAX), now_us: 1, delivered: 0, base_us: BASE_US, queue_us: 0 }
    }

    /// Round trips of a window's acknowledgements, of which one in so many tells of a loss.
    fn rounds(&mut self, rounds: u64, loss_in: u64) -> &mut Path {
        for _ in 0..rounds {
            let window = self.law.cwnd(self.now_us);
            let rtt_us = self.base_us + self.queue_us;
            // What the path holds at its rate, and what the window allows.
            let rate = RATE.min((window << 24) / rtt_us);
            for _ in 0..window {
                self.now_us += rtt_us / window;
                self.delivered += 1;
                self.law.on_ack(Heard {
                    now_us: self.now_us,
                    rtt_us,
                    acked: 1,
                    lost: u64::from(self.delivered.is_multiple_of(loss_in)),
                    delivered: self.delivered,
                    prior_delivered: self.delivered.saturating_sub(window),
                    una: self.delivered,
                    sent: self.delivered + window,
                    rate,
                    is_app_limited: false,
                    is_window_limited: true,
                });
            }
        }
        self
    }
}

const NO_LOSS: u64 = u64::MAX;

#[test]
fn damage_does_not_shrink_the_window_of_a_short_queue() {
    let mut path = Path::new();
    path.rounds(100, 20);
    let bdp = (RATE * BASE_US) >> 24;
    let cwnd = path.law.cwnd(path.now_us);
    assert!((bdp - 2..=bdp * 12 / 10).contains(&cwnd), "{cwnd} of {bdp}");
    assert!(path.law.claim < bdp / 4 * SEGMENT, "CUBIC's window has seen every loss: {}", path.law.claim / SEGMENT);
    assert!(path.law.pace(path.now_us) > RATE, "it is paced, faster than the path");
}

#[test]
fn the_filling_window_gives_way_to_a_queue_and_cubic_s_leads() {
    let mut path = Path::new();
    path.rounds(50, 400);
    assert!(path.law.fill > path.law.claim);
    path.queue_us = 30_000;
    path.rounds(30, 400);
    assert!(path.law.fill < path.law.claim, "{} and {}", path.law.fill / SEGMENT, path.law.claim / SEGMENT);
    assert_eq!(path.law.pace(path.now_us), 0, "CUBIC's window is not paced");
}

#[test]
fn losses_count_by_cubic_s_share_of_the_window() {
    let mut path = Path::new();
    path.rounds(60, 50);
    let (claim, share) = (path.law.claim, path.law.claim as f64 / path.law.fill as f64);
    assert!(share < 0.5, "{share}");
    let una = path.delivered + 1_000;
    let heard = Heard { now_us: path.now_us, lost: 1, una, sent: una, ..Heard::default() };
    let losses = (1..100).find(|_| {
        path.law.on_ack(heard);
        path.law.claim < claim
    });
    let expected = (1.0 / share) as i32;
    assert!((1..=expected + 1).contains(&losses.expect("a cut")), "{losses:?} of {expected}");
    let claim = path.law.claim;
    let losses = (1..100).find(|_| {
        path.law.on_ack(heard);
        path.law.claim < claim
    });
    assert!(losses.expect("another") > expected, "of a smaller share: {losses:?} of {expected}");
}

#[test]
fn a_route_that_gets_longer_is_found_within_ten_seconds() {
    let mut path = Path::new();
    path.rounds(100, 20);
    let changed_us = path.now_us;
    path.base_us = 2 * BASE_US;
    while path.law.cwnd(path.now_us) < 2 * ((RATE * BASE_US) >> 24) - 5 {
        path.rounds(1, 20);
        assert!(path.now_us < changed_us + 10_000_000, "cwnd {}", path.law.cwnd(path.now_us));
    }
    assert_eq!(path.law.base_us, 2 * BASE_US);
}

#[test]
fn a_shorter_route_is_taken_at_once() {
    let mut path = Path::new();
    path.rounds(50, 50);
    path.base_us = BASE_US / 2;
    path.rounds(1, 50);
    assert_eq!(path.law.base_us, BASE_US / 2);
}

#[test]
fn a_time_out_halves_the_filling_window_and_starts_again() {
    let mut path = Path::new();
    path.rounds(50, 50);
    let fill = path.law.fill;
    path.law.on_timeout(0, false);
    assert_eq!((path.law.fill, path.law.claim, path.law.is_starting), (fill / 2, SEGMENT, true));
    path.rounds(10, 50);
    assert!(path.law.fill > fill * 9 / 10);
}

#[test]
fn a_cut_that_was_a_mistake_is_taken_back() {
    let mut path = Path::new();
    path.rounds(50, 50);
    path.queue_us = 60_000;
    path.rounds(100, NO_LOSS);
    let claim = path.law.claim;
    path.rounds(1, path.delivered + 1);
    assert!(path.law.claim < claim);
    path.law.undo();
    assert!(path.law.claim >= claim);
}

#[test]
fn a_pause_halves_both_windows_for_each_time_out_it_lasts() {
    let mut path = Path::new();
    path.rounds(50, 50);
    let fill = path.law.fill;
    path.law.on_idle(1, 10);
    assert_eq!(path.law.fill, fill / 2);
    path.law.on_idle(60, 10);
    assert_eq!(path.law.cwnd(path.now_us), 10);
}
