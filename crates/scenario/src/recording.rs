//! Recordings of links: tables with a header, and the formats of mahimahi, LeoReplayer and CellReplay. Which of them a file is
//! shows in its first line.

mod delays;
mod opportunities;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use headend_engine::link::recording::Recording;
use headend_engine::part::Recorded;
use headend_engine::workload::Distribution;

use super::cdf;
use super::error::{Place, Problem};

/// Largest recording, in bytes: in mahimahi's format a quarter of an hour at 100 Mbit/s, or three quarters at 30.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The recordings that a document names, each read once: a sweep reads its document many times.
#[derive(Clone, Debug, Default)]
pub(super) struct Recordings {
    /// The document's own folder, to which the names in it are relative.
    folder: PathBuf,
    read: Arc<Mutex<BTreeMap<(String, Recorded), Reading>>>,
    sizes: Arc<Mutex<BTreeMap<String, Result<Distribution, Wrong>>>>,
}

/// What was read from a recording, or what is wrong with it and where.
type Reading = Result<Recording, Wrong>;

/// A problem with a recording.
#[derive(Clone, Debug)]
pub(super) struct Wrong {
    /// The file and line; `None` if there is no such file to have lines.
    pub(super) place: Option<Place>,
    pub(super) problem: Problem,
}

impl Recordings {
    /// Recordings named relative to the folder of the document at `path`.
    pub(super) fn beside(path: &Path) -> Recordings {
        Recordings { folder: path.parent().unwrap_or(Path::new("")).to_owned(), ..Recordings::default() }
    }

    /// What the file called `name` has recorded.
    pub(super) fn read(&self, name: &str, what: Recorded) -> Reading {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = match what {
            Recorded::Rate => "a file with a time in milliseconds on each line, or a table with a column `rate_mbps`",
            Recorded::Delay => "a file with a delay in milliseconds on each line, or a table with a column `delay_ms`",
            Recorded::Loss => "a table with a column `loss_percent`",
        };
        let parse = |name: &str, text: &str| parse(&Source { name: name.to_owned(), text }, what);
        read.entry((name.to_owned(), what))
            .or_insert_with(|| read_file(&self.folder.join(name), expected, parse))
            .clone()
    }

    /// The distribution of sizes in the file called `name`.
    pub(super) fn sizes(&self, name: &str) -> Result<Distribution, Wrong> {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        let what = "a file with a size in bytes and a share on each line";
        sizes.entry(name.to_owned()).or_insert_with(|| read_file(&self.folder.join(name), what, cdf::parse)).clone()
    }
}

fn read_file<T>(path: &Path, expected: &str, parse: impl Fn(&str, &str) -> Result<T, Wrong>) -> Result<T, Wrong> {
    let unread = |error: io::Error| {
        let found = format!("{} ({error})", path.display());
        Wrong { place: None, problem: Problem::Value { found, expected: expected.to_owned() } }
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unread)?;
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unread)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(unread(io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes"))));
    }
    parse(&path.display().to_string(), &text)
}

/// Reads the text of a recording.
fn parse(source: &Source<'_>, what: Recorded) -> Reading {
    let first = source.lines().next().map_or("", |(_, line)| line);
    let is_numbers = first.is_empty() || (first.starts_with(|c: char| c.is_ascii_digit()) && !first.contains(','));
    match what {
        Recorded::Rate if is_numbers => opportunities::parse(source),
        Recorded::Delay if is_numbers => delays::parse(source),
        _ => table::parse(source, what),
    }
}

/// The text of a recording, and its name for messages.
struct Source<'a> {
    name: String,
    text: &'a str,
}

impl<'a> Source<'a> {
    /// The lines and their numbers, from 1, without those that are comments.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        (1..).zip(self.text.lines().map(str::trim_end)).filter(|(_, line)| !line.starts_with('#'))
    }

    /// A mistake in a line; 0 for the whole.
    fn wrong(&self, line: usize, found: &str, expected: &str) -> Wrong {
        let place = Some(Place::Line { file: self.name.as_str().into(), line });
        let shown: String = found.chars().take(40).collect();
        Wrong { place, problem: Problem::Value { found: format!("{shown:?}"), expected: expected.into() } }
    }
}

/// A whole number of milliseconds. They end after 49 days, long before the clock does.
fn milliseconds(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().filter(|_| !text.starts_with('+')).map(u64::from)
}
