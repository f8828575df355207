//! One of the two sockets: what it can do at the moment, and how much to move at a time.

use std::io;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;

use super::pipes::Piped;
use super::socket::WireSocket;
use crate::socket;

pub(super) struct WireLeg<'a> {
    pub(super) socket: &'a mut WireSocket,
    /// Something may be read; false once the kernel said that there is nothing.
    pub(super) readable: bool,
    /// Something may be written.
    pub(super) writable: bool,
    pub(super) at_end: bool,
    pub(super) failure: Option<io::Error>,
    /// It is not read while there is no memory, until the other side has taken something.
    pub(super) is_starved: bool,
    /// It is not read while whose bytes they are is ahead of its rate.
    pub(super) is_delayed: bool,
    /// Large reads in a row.
    large_reads: u8,
    /// Small ones in a row, of those that went into a pipe.
    small_reads: u8,
}

/// A read that is worth a pipe if another follows, and one that is not.
pub(super) const LARGE_READ: usize = 64 * 1024;
const SMALL_READ: usize = 16 * 1024;
/// So many of them decide.
const LARGE_READS: u8 = 2;
const SMALL_READS: u8 = 5;

impl<'a> WireLeg<'a> {
    pub(super) fn new(socket: &'a mut WireSocket) -> WireLeg<'a> {
        WireLeg {
            socket,
            readable: true,
            writable: true,
            at_end: false,
            failure: None,
            is_starved: false,
            is_delayed: false,
            large_reads: 0,
            small_reads: 0,
        }
    }

    /// True while so much comes that it goes through a pipe.
    pub(super) fn flows(&self) -> bool {
        self.large_reads >= LARGE_READS
    }

    /// Notes how much came at once.
    pub(super) fn note_read(&mut self, len: usize) {
        if !self.flows() {
            self.large_reads = if len >= LARGE_READ { self.large_reads + 1 } else { 0 };
            self.small_reads = 0;
        } else if len >= SMALL_READ {
            self.small_reads = 0;
        } else {
            self.small_reads += 1;
            if self.small_reads >= SMALL_READS {
                self.large_reads = 0;
            }
        }
    }

    /// Asks to be woken for what cannot be done; true if something can that could not before.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_new = false;
        if !self.readable && !self.at_end && self.failure.is_none() {
            match self.socket.poll_readable(cx) {
                Poll::Ready(Err(error)) => self.fail(error),
                told => self.readable = told.is_ready(),
            }
            is_new |= self.readable;
        }
        if !self.writable && self.failure.is_none() {
            self.writable = self.socket.poll_writable(cx).is_ready();
            is_new |= self.writable;
        }
        is_new
    }

    /// Is woken no more for what it cannot read anyway, until it is to be read again.
    pub(super) fn hush(&mut self) {
        if let Err(error) = self.socket.ignore_arrivals() {
            self.fail(error);
        }
    }

    /// Reads into `bytes`, and notes when there is no more.
    pub(super) fn receive(&mut self, bytes: &mut [u8], flags: RecvFlags) -> usize {
        let want = bytes.len();
        let mut read = None;
        // Told that it would block, the runtime waits for the kernel's next event: that is so as well after less was read
        // than wanted, and spares a call that returns nothing; but no read goes on across an urgent byte. A close or a reset that is known already stays known.
        let told = self.socket.attempt(Interest::READABLE, || {
            let len = rustix::net::recv(&*self.socket, &mut *bytes, flags)?.1;
            read = Some(len);
            let is_all = len < want && !flags.contains(RecvFlags::PEEK) && !socket::is_at_urgent(&self.socket);
            if is_all { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        match (read, told) {
            (Some(0), _) if want > 0 => {
                self.readable = false;
                self.at_end = true;
                0
            }
            (Some(len), told) => {
                self.readable = told.is_ok();
                len
            }
            (None, Err(error)) if is_retry(&error) => {
                self.readable = false;
                0
            }
            (None, Err(error)) => {
                self.readable = false;
                self.fail(error);
                0
            }
            (None, Ok(())) => 0,
        }
    }

    /// Fills a pipe, and notes when there is no more. `None` if something is there that does not go into pipes: an urgent
    /// byte, before which a splice stops for ever.
    pub(super) fn fill(&mut self, piped: &mut Piped, want: usize) -> Option<usize> {
        let mut filled = Err(io::ErrorKind::WouldBlock.into());
        let mut is_more = false;
        // Less than wanted may be all, or as much as the pipe has room for, or all before an urgent byte. Nothing may be the end,
        // or an urgent byte before it.
        let _ = self.socket.attempt(Interest::READABLE, || {
            filled = piped.fill(&self.socket, want);
            let is_short = match &filled {
                Ok(len) => *len < want,
                Err(error) => is_retry(error),
            };
            is_more = !is_short || rustix::io::ioctl_fionread(&self.socket).is_ok_and(|bytes| bytes > 0);
            // The end goes on to be told.
            if is_more || matches!(filled, Ok(0)) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        self.readable = is_more;
        match filled {
            Ok(0) if is_more => None,
            Ok(0) => {
                self.at_end = true;
                Some(0)
            }
            Ok(len) => Some(len),
            Err(error) if is_retry(&error) => (!is_more).then_some(0),
            Err(error) => {
                self.readable = false;
                self.fail(error);
                Some(0)
            }
        }
    }

    /// Writes from a pipe what the kernel takes, and notes when it takes no more.
    pub(super) fn empty(&mut self, piped: &mut Piped) -> usize {
        let before = piped.len();
        let told = self.socket.attempt(Interest::WRITABLE, || {
            piped.empty_into(&self.socket)?;
            if piped.len() > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        self.note_written(told);
        before - piped.len()
    }

    /// Writes what the kernel takes, and notes when it takes no more.
    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let told = self.socket.attempt(Interest::WRITABLE, || {
            taken = rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)?;
            if taken < bytes.len() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        self.note_written(told);
        taken
    }

    fn note_written(&mut self, told: io::Result<()>) {
        if let Err(error) = told {
            self.writable = false;
            if !is_retry(&error) {
                self.fail(error);
            }
        }
    }

    /// Gives up what was received: as if the connection had failed, with nothing left to read.
    pub(super) fn lose(&mut self, error: io::Error) {
        self.readable = false;
        self.fail(error);
    }

    pub(super) fn fail(&mut self, error: io::Error) {
        self.writable = false;
        self.failure.get_or_insert(error);
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
