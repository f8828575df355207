//! Results of a study on disk, part by part as they come: memory does not grow with the number of runs.
//!
//! A *task* is a range of a study's runs, in the order of its points; its *part* is a Parquet file for each table. A part is
//! named by its number and by a hash of the sources that this program is built from, of the study's points as they resolve and
//! of the range. It is written beside its place and renamed, and its record, with lengths and hashes, comes last. So whoever
//! finds the record has the whole part, in whatever process or on whatever machine it was made, and what is there is skipped:
//! there is no other resumption.

mod parquet;
mod part;
mod plan;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use headend_scenario::Point;
use headend_scenario::results::{Results, Swept};
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::sweep::{Progress, swept_columns};
use crate::world::World;
pub use plan::Shard;
pub use work::Work;

/// The version of this program and a hash of the sources of which the simulator is built. Results of two builds are not mixed.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("HEADEND_SOURCES"));

/// The file that says whose results a folder holds.
const HEADER: &str = "store.json";
const FORMAT: &str = "headend store 1";

/// A folder for the results of a study, and the study.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    points: Arc<[Point]>,
    swept: Vec<Swept>,
    header: Header,
}

/// What a folder of results says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: String,
    build: String,
    /// The hash of all points.
    study: String,
    title: String,
    seed: u64,
    points: u64,
    /// Runs of each point.
    runs: u32,
    /// Runs of each task but perhaps the last.
    task_runs: u64,
}

/// The reason why a store cannot be used, or is not filled.
#[derive(Debug)]
pub enum Error {
    /// Something cannot be read or written.
    File(PathBuf, io::Error),
    /// The folder holds something that is not a store.
    NotAStore(PathBuf),
    /// The store was begun by the program of this build.
    OtherBuild(PathBuf, String),
    /// The store is of other points, runs or seeds.
    OtherStudy(PathBuf),
    /// The store's tasks have this number of runs.
    OtherTasks(PathBuf, u64),
    /// The work was interrupted; the parts that are whole stay.
    Interrupted(Progress),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::NotAStore(path) => {
                write!(
                    f,
                    "{}: holds files and is no store (no {HEADER} of this format); name another folder",
                    path.display()
                )
            }
            Error::OtherBuild(path, build) => write!(
                f,
                "{}: was begun by headend {build}, and this is {BUILD}; results of two builds are not mixed. Go on with \
                 that one, or name another folder",
                path.display()
            ),
            Error::OtherStudy(path) => write!(
                f,
                "{}: holds results of another scenario, sweep, seed or number of runs; name another folder",
                path.display()
            ),
            Error::OtherTasks(path, runs) => {
                write!(f, "{}: was begun with tasks of {runs} runs, and keeps to them", path.display())
            }
            Error::Interrupted(at) => write!(f, "interrupted after {} of {} runs", at.done, at.total),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File(_, error) => Some(error),
            _ => None,
        }
    }
}

impl Store {
    /// Opens the store in `folder` for the runs of `points`, or begins it. `scenario` is kept beside the results. Tasks have
    /// `task_runs` runs; if that is not given, as many as the store was begun with, else as many as take some seconds: see
    /// [`Shard`] for why each process comes to the same.
    ///
    /// # Errors
    /// A folder of something else, of another build or another study, or one that cannot be written.
    pub fn open(
        folder: &Path,
        points: Arc<[Point]>,
        scenario: &str,
        task_runs: Option<u64>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Store, Error> {
        let first = &points[0].scenario;
        let mut header = Header {
            format: FORMAT.to_owned(),
            build: BUILD.to_owned(),
            study: Fingerprint::of(format_args!("{points:?}")),
            title: first.title.clone(),
            seed: first.seed,
            points: points.len() as u64,
            runs: first.runs,
            task_runs: 0,
        };
        let known = match read_header(folder)? {
            Some(known) => known,
            None => {
                let runs = task_runs.or_else(|| plan::task_runs(&points, stopped));
                header.task_runs = runs.ok_or(Error::Interrupted(Progress { done: 0, total: 0 }))?;
                begin(folder, &header, scenario)?
            }
        };
        if known.build != BUILD {
            return Err(Error::OtherBuild(folder.to_owned(), known.build));
        }
        header.task_runs = known.task_runs;
        if known != header {
            return Err(Error::OtherStudy(folder.to_owned()));
        }
        if task_runs.is_some_and(|asked| asked != known.task_runs) {
            return Err(Error::OtherTasks(folder.to_owned(), known.task_runs));
        }
        Ok(Store { folder: folder.to_owned(), swept: swept_columns(&points), points, header })
    }

    /// The number of tasks.
    pub fn tasks(&self) -> u64 {
        self.runs().div_ceil(self.header.task_runs)
    }

    /// The tasks of a share.
    pub fn share(&self, shard: Shard) -> impl Iterator<Item = u64> {
        (0..self.tasks()).filter(move |&task| shard.has(task))
    }

    /// The number of runs in all.
    pub fn runs(&self) -> u64 {
        self.header.points * u64::from(self.header.runs)
    }

    /// The runs of a task, by their numbers in the order of points and runs.
    fn range(&self, task: u64) -> std::ops::Range<u64> {
        let begin = task * self.header.task_runs;
        begin..(begin + self.header.task_runs).min(self.runs())
    }

    /// The number of runs of a task.
    pub fn runs_of(&self, task: u64) -> u64 {
        let range = self.range(task);
        range.end - range.start
    }

    /// The name of a task's part. Names in alphabetical order are parts in the order of their runs.
    pub fn name(&self, task: u64) -> String {
        let Header { build, study, .. } = &self.header;
        let key = Fingerprint::of(format_args!("{build} {study} {:?}", self.range(task)));
        format!("{task:08}-{}", &key[..16])
    }

    /// True if a task's part is there and is what was written.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn has(&self, task: u64) -> Result<bool, Error> {
        part::is_whole(&self.folder, &self.name(task))
    }

    /// Runs a task and writes its part. `ran` hears of each run that has ended. False if it was stopped, and there is no part.
    ///
    /// # Errors
    /// A file that cannot be written.
    ///
    /// # Panics
    /// If a run breaks an invariant, with that invariant.
    pub fn make(&self, task: u64, stopped: &dyn Fn() -> bool, ran: &dyn Fn()) -> Result<bool, Error> {
        let mut outcomes = Vec::new();
        for job in self.range(task) {
            // A run looks for it now and then alone, and a short one never.
            if stopped() {
                return Ok(false);
            }
            let runs = u64::from(self.header.runs);
            let (point, run) = ((job / runs) as usize, (job % runs) as u32);
            match World::build(&self.points[point].scenario, run, false).run(point, stopped) {
                Some((outcome, _)) => outcomes.push(outcome),
                None => return Ok(false),
            }
            ran();
        }
        let results = Results::of(&outcomes, &self.swept, None);
        let about = [("headend.build", BUILD.to_owned()), ("headend.study", self.header.study.clone())];
        part::write(&self.folder, &self.name(task), &results, &about)?;
        Ok(true)
    }
}

/// What the store in `folder` says of itself; `None` if there is none, and nothing else in its place.
fn read_header(folder: &Path) -> Result<Option<Header>, Error> {
    let path = folder.join(HEADER);
    match fs::read(&path) {
        Ok(text) => {
            let header: Option<Header> = serde_json::from_slice(&text).ok();
            let is_ours = |header: &Header| header.format == FORMAT && header.task_runs > 0;
            header.filter(is_ours).map(Some).ok_or_else(|| Error::NotAStore(folder.to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let entries = match fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::File(folder.to_owned(), error)),
            };
            // Another process that begins the same store may have come so far as its scenario.
            let is_foreign = |name: &str| !name.starts_with('.') && name != SCENARIO;
            let mut names = entries.flatten().map(|entry| entry.file_name());
            if names.any(|name| is_foreign(&name.to_string_lossy())) {
                Err(Error::NotAStore(folder.to_owned()))
            } else {
                Ok(None)
            }
        }
        Err(error) => Err(Error::File(path, error)),
    }
}

const SCENARIO: &str = "scenario.toml";

/// Begins a store, unless another process has done so meanwhile: what it says counts.
fn begin(folder: &Path, header: &Header, scenario: &str) -> Result<Header, Error> {
    let path = folder.join(HEADER);
    let failed = |error| Error::File(path.clone(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    part::place(folder, SCENARIO, scenario.as_bytes())?;
    let text = serde_json::to_string_pretty(header).expect("a header has only string keys") + "\n";
    let beside = folder.join(part::beside(HEADER));
    fs::write(&beside, text).map_err(failed)?;
    // A link, unlike a rename, is refused where there is one already; some file systems have none.
    match fs::hard_link(&beside, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => fs::copy(&beside, &path).map(drop).map_err(failed)?,
        Ok(()) => {}
    }
    fs::remove_file(&beside).map_err(failed)?;
    read_header(folder)?.ok_or_else(|| Error::NotAStore(folder.to_owned()))
}

#[cfg(test)]
mod tests;
