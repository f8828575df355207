//! A circuit over a path that delays and loses control packets, with users' packets that arrive whenever they like.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::fair::{Fair, exempt_packets};
use super::tunnel::{Class, Drops, Schedule, Tunnel};
use super::*;
use crate::cc::{Algorithm, bbr, cubic, fast, reno, vegas};
use crate::packet::{self, Body, Ecn, Endpoint};
use crate::tcp::connection::{Connection, Fault, PairedEnd};
use crate::time::Duration;
use crate::units::{Capacity, Rate};

const DELAY: Duration = Duration::from_millis(5);
pub(super) const MAX_LEN: u32 = 1_500;

/// The sending end: a circuit, or a socket over one.
pub(super) trait Sends {
    fn receive(&mut self, now: Time, which: usize, segment: &Segment);
    fn poll(&mut self, now: Time) -> Output;
}

impl Sends for Sender {
    fn receive(&mut self, now: Time, which: usize, segment: &Segment) {
        Sender::receive(self, now, which, segment);
    }

    fn poll(&mut self, now: Time) -> Output {
        Sender::poll(self, now)
    }
}

pub(super) struct Path<S = Sender> {
    pub(super) sender: S,
    receiver: Receiver,
    /// The delays of the next control packets; those beyond take `DELAY`.
    pub(super) delays: VecDeque<Duration>,
    /// Control packets under way: to whom they go, when they arrive.
    under_way: BTreeMap<(Time, u64), (bool, usize, Segment)>,
    next: u64,
    /// The fates of the next control packets, true for a loss; those beyond are not lost.
    pub(super) losses: VecDeque<bool>,
    pub(super) sent: Vec<(Time, Packet)>,
    headers: Vec<Time>,
    header_lens: Vec<u32>,
}

impl Path {
    pub(super) fn new(
        controls: usize,
        vmss: u64,
        guaranteed: Option<Rate>,
        room: Capacity,
        base: &Personality,
    ) -> Path {
        Path::with_tunnel(controls, vmss, guaranteed, Tunnel::drop_tail(room), base)
    }

    pub(super) fn with_tunnel(
        controls: usize,
        vmss: u64,
        guaranteed: Option<Rate>,
        tunnel: Tunnel,
        base: &Personality,
    ) -> Path {
        let personality = control_personality(base, Bytes::new(vmss));
        let end = |isn| PairedEnd { personality: &personality, isn, clock_phase: Duration::ZERO };
        // Their sequence numbers wrap round, the first's soonest.
        let (from, to): (Vec<_>, Vec<_>) =
            (0..controls).map(|i| Connection::pair(end(u32::MAX - 20_000 * (i as u32 + 1)), end(u32::MAX))).unzip();
        Path {
            sender: Sender::new(tunnel, from, Bytes::new(vmss), guaranteed),
            receiver: Receiver::new(to),
            delays: VecDeque::new(),
            under_way: BTreeMap::new(),
            next: 0,
            losses: VecDeque::new(),
            sent: Vec::new(),
            headers: Vec::new(),
            header_lens: Vec::new(),
        }
    }

    /// Runs until `end`, with packets that arrive: each at its time. Returns how many were taken.
    fn run(&mut self, arrivals: &[(Time, Packet)], end: Time) -> usize {
        let mut taken = 0;
        self.run_with(arrivals, end, |sender, now, packet| {
            taken += usize::from(sender.push(now, 0, *packet).is_some())
        });
        taken
    }
}

impl<S: Sends> Path<S> {
    /// This path with another sending end, made of the one that it has.
    pub(super) fn with<T>(self, over: impl FnOnce(S) -> T) -> Path<T> {
        let Path { sender, receiver, delays, under_way, next, losses, sent, headers, header_lens } = self;
        Path { sender: over(sender), receiver, delays, under_way, next, losses, sent, headers, header_lens }
    }

    fn dispatch(&mut self, now: Time, to_receiver: bool, which: usize, segment: Segment) {
        self.next += 1;
        let delay = self.delays.pop_front().unwrap_or(DELAY);
        if !self.losses.pop_front().unwrap_or(false) {
            self.under_way.insert((now + delay, self.next), (to_receiver, which, segment));
        }
    }

    /// Polls both ends until they wait; returns until when.
    fn settle(&mut self, now: Time) -> Option<Time> {
        let sender = loop {
            match self.sender.poll(now) {
                Output::User(packet) => self.sent.push((now, packet)),
                Output::Control(which, segment) => {
                    self.headers.push(now);
                    self.header_lens.push(segment.len);
                    self.dispatch(now, true, which, segment);
                }
                Output::Wait(wake) => break wake,
            }
        };
        let receiver = loop {
            match self.receiver.poll(now) {
                Output::User(_) => unreachable!("the receiving end has no users' packets"),
                Output::Control(which, segment) => self.dispatch(now, false, which, segment),
                Output::Wait(wake) => break wake,
            }
        };
        crate::time::earlier(sender, receiver)
    }

    /// Runs until `end`, with what happens to be done, each thing at its time.
    pub(super) fn run_with<T>(&mut self, things: &[(Time, T)], end: Time, mut does: impl FnMut(&mut S, Time, &T)) {
        let mut coming = things.iter().peekable();
        let mut now = Time::ZERO;
        loop {
            let wake = self.settle(now);
            let flight = self.under_way.keys().next().map(|(time, _)| *time);
            let arrival = coming.peek().map(|(time, _)| *time);
            let Some(next) = [wake, flight, arrival].into_iter().flatten().min().filter(|time| *time <= end) else {
                return;
            };
            assert!(next >= now, "nobody waits for the past: {next} at {now}");
            assert!(next > now || wake != Some(next), "who was polled waits for later");
            now = next;
            while let Some((_, thing)) = coming.next_if(|(time, _)| *time <= now) {
                does(&mut self.sender, now, thing);
            }
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
                let (to_receiver, which, segment) = entry.remove();
                if to_receiver {
                    self.receiver.receive(now, which, &segment);
                } else {
                    self.sender.receive(now, which, &segment);
                }
            }
        }
    }
}

pub(super) fn packet(id: u64, len: u32) -> Packet {
    let end = |node| Endpoint { node, port: id as u16 };
    Packet { id, src: end(1), dst: end(2), len, class: packet::Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
}

pub(super) fn at_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Packets of 1000 bytes, one a millisecond.
fn stream(count: u64) -> Vec<(Time, Packet)> {
    (0..count).map(|id| (at_ms(id), packet(id, 1_000))).collect()
}

fn path(vmss: u64, guaranteed: Option<Rate>) -> Path {
    Path::new(1, vmss, guaranteed, Capacity::Packets(1_000_000), &Personality::newreno())
}

#[test]
fn data_go_before_their_header_and_there_is_one_header_for_each_vmss() {
    let mut path = path(3_000, None);
    path.run(&stream(300), at_ms(2_000));
    assert_eq!(path.sent.len(), 300);
    assert_eq!(path.headers.len(), 100, "3000 bytes are three packets");
    for (number, header) in path.headers.iter().enumerate() {
        let before = path.sent.iter().filter(|(time, _)| time <= header).count();
        assert!(before >= 3 * (number + 1), "header {number} follows its packets: {before}");
    }
}

#[test]
fn without_data_nothing_is_sent_not_even_what_was_lost() {
    let mut path = path(1_000, None);
    path.losses = VecDeque::from(vec![true; 3]);
    path.run(&stream(3), at_ms(60_000));
    assert_eq!((path.sent.len(), path.headers.len()), (3, 3), "a minute passes in silence");
    assert_eq!(path.sender.connections().map(|tcp| tcp.counters().timeouts).sum::<u64>(), 0);
    // New data bring the lost headers back.
    let late: Vec<_> = (0..50).map(|id| (at_ms(61_000 + id), packet(id, 1_000))).collect();
    path.run(&late, at_ms(120_000));
    assert_eq!(path.sent.len(), 53);
    assert!(path.sender.connections().all(|tcp| tcp.counters().retransmits > 0 && tcp.fault().is_none()));
}

#[test]
fn a_lost_header_is_sent_again_with_new_data_and_no_data_twice() {
    let mut path = path(1_000, None);
    path.losses = (0..200).map(|n| n % 23 == 11).collect();
    path.run(&stream(500), at_ms(60_000));
    let ids: Vec<u64> = path.sent.iter().map(|(_, packet)| packet.id).collect();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
    let again: u64 = path.sender.connections().map(|tcp| tcp.counters().retransmits).sum();
    assert!(again > 0 && path.headers.len() == 500, "{again} headers again, each with a packet of its own");
}

#[test]
fn a_circuit_never_has_more_in_the_network_than_its_control_tcps_windows() {
    let base = Personality { initial_window_segments: Some(2), ..Personality::newreno() };
    let mut path = Path::new(3, 1_500, None, Capacity::Packets(1_000_000), &base);
    let burst: Vec<_> = (0..100).map(|id| (Time::ZERO, packet(id, 1_500))).collect();
    path.run(&burst, at_ms(4));
    assert_eq!(path.sent.len(), 6, "two packets for each of three, before any answer");
    path.run(&[], at_ms(1_000));
    assert_eq!(path.sent.len(), 100);
}

#[test]
fn the_guaranteed_rate_holds_without_headers_however_many_are_lost() {
    let mut path = path(1_500, Some(Rate::kbit(800)));
    path.losses = VecDeque::from(vec![true; 100_000]);
    let greedy: Vec<_> = (0..2_000).map(|id| (Time::ZERO, packet(id, 1_000))).collect();
    path.run(&greedy, at_ms(10_000));
    let counters = path.sender.counters();
    assert!((999..=1_001).contains(&counters.guaranteed), "100 bytes a millisecond: {counters:?}");
    for second in 0..10 {
        let within = |time: Time| time > at_ms(1_000 * second) && time <= at_ms(1_000 * (second + 1));
        let sent = path.sent.iter().filter(|(time, _)| within(*time)).count();
        assert!(sent >= 99, "second {second}: {sent} packets");
    }
    assert!(counters.headers < 20, "{counters:?}");
}

#[test]
fn a_packet_longer_than_a_vmss_waits_for_as_much_of_the_window() {
    let base = Personality { initial_window_segments: Some(4), ..Personality::sack() };
    let mut path = Path::new(1, 500, None, Capacity::Packets(10), &base).with(Sender::with_whole_credit);
    // Of a window of 2000 bytes, 1000 are left when the second comes: it waits for acknowledgements, 10 ms.
    path.run(&[(at_ms(100), packet(0, 1_000)), (at_ms(100), packet(1, 1_500))], at_ms(1_000));
    let times: Vec<Time> = path.sent.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [at_ms(100), at_ms(110)]);
    assert_eq!(path.headers.len(), 5);
}

#[test]
fn a_packet_longer_than_the_window_leaves_while_nothing_is_under_way() {
    let base = Personality { initial_window_segments: Some(1), ..Personality::sack() };
    let mut path = Path::new(1, 500, None, Capacity::Packets(10), &base).with(Sender::with_whole_credit);
    path.run(&[(at_ms(100), packet(0, 1_500))], at_ms(5_000));
    assert_eq!((path.sent.len(), path.headers.len()), (1, 3));
}

#[test]
fn acknowledgements_of_the_reverse_circuit_count_as_data() {
    let mut path = path(1_040, None);
    for _ in 0..20 {
        path.sender.charge(Bytes::new(52));
    }
    path.run(&[], at_ms(100));
    assert_eq!(path.headers.len(), 1, "20 x 52 bytes are one VMSS");
    path.run(&[(at_ms(200), packet(0, 1_000))], at_ms(300));
    assert_eq!(path.headers.len(), 1);
    path.sender.charge(Bytes::new(52));
    path.run(&[], at_ms(400));
    assert_eq!(path.headers.len(), 2, "1000 + 52");
}

#[test]
fn a_header_packet_has_no_payload_and_its_tcp_counts_a_vmss_of_data() {
    let personality =
        control_personality(&Personality { timestamps: true, ..Personality::bsd_reno_1996() }, Bytes::new(3_000));
    let mut path = Path::new(
        1,
        3_000,
        None,
        Capacity::Packets(10),
        &Personality { timestamps: true, ..Personality::bsd_reno_1996() },
    );
    for id in 0..2 {
        path.sender.push(Time::ZERO, 0, packet(id, 1_500));
    }
    let sent: Vec<Output> = std::iter::from_fn(|| match path.sender.poll(Time::ZERO) {
        Output::Wait(_) => None,
        output => Some(output),
    })
    .collect();
    let Some(Output::Control(0, header)) = sent.last() else { panic!("{sent:?}") };
    assert_eq!((sent.len(), header.len, wire_len(&personality, header)), (3, 3_000, 52));
}

#[test]
fn control_tcps_that_open_by_themselves_begin_when_they_are_open() {
    let personality = control_personality(&Personality::linux(), Bytes::new(1_500));
    let mut path = path(1_500, None);
    path.sender = Sender::new(
        Tunnel::drop_tail(Capacity::Packets(100)),
        vec![Connection::connect(&personality, 1, Duration::ZERO)],
        Bytes::new(1_500),
        None,
    );
    path.receiver = Receiver::new(vec![Connection::listen(&personality, 2, Duration::ZERO)]);
    path.run(&stream(50), at_ms(1_000));
    assert_eq!(path.sent.len(), 50);
    assert!(path.sent[0].0 >= at_ms(10), "after a round trip");
}

#[test]
fn trickling_data_do_not_wear_out_the_timer_of_the_header_held_for_them() {
    let mut path = path(6_000, None);
    path.losses = VecDeque::from(vec![true]);
    // A packet every minute, 120 of them for a header: the first header is lost.
    let trickle: Vec<_> = (0..400).map(|id| (at_ms(60_000 * id), packet(id, 50))).collect();
    path.run(&trickle, at_ms(60_000 * 400));
    let tcp = path.sender.connections().next().unwrap();
    assert_eq!((path.sent.len(), path.headers.len(), tcp.fault()), (400, 3, None));
    assert!(tcp.counters().timeouts <= 2, "{:?}", tcp.counters());
}

#[test]
fn a_control_tcp_that_is_never_answered_ends_and_its_circuit_says_so() {
    let mut path = path(1_000, None);
    path.losses = VecDeque::from(vec![true; 1_000]);
    path.run(&stream(500), at_ms(10_000_000));
    assert_eq!(path.sender.connections().map(Connection::fault).collect::<Vec<_>>(), [Some(Fault::TimedOut)]);
    assert!(path.sent.len() < 100);
}

#[test]
fn a_shrinking_trunk_works_k_out_of_its_old_window_and_its_active_flows() {
    const FLOWS: u64 = 3;
    let fair = Fair::new(1_000, Duration::from_millis(500), 50);
    let class = Class { room: Capacity::Packets(100_000), drops: Drops::Fair(fair), weight: 1 };
    let tunnel = Tunnel::new(vec![class], Schedule::Priority);
    let mut path = Path::with_tunnel(1, 1_500, None, tunnel, &Personality::newreno());
    path.losses = (0..10_000).map(|n| n == 300).collect();
    let mut before = (0, 0);
    let mut found = None;
    // Of a fourth flow there is one packet, long before.
    let arrivals: Vec<_> = (0..2_000).map(|n| (at_ms(if n == 0 { 0 } else { 1_000 + n / 2 }), n)).collect();
    path.run_with(&arrivals, at_ms(3_000), |sender, now, n| {
        let losses = sender.connections().next().unwrap().counters().fast_retransmits;
        if losses > before.0 {
            found = Some((before.1, sender.tunnel().exempt_packets(0).unwrap()));
        }
        before = (losses, sender.window_packets());
        let flow = if *n == 0 { FLOWS } else { n % FLOWS };
        let end = |node| Endpoint { node, port: flow as u16 };
        sender.push(now, 0, Packet { src: end(1), dst: end(2), ..packet(*n, 1_500) });
    });
    let (window, exempt) = found.expect("the header that was lost");
    assert!(window >= 20, "{window}");
    // The window may have grown since the packet before.
    let k = (window..window + 3).map(|window| exempt_packets(window, FLOWS, 50)).collect::<Vec<_>>();
    assert!(k.contains(&exempt) && exempt > 3, "{exempt} of {k:?}, with a window of {window}");
}

#[test]
fn a_time_out_noticed_only_with_the_next_header_works_k_out_as_well() {
    let fair = Fair::new(1_000, Duration::from_secs(90), 50);
    let class = Class { room: Capacity::Packets(100_000), drops: Drops::Fair(fair), weight: 1 };
    let base = Personality { idle_restart: false, ..Personality::newreno() };
    let mut path = Path::with_tunnel(1, 3_000, None, Tunnel::new(vec![class], Schedule::Priority), &base);
    let packets = |ms, count: u64| vec![(at_ms(ms), packet(0, 1_500)); count as usize];
    path.run(&packets(0, 100), at_ms(5_000));
    let window = path.sender.window_packets();
    // A header is lost, half of the next one's data leave, and for a minute there are no more.
    path.losses = vec![true; 100].into();
    path.run(&packets(6_000, 3), at_ms(7_000));
    assert_eq!((path.sent.len(), path.headers.len()), (103, 51));
    path.run(&packets(67_000, 1), at_ms(67_000));
    assert_eq!(path.sender.connections().next().unwrap().counters().timeouts, 1);
    let k = exempt_packets(window, 1, 50);
    assert!(k > 3, "{window}");
    assert_eq!(path.sender.tunnel().exempt_packets(0), Some(k));
}

/// Every algorithm, with its default parameters.
fn controllers() -> [Algorithm; 5] {
    [
        reno::Parameters.into(),
        cubic::Parameters::DEFAULT.into(),
        fast::Parameters::DEFAULT.into(),
        vegas::Parameters::DEFAULT.into(),
        bbr::Parameters.into(),
    ]
}

proptest! {
    #[test]
    fn users_packets_leave_unchanged_in_order_and_on_earned_credit_only(
        arrivals in vec((0..400_u64, 40..=MAX_LEN), 0..300),
        // Not so many that a TCP gives up after fifteen in a row.
        losses in vec(prop::bool::weighted(0.25), 0..200),
        // Control packets overtake each other, and some come after the timer.
        delays in vec(prop_oneof![4 => 1..20_u64, 1 => 1..3_000_u64], 0..400),
        charges in vec(40..60_u64, 0..5),
        controls in 1..5_usize,
        vmss in 500..6_000_u64,
        guaranteed in prop::option::of(1..4_000_u64),
        room in 1..200_u64,
        awaits_whole_credit in any::<bool>(),
        sender in 0..4_usize,
        controller in prop::option::of(0..controllers().len()),
    ) {
        let base = [Personality::bsd_reno_1996, Personality::newreno, Personality::sack, Personality::linux][sender]();
        let controller = controller.map_or(base.controller.clone(), |which| controllers()[which].clone());
        let base = Personality { controller, ..base };
        let mut path = Path::new(controls, vmss, guaranteed.map(Rate::kbit), Capacity::Packets(room), &base);
        if awaits_whole_credit {
            path = path.with(Sender::with_whole_credit);
        }
        path.losses = losses.into();
        path.delays = delays.into_iter().map(Duration::from_millis).collect();
        let mut charged = 0;
        for len in charges {
            path.sender.charge(Bytes::new(len));
            charged += len;
        }
        let mut times: Vec<u64> = arrivals.iter().map(|(ms, _)| *ms).collect();
        times.sort_unstable();
        let arrivals: Vec<(Time, Packet)> =
            times.iter().zip(&arrivals).enumerate().map(|(id, (ms, (_, len)))| (at_ms(*ms), packet(id as u64, *len))).collect();
        let taken = path.run(&arrivals, Time::ZERO + Duration::from_secs(40_000));

        prop_assert_eq!(path.sent.len(), taken, "what was taken has left");
        let mut last = None;
        for (_, sent) in &path.sent {
            prop_assert!(last.is_none_or(|last| last < sent.id), "in order");
            last = Some(sent.id);
            let came = arrivals[sent.id as usize].1;
            prop_assert_eq!(*sent, Packet { class: packet::Class::User, ..came }, "with a mark and otherwise as it came");
        }
        let counters = path.sender.counters();
        let earned = counters.headers * vmss;
        let most = (controls as u64) * (vmss + u64::from(MAX_LEN));
        prop_assert!(
            counters.controlled_bytes <= earned + most,
            "each control TCP is at most a VMSS and a packet ahead of its headers: {:?}", counters
        );
        prop_assert_eq!(counters.controlled_bytes + charged, earned + path.sender.unpaid().get(), "the books balance");
        // Besides headers there are answers to acknowledgements that come too late to be any.
        let headers: Vec<u32> = path.header_lens.iter().copied().filter(|len| *len > 0).collect();
        prop_assert_eq!(headers.len() as u64, counters.headers);
        prop_assert!(headers.iter().all(|len| u64::from(*len) == vmss), "each stands for a VMSS: {:?}", headers);
    }
}

#[test]
fn a_queue_before_the_tunnel_gets_the_guaranteed_rate_whole() {
    let (rate, seconds) = (Rate::mbit(100), 2);
    // The control TCP is never acknowledged, so that but for its first window all is the guarantee.
    let personality = control_personality(&Personality::linux(), Bytes::new(6_000));
    let end = |isn| PairedEnd { personality: &personality, isn, clock_phase: Duration::ZERO };
    let (from, _) = Connection::pair(end(1), end(2));
    let tunnel = Tunnel::drop_tail(Capacity::Packets(1));
    let mut sender = Sender::new(tunnel, vec![from], Bytes::new(6_000), Some(rate));
    let packet = |id| Packet {
        id,
        src: Endpoint::default(),
        dst: Endpoint::default(),
        len: 1_500,
        class: packet::Class::Unmarked,
        ecn: Ecn::NotEct,
        body: Body::Opaque,
    };
    let (mut now, end) = (Time::ZERO + Duration::from_secs(1), Time::ZERO + Duration::from_secs(1 + seconds));
    sender.backlog(now, true);
    while now < end {
        loop {
            match sender.poll(now) {
                Output::Wait(_) if sender.allows(now) => {
                    sender.push(now, 0, packet(0)).expect("the tunnel queue is empty");
                }
                Output::Wait(_) => break,
                Output::User(_) | Output::Control(..) => {}
            }
        }
        assert!(sender.tunnel().is_empty(), "what was pushed has left");
        now = sender.allows_at().expect("the bucket is filled again");
    }
    let due = rate.get() / 8 * seconds;
    let sent = sender.counters().guaranteed_bytes;
    assert!((due - 15_000..=due + 1_500).contains(&sent), "{sent} of {due} bytes, and no more for the second before");
}
