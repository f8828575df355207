//! What a run yields: rows read out of its hosts and links, the books checked on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::link::Discard;
use headend_engine::packet::Endpoint;
use headend_engine::tcp::connection::Fault;
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::{Instance, World};
use crate::host::{End, Host};
use crate::network::{Piece, Way};
use crate::pcapng::Capture;
use crate::results::{FlowRow, Interner, RunOutcome};
use crate::router::Router;
use crate::trace::{EndReader, Event, RunTrace, SeriesRow, What, read_event};

/// Bytes of a packet that a capture stores: the largest IPv4 and TCP headers.
const SNAP_LEN: u32 = 120;

impl World {
    /// What the run yields that ended at `end`.
    pub(super) fn collect(mut self, point: usize, end: Time) -> (RunOutcome, Option<RunTrace>) {
        let flows = self.flows.iter().map(|instance| self.flow_row(instance, end)).collect();
        if !self.trace {
            self.dismiss_hosts();
        }
        let links = self.network.link_rows(end);
        let run = u64::from(self.run);
        let outcome = RunOutcome { point, run, seed: self.seed, end_ns: end.as_nanos(), flows, links };
        let trace = self.trace.then(|| self.run_trace());
        (outcome, trace)
    }

    /// Makes room for what is still to be read out: hosts are most of what a flow takes.
    fn dismiss_hosts(&mut self) {
        for node in 0..self.network.nodes.len() {
            let piece = self.network.graph.node_mut(node);
            if matches!(piece, Piece::Host(_)) {
                *piece = Piece::Router(Router::new(Vec::new()));
            }
        }
    }

    fn host(&self, node: usize) -> &Host {
        let Piece::Host(host) = &self.network.graph.nodes()[node] else { panic!("flows begin and end at hosts") };
        host
    }

    fn end(&self, at: Endpoint) -> &End {
        self.host(usize::from(at.node)).end(at)
    }

    fn flow_row(&self, instance: &Instance, end: Time) -> FlowRow {
        let (sender, receiver) = (self.end(instance.sender), self.end(instance.receiver));
        conserve_bytes(instance, sender, receiver);
        let since_start = |at: Time| at.since(instance.start).as_nanos();
        let failed = [sender, receiver].into_iter().filter_map(|end| end.record.failed).min();
        let delivered = receiver.record.read.saturating_sub(instance.header).min(instance.bytes.unwrap_or(Bytes::MAX));
        let transferred = receiver.record.all_read;
        let counters = sender.connection().counters();
        FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: instance.bytes.unwrap_or(delivered).get(),
            start_ns: instance.start.as_nanos(),
            transfer_ns: transferred.map(since_start),
            acked_ns: sender.record.all_acked.map(since_start),
            active_ns: since_start(transferred.or(failed).unwrap_or(end)),
            delivered_bytes: delivered.get(),
            wire_bytes: receiver.record.wire.get(),
            timeouts: counters.timeouts,
            fast_retransmits: counters.fast_retransmits,
            segments_sent: counters.segments,
            retransmits: counters.retransmits,
            spurious: receiver.connection().duplicates_received(),
            rtt_ns: sender.record.rtt.summary().map(|rtt| rtt.map(|rtt| rtt.as_nanos())),
            cwnd_max_bytes: sender.record.cwnd_max.get(),
            fault: fault(sender).or(fault(receiver)).unwrap_or_default().into(),
        }
    }
}

/// Checks that no byte of a flow came from nowhere, was read twice, or was taken for arrived when it was not.
fn conserve_bytes(instance: &Instance, sender: &End, receiver: &End) {
    for (from, to) in [(sender, receiver), (receiver, sender)] {
        let (acknowledged, arrived) = (from.connection().acknowledged(), to.connection().received());
        let (sent, read) = (from.connection().counters().bytes, to.record.read);
        assert!(
            acknowledged <= arrived && arrived == read && arrived.get() <= sent,
            "flow {} {}: what is acknowledged ({acknowledged}) has arrived ({arrived}), what arrived was read ({read}), \
             and it was sent ({sent}B)",
            instance.flow,
            instance.instance
        );
    }
}

fn fault(end: &End) -> Option<&'static str> {
    Some(match end.connection().fault()? {
        Fault::Reset => "reset by the peer",
        Fault::Refused => "refused by the peer",
        Fault::TimedOut => "timed out",
        Fault::Aborted => "aborted",
    })
}

/// To which flow an address belongs, and whether it is the sender's.
type Owners = BTreeMap<Endpoint, (usize, bool)>;

/// What was recorded, put in order.
impl World {
    fn run_trace(&self) -> RunTrace {
        let mut names = Interner::default();
        let mut events: Vec<(Arc<str>, Event)> = Vec::new();
        let mut captures = Vec::new();
        for (node, name) in self.network.nodes.iter().enumerate() {
            if let Piece::Host(host) = &self.network.graph.nodes()[node] {
                let place = names.intern(name);
                let mut capture = Capture::new(name, SNAP_LEN);
                for event in host.log() {
                    capture.record(event.time, &event.packet);
                    events.push((place.clone(), *event));
                }
                captures.push((place, capture));
            }
        }
        for Way { link, direction, piece } in self.network.ways() {
            let place = names.intern(&format!("{link} {direction}"));
            events.extend(piece.discards().iter().map(|discard| (place.clone(), event(discard))));
        }
        // Stable, so that what happens at one time stays in the order of nodes, and sending comes before losing.
        events.sort_by_key(|(_, event)| event.time);

        let (mut readers, owners) = self.readers(&mut names);
        let mut flag_names = |flags: &str| names.intern(flags);
        let packets = events
            .iter()
            .filter_map(|(place, event)| {
                let &(flow, from_sender) = owners.get(&event.packet.src)?;
                let [sender, receiver] = &mut readers[flow];
                let (from, to) = if from_sender { (sender, receiver) } else { (receiver, sender) };
                read_event(event, place, from, to, &mut flag_names)
            })
            .collect();
        RunTrace { series: self.series(&mut names), packets, captures }
    }

    /// A reader for each end of each flow, and whose packets are whose.
    fn readers(&self, names: &mut Interner) -> (Vec<[EndReader; 2]>, Owners) {
        let mut owners = Owners::new();
        let mut readers = Vec::new();
        for (i, instance) in self.flows.iter().enumerate() {
            owners.insert(instance.sender, (i, true));
            owners.insert(instance.receiver, (i, false));
            let mut reader = |at: Endpoint, isn| {
                let host = names.intern(&self.network.nodes[usize::from(at.node)]);
                EndReader::new(names.intern(&instance.flow), u64::from(instance.instance), host, isn)
            };
            readers.push([reader(instance.sender, instance.isn[0]), reader(instance.receiver, instance.isn[1])]);
        }
        (readers, owners)
    }

    fn series(&self, names: &mut Interner) -> Vec<SeriesRow> {
        let mut rows = Vec::new();
        for instance in &self.flows {
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
