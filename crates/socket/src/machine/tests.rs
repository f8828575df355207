//! Two machines and a network between them that loses, repeats, delays and forges.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use headend_engine::rng::Rng;
use headend_engine::time::Duration;
use proptest::prelude::*;

use super::*;
use crate::frame::VARINT_MAX;
use crate::streams::{StreamError, StreamId};

mod frames;

/// What a network does to datagrams, in thousandths, and how long they take.
#[derive(Clone, Copy, Debug)]
struct Weather {
    lost: u64,
    repeated: u64,
    delayed: u64,
    corrupted: u64,
    delay_ms: u64,
    /// The rate towards the server, and bytes that may wait for it; 0 for no limit.
    rate_bps: u64,
    queue_bytes: u64,
}

const FAIR: Weather =
    Weather { lost: 0, repeated: 0, delayed: 0, corrupted: 0, delay_ms: 20, rate_bps: 0, queue_bytes: 0 };

/// Ends at addresses, and datagrams under way.
struct Net {
    now: Time,
    ends: Vec<(SocketAddr, Machine)>,
    flying: BTreeMap<(Time, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    wakes: Vec<Option<Time>>,
    serial: u64,
    rng: Rng,
    weather: Weather,
    /// When the line to the server is free again.
    free: Time,
    /// Bytes to each address, and from it.
    traffic: BTreeMap<SocketAddr, (u64, u64)>,
    events: Vec<(usize, Event)>,
    polls: u64,
    /// All datagrams that left, if they are kept.
    tape: Option<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>,
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 4_433))
}

impl Net {
    /// A server at host 0 and a client at host 1.
    fn new(seed: u64, weather: Weather, config: Config) -> (Net, Handle) {
        let (server, client) = (Identity::generate(), Identity::generate());
        let known = client.public();
        let key = server.public();
        let allow: Allow = Box::new(move |key| *key == known);
        let ends = vec![
            (address(0), Machine::new(server, Some(allow), config.clone())),
            (address(1), Machine::new(client, None, config)),
        ];
        let mut net = Net {
            now: Time::from_nanos(1_000_000_000),
            ends,
            flying: BTreeMap::new(),
            wakes: vec![None, None],
            serial: 0,
            rng: Rng::named(seed, "weather"),
            weather,
            free: Time::ZERO,
            traffic: BTreeMap::new(),
            events: Vec::new(),
            polls: 0,
            tape: None,
        };
        let handle = net.ends[1].1.connect(net.now, address(0), &key);
        (net, handle)
    }

    /// A pair that is connected: the handles of the server and the client.
    fn connected(seed: u64, weather: Weather, config: Config) -> (Net, [Handle; 2]) {
        let (mut net, client) = Net::new(seed, weather, config);
        let server = net.until(30, |net| {
            net.events.iter().find_map(|(end, event)| match event {
                Event::Incoming(handle) if *end == 0 => Some(*handle),
                _ => None,
            })
        });
        (net, [server.expect("a connection within 30 s"), client])
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        self.rng.below(1_000) < thousandths
    }

    fn poll(&mut self, end: usize) {
        self.polls += 1;
        let mut outbox = Outbox::default();
        let (from, machine) = &mut self.ends[end];
        let from = *from;
        self.wakes[end] = machine.poll(self.now, &mut outbox);
        while let Some(event) = machine.event() {
            self.events.push((end, event));
        }
        for train in outbox.trains {
            for datagram in train.bytes.chunks(train.datagram) {
                self.fly(from, train.way.to, datagram.to_vec());
            }
        }
    }

    fn fly(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.traffic.entry(from).or_default().1 += bytes.len() as u64;
        self.traffic.entry(to).or_default().0 += bytes.len() as u64;
        if let Some(tape) = &mut self.tape {
            tape.push((from, to, bytes.clone()));
        }
        let mut leaves = self.now;
        if self.weather.rate_bps > 0 && to == address(0) {
            let nanos = |bytes: u64| Duration::from_nanos(bytes * 8_000_000_000 / self.weather.rate_bps);
            if self.free.since(self.now) > nanos(self.weather.queue_bytes) {
                return;
            }
            leaves = self.now.max(self.free) + nanos(bytes.len() as u64 + 28);
            self.free = leaves;
        }
        // A line with a rate is damaged in the direction that it has one for.
        let is_damaged = self.weather.rate_bps == 0 || to == address(0);
        if is_damaged && self.chance(self.weather.lost) {
            return;
        }
        let copies = 1 + u64::from(self.chance(self.weather.repeated));
        for _ in 0..copies {
            let late = if self.chance(self.weather.delayed) { self.rng.below(60) } else { 0 };
            let mut bytes = bytes.clone();
            if self.chance(self.weather.corrupted) {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.rng.below(8);
            }
            self.serial += 1;
            let at = leaves + Duration::from_millis(self.weather.delay_ms + late);
            self.flying.insert((at, self.serial), (from, to, bytes));
        }
    }

    /// Goes on to the next thing that happens, which is `until` at the latest.
    fn step(&mut self, until: Time) {
        for end in 0..self.ends.len() {
            if self.ends[end].1.is_due() || self.wakes[end].is_none_or(|at| at <= self.now) {
                self.poll(end);
            }
        }
        let flight = self.flying.keys().next().map(|(at, _)| *at);
        let wakes = self.wakes.iter().flatten().min().copied();
        let next = [flight, wakes].into_iter().flatten().min().unwrap_or(until).min(until);
        self.now = self.now.max(next);
        while let Some(((at, serial), _)) = self.flying.first_key_value().map(|(key, value)| (*key, value))
            && at <= self.now
        {
            let (from, to, mut bytes) = self.flying.remove(&(at, serial)).expect("the first");
            if let Some(end) = self.ends.iter().position(|(address, _)| *address == to) {
                self.ends[end].1.receive(self.now, Way { to: from, from: None }, &mut bytes);
                self.wakes[end] = Some(self.now);
            }
        }
    }

    /// Goes on until `look` finds something, for so many seconds at most.
    fn until<T>(&mut self, seconds: u64, mut look: impl FnMut(&mut Net) -> Option<T>) -> Option<T> {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            if let Some(found) = look(self) {
                return Some(found);
            }
            self.step(end);
        }
        look(self)
    }

    fn run(&mut self, seconds: u64) {
        self.until(seconds, |_| None::<()>);
    }

    fn ended(&self, end: usize) -> Option<&Ended> {
        self.events.iter().find_map(|(who, event)| match event {
            Event::Ended(_, why) if *who == end => Some(why),
            _ => None,
        })
    }
}

/// The byte at a place of a stream, another for each stream.
fn byte(id: StreamId, at: u64) -> u8 {
    (at.wrapping_mul(31).wrapping_add(at >> 8).wrapping_add(id.0 * 7)) as u8
}

/// A stream that both ends write to and read from.
struct Exchange {
    id: StreamId,
    /// Bytes to write, written, and read, by end.
    total: [u64; 2],
    written: [u64; 2],
    read: [u64; 2],
    has_ended: [bool; 2],
}

impl Exchange {
    fn new(id: StreamId, total: [u64; 2]) -> Exchange {
        Exchange { id, total, written: [0; 2], read: [0; 2], has_ended: [false; 2] }
    }

    /// Writes and reads what it can; true once both ends have read all.
    fn go(&mut self, net: &mut Net, handles: &[Handle; 2]) -> bool {
        for (end, handle) in handles.iter().copied().enumerate() {
            let machine = &mut net.ends[end].1;
            // The server's half begins when it knows of the stream.
            while self.written[end] < self.total[end] {
                let len = (self.total[end] - self.written[end]).min(5_000);
                let bytes: Vec<u8> = (0..len).map(|at| byte(self.id, self.written[end] + at)).collect();
                match machine.write(handle, self.id, &bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(taken) => self.written[end] += taken as u64,
                }
            }
            if self.written[end] == self.total[end] {
                machine.finish(handle, self.id);
            }
            let mut buffer = [0; 7_001];
            while let Ok(Some(len @ 1..)) = machine.read(handle, self.id, &mut buffer) {
                for read in &buffer[..len] {
                    assert_eq!(*read, byte(self.id, self.read[end]), "at {} of {:?}", self.read[end], self.id);
                    self.read[end] += 1;
                }
            }
            if machine.read(handle, self.id, &mut buffer) == Ok(None) {
                assert_eq!(self.read[end], self.total[1 - end], "all of it before the end");
                self.has_ended[end] = true;
            }
        }
        self.has_ended == [true; 2]
    }
}

fn exchange(net: &mut Net, handles: &[Handle; 2], totals: &[[u64; 2]], seconds: u64) -> Time {
    let began = net.now;
    let mut exchanges: Vec<Exchange> =
        totals.iter().map(|total| Exchange::new(net.ends[1].1.open(handles[1]).expect("a stream"), *total)).collect();
    let all = net.until(seconds, |net| {
        let done = exchanges.iter_mut().filter_map(|one| one.go(net, handles).then_some(())).count();
        (done == exchanges.len()).then_some(())
    });
    let left: Vec<_> = exchanges.iter().map(|one| (one.written, one.read, one.has_ended)).collect();
    assert!(all.is_some(), "{left:?} after {seconds} s: {:?}", net.events.last());
    Time::from_nanos(net.now.since(began).as_nanos())
}

#[test]
fn bytes_come_both_ways_as_they_were_written() {
    let (mut net, handles) = Net::connected(1, FAIR, Config::default());
    let took = exchange(&mut net, &handles, &[[300_000, 2_000_000], [0, 10], [0, 0]], 60);
    assert!(took < Time::from_nanos(5_000_000_000), "{took:?} on a network without limits");
    assert_eq!(net.ends[0].1.strays(), Strays { retries: 1, ..Strays::default() });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_network_does_both_ends_read_what_was_written(
        seed in any::<u64>(),
        lost in 0..250_u64,
        repeated in 0..100_u64,
        delayed in 0..300_u64,
        corrupted in 0..30_u64,
        totals in prop::collection::vec([0..60_000_u64, 0..60_000_u64], 1..6),
    ) {
        let weather = Weather { lost, repeated, delayed, corrupted, delay_ms: 15, ..FAIR };
        let (mut net, handles) = Net::connected(seed, weather, Config::default());
        exchange(&mut net, &handles, &totals, 600);
    }
}

#[test]
fn a_damaged_line_stays_as_full_as_the_damage_leaves_it() {
    for (lost, least) in [(10, 90), (30, 88), (100, 80)] {
        let weather = Weather { lost, delay_ms: 60, rate_bps: 25_000_000, queue_bytes: 375_000, ..FAIR };
        let (mut net, handles) = Net::connected(20, weather, Config::default());
        let took = exchange(&mut net, &handles, &[[0, 60_000_000]], 120);
        let goodput_bps = 60_000_000 * 8_000_000_000 / u128::from(took.as_nanos());
        let percent = goodput_bps * 100_000 / (25_000_000 * u128::from(1_000 - lost));
        // The time of slow start counts here.
        assert!(percent >= least - 4, "{percent}% of what {lost} thousandths of loss leave");
    }
}

#[test]
fn the_memory_of_a_burst_is_given_back_once_nothing_moves() {
    let (mut net, handles) = Net::connected(30, FAIR, Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    let held = |net: &Net, end: usize| net.ends[end].1.entries[&handles[end].0].connection.streams.held();
    assert_eq!(net.ends[1].1.write(handles[1], id, &[7; 60_000]), Ok(60_000));
    assert!(held(&net, 1) >= 60_000);
    net.run(5);
    assert!(held(&net, 1) <= 8_192 && held(&net, 0) >= 60_000, "all has come, and nobody has read it");
    let mut buffer = vec![0; 70_000];
    assert_eq!(net.ends[0].1.read(handles[0], id, &mut buffer), Ok(Some(60_000)));
    assert!(held(&net, 0) >= 60_000, "the next burst finds it");
    net.run(5);
    assert!(held(&net, 0) <= 8_192, "{}", held(&net, 0));
}

#[test]
fn streams_that_were_filled_in_turn_do_not_all_keep_their_memory() {
    let (mut net, handles) = Net::connected(31, FAIR, Config::default());
    for _ in 0..20 {
        let id = net.ends[1].1.open(handles[1]).unwrap();
        assert_eq!(net.ends[1].1.write(handles[1], id, &[7; 60_000]), Ok(60_000));
        // Unread for a while, so that the buffer grows.
        net.run(1);
        let mut left = 60_000;
        net.until(5, |net| {
            left -= net.ends[0].1.read(handles[0], id, &mut [0; 60_000]).ok().flatten().unwrap_or(0);
            (left == 0).then_some(())
        });
        assert_eq!(left, 0, "all is read");
    }
    let held = net.ends[0].1.entries[&handles[0].0].connection.streams.held();
    assert!((60_000..4 * 131_072 + 20 * 4_096).contains(&held), "of the four that were read last: {held}");
}

#[test]
fn a_stream_that_nobody_reads_holds_up_no_other() {
    let (mut net, handles) = Net::connected(3, FAIR, Config::default());
    let stalled = net.ends[1].1.open(handles[1]).unwrap();
    let bytes = vec![7; 1 << 20];
    let mut taken = 0;
    net.until(5, |net| {
        taken += net.ends[1].1.write(handles[1], stalled, &bytes).unwrap_or(0);
        None::<()>
    });
    let most = u64::from(Config::default().window) + 2 * 65_536;
    assert!((taken as u64) < most, "the sender holds no more than the peer takes and a little: {taken}");
    for _ in 0..8 {
        let another = net.ends[1].1.open(handles[1]).unwrap();
        net.until(2, |net| {
            let _ = net.ends[1].1.write(handles[1], another, &bytes);
            None::<()>
        });
    }
    let took = exchange(&mut net, &handles, &[[200_000, 200_000]], 60);
    assert!(took < Time::from_nanos(3_000_000_000), "nine that nobody reads, and one that is read: {took:?}");
}

#[test]
fn forged_replayed_and_truncated_datagrams_change_nothing() {
    let (mut net, handles) = Net::connected(4, FAIR, Config::default());
    net.tape = Some(Vec::new());
    exchange(&mut net, &handles, &[[50_000, 50_000]], 60);
    net.run(1);
    let tape = net.tape.take().unwrap();
    let before = net.ends[0].1.look(handles[0]).unwrap().2;
    for (from, _, bytes) in tape.iter().filter(|(_, to, _)| *to == address(0)) {
        // Again, from there and from elsewhere, cut, and with a bit turned over.
        for elsewhere in [*from, address(9)] {
            let way = Way { to: elsewhere, from: None };
            let machine = &mut net.ends[0].1;
            machine.receive(net.now, way, &mut bytes.clone());
            machine.receive(net.now, way, &mut bytes[..bytes.len() / 2].to_vec());
            let mut forged = bytes.clone();
            let at = net.rng.below(forged.len() as u64) as usize;
            forged[at] ^= 4;
            machine.receive(net.now, way, &mut forged);
        }
    }
    net.run(1);
    let after = net.ends[0].1.look(handles[0]).unwrap();
    assert_eq!((after.1, after.2.moves), (address(1), 0), "it has not moved");
    assert_eq!(before.delivered, after.2.delivered);
    exchange(&mut net, &handles, &[[50_000, 50_000]], 60);
}

#[test]
fn a_flood_of_first_datagrams_leaves_no_state_and_gets_less_than_it_sent() {
    let (mut net, _) = Net::new(5, FAIR, Config::default());
    net.tape = Some(Vec::new());
    net.poll(1);
    let hello = net.tape.as_ref().unwrap()[0].2.clone();
    let before = net.ends[0].1.connections();
    let (mut sent, mut outbox) = (0, Outbox::default());
    for port in 1..=20_000 {
        let from = SocketAddr::from(([198, 51, 100, (port % 250) as u8], port));
        let machine = &mut net.ends[0].1;
        machine.receive(net.now, Way { to: from, from: None }, &mut hello.clone());
        machine.poll(net.now, &mut outbox);
        sent += hello.len();
    }
    let got: usize = outbox.trains.iter().map(|train| train.bytes.len()).sum();
    assert_eq!(net.ends[0].1.connections(), before);
    assert!(got * 3 < sent, "{got} bytes for {sent}");
    assert_eq!(net.ends[0].1.strays().retries, 20_000);
}

#[test]
fn a_client_whose_key_is_not_listed_gets_no_connection() {
    let (mut net, _) = Net::new(6, FAIR, Config::default());
    let stranger = Identity::generate();
    net.ends[1].1 = Machine::new(stranger, None, Config::default());
    let key = net.ends[0].1.identity.public();
    net.ends[1].1.connect(net.now, address(0), &key);
    net.run(20);
    let told = net.ended(1).expect("it gives up").to_string();
    assert!(told.contains("is its address right") && told.contains("192.0.2.0:4433"), "{told}");
    assert_eq!((net.ends[0].1.connections(), net.ends[0].1.strays().unknown_keys > 0), (0, true));
}

#[test]
fn who_acknowledges_what_it_cannot_have_seen_is_cut_off() {
    use headend_engine::circuit::in_band::Acknowledgement;
    let (mut net, handles) = Net::connected(7, FAIR, Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    let bytes = vec![1; 60_000];
    let mut read = [0; 60_000];
    let cut = net.until(30, |net| {
        let _ = net.ends[1].1.write(handles[1], id, &bytes);
        let _ = net.ends[0].1.read(handles[0], id, &mut read);
        // The server says of all that could be under way that it has come.
        let now = net.now;
        if let Some(entry) = net.ends[1].1.entries.get_mut(&handles[1].0) {
            let next = entry.connection.next_number();
            if next > 0 {
                let told = Acknowledgement { received: now, held: Duration::ZERO, ranges: vec![(0, next - 1)] };
                let mut plain = Vec::new();
                crate::frame::Frame::Acknowledged { circuit: 0, told }.write(&mut plain);
                entry.connection.lie(now, &plain);
            }
        }
        net.ended(1).cloned()
    });
    assert_eq!(cut, Some(Ended::Violation("an acknowledgement of what was never sent")));
}

#[test]
fn acknowledgements_that_are_withheld_stop_the_sender_and_take_no_memory() {
    let (mut net, handles) = Net::connected(8, FAIR, Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    net.run(1);
    // From here on nothing of the server comes.
    net.ends[0].0 = address(5);
    let before = net.ends[1].1.look(handles[1]).unwrap().2;
    let mut taken = 0;
    let bytes = vec![1; 10_000_000];
    net.until(100, |net| {
        taken += net.ends[1].1.write(handles[1], id, &bytes).unwrap_or(0);
        None::<()>
    });
    let after = net.ends[1].1.look(handles[1]).unwrap().2;
    assert!(after.sent - before.sent < 40, "a first window and probes: {after:?}");
    assert!(taken < 300_000, "{taken} bytes taken");
}

#[test]
fn a_cut_of_a_minute_loses_no_byte() {
    let (mut net, handles) = Net::connected(9, FAIR, Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    let mut one = Exchange::new(id, [0, 3_000_000]);
    net.until(1, |net| (one.go(net, &handles) || one.read[0] > 500_000).then_some(()));
    net.weather.lost = 1_000;
    net.until(60, |net| one.go(net, &handles).then_some(()));
    assert!(!one.has_ended[0]);
    net.weather.lost = 0;
    let all = net.until(60, |net| one.go(net, &handles).then_some(()));
    assert!(all.is_some(), "{:?} {:?}", one.read, net.events);
}

#[test]
fn a_client_that_moves_keeps_its_connection() {
    let (mut net, handles) = Net::connected(10, FAIR, Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    let mut one = Exchange::new(id, [2_000_000, 2_000_000]);
    net.until(20, |net| (one.go(net, &handles) || one.read[0] > 300_000).then_some(()));
    net.ends[1].0 = address(77);
    let all = net.until(60, |net| one.go(net, &handles).then_some(()));
    assert!(all.is_some(), "{:?} {:?}", one.read, net.events);
    let (_, at, snapshot) = net.ends[0].1.look(handles[0]).unwrap();
    assert_eq!((at, snapshot.moves), (address(77), 1));
}

#[test]
fn an_address_that_does_not_answer_gets_no_data() {
    let (mut net, handles) = Net::connected(11, FAIR, Config::default());
    // The client's newest datagram is sent from elsewhere, by somebody who was faster than the client.
    net.tape = Some(Vec::new());
    net.ends[1].1.open(handles[1]).and_then(|id| net.ends[1].1.write(handles[1], id, b"new").ok());
    net.poll(1);
    let (.., mut newest) = net.tape.take().unwrap().pop().unwrap();
    let sent = newest.len() as u64;
    net.ends[0].1.receive(net.now, Way { to: address(66), from: None }, &mut newest);
    net.flying.clear();
    net.run(5);
    let (to, _) = net.traffic.get(&address(66)).copied().unwrap_or_default();
    assert!(to <= 3 * sent, "{to} bytes for {sent}");
    assert_eq!(net.ends[0].1.look(handles[0]).unwrap().1, address(1));
    exchange(&mut net, &handles, &[[10_000, 10_000]], 60);
}

#[test]
fn an_idle_connection_wakes_once_in_25_seconds_and_lives() {
    let (mut net, handles) = Net::connected(12, FAIR, Config::default());
    net.run(60);
    let before = net.polls;
    net.run(500);
    let polls = net.polls - before;
    assert!(net.ends[0].1.look(handles[0]).is_some() && net.ends[1].1.look(handles[1]).is_some());
    // Twenty pings, and what each sets off at both ends: it leaves, comes, is acknowledged, and the answer comes.
    assert!(polls <= 20 * 8, "{polls} polls in 500 s");
}

#[test]
fn a_peer_that_is_gone_is_noticed_after_the_time_that_was_set() {
    let (mut net, _) = Net::connected(13, FAIR, Config::default());
    net.weather.lost = 1_000;
    net.run(170);
    assert_eq!(net.ended(0), None);
    net.run(40);
    assert!(matches!(net.ended(0), Some(Ended::Silent(_))), "{:?}", net.ended(0));
    assert_eq!(net.ends[0].1.connections(), 0);
}

#[test]
fn a_server_that_started_anew_tells_its_clients_so() {
    let (mut net, handles) = Net::connected(14, FAIR, Config::default());
    let identity = std::mem::replace(&mut net.ends[0].1.identity, Identity::generate());
    net.ends[0].1 = Machine::new(identity, Some(Box::new(|_| true)), Config::default());
    let id = net.ends[1].1.open(handles[1]).unwrap();
    net.ends[1].1.write(handles[1], id, b"are you there?").unwrap();
    net.run(2);
    assert_eq!(net.ended(1), Some(&Ended::Gone));
}

#[test]
fn a_reset_and_a_stop_are_heard_with_their_codes() {
    let (mut net, handles) = Net::connected(15, Weather { lost: 200, ..FAIR }, Config::default());
    let machine = &mut net.ends[1].1;
    let (reset, stopped) = (machine.open(handles[1]).unwrap(), machine.open(handles[1]).unwrap());
    for id in [reset, stopped] {
        machine.write(handles[1], id, b"some bytes").unwrap();
    }
    let mut buffer = [0; 100];
    let came = net.until(30, |net| {
        let machine = &mut net.ends[0].1;
        (machine.accept(handles[0]).is_some() && machine.accept(handles[0]).is_some()).then_some(())
    });
    // Both may come at once or not: what counts is what follows.
    let _ = came;
    net.ends[1].1.reset(handles[1], reset, 71);
    net.ends[0].1.stop(handles[0], stopped, 72);
    let heard = net.until(60, |net| {
        let read = net.ends[0].1.read(handles[0], reset, &mut buffer);
        let write = net.ends[1].1.write(handles[1], stopped, b"more");
        (read == Err(StreamError::Reset(71)) && write == Err(StreamError::Stopped(72))).then_some(())
    });
    assert!(heard.is_some());
    for (end, handle) in handles.into_iter().enumerate() {
        for id in [reset, stopped] {
            net.ends[end].1.release(handle, id, 0);
        }
    }
    net.run(10);
    for (end, handle) in handles.into_iter().enumerate() {
        assert_eq!(net.ends[end].1.look(handle).unwrap().2.streams, 0, "nothing is kept of them");
    }
}

#[test]
fn more_streams_than_allowed_wait_for_those_that_end() {
    let config = Config { streams_max: 3, ..Config::default() };
    let (mut net, handles) = Net::connected(16, FAIR, config);
    for _ in 0..4 {
        let ids: Vec<_> = std::iter::from_fn(|| net.ends[1].1.open(handles[1])).collect();
        assert_eq!(ids.len(), 3);
        let mut exchanges: Vec<_> = ids.iter().map(|id| Exchange::new(*id, [10, 10])).collect();
        let all = net.until(30, |net| {
            let done = exchanges.iter_mut().filter_map(|one| one.go(net, &handles).then_some(())).count();
            (done == 3).then_some(())
        });
        assert!(all.is_some());
        for (end, handle) in handles.into_iter().enumerate() {
            ids.iter().for_each(|id| net.ends[end].1.release(handle, *id, 0));
        }
        net.run(2);
    }
}

/// Writes to a stream for so many seconds what it takes, and reads it at the server. Returns what was read of each.
fn pour(net: &mut Net, streams: &[(usize, Handle, Handle, StreamId)], seconds: u64) -> Vec<u64> {
    let mut read = vec![0; streams.len()];
    let (bytes, mut buffer) = (vec![7; 100_000], vec![0; 100_000]);
    net.until(seconds, |net| {
        for ((end, client, server, id), read) in streams.iter().zip(&mut read) {
            let _ = net.ends[*end].1.write(*client, *id, &bytes);
            while let Ok(Some(len @ 1..)) = net.ends[0].1.read(*server, *id, &mut buffer) {
                *read += len as u64;
            }
        }
        None::<()>
    });
    read
}

#[test]
fn beside_a_cubic_it_takes_a_share_and_no_more() {
    use headend_engine::tcp::personality::Personality;
    for (queue_bytes, seed) in [(187_500, 1), (375_000, 2), (750_000, 3)] {
        // Half, once and twice the bytes that the line holds.
        let weather = Weather { delay_ms: 60, rate_bps: 25_000_000, queue_bytes, ..FAIR };
        let (mut net, ours) = Net::connected(seed, weather, Config::default());
        net.ends[0].1.allow = Some(Box::new(|_| true));
        let cubic = Config { controller: Personality::linux().controller, ..Config::default() };
        net.ends.push((address(2), Machine::new(Identity::generate(), None, cubic)));
        net.wakes.push(None);
        let key = net.ends[0].1.identity.public();
        let client = net.ends[2].1.connect(net.now, address(0), &key);
        net.events.clear();
        let server = net.until(30, |net| {
            net.events.iter().find_map(|(end, event)| match event {
                Event::Incoming(handle) if *end == 0 => Some(*handle),
                _ => None,
            })
        });
        let server = server.expect("the second connection");
        let streams = [
            (1, ours[1], ours[0], net.ends[1].1.open(ours[1]).unwrap()),
            (2, client, server, net.ends[2].1.open(client).unwrap()),
        ];
        pour(&mut net, &streams, 20);
        let read = pour(&mut net, &streams, 60);
        let percent = 100 * read[0] / (read[0] + read[1]);
        assert!((25..=75).contains(&percent), "{percent}% of a queue of {queue_bytes} bytes: {read:?}");
    }
}

#[test]
fn a_code_that_is_too_large_counts_as_the_largest_and_a_writer_that_waits_hears_of_its_reset() {
    let (mut net, [server, client]) = Net::connected(40, FAIR, Config::default());
    let id = net.ends[1].1.open(client).unwrap();
    // More than the peer takes ahead of what is read.
    while net.ends[1].1.write(client, id, &[7; 100_000]) != Ok(0) {
        net.run(1);
    }
    net.events.clear();
    net.ends[1].1.reset(client, id, u64::MAX);
    net.run(1);
    assert!(net.events.contains(&(1, Event::Stream(client, StreamEvent::Writable(id)))), "{:?}", net.events);
    assert_eq!(net.ends[1].1.write(client, id, b"more"), Err(StreamError::Ended));
    assert_eq!(net.ends[0].1.read(server, id, &mut [0; 10]), Err(StreamError::Reset(VARINT_MAX)));
    net.ends[0].1.stop(server, id, u64::MAX);
    net.ends[0].1.release(server, id, u64::MAX);
    let now = net.now;
    net.ends[0].1.close(now, server, u64::MAX, "enough");
    net.run(1);
    assert_eq!(net.ended(1), Some(&Ended::Peer { code: VARINT_MAX, reason: "enough".to_owned() }));
}

#[test]
fn one_key_has_no_more_connections_than_it_may() {
    let config = Config { connections_per_key: 2, ..Config::default() };
    let (mut net, [server, _]) = Net::connected(41, FAIR, config);
    let key = net.ends[0].1.identity.public();
    let now = net.now;
    let [second, third] = [(); 2].map(|()| net.ends[1].1.connect(now, address(0), &key));
    net.wakes[1] = Some(now);
    net.run(15);
    let told: Vec<_> = net.events.iter().filter(|(end, _)| *end == 1).map(|(_, event)| event.clone()).collect();
    let connected = |handle| told.contains(&Event::Connected(handle));
    assert!(connected(second) != connected(third), "one more, and not two: {told:?}");
    assert!(net.ends[0].1.strays().refused > 0);
    // One that ends makes room.
    let now = net.now;
    net.ends[0].1.close(now, server, 0, "");
    net.run(5);
    let now = net.now;
    let fourth = net.ends[1].1.connect(now, address(0), &key);
    net.wakes[1] = Some(now);
    net.run(5);
    assert!(net.events.contains(&(1, Event::Connected(fourth))));
}
