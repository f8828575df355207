//! A scenario's circuits: their ends at two edges, whose packets they carry, and what they did.

use headend_engine::circuit::fair::Fair;
use headend_engine::circuit::tunnel::{Class, Drops, Room, Schedule, Tunnel};
use headend_engine::circuit::{Receiver, Sender, control_personality};
use headend_engine::link::queue::Thresholds;
use headend_engine::packet::Endpoint;
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, End};
use headend_engine::tcp::sender::Counters;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Chance};

use super::build::clock_phase;
use super::{Error, Instance};
use crate::edge::{Carries, Classes, Edge};
use crate::host::Host;
use crate::network::{Network, Piece, Topology};
use crate::proxy::Proxy;
use crate::results::CircuitRow;
use crate::scenario::{Circuit, QueueSpec, Scenario, TunnelDrops};

/// Adds both ends of every circuit to their edges. Returns their names and where the first control TCP of each is.
pub(super) fn join(
    scenario: &Scenario,
    seed: u64,
    network: &mut Network<Host, Proxy>,
    flows: &[Instance],
) -> Result<Vec<(String, Endpoint)>, Error> {
    let mut joined = Vec::new();
    for circuit in &scenario.circuits {
        let name = |node: usize| scenario.nodes[node].name.clone();
        let [from, to] = [circuit.from, circuit.to];
        for (a, b) in [(from, to), (to, from)] {
            if network.topology.routes(a)[b].is_none() {
                return Err(Error::NoCircuit { circuit: circuit.name.clone(), from: name(a), to: name(b) });
            }
        }
        let personality = control_personality(&circuit.tcp.personality, circuit.vmss);
        let mut rng = Rng::named(seed, &format!("circuits/{}", circuit.name));
        let phases = [from, to].map(|node| clock_phase(seed, &scenario.nodes[node].name));
        let mut end = |phase: Duration| End { personality: &personality, isn: rng.bits() as u32, clock_phase: phase };
        let pairs = (0..circuit.controls).map(|_| Connection::pair(end(phases[0]), end(phases[1])));
        let (sending, receiving): (Vec<_>, Vec<_>) = pairs.unzip();
        let sender = Sender::new(tunnel(circuit, seed), sending, circuit.vmss, circuit.gmb)
            .with_copies(circuit.copies, &personality);
        let receiver = Receiver::new(receiving);
        let receiver = if circuit.copies > 0 { receiver.with_copies() } else { receiver };
        let carries = carries(scenario, circuit, &network.topology, flows);
        let classes = classes(scenario, circuit, flows);
        let [at_sender, at_receiver] = [from, to].map(|node| edge(network, node).next_endpoint());
        edge(network, from).add_sender(sender, carries, classes, at_receiver, personality.clone());
        edge(network, to).add_receiver(receiver, at_sender, personality.clone());
        joined.push((circuit.name.clone(), at_sender));
    }
    Ok(joined)
}

fn edge(network: &mut Network<Host, Proxy>, node: usize) -> &mut Edge {
    let Piece::Edge(edge) = network.graph.node_mut(node) else { unreachable!("a circuit begins and ends at an edge") };
    edge
}

/// How much may wait, and how many packets.
fn room(queue: QueueSpec) -> (Room, u64) {
    match queue {
        QueueSpec::Unlimited => (Room::Bytes(Bytes::MAX), u64::MAX),
        QueueSpec::Packets(packets) => (Room::Packets(packets), packets),
        QueueSpec::Bytes(bytes) => (Room::Bytes(bytes), u64::MAX),
    }
}

/// A tunnel queue of one class that drops what does not fit.
pub(super) fn drop_tail(queue: QueueSpec) -> Tunnel {
    Tunnel::drop_tail(room(queue).0)
}

fn tunnel(circuit: &Circuit, seed: u64) -> Tunnel {
    let (room, packets) = room(circuit.queue);
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
        TunnelDrops::Fair { threshold, user_rtt } => Drops::Fair(Fair::new(threshold, packets, user_rtt, rng(class))),
    };
    let class = |which: usize| {
        let weight = circuit.weights.get(which).copied().unwrap_or(1);
        Class { room, drops: drops(which), weight }
    };
    let schedule = if circuit.weights.is_empty() { Schedule::Priority } else { Schedule::RoundRobin };
    Tunnel::new((0..=circuit.classes.len()).map(class).collect(), schedule)
}

/// In which class packets wait: of both directions, because acknowledgements may be what enters here.
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

/// What a circuit did, the books checked: a row of the results.
pub(super) fn row(name: &str, sender: &Sender) -> CircuitRow {
    let (counters, waiting) = (sender.counters(), sender.tunnel().counters());
    let tcp = |count: fn(&Counters) -> u64| sender.connections().map(|tcp| count(&tcp.counters())).sum();
    let vmss = sender.vmss().get();
    assert_eq!(
        counters.controlled_bytes + counters.charged_bytes,
        counters.headers * vmss + sender.unpaid().get(),
        "circuit {name}: a header for each VMSS of data, but for what is not yet a whole one"
    );
    assert_eq!(
        waiting.arrived,
        waiting.dropped + waiting.left + sender.tunnel().occupancy().0,
        "circuit {name}: every packet that came was dropped, has left or waits"
    );
    CircuitRow {
        circuit: name.into(),
        controlled_bytes: counters.controlled_bytes,
        guaranteed_bytes: counters.guaranteed_bytes,
        headers: counters.headers,
        header_retransmits: tcp(|tcp| tcp.retransmits),
        timeouts: tcp(|tcp| tcp.timeouts),
        fast_retransmits: tcp(|tcp| tcp.fast_retransmits),
        arrived: waiting.arrived,
        dropped: waiting.dropped,
        queue_max_packets: waiting.packets_max,
        queue_max_bytes: waiting.bytes_max,
        failed: sender.connections().filter(|tcp| tcp.fault().is_some()).count() as u64,
    }
}
