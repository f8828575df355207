//! Records of what passes each side, written by a thread of their own: a disk may take its time, the reactor may not.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use headend_engine::codec::ip;
use headend_engine::node::Port;
use headend_engine::time::{Duration, Time};
use headend_host::clock::Monotonic;
use headend_host::reactor::Tap;
use headend_scenario::pcapng::Capture;

use super::ends::EmulatedSide;
use crate::failure::Failure;
use crate::outputs::make_folder;

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait for the disk at most.
const CHUNKS_MAX: usize = 256;
/// The age at which what has been recorded is written, if there is traffic.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Sees the packets, in the reactor's thread.
pub(super) struct Recorder {
    sides: Vec<Recorded>,
    chunks: SyncSender<Chunk>,
    /// The wall clock when the reactor's showed zero.
    start_ns: u64,
    /// Packets that the disk had no time or no room for.
    unwritten: Arc<AtomicU64>,
}

/// The bytes that are written at once to one of the files.
struct Chunk {
    side: usize,
    bytes: Vec<u8>,
    packets: u64,
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
        sides: &[EmulatedSide],
        snap_len: u32,
        clock: Monotonic,
    ) -> Result<(Recorder, Writer), Failure> {
        make_folder(folder)?;
        let path = |side: &EmulatedSide| folder.join(format!("{}.pcapng", side.node));
        // Before either is made: a request that is refused leaves nothing behind.
        if let Some(path) = sides.iter().map(path).find(|path| path.exists()) {
            let text =
                format!("--pcap: {} is there already and is not overwritten; name another folder", path.display());
            return Err(Failure::Wrong(text));
        }
        let file = |side: &EmulatedSide| {
            let path = path(side);
            let file = File::create_new(&path).map_err(|error| Failure::io(&path, error))?;
            Ok::<_, Failure>((path, file))
        };
        let files = sides.iter().map(file).collect::<Result<Vec<_>, _>>()?;
        let (chunks, coming) = mpsc::sync_channel(CHUNKS_MAX);
        let unwritten = Arc::new(AtomicU64::new(0));
        let missing = unwritten.clone();
        let thread = thread::spawn(move || write(&coming, files, &missing));
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let start_ns = now_ns.saturating_sub(clock.now().as_nanos());
        let recorded = |side: &EmulatedSide| Recorded {
            port: side.port,
            capture: Capture::new(&side.node, snap_len),
            packets: 0,
            flushed: Time::ZERO,
        };
        let recorder =
            Recorder { sides: sides.iter().map(recorded).collect(), chunks, start_ns, unwritten: unwritten.clone() };
        Ok((recorder, Writer { thread, unwritten }))
    }
}

impl Tap for Recorder {
    fn packet(&mut self, time: Time, port: Port, _inward: bool, bytes: &[u8]) {
        let Some(index) = self.sides.iter().position(|side| side.port == port) else { return };
        // Other protocols than IP have no place in such a file.
        if !matches!(ip::version(bytes), Ok(4 | 6)) {
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
        let chunk = Chunk { side: index, bytes: side.capture.take_bytes(), packets };
        if self.chunks.try_send(chunk).is_err() {
            self.unwritten.fetch_add(packets, Ordering::Relaxed);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for (index, side) in self.sides.iter_mut().enumerate() {
            // The reactor has ended, so this may wait. The writer takes chunks until there are no more.
            let _ = self.chunks.send(Chunk { side: index, bytes: side.capture.take_bytes(), packets: side.packets });
        }
    }
}

impl Writer {
    /// Waits until everything is written, and says how many packets could not be, and what failed if something did. To
    /// be called when the recorder is gone.
    pub(super) fn finish(self) -> (u64, Result<(), Failure>) {
        let written = self.thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
        (self.unwritten.load(Ordering::Relaxed), written)
    }
}

/// Writes what comes, and counts the packets of what cannot be. A file that fails is said at once, ends with its last
/// whole chunk, and gets no more; the first failure is returned.
fn write(coming: &Receiver<Chunk>, files: Vec<(PathBuf, File)>, missing: &AtomicU64) -> Result<(), Failure> {
    let mut files: Vec<_> = files.into_iter().map(|(path, file)| (path, Some(file), 0_u64)).collect();
    let mut failed = Ok(());
    for Chunk { side, bytes, packets } in coming {
        let (path, open, len) = &mut files[side];
        let Some(file) = open else {
            missing.fetch_add(packets, Ordering::Relaxed);
            continue;
        };
        match file.write_all(&bytes) {
            Ok(()) => *len += bytes.len() as u64,
            Err(error) => {
                eprintln!("{}: {error}: this record ends here, and the packets go on", path.display());
                // Readers take half a block for a damaged file. Where this fails too, they will say so.
                let _ = file.set_len(*len);
                *open = None;
                missing.fetch_add(packets, Ordering::Relaxed);
                failed = failed.and(Err(Failure::io(path, error)));
            }
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_full_disk_tells_the_missing_packets_and_spares_the_other_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("whole");
        let file = File::create_new(&path).expect("a file");
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            eprintln!("skipped: there is no /dev/full");
            return;
        };
        let (chunks, coming) = mpsc::sync_channel(9);
        for (side, packets) in [(0, 3), (1, 5), (0, 4), (1, 6)] {
            chunks.send(Chunk { side, bytes: vec![7; 100], packets }).expect("there is room");
        }
        drop(chunks);
        let missing = AtomicU64::new(0);
        let failed =
            write(&coming, vec![("full".into(), full), (path.clone(), file)], &missing).expect_err("a full disk");
        assert!(failed.message().is_some_and(|text| text.starts_with("full: No space left")), "{failed:?}");
        assert_eq!(missing.into_inner(), 3 + 4);
        assert_eq!(fs::read(&path).expect("the other record").len(), 200);
    }
}
