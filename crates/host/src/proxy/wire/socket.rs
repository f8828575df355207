//! A connected socket, and the events of it that wake the worker.
//!
//! The runtime has every segment that comes wake a socket's task (edges, epoll(7)). While the other side takes nothing, that
//! is for nothing, and before a slow line it was most of what a worker was woken for. So a socket that waits to be
//! read and cannot be is taken from the runtime and registered anew, for room and for errors alone, until it is read again.

use std::future::Future;
use std::io;
use std::net;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

/// A connected socket that wakes its task when something comes, when it takes more, and when it fails.
pub(crate) struct WireSocket {
    /// Ready once the connection has failed. Gone before what it waits for.
    failing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    hearing: Hearing,
}

enum Hearing {
    /// As the runtime has its sockets: of all that happens.
    All(Arc<TcpStream>),
    /// Only of what is wanted.
    Chosen { socket: Arc<AsyncFd<net::TcpStream>>, of_arrivals: bool },
    /// Of nothing, because the kernel refused to register it; without a socket only while it goes from one to another.
    Nothing(Option<net::TcpStream>),
}

impl WireSocket {
    pub(crate) fn new(stream: impl Into<Arc<TcpStream>>) -> WireSocket {
        let mut line = WireSocket { failing: None, hearing: Hearing::All(stream.into()) };
        line.await_failure();
        line
    }

    /// The runtime's socket: until bytes are relayed it is that.
    pub(crate) fn stream(&self) -> &Arc<TcpStream> {
        match &self.hearing {
            Hearing::All(stream) => stream,
            _ => unreachable!("only a wire takes a socket from the runtime"),
        }
    }

    /// Is woken no more for what comes, until [`WireSocket::poll_readable`] is asked. A socket that others have as well goes on to
    /// hear of all.
    pub(super) fn ignore_arrivals(&mut self) -> io::Result<()> {
        match &self.hearing {
            Hearing::All(stream) if Arc::strong_count(stream) <= 1 + usize::from(self.failing.is_some()) => {}
            Hearing::Chosen { of_arrivals: true, .. } => {}
            _ => return Ok(()),
        }
        self.choose(Interest::WRITABLE)
    }

    /// Waits until something may have come.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Hearing::Chosen { of_arrivals: false, .. } = &self.hearing {
            self.choose(Interest::READABLE | Interest::WRITABLE)?;
        }
        match &self.hearing {
            Hearing::All(stream) => stream.poll_read_ready(cx),
            Hearing::Chosen { socket, .. } => socket.poll_read_ready(cx).map_ok(drop),
            Hearing::Nothing(_) => Poll::Pending,
        }
    }

    /// Waits until something may be written.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.hearing {
            Hearing::All(stream) => stream.poll_write_ready(cx),
            Hearing::Chosen { socket, .. } => socket.poll_write_ready(cx).map_ok(drop),
            Hearing::Nothing(_) => Poll::Pending,
        }
    }

    /// Waits until the connection has failed: a reset is to be heard also while nothing is read.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(failing) = &mut self.failing else { return Poll::Pending };
        ready!(failing.as_mut().poll(cx));
        self.failing = None;
        let error = socket2::SockRef::from(&*self).take_error();
        Poll::Ready(error.ok().flatten().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
    }

    /// Does `call`; an error that it would block means to wait for the next event.
    pub(super) fn attempt<T>(&self, interest: Interest, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let block = || io::Error::from(io::ErrorKind::WouldBlock);
        match &self.hearing {
            Hearing::All(stream) => stream.try_io(interest, call),
            // Not asked whether it is ready: of what came while nobody listened it has not heard.
            Hearing::Chosen { socket, .. } => call().inspect_err(|error| {
                if error.kind() == io::ErrorKind::WouldBlock {
                    let _ = socket.try_io(interest, |_| Err::<(), _>(block()));
                }
            }),
            Hearing::Nothing(_) => Err(block()),
        }
    }

    /// Registers the socket for `interest` alone. The kernel tells at once of what there is already.
    fn choose(&mut self, interest: Interest) -> io::Result<()> {
        self.failing = None;
        let stream = match std::mem::replace(&mut self.hearing, Hearing::Nothing(None)) {
            Hearing::All(stream) => match Arc::try_unwrap(stream) {
                Ok(stream) => stream.into_std().expect("what is registered can be taken back"),
                Err(shared) => {
                    self.hearing = Hearing::All(shared);
                    self.await_failure();
                    return Ok(());
                }
            },
            Hearing::Chosen { socket, .. } => Arc::into_inner(socket).expect("nobody else waits for it").into_inner(),
            nothing @ Hearing::Nothing(_) => {
                self.hearing = nothing;
                return Ok(());
            }
        };
        // SAFETY: the socket is what is registered, and its descriptor stays the same and open while it is.
        match unsafe { AsyncFd::register_with_interest(stream, interest) } {
            Ok(socket) => {
                self.hearing = Hearing::Chosen { socket: Arc::new(socket), of_arrivals: interest.is_readable() };
            }
            Err(error) => {
                let (stream, error) = error.into_parts();
                self.hearing = Hearing::Nothing(Some(stream));
                return Err(error);
            }
        }
        self.await_failure();
        Ok(())
    }

    fn await_failure(&mut self) {
        self.failing = match &self.hearing {
            Hearing::All(stream) => {
                let stream = stream.clone();
                Some(Box::pin(async move { drop(stream.ready(Interest::ERROR).await) }))
            }
            Hearing::Chosen { socket, .. } => {
                let socket = socket.clone();
                Some(Box::pin(async move { drop(socket.ready(Interest::ERROR).await) }))
            }
            Hearing::Nothing(_) => None,
        };
    }
}

impl AsFd for WireSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.hearing {
            Hearing::All(stream) => stream.as_fd(),
            Hearing::Chosen { socket, .. } => socket.get_ref().as_fd(),
            Hearing::Nothing(stream) => stream.as_ref().expect("it has a socket between calls").as_fd(),
        }
    }
}
