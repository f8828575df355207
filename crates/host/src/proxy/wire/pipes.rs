//! Pipes through which bytes go from one socket to the other without being copied (splice(2)).
//!
//! A pipe has to be long to be worth its calls, and only a privileged process may have many that are. So they are made
//! before the proxy gives up its privileges, each worker has its share of them, and none is ever closed before the worker
//! ends. A direction has one only while bytes are in it: some dozens serve thousands of connections, and where there is
//! none, bytes are read and written.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::PipeFlags;

use super::super::books::Books;

/// The length of a pipe: 256 pages or pieces of received segments, whichever they are.
const PIPE_BYTES: usize = 1 << 20;

thread_local! {
    /// Empty pipes of this worker.
    static POOL: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe of [`PIPE_BYTES`]; whoever has it alone reads and writes.
#[derive(Debug)]
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Bytes in a pipe on their way to a side. The memory that they hold is accounted for; the kernel's own account of TCP
/// (`tcp_mem`) has them no more.
pub(super) struct Piped {
    /// `None` once it was put back.
    pipe: Option<Pipe>,
    len: usize,
    accounted: u64,
    /// Nothing of it was taken since this was set.
    pub(super) is_stuck: bool,
    books: Arc<Books>,
}

/// Makes `count` pipes, or as many as the kernel grants.
pub(crate) fn make(count: usize) -> Vec<Pipe> {
    std::iter::repeat_with(Pipe::new).take(count).map_while(Result::ok).collect()
}

/// Hands pipes to the calling worker.
pub(crate) fn stock(pipes: Vec<Pipe>) {
    POOL.with_borrow_mut(|pool| pool.extend(pipes));
}

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused, it would be one that takes a call for every 64 KiB, or every 8.
        rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES)?;
        Ok(Pipe { read, write })
    }
}

impl Piped {
    /// An empty pipe, for which `room` bytes of memory were taken; `None` if all are in use.
    pub(super) fn take(books: &Arc<Books>, room: u64) -> Option<Piped> {
        let pipe = POOL.with_borrow_mut(Vec::pop)?;
        Some(Piped { pipe: Some(pipe), len: 0, accounted: room, is_stuck: false, books: books.clone() })
    }

    /// The bytes in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Moves at most `len` bytes from `socket` into it, which is empty: an error that it would block is the socket's.
    pub(super) fn fill(&mut self, socket: &impl AsFd, len: usize) -> io::Result<usize> {
        debug_assert_eq!(self.len, 0, "only an empty pipe is filled");
        self.len = splice(socket, &self.pipe().write, len)?;
        Ok(self.len)
    }

    /// Moves bytes to `socket` as many as it takes.
    pub(super) fn empty_into(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let moved = splice(&self.pipe().read, socket, self.len)?;
        self.len -= moved;
        self.is_stuck &= moved == 0;
        Ok(moved)
    }

    /// Gives back the memory taken beyond that of `len` bytes.
    pub(super) fn account(&mut self, bytes: u64) {
        if bytes < self.accounted {
            self.books.memory.give(self.accounted - bytes);
            self.accounted = bytes;
        }
    }

    /// The bytes in it, which are copied to ordinary memory.
    pub(super) fn into_bytes(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len];
        let mut read = 0;
        while read < bytes.len() {
            read += rustix::io::read(&self.pipe().read, &mut bytes[read..])?;
        }
        self.len = 0;
        Ok(bytes)
    }

    fn pipe(&self) -> &Pipe {
        self.pipe.as_ref().expect("it is there until the end")
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.account(0);
        let Some(pipe) = self.pipe.take() else { return };
        // Bytes of a connection that failed must not come out in another's.
        let mut bytes = [0; 8_192];
        while self.len > 0 {
            match rustix::io::read(&pipe.read, &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(read) => self.len -= read,
            }
        }
        POOL.with_borrow_mut(|pool| pool.push(pipe));
    }
}

fn splice(from: &impl AsFd, to: &impl AsFd, len: usize) -> io::Result<usize> {
    let none = std::ptr::null_mut();
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    // SAFETY: takes numbers, and no addresses: neither end has an offset.
    let moved = unsafe { libc::splice(from, none, to, none, len, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        (client, listening.accept().unwrap().0)
    }

    #[test]
    fn a_pipe_with_a_failed_connections_bytes_is_empty_for_the_next() {
        let books = Arc::new(Books::new(1_000_000, 0));
        stock(make(1));
        for told in [&b"of the first"[..], b"of the second", b"of the third"] {
            let (mut client, server) = connected();
            client.write_all(told).unwrap();
            assert!(books.memory.take(4_096));
            let mut piped = Piped::take(&books, 4_096).expect("it is put back each time");
            assert!(Piped::take(&books, 0).is_none(), "there is one");
            assert_eq!(piped.fill(&server, 4_096).unwrap(), told.len());
            let (mut far, near) = connected();
            if told == b"of the second" {
                assert_eq!(piped.empty_into(&near).unwrap(), told.len());
                drop(near);
                let mut got = Vec::new();
                far.read_to_end(&mut got).unwrap();
                assert_eq!(got, told, "nothing of the first");
            }
            drop(piped);
            assert_eq!(books.memory.taken(), 0, "its memory is given back");
        }
    }
}
