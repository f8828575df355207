//! Why the command ended without what was asked for, and its exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use headend_scenario as scenario;
use headend_sim::{store, sweep};

use crate::excerpt;

/// Why the command ended without what was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request cannot be granted as it stands: exit code 2.
    Wrong(String),
    /// The same of a line in a file: what is wrong, and the same with the line shown beneath.
    WrongAt { message: String, shown: String },
    /// The request was right, and something else failed: exit code 1.
    Failed(String),
    /// The results are there and are not to be relied on: exit code 3.
    Unreliable(String),
    /// A command of the user's has ended with this exit code, and has said what it had to.
    OfCommand(i32),
    /// Ctrl-C: exit code 130, as from a shell.
    Interrupted(String),
    /// Whoever read the output has enough: no failure at all.
    NoReader,
}

impl Failure {
    /// An input or output of `path` failed.
    pub(crate) fn io(path: &Path, error: impl Display) -> Failure {
        Failure::Failed(format!("{}: {error}", path.display()))
    }

    /// A mistake in the file that messages call `name`, whose lines are shown.
    pub(crate) fn wrong_in(name: &str, text: &str, message: String) -> Failure {
        let shown = excerpt::beneath(&message, name, text);
        Failure::WrongAt { message, shown }
    }

    /// The message as a person at a terminal is to see it.
    pub(crate) fn shown(&self) -> Option<&str> {
        match self {
            Failure::WrongAt { shown, .. } => Some(shown),
            _ => self.message(),
        }
    }

    /// The message on as few lines as it takes.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Failure::WrongAt { message, .. } => Some(message),
            Failure::Wrong(text) | Failure::Failed(text) | Failure::Unreliable(text) | Failure::Interrupted(text) => {
                Some(text)
            }
            Failure::NoReader | Failure::OfCommand(_) => None,
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Failure::Wrong(_) | Failure::WrongAt { .. } => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Unreliable(_) => ExitCode::from(3),
            Failure::OfCommand(code) => ExitCode::from(u8::try_from(*code).unwrap_or(1)),
            Failure::Interrupted(_) => ExitCode::from(130),
            Failure::NoReader => ExitCode::SUCCESS,
        }
    }
}

impl From<scenario::Error> for Failure {
    fn from(error: scenario::Error) -> Failure {
        match &error {
            // A name that leads to no text is a wrong request; a disk that does not answer is a failure.
            scenario::Error::Read { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => {
                    Failure::Wrong(error.to_string())
                }
                _ => Failure::Failed(error.to_string()),
            },
            scenario::Error::Wrong(_) => Failure::Wrong(error.to_string()),
        }
    }
}

impl From<sweep::Error> for Failure {
    fn from(error: sweep::Error) -> Failure {
        match &error {
            sweep::Error::JournalExists(_) | sweep::Error::OtherScenario(_) => Failure::Wrong(error.to_string()),
            sweep::Error::Journal(..) => Failure::Failed(error.to_string()),
            sweep::Error::Interrupted(_) => Failure::Interrupted(error.to_string()),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        match &error {
            store::Error::NotAStore(_)
            | store::Error::OtherBuild(..)
            | store::Error::OtherStudy(_)
            | store::Error::OtherTasks(..) => Failure::Wrong(error.to_string()),
            store::Error::File(..) => Failure::Failed(error.to_string()),
            store::Error::Interrupted(_) => Failure::Interrupted(error.to_string()),
        }
    }
}

#[cfg(target_os = "linux")]
impl From<headend_host::Error> for Failure {
    fn from(error: headend_host::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

#[cfg(target_os = "linux")]
impl From<headend_host::trunk::KeyError> for Failure {
    fn from(error: headend_host::trunk::KeyError) -> Failure {
        Failure::Failed(error.to_string())
    }
}
