//! The matrix: behaviours, and how often each was right.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use super::behaviour::Behaviour;
use super::judge::{FAULTS, Fault};
use super::runner::Verdict;
use super::tcp_memory::TcpMemory;
use crate::text;

/// So many seeds of a fault are told.
const SEEDS_MAX: usize = 10;

/// What came of all schedules.
#[derive(Debug)]
pub(super) struct Matrix {
    /// Names of faults that are no failure here.
    allowed: Vec<String>,
    rows: BTreeMap<Behaviour, Row>,
}

#[derive(Debug, Default)]
struct Row {
    passed: u64,
    /// With allowed faults only.
    allowed: u64,
    failed: u64,
    not_applicable: u64,
    faults: BTreeMap<&'static str, Seen>,
}

#[derive(Debug)]
struct Seen {
    count: u64,
    seeds: Vec<u64>,
    example: String,
}

/// What the matrix is of.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) proxy: String,
    pub(super) way: &'static str,
    pub(super) seed: u64,
    pub(super) asked: u64,
    pub(super) elapsed: Duration,
    pub(super) tcp_memory: TcpMemory,
    /// The command that repeats a schedule, without its seed.
    pub(super) again: String,
}

impl Matrix {
    pub(super) fn new(allowed: Vec<String>) -> Matrix {
        Matrix { allowed, rows: BTreeMap::new() }
    }

    pub(super) fn note(&mut self, verdict: Verdict) {
        let row = self.rows.entry(verdict.behaviour).or_default();
        let Some(faults) = verdict.faults else {
            row.not_applicable += 1;
            return;
        };
        let is_allowed = |fault: &Fault| self.allowed.iter().any(|name| name == fault.name);
        match () {
            () if faults.is_empty() => row.passed += 1,
            () if faults.iter().all(is_allowed) => row.allowed += 1,
            () => row.failed += 1,
        }
        for fault in faults {
            let seen =
                row.faults.entry(fault.name).or_insert(Seen { count: 0, seeds: Vec::new(), example: fault.detail });
            seen.count += 1;
            if seen.seeds.len() < SEEDS_MAX {
                seen.seeds.push(verdict.seed);
            }
        }
    }

    /// Schedules that have been run.
    pub(super) fn done(&self) -> u64 {
        self.rows.values().map(|row| row.passed + row.allowed + row.failed + row.not_applicable).sum()
    }

    pub(super) fn failed(&self) -> u64 {
        self.rows.values().map(|row| row.failed).sum()
    }

    /// Why there was none, if no schedule got a connection through the proxy.
    pub(super) fn without_any_connection(&self) -> Option<&str> {
        let mut why = None;
        for (behaviour, row) in &self.rows {
            for (name, seen) in &row.faults {
                match *name {
                    "no-connection" => why = Some(seen.example.as_str()),
                    "refusal-not-passed" | "header-not-refused" => {}
                    _ => return None,
                }
            }
            if (row.passed > 0 && !behaviour.passes_without_connection()) || row.allowed > 0 {
                return None;
            }
        }
        why
    }

    pub(super) fn write_text(&self, run: &Run, out: &mut dyn Write) -> io::Result<()> {
        let seconds = run.elapsed.as_secs_f64();
        writeln!(
            out,
            "{} ({}): {} of {} schedules in {seconds:.1} s, seeds from {}\n",
            run.proxy,
            run.way,
            self.done(),
            run.asked,
            run.seed
        )?;
        let any_allowed = self.rows.values().any(|row| row.allowed > 0);
        let mut headings = vec!["behaviour".to_owned(), "passed".to_owned(), "failed".to_owned()];
        headings.extend(any_allowed.then(|| "allowed".to_owned()));
        headings.extend(["faults [schedules]".to_owned(), "what is right".to_owned()]);
        let number = |count: u64| if count == 0 { "-".to_owned() } else { count.to_string() };
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
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
        text::write_table(out, &headings, &rows)?;
        self.write_faults(run, out)
    }

    fn write_faults(&self, run: &Run, out: &mut dyn Write) -> io::Result<()> {
        for (name, meaning) in FAULTS {
            let seen = || self.rows.iter().filter_map(|(behaviour, row)| Some((behaviour, row.faults.get(name)?)));
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
        if self.rows.values().any(|row| !row.faults.is_empty()) {
            writeln!(out, "\nTo repeat one: {} --only --seed SEED", run.again)?;
        }
        if run.tcp_memory.was_full() {
            let text = "\nMeanwhile the machine's sockets took all the memory that the kernel lets them have \
                        (net.ipv4.tcp_mem).\nThen it resets connections, through whatever proxy: repeat the run when other \
                        programs leave it some.";
            writeln!(out, "{text}")?;
        }
        Ok(())
    }

    pub(super) fn write_json(&self, run: &Run, out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<serde_json::Value> = self
            .rows
            .iter()
            .map(|(behaviour, row)| {
                let faults: Vec<serde_json::Value> = row
                    .faults
                    .iter()
                    .map(|(name, seen)| {
                        let is_allowed = self.allowed.iter().any(|allowed| allowed == name);
                        json!({ "name": name, "count": seen.count, "allowed": is_allowed, "seeds": seen.seeds,
                                "example": seen.example })
                    })
                    .collect();
                json!({ "name": behaviour.name(), "rule": behaviour.rule(), "passed": row.passed,
                        "allowed": row.allowed, "failed": row.failed, "not_applicable": row.not_applicable,
                        "faults": faults })
            })
            .collect();
        let sum = |of: fn(&Row) -> u64| self.rows.values().map(of).sum::<u64>();
        let whole = json!({
            "proxy": run.proxy, "way": run.way, "seed": run.seed, "schedules_asked": run.asked,
            "schedules_run": self.done(), "elapsed_s": run.elapsed.as_secs_f64(), "passed": sum(|row| row.passed),
            "allowed": sum(|row| row.allowed), "failed": self.failed(),
            "not_applicable": sum(|row| row.not_applicable),
            "tcp_memory_most_percent": run.tcp_memory.most_percent(), "tcp_memory_was_full": run.tcp_memory.was_full(),
            "behaviours": rows,
        });
        serde_json::to_writer_pretty(&mut *out, &whole)?;
        writeln!(out)
    }
}
