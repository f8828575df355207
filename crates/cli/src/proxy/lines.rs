//! The lines of ended connections: handed over by workers, which wait for no reader, and written by a thread.

use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// Lines that wait to be written; beyond, they are counted and not kept.
const WAITING_MAX: usize = 16_384;

/// The time that whoever reads the lines has, when the proxy ends, for those that are left.
const PATIENCE: Duration = Duration::from_secs(1);

/// The way out for lines, which hands them over to the thread that writes them.
pub(super) struct Lines {
    sender: SyncSender<Line>,
    lost: AtomicU64,
}

impl Lines {
    /// And what is to be written of them, once somebody starts.
    pub(super) fn new() -> (Lines, Receiver<Line>) {
        let (sender, waiting) = sync_channel(WAITING_MAX);
        (Lines { sender, lost: AtomicU64::new(0) }, waiting)
    }

    /// Hands a line over.
    pub(super) fn write(&self, line: Line) {
        match self.sender.try_send(line) {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    eprintln!("{lost} lines of connections were not written: whoever takes them is too slow");
                }
            }
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            // Nobody takes them any more.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

/// Something to be written.
pub(super) enum Line {
    /// The line of a connection that has ended.
    Connection(String),
    /// For whoever operates the proxy; stderr has it as well.
    Message(String),
}

/// The place that lines are written to.
pub(super) enum Out {
    Stdout,
    Syslog(Syslog),
}

/// A syslog daemon, or journald, which listens at the same socket.
pub(super) struct Syslog {
    path: PathBuf,
    socket: UnixDatagram,
}

/// The thread that writes them.
pub(super) struct Writing(Receiver<()>);

/// Starts it.
pub(super) fn start_writing(waiting: Receiver<Line>, out: Out) -> Result<Writing, Failure> {
    let (ended, is_over) = channel();
    let body = move || {
        match out {
            Out::Stdout => write(&waiting),
            Out::Syslog(syslog) => syslog.write(&waiting),
        }
        // Whoever waits for that sees that the other end is gone.
        drop(ended);
    };
    let writer = thread::Builder::new().name("lines".to_owned()).spawn(body);
    writer.map_err(|error| Failure::Failed(format!("no thread for the lines of connections: {error}")))?;
    Ok(Writing(is_over))
}

impl Writing {
    /// Waits until all that was handed over is written, now that nobody hands over more.
    pub(super) fn finish(self) {
        // Who reads stdout no more keeps nobody from ending.
        let _ = self.0.recv_timeout(PATIENCE);
    }
}

impl Out {
    /// The socket at `path`, or stdout; refused, the path and why.
    pub(super) fn open(path: Option<&Path>) -> Result<Out, (PathBuf, io::Error)> {
        let Some(path) = path else { return Ok(Out::Stdout) };
        let open = || {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            Ok(Out::Syslog(Syslog { path: path.to_owned(), socket }))
        };
        open().map_err(|error| (path.to_owned(), error))
    }
}

impl Syslog {
    fn write(&self, lines: &Receiver<Line>) {
        let mut lost = 0;
        while let Ok(line) = lines.recv() {
            match self.send(&line) {
                Ok(()) if lost > 0 => {
                    eprintln!("{}: {lost} lines were not taken", self.path.display());
                    lost = 0;
                }
                Ok(()) => {}
                Err(_) => lost += 1,
            }
        }
    }

    fn send(&self, line: &Line) -> io::Result<()> {
        // RFC 3164 s4.1.1: 3 (daemons) times 8, and 6 (informational) or 5 (notice). The daemon knows time and host.
        let (priority, text) = match line {
            Line::Connection(text) => (30, text),
            Line::Message(text) => (29, text),
        };
        let datagram = format!("<{priority}>headend-proxy[{}]: {text}", std::process::id());
        self.socket.send(datagram.as_bytes()).map(drop).or_else(|_| {
            // Another daemon listens there since it was started anew.
            self.socket.connect(&self.path)?;
            self.socket.send(datagram.as_bytes()).map(drop)
        })
    }
}

fn write(lines: &Receiver<Line>) {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Ok(line) = lines.recv() {
        let more = lines.try_iter();
        let written = std::iter::once(line).chain(more).try_for_each(|line| match line {
            Line::Connection(text) => writeln!(out, "{text}"),
            Line::Message(_) => Ok(()),
        });
        if written.and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
