//! `headend lab`

mod between;
mod circuits;
mod errand;
mod limits;
mod program;
mod proxy;
mod run;
mod sampler;
mod site;
mod socket;
mod spans;
mod stage;
mod stream;
mod traffic;
mod trunk;
mod watch;

use std::io;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{ArgGroup, ArgMatches, Args, Command, FromArgMatches};

use headend_host::personality::Unmapped;
use headend_host::privilege;
use headend_host::socket::Memory;
use headend_scenario::results::Results;
use headend_scenario::results::trace::Traces;
use headend_scenario::{Document, NodeKind, Point};
use headend_sim::sweep::{self, Meter, Progress};
use serde_json::Value;

use crate::failure::Failure;
use crate::printing::{self, ResultsFormat};
use crate::python::ReportRequest;
use crate::request::ScenarioRequest;
use crate::{meta, signals};

pub(crate) use errand::Told;
pub(crate) use program::Program;
pub(crate) use proxy::Relayed;
pub(crate) use run::{Health, Ran};

/// Run a scenario in real time between Linux hosts, each in a network namespace
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("kept").args(["out", "report"]).multiple(true),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
    headend lab scenarios/dumbbell.toml --set duration=10s\n  \
    headend lab scenarios/hfc.toml --set nodes.*.personality=linux --runs 3 --out results/lab\n  \
    headend lab clean\n\n\
    A host does what the kernel can do of its personality; what it cannot is said on stderr.\n\
    Exit codes: 0; 3 if the machine did not keep up in some of the runs; 2 for a wrong request; 1 for a failure; 130 for an interruption (Ctrl-C)."
)]
pub(crate) struct Lab {
    #[command(flatten)]
    request: ScenarioRequest,

    /// Form of the results on stdout
    #[arg(long, value_enum, default_value_t = ResultsFormat::Table)]
    format: ResultsFormat,

    /// Write all results to this folder, whole or not at all; with series.csv, what TCP_INFO said of each sender
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Replace the results in DIR
    #[arg(long, requires = "kept")]
    force: bool,

    #[command(flatten)]
    report: ReportRequest,

    /// Drive the flows with a real program instead of our own traffic
    #[arg(long = "with", value_name = "PROGRAM", value_enum)]
    program: Option<Program>,

    #[command(flatten)]
    pace: LabPace,
}

/// The way in which a lab goes through its runs.
#[derive(Args, Debug)]
pub(crate) struct LabPace {
    /// Runs of a point at a time; more than one is for links of a few Mbit/s, as they share the machine
    #[arg(long, alias = "together", value_name = "N", default_value_t = NonZeroUsize::MIN)]
    pub(crate) jobs: NonZeroUsize,

    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Exit with 0 also if the machine did not keep up in some of the runs
    #[arg(long)]
    pub(crate) accept_late: bool,
}

/// `headend lab FILE` or `headend lab clean`.
#[derive(Debug)]
pub(crate) enum Arguments {
    Measure(Box<Lab>),
    Clean,
}

const CLEAN: &str = "clean";
const CLEAN_HELP: &str = "Example:\n  \
    headend lab clean\n\n\
    It prints a line for each namespace or folder that it removed. A lab also does this before its first run.\n\
    Exit codes: 0, also if there was nothing; 2 without the privilege; 1 for a failure.";

// By hand, because a derived one wants the scenario file even where the subcommand is given instead.
impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => Ok(Arguments::Clean),
            None => Ok(Arguments::Measure(Box::new(Lab::from_arg_matches(matches)?))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Arguments::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let about = "Remove what killed runs have left; those that are running are left alone";
        Lab::augment_args(command).subcommand(Command::new(CLEAN).about(about).after_help(CLEAN_HELP))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Arguments::augment_args(command)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments {
        Arguments::Measure(lab) => measure(lab),
        Arguments::Clean => clean(),
    }
}

fn clean() -> Result<(), Failure> {
    check_privilege("run `headend lab clean` as root")?;
    let cleaned = run::clean()?;
    printing::print(|out| {
        for name in &cleaned {
            writeln!(out, "removed {name}")?;
        }
        if cleaned.is_empty() {
            writeln!(out, "nothing to remove")?;
        }
        Ok(())
    })
}

fn measure(lab: &Lab) -> Result<(), Failure> {
    let stop = signals::stop_flag(false)?;
    let (document, points) = lab.request.read_for_real_hosts()?;
    let (folder, report) = lab.report.folders(lab.out.as_deref(), lab.force)?;
    prepare(&lab.request, &document, &points)?;
    if let Some(program) = lab.program {
        program.check(&points)?;
        program::caution(&points).inspect(|text| eprintln!("{text}"));
    }
    let ran = run_all(&points, lab.program, &stop, &lab.pace)?;
    let health: Vec<Health> = ran.iter().map(|ran| ran.health).collect();
    let relayed: Vec<Vec<Relayed>> = ran.iter().map(|ran| ran.relayed.clone()).collect();
    let trunks: Vec<Vec<Value>> = ran.iter().map(|ran| ran.trunks.clone()).collect();
    let programs: Vec<(String, Vec<Told>)> = ran.iter().map(|ran| (ran_name(ran), ran.programs.clone())).collect();
    let runs = told_of_runs(&health, &relayed, &trunks, &programs);
    let mut results = tables(&points, ran);
    if let Some(folder) = &folder {
        let mut meta = meta::of_results(&points, &results);
        meta["lab"] = runs.clone();
        let keep = |folder: &Path| keep_outputs(&programs, folder);
        folder.write_with(&results, &meta::scenario_text(&lab.request, &document), &meta, keep)?;
    }
    // The series is in the folder; stdout has what the simulator prints.
    results.traces = None;
    let printed = match lab.format {
        ResultsFormat::Json => print_json(&results, &runs),
        ResultsFormat::Table | ResultsFormat::Csv => printing::results(lab.format, &points, &results),
    };
    warn_of_strain(&health);
    if lab.format == ResultsFormat::Table {
        tell_of_proxies(&relayed);
        tell_of_programs(&programs);
    }
    printed?;
    report.map_or(Ok(()), |report| report.make())?;
    lab.pace.judge(&health)
}

/// The beginning of the names of a run's files.
fn ran_name(ran: &Ran) -> String {
    format!("point{}-run{}", ran.outcome.point, ran.outcome.run)
}

/// Copies what programs have written to a folder in the folder of results, if there were any.
fn keep_outputs(programs: &[(String, Vec<Told>)], folder: &Path) -> io::Result<()> {
    for (run, programs) in programs {
        programs.iter().try_for_each(|told| told.keep(&folder.join("programs"), run))?;
    }
    Ok(())
}

/// A JSON object for each run: whether the machine kept up, what its proxies have counted, what its trunks say of themselves, and what
/// its programs did.
fn told_of_runs(
    health: &[Health],
    relayed: &[Vec<Relayed>],
    trunks: &[Vec<Value>],
    programs: &[(String, Vec<Told>)],
) -> Value {
    let mut runs = health_of(health);
    let told = relayed.iter().zip(trunks).zip(programs);
    for (run, ((relayed, trunks), (_, programs))) in runs.as_array_mut().into_iter().flatten().zip(told) {
        run["proxies"] = relayed.iter().map(Relayed::json).collect();
        run["trunks"] = trunks.clone().into();
        run["programs"] = programs.iter().map(|told| told.json().clone()).collect();
    }
    runs
}

/// What each client has written, as long as it is short, and how it ended.
fn tell_of_programs(programs: &[(String, Vec<Told>)]) {
    for (run, programs) in programs {
        programs.iter().for_each(|told| eprintln!("{run}: {}", told.line()));
    }
}

/// A line for each flow that went through a proxy, over all runs.
fn tell_of_proxies(relayed: &[Vec<Relayed>]) {
    let mut flows: Vec<(&str, [u64; 5])> = Vec::new();
    for one in relayed.iter().flatten() {
        let counts = [one.down.get(), one.up.get(), one.local_retransmits, one.remote_retransmits, 1];
        match flows.iter_mut().find(|(flow, _)| *flow == one.flow) {
            Some((_, sum)) => sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            None => flows.push((&one.flow, counts)),
        }
    }
    for (flow, [down, up, local, remote, connections]) in flows {
        eprintln!(
            "flows.{flow}: the proxy relayed {connections} connections, {down} bytes to its local side and {up} to the \
             remote one; it sent {local} segments again to the local side and {remote} to the remote one"
        );
    }
}

/// The simulator's tables, and `runs`: what is told of each.
fn print_json(results: &Results, runs: &Value) -> Result<(), Failure> {
    printing::print(|out| {
        let mut json = serde_json::to_value(results)?;
        json["runs"] = runs.clone();
        serde_json::to_writer_pretty(&mut *out, &json)?;
        writeln!(out)
    })
}

/// Whatever has to be in order before anything is run: points that a lab can run, privileges, and a place that is clean.
/// Says what the kernel cannot do of the hosts' personalities.
pub(crate) fn prepare(request: &ScenarioRequest, document: &Document, points: &[Point]) -> Result<(), Failure> {
    limits::check(document, points)?;
    let has = |sealed: bool| {
        points.iter().flat_map(|point| &point.scenario.circuits).any(|it| circuits::is_sealed(it) == sealed)
    };
    for is_sealed in [false, true].into_iter().filter(|&sealed| has(sealed)) {
        let missing = privilege::missing_for_trunks(is_sealed);
        if !missing.is_empty() {
            let name = if is_sealed { "in-band" } else { "headers" };
            let text = format!("circuits with loss_signal = \"{name}\" need {}", missing.join("; "));
            return Err(Failure::Wrong(text));
        }
    }
    let file = request.file.display();
    check_privilege(&format!("run it as root, or simulate: headend sim {file}"))?;
    privilege::raise_open_files(0);
    run::clean()?;
    for line in unmapped(points) {
        eprintln!("{line}");
    }
    Ok(())
}

fn check_privilege(instead: &str) -> Result<(), Failure> {
    let missing = privilege::missing();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Wrong(format!("headend lab makes networks, and this process lacks {}; {instead}", missing.join("; "))))
}

/// The parts of the personalities of hosts and of the sides of proxies that the kernel cannot do, and those of circuits that trunks do
/// otherwise: a line for each, nodes and circuits that share it together.
fn unmapped(points: &[Point]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (circuit, text) in points.iter().flat_map(|point| circuits::otherwise(&point.scenario)) {
        match lines.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) if names.contains(&circuit) => {}
            Some((_, names)) => names.push(circuit),
            None => lines.push((text, vec![circuit])),
        }
    }
    let through =
        points.iter().flat_map(|point| &point.scenario.flows).filter_map(|flow| Some((flow, socket::otherwise(flow)?)));
    for (flow, text) in through {
        let name = format!("flows.{}.socket", flow.name);
        match lines.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => lines.push((text, vec![name])),
        }
    }
    let mut note = |node: String, found: Vec<Unmapped>| {
        for one in found {
            let text = format!("{} is not as the scenario says: in Linux {}", one.option, one.why);
            match lines.iter_mut().find(|(known, _)| *known == text) {
                Some((_, nodes)) if nodes.contains(&node) => {}
                Some((_, nodes)) => nodes.push(node.clone()),
                None => lines.push((text, vec![node.clone()])),
            }
        }
    };
    for scenario in points.iter().map(|point| &point.scenario) {
        for (number, node) in scenario.nodes.iter().enumerate() {
            match &node.kind {
                NodeKind::Host { personality, .. } => note(node.name.clone(), site::unmapped(personality)),
                NodeKind::Proxy(proxy) if scenario.flows.iter().any(|flow| flow.via() == Some(number)) => {
                    for (side, tcp) in [("local", &proxy.local), ("remote", &proxy.remote)] {
                        note(format!("{}.{side}", node.name), site::unmapped(&tcp.personality));
                    }
                    note(format!("{}.remote", node.name), site::shared_settings(proxy));
                }
                NodeKind::Proxy(_) | NodeKind::Router => {}
            }
        }
    }
    lines.into_iter().map(|(text, nodes)| format!("{}: {text}", nodes.join(", "))).collect()
}

/// Every run of every point: as many of a point's runs at a time as `pace` says, by default one, as they would disturb each
/// other.
pub(crate) fn run_all(
    points: &[Point],
    program: Option<Program>,
    stop: &AtomicBool,
    pace: &LabPace,
) -> Result<Vec<Ran>, Failure> {
    let total = points.iter().map(|point| point.scenario.runs as usize).sum();
    let mut meter = (!pace.quiet).then(Meter::new);
    let mut all = Vec::new();
    let mut patience = PATIENCE;
    for point in points {
        let runs: Vec<u32> = (0..point.scenario.runs).collect();
        for together in runs.chunks(pace.jobs.get()) {
            if let Some(meter) = &mut meter {
                meter.show(Progress { done: all.len(), total });
            }
            await_memory(&mut patience, stop);
            let ran = if stop.load(Ordering::Relaxed) { None } else { run_together(point, together, program, stop)? };
            let Some(ran) = ran else {
                let text = format!("interrupted after {} of {total} runs; everything is taken down", all.len());
                return Err(Failure::Interrupted(text));
            };
            all.extend(ran);
        }
    }
    if let Some(meter) = meter {
        meter.finish();
    }
    Ok(all)
}

/// The time that a command waits, over all its runs, for the memory of connections that others have left: the kernel
/// gives these up after about two minutes.
const PATIENCE: Duration = Duration::from_secs(150);

/// Waits, as long as `patience` lasts and `stop` is not set, until TCP holds so little memory on this machine that windows
/// can grow. Only what no program has any more is waited for; a run that begins short of memory all the same is marked.
fn await_memory(patience: &mut Duration, stop: &AtomicBool) {
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    let mut is_told = false;
    while let Some(memory) = Memory::now().filter(|memory| memory.is_short() && memory.orphans > 0) {
        if patience.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        if !is_told {
            is_told = true;
            eprintln!(
                "TCP holds {} pages of memory, and from {} on (net.ipv4.tcp_mem) Linux keeps windows small: waiting up to \
                 {:.0} s for {} connections to go that no program has any more.",
                memory.held_pages,
                memory.free_pages,
                patience.as_secs_f64(),
                memory.orphans
            );
        }
        thread::sleep(LOOK_EVERY);
        *patience = patience.saturating_sub(LOOK_EVERY);
    }
}

/// These runs of a point, at the same time. `None` if `stop` was set meanwhile.
fn run_together(
    point: &Point,
    runs: &[u32],
    program: Option<Program>,
    stop: &AtomicBool,
) -> Result<Option<Vec<Ran>>, Failure> {
    if let &[run] = runs {
        return Ok(run::run(point, run, program, stop)?.map(|ran| vec![ran]));
    }
    thread::scope(|scope| {
        let threads: Vec<_> =
            runs.iter().map(|&run| scope.spawn(move || run::run(point, run, program, stop))).collect();
        let ran = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panicked| resume_unwind(panicked)));
        // All of them are awaited, also after one has failed.
        ran.collect::<Vec<_>>().into_iter().collect()
    })
}

/// The simulator's tables of these runs.
pub(crate) fn tables(points: &[Point], ran: Vec<Ran>) -> Results {
    let swept = sweep::swept_columns(points);
    let (outcomes, traces): (Vec<_>, Vec<_>) = ran.into_iter().map(|ran| (ran.outcome, ran.trace)).unzip();
    let traces = Traces::of(&outcomes, traces.into_iter(), &swept);
    Results::of(&outcomes, &swept, Some(traces))
}

/// A JSON object for each run, for the folder of results: whether it kept up.
pub(crate) fn health_of(health: &[Health]) -> serde_json::Value {
    let one = |health: &Health| {
        let Health { strain, deliveries, is_urgent, is_short_of_memory, is_overrun } = health;
        serde_json::json!({
            "kept_up": health.kept_up(),
            "short_of_memory": is_short_of_memory,
            "ended_late": is_overrun,
            "real_time_priority": is_urgent,
            "delivery_lateness_p50_s": deliveries.p50.as_secs_f64(),
            "delivery_lateness_p99_s": deliveries.p99.as_secs_f64(),
            "delivery_lateness_max_s": deliveries.max.as_secs_f64(),
            "late_deliveries": strain.late,
            "packets_dropped_by_devices": strain.dropped + strain.refused,
        })
    };
    health.iter().map(one).collect()
}

impl LabPace {
    /// Fails if there are runs that are not to be relied on, unless they are accepted.
    pub(crate) fn judge(&self, health: &[Health]) -> Result<(), Failure> {
        let unreliable = health.iter().filter(|health| !health.kept_up()).count();
        if unreliable == 0 || self.accept_late {
            return Ok(());
        }
        Err(Failure::Unreliable(format!(
            "exit code 3: {unreliable} of {} runs are not to be relied on (--accept-late takes them all the same)",
            health.len()
        )))
    }
}

/// Says which runs are not to be relied on.
pub(crate) fn warn_of_strain(health: &[Health]) {
    let strained = health.iter().filter(|health| !health.strain.is_none()).count();
    if strained > 0 {
        let latest = health.iter().map(|health| health.deliveries.max).max().unwrap_or_default();
        let dropped: u64 = health.iter().map(|health| health.strain.dropped + health.strain.refused).sum();
        eprintln!(
            "The machine did not keep up in {strained} of {} runs: a packet was up to {:.1} ms late, and devices \
             dropped {dropped}. Their results are not to be relied on.",
            health.len(),
            latest.as_secs_f64() * 1e3
        );
    }
    let short = health.iter().filter(|health| health.is_short_of_memory).count();
    if short > 0 {
        eprintln!(
            "In {short} of {} runs TCP held more memory on this machine than the first value of net.ipv4.tcp_mem, and Linux \
             keeps windows small then. Their results are not to be relied on.",
            health.len()
        );
    }
    let overrun = health.iter().filter(|health| health.is_overrun).count();
    if overrun > 0 {
        eprintln!(
            "In {overrun} of {} runs the flows were ended late, because the machine had too much else to do. Their results are \
             not to be relied on.",
            health.len()
        );
    }
    if health.iter().any(|health| !health.is_urgent) {
        eprintln!("The links ran without real-time priority (CAP_SYS_NICE): delays are less exact.");
    }
}
