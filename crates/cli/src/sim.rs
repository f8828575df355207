//! `headend sim`

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgGroup, Args};

use headend_scenario::Point;
use headend_scenario::results::{Results, Table, write_captures};
use headend_sim::store::{Shard, Store, Work};
use headend_sim::sweep::{self, Meter, Options, Progress};

use crate::failure::Failure;
use crate::outputs::{ResultsFolder, check_folder};
use crate::printing::{self, ResultsFormat};
use crate::python::ReportRequest;
use crate::request::ScenarioRequest;
use crate::{meta, signals};

/// Simulate a scenario: every run of every point of its sweep
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("kept").args(["out", "report"]).multiple(true), after_help = "Examples:\n  \
    headend sim scenarios/hfc.toml\n  \
    headend sim scenarios/hfc.toml --set nodes.server.personality=linux --runs 5\n  \
    headend sim scenarios/hfc.toml --sweep flows.get.bytes=30KB,300KB,3MB --format csv > flows.csv\n  \
    headend sim scenarios/hfc.toml --out results/hfc\n  \
    headend sim scenarios/hfc.toml --report out/hfc\n  \
    headend sim scenarios/hfc.toml --runs 100000 --store results/many --shard 3/40\n\n\
    Exit codes: 0; 2 for a wrong request; 1 for a failure; 130 for an interruption (Ctrl-C).")]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: ScenarioRequest,

    /// Form of the results on stdout
    #[arg(long, value_enum, default_value_t = ResultsFormat::Table)]
    format: ResultsFormat,

    /// Write all results to this folder, whole or not at all
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace the results in DIR
    #[arg(long, requires = "kept")]
    force: bool,

    #[command(flatten)]
    report: ReportRequest,

    /// Take up the interrupted sweep whose finished runs are beside DIR
    #[arg(long, requires = "kept")]
    resume: bool,

    /// Write results to this folder as they come, as Parquet; what is there already is not run again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kept", "trace", "pcap", "format"])]
    store: Option<PathBuf>,

    /// Run one of N shares of the study: 1/N to N/N together are the whole
    #[arg(long, value_name = "I/N", requires = "store", default_value = "1/1")]
    shard: Shard,

    /// Runs that are kept together in DIR [default: as many as take some seconds]
    #[arg(long, value_name = "N", requires = "store", value_parser = clap::value_parser!(u64).range(1..))]
    task_runs: Option<u64>,

    /// Runs at a time, each on a thread of its own [default: one per core]
    #[arg(long, alias = "threads", value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Record what each sender and packet does: series.csv and packets.csv in DIR
    #[arg(long, requires = "kept")]
    trace: bool,

    /// Record what each host sees: a pcapng file per host and run in this folder
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Traces are held in memory until all runs have ended.
const TRACED_RUNS_MAX: usize = 1_000;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::stop_flag(true)?;
    let (document, points) = arguments.request.read()?;
    if let Some(store) = &arguments.store {
        let scenario = meta::scenario_text(&arguments.request, &document);
        check_folder(store)?;
        return fill_store(arguments, store, points, &scenario, &stop);
    }
    arguments.pcap.as_deref().map_or(Ok(()), check_folder)?;
    let (folder, report) = arguments.report.folders(arguments.out.as_deref(), arguments.force)?;
    let is_traced = arguments.trace || arguments.pcap.is_some();
    let runs: usize = points.iter().map(|point| point.scenario.runs as usize).sum();
    if is_traced && runs > TRACED_RUNS_MAX {
        let text = format!(
            "--trace and --pcap: at most {TRACED_RUNS_MAX} runs, because what they record is held in memory until the \
             last run has ended; here are {runs}. Ask for fewer with --runs, or for part of the sweep with --set"
        );
        return Err(Failure::Wrong(text));
    }
    let folder = folder.map(|folder| (folder, meta::scenario_text(&arguments.request, &document)));
    // A large one takes as much memory as the world that it describes.
    drop(document);
    let mut results = simulate(arguments, &points, folder.as_ref().map(|(folder, _)| folder), is_traced, &stop)?;
    if let Some(traces) = &mut results.traces
        && !arguments.trace
    {
        (traces.series, traces.packets) = (Table::default(), Table::default());
    }
    if let Some((folder, scenario)) = &folder {
        folder.write(&results, scenario, &meta::of_results(&points, &results))?;
    }
    // After the results, whose folder may be the same.
    if let (Some(folder), Some(traces)) = (&arguments.pcap, &results.traces) {
        write_captures(&traces.captures, folder).map_err(|error| Failure::io(folder, error))?;
    }
    // Traces are in the folder; stdout has what it has without them.
    results.traces = None;
    printing::results(arguments.format, &points, &results)?;
    report.map_or(Ok(()), |report| report.make())
}

/// `--store`: results go to the folder, and a line of what is there to stdout.
fn fill_store(
    arguments: &Arguments,
    folder: &Path,
    points: Vec<Point>,
    scenario: &str,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let stopped = || stop.load(Ordering::Relaxed);
    let store = Store::open(folder, points.into(), scenario, arguments.task_runs, &stopped)?;
    let work = Work { shard: arguments.shard, threads: arguments.jobs, stop };
    let filled = metered(arguments.quiet, |progress| store.fill(&work, progress));
    let shown = folder.display();
    match filled.map_err(Failure::from) {
        Ok(made) => printing::print(|out| {
            let (parts, runs) =
                store.share(arguments.shard).fold((0, 0), |(n, runs), task| (n + 1, runs + store.runs_of(task)));
            writeln!(out, "{shown}: {parts} parts with {runs} runs are there; {made} of the parts were made now")
        }),
        Err(Failure::Interrupted(text)) => {
            let text = format!("{text}; they are kept in {shown}. To go on, repeat the command");
            Err(Failure::Interrupted(text))
        }
        Err(failure) => Err(failure),
    }
}

/// Shows the progress of what `work` does.
fn metered<T>(quiet: bool, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
    let mut meter = (!quiet).then(Meter::new);
    let done = work(&mut |at| {
        if let Some(meter) = &mut meter {
            meter.show(at);
        }
    });
    if let Some(meter) = meter {
        meter.finish();
    }
    done
}

fn simulate(
    arguments: &Arguments,
    points: &[Point],
    folder: Option<&ResultsFolder>,
    trace: bool,
    stop: &AtomicBool,
) -> Result<Results, Failure> {
    let part = folder.map(ResultsFolder::part);
    let options = Options { threads: arguments.jobs, journal: part.as_deref(), resume: arguments.resume, stop, trace };
    let outcome = metered(arguments.quiet, |progress| sweep::run(points, &options, progress));
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
