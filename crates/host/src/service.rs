//! Life as a service of systemd, without its library: telling it what one is at, and sockets that it has opened.
//!
//! The protocols are those of sd_notify(3) and sd_listen_fds(3). Outside systemd there is nobody to tell and nothing passed.

use std::env;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::time::ClockId;

use crate::error::{During, Error};

/// A socket that another process has opened, and what it calls it.
#[derive(Debug)]
pub struct Passed {
    /// Its name.
    pub name: String,
    /// The socket.
    pub socket: OwnedFd,
}

/// Whoever started this process and wants to know what it is at.
#[derive(Debug)]
pub struct Supervisor {
    socket: UnixDatagram,
    address: SocketAddr,
    /// A sign of life is due within this.
    pub watchdog: Option<Duration>,
}

/// News of this process, for the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// It serves; with a line for people.
    Ready(&'a str),
    /// It reads its file again; [`News::Ready`] follows.
    Reloading,
    /// It is about to end.
    Stopping(&'a str),
    /// It is alive.
    Alive,
}

/// The first descriptor that is passed (SD_LISTEN_FDS_START).
const FIRST: RawFd = 3;

impl Supervisor {
    /// The supervisor that the environment names; `None` if nobody wants to know.
    pub fn from_environment() -> Result<Option<Supervisor>, Error> {
        let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else { return Ok(None) };
        let what = || format!("NOTIFY_SOCKET={}", path.display());
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&path),
        };
        let socket = UnixDatagram::unbound().during(what)?;
        socket.set_nonblocking(true).during(what)?;
        let number = |name: &str| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| is_mine && *usec > 0).map(Duration::from_micros);
        Ok(Some(Supervisor { socket, address: address.during(what)?, watchdog }))
    }

    /// Tells it. Whether it hears is its own affair.
    pub fn tell(&self, news: News<'_>) {
        let text = match news {
            News::Ready(status) => format!("READY=1\nSTATUS={status}"),
            News::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_usec()),
            News::Stopping(status) => format!("STOPPING=1\nSTATUS={status}"),
            News::Alive => "WATCHDOG=1".to_owned(),
        };
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

fn monotonic_usec() -> u128 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    u128::from(now.tv_sec.unsigned_abs()) * 1_000_000 + u128::from(now.tv_nsec.unsigned_abs()) / 1_000
}

/// The sockets that whoever started this process has opened for it. To be called once: they are the caller's from then on.
pub fn passed() -> Result<Vec<Passed>, Error> {
    let variable = |name: &str| env::var(name).ok();
    if variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let text = variable("LISTEN_FDS").unwrap_or_default();
    let count: RawFd = text.parse().ok().filter(|count| (0..=1_024).contains(count)).ok_or_else(|| {
        Error::wrong(format!("LISTEN_FDS={text}"), "expected how many sockets are passed, from descriptor 3 on")
    })?;
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST + count)
        .map(|fd| {
            // SAFETY: the two variables say that it is open and for this process; who calls this twice was warned.
            let socket = unsafe { take(fd) }.during(|| format!("LISTEN_FDS={count}: descriptor {fd}"))?;
            Ok(Passed { name: names.next().filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned(), socket })
        })
        .collect()
}

/// # Safety
///
/// Nobody else may close `fd` if it is open.
unsafe fn take(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asked whether it is open; borrowed for these two calls.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and the caller's to give.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
