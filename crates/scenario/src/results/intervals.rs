//! The table of spans of time.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::{ColumnOf, count, name, number};
use super::seconds;

/// One row for a flow instance or a link direction: what it did in a span of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// The sort of the row: `flow` or `link`.
    pub kind: Arc<str>,
    /// The flow's or link's name in the scenario.
    pub name: Arc<str>,
    /// The flow's instance, or the direction of the link.
    pub part: Arc<str>,
    /// The time at which the span ended.
    pub end_ns: u64,
    /// Bytes of packets that arrived in it, at the flow's receiver or at the link's end.
    pub bytes: u64,
    /// Bytes that waited before the link when it ended.
    pub queue_bytes: u64,
}

/// The columns of the table.
pub(super) const COLUMNS: &[ColumnOf<IntervalRow>] = &[
    name("kind", |row| &row.kind, "`flow` or `link`."),
    name("name", |row| &row.name, "Name of the flow or link in the scenario."),
    name("part", |row| &row.part, "Which instance of the flow, or which direction of the link."),
    number(
        "end_s",
        "s",
        |_, row| seconds(row.end_ns),
        "When the span ended. It began when the one before ended, or with the run.",
    ),
    count(
        "bytes",
        "B",
        |_, row| row.bytes,
        "Bytes of packets that arrived in the span, at the flow's receiver or at the far end of the link.",
    ),
    count(
        "queue_bytes",
        "B",
        |_, row| row.queue_bytes,
        "Bytes that waited before the link when the span ended; 0 of a flow.",
    ),
];
