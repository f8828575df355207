//! The links and routers of a scenario as a graph, without those who send: a [`World`](crate::world::World) puts its
//! hosts inside, a driver in real time stands outside in their place.

mod carrier;
mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::cable::docsis::Docsis;
use headend_engine::cable::{self, Cable};
use headend_engine::graph::Graph;
use headend_engine::link::disturbance::Disturbance;
use headend_engine::link::repeating::Repeating;
use headend_engine::link::{Link, Stats};
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Discard, Packet};
use headend_engine::rng::Rng;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use self::carrier::Carrier;
use crate::edge::Edge;
use crate::router::Router;
use headend_scenario::results::LinkRow;
use headend_scenario::topology::{self, Topology};
use headend_scenario::{Direction, DocsisChannel, LinkKind, NodeKind, Plain, Scenario};

/// Links and routers, wired, and in each host's place an `H` and in each proxy's a `P`; or, if there is [`Nobody`], a
/// port that faces outside in a host's place and a router in a proxy's.
///
/// A packet is routed by the number of its destination's node, whatever its body: node `n` is the n-th of the scenario.
#[derive(Debug)]
pub struct Network<H = Nobody, P = Nobody> {
    /// First the scenario's nodes, then its links.
    pub(crate) graph: Graph<Piece<H, P>>,
    pub(crate) nodes: Vec<String>,
    pub(crate) links: Vec<WiredLink>,
    pub(crate) topology: Topology,
    /// The port in each host's place, by node; `None` where there is none.
    outside: Vec<Option<Port>>,
}

/// The type of hosts and proxies in a network that has none inside; it has no value.
#[derive(Clone, Copy, Debug)]
pub enum Nobody {}

/// A piece of a network. Packets reach it by a `match`, not a virtual call: this is the innermost loop. And with a tag
/// of its own (`repr`), because one hidden in a field takes eight instructions to decode, three times a packet and hop.
#[derive(Debug)]
#[repr(u8, align(64))]
#[expect(
    clippy::large_enum_variant,
    reason = "most pieces are links or hosts, and a pointer to each would be followed"
)]
pub(crate) enum Piece<H, P> {
    /// One direction of a plain link.
    Link(Link),
    /// One direction of a plain link over which the graph itself carries packets.
    Express,
    /// One direction of a plain link that sends lost headers again.
    Repeating(Box<Repeating>),
    /// What a direction of a plain link does to packets besides losing them, behind the link.
    Disturbance(Box<Disturbance>),
    /// A cable path, both directions.
    Cable(Box<Cable>),
    /// A DOCSIS channel and its modems, both directions.
    Docsis(Box<Docsis>),
    /// Sends and receives.
    Host(H),
    /// Passes packets on.
    Router(Router),
    /// Ends connections and connects on.
    Proxy(Box<P>),
    /// Passes packets on, some of them in circuits.
    Edge(Box<Edge>),
}

/// A link of the scenario and where it is in the graph.
#[derive(Debug)]
pub(crate) struct WiredLink {
    pub(crate) name: Arc<str>,
    /// Its directions, in the order of the results.
    pub(crate) ways: Vec<WiredWay>,
}

/// One direction of a link and where it is in the graph.
#[derive(Debug)]
pub(crate) struct WiredWay {
    /// The direction's name: `a->b`, or the name of one of a cable's links.
    direction: String,
    /// The piece that carries it.
    pub(crate) piece: usize,
    /// Its number among the piece's directions.
    way: usize,
}

/// One direction of a link of the scenario.
#[derive(Debug)]
pub struct Way<'a> {
    /// The link's name in the file.
    pub link: &'a str,
    /// The direction's name: `a->b`, or the name of one of a cable's links.
    pub direction: String,
    carrier: &'a dyn Carrier,
    way: usize,
}

impl<'a> Way<'a> {
    /// The counters of this direction.
    pub fn stats(&self) -> Stats {
        self.carrier.stats(self.way)
    }

    /// Packets and bytes that wait; with a modem, those on their way too.
    pub fn backlog(&self) -> (u64, Bytes) {
        self.carrier.backlog(self.way)
    }

    /// The packets that did not get through since a record began.
    pub(crate) fn discards(&self) -> &'a [Discard] {
        self.carrier.discards(self.way)
    }
}

impl Network {
    /// The network of run `run` of `scenario`, with the seeds that a [`World`](crate::world::World) of that run uses,
    /// and at each host's place a port that faces outside; a proxy is a router. What links discard is recorded, to be
    /// taken with [`Node::take_discards`].
    ///
    /// # Panics
    /// If there are more than 65536 nodes; files cannot have so many.
    pub fn outside(scenario: &Scenario, run: u32) -> Network {
        Network::facing(scenario, run, |node| matches!(scenario.nodes[node].kind, NodeKind::Host { .. }))
    }

    /// The network of [`outside`](Network::outside), with a port in each proxy's place as well, and in that of each router
    /// at which a circuit begins or ends. Packets for others still pass a proxy's place as they pass a router; at a
    /// circuit's end all packets leave the network, and whoever is there sends them on.
    pub fn outside_with_sites(scenario: &Scenario, run: u32) -> Network {
        Network::facing(scenario, run, |node| match scenario.nodes[node].kind {
            NodeKind::Host { .. } | NodeKind::Proxy(_) => true,
            NodeKind::Router => scenario.is_edge(node),
        })
    }

    fn facing(scenario: &Scenario, run: u32, is_outside: impl Fn(usize) -> bool) -> Network {
        let seed = scenario.seed.wrapping_add(u64::from(run));
        let mut network = Network::build(scenario, seed, true, |node, topology| {
            let (mut routes, own) = (topology.routes(node), topology.own_port(node));
            Piece::Router(match scenario.nodes[node].kind {
                _ if !is_outside(node) => Router::new(routes),
                NodeKind::Router => Router::by_way_of(own, routes),
                NodeKind::Host { .. } | NodeKind::Proxy(_) => {
                    routes[node] = Some(own);
                    Router::new(routes)
                }
            })
        });
        for node in 0..scenario.nodes.len() {
            if is_outside(node) {
                // Such a place is a router that sends out what is for the node, by a port after those of its links.
                let own = network.topology.own_port(node);
                network.outside[node] = Some(network.graph.expose(node, own));
            }
        }
        network
    }
}

impl<H: Node, P: Node> Network<H, P> {
    /// Wires the scenario's links to its routers and to what `host` makes in the place of each host, proxy or end of a circuit,
    /// given its number.
    pub(crate) fn build(
        scenario: &Scenario,
        seed: u64,
        record_discards: bool,
        mut host: impl FnMut(usize, &Topology) -> Piece<H, P>,
    ) -> Network<H, P> {
        assert!(scenario.nodes.len() <= usize::from(u16::MAX) + 1, "addresses are 16 bits long");
        let topology = Topology::of(scenario);
        let mut graph = Graph::new();
        graph.reserve(topology::graph_nodes(&scenario.nodes, &scenario.links));
        for (node, spec) in scenario.nodes.iter().enumerate() {
            graph.add(match &spec.kind {
                NodeKind::Router if !scenario.is_edge(node) => Piece::Router(Router::new(topology.routes(node))),
                NodeKind::Router | NodeKind::Host { .. } | NodeKind::Proxy(_) => host(node, &topology),
            });
        }
        let links = wire(scenario, seed, record_discards, &mut graph);
        let nodes = scenario.nodes.iter().map(|node| node.name.clone()).collect();
        Network { graph, nodes, links, topology, outside: vec![None; scenario.nodes.len()] }
    }

    /// The names of the nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The port of [`Network::outside`] in the place of host `node`: what enters there is sent by the host, what leaves
    /// is for it. `None` for a router at which no circuit ends.
    pub fn port(&self, node: usize) -> Option<Port> {
        self.outside[node]
    }

    /// The topology: how the links join the nodes. A packet must not enter that has no way to its destination.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every direction of every link, in the order of the file.
    pub fn ways(&self) -> Vec<Way<'_>> {
        let nodes = self.graph.nodes();
        let mut ways = Vec::with_capacity(2 * self.links.len());
        for WiredLink { name, ways: wired } in &self.links {
            for WiredWay { direction, piece, way } in wired {
                let carrier = match self.graph.express(*piece) {
                    Some(express) => express,
                    None => nodes[*piece].carrier(),
                };
                ways.push(Way { link: name, direction: direction.clone(), carrier, way: *way });
            }
        }
        ways
    }

    /// Makes plain link number `link` what `plain` says, from `now` on: its rates, losses and delays. `draws` names its generators, so
    /// that a link that is changed twice does not lose the same packets again. Queues stay as they are.
    ///
    /// # Panics
    /// If the link is of another kind.
    pub fn change_link(&mut self, now: Time, link: usize, plain: &Plain, seed: u64, draws: &str) {
        let name = self.links[link].name.clone();
        for (number, (direction, way)) in [(&plain.there, "there"), (&plain.back, "back")].into_iter().enumerate() {
            let piece = self.links[link].ways[number].piece;
            let carrier = match self.graph.node_mut(piece) {
                Piece::Link(link) => link,
                Piece::Repeating(repeating) => repeating.link_mut(),
                _ => panic!("link {name} is plain"),
            };
            let draws = format!("links/{name}/{way}/{draws}");
            let service = parts::service(direction, seed, &draws);
            let loss = direction.loss.build(Rng::named(seed, &format!("{draws}/loss")));
            let delay = (direction.delay.shortest(), parts::varying(direction, seed, &draws));
            carrier.change(now, Some(service), Some(loss), Some(delay));
        }
    }

    /// Has every link know what it is at `now`, when all that is due by then has happened: a link looks at its queue only
    /// when a packet comes or goes.
    pub(crate) fn settle(&mut self, now: Time) {
        self.graph.settle(now);
        for WiredWay { piece, way, .. } in self.links.iter().flat_map(|link| &link.ways) {
            if self.graph.express(*piece).is_none() {
                self.graph.node_mut(*piece).carrier_mut().settle(*way, now);
            }
        }
    }

    /// Closes the books of every link at `end` and yields what each of its directions counted, in the order of the
    /// file.
    ///
    /// # Panics
    /// If packets were not conserved or Little's law does not hold on a link.
    pub fn link_rows(&mut self, end: Time) -> Vec<LinkRow> {
        self.graph.settle(end);
        let mut rows = Vec::with_capacity(2 * self.links.len());
        for link in &self.links {
            for WiredWay { direction, piece, way } in &link.ways {
                let stats = match self.graph.express(*piece) {
                    Some(express) => express.stats(),
                    None => self.graph.node_mut(*piece).carrier_mut().close_books(*way, end),
                };
                rows.push(link_row(&link.name, direction, &stats));
            }
        }
        rows
    }
}

fn link_row(link: &Arc<str>, direction: &str, stats: &Stats) -> LinkRow {
    LinkRow {
        link: link.clone(),
        direction: direction.into(),
        arrived: stats.arrived,
        delivered: stats.delivered,
        dropped: stats.dropped,
        dropped_user: stats.dropped_user,
        dropped_headers: stats.dropped_headers,
        marked: stats.marked,
        queue_bytes_max: stats.queued_bytes_max,
        lost: stats.lost,
        delivered_bytes: stats.delivered_bytes,
        busy_ns: stats.busy.as_nanos(),
        occupancy_packet_ns: stats.occupancy,
        queue_max: stats.queued_max,
        served: stats.served,
        sojourn_ns: stats.sojourn,
    }
}

/// The network as one node, seen from outside.
impl<H: Node, P: Node> Node for Network<H, P> {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        self.graph.receive(now, port, packet);
    }

    fn poll(&mut self, now: Time) -> Step {
        self.graph.poll(now)
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        self.graph.take_discards(into);
    }
}

/// Adds the links to the graph and wires them to the nodes.
fn wire<H: Node, P: Node>(
    scenario: &Scenario,
    seed: u64,
    record_discards: bool,
    graph: &mut Graph<Piece<H, P>>,
) -> Vec<WiredLink> {
    let mut next_port = vec![0; scenario.nodes.len()];
    let mut wired = Vec::new();
    let mut channels = parts::docsis(scenario, seed, record_discards);
    // By the link that has the channel: its piece, and modems wired so far.
    let mut modems: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (number, link) in scenario.links.iter().enumerate() {
        let [a, b] = link.between.map(|node| {
            next_port[node] += 1;
            (node, Port(next_port[node] - 1))
        });
        let [there_name, back_name] = [[0, 1], [1, 0]].map(|ends| {
            let [from, to] = ends.map(|end: usize| scenario.nodes[link.between[end]].name.as_str());
            format!("{from}->{to}")
        });
        let ways = match &link.kind {
            LinkKind::Plain(plain) => {
                let Plain { there, back, .. } = &**plain;
                let directions = [(there, a, b, "there", there_name), (back, b, a, "back", back_name)];
                let ways = directions.map(|(direction, from, to, name, direction_name)| {
                    let [loss, queue] = ["loss", "queue"].map(|part| format!("links/{}/{name}/{part}", link.name));
                    // Whoever records what is dropped wants the packets themselves.
                    let express = if record_discards { None } else { parts::express(direction, seed, &loss) };
                    let index = match express {
                        Some(express) => graph.add_express(express, Piece::Express),
                        None => graph.add(plain_piece(
                            direction,
                            parts::plain_link(direction, seed, &loss, &queue),
                            record_discards,
                        )),
                    };
                    graph.wire(from.0, from.1, index, Port(0));
                    let mut last = index;
                    if direction.disturbance.is_any() {
                        let rng = |what: &str| Rng::named(seed, &format!("links/{}/{name}/{what}", link.name));
                        last = graph.add(Piece::Disturbance(Box::new(direction.disturbance.build(rng))));
                        graph.wire(index, Port(1), last, Port(0));
                    }
                    graph.wire(last, Port(1), to.0, to.1);
                    WiredWay { direction: direction_name, piece: index, way: 0 }
                });
                ways.into()
            }
            LinkKind::Cable(spec) => {
                let mut piece = parts::cable(spec, seed, &link.name);
                if record_discards {
                    piece.links_mut().into_iter().for_each(|link| link.record_discards());
                }
                let index = graph.add(Piece::Cable(Box::new(piece)));
                for (node, side) in [(a, Cable::HEADEND), (b, Cable::PC)] {
                    graph.wire(node.0, node.1, index, side);
                    graph.wire(index, side, node.0, node.1);
                }
                let way = |(way, name): (usize, &str)| WiredWay { direction: name.to_owned(), piece: index, way };
                cable::LINKS.into_iter().enumerate().map(way).collect()
            }
            LinkKind::Docsis(spec) => {
                let owner = match spec.channel {
                    DocsisChannel::Own(_) => number,
                    DocsisChannel::Of(owner) => owner,
                };
                let (index, modem) = *modems.entry(owner).or_insert_with(|| {
                    let channel = channels.remove(&owner).expect("every channel was made");
                    (graph.add(Piece::Docsis(Box::new(channel))), 0)
                });
                modems.insert(owner, (index, modem + 1));
                for (node, side) in [(a, Docsis::headend_port(modem)), (b, Docsis::subscriber_port(modem))] {
                    graph.wire(node.0, node.1, index, side);
                    graph.wire(index, side, node.0, node.1);
                }
                vec![
                    WiredWay { direction: there_name, piece: index, way: 2 * modem },
                    WiredWay { direction: back_name, piece: index, way: 2 * modem + 1 },
                ]
            }
        };
        wired.push(WiredLink { name: link.name.as_str().into(), ways });
    }
    wired
}

/// The piece that a direction of a plain link is.
fn plain_piece<H, P>(direction: &Direction, mut link: Link, record_discards: bool) -> Piece<H, P> {
    if direction.header_repeats == 0 {
        if record_discards {
            link.record_discards();
        }
        return Piece::Link(link);
    }
    let mut repeating = Repeating::new(link, direction.header_repeats);
    if record_discards {
        repeating.record_discards();
    }
    Piece::Repeating(Box::new(repeating))
}

impl Node for Nobody {
    fn receive(&mut self, _now: Time, _port: Port, _packet: &Packet) {
        match *self {}
    }

    fn poll(&mut self, _now: Time) -> Step {
        match *self {}
    }
}

impl<H, P> Piece<H, P> {
    /// The piece as what carries packets.
    ///
    /// # Panics
    /// If it is none that a link is made of.
    fn carrier(&self) -> &dyn Carrier {
        match self {
            Piece::Link(link) => link,
            Piece::Repeating(repeating) => &**repeating,
            Piece::Cable(cable) => &**cable,
            Piece::Docsis(docsis) => &**docsis,
            Piece::Express
            | Piece::Disturbance(_)
            | Piece::Host(_)
            | Piece::Router(_)
            | Piece::Proxy(_)
            | Piece::Edge(_) => {
                panic!("a piece carries packets if it is one of a link, and not the graph instead of it")
            }
        }
    }

    /// The piece as in [`carrier`](Piece::carrier), to close its books.
    fn carrier_mut(&mut self) -> &mut dyn Carrier {
        match self {
            Piece::Link(link) => link,
            Piece::Repeating(repeating) => &mut **repeating,
            Piece::Cable(cable) => &mut **cable,
            Piece::Docsis(docsis) => &mut **docsis,
            Piece::Express
            | Piece::Disturbance(_)
            | Piece::Host(_)
            | Piece::Router(_)
            | Piece::Proxy(_)
            | Piece::Edge(_) => {
                panic!("a piece carries packets if it is one of a link, and not the graph instead of it")
            }
        }
    }
}

impl<H: Node, P: Node> Node for Piece<H, P> {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Piece::Link(link) => link.receive(now, port, packet),
            Piece::Express => unreachable!("the graph carries packets over an express link"),
            Piece::Repeating(repeating) => repeating.receive(now, port, packet),
            Piece::Disturbance(medium) => medium.receive(now, port, packet),
            Piece::Cable(cable) => cable.receive(now, port, packet),
            Piece::Docsis(docsis) => docsis.receive(now, port, packet),
            Piece::Host(host) => host.receive(now, port, packet),
            Piece::Router(router) => router.receive(now, port, packet),
            Piece::Proxy(proxy) => proxy.receive(now, port, packet),
            Piece::Edge(edge) => edge.receive(now, port, packet),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        match self {
            Piece::Link(link) => link.poll(now),
            Piece::Express => Step::Wait(None),
            Piece::Repeating(repeating) => repeating.poll(now),
            Piece::Disturbance(medium) => medium.poll(now),
            Piece::Cable(cable) => cable.poll(now),
            Piece::Docsis(docsis) => docsis.poll(now),
            Piece::Host(host) => host.poll(now),
            Piece::Router(router) => router.poll(now),
            Piece::Proxy(proxy) => proxy.poll(now),
            Piece::Edge(edge) => edge.poll(now),
        }
    }

    fn quiet_until(&self, now: Time) -> Option<Time> {
        match self {
            Piece::Link(link) => link.quiet_until(now),
            Piece::Host(host) => host.quiet_until(now),
            Piece::Express
            | Piece::Repeating(_)
            | Piece::Disturbance(_)
            | Piece::Cable(_)
            | Piece::Docsis(_)
            | Piece::Router(_)
            | Piece::Proxy(_)
            | Piece::Edge(_) => None,
        }
    }

    fn routes(&self) -> Option<&[Option<Port>]> {
        match self {
            Piece::Router(router) => router.routes(),
            _ => None,
        }
    }

    fn through(&self, port: Port, packet: &Packet) -> Option<Port> {
        match self {
            Piece::Router(router) => router.through(port, packet),
            Piece::Proxy(proxy) => proxy.through(port, packet),
            Piece::Edge(edge) => edge.through(port, packet),
            Piece::Link(_)
            | Piece::Express
            | Piece::Repeating(_)
            | Piece::Disturbance(_)
            | Piece::Cable(_)
            | Piece::Docsis(_)
            | Piece::Host(_) => None,
        }
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        match self {
            Piece::Link(link) => link.take_discards(into),
            Piece::Repeating(repeating) => repeating.take_discards(into),
            Piece::Cable(cable) => cable.take_discards(into),
            Piece::Docsis(docsis) => docsis.take_discards(into),
            Piece::Express
            | Piece::Disturbance(_)
            | Piece::Host(_)
            | Piece::Router(_)
            | Piece::Proxy(_)
            | Piece::Edge(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
