//! The table of circuits.

use super::{Column, Interner, RunOutcome, Swept, Table, seconds};

/// None if no run has any.
pub(super) fn table(runs: &[RunOutcome], swept: &[Swept]) -> Option<Table> {
    let rows: Vec<_> = runs.iter().flat_map(|run| run.circuits.iter().map(move |row| (run, row))).collect();
    if rows.is_empty() {
        return None;
    }
    let mut names = Interner::default();
    let mut table = Table::of_runs(&rows, swept);
    table.push("circuit", Column::Text(rows.iter().map(|(_, row)| names.share(&row.circuit)).collect()));
    table.counts("controlled_bytes", &rows, |(_, row)| row.controlled_bytes);
    table.counts("guaranteed_bytes", &rows, |(_, row)| row.guaranteed_bytes);
    table.counts("headers", &rows, |(_, row)| row.headers);
    table.counts("header_retransmits", &rows, |(_, row)| row.header_retransmits);
    table.counts("timeouts", &rows, |(_, row)| row.timeouts);
    table.counts("fast_retransmits", &rows, |(_, row)| row.fast_retransmits);
    table.counts("arrived", &rows, |(_, row)| row.arrived);
    table.counts("dropped", &rows, |(_, row)| row.dropped);
    table.counts("queue_max_packets", &rows, |(_, row)| row.queue_max_packets);
    table.counts("queue_max_bytes", &rows, |(_, row)| row.queue_max_bytes);
    table.counts("failed", &rows, |(_, row)| row.failed);
    table.counts("sent_bytes", &rows, |(_, row)| row.sent_bytes);
    table.counts("answered_bytes", &rows, |(_, row)| row.answered_bytes);
    table.counts("fragmented", &rows, |(_, row)| row.fragmented);
    table.counts("passed", &rows, |(_, row)| row.passed);
    table.counts("passed_bytes", &rows, |(_, row)| row.passed_bytes);
    table.counts("reordered", &rows, |(_, row)| row.reordered);
    for (at, what) in ["mean", "p95", "max"].into_iter().enumerate() {
        let of = |span: Option<[u64; 3]>| span.map_or(f64::NAN, |span| seconds(span[at]));
        table.numbers(&format!("delay_{what}_s"), &rows, |(_, row)| of(row.delay_ns));
        table.numbers(&format!("carried_{what}_s"), &rows, |(_, row)| of(row.carried_ns));
    }
    Some(table)
}
