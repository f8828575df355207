//! Builds a wired graph from a scenario. Every component's generator is named after it, so that adding an unrelated one
//! changes no draw.

use std::cell::Cell;
use std::rc::Rc;

use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};

use super::flows::{self, FlowWay, Site};
use super::{World, circuits};
use crate::edge::Edge;
use crate::host::Host;
use crate::network::{Network, Piece};
use crate::proxy::Proxy;
use headend_scenario::{Flow, Instance as Drawn, NodeKind, Scenario};

/// The longest time for which a host's clock may have run before the run begins: a multiple of the usual ticks.
const BOOTED_BEFORE_MAX: Duration = Duration::from_secs(3_600);

impl World {
    /// Builds run `run` of `scenario`, which uses the seed `scenario.seed + run`. With `trace`, it records what
    /// [`Traces`](headend_scenario::results::trace::Traces) shows.
    ///
    /// # Panics
    /// If the scenario is one that no reader would have accepted: a flow's ends are no hosts or do not reach each
    /// other, or there are too many of something.
    pub fn build(scenario: &Scenario, run: u32, trace: bool) -> World {
        let scenario = &*scenario.with_host_jitter();
        let seed = scenario.seed.wrapping_add(u64::from(run));
        let live = Rc::new(Cell::new(0));
        let drawn = scenario.flows.iter().map(|flow| (flow, flow.instances(seed, scenario.duration)));
        let drawn: Vec<(&Flow, Vec<Drawn>)> = drawn.collect();
        let mut ends = vec![0; scenario.nodes.len()];
        for (flow, instances) in &drawn {
            ends[flow.from] += instances.len();
            ends[flow.to] += instances.len();
        }
        let mut network = Network::build(scenario, seed, trace, |node, topology| match &scenario.nodes[node].kind {
            NodeKind::Router => Piece::Edge(Box::new(Edge::new(node as u16, topology.routes(node)))),
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
        for (flow, instances) in drawn {
            let way = FlowWay::of(scenario, &network.topology, flow);
            let graph = &mut network.graph;
            for (instance, drawn) in (flow.first..).zip(instances) {
                flows.push(flows::build(&mut Site { scenario, seed, trace, graph, flow, instance, drawn, way }));
            }
        }
        let circuits = circuits::join(scenario, seed, &mut network, &flows);
        let interval = scenario.interval;
        World { network, flows, circuits, live, limit, interval, seed, run, trace }
    }
}

/// The time for which the clock of the host called `node` had been running when the run began.
pub(super) fn clock_phase(seed: u64, node: &str) -> Duration {
    Duration::from_nanos(Rng::named(seed, &format!("nodes/{node}/clock")).below(BOOTED_BEFORE_MAX.as_nanos()))
}
