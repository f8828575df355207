//! The table of links.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::{ColumnOf, count, name, number};
use super::ratio;

/// One row for a direction of a link: what it did in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRow {
    /// The link's name in the scenario.
    pub link: Arc<str>,
    /// The direction or channel of the link.
    pub direction: Arc<str>,
    /// Packets offered.
    pub arrived: u64,
    /// Packets handed over at the far end.
    pub delivered: u64,
    /// Packets that the queue refused or evicted.
    pub dropped: u64,
    /// Packets of circuits' users among them.
    #[serde(default)]
    pub dropped_user: u64,
    /// Header packets of circuits among them.
    #[serde(default)]
    pub dropped_headers: u64,
    /// Most bytes ever waiting, the packet in service not counted.
    #[serde(default)]
    pub queue_bytes_max: u64,
    /// Packets that the queue marked instead of dropping them.
    #[serde(default)]
    pub marked: u64,
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

/// The columns of the table.
pub(super) const COLUMNS: &[ColumnOf<LinkRow>] = &[
    name("link", |link| &link.link, "Name of the link in the scenario."),
    name(
        "direction",
        |link| &link.direction,
        "From which node to which, `a->b`; of a link of kind `cable`, which of its four channels.",
    ),
    count("arrived", "packets", |_, link| link.arrived, "Packets that were offered to the link."),
    count("delivered", "packets", |_, link| link.delivered, "Packets that came out at the far end."),
    count("dropped", "packets", |_, link| link.dropped, "Packets that the queue refused, or threw out later."),
    count("lost", "packets", |_, link| link.lost, "Packets that the medium destroyed."),
    count("delivered_bytes", "B", |_, link| link.delivered_bytes, "Bytes of the packets that came out."),
    number(
        "utilisation",
        "",
        |run, link| ratio(link.busy_ns as f64, run.end_ns as f64),
        "Share of the run in which the link was sending, 0 to 1; of a modem upstream, the share of mini-slots granted to it.",
    ),
    number(
        "queue_mean_packets",
        "packets",
        |run, link| ratio(link.occupancy_packet_ns as f64, run.end_ns as f64),
        "Packets that waited or were being sent, averaged over the run's time.",
    ),
    count(
        "queue_max_packets",
        "packets",
        |_, link| link.queue_max,
        "Most packets that ever waited, the one being sent not counted.",
    ),
    count(
        "queue_max_bytes",
        "B",
        |_, link| link.queue_bytes_max,
        "Most bytes that ever waited, the packet being sent not counted.",
    ),
    count(
        "dropped_user",
        "packets",
        |_, link| link.dropped_user,
        "Of `dropped`, users' packets that a circuit had sent.",
    ),
    count("dropped_headers", "packets", |_, link| link.dropped_headers, "Of `dropped`, header packets of circuits."),
    number(
        "sojourn_mean_s",
        "s",
        |_, link| ratio(link.sojourn_ns as f64 / 1e9, link.served as f64),
        "Mean time that a packet spent in the queue and being sent, propagation not included, of all packets whose sending ended. Of a modem the time lasts until the packet is delivered at the far end.",
    ),
    count(
        "marked",
        "packets",
        |_, link| link.marked,
        "Packets of connections with ECN that the queue marked and would have dropped without.",
    ),
];
