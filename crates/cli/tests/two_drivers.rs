//! One engine, two drivers: a world in virtual time and the reactor do the same, packet by packet. Here, because this is
//! the one place that may know both.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;

use headend_engine::node::Port;
use headend_engine::time::{Duration, Time};
use headend_host::Error;
use headend_host::offload::OpenChecksum;
use headend_host::reactor::{Addresses, Attachment, Destination, Limits, Outside, Reactor, Received, Refused, Woken};
use headend_scenario::Scenario;
use headend_scenario::results::RunOutcome;
use headend_sim::network::{Network, Nobody};
use headend_sim::world::World;

/// Three senders with different stacks at different distances, one receiver behind a link that loses packets in bursts,
/// a modem that drops them, a rate and a loss that change, and acknowledgements that get lost as well.
const SCENARIO: &str = r#"
    title = "several flows over queues that fill and links that lose"
    seed = 7
    duration = "40s"
    [nodes.near]
    personality = "newreno"
    [nodes.far]
    personality = "linux"
    [nodes.old]
    personality = "bsd-reno-1996"
    [nodes.gate]
    kind = "router"
    [nodes.head]
    kind = "router"
    [nodes.pc]
    personality = "linux"
    [links.n]
    between = ["near", "gate"]
    rate = [["0s", "91Mbit/s"], ["2s", "7.3Mbit/s"], ["3500ms", "91Mbit/s"]]
    delay = "2ms"
    [links.f]
    between = ["far", "gate"]
    rate = "83Mbit/s"
    delay = "31ms"
    loss = [["0s", "0%"], ["1s", "2%"], ["3s", "0.1%"]]
    [links.o]
    between = ["old", "gate"]
    rate = "9.7Mbit/s"
    delay = "7ms"
    [links.middle]
    between = ["gate", "head"]
    rate = "37Mbit/s"
    delay = "3ms"
    queue = "6 packets"
    loss = { model = "gilbert-elliott", good_to_bad = "0.1%", bad_to_good = "30%" }
    back = { rate = "11Mbit/s", loss = "1%", queue = "9KB" }
    [links.cable]
    kind = "cable"
    between = ["head", "pc"]
    down = { rate = "25Mbit/s", loss = "0.1%" }
    up = { rate = "3Mbit/s", loss = "0.2%" }
    delay = "10ms"
    modem_buffer = "9KB"
    lan = "19Mbit/s"
    [nodes.neighbour]
    personality = "linux"
    [links.modem]
    kind = "docsis"
    between = ["head", "neighbour"]
    delay = "100us"
    modem = { down_rate = "3Mbit/s", down_granularity = "8ms", up_rate = "512kbit/s", up_buffer = "8KB" }
    [flows.e]
    from = "near"
    to = "neighbour"
    bytes = "1MB"
    [flows.u]
    from = "neighbour"
    to = "far"
    bytes = "500KB"
    [flows.a]
    from = "near"
    to = "pc"
    bytes = "4MB"
    count = 3
    stagger = "1s"
    [flows.b]
    from = "far"
    to = "pc"
    bytes = "2MB"
    stagger = "1s"
    count = 2
    [flows.c]
    kind = "http-get"
    from = "old"
    to = "pc"
    bytes = "300KB"
    stagger = "1s"
    [flows.d]
    from = "pc"
    to = "far"
    bytes = "1MB"
    stagger = "1s"
"#;

/// A packet at a place: when, where, and its bytes.
type Passed = (Time, Port, Vec<u8>);

/// The packets that hosts sent and received, from the captures of a world. Every byte is there: a capture cuts off only
/// payload, and in a world that is zeros.
fn world(scenario: &Scenario) -> (RunOutcome, Vec<Passed>, Vec<Passed>) {
    let world = World::build(scenario, 0, true);
    let (outcome, trace) = world.run(0, &|| false).expect("nothing stops it");
    let captures = trace.expect("a trace was asked for").into_captures();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (port, (host, pcapng)) in captures.enumerate() {
        let own = address(scenario, &host);
        for (time, bytes) in packets(&pcapng) {
            let is_sent = bytes[12..16] == own.octets();
            if is_sent { &mut sent } else { &mut received }.push((time, Port(port as u16), bytes));
        }
    }
    for list in [&mut sent, &mut received] {
        list.sort_by_key(|&(time, port, _)| (time, port));
    }
    (outcome, sent, received)
}

/// The host's address, as in captures: node 256 x + y has 10.x.y.1.
fn address(scenario: &Scenario, host: &str) -> Ipv4Addr {
    let node = scenario.nodes.iter().position(|node| node.name == host).expect("a host of the scenario");
    Ipv4Addr::new(10, (node >> 8) as u8, node as u8, 1)
}

/// The packets of a pcapng file with one interface and times in nanoseconds.
fn packets(pcapng: &[u8]) -> Vec<(Time, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(pcapng[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut packets) = (0, Vec::new());
    while at < pcapng.len() {
        // An Enhanced Packet Block: interface, time in two halves, stored length, length.
        if word(at) == 6 {
            let time = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let stored = &pcapng[at + 28..][..word(at + 20) as usize];
            let mut bytes = stored.to_vec();
            bytes.resize(word(at + 24) as usize, 0);
            packets.push((Time::from_nanos(time), bytes));
        }
        at += word(at + 4) as usize;
    }
    packets
}

/// A clock that stands where the next event is, and devices that send what a world's hosts sent.
struct Replay {
    now: Time,
    end: Time,
    sent: VecDeque<Passed>,
    received: Vec<Passed>,
}

impl Outside for Replay {
    fn now(&mut self) -> Time {
        self.now
    }

    fn wait(&mut self, until: Option<Time>, _packets: bool) -> Result<Woken, Error> {
        let packet = self.sent.front().map(|&(time, ..)| time);
        let next = until.into_iter().chain(packet).min().unwrap_or(self.end);
        self.now = self.now.max(next).min(self.end);
        Ok(if self.now >= self.end { Woken::Stop } else { Woken::Up })
    }

    fn read(&mut self, port: Port, buffer: &mut [u8]) -> Result<Option<Received>, Error> {
        if !self.sent.front().is_some_and(|&(time, at, _)| time <= self.now && at == port) {
            return Ok(None);
        }
        let (_, _, bytes) = self.sent.pop_front().expect("just seen");
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(Received { len: bytes.len(), came: None, open: None }))
    }

    fn write(&mut self, port: Port, packet: &[u8], _open: Option<OpenChecksum>) -> Result<Refused, Error> {
        self.received.push((self.now, port, packet.to_vec()));
        Ok(Refused::default())
    }

    fn dropped(&mut self) -> Result<u64, Error> {
        Ok(0)
    }
}

/// The reactor with the scenario's network, and outside it what `sent` says.
fn reactor(scenario: &Scenario, sent: Vec<Passed>, end: Time) -> (Network<Nobody>, Vec<Passed>) {
    let network = Network::outside(scenario, 0);
    let hosts: Vec<usize> = (0..scenario.nodes.len()).filter(|&node| network.port(node).is_some()).collect();
    let attachment = |&node: &usize| {
        let within_reach = hosts.iter().filter(|&&to| network.topology().reaches(node, to));
        let addresses: Addresses =
            within_reach.map(|&to| (address(scenario, &scenario.nodes[to].name).into(), to as u16)).collect();
        Some(Attachment { node: node as u16, to: Destination::Of(Arc::new(addresses)) })
    };
    let attachments = hosts.iter().map(attachment).collect();
    let mut reactor = Reactor::new(network, attachments, Limits::new(1_500, Duration::ZERO));
    let mut replay = Replay { now: Time::ZERO, end, sent: sent.into(), received: Vec::new() };
    let mut is_strained = false;
    let mut look = |_: &mut Network<Nobody>, report: &headend_host::reactor::Report| {
        is_strained |= !report.strain.is_none();
        ControlFlow::Continue(())
    };
    reactor.run(&mut replay, Duration::from_secs(1), &mut look).expect("the replay does not fail");
    assert!(!is_strained, "a clock that waits for everybody is never late");
    replay.received.sort_by_key(|&(time, port, _)| (time, port));
    (reactor.into_node(), replay.received)
}

#[test]
fn a_world_and_the_reactor_deliver_the_same_packets_at_the_same_times() {
    let scenario = Scenario::parse("two drivers", SCENARIO).expect("a scenario");
    let (outcome, sent, received) = world(&scenario);
    let end = Time::from_nanos(outcome.end_ns);
    let (network, delivered) = reactor(&scenario, sent.clone(), end);

    assert!(sent.len() > 10_000, "{} packets are a trace worth comparing", sent.len());
    for (direction, row) in network.ways().iter().zip(&outcome.links) {
        let stats = direction.stats();
        assert_eq!((direction.link, &*direction.direction), (&*row.link, &*row.direction));
        assert_eq!(
            (stats.arrived, stats.dropped, stats.lost, stats.queued_max),
            (row.arrived, row.dropped, row.lost, row.queue_max),
            "{} {}",
            row.link,
            row.direction
        );
    }
    let sum = |of: fn(&headend_scenario::results::LinkRow) -> u64| outcome.links.iter().map(of).sum::<u64>();
    let (dropped, lost) = (sum(|row| row.dropped), sum(|row| row.lost));
    assert!(dropped > 50 && lost > 50, "queues overflow and links lose: {dropped} and {lost}");
    // A world ends with its last flow, in the middle of an instant.
    let before_end = |passed: &[Passed]| passed.iter().filter(|&&(time, ..)| time < end).cloned().collect::<Vec<_>>();
    let (expected, found) = (before_end(&received), before_end(&delivered));
    let difference = expected.iter().zip(&found).position(|(expected, found)| expected != found);
    assert_eq!((difference, expected.len()), (None, found.len()), "the first difference, and how many there are");
}
