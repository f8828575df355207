//! The task that drives an endpoint: what came in, what is due, what leaves.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use headend_datagram::{Outbox, Train, Way};
use headend_engine::time::Time;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit};
use rustix::net::sockopt;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Shared;

/// Bytes that one datagram, or a train of them that the kernel has joined, takes at most.
const TRAIN_MAX: usize = 65_536;
/// Trains that are read with one call, and calls before others have their turn.
const TRAINS: usize = 8;
const LOOKS: usize = 4;

/// A timer of the kernel's: the runtime's own counts whole milliseconds, in which a fast connection sends a hundred datagrams.
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    set: Option<Time>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // What takes its place takes `unsafe`, for descriptors that may be closed early; this one is owned.
        #[expect(deprecated, reason = "an owned descriptor stays open as long as it is registered")]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        Ok(Timer { fd, set: None })
    }

    /// Sets it for `at`, or not at all.
    fn set(&mut self, now: Time, at: Option<Time>) {
        if self.set == at {
            return;
        }
        self.set = at;
        // Zero would switch it off.
        let span = at.map_or(0, |at| at.since(now).as_nanos().max(1));
        let value = Timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = rustix::time::timerfd_settime(
            &self.fd,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: none, it_value: value },
        );
    }

    /// Waits until it has expired.
    async fn expired(&mut self) {
        let Ok(mut ready) = self.fd.readable().await else { return std::future::pending().await };
        let mut count = [0; 8];
        let _ = rustix::io::read(ready.get_inner(), &mut count);
        ready.clear_ready();
        self.set = None;
    }
}

/// Gives a socket large buffers: larger than the machine allows others, where this process may do so.
pub(super) fn enlarge(socket: &impl AsFd, bytes: usize) {
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, bytes);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, bytes);
}

/// Ends what is left of an endpoint when its driver does, however that ends: by a panic, or with its runtime.
struct Driven(Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.end(if std::thread::panicking() { "its driver has panicked" } else { "its runtime has ended" });
    }
}

/// Drives an endpoint until it is closed.
pub(super) async fn drive(shared: Arc<Shared>, mut timer: Timer) {
    let _driven = Driven(shared.clone());
    let mut buffers = vec![vec![0; TRAIN_MAX]; TRAINS];
    loop {
        let mut wake = None;
        let outcome = hear(&shared, &mut buffers);
        let mut outbox = Outbox::default();
        let is_closed = {
            let mut state = shared.lock();
            wake = state.machine.poll(shared.now(), &mut outbox).or(wake);
            state.tell(&shared.arrivals);
            if let Err(error) = &outcome {
                state.failed = Some(error.to_string());
                state.is_closed = true;
            }
            state.is_closed
        };
        for train in &outbox.trains {
            send(&shared, train).await;
        }
        if is_closed {
            return;
        }
        if outcome.is_ok_and(|has_more| has_more) {
            tokio::task::yield_now().await;
            continue;
        }
        let now = shared.now();
        if wake.is_some_and(|at| at <= now) {
            tokio::task::yield_now().await;
            continue;
        }
        timer.set(now, wake);
        tokio::select! {
            _ = shared.socket.readable() => {}
            () = shared.work.notified() => {}
            () = timer.expired() => {}
        }
    }
}

/// Reads what came. Returns true if there may be more.
fn hear(shared: &Shared, buffers: &mut [Vec<u8>]) -> io::Result<bool> {
    for _ in 0..LOOKS {
        let mut meta = [RecvMeta::default(); TRAINS];
        let received = {
            let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let read = || shared.udp.recv((&shared.socket).into(), &mut slices, &mut meta);
            shared.socket.try_io(Interest::READABLE, read)
        };
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // What an ICMP message says of a datagram that was sent before (RFC 1122 s4.1.3.3) is nobody's word.
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        let mut state = shared.lock();
        let now = shared.now();
        for (buffer, meta) in buffers.iter_mut().zip(&meta[..count]) {
            let way = Way { to: meta.addr, from: meta.dst_ip };
            let Some(train) = buffer.get_mut(..meta.len) else { continue };
            for datagram in train.chunks_mut(meta.stride.max(1)) {
                state.machine.receive(now, way, datagram);
            }
        }
    }
    Ok(true)
}

/// Sends a train. What the kernel does not take is lost, as a datagram may be on its way.
async fn send(shared: &Shared, train: &Train) {
    let most = shared.udp.max_gso_segments().max(1) * train.datagram;
    for part in train.bytes.chunks(most) {
        let transmit = Transmit {
            destination: train.way.to,
            ecn: EcnCodepoint::from_bits(train.tos),
            contents: part,
            segment_size: (part.len() > train.datagram).then_some(train.datagram),
            src_ip: train.way.from,
        };
        loop {
            let write = || shared.udp.try_send((&shared.socket).into(), &transmit);
            match shared.socket.try_io(Interest::WRITABLE, write) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if shared.socket.writable().await.is_err() {
                        return;
                    }
                }
                _ => break,
            }
        }
    }
}

/// Errors of a socket that say something of the network, and not of the socket.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kinds = [
        Kind::ConnectionRefused,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::NetworkDown,
        Kind::Interrupted,
    ];
    kinds.contains(&error.kind())
}
