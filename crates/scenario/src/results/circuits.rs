//! The table of circuits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::{ColumnOf, count, name, number};
use super::seconds;

/// One circuit's row: what it did in a run.
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
    /// Header packets among them that were sent again.
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
    /// Datagrams that were taken for lost, of a circuit with in-band control.
    #[serde(default)]
    pub datagrams_lost: u64,
    /// Datagrams among them that were taken for damaged.
    #[serde(default)]
    pub datagrams_damaged: u64,
    /// Users' packets that have left it, if the scenario asks for its delays.
    #[serde(default)]
    pub passed: u64,
    /// The bytes of those packets.
    #[serde(default)]
    pub passed_bytes: u64,
    /// Packets among them that came after one that had entered later.
    #[serde(default)]
    pub reordered: u64,
    /// The time from entering the tunnel queue to leaving the circuit: mean, quantile 95 per cent and largest.
    #[serde(default)]
    pub delay_ns: Option<[u64; 3]>,
    /// The same from leaving the tunnel queue.
    #[serde(default)]
    pub carried_ns: Option<[u64; 3]>,
}

/// The columns of the table.
pub(super) const COLUMNS: &[ColumnOf<CircuitRow>] = &[
    name(
        "circuit",
        |row| &row.circuit,
        "Name of the circuit in the scenario; of a flow through a decoupling socket, the flow's.",
    ),
    count(
        "controlled_bytes",
        "B",
        |_, row| row.controlled_bytes,
        "Bytes of users' packets sent under the control of its TCPs.",
    ),
    count(
        "guaranteed_bytes",
        "B",
        |_, row| row.guaranteed_bytes,
        "Bytes of users' packets sent at the guaranteed rate.",
    ),
    count(
        "headers",
        "packets",
        |_, row| row.headers,
        "Header packets that it sent, repetitions included; of an implementation that carries users' packets inside of a TCP, that TCP's segments.",
    ),
    count("header_retransmits", "packets", |_, row| row.header_retransmits, "Of `headers`, the ones sent again."),
    count("timeouts", "", |_, row| row.timeouts, "Retransmission time-outs of its TCPs."),
    count("fast_retransmits", "", |_, row| row.fast_retransmits, "Fast retransmits of its TCPs."),
    count("arrived", "packets", |_, row| row.arrived, "Users' packets that came to its tunnel queue."),
    count("dropped", "packets", |_, row| row.dropped, "Users' packets that its tunnel queue dropped."),
    count(
        "queue_max_packets",
        "packets",
        |_, row| row.queue_max_packets,
        "Most packets that ever waited in the tunnel queue.",
    ),
    count("queue_max_bytes", "B", |_, row| row.queue_max_bytes, "Most bytes that ever waited in the tunnel queue."),
    count("failed", "", |_, row| row.failed, "Its TCPs that gave up."),
    count(
        "sent_bytes",
        "B",
        |_, row| row.sent_bytes,
        "Bytes that left its sending end, all headers included; 0 of a decoupling socket.",
    ),
    count(
        "answered_bytes",
        "B",
        |_, row| row.answered_bytes,
        "Bytes that left its receiving end for the sending one; 0 of a decoupling socket.",
    ),
    count("fragmented", "packets", |_, row| row.fragmented, "Packets of its own that left in fragments."),
    count(
        "datagrams_lost",
        "packets",
        |_, row| row.datagrams_lost,
        "Datagrams that were taken for lost, with `loss_signal = \"in-band\"`.",
    ),
    count(
        "datagrams_damaged",
        "packets",
        |_, row| row.datagrams_damaged,
        "Of `datagrams_lost`, the ones taken for damaged: no window shrank for them.",
    ),
    count(
        "passed",
        "packets",
        |_, row| row.passed,
        "Users' packets that left its receiving end. This column and the next are filled if the circuit has `delays = true`.",
    ),
    count("passed_bytes", "B", |_, row| row.passed_bytes, "Bytes of those packets."),
    count(
        "reordered",
        "packets",
        |_, row| row.reordered,
        "Of `passed`, packets that left after one that had entered later.",
    ),
    number(
        "delay_mean_s",
        "s",
        |_, row| part(row.delay_ns, 0),
        "Mean time of a user's packet from entering the tunnel queue to leaving the circuit, with `delays = true`.",
    ),
    number(
        "carried_mean_s",
        "s",
        |_, row| part(row.carried_ns, 0),
        "Mean time from leaving the tunnel queue to leaving the circuit.",
    ),
    number(
        "delay_p95_s",
        "s",
        |_, row| part(row.delay_ns, 1),
        "Quantile 95% of the time of which `delay_mean_s` is the mean.",
    ),
    number(
        "carried_p95_s",
        "s",
        |_, row| part(row.carried_ns, 1),
        "Quantile 95% of the time of which `carried_mean_s` is the mean.",
    ),
    number(
        "delay_max_s",
        "s",
        |_, row| part(row.delay_ns, 2),
        "Largest of the times of which `delay_mean_s` is the mean.",
    ),
    number(
        "carried_max_s",
        "s",
        |_, row| part(row.carried_ns, 2),
        "Largest of the times of which `carried_mean_s` is the mean.",
    ),
];

fn part(span: Option<[u64; 3]>, at: usize) -> f64 {
    span.map_or(f64::NAN, |span| seconds(span[at]))
}
