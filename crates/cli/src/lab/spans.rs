//! The bytes of flows and links in equal spans of time, as the simulator's table of intervals has them.
//!
//! Spans follow the reactor's clock: they begin with it and not with the run, and one ends some microseconds after it should.

use std::sync::{Arc, Mutex};

use headend_engine::time::{Duration, Time};
use headend_scenario::Scenario;
use headend_scenario::results::IntervalRow;
use headend_sim::network::Network;

use super::between::Between;
use super::errand::Errand;
use super::socket::SocketFlow;
use super::stream::Stream;
use super::traffic::Transfer;
use super::watch::{Beside, Watched};

/// The reactor reports so often without a span in the scenario.
const USUAL: Duration = Duration::from_secs(1);

/// The counts at the end of each span.
#[derive(Debug)]
pub(super) struct Spans {
    length: Option<Duration>,
    /// Flow and instance: connections first, then streams, then sockets, then programs.
    flows: Vec<(String, u32)>,
    seen: (Arc<Mutex<Vec<Watched>>>, Arc<Mutex<Beside>>),
    /// Link and direction.
    links: Vec<(String, String)>,
    noted: Vec<Noted>,
}

/// The counts so far at one time.
#[derive(Debug)]
struct Noted {
    at: Time,
    /// Bytes that arrived, of each flow.
    flows: Vec<u64>,
    /// Bytes that were delivered and bytes that wait, of each direction of each link.
    links: Vec<(u64, u64)>,
}

impl Spans {
    pub(super) fn new(
        scenario: &Scenario,
        (transfers, streams, errands, sockets): (&[Transfer], &[Stream], &[Errand], &[SocketFlow]),
        seen: (Arc<Mutex<Vec<Watched>>>, Arc<Mutex<Beside>>),
    ) -> Spans {
        let connections = transfers.iter().map(|transfer| (transfer.flow.name.clone(), transfer.instance));
        let flows = connections.chain(streams.iter().map(|stream| (stream.flow.name.clone(), stream.instance)));
        let flows = flows.chain(sockets.iter().map(|flow| (flow.flow.name.clone(), flow.instance)));
        let flows = flows.chain(errands.iter().map(|errand| (errand.flow.name.clone(), errand.instance)));
        Spans { length: scenario.interval, flows: flows.collect(), seen, links: Vec::new(), noted: Vec::new() }
    }

    /// The time between two reports of the reactor.
    pub(super) fn length(&self) -> Duration {
        self.length.unwrap_or(USUAL)
    }

    /// Notes the counts at the end of a span.
    pub(super) fn note(&mut self, now: Time, network: &Network) {
        if self.length.is_none() {
            return;
        }
        let ways = network.ways();
        if self.links.is_empty() {
            self.links = ways.iter().map(|way| (way.link.to_owned(), way.direction.clone())).collect();
        }
        let (watched, beside) = &self.seen;
        let beside = beside.lock().expect("nobody panics while it counts");
        let connections = self.flows.len() - beside.streams.len() - beside.programs.len();
        let watched = watched.lock().expect("nobody panics while it watches");
        let mut flows: Vec<u64> = watched.iter().take(connections).map(Watched::wire_bytes).collect();
        flows.extend(beside.streams.iter().map(|it| it.bytes));
        flows.extend(beside.programs.iter().map(Between::wire_bytes));
        let links = ways.iter().map(|way| (way.stats().delivered_bytes, way.backlog().1.get())).collect();
        self.noted.push(Noted { at: now, flows, links });
    }

    /// The rows of the whole spans between these two times, which are counted from the first.
    pub(super) fn rows(&self, begun: Time, ended: Time) -> Vec<IntervalRow> {
        let mut rows = Vec::new();
        for pair in self.noted.windows(2).filter(|pair| pair[0].at >= begun && pair[1].at <= ended) {
            let [before, now] = pair else { unreachable!("windows of two") };
            let mut row = |kind: &str, name: &str, part: &str, bytes, queue_bytes| {
                let end_ns = now.at.since(begun).as_nanos();
                let [kind, name, part] = [kind, name, part].map(Into::into);
                rows.push(IntervalRow { kind, name, part, end_ns, bytes, queue_bytes });
            };
            for (number, (name, instance)) in self.flows.iter().enumerate() {
                // A connection that is seen no more takes nothing back.
                let bytes = now.flows[number].saturating_sub(before.flows[number]);
                row("flow", name, &instance.to_string(), bytes, 0);
            }
            for (number, (link, direction)) in self.links.iter().enumerate() {
                let (delivered, queue_bytes) = now.links[number];
                row("link", link, direction, delivered - before.links[number].0, queue_bytes);
            }
        }
        rows
    }
}
