//! A router at which circuits begin and end.

use std::collections::{BTreeMap, BTreeSet};

use headend_engine::circuit::{self, Output, Receiver, Sender};
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Endpoint, Packet};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use crate::router::Routes;

/// The first port number of an edge's control TCPs.
const FIRST_PORT: u16 = 1024;

/// Passes packets on as a router, and puts into circuits what belongs there.
#[derive(Debug)]
pub struct Edge {
    node: u16,
    routes: Routes,
    mouths: Vec<Mouth>,
    /// By port number, from `FIRST_PORT`: which mouth, and which of its control TCPs.
    ports: Vec<(usize, usize)>,
    next_id: u64,
}

/// Whose packets a circuit carries.
#[derive(Debug)]
pub(crate) enum Carries {
    /// Those for these nodes, by number.
    For(Vec<bool>),
    /// Those from one of these to the other.
    Flows(BTreeSet<(Endpoint, Endpoint)>),
}

/// Which class of the tunnel queue a packet waits in.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Those from one of these to the other wait in this class,
    pub listed: BTreeMap<(Endpoint, Endpoint), usize>,
    /// and all others in this one.
    pub last: usize,
}

impl Classes {
    fn of(&self, packet: &Packet) -> usize {
        // Most circuits have one class, and every packet asks.
        if self.last == 0 { 0 } else { *self.listed.get(&(packet.src, packet.dst)).unwrap_or(&self.last) }
    }
}

/// One end of a circuit.
#[derive(Debug)]
struct Mouth {
    end: End,
    /// The node at the other end, and the port of its first control TCP.
    peer: Endpoint,
    first_port: u16,
    out: Port,
    personality: Personality,
    /// When to look again; `None` for no time.
    wake: Option<Time>,
}

#[derive(Debug)]
enum End {
    Sends(Box<Sender>, Carries, Classes),
    Receives(Receiver),
}

impl Edge {
    /// A router with these routes at which no circuit begins or ends yet: number `node` of its network.
    pub(crate) fn new(node: u16, routes: Routes) -> Edge {
        Edge { node, routes, mouths: Vec::new(), ports: Vec::new(), next_id: 0 }
    }

    /// Where the next control TCP will be.
    pub(crate) fn next_endpoint(&self) -> Endpoint {
        Endpoint { node: self.node, port: FIRST_PORT + self.ports.len() as u16 }
    }

    /// Adds the sending end of a circuit to `peer`, the first control TCP there.
    pub(crate) fn add_sender(
        &mut self,
        sender: Sender,
        carries: Carries,
        classes: Classes,
        peer: Endpoint,
        personality: Personality,
    ) {
        let controls = sender.connections().count();
        self.add(End::Sends(Box::new(sender), carries, classes), controls, peer, personality);
    }

    /// Adds the receiving end of a circuit from `peer`.
    pub(crate) fn add_receiver(&mut self, receiver: Receiver, peer: Endpoint, personality: Personality) {
        let controls = receiver.connections().len();
        self.add(End::Receives(receiver), controls, peer, personality);
    }

    fn add(&mut self, end: End, controls: usize, peer: Endpoint, personality: Personality) {
        let first_port = self.next_endpoint().port;
        self.ports.extend((0..controls).map(|control| (self.mouths.len(), control)));
        let out = self.routes[usize::from(peer.node)].expect("the world joins only routers that reach each other");
        self.mouths.push(Mouth { end, peer, first_port, out, personality, wake: Some(Time::ZERO) });
    }

    /// The sending end of the circuit whose first control TCP is at this address.
    pub(crate) fn sender(&self, at: Endpoint) -> Option<&Sender> {
        self.mouths.iter().find(|mouth| mouth.first_port == at.port).and_then(|mouth| match &mouth.end {
            End::Sends(sender, ..) => Some(&**sender),
            End::Receives(_) => None,
        })
    }

    /// The circuit that carries a packet on from here.
    fn carrier(&self, packet: &Packet) -> Option<usize> {
        // Not a header: control packets are no user's. Their acknowledgements go to edges, which nobody's flows do.
        let carries = |mouth: &Mouth| match &mouth.end {
            End::Sends(_, Carries::For(nodes), _) => nodes[usize::from(packet.dst.node)],
            End::Sends(_, Carries::Flows(flows), _) => flows.contains(&(packet.src, packet.dst)),
            End::Receives(_) => false,
        };
        self.mouths.iter().position(carries).filter(|_| packet.class != Class::Header)
    }

    fn wrap(&mut self, which: usize, control: usize, segment: Segment) -> Step {
        let mouth = &self.mouths[which];
        let src = Endpoint { node: self.node, port: mouth.first_port + control as u16 };
        let dst = Endpoint { port: mouth.peer.port + control as u16, ..mouth.peer };
        let len = circuit::wire_len(&mouth.personality, &segment);
        // What the receiving end sends is data to the routers: it is not sent less for being dropped.
        let class = if matches!(mouth.end, End::Sends(..)) { Class::Header } else { Class::User };
        let packet = Packet { id: self.next_id, src, dst, len, class, body: Body::Tcp(segment) };
        self.next_id += 1;
        Step::Send(mouth.out, packet)
    }

    /// A packet that the receiving end `which` sent is charged to the circuit back, if there is one.
    fn charge(&mut self, which: usize, len: Bytes) {
        let peer = self.mouths[which].peer.node;
        let back = self.mouths.iter_mut().filter(|mouth| mouth.peer.node == peer);
        for mouth in back {
            if let End::Sends(sender, ..) = &mut mouth.end {
                sender.charge(len);
                mouth.wake = Some(Time::ZERO);
                return;
            }
        }
    }
}

impl Node for Edge {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        if packet.dst.node == self.node {
            let Body::Tcp(segment) = &packet.body else { return };
            let (which, control) = self.ports[usize::from(packet.dst.port - FIRST_PORT)];
            let mouth = &mut self.mouths[which];
            match &mut mouth.end {
                End::Sends(sender, ..) => sender.receive(now, control, segment),
                End::Receives(receiver) => receiver.receive(now, control, segment),
            }
            mouth.wake = Some(Time::ZERO);
            return;
        }
        let which = self.carrier(packet).expect("a graph hands an edge only what it does not pass through");
        let mouth = &mut self.mouths[which];
        if let End::Sends(sender, _, classes) = &mut mouth.end {
            sender.push(now, classes.of(packet), *packet);
        }
        mouth.wake = Some(Time::ZERO);
    }

    fn poll(&mut self, now: Time) -> Step {
        let mut wake: Option<Time> = None;
        for which in 0..self.mouths.len() {
            let mouth = &mut self.mouths[which];
            if mouth.wake.is_some_and(|at| at <= now) {
                let output = match &mut mouth.end {
                    End::Sends(sender, ..) => sender.poll(now),
                    End::Receives(receiver) => receiver.poll(now),
                };
                match output {
                    Output::User(packet) => return Step::Send(mouth.out, packet),
                    Output::Control(control, segment) => {
                        let step = self.wrap(which, control, segment);
                        if let (Step::Send(_, packet), End::Receives(_)) = (&step, &self.mouths[which].end) {
                            self.charge(which, packet.len());
                        }
                        return step;
                    }
                    Output::Wait(at) => mouth.wake = at,
                }
            }
            wake = headend_engine::time::earlier(wake, self.mouths[which].wake);
        }
        // A circuit before the one that was charged last may have to be looked at again.
        if wake.is_some_and(|at| at <= now) { self.poll(now) } else { Step::Wait(wake) }
    }

    fn through(&self, _port: Port, packet: &Packet) -> Option<Port> {
        if packet.dst.node == self.node || self.carrier(packet).is_some() {
            return None;
        }
        let port = self.routes[usize::from(packet.dst.node)];
        Some(port.expect("the world gives packets only destinations that can be reached"))
    }
}
