//! Collects what a run yields: rows read out of its hosts and links, with the books checked on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::packet::{Discard, Endpoint};
use headend_engine::time::Time;

use super::{World, circuits};
use crate::host::{End, Host};
use crate::network::Piece;
use crate::proxy::Proxy;
use crate::router::Router;
use crate::trace::{EndReader, Event, read_event};
use headend_scenario::pcapng::Capture;
use headend_scenario::results::trace::{RunTrace, SeriesRow, What};
use headend_scenario::results::{Interner, IntervalRow, RunOutcome};

/// Bytes of a packet that a capture stores: the largest IPv4 and TCP headers.
const SNAP_LEN: u32 = 120;

impl World {
    /// Collects what the run yields that ended at `end`.
    pub(super) fn collect(
        mut self,
        point: usize,
        end: Time,
        intervals: Vec<IntervalRow>,
    ) -> (RunOutcome, Option<RunTrace>) {
        let flows = self.flows.iter().flat_map(|flow| flow.running.rows(&self, flow, end)).collect();
        let media = self.flows.iter().filter_map(|flow| flow.running.media_row(&self, flow, end)).collect();
        let joined = self.circuits.iter().map(|circuit| self.circuit_row(circuit));
        let sockets = self.flows.iter().filter_map(|flow| {
            let name = format!("{}/{}", flow.flow, flow.instance);
            Some(circuits::decoupled_row(name.into(), flow.running.circuit(&self, flow)?))
        });
        let circuits = joined.chain(sockets).collect();
        if !self.trace {
            self.dismiss_hosts();
        }
        let links = self.network.link_rows(end);
        let run = u64::from(self.run);
        let outcome = RunOutcome {
            point,
            run,
            seed: self.seed,
            end_ns: end.as_nanos(),
            flows,
            links,
            circuits,
            media,
            intervals,
        };
        let trace = self.trace.then(|| self.run_trace());
        (outcome, trace)
    }

    /// Makes room for what is still to be read out: hosts are most of what a flow takes.
    fn dismiss_hosts(&mut self) {
        for node in 0..self.network.nodes.len() {
            let piece = self.network.graph.node_mut(node);
            if matches!(piece, Piece::Host(_) | Piece::Proxy(_)) {
                *piece = Piece::Router(Router::new(Vec::new()));
            }
        }
    }

    pub(super) fn host(&self, node: usize) -> &Host {
        let Piece::Host(host) = &self.network.graph.nodes()[node] else { panic!("flows begin and end at hosts") };
        host
    }

    pub(super) fn end(&self, at: Endpoint) -> &End {
        self.host(usize::from(at.node)).end(at)
    }

    pub(super) fn proxy(&self, node: u16) -> &Proxy {
        let Piece::Proxy(proxy) = &self.network.graph.nodes()[usize::from(node)] else {
            panic!("flows are split at proxies")
        };
        proxy
    }
}

/// The connection that each address belongs to, and true if it is the end that sends the data.
type Owners = BTreeMap<Endpoint, (usize, bool)>;

/// The records of a run, put in order.
impl World {
    fn run_trace(&self) -> RunTrace {
        let mut names = Interner::default();
        let mut events: Vec<(Arc<str>, Event)> = Vec::new();
        let mut captures = Vec::new();
        for (node, name) in self.network.nodes.iter().enumerate() {
            let log = match &self.network.graph.nodes()[node] {
                Piece::Host(host) => host.log(),
                Piece::Proxy(proxy) => proxy.log(),
                Piece::Link(_)
                | Piece::Express
                | Piece::Repeating(_)
                | Piece::Disturbance(_)
                | Piece::Cable(_)
                | Piece::Docsis(_)
                | Piece::Router(_)
                | Piece::Edge(_) => continue,
            };
            let place = names.intern(name);
            let mut capture = Capture::new(name, SNAP_LEN);
            for event in log {
                capture.record(event.time, &event.packet);
                events.push((place.clone(), *event));
            }
            captures.push((place, capture));
        }
        for way in self.network.ways() {
            let place = names.intern(&format!("{} {}", way.link, way.direction));
            events.extend(way.discards().iter().map(|discard| (place.clone(), event(discard))));
        }
        // Stable, so that what happens at one time stays in the order of nodes, and sending comes before losing.
        events.sort_by_key(|(_, event)| event.time);

        let (mut readers, owners) = self.readers(&mut names);
        let mut flag_names = |flags: &str| names.intern(flags);
        let packets = events
            .iter()
            .filter_map(|(place, event)| {
                let &(connection, from_sender) = owners.get(&event.packet.src)?;
                let [sender, receiver] = &mut readers[connection];
                let (from, to) = if from_sender { (sender, receiver) } else { (receiver, sender) };
                read_event(event, place, from, to, &mut flag_names)
            })
            .collect();
        RunTrace { series: self.series(&mut names), packets, captures }
    }

    /// A reader for each end of each connection, and the owner of each address.
    fn readers(&self, names: &mut Interner) -> (Vec<[EndReader; 2]>, Owners) {
        let mut owners = Owners::new();
        let mut readers = Vec::new();
        for instance in &self.flows {
            let mut reader = |at: Endpoint, isn| {
                let host = names.intern(&self.network.nodes[usize::from(at.node)]);
                EndReader::new(names.intern(&instance.flow), u64::from(instance.instance), host, isn)
            };
            for [(sender, sender_isn), (receiver, receiver_isn)] in instance.running.connections(instance) {
                owners.insert(sender, (readers.len(), true));
                owners.insert(receiver, (readers.len(), false));
                readers.push([reader(sender, sender_isn), reader(receiver, receiver_isn)]);
            }
        }
        (readers, owners)
    }

    fn series(&self, names: &mut Interner) -> Vec<SeriesRow> {
        let mut rows = Vec::new();
        for instance in self.flows.iter().filter(|instance| instance.running.has_series()) {
            let flow = names.intern(&instance.flow);
            let samples = self.end(instance.sender).record.series.as_deref().unwrap_or_default();
            rows.extend(samples.iter().map(|&sample| SeriesRow {
                flow: flow.clone(),
                instance: u64::from(instance.instance),
                sample,
            }));
        }
        rows
    }
}

fn event(discard: &Discard) -> Event {
    let what = if discard.lost { What::Lost } else { What::Dropped };
    Event { time: discard.time, what, packet: discard.packet }
}
