//! A trunk's loop: one thread that waits for users' packets, for datagrams of peers and for the next deadline.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use headend_datagram::{Identity, Outbox, Way};
use headend_engine::circuit::turns::Turns;
use headend_engine::time::{Duration, Time, earlier};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::time::Timespec;

use super::carrier::Carrier;
use super::classify::Numbers;
use super::config::{Carriage, Config, PeerConfig};
use super::handshake;
use super::peer::{Arrival, Habits, Peer};
use super::runs::Place;
use super::sealed;
use super::status::{PeerStatus, Status};
use super::wire::{Datagram, SEALED_HEADER};
use crate::clock::Monotonic;
use crate::error::{During, Error};
use crate::privilege;

/// Initiations that are looked at in a second, and at once: each costs some hundred microseconds.
const INITIATIONS_A_SECOND: u64 = 100;
const INITIATIONS_AT_ONCE: u64 = 20;
/// The least time between two updates of the status that others may ask for.
const REPORT: Duration = Duration::from_millis(200);
/// Room for datagrams that come while this thread does not run.
const SOCKET_BUFFER: usize = 8 << 20;
/// Bytes that one read of the socket takes: a train is at most this long.
const TRAIN_MAX: usize = 65_536;
/// Trains that are read before users' packets have their turn.
const TRAINS_A_LOOK: usize = 16;

/// A trunk that has its socket, its queues and its rules.
#[derive(Debug)]
pub struct Trunk {
    config: Config,
    /// Held as long as the rules of this name may be there.
    _claim: UnixListener,
    identity: Arc<Identity>,
    socket: UdpSocket,
    state: UdpSocketState,
    peers: Vec<Peer>,
    carrier: Carrier,
    numbers: Numbers,
    clock: Monotonic,
    orders: Arc<Orders>,
    status: Arc<Mutex<Status>>,
    initiations: Budget,
    strangers: u64,
    flooded: u64,
    looped: u64,
    reported: Option<Time>,
    /// A buffer for each train of a look: users' packets stay where they came in until they are passed on.
    buffers: Vec<Vec<u8>>,
    said: Vec<String>,
}

/// A handle on a trunk that runs, to stop it and to read its status.
#[derive(Clone, Debug)]
pub struct Handle {
    orders: Arc<Orders>,
    status: Arc<Mutex<Status>>,
}

#[derive(Debug)]
struct Orders {
    stop: OwnedFd,
}

/// A token bucket for initiations: [`INITIATIONS_A_SECOND`], and [`INITIATIONS_AT_ONCE`].
#[derive(Debug)]
struct Budget {
    left: u64,
    filled: Time,
}

/// Claims a trunk's name in this network namespace, for as long as what is returned lives: two trunks of one name would take
/// each other's rules for those of one that was killed. An abstract address belongs to the namespace, as the rules do, and
/// goes with its process (unix(7)).
fn claim(name: &str) -> Result<UnixListener, Error> {
    let address = UnixAddress::from_abstract_name(format!("headend-trunk-{name}"));
    let claimed = address.and_then(|address| UnixListener::bind_addr(&address));
    claimed.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let why =
                format!("a trunk called {name} runs already in this network namespace: give this one another `name`");
            Error::new("start a trunk", io::Error::new(io::ErrorKind::AddrInUse, why))
        }
        _ => Error::new(format!("claim the name {name}"), error),
    })
}

impl Trunk {
    /// Opens the socket and what brings users' packets in the calling thread's namespace, and then sets what leads them there.
    /// `config` has been [checked](Config::check).
    pub fn start(config: Config, identity: Identity) -> Result<Trunk, Error> {
        let missing = match config.carriage {
            Carriage::Probe => Vec::new(),
            carriage => privilege::missing_for_trunks(carriage == Carriage::Sealed),
        };
        if !missing.is_empty() {
            let why =
                io::Error::new(io::ErrorKind::PermissionDenied, format!("this process lacks {}", missing.join("; ")));
            return Err(Error::new("start a trunk", why));
        }
        let listen = config.listen;
        let socket = UdpSocket::bind(listen).during(|| format!("listen on {listen}"))?;
        let state = UdpSocketState::new((&socket).into()).during(|| format!("listen on {listen}"))?;
        enlarge(&socket);
        let mut carrier = Carrier::open(&config)?;
        let stop =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).during(|| "make an eventfd")?;
        let claim = claim(&config.name)?;
        // The last that can fail.
        let said = carrier.begin()?;
        let identity = Arc::new(identity);
        let classes: Vec<_> = config.classes.iter().map(|class| class.queue).collect();
        let habits = Habits {
            carriage: config.carriage,
            fallback: config.fallback,
            dead_after: config.dead_after,
            mtu: sealed::mtu(&config),
        };
        let peer = |(number, peer): (usize, &PeerConfig)| {
            let edge = Turns::new(&classes, config.schedule);
            Peer::new(peer.clone(), identity.clone(), number as u8, edge, habits)
        };
        let peers = config.peers.iter().enumerate().map(peer).collect();
        Ok(Trunk {
            identity,
            socket,
            state,
            peers,
            carrier,
            numbers: Numbers::default(),
            clock: Monotonic::new(),
            orders: Arc::new(Orders { stop }),
            status: Arc::default(),
            initiations: Budget { left: INITIATIONS_AT_ONCE, filled: Time::ZERO },
            strangers: 0,
            flooded: 0,
            looped: 0,
            reported: None,
            buffers: vec![vec![0; TRAIN_MAX]; TRAINS_A_LOOK],
            said,
            config,
            _claim: claim,
        })
    }

    /// Lines for the operator about the start.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// A handle on the trunk, for another thread.
    pub fn handle(&self) -> Handle {
        Handle { orders: self.orders.clone(), status: self.status.clone() }
    }

    /// Runs until it is told to stop, or until the system refuses what a trunk cannot be without; then takes away what it set.
    pub fn run(mut self) -> Result<(), Error> {
        let outcome = self.serve();
        let now = self.clock.now();
        let mut outbox = Outbox::default();
        self.peers.iter_mut().for_each(|peer| peer.part(now, &mut outbox));
        let removed = self.carrier.end(&mut self.peers, &self.config, &self.numbers, outcome.is_ok());
        self.send(&outbox);
        outcome.and(removed)
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut wake = Some(Time::ZERO);
        loop {
            if self.wait(wake)? {
                return Ok(());
            }
            let mut outbox = Outbox::default();
            self.hear(&mut outbox)?;
            self.carrier.take_in(&mut self.peers, &self.config, &self.numbers)?;
            let (now, clock_ns) = (self.clock.now(), wall_ns());
            let due = self.peers.iter_mut().fold(None, |due, peer| earlier(due, peer.poll(now, clock_ns, &mut outbox)));
            let may = self.carrier.release(&mut self.peers, now, &mut outbox)?;
            wake = earlier(due, may);
            self.send(&outbox);
            self.report(now);
        }
    }

    /// Waits for something to do; true if that is to stop.
    fn wait(&self, wake: Option<Time>) -> Result<bool, Error> {
        let mut polled = vec![PollFd::new(&self.orders.stop, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        polled.extend(self.carrier.fds().into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let now = self.clock.now();
        let report = self.reported.map_or(now, |at| at + REPORT);
        let span = wake.map_or(report, |wake| wake.min(report)).since(now).as_nanos();
        let timeout = Timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!polled[0].revents().is_empty()),
            Err(error) => Err(Error::new("wait for packets", error)),
        }
    }

    /// Reads datagrams of peers, and passes on users' packets that are in them.
    fn hear(&mut self, outbox: &mut Outbox) -> Result<(), Error> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut outcome = Ok(());
        for (number, buffer) in buffers.iter_mut().enumerate() {
            let mut meta = [RecvMeta::default()];
            let received = self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(buffer)], &mut meta);
            match received {
                Ok(_) => self.hear_train(&mut buffer[..], number, &meta[0], outbox),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What an ICMP message says of a datagram that was sent before (RFC 1122 s4.1.3.3) is nobody's word.
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    outcome = Err(Error::new("read datagrams of peers", error));
                    break;
                }
            }
        }
        self.carrier.deliver(&buffers);
        self.buffers = buffers;
        outcome
    }

    /// Takes datagrams that came together, in the buffer with this number.
    fn hear_train(&mut self, buffer: &mut [u8], number: usize, meta: &RecvMeta, outbox: &mut Outbox) {
        let now = self.clock.now();
        let way = Way { to: meta.addr, from: meta.dst_ip };
        let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
        let Some(train) = buffer.get_mut(..meta.len) else { return };
        let from = way.to.ip().to_canonical();
        // To an address in a peer's networks the trunk's own packets would go through the trunk.
        if self.config.peers.iter().flat_map(|peer| &peer.networks).any(|network| network.contains(&from)) {
            self.looped += 1;
            return;
        }
        let stride = meta.stride.max(1);
        for (at, datagram) in train.chunks_mut(stride).enumerate() {
            let Some((peer, arrival)) = self.take(now, datagram, way, outbox) else { continue };
            let (begin, end) = (SEALED_HEADER + arrival.bytes.start, SEALED_HEADER + arrival.bytes.end);
            let place = Place { buffer: number, bytes: at * stride + begin..at * stride + end };
            self.carrier.arrive(&self.peers[peer], &mut datagram[begin..end], place, arrival.is_open, ecn);
        }
    }

    /// Acts on a datagram. Returns a user's packet if that is what it is, with the number of the peer that sent it.
    fn take(&mut self, now: Time, bytes: &mut [u8], way: Way, outbox: &mut Outbox) -> Option<(usize, Arrival)> {
        let own = self.identity.public();
        match Datagram::read(bytes) {
            Some(Datagram::Initiation { sender, noise, proven, proof }) if own.is_proven(proven, proof) => {
                if !self.initiations.spend(now) {
                    self.flooded += 1;
                    return None;
                }
                let asked = handshake::read(&self.identity, noise);
                let found = asked.and_then(|asked| {
                    let peer = self.peers.iter_mut().find(|peer| peer.config.key == asked.0.from)?;
                    Some((asked, peer))
                });
                match found {
                    Some((asked, peer)) => peer.asked(now, asked, sender, way, outbox),
                    None => self.strangers += 1,
                }
            }
            Some(Datagram::Response { sender, receiver, noise, proven, proof }) if own.is_proven(proven, proof) => {
                match self.peers.get_mut(usize::from(receiver as u8)) {
                    Some(peer) => peer.answered(now, noise, receiver, sender, way, outbox),
                    None => self.strangers += 1,
                }
            }
            Some(Datagram::Sealed { receiver, counter, .. }) => {
                let number = usize::from(receiver as u8);
                let (header, sealed) = bytes.split_at_mut(SEALED_HEADER);
                match self.peers.get_mut(number) {
                    Some(peer) => {
                        let arrival = peer.sealed(now, (receiver, counter), (header, sealed), way, outbox);
                        return arrival.map(|arrival| (number, arrival));
                    }
                    None => self.strangers += 1,
                }
            }
            _ => self.strangers += 1,
        }
        None
    }

    /// Sends what is in the outbox. A datagram that the kernel does not take is lost, as one may be on its way.
    fn send(&self, outbox: &Outbox) {
        for train in &outbox.trains {
            // One, where the device or the kernel does not take several.
            let most = self.state.max_gso_segments().max(1) * train.datagram;
            for part in train.bytes.chunks(most) {
                let transmit = Transmit {
                    destination: train.way.to,
                    ecn: EcnCodepoint::from_bits(train.ecn),
                    contents: part,
                    segment_size: (part.len() > train.datagram).then_some(train.datagram),
                    src_ip: train.way.from,
                };
                let _ = self.state.try_send((&self.socket).into(), &transmit);
            }
        }
    }

    fn report(&mut self, now: Time) {
        if self.reported.is_some_and(|at| now.since(at) < REPORT) {
            return;
        }
        self.reported = Some(now);
        let (queue_errors, strays) = self.carrier.errors();
        let status = Status {
            up: now.since(Time::ZERO),
            strangers: self.strangers,
            flooded: self.flooded,
            looped: self.looped,
            queue_errors,
            strays,
            peers: self.peers.iter().map(|peer| PeerStatus::of(peer, &self.config.classes, now)).collect(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl Handle {
    /// Tells the trunk to stop.
    pub fn stop(&self) {
        // Full means that it has been told.
        let _ = rustix::io::write(&self.orders.stop, &1_u64.to_ne_bytes());
    }

    /// The status of a moment ago.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Budget {
    fn spend(&mut self, now: Time) -> bool {
        let each = Duration::from_nanos(1_000_000_000 / INITIATIONS_A_SECOND);
        let earned = now.since(self.filled).as_nanos() / each.as_nanos();
        if earned > 0 {
            self.left = (self.left + earned).min(INITIATIONS_AT_ONCE);
            self.filled = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// Gives a socket large buffers, beyond what the machine allows others where this process may do so. Less serves as well, only not
/// so well when the machine is busy.
fn enlarge(socket: &UdpSocket) {
    let bytes = SOCKET_BUFFER as libc::c_int;
    for option in [libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE] {
        let len = size_of_val(&bytes) as libc::socklen_t;
        // SAFETY: the number lives until the call returns, and is as long as said.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const bytes).cast(), len) };
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

/// The clock on the wall. It may jump: it only orders this end's hand-shakes.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
