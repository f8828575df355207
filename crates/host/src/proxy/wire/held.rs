//! Bytes that the other side has not taken yet, oldest first: in memory, and with a store the later ones in a file.
//!
//! ```text
//! read -> back -> file -> front -> written
//! ```
//!
//! Without a store there is the front alone, and the relay sees to it that it does not grow. With one the front is short;
//! what does not fit goes to the back, which is written to the file when it is full. The blocking calls are made by other
//! threads, one at a time for each direction, and meanwhile bytes go on to be read and written here.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Sleep, sleep};

use super::super::books::Books;
use super::super::spool::{self, SpoolFolder, Written};

/// Bytes in the order in which they came, in memory that is accounted for and given back when it is empty.
pub(super) struct Held {
    front: VecDeque<u8>,
    books: Arc<Books>,
    accounted: u64,
    store: Option<Box<Store>>,
}

/// The file of what waits behind the front.
struct Store {
    folder: Arc<SpoolFolder>,
    file: Option<Arc<File>>,
    /// Offsets in the file: the oldest byte, and where the next one goes.
    head: u64,
    tail: u64,
    /// Waits to be written to the file.
    back: Vec<u8>,
    running: Option<SpoolWrite>,
    /// The disk or the quota is full: it is tried again after a while, or when something was read.
    pause: Option<Pin<Box<Sleep>>>,
    /// Most bytes in each of front, back and what is being read or written.
    piece_max: usize,
}

enum SpoolWrite {
    Write(JoinHandle<Written>, usize),
    Read(JoinHandle<io::Result<Vec<u8>>>, usize),
}

/// Memory is taken in pieces of so many bytes.
const PIECE: usize = 4_096;
/// The most bytes that are read from or written to a file at once.
const TRANSFER_BYTES_MAX: usize = 256 * 1024;
/// Before a full disk is tried again.
const PAUSE: Duration = Duration::from_millis(500);

impl Held {
    /// Holds nothing yet. With a store, no more than `memory_max` bytes are in memory.
    pub(super) fn new(books: &Arc<Books>, folder: Option<Arc<SpoolFolder>>, memory_max: u64) -> Held {
        let quarter = usize::try_from(memory_max / 4).unwrap_or(usize::MAX).clamp(1, TRANSFER_BYTES_MAX);
        let store = |folder| {
            let piece_max = quarter;
            Store { folder, file: None, head: 0, tail: 0, back: Vec::new(), running: None, pause: None, piece_max }
        };
        Held {
            front: VecDeque::new(),
            books: books.clone(),
            accounted: 0,
            store: folder.map(|folder| Box::new(store(folder))),
        }
    }

    /// The memory that keeping `len` bytes may take beyond what is taken already.
    pub(super) fn room_for(len: usize) -> u64 {
        len.next_multiple_of(PIECE) as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> u64 {
        self.front.len() as u64 + self.store.as_ref().map_or(0, |store| store.len())
    }

    /// The bytes held that are in the file.
    pub(super) fn spooled(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.tail - store.head)
    }

    /// The number of bytes that can be kept beyond these; without a store that is the relay's affair.
    pub(super) fn room(&self) -> usize {
        match &self.store {
            None => usize::MAX,
            // What does not fit into the front goes to the back, as a whole.
            Some(store) if store.is_empty() => {
                (2 * store.piece_max).saturating_sub(self.front.len()).max(store.piece_max)
            }
            Some(store) => store.piece_max.saturating_sub(store.back.len()),
        }
    }

    /// Keeps `bytes`. Whoever calls has taken the room for it, and gives it back after.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.store {
            Some(store) if !store.is_empty() || self.front.len() + bytes.len() > 2 * store.piece_max => {
                let room = bytes.len().next_multiple_of(PIECE);
                store.back.reserve_exact(room);
                store.back.extend_from_slice(bytes);
            }
            _ => {
                let len = (self.front.len() + bytes.len()).next_multiple_of(PIECE);
                if len > self.front.capacity() {
                    self.front.reserve_exact(len - self.front.len());
                }
                self.front.extend(bytes);
            }
        }
        self.settle();
    }

    /// The oldest, as many as are in one piece; none if they are in the file.
    pub(super) fn front(&self) -> &[u8] {
        self.front.as_slices().0
    }

    /// The `len` oldest were taken.
    pub(super) fn pop(&mut self, len: usize) {
        self.front.drain(..len);
        if self.front.is_empty() {
            self.front = VecDeque::new();
        }
        self.settle();
    }

    /// Goes on with what the file is for; true if that changed what can be pushed or popped. An error means that bytes are
    /// lost which were taken.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let Some(store) = &mut self.store else { return Ok(false) };
        let mut is_new = false;
        loop {
            let is_done = match &mut store.running {
                None => false,
                Some(SpoolWrite::Write(task, _)) => match Pin::new(task).poll(cx) {
                    Poll::Pending => break,
                    Poll::Ready(written) => {
                        store.has_written(written.map_err(io::Error::other)?, &self.books);
                        true
                    }
                },
                Some(SpoolWrite::Read(task, len)) => match Pin::new(task).poll(cx) {
                    Poll::Pending => break,
                    Poll::Ready(read) => {
                        let (bytes, len) = (read.map_err(io::Error::other)??, *len);
                        store.has_read(len, &self.books);
                        self.front.extend(bytes);
                        true
                    }
                },
            };
            if is_done {
                store.running = None;
                is_new = true;
            }
            is_new |= store.shortcut(&mut self.front);
            if !store.begin(self.front.len(), &self.books, cx) {
                break;
            }
        }
        self.settle();
        Ok(is_new)
    }

    fn settle(&mut self) {
        let behind = self.store.as_ref().map_or(0, |store| store.memory());
        let taken = self.front.capacity() as u64 + behind;
        if taken > self.accounted {
            self.books.memory.add(taken - self.accounted);
        } else {
            self.books.memory.give(self.accounted - taken);
        }
        self.accounted = taken;
    }
}

impl Store {
    fn len(&self) -> u64 {
        let moving = match self.running {
            Some(SpoolWrite::Write(_, len)) => len,
            // Those are still counted in the file.
            Some(SpoolWrite::Read(..)) | None => 0,
        };
        self.tail - self.head + (moving + self.back.len()) as u64
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn memory(&self) -> u64 {
        let moving = match self.running {
            Some(SpoolWrite::Write(_, len) | SpoolWrite::Read(_, len)) => len,
            None => 0,
        };
        (moving + self.back.capacity()) as u64
    }

    /// Takes back what was on its way to the file and need not go there, because all before it has left.
    fn shortcut(&mut self, front: &mut VecDeque<u8>) -> bool {
        let is_next = self.running.is_none() && self.head == self.tail && !self.back.is_empty();
        let fits = front.len() + self.back.len() <= 2 * self.piece_max;
        if is_next && (fits || front.is_empty()) {
            front.extend(std::mem::take(&mut self.back));
            self.pause = None;
        }
        is_next && self.back.is_empty()
    }

    /// Begins to read or write, if it is time; true if it has begun.
    fn begin(&mut self, front: usize, books: &Books, cx: &mut Context<'_>) -> bool {
        if self.running.is_some() {
            return false;
        }
        let stored = usize::try_from(self.tail - self.head).unwrap_or(usize::MAX);
        if let Some(file) = &self.file
            && stored > 0
            && front < self.piece_max / 2
        {
            let (file, at, len) = (file.clone(), self.head, stored.min(self.piece_max));
            // Nothing is written meanwhile: what is the last now is still that when it has been read.
            let is_last = len == stored;
            self.running = Some(SpoolWrite::Read(spawn_blocking(move || spool::take(&file, at, len, is_last)), len));
            return true;
        }
        if self.back.len() < self.piece_max {
            return false;
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.pause = None;
        }
        let len = self.back.len();
        if !books.spool.take(len as u64) {
            self.pause(cx);
            return false;
        }
        let (folder, file, at) = (self.folder.clone(), self.file.clone(), self.tail);
        let bytes = std::mem::take(&mut self.back);
        self.running = Some(SpoolWrite::Write(spawn_blocking(move || folder.write(file, bytes, at)), len));
        true
    }

    /// Settles what was written. What did not fit stays where it was, before what has come since.
    fn has_written(&mut self, written: Written, books: &Books) {
        let Written { file, mut bytes, len, error } = written;
        self.file = file.or(self.file.take());
        self.tail += len as u64;
        books.spool.give((bytes.len() - len) as u64);
        if let Some(error) = error {
            books.refuse_spool(&error);
            bytes.drain(..len);
            bytes.append(&mut self.back);
            self.back = bytes;
            self.pause = Some(Box::pin(sleep(PAUSE)));
        }
    }

    fn has_read(&mut self, len: usize, books: &Books) {
        self.head += len as u64;
        books.spool.give(len as u64);
        self.pause = None;
        if self.head == self.tail {
            // The file is empty again.
            (self.head, self.tail) = (0, 0);
        }
    }

    fn pause(&mut self, cx: &mut Context<'_>) {
        let mut pause = Box::pin(sleep(PAUSE));
        // To be woken at its end.
        if pause.as_mut().poll(cx).is_pending() {
            self.pause = Some(pause);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.books.memory.give(self.accounted);
        if let Some(store) = &mut self.store {
            let writing = match store.running {
                Some(SpoolWrite::Write(_, len)) => len as u64,
                _ => 0,
            };
            let stored = store.tail - store.head;
            self.books.spool.give(stored + writing);
            // To close a file without a name is to give back its place: of 4 GiB that took ext4 half a second, in which this
            // worker's other connections would wait. One that is being read or written is another thread's already.
            if stored > 0
                && let (Some(file), Ok(runtime)) = (store.file.take(), Handle::try_current())
            {
                drop(runtime.spawn_blocking(move || drop(file)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
