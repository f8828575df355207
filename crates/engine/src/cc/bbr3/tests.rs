//! The draft's appendix *BBR Example Test Cases*, in its order and each named in its terms, over a path in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::cc::path::{Fate, Path, Shot};

const RTT: Duration = Duration::from_millis(40);

type Shots = Vec<Shot<Bbr3>>;

/// A path of so many Mbit/s and 40 ms with room for so many BDPs to wait.
fn path(mbit: u64, bdps: u64) -> Path<Bbr3> {
    let rate = Rate::mbit(mbit);
    Path::new(Bbr3::new, rate, RTT, bdps * rate.bytes_in(RTT).get())
}

/// Runs until the state is this one.
fn until(path: &mut Path<Bbr3>, state: State) -> Bbr3 {
    last(&path.until(|bbr| bbr.state == state))
}

fn last(shots: &Shots) -> Bbr3 {
    shots.last().expect("something was acknowledged").controller.clone()
}

/// The states in their order, each once.
fn states(shots: &Shots) -> Vec<State> {
    let mut states: Vec<State> = shots.iter().map(|shot| shot.controller.state).collect();
    states.dedup();
    states
}

/// The rate of delivery from the first shot to the last [bit/s].
fn goodput(shots: &Shots) -> u64 {
    let (first, last) = (&shots[0], &shots[shots.len() - 1]);
    (last.delivered - first.delivered) * 8_000 / last.now.since(first.now).as_millis().max(1)
}

/// One of so many segments is lost from now on.
fn lose_one_in(path: &mut Path<Bbr3>, every: u64) {
    let mut sent = 0;
    path.fate = Box::new(move |_, _| {
        sent += 1;
        if sent % every == 0 { Fate::IsLost } else { Fate::Passes }
    });
}

fn is_within(value: u64, percent: u64, of: u64) -> bool {
    value.abs_diff(of) * 100 <= of * percent
}

#[test]
fn exiting_startup_on_bandwidth_plateau() {
    let mut path = path(20, 4);
    let shots = path.until(|bbr| bbr.state == State::Drain);
    let bbr = last(&shots);
    assert_eq!(states(&shots), [State::Startup, State::Drain]);
    assert!(bbr.full_rate.is_reached && bbr.full_rate.was_reached);
    assert_eq!(bbr.full_rate.rounds, 3);
    assert!(is_within(bbr.max_rate.most(), 2, 20_000_000), "{}", bbr.max_rate.most());
    assert_eq!(path.dropped, 0);
}

#[test]
fn exiting_startup_on_loss_when_application_limited() {
    let mut path = path(20, 4);
    path.writes = Some(Rate::mbit(10));
    path.run(Duration::from_secs(2));
    let before = last(&path.run(RTT));
    assert_eq!(before.state, State::Startup);
    lose_one_in(&mut path, 4);
    // So little was in flight that Drain can end as it begins.
    let bbr = last(&path.until(|bbr| bbr.state != State::Startup));
    assert!(bbr.full_rate.rounds < 3, "no plateau was seen: {:?}", bbr.full_rate);
    assert!(bbr.full_rate.is_reached && bbr.full_rate.was_reached);
    assert_ne!(bbr.bounds.inflight_long, u64::MAX);
}

#[test]
fn exiting_drain_based_on_inflight() {
    let mut path = path(20, 4);
    let bbr = until(&mut path, State::Drain);
    assert_eq!(bbr.state.pacing_gain(), 50);
    let shots = path.until(|bbr| bbr.state != State::Drain);
    let (end, before) = (&shots[shots.len() - 1], &shots[shots.len() - 2]);
    // There is nothing left to drain in Down either, which so ends with the same acknowledgement.
    assert_eq!(end.controller.state, State::Cruise);
    assert!(before.in_flight > before.controller.inflight(before.controller.rate), "it was more until then");
    assert!(end.in_flight <= end.controller.inflight(end.controller.rate));
    assert!(end.controller.rounds.count <= bbr.drain_from + 3);
}

#[test]
fn exiting_drain_based_on_time() {
    let mut path = path(20, 4);
    let begun = until(&mut path, State::Drain);
    // The draft says 10%, with which half of the rate drains the queue in time: so much is not left to it.
    path.rate = Rate::mbit(9);
    let shots = path.until(|bbr| bbr.state != State::Drain);
    let end = &shots[shots.len() - 1];
    assert_eq!(end.controller.state, State::Down);
    assert!(end.in_flight > end.controller.inflight(end.controller.rate), "the queue is still there");
    assert_eq!(end.controller.rounds.count, begun.drain_from + 4);
}

#[test]
fn exiting_probe_up_on_bandwidth_plateau() {
    let mut path = path(20, 4);
    until(&mut path, State::Up);
    let shots = path.until(|bbr| bbr.state != State::Up);
    let bbr = last(&shots);
    assert_eq!(bbr.state, State::Down);
    assert!(bbr.full_rate.is_reached && bbr.full_rate.rounds == 3, "{:?}", bbr.full_rate);
    assert!(!bbr.probe.was_too_high && path.dropped == 0);
}

#[test]
fn exiting_probe_up_on_loss_when_application_limited() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    path.writes = Some(Rate::mbit(15));
    until(&mut path, State::Up);
    let before = last(&path.run(RTT));
    assert_eq!(before.state, State::Up);
    lose_one_in(&mut path, 5);
    let bbr = last(&path.until(|bbr| bbr.state != State::Up));
    assert!(matches!(bbr.state, State::Down | State::Cruise), "little was in flight: {:?}", bbr.state);
    assert!(bbr.probe.was_too_high && !bbr.full_rate.is_reached);
    // The bound follows what was in flight only where the path and not the application limited it.
    assert_eq!(bbr.bounds.inflight_long, before.bounds.inflight_long);
}

#[test]
fn never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let mut starting = path(20, 4);
    starting.writes = Some(Rate::mbit(6));
    let shots = starting.run(Duration::from_secs(4));
    assert_eq!(states(&shots), [State::Startup]);
    let mut probing = path(20, 4);
    until(&mut probing, State::Cruise);
    probing.writes = Some(Rate::mbit(12));
    until(&mut probing, State::Up);
    let shots = probing.run(Duration::from_secs(3));
    assert_eq!(states(&shots)[0], State::Up);
    assert!(!states(&shots).contains(&State::Down), "{:?}", states(&shots));
}

#[test]
fn exiting_probe_down_on_inflight() {
    let mut path = path(20, 4);
    until(&mut path, State::Up);
    let bbr = until(&mut path, State::Down);
    assert_eq!(bbr.state.pacing_gain(), 90);
    let shots = path.until(|bbr| bbr.state != State::Down);
    let (end, before) = (&shots[shots.len() - 1], &shots[shots.len() - 2]);
    assert_eq!(end.controller.state, State::Cruise);
    let wanted = |shot: &Shot<Bbr3>| {
        let bbr = &shot.controller;
        bbr.inflight(bbr.max_rate.most()).min(bbr.inflight_with_headroom())
    };
    assert!(before.in_flight > wanted(before) && end.in_flight <= wanted(end));
}

#[test]
fn exiting_probe_down_after_max_time() {
    let mut path = path(20, 4);
    until(&mut path, State::Up);
    let shots = path.until(|bbr| bbr.state == State::Down);
    let (mut bbr, mut now, bdp) = (last(&shots), path.now, path.bdp());
    let (begin, due, reno) = (now, bbr.probe_due(), bbr.target() / path.mss());
    let mut rtt = RTT;
    while bbr.state == State::Down {
        // The queue does not drain, though the round trip grows shorter: no search for the shortest begins.
        now += RTT;
        rtt = rtt.saturating_sub(Duration::from_nanos(1));
        assert!(now.since(begin) < Duration::from_secs(4), "{:?}", bbr.probe);
        let (delivered, window) = (Bytes::new(bbr.delivered + bdp), Bytes::new(2 * bdp));
        bbr.on_delivery(&RateSample {
            now,
            delivered,
            prior_delivered: Bytes::new(bbr.delivered),
            acked: Bytes::new(bdp),
            in_flight: window,
            rate: Some(Rate::mbit(20)),
            rtt: Some(rtt),
            ..sample()
        });
    }
    assert_eq!(bbr.state, State::Refill, "without Cruise");
    let rounds = now.since(begin).as_nanos() / RTT.as_nanos();
    assert!(now > due || rounds + 1 >= reno.min(63), "{rounds} round trips, {now:?} and due {due:?}");
}

#[test]
fn entering_and_exiting_probe_rtt() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    let entered = until(&mut path, State::ProbeRtt);
    assert_eq!((entered.state.window_gain(), entered.full_rate.was_reached), (50, true));
    let begin = path.now;
    let shots = path.until(|bbr| bbr.state != State::ProbeRtt);
    let small = shots.iter().filter(|shot| shot.in_flight <= path.bdp() * 55 / 100).count();
    assert!(small * 2 > shots.len(), "{small} of {} with half of the BDP in flight", shots.len());
    let lasted = path.now.since(begin);
    assert!((200..320).contains(&lasted.as_millis()), "{lasted:?}");
    let end = last(&shots);
    assert!(end.state == State::Cruise && end.cwnd >= path.bdp(), "{:?} with {}", end.state, end.cwnd);
    assert_eq!(end.round_trip.least.map(|rtt| rtt.as_millis() / 4), Some(RTT.as_millis() / 4));
}

#[test]
fn skipping_probe_rtt_due_to_application_limited_sending() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    path.writes = Some(Rate::bit(1));
    path.run(Duration::from_secs(40));
    path.writes = None;
    let shots = path.run(Duration::from_secs(1));
    assert!(shots.len() > 400, "it sends again");
    assert!(!states(&shots).contains(&State::ProbeRtt), "{:?}", states(&shots));
}

#[test]
fn achieving_expected_startup_bandwidth_on_a_link_with_aggregation() {
    let mut path = path(20, 4);
    path.bunches = Duration::from_millis(20);
    let shots = path.until(|bbr| bbr.state == State::Drain);
    let bbr = last(&shots);
    // Bunches half a round trip long make the rate look higher than it is by up to a quarter.
    assert!((19_600_000..25_000_000).contains(&bbr.max_rate.most()), "{}", bbr.max_rate.most());
    assert!(bbr.extra_acked.most() > path.bdp() / 4, "{}", bbr.extra_acked.most());
    assert!(shots.iter().any(|shot| shot.controller.cwnd > 2 * path.bdp()));
}

#[test]
fn achieving_expected_cruise_bandwidth_on_a_link_with_aggregation() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    path.bunches = Duration::from_millis(30);
    path.run(Duration::from_secs(4));
    let shots = path.run(Duration::from_secs(4));
    let extra = last(&shots).extra_acked.most();
    assert!(extra > path.rate.bytes_in(path.bunches).get() / 2, "{extra} bytes");
    assert!(is_within(goodput(&shots), 8, 20_000_000), "{} bit/s", goodput(&shots));
}

#[test]
fn correctly_managing_sub_packet_bdps() {
    // 256 kbit/s and 4 ms: 128 bytes.
    let mut path = Path::new(Bbr3::new, Rate::kbit(256), Duration::from_millis(4), 100_000);
    until(&mut path, State::Cruise);
    let mss = path.mss();
    let shots = path.run(Duration::from_secs(20));
    assert!(shots.iter().all(|shot| shot.controller.cwnd >= WINDOW_MIN * mss));
    assert!(is_within(goodput(&shots), 5, 256_000), "{} bit/s", goodput(&shots));
    let mut cruising = shots.iter().filter(|shot| shot.controller.state == State::Cruise);
    assert!(cruising.next_back().is_some_and(|shot| is_within(shot.controller.pace, 10, 256_000)));
}

#[test]
fn increasing_bandwidth_10x_and_ensuring_full_bandwidth_is_reached() {
    let mut path = path(10, 1);
    path.buffer = Rate::mbit(100).bytes_in(RTT).get();
    // A bound that a loss left behind.
    until(&mut path, State::Up);
    lose_one_in(&mut path, 8);
    let bounded = last(&path.until(|bbr| bbr.state == State::Down && bbr.bounds.inflight_long != u64::MAX));
    path.fate = Box::new(|_, _| Fate::Passes);
    path.rate = Rate::mbit(100);
    let begin = path.now;
    let shots = path.until(|bbr| bbr.max_rate.most() > 95_000_000);
    let took = path.now.since(begin);
    assert!(took < Duration::from_secs(8), "{took:?}");
    // 1, 2, 4, 8 segments in the round trips of a probe.
    let slope = shots.iter().map(|shot| shot.controller.probe.slope_rounds).max();
    assert!(slope >= Some(4), "{slope:?} round trips of growth");
    assert!(last(&shots).bounds.inflight_long > 4 * bounded.bounds.inflight_long);
}

#[test]
fn decreasing_bandwidth_10x_and_ensuring_max_bandwidth_adapts_down() {
    let mut path = path(100, 1);
    until(&mut path, State::Cruise);
    path.rate = Rate::mbit(10);
    let shots = path.run(Duration::from_secs(3));
    let least = shots.iter().map(|shot| shot.controller.bounds.rate_short).min();
    assert!(least.is_some_and(|rate| rate <= 49_000_000), "{least:?}");
    path.run(Duration::from_secs(17));
    let bbr = last(&path.run(Duration::from_secs(1)));
    assert!(is_within(bbr.max_rate.most(), 10, 10_000_000), "{}", bbr.max_rate.most());
}

#[test]
fn handling_token_bucket_policers() {
    let mut path = path(100, 1);
    path.policer = Some((Rate::mbit(10), 125_000));
    until(&mut path, State::Down);
    let shots = path.run(Duration::from_secs(5));
    assert!(shots.iter().any(|shot| shot.controller.bounds.rate_short < 15_000_000), "no short-term bound");
    assert!(shots.iter().any(|shot| shot.controller.bounds.inflight_short != u64::MAX));
    path.run(Duration::from_secs(5));
    let (sent, dropped) = (path.sent, path.dropped);
    let shots = path.run(Duration::from_secs(20));
    let (sent, dropped) = (path.sent - sent, path.dropped - dropped);
    assert!(goodput(&shots) > 8_000_000, "{} bit/s", goodput(&shots));
    assert!(dropped * 100 < sent * 5, "{dropped} of {sent} bytes dropped");
}

/// Delays the next segment by so much.
fn linger(path: &mut Path<Bbr3>, time: Duration) {
    let mut left = 2_u32;
    path.fate = Box::new(move |_, _| {
        left = left.saturating_sub(1);
        if left == 0 { Fate::Passes } else { Fate::Lingers(time) }
    });
}

#[test]
fn handling_spurious_fast_recovery() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    let before = last(&path.run(Duration::from_millis(200)));
    assert_eq!(before.state, State::Cruise);
    linger(&mut path, Duration::from_millis(30));
    let noted = last(&path.until(|bbr| bbr.repair != Repair::Not));
    assert_eq!(noted.losses.before.inflight_short, before.bounds.inflight_short, "kept");
    let after = last(&path.until(|bbr| bbr.repair == Repair::Not));
    assert_eq!((after.bounds.rate_short, after.bounds.inflight_short), (u64::MAX, u64::MAX), "as before");
    assert!(after.cwnd >= before.cwnd.min(after.inflight_max()) && after.state == State::Cruise);
}

#[test]
fn handling_spurious_rto_recovery() {
    let mut path = path(20, 4);
    until(&mut path, State::Cruise);
    let before = last(&path.run(Duration::from_millis(200)));
    let end = path.now + Duration::from_millis(600);
    path.fate = Box::new(move |now, _| if now < end { Fate::Lingers(end.since(now)) } else { Fate::Passes });
    let after = last(&path.run(Duration::from_millis(900)));
    assert!(path.timeouts() > 0 && after.full_rate.was_reached);
    assert_eq!(after.repair, Repair::Not);
    assert!(after.cwnd >= before.cwnd * 9 / 10, "{} of {}", after.cwnd, before.cwnd);
    assert!(after.bounds.inflight_short >= before.cwnd, "{:?}", after.bounds);
}

#[test]
fn entering_and_exiting_probe_rtt_during_startup() {
    let mut path = path(20, 4);
    path.writes = Some(Rate::mbit(3));
    let bbr = until(&mut path, State::ProbeRtt);
    assert!(!bbr.full_rate.was_reached);
    let bbr = last(&path.until(|bbr| bbr.state != State::ProbeRtt));
    assert_eq!(bbr.state, State::Startup);
    path.writes = None;
    let bbr = until(&mut path, State::Drain);
    assert!(is_within(bbr.max_rate.most(), 2, 20_000_000), "{}", bbr.max_rate.most());
}

#[test]
fn handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut path = path(20, 4);
    let loses = Arc::new(AtomicBool::new(false));
    let (told, mut sent) = (Arc::clone(&loses), 0_u64);
    path.fate = Box::new(move |_, _| {
        sent += 1;
        if told.load(Ordering::Relaxed) && sent % 10 == 0 { Fate::IsLost } else { Fate::Passes }
    });
    let mut bounds = Vec::new();
    for _ in 0..2 {
        until(&mut path, State::Up);
        loses.store(true, Ordering::Relaxed);
        let end = last(&path.until(|bbr| bbr.probe.was_too_high && bbr.state == State::Down));
        loses.store(false, Ordering::Relaxed);
        bounds.push(end.bounds.inflight_long);
        assert!(end.bounds.inflight_long >= end.target() * 7 / 10);
        // The next probe is a cautious one: a further one follows it.
        path.until(|bbr| bbr.state == State::Up);
        path.until(|bbr| bbr.state == State::Down);
    }
    assert!(bounds.iter().all(|bound| *bound < 3 * path.bdp()), "{bounds:?}");
}

#[test]
fn handling_application_limited_sending_during_probe_refill() {
    let mut path = path(20, 4);
    let known = until(&mut path, State::Refill).max_rate.most();
    path.writes = Some(Rate::mbit(2));
    let bbr = until(&mut path, State::Up);
    assert!(is_within(bbr.max_rate.most(), 1, known), "{} and {known}", bbr.max_rate.most());
    path.writes = None;
    let shots = path.until(|bbr| bbr.state == State::Down);
    assert!(is_within(last(&shots).max_rate.most(), 5, 20_000_000));
}

/// Three of ten segments of 1000 bytes are acknowledged.
fn sample() -> RateSample {
    RateSample {
        now: Time::from_nanos(50_000_000),
        delivered: Bytes::new(3_000),
        prior_delivered: Bytes::ZERO,
        acked: Bytes::new(3_000),
        lost: Bytes::ZERO,
        lost_so_far: Bytes::ZERO,
        prior_in_flight: Bytes::new(10_000),
        in_flight: Bytes::new(7_000),
        rate: Some(Rate::kbit(600)),
        rtt: Some(RTT),
        is_app_limited: false,
        runs_dry: false,
        sent_in_flight: Bytes::new(3_000),
        lost_since: Bytes::ZERO,
        una: 1,
        sent: 10_001,
    }
}

#[test]
fn a_sender_without_sack_ends_its_start_with_the_first_loss() {
    let mut bbr = Bbr3::new(&Setup { selective: false, ..Setup::linux(1_000, 10) });
    bbr.on_established(Some(RTT));
    bbr.on_congestion(&Congestion {
        now: Time::from_nanos(1),
        cause: Cause::Loss,
        in_flight: Bytes::new(10_000),
        usable: Bytes::new(10_000),
        repeated: false,
        pipe: Bytes::ZERO,
        timeouts: 0,
    });
    bbr.on_delivery(&sample());
    assert_eq!(bbr.state, State::Drain);
}

#[test]
fn losses_become_too_many_within_a_segment() {
    // 100 segments of 1000 bytes of which 2 may be lost: the third loss, of the hundredth, goes too far by all but nothing.
    assert!(!losses::is_too_much(2_000, 100_000) && losses::is_too_much(2_001, 100_000));
    assert_eq!(losses::inflight_at_loss(100_000, 3_000, 1_000), 99_000);
    // Of a burst of 50 segments that are all lost, after 50 that are not, 1 / 0.98 are one too many.
    assert_eq!(losses::inflight_at_loss(100_000, 50_000, 50_000), 50_000 + 50_000 * 2 / 98);
}
