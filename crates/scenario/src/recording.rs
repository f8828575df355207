//! Recordings of links in mahimahi's format: a line for each time, in milliseconds, at which the link could deliver a
//! packet of 1500 bytes (Netravali et al. 2015, s2).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use headend_engine::time::Duration;
use headend_engine::workload::Distribution;

use super::cdf;
use super::error::{Place, Problem};

/// Largest recording, in bytes: a quarter of an hour at 100 Mbit/s, or three quarters at 30.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The recordings that a document names, each read once: a sweep reads its document many times.
#[derive(Clone, Debug, Default)]
pub(super) struct Recordings {
    /// The document's own folder, to which the names in it are relative.
    folder: PathBuf,
    read: Arc<Mutex<BTreeMap<String, Reading>>>,
    sizes: Arc<Mutex<BTreeMap<String, Result<Distribution, Wrong>>>>,
}

/// The opportunities of a recording, or what is wrong with it and where.
type Reading = Result<Arc<[Duration]>, Wrong>;

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

    /// The opportunities in the file called `name`.
    pub(super) fn read(&self, name: &str) -> Reading {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let what = "a file with a time in milliseconds on each line";
        read.entry(name.to_owned()).or_insert_with(|| read_file(&self.folder.join(name), what, parse)).clone()
    }

    /// The distribution of sizes in the file called `name`.
    pub(super) fn sizes(&self, name: &str) -> Result<Distribution, Wrong> {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        let what = "a file with a size in bytes and a share on each line";
        sizes.entry(name.to_owned()).or_insert_with(|| read_file(&self.folder.join(name), what, cdf::parse)).clone()
    }
}

fn read_file<T>(path: &Path, expected: &str, parse: fn(&str, &str) -> Result<T, Wrong>) -> Result<T, Wrong> {
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

/// Reads the text of a recording; messages call it `name`.
pub(super) fn parse(name: &str, text: &str) -> Reading {
    let wrong = |line: usize, found: &str, expected: &str| {
        let place = Some(Place::Line { file: name.into(), line });
        Wrong { place, problem: Problem::Value { found: format!("{found:?}"), expected: expected.into() } }
    };
    let mut times: Vec<Duration> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim_end();
        // Times end after three years, long before the clock does.
        let time = text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
        let Some(time) = time.map(|ms| Duration::from_millis(ms.into())) else {
            let shown: String = text.chars().take(40).collect();
            return Err(wrong(line, &shown, "a whole number of milliseconds"));
        };
        if times.last().is_some_and(|&last| time < last) {
            return Err(wrong(line, text, "a time not before that of the line above"));
        }
        times.push(time);
    }
    match times.last() {
        None => Err(wrong(0, text, "a time in milliseconds on each line")),
        Some(&Duration::ZERO) => Err(wrong(times.len(), "0", "a later time on the last line: it ends the recording")),
        Some(_) => Ok(times.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        let wrong = parse("path.up", text).expect_err("a mistake");
        format!("{}: {}", wrong.place.expect("a line"), wrong.problem)
    }

    #[test]
    fn a_line_is_an_opportunity_in_milliseconds_and_several_may_be_at_once() {
        let times = parse("path.up", "0\n5\n5\r\n12\n").expect("a recording");
        assert_eq!(*times, [0, 5, 5, 12].map(Duration::from_millis));
        assert_eq!(parse("path.up", "7").expect("one without a line's end").len(), 1);
    }

    #[test]
    fn a_mistake_is_told_with_file_and_line() {
        assert_eq!(complaint("3\nx\n"), "path.up:2: found \"x\", expected a whole number of milliseconds");
        assert_eq!(complaint("3\n\n4\n"), "path.up:2: found \"\", expected a whole number of milliseconds");
        assert_eq!(complaint("3\n-4\n"), "path.up:2: found \"-4\", expected a whole number of milliseconds");
        assert_eq!(complaint("3\n+4\n"), "path.up:2: found \"+4\", expected a whole number of milliseconds");
        assert_eq!(complaint("5\n9\n7\n"), "path.up:3: found \"7\", expected a time not before that of the line above");
        let late = "path.up:2: found \"0\", expected a later time on the last line: it ends the recording";
        assert_eq!(complaint("0\n0\n"), late);
        assert_eq!(complaint(""), "path.up: found \"\", expected a time in milliseconds on each line");
        assert!(complaint("99999999999\n").starts_with("path.up:1"));
    }
}
