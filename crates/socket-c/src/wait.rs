//! Waiting for a future on the thread that calls, and a descriptor that says when to ask again.

use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Waits for a future; `None` if the time is up. Less than 0 ms are for ever, and 0 ms only look: what is not ready then wakes
/// `bell`.
pub(crate) fn wait<T>(timeout_ms: c_int, bell: &Waker, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    if timeout_ms == 0 {
        return match future.as_mut().poll(&mut Context::from_waker(bell)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        };
    }
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let end = u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        match end {
            None => thread::park(),
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left);
            }
        }
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A descriptor that can be read from when what had to wait need not any more.
pub(crate) struct Bell {
    pub(crate) fd: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Bell> {
        let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
        Ok(Bell { fd: rustix::event::eventfd(0, flags)? })
    }

    /// Has it quiet until it rings again.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // It fails only if it rings already, 2^64 times.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }
}
