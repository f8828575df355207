//! Wired nodes. Ports that are not wired to another node face outside, so a graph is a node.

use std::collections::VecDeque;

use crate::link::Discard;
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
    /// Nodes to be polled before time goes on, in the order in which they were touched; `polled` of them have been.
    touched: Vec<u32>,
    polled: usize,
    is_touched: Vec<bool>,
    outside: u16,
    /// Where each outside port leads in.
    inward: Vec<(u32, Port)>,
    /// Packets that came in from outside to a node that only redirects, and leave again at once.
    leaving: VecDeque<(Port, Packet)>,
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
            // Exactly: most of a large network's nodes are links, with two ports.
            ports.reserve_exact(port + 1 - ports.len());
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

    /// Where a packet arrives that leaves `node` at `port`, the nodes that only redirect it passed; or the port at which
    /// it leaves the graph.
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

    #[inline]
    fn deliver(&mut self, now: Time, to: u32, into: Port, packet: &Packet) {
        let node = &mut self.nodes[to as usize];
        node.receive(now, into, packet);
        match node.quiet_until(now) {
            Some(wake) if !self.is_touched[to as usize] => self.wakes.set(to as usize, Some(wake)),
            _ => self.touch(to),
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
        if let Some((outer, packet)) = self.leaving.pop_front() {
            return Step::Send(outer, packet);
        }
        loop {
            let index = match self.touched.get(self.polled) {
                Some(&index) => {
                    self.polled += 1;
                    index as usize
                }
                None => {
                    if self.polled > 0 {
                        self.touched.clear();
                        self.polled = 0;
                    }
                    match self.wakes.first() {
                        Some((wake, index)) if wake <= now => {
                            self.is_touched[index] = true;
                            index
                        }
                        first => return Step::Wait(first.map(|(wake, _)| wake)),
                    }
                }
            };
            loop {
                let wake = match &self.nodes[index].poll(now) {
                    Step::Wait(wake) => *wake,
                    Step::Send(port, packet) => {
                        match self.destination(index, *port, packet) {
                            Ok((to, into)) => self.deliver(now, to, into, packet),
                            Err(outer) => {
                                // This node goes on next time, before those that it has touched.
                                self.touched.insert(self.polled, index as u32);
                                return Step::Send(outer, *packet);
                            }
                        }
                        match self.nodes[index].quiet_until(now) {
                            None => continue,
                            wake => wake,
                        }
                    }
                };
                self.wakes.set(index, wake);
                self.is_touched[index] = false;
                break;
            }
        }
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        // No node does anything else for it, so none need be polled again.
        self.nodes.iter_mut().for_each(|node| node.take_discards(into));
    }
}

/// When each of a fixed set of members wants to be polled: a tournament tree over their times, lowest index first
/// among equals. `first` costs nothing, `set` the logarithm, to base four, of the number of members.
#[derive(Clone, Debug)]
pub struct Wakes {
    /// Matches of four, the final first, then the four before it, and so on: the players of match m that are not
    /// members are the winners of matches 4 m + 1 to 4 m + 4.
    matches: Vec<Match>,
    /// The first match between members: members 4 k to 4 k + 3 meet in match `lowest + k`.
    lowest: usize,
    winner: Player,
}

/// A member and its time; `NEVER` if it waits for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Player {
    time: u64,
    member: u32,
}

#[derive(Clone, Copy, Debug)]
struct Match {
    times: [u64; 4],
    members: [u32; 4],
}

const NEVER: u64 = u64::MAX;

impl Match {
    const EMPTY: Match = Match { times: [NEVER; 4], members: [0; 4] };

    /// The earliest, of equals the first. Written so that it compiles to selections: which is earliest is as good as
    /// random, and a mispredicted branch costs more than the whole match.
    #[inline]
    fn winner(&self) -> Player {
        let player = |seat: usize| Player { time: self.times[seat], member: self.members[seat] };
        let earlier = |a: Player, b: Player| {
            let second = b.time < a.time;
            Player { time: if second { b.time } else { a.time }, member: if second { b.member } else { a.member } }
        };
        earlier(earlier(player(0), player(1)), earlier(player(2), player(3)))
    }
}

impl Default for Wakes {
    fn default() -> Self {
        Wakes { matches: vec![Match::EMPTY], lowest: 0, winner: Player { time: NEVER, member: 0 } }
    }
}

impl Wakes {
    /// Makes room for `members` in all, keeping the times of those there are.
    pub fn grow(&mut self, members: usize) {
        let room = |wakes: &Wakes| 4 * (wakes.matches.len() - wakes.lowest);
        while room(self) < members {
            let grown = room(self);
            let old = std::mem::take(self);
            self.lowest = 4 * old.lowest + 1;
            self.matches = vec![Match::EMPTY; self.lowest + grown];
            let times = old.matches[old.lowest..].iter().flat_map(|players| players.times);
            for (member, time) in (0..).zip(times) {
                self.enter(Player { time, member });
            }
        }
    }

    /// The earliest time and whose it is; `None` if nobody waits for a time.
    #[inline]
    pub fn first(&self) -> Option<(Time, usize)> {
        let Player { time, member } = self.winner;
        (time != NEVER).then_some((Time::from_nanos(time), member as usize))
    }

    /// Sets when `member` wants to be polled.
    #[inline]
    pub fn set(&mut self, member: usize, wake: Option<Time>) {
        self.enter(Player { time: wake.map_or(NEVER, Time::as_nanos), member: member as u32 });
    }

    /// Enters a member's time and plays its matches again, up to the first that ends as it did before.
    #[inline]
    fn enter(&mut self, mut player: Player) {
        let member = player.member as usize;
        let (mut at, mut seat) = (self.lowest + member / 4, member % 4);
        loop {
            let players = &mut self.matches[at];
            if players.times[seat] == player.time && players.members[seat] == player.member {
                return;
            }
            players.times[seat] = player.time;
            players.members[seat] = player.member;
            player = players.winner();
            if at == 0 {
                self.winner = player;
                return;
            }
            (at, seat) = ((at - 1) / 4, (at - 1) % 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn the_tournament_agrees_with_looking_at_everybody(
            members in 1..70_usize,
            changes in vec((0..70_usize, option::of(0..20_u64)), 0..200),
        ) {
            let mut wakes = Wakes::default();
            let mut times = vec![None; members];
            wakes.grow(members);
            for (member, time) in changes {
                let (member, wake) = (member % members, time.map(Time::from_nanos));
                wakes.set(member, wake);
                times[member] = wake;
                let waiting = times.iter().enumerate().filter_map(|(member, wake)| wake.map(|wake| (wake, member)));
                prop_assert_eq!(wakes.first(), waiting.min());
            }
        }
    }
}
