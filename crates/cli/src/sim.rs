//! `headend sim`

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;

use headend_scenario::Point;
use headend_scenario::results::{Results, Table, write_captures};
use headend_sim::sweep::{self, Meter, Options};

use crate::failure::Failure;
use crate::outputs::ResultsFolder;
use crate::printing::{self, ResultsFormat};
use crate::request::ScenarioRequest;
use crate::{meta, signals};

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
    request: ScenarioRequest,

    /// Form of the results on stdout
    #[arg(long, value_enum, default_value_t = ResultsFormat::Table)]
    format: ResultsFormat,

    /// Write all results to this folder, whole or not at all
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace the results in DIR
    #[arg(long, requires = "out")]
    force: bool,

    /// Take up the interrupted sweep whose finished runs are beside DIR
    #[arg(long, requires = "out")]
    resume: bool,

    /// Runs at a time, each on a thread of its own [default: one per core]
    #[arg(long, alias = "threads", value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Record what each sender and packet does: series.csv and packets.csv in DIR
    #[arg(long, requires = "out")]
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
    let folder = arguments.out.as_deref().map(|path| ResultsFolder::new(path, arguments.force)).transpose()?;
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
    printing::results(arguments.format, &points, &results)
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
