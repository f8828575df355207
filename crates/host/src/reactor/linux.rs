//! A reactor's outside on Linux: the monotonic clock, TUN devices or interfaces, and an eventfd that says stop.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use headend_engine::node::Port;
use headend_engine::time::{Duration, Time};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use super::{Outside, Received, Refused, Woken};
use crate::clock::Monotonic;
use crate::error::{During, Error};
use crate::offload::OpenChecksum;
use crate::packet::{HEADER_BYTES, Interface};
use crate::tun::{Tun, Unsent};

/// No sleep ends earlier than this before its deadline, however late the machine usually is: what is left costs
/// processor time.
const EARLY_NS_MAX: u64 = 60_000;

/// The share of a core that may be spent on being exact, as a power of two: a quarter. Beyond it deadlines and packets are waited for
/// in naps, each of which ends with several of them. A thread that never sleeps would be stopped for 50 ms in every second: so much of
/// each core Linux keeps for ordinary programs (its fair server, and sched_rt_runtime_us).
const AWAKE_SHIFT: u32 = 2;
/// A nap, in which nobody looks for packets: so long, and a part of the time owed on top, as a power of two.
const NAP: Duration = Duration::from_micros(50);
const OWED_SHIFT: u32 = 2;
/// The time awake that is saved up, or owed, at most.
const CREDIT_NS_MAX: i64 = 500_000;

/// The devices of a reactor and its clock.
#[derive(Debug)]
pub struct Devices {
    clock: Monotonic,
    /// The devices by port.
    gates: Vec<Option<Gate>>,
    header_bytes: usize,
    /// The descriptors to wait for: first `stop`, then the device of each port; -1 where there is none, which waits for
    /// nothing. A device that may have packets, as far as is known, says so in `revents`.
    waits: Vec<libc::pollfd>,
    /// The running median of how late the machine ends a sleep, in nanoseconds. Sleeps end so much early, and the rest
    /// is spent looking for packets, so that half of the deadlines are met to the microsecond.
    usually_late_ns: u64,
    /// The time that may still be spent awake; if it is negative, the next wait is a nap.
    credit_ns: i64,
    /// The time up to which `credit_ns` is counted.
    counted: Time,
    /// Keeps the descriptor open that the first of `waits` names.
    _stop: Stop,
}

/// A device at which packets come in and go out.
#[derive(Debug)]
pub enum Gate {
    /// A device of our own: IP packets.
    Tun(Tun),
    /// An interface that is there anyway: Ethernet frames.
    Interface(Interface),
}

impl Gate {
    fn name(&self) -> &str {
        match self {
            Gate::Tun(tun) => tun.name(),
            Gate::Interface(interface) => &interface.device().name,
        }
    }

    fn header_bytes(&self) -> usize {
        match self {
            Gate::Tun(_) => 0,
            Gate::Interface(_) => HEADER_BYTES,
        }
    }

    /// Has the kernel note when packets come, if it can.
    fn note_arrivals(&mut self) {
        if let Gate::Tun(tun) = self {
            // Where it cannot, as in a user namespace, a packet is taken to have come as early as it can have.
            let _ = tun.note_arrivals();
        }
    }

    /// Packets written that wait for a flush.
    fn kept(&self) -> usize {
        match self {
            Gate::Tun(tun) => tun.kept(),
            Gate::Interface(_) => 0,
        }
    }

    /// Takes a packet that has come.
    fn receive(&mut self, buffer: &mut [u8], clock: Monotonic) -> Result<Received, Errno> {
        match self {
            Gate::Tun(tun) => {
                let (len, open) = tun.receive(buffer)?;
                Ok(Received { len, came: tun.came_ns().map(|ns| clock.at(ns)), open })
            }
            Gate::Interface(interface) => {
                let received = interface.receive(buffer);
                let (len, waited) = received.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                let came =
                    waited.map(|waited| Time::from_nanos(clock.now().as_nanos().saturating_sub(waited.as_nanos())));
                Ok(Received { len, came, open: None })
            }
        }
    }

    /// True if there are packets that no wait tells of.
    fn has_more(&self) -> bool {
        match self {
            Gate::Tun(tun) => tun.has_more(),
            Gate::Interface(interface) => interface.has_more(),
        }
    }

    /// Sends a packet, or has it wait for `flush`.
    fn send(&mut self, packet: &[u8], open: Option<OpenChecksum>) -> Result<(), Unsent> {
        match self {
            Gate::Tun(tun) => tun.send(packet, open),
            Gate::Interface(interface) => interface.send(packet).map_err(|why| Unsent { packets: 1, why }),
        }
    }

    /// Sends what waits.
    fn flush(&mut self) -> Result<(), Unsent> {
        match self {
            Gate::Tun(tun) => tun.flush(),
            Gate::Interface(_) => Ok(()),
        }
    }

    fn dropped(&mut self) -> Result<u64, Error> {
        match self {
            Gate::Tun(tun) => tun.counters().map(|counters| counters.tx_dropped + counters.rx_dropped),
            // One that goes while it is down says so nowhere else.
            Gate::Interface(interface) => interface.is_there().and_then(|()| interface.dropped()),
        }
    }

    fn is_down(&mut self) -> Result<bool, Error> {
        match self {
            Gate::Tun(tun) => Ok(!tun.device_now()?.up),
            Gate::Interface(interface) => interface.is_down(),
        }
    }

    /// Fails if the device is gone for good. Of a TUN that goes, every read says so.
    fn is_there(&self) -> Result<(), Error> {
        match self {
            Gate::Tun(_) => Ok(()),
            Gate::Interface(interface) => interface.is_there(),
        }
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Gate::Tun(tun) => tun.as_fd(),
            Gate::Interface(interface) => interface.as_fd(),
        }
    }
}

impl From<Tun> for Gate {
    fn from(tun: Tun) -> Gate {
        Gate::Tun(tun)
    }
}

impl From<Interface> for Gate {
    fn from(interface: Interface) -> Gate {
        Gate::Interface(interface)
    }
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
    ///
    /// # Panics
    /// If some are of one kind and some of another: a packet without a frame cannot leave in one.
    pub fn new<G: Into<Gate>>(gates: Vec<Option<G>>, stop: Stop) -> Devices {
        let mut gates: Vec<Option<Gate>> = gates.into_iter().map(|gate| gate.map(Into::into)).collect();
        for gate in gates.iter_mut().flatten() {
            gate.note_arrivals();
        }
        let header_bytes = gates.iter().flatten().map(Gate::header_bytes).next().unwrap_or(0);
        assert!(gates.iter().flatten().all(|gate| gate.header_bytes() == header_bytes), "all gates are of one kind");
        let wait = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut waits = vec![wait(stop.0.as_raw_fd())];
        waits.extend(gates.iter().map(|gate| wait(gate.as_ref().map_or(-1, |gate| gate.as_fd().as_raw_fd()))));
        Devices {
            clock: Monotonic::new(),
            gates,
            header_bytes,
            waits,
            usually_late_ns: 0,
            credit_ns: 0,
            counted: Time::ZERO,
            _stop: stop,
        }
    }

    /// Looks for packets and the stop, for so long; how many descriptors have something.
    fn look(&mut self, used: usize, timeout: Option<Duration>) -> Result<usize, Error> {
        self.waits.iter_mut().for_each(|wait| wait.revents = 0);
        let has_more = used > 1 && self.gates.iter().flatten().any(Gate::has_more);
        let timeout = if has_more { Some(Duration::ZERO) } else { timeout };
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: (timeout.as_nanos() / 1_000_000_000) as _,
            tv_nsec: (timeout.as_nanos() % 1_000_000_000) as _,
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the kernel writes `used` structures, of which there are at least as many, and reads one time-out or
        // none. The descriptors are open: this structure has the devices and a share of `stop`.
        let ready = unsafe { libc::ppoll(self.waits.as_mut_ptr(), used as libc::nfds_t, timeout, ptr::null()) };
        match usize::try_from(ready) {
            Ok(ready) if has_more => {
                let more = self.gates.iter().map(|gate| gate.as_ref().is_some_and(Gate::has_more));
                for (wait, _) in self.waits[1..].iter_mut().zip(more).filter(|(_, more)| *more) {
                    wait.revents |= libc::POLLIN;
                }
                Ok(ready + 1)
            }
            Ok(ready) => Ok(ready),
            Err(_) => match io::Error::last_os_error() {
                // A signal, which the program handles elsewhere; nothing is known of any device.
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(Error::new("wait for packets", error)),
            },
        }
    }

    /// Notes that nobody knows which devices have packets: whoever reads them finds out.
    fn may_have_packets(&mut self) {
        self.waits[1..].iter_mut().for_each(|wait| wait.revents = if wait.fd < 0 { 0 } else { libc::POLLIN });
    }

    /// Counts the time until `now`, of which none was slept away.
    fn was_awake(&mut self, now: Time) {
        let awake = now.since(self.counted).as_nanos() as i64;
        self.credit_ns = (self.credit_ns - awake + (awake >> AWAKE_SHIFT)).max(-CREDIT_NS_MAX);
        self.counted = now;
    }

    /// Counts the time until `now`, all of which was slept away.
    fn was_asleep(&mut self, now: Time) {
        let asleep = now.since(self.counted).as_nanos() as i64;
        self.credit_ns = (self.credit_ns + (asleep >> AWAKE_SHIFT)).min(CREDIT_NS_MAX);
        self.counted = now;
    }

    /// Learns from a sleep that ended so late.
    fn slept(&mut self, late: Duration) {
        const STEP_NS: u64 = 500;
        let usually = self.usually_late_ns;
        self.usually_late_ns = match late.as_nanos() > usually {
            true => (usually + STEP_NS).min(EARLY_NS_MAX),
            false => usually.saturating_sub(STEP_NS),
        };
    }

    /// The clock, for whoever compares times with the reactor's.
    pub fn clock(&self) -> Monotonic {
        self.clock
    }

    /// The packets that the device would not take; an error if it is gone.
    fn refused(&self, port: Port, sent: Result<(), Unsent>) -> Result<Refused, Error> {
        let Err(Unsent { packets, why }) = sent else { return Ok(Refused::default()) };
        match (why, self.gate(port)) {
            // What a TUN answers when it is down, and only then.
            (Errno::IO, Gate::Tun(_)) | (Errno::NETDOWN, _) => Ok(Refused { packets, is_down: true }),
            // There is no room, or the packet is too long: to the packet it is all the same.
            (Errno::IO | Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INVAL | Errno::MSGSIZE, _) => {
                Ok(Refused { packets, is_down: false })
            }
            (error, gate) => {
                gate.is_there()?;
                Err(Error::new(format!("write to {}", gate.name()), error))
            }
        }
    }

    fn gate_mut(&mut self, port: Port) -> &mut Gate {
        self.gates[usize::from(port.0)].as_mut().expect("a reactor uses only ports with devices")
    }

    /// The device at `port`.
    fn gate(&self, port: Port) -> &Gate {
        self.gates[usize::from(port.0)].as_ref().expect("a reactor uses only ports with devices")
    }
}

impl Outside for Devices {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, until: Option<Time>, packets: bool) -> Result<Woken, Error> {
        self.was_awake(self.clock.now());
        if self.credit_ns < 0 {
            let owed = Duration::from_nanos(self.credit_ns.unsigned_abs() >> OWED_SHIFT);
            if self.look(1, Some(NAP + owed))? > 0 {
                return Ok(Woken::Stop);
            }
            self.was_asleep(self.clock.now());
            // Whoever napped has taken his time: what is there now is enough.
            self.may_have_packets();
            return Ok(Woken::Blind);
        }
        let used = if packets { self.waits.len() } else { 1 };
        loop {
            let now = self.clock.now();
            self.was_awake(now);
            let left = until.map(|until| until.since(now));
            // Being early is paid for with looking until the time has come.
            let early = if self.credit_ns > 0 { self.usually_late_ns } else { 0 };
            let sleep = left.map(|left| left.saturating_sub(Duration::from_nanos(early)));
            let found = self.look(used, sleep)?;
            let woken = self.clock.now();
            let has_slept = sleep.is_none_or(|sleep| sleep > Duration::ZERO);
            if has_slept {
                self.was_asleep(woken);
            }
            if found > 0 {
                break;
            }
            let Some(left) = left else { break };
            if let Some(sleep) = sleep.filter(|_| has_slept) {
                self.slept(woken.since(now + sleep));
            }
            if woken.since(now) >= left {
                break;
            }
        }
        if !packets {
            self.may_have_packets();
        }
        Ok(match self.waits[0].revents {
            0 if packets => Woken::Up,
            0 => Woken::Blind,
            _ => Woken::Stop,
        })
    }

    fn read(&mut self, port: Port, buffer: &mut [u8]) -> Result<Option<Received>, Error> {
        let index = 1 + usize::from(port.0);
        if self.waits[index].revents == 0 {
            return Ok(None);
        }
        let clock = self.clock;
        match self.gate_mut(port).receive(buffer, clock) {
            Ok(received) => Ok(Some(received)),
            Err(Errno::AGAIN) => {
                self.waits[index].revents = 0;
                Ok(None)
            }
            // It went down, which is said once: there is nothing to read until it is up again.
            Err(Errno::NETDOWN) => {
                self.waits[index].revents = 0;
                self.gate(port).is_there().map(|()| None)
            }
            Err(error @ Errno::BADFD) => {
                let what = format!("device {} is gone: it was removed, or its namespace", self.gate(port).name());
                Err(Error::new(what, error))
            }
            Err(error) => Err(Error::new(format!("read from {}", self.gate(port).name()), error)),
        }
    }

    fn write(&mut self, port: Port, packet: &[u8], open: Option<OpenChecksum>) -> Result<Refused, Error> {
        let sent = self.gate_mut(port).send(packet, open);
        self.refused(port, sent)
    }

    fn kept(&self, port: Port) -> usize {
        self.gate(port).kept()
    }

    fn flush(&mut self, port: Port) -> Result<Refused, Error> {
        let sent = self.gate_mut(port).flush();
        self.refused(port, sent)
    }

    fn is_down(&mut self, port: Port) -> Result<bool, Error> {
        self.gate_mut(port).is_down()
    }

    fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    fn dropped(&mut self) -> Result<u64, Error> {
        let mut dropped = 0;
        for gate in self.gates.iter_mut().flatten() {
            dropped += gate.dropped()?;
        }
        Ok(dropped)
    }
}
