//! A router at which circuits begin and end.

mod datagrams;
pub(crate) mod journeys;
mod pieces;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use headend_engine::circuit::carried::{self, Manifest};
use headend_engine::circuit::{self, Output, Receiver, Sender, in_band};
use headend_engine::node::{Node, Port, Step};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::Segment;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use crate::host::PORTS;
use crate::router::REACHABLE;
use datagrams::Datagrams;
use headend_scenario::topology::{FIRST_PORT, Routes};
use journeys::Journeys;
use pieces::Pieces;

/// Passes packets on as a router, and puts into circuits what belongs there.
#[derive(Debug)]
pub(crate) struct Edge {
    node: u16,
    routes: Routes,
    mouths: Vec<Mouth>,
    /// A mouth, and one of its control TCPs, for each port from `FIRST_PORT`.
    ports: Vec<(usize, usize)>,
    /// Packets that leave before anything else: fragments, and users' packets that a circuit has brought here.
    ready: VecDeque<(Port, Packet)>,
    next_id: u64,
}

/// The packets that a circuit carries.
#[derive(Debug)]
pub(crate) enum Carries {
    /// Packets for any of these nodes: true at a node's number if it is one of them.
    For(Vec<bool>),
    /// Packets from the first to the second of any of these pairs.
    Flows(BTreeSet<(Endpoint, Endpoint)>),
}

/// The class of the tunnel queue in which each packet waits.
#[derive(Debug)]
pub(crate) struct Classes {
    /// The class for packets from the first of these to the second.
    pub(crate) listed: BTreeMap<(Endpoint, Endpoint), usize>,
    /// The class for all others.
    pub(crate) last: usize,
}

impl Classes {
    fn of(&self, packet: &Packet) -> usize {
        // Most circuits have one class, and every packet asks.
        if self.last == 0 { 0 } else { *self.listed.get(&(packet.src, packet.dst)).unwrap_or(&self.last) }
    }
}

/// The packets that enter a circuit, and the classes in which they wait.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) carries: Carries,
    pub(crate) classes: Classes,
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
    /// The time to look again; `None` for no time.
    wake: Option<Time>,
    joint: Joint,
    /// Bytes that left here, control packets included.
    sent: Bytes,
    /// The end that was charged last for an acknowledgement of this one.
    charged: usize,
}

/// Knowledge that both ends of a circuit share, which on a wire is in the packets.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// The times that packets take.
    pub(crate) journeys: Journeys,
    /// The contents of a trunk's segments, if it carries users' packets inside them.
    pub(crate) manifest: Manifest,
    /// Its packets that are fragments.
    pub(crate) pieces: Pieces,
    /// The contents of datagrams, if the circuit has in-band control.
    pub(crate) datagrams: Datagrams,
}

/// The joint of a circuit's two ends, of which each holds a copy.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    /// True if the times that packets take are noted.
    pub(crate) delays: bool,
    /// The longest packet that the links between the two carry.
    pub(crate) mtu: u32,
    common: Arc<Mutex<Common>>,
}

impl Joint {
    pub(crate) fn new(delays: bool, mtu: u32) -> Joint {
        Joint { delays, mtu, common: Arc::default() }
    }

    /// Locks what both ends know. Only one of them is at work at a time; a lock, because emulated networks run in
    /// threads.
    pub(crate) fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock().expect("an end that fails ends the run")
    }
}

/// One end of a circuit, by what it does.
#[derive(Debug)]
pub(crate) enum End {
    /// Sends users' packets as they are, and headers behind them: a decoupled circuit.
    Sends(Box<Sender>, Entry),
    Receives(Receiver),
    /// Sends users' packets in numbered datagrams.
    Numbers(Box<in_band::Circuit>, Entry),
    Acknowledges(in_band::Receiver),
    /// Sends users' packets in segments of a connection.
    Packs(Box<carried::Sender>, Entry),
    Unpacks(Box<carried::Receiver>),
}

impl End {
    /// The packets that enter here, if it is a sending end.
    fn entry(&self) -> Option<&Entry> {
        match self {
            End::Sends(_, entry) | End::Numbers(_, entry) | End::Packs(_, entry) => Some(entry),
            End::Receives(_) | End::Acknowledges(_) | End::Unpacks(_) => None,
        }
    }
}

impl Mouth {
    /// True if users' packets that come through its circuit are noted here as they pass.
    fn notes_arrivals(&self) -> bool {
        self.joint.delays && matches!(self.end, End::Receives(_))
    }
}

impl Edge {
    /// A router with these routes at which no circuit begins or ends yet: number `node` of its network.
    pub(crate) fn new(node: u16, routes: Routes) -> Edge {
        Edge { node, routes, mouths: Vec::new(), ports: Vec::new(), ready: VecDeque::new(), next_id: 0 }
    }

    /// The address that the next control TCP will have.
    pub(crate) fn next_endpoint(&self) -> Endpoint {
        let port = usize::from(FIRST_PORT) + self.ports.len();
        Endpoint { node: self.node, port: u16::try_from(port).expect(PORTS) }
    }

    /// Adds an end of a circuit: the other is at `peer`, the first TCP there.
    pub(crate) fn add(&mut self, end: End, peer: Endpoint, personality: Personality, joint: Joint) {
        let controls = match &end {
            End::Sends(sender, _) => sender.connections().count(),
            End::Receives(receiver) => receiver.connections().len(),
            End::Numbers(..) | End::Acknowledges(_) | End::Packs(..) | End::Unpacks(_) => 1,
        };
        let first_port = self.next_endpoint().port;
        self.ports.extend((0..controls).map(|control| (self.mouths.len(), control)));
        let out = self.routes[usize::from(peer.node)].expect("the world joins only routers that reach each other");
        let (wake, sent) = (Some(Time::ZERO), Bytes::ZERO);
        let charged = self.mouths.len();
        self.mouths.push(Mouth { end, peer, first_port, out, personality, wake, joint, sent, charged });
    }

    /// The end of the circuit whose first TCP is at this address, the bytes that left there, and what both ends know.
    pub(crate) fn end(&self, at: Endpoint) -> Option<(&End, Bytes, &Joint)> {
        let mouth = self.mouths.iter().find(|mouth| mouth.first_port == at.port)?;
        Some((&mouth.end, mouth.sent, &mouth.joint))
    }

    /// The circuit that carries a packet on from here.
    fn carrier(&self, packet: &Packet) -> Option<usize> {
        // Not a header: control packets are no user's. Their acknowledgements go to edges, which nobody's flows do.
        let carries = |mouth: &Mouth| match mouth.end.entry().map(|entry| &entry.carries) {
            Some(Carries::For(nodes)) => nodes[usize::from(packet.dst.node)],
            Some(Carries::Flows(flows)) => flows.contains(&(packet.src, packet.dst)),
            None => false,
        };
        self.mouths.iter().position(carries).filter(|_| packet.class != Class::Header)
    }

    /// Passes on a user's packet that came here, also by a circuit: into the next circuit, or by its route.
    fn forward(&mut self, now: Time, packet: Packet) {
        let Some(which) = self.carrier(&packet) else {
            let port = self.routes[usize::from(packet.dst.node)];
            let port = port.expect(REACHABLE);
            self.ready.push_back((port, packet));
            return;
        };
        let mouth = &mut self.mouths[which];
        let taken = match &mut mouth.end {
            End::Sends(sender, entry) => sender.push(now, entry.classes.of(&packet), packet),
            End::Numbers(circuit, entry) => circuit.push(now, entry.classes.of(&packet), packet),
            End::Packs(sender, entry) => sender.push(now, entry.classes.of(&packet), packet),
            End::Receives(_) | End::Acknowledges(_) | End::Unpacks(_) => unreachable!("who carries is a sending end"),
        };
        if taken.is_some() && mouth.joint.delays {
            mouth.joint.common().journeys.enter(now, &packet);
        }
        mouth.wake = Some(Time::ZERO);
    }

    /// Sends a segment of an end, in a packet or in fragments of one.
    fn wrap(&mut self, which: usize, control: usize, segment: Segment) {
        let mouth = &mut self.mouths[which];
        let src = Endpoint { node: self.node, port: mouth.first_port + control as u16 };
        let dst = Endpoint { port: mouth.peer.port + control as u16, ..mouth.peer };
        let len = match &mouth.end {
            End::Packs(sender, _) => sender.wire_len(&segment),
            _ => circuit::wire_len(&mouth.personality, &segment),
        };
        let class = match mouth.end {
            End::Sends(..) => Class::Header,
            // What the receiving end sends is data to the routers: it is not sent less for being dropped.
            End::Receives(_) => Class::User,
            // A connection like any other.
            End::Packs(..) | End::Unpacks(_) => Class::Unmarked,
            End::Numbers(..) | End::Acknowledges(_) => unreachable!("its datagrams are no segments"),
        };
        let packet = Packet { id: self.next_id, src, dst, len, class, ecn: Ecn::NotEct, body: Body::Tcp(segment) };
        if !matches!(mouth.end, End::Packs(..)) {
            self.next_id += 1;
            mouth.sent += packet.len();
            self.ready.push_back((mouth.out, packet));
            return;
        }
        for packet in mouth.joint.common().pieces.divide(packet, mouth.joint.mtu) {
            self.next_id = packet.id + 1;
            mouth.sent += packet.len();
            self.ready.push_back((mouth.out, packet));
        }
    }

    /// Charges a packet that the receiving end `which` sent to the circuits back, to each in turn, if there are any
    /// (s2.3.2 of the thesis).
    fn charge(&mut self, which: usize, len: Bytes) {
        let (peer, last) = (self.mouths[which].peer.node, self.mouths[which].charged);
        for next in (last + 1..self.mouths.len()).chain(0..=last) {
            let mouth = &mut self.mouths[next];
            if mouth.peer.node != peer {
                continue;
            }
            match &mut mouth.end {
                End::Sends(sender, _) => sender.charge(len),
                End::Numbers(circuit, _) => circuit.charge(len),
                End::Receives(_) | End::Acknowledges(_) | End::Packs(..) | End::Unpacks(_) => continue,
            }
            mouth.wake = Some(Time::ZERO);
            self.mouths[which].charged = next;
            return;
        }
    }

    /// Makes ready what an end has to send now, one packet, or notes when to look again.
    fn settle(&mut self, now: Time, which: usize) {
        let mouth = &mut self.mouths[which];
        let output = match &mut mouth.end {
            End::Sends(sender, _) => sender.poll(now),
            End::Receives(receiver) => receiver.poll(now),
            End::Numbers(..) | End::Acknowledges(_) => {
                self.settle_in_band(now, which);
                return;
            }
            End::Packs(sender, _) => match sender.poll(now, &mut mouth.joint.common().manifest) {
                carried::Output::Segment(segment) => Output::Control(0, segment),
                carried::Output::Wait(wake) => Output::Wait(wake),
                carried::Output::User(..) => unreachable!("users' packets leave inside segments"),
            },
            End::Unpacks(receiver) => match receiver.poll(now) {
                carried::Output::Segment(segment) => Output::Control(0, segment),
                carried::Output::Wait(wake) => Output::Wait(wake),
                carried::Output::User(packet, left) => {
                    if mouth.joint.delays {
                        mouth.joint.common().journeys.arrive(now, &packet, Some(left));
                    }
                    self.forward(now, packet);
                    return;
                }
            },
        };
        match output {
            Output::User(packet) => {
                if mouth.joint.delays {
                    mouth.joint.common().journeys.leave_queue(now, &packet);
                }
                mouth.sent += packet.len();
                self.ready.push_back((mouth.out, packet));
            }
            Output::Control(control, segment) => {
                let charged = matches!(mouth.end, End::Receives(_));
                self.wrap(which, control, segment);
                if let (true, Some((_, packet))) = (charged, self.ready.back()) {
                    self.charge(which, packet.len());
                }
            }
            Output::Wait(at) => mouth.wake = at,
        }
    }
}

impl Node for Edge {
    fn receive(&mut self, now: Time, _port: Port, packet: &Packet) {
        if packet.dst.node == self.node {
            let (which, control) = self.ports[usize::from(packet.dst.port - FIRST_PORT)];
            let Body::Tcp(segment) = &packet.body else {
                self.receive_in_band(now, which, packet.id);
                return;
            };
            let mouth = &mut self.mouths[which];
            match &mut mouth.end {
                End::Sends(sender, _) => sender.receive(now, control, segment),
                End::Receives(receiver) => receiver.receive(now, control, segment),
                End::Packs(sender, _) => sender.receive(now, segment),
                End::Numbers(..) | End::Acknowledges(_) => unreachable!("its datagrams are no segments"),
                End::Unpacks(receiver) => {
                    let mut common = mouth.joint.common();
                    if !common.pieces.completes(packet.id) {
                        return;
                    }
                    receiver.receive(now, segment, &mut common.manifest);
                }
            }
            mouth.wake = Some(Time::ZERO);
            return;
        }
        for mouth in self.mouths.iter().filter(|mouth| mouth.notes_arrivals()) {
            mouth.joint.common().journeys.arrive(now, packet, None);
        }
        self.forward(now, *packet);
    }

    fn poll(&mut self, now: Time) -> Step {
        loop {
            if let Some((port, packet)) = self.ready.pop_front() {
                return Step::Send(port, packet);
            }
            let is_due = |mouth: &Mouth| mouth.wake.is_some_and(|at| at <= now);
            let Some(which) = self.mouths.iter().position(is_due) else {
                let wakes = self.mouths.iter().map(|mouth| mouth.wake);
                return Step::Wait(wakes.fold(None, headend_engine::time::earlier));
            };
            self.settle(now, which);
        }
    }

    fn through(&self, _port: Port, packet: &Packet) -> Option<Port> {
        // Somebody else's packet does not stop to be noted, but this is known only of what no circuit marks.
        let noted = || packet.class == Class::User && self.mouths.iter().any(Mouth::notes_arrivals);
        if packet.dst.node == self.node || self.carrier(packet).is_some() || noted() {
            return None;
        }
        let port = self.routes[usize::from(packet.dst.node)];
        Some(port.expect(REACHABLE))
    }
}
