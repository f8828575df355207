//! A stream as a reader and a writer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Line;
use crate::connection::Ended;
use crate::streams::{StreamError, StreamId};

/// The code of a stream that was dropped before its end.
const DROPPED: u64 = 0;

/// A stream of a connection: ordered bytes both ways. `shutdown` ends what is written, and reading goes on. A stream that is
/// dropped before both ends is reset, so that nobody takes a part of it for the whole.
#[derive(Debug)]
pub struct Stream {
    line: Arc<Line>,
    id: StreamId,
}

impl Stream {
    pub(super) fn new(line: Arc<Line>, id: StreamId) -> Stream {
        line.endpoint.shared.lock().lines.entry(line.handle).or_default().wakers.insert(id, super::Wakers::default());
        Stream { line, id }
    }

    /// The stream's name in its connection, the same at both ends.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends what is written at once: the peer's reads fail with this code, and what was on its way is lost. A write that waits fails. A
    /// code is at most [`VARINT_MAX`](crate::frame::VARINT_MAX); a larger one counts as that.
    pub fn reset(&self, code: u64) {
        let shared = &self.line.endpoint.shared;
        shared.lock().machine.reset(self.line.handle, self.id, code);
        shared.work.notify_one();
    }

    /// Reads no more: the peer's writes fail with this code, as with [`reset`](Stream::reset).
    pub fn stop(&self, code: u64) {
        let shared = &self.line.endpoint.shared;
        shared.lock().machine.stop(self.line.handle, self.id, code);
        shared.work.notify_one();
    }

    /// Waits until all that was written has come, after `shutdown`. An error if the connection ended before.
    pub async fn sent(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            let shared = &self.line.endpoint.shared;
            let mut state = shared.lock();
            if let Some(why) = state.lines.get(&self.line.handle).and_then(|line| line.ended.clone()) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, why)));
            }
            if state.machine.is_sent(self.line.handle, self.id) {
                return Poll::Ready(Ok(()));
            }
            let line = state.lines.entry(self.line.handle).or_default();
            line.wakers.entry(self.id).or_default().writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until the peer reads no more, or the connection has ended, and says so as an error. For who has nothing to write now;
    /// a write would tell as well.
    pub async fn stopped(&self) -> io::Error {
        std::future::poll_fn(|cx| {
            let mut state = self.line.endpoint.shared.lock();
            let ended = state.lines.get(&self.line.handle).and_then(|line| line.ended.clone());
            if let Some(why) = ended {
                return Poll::Ready(self.failure(Some(why), StreamError::Ended));
            }
            if let Some(code) = state.machine.stopped(self.line.handle, self.id) {
                return Poll::Ready(self.failure(None, StreamError::Stopped(code)));
            }
            let line = state.lines.entry(self.line.handle).or_default();
            line.wakers.entry(self.id).or_default().writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn failure(&self, ended: Option<Ended>, error: StreamError) -> io::Error {
        match (error, ended) {
            (StreamError::Ended, Some(why)) => io::Error::new(io::ErrorKind::ConnectionAborted, why),
            (StreamError::Ended, None) => io::Error::new(io::ErrorKind::BrokenPipe, error),
            (StreamError::Reset(_), _) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            (StreamError::Stopped(_), _) => io::Error::new(io::ErrorKind::BrokenPipe, error),
        }
    }
}

/// A stream is read and written by reference, as a socket is: one task may read while another writes.
impl AsyncRead for &Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let shared = &self.line.endpoint.shared;
        let mut state = shared.lock();
        match state.machine.read(self.line.handle, self.id, buffer.initialize_unfilled()) {
            Ok(Some(0)) => {
                let line = state.lines.entry(self.line.handle).or_default();
                line.wakers.entry(self.id).or_default().reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(Some(len)) => {
                let is_due = state.machine.is_due();
                drop(state);
                buffer.advance(len);
                if is_due {
                    shared.work.notify_one();
                }
                Poll::Ready(Ok(()))
            }
            Ok(None) => Poll::Ready(Ok(())),
            Err(error) => {
                let ended = state.lines.get(&self.line.handle).and_then(|line| line.ended.clone());
                Poll::Ready(Err(self.failure(ended, error)))
            }
        }
    }
}

impl AsyncWrite for &Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let shared = &self.line.endpoint.shared;
        let mut state = shared.lock();
        match state.machine.write(self.line.handle, self.id, bytes) {
            Ok(0) => {
                let line = state.lines.entry(self.line.handle).or_default();
                line.wakers.entry(self.id).or_default().writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(len) => {
                drop(state);
                shared.work.notify_one();
                Poll::Ready(Ok(len))
            }
            Err(error) => {
                let ended = state.lines.get(&self.line.handle).and_then(|line| line.ended.clone());
                Poll::Ready(Err(self.failure(ended, error)))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // As with TCP: what was written leaves by itself.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &self.line.endpoint.shared;
        shared.lock().machine.finish(self.line.handle, self.id);
        shared.work.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(cx)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let shared = &self.line.endpoint.shared;
        let mut state = shared.lock();
        state.machine.release(self.line.handle, self.id, DROPPED);
        if let Some(line) = state.lines.get_mut(&self.line.handle) {
            line.wakers.remove(&self.id);
        }
        drop(state);
        shared.work.notify_one();
    }
}
