//! `headend compare`

mod table;
mod thin;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use headend_engine::time::Duration;
use headend_scenario::results::{Results, RunOutcome, Table};
use headend_scenario::{Point, Scenario};
use headend_sim::sweep;
use headend_sim::world::World;

use crate::failure::Failure;
use crate::lab::{self, Health, LabPace};
use crate::outputs::ResultsFolder;
use crate::printing::{self, ResultsFormat};
use crate::request::ScenarioRequest;
use crate::{meta, signals};

/// Run a scenario in the simulator and between Linux hosts, and set the two side by side
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend compare scenarios/dumbbell.toml --set duration=10s\n  \
    headend compare scenarios/lab/10mbit-40ms.toml --jobs 4 --format csv > grid.csv\n\n\
    Differences are the simulator's value less the kernel's, in per cent of the kernel's. Both use the same seeds, so the\n\
    links lose packets with the same numbers. Flows begin at random within `start_jitter`, and simulated packets take up to\n\
    `host_jitter` longer on a link: 1 ms and 20 us, if the file says nothing. Linux's own spread, from its least run to its best,\n\
    says how much of a difference is Linux's.\n\
    Exit codes: 0; 3 if the machine did not keep up in some of the runs; 2 for a wrong request; 1 for a failure; 130 for an interruption (Ctrl-C).")]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: ScenarioRequest,

    /// Form of the comparison on stdout
    #[arg(long, value_enum, default_value_t = ResultsFormat::Table)]
    format: ResultsFormat,

    /// Write the comparison to this folder, whole or not at all; with series.csv, the windows of each side's first run
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace the comparison in DIR
    #[arg(long, requires = "out")]
    force: bool,

    #[command(flatten)]
    pace: LabPace,
}

/// The results of a comparison.
#[derive(Debug)]
struct Comparison {
    /// A row for each flow of each point; see [`table::compare`].
    rows: Table,
    /// A row for each point, of all its flows together; see [`table::together`].
    together: Table,
    /// The windows of each side's first run; see [`thin::Windows`].
    series: Table,
    /// The scenario's results on either side.
    sides: [Results; 2],
    health: Vec<Health>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::stop_flag(false)?;
    let (document, mut points) = arguments.request.read()?;
    points.iter_mut().for_each(|point| unsettle(&mut point.scenario));
    let folder = arguments.out.as_deref().map(|path| ResultsFolder::new(path, arguments.force)).transpose()?;
    lab::prepare(&arguments.request, &document, &points)?;
    let comparison = compare(&points, &stop, &arguments.pace)?;
    if let Some(folder) = &folder {
        let [sim, linux] = &comparison.sides;
        let tables = [
            ("comparison.csv", &comparison.rows),
            ("together.csv", &comparison.together),
            ("series.csv", &comparison.series),
            ("sim-flows.csv", &sim.flows),
            ("linux-flows.csv", &linux.flows),
        ];
        let mut meta = meta::of_results(&points, linux);
        meta["lab"] = lab::health_of(&comparison.health);
        folder.write_tables(&tables, &meta::scenario_text(&arguments.request, &document), &meta)?;
    }
    let printed = print(arguments.format, &points, &comparison);
    lab::warn_of_strain(&comparison.health);
    printed?;
    arguments.pace.judge(&comparison.health)
}

/// Two runs of a kernel are never the same, and six equal runs of a simulator are one: without anything else in the file, flows
/// begin at random times within a millisecond, the same on both sides, and simulated packets take some microseconds longer at random.
fn unsettle(scenario: &mut Scenario) {
    scenario.start_jitter.get_or_insert(Duration::from_millis(1));
    scenario.host_jitter.get_or_insert(Duration::from_micros(20));
}

fn compare(points: &[Point], stop: &AtomicBool, pace: &LabPace) -> Result<Comparison, Failure> {
    let mut windows = thin::Windows::default();
    let simulated = simulate(points, stop, &mut windows)?;
    let ran = lab::run_all(points, None, stop, pace)?;
    let health: Vec<Health> = ran.iter().map(|ran| ran.health).collect();
    let mut late = vec![0; points.len()];
    for ran in ran.iter().filter(|ran| !ran.health.kept_up()) {
        late[ran.outcome.point] += 1;
    }
    for ran in ran.iter().filter(|ran| ran.outcome.run == 0) {
        windows.note("linux", &ran.outcome, &ran.trace);
    }
    let swept = sweep::swept_columns(points);
    let series = windows.table(&swept);
    let mut linux = lab::tables(points, ran);
    linux.traces = None;
    let sim = Results::of(&simulated, &swept, None);
    let rows = table::compare(points, &swept, &sim.flows, &linux.flows, &late);
    let together = table::together(points, &swept, &sim.flows, &linux.flows);
    Ok(Comparison { rows, together, series, sides: [sim, linux], health })
}

/// Every run of every point in the simulator. Of each point's first one the windows are kept.
fn simulate(points: &[Point], stop: &AtomicBool, windows: &mut thin::Windows) -> Result<Vec<RunOutcome>, Failure> {
    let mut outcomes = Vec::new();
    for point in points {
        for run in 0..point.scenario.runs {
            let world = World::build(&point.scenario, run, run == 0);
            let stopped = || stop.load(Ordering::Relaxed);
            let Some((outcome, trace)) = world.run(point.index, &stopped) else {
                return Err(Failure::Interrupted("interrupted before anything was compared".to_owned()));
            };
            if let Some(trace) = trace {
                windows.note("sim", &outcome, &trace);
            }
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

fn print(format: ResultsFormat, points: &[Point], comparison: &Comparison) -> Result<(), Failure> {
    printing::print(|mut out| match format {
        ResultsFormat::Csv => comparison.rows.write_csv(&mut out),
        ResultsFormat::Json => {
            let scenario = &points[0].scenario;
            let json = serde_json::json!({
                "title": scenario.title,
                "seed": scenario.seed,
                "rows": comparison.rows,
                "together": comparison.together,
                "series": comparison.series,
                "runs": lab::health_of(&comparison.health),
            });
            serde_json::to_writer(&mut out, &json)?;
            writeln!(out)
        }
        ResultsFormat::Table => {
            if !points[0].scenario.title.is_empty() {
                writeln!(out, "{}\n", points[0].scenario.title)?;
            }
            let (headings, rows) = table::shown(points, &comparison.rows);
            printing::write_table(out, &headings, &rows)?;
            writeln!(out, "\n{}", table::verdict(&comparison.rows, &comparison.together))
        }
    })
}
