//! A link against a model that keeps every packet and looks through all of them at each arrival.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::headers::{HeaderCoding, HeaderCompression};
use super::loss::List;
use super::queue::DropTail;
use super::repeating::Repeating;
use super::service::Constant;
use super::*;
use crate::graph::Graph;
use crate::packet::{Body, Class, Ecn, Endpoint};
use crate::units::{Capacity, Rate};

/// One byte a microsecond, so that with arrivals on whole microseconds many events coincide.
const RATE: Rate = Rate::mbit(8);

#[derive(Clone, Copy, Debug)]
enum Limit {
    Waiting(Capacity),
    Buffer(Capacity),
}

#[derive(Clone, Debug)]
struct Setup {
    limit: Limit,
    lost: Vec<u64>,
    propagation: Duration,
}

/// The result of a run of a link: deliveries, and packets that did not get through.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    delivered: Vec<(Time, u64)>,
    dropped: Vec<(Time, u64)>,
    lost: Vec<(Time, u64)>,
}

fn packet(id: u64, len: u32) -> Packet {
    Packet {
        id,
        src: Endpoint::default(),
        dst: Endpoint::default(),
        len,
        class: Class::default(),
        ecn: Ecn::NotEct,
        body: Body::Opaque,
    }
}

fn link(setup: &Setup) -> Link {
    let queue = match setup.limit {
        Limit::Buffer(capacity) => DropTail::holding_service(capacity),
        Limit::Waiting(capacity) => DropTail::new(capacity),
    };
    let loss = Box::new(List::new(setup.lost.clone()));
    let mut link = Link::new(Box::new(queue), Box::new(Constant::new(RATE)), Some(loss), setup.propagation);
    link.record_discards();
    link
}

/// The outcome that a link must have, found by looking at every packet that it ever took.
fn model(setup: &Setup, arrivals: &[(Time, Packet)]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut taken: Vec<(Time, Packet)> = Vec::new(); // with the end of its service
    for &(now, packet) in arrivals {
        let held: Vec<Packet> = taken.iter().filter(|&&(finish, _)| finish >= now).map(|&(_, packet)| packet).collect();
        let count = |packets: &[Packet]| (packets.len() as u64, packets.iter().map(Packet::len).sum::<Bytes>());
        let (limit, (packets, bytes)) = match setup.limit {
            Limit::Buffer(limit) => (limit, count(&held)),
            Limit::Waiting(limit) => (limit, count(held.get(1..).unwrap_or_default())),
        };
        let fits = match limit {
            Capacity::Unlimited => true,
            Capacity::Packets(max) => packets < max,
            Capacity::Bytes(max) => bytes + packet.len() <= max,
        };
        if !held.is_empty() && !fits {
            outcome.dropped.push((now, packet.id));
            continue;
        }
        let start = taken.last().map_or(now, |&(finish, _)| finish.max(now));
        let finish = start + RATE.time_for(packet.len());
        taken.push((finish, packet));
        if setup.lost.contains(&(taken.len() as u64)) {
            outcome.lost.push((finish, packet.id));
        } else {
            outcome.delivered.push((finish + setup.propagation, packet.id));
        }
    }
    outcome
}

fn outcome(link: &mut Link, delivered: Vec<(Time, u64)>) -> Outcome {
    let end = delivered.last().map_or(Time::ZERO, |&(time, _)| time) + Duration::from_secs(10);
    assert!(matches!(link.poll(end), Step::Wait(None)), "nothing is left to deliver");
    let stats = link.close_books(end); // checks conservation and Little's law
    assert_eq!((stats.inside, stats.delivered), (0, delivered.len() as u64));
    let of = |lost| {
        let discards = link.discards().iter().filter(|discard| discard.lost == lost);
        discards.map(|discard| (discard.time, discard.packet.id)).collect()
    };
    Outcome { delivered, dropped: of(false), lost: of(true) }
}

#[test]
fn a_queue_that_has_emptied_is_seen_to_be_empty_once_it_is_settled() {
    let setup =
        Setup { limit: Limit::Waiting(Capacity::Unlimited), lost: Vec::new(), propagation: Duration::from_secs(1) };
    let mut link = link(&setup);
    (0..3).for_each(|id| link.receive(Time::ZERO, Port(0), &packet(id, 10)));
    for (us, waiting) in [(5, 2), (10, 1), (20, 0)] {
        link.settle(Time::ZERO + Duration::from_micros(us));
        assert_eq!(link.backlog(), (waiting, Bytes::new(10 * waiting)), "after {us} us, at 10 us a packet");
    }
}

/// Gives `node` its arrivals at port 0, polls it when it asks, and notes what leaves it.
fn drive(node: &mut impl Node, arrivals: &[(Time, Packet)]) -> Vec<(Time, u64)> {
    let (mut now, mut delivered) = (Time::ZERO, Vec::new());
    let mut arrivals = arrivals.iter().peekable();
    loop {
        let wake = loop {
            let quiet = node.quiet_until(now);
            match (node.poll(now), quiet) {
                (Step::Send(_, packet), None) => delivered.push((now, packet.id)),
                (Step::Send(..), Some(until)) => panic!("a node that sends at {now} is not quiet until {until}"),
                (Step::Wait(wake), quiet) => {
                    assert!(quiet <= wake.or(Some(Time::MAX)), "quiet until {quiet:?}, which is too late for {wake:?}");
                    break wake;
                }
            }
        };
        let next = arrivals.peek().map(|&&(time, _)| time);
        let Some(soonest) = wake.into_iter().chain(next).min() else { return delivered };
        now = soonest;
        // All that arrives at one instant arrives before anything else happens then.
        while let Some(&(_, packet)) = arrivals.next_if(|&&(time, _)| time == now) {
            node.receive(now, Port(0), &packet);
        }
    }
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        Just(Capacity::Unlimited),
        (0..8_u64).prop_map(Capacity::Packets),
        (0..60_u64).prop_map(|bytes| Capacity::Bytes(Bytes::new(bytes))),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let limit = (capacity(), any::<bool>());
    (limit, btree_set(1..60_u64, 0..8), 0..40_u64).prop_map(|((capacity, waiting), lost, micros)| Setup {
        limit: if waiting { Limit::Waiting(capacity) } else { Limit::Buffer(capacity) },
        lost: lost.into_iter().collect(),
        propagation: Duration::from_micros(micros),
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    vec((0..20_u64, 1..20_u32), 1..120).prop_map(|packets| {
        let mut now = Time::ZERO;
        let number = |(id, (gap, len)): (usize, (u64, u32))| {
            now += Duration::from_micros(gap);
            (now, packet(id as u64, len))
        };
        packets.into_iter().enumerate().map(number).collect()
    })
}

#[test]
fn a_header_with_copies_is_lost_if_all_are_and_takes_their_time() {
    // The line carries headers 1 1 2 2 3 3, of which the 2nd, 3rd and 4th are lost, and then a user's packet once.
    let loss = Box::new(List::new(vec![2, 3, 4]));
    let mut link = Link::new(
        Box::new(DropTail::new(Capacity::Unlimited)),
        Box::new(Constant::new(RATE)),
        Some(loss),
        Duration::ZERO,
    )
    .with_coding(HeaderCoding::build(HeaderCompression::None, 1));
    let classes = [(1, Class::Header), (2, Class::Header), (3, Class::Header), (4, Class::User)];
    let arrivals = classes.map(|(id, class)| (Time::ZERO, Packet { class, ..packet(id, 52) }));
    let at = |bytes: u64| Time::ZERO + Duration::from_micros(bytes);
    assert_eq!(drive(&mut link, &arrivals), [(at(104), 1), (at(312), 3), (at(364), 4)]);
    let stats = link.close_books(at(1_000));
    assert_eq!((stats.lost, stats.lost_bytes, stats.delivered_bytes), (1, 52, 156));
}

#[test]
fn records_of_discards_are_handed_over_once_and_recording_goes_on() {
    let setup = Setup { limit: Limit::Waiting(Capacity::Packets(0)), lost: vec![2], propagation: Duration::ZERO };
    let mut graph = Graph::new();
    let node = graph.add(link(&setup));
    let way_in = graph.expose(node, Port(0));
    graph.expose(node, Port(1));
    let mut discards = Vec::new();
    let of = |discards: &[Discard]| discards.iter().map(|d| (d.packet.id, d.lost)).collect::<Vec<_>>();
    // Packet 2 is refused while 1 is in service; 3, the second to be served, is lost.
    for id in 1..=3 {
        graph.receive(Time::from_nanos(600 * id), way_in, &packet(id, 1));
    }
    graph.take_discards(&mut discards);
    assert_eq!(of(&discards), [(2, false)]);
    while let Step::Send(..) = graph.poll(Time::from_nanos(9_000)) {}
    graph.take_discards(&mut discards);
    assert_eq!(of(&discards), [(2, false), (3, true)]);
    assert!(graph.nodes()[node].discards().is_empty(), "none is handed over twice");
}

proptest! {
    /// Each header arrives once, unless it was lost each time, and those of a flow in their order; all else is as without.
    #[test]
    fn headers_that_are_sent_again_arrive_once_and_in_order(
        kinds in vec((prop_oneof![Just(Class::Header), Just(Class::User)], 0..3_u16), 1..60),
        lost in btree_set(1..90_u64, 0..40),
        times in 1..4_u32,
    ) {
        let lost: Vec<u64> = lost.into_iter().collect();
        let arrived = repeated(&kinds, &lost, times);
        let of = |flow, class| -> Vec<u64> {
            arrived.iter().map(|&(_, id)| id).filter(|&id| kinds[id as usize] == (class, flow)).collect()
        };
        for flow in 0..3 {
            prop_assert!(of(flow, Class::Header).is_sorted_by(|a, b| a < b), "{arrived:?}");
        }
        let missing = kinds.len() - arrived.len();
        prop_assert!(missing <= lost.len(), "nothing is lost but what the medium loses");
        let headers = kinds.iter().filter(|&&(class, _)| class == Class::Header).count();
        let users_lost = kinds.len() - headers - (0..3).map(|flow| of(flow, Class::User).len()).sum::<usize>();
        let given_up = missing - users_lost;
        prop_assert!(given_up * (times as usize + 1) + users_lost <= lost.len(), "each that is given up was lost each time");
    }

    #[test]
    fn a_link_does_what_the_naive_model_does_packet_by_packet(setup in setup(), arrivals in arrivals()) {
        let mut link = link(&setup);
        let delivered = drive(&mut link, &arrivals);
        prop_assert_eq!(outcome(&mut link, delivered), model(&setup, &arrivals));
    }

    /// As without, but that each packet takes a time of its own, and overtakes others or waits for them.
    #[test]
    fn a_delay_that_varies_moves_arrivals_and_nothing_else(
        setup in setup(),
        arrivals in arrivals(),
        extra in vec(0..40_u64, 1..20),
        overtakes in any::<bool>(),
    ) {
        let extra: Vec<Duration> = extra.into_iter().map(Duration::from_micros).collect();
        let shortest = setup.propagation + *extra.iter().min().expect("there is one");
        let delays = extra.iter().map(|&extra| setup.propagation + extra).collect();
        let varying = Varying { delay: Box::new(InTurn(delays, 0)), overtakes };
        let mut link = link(&Setup { propagation: shortest, ..setup.clone() }).with_delay(Some(varying));
        let delivered = drive(&mut link, &arrivals);

        let mut expected = model(&setup, &arrivals);
        // What is served is delivered or lost, in the order of the arrivals.
        let is_served = |id: u64| !expected.dropped.iter().any(|&(_, dropped)| dropped == id);
        let served: Vec<u64> = arrivals.iter().map(|(_, packet)| packet.id).filter(|&id| is_served(id)).collect();
        let mut last = Time::ZERO;
        for (time, id) in &mut expected.delivered {
            let place = served.iter().position(|served| served == id).expect("it was served");
            *time += extra[place % extra.len()];
            if !overtakes {
                last = last.max(*time);
                *time = last;
            }
        }
        expected.delivered.sort_by_key(|&(time, _)| time);
        prop_assert_eq!(outcome(&mut link, delivered), expected);
    }

    #[test]
    fn it_makes_no_difference_how_often_a_link_is_polled(setup in setup(), arrivals in arrivals()) {
        let mut link = link(&setup);
        let mut delivered = Vec::new();
        let end = arrivals.last().expect("at least one").0 + Duration::from_millis(5);
        let mut due = arrivals.iter().peekable();
        // Every microsecond, asked or not.
        for micros in 0..=end.as_nanos() / 1_000 {
            let now = Time::from_nanos(1_000 * micros);
            while let Some(&(_, packet)) = due.next_if(|&&(time, _)| time == now) {
                link.receive(now, Port(0), &packet);
            }
            while let Step::Send(_, packet) = link.poll(now) {
                delivered.push((now, packet.id));
            }
        }
        prop_assert_eq!(outcome(&mut link, delivered), model(&setup, &arrivals));
    }

    #[test]
    fn links_wired_in_a_graph_do_what_they_do_one_after_another(
        setups in vec(setup(), 3),
        arrivals in arrivals(),
        backwards in any::<bool>(),
    ) {
        // Propagation: without it, who goes first at one instant depends on the order of the nodes.
        let setups: Vec<Setup> = setups
            .into_iter()
            .map(|setup| Setup { propagation: setup.propagation + Duration::from_micros(1), ..setup })
            .collect();
        let mut graph = Graph::new();
        let mut nodes = [0; 3];
        for place in if backwards { [2, 1, 0] } else { [0, 1, 2] } {
            nodes[place] = graph.add(link(&setups[place]));
        }
        let way_in = graph.expose(nodes[0], Port(0));
        graph.wire(nodes[0], Port(1), nodes[1], Port(0));
        graph.wire(nodes[1], Port(1), nodes[2], Port(0));
        graph.expose(nodes[2], Port(1));
        prop_assert_eq!(way_in, Port(0));
        let delivered = drive(&mut graph, &arrivals);

        let mut through = arrivals.clone();
        for setup in &setups {
            let next = model(setup, &through).delivered;
            let find = |id| arrivals.iter().find(|(_, packet)| packet.id == id).expect("only what arrived leaves").1;
            through = next.into_iter().map(|(time, id)| (time, find(id))).collect();
        }
        let expected: Vec<(Time, u64)> = through.iter().map(|&(time, packet)| (time, packet.id)).collect();
        prop_assert_eq!(delivered, expected);
    }
}

/// Delays in turn.
#[derive(Debug)]
struct InTurn(Vec<Duration>, usize);

impl Delay for InTurn {
    fn after(&mut self, _sent: Time) -> Duration {
        self.1 += 1;
        self.0[(self.1 - 1) % self.0.len()]
    }
}

#[test]
fn a_detour_delays_what_is_sent_meanwhile_and_nobody_overtakes() {
    let setup =
        Setup { limit: Limit::Waiting(Capacity::Unlimited), lost: Vec::new(), propagation: Duration::from_millis(10) };
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    let detour = Detour { extra: Duration::from_millis(60), start: at(100), end: at(200) };
    let mut link = link(&setup).with_detour(Some(detour));
    let mut arrivals = Vec::new();
    for (id, sent) in [(1, 50), (2, 150), (3, 210), (4, 300)] {
        // A packet is served in a millisecond.
        link.receive(at(sent), Port(0), &packet(id, 1_000));
    }
    for ms in 0..400 {
        while let Step::Send(_, packet) = link.poll(at(ms)) {
            arrivals.push((packet.id, ms));
        }
    }
    // The third waits for the second, which went the long way.
    assert_eq!(arrivals, [(1, 61), (2, 221), (3, 221), (4, 311)]);
}

/// When packets arrive [us], and which, of packets of 52 bytes that enter each millisecond, one of each class and flow in `kinds`; the
/// link takes 10 ms and sends headers again so many `times`, and what it loses are the packets that it serves as those of the
/// numbers `lost`, from 1.
fn repeated(kinds: &[(Class, u16)], lost: &[u64], times: u32) -> Vec<(u64, u64)> {
    let limit = Limit::Waiting(Capacity::Unlimited);
    let setup = Setup { limit, lost: lost.to_vec(), propagation: Duration::from_millis(10) };
    let mut repeating = Repeating::new(link(&setup), times);
    let arrivals = kinds.iter().enumerate().map(|(id, &(class, flow))| {
        let src = Endpoint { node: 0, port: flow };
        (Time::ZERO + Duration::from_millis(id as u64), Packet { class, src, ..packet(id as u64, 52) })
    });
    let arrived = drive(&mut repeating, &arrivals.collect::<Vec<_>>());
    arrived.into_iter().map(|(time, id)| (time.since(Time::ZERO).as_nanos() / 1000, id)).collect()
}

#[test]
fn a_lost_header_comes_a_round_trip_later_and_its_flow_waits() {
    let mut kinds = [(Class::Header, 1); 4];
    kinds[2] = (Class::User, 1);
    // The second is lost at 1052 us and would have arrived at 11,052; the link knows at 21,052.
    let arrived = repeated(&kinds, &[2], 1);
    assert_eq!(arrived, [(10_052, 0), (12_052, 2), (31_104, 1), (31_104, 3)], "a user's packet waits for nobody");
    let others = repeated(&[(Class::Header, 1), (Class::Header, 2), (Class::Header, 1)], &[2], 1);
    assert_eq!(others, [(10_052, 0), (12_052, 2), (31_104, 1)], "nor does a header of another flow");
}

#[test]
fn a_header_that_is_lost_once_too_often_holds_nobody_longer() {
    let kinds = [(Class::Header, 1); 3];
    // The fourth packet that the link serves is the second again: lost at 21,104, and missed at 31,104.
    assert_eq!(repeated(&kinds, &[2, 4], 1), [(10_052, 0), (31_104, 2)]);
    assert_eq!(repeated(&kinds, &[2, 4], 2), [(10_052, 0), (51_156, 1), (51_156, 2)]);
}

#[test]
fn users_packets_are_not_sent_again() {
    assert_eq!(repeated(&[(Class::User, 1); 2], &[1], 8), [(11_052, 1)]);
}
