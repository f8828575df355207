//! Text on stdout: the forms that it can have, tables for people, the results of runs.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use headend_scenario::Point;
use headend_scenario::results::Results;

use crate::failure::Failure;
use crate::summary;

/// The forms of what most commands print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[value(alias = "text")]
    Table,
    /// For programs
    Json,
}

/// The forms of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultsFormat {
    /// Medians over the runs with 95% intervals, for people
    Table,
    /// All rows of all tables
    Json,
    /// All rows of the table of flows
    Csv,
}

/// Writes to stderr, where stdout is somebody else's.
#[cfg(target_os = "linux")]
pub(crate) fn print_beside(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stderr().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(|error| Failure::Failed(format!("stderr: {error}")))
}

/// Writes to stdout. It is no failure that nobody reads on.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::NoReader),
        Err(error) => Err(Failure::Failed(format!("stdout: {error}"))),
    }
}

/// Prints the results of the runs of `points`.
pub(crate) fn results(format: ResultsFormat, points: &[Point], results: &Results) -> Result<(), Failure> {
    print(|mut out| match format {
        ResultsFormat::Csv => results.flows.write_csv(&mut out),
        ResultsFormat::Json => results.write_json(&mut out),
        ResultsFormat::Table => {
            let scenario = &points[0].scenario;
            if !scenario.title.is_empty() {
                writeln!(out, "{}\n", scenario.title)?;
            }
            let (headings, rows) = summary::summary(points, &results.flows);
            write_table(out, &headings, &rows)?;
            let last = scenario.seed + u64::from(scenario.runs) - 1;
            writeln!(out, "\nMedians over runs, each the mean of its flows; seeds {} to {last}.", scenario.seed)
        }
    })
}

/// Writes `rows` under `headings`. A column whose cells are numbers or dashes is set to the right.
pub(crate) fn write_table(out: &mut dyn Write, headings: &[String], rows: &[Vec<String>]) -> io::Result<()> {
    let is_number = |cell: &str| cell == "-" || cell.starts_with(|c: char| c.is_ascii_digit());
    let columns: Vec<(usize, bool)> = headings
        .iter()
        .enumerate()
        .map(|(i, heading)| {
            let width = rows.iter().map(|row| row[i].chars().count()).chain([heading.chars().count()]).max();
            (width.unwrap_or(0), rows.iter().all(|row| is_number(&row[i])))
        })
        .collect();
    for row in [headings].into_iter().chain(rows.iter().map(Vec::as_slice)) {
        let cell = |(cell, &(width, to_right)): (&String, &(usize, bool))| {
            if to_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        let line: Vec<String> = row.iter().zip(&columns).map(cell).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}
