//! Two ends, and a network between them that a test cuts, delays and repeats, in time that a test makes.

mod repair;

use std::collections::VecDeque;
use std::net::SocketAddr;

use headend_engine::circuit::tunnel::Schedule;
use headend_engine::circuit::turns::{Class, Waiting};
use headend_engine::tcp::segment::Segment;
use headend_engine::units::{Bytes, Rate};
use proptest::prelude::*;

use super::super::bundle::Bundle;
use super::super::circuit::Held;
use super::super::config::{Receive, Send};
use super::super::gate::{Gate, Verdict};
use super::super::store::Store;
use super::super::wire::{COOKIE_REPLY, Datagram, SEALED_HEADER, cookie_header};
use super::*;
use headend_datagram::{PublicKey, SecretKey};

const DELAY: Duration = Duration::from_millis(10);
const DEAD_AFTER: Duration = Duration::from_secs(3);

struct End {
    identity: Arc<Identity>,
    peer: Peer,
    address: SocketAddr,
    /// Nanoseconds that its wall clock is ahead of the time of the test.
    clock_ns: u64,
    /// Names of the packets that the kernel was told to let go, in native carriage.
    left: Vec<u64>,
    /// Packets that wait, and the numbers in those that came, in sealed carriage.
    store: Store,
    came: Vec<u64>,
    /// What lets hand-shakes in when there are too many.
    gate: Gate,
}

struct Net {
    ends: [End; 2],
    now: Time,
    under_way: VecDeque<(Time, usize, Way, Vec<u8>)>,
    /// All that was ever sent to each end.
    seen: [Vec<(Way, Vec<u8>)>; 2],
    /// True for each datagram from now on that is lost, in order; those beyond are not lost.
    losses: VecDeque<bool>,
    is_cut: bool,
    /// Bytes of the longest datagram that passes.
    passes: usize,
}

fn config(name: &str, key: PublicKey, endpoint: Option<SocketAddr>) -> PeerConfig {
    PeerConfig {
        name: name.to_owned(),
        key,
        shared: SecretKey::NONE,
        endpoint,
        networks: vec!["10.2.0.0/16".parse().unwrap()],
        send: Send { guaranteed: Rate::mbit(3), ..Send::default() },
        receive: Receive { controls_max: 2, guaranteed_max: Rate::mbit(1), repair_within_max: Duration::ZERO },
    }
}

fn habits(carriage: Carriage, fallback: Fallback) -> Habits {
    Habits { carriage, fallback, dead_after: DEAD_AFTER, mtu: 1_426 }
}

fn peer(identity: &Arc<Identity>, other: PublicKey, endpoint: Option<SocketAddr>, habits: Habits) -> Peer {
    let class = Class { room: Bytes::new(1_000_000), weight: 1 };
    let edge = Turns::new(&[class], Schedule::Priority);
    Peer::new(config("other", other, endpoint), identity.clone(), 0, edge, habits)
}

/// What the test has written into a packet.
fn id_of(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[20..28].try_into().unwrap())
}

impl End {
    fn take_released(&mut self) {
        while let Some(held) = self.peer.released() {
            self.came.push(id_of(&held.bytes));
        }
    }
}

impl Net {
    fn new(fallback: Fallback) -> Net {
        Net::of(habits(Carriage::Native, fallback))
    }

    fn sealed() -> Net {
        Net::of(habits(Carriage::Sealed, Fallback::Block))
    }

    fn of(habits: Habits) -> Net {
        let addresses: [SocketAddr; 2] = ["192.0.2.1:7700".parse().unwrap(), "192.0.2.2:7700".parse().unwrap()];
        let identities = [Arc::new(Identity::generate()), Arc::new(Identity::generate())];
        let ends = [0, 1].map(|side| {
            // Only the first knows where the other is.
            let endpoint = (side == 0).then_some(addresses[1]);
            End {
                peer: peer(&identities[side], identities[1 - side].public(), endpoint, habits),
                identity: identities[side].clone(),
                address: addresses[side],
                clock_ns: 1_000_000_000_000,
                left: Vec::new(),
                store: Store::default(),
                came: Vec::new(),
                gate: Gate::new(Time::ZERO),
            }
        });
        let (losses, seen) = (VecDeque::new(), [Vec::new(), Vec::new()]);
        Net { ends, now: Time::ZERO, under_way: VecDeque::new(), seen, losses, is_cut: false, passes: 65_535 }
    }

    /// Replaces an end, as if it was killed and started again.
    fn restart(&mut self, side: usize) {
        let other = self.ends[1 - side].identity.public();
        let endpoint = (side == 0).then_some(self.ends[1].address);
        let end = &mut self.ends[side];
        end.peer = peer(&end.identity, other, endpoint, end.peer.habits);
    }

    fn deliver(&mut self, side: usize, way: Way, bytes: &[u8]) {
        let now = self.now;
        let end = &mut self.ends[side];
        let mut outbox = Outbox::default();
        match Datagram::read(bytes) {
            Some(Datagram::Initiation { sender, noise, proof, tagged, tag, .. }) => {
                if end.gate.judge(now, way.to, tagged, tag) == Verdict::GiveCookie {
                    outbox.push(way, 0, COOKIE_REPLY, |out| {
                        out.extend_from_slice(&cookie_header(sender));
                        end.gate.give_cookie(&end.identity.public(), way.to, proof, out);
                    });
                } else if let Some(asked) = handshake::read(&end.identity, noise) {
                    end.peer.asked(now, asked, sender, way, &mut outbox);
                }
            }
            Some(Datagram::Response { sender, receiver, noise, .. }) => {
                end.peer.answered(now, noise, receiver, sender, way, &mut outbox);
            }
            Some(Datagram::Cookie { receiver, cookie }) => end.peer.given_cookie(now, receiver, cookie),
            Some(Datagram::Sealed { receiver, counter, header, sealed }) => {
                let mut sealed = sealed.to_vec();
                let arrival = end.peer.sealed(now, (receiver, counter), (header, &mut sealed), way, &mut outbox);
                if let Some(arrival) = arrival {
                    let bytes = &sealed[arrival.bytes.clone()];
                    if end.peer.order(now, &arrival, bytes, 0) {
                        end.came.push(id_of(bytes));
                    }
                }
                end.take_released();
            }
            None => {}
        }
        self.post(side, outbox);
    }

    fn post(&mut self, from: usize, outbox: Outbox) {
        for train in outbox.trains {
            for datagram in train.bytes.chunks(train.datagram) {
                let to = 1 - from;
                let way = Way { to: self.ends[from].address, from: None };
                self.seen[to].push((way, datagram.to_vec()));
                let is_lost = self.losses.pop_front().unwrap_or(false) || datagram.len() > self.passes;
                if !is_lost && !self.is_cut {
                    self.under_way.push_back((self.now + DELAY, to, way, datagram.to_vec()));
                }
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        let mut rounds_without_time = 0;
        loop {
            let mut wake = Some(end);
            for side in 0..2 {
                let (now, peer) = (self.now, &mut self.ends[side]);
                let mut outbox = Outbox::default();
                let due = peer.peer.poll(now, peer.clock_ns + now.as_nanos(), &mut outbox);
                peer.take_released();
                let mut leaving = Vec::new();
                let mut hold = match peer.peer.habits.carriage {
                    Carriage::Native | Carriage::Tunnelled => Hold::Kernel(&mut leaving),
                    Carriage::Sealed | Carriage::Probe => Hold::Here(&mut peer.store),
                };
                let may = peer.peer.release(now, &mut hold, &mut outbox);
                peer.left.extend(leaving.iter().map(|packet| packet.id));
                wake = earlier(wake, earlier(due, may));
                self.post(side, outbox);
            }
            wake = earlier(wake, self.under_way.front().map(|(at, ..)| *at));
            let wake = wake.expect("there is the end at least");
            if wake >= end && self.now >= end {
                return;
            }
            rounds_without_time = if wake <= self.now { rounds_without_time + 1 } else { 0 };
            assert!(rounds_without_time < 1_000, "an end wants to be looked at again and again at {}", self.now);
            self.now = wake.max(self.now).min(end);
            while self.under_way.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, side, way, bytes) = self.under_way.pop_front().unwrap();
                self.deliver(side, way, &bytes);
            }
        }
    }

    /// Gives the first end packets for the other.
    fn feed(&mut self, ids: std::ops::Range<u64>) {
        for id in ids {
            let end = &mut self.ends[0];
            let (mut id, mut len) = (id, 1_500);
            if end.peer.habits.carriage == Carriage::Sealed {
                let mut bytes = vec![0x45; 1_400];
                bytes[20..28].copy_from_slice(&id.to_be_bytes());
                id = end.store.insert(Bundle::read(&[0; 10], bytes).expect("a packet of IP"));
                len = 1_400;
            }
            end.peer.edge.push(0, Waiting { id, flow: 1, len });
        }
    }

    fn carries(&self, side: usize) -> bool {
        matches!(self.ends[side].peer.to, To::Circuit(_)) && self.ends[side].peer.is_up(self.now)
    }

    fn circuits(&self) -> [u64; 2] {
        self.ends.each_ref().map(|end| end.peer.counters.circuits)
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn two_ends_find_each_other_and_packets_leave_once_and_in_order() {
    let mut net = Net::new(Fallback::Block);
    net.feed(0..500);
    net.run(secs(1));
    assert!(net.carries(0) && net.carries(1));
    net.run(secs(5));
    assert_eq!(net.ends[0].left, (0..500).collect::<Vec<_>>());
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    let Outgoing::Headers(to) = &**to else { panic!("native carriage has headers") };
    let sent = to.sender().counters();
    assert_eq!((sent.controlled_bytes + sent.guaranteed_bytes, sent.guaranteed > 0), (750_000, true));
    assert!(sent.headers >= sent.controlled_bytes / 6_000 - 2, "a header for each VMSS under control");
}

#[test]
fn terms_are_what_the_receiver_grants_of_what_is_asked_for() {
    let mut net = Net::new(Fallback::Direct);
    net.run(secs(1));
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    let terms = to.terms();
    assert_eq!((terms.controls, terms.guaranteed_bps, terms.vmss), (2, 1_000_000, 6_000));
    assert_eq!(net.ends[1].peer.from.as_ref().unwrap().terms(), terms);
}

#[test]
fn a_receiver_that_grants_nothing_is_asked_seldom() {
    let mut net = Net::new(Fallback::Direct);
    net.ends[1].peer.config.receive.controls_max = 0;
    net.run(secs(5));
    assert!(matches!(net.ends[0].peer.to, To::Refused(..)));
    net.feed(0..3);
    net.run(secs(1));
    assert_eq!(net.ends[0].left, [0, 1, 2]);
}

#[test]
fn what_is_replayed_forged_or_reflected_changes_nothing() {
    let mut net = Net::new(Fallback::Block);
    net.feed(0..200);
    net.run(secs(2));
    let (circuits, seen) = (net.circuits(), net.seen.clone());
    let sessions = net.ends.each_ref().map(|end| end.peer.counters.sessions);
    let stranger = Way { to: "198.51.100.7:9".parse().unwrap(), from: None };
    for (side, seen) in seen.iter().enumerate() {
        for (at, (_, bytes)) in seen.iter().enumerate() {
            let mut forged = bytes.clone();
            forged[at % bytes.len()] ^= 1 << (at % 8);
            for (to, bytes) in [(side, bytes), (side, &forged), (1 - side, bytes)] {
                net.deliver(to, stranger, bytes);
                net.deliver(to, stranger, &bytes[..bytes.len() / 2]);
            }
        }
    }
    net.feed(200..400);
    net.run(secs(5));
    assert_eq!(net.ends[0].left, (0..400).collect::<Vec<_>>());
    assert_eq!((net.circuits(), net.ends.each_ref().map(|end| end.peer.counters.sessions)), (circuits, sessions));
    let at = net.ends.each_ref().map(|end| end.peer.way.unwrap().to);
    assert_eq!(at, [net.ends[1].address, net.ends[0].address], "nobody was led to a stranger");
}

#[test]
fn an_end_that_was_killed_is_missed_and_found_again() {
    for side in 0..2 {
        let mut net = Net::new(Fallback::Direct);
        net.run(secs(1));
        net.is_cut = true;
        net.run(secs(4));
        assert!(!net.carries(0) && !net.carries(1));
        net.feed(0..3);
        net.run(secs(1));
        assert_eq!(net.ends[0].left, [0, 1, 2], "directly");
        net.restart(side);
        net.is_cut = false;
        net.run(secs(10));
        assert!(net.carries(0) && net.carries(1), "side {side}");
        net.feed(3..100);
        net.run(secs(5));
        assert_eq!(net.ends[0].left, (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn an_end_that_is_back_at_once_is_given_a_new_circuit() {
    for side in 0..2 {
        let mut net = Net::new(Fallback::Block);
        net.run(secs(1));
        net.restart(side);
        net.run(secs(12));
        assert!(net.carries(0) && net.carries(1), "side {side}");
        assert!(net.ends.iter().all(|end| end.peer.from.is_some()), "both ways, though nothing was sent");
        net.feed(0..100);
        net.run(secs(5));
        assert_eq!(net.ends[0].left.len(), 100);
    }
}

#[test]
fn a_path_that_is_cut_for_a_minute_is_used_again() {
    let mut net = Net::new(Fallback::Block);
    net.run(secs(1));
    net.is_cut = true;
    net.run(secs(60));
    net.is_cut = false;
    net.run(secs(8));
    assert!(net.carries(0) && net.carries(1));
}

#[test]
fn clocks_that_jump_keep_nobody_out() {
    for jump in [0, 1, u64::MAX / 2] {
        let mut net = Net::new(Fallback::Block);
        net.run(secs(1));
        for end in &mut net.ends {
            end.clock_ns = jump;
        }
        net.run(secs(400));
        assert!(net.carries(0) && net.carries(1), "keys were renewed with a clock at {jump}");
        net.restart(0);
        net.ends[0].clock_ns = 5;
        net.run(secs(12));
        assert!(net.carries(0) && net.carries(1), "a new start with a clock at 5 after {jump}");
    }
}

#[test]
fn keys_are_renewed_and_the_circuit_does_not_notice() {
    let mut net = Net::new(Fallback::Block);
    net.run(secs(1_000));
    assert_eq!(net.circuits(), [1, 1]);
    let sessions = net.ends[0].peer.counters.sessions;
    assert!((8..=10).contains(&sessions), "every two minutes: {sessions}");
}

#[test]
fn a_peer_that_moves_is_followed_with_a_new_slow_start() {
    let mut net = Net::new(Fallback::Block);
    net.run(secs(1));
    net.ends[0].address = "203.0.113.9:1024".parse().unwrap();
    net.feed(0..50);
    net.run(secs(5));
    assert_eq!(net.ends[1].peer.way.unwrap().to, net.ends[0].address);
    assert!(net.carries(0) && net.carries(1));
    assert_eq!(net.circuits()[1], 2, "the path to it is another");
    assert_eq!(net.ends[0].left.len(), 50);
}

#[test]
fn a_peer_at_the_end_of_a_tunnel_stays_there_unless_it_measures() {
    let mut net = Net::of(habits(Carriage::Tunnelled, Fallback::Block));
    let inside = net.ends[0].address;
    net.ends[1].peer.inside = Some(Way { to: inside, from: None });
    net.run(secs(1));
    net.ends[0].address = "203.0.113.9:1024".parse().unwrap();
    net.feed(0..50);
    net.run(secs(5));
    assert_eq!(net.ends[1].peer.way.unwrap().to, inside);
    assert!(net.carries(0) && net.carries(1));
    assert_eq!(net.circuits(), [1, 1], "who brings its messages from elsewhere changes nothing");
    net.restart(0);
    net.ends[0].peer.habits.carriage = Carriage::Probe;
    net.run(secs(10));
    assert_eq!(net.ends[1].peer.way.unwrap().to, net.ends[0].address, "it measures from there");
    net.is_cut = true;
    net.run(secs(10));
    assert_eq!(net.ends[1].peer.way.unwrap().to, inside);
}

#[test]
fn an_orderly_end_is_heard_at_once() {
    let mut net = Net::new(Fallback::Direct);
    net.run(secs(1));
    let mut outbox = Outbox::default();
    let now = net.now;
    net.ends[1].peer.part(now, &mut outbox);
    net.post(1, outbox);
    let (_, side, way, bytes) = net.under_way.pop_back().unwrap();
    net.deliver(side, way, &bytes);
    assert!(!net.ends[0].peer.is_up(net.now));
}

#[test]
fn a_receiver_that_lies_earns_itself_no_more_than_its_lies() {
    let mut net = Net::new(Fallback::Block);
    net.run(secs(1));
    net.feed(0..600);
    let To::Circuit(to) = &mut net.ends[0].peer.to else { panic!("it carries") };
    let Outgoing::Headers(to) = &mut **to else { panic!("native carriage has headers") };
    let now = net.now;
    // It acknowledges what was never sent, over and over.
    let (isn, circuit) = (to.terms.circuit, to.terms.circuit);
    for ahead in [1, 6_000, 1_000_000, 1 << 31, u32::MAX] {
        let segment = Segment {
            seq: (!isn).wrapping_add(1),
            ack: isn.wrapping_add(1).wrapping_add(ahead),
            window: u16::MAX,
            flags: headend_engine::tcp::segment::Flags { ack: true, ..Default::default() },
            options: headend_engine::tcp::segment::Options { timestamps: Some((1, 1)), ..Default::default() },
            ..Segment::default()
        };
        assert_eq!(circuit, to.terms.circuit);
        to.receive(now, 0, &segment);
    }
    let mut leaving = Vec::new();
    net.ends[0].peer.release(now, &mut Hold::Kernel(&mut leaving), &mut Outbox::default());
    // Two control TCPs with the window that a TCP begins with, and what a millisecond's guarantee is.
    assert!(leaving.len() * 1_500 <= 60_000, "{} packets", leaving.len());
}

#[test]
fn sealed_packets_come_once_and_in_order_and_numbers_are_acknowledged() {
    let mut net = Net::sealed();
    net.feed(0..500);
    net.run(secs(10));
    assert!(net.carries(0) && net.carries(1));
    assert_eq!(net.ends[1].came, (0..500).collect::<Vec<_>>());
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    let report = to.report();
    assert_eq!((report.controlled_bytes + report.guaranteed_bytes, report.lost), (700_000, 0));
    // Of 3 Mbit/s that it asks for it is granted one, and takes that.
    assert!(report.guaranteed_bytes > 0 && net.ends[1].peer.counters.ungranted == 0);
    assert!(report.srtt.is_some_and(|srtt| srtt >= DELAY * 2 && srtt < DELAY * 5), "{:?}", report.srtt);
}

#[test]
fn what_is_lost_under_sealed_carriage_is_counted_and_not_sent_again() {
    let mut net = Net::sealed();
    net.run(secs(1));
    net.feed(0..700);
    net.losses = (0..3_000).map(|number| number % 50 == 7).collect();
    net.run(secs(60));
    let came = &net.ends[1].came;
    assert!(came.is_sorted() && (660..700).contains(&came.len()), "{}", came.len());
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    let report = to.report();
    assert!(report.lost > 3 && report.losses > 1, "{report:?}");
}

#[test]
fn sealed_packets_wait_for_an_end_that_was_killed_or_is_back_at_once() {
    for (side, is_cut) in [(0, true), (1, true), (1, false)] {
        let mut net = Net::sealed();
        net.run(secs(1));
        net.is_cut = is_cut;
        if is_cut {
            net.run(secs(4));
            assert!(!net.carries(0) && !net.carries(1));
        }
        net.restart(side);
        net.is_cut = false;
        if !is_cut {
            // Until it is missed, what leaves at the guaranteed rate is lost.
            net.run(secs(12));
        }
        net.feed(0..100);
        net.run(secs(15));
        assert!(net.carries(0) && net.carries(1), "side {side}");
        assert_eq!(net.ends[1].came, (0..100).collect::<Vec<_>>(), "side {side}");
    }
}

impl Net {
    /// Has an end take over another configuration.
    fn change(&mut self, side: usize, change: impl FnOnce(&mut PeerConfig)) {
        let (now, mut outbox) = (self.now, Outbox::default());
        let peer = &mut self.ends[side].peer;
        let mut config = peer.config.clone();
        change(&mut config);
        peer.change(now, config, peer.habits, &mut outbox);
        self.post(side, outbox);
    }

    fn terms(&self, side: usize) -> Terms {
        let To::Circuit(to) = &self.ends[side].peer.to else { panic!("it carries") };
        to.terms()
    }
}

#[test]
fn a_peer_gets_in_through_a_flood_of_hand_shakes_by_its_cookie() {
    let mut net = Net::sealed();
    for number in 0..100_000_u32 {
        let from = SocketAddr::from((std::net::Ipv4Addr::from(number), 7_700));
        net.ends[1].gate.judge(Time::ZERO + DELAY, from, b"asked", &[0; PROOF]);
    }
    net.run(secs(1));
    assert!(net.carries(0) && net.carries(1));
    let kinds: Vec<u8> = net.seen.iter().flatten().map(|(_, bytes)| bytes[0]).filter(|kind| *kind < 4).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 3).count(), 1, "one cookie was enough: {kinds:?}");
    // Cookies that somebody else sends do not have it ask again and again.
    let asked = net.seen[1].iter().filter(|(_, bytes)| bytes[0] == 1).count();
    let forged = [&cookie_header(0)[..], &[7; COOKIE]].concat();
    (0..100).for_each(|_| net.deliver(0, Way { to: net.ends[1].address, from: None }, &forged));
    net.run(secs(1));
    assert_eq!(net.seen[1].iter().filter(|(_, bytes)| bytes[0] == 1).count(), asked);
}

#[test]
fn a_narrow_path_is_found_and_packets_go_on_when_it_changes() {
    let around = SEALED_HEADER + super::super::wire::DATA_HEADER + super::super::wire::TAG;
    let found = |net: &Net| net.ends[0].peer.longest();
    let mut net = Net::sealed();
    net.passes = 1_300 + around;
    net.run(secs(40));
    assert!(net.carries(0) && (1_292..=1_300).contains(&found(&net)), "{}", found(&net));
    // It shrinks while packets leave.
    net.passes = 1_000 + around;
    for second in 0..40 {
        net.feed(second..second + 1);
        net.run(secs(1));
    }
    assert!((992..=1_000).contains(&found(&net)), "{}", found(&net));
    // It is another, and a wide one.
    net.passes = 65_535;
    net.ends[1].address = "203.0.113.9:1024".parse().unwrap();
    net.run(secs(10));
    assert_eq!(found(&net), 1_426);
}

#[test]
fn a_change_of_name_and_networks_goes_unnoticed() {
    let mut net = Net::sealed();
    net.run(secs(1));
    net.feed(0..50);
    net.change(0, |config| {
        config.name = "west".to_owned();
        config.networks.push("10.3.0.0/16".parse().unwrap());
    });
    net.run(secs(5));
    assert_eq!(net.ends[1].came, (0..50).collect::<Vec<_>>());
    assert_eq!(net.circuits(), [1, 1]);
}

#[test]
fn other_terms_take_a_new_circuit_and_lose_nothing() {
    let mut net = Net::sealed();
    net.run(secs(1));
    net.feed(0..200);
    net.change(0, |config| {
        config.send.controls = 1;
        config.send.guaranteed = Rate::bit(0);
    });
    net.run(secs(10));
    assert_eq!((net.terms(0).controls, net.circuits()), (1, [2, 1]));
    assert_eq!(net.ends[1].came, (0..200).collect::<Vec<_>>());
    net.change(1, |config| config.receive.controls_max = 64);
    net.change(0, |config| config.send.controls = 5);
    net.feed(200..300);
    net.run(secs(10));
    assert_eq!(net.terms(0).controls, 5);
    assert_eq!(net.ends[1].came, (0..300).collect::<Vec<_>>());
}

#[test]
fn a_receiver_that_grants_less_is_offered_another_circuit() {
    let mut net = Net::sealed();
    net.change(0, |config| config.send.guaranteed = Rate::bit(0));
    net.run(secs(1));
    net.feed(0..200);
    net.change(1, |config| config.receive.controls_max = 1);
    net.run(secs(10));
    assert_eq!((net.terms(0).controls, net.circuits()), (1, [2, 1]));
    assert_eq!(net.ends[1].came, (0..200).collect::<Vec<_>>());
    net.change(1, |config| config.receive.controls_max = 0);
    net.run(secs(2));
    assert!(matches!(net.ends[0].peer.to, To::Refused(..)) && net.ends[1].peer.from.is_none());
}

#[test]
fn a_peer_with_another_secret_is_let_in_only_by_that() {
    let mut net = Net::sealed();
    net.run(secs(1));
    let secret = net.ends[0].identity.derived(b"a secret");
    net.change(0, |config| config.shared = secret.clone());
    net.run(secs(8));
    assert!(!net.carries(0) && !net.carries(1));
    net.change(1, |config| config.shared = secret);
    net.run(secs(8));
    assert!(net.carries(0) && net.carries(1));
}

#[test]
fn a_peer_is_sought_where_the_file_says_now() {
    let mut net = Net::sealed();
    net.run(secs(1));
    net.is_cut = true;
    net.run(secs(4));
    let moved: SocketAddr = "203.0.113.9:7700".parse().unwrap();
    net.ends[1].address = moved;
    net.is_cut = false;
    net.change(0, |config| config.endpoint = Some(moved));
    net.run(secs(3));
    assert!(net.carries(0) && net.carries(1));
    assert_eq!(net.ends[0].peer.way.unwrap().to, moved);
}

#[test]
fn replayed_sealed_packets_are_delivered_once() {
    let mut net = Net::sealed();
    net.feed(0..200);
    net.run(secs(5));
    let seen = net.seen[1].clone();
    for (_, bytes) in &seen {
        let stranger = Way { to: "198.51.100.7:9".parse().unwrap(), from: None };
        net.deliver(1, stranger, bytes);
        net.deliver(0, stranger, bytes);
    }
    assert_eq!(net.ends[1].came, (0..200).collect::<Vec<_>>());
    assert!(net.ends[0].came.is_empty());
}

#[test]
fn acknowledgements_of_what_was_never_sent_earn_nothing_and_are_counted() {
    use headend_engine::circuit::in_band::Acknowledgement;
    let mut net = Net::sealed();
    net.run(secs(1));
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    let (circuit, before) = (to.terms().circuit, to.report().window);
    for last in [0, 1_000, u64::MAX] {
        let told = Acknowledgement { received: net.now, held: Duration::ZERO, ranges: vec![(0, last)] };
        net.ends[0].peer.take(net.now, Message::Told { circuit, told }, &mut Outbox::default());
    }
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    assert_eq!((net.ends[0].peer.counters.lies, to.report().window), (3, before));
}

#[test]
fn ends_with_other_carriages_refuse_each_other() {
    let mut net = Net::sealed();
    net.ends[1].peer.habits = habits(Carriage::Native, Fallback::Direct);
    net.run(secs(2));
    assert!(matches!(net.ends[0].peer.to, To::Refused(Carriage::Native, _)));
    assert!(matches!(net.ends[1].peer.to, To::Refused(Carriage::Sealed, _)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_lost_the_ends_come_together_again(
        losses in prop::collection::vec(prop::bool::weighted(0.3), 0..2_000),
        restarts in prop::collection::vec(0..2_usize, 0..3),
    ) {
        let mut net = Net::new(Fallback::Block);
        net.losses = losses.into();
        net.feed(0..100);
        for side in restarts {
            net.run(secs(7));
            net.restart(side);
        }
        net.run(secs(200));
        net.losses.clear();
        net.run(secs(20));
        prop_assert!(net.carries(0) && net.carries(1));
    }
}
