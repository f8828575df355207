//! From a scenario to a wired graph. Every component's generator is named after it, so that adding an unrelated one
//! changes no draw.

use std::cell::Cell;
use std::rc::Rc;

use headend_engine::circuit::reliable::data_personality;
use headend_engine::graph::Graph;
use headend_engine::node::Port;
use headend_engine::packet::Endpoint;
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use super::circuits;
use super::sockets;
use super::split::{Split, Way};
use super::streams;
use super::{Between, Instance, Kind, World};
use crate::host::{Again, Closing, Host, Setup};
use crate::network::{Network, Piece};
use crate::proxy::Proxy;
use crate::router::REACHABLE;
use crate::traffic::{Application, Server};
use headend_scenario::topology::Topology;
use headend_scenario::{Flow, FlowKind, NodeKind, Scenario};

/// A host's clocks have run for up to so long before the run begins: a multiple of the usual ticks.
const BOOTED_BEFORE_MAX: Duration = Duration::from_secs(3_600);

impl World {
    /// Builds run `run` of `scenario`, which uses the seed `scenario.seed + run`. With `trace`, it records what
    /// [`Traces`](headend_scenario::results::trace::Traces) shows.
    ///
    /// # Panics
    /// If the scenario is one that no reader would have accepted: a flow's ends are no hosts or do not reach each other,
    /// or there are too many of something.
    pub fn build(scenario: &Scenario, run: u32, trace: bool) -> World {
        let seed = scenario.seed.wrapping_add(u64::from(run));
        let live = Rc::new(Cell::new(0));
        let mut ends = vec![0; scenario.nodes.len()];
        for flow in &scenario.flows {
            ends[flow.from] += flow.count as usize;
            ends[flow.to] += flow.count as usize;
        }
        let mut network = Network::build(scenario, seed, trace, |node, topology| match &scenario.nodes[node].kind {
            NodeKind::Router => unreachable!("a router is no host"),
            NodeKind::Host { personality, .. } => {
                Piece::Host(Host::new(node as u16, (**personality).clone(), ends[node], live.clone(), trace))
            }
            NodeKind::Proxy(spec) => {
                let tcp = [&*spec.local.personality, &*spec.remote.personality];
                Piece::Proxy(Box::new(Proxy::new(node as u16, topology.routes(node), tcp, live.clone(), trace)))
            }
        });
        let limit = Time::ZERO + scenario.duration;
        assert!(limit < network.graph.horizon(), "a network of this size has time for a run of {}", scenario.duration);
        let mut flows = Vec::new();
        for flow in &scenario.flows {
            let split = Way::of(scenario, &network.topology, flow);
            let ways = (ways(&network.topology, flow), split);
            for instance in 0..flow.count {
                flows.push(match flow.kind {
                    FlowKind::Datagrams { .. } | FlowKind::Media => {
                        streams::add(scenario, seed, &mut network.graph, flow, instance, ways.0)
                    }
                    _ => join(scenario, seed, trace, &mut network.graph, flow, instance, ways),
                });
            }
        }
        let circuits = circuits::join(scenario, seed, &mut network, &flows);
        let interval = scenario.interval;
        World { network, flows, circuits, live, limit, interval, seed, run, trace }
    }
}

/// The ports through which the sender of `flow` reaches its receiver, or their proxy, and the other way round.
fn ways(topology: &Topology, flow: &Flow) -> [Port; 2] {
    let way = |from: usize, to: usize| topology.routes(from)[to].expect(REACHABLE);
    [way(flow.from, flow.via.unwrap_or(flow.to)), way(flow.to, flow.via.unwrap_or(flow.from))]
}

/// The two ends of a flow before their connections are made.
struct Ends {
    sender: Plan,
    receiver: Plan,
    header: Bytes,
}

struct Plan {
    opening: Opening,
    application: Application,
    expected: Bytes,
    closing: Closing,
}

#[derive(Clone, Copy)]
pub(super) enum Opening {
    Active,
    Passive,
    /// The connection is established beforehand.
    Beforehand,
}

/// What the applications of a flow do with a transfer of `transfer` bytes (`Bytes::MAX` for one without end), or first ask for.
fn plan(kind: FlowKind, transfer: Bytes, first: Bytes) -> Ends {
    let source = Application::Source { left: transfer };
    let sender = |opening, closing| Plan { opening, application: source.clone(), expected: Bytes::ZERO, closing };
    let sink = |opening, closing| Plan { opening, application: Application::Sink, expected: transfer, closing };
    match kind {
        FlowKind::Bulk { handshake: false } => Ends {
            sender: sender(Opening::Beforehand, Closing::Never),
            receiver: sink(Opening::Beforehand, Closing::Never),
            header: Bytes::ZERO,
        },
        // For an FTP `get` it is the server that opens the data connection (RFC 959 s3.2; tuning paper s6.1).
        FlowKind::Bulk { handshake: true } | FlowKind::FtpGet => Ends {
            sender: sender(Opening::Active, Closing::AfterWriting),
            receiver: sink(Opening::Passive, Closing::AfterPeer),
            header: Bytes::ZERO,
        },
        FlowKind::HttpGet { request, header, header_apart } => Ends {
            sender: Plan {
                opening: Opening::Passive,
                application: Application::Server(Server {
                    request,
                    header,
                    header_apart,
                    takes: Duration::ZERO,
                    ready: None,
                    file: transfer,
                    hand: Bytes::ZERO,
                }),
                expected: request,
                closing: Closing::AfterWriting,
            },
            receiver: Plan {
                opening: Opening::Active,
                application: Application::Source { left: request },
                expected: transfer + header,
                closing: Closing::AfterPeer,
            },
            header,
        },
        FlowKind::Requests { request, .. } => {
            let get = FlowKind::HttpGet { request, header: Bytes::ZERO, header_apart: false };
            plan(get, first, first)
        }
        FlowKind::Datagrams { .. } | FlowKind::Media => unreachable!("streams have no connection of a flow"),
    }
}

/// The generator of an instance of a flow.
pub(super) fn flow_rng(seed: u64, flow: &Flow, instance: u32) -> Rng {
    Rng::named(seed, &format!("flows/{}/{instance}", flow.name))
}

/// How much later than others an instance begins.
pub(super) fn stagger(rng: &mut Rng, flow: &Flow) -> Duration {
    Duration::from_nanos(rng.below(flow.stagger.as_nanos().saturating_add(1)))
}

/// Adds both ends of an instance of `flow` to their hosts.
fn join(
    scenario: &Scenario,
    seed: u64,
    trace: bool,
    graph: &mut Graph<Piece<Host, Proxy>>,
    flow: &Flow,
    instance: u32,
    (ways, way): ([Port; 2], Option<Way>),
) -> Instance {
    let mut rng = flow_rng(seed, flow, instance);
    let start = Time::ZERO + flow.start + stagger(&mut rng, flow);
    let isn = [rng.bits() as u32, rng.bits() as u32];

    let controls = flow.socket.as_ref().map_or(0, |socket| socket.controls as usize);
    let meet = |node: usize| -> (Personality, Endpoint) {
        let Piece::Host(host) = &graph.nodes()[node] else { unreachable!("both ends are hosts") };
        (host.personality().clone(), host.next_endpoint(controls))
    };
    let (mut sender_tcp, sender_at) = meet(flow.from);
    let (mut receiver_tcp, receiver_at) = meet(flow.to);
    if flow.socket.is_some() {
        (sender_tcp, receiver_tcp) = (data_personality(&sender_tcp), data_personality(&receiver_tcp));
    }

    let phases = [flow.from, flow.to].map(|node| clock_phase(seed, &scenario.nodes[node].name));
    // Ends that agreed beforehand: also to learn how large a full segment will be.
    let from = PairedEnd { personality: &sender_tcp, isn: isn[0], clock_phase: phases[0] };
    let to = PairedEnd { personality: &receiver_tcp, isn: isn[1], clock_phase: phases[1] };
    let split = way.map(|way| Split::new(scenario, seed, graph, way, &mut rng));
    let (agreed, between) = match &split {
        None => (Connection::pair(from, to), None),
        Some(split) => {
            let (sender, faces_from) = Connection::pair(from, split.end(0));
            let (faces_to, receiver) = Connection::pair(split.end(1), to);
            ((sender, receiver), Some([faces_from, faces_to]))
        }
    };
    let mss = agreed.0.mss().get();
    let transfer = match flow.bytes {
        None => Bytes::MAX,
        Some(bytes) if flow.whole_segments => Bytes::new(bytes.get().div_ceil(mss) * mss),
        Some(bytes) => bytes,
    };
    // Each client begins at another of the sizes, so that not all ask for the same at once.
    let turn = instance as usize % flow.sizes.len().max(1);
    let first = flow.sizes.get(turn).copied().unwrap_or_default();
    let Ends { sender, receiver, header } = plan(flow.kind, transfer, first);
    let gates = flow.socket.as_ref().map(|socket| {
        let openings = [sender.opening, receiver.opening];
        let ports = [flow.from, flow.to].map(|node| {
            let Piece::Host(host) = &graph.nodes()[node] else { unreachable!("both ends are hosts") };
            host.next_control()
        });
        sockets::gates(socket, [&sender_tcp, &receiver_tcp], openings, phases, ports, &mut rng)
    });
    let [sender_gate, receiver_gate] = gates.map_or([None, None], |gates| gates.map(Some));
    let mut again = |is_client: bool, personality: &Personality, clock_phase| match flow.kind {
        FlowKind::Requests { request, pause, answer } => Some(Box::new(Again {
            is_client,
            personality: personality.clone(),
            clock_phase,
            rng: flow_rng(rng.bits(), flow, instance),
            request,
            sizes: flow.sizes.clone(),
            turn,
            pause,
            answer,
            past: Vec::new(),
        })),
        _ => None,
    };
    if let (Some(split), Some(agreed)) = (&split, between) {
        let opener = [&sender, &receiver].iter().position(|plan| matches!(plan.opening, Opening::Active));
        let Piece::Proxy(proxy) = graph.node_mut(split.proxy()) else { unreachable!("a proxy is a proxy") };
        split.join(proxy, opener, agreed, [sender_at, receiver_at]);
    }
    let [sender_peer, receiver_peer] = split.as_ref().map_or([receiver_at, sender_at], |split| split.at);
    for (node, plan, peer, tcp, isn, phase, agreed, out, gated) in [
        (flow.from, sender, sender_peer, &sender_tcp, isn[0], phases[0], agreed.0, ways[0], sender_gate),
        (flow.to, receiver, receiver_peer, &receiver_tcp, isn[1], phases[1], agreed.1, ways[1], receiver_gate),
    ] {
        let connection = match plan.opening {
            Opening::Active => Connection::connect(tcp, isn, phase),
            Opening::Passive => Connection::listen(tcp, isn, phase),
            Opening::Beforehand => agreed,
        };
        let mut again = again(node == flow.to, tcp, phase);
        let application = again.as_mut().map_or(plan.application, |again| again.application().0);
        let Piece::Host(host) = graph.node_mut(node) else { unreachable!("both ends are hosts") };
        host.add(Setup {
            connection,
            application,
            peer,
            out,
            start: if matches!(plan.opening, Opening::Passive) { Time::ZERO } else { start },
            expected: plan.expected,
            closing: plan.closing,
            series: trace && node == flow.from,
            again,
            gated,
        });
    }
    Instance {
        flow: flow.name.clone(),
        instance,
        kind: if matches!(flow.kind, FlowKind::Requests { .. }) { Kind::Requests } else { Kind::Transfer },
        bytes: flow.bytes,
        header,
        start,
        sender: sender_at,
        receiver: receiver_at,
        isn,
        split: split.map(|split| Between { at: split.at, isn: split.isn }),
    }
}

/// How long the clock of the host called `node` had been running when the run began.
pub(super) fn clock_phase(seed: u64, node: &str) -> Duration {
    Duration::from_nanos(Rng::named(seed, &format!("nodes/{node}/clock")).below(BOOTED_BEFORE_MAX.as_nanos()))
}
