//! The links and routers of a scenario as a graph, without those who send: a [`World`](crate::world::World) puts its
//! hosts inside, a driver in real time stands outside in their place.

mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::cable::docsis::{self, Docsis};
use headend_engine::cable::{self, Cable};
use headend_engine::graph::Graph;
use headend_engine::link::{Link, Stats};
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Discard, Packet};
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use crate::edge::Edge;
use crate::router::Router;
use headend_scenario::results::LinkRow;
use headend_scenario::topology::{self, Topology};
use headend_scenario::{DocsisChannel, LinkKind, NodeKind, Scenario};

/// Links and routers, wired, and in each host's place an `H` and in each proxy's a `P`; or, if there is [`Nobody`], a port
/// that faces outside in a host's place and a router in a proxy's.
///
/// A packet is routed by the number of its destination's node, whatever its body: node `n` is the n-th of the scenario.
#[derive(Debug)]
pub struct Network<H = Nobody, P = Nobody> {
    /// First the scenario's nodes, then its links.
    pub(crate) graph: Graph<Piece<H, P>>,
    pub(crate) nodes: Vec<String>,
    pub(crate) links: Vec<WiredLink>,
    pub(crate) topology: Topology,
    /// By node: the port in the host's place.
    outside: Vec<Option<Port>>,
}

/// Nobody stands in a host's place, or in a proxy's.
#[derive(Clone, Copy, Debug)]
pub enum Nobody {}

/// What a network is made of. A `match`, not a virtual call: this is the innermost loop. And with a tag of
/// its own (`repr`), because one hidden in a field takes eight instructions to decode, three times a packet and hop.
#[derive(Debug)]
#[repr(u8, align(64))]
#[expect(
    clippy::large_enum_variant,
    reason = "most pieces are links or hosts, and a pointer to each would be followed"
)]
pub enum Piece<H, P> {
    /// One direction of a plain link.
    Link(Link),
    /// A cable path, both directions.
    Cable(Box<Cable>),
    /// A DOCSIS channel and its modems, both directions.
    Docsis(Box<Docsis>),
    /// Who sends and receives.
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
    /// The nodes that it joins, as the scenario gives them.
    pub(crate) between: [usize; 2],
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// The two directions of a plain link, from the first node of `between` and back.
    Plain([usize; 2]),
    Cable(usize),
    /// A channel, and which of its modems.
    Docsis(usize, usize),
}

/// One direction of a link of the scenario.
#[derive(Debug)]
pub struct Way<'a> {
    /// The link's name in the file.
    pub link: &'a str,
    /// `a->b`, or which of a cable's links.
    pub direction: String,
    piece: Carrier<'a>,
}

/// What carries one direction.
#[derive(Clone, Copy, Debug)]
enum Carrier<'a> {
    Link(&'a Link),
    Modem(&'a Docsis, usize, docsis::ChannelDirection),
}

impl<'a> Way<'a> {
    /// What it has counted.
    pub fn stats(&self) -> Stats {
        match self.piece {
            Carrier::Link(link) => link.stats(),
            Carrier::Modem(docsis, modem, way) => docsis.stats(modem, way),
        }
    }

    /// Packets and bytes that wait; with a modem, those on their way too.
    pub fn backlog(&self) -> (u64, Bytes) {
        match self.piece {
            Carrier::Link(link) => link.backlog(),
            Carrier::Modem(docsis, modem, way) => docsis.backlog(modem, way),
        }
    }

    /// The packets that did not get through since a record began.
    pub fn discards(&self) -> &'a [Discard] {
        match self.piece {
            Carrier::Link(link) => link.discards(),
            Carrier::Modem(docsis, modem, way) => docsis.discards(modem, way),
        }
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
        Network::facing(scenario, run, |kind| matches!(kind, NodeKind::Host { .. }))
    }

    /// As [`outside`](Network::outside), with a port in each proxy's place as well. Packets for others pass it all the same.
    pub fn outside_with_proxies(scenario: &Scenario, run: u32) -> Network {
        Network::facing(scenario, run, |kind| !matches!(kind, NodeKind::Router))
    }

    fn facing(scenario: &Scenario, run: u32, is_outside: impl Fn(&NodeKind) -> bool) -> Network {
        let seed = scenario.seed.wrapping_add(u64::from(run));
        let mut network = Network::build(scenario, seed, true, |node, topology| {
            let mut routes = topology.routes(node);
            if is_outside(&scenario.nodes[node].kind) {
                routes[node] = Some(topology.own_port(node));
            }
            Piece::Router(Router::new(routes))
        });
        for (node, spec) in scenario.nodes.iter().enumerate() {
            if is_outside(&spec.kind) {
                // Such a place is a router that sends out what is for the node, by a port after those of its links.
                let own = network.topology.own_port(node);
                network.outside[node] = Some(network.graph.expose(node, own));
            }
        }
        network
    }
}

impl<H: Node, P: Node> Network<H, P> {
    /// Wires the scenario's links to its routers and to what `host` makes in each host's or proxy's place, given its number.
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
                NodeKind::Router
                    if scenario.circuits.iter().any(|circuit| [circuit.from, circuit.to].contains(&node)) =>
                {
                    Piece::Edge(Box::new(Edge::new(node as u16, topology.routes(node))))
                }
                NodeKind::Router => Piece::Router(Router::new(topology.routes(node))),
                NodeKind::Host { .. } | NodeKind::Proxy(_) => host(node, &topology),
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
    /// is for it. `None` for a router.
    pub fn port(&self, node: usize) -> Option<Port> {
        self.outside[node]
    }

    /// How the links join the nodes. A packet must not enter that has no way to its destination.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every direction of every link, in the order of the file.
    pub fn ways(&self) -> Vec<Way<'_>> {
        (0..self.links.len()).flat_map(|link| self.ways_of(link)).collect()
    }

    fn ways_of(&self, link: usize) -> Vec<Way<'_>> {
        let name = &*self.links[link].name;
        let way = move |direction, piece| Way { link: name, direction, piece };
        match self.links[link].place {
            Place::Plain(pieces) => {
                let pieces = pieces.map(|piece| match &self.graph.nodes()[piece] {
                    Piece::Link(link) => link,
                    _ => unreachable!("a plain link is two links"),
                });
                let pieces = pieces.map(Carrier::Link);
                self.directions(link).into_iter().zip(pieces).map(|(name, piece)| way(name, piece)).collect()
            }
            Place::Cable(piece) => {
                let Piece::Cable(cable) = &self.graph.nodes()[piece] else { unreachable!("a cable is a cable") };
                let pieces = cable.links().map(Carrier::Link);
                cable::LINKS.into_iter().zip(pieces).map(|(name, piece)| way(name.to_owned(), piece)).collect()
            }
            Place::Docsis(piece, modem) => {
                let Piece::Docsis(docsis) = &self.graph.nodes()[piece] else { unreachable!("a channel is a channel") };
                let pieces = DOCSIS_WAYS.map(|way| Carrier::Modem(docsis, modem, way));
                self.directions(link).into_iter().zip(pieces).map(|(name, piece)| way(name, piece)).collect()
            }
        }
    }

    /// Closes the books of every link at `end` and yields what each of its directions counted, in the order of the file.
    ///
    /// # Panics
    /// If packets were not conserved or Little's law does not hold on a link.
    pub fn link_rows(&mut self, end: Time) -> Vec<LinkRow> {
        let mut rows = Vec::with_capacity(2 * self.links.len());
        for link in 0..self.links.len() {
            for (direction, stats) in self.close_books(link, end) {
                rows.push(link_row(&self.links[link].name, direction, &stats));
            }
        }
        rows
    }

    /// Checks link `link` and yields what each of its directions counted.
    fn close_books(&mut self, link: usize, end: Time) -> Vec<(String, Stats)> {
        match self.links[link].place {
            Place::Plain(pieces) => {
                let directions = self.directions(link);
                let stats = pieces.map(|piece| match self.graph.node_mut(piece) {
                    Piece::Link(link) => link.close_books(end),
                    _ => unreachable!("a plain link is two links"),
                });
                directions.into_iter().zip(stats).collect()
            }
            Place::Cable(piece) => {
                let Piece::Cable(cable) = self.graph.node_mut(piece) else { unreachable!("a cable is a cable") };
                let stats = cable.links_mut().map(|link| link.close_books(end));
                cable::LINKS.into_iter().map(str::to_owned).zip(stats).collect()
            }
            Place::Docsis(piece, modem) => {
                let directions = self.directions(link);
                let Piece::Docsis(docsis) = self.graph.node_mut(piece) else { unreachable!("a channel is a channel") };
                let stats = DOCSIS_WAYS.map(|way| docsis.close_books(modem, way, end));
                directions.into_iter().zip(stats).collect()
            }
        }
    }

    /// The names of the two directions of a plain or docsis link.
    fn directions(&self, link: usize) -> [String; 2] {
        let [a, b] = self.links[link].between.map(|node| self.nodes[node].as_str());
        [format!("{a}->{b}"), format!("{b}->{a}")]
    }
}

/// In the order of a link's directions: the headend is the first of its nodes.
const DOCSIS_WAYS: [docsis::ChannelDirection; 2] = [docsis::ChannelDirection::Down, docsis::ChannelDirection::Up];

fn link_row(link: &Arc<str>, direction: String, stats: &Stats) -> LinkRow {
    LinkRow {
        link: link.clone(),
        direction: direction.into(),
        arrived: stats.arrived,
        delivered: stats.delivered,
        dropped: stats.dropped,
        dropped_user: stats.dropped_user,
        dropped_headers: stats.dropped_headers,
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

/// Seen from outside.
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
        let place = match &link.kind {
            LinkKind::Plain { there, back } => {
                Place::Plain([(there, a, b, "there"), (back, b, a, "back")].map(|(direction, from, to, name)| {
                    let [loss, queue] = ["loss", "queue"].map(|part| format!("links/{}/{name}/{part}", link.name));
                    let mut piece = parts::plain_link(direction, seed, &loss, &queue);
                    if record_discards {
                        piece.record_discards();
                    }
                    let index = graph.add(Piece::Link(piece));
                    graph.wire(from.0, from.1, index, Port(0));
                    graph.wire(index, Port(1), to.0, to.1);
                    index
                }))
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
                Place::Cable(index)
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
                Place::Docsis(index, modem)
            }
        };
        wired.push(WiredLink { name: link.name.as_str().into(), between: link.between, place });
    }
    wired
}

impl Node for Nobody {
    fn receive(&mut self, _now: Time, _port: Port, _packet: &Packet) {
        match *self {}
    }

    fn poll(&mut self, _now: Time) -> Step {
        match *self {}
    }
}

impl<H: Node, P: Node> Node for Piece<H, P> {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        match self {
            Piece::Link(link) => link.receive(now, port, packet),
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
            Piece::Cable(_) | Piece::Docsis(_) | Piece::Router(_) | Piece::Proxy(_) | Piece::Edge(_) => None,
        }
    }

    fn through(&self, port: Port, packet: &Packet) -> Option<Port> {
        match self {
            Piece::Router(router) => router.through(port, packet),
            Piece::Proxy(proxy) => proxy.through(port, packet),
            Piece::Edge(edge) => edge.through(port, packet),
            Piece::Link(_) | Piece::Cable(_) | Piece::Docsis(_) | Piece::Host(_) => None,
        }
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        match self {
            Piece::Link(link) => link.take_discards(into),
            Piece::Cable(cable) => cable.take_discards(into),
            Piece::Docsis(docsis) => docsis.take_discards(into),
            Piece::Host(_) | Piece::Router(_) | Piece::Proxy(_) | Piece::Edge(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
