//! Records of what passes each side, written by a thread of their own: a disk may take its time, the reactor may not.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use headend_engine::node::Port;
use headend_engine::time::{Duration, Time};
use headend_host::clock::Monotonic;
use headend_host::reactor::Tap;
use headend_sim::pcapng::Capture;

use super::ends::Side;
use crate::failure::Failure;

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait for the disk at most.
const CHUNKS_MAX: usize = 256;
/// What has been recorded is written after so long at the latest, if there is traffic.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Sees the packets, in the reactor's thread.
pub(super) struct Recorder {
    sides: [Recorded; 2],
    chunks: SyncSender<(usize, Vec<u8>)>,
    /// The wall clock when the reactor's showed zero.
    start_ns: u64,
    /// Packets that the disk had no time for.
    unwritten: Arc<AtomicU64>,
}

struct Recorded {
    port: Port,
    capture: Capture,
    /// Packets in it that are not yet on their way to the disk.
    packets: u64,
    flushed: Time,
}

/// Writes, in a thread of its own.
pub(super) struct Writer {
    thread: JoinHandle<Result<(), Failure>>,
    unwritten: Arc<AtomicU64>,
}

impl Recorder {
    /// Makes the files `NODE.pcapng` in `folder`; those that are there already are left alone.
    /// Times are those of `clock`, as the wall clock has them now.
    pub(super) fn start(
        folder: &Path,
        sides: &[Side; 2],
        snap_len: u32,
        clock: Monotonic,
    ) -> Result<(Recorder, Writer), Failure> {
        fs::create_dir_all(folder).map_err(|error| Failure::io(folder, error))?;
        let file = |side: &Side| {
            let path = folder.join(format!("{}.pcapng", side.node));
            let file = File::create_new(&path).map_err(|error| Failure::io(&path, error))?;
            Ok::<_, Failure>((path, file))
        };
        let mut files = [file(&sides[0])?, file(&sides[1])?];
        let (chunks, written) = mpsc::sync_channel::<(usize, Vec<u8>)>(CHUNKS_MAX);
        let thread = thread::spawn(move || {
            for (side, bytes) in written {
                let (path, file): &mut (PathBuf, File) = &mut files[side];
                file.write_all(&bytes).map_err(|error| Failure::io(path, error))?;
            }
            Ok(())
        });
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let start_ns = now_ns.saturating_sub(clock.now().as_nanos());
        let recorded = |side: &Side| Recorded {
            port: side.port,
            capture: Capture::new(&side.node, snap_len),
            packets: 0,
            flushed: Time::ZERO,
        };
        let unwritten = Arc::new(AtomicU64::new(0));
        let recorder = Recorder {
            sides: [recorded(&sides[0]), recorded(&sides[1])],
            chunks,
            start_ns,
            unwritten: unwritten.clone(),
        };
        Ok((recorder, Writer { thread, unwritten }))
    }
}

impl Tap for Recorder {
    fn packet(&mut self, time: Time, port: Port, _inward: bool, bytes: &[u8]) {
        let Some(index) = self.sides.iter().position(|side| side.port == port) else { return };
        // Other protocols than IP have no place in such a file.
        if !bytes.first().is_some_and(|first| matches!(first >> 4, 4 | 6)) {
            return;
        }
        let side = &mut self.sides[index];
        side.capture.record_bytes(self.start_ns + time.as_nanos(), bytes);
        side.packets += 1;
        if side.capture.bytes_held() < CHUNK_BYTES && time.since(side.flushed) < FLUSH_EVERY {
            return;
        }
        side.flushed = time;
        let packets = std::mem::take(&mut side.packets);
        if let Err(TrySendError::Full(_)) = self.chunks.try_send((index, side.capture.take_bytes())) {
            self.unwritten.fetch_add(packets, Ordering::Relaxed);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for (index, side) in self.sides.iter_mut().enumerate() {
            // The reactor has ended, so this may wait. A writer that has failed says so itself.
            let _ = self.chunks.send((index, side.capture.take_bytes()));
        }
    }
}

impl Writer {
    /// Waits until everything is written, and says how many packets could not be. To be called when the recorder is
    /// gone.
    pub(super) fn finish(self) -> Result<u64, Failure> {
        self.thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))?;
        Ok(self.unwritten.load(Ordering::Relaxed))
    }
}
