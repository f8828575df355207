//! A reactor's outside on Linux: the monotonic clock, TUN devices, and an eventfd that says stop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use headend_engine::node::Port;
use headend_engine::time::Time;
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use super::{Outside, Woken};
use crate::clock::Monotonic;
use crate::error::{During, Error};
use crate::tun::Tun;

/// The devices of a reactor and its clock.
#[derive(Debug)]
pub struct Devices {
    clock: Monotonic,
    /// By port.
    tuns: Vec<Option<Tun>>,
    /// What to wait for: first `stop`, then the device of each port; -1 where there is none, which waits for nothing. A
    /// device that may have packets, as far as is known, says so in `revents`.
    waits: Vec<libc::pollfd>,
    /// Keeps the descriptor open that the first of `waits` names.
    _stop: Stop,
}

/// Stops a reactor, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Something that stops a reactor.
    pub fn new() -> Result<Stop, Error> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let event = rustix::event::eventfd(0, flags).during(|| "make an eventfd")?;
        Ok(Stop(Arc::new(event)))
    }

    /// Stops the reactor at its next wait, which it ends.
    pub fn stop(&self) {
        // It cannot fail but by being full, and then it has been said.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl Devices {
    /// These devices, by the port of the node that each is at, until `stop` is used. The clock shows zero now.
    pub fn new(tuns: Vec<Option<Tun>>, stop: Stop) -> Devices {
        let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut waits = vec![wait(stop.0.as_raw_fd())];
        waits.extend(tuns.iter().map(|tun| wait(tun.as_ref().map_or(-1, |tun| tun.as_fd().as_raw_fd()))));
        Devices { clock: Monotonic::new(), tuns, waits, _stop: stop }
    }

    /// The clock, for whoever compares times with the reactor's.
    pub fn clock(&self) -> Monotonic {
        self.clock
    }

    /// The device at `port`.
    fn tun(&mut self, port: Port) -> &mut Tun {
        self.tuns[usize::from(port.0)].as_mut().expect("a reactor uses only ports with devices")
    }
}

impl Outside for Devices {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, until: Option<Time>, packets: bool) -> Result<Woken, Error> {
        let used = if packets { self.waits.len() } else { 1 };
        self.waits.iter_mut().for_each(|wait| wait.revents = 0);
        let timeout = until.map(|until| until.since(self.clock.now()).as_nanos()).map(|nanos| libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as _,
            tv_nsec: (nanos % 1_000_000_000) as _,
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the kernel writes `used` structures, of which there are at least as many, and reads one time-out or
        // none. The descriptors are open: this structure
        // has the devices and a share of `stop`.
        let ready = unsafe { libc::ppoll(self.waits.as_mut_ptr(), used as libc::nfds_t, timeout, ptr::null()) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::new("wait for packets", error));
            }
            // A signal, which the program handles elsewhere; nothing is known of any device.
            self.waits.iter_mut().for_each(|wait| wait.revents = 0);
        }
        Ok(if self.waits[0].revents == 0 { Woken::Up } else { Woken::Stop })
    }

    fn read(&mut self, port: Port, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        let index = 1 + usize::from(port.0);
        if self.waits[index].revents == 0 {
            return Ok(None);
        }
        let tun = self.tun(port);
        match rustix::io::read(&*tun, buffer) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::AGAIN) => {
                self.waits[index].revents = 0;
                Ok(None)
            }
            Err(error) => Err(Error::new(format!("read from {}", self.tun(port).name()), error)),
        }
    }

    fn write(&mut self, port: Port, packet: &[u8]) -> Result<bool, Error> {
        let tun = self.tun(port);
        match rustix::io::write(tun, packet) {
            Ok(_) => Ok(true),
            // The interface is down, or has no memory: to the packet it is all the same.
            Err(Errno::IO | Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INVAL) => Ok(false),
            Err(error) => Err(Error::new(format!("write to {}", self.tun(port).name()), error)),
        }
    }

    fn dropped(&mut self) -> Result<u64, Error> {
        let mut dropped = 0;
        for tun in self.tuns.iter_mut().flatten() {
            let counters = tun.counters()?;
            dropped += counters.tx_dropped + counters.rx_dropped;
        }
        Ok(dropped)
    }
}
