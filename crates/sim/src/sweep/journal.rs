//! Finished runs on disk, a line of JSON each, so that an interruption loses none.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Error;
use crate::fingerprint::Fingerprint;
use headend_scenario::Point;
use headend_scenario::results::{JOURNAL, RunOutcome};

/// A journal, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    finished: Vec<RunOutcome>,
}

/// The first line: whose runs these are.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: String,
    scenario: String,
}

impl Journal {
    /// Opens the journal in `folder`, which is made if need be. With `resume`, the runs of an earlier journal are taken
    /// over, provided it is of the same points and version.
    pub(super) fn open(folder: &Path, points: &[Point], resume: bool) -> Result<Journal, Error> {
        let path = folder.join(JOURNAL);
        let header =
            Header { version: env!("CARGO_PKG_VERSION").into(), scenario: Fingerprint::of(format_args!("{points:?}")) };
        let failed = |error| Error::Journal(path.clone(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        // A line that was cut off by a crash is no line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let mut finished = Vec::new();
        if let Some(first) = lines.next() {
            if !resume {
                return Err(Error::JournalExists(path));
            }
            if serde_json::from_str::<Header>(first).ok().as_ref() != Some(&header) {
                return Err(Error::OtherScenario(path));
            }
            for line in lines {
                finished.push(serde_json::from_str(line).map_err(|error| failed(error.into()))?);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        file.set_len(whole as u64).map_err(failed)?;
        let mut journal = Journal { path, file, finished };
        if whole == 0 {
            journal.write(&header)?;
        }
        Ok(journal)
    }

    /// The runs that an earlier sweep finished.
    pub(super) fn take_finished(&mut self) -> Vec<RunOutcome> {
        std::mem::take(&mut self.finished)
    }

    /// Adds a finished run.
    pub(super) fn append(&mut self, outcome: &RunOutcome) -> Result<(), Error> {
        self.write(outcome)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_string(line).expect("an outcome has only string keys");
        text.push('\n');
        // One write, so that another process never sees half a line.
        self.file.write_all(text.as_bytes()).map_err(|error| Error::Journal(self.path.clone(), error))
    }
}
