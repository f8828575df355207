//! A trunk's loop: one thread that waits for users' packets, for datagrams of peers and for the next deadline.

use std::io::{self, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use headend_datagram::{Identity, Outbox, PublicKey, Way};
use headend_engine::circuit::turns::Turns;
use headend_engine::time::{Duration, Time, earlier};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::time::Timespec;

use super::carrier::{Carrier, Ending};
use super::claim::claim;
use super::classify::Numbers;
use super::config::{Carriage, Config, PEERS_MAX, PeerConfig};
use super::gate::{Gate, Verdict};
use super::handshake;
use super::marked;
use super::peer::{Arrival, Habits, Peer};
use super::reload::{NotTaken, Order};
use super::runs::Place;
use super::sealed;
use super::status::{PeerStatus, Status};
use super::tunnels;
use super::wire::{self, COOKIE_REPLY, Datagram, SEALED_HEADER};
use crate::clock::Monotonic;
use crate::error::{During, Error};
use crate::privilege;

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
    pub(super) config: Config,
    /// Held as long as the rules of this name may be there.
    _claim: UnixListener,
    pub(super) identity: Arc<Identity>,
    socket: UdpSocket,
    state: UdpSocketState,
    pub(super) peers: Vec<Peer>,
    /// The place of each peer in `peers`, by the number of its that sessions have.
    pub(super) places: Places,
    pub(super) carrier: Carrier,
    pub(super) numbers: Numbers,
    pub(super) clock: Monotonic,
    orders: Arc<Orders>,
    status: Arc<Mutex<Status>>,
    gate: Gate,
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

/// What a trunk is told from outside, and the eventfd that has it look.
#[derive(Debug)]
struct Orders {
    wake: OwnedFd,
    stop: AtomicBool,
    /// Configurations to take over; none once nobody does so any more.
    reloads: Mutex<Option<Vec<Order>>>,
}

/// The place of each peer by its number; of numbers that no peer has one where none is.
pub(super) type Places = Box<[u16; PEERS_MAX]>;

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
        let own = identity.public();
        // Control packets come out of the tunnel, whose addresses are of IPv6.
        let listen = match config.carriage {
            Carriage::Tunnelled => SocketAddr::from((Ipv6Addr::UNSPECIFIED, config.listen.port())),
            _ => config.listen,
        };
        let socket = UdpSocket::bind(listen).during(|| format!("listen on {listen}"))?;
        let state = UdpSocketState::new((&socket).into()).during(|| format!("listen on {listen}"))?;
        enlarge(&socket);
        let mut carrier = Carrier::open(&config, &own)?;
        let wake =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).during(|| "make an eventfd")?;
        let claim = claim(&config.name)?;
        // The last that can fail.
        let said = carrier.begin()?;
        let identity = Arc::new(identity);
        let peer = |(number, peer): (usize, &PeerConfig)| new_peer(&config, &identity, peer.clone(), number as u8);
        let peers: Vec<Peer> = config.peers.iter().enumerate().map(peer).collect();
        Ok(Trunk {
            identity,
            socket,
            state,
            places: places(&peers),
            peers,
            carrier,
            numbers: Numbers::default(),
            clock: Monotonic::new(),
            orders: Arc::new(Orders { wake, stop: AtomicBool::new(false), reloads: Mutex::new(Some(Vec::new())) }),
            status: Arc::default(),
            gate: Gate::new(Time::ZERO),
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
        // Whoever waits for an answer hears that there is none.
        self.orders.reloads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let now = self.clock.now();
        let mut outbox = Outbox::default();
        self.peers.iter_mut().for_each(|peer| peer.part(now, &mut outbox));
        let ending = if outcome.is_ok() { Ending::Orderly } else { Ending::Failed };
        let removed = self.carrier.end(&mut self.peers, &self.config, &self.numbers, ending);
        self.send(&outbox);
        outcome.and(removed)
    }

    /// Leaves the machine as it was before [`start`](Trunk::start), instead of running.
    pub fn abandon(mut self) -> Result<(), Error> {
        self.carrier.end(&mut self.peers, &self.config, &self.numbers, Ending::Abandoned)
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut wake = Some(Time::ZERO);
        loop {
            if self.wait(wake)? && self.obey() {
                return Ok(());
            }
            let mut outbox = Outbox::default();
            self.hear(&mut outbox)?;
            self.carrier.take_in(&mut self.peers, &self.config, &self.numbers)?;
            let (now, clock_ns) = (self.clock.now(), wall_ns());
            self.carrier.follow(&mut self.peers);
            let due = self.peers.iter_mut().fold(None, |due, peer| earlier(due, peer.poll(now, clock_ns, &mut outbox)));
            (0..self.peers.len()).for_each(|peer| self.pass_released(peer));
            self.carrier.deliver(&self.buffers);
            let may = self.carrier.release(&mut self.peers, now, &mut outbox)?;
            wake = earlier(due, may);
            self.send(&outbox);
            self.report(now);
        }
    }

    /// Does what it was told; true if that is to stop.
    fn obey(&mut self) -> bool {
        // It only wakes.
        let _ = rustix::io::read(&self.orders.wake, &mut [0; 8]);
        if self.orders.stop.load(Ordering::Acquire) {
            return true;
        }
        let orders = self.orders.clone();
        let taken = orders.reloads.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take);
        for Order { config, own, answer } in taken.into_iter().flatten() {
            // Whether it is still waited for is its own affair.
            let _ = answer.send(self.take_over(config, &own));
        }
        false
    }

    /// A peer that is not known yet.
    pub(super) fn fresh(&self, peer: PeerConfig, number: u8) -> Peer {
        new_peer(&self.config, &self.identity, peer, number)
    }

    /// Waits for something to do; true if that is an order.
    fn wait(&self, wake: Option<Time>) -> Result<bool, Error> {
        let mut polled = vec![PollFd::new(&self.orders.wake, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
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
            let packet = &mut datagram[begin..end];
            if self.peers[peer].order(now, &arrival, packet, ecn) {
                self.carrier.arrive(&self.peers[peer], packet, place, arrival.is_open, ecn);
            }
            self.pass_released(peer);
        }
    }

    /// Passes on packets of the peer at this place that have waited for earlier ones of their flow.
    fn pass_released(&mut self, peer: usize) {
        while let Some(held) = self.peers[peer].released() {
            self.carrier.arrive_late(&self.peers[peer], held);
        }
    }

    /// Acts on a datagram. Returns a user's packet if that is what it is, with the number of the peer that sent it.
    fn take(&mut self, now: Time, bytes: &mut [u8], way: Way, outbox: &mut Outbox) -> Option<(usize, Arrival)> {
        let own = self.identity.public();
        match Datagram::read(bytes) {
            Some(Datagram::Initiation { sender, noise, proven, proof, tagged, tag })
                if own.is_proven(proven, proof) =>
            {
                match self.gate.judge(now, way.to, tagged, tag) {
                    Verdict::Read => {}
                    verdict => {
                        self.flooded += 1;
                        if verdict == Verdict::GiveCookie {
                            outbox.push(way, 0, COOKIE_REPLY, |out| {
                                out.extend_from_slice(&wire::cookie_header(sender));
                                self.gate.give_cookie(&own, way.to, proof, out);
                            });
                        }
                        return None;
                    }
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
                match self.peers.get_mut(usize::from(self.places[usize::from(receiver as u8)])) {
                    Some(peer) => peer.answered(now, noise, receiver, sender, way, outbox),
                    None => self.strangers += 1,
                }
            }
            Some(Datagram::Cookie { receiver, cookie }) => {
                match self.peers.get_mut(usize::from(self.places[usize::from(receiver as u8)])) {
                    Some(peer) => peer.given_cookie(now, receiver, cookie),
                    None => self.strangers += 1,
                }
            }
            Some(Datagram::Sealed { receiver, counter, .. }) => {
                let place = usize::from(self.places[usize::from(receiver as u8)]);
                let (header, sealed) = bytes.split_at_mut(SEALED_HEADER);
                match self.peers.get_mut(place) {
                    Some(peer) => {
                        let arrival = peer.sealed(now, (receiver, counter), (header, sealed), way, outbox);
                        return arrival.map(|arrival| (place, arrival));
                    }
                    None => self.strangers += 1,
                }
            }
            _ => self.strangers += 1,
        }
        None
    }

    /// Sends what is in the outbox. A datagram that the kernel does not take is lost, as one may be on its way.
    pub(super) fn send(&self, outbox: &Outbox) {
        for train in &outbox.trains {
            // One, where the device or the kernel does not take several.
            let most = self.state.max_gso_segments().max(1) * train.datagram;
            for part in train.bytes.chunks(most) {
                if train.tos >> 2 != 0 {
                    let _ = marked::send(&self.socket, train, part);
                    continue;
                }
                let transmit = Transmit {
                    destination: train.way.to,
                    ecn: EcnCodepoint::from_bits(train.tos),
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
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the trunk take over a configuration, of the site with the public key `own`, while it runs: all of it, or nothing.
    /// `config` has been [checked](Config::check). Returns lines for the operator.
    pub fn reload(&self, config: Config, own: PublicKey) -> Result<Vec<String>, NotTaken> {
        let (answer, answered) = mpsc::channel();
        match self.orders.reloads.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(reloads) => reloads.push(Order { config, own, answer }),
            None => return Err(NotTaken::Ended),
        }
        self.wake();
        answered.recv().unwrap_or(Err(NotTaken::Ended))
    }

    fn wake(&self) {
        // Full means that it will look anyway.
        let _ = rustix::io::write(&self.orders.wake, &1_u64.to_ne_bytes());
    }

    /// The status of a moment ago.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What all peers of a trunk with this configuration have in common.
pub(super) fn habits(config: &Config) -> Habits {
    Habits {
        carriage: config.carriage,
        fallback: config.fallback,
        dead_after: config.dead_after,
        mtu: sealed::mtu(config),
    }
}

fn new_peer(config: &Config, identity: &Arc<Identity>, peer: PeerConfig, number: u8) -> Peer {
    let classes: Vec<_> = config.classes.iter().map(|class| class.queue).collect();
    let edge = Turns::new(&classes, config.schedule);
    let inside = tunnels::inside(config, &identity.public(), &peer);
    let mut peer = Peer::new(peer, identity.clone(), number, edge, habits(config));
    peer.inside = inside.map(|to| Way { to, from: None });
    peer.way = peer.inside.or(peer.way);
    peer
}

/// The place of each of these peers, by its number.
pub(super) fn places(peers: &[Peer]) -> Places {
    let mut places = Box::new([u16::MAX; PEERS_MAX]);
    for (place, peer) in peers.iter().enumerate() {
        places[usize::from(peer.number)] = place as u16;
    }
    places
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
