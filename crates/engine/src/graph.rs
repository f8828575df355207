//! Wired nodes. Ports that are not wired to another node face outside, so a graph is a node.

use std::collections::VecDeque;

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
        let index = self.nodes.len();
        self.nodes.push(node);
        self.wires.push(Vec::new());
        self.is_touched.push(false);
        self.wakes.add();
        self.wakes.set(index, Some(Time::ZERO));
        index
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

    /// Hands a packet over; true if its receiver is to be polled at once.
    #[inline]
    fn deliver(&mut self, now: Time, to: u32, into: Port, packet: &Packet) -> bool {
        let node = &mut self.nodes[to as usize];
        node.receive(now, into, packet);
        match node.quiet_until(now) {
            // If it is to be polled all the same, that will set it again.
            wake @ Some(_) => {
                self.wakes.set(to as usize, wake);
                false
            }
            None => {
                self.touch(to);
                true
            }
        }
    }

    /// Runs on from `now`, from event to event, until a packet leaves the graph, or the next event is later than `until`,
    /// or all that happens at one time has happened and `goes_on` says no to going on. Returns the time reached and
    /// what a poll then returns.
    #[inline]
    pub fn run(&mut self, mut now: Time, until: Time, mut goes_on: impl FnMut(Time) -> bool) -> (Time, Step) {
        if let Some((outer, packet)) = self.leaving.pop_front() {
            return (now, Step::Send(outer, packet));
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
    use crate::packet::{Body, Class, Endpoint};

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
