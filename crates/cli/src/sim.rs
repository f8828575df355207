//! `headend sim`

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};

use headend_scenario::results::{Results, Table};
use headend_scenario::{Document, Point};
use headend_sim::sweep::{self, Meter, Options};

use crate::failure::Failure;
use crate::outputs::{self, Folder};
use crate::request::Request;
use crate::{summary, text};

/// Simulate a scenario: every run of every point of its sweep
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend sim scenarios/hfc.toml\n  \
    headend sim scenarios/hfc.toml --set nodes.server.personality=linux --runs 5\n  \
    headend sim scenarios/hfc.toml --sweep flows.get.bytes=30KB,300KB,3MB --format csv > flows.csv\n  \
    headend sim scenarios/hfc.toml --out results/hfc\n\n\
    Exit codes: 0; 2 for a wrong request; 1 for a failure; 130 for an interruption (Ctrl-C).")]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: Request,

    /// Form of the results on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Write all results to this folder, whole or not at all
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace the results in DIR
    #[arg(long, requires = "out")]
    force: bool,

    /// Take up the interrupted sweep whose finished runs are beside DIR
    #[arg(long, requires = "out")]
    resume: bool,

    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Record what each sender and packet does: series.csv and packets.csv in DIR
    #[arg(long, requires = "out")]
    trace: bool,

    /// Record what each host sees: a pcapng file per host and run in DIR
    #[arg(long, requires = "out")]
    pcap: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Medians over the runs with 95% intervals, for people
    Table,
    /// All rows of all tables
    Json,
    /// All rows of the table of flows
    Csv,
}

/// Traces are held in memory until all runs have ended.
const TRACED_RUNS_MAX: usize = 1_000;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = stop_on_signals(true)?;
    let (document, points) = arguments.request.read()?;
    let folder = arguments.out.as_deref().map(|path| Folder::new(path, arguments.force)).transpose()?;
    let is_traced = arguments.trace || arguments.pcap;
    let runs: usize = points.iter().map(|point| point.scenario.runs as usize).sum();
    if is_traced && runs > TRACED_RUNS_MAX {
        let text = format!(
            "--trace and --pcap: at most {TRACED_RUNS_MAX} runs, because what they record is held in memory until the \
             last run has ended; here are {runs}. Ask for fewer with --runs, or for part of the sweep with --set"
        );
        return Err(Failure::Wrong(text));
    }
    let folder = folder.map(|folder| (folder, scenario_text(&arguments.request, &document)));
    // A large one takes as much memory as the world that it describes.
    drop(document);
    let mut results = simulate(arguments, &points, folder.as_ref().map(|(folder, _)| folder), is_traced, &stop)?;
    if let Some(traces) = &mut results.traces {
        if !arguments.trace {
            (traces.series, traces.packets) = (Table::default(), Table::default());
        }
        if !arguments.pcap {
            traces.captures.clear();
        }
    }
    if let Some((folder, scenario)) = &folder {
        folder.write(&results, scenario, &meta(&points, &results))?;
    }
    // Traces are in the folder; stdout has what it has without them.
    results.traces = None;
    print(arguments.format, &points, &results)
}

/// What Ctrl-C sets, or a request to terminate: it asks the runs to end. Whoever asks twice does not want to wait for
/// that; if `may_leave`, because there is nothing to take down, the second time ends the command.
///
/// Asked for before anything large is read: it takes a thread, and the memory that reading leaves should go to the first
/// worker of the sweep (see [`Request::read`]).
pub(crate) fn stop_on_signals(may_leave: bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = {
        let stop = stop.clone();
        move || {
            if stop.swap(true, Ordering::Relaxed) && may_leave {
                std::process::exit(130);
            }
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Failed(format!("no handler for Ctrl-C: {error}")))?;
    Ok(stop)
}

fn simulate(
    arguments: &Arguments,
    points: &[Point],
    folder: Option<&Folder>,
    trace: bool,
    stop: &AtomicBool,
) -> Result<Results, Failure> {
    let part = folder.map(Folder::part);
    let options =
        Options { threads: arguments.threads, journal: part.as_deref(), resume: arguments.resume, stop, trace };
    let mut meter = (!arguments.quiet).then(Meter::new);
    let outcome = sweep::run(points, &options, &mut |at| {
        if let Some(meter) = &mut meter {
            meter.show(at);
        }
    });
    if let Some(meter) = meter {
        meter.finish();
    }
    outcome.map_err(|error| match (Failure::from(error), part) {
        (Failure::Interrupted(text), Some(part)) => Failure::Interrupted(format!(
            "{text}; the finished ones are kept in {}. To go on, repeat the command with --resume",
            part.display()
        )),
        (Failure::Interrupted(text), None) => {
            Failure::Interrupted(format!("{text}; none is kept. With --out DIR finished runs are, for --resume"))
        }
        (failure, _) => failure,
    })
}

pub(crate) fn print(format: Format, points: &[Point], results: &Results) -> Result<(), Failure> {
    outputs::print(|mut out| match format {
        Format::Csv => results.flows.write_csv(&mut out),
        Format::Json => results.write_json(&mut out),
        Format::Table => {
            let scenario = &points[0].scenario;
            if !scenario.title.is_empty() {
                writeln!(out, "{}\n", scenario.title)?;
            }
            let (headings, rows) = summary::summary(points, &results.flows);
            text::write_table(out, &headings, &rows)?;
            let last = scenario.seed + u64::from(scenario.runs) - 1;
            writeln!(out, "\nMedians over runs, each the mean of its flows; seeds {} to {last}.", scenario.seed)
        }
    })
}

/// The scenario as it was run, what the command line changed included.
pub(crate) fn scenario_text(request: &Request, document: &Document) -> String {
    let file = request.file.display().to_string().replace(char::is_control, " ");
    format!("# As run, from {file} and the command line.\n\n{}", document.to_toml())
}

/// What the results need to be had again, and to be read.
pub(crate) fn meta(points: &[Point], results: &Results) -> serde_json::Value {
    let scenario = &points[0].scenario;
    let units = |table: &Table| -> serde_json::Value {
        let units = table.columns().iter().filter_map(|(name, _)| Some((name.clone(), unit(name)?)));
        units.map(|(name, unit)| (name, serde_json::Value::from(unit))).collect()
    };
    serde_json::json!({
        "program": "headend",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": Some(env!("HEADEND_COMMIT")).filter(|commit| !commit.is_empty()),
        "title": scenario.title,
        "seed": scenario.seed,
        "runs": scenario.runs,
        "points": points.len(),
        "units": { "flows": units(&results.flows), "links": units(&results.links) },
    })
}

/// The unit that a column's name ends in; swept fields are text and have none.
fn unit(name: &str) -> Option<&'static str> {
    if name.contains('.') {
        return None;
    }
    let (_, last) = name.rsplit_once('_').unwrap_or(("", name));
    match last {
        "s" => Some("s"),
        "bps" => Some("bit/s"),
        "bytes" => Some("B"),
        "packets" => Some("packets"),
        _ => None,
    }
}
