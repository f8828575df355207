//! The table of flows.

use serde::{Deserialize, Serialize};

use super::columns::{ColumnOf, count, name, number};
use super::{bits_per_second, seconds};

/// One flow instance's row: what it did in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRow {
    /// The flow's name in the scenario.
    pub flow: String,
    /// The number of the instance among the flow's `count`, from 0.
    pub instance: u64,
    /// The bytes asked for; of a flow without end, the bytes delivered.
    pub bytes: u64,
    /// The time at which it started.
    pub start_ns: u64,
    /// The time from the start to the last data byte at the receiver, if it came.
    pub transfer_ns: Option<u64>,
    /// The time from the start to the last acknowledgement at the sender, if it came.
    pub acked_ns: Option<u64>,
    /// The time from the start to the end of the transfer, of the connection or of the run, whichever was first.
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
    /// The reason why the connection failed; empty if it did not.
    pub fault: String,
}

/// The columns of the table.
pub(super) const COLUMNS: &[ColumnOf<FlowRow>] = &[
    name("flow", |flow| &flow.flow, "Name of the flow in the scenario."),
    count(
        "instance",
        "",
        |_, flow| flow.instance,
        "Which of the flow's `count` instances, from 0. An instance of kind `requests` has a row for each request.",
    ),
    count(
        "bytes",
        "B",
        |_, flow| flow.bytes,
        "Bytes that the flow was asked to transfer; of one that ends with the run, those delivered.",
    ),
    number(
        "start_s",
        "s",
        |_, flow| seconds(flow.start_ns),
        "When the instance started: before its hand-shake, if it has one.",
    ),
    count(
        "completed",
        "0 or 1",
        |_, flow| u64::from(flow.transfer_ns.is_some() && flow.fault.is_empty()),
        "1 if all bytes arrived and the connection did not fail.",
    ),
    number(
        "transfer_s",
        "s",
        |_, flow| flow.transfer_ns.map_or(f64::NAN, seconds),
        "Time from the start until the last byte of data arrived at the receiver; none if it did not.",
    ),
    number(
        "acked_s",
        "s",
        |_, flow| flow.acked_ns.map_or(f64::NAN, seconds),
        "Time from the start until the sender heard that everything had arrived; none if it did not.",
    ),
    number(
        "goodput_bps",
        "bit/s",
        |_, flow| bits_per_second(flow.delivered_bytes, flow.active_ns),
        "Bits of the file delivered in order, over the time from the start to the end of the transfer, of the connection or of the run, whichever came first. Of a completed transfer: 8 `bytes` / `transfer_s`.",
    ),
    number(
        "throughput_bps",
        "bit/s",
        |_, flow| bits_per_second(flow.wire_bytes, flow.active_ns),
        "Bits that arrived at the receiver over the same time, headers and repetitions included.",
    ),
    count(
        "timeouts",
        "",
        |_, flow| flow.timeouts,
        "Retransmission time-outs of the sender. Of a flow that a proxy splits, both senders' together, here and in the four columns that follow.",
    ),
    count(
        "fast_retransmits",
        "",
        |_, flow| flow.fast_retransmits,
        "Times that duplicate acknowledgements, or what stands for them, made the sender send again.",
    ),
    count(
        "segments_sent",
        "packets",
        |_, flow| flow.segments_sent,
        "Segments with data that the sender sent, repetitions included; of kind `datagrams`, its datagrams.",
    ),
    count("retransmits", "packets", |_, flow| flow.retransmits, "Of those, the ones sent again."),
    count(
        "spurious",
        "packets",
        |_, flow| flow.spurious,
        "Of those sent again, the ones of which every byte had arrived before.",
    ),
    number(
        "rtt_min_s",
        "s",
        |_, flow| rtt(flow, 0),
        "Smallest round trip that the sender measured; none of kinds `requests` and `datagrams`.",
    ),
    number("rtt_p50_s", "s", |_, flow| rtt(flow, 1), "Median of the round trips that the sender measured."),
    number("rtt_p95_s", "s", |_, flow| rtt(flow, 2), "Quantile 95% of the same."),
    number("rtt_p99_s", "s", |_, flow| rtt(flow, 3), "Quantile 99% of the same."),
    count(
        "cwnd_max_bytes",
        "B",
        |_, flow| flow.cwnd_max_bytes,
        "Largest congestion window of the sender; 0 of kinds `requests` and `datagrams`.",
    ),
    name("fault", |flow| &flow.fault, "Why the connection failed; empty if it did not."),
];

fn rtt(flow: &FlowRow, quantile: usize) -> f64 {
    flow.rtt_ns.map_or(f64::NAN, |rtt| seconds(rtt[quantile]))
}
