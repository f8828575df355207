//! A socket as hyper reads and writes it, and what is counted of it meanwhile.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use headend_engine::relay::Side;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::super::books::{Books, FlowPage};

/// Bytes that a connection may hold for each side when there is no memory for more: so that everything moves, if slowly.
const OWN_BYTES: u64 = 4_096;

/// What is counted while a client's requests are served.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) books: Arc<Books>,
    pub(super) flow: Arc<FlowPage>,
    began: Instant,
    /// Milliseconds since then at which a byte moved last.
    moved: AtomicU64,
    /// Whoever waits until that side has taken something.
    waiting: [Mutex<Option<Waker>>; 2],
    phase: Mutex<Phase>,
    pub(super) changed: Notify,
}

/// What a client's connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// For another request, since then.
    Idle(Instant),
    /// For the rest of a request's head.
    Head(Instant),
    /// For a request and its answer to end.
    Busy,
}

impl Meter {
    pub(super) fn new(books: Arc<Books>, flow: Arc<FlowPage>) -> Meter {
        let began = Instant::now();
        Meter {
            books,
            flow,
            began,
            moved: AtomicU64::new(0),
            waiting: Default::default(),
            phase: Mutex::new(Phase::Head(began)),
            changed: Notify::new(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_one();
    }

    /// The time at which a byte moved last.
    pub(super) fn moved(&self) -> Instant {
        self.began + Duration::from_millis(self.moved.load(Ordering::Relaxed))
    }

    pub(super) fn move_on(&self) {
        self.moved.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn has_read(&self, side: Side, bytes: usize) {
        self.books.has_read(&self.flow, side, bytes as u64);
        self.flow.quota().has_read(side, bytes as u64);
        self.move_on();
        if side == Side::Local
            && let Phase::Idle(_) = self.phase()
        {
            self.set_phase(Phase::Head(Instant::now()));
        }
    }

    fn is_delayed(&self) {
        self.books.delayed.fetch_add(1, Ordering::Relaxed);
    }

    fn has_written(&self, side: Side, bytes: usize) {
        let bytes = bytes as u64;
        self.flow.written[side as usize].fetch_add(bytes, Ordering::Relaxed);
        self.books.written[side as usize].fetch_add(bytes, Ordering::Relaxed);
        self.move_on();
        // What hyper adds, heads and the sizes of chunks, was never counted as held: rather less is held than more.
        let held = self.flow.held[side as usize].load(Ordering::Relaxed);
        self.release(side, bytes.min(held));
    }

    /// True if more of a body may be taken for `to`; otherwise the caller is woken when that side has taken some.
    pub(super) fn may_take(&self, to: Side, cx: &Context<'_>) -> bool {
        let memory = &self.books.memory;
        let may = memory.taken() < memory.bound() || self.flow.held[to as usize].load(Ordering::Relaxed) <= OWN_BYTES;
        if !may {
            let mut waiting = self.waiting[to as usize].lock().unwrap_or_else(PoisonError::into_inner);
            *waiting = Some(cx.waker().clone());
        }
        may
    }

    /// Counts bytes of a body that wait to be written to `to`.
    pub(super) fn hold(&self, to: Side, bytes: usize) {
        self.flow.held[to as usize].fetch_add(bytes as u64, Ordering::Relaxed);
        self.books.memory.add(bytes as u64);
    }

    /// Nothing waits for either side any more.
    pub(super) fn settle(&self) {
        for side in [Side::Local, Side::Remote] {
            let held = self.flow.held[side as usize].load(Ordering::Relaxed);
            self.release(side, held);
        }
    }

    fn release(&self, side: Side, bytes: u64) {
        self.flow.held[side as usize].fetch_sub(bytes, Ordering::Relaxed);
        self.books.memory.give(bytes);
        let waker = self.waiting[side as usize].lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.settle();
    }
}

/// The meter of whoever uses a connection now.
pub(super) type MeterSlot = Arc<Mutex<Option<Arc<Meter>>>>;

/// A connected socket. Its writing side is not closed by hyper, which does so also when something has failed.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) stream: Arc<TcpStream>,
    side: Side,
    meter: MeterSlot,
    /// Bytes that were read already.
    first: Bytes,
    at_end: Arc<AtomicBool>,
    /// The time until it may be read again, while whose bytes they are is ahead of its rate.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Leg {
    pub(super) fn new(stream: Arc<TcpStream>, side: Side, meter: MeterSlot, first: Bytes) -> Leg {
        Leg { stream, side, meter, first, at_end: Arc::default(), pause: None }
    }

    /// Tells whether the peer has closed its direction.
    pub(super) fn at_end(&self) -> Arc<AtomicBool> {
        self.at_end.clone()
    }

    fn count(&self, count: impl FnOnce(&Meter)) {
        if let Some(meter) = &*self.meter.lock().unwrap_or_else(PoisonError::into_inner) {
            count(meter);
        }
    }

    /// Waits until the rates allow more to be read.
    fn poll_rate(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let mut wait = None;
            self.count(|meter| wait = meter.flow.quota().wait(self.side).inspect(|_| meter.is_delayed()));
            let Some(wait) = wait else { return Poll::Ready(()) };
            self.pause = Some(Box::pin(sleep(wait)));
        }
    }

    fn write(&self, cx: &mut Context<'_>, try_write: impl Fn() -> io::Result<usize>) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match try_write() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(len) => {
                    self.count(|meter| meter.has_written(self.side, len));
                    return Poll::Ready(Ok(len));
                }
            }
        }
    }
}

impl AsyncRead for Leg {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.has_remaining() {
            let len = self.first.len().min(into.remaining());
            into.put_slice(&self.first.split_to(len));
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_rate(cx));
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read_buf(&mut (&mut *into).limit(usize::MAX)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(0) => {
                    self.at_end.store(true, Ordering::Relaxed);
                    return Poll::Ready(Ok(()));
                }
                Ok(len) => {
                    self.count(|meter| meter.has_read(self.side, len));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Leg {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, || self.stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, || self.stream.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
