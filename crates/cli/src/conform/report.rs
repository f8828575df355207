//! The report of a trial: the matrix of behaviours and faults, as text and as JSON.

use std::io::{self, Write};

use headend_conform::{FAULTS, Report};
use serde_json::json;

use crate::printing;

/// The request for a trial, as a report repeats it.
#[derive(Debug)]
pub(super) struct Heading {
    pub(super) proxy: String,
    pub(super) way: &'static str,
    pub(super) seed: u64,
    pub(super) asked: u64,
    /// The command that repeats a schedule, without its seed.
    pub(super) again: String,
}

pub(super) fn write_text(heading: &Heading, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (matrix, seconds) = (&report.matrix, report.elapsed.as_secs_f64());
    writeln!(
        out,
        "{} ({}): {} of {} schedules in {seconds:.1} s, seeds from {}\n",
        heading.proxy,
        heading.way,
        matrix.done(),
        heading.asked,
        heading.seed
    )?;
    let any_allowed = matrix.sum(|row| row.allowed) > 0;
    let mut headings = vec!["behaviour".to_owned(), "passed".to_owned(), "failed".to_owned()];
    headings.extend(any_allowed.then(|| "allowed".to_owned()));
    headings.extend(["faults [schedules]".to_owned(), "what is right".to_owned()]);
    let number = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
    let rows: Vec<Vec<String>> = matrix
        .rows()
        .map(|(behaviour, row)| {
            let faults = row.faults.iter().map(|(name, seen)| format!("{name} {}", seen.count));
            let faults = match faults.collect::<Vec<_>>().join(", ") {
                text if !text.is_empty() => text,
                _ if row.not_applicable > 0 => "not applicable".to_owned(),
                _ => "none".to_owned(),
            };
            let mut cells = vec![behaviour.name().to_owned(), number(row.passed), number(row.failed)];
            cells.extend(any_allowed.then(|| number(row.allowed)));
            cells.extend([faults, behaviour.rule().to_owned()]);
            cells
        })
        .collect();
    printing::write_table(out, &headings, &rows)?;
    write_faults(heading, report, out)
}

fn write_faults(heading: &Heading, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for (name, meaning) in FAULTS {
        let seen = || report.matrix.rows().filter_map(|(behaviour, row)| Some((behaviour, row.faults.get(name)?)));
        if seen().next().is_none() {
            continue;
        }
        writeln!(out, "\n{name}: {meaning}")?;
        for (behaviour, seen) in seen() {
            let seeds: Vec<String> = seen.seeds.iter().map(u64::to_string).collect();
            let more = if seen.count > seen.seeds.len() as u64 { ", ..." } else { "" };
            writeln!(out, "  {}: seeds {}{more}", behaviour.name(), seeds.join(", "))?;
            writeln!(out, "    {}", seen.example)?;
        }
    }
    if report.matrix.rows().any(|(_, row)| !row.faults.is_empty()) {
        writeln!(out, "\nTo repeat one: {} --only --seed SEED", heading.again)?;
    }
    if report.tcp_memory.was_full() {
        let text = "\nMeanwhile the machine's sockets took all the memory that the kernel lets them have \
                    (net.ipv4.tcp_mem).\nThen it resets connections, through whatever proxy: repeat the run when other \
                    programs leave it some.";
        writeln!(out, "{text}")?;
    }
    Ok(())
}

pub(super) fn write_json(heading: &Heading, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let matrix = &report.matrix;
    let rows: Vec<serde_json::Value> = matrix
        .rows()
        .map(|(behaviour, row)| {
            let faults: Vec<serde_json::Value> = row
                .faults
                .iter()
                .map(|(name, seen)| {
                    json!({ "name": name, "count": seen.count, "allowed": matrix.allows(name), "seeds": seen.seeds,
                            "example": seen.example })
                })
                .collect();
            json!({ "name": behaviour.name(), "rule": behaviour.rule(), "passed": row.passed,
                    "allowed": row.allowed, "failed": row.failed, "not_applicable": row.not_applicable,
                    "faults": faults })
        })
        .collect();
    let whole = json!({
        "proxy": heading.proxy, "way": heading.way, "seed": heading.seed, "schedules_asked": heading.asked,
        "schedules_run": matrix.done(), "elapsed_s": report.elapsed.as_secs_f64(), "passed": matrix.sum(|row| row.passed),
        "allowed": matrix.sum(|row| row.allowed), "failed": matrix.failed(),
        "not_applicable": matrix.sum(|row| row.not_applicable),
        "tcp_memory_most_percent": report.tcp_memory.most_percent(), "tcp_memory_was_full": report.tcp_memory.was_full(),
        "behaviours": rows,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}
