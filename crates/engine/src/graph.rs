//! Wired nodes. Ports that are not wired to another node face outside, so a graph is a node.

use std::collections::VecDeque;

use crate::node::{Node, Port, Step};
use crate::packet::Packet;
use crate::time::Time;

/// Nodes and the wires between their ports; a [`Node`] itself.
///
/// Events at the same time happen in the order in which the nodes were added, so a run is one sequence and no other.
#[derive(Debug)]
pub struct Graph<N> {
    nodes: Vec<N>,
    /// `wires[node][port]`.
    wires: Vec<Vec<Wire>>,
    wakes: Wakes,
    /// Nodes that received a packet and have not been polled since.
    touched: VecDeque<u32>,
    is_touched: Vec<bool>,
    outside: u16,
    /// Where each outside port leads in.
    inward: Vec<(u32, Port)>,
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
            touched: VecDeque::new(),
            is_touched: Vec::new(),
            outside: 0,
            inward: Vec::new(),
        }
    }

    /// Adds a node and returns its index. It is polled for the first time when the graph is.
    pub fn add(&mut self, node: N) -> usize {
        let index = self.nodes.len();
        self.nodes.push(node);
        self.wires.push(Vec::new());
        self.is_touched.push(false);
        self.wakes.grow(self.nodes.len());
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
            ports.resize(port + 1, Wire::Loose);
        }
        assert!(matches!(ports[port], Wire::Loose), "port {port} of node {node} is wired twice");
        &mut ports[port]
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

    fn touch(&mut self, index: u32) {
        if !self.is_touched[index as usize] {
            self.is_touched[index as usize] = true;
            self.touched.push_back(index);
        }
    }
}

impl<N: Node> Node for Graph<N> {
    fn receive(&mut self, now: Time, port: Port, packet: Packet) {
        let (node, inner) = self.inward[usize::from(port.0)];
        self.nodes[node as usize].receive(now, inner, packet);
        self.touch(node);
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            let index = match self.touched.front() {
                Some(&index) => index as usize,
                None => match self.wakes.first() {
                    Some((wake, index)) if wake <= now => {
                        self.touch(index as u32);
                        index
                    }
                    first => return Step::Wait(first.map(|(wake, _)| wake)),
                },
            };
            loop {
                match self.nodes[index].poll(now) {
                    Step::Wait(wake) => {
                        self.wakes.set(index, wake);
                        self.is_touched[index] = false;
                        self.touched.pop_front();
                        break;
                    }
                    Step::Send(port, packet) => match self.wires[index].get(usize::from(port.0)) {
                        Some(&Wire::To(to, into)) => {
                            self.nodes[to as usize].receive(now, into, packet);
                            self.touch(to);
                        }
                        Some(&Wire::Outside(outer)) => return Step::Send(outer, packet),
                        _ => panic!("node {index} sent through port {}, which is not wired", port.0),
                    },
                }
            }
        }
    }
}

/// When each of a fixed set of members wants to be polled: a tournament tree over their times, lowest index first
/// among equals. `first` and `set` cost the logarithm of the number of members.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    /// `tree[1]` is the root, `tree[leaves + i]` member i; `u64::MAX` means never.
    tree: Vec<u64>,
    leaves: usize,
}

impl Wakes {
    /// Makes room for `members` in all, keeping the times of those there are.
    pub fn grow(&mut self, members: usize) {
        if members <= self.leaves {
            return;
        }
        let leaves = members.next_power_of_two();
        let mut tree = vec![u64::MAX; 2 * leaves];
        tree[leaves..leaves + self.leaves].copy_from_slice(&self.tree[self.leaves..]);
        for i in (1..leaves).rev() {
            tree[i] = tree[2 * i].min(tree[2 * i + 1]);
        }
        *self = Wakes { tree, leaves };
    }

    /// The earliest time and whose it is; `None` if nobody waits for a time.
    pub fn first(&self) -> Option<(Time, usize)> {
        let earliest = *self.tree.get(1)?;
        if earliest == u64::MAX {
            return None;
        }
        let mut i = 1;
        while i < self.leaves {
            i *= 2;
            i += usize::from(self.tree[i] != earliest);
        }
        Some((Time::from_nanos(earliest), i - self.leaves))
    }

    /// Sets when `member` wants to be polled.
    pub fn set(&mut self, member: usize, wake: Option<Time>) {
        let mut i = self.leaves + member;
        self.tree[i] = wake.map_or(u64::MAX, Time::as_nanos);
        while i > 1 {
            i /= 2;
            let earliest = self.tree[2 * i].min(self.tree[2 * i + 1]);
            if self.tree[i] == earliest {
                break;
            }
            self.tree[i] = earliest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_member_comes_first_and_ties_go_to_the_lowest_index() {
        let mut wakes = Wakes::default();
        wakes.grow(5);
        assert_eq!(wakes.first(), None);
        wakes.set(3, Some(Time::from_nanos(7)));
        wakes.set(4, Some(Time::from_nanos(7)));
        wakes.set(1, Some(Time::from_nanos(9)));
        assert_eq!(wakes.first(), Some((Time::from_nanos(7), 3)));
        wakes.grow(9);
        wakes.set(3, None);
        assert_eq!(wakes.first(), Some((Time::from_nanos(7), 4)));
        wakes.set(4, Some(Time::from_nanos(10)));
        assert_eq!(wakes.first(), Some((Time::from_nanos(9), 1)));
    }
}
