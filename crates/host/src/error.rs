//! Errors of the system: what was asked of it, and its answer.

use std::io;

/// A request that the system refused, and its answer.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}{}", hint(.source))]
pub struct Error {
    what: String,
    source: io::Error,
}

impl Error {
    /// An error of `what` was being done, in words that go before a colon.
    pub fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error { what: what.into(), source: source.into() }
    }

    /// An error of a request that is wrong, before the system was asked.
    pub(crate) fn wrong(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::new(what, io::Error::new(io::ErrorKind::InvalidInput, why.into()))
    }

    /// The kind of the system's answer.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

impl From<headend_datagram::KeyError> for Error {
    fn from(error: headend_datagram::KeyError) -> Error {
        Error::new(error.what, error.source)
    }
}

/// `?` on a system call: `.during(|| format!("namespace {name}"))?`
pub(crate) trait During<T> {
    fn during<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|error| Error::new(what(), error))
    }
}

/// Advice for a person, if there is any.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (are you root? namespaces take CAP_SYS_ADMIN, networks CAP_NET_ADMIN, interfaces CAP_NET_RAW)"
        }
        _ => "",
    }
}
