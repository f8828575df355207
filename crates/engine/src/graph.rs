//! Wired nodes. Ports that are not wired to another node face outside, so a graph is a node.

mod under_way;

use std::collections::VecDeque;

use self::under_way::{Arrived, Landing, UnderWay};
use crate::link::express::Express;
use crate::node::{Node, Port, Step};
use crate::packet::{Discard, Packet};
use crate::time::Time;
use crate::wakes::Wakes;

/// Nodes and the wires between their ports; a [`Node`] itself.
///
/// Events at the same time happen in the order in which the nodes were added, so a run is one sequence and no other.
#[derive(Debug)]
pub struct Graph<N> {
    nodes: Vec<N>,
    /// The wire of each node's port: `wires[node][port]`.
    wires: Vec<Vec<Wire>>,
    wakes: Wakes,
    /// Nodes to be polled before time goes on, in the order in which they were touched; `polled` of them have been.
    touched: Vec<u32>,
    polled: usize,
    is_touched: Vec<bool>,
    outside: u16,
    /// The node and port that each outside port leads to.
    inward: Vec<(u32, Port)>,
    /// Packets that came in from outside to a node that only redirects, and leave again at once.
    leaving: VecDeque<(Port, Packet)>,
    /// The express links and what is on them; and whether they know how they are wired.
    under_way: UnderWay,
    is_connected: bool,
}

/// The [`horizon`](Graph::horizon) of a graph of so many nodes.
pub fn horizon(nodes: usize) -> Time {
    Wakes::horizon_of(nodes)
}

#[derive(Clone, Copy, Debug)]
enum Wire {
    Loose,
    To(u32, Port),
    Outside(Port),
}

impl<N: Node> Default for Graph<N> {
    fn default() -> Self {
        Graph::new()
    }
}

impl<N: Node> Graph<N> {
    /// A graph without nodes.
    pub fn new() -> Self {
        Graph {
            nodes: Vec::new(),
            wires: Vec::new(),
            wakes: Wakes::default(),
            touched: Vec::new(),
            polled: 0,
            is_touched: Vec::new(),
            outside: 0,
            inward: Vec::new(),
            leaving: VecDeque::new(),
            under_way: UnderWay::default(),
            is_connected: true,
        }
    }

    /// Makes room for so many more nodes, where that is known beforehand.
    pub fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve_exact(nodes);
        self.wires.reserve_exact(nodes);
        self.is_touched.reserve_exact(nodes);
    }

    /// Adds a node and returns its index. It is polled for the first time when the graph is.
    pub fn add(&mut self, node: N) -> usize {
        assert!(self.under_way.is_idle(), "nodes are added before packets are on express links");
        self.is_connected = false;
        let index = self.nodes.len();
        self.nodes.push(node);
        self.wires.push(Vec::new());
        self.is_touched.push(false);
        self.wakes.add();
        self.wakes.set(index, Some(Time::ZERO));
        index
    }

    /// Adds a link that the graph itself carries packets over, from its port 0 to its port 1, which must lead to a node, and
    /// returns its index: it takes its turn among events of the same time by that, as if it were a node. What
    /// [`nodes`](Graph::nodes) shows there is `stand_in`, which no packet reaches.
    pub fn add_express(&mut self, link: Express, stand_in: N) -> usize {
        let index = self.add(stand_in);
        self.wakes.set(index, None);
        self.under_way.add(index, link);
        index
    }

    /// The link that was [added](Graph::add_express) with this index; `None` if that is a node. Its books are of the time of
    /// the last [`settle`](Graph::settle).
    pub fn express(&self, index: usize) -> Option<&Express> {
        self.under_way.link(index)
    }

    /// Brings the books of all express links up to `now`, when all has happened that is due by then.
    pub fn settle(&mut self, now: Time) {
        self.under_way.settle(now);
    }

    /// Makes what `from` sends at `out` arrive at port `into` of `to`. Panics if the port is already wired.
    pub fn wire(&mut self, from: usize, out: Port, to: usize, into: Port) {
        assert!(to < self.nodes.len(), "node {to} was never added");
        *self.loose(from, out) = Wire::To(to as u32, into);
    }

    /// Makes port `port` of `node` face outside, both ways, and returns the graph's port for it.
    pub fn expose(&mut self, node: usize, port: Port) -> Port {
        let outer = Port(self.outside);
        self.outside += 1;
        *self.loose(node, port) = Wire::Outside(outer);
        self.inward.push((node as u32, port));
        outer
    }

    fn loose(&mut self, node: usize, port: Port) -> &mut Wire {
        self.is_connected = false;
        let ports = &mut self.wires[node];
        let port = usize::from(port.0);
        if ports.len() <= port {
            // Exactly: most of a large network's nodes are links, with two ports.
            ports.reserve_exact(port + 1 - ports.len());
            ports.resize(port + 1, Wire::Loose);
        }
        assert!(matches!(ports[port], Wire::Loose), "port {port} of node {node} is wired twice");
        &mut ports[port]
    }

    /// The time before which everything must happen; what is to happen later never does. 52 days for up to 4096 nodes, and
    /// still 19 hours for 262,144.
    pub fn horizon(&self) -> Time {
        self.wakes.horizon()
    }

    /// The nodes, in the order in which they were added.
    pub fn nodes(&self) -> &[N] {
        &self.nodes
    }

    /// Changes a node from outside, for example to start a flow on it; it is polled again at the next poll.
    pub fn node_mut(&mut self, index: usize) -> &mut N {
        self.touch(index as u32);
        &mut self.nodes[index]
    }

    /// Takes the graph apart.
    pub fn into_nodes(self) -> Vec<N> {
        self.nodes
    }

    /// The node and port at which a packet arrives that leaves `node` at `port`, the nodes that only redirect it passed;
    /// or the port at which it leaves the graph.
    fn destination(&self, node: usize, port: Port, packet: &Packet) -> Result<(u32, Port), Port> {
        let (mut node, mut port) = (node, port);
        loop {
            match self.wires[node].get(usize::from(port.0)) {
                Some(&Wire::To(to, into)) => match self.nodes[to as usize].through(into, packet) {
                    Some(out) => (node, port) = (to as usize, out),
                    None => return Ok((to, into)),
                },
                Some(&Wire::Outside(outer)) => return Err(outer),
                _ => panic!("node {node} sent through port {}, which is not wired", port.0),
            }
        }
    }

    /// Tells the express links what follows them.
    #[cold]
    fn connect(&mut self) {
        let Graph { nodes, wires, wakes, under_way, .. } = self;
        let node_at = |from: usize, out: Port| match wires[from].get(usize::from(out.0)) {
            Some(&Wire::To(to, into)) => Some((to, into)),
            _ => None,
        };
        let end_of = |link: usize| node_at(link, Port(1)).expect("an express link leads to a node");
        let routes_of = |node: u32| {
            let routes = nodes[node as usize].routes()?;
            Some(routes.iter().map(|&out| node_at(node as usize, out?).map(|(next, _)| next)).collect())
        };
        under_way.connect(wakes.index_bits(), end_of, routes_of);
        self.is_connected = true;
    }

    /// Hands a packet over; true if its receiver is to be polled at once.
    #[inline]
    fn deliver(&mut self, now: Time, to: u32, into: Port, packet: &Packet) -> bool {
        let answers = match self.under_way.number(to) {
            Some(link) => self.under_way.enter(now, link, packet),
            None => {
                self.nodes[to as usize].receive(now, into, packet);
                !self.is_quiet(now, to)
            }
        };
        if answers {
            self.touch(to);
        }
        answers
    }

    /// True if a node that has received something need not be polled before the time at which it wants to be.
    #[inline]
    fn is_quiet(&mut self, now: Time, node: u32) -> bool {
        let wake = self.nodes[node as usize].quiet_until(now);
        if wake.is_some() {
            // If it is to be polled all the same, that will set it again.
            self.wakes.set(node as usize, wake);
        }
        wake.is_some()
    }

    /// Does what follows when a packet has come off an express link; returns the node to be polled next because of it, or the port
    /// at which the packet leaves the graph.
    #[inline]
    fn settle_arrival(&mut self, now: Time, arrived: Arrived) -> Result<Option<u32>, (Port, Packet)> {
        match arrived {
            Arrived::GoesOn => Ok(None),
            Arrived::Touches(link) => {
                self.touch(link);
                Ok(None)
            }
            Arrived::Lands(landing) => self.land(now, landing),
        }
    }

    /// Hands over a packet that comes off an express link; returns its receiver if that is to be polled at once, or the port at
    /// which it leaves the graph.
    #[inline]
    fn land(&mut self, now: Time, landing: Landing) -> Result<Option<u32>, (Port, Packet)> {
        let Landing { node, into, packet: place } = landing;
        let packet = self.under_way.packet(place);
        if self.nodes[node as usize].through(into, packet).is_some() {
            return self.land_beyond(now, landing);
        }
        self.nodes[node as usize].receive(now, into, packet);
        self.under_way.leave(place);
        Ok((!self.is_quiet(now, node)).then_some(node))
    }

    /// As [`land`](Graph::land), where nodes that only redirect follow.
    #[cold]
    fn land_beyond(
        &mut self,
        now: Time,
        Landing { node, into, packet: place }: Landing,
    ) -> Result<Option<u32>, (Port, Packet)> {
        let packet = *self.under_way.packet(place);
        self.under_way.leave(place);
        let out = self.nodes[node as usize].through(into, &packet).expect("the node redirects");
        let (to, into) = self.destination(node as usize, out, &packet).map_err(|outer| (outer, packet))?;
        // It is touched already.
        self.deliver(now, to, into, &packet);
        Ok(None)
    }

    /// Runs on from `now`, from event to event, until a packet leaves the graph, or the next event is later than `until`,
    /// or all that happens at one time has happened and `goes_on` says no to going on. Returns the time reached and
    /// what a poll then returns.
    #[inline]
    pub fn run(&mut self, mut now: Time, until: Time, mut goes_on: impl FnMut(Time) -> bool) -> (Time, Step) {
        if let Some((outer, packet)) = self.leaving.pop_front() {
            return (now, Step::Send(outer, packet));
        }
        if !self.is_connected {
            self.connect();
        }
        // The node that is not done yet.
        const NONE: usize = usize::MAX;
        let mut again = NONE;
        loop {
            let index = if again != NONE {
                std::mem::replace(&mut again, NONE)
            } else if let Some(&index) = self.touched.get(self.polled) {
                self.polled += 1;
                self.is_touched[index as usize] = false;
                index as usize
            } else {
                if self.polled > 0 {
                    self.touched.clear();
                    self.polled = 0;
                }
                let arrival = self.under_way.first();
                if arrival < self.wakes.first_key() {
                    let time = self.wakes.time_of(arrival);
                    if time > now {
                        if time > until || !goes_on(now) {
                            return (now, Step::Wait(Some(time)));
                        }
                        now = time;
                    }
                    let arrived = self.under_way.arrive(now);
                    match self.settle_arrival(now, arrived) {
                        Ok(None) => {}
                        Ok(Some(node)) => again = node as usize,
                        Err((outer, packet)) => return (now, Step::Send(outer, packet)),
                    }
                    continue;
                }
                let first = self.wakes.first();
                match first {
                    Some((wake, index)) if wake <= now => index,
                    Some((wake, index)) if wake <= until && goes_on(now) => {
                        now = wake;
                        index
                    }
                    _ => return (now, Step::Wait(first.map(|(wake, _)| wake))),
                }
            };
            if let Some(link) = self.under_way.number(index as u32) {
                // Somebody has touched it.
                if let Some(arrived) = self.under_way.arrive_early(now, link) {
                    match self.settle_arrival(now, arrived) {
                        Ok(None) => {}
                        Ok(Some(node)) => self.touch(node),
                        Err((outer, packet)) => return (now, Step::Send(outer, packet)),
                    }
                }
                continue;
            }
            let node = &mut self.nodes[index];
            let wake = match &node.poll(now) {
                Step::Wait(wake) => *wake,
                Step::Send(port, packet) => {
                    let quiet = node.quiet_until(now);
                    let (to, into) = match self.destination(index, *port, packet) {
                        Ok(inside) => inside,
                        Err(outer) => {
                            // This node goes on next time, before those that it has touched.
                            self.touched.insert(self.polled, index as u32);
                            return (now, Step::Send(outer, *packet));
                        }
                    };
                    let answers = self.deliver(now, to, into, packet);
                    if quiet.is_none() {
                        if answers {
                            // What the packet sets off comes before what else this node sends now: a host answers each
                            // of two packets, and not both with one acknowledgement.
                            self.touch(index as u32);
                        } else {
                            again = index;
                        }
                        continue;
                    }
                    quiet
                }
            };
            self.wakes.set(index, wake);
        }
    }

    fn touch(&mut self, index: u32) {
        if !self.is_touched[index as usize] {
            self.is_touched[index as usize] = true;
            self.touched.push(index);
        }
    }
}

impl<N: Node> Node for Graph<N> {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        let (node, inner) = self.inward[usize::from(port.0)];
        let arrives = match self.nodes[node as usize].through(inner, packet) {
            Some(out) => self.destination(node as usize, out, packet),
            None => Ok((node, inner)),
        };
        match arrives {
            Ok((to, into)) => {
                if let Some(link) = self.under_way.number(to) {
                    if !self.is_connected {
                        self.connect();
                    }
                    if self.under_way.enter(now, link, packet) {
                        self.touch(to);
                    }
                    return;
                }
                self.nodes[to as usize].receive(now, into, packet);
                self.touch(to);
            }
            Err(outer) => self.leaving.push_back((outer, *packet)),
        }
    }

    fn poll(&mut self, now: Time) -> Step {
        self.run(now, now, |_| true).1
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        // No node does anything else for it, so none need be polled again.
        self.nodes.iter_mut().for_each(|node| node.take_discards(into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, Class, Ecn, Endpoint};

    /// Sends a burst at time zero; or answers what has come since it was last polled, all at once.
    #[derive(Debug)]
    enum Talker {
        Burst { left: u64 },
        Answers { heard: u64, heard_at_once: Vec<u64> },
    }

    const PACKET: Packet = Packet {
        id: 0,
        src: Endpoint { node: 0, port: 0 },
        dst: Endpoint { node: 1, port: 0 },
        len: 40,
        class: Class::Unmarked,
        ecn: Ecn::NotEct,
        body: Body::Opaque,
    };

    impl Node for Talker {
        fn receive(&mut self, _now: Time, _port: Port, _packet: &Packet) {
            if let Talker::Answers { heard, .. } = self {
                *heard += 1;
            }
        }

        fn poll(&mut self, _now: Time) -> Step {
            match self {
                Talker::Burst { left: 0 } | Talker::Answers { heard: 0, .. } => Step::Wait(None),
                Talker::Burst { left } => {
                    *left -= 1;
                    Step::Send(Port(0), PACKET)
                }
                Talker::Answers { heard, heard_at_once } => {
                    heard_at_once.push(std::mem::take(heard));
                    Step::Send(Port(0), PACKET)
                }
            }
        }
    }

    #[test]
    fn each_packet_of_a_burst_is_answered_before_the_next_is_handed_over() {
        let mut graph = Graph::new();
        graph.add(Talker::Burst { left: 3 });
        graph.add(Talker::Answers { heard: 0, heard_at_once: Vec::new() });
        graph.wire(0, Port(0), 1, Port(0));
        graph.wire(1, Port(0), 0, Port(0));
        assert_eq!(graph.poll(Time::ZERO), Step::Wait(None));
        let Talker::Answers { heard_at_once, .. } = &graph.nodes()[1] else { panic!("the second node answers") };
        assert_eq!(*heard_at_once, [1, 1, 1]);
    }
}
