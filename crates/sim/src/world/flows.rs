//! The flows of a world. Each kind of the scenario's is one file, which builds its two ends and reads its rows out of
//! them, and one line below.

mod connection;
mod datagrams;
mod media;
mod requests;
mod sockets;
mod split;
mod transfer;

use std::fmt;

use headend_engine::circuit::Sender;
use headend_engine::graph::Graph;
use headend_engine::node::Port;
use headend_engine::packet::Endpoint;
use headend_engine::rng::Rng;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::{Duration, Time};

use super::World;
use super::build::clock_phase;
use crate::host::{Host, Stream};
use crate::network::Piece;
use crate::proxy::Proxy;
use crate::router::REACHABLE;
use headend_scenario::results::{FlowRow, MediaRow};
use headend_scenario::topology::Topology;
use headend_scenario::{Bulk, Flow, FlowKind, FtpGet, HttpGet, Instance as Drawn, Scenario};

/// One instance of a flow.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) flow: String,
    pub(super) instance: u32,
    pub(super) start: Time,
    pub(super) sender: Endpoint,
    pub(super) receiver: Endpoint,
    pub(super) running: Box<dyn Running>,
}

/// A flow of any kind under way, of which this can be read out.
pub(super) trait Running: fmt::Debug {
    /// Its rows in the table of flows, at the end of the run; its books are checked.
    fn rows(&self, world: &World, instance: &Instance, end: Time) -> Vec<FlowRow>;

    /// Bytes on the wire that have arrived at its receiving end.
    fn arrived_bytes(&self, world: &World, instance: &Instance) -> u64;

    /// Its row in the table of frames, if it makes any.
    fn media_row(&self, _world: &World, _instance: &Instance, _end: Time) -> Option<MediaRow> {
        None
    }

    /// The connections whose packets can be traced, each with its two ends and their initial sequence numbers, the end
    /// on the data's sender's side first.
    fn connections(&self, _instance: &Instance) -> Vec<[(Endpoint, u32); 2]> {
        Vec::new()
    }

    /// True if its sender is a connection whose state was recorded.
    fn has_series(&self) -> bool {
        false
    }

    /// The sending end of the circuit of its socket, if it has one.
    fn circuit<'w>(&self, _world: &'w World, _instance: &Instance) -> Option<&'w Sender> {
        None
    }
}

/// The things from which an instance of a flow is built.
pub(super) struct Site<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) seed: u64,
    pub(super) trace: bool,
    pub(super) graph: &'a mut Graph<Piece<Host, Proxy>>,
    pub(super) flow: &'a Flow,
    pub(super) instance: u32,
    /// What was drawn for the instance.
    pub(super) drawn: Drawn,
    pub(super) way: FlowWay,
}

/// The ways by which a flow leaves its hosts and goes through a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowWay {
    /// The ports through which the sender reaches the receiver, or their proxy, and the other way round.
    out: [Port; 2],
    split: Option<split::ProxyWay>,
}

/// Adds both ends of an instance of a flow to their hosts.
pub(super) fn build(site: &mut Site<'_>) -> Instance {
    match &site.flow.kind {
        FlowKind::Bulk(Bulk(transfer)) | FlowKind::FtpGet(FtpGet(transfer)) | FlowKind::HttpGet(HttpGet(transfer)) => {
            transfer::build(site, transfer)
        }
        FlowKind::Requests(requests) => requests::build(site, requests),
        FlowKind::Datagrams(datagrams) => datagrams::build(site, datagrams),
        FlowKind::Media(media) => media::build(site, media),
        FlowKind::Programs(_) => unreachable!("programs are read for real hosts alone"),
    }
}

impl FlowWay {
    pub(super) fn of(scenario: &Scenario, topology: &Topology, flow: &Flow) -> FlowWay {
        let via = flow.via();
        let out = |from: usize, to: usize| topology.port(from, via.unwrap_or(to)).expect(REACHABLE);
        let split = via.map(|via| split::ProxyWay::of(scenario, topology, flow, via));
        FlowWay { out: [out(flow.from, flow.to), out(flow.to, flow.from)], split }
    }
}

impl Site<'_> {
    /// The generator of the instance.
    fn rng(&self, seed: u64) -> Rng {
        Rng::named(seed, &format!("flows/{}/{}", self.flow.name, self.instance))
    }

    /// The time at which the instance begins.
    fn start(&self, rng: &mut Rng) -> Time {
        let stagger = Duration::from_nanos(rng.below(self.flow.stagger.as_nanos().saturating_add(1)));
        let jitter = self.scenario.start_jitter_of(self.flow, self.instance, self.seed);
        Time::ZERO + self.drawn.start + stagger + jitter
    }

    /// The two nodes, that of the data's sender first.
    fn nodes(&self) -> [usize; 2] {
        [self.flow.from, self.flow.to]
    }

    fn host(&self, node: usize) -> &Host {
        let Piece::Host(host) = &self.graph.nodes()[node] else { unreachable!("both ends are hosts") };
        host
    }

    fn host_mut(&mut self, node: usize) -> &mut Host {
        let Piece::Host(host) = self.graph.node_mut(node) else { unreachable!("both ends are hosts") };
        host
    }

    fn personality(&self, node: usize) -> &Personality {
        self.host(node).personality()
    }

    /// The times for which the clocks of the two hosts had been running when the run began.
    fn clock_phases(&self) -> [Duration; 2] {
        self.nodes().map(|node| clock_phase(self.seed, &self.scenario.nodes[node].name))
    }

    /// Adds both ends of a stream to their hosts.
    fn add_streams(&mut self, ends: [Stream; 2]) {
        for (node, end) in self.nodes().into_iter().zip(ends) {
            self.host_mut(node).add_stream(end);
        }
    }

    fn instance(&self, start: Time, [sender, receiver]: [Endpoint; 2], running: Box<dyn Running>) -> Instance {
        Instance { flow: self.flow.name.clone(), instance: self.instance, start, sender, receiver, running }
    }
}
