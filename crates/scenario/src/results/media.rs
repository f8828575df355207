//! The table of flows of frames.

use super::{Column, Interner, RunOutcome, Swept, Table, bits_per_second, seconds};

/// None if no run has such flows.
pub(super) fn table(runs: &[RunOutcome], swept: &[Swept]) -> Option<Table> {
    let rows: Vec<_> = runs.iter().flat_map(|run| run.media.iter().map(move |row| (run, row))).collect();
    if rows.is_empty() {
        return None;
    }
    let mut names = Interner::default();
    let mut table = Table::of_runs(&rows, swept);
    table.push("flow", Column::Text(rows.iter().map(|(_, row)| names.share(&row.flow)).collect()));
    table.counts("instance", &rows, |(_, row)| row.instance);
    table.counts("frames", &rows, |(_, row)| row.frames);
    table.counts("on_time", &rows, |(_, row)| row.on_time);
    table.counts("late", &rows, |(_, row)| row.late);
    table.counts("broken", &rows, |(_, row)| row.broken);
    table.counts("skipped", &rows, |(_, row)| row.skipped);
    table.counts("withdrawn", &rows, |(_, row)| row.withdrawn);
    table.counts("replaced", &rows, |(_, row)| row.replaced);
    table.counts("pending", &rows, |(_, row)| row.pending);
    table.counts("cut", &rows, |(_, row)| row.cut);
    table.counts("stale_sent", &rows, |(_, row)| row.stale_sent);
    table.numbers("on_time_bps", &rows, |(_, row)| bits_per_second(row.on_time_bytes, row.active_ns));
    table.counts("rate_changes", &rows, |(_, row)| row.rate_changes);
    let delay = |nanos: Option<u64>| nanos.map_or(f64::NAN, seconds);
    table.numbers("delay_mean_s", &rows, |(_, row)| delay(row.delay_mean_ns));
    table.numbers("delay_p95_s", &rows, |(_, row)| delay(row.delay_p95_ns));
    table.numbers("delay_max_s", &rows, |(_, row)| delay(row.delay_max_ns));
    Some(table)
}
