//! What runs yield: tables of equally long columns, each with a name that ends in its unit.

mod circuits;
mod folder;
mod media;
pub mod trace;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use folder::JOURNAL;
use trace::Traces;

/// What a sweep yields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// One row per flow instance; see [`FlowRow`].
    pub flows: Table,
    /// One row per link direction; see [`LinkRow`].
    pub links: Table,
    /// One row per circuit, if the scenario has any; see [`CircuitRow`].
    pub circuits: Option<Table>,
    /// One row per flow of frames, if the scenario has any; see [`MediaRow`].
    pub media: Option<Table>,
    /// One row per flow instance and link direction and span of time, if the scenario asks for it; see [`IntervalRow`].
    pub intervals: Option<Table>,
    /// What was recorded on demand.
    pub traces: Option<Traces>,
}

/// Named columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Counts, sizes and indices.
    U64(Vec<u64>),
    /// Times, rates and ratios; NaN where there is no value.
    F64(Vec<f64>),
    /// Names; rows with the same text share it.
    Text(Vec<Arc<str>>),
}

impl Table {
    /// Adds a column. Panics if its name is taken or its length is not that of the others.
    pub fn push(&mut self, name: impl Into<String>, column: Column) {
        let name = name.into();
        assert!(self.column(&name).is_none(), "a table has one column called {name}");
        if let Some((first, other)) = self.columns.first() {
            assert_eq!(column.len(), other.len(), "columns {name} and {first} are equally long");
        }
        self.columns.push((name, column));
    }

    /// The columns and their names, in order.
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    /// The columns and their names, to hand their memory on.
    pub fn into_columns(self) -> Vec<(String, Column)> {
        self.columns
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// A table with the columns that say which run a row belongs to.
    pub fn of_runs<T>(rows: &[(&RunOutcome, T)], swept: &[Swept]) -> Table {
        let mut table = Table::default();
        table.counts("point", rows, |(run, _)| run.point as u64);
        for (path, values) in swept {
            table.names(path, rows, |(run, _)| values[run.point].clone());
        }
        table.counts("run", rows, |(run, _)| run.run);
        table.counts("seed", rows, |(run, _)| run.seed);
        table
    }

    /// Adds a column of counts that `value` takes from each of `items`.
    pub fn counts<T>(&mut self, name: &str, items: &[T], value: impl Fn(&T) -> u64) {
        self.push(name, Column::U64(items.iter().map(value).collect()));
    }

    /// Adds a column of numbers that `value` takes from each of `items`.
    pub fn numbers<T>(&mut self, name: &str, items: &[T], value: impl Fn(&T) -> f64) {
        self.push(name, Column::F64(items.iter().map(value).collect()));
    }

    /// Adds a column of names that `value` takes from each of `items`.
    pub fn names<T>(&mut self, name: &str, items: &[T], value: impl Fn(&T) -> Arc<str>) {
        self.push(name, Column::Text(items.iter().map(value).collect()));
    }
}

impl Column {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Column::U64(values) => values.len(),
            Column::F64(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values if they are counts.
    pub fn as_u64(&self) -> Option<&[u64]> {
        if let Column::U64(values) = self { Some(values) } else { None }
    }

    /// The values if they are numbers.
    pub fn as_f64(&self) -> Option<&[f64]> {
        if let Column::F64(values) = self { Some(values) } else { None }
    }

    /// The values if they are names.
    pub fn as_text(&self) -> Option<&[Arc<str>]> {
        if let Column::Text(values) = self { Some(values) } else { None }
    }
}

/// What one run of one point yields. Whole numbers only, so that a journal keeps it exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The point of the sweep.
    pub point: usize,
    /// The run of that point, from 0.
    pub run: u64,
    /// The seed of that run.
    pub seed: u64,
    /// When the run ended, in nanoseconds.
    pub end_ns: u64,
    /// Flow instances in the order of the scenario.
    pub flows: Vec<FlowRow>,
    /// Link directions in the order of the scenario.
    pub links: Vec<LinkRow>,
    /// Circuits in the order of the scenario.
    #[serde(default)]
    pub circuits: Vec<CircuitRow>,
    /// Flows of frames in the order of the scenario.
    #[serde(default)]
    pub media: Vec<MediaRow>,
    /// Spans of time, if the scenario asks for them.
    #[serde(default)]
    pub intervals: Vec<IntervalRow>,
}

/// What one circuit did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitRow {
    /// The circuit's name in the scenario.
    pub circuit: Arc<str>,
    /// Bytes of users' packets sent under the control of its TCPs.
    pub controlled_bytes: u64,
    /// Bytes of users' packets sent at the guaranteed rate.
    pub guaranteed_bytes: u64,
    /// Header packets sent, those sent again included; segments, if users' packets are inside of them.
    pub headers: u64,
    /// Of those, sent again.
    pub header_retransmits: u64,
    /// Retransmission time-outs of its TCPs.
    pub timeouts: u64,
    /// Fast retransmits of its TCPs.
    pub fast_retransmits: u64,
    /// Users' packets that came to its queue.
    pub arrived: u64,
    /// Users' packets that its queue dropped.
    pub dropped: u64,
    /// Most packets that waited in its queue.
    pub queue_max_packets: u64,
    /// Most bytes that waited in its queue.
    pub queue_max_bytes: u64,
    /// TCPs of it that have given up.
    pub failed: u64,
    /// Bytes that left its sending end, all headers included; of a circuit between routers.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes that left its receiving end for the sending one.
    #[serde(default)]
    pub answered_bytes: u64,
    /// Packets of its own that left in fragments.
    #[serde(default)]
    pub fragmented: u64,
    /// Users' packets that have left it, if the scenario asks for its delays.
    #[serde(default)]
    pub passed: u64,
    /// Their bytes.
    #[serde(default)]
    pub passed_bytes: u64,
    /// Of those, that came after one that had entered later.
    #[serde(default)]
    pub reordered: u64,
    /// From entering the tunnel queue to leaving the circuit: mean, quantile 95 per cent and largest.
    #[serde(default)]
    pub delay_ns: Option<[u64; 3]>,
    /// The same from leaving the tunnel queue.
    #[serde(default)]
    pub carried_ns: Option<[u64; 3]>,
}

/// What became of the frames of one flow instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRow {
    /// The flow's name in the scenario.
    pub flow: Arc<str>,
    /// Which of its `count` instances, from 0.
    pub instance: u64,
    /// From the start to the end of the run.
    pub active_ns: u64,
    /// Frames that were made. Each is one of the next seven.
    pub frames: u64,
    /// Whole at the other end by the deadline.
    pub on_time: u64,
    /// Whole at the other end after it.
    pub late: u64,
    /// Not whole: something of it was lost.
    pub broken: u64,
    /// Not sent, because there was no room for it to wait.
    pub skipped: u64,
    /// Taken back when stale, whole or what was left.
    pub withdrawn: u64,
    /// Likewise, and the newest came in its place.
    pub replaced: u64,
    /// Under way or waiting when the run ended.
    pub pending: u64,
    /// Of those withdrawn or replaced, those of which something had left.
    pub cut: u64,
    /// Frames of which something left its host after the deadline.
    pub stale_sent: u64,
    /// Bytes of the frames on time.
    pub on_time_bytes: u64,
    /// How often the source went to another rate.
    pub rate_changes: u64,
    /// From being made to being whole at the other end, of all frames that were: mean.
    pub delay_mean_ns: Option<u64>,
    /// The quantile 95 per cent.
    pub delay_p95_ns: Option<u64>,
    /// The largest.
    pub delay_max_ns: Option<u64>,
}

/// What a flow instance or a link direction did in a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// `flow` or `link`.
    pub kind: Arc<str>,
    /// The flow's or link's name in the scenario.
    pub name: Arc<str>,
    /// Which of the flow's instances, or which direction of the link.
    pub part: Arc<str>,
    /// When the span ended.
    pub end_ns: u64,
    /// Bytes of packets that arrived in it, at the flow's receiver or at the link's end.
    pub bytes: u64,
    /// Bytes that waited before the link when it ended.
    pub queue_bytes: u64,
}

/// What one flow instance did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    /// The flow's name in the scenario.
    pub flow: String,
    /// Which of its `count` instances, from 0.
    pub instance: u64,
    /// The bytes asked for; of a flow without end, the bytes delivered.
    pub bytes: u64,
    /// When it started.
    pub start_ns: u64,
    /// From the start to the last data byte at the receiver, if it came.
    pub transfer_ns: Option<u64>,
    /// From the start to the last acknowledgement at the sender, if it came.
    pub acked_ns: Option<u64>,
    /// From the start to the end of the transfer, of the connection or of the run, whichever was first.
    pub active_ns: u64,
    /// Bytes of the file delivered in order, at most `bytes`.
    pub delivered_bytes: u64,
    /// Bytes that arrived at the receiver, headers and repetitions included.
    pub wire_bytes: u64,
    /// Retransmission time-outs of the sender.
    pub timeouts: u64,
    /// Fast retransmits of the sender.
    pub fast_retransmits: u64,
    /// Data segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Data segments sent again.
    pub retransmits: u64,
    /// Data segments sent again whose bytes had all arrived.
    pub spurious: u64,
    /// Round-trip times as measured by the sender: smallest, then the quantiles 50, 95 and 99 per cent.
    pub rtt_ns: Option<[u64; 4]>,
    /// Largest congestion window.
    pub cwnd_max_bytes: u64,
    /// Why the connection failed; empty if it did not.
    pub fault: String,
}

/// What one direction of a link did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// The link's name in the scenario.
    pub link: Arc<str>,
    /// Which channel of it.
    pub direction: Arc<str>,
    /// Packets offered.
    pub arrived: u64,
    /// Packets handed over at the far end.
    pub delivered: u64,
    /// Packets that the queue refused or evicted.
    pub dropped: u64,
    /// Of those, packets of circuits' users.
    #[serde(default)]
    pub dropped_user: u64,
    /// Of those, header packets of circuits.
    #[serde(default)]
    pub dropped_headers: u64,
    /// Most bytes ever waiting, the packet in service not counted.
    #[serde(default)]
    pub queue_bytes_max: u64,
    /// Packets lost on the medium.
    pub lost: u64,
    /// Bytes handed over at the far end.
    pub delivered_bytes: u64,
    /// Time in service.
    pub busy_ns: u64,
    /// Packets in queue and service, integrated over time.
    pub occupancy_packet_ns: u128,
    /// Most packets ever waiting, the one in service not counted.
    pub queue_max: u64,
    /// Packets whose service ended.
    pub served: u64,
    /// Time from entry to the end of service, summed over the served packets.
    pub sojourn_ns: u128,
}

/// A swept field: its path, and its value at each point, as text.
pub type Swept = (String, Vec<Arc<str>>);

impl Results {
    /// The tables of these runs, which are in the order of their points and run numbers.
    pub fn of(runs: &[RunOutcome], swept: &[Swept], traces: Option<Traces>) -> Results {
        let intervals = interval_table(runs, swept);
        let circuits = circuits::table(runs, swept);
        let media = media::table(runs, swept);
        Results { flows: flow_table(runs, swept), links: link_table(runs, swept), circuits, media, intervals, traces }
    }
}

/// Nanoseconds as seconds.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn flow_table(runs: &[RunOutcome], swept: &[Swept]) -> Table {
    let rows: Vec<_> = runs.iter().flat_map(|run| run.flows.iter().map(move |flow| (run, flow))).collect();
    let mut names = Interner::default();
    let mut table = Table::of_runs(&rows, swept);
    let flows = rows.iter().map(|(_, flow)| names.intern(&flow.flow)).collect();
    table.push("flow", Column::Text(flows));
    table.counts("instance", &rows, |(_, flow)| flow.instance);
    table.counts("bytes", &rows, |(_, flow)| flow.bytes);
    table.numbers("start_s", &rows, |(_, flow)| seconds(flow.start_ns));
    table.counts("completed", &rows, |(_, flow)| u64::from(flow.transfer_ns.is_some() && flow.fault.is_empty()));
    table.numbers("transfer_s", &rows, |(_, flow)| flow.transfer_ns.map_or(f64::NAN, seconds));
    table.numbers("acked_s", &rows, |(_, flow)| flow.acked_ns.map_or(f64::NAN, seconds));
    table.numbers("goodput_bps", &rows, |(_, flow)| bits_per_second(flow.delivered_bytes, flow.active_ns));
    table.numbers("throughput_bps", &rows, |(_, flow)| bits_per_second(flow.wire_bytes, flow.active_ns));
    table.counts("timeouts", &rows, |(_, flow)| flow.timeouts);
    table.counts("fast_retransmits", &rows, |(_, flow)| flow.fast_retransmits);
    table.counts("segments_sent", &rows, |(_, flow)| flow.segments_sent);
    table.counts("retransmits", &rows, |(_, flow)| flow.retransmits);
    table.counts("spurious", &rows, |(_, flow)| flow.spurious);
    for (i, name) in ["rtt_min_s", "rtt_p50_s", "rtt_p95_s", "rtt_p99_s"].into_iter().enumerate() {
        table.numbers(name, &rows, |(_, flow)| flow.rtt_ns.map_or(f64::NAN, |rtt| seconds(rtt[i])));
    }
    table.counts("cwnd_max_bytes", &rows, |(_, flow)| flow.cwnd_max_bytes);
    let faults = rows.iter().map(|(_, flow)| names.intern(&flow.fault)).collect();
    table.push("fault", Column::Text(faults));
    table
}

fn link_table(runs: &[RunOutcome], swept: &[Swept]) -> Table {
    let rows: Vec<_> = runs.iter().flat_map(|run| run.links.iter().map(move |link| (run, link))).collect();
    let mut names = Interner::default();
    let mut table = Table::of_runs(&rows, swept);
    let links = rows.iter().map(|(_, link)| names.share(&link.link)).collect();
    table.push("link", Column::Text(links));
    let directions = rows.iter().map(|(_, link)| names.share(&link.direction)).collect();
    table.push("direction", Column::Text(directions));
    table.counts("arrived", &rows, |(_, link)| link.arrived);
    table.counts("delivered", &rows, |(_, link)| link.delivered);
    table.counts("dropped", &rows, |(_, link)| link.dropped);
    table.counts("lost", &rows, |(_, link)| link.lost);
    table.counts("delivered_bytes", &rows, |(_, link)| link.delivered_bytes);
    table.numbers("utilisation", &rows, |(run, link)| ratio(link.busy_ns as f64, run.end_ns as f64));
    table.numbers("queue_mean_packets", &rows, |(run, link)| ratio(link.occupancy_packet_ns as f64, run.end_ns as f64));
    table.counts("queue_max_packets", &rows, |(_, link)| link.queue_max);
    table.counts("queue_max_bytes", &rows, |(_, link)| link.queue_bytes_max);
    table.counts("dropped_user", &rows, |(_, link)| link.dropped_user);
    table.counts("dropped_headers", &rows, |(_, link)| link.dropped_headers);
    table.numbers("sojourn_mean_s", &rows, |(_, link)| ratio(link.sojourn_ns as f64 / 1e9, link.served as f64));
    table
}

fn interval_table(runs: &[RunOutcome], swept: &[Swept]) -> Option<Table> {
    let rows: Vec<_> = runs.iter().flat_map(|run| run.intervals.iter().map(move |row| (run, row))).collect();
    if rows.is_empty() {
        return None;
    }
    let mut names = Interner::default();
    let mut table = Table::of_runs(&rows, swept);
    let mut text = |name: &str, of: fn(&IntervalRow) -> &Arc<str>| {
        table.push(name, Column::Text(rows.iter().map(|(_, row)| names.share(of(row))).collect()));
    };
    text("kind", |row| &row.kind);
    text("name", |row| &row.name);
    text("part", |row| &row.part);
    table.numbers("end_s", &rows, |(_, row)| seconds(row.end_ns));
    table.counts("bytes", &rows, |(_, row)| row.bytes);
    table.counts("queue_bytes", &rows, |(_, row)| row.queue_bytes);
    Some(table)
}

fn bits_per_second(bytes: u64, nanos: u64) -> f64 {
    ratio(bytes as f64 * 8e9, nanos as f64)
}

/// `of / to`; NaN, for "no value", if `to` is zero.
fn ratio(of: f64, to: f64) -> f64 {
    if to == 0.0 { f64::NAN } else { of / to }
}

/// Gives equal texts one allocation.
#[derive(Debug, Default)]
pub struct Interner(BTreeSet<Arc<str>>);

impl Interner {
    /// The first of the texts equal to `text` that was shared.
    fn share(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        self.0.insert(text.clone());
        text.clone()
    }

    /// The shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let fresh: Arc<str> = text.into();
        self.0.insert(fresh.clone());
        fresh
    }
}

#[cfg(test)]
mod tests;
