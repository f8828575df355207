//! The lines of ended connections: handed over by workers, which wait for no reader, and written by a thread.

use std::io::{self, BufWriter, Write};
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
    sender: SyncSender<String>,
    lost: AtomicU64,
}

impl Lines {
    /// And what is to be written of them, once somebody starts.
    pub(super) fn new() -> (Lines, Receiver<String>) {
        let (sender, waiting) = sync_channel(WAITING_MAX);
        (Lines { sender, lost: AtomicU64::new(0) }, waiting)
    }

    /// Hands a line over.
    pub(super) fn write(&self, line: String) {
        match self.sender.try_send(line) {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    eprintln!("{lost} lines of connections were not written: stdout is too slow");
                }
            }
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            // Nobody reads stdout any more.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

/// The thread that writes them to stdout.
pub(super) struct Writing(Receiver<()>);

/// Starts it.
pub(super) fn start_writing(waiting: Receiver<String>) -> Result<Writing, Failure> {
    let (ended, is_over) = channel();
    let body = move || {
        write(&waiting);
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

fn write(lines: &Receiver<String>) {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Ok(line) = lines.recv() {
        let more = lines.try_iter();
        let written = std::iter::once(line).chain(more).try_for_each(|line| writeln!(out, "{line}"));
        if written.and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
