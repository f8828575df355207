use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::tests::{MAX_LEN, at_ms, packet};
use super::super::tunnel::Tunnel;
use super::*;
use crate::tcp::connection::PairedEnd;
use crate::time::{Duration, earlier};
use crate::units::Capacity;

const DELAY: Duration = Duration::from_millis(5);
const BOTH: [Method; 2] = [Method::ByteStream, Method::Encapsulation];

/// A trunk over a path that loses the segments with these numbers, in the order in which they leave its sending end.
struct Trunk {
    sender: Sender,
    receiver: Receiver,
    manifest: Manifest,
    under_way: BTreeMap<(Time, u64), (bool, Segment)>,
    next: u64,
    losses: Vec<bool>,
    segments: usize,
    /// The length of each segment on the wire.
    wire: Vec<u32>,
    came: Vec<(Time, Packet)>,
}

fn trunk(method: Method, losses: Vec<bool>, base: &Personality) -> Trunk {
    let tcp = personality(method, base);
    let end = |isn| PairedEnd { personality: &tcp, isn, clock_phase: Duration::ZERO };
    // The stream's sequence numbers wrap round.
    let (from, to) = Connection::pair(end(u32::MAX - 20_000), end(7));
    Trunk {
        sender: Sender::new(method, Tunnel::drop_tail(Capacity::Packets(1_000)), from, tcp),
        receiver: Receiver::new(method, to),
        manifest: Manifest::default(),
        under_way: BTreeMap::new(),
        next: 0,
        losses,
        segments: 0,
        wire: Vec::new(),
        came: Vec::new(),
    }
}

impl Trunk {
    fn settle(&mut self, now: Time) -> Option<Time> {
        let mut wake = None;
        loop {
            match self.sender.poll(now, &mut self.manifest) {
                Output::Segment(segment) => {
                    self.wire.push(self.sender.wire_len(&segment));
                    let is_lost = self.losses.get(self.segments).copied().unwrap_or(false);
                    self.segments += 1;
                    self.next += 1;
                    if !is_lost {
                        self.under_way.insert((now + DELAY, self.next), (true, segment));
                    }
                }
                Output::Wait(at) => break wake = earlier(wake, at),
                Output::User(..) => unreachable!("users' packets leave inside segments"),
            }
        }
        loop {
            match self.receiver.poll(now) {
                Output::User(packet, left) => {
                    assert!(left + DELAY <= now, "it left at {left}");
                    self.came.push((now, packet));
                }
                Output::Segment(segment) => {
                    self.next += 1;
                    self.under_way.insert((now + DELAY, self.next), (false, segment));
                }
                Output::Wait(at) => break earlier(wake, at),
            }
        }
    }

    fn run(&mut self, arrivals: &[(Time, Packet)]) {
        let mut coming = arrivals.iter().peekable();
        let mut now = Time::ZERO;
        loop {
            let wake = self.settle(now);
            let flight = self.under_way.keys().next().map(|(time, _)| *time);
            let arrival = coming.peek().map(|(time, _)| *time);
            let end = Time::ZERO + Duration::from_secs(100_000);
            let Some(next) = [wake, flight, arrival].into_iter().flatten().min().filter(|time| *time <= end) else {
                return;
            };
            now = next;
            while let Some((_, packet)) = coming.next_if(|(time, _)| *time <= now) {
                self.sender.push(now, 0, *packet).expect("there is room");
            }
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
                match entry.remove() {
                    (true, segment) => self.receiver.receive(now, &segment, &mut self.manifest),
                    (false, segment) => self.sender.receive(now, &segment),
                }
            }
        }
    }

    fn ids(&self) -> Vec<u64> {
        self.came.iter().map(|(_, packet)| packet.id).collect()
    }
}

/// A packet of `len` bytes every millisecond.
fn stream(count: u64, len: u32) -> Vec<(Time, Packet)> {
    (0..count).map(|id| (at_ms(id), packet(id, len))).collect()
}

#[test]
fn a_loss_holds_back_what_follows_in_a_byte_stream_but_not_encapsulated() {
    let [stream_came, encapsulated_came] = BOTH.map(|method| {
        let mut trunk = trunk(method, (0..400).map(|n| n == 100).collect(), &Personality::newreno());
        trunk.run(&stream(200, 1_000));
        trunk.ids()
    });
    assert_eq!(stream_came, (0..200).collect::<Vec<_>>(), "in order");
    let mut sorted = encapsulated_came.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..200).collect::<Vec<_>>(), "each once");
    let overtaken: Vec<u64> =
        encapsulated_came.windows(2).filter(|pair| pair[1] < pair[0]).map(|pair| pair[1]).collect();
    let [lost] = overtaken[..] else { panic!("one came late, and it alone: {overtaken:?}") };
    let before_it = encapsulated_came.iter().take_while(|id| **id != lost).filter(|id| **id > lost).count();
    assert!(before_it >= 3, "who sends again has heard of three that came: {before_it}");
}

#[test]
fn encapsulation_adds_a_header_to_each_packet_and_a_stream_two_bytes() {
    for (method, len, users) in [(Method::Encapsulation, 200, 100), (Method::Encapsulation, 1_500, 100)] {
        let mut trunk = trunk(method, Vec::new(), &Personality::newreno());
        trunk.run(&stream(users, len));
        assert!(trunk.wire.iter().all(|wire| *wire == len + 52), "{:?}", trunk.wire);
        assert_eq!(trunk.wire.len() as u64, users);
    }
    // All at once, so that segments are full.
    let mut trunk = trunk(Method::ByteStream, Vec::new(), &Personality::newreno());
    let burst: Vec<_> = (0..900).map(|id| (Time::ZERO, packet(id, 200))).collect();
    trunk.run(&burst);
    let bytes: u64 = trunk.wire.iter().map(|wire| u64::from(wire - 52)).sum();
    assert_eq!(bytes, 900 * 202);
    assert!(trunk.wire.len() < 900 / 6, "seven packets to a segment");
}

#[test]
fn a_full_packet_with_a_header_before_it_takes_two_fragments() {
    let lens = |len, mtu| fragments(len, mtu).collect::<Vec<_>>();
    assert_eq!(lens(1_500, 1_500), [1_500]);
    assert_eq!(lens(1_540, 1_500), [1_500, 60]);
    assert_eq!(lens(1_499, 1_499), [1_499], "what fits is not divided");
    // 576 - 20 = 556 is no multiple of 8: 552.
    assert_eq!(lens(1_500, 576), [572, 572, 396]);
    assert_eq!(lens(1_148, 576), [572, 572, 44]);
    assert_eq!(lens(20, 576), [20]);
    for mtu in 68..600 {
        for len in (20..4_000).step_by(7) {
            let pieces = lens(len, mtu);
            assert!(pieces.iter().all(|piece| *piece <= mtu && *piece >= 20));
            assert_eq!(pieces.iter().map(|piece| piece - 20).sum::<u32>(), len - 20);
            assert!(pieces[..pieces.len() - 1].iter().all(|piece| (piece - 20) % 8 == 0));
        }
    }
}

proptest! {
    #[test]
    fn every_packet_comes_once_and_as_it_was_and_a_stream_keeps_order(
        arrivals in vec((0..400_u64, 40..=MAX_LEN), 0..300),
        losses in vec(prop::bool::weighted(0.2), 0..300),
        encapsulated in any::<bool>(),
        sender in 0..4_usize,
    ) {
        let base = [Personality::bsd_reno_1996, Personality::newreno, Personality::sack, Personality::linux][sender]();
        let method = BOTH[usize::from(encapsulated)];
        let mut times: Vec<u64> = arrivals.iter().map(|(ms, _)| *ms).collect();
        times.sort_unstable();
        let arrivals: Vec<(Time, Packet)> = times
            .iter()
            .zip(&arrivals)
            .zip(0_u64..)
            .map(|((ms, (_, len)), id)| (at_ms(*ms), packet(id, *len)))
            .collect();
        let mut trunk = trunk(method, losses, &base);
        trunk.run(&arrivals);
        if method == Method::ByteStream {
            prop_assert!(trunk.ids().is_sorted(), "in order");
        }
        let mut came: Vec<Packet> = trunk.came.iter().map(|(_, packet)| *packet).collect();
        came.sort_unstable_by_key(|packet| packet.id);
        let sent: Vec<Packet> = arrivals.iter().map(|(_, packet)| *packet).collect();
        prop_assert_eq!(came, sent);
        prop_assert!(trunk.manifest.entries.is_empty(), "nothing is kept");
        prop_assert_eq!(trunk.sender.counters().packets, arrivals.len() as u64);
    }
}
