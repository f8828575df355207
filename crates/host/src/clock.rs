//! The monotonic clock as the engine's time, and what makes a thread wake up when it should.

use std::io;

use headend_engine::time::Time;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, counted from when this was made.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    start_ns: u64,
}

impl Monotonic {
    /// A clock that shows zero now.
    #[expect(clippy::new_without_default, reason = "a clock starts when it is made, which no default should do")]
    pub fn new() -> Monotonic {
        Monotonic { start_ns: monotonic_ns() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic_ns() - self.start_ns)
    }

    /// The time at which CLOCK_MONOTONIC showed so many nanoseconds; what was before the start is the start.
    pub(crate) fn at(&self, monotonic_ns: u64) -> Time {
        Time::from_nanos(monotonic_ns.saturating_sub(self.start_ns))
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Not negative and far from overflow: it counts from the machine's start.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The priority among threads that wait for the clock: below the kernel's own threads of priority 50, above every
/// ordinary program.
static PRIORITY: libc::c_int = 40;

/// Asks that the calling thread be woken when its time has come: without slack in its timers, and before any ordinary
/// thread (SCHED_FIFO). Says whether the second was granted; it takes CAP_SYS_NICE.
pub fn wake_on_time() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes a number and concerns the calling thread alone. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    // The kernel's `struct sched_param` is this one number. Not by the C library's function: musl's only says ENOSYS.
    // SAFETY: thread 0 is the calling one, and the number is read before the call returns.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const PRIORITY) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
