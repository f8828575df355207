//! Express links beside plain ones, under the same random traffic.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::graph::Graph;
use crate::link::Link;
use crate::link::loss::List;
use crate::link::queue::DropTail;
use crate::link::service::Constant;
use crate::node::{Node, Port, Step};
use crate::packet::{Body, Ecn, Endpoint};

/// One byte a microsecond, so that with arrivals on whole microseconds many events coincide.
const RATE: Rate = Rate::mbit(8);

#[derive(Debug)]
enum Piece {
    /// Sends packets, each at its time.
    Source(VecDeque<(Time, Packet)>),
    Link(Box<Link>),
    Express,
    /// Passes packets on, whose destination is the port.
    Router([Option<Port>; 2]),
    /// Notes what comes, and when.
    Sink(Vec<(Time, u64)>),
}

impl Node for Piece {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Piece::Link(link) => link.receive(now, port, packet),
            Piece::Sink(seen) => seen.push((now, packet.id)),
            _ => panic!("{self:?} receives nothing"),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self {
            Piece::Source(packets) => match packets.front() {
                Some(&(time, packet)) if time <= now => {
                    packets.pop_front();
                    Step::Send(Port(0), packet)
                }
                next => Step::Wait(next.map(|&(time, _)| time)),
            },
            Piece::Link(link) => link.poll(now),
            _ => Step::Wait(None),
        }
    }

    fn quiet_until(&self, now: Time) -> Option<Time> {
        match self {
            Piece::Link(link) => link.quiet_until(now),
            _ => None,
        }
    }

    fn through(&self, _port: Port, packet: &Packet) -> Option<Port> {
        self.routes().map(|routes| routes[usize::from(packet.dst.node)].expect("there is a way"))
    }

    fn routes(&self) -> Option<&[Option<Port>]> {
        match self {
            Piece::Router(routes) => Some(routes),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Express,
}

#[derive(Clone, Debug)]
struct Setup {
    buffer: Capacity,
    lost: Vec<u64>,
    propagation: Duration,
}

impl Setup {
    fn add(&self, graph: &mut Graph<Piece>, kind: Kind) -> usize {
        let loss = Box::new(List::new(self.lost.clone()));
        match kind {
            Kind::Express => {
                let link = Express::new(RATE, self.buffer, Some(loss), self.propagation);
                graph.add_express(link.expect("there is propagation"), Piece::Express)
            }
            Kind::Plain => {
                let queue = Box::new(DropTail::new(self.buffer));
                let link = Link::new(queue, Box::new(Constant::new(RATE)), Some(loss), self.propagation);
                graph.add(Piece::Link(Box::new(link)))
            }
        }
    }
}

/// What each link counted up to a time, and what waits there.
type Counts = Vec<(Stats, (u64, Bytes))>;

/// Two sources, a link from each, a router, and a link from there to each of two sinks; kinds in the order of the links.
/// Yields what arrived, and the books at several times.
fn run(
    setups: &[Setup; 4],
    kinds: [Kind; 4],
    arrivals: &[VecDeque<(Time, Packet)>; 2],
    looks: &[Time],
) -> ([Vec<(Time, u64)>; 2], Vec<Counts>) {
    let mut graph = Graph::new();
    let sources = arrivals.clone().map(|packets| graph.add(Piece::Source(packets)));
    let router = graph.add(Piece::Router([Some(Port(0)), Some(Port(1))]));
    let sinks = [(); 2].map(|()| graph.add(Piece::Sink(Vec::new())));
    let links: Vec<usize> = setups.iter().zip(kinds).map(|(setup, kind)| setup.add(&mut graph, kind)).collect();
    for side in 0..2 {
        graph.wire(sources[side], Port(0), links[side], Port(0));
        graph.wire(links[side], Port(1), router, Port(side as u16));
        graph.wire(router, Port(side as u16), links[2 + side], Port(0));
        graph.wire(links[2 + side], Port(1), sinks[side], Port(0));
    }
    let mut now = Time::ZERO;
    let mut counts = Vec::new();
    for &look in looks {
        graph.run(now, look, |_| true);
        now = look;
        graph.settle(now);
        let books = links.iter().map(|&index| match graph.express(index) {
            Some(express) => (express.stats(), express.backlog()),
            None => {
                let Piece::Link(link) = graph.node_mut(index) else { panic!("a link is there") };
                let stats = link.close_books(now).without_marks();
                (stats, link.backlog())
            }
        });
        counts.push(books.collect());
    }
    let seen = sinks.map(|sink| match &graph.nodes()[sink] {
        Piece::Sink(seen) => seen.clone(),
        _ => panic!("a sink is there"),
    });
    (seen, counts)
}

fn setup() -> impl Strategy<Value = Setup> {
    let buffer = prop_oneof![
        Just(Capacity::Unlimited),
        (0..4_u64).prop_map(Capacity::Packets),
        (0..60_u64).prop_map(|bytes| Capacity::Bytes(Bytes::new(bytes))),
    ];
    let lost = btree_set(1..40_u64, 0..10).prop_map(|lost| lost.into_iter().collect());
    (buffer, lost, 1..60_u64).prop_map(|(buffer, lost, us)| Setup {
        buffer,
        lost,
        propagation: Duration::from_micros(us),
    })
}

/// Packets of few lengths on whole microseconds, in the order of time, to either of the two sinks.
fn arrivals() -> impl Strategy<Value = VecDeque<(Time, Packet)>> {
    vec((0..12_u64, 1..25_u32, 0..2_u16), 0..40).prop_map(|packets| {
        let mut now = Time::ZERO;
        let each = packets.into_iter().zip(0..).map(|((gap, len, node), id)| {
            now += Duration::from_micros(gap);
            let (src, dst) = (Endpoint::default(), Endpoint { node, port: 0 });
            (now, Packet { id, src, dst, len, class: Class::default(), ecn: Ecn::NotEct, body: Body::Opaque })
        });
        each.collect()
    })
}

proptest! {
    #[test]
    fn an_express_link_does_and_counts_what_a_plain_one_does(
        setups in [setup(), setup(), setup(), setup()],
        arrivals in [arrivals(), arrivals()],
        looks in btree_set(0..900_u64, 1..6),
        mixed in 0..16_u32,
    ) {
        let looks: Vec<Time> = looks.into_iter().map(|us| Time::ZERO + Duration::from_micros(us)).collect();
        let plain = run(&setups, [Kind::Plain; 4], &arrivals, &looks);
        let some = [0, 1, 2, 3].map(|link| if mixed >> link & 1 == 0 { Kind::Plain } else { Kind::Express });
        prop_assert_eq!(&run(&setups, [Kind::Express; 4], &arrivals, &looks), &plain);
        prop_assert_eq!(&run(&setups, some, &arrivals, &looks), &plain, "{:?}", some);
    }
}

#[test]
fn without_propagation_no_link_is_express() {
    assert!(Express::new(RATE, Capacity::Unlimited, None, Duration::ZERO).is_none());
}
