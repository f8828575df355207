//! Frames at both ends, and between them a network that loses, repeats and reorders parts.

use std::collections::{BTreeMap, BTreeSet};

use headend_engine::rng::Rng;
use headend_engine::time::Duration;
use headend_engine::units::Rate;
use proptest::prelude::*;

use super::*;
use crate::frame::{Frame, Frames};

/// Datagrams by when something is told of them, and if they have come.
type Flying = BTreeMap<(u64, usize), (Vec<u8>, Vec<Part>, bool)>;

const LIMIT: u64 = 200_000;
const SECOND: Duration = Duration::from_secs(1);

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn path(trip: Duration, rate: Option<Rate>) -> Path {
    Path { trip, trip_now: trip, rate }
}

fn sending() -> Sending {
    Sending::new(LIMIT, longest(LIMIT))
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|place| (place * 31 + seed * 17 + (place >> 8)) as u8).collect()
}

/// The parts in the next datagram.
fn datagram(sending: &mut Sending, room: usize) -> (Vec<u8>, Vec<Part>) {
    let (mut out, mut parts) = (Vec::new(), Vec::new());
    sending.fill(&mut out, room, false, |part| parts.push(part));
    assert!(out.len() <= room, "{} bytes in a datagram of {room}", out.len());
    (out, parts)
}

fn fates(sending: &mut Sending) -> Vec<(Ticket, Fate)> {
    std::iter::from_fn(|| sending.fate()).collect()
}

/// Takes all parts in a datagram.
fn take(receiving: &mut Receiving, now: Time, bytes: &[u8]) -> Result<(), &'static str> {
    for frame in Frames::new(bytes) {
        let Ok(Frame::Part { number, total, offset: start, bytes }) = frame else { panic!("a part: {frame:?}") };
        let end = start + bytes.len() as u64 + u64::from(total == 0);
        receiving.take(now, Part { number, total, start, end }, bytes)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn frames_come_whole_once_and_their_fates_are_true(
        seed in any::<u64>(),
        lost in 0..400_u64,
        repeated in 0..200_u64,
        frames in prop::collection::vec((0..9_000_usize, 0..3_u64, 20..400_u64), 1..60),
    ) {
        let mut rng = Rng::named(seed, "parts");
        let budget = Budget::new(1 << 20);
        let (mut sending, mut receiving) = (sending(), Receiving::new(LIMIT, budget.clone()));
        let mut expected: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let (mut whole, mut told) = (BTreeMap::new(), BTreeMap::new());
        let mut flying: Flying = BTreeMap::new();
        let (mut waiting, mut serial) = (frames.into_iter().enumerate(), 0);
        for ms in 0..2_000_u64 {
            sending.set_time(at(ms), path(Duration::from_millis(5), None));
            if ms % 7 == 0 && let Some((number, (len, flow, life))) = waiting.next() {
                let mut bytes = pattern(len, number as u64);
                bytes.extend_from_slice(&(number as u16).to_be_bytes());
                if sending.send(flow, &bytes, at(ms + life)).is_ok() {
                    *expected.entry(bytes).or_default() += 1;
                }
            }
            let (out, parts) = datagram(&mut sending, 1_200 + rng.below(200) as usize);
            if !parts.is_empty() {
                serial += 1;
                let is_lost = rng.below(1_000) < lost;
                flying.insert((ms + 10 + rng.below(30), serial), (out, parts, is_lost));
            }
            while let Some(entry) = flying.first_entry().filter(|entry| entry.key().0 <= ms) {
                let ((_, serial), (out, parts, is_lost)) = entry.remove_entry();
                if is_lost {
                    parts.iter().for_each(|part| sending.on_lost(*part));
                    continue;
                }
                prop_assert_eq!(take(&mut receiving, at(ms), &out), Ok(()));
                if rng.below(1_000) < repeated {
                    flying.insert((ms + 1 + rng.below(40), serial), (out, parts, false));
                } else {
                    // Now and then it is taken for lost, and comes after all.
                    if rng.below(10) == 0 {
                        parts.iter().for_each(|part| sending.on_lost(*part));
                    }
                    parts.iter().for_each(|part| sending.on_delivered(*part));
                }
            }
            while let Some(frame) = receiving.read() {
                *whole.entry(frame).or_insert(0) += 1;
            }
            for (ticket, fate) in fates(&mut sending) {
                if fate != Fate::Sent {
                    prop_assert_eq!(told.insert(ticket, fate), None, "one fate: {:?}", ticket);
                }
            }
        }
        let all: usize = expected.values().sum();
        prop_assert_eq!(told.len(), all, "each frame has a fate");
        let acknowledged = told.values().filter(|fate| **fate == Fate::Acknowledged).count();
        let came: usize = whole.values().sum();
        prop_assert!(came >= acknowledged, "{} came, {} were acknowledged", came, acknowledged);
        for (frame, count) in &whole {
            prop_assert!(expected.get(frame).is_some_and(|sent| sent >= count), "{} times", count);
        }
        prop_assert_eq!(sending.occupancy(), Occupancy::default());
        prop_assert_eq!(sending.deadline(), None);
        drop(receiving);
        prop_assert!(budget.take(1 << 20), "all memory was given back");
    }
}

#[test]
fn a_lost_part_leaves_again_as_long_as_it_can_come_in_time() {
    let mut sending = sending();
    sending.set_time(at(0), path(Duration::from_millis(20), None));
    let ticket = sending.send(0, &pattern(3_000, 1), at(100)).unwrap();
    let first = datagram(&mut sending, 1_400).1;
    while sending.has_something() {
        datagram(&mut sending, 1_400);
    }
    assert_eq!(fates(&mut sending), [(ticket, Fate::Sent)]);
    sending.set_time(at(60), path(Duration::from_millis(20), None));
    sending.on_lost(first[0]);
    assert_eq!(datagram(&mut sending, 1_400).1, first, "there are 40 ms, and it takes 20");
    sending.set_time(at(81), path(Duration::from_millis(20), None));
    sending.on_lost(first[0]);
    assert_eq!((fates(&mut sending), sending.has_something()), (vec![(ticket, Fate::Lost)], false));
}

#[test]
fn what_is_too_late_does_not_leave() {
    let mut sending = sending();
    let trip = Duration::from_millis(20);
    sending.set_time(at(0), path(trip, None));
    let old = sending.send(0, &pattern(5_000, 1), at(50)).unwrap();
    let new = sending.send(0, &pattern(100, 2), at(500)).unwrap();
    datagram(&mut sending, 1_400);
    let due = sending.deadline().unwrap();
    assert!(due > at(30) && due <= at(31), "{due:?}");
    sending.set_time(due, path(trip, None));
    assert_eq!(fates(&mut sending), [(old, Fate::Expired)]);
    assert_eq!(sending.occupancy(), Occupancy { frames: 1, bytes: 100 });
    assert_eq!(datagram(&mut sending, 1_400).1[0].number, new.0);
}

#[test]
fn a_frame_that_waits_is_taken_back_or_replaced() {
    let mut sending = sending();
    let tickets: Vec<_> = (0..3).map(|seed| sending.send(0, &pattern(2_000, seed), at(900)).unwrap()).collect();
    let (_, parts) = datagram(&mut sending, 1_400);
    assert_eq!(parts[0].number, tickets[0].0);
    let newer = sending.replace(tickets[1], &pattern(10, 9), at(900)).unwrap();
    assert!(sending.withdraw(tickets[0]), "a part of it waits");
    assert_eq!(sending.occupancy(), Occupancy { frames: 2, bytes: 2_010 });
    let (_, parts) = datagram(&mut sending, 1_400);
    assert_eq!(parts[0].number, newer.0, "in the place of the one that it replaces");
    assert_eq!(sending.replace(newer, b"late", at(900)), Err(Refused::Left));
    assert!(!sending.withdraw(newer));
    assert!(!sending.withdraw(Ticket(99)));
}

#[test]
fn a_datagram_that_fits_is_not_cut_and_flows_leave_in_turns() {
    let mut sending = sending();
    for _ in 0..4 {
        sending.send(1, &pattern(900, 1), at(900)).unwrap();
    }
    sending.send(2, &pattern(900, 2), at(900)).unwrap();
    let mut order = Vec::new();
    while sending.has_something() {
        let (_, parts) = datagram(&mut sending, 1_400);
        assert_eq!(parts.len(), 1, "two do not fit, and none is cut");
        order.push(parts[0].number);
    }
    assert_eq!(order, [0, 4, 1, 2, 3]);
}

#[test]
fn a_greedy_flow_leaves_room_for_others() {
    let mut sending = sending();
    let taken = (0..1_000).take_while(|_| sending.send(1, &pattern(1_000, 1), at(900)).is_ok()).count() as u64;
    assert!((80..=100).contains(&taken), "half of {LIMIT} bytes: {taken} of 1000");
    assert!(sending.send(2, &pattern(1_000, 1), at(900)).is_ok());
    assert!(matches!(sending.send(2, &vec![0; LIMIT as usize], at(900)), Err(Refused::TooLong { .. })));
    let none = Sending::new(LIMIT, 0).send(0, b"", at(900));
    assert_eq!(none, Err(Refused::TooLong { len: 0, most: 0 }));
}

#[test]
fn a_peer_that_lies_about_frames_is_noticed() {
    let part = |number, total, start, end| Part { number, total, start, end };
    let wrong = [
        (part(0, LIMIT, 0, 3), "a frame that is longer than was allowed"),
        (part(0, 10, 8, 11), "a part that is not in its frame"),
        (part(0, 10, 3, 3), "a part that is not in its frame"),
        (part(0, 10, u64::MAX - 1, u64::MAX), "a part that is not in its frame"),
    ];
    for (part, what) in wrong {
        let mut receiving = Receiving::new(LIMIT, Budget::new(LIMIT));
        assert_eq!(receiving.take(at(0), part, b"abc"), Err(what), "{part:?}");
    }
    let mut receiving = Receiving::new(LIMIT, Budget::new(LIMIT));
    receiving.take(at(0), part(7, 10, 0, 3), b"abc").unwrap();
    assert_eq!(receiving.take(at(0), part(7, 11, 3, 6), b"abc"), Err("a frame whose length has changed"));
    let mut none = Receiving::new(0, Budget::new(LIMIT));
    assert!(none.take(at(0), part(0, 0, 0, 1), b"").is_err(), "who takes no frames gets none");
}

#[test]
fn frames_that_nobody_reads_or_completes_take_no_more_than_the_limit() {
    let budget = Budget::new(LIMIT / 2);
    let mut receiving = Receiving::new(LIMIT, budget.clone());
    let bytes = pattern(1_000, 0);
    for number in 0..20_000_u64 {
        let part = match number % 3 {
            0 => Part { number, total: 1_000, start: 0, end: 1_000 },
            1 => Part { number, total: 60_000, start: 40_000, end: 41_000 },
            _ => Part { number, total: 0, start: 0, end: 1 },
        };
        let bytes = if part.total == 0 { &[][..] } else { &bytes };
        receiving.take(at(number / 100), part, bytes).unwrap();
        assert!(receiving.held() <= LIMIT / 2, "{} bytes", receiving.held());
    }
    assert!(receiving.dropped > 10_000);
    let mut read = BTreeSet::new();
    while let Some(frame) = receiving.read() {
        read.insert(frame);
    }
    assert!(read.contains(&bytes), "the newest are still there");
    receiving.take(at(0) + SECOND * 60, Part { number: 1 << 40, total: 2_000, start: 0, end: 1_000 }, &bytes).unwrap();
    assert!(receiving.held() < 2_000, "what does not become whole is given up: {} bytes", receiving.held());
}

#[test]
fn a_frame_of_holes_is_a_lie_and_its_pieces_are_counted_as_what_they_take() {
    let limit = 64 << 20;
    let mut receiving = Receiving::new(limit, Budget::new(limit));
    let told = (0..100_000_u64).find_map(|at| {
        let part = Part { number: 0, total: 1_000_000, start: 2 * at, end: 2 * at + 1 };
        receiving.take(self::at(0), part, b"a").err().map(|what| (at, what))
    });
    assert_eq!(told, Some((4_096, "a frame with thousands of holes")));
    // An entry of two maps and the least allocation for a byte each.
    assert!(receiving.held() > 4_096 * 100, "{} bytes", receiving.held());
}

#[test]
fn what_does_not_become_whole_is_given_up_in_time_without_another_part() {
    let budget = Budget::new(LIMIT);
    let mut receiving = Receiving::new(LIMIT, budget.clone());
    assert_eq!(receiving.deadline(), None);
    let part = |number| Part { number, total: 2_000, start: 0, end: 1_000 };
    // The one of the higher number is older.
    receiving.take(at(1_000), part(7), &pattern(1_000, 1)).unwrap();
    receiving.take(at(4_000), part(3), &pattern(1_000, 1)).unwrap();
    for (due, left) in [(11_000, 1), (14_000, 0)] {
        assert_eq!(receiving.deadline(), Some(at(due)));
        receiving.set_time(at(due - 1));
        assert_eq!(receiving.partial_len(), left + 1, "not before it is time");
        receiving.set_time(at(due));
        assert_eq!(receiving.partial_len(), left);
    }
    assert_eq!((receiving.deadline(), receiving.held(), receiving.dropped), (None, 0, 2));
    assert!(budget.take(LIMIT), "all memory was given back");
    receiving.take(at(15_000), part(7), &pattern(1_000, 1)).unwrap();
    assert_eq!(receiving.held(), 0, "it does not begin anew");
}

#[test]
fn a_frame_may_be_worth_something_for_ever() {
    let mut sending = sending();
    sending.send(0, b"a frame", Time::MAX).unwrap();
    assert_eq!(sending.deadline(), Some(Time::MAX));
}

#[test]
fn a_frame_that_would_end_too_late_makes_way_for_a_newer_one() {
    let mut sending = sending();
    let (trip, rate) = (Duration::from_millis(10), Some(Rate::mbit(1)));
    sending.set_time(at(0), path(trip, rate));
    // 8000 bytes take 64 ms.
    let old = sending.send(0, &pattern(8_000, 1), at(60)).unwrap();
    datagram(&mut sending, 1_400);
    assert!(sending.occupancy().bytes < 8_000, "alone it is tried");
    let hopeless = sending.send(0, &pattern(8_000, 2), at(70)).unwrap();
    let newer = sending.send(0, &pattern(8_000, 3), at(90)).unwrap();
    sending.withdraw(old);
    assert_eq!(datagram(&mut sending, 1_400).1[0].number, newer.0);
    assert_eq!(fates(&mut sending), [(hopeless, Fate::Expired)]);
}
