//! What a run yields: rows read out of its hosts and links, the books checked on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::packet::{Discard, Endpoint};
use headend_engine::tcp::connection::{Connection, Fault};
use headend_engine::time::Time;
use headend_engine::units::Bytes;

use super::{Between, Instance, Kind, World, circuits};
use crate::host::{End, Gated, Host, Past, Sink, Stream};
use crate::network::Piece;
use crate::proxy::{Leg, Proxy};
use crate::router::Router;
use crate::trace::{EndReader, Event, read_event};
use headend_scenario::pcapng::Capture;
use headend_scenario::results::trace::{RunTrace, SeriesRow, What};
use headend_scenario::results::{FlowRow, Interner, IntervalRow, RunOutcome};

/// Bytes of a packet that a capture stores: the largest IPv4 and TCP headers.
const SNAP_LEN: u32 = 120;

impl World {
    /// What the run yields that ended at `end`.
    pub(super) fn collect(
        mut self,
        point: usize,
        end: Time,
        intervals: Vec<IntervalRow>,
    ) -> (RunOutcome, Option<RunTrace>) {
        let flows = self.flows.iter().flat_map(|instance| self.flow_rows(instance, end)).collect();
        let media = self.flows.iter().filter_map(|instance| self.media_row(instance, end)).collect();
        let joined = self.circuits.iter().map(|circuit| self.circuit_row(circuit));
        let sockets = self.socket_circuits().map(|(name, sender)| circuits::decoupled_row(name.into(), sender));
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

    fn end(&self, at: Endpoint) -> &End {
        self.host(usize::from(at.node)).end(at)
    }

    fn proxy(&self, node: u16) -> &Proxy {
        let Piece::Proxy(proxy) = &self.network.graph.nodes()[usize::from(node)] else {
            panic!("flows are split at proxies")
        };
        proxy
    }

    fn split(&self, split: Between) -> Split<'_> {
        let proxy = self.proxy(split.at[0].node);
        let sides = split.at.map(|at| (proxy.pair(at), proxy.side_of(at)));
        Split { legs: sides.map(|(pair, side)| pair.leg(side)), held: sides.map(|(pair, side)| pair.held(side)) }
    }

    fn flow_rows(&self, instance: &Instance, end: Time) -> Vec<FlowRow> {
        match instance.kind {
            Kind::Transfer => vec![self.flow_row(instance, end)],
            Kind::Requests => self.request_rows(instance, end),
            Kind::Datagrams => vec![self.stream_row(instance, end)],
            Kind::Media => vec![self.media_flow_row(instance, end)],
        }
    }

    /// What holds the sender of a flow back, if that is a socket's.
    pub(super) fn gated_end(&self, instance: &Instance) -> Option<&Gated> {
        if instance.kind == Kind::Transfer { self.end(instance.sender).gated() } else { None }
    }

    /// A row for each connection, the one under way included.
    fn request_rows(&self, instance: &Instance, end: Time) -> Vec<FlowRow> {
        let (server, client) = (self.end(instance.sender), self.end(instance.receiver));
        // One may have begun anew when the other has not.
        if server.past().len() == client.past().len() {
            conserve_bytes(instance, server, client, None);
        }
        let served = server.past();
        let row = |number: usize, past: &Past| {
            let counters = served.get(number).map(|served| served.counters).unwrap_or_default();
            let since_start = |at: Time| at.since(past.start).as_nanos();
            FlowRow {
                flow: instance.flow.clone(),
                instance: u64::from(instance.instance),
                bytes: past.size.get(),
                start_ns: past.start.as_nanos(),
                transfer_ns: past.all_read.map(since_start),
                acked_ns: served.get(number).and_then(|served| served.all_acked).map(since_start),
                active_ns: since_start(past.all_read.or(past.failed).unwrap_or(end)),
                delivered_bytes: past.read.min(past.size).get(),
                wire_bytes: past.wire.get(),
                timeouts: counters.timeouts,
                fast_retransmits: counters.fast_retransmits,
                segments_sent: counters.segments,
                retransmits: counters.retransmits,
                fault: if past.failed.is_some() { "failed" } else { "" }.into(),
                ..FlowRow::default()
            }
        };
        let mut rows: Vec<FlowRow> = client.past().iter().enumerate().map(|(number, past)| row(number, past)).collect();
        if client.start() < end {
            let now = Past {
                size: client.asked_for().unwrap_or_default(),
                start: client.start(),
                read: client.record.read,
                wire: client.record.wire,
                all_read: client.record.all_read,
                all_acked: client.record.all_acked,
                failed: None,
                counters: client.connection().counters(),
            };
            rows.push(row(usize::MAX, &now));
        }
        rows
    }

    fn stream_row(&self, instance: &Instance, end: Time) -> FlowRow {
        let sent = match self.host(usize::from(instance.sender.node)).stream(instance.sender) {
            Some(Stream::Source(source)) => source.sent(),
            _ => unreachable!("who sends is a source"),
        };
        let sink = self.sink(instance.receiver);
        assert!(sink.packets <= sent, "flow {} {}: no datagram came from nowhere", instance.flow, instance.instance);
        FlowRow {
            flow: instance.flow.clone(),
            instance: u64::from(instance.instance),
            bytes: sink.payload().get(),
            start_ns: instance.start.as_nanos(),
            active_ns: end.since(instance.start).as_nanos(),
            delivered_bytes: sink.payload().get(),
            wire_bytes: sink.bytes.get(),
            segments_sent: sent,
            ..FlowRow::default()
        }
    }

    /// What arrived of a stream of datagrams.
    fn sink(&self, at: Endpoint) -> &Sink {
        match self.host(usize::from(at.node)).stream(at) {
            Some(Stream::Sink(sink)) => sink,
            _ => unreachable!("who receives is a sink"),
        }
    }

    /// Bytes on the wire that have arrived at the receiving end of a flow.
    pub(super) fn arrived_bytes(&self, instance: &Instance) -> u64 {
        match instance.kind {
            Kind::Datagrams => self.sink(instance.receiver).bytes.get(),
            Kind::Media => self.media_sink(instance).bytes.get(),
            Kind::Transfer | Kind::Requests => {
                let end = self.end(instance.receiver);
                (end.record.wire + end.past().iter().map(|past| past.wire).sum()).get()
            }
        }
    }

    fn flow_row(&self, instance: &Instance, end: Time) -> FlowRow {
        let (sender, receiver) = (self.end(instance.sender), self.end(instance.receiver));
        let split = instance.split.map(|split| self.split(split));
        conserve_bytes(instance, sender, receiver, split.as_ref());
        let since_start = |at: Time| at.since(instance.start).as_nanos();
        let failed = [sender, receiver].into_iter().filter_map(|end| end.record.failed).min();
        let delivered = receiver.record.read.saturating_sub(instance.header).min(instance.bytes.unwrap_or(Bytes::MAX));
        let transferred = receiver.record.all_read;
        let mut counters = sender.connection().counters();
        let mut spurious = receiver.connection().duplicates_received();
        if let Some(Split { legs: [faces_from, faces_to], .. }) = &split {
            // The data are sent twice, and both senders' work counts.
            let onward = faces_to.connection.counters();
            counters.timeouts += onward.timeouts;
            counters.fast_retransmits += onward.fast_retransmits;
            counters.segments += onward.segments;
            counters.retransmits += onward.retransmits;
            spurious += faces_from.connection.duplicates_received();
        }
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
            spurious,
            rtt_ns: sender.record.rtt.summary().map(|rtt| rtt.map(|rtt| rtt.as_nanos())),
            cwnd_max_bytes: sender.record.cwnd_max.get(),
            fault: fault(sender).or(fault(receiver)).unwrap_or_default().into(),
        }
    }
}

/// The two connections of a proxy that split a flow, first the one that faces the sender of the data.
struct Split<'a> {
    legs: [&'a Leg; 2],
    /// Bytes that the proxy still held at the end, towards the sender and towards the receiver.
    held: [Bytes; 2],
}

/// Checks that no byte of a flow came from nowhere, was read twice, or was taken for arrived when it was not.
fn conserve_bytes(instance: &Instance, sender: &End, receiver: &End, split: Option<&Split<'_>>) {
    let [sender, receiver] = [sender, receiver].map(|end| (end.connection(), end.record.read));
    let Some(Split { legs, held }) = split else { return conserve_both_ways(instance, sender, receiver) };
    let [faces_from, faces_to] = legs.map(|leg| (&leg.connection, leg.read));
    conserve_both_ways(instance, sender, faces_from);
    conserve_both_ways(instance, faces_to, receiver);
    for (read, written, held) in [(legs[0].read, legs[1].written, held[1]), (legs[1].read, legs[0].written, held[0])] {
        assert!(
            read == written + held,
            "flow {} {}: what the proxy read ({read}) it wrote ({written}) or holds ({held})",
            instance.flow,
            instance.instance
        );
    }
}

/// The same for one connection, given its ends and what was read there.
fn conserve_both_ways(instance: &Instance, a: (&Connection, Bytes), b: (&Connection, Bytes)) {
    for ((from, _), (to, read)) in [(a, b), (b, a)] {
        let (acknowledged, arrived) = (from.acknowledged(), to.received());
        let (sent, unread) = (from.counters().bytes, to.readable());
        assert!(
            acknowledged <= arrived && arrived == read + unread && arrived.get() <= sent,
            "flow {} {}: what is acknowledged ({acknowledged}) has arrived ({arrived}), what arrived was read ({read}) \
             or waits ({unread}), and it was sent ({sent}B)",
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

/// To which connection an address belongs, and whether it is the end that sends the data.
type Owners = BTreeMap<Endpoint, (usize, bool)>;

/// What was recorded, put in order.
impl World {
    fn run_trace(&self) -> RunTrace {
        let mut names = Interner::default();
        let mut events: Vec<(Arc<str>, Event)> = Vec::new();
        let mut captures = Vec::new();
        for (node, name) in self.network.nodes.iter().enumerate() {
            let log = match &self.network.graph.nodes()[node] {
                Piece::Host(host) => host.log(),
                Piece::Proxy(proxy) => proxy.log(),
                Piece::Link(_) | Piece::Cable(_) | Piece::Docsis(_) | Piece::Router(_) | Piece::Edge(_) => continue,
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

    /// A reader for each end of each connection, and whose packets are whose.
    fn readers(&self, names: &mut Interner) -> (Vec<[EndReader; 2]>, Owners) {
        let mut owners = Owners::new();
        let mut readers = Vec::new();
        // Connections one after another have no one beginning, and datagrams no connection.
        for instance in self.flows.iter().filter(|instance| instance.kind == Kind::Transfer) {
            let mut reader = |at: Endpoint, isn| {
                let host = names.intern(&self.network.nodes[usize::from(at.node)]);
                EndReader::new(names.intern(&instance.flow), u64::from(instance.instance), host, isn)
            };
            let [from, to] = [(instance.sender, instance.isn[0]), (instance.receiver, instance.isn[1])];
            let connections = match instance.split {
                None => vec![[from, to]],
                Some(Between { at, isn }) => vec![[from, (at[0], isn[0])], [(at[1], isn[1]), to]],
            };
            for [(sender, sender_isn), (receiver, receiver_isn)] in connections {
                owners.insert(sender, (readers.len(), true));
                owners.insert(receiver, (readers.len(), false));
                readers.push([reader(sender, sender_isn), reader(receiver, receiver_isn)]);
            }
        }
        (readers, owners)
    }

    fn series(&self, names: &mut Interner) -> Vec<SeriesRow> {
        let mut rows = Vec::new();
        for instance in self.flows.iter().filter(|instance| matches!(instance.kind, Kind::Transfer | Kind::Requests)) {
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
