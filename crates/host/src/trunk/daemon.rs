//! A trunk's loop: one thread that waits for users' packets, for datagrams of peers and for the next deadline.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use headend_engine::circuit::turns::{Turns, Waiting};
use headend_engine::time::{Duration, Time, earlier};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::time::Timespec;

use super::classify::{self, Numbers};
use super::config::{Config, Fallback};
use super::handshake::Asked;
use super::keys::Identity;
use super::outbox::{Outbox, Way};
use super::peer::Peer;
use super::rules::Rules;
use super::status::{PeerStatus, Status};
use super::wire::Datagram;
use crate::clock::Monotonic;
use crate::error::{During, Error};
use crate::nfqueue::Queue;
use crate::privilege;

/// Initiations that are looked at in a second, and at once: each costs some hundred microseconds.
const INITIATIONS_A_SECOND: u64 = 100;
const INITIATIONS_AT_ONCE: u64 = 20;
/// The least time between two updates of the status that others may ask for.
const REPORT: Duration = Duration::from_millis(200);
/// Room for datagrams that come while this thread does not run.
const SOCKET_BUFFER: usize = 4 << 20;
/// Bytes that one read of the socket takes: a train is at most this long.
const TRAIN_MAX: usize = 65_536;
/// Trains that are read before users' packets have their turn.
const TRAINS_A_LOOK: usize = 32;
/// Reads of one queue in a row before others have their turn.
const BATCHES_A_LOOK: usize = 8;

/// A trunk that has its socket, its queues and its rules.
#[derive(Debug)]
pub struct Trunk {
    config: Config,
    /// Held as long as the rules of this name may be there.
    _claim: UnixListener,
    identity: Arc<Identity>,
    socket: UdpSocket,
    state: UdpSocketState,
    queues: Vec<Queue>,
    peers: Vec<Peer>,
    rules: Rules,
    numbers: Numbers,
    clock: Monotonic,
    orders: Arc<Orders>,
    status: Arc<Mutex<Status>>,
    initiations: Budget,
    strangers: u64,
    flooded: u64,
    reported: Option<Time>,
    buffer: Vec<u8>,
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
    /// The rules that a trunk sets.
    pub fn rules(config: &Config) -> Rules {
        let queue = |number: usize| config.queue + number as u16;
        let of_peer = |(number, peer): (usize, &super::config::PeerConfig)| {
            peer.networks.iter().map(move |network| (*network, queue(number))).collect::<Vec<_>>()
        };
        Rules {
            name: config.name.clone(),
            queues: config.peers.iter().enumerate().flat_map(of_peer).collect(),
            bypass: config.fallback == Fallback::Direct,
        }
    }

    /// Opens the socket and the queues in the calling thread's namespace, and then sets the rules. `config` has been
    /// [checked](Config::check).
    pub fn start(config: Config, identity: Identity) -> Result<Trunk, Error> {
        let missing = privilege::missing_for_trunks();
        if !missing.is_empty() {
            let why =
                io::Error::new(io::ErrorKind::PermissionDenied, format!("this process lacks {}", missing.join("; ")));
            return Err(Error::new("start a trunk", why));
        }
        let listen = config.listen;
        let socket = UdpSocket::bind(listen).during(|| format!("listen on {listen}"))?;
        let state = UdpSocketState::new((&socket).into()).during(|| format!("listen on {listen}"))?;
        // Less than that serves as well, only not so well when the machine is busy.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let fails_open = config.fallback == Fallback::Direct;
        let queues: Result<Vec<Queue>, Error> = (0..config.peers.len())
            .map(|number| Queue::open(config.queue + number as u16, classify::COPIED, fails_open))
            .collect();
        let queues = queues?;
        let stop =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).during(|| "make an eventfd")?;
        let rules = Trunk::rules(&config);
        let claim = claim(&config.name)?;
        // The last that can fail.
        let said = rules.set()?;
        let identity = Arc::new(identity);
        let classes: Vec<_> = config.classes.iter().map(|class| class.queue).collect();
        let peer = |(number, peer): (usize, &super::config::PeerConfig)| {
            let edge = Turns::new(&classes, config.schedule);
            Peer::new(peer.clone(), identity.clone(), number as u8, edge, (config.fallback, config.dead_after))
        };
        let peers = config.peers.iter().enumerate().map(peer).collect();
        Ok(Trunk {
            identity,
            socket,
            state,
            queues,
            peers,
            rules,
            numbers: Numbers::default(),
            clock: Monotonic::new(),
            orders: Arc::new(Orders { stop }),
            status: Arc::default(),
            initiations: Budget { left: INITIATIONS_AT_ONCE, filled: Time::ZERO },
            strangers: 0,
            flooded: 0,
            reported: None,
            buffer: vec![0; TRAIN_MAX],
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
        // First the rules, so that nothing comes any more to queues that nobody reads.
        let removed = self.rules.remove();
        let now = self.clock.now();
        let mut outbox = Outbox::default();
        for (peer, queue) in self.peers.iter_mut().zip(&mut self.queues) {
            peer.part(now, &mut outbox);
            // What waits leaves: nothing that was taken in is lost by an orderly end.
            let _ = take_in(peer, queue, &self.config, &self.numbers);
            while let Some((_, packet)) = peer.edge.pop() {
                queue.accept(packet.id as u32);
            }
            let _ = queue.flush();
        }
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
            for (peer, queue) in self.peers.iter_mut().zip(&mut self.queues) {
                take_in(peer, queue, &self.config, &self.numbers).during(|| "read netfilter's queue")?;
            }
            let (now, clock_ns) = (self.clock.now(), wall_ns());
            wake = None;
            let mut leaving: Vec<Waiting> = Vec::new();
            for (peer, queue) in self.peers.iter_mut().zip(&mut self.queues) {
                let due = peer.poll(now, clock_ns, &mut outbox);
                let may = peer.release(now, &mut leaving, &mut outbox);
                wake = earlier(wake, earlier(due, may));
                leaving.drain(..).for_each(|packet| queue.accept(packet.id as u32));
                // They leave while this is called, and so before the headers that follow them.
                queue.flush().during(|| "let packets go")?;
                queue.keep_whole(peer.keeps_whole()).during(|| "configure netfilter's queue")?;
            }
            self.send(&outbox);
            self.report(now);
        }
    }

    /// Waits for something to do; true if that is to stop.
    fn wait(&self, wake: Option<Time>) -> Result<bool, Error> {
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(2 + self.queues.len());
        polled.push(PollFd::new(&self.orders.stop, PollFlags::IN));
        polled.push(PollFd::new(&self.socket, PollFlags::IN));
        polled.extend(self.queues.iter().map(|queue| PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN)));
        let now = self.clock.now();
        let report = self.reported.map_or(now, |at| at + REPORT);
        let span = wake.map_or(report, |wake| wake.min(report)).since(now).as_nanos();
        let timeout = Timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 };
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!polled[0].revents().is_empty()),
            Err(error) => Err(Error::new("wait for packets", error)),
        }
    }

    /// Reads datagrams of peers.
    fn hear(&mut self, outbox: &mut Outbox) -> Result<(), Error> {
        for _ in 0..TRAINS_A_LOOK {
            let mut buffer = std::mem::take(&mut self.buffer);
            let mut meta = [RecvMeta::default()];
            let received = self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta);
            let now = self.clock.now();
            let outcome = match received {
                Ok(_) => {
                    let [meta] = meta;
                    let way = Way { to: meta.addr, from: meta.dst_ip };
                    let train = buffer.get(..meta.len).unwrap_or_default();
                    train.chunks(meta.stride.max(1)).for_each(|datagram| self.take(now, datagram, way, outbox));
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                // What an ICMP message says of a datagram that was sent before (RFC 1122 s4.1.3.3) is nobody's word.
                Err(error) if is_passing(&error) => Ok(true),
                Err(error) => Err(Error::new("read datagrams of peers", error)),
            };
            self.buffer = buffer;
            if !outcome? {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Time, bytes: &[u8], way: Way, outbox: &mut Outbox) {
        let own = self.identity.public();
        match Datagram::read(bytes) {
            Some(Datagram::Initiation { sender, noise, proven, proof }) if own.is_proven(proven, proof) => {
                if !self.initiations.spend(now) {
                    self.flooded += 1;
                    return;
                }
                let asked = Asked::read(&self.identity, noise);
                let found = asked.and_then(|asked| {
                    let peer = self.peers.iter_mut().find(|peer| peer.config.key == asked.from)?;
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
            Some(Datagram::Sealed { receiver, counter, header, sealed }) => {
                match self.peers.get_mut(usize::from(receiver as u8)) {
                    Some(peer) => peer.sealed(now, (receiver, counter), (header, sealed), way, outbox),
                    None => self.strangers += 1,
                }
            }
            _ => self.strangers += 1,
        }
    }

    /// Sends what is in the outbox. A datagram that the kernel does not take is lost, as one may be on its way.
    fn send(&self, outbox: &Outbox) {
        for train in &outbox.trains {
            let transmit = Transmit {
                destination: train.way.to,
                ecn: None,
                contents: &train.bytes,
                segment_size: Some(train.datagram),
                src_ip: train.way.from,
            };
            let _ = self.state.try_send((&self.socket).into(), &transmit);
        }
    }

    fn report(&mut self, now: Time) {
        if self.reported.is_some_and(|at| now.since(at) < REPORT) {
            return;
        }
        self.reported = Some(now);
        let status = Status {
            up: now.since(Time::ZERO),
            strangers: self.strangers,
            flooded: self.flooded,
            queue_errors: self.queues.iter().map(|queue| queue.errors).sum(),
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

/// Puts what the kernel holds for a peer into its classes. What has no room is dropped.
fn take_in(peer: &mut Peer, queue: &mut Queue, config: &Config, numbers: &Numbers) -> io::Result<()> {
    let mut dropped = Vec::new();
    for _ in 0..BATCHES_A_LOOK {
        let edge = &mut peer.edge;
        let more = queue.receive(|held| {
            let read = classify::read(held.head);
            let takes = |class: &super::config::EdgeClass| {
                read.as_ref().is_some_and(|(facts, dscp)| class.matches.takes(facts, *dscp))
            };
            let class = config.classes.iter().position(takes).unwrap_or(config.classes.len() - 1);
            let flow = read.as_ref().map_or(0, |(facts, _)| numbers.of(facts));
            let mut victim = edge.push(class, Waiting { id: u64::from(held.id), flow, len: held.len });
            while let Some(packet) = victim {
                dropped.push(packet.id as u32);
                victim = edge.overflow(class);
            }
        })?;
        dropped.drain(..).try_for_each(|id| queue.drop(id))?;
        if !more {
            break;
        }
    }
    Ok(())
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
