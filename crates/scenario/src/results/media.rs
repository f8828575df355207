//! The table of flows of frames.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::columns::{ColumnOf, count, name, number};
use super::{bits_per_second, seconds};

/// One flow instance's row: what became of its frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaRow {
    /// The flow's name in the scenario.
    pub flow: Arc<str>,
    /// The number of the instance among the flow's `count`, from 0.
    pub instance: u64,
    /// The time from the start to the end of the run.
    pub active_ns: u64,
    /// Frames that were made. Each is one of the next seven.
    pub frames: u64,
    /// Frames that were whole at the other end by the deadline.
    pub on_time: u64,
    /// Frames that were whole at the other end after it.
    pub late: u64,
    /// Frames that were not whole at the other end: something of them was lost.
    pub broken: u64,
    /// Frames that were not sent, because there was no room for them to wait.
    pub skipped: u64,
    /// Frames that were taken back when stale, whole or what was left of them.
    pub withdrawn: u64,
    /// Frames that were taken back likewise, and the newest came in the place of the first.
    pub replaced: u64,
    /// Frames that were under way or waiting when the run ended.
    pub pending: u64,
    /// Frames of which something had left, among those withdrawn or replaced.
    pub cut: u64,
    /// Frames of which something left its host after the deadline.
    pub stale_sent: u64,
    /// Bytes of the frames on time.
    pub on_time_bytes: u64,
    /// The number of times that the source went to another rate.
    pub rate_changes: u64,
    /// The time from being made to being whole at the other end, of all frames that were: mean.
    pub delay_mean_ns: Option<u64>,
    /// The quantile 95 per cent.
    pub delay_p95_ns: Option<u64>,
    /// The largest.
    pub delay_max_ns: Option<u64>,
}

/// The columns of the table.
pub(super) const COLUMNS: &[ColumnOf<MediaRow>] = &[
    name("flow", |row| &row.flow, "Name of the flow in the scenario."),
    count("instance", "", |_, row| row.instance, "Which of the flow's `count` instances, from 0."),
    count(
        "frames",
        "frames",
        |_, row| row.frames,
        "Frames that the source made. Each ended in one of the seven ways that follow.",
    ),
    count("on_time", "frames", |_, row| row.on_time, "Whole at the other end by the deadline."),
    count("late", "frames", |_, row| row.late, "Whole at the other end after the deadline."),
    count("broken", "frames", |_, row| row.broken, "Never whole: something of the frame was lost."),
    count("skipped", "frames", |_, row| row.skipped, "Never sent, because there was no room for the frame to wait."),
    count(
        "withdrawn",
        "frames",
        |_, row| row.withdrawn,
        "Taken back from the queue when past the deadline, whole or what was left.",
    ),
    count("replaced", "frames", |_, row| row.replaced, "Taken back likewise, and the newest frame put in its place."),
    count("pending", "frames", |_, row| row.pending, "Under way or waiting when the run ended."),
    count(
        "cut",
        "frames",
        |_, row| row.cut,
        "Of `withdrawn` and `replaced`, the frames of which something had left already.",
    ),
    count(
        "stale_sent",
        "frames",
        |_, row| row.stale_sent,
        "Frames of which something left the host after the deadline.",
    ),
    number(
        "on_time_bps",
        "bit/s",
        |_, row| bits_per_second(row.on_time_bytes, row.active_ns),
        "Bits of the frames on time, over the time from the flow's start to the end of the run.",
    ),
    count("rate_changes", "", |_, row| row.rate_changes, "How often the source went to another of its rates."),
    number(
        "delay_mean_s",
        "s",
        |_, row| delay(row.delay_mean_ns),
        "Mean time from a frame's being made to its being whole at the other end, of all frames that came whole.",
    ),
    number("delay_p95_s", "s", |_, row| delay(row.delay_p95_ns), "Quantile 95% of the same."),
    number("delay_max_s", "s", |_, row| delay(row.delay_max_ns), "Largest of the same."),
];

fn delay(nanos: Option<u64>) -> f64 {
    nanos.map_or(f64::NAN, seconds)
}
