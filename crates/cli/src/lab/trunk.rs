//! The trunks of a lab: `headend trunk up` itself, in the namespace of each router at which a circuit begins or ends.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use headend_host::process;
use headend_host::trunk::{Identity, PublicKey};
use headend_scenario::Scenario;
use headend_scenario::results::CircuitRow;
use serde_json::{Value, json};

use super::circuits::TrunkPlan;
use super::program::{self, ProgramFolder};
use super::site::Site;
use super::watch::Crossing;
use crate::failure::Failure;

/// A daemon is given so long to come up, and both together to agree on their circuits.
const UP_MAX: Duration = Duration::from_secs(20);
/// The longest wait for what a daemon says of itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two looks at what waits. Daemons tell it anew as often.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Daemons that run, each with a thread inside its namespace. All end when this is dropped.
#[derive(Debug)]
pub(super) struct RunningTrunks<'scope> {
    threads: Vec<Thread<'scope>>,
    /// Their sockets, two for each plan.
    sockets: Vec<[PathBuf; 2]>,
    /// The most that was seen to wait at each: packets and bytes.
    most: Vec<[[u64; 2]; 2]>,
    looked: Option<Instant>,
}

/// Told to end by hanging up on it.
#[derive(Debug)]
struct Thread<'scope> {
    end: Sender<()>,
    handle: ScopedJoinHandle<'scope, io::Result<()>>,
}

/// The files of a daemon.
#[derive(Clone, Debug)]
struct Files {
    config: PathBuf,
    words: PathBuf,
}

impl<'scope> RunningTrunks<'scope> {
    /// Makes the keys of all `plans`, starts their daemons and waits until every circuit carries.
    pub(super) fn start<'env>(
        scope: &'scope thread::Scope<'scope, 'env>,
        plans: &'env [TrunkPlan],
        site: &'env Site,
        folder: Option<&ProgramFolder>,
    ) -> Result<RunningTrunks<'scope>, Failure> {
        let mut running = RunningTrunks { threads: Vec::new(), sockets: Vec::new(), most: Vec::new(), looked: None };
        let Some(folder) = folder else { return Ok(running) };
        for plan in plans {
            let written = write(plan, &folder.0).map_err(|why| Failure::Failed(format!("a trunk's files: {why}")))?;
            running.sockets.push([0, 1].map(|at| folder.0.join(format!("{}-{at}.sock", plan.name))));
            running.most.push([[0; 2]; 2]);
            for (end, files) in plan.ends.iter().zip(written) {
                let (ready, is_ready) = mpsc::channel();
                let (hang_up, ended) = mpsc::channel();
                let node = end.node;
                let handle = scope.spawn(move || {
                    site.host(node).namespace.enter()?;
                    run(&files, &ready, &ended)
                });
                // It hangs up if it fails.
                let is_up = is_ready.recv().is_ok();
                if !is_up {
                    let why = handle.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
                    let why = why.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                    return Err(Failure::Failed(format!("headend trunk does not come up: {why}")));
                }
                running.threads.push(Thread { end: hang_up, handle });
            }
        }
        running.await_circuits()?;
        Ok(running)
    }

    fn await_circuits(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        for socket in self.sockets.iter().flatten() {
            loop {
                let state =
                    status(socket, PATIENCE).map(|status| status["peers"][0]["state"].as_str().map(str::to_owned));
                if matches!(&state, Ok(Some(state)) if state == "carrying") {
                    break;
                }
                if begun.elapsed() > UP_MAX {
                    return Err(Failure::Failed(format!(
                        "after {} s a trunk carries nothing: {}",
                        UP_MAX.as_secs(),
                        state.map_or_else(|error| error.to_string(), |state| state.unwrap_or_default())
                    )));
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Notes what waits now and then; to be called more often than that.
    pub(super) fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        for (socket, most) in self.sockets.iter().flatten().zip(self.most.iter_mut().flatten()) {
            let Ok(status) = status(socket, LOOK_EVERY / 4) else { continue };
            let classes = status["peers"][0]["classes"].as_array().cloned().unwrap_or_default();
            let now = ["waiting", "waiting_bytes"].map(|what| sum(&classes, what));
            most.iter_mut().zip(now).for_each(|(most, now)| *most = (*most).max(now));
        }
    }

    /// The present status of all daemons, both ends of each circuit.
    pub(super) fn statuses(&self) -> Result<Vec<[Value; 2]>, Failure> {
        let ask = |socket: &PathBuf| status(socket, PATIENCE).map_err(|error| Failure::io(socket, error));
        self.sockets.iter().map(|[one, other]| Ok([ask(one)?, ask(other)?])).collect()
    }

    /// The most that was seen to wait at each end of each plan: packets and bytes.
    pub(super) fn most(&self) -> Vec<[[u64; 2]; 2]> {
        self.most.clone()
    }

    /// Ends all of them.
    pub(super) fn end(self) -> Result<(), Failure> {
        for Thread { end, handle } in self.threads {
            drop(end);
            let ended = handle.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
            ended.map_err(|error| Failure::Failed(format!("headend trunk: {error}")))?;
        }
        Ok(())
    }
}

/// Writes keys and configurations of both ends.
fn write(plan: &TrunkPlan, folder: &Path) -> io::Result<[Files; 2]> {
    let mut public: Vec<PublicKey> = Vec::new();
    for at in 0..2 {
        let identity = Identity::generate();
        identity.save(&folder.join(format!("{}-{at}.key", plan.name))).map_err(io::Error::other)?;
        public.push(identity.public());
    }
    let file = |at: usize| -> io::Result<Files> {
        let name = format!("{}-{at}", plan.name);
        let end = &plan.ends[at];
        let text = format!(
            "private_key = \"{name}.key\"\nstatus = \"{name}.sock\"\n{}[[peer]]\npublic_key = \"{}\"\n{}",
            end.head,
            public[1 - at],
            end.peer
        );
        let files = Files { config: folder.join(format!("{name}.toml")), words: folder.join(format!("{name}.words")) };
        fs::write(&files.config, text)?;
        Ok(files)
    };
    Ok([file(0)?, file(1)?])
}

/// Runs a daemon in this thread's namespace until `ended` hangs up.
fn run(files: &Files, ready: &Sender<()>, ended: &Receiver<()>) -> io::Result<()> {
    let mut command = process::command(std::env::current_exe()?);
    command.args(["trunk", "up"]).arg(&files.config);
    // A file and no pipe: nobody has to read while it runs.
    command.stdout(Stdio::null()).stderr(Stdio::from(File::create(&files.words)?));
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let said = || fs::read_to_string(&files.words).unwrap_or_default();
    // The last that it says before it runs.
    while !said().lines().any(|line| line.starts_with("the trunk ") && line.ends_with(" is up")) {
        if child.try_wait()?.is_some() {
            let said = said();
            return Err(io::Error::other(said.lines().last().unwrap_or("it said nothing").to_owned()));
        }
        if begun.elapsed() > UP_MAX {
            program::end(&mut child);
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = ready.send(());
    // Only ever hangs up.
    let _ = ended.recv();
    // Killed: an orderly end lets go what waits, which is no part of the run. What it has set goes with the namespace.
    program::end(&mut child);
    Ok(())
}

/// Asks a daemon what it is at. While a run goes on nobody waits for long: it would not end in time.
fn status(socket: &Path, patience: Duration) -> io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn sum(rows: &[Value], what: &str) -> u64 {
    rows.iter().filter_map(|row| row[what].as_u64()).sum()
}

/// The rows of the table of circuits, in the scenario's order: of what daemons said when the run ended, and of what was seen to cross.
pub(super) fn rows(
    scenario: &Scenario,
    plans: &[TrunkPlan],
    statuses: &[[Value; 2]],
    most: &[[[u64; 2]; 2]],
    crossings: &[Crossing],
) -> Vec<CircuitRow> {
    let mut rows = Vec::new();
    for (number, circuit) in scenario.circuits.iter().enumerate() {
        let place = plans.iter().enumerate().find_map(|(plan, it)| {
            let at = it.ends.iter().position(|end| end.circuit == Some(number))?;
            Some((plan, at))
        });
        let (plan, at) = place.expect("every circuit is planned");
        let peer = &statuses[plan][at]["peers"][0];
        let (to, classes) = (&peer["to"], peer["classes"].as_array().cloned().unwrap_or_default());
        let count = |what: &str| to[what].as_u64().unwrap_or(0);
        let [queue_max_packets, queue_max_bytes] = most[plan][at];
        rows.push(CircuitRow {
            circuit: circuit.name.as_str().into(),
            controlled_bytes: count("controlled_bytes"),
            guaranteed_bytes: count("guaranteed_bytes"),
            headers: if plans[plan].is_sealed { 0 } else { count("headers") },
            timeouts: count("timeouts"),
            fast_retransmits: count("losses").saturating_sub(if plans[plan].is_sealed { count("timeouts") } else { 0 }),
            arrived: sum(&classes, "arrived"),
            dropped: sum(&classes, "dropped"),
            queue_max_packets,
            queue_max_bytes,
            sent_bytes: crossings[number].sent,
            answered_bytes: crossings[number].answered,
            datagrams_lost: count("lost"),
            ..CircuitRow::default()
        });
    }
    rows
}

/// What the daemons said, as JSON: an entry for each circuit.
pub(super) fn told(scenario: &Scenario, plans: &[TrunkPlan], statuses: &[[Value; 2]]) -> Vec<Value> {
    let mut told = Vec::new();
    for (plan, statuses) in plans.iter().zip(statuses) {
        for (end, status) in plan.ends.iter().zip(statuses) {
            let Some(circuit) = end.circuit else { continue };
            told.push(json!({
                "circuit": scenario.circuits[circuit].name,
                "carriage": if plan.is_sealed { "sealed" } else { "native" },
                "status": status["peers"][0],
            }));
        }
    }
    told
}
