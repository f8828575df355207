//! Tests of a sending and a receiving end together, and of acknowledgements on the wire.

use std::collections::BTreeSet;

use super::*;
use crate::cc::{Algorithm, bbr, cubic, reno, vegas};
use crate::rng::Rng;
use crate::tcp::personality::Personality;
use crate::time::Time;
use crate::units::Bytes;

const LEN: Bytes = Bytes::new(1_500);

fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

/// Windows of four full datagrams at first.
fn personality() -> Personality {
    Personality { initial_window_segments: Some(4), ..Personality::sack() }
}

fn sender(flows: u32) -> Sender {
    Sender::new(&personality(), flows, Losses::All)
}

/// Sends all that may leave now, and returns the numbers.
fn fill(sender: &mut Sender, now: Time) -> Vec<u64> {
    std::iter::from_fn(|| sender.permits(now, LEN).then(|| sender.on_sent(now, LEN))).collect()
}

fn told(now: Time, ranges: &[(u64, u64)]) -> Acknowledgement {
    Acknowledgement { received: now, held: Duration::ZERO, ranges: ranges.to_vec() }
}

#[test]
fn an_acknowledgement_is_the_same_after_the_wire() {
    let mut rng = Rng::named(1, "acknowledgements");
    for _ in 0..500 {
        let mut ranges = Vec::new();
        let mut last = u64::MAX / 2 + rng.below(1_000);
        for _ in 0..=rng.below(16) {
            let first = last - rng.below(1_000);
            ranges.push((first, last));
            last = first - 2 - rng.below(1_000);
        }
        let held = Duration::from_micros(rng.below(1 << 32));
        let it = Acknowledgement { received: Time::from_nanos(rng.bits()), held, ranges };
        let mut bytes = Vec::new();
        it.encode(&mut bytes);
        assert_eq!(it.wire_len().get(), 28 + bytes.len() as u64);
        assert_eq!(Acknowledgement::decode(&bytes), Ok(it.clone()));
        let cut = rng.below(bytes.len() as u64) as usize;
        assert!(Acknowledgement::decode(&bytes[..cut]).is_err(), "{cut} bytes of {it:?}");
    }
}

#[test]
fn bytes_that_tell_of_numbers_below_zero_are_no_acknowledgement() {
    let mut bytes = Vec::new();
    told(ms(1), &[(8, 9), (1, 2)]).encode(&mut bytes);
    let whole = bytes.clone();
    bytes[7] = 7;
    assert_eq!(Acknowledgement::decode(&bytes), Err(Malformed::Underflow));
    bytes = whole;
    bytes[20] = 0;
    assert_eq!(Acknowledgement::decode(&bytes), Err(Malformed::Ranges(0)));
    bytes[20] = 3;
    assert_eq!(Acknowledgement::decode(&bytes), Err(Malformed::Length { expected: 41, found: 33 }));
}

#[test]
fn every_second_datagram_is_acknowledged_and_a_gap_at_once() {
    let mut receiver = Receiver::new(2);
    receiver.receive(ms(0), 0);
    assert_eq!(receiver.poll(ms(0)), None);
    assert_eq!(receiver.deadline(), Some(ms(25)));
    receiver.receive(ms(1), 1);
    assert_eq!(receiver.poll(ms(1)), Some(told(ms(1), &[(0, 1)])));
    assert_eq!((receiver.poll(ms(99)), receiver.deadline()), (None, None));
    receiver.receive(ms(100), 3);
    assert_eq!(receiver.poll(ms(100)), Some(told(ms(100), &[(3, 3), (0, 1)])));
    // What fills the gap came later than the largest number.
    receiver.receive(ms(102), 2);
    let filled = Acknowledgement { held: Duration::from_millis(2), ..told(ms(100), &[(0, 3)]) };
    assert_eq!(receiver.poll(ms(102)), Some(filled));
    receiver.receive(ms(200), 4);
    assert_eq!(receiver.poll(ms(224)), None);
    assert!(receiver.poll(ms(225)).is_some(), "one alone is held for so long and no longer");
}

#[test]
fn a_range_is_told_until_nobody_can_have_missed_it() {
    let mut receiver = Receiver::new(1);
    let mut lengths = Vec::new();
    for number in (0..30).filter(|number| *number != 5) {
        receiver.receive(ms(number), number);
        lengths.push(receiver.poll(ms(number)).expect("each is acknowledged").ranges.len());
    }
    // Once when it ended, and seven times behind the next.
    assert_eq!(&lengths[4..13], [1, 2, 2, 2, 2, 2, 2, 2, 1], "{lengths:?}");
}

#[test]
fn windows_grow_alike_if_a_driver_hears_much_before_it_sends() {
    // A busy machine reads eight acknowledgements before it sends again; an idle one sends after each.
    let grown = |batch: usize| {
        let mut sender = Sender::new(&Personality::linux(), 1, Losses::All);
        let mut now = ms(0);
        let mut flying: Vec<u64> = fill(&mut sender, now);
        for _ in 0..60 {
            now += Duration::from_millis(40);
            let acknowledgements: Vec<_> =
                flying.chunks(2).map(|two| told(now, &[(two[0], two[two.len() - 1])])).collect();
            flying = Vec::new();
            for heard in acknowledgements.chunks(batch) {
                heard.iter().for_each(|told| assert_eq!(sender.on_acknowledgement(now, told), Ok(0)));
                flying.extend(fill(&mut sender, now));
            }
            if sender.window() >= LEN * 60 && sender.counters().reductions == 0 {
                // Out of slow start by a loss, as every circuit is sooner or later.
                let lost = flying[0];
                sender.on_acknowledgement(now, &told(now, &[(lost + 1, lost + 8)])).unwrap();
                flying.retain(|number| *number > lost + 8);
                flying.extend(fill(&mut sender, now));
            }
        }
        assert_eq!(sender.counters().reductions, 1);
        sender.window().get() / LEN.get()
    };
    let (idle, busy) = (grown(1), grown(8));
    assert!(idle > 60, "{idle} datagrams: it grows after its loss");
    assert!(busy.abs_diff(idle) <= idle / 20, "{busy} datagrams, and {idle} if it sends after each");
}

#[test]
fn a_datagram_is_lost_after_three_later_ones_and_halves_one_window() {
    let mut sender = sender(2);
    let numbers = fill(&mut sender, ms(0));
    assert_eq!((numbers.len(), sender.window()), (8, LEN * 8), "two windows of four");
    sender.on_acknowledgement(ms(50), &told(ms(50), &[(1, 2)])).unwrap();
    assert_eq!(sender.counters().lost, 0);
    assert_eq!(sender.on_acknowledgement(ms(50), &told(ms(50), &[(1, 3)])), Ok(1), "one flow's window shrank");
    assert_eq!(sender.counters().lost, 1);
    assert_eq!(sender.on_acknowledgement(ms(51), &told(ms(51), &[(1, 7)])), Ok(0));
    assert_eq!((sender.in_flight(), sender.counters().reductions), (Bytes::ZERO, 1));
}

#[test]
fn losses_of_one_round_trip_are_one_event() {
    let mut sender = sender(1);
    fill(&mut sender, ms(0));
    sender.on_acknowledgement(ms(50), &told(ms(50), &[(0, 3)])).unwrap();
    let numbers = fill(&mut sender, ms(50));
    assert_eq!(numbers, [4, 5, 6, 7, 8]);
    for last in 6..=8 {
        sender.on_acknowledgement(ms(100), &told(ms(100), &[(6, last), (0, 3)])).unwrap();
    }
    assert_eq!((sender.counters().lost, sender.counters().reductions), (2, 1), "4 and 5");
}

#[test]
fn what_comes_late_takes_a_reduction_back() {
    let mut sender = sender(1);
    fill(&mut sender, ms(0));
    sender.on_acknowledgement(ms(50), &told(ms(50), &[(1, 3)])).unwrap();
    let shrunk = sender.window();
    sender.on_acknowledgement(ms(51), &told(ms(50), &[(0, 3)])).unwrap();
    assert_eq!((sender.counters().late, sender.counters().undone), (1, 1));
    assert!(sender.window() > shrunk && sender.window() >= LEN * 4, "{} after {shrunk}", sender.window());
    fill(&mut sender, ms(51));
    sender.on_acknowledgement(ms(101), &told(ms(101), &[(5, 7), (0, 3)])).unwrap();
    assert_eq!(sender.counters().lost, 1, "three later ones are no longer enough");
}

#[test]
fn a_probe_finds_a_lost_tail_and_a_long_silence_collapses_the_window() {
    let mut sender = sender(1);
    fill(&mut sender, ms(0));
    sender.on_acknowledgement(ms(50), &told(ms(50), &[(0, 3)])).unwrap();
    let mut last = *fill(&mut sender, ms(50)).last().expect("the window is open");
    let mut now = ms(50);
    for probe in 1..=5 {
        assert!(!sender.permits(now, LEN));
        now = sender.deadline().expect("what is in flight has a timer");
        assert_eq!(sender.on_deadline(now), 0, "a probe timeout shrinks nothing (RFC 9002 s6.2)");
        assert_eq!((sender.counters().probes, sender.deadline()), (probe, None), "it waits for something to send");
        assert_eq!(fill(&mut sender, now).len(), 1);
        last += 1;
    }
    sender.on_acknowledgement(now, &told(now, &[(last, last), (0, 3)])).unwrap();
    let counters = sender.counters();
    // What the probe brought has opened the least window again by one.
    assert_eq!((counters.reductions, counters.collapses, sender.window()), (1, 1, LEN * 2));
}

#[test]
fn a_window_that_nobody_uses_does_not_grow() {
    let mut sender = sender(1);
    let mut now = ms(0);
    for _ in 0..40 {
        let number = sender.on_sent(now, LEN);
        now += Duration::from_millis(50);
        sender.on_acknowledgement(now, &told(now, &[(number, number)])).unwrap();
    }
    assert!(sender.window() <= LEN * 4, "{}", sender.window());
}

#[test]
fn an_acknowledgement_of_what_never_left_changes_nothing() {
    let mut sender = sender(1);
    fill(&mut sender, ms(0));
    let error = sender.on_acknowledgement(ms(50), &told(ms(50), &[(2, 4)])).unwrap_err();
    assert_eq!(error, NeverSent { number: 4, next: 4 });
    assert_eq!((sender.in_flight(), sender.counters().delivered), (LEN * 4, 0));
}

#[test]
fn early_losses_are_damage_where_only_delayed_ones_count() {
    for (late, expected) in [(false, 0), (true, 1)] {
        let mut sender = Sender::new(&personality(), 1, Losses::Delayed);
        // Delays of 10 to 50 ms have been seen, by a clock that is far ahead.
        let ahead = Duration::from_secs(1_000);
        for (round, delay) in [10, 50, 10].into_iter().enumerate() {
            let now = ms(100 * round as u64);
            let number = sender.on_sent(now, LEN);
            let came = now + Duration::from_millis(delay);
            sender.on_acknowledgement(came, &told(came + ahead, &[(number, number)])).unwrap();
        }
        let now = ms(300);
        for _ in 0..5 {
            sender.on_sent(now, LEN);
        }
        let came = now + Duration::from_millis(if late { 45 } else { 12 });
        sender.on_acknowledgement(came, &told(came + ahead, &[(4, 7), (0, 2)])).unwrap();
        let counters = sender.counters();
        assert_eq!((counters.lost, counters.reductions, counters.damaged), (1, expected, 1 - expected));
    }
}

#[test]
fn more_than_a_tenth_lost_is_congestion_whatever_the_delay() {
    for (every, expected) in [(20, false), (5, true)] {
        let mut sender = Sender::new(&personality(), 1, Losses::Delayed);
        let mut now = ms(0);
        for number in 0..600 {
            sender.on_sent(now, LEN);
            let came = now + Duration::from_millis(if number == 10 { 50 } else { 10 });
            if number % every != every - 1 {
                sender.on_acknowledgement(came, &told(came, &[(number, number)])).unwrap();
            }
            now += Duration::from_millis(100);
        }
        let counters = sender.counters();
        assert_eq!(counters.reductions > 0, expected, "one in {every}: {counters:?}");
        assert!(counters.lost >= 29, "one in {every}: {counters:?}");
    }
}

/// A path of 40 ms that loses, reorders and repeats, and bounds nothing. Returns the sending end after all has come.
fn carry(seed: u64, controller: Algorithm, losses: Losses) -> Sender {
    let mut rng = Rng::named(seed, "path");
    let base = Personality { controller, ..Personality::linux() };
    let mut sender = Sender::new(&base, 1 + (seed % 4) as u32, losses);
    let mut receiver = Receiver::new(2);
    // When something comes: a datagram's number, or an acknowledgement.
    let mut forth: BTreeSet<(Time, u64)> = BTreeSet::new();
    let mut back: Vec<(Time, Acknowledgement)> = Vec::new();
    let mut now = Time::ZERO;
    let mut left = 3_000;
    let mut came = BTreeSet::new();
    loop {
        let delay =
            |rng: &mut Rng| Duration::from_micros(20_000 + if rng.below(20) == 0 { rng.below(3_000) } else { 0 });
        while left > 0 && sender.in_flight() < Bytes::new(200_000) && sender.permits(now, LEN) {
            let number = sender.on_sent(now, LEN);
            left -= 1;
            for _ in 0..=u64::from(rng.below(50) == 0) {
                if rng.below(50) != 0 {
                    forth.insert((now + delay(&mut rng), number));
                }
            }
        }
        while let Some(told) = receiver.poll(now) {
            if rng.below(50) != 0 {
                back.push((now + delay(&mut rng), told));
            }
        }
        let timers = [sender.deadline(), receiver.deadline(), sender.release(now).filter(|_| left > 0)];
        let arrivals = forth.first().map(|(at, _)| *at).into_iter().chain(back.iter().map(|(at, _)| *at));
        let Some(next) = timers.into_iter().flatten().chain(arrivals).min() else { break };
        assert!(next > now || sender.deadline() != Some(now), "seed {seed}: time stands still at {now}");
        now = next.max(now);
        while let Some(&(at, number)) = forth.first().filter(|(at, _)| *at <= now) {
            forth.remove(&(at, number));
            came.insert(number);
            receiver.receive(now, number);
        }
        let due: Vec<_> = back.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, told) in due {
            sender.on_acknowledgement(now, &told).unwrap();
        }
        if sender.deadline().is_some_and(|due| due <= now) {
            sender.on_deadline(now);
        }
    }
    let counters = sender.counters();
    assert_eq!(left, 0, "seed {seed}: all left by {now}: {counters:?}");
    let known = counters.delivered + counters.late;
    assert!(known <= came.len() as u64, "seed {seed}: {counters:?}");
    sender
}

#[test]
fn whatever_a_path_does_each_datagram_is_settled_once() {
    for seed in 1..=24 {
        let algorithms = [
            Algorithm::Reno(reno::Parameters),
            Algorithm::Cubic(cubic::Parameters::DEFAULT),
            Algorithm::Bbr(bbr::Parameters),
            Algorithm::Vegas(vegas::Parameters::DEFAULT),
        ];
        let losses = if seed % 3 == 0 { Losses::Delayed } else { Losses::All };
        let sender = carry(seed, algorithms[seed as usize % 4].clone(), losses);
        let counters = sender.counters();
        let settled = counters.delivered + counters.lost;
        // A tail of which nothing was ever heard waits for the next packet to probe with.
        let waiting = counters.datagrams - settled;
        assert_eq!(sender.in_flight(), LEN * waiting, "seed {seed}: {counters:?}");
        assert!(waiting < 10, "seed {seed}: {counters:?}");
        let lost = counters.lost - counters.late;
        assert!((20..140).contains(&lost), "seed {seed}, of 3000 at 2%: {counters:?}");
    }
}

#[test]
fn a_driver_that_asks_hears_what_became_of_each_datagram() {
    let mut sender = sender(1).with_fates();
    assert_eq!(fill(&mut sender, ms(0)).len(), 4);
    sender.on_acknowledgement(ms(50), &told(ms(25), &[(1, 3)])).unwrap();
    let fates: Vec<_> = std::iter::from_fn(|| sender.fate()).collect();
    assert_eq!(fates, [Fate::Delivered(1), Fate::Delivered(2), Fate::Delivered(3), Fate::Lost(0)]);
    sender.on_acknowledgement(ms(60), &told(ms(25), &[(0, 3)])).unwrap();
    assert_eq!(std::iter::from_fn(|| sender.fate()).collect::<Vec<_>>(), [Fate::Late(0)]);
}

#[test]
fn only_a_liar_acknowledges_a_number_that_was_left_out() {
    let mut sender = sender(1);
    assert_eq!(sender.on_sent(ms(0), LEN), 0);
    sender.skip_number(ms(0));
    assert_eq!((sender.on_sent(ms(0), LEN), sender.next_number()), (2, 3));
    let lie = sender.on_acknowledgement(ms(50), &told(ms(25), &[(0, 2)]));
    assert_eq!((lie, sender.in_flight()), (Err(NeverSent { number: 1, next: 3 }), LEN + LEN));
    sender.on_acknowledgement(ms(50), &told(ms(25), &[(2, 2), (0, 0)])).unwrap();
    assert_eq!(sender.in_flight(), Bytes::ZERO);
}
