//! What a run records on demand: time series of senders, what happened to each packet, and captures.

use std::sync::Arc;

use headend_engine::tcp::connection::Snapshot;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use super::{Column, RunOutcome, Swept, Table, seconds};
use crate::pcapng::Capture;

/// The traces of all runs of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces {
    /// Senders, a row for each change: `flow`, `instance`, `time_s`, `cwnd_bytes`, `ssthresh_bytes` (NaN before the
    /// first congestion), `in_flight_bytes`, `rto_s`, `una_bytes`, `nxt_bytes`.
    pub series: Table,
    /// Packets, a row for each event: `flow`, `instance`, `time_s`, `place` (a host, or a link and its direction),
    /// `event` (`sent`, `received`, `dropped` by a queue, `lost` on the medium), `from` (the host), `id` (unique among
    /// the packets of that host), `flags` (of `SFRPA`), `seq` and `ack` (in bytes of the stream, the first is 0), `len`
    /// (payload bytes), `retransmission` (0/1).
    pub packets: Table,
    /// What each host saw, as files.
    pub captures: Vec<CaptureFile>,
}

/// A pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFile {
    /// The point of the sweep.
    pub point: usize,
    /// The run of that point.
    pub run: u64,
    /// The host at which the packets passed.
    pub host: Arc<str>,
    /// The file's contents.
    pub pcapng: Vec<u8>,
}

/// What one run records.
#[derive(Clone, Debug, Default)]
pub struct RunTrace {
    /// Samples of each sender.
    pub series: Vec<SeriesRow>,
    /// What happened to packets.
    pub packets: Vec<PacketRow>,
    /// What each host saw, by its name.
    pub captures: Vec<(Arc<str>, Capture)>,
}

impl RunTrace {
    /// The samples of each sender, with its flow and instance.
    pub fn series(&self) -> impl Iterator<Item = (&str, u64, &Sample)> {
        self.series.iter().map(|row| (&*row.flow, row.instance, &row.sample))
    }

    /// Notes samples of the sender of an instance of `flow`, in the order of their times.
    pub fn add_series(&mut self, flow: &str, instance: u64, samples: &[Sample]) {
        let flow: Arc<str> = flow.into();
        self.series.extend(samples.iter().map(|&sample| SeriesRow { flow: flow.clone(), instance, sample }));
    }

    /// What each host saw: its name and a pcapng file, in the order of the nodes.
    pub fn into_captures(self) -> impl Iterator<Item = (Arc<str>, Vec<u8>)> {
        self.captures.into_iter().map(|(host, capture)| (host, capture.into_bytes()))
    }
}

/// The state of a sender at a moment; sizes and places in the stream in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: Time,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `None` before the first congestion.
    pub ssthresh: Option<u64>,
    /// Sent, and neither acknowledged nor taken for lost.
    pub in_flight: u64,
    /// Retransmission time-out.
    pub rto: Duration,
    /// The first place that is not acknowledged.
    pub una: u64,
    /// The next place to be sent.
    pub nxt: u64,
}

impl Sample {
    /// This state at `time`.
    pub fn of(time: Time, state: &Snapshot) -> Sample {
        Sample {
            time,
            cwnd: state.cwnd.get(),
            ssthresh: (state.ssthresh < Bytes::MAX).then_some(state.ssthresh.get()),
            in_flight: state.in_flight.get(),
            rto: state.rto,
            una: state.una,
            nxt: state.nxt,
        }
    }

    /// True if only the time differs.
    pub fn says_the_same(&self, other: &Sample) -> bool {
        Sample { time: other.time, ..*self } == *other
    }
}

/// A sample and whose it is.
#[derive(Clone, Debug)]
pub struct SeriesRow {
    /// The flow's name in the scenario.
    pub flow: Arc<str>,
    /// Which of its `count` instances, from 0.
    pub instance: u64,
    /// The sample.
    pub sample: Sample,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It left a host.
    Sent,
    /// It came to a host.
    Received,
    /// A queue dropped it.
    Dropped,
    /// The medium destroyed it.
    Lost,
}

/// An event as the packet table shows it.
#[derive(Clone, Debug)]
pub struct PacketRow {
    /// When.
    pub time: Time,
    /// A host, or a link and its direction.
    pub place: Arc<str>,
    /// What happened.
    pub what: What,
    /// The host that sent it.
    pub from: Arc<str>,
    /// Unique among the packets of that host.
    pub id: u64,
    /// The flow's name in the scenario.
    pub flow: Arc<str>,
    /// Which of its `count` instances, from 0.
    pub instance: u64,
    /// Letters of `SFRPA`.
    pub flags: Arc<str>,
    /// First byte of the stream in it, from 0.
    pub seq: u64,
    /// The byte of the other stream that its sender wants next, from 0.
    pub ack: u64,
    /// Payload bytes.
    pub len: u64,
    /// Whether its data had been sent before.
    pub retransmission: bool,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Sent => "sent",
            What::Received => "received",
            What::Dropped => "dropped",
            What::Lost => "lost",
        }
    }
}

impl Traces {
    /// The tables of these runs and what they recorded, in the same order.
    pub fn of(runs: &[RunOutcome], traces: impl Iterator<Item = RunTrace>, swept: &[Swept]) -> Traces {
        let mut series = Vec::new();
        let mut packets = Vec::new();
        let mut captures = Vec::new();
        for (run, trace) in runs.iter().zip(traces) {
            series.extend(trace.series.into_iter().map(|row| (run, row)));
            packets.extend(trace.packets.into_iter().map(|row| (run, row)));
            captures.extend(trace.captures.into_iter().map(|(host, capture)| CaptureFile {
                point: run.point,
                run: run.run,
                host,
                pcapng: capture.into_bytes(),
            }));
        }
        Traces { series: series_table(&series, swept), packets: packet_table(&packets, swept), captures }
    }
}

fn series_table(rows: &[(&RunOutcome, SeriesRow)], swept: &[Swept]) -> Table {
    let mut table = Table::of_runs(rows, swept);
    table.names("flow", rows, |(_, row)| row.flow.clone());
    table.counts("instance", rows, |(_, row)| row.instance);
    table.numbers("time_s", rows, |(_, row)| row.sample.time.as_secs_f64());
    table.counts("cwnd_bytes", rows, |(_, row)| row.sample.cwnd);
    table.numbers("ssthresh_bytes", rows, |(_, row)| row.sample.ssthresh.map_or(f64::NAN, |bytes| bytes as f64));
    table.counts("in_flight_bytes", rows, |(_, row)| row.sample.in_flight);
    table.numbers("rto_s", rows, |(_, row)| seconds(row.sample.rto.as_nanos()));
    table.counts("una_bytes", rows, |(_, row)| row.sample.una);
    table.counts("nxt_bytes", rows, |(_, row)| row.sample.nxt);
    table
}

fn packet_table(rows: &[(&RunOutcome, PacketRow)], swept: &[Swept]) -> Table {
    let mut table = Table::of_runs(rows, swept);
    table.names("flow", rows, |(_, row)| row.flow.clone());
    table.counts("instance", rows, |(_, row)| row.instance);
    table.numbers("time_s", rows, |(_, row)| row.time.as_secs_f64());
    table.names("place", rows, |(_, row)| row.place.clone());
    let [sent, received, dropped, lost]: [Arc<str>; 4] =
        [What::Sent, What::Received, What::Dropped, What::Lost].map(|what| what.name().into());
    let event = |what| match what {
        What::Sent => sent.clone(),
        What::Received => received.clone(),
        What::Dropped => dropped.clone(),
        What::Lost => lost.clone(),
    };
    table.push("event", Column::Text(rows.iter().map(|(_, row)| event(row.what)).collect()));
    table.names("from", rows, |(_, row)| row.from.clone());
    table.counts("id", rows, |(_, row)| row.id);
    table.names("flags", rows, |(_, row)| row.flags.clone());
    table.counts("seq", rows, |(_, row)| row.seq);
    table.counts("ack", rows, |(_, row)| row.ack);
    table.counts("len", rows, |(_, row)| row.len);
    table.counts("retransmission", rows, |(_, row)| u64::from(row.retransmission));
    table
}
