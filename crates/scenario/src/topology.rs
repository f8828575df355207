//! The topology of a scenario: which nodes reach each other, and by which links. Whoever checks, simulates or emulates
//! a scenario asks here.
//!
//! Routers and proxies pass packets on; a host passes nothing on. Over a link that is `one_way` packets are routed from the
//! first of its nodes to the second only.

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

use headend_engine::node::Port;
use headend_engine::time::Time;

use super::Scenario;
use super::link::Link;
use super::model::{Node, NodeKind};

/// The first port number of a node's connections. A host has its streams of datagrams and frames below.
pub const FIRST_PORT: u16 = 1024;
/// The most connections that a node has ports for, with the control TCPs of circuits.
pub const CONNECTIONS_MAX: u64 = u16::MAX as u64 + 1 - FIRST_PORT as u64;
/// The most streams of datagrams and frames that a host has ports for.
pub const STREAMS_MAX: u64 = FIRST_PORT as u64;

/// The port by which to send a packet for each node of the network; `None` for the node itself and for those out of
/// reach.
pub type Routes = Vec<Option<Port>>;

/// The links as they join the nodes.
#[derive(Debug)]
pub struct Topology {
    /// The links of each node in the order of the file: port k leads along the k-th.
    ways: Vec<Vec<Way>>,
    passes_on: Vec<bool>,
    groups: Groups,
}

/// One link as one of its nodes has it.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The node at its far end.
    to: usize,
    link: usize,
    /// True if routes lead along it.
    leads: bool,
    /// True if routes lead along it from the far end to here.
    returns: bool,
}

impl Topology {
    /// The topology of these nodes and links. A link that ends at no node joins nothing.
    pub fn new(nodes: &[Node], links: &[Link]) -> Topology {
        let mut ways = vec![Vec::new(); nodes.len()];
        for (number, link) in links.iter().enumerate() {
            let [a, b] = link.between;
            if a.max(b) < nodes.len() {
                ways[a].push(Way { to: b, link: number, leads: true, returns: !link.kind.is_one_way() });
                ways[b].push(Way { to: a, link: number, leads: !link.kind.is_one_way(), returns: true });
            }
        }
        let passes_on: Vec<bool> = nodes.iter().map(|node| !matches!(node.kind, NodeKind::Host { .. })).collect();
        let groups = Groups::new(&ways, &passes_on);
        Topology { ways, passes_on, groups }
    }

    /// The topology of a scenario.
    pub fn of(scenario: &Scenario) -> Topology {
        Topology::new(&scenario.nodes, &scenario.links)
    }

    /// The ways with the fewest links from `node` to every other, through routers; of several, the one by the link that
    /// the file names first.
    pub fn routes(&self, node: usize) -> Routes {
        let mut routes: Routes = vec![None; self.ways.len()];
        let mut reached = VecDeque::from([(node, None)]);
        while let Some((at, first)) = reached.pop_front() {
            if at != node && !self.passes_on[at] {
                continue;
            }
            for (port, way) in self.ways[at].iter().enumerate() {
                if way.leads && way.to != node && routes[way.to].is_none() {
                    routes[way.to] = first.or(Some(Port(port as u16)));
                    reached.push_back((way.to, routes[way.to]));
                }
            }
        }
        routes
    }

    /// The port by which packets from `node` to `to` leave it; `None` if `to` is out of reach. Where a node has one link, as
    /// most hosts have, this takes far less time than [`routes`](Topology::routes).
    pub fn port(&self, node: usize, to: usize) -> Option<Port> {
        match self.ways[node][..] {
            [_] => self.reaches(node, to).then_some(Port(0)),
            _ => self.routes(node)[to],
        }
    }

    /// True if packets get from `from` to `to`. This takes far less time than [`routes`](Topology::routes).
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let neighbours = self.ways[from].iter().filter(|way| way.leads).map(|way| way.to);
        if from == to || neighbours.clone().any(|next| next == to) {
            return from != to;
        }
        let routers = |ways: &mut dyn Iterator<Item = usize>| -> BTreeSet<usize> {
            ways.filter(|&node| self.passes_on[node]).map(|node| self.groups.of[node]).collect()
        };
        let starts = routers(&mut neighbours.chain([from]));
        let ends = routers(&mut self.ways[to].iter().filter(|way| way.returns).map(|way| way.to).chain([to]));
        starts.iter().any(|&start| ends.iter().any(|&end| self.groups.leads(start, end)))
    }

    /// The nodes that a packet from `node` to `to` comes to, `to` the last; none if it is out of reach.
    pub fn path(&self, node: usize, to: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = node;
        while at != to
            && let Some(port) = self.port(at, to)
        {
            at = self.ways[at][usize::from(port.0)].to;
            path.push(at);
        }
        path
    }

    /// The link of the scenario along which port `port` of `node` leads; `None` if that is a port of its own.
    pub fn link_at(&self, node: usize, port: Port) -> Option<usize> {
        self.ways[node].get(usize::from(port.0)).map(|way| way.link)
    }

    /// The first port of `node` after those of its links.
    pub fn own_port(&self, node: usize) -> Port {
        Port(self.ways[node].len() as u16)
    }

    /// True if packets from `node` to `to` leave it by link number `link` of the scenario.
    pub fn leads_over(&self, node: usize, to: usize, link: usize) -> bool {
        self.port(node, to).is_some_and(|port| self.link_at(node, port) == Some(link))
    }
}

/// Routers that reach each other over links which lead both ways, and how such groups lead to each other.
#[derive(Debug)]
struct Groups {
    /// The group of each node, named after one of its routers. A host is alone.
    of: Vec<usize>,
    /// The groups that each group's links lead to which lead one way.
    next: Vec<Vec<usize>>,
    /// The groups that can be reached from each group, worked out when first asked for.
    reached: Vec<OnceLock<BTreeSet<usize>>>,
}

impl Groups {
    fn new(ways: &[Vec<Way>], passes_on: &[bool]) -> Groups {
        let mut parents: Vec<usize> = (0..ways.len()).collect();
        let mut one_way = Vec::new();
        let between_routers = |(node, way): &(usize, Way)| way.leads && passes_on[*node] && passes_on[way.to];
        let all = ways.iter().enumerate().flat_map(|(node, ways)| ways.iter().map(move |way| (node, *way)));
        for (node, way) in all.filter(between_routers) {
            if way.returns {
                let (a, b) = (find(&mut parents, node), find(&mut parents, way.to));
                parents[a] = b;
            } else {
                one_way.push((node, way.to));
            }
        }
        let of: Vec<usize> = (0..ways.len()).map(|node| find(&mut parents, node)).collect();
        let mut next = vec![Vec::new(); if one_way.is_empty() { 0 } else { ways.len() }];
        for (from, to) in one_way {
            next[of[from]].push(of[to]);
        }
        let reached = next.iter().map(|_| OnceLock::new()).collect();
        Groups { of, next, reached }
    }

    /// True if packets get from a router of group `from` to one of group `to`.
    fn leads(&self, from: usize, to: usize) -> bool {
        from == to || !self.next.is_empty() && self.reached[from].get_or_init(|| self.reached_from(from)).contains(&to)
    }

    fn reached_from(&self, group: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::from([group]);
        let mut open = vec![group];
        while let Some(group) = open.pop() {
            open.extend(self.next[group].iter().copied().filter(|&next| reached.insert(next)));
        }
        reached
    }
}

/// The representative of a group, with the path to it halved on the way.
fn find(parents: &mut [usize], mut index: usize) -> usize {
    while parents[index] != index {
        parents[index] = parents[parents[index]];
        index = parents[index];
    }
    index
}

/// Counts the nodes of such a network's graph: its own, and what carries the packets of its links.
pub fn graph_nodes(nodes: &[Node], links: &[Link]) -> usize {
    nodes.len() + links.iter().map(|link| link.kind.graph_nodes()).sum::<usize>()
}

/// The time before which a run of such a network must end.
pub(crate) fn horizon(nodes: &[Node], links: &[Link]) -> Time {
    headend_engine::graph::horizon(graph_nodes(nodes, links))
}
