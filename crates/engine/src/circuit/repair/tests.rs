//! Two ends with the control between them, over a path that loses, delays and repeats, in time that a test makes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::circuit::in_band::{Acknowledgement, Fate, Losses};
use crate::circuit::in_band::{Receiver as ControlReceiver, Sender as ControlSender};
use crate::tcp::personality::Personality;
use crate::time::{Time, earlier};
use crate::units::Bytes;

const LEN: u32 = 1_400;
const WAY: Duration = Duration::from_millis(10);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn rules(within_ms: u64, tries: u8) -> Rules {
    Rules { within: Duration::from_millis(within_ms), tries }
}

/// A packet of a flow: which of the flow's it is, and when it came (once it has).
type Packet = (u64, u64, Time);

/// The fate of a datagram on its way: lost, doubled or late.
#[derive(Clone, Copy, Debug, Default)]
struct Fortune {
    is_lost: bool,
    is_doubled: bool,
    delayed_ms: u64,
}

enum Under {
    Data(u64, bool, Place, Packet),
    Told(Acknowledgement),
}

struct Path {
    now: Time,
    control: (ControlSender, ControlReceiver),
    ends: (Sender<Packet>, Receiver<Packet>),
    /// Datagrams on their way, by the time of arrival and then by the order of departure.
    under_way: BTreeMap<(Time, u64), Under>,
    left: u64,
    fortunes: Vec<Fortune>,
    waiting: Vec<(u64, u64)>,
    /// What passed: when, and the packet with its own time of arrival.
    passed: Vec<(Time, Packet)>,
    most_held: (u64, u64),
}

impl Path {
    fn new(rules: Rules, fortunes: Vec<Fortune>) -> Path {
        let control = ControlSender::new(&Personality::linux(), 4, Losses::Delayed).with_fates();
        let control = control.with_held_max(ACKNOWLEDGEMENT_HELD_MAX);
        Path {
            now: Time::ZERO,
            control: (control, ControlReceiver::new(2).with_held_max(ACKNOWLEDGEMENT_HELD_MAX)),
            ends: (Sender::new(rules), Receiver::new(rules.within)),
            under_way: BTreeMap::new(),
            left: 0,
            fortunes,
            waiting: Vec::new(),
            passed: Vec::new(),
            most_held: (0, 0),
        }
    }

    fn post(&mut self, make: impl Fn() -> Under) {
        let fortune = self.fortunes.get(self.left as usize).copied().unwrap_or_default();
        let arrival = self.now + WAY + Duration::from_millis(fortune.delayed_ms);
        if !fortune.is_lost {
            self.under_way.insert((arrival, 2 * self.left), make());
        }
        if fortune.is_doubled {
            self.under_way.insert((arrival + WAY, 2 * self.left + 1), make());
        }
        self.left += 1;
    }

    fn send(&mut self) {
        let now = self.now;
        while self.control.0.deadline().is_some_and(|due| due <= now) {
            self.control.0.on_deadline(now);
        }
        while let Some(fate) = self.control.0.fate() {
            self.ends.0.on_fate(now, fate);
        }
        let len = Bytes::new(u64::from(LEN));
        loop {
            if self.ends.0.due(now).is_none() && self.waiting.is_empty() && self.control.0.owes_probe() {
                self.ends.0.on_probe(now);
            }
            let is_again = self.ends.0.due(now).is_some();
            if !is_again && self.waiting.is_empty() || !self.control.0.permits(now, len) {
                return;
            }
            let number = self.control.0.on_sent(now, len);
            if is_again {
                let (place, &packet) = self.ends.0.again(number);
                self.post(|| Under::Data(number, true, place, packet));
            } else {
                let (flow, nth) = self.waiting.remove(0);
                let (place, packet) = (self.ends.0.place(flow, true), (flow, nth, now));
                self.ends.0.keep(now, number, place, LEN, packet);
                self.post(|| Under::Data(number, true, place, packet));
            }
        }
    }

    fn receive(&mut self, under: Under) {
        let now = self.now;
        match under {
            Under::Told(told) => drop(self.control.0.on_acknowledgement(now, &told)),
            Under::Data(number, is_numbered, place, (flow, nth, _)) => {
                self.control.1.receive(now, number);
                let packet = (flow, nth, now);
                if self.ends.1.arrive(now, place, is_numbered, LEN, || packet) {
                    self.passed.push((now, packet));
                }
            }
        }
    }

    /// Sends each flow's packets one after another, `every` apart, and lets time pass until all is over.
    fn run(&mut self, flows: u64, packets: u64, every: Duration) {
        let mut sent = 0;
        loop {
            let feed = Time::ZERO + every * sent;
            if sent < packets && feed <= self.now {
                self.waiting.push((sent % flows, sent / flows));
                sent += 1;
                continue;
            }
            self.send();
            let mut wake = earlier(self.control.0.deadline(), self.control.1.deadline());
            let held = self.ends.1.poll(self.now);
            while let Some(packet) = self.ends.1.released() {
                self.passed.push((self.now, packet));
            }
            if let Some(told) = self.control.1.poll(self.now) {
                self.post(|| Under::Told(told.clone()));
                continue;
            }
            self.most_held.0 = self.most_held.0.max(self.ends.0.bytes());
            self.most_held.1 = self.most_held.1.max(self.ends.1.bytes());
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            // A probe timeout of what is never answered is no reason to go on.
            let ends = sent == packets && arrival.is_none() && held.is_none() && self.waiting.is_empty();
            if ends && self.now > at(5_000) {
                return;
            }
            wake = earlier(wake, earlier(held, arrival));
            wake = earlier(wake, (sent < packets).then_some(feed));
            wake = earlier(wake, self.control.0.release(self.now).filter(|_| !self.waiting.is_empty()));
            let Some(wake) = wake else { return };
            self.now = wake.max(self.now);
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let under = entry.remove();
                self.receive(under);
                while let Some(packet) = self.ends.1.released() {
                    self.passed.push((self.now, packet));
                }
            }
        }
    }

    /// Checks that within each flow order was kept and nothing passed twice, and that nothing waited too long.
    fn check(&self, within: Duration) {
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for (when, (flow, nth, arrived)) in &self.passed {
            let before = newest.insert(*flow, *nth);
            assert!(before.is_none_or(|before| before < *nth), "{nth} of flow {flow} behind {before:?}");
            assert!(when.since(*arrived) <= within, "{nth} of flow {flow} waited from {arrived} to {when}");
        }
        assert!(self.most_held.0 <= HELD_BYTES_MAX && self.most_held.1 <= HELD_BYTES_MAX);
    }
}

fn lost(places: &[usize]) -> Vec<Fortune> {
    let len = places.iter().max().map_or(0, |last| last + 1);
    (0..len).map(|at| Fortune { is_lost: places.contains(&at), ..Fortune::default() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_flow_keeps_its_order_and_waits_no_longer_than_it_may_on_any_path(
        percent in (0..40_u32, 0..20_u32, 0..30_u32),
        draws in prop::collection::vec((0..100_u32, 0..100_u32, 0..100_u32, 1..60_u64), 900),
        within_ms in 1..120_u64, tries in 1..4_u8, flows in 1..6_u64, every_us in 50..4_000_u64,
    ) {
        let fortune = |(loss, double, delay, ms): (u32, u32, u32, u64)| Fortune {
            is_lost: loss < percent.0,
            is_doubled: double < percent.1,
            delayed_ms: if delay < percent.2 { ms } else { 0 },
        };
        let rules = rules(within_ms, tries);
        let mut path = Path::new(rules, draws.into_iter().map(fortune).collect());
        path.run(flows, 300, Duration::from_micros(every_us));
        path.check(rules.within);
        let counters = path.ends.0.counters();
        prop_assert!(counters.copies <= 300 * u64::from(tries));
    }

    #[test]
    fn places_that_mean_nothing_neither_fill_memory_nor_disorder_a_flow(
        draws in prop::collection::vec((0..3_u16, any::<u16>(), any::<bool>(), 0..5_u64), 1..400),
    ) {
        let mut receiver: Receiver<(u16, u64)> = Receiver::new(Duration::from_millis(40));
        let mut now = at(0);
        for (arrival, (flow, turn, is_numbered, ms)) in draws.into_iter().enumerate() {
            now += Duration::from_millis(ms);
            let copy = (flow, arrival as u64);
            receiver.arrive(now, Place { flow, turn }, is_numbered, 60_000, || copy);
            prop_assert!(receiver.bytes() <= HELD_BYTES_MAX);
            let wake = receiver.poll(now);
            prop_assert!(wake.is_none_or(|wake| wake > now && wake <= now + Duration::from_millis(40)));
            while receiver.released().is_some() {}
        }
        prop_assert_eq!(receiver.poll(now + Duration::from_millis(40)), None);
        prop_assert_eq!(receiver.bytes(), 0);
    }
}

#[test]
fn what_is_lost_comes_in_its_place_and_other_flows_do_not_wait() {
    let mut path = Path::new(rules(60, 2), lost(&[20]));
    path.run(2, 60, Duration::from_millis(1));
    path.check(Duration::from_millis(60));
    assert_eq!(path.passed.len(), 60, "{:?}", path.ends.1.counters());
    assert_eq!(path.ends.0.counters().copies, 1);
    let waited: Vec<u64> =
        path.passed.iter().filter(|(when, packet)| *when > packet.2).map(|(_, packet)| packet.0).collect();
    let (first, others) = waited.split_first().expect("those behind the one that was lost wait");
    assert!(others.iter().all(|flow| flow == first), "only its own flow: {waited:?}");
}

#[test]
fn the_last_packet_of_all_is_repaired_too() {
    // Enough before it for the round trip to be known.
    for tail in [200, 201] {
        let mut path = Path::new(rules(60, 2), Vec::new());
        path.run(1, 100, Duration::from_millis(1));
        let before = path.left as usize;
        path.fortunes = lost(&[before]);
        path.waiting.push((0, tail));
        path.send();
        let sent = path.now;
        path.run(1, 0, Duration::ZERO);
        let (when, packet) = *path.passed.last().unwrap();
        assert_eq!(packet.1, tail);
        assert!(when.since(sent) < Duration::from_millis(80), "{}", when.since(sent));
    }
}

#[test]
fn what_is_lost_again_and_again_is_given_up() {
    let mut sender: Sender<()> = Sender::new(rules(40, 2));
    let place = sender.place(7, true);
    sender.keep(at(0), 0, place, LEN, ());
    for number in [0, 1] {
        sender.on_fate(at(10), Fate::Lost(number));
        assert_eq!(sender.due(at(10)), Some(LEN));
        assert_eq!(sender.again(number + 1).0, place);
    }
    sender.on_fate(at(20), Fate::Lost(2));
    assert_eq!((sender.due(at(20)), sender.counters().abandoned, sender.bytes()), (None, 1, 0));
}

#[test]
fn a_copy_that_would_be_too_late_does_not_leave() {
    let mut sender: Sender<()> = Sender::new(rules(40, 2));
    let place = sender.place(7, true);
    sender.keep(at(0), 0, place, LEN, ());
    sender.on_fate(at(41), Fate::Lost(0));
    assert_eq!((sender.due(at(41)), sender.counters().abandoned), (None, 1));
    sender.keep(at(50), 1, place, LEN, ());
    sender.on_fate(at(60), Fate::Lost(1));
    assert_eq!(sender.due(at(60)), Some(LEN));
    assert_eq!(sender.due(at(91)), None, "it waited for permission for too long");
    assert_eq!(sender.counters().copies, 0);
}

#[test]
fn an_end_that_never_hears_of_anything_keeps_a_bounded_amount() {
    let mut sender: Sender<()> = Sender::new(rules(1_000, 2));
    for number in 0..100_000 {
        let place = sender.place(number, true);
        sender.keep(at(0), number, place, LEN, ());
    }
    assert!(sender.bytes() <= HELD_BYTES_MAX && sender.bytes() > HELD_BYTES_MAX / 2);
    sender.on_fate(at(1), Fate::Lost(0));
    assert_eq!(sender.due(at(1)), None, "the oldest made room");
    sender.on_fate(at(1), Fate::Lost(99_999));
    assert!(sender.due(at(1)).is_some());
}

#[test]
fn a_packet_without_a_number_waits_and_nothing_waits_for_it() {
    let mut sender: Sender<()> = Sender::new(rules(40, 2));
    let places = [true, false, true, false].map(|is_numbered| (sender.place(7, is_numbered), is_numbered));
    let mut receiver: Receiver<u8> = Receiver::new(Duration::from_millis(40));
    let mut arrive = |ms, which: usize| {
        let (place, is_numbered) = places[which];
        let passes = receiver.arrive(at(ms), place, is_numbered, LEN, || which as u8);
        let mut passed: Vec<u8> = passes.then_some(which as u8).into_iter().collect();
        passed.extend(std::iter::from_fn(|| receiver.released()));
        passed
    };
    assert_eq!(arrive(0, 1), [], "the first is missing");
    assert_eq!(arrive(1, 2), []);
    assert_eq!(arrive(2, 0), [0, 1, 2]);
    assert_eq!(arrive(3, 0), [], "again");
    assert_eq!(arrive(4, 3), [3]);
}

#[test]
fn turns_go_round_without_an_end() {
    let mut sender: Sender<()> = Sender::new(rules(40, 2));
    let mut receiver: Receiver<()> = Receiver::new(Duration::from_millis(40));
    for _ in 0..200_000 {
        let place = sender.place(5, true);
        assert!(receiver.arrive(at(0), place, true, LEN, || ()));
    }
}

#[test]
fn a_packet_that_half_of_all_turns_have_passed_does_not_leave_again() {
    for (passed, leaves) in [(1, true), (1 << 14, true), ((1 << 14) + 1, false), (1 << 15, false)] {
        let mut sender = Sender::new(rules(40, 2));
        let place = sender.place(7, true);
        sender.keep(at(0), 1, place, LEN, ());
        for _ in 1..passed {
            sender.place(7, true);
        }
        sender.on_fate(at(1), Fate::Lost(1));
        assert_eq!(sender.due(at(1)).is_some(), leaves, "{passed}");
        assert_eq!(sender.counters().abandoned, u64::from(!leaves), "{passed}");
    }
}
