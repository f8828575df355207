//! Every mistake in a scenario names the place, the field, what was found and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// More mistakes than this are counted, not listed.
pub const MISTAKES_MAX: usize = 20;

/// The reason why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The scenario, or what was asked to change in it, is wrong.
    #[error("{0}")]
    Wrong(Mistakes),
}

/// The mistakes in a scenario, in the order of reading; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// The first mistakes, at most [`MISTAKES_MAX`].
    pub listed: Vec<Mistake>,
    /// The number of further mistakes.
    pub more: usize,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The place where the value was written.
    pub place: Place,
    /// The path of the field, as for `--set`; empty if the mistake is the whole file's.
    pub field: String,
    /// The problem that the field has.
    pub problem: Problem,
}

/// The place where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a file.
    Line {
        /// Its name.
        file: Arc<str>,
        /// The line, from 1; 0 for the whole file.
        line: usize,
    },
    /// A request from outside the file, quoted here.
    Request(Arc<str>),
}

/// A problem that a field has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The value is not of the kind that the field takes.
    Value {
        /// The value as written.
        found: String,
        /// The values that the field takes, in words.
        expected: String,
    },
    /// The field must be given and is not.
    Missing {
        /// The values that the field takes, in words.
        expected: String,
    },
    /// No such field, or nothing of that name.
    Unknown {
        /// The sort of thing that was named: "field", "node", ...
        what: &'static str,
        /// The allowed name that is nearest, if any is near.
        nearest: Option<String>,
        /// The names that are allowed here.
        allowed: Vec<String>,
    },
    /// The values are each allowed, but not together.
    Contradiction(String),
    /// The text is not TOML, or not JSON.
    Syntax(String),
}

impl Problem {
    /// Says that nothing has the name `found`, and which of `allowed` is nearest.
    pub(crate) fn unknown<'a>(what: &'static str, found: &str, allowed: impl IntoIterator<Item = &'a str>) -> Problem {
        let allowed: Vec<&str> = allowed.into_iter().collect();
        let nearest = nearest(found, &allowed).map(str::to_owned);
        Problem::Unknown { what, nearest, allowed: allowed.into_iter().map(str::to_owned).collect() }
    }
}

/// The candidate that a typing mistake or two away from `found` would be.
pub fn nearest<'a>(found: &str, candidates: &[&'a str]) -> Option<&'a str> {
    // A longer name is no slip of the pen, and the comparison takes time in the product of the lengths.
    const NAME_MAX: usize = 64;
    if found.len() > NAME_MAX {
        return None;
    }
    let lower = found.to_lowercase();
    let close = candidates.iter().filter(|name| name.len() <= NAME_MAX).map(|name| {
        let distance = strsim::damerau_levenshtein(&lower, &name.to_lowercase());
        (distance, name)
    });
    let (distance, name) = close.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + found.len() / 4).then_some(*name)
}

impl Mistake {
    /// True if it is of the same field, on the same line of a file, of another of many nodes that one table makes.
    pub(crate) fn is_of_another(&self, place: &Place, field: &str) -> bool {
        /// The field's path without the number behind the name in it, and that number.
        fn parts(field: &str) -> Option<((&str, &str, &str), &str)> {
            let (table, rest) = field.split_once('.')?;
            let (name, field) = rest.split_once('.').unwrap_or((rest, ""));
            let (name, number) = name.rsplit_once('-')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(((table, name, field), number))
        }
        let is_line = matches!(place, Place::Line { line: 1.., .. });
        let (own, other) = (parts(&self.field), parts(field));
        let is_numbered = own.zip(other).is_some_and(|((own, first), (other, second))| own == other && first != second);
        is_line && self.place == *place && is_numbered
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.listed.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        if self.more > 0 {
            write!(f, "\n... and {} more", self.more)?;
        }
        Ok(())
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.problem)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line { file, line: 0 } => f.write_str(file),
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Request(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Value { found, expected } => write!(f, "found {found}, expected {expected}"),
            Problem::Missing { expected } => write!(f, "missing, expected {expected}"),
            Problem::Unknown { what, nearest, allowed } => {
                write!(f, "no such {what}")?;
                if let Some(nearest) = nearest {
                    write!(f, "; did you mean \"{nearest}\"?")?;
                }
                allowed_list(f, allowed)
            }
            Problem::Contradiction(text) | Problem::Syntax(text) => f.write_str(text),
        }
    }
}

fn allowed_list(f: &mut fmt::Formatter<'_>, allowed: &[String]) -> fmt::Result {
    // A network of a thousand nodes is not listed whole.
    const LISTED_MAX: usize = 40;
    if allowed.is_empty() {
        return f.write_str("; there is none");
    }
    write!(f, "; allowed: {}", allowed[..allowed.len().min(LISTED_MAX)].join(", "))?;
    if allowed.len() > LISTED_MAX {
        write!(f, ", ... ({} in all)", allowed.len())?;
    }
    Ok(())
}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Error {
        Error::Wrong(Mistakes { listed: vec![mistake], more: 0 })
    }
}
