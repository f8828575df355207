//! Places where sockets are opened: a thread each, which its owner may first move into a network namespace.

use std::fmt;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// A place for the sockets of a thread: that of the whole process, or wherever the thread is moved first.
#[derive(Default)]
pub struct SocketPlace(Option<Box<dyn FnOnce() -> io::Result<()> + Send>>);

impl SocketPlace {
    /// The place of the process itself.
    pub fn here() -> SocketPlace {
        SocketPlace(None)
    }

    /// A place that a thread reaches by calling `enter` before it opens its first socket. `enter` may move the thread into
    /// a network namespace; the thread was started for this and ends with the trial.
    pub fn behind(enter: impl FnOnce() -> io::Result<()> + Send + 'static) -> SocketPlace {
        SocketPlace(Some(Box::new(enter)))
    }

    /// Moves the calling thread to this place.
    pub(crate) fn enter(self) -> io::Result<()> {
        self.0.map_or(Ok(()), |enter| enter())
    }
}

impl fmt::Debug for SocketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Place::behind(..)" } else { "Place::here()" })
    }
}

/// A runtime for the calling thread alone.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime takes a few descriptors")
}
