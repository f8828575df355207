//! What a run records on demand: time series of senders, what happened to each packet, and captures.

use std::sync::Arc;

use headend_engine::packet::{Body, Packet};
use headend_engine::tcp::connection::Snapshot;
use headend_engine::tcp::segment::{Flags, Segment};
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use crate::pcapng::Capture;
use crate::results::{Column, RunOutcome, Swept, Table, seconds};

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
    pub(crate) series: Vec<SeriesRow>,
    pub(crate) packets: Vec<PacketRow>,
    pub(crate) captures: Vec<(Arc<str>, Capture)>,
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
    pub(crate) fn of(time: Time, state: &Snapshot) -> Sample {
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
pub(crate) struct SeriesRow {
    pub(crate) flow: Arc<str>,
    pub(crate) instance: u64,
    pub(crate) sample: Sample,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Sent,
    Received,
    Dropped,
    Lost,
}

/// Something that happened to a packet at a place that keeps a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) time: Time,
    pub(crate) what: What,
    pub(crate) packet: Packet,
}

/// An event as the packet table shows it.
#[derive(Clone, Debug)]
pub(crate) struct PacketRow {
    time: Time,
    place: Arc<str>,
    what: What,
    from: Arc<str>,
    id: u64,
    flow: Arc<str>,
    instance: u64,
    flags: Arc<str>,
    seq: u64,
    ack: u64,
    len: u64,
    retransmission: bool,
}

/// One end of a flow, as seen by whoever reads its packets: it turns sequence numbers into places in the stream.
#[derive(Clone, Debug)]
pub(crate) struct EndReader {
    pub(crate) flow: Arc<str>,
    pub(crate) instance: u64,
    pub(crate) host: Arc<str>,
    isn: u32,
    /// Stream position near which the next sequence number lies.
    near: u64,
    /// End of the stream as far as this end has sent it.
    sent: u64,
    /// The first packet that was sent with data that had been sent before, and those after it, ascending.
    retransmissions: Vec<u64>,
}

impl EndReader {
    /// A reader for what the end of this flow on `host` sends, counted from `isn`.
    pub(crate) fn new(flow: Arc<str>, instance: u64, host: Arc<str>, isn: u32) -> EndReader {
        EndReader { flow, instance, host, isn, near: 0, sent: 0, retransmissions: Vec::new() }
    }

    /// The place in the stream that `number` means: the one nearest to the last one, SYN at 0 and the first byte at 1.
    fn position(&mut self, number: u32) -> u64 {
        let near_number = self.isn.wrapping_add(self.near as u32);
        let step = i64::from(number.wrapping_sub(near_number) as i32);
        self.near = self.near.saturating_add_signed(step);
        self.near
    }
}

/// Reads `event`, which happened at `place` to a packet from `sender` to `receiver`.
pub(crate) fn read_event(
    event: &Event,
    place: &Arc<str>,
    sender: &mut EndReader,
    receiver: &mut EndReader,
    flag_names: &mut impl FnMut(&str) -> Arc<str>,
) -> Option<PacketRow> {
    let Body::Tcp(segment) = &event.packet.body else { return None };
    let start = sender.position(segment.seq);
    let end = start + u64::from(segment.len);
    if event.what == What::Sent && segment.len > 0 {
        if start < sender.sent {
            sender.retransmissions.push(event.packet.id);
        }
        sender.sent = sender.sent.max(end);
    }
    Some(PacketRow {
        time: event.time,
        place: place.clone(),
        what: event.what,
        from: sender.host.clone(),
        id: event.packet.id,
        flow: sender.flow.clone(),
        instance: sender.instance,
        flags: flag_names(&flag_letters(segment)),
        seq: start.saturating_sub(1),
        ack: if segment.flags.ack { receiver.position(segment.ack).saturating_sub(1) } else { 0 },
        len: u64::from(segment.len),
        retransmission: sender.retransmissions.binary_search(&event.packet.id).is_ok(),
    })
}

fn flag_letters(segment: &Segment) -> String {
    let Flags { syn, ack, fin, rst, psh } = segment.flags;
    [(syn, 'S'), (fin, 'F'), (rst, 'R'), (psh, 'P'), (ack, 'A')]
        .iter()
        .filter(|(set, _)| *set)
        .map(|&(_, c)| c)
        .collect()
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
