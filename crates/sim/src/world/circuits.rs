//! A scenario's circuits: their ends at two edges, and the packets that they carry.

use std::sync::Arc;

use headend_engine::circuit::fair::Fair;
use headend_engine::circuit::tunnel::{Class, Drops, Schedule, Tunnel};
use headend_engine::circuit::{Receiver, Sender, carried, control_personality, in_band};
use headend_engine::link::queue::red::Thresholds;
use headend_engine::packet::Endpoint;
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::{Capacity, Chance};

use super::build::clock_phase;
use super::{Instance, World};
use crate::edge::journeys::Span;
use crate::edge::{self, Carries, Classes, Edge, Entry, Joint};
use crate::host::Host;
use crate::network::{Network, Piece};
use crate::proxy::Proxy;
use headend_scenario::results::CircuitRow;
use headend_scenario::topology::Topology;
use headend_scenario::{Circuit, Implementation, Scenario, TunnelDrops};

/// A circuit's two ends, each by the address of its first TCP.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) name: Arc<str>,
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
}

/// Adds both ends of every circuit to their edges.
pub(super) fn join(
    scenario: &Scenario,
    seed: u64,
    network: &mut Network<Host, Proxy>,
    flows: &[Instance],
) -> Vec<Joined> {
    let mut joined = Vec::new();
    for circuit in &scenario.circuits {
        let [from, to] = [circuit.from, circuit.to];
        let [at_sender, at_receiver] = [from, to].map(|node| edge_at(network, node).next_endpoint());
        let carries = carries(scenario, circuit, &network.topology, flows);
        let entry = Entry { carries, classes: classes(scenario, circuit, flows) };
        let mut rng = Rng::named(seed, &format!("circuits/{}", circuit.name));
        let phases = [from, to].map(|node| clock_phase(seed, &scenario.nodes[node].name));
        let mut pair = |personality: &Personality| {
            let mut end = |phase: Duration| PairedEnd { personality, isn: rng.bits() as u32, clock_phase: phase };
            Connection::pair(end(phases[0]), end(phases[1]))
        };
        let tunnel = tunnel(circuit, seed);
        let base = &circuit.tcp.personality;
        let (sends, receives, personality) = match circuit.implementation {
            Implementation::Decoupling { controls, vmss, copies, gmb } => {
                let personality = control_personality(base, vmss);
                let (sending, receiving) = (0..controls).map(|_| pair(&personality)).unzip();
                let sender =
                    Sender::new(tunnel, sending, vmss, gmb).with_copies(copies, &personality).with_whole_credit();
                let receiver = Receiver::new(receiving);
                let receiver = if copies > 0 { receiver.with_copies() } else { receiver };
                (edge::End::Sends(Box::new(sender), entry), edge::End::Receives(receiver), personality)
            }
            Implementation::InBand { flows, losses, gmb } => {
                let sender = in_band::Sender::new(base, flows, losses);
                let circuit = Box::new(in_band::Circuit::new(tunnel, sender, gmb));
                let sends = edge::End::Numbers(circuit, entry);
                let receives = edge::End::Acknowledges(in_band::Receiver::new(base.delayed_ack.segments.max(1)));
                (sends, receives, Personality::clone(base))
            }
            Implementation::Carried { method, .. } => {
                let personality = carried::personality(method, base);
                let (sending, receiving) = pair(&personality);
                let sender = Box::new(carried::Sender::new(method, tunnel, sending, personality.clone()));
                let receiver = Box::new(carried::Receiver::new(method, receiving));
                (edge::End::Packs(sender, entry), edge::End::Unpacks(receiver), personality)
            }
        };
        let joint = Joint::new(circuit.delays, circuit.implementation.mtu());
        edge_at(network, from).add(sends, at_receiver, personality.clone(), joint.clone());
        edge_at(network, to).add(receives, at_sender, personality, joint);
        joined.push(Joined { name: circuit.name.as_str().into(), from: at_sender, to: at_receiver });
    }
    joined
}

fn edge_at(network: &mut Network<Host, Proxy>, node: usize) -> &mut Edge {
    let Piece::Edge(edge) = network.graph.node_mut(node) else { unreachable!("a circuit begins and ends at an edge") };
    edge
}

fn tunnel(circuit: &Circuit, seed: u64) -> Tunnel {
    let room = circuit.queue;
    let packets = match room {
        Capacity::Packets(packets) => packets,
        Capacity::Bytes(_) | Capacity::Unlimited => u64::MAX,
    };
    let rng = |class: usize| match class {
        0 => Rng::named(seed, &format!("circuits/{}/drops", circuit.name)),
        _ => Rng::named(seed, &format!("circuits/{}/drops/{class}", circuit.name)),
    };
    let drops = |class: usize| match circuit.drops {
        TunnelDrops::Tail => Drops::Tail,
        TunnelDrops::Early(threshold) => Drops::Early(
            Thresholds {
                min: threshold,
                max: packets,
                max_chance: Chance::from_raw(u64::MAX / 10),
                weight_bits: 9,
                departure: Duration::from_millis(1),
            },
            rng(class),
        ),
        TunnelDrops::Fair { threshold, user_rtt, exempt_percent } => {
            Drops::Fair(Fair::new(threshold, user_rtt, exempt_percent))
        }
    };
    let class = |which: usize| {
        let weight = circuit.weights.get(which).copied().unwrap_or(1);
        Class { room, drops: drops(which), weight }
    };
    let schedule = if circuit.weights.is_empty() { Schedule::Priority } else { Schedule::RoundRobin };
    Tunnel::new((0..=circuit.classes.len()).map(class).collect(), schedule)
}

/// The classes in which packets wait: of both directions, because acknowledgements may be what enters here.
fn classes(scenario: &Scenario, circuit: &Circuit, flows: &[Instance]) -> Classes {
    let class_of = |name: &str| {
        let lists = |class: &Vec<usize>| class.iter().any(|&flow| scenario.flows[flow].name == name);
        circuit.classes.iter().position(lists)
    };
    let listed = flows.iter().filter_map(|instance| Some((instance, class_of(&instance.flow)?)));
    let ways = listed.flat_map(|(instance, class)| {
        let [from, to] = [instance.sender, instance.receiver];
        [((from, to), class), ((to, from), class)]
    });
    Classes { listed: ways.collect(), last: circuit.classes.len() }
}

/// The packets of its flows in whichever direction leads from one end to the other; or all that are for nodes beyond.
fn carries(scenario: &Scenario, circuit: &Circuit, topology: &Topology, flows: &[Instance]) -> Carries {
    let leads_over = |node: usize| {
        let path = topology.path(circuit.from, node);
        path[..path.len().saturating_sub(1)].contains(&circuit.to)
    };
    let Some(chosen) = &circuit.flows else {
        return Carries::For((0..scenario.nodes.len()).map(leads_over).collect());
    };
    let names: Vec<&str> = chosen.iter().map(|&flow| scenario.flows[flow].name.as_str()).collect();
    let instances = flows.iter().filter(|instance| names.contains(&instance.flow.as_str()));
    let ways =
        instances.flat_map(|instance| [(instance.sender, instance.receiver), (instance.receiver, instance.sender)]);
    Carries::Flows(ways.filter(|(_, to)| leads_over(usize::from(to.node))).collect())
}

impl World {
    /// The row of a circuit in the results.
    pub(super) fn circuit_row(&self, circuit: &Joined) -> CircuitRow {
        let end = |at: Endpoint| {
            let Piece::Edge(edge) = &self.network.graph.nodes()[usize::from(at.node)] else {
                unreachable!("a circuit begins and ends at an edge")
            };
            edge.end(at).expect("a circuit's end is where it was put")
        };
        let (sending, sent, joint) = end(circuit.from);
        let (_, answered, _) = end(circuit.to);
        let mut row = match sending {
            edge::End::Sends(sender, _) => decoupled_row(circuit.name.clone(), sender),
            edge::End::Numbers(sender, _) => in_band_row(circuit.name.clone(), sender),
            edge::End::Packs(sender, _) => carried_row(circuit.name.clone(), sender),
            edge::End::Receives(_) | edge::End::Acknowledges(_) | edge::End::Unpacks(_) => {
                unreachable!("a circuit begins where it sends")
            }
        };
        row.sent_bytes = sent.get();
        row.answered_bytes = answered.get();
        let common = joint.common();
        row.fragmented = common.pieces.divided();
        let journeys = &common.journeys;
        let nanos = |span: &Span| span.summary().map(|summary| summary.map(Duration::as_nanos));
        row.passed = journeys.whole().count();
        row.passed_bytes = journeys.bytes();
        row.reordered = journeys.reordered();
        row.delay_ns = nanos(journeys.whole());
        row.carried_ns = nanos(journeys.carried());
        row
    }
}

/// The row of a circuit whose packets stay as they are, with its books checked.
pub(super) fn decoupled_row(circuit: Arc<str>, sender: &Sender) -> CircuitRow {
    let counters = sender.counters();
    assert_eq!(
        counters.controlled_bytes + counters.charged_bytes,
        counters.headers * sender.vmss().get() + sender.unpaid().get(),
        "circuit {circuit}: a header for each VMSS of data, but for what is not yet a whole one"
    );
    CircuitRow {
        controlled_bytes: counters.controlled_bytes,
        guaranteed_bytes: counters.guaranteed_bytes,
        headers: counters.headers,
        ..common_row(circuit, sender.tunnel(), sender.connections())
    }
}

fn in_band_row(circuit: Arc<str>, sender: &in_band::Circuit) -> CircuitRow {
    let counters = sender.sender().counters();
    let known = counters.delivered + counters.lost;
    assert!(known <= counters.datagrams, "circuit {circuit}: what became of a datagram is known once: {counters:?}");
    CircuitRow {
        controlled_bytes: sender.controlled().get(),
        guaranteed_bytes: sender.guaranteed().get(),
        timeouts: counters.collapses,
        fast_retransmits: counters.reductions - counters.collapses,
        datagrams_lost: counters.lost,
        datagrams_damaged: counters.damaged,
        ..common_row(circuit, sender.tunnel(), std::iter::empty())
    }
}

fn carried_row(circuit: Arc<str>, sender: &carried::Sender) -> CircuitRow {
    CircuitRow {
        controlled_bytes: sender.counters().bytes,
        headers: sender.connection().counters().segments,
        ..common_row(circuit, sender.tunnel(), std::iter::once(sender.connection()))
    }
}

/// The columns that circuits of every implementation have.
fn common_row<'a>(circuit: Arc<str>, tunnel: &Tunnel, tcps: impl Iterator<Item = &'a Connection>) -> CircuitRow {
    let waiting = tunnel.counters();
    assert_eq!(
        waiting.arrived,
        waiting.dropped + waiting.left + tunnel.occupancy().0,
        "circuit {circuit}: every packet that came was dropped, has left or waits"
    );
    let mut row = CircuitRow {
        circuit,
        arrived: waiting.arrived,
        dropped: waiting.dropped,
        queue_max_packets: waiting.packets_max,
        queue_max_bytes: waiting.bytes_max,
        ..CircuitRow::default()
    };
    for tcp in tcps {
        let counters = tcp.counters();
        row.header_retransmits += counters.retransmits;
        row.timeouts += counters.timeouts;
        row.fast_retransmits += counters.fast_retransmits;
        row.failed += u64::from(tcp.fault().is_some());
    }
    row
}
