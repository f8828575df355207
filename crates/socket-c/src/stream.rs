//! Streams: reads and writes that wait, and descriptors for those that do not.

use std::cell::Cell;
use std::ffi::c_int;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::{Failure, count, known, status};
use crate::wait::{Bell, wait};

/// The descriptor of reads, for headend_stream_fd.
pub const HEADEND_READ: c_int = 0;
/// The descriptor of writes.
pub const HEADEND_WRITE: c_int = 1;

/// Ordered bytes both ways.
pub struct Stream {
    stream: headend_socket::Stream,
    bells: [OnceLock<Arc<Bell>>; 2],
}

impl Stream {
    pub(crate) fn new(stream: headend_socket::Stream) -> Stream {
        Stream { stream, bells: Default::default() }
    }

    /// What is to be woken for a read or a write that does not wait.
    fn bell(&self, way: c_int) -> Waker {
        match self.bells[way as usize].get() {
            Some(bell) => {
                bell.hush();
                bell.clone().into()
            }
            None => Waker::noop().clone(),
        }
    }

    fn read(&self, to: &mut [u8], timeout_ms: c_int) -> Result<usize, Failure> {
        let once = |cx: &mut Context<'_>| {
            let mut buffer = ReadBuf::new(&mut *to);
            let read = Pin::new(&mut &self.stream).poll_read(cx, &mut buffer);
            read.map_ok(|()| buffer.filled().len())
        };
        Ok(wait(timeout_ms, &self.bell(HEADEND_READ), poll_fn(once)).ok_or_else(Failure::timed_out)??)
    }

    fn write(&self, bytes: &[u8], timeout_ms: c_int) -> Result<usize, Failure> {
        let taken = Cell::new(0);
        let all = |cx: &mut Context<'_>| -> Poll<io::Result<()>> {
            while taken.get() < bytes.len() {
                match Pin::new(&mut &self.stream).poll_write(cx, &bytes[taken.get()..]) {
                    Poll::Ready(Ok(len)) => taken.set(taken.get() + len),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        };
        match wait(timeout_ms, &self.bell(HEADEND_WRITE), poll_fn(all)) {
            Some(Err(error)) => Err(error.into()),
            None if taken.get() == 0 => Err(Failure::timed_out()),
            _ => Ok(taken.get()),
        }
    }
}

/// Reads at most `size` bytes, as soon as there are any. 0 is the end of what the peer writes; less is an error.
///
/// # Safety
/// `stream` is a stream, and `to` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_read(stream: *const Stream, to: *mut u8, size: usize, timeout_ms: c_int) -> isize {
    // SAFETY: the caller has said so.
    let stream = unsafe { known("stream", stream) };
    count(stream.and_then(|stream| {
        if size == 0 {
            return Ok(0);
        }
        // SAFETY: the caller has said so. What was there is bytes of C's, which are not looked at before they are written.
        stream.read(unsafe { std::slice::from_raw_parts_mut(to, size) }, timeout_ms)
    }))
}

/// Writes, and waits while the peer reads more slowly. Returns how many bytes were taken: all, unless the time was up after some.
/// Less than 0 is an error.
///
/// # Safety
/// `stream` is a stream, and `from` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_write(
    stream: *const Stream,
    from: *const u8,
    size: usize,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: the caller has said so.
    let stream = unsafe { known("stream", stream) };
    count(stream.and_then(|stream| {
        if size == 0 {
            return Ok(0);
        }
        // SAFETY: the caller has said so.
        stream.write(unsafe { std::slice::from_raw_parts(from, size) }, timeout_ms)
    }))
}

/// Ends what is written. The peer reads what was, and then the end. Reading goes on.
///
/// # Safety
/// `stream` is a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_shutdown(stream: *const Stream) {
    // SAFETY: the caller has said so.
    if let Some(stream) = unsafe { stream.as_ref() } {
        let _ = Pin::new(&mut &stream.stream).poll_shutdown(&mut Context::from_waker(Waker::noop()));
    }
}

/// Waits, after headend_shutdown, until all that was written has come. 0, or an error.
///
/// # Safety
/// `stream` is a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_wait_sent(stream: *const Stream, timeout_ms: c_int) -> c_int {
    // SAFETY: the caller has said so.
    let stream = unsafe { known("stream", stream) };
    let sent = stream.and_then(|one| wait(timeout_ms, Waker::noop(), one.stream.sent()).ok_or_else(Failure::timed_out));
    status(sent.and_then(|sent| Ok(sent?)))
}

/// Ends what is written at once: the peer's reads fail with this code, and what was on its way is lost. A write of another thread that
/// waits fails with HEADEND_ENDED. A code above 2^62 - 1 counts as that.
///
/// # Safety
/// `stream` is a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_reset(stream: *const Stream, code: u64) {
    // SAFETY: the caller has said so.
    if let Some(stream) = unsafe { stream.as_ref() } {
        stream.stream.reset(code);
    }
}

/// Reads no more: the peer's writes fail with this code. One above 2^62 - 1 counts as that.
///
/// # Safety
/// `stream` is a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_stop(stream: *const Stream, code: u64) {
    // SAFETY: the caller has said so.
    if let Some(stream) = unsafe { stream.as_ref() } {
        stream.stream.stop(code);
    }
}

/// Returns a descriptor for poll or epoll: after a read (HEADEND_READ) or a write (HEADEND_WRITE) with a timeout of 0 that came back
/// with HEADEND_TIMED_OUT, or a write that took a part, it can be read from as soon as another try is worth it. Ask for it before
/// the first such call; do not read from it, and do not close it.
///
/// # Safety
/// `stream` is a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_stream_fd(stream: *const Stream, way: c_int) -> c_int {
    // SAFETY: the caller has said so.
    let stream = unsafe { known("stream", stream) };
    let found = || {
        let stream = stream?;
        let bell = usize::try_from(way).ok().and_then(|way| stream.bells.get(way));
        let bell = bell.ok_or_else(|| Failure::wrong("expected HEADEND_READ or HEADEND_WRITE"))?;
        if let Some(known) = bell.get() {
            return Ok(known.fd.as_raw_fd());
        }
        let made = Arc::new(Bell::new()?);
        Ok::<_, Failure>(bell.get_or_init(|| made).fd.as_raw_fd())
    };
    match found() {
        Ok(fd) => fd,
        Err(failure) => status(Err(failure)),
    }
}

/// Frees a stream. What was not ended is reset, so that nobody takes a part of it for the whole: headend_shutdown and
/// headend_wait_sent come before. NULL is none.
///
/// # Safety
/// `stream` is NULL or a stream, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_stream_free(stream: *mut Stream) {
    if !stream.is_null() {
        // SAFETY: it came from `object`, and the caller gives it back.
        drop(unsafe { Box::from_raw(stream) });
    }
}
