//! All points and runs of a scenario on all cores. Results are in the order of points and runs whatever the number of
//! threads, and every run depends on its scenario and seed alone.

mod journal;
mod progress;

use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::{fmt, io, thread};

use crate::world::World;
use headend_scenario::Point;
use headend_scenario::results::trace::{RunTrace, Traces};
use headend_scenario::results::{Results, RunOutcome, Swept};

use journal::Journal;
pub use progress::Meter;

/// Options of a sweep: its threads, its journal, its interruption, and whether to trace.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// Worker threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// The folder whose `journal.jsonl` keeps finished runs, so that an interrupted sweep can be resumed.
    pub journal: Option<&'a Path>,
    /// True to take up the journal that is there instead of refusing to overwrite it.
    pub resume: bool,
    /// A flag that is set from outside to interrupt: runs under way are given up, finished ones stay in the journal.
    pub stop: &'a AtomicBool,
    /// True to record time series and packets of every run. Traces are not journalled: when resumed, all runs are
    /// repeated.
    pub trace: bool,
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs finished, those of the journal included.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
}

/// The reason why a sweep yielded nothing.
#[derive(Debug)]
pub enum Error {
    /// The journal cannot be read or written.
    Journal(PathBuf, io::Error),
    /// A journal is there and `resume` was not asked for.
    JournalExists(PathBuf),
    /// The journal belongs to another scenario or another version.
    OtherScenario(PathBuf),
    /// The sweep was interrupted; the finished runs are in the journal, if there is one.
    Interrupted(Progress),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Journal(path, error) => write!(f, "{}: {error}", path.display()),
            Error::JournalExists(path) => {
                write!(f, "{}: an interrupted sweep is kept here; resume it or remove it", path.display())
            }
            Error::OtherScenario(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path}: these runs are of another scenario or version, so they cannot be resumed; remove them"
                )
            }
            Error::Interrupted(at) => write!(f, "interrupted after {} of {} runs", at.done, at.total),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Journal(_, error) => Some(error),
            _ => None,
        }
    }
}

type Finished = (RunOutcome, Option<RunTrace>);
/// The outcome of a run: `None` if it was stopped, its panic if it found an invariant broken.
type Ended = Result<Option<Finished>, Box<dyn Any + Send>>;

/// Runs every point of a sweep as often as the scenario says. `progress` hears of each finished run, and several times
/// a second meanwhile, so that its owner can look for signals.
///
/// # Errors
/// A journal that does not serve, an interruption.
///
/// # Panics
/// If a run breaks an invariant, with that invariant.
pub fn run(points: &[Point], options: &Options<'_>, progress: &mut dyn FnMut(Progress)) -> Result<Results, Error> {
    let jobs: Vec<(usize, u32)> = points
        .iter()
        .enumerate()
        .flat_map(|(index, point)| (0..point.scenario.runs).map(move |run| (index, run)))
        .collect();
    let mut slots: Vec<Option<Finished>> = jobs.iter().map(|_| None).collect();
    let mut journal = options.journal.map(|folder| Journal::open(folder, points, options.resume)).transpose()?;
    if let Some(journal) = journal.as_mut().filter(|_| !options.trace) {
        for outcome in journal.take_finished() {
            if let Ok(slot) = jobs.binary_search(&(outcome.point, outcome.run as u32)) {
                slots[slot] = Some((outcome, None));
            }
        }
    }
    work(points, &jobs, &mut slots, journal.as_mut(), options, progress)?;

    let (runs, traces): (Vec<RunOutcome>, Vec<Option<RunTrace>>) = slots.into_iter().flatten().unzip();
    let swept = swept_columns(points);
    let traces = options.trace.then(|| Traces::of(&runs, traces.into_iter().flatten(), &swept));
    Ok(Results::of(&runs, &swept, traces))
}

/// Fills the empty slots.
fn work(
    points: &[Point],
    jobs: &[(usize, u32)],
    slots: &mut [Option<Finished>],
    mut journal: Option<&mut Journal>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let todo: Vec<usize> = (0..jobs.len()).filter(|&slot| slots[slot].is_none()).collect();
    let mut at = Progress { done: jobs.len() - todo.len(), total: jobs.len() };
    let mut failure: Result<(), Error> = Ok(());
    let mut broken = None;
    let next = AtomicUsize::new(0);
    let halt = AtomicBool::new(false);
    let threads = options.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        // Without room, so that a worker begins no run before its last one is in the journal.
        let (sender, receiver) = mpsc::sync_channel::<(usize, Ended)>(0);
        for _ in 0..threads.min(todo.len()) {
            let (sender, todo, next, halt) = (sender.clone(), &todo, &next, &halt);
            scope.spawn(move || {
                let stopped = || options.stop.load(Ordering::Relaxed) || halt.load(Ordering::Relaxed);
                while !stopped()
                    && let Some(&slot) = todo.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let (point, run) = jobs[slot];
                    let ended = catch_unwind(AssertUnwindSafe(|| {
                        World::build(&points[point].scenario, run, options.trace).run(point, &stopped)
                    }));
                    sender.send((slot, ended)).expect("the collector listens until all workers are done");
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok((slot, Ok(Some(finished)))) => {
                    if let Some(journal) = journal.as_deref_mut()
                        && let Err(error) = journal.append(&finished.0)
                    {
                        failure = Err(error);
                        halt.store(true, Ordering::Relaxed);
                    }
                    slots[slot] = Some(finished);
                    at.done += 1;
                }
                Ok((_, Ok(None))) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok((_, Err(panic))) => {
                    broken = Some(panic);
                    halt.store(true, Ordering::Relaxed);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            progress(at);
        }
    });
    if let Some(panic) = broken {
        resume_unwind(panic);
    }
    failure?;
    if at.done < at.total { Err(Error::Interrupted(at)) } else { Ok(()) }
}

/// The swept paths with their values at each point.
pub fn swept_columns(points: &[Point]) -> Vec<Swept> {
    let axes = points.first().map_or(0, |point| point.settings.len());
    (0..axes)
        .map(|axis| {
            let values = points.iter().map(|point| Arc::from(point.settings[axis].1.as_str())).collect();
            (points[0].settings[axis].0.clone(), values)
        })
        .collect()
}

#[cfg(test)]
mod tests;
