//! Records of a run that are made on demand: time series of senders, what happened to each packet, and captures.

use std::sync::Arc;

use headend_engine::tcp::connection::Snapshot;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use super::columns::{self, ColumnOf, count, name, number};
use super::{RunOutcome, Swept, Table, seconds};
use crate::pcapng::Capture;

/// The traces of all runs of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces {
    /// Senders, a row for each change.
    pub series: Table,
    /// Packets, a row for each event.
    pub packets: Table,
    /// The packets that each host saw, as files.
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

/// The records of one run.
#[derive(Clone, Debug, Default)]
pub struct RunTrace {
    /// Samples of each sender.
    pub series: Vec<SeriesRow>,
    /// The events that happened to packets.
    pub packets: Vec<PacketRow>,
    /// The packets that each host saw, by its name.
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

    /// Turns the captures into each host's name and a pcapng file, in the order of the nodes.
    pub fn into_captures(self) -> impl Iterator<Item = (Arc<str>, Vec<u8>)> {
        self.captures.into_iter().map(|(host, capture)| (host, capture.into_bytes()))
    }
}

/// The state of a sender at a moment; sizes and places in the stream in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time of the sample.
    pub time: Time,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `None` before the first congestion.
    pub ssthresh: Option<u64>,
    /// Bytes sent, and neither acknowledged nor taken for lost.
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
    /// The number of the instance among the flow's `count`, from 0.
    pub instance: u64,
    /// The sample.
    pub sample: Sample,
}

/// An event that can happen to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The packet left a host.
    Sent,
    /// The packet came to a host.
    Received,
    /// A queue dropped the packet.
    Dropped,
    /// The medium destroyed the packet.
    Lost,
}

/// An event as the packet table shows it.
#[derive(Clone, Debug)]
pub struct PacketRow {
    /// The time of the event.
    pub time: Time,
    /// A host, or a link and its direction.
    pub place: Arc<str>,
    /// The event.
    pub what: What,
    /// The host that sent it.
    pub from: Arc<str>,
    /// A number that is unique among the packets of that host.
    pub id: u64,
    /// The flow's name in the scenario.
    pub flow: Arc<str>,
    /// The number of the instance among the flow's `count`, from 0.
    pub instance: u64,
    /// The segment's flags, as letters of `SFRPA`.
    pub flags: Arc<str>,
    /// First byte of the stream in it, from 0.
    pub seq: u64,
    /// The byte of the other stream that its sender wants next, from 0.
    pub ack: u64,
    /// Payload bytes.
    pub len: u64,
    /// True if its data had been sent before.
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
        Traces {
            series: columns::table(&series, SERIES, swept),
            packets: columns::table(&packets, PACKETS, swept),
            captures,
        }
    }
}

/// The columns of the table of senders.
pub(super) const SERIES: &[ColumnOf<SeriesRow>] = &[
    name("flow", |row| &row.flow, "Name of the flow in the scenario."),
    count("instance", "", |_, row| row.instance, "Which of the flow's `count` instances, from 0."),
    number("time_s", "s", |_, row| row.sample.time.as_secs_f64(), "Time of the change, from the beginning of the run."),
    count("cwnd_bytes", "B", |_, row| row.sample.cwnd, "Congestion window from then on."),
    number(
        "ssthresh_bytes",
        "B",
        |_, row| row.sample.ssthresh.map_or(f64::NAN, |bytes| bytes as f64),
        "Slow-start threshold; none before the first congestion.",
    ),
    count(
        "in_flight_bytes",
        "B",
        |_, row| row.sample.in_flight,
        "Bytes sent, and neither acknowledged nor taken for lost.",
    ),
    number("rto_s", "s", |_, row| seconds(row.sample.rto.as_nanos()), "Retransmission time-out."),
    count("una_bytes", "B", |_, row| row.sample.una, "First byte of the stream that is not acknowledged, from 0."),
    count("nxt_bytes", "B", |_, row| row.sample.nxt, "Next byte of the stream to be sent, from 0."),
];

/// The columns of the table of packets.
pub(super) const PACKETS: &[ColumnOf<PacketRow>] = &[
    name("flow", |row| &row.flow, "Name of the flow in the scenario."),
    count("instance", "", |_, row| row.instance, "Which of the flow's `count` instances, from 0."),
    number("time_s", "s", |_, row| row.time.as_secs_f64(), "Time of the event, from the beginning of the run."),
    name("place", |row| &row.place, "Where it happened: a host, or a link and its direction."),
    name(
        "event",
        |row| row.what.name(),
        "`sent` by a host, `received` by a host, `dropped` by a queue, or `lost` on the medium.",
    ),
    name("from", |row| &row.from, "Host that sent the packet."),
    count("id", "", |_, row| row.id, "Number of the packet, which no other packet of that host has."),
    name("flags", |row| &row.flags, "TCP flags as letters of `SFRPA`: SYN, FIN, RST, PSH, ACK."),
    count("seq", "B", |_, row| row.seq, "First byte of the stream that is in it, from 0."),
    count("ack", "B", |_, row| row.ack, "Byte of the other stream that its sender wants next, from 0."),
    count("len", "B", |_, row| row.len, "Bytes of payload."),
    count("retransmission", "0 or 1", |_, row| u64::from(row.retransmission), "1 if its data had been sent before."),
];
