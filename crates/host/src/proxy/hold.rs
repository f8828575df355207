//! First segments (SYNs) that are held until the server has answered.
//!
//! A transparent proxy that accepts before it has reached the server tells the client that a dead address lives: a client
//! with other addresses to try (RFC 8305, Happy Eyeballs) then never tries them. So the kernel hands the SYNs of those
//! connections that are to be diverted to a thread here (NFQUEUE), which connects to the server first. If that succeeds the
//! SYN goes on to the proxy's listener, and the connection waits here for the worker that accepts the client's. If it fails
//! the SYN goes on with a mark by which the rules ([`super::rules`]) answer as the server, or a router, did. If nothing
//! comes, nothing goes: the client waits as it would without a proxy.
//!
//! SYNs to servers that answered within the last minute are not held: the kernel keeps a set of these. It is what bounds
//! what spoofed SYNs do to a server: the first is followed by a connection, the others are answered by our kernel alone.
//!
//! Beyond the limits, and where no descriptor is left, SYNs go on at once.

mod kernel;
mod syn;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::Shared;
use super::access;
use super::config::{Answer, Way};
use super::listen;
use super::rules::{QUEUE, Verdict};
use crate::error::{During, Error};
use crate::nfqueue::Queue;
use kernel::Sets;
use syn::{COPIED, Ends};

/// SYNs held at a time, of all clients and of one. Each takes a descriptor.
const HELD_MAX: usize = 4_096;
const HELD_PER_CLIENT_MAX: usize = 256;
/// A client whose SYN has not come again for so long has given up; Linux sends the first five a second apart
/// (`tcp_syn_linear_timeouts`), others double the pause each time.
const GIVEN_UP: Duration = Duration::from_millis(2_200);
const SOON: u32 = 5;
/// A server's connection that waits longer for its client's has none: that SYN was a spoofed one.
const UNCLAIMED: Duration = Duration::from_secs(5);
/// The pause between two looks at what is over.
const TICK: Duration = Duration::from_millis(100);
/// After a longer pause clients have gone past the proxy, and SYNs from before it would break their connections.
const PAUSE_MAX: Duration = Duration::from_millis(700);
/// The time between two words to the kernel that the proxy serves; each is good for [`super::rules::SERVING_TIME`].
const SAY_EVERY: Duration = Duration::from_millis(200);
/// Before the queue is tried again that another process has, and before that is said: one whose place this one takes gives it
/// up soon.
const TRY_EVERY: Duration = Duration::from_millis(500);
const TRIES: u32 = 6;

/// Servers' connections that wait for their clients', and the way to the thread that holds SYNs.
#[derive(Debug)]
pub(crate) struct Holds {
    ready: Mutex<HashMap<Ends, Ready>>,
    silent: UnboundedSender<SocketAddr>,
    received: Mutex<Option<UnboundedReceiver<SocketAddr>>>,
    has_started: AtomicBool,
    is_over: AtomicBool,
    begin: Instant,
    /// Milliseconds from `begin` to the last sign of life of the thread.
    alive_ms: AtomicU64,
}

#[derive(Debug)]
struct Ready {
    server: TcpStream,
    since: Instant,
}

/// A SYN that is held: the newest of its connection, so that the client's first round trip is measured right.
struct HeldSyn {
    id: u32,
    count: u32,
    last: Instant,
    /// The client that it counts for, as clients were told apart when it came.
    client: IpAddr,
    connecting: AbortHandle,
}

/// What the thread knows.
struct Keeper {
    shared: Weak<Shared>,
    holds: Arc<Holds>,
    held: HashMap<Ends, HeldSyn>,
    clients: HashMap<IpAddr, usize>,
    connected: UnboundedSender<(Ends, io::Result<TcpStream>)>,
}

impl Holds {
    pub(crate) fn new() -> Arc<Holds> {
        let (silent, received) = unbounded_channel();
        Arc::new(Holds {
            ready: Mutex::default(),
            silent,
            received: Mutex::new(Some(received)),
            has_started: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            begin: Instant::now(),
            alive_ms: AtomicU64::new(0),
        })
    }

    /// The connection to the server that was made for this client's.
    pub(crate) fn take(&self, client: SocketAddr, server: SocketAddr) -> Option<TcpStream> {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let ends = Ends { client: plain(client), server: plain(server) };
        self.ready().remove(&ends).map(|ready| ready.server)
    }

    /// A server that was known to be alive does not answer: the next SYN to it is held.
    pub(crate) fn is_silent(&self, server: SocketAddr) {
        let _ = self.silent.send(server);
    }

    /// Holds nothing any more, and tells the kernel nothing.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, HashMap<Ends, Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) {
        self.alive_ms.store(self.begin.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn lives(&self) -> bool {
        let last = Duration::from_millis(self.alive_ms.load(Ordering::Relaxed));
        !self.is_over.load(Ordering::Relaxed) && self.begin.elapsed().saturating_sub(last) < PAUSE_MAX
    }
}

/// Starts the threads that hold SYNs and tell the kernel so, once. They keep the capabilities that the calling thread has.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), Error> {
    let holds = shared.holds.clone();
    if holds.has_started.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let mut sets = Sets::open().during(|| "tell the kernel that the proxy serves")?;
    holds.live();
    // Once before anybody is told that the proxy listens.
    if let Err(error) = sets.say_serving() {
        shared.say(&format!(
            "the kernel cannot be told that the proxy serves ({error}): rules that were applied with --answer held divert \
             nothing; with CAP_NET_ADMIN it can, or apply them with --answer at-once"
        ));
        return Ok(());
    }
    let watched = (Arc::downgrade(shared), holds.clone());
    let tell = move || {
        let (shared, holds) = watched;
        while shared.strong_count() > 0 && !holds.is_over.load(Ordering::Relaxed) {
            if holds.lives() {
                // The next one follows soon, if this was refused.
                let _ = sets.say_serving();
            }
            thread::sleep(SAY_EVERY);
        }
    };
    let keeper = Arc::downgrade(shared);
    let keep = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        match runtime {
            Ok(runtime) => runtime.block_on(keep(keeper, &holds)),
            Err(error) => {
                if let Some(shared) = keeper.upgrade() {
                    shared.say(&not_held(&error));
                }
            }
        }
    };
    thread::Builder::new().name("proxy-hold".to_owned()).spawn(keep).during(|| "start to hold SYNs")?;
    thread::Builder::new().name("proxy-serving".to_owned()).spawn(tell).during(|| "start to tell the kernel")?;
    Ok(())
}

/// The queue, and what becomes ready when something is in it: a descriptor of the same socket.
fn open() -> Result<(Queue, AsyncFd<OwnedFd>), Error> {
    let queue = Queue::open(QUEUE, COPIED, true)?;
    let what = || "wait for SYNs";
    let socket = queue.as_fd().try_clone_to_owned().during(what)?;
    // SAFETY: the descriptor is the runtime's own copy, which stays open and the same as long as it is registered.
    let socket = unsafe { AsyncFd::register(socket) }.during(what)?;
    Ok((queue, socket))
}

fn not_held(error: &dyn std::fmt::Display) -> String {
    format!("clients are answered before their server has (answer = \"at once\"), because SYNs cannot be held: {error}")
}

async fn keep(shared: Weak<Shared>, holds: &Arc<Holds>) {
    let Some(mut silent) = holds.received.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let (connected, mut finished) = unbounded_channel();
    let mut keeper = Keeper {
        shared: shared.clone(),
        holds: holds.clone(),
        held: HashMap::new(),
        clients: HashMap::new(),
        connected,
    };
    let mut sets = Sets::open().ok();
    let mut queue = None;
    let mut next_try = Instant::now();
    let mut tries = 0;
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = Instant::now();
    while !holds.is_over.load(Ordering::Relaxed) {
        let Some(strong) = shared.upgrade() else { return };
        if queue.is_none() && keeper.is_wanted(&strong) && Instant::now() >= next_try {
            match open() {
                Ok(taken) => {
                    queue = Some(taken);
                    if tries >= TRIES {
                        strong.say("SYNs are held from now on: clients are answered once their server has");
                    }
                }
                Err(error) => {
                    tries += 1;
                    if tries == TRIES || (tries == 1 && error.kind() != io::ErrorKind::Other) {
                        strong.say(&not_held(&error));
                    }
                    next_try = Instant::now() + TRY_EVERY;
                }
            }
        }
        drop(strong);
        let readable = async {
            match &queue {
                Some((_, socket)) => socket.readable().await.map(|mut guard| guard.clear_ready()).is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = readable => {}
            _ = clock.tick() => keeper.give_up(queue.as_mut().map(|(queue, _)| queue)),
            Some((ends, outcome)) = finished.recv() => {
                let Some(queue) = queue.as_mut().map(|(queue, _)| queue) else { continue };
                keeper.settle(queue, ends, outcome);
                while let Ok((ends, outcome)) = finished.try_recv() {
                    keeper.settle(queue, ends, outcome);
                }
            }
            Some(server) = silent.recv() => {
                if let Some(sets) = &mut sets {
                    // It may well have been forgotten already.
                    let _ = sets.forget(server);
                }
            }
        }
        let is_late = last.elapsed() > PAUSE_MAX;
        if let Some(queue) = queue.as_mut().map(|(queue, _)| queue) {
            if is_late {
                keeper.forget_all(queue);
            }
            keeper.read(queue, is_late);
        }
        last = Instant::now();
        holds.live();
    }
    holds.ready().clear();
}

impl Keeper {
    /// True if a transparent way in is to hold SYNs.
    fn is_wanted(&self, shared: &Shared) -> bool {
        shared.rules().listeners.values().any(|one| one.way == Way::Transparent && one.answer == Answer::Held)
    }

    /// Takes the SYNs that have come. Stale ones are dropped: their clients have sent others since.
    fn read(&mut self, queue: &mut Queue, are_stale: bool) {
        let mut come = Vec::new();
        loop {
            let more = queue.receive(|held| come.push((held.id, Ends::read(held.head))));
            for (id, ends) in come.drain(..) {
                match ends {
                    _ if are_stale => drop(queue.drop(id)),
                    Some(ends) => self.hold(queue, id, ends),
                    None => let_go(queue, id, Verdict::Divert),
                }
            }
            if !more.unwrap_or(false) {
                return;
            }
        }
    }

    fn hold(&mut self, queue: &mut Queue, id: u32, ends: Ends) {
        if let Some(held) = self.held.get_mut(&ends) {
            let older = std::mem::replace(&mut held.id, id);
            held.count += 1;
            held.last = Instant::now();
            let _ = queue.drop(older);
            return;
        }
        let is_ready = self.holds.ready().contains_key(&ends);
        let found = match self.shared.upgrade().filter(|_| !is_ready) {
            Some(shared) => self.socket_for(&shared, ends),
            None => None,
        };
        let Some((client, socket)) = found else { return let_go(queue, id, Verdict::Divert) };
        let connected = self.connected.clone();
        let connecting = tokio::spawn(async move {
            let outcome = async { TcpSocket::from_std_stream(socket).connect(ends.server).await?.into_std() }.await;
            // Nobody hears it when the thread ends.
            let _ = connected.send((ends, outcome));
        });
        *self.clients.entry(client).or_default() += 1;
        let held = HeldSyn { id, count: 1, last: Instant::now(), client, connecting: connecting.abort_handle() };
        self.held.insert(ends, held);
    }

    /// The client for whom this SYN counts, and the socket for the connection to the server, if it is to be held.
    fn socket_for(&self, shared: &Shared, ends: Ends) -> Option<(IpAddr, TcpStream)> {
        let rules = shared.rules();
        let client = access::subscriber(ends.client.ip(), rules.config.limits.client_prefix);
        let mine = self.clients.get(&client).copied().unwrap_or_default();
        if self.held.len() >= HELD_MAX || mine >= HELD_PER_CLIENT_MAX {
            return None;
        }
        let is_its = |one: &&Arc<super::config::Listener>| {
            one.way == Way::Transparent && one.address.is_ipv4() == ends.client.is_ipv4()
        };
        let listener = rules.listeners.values().find(is_its)?;
        // Whoever is to be refused is, once it is accepted.
        let is_served = listener.answer == Answer::Held
            && listener.admits(ends.client.ip())
            && shared.check(&rules.config, &ends.server.ip().into(), ends.server, false).is_ok();
        let source = listener.keep_client_address.then_some(ends.client);
        if !is_served {
            return None;
        }
        Some((client, listen::towards(ends.server, &rules.config.remote, source).ok()?.into()))
    }

    /// Lets a SYN go, when its server has answered or cannot be reached.
    fn settle(&mut self, queue: &mut Queue, ends: Ends, outcome: io::Result<TcpStream>) {
        let Some(held) = self.remove(&ends) else { return };
        match outcome {
            Ok(server) => {
                // Before the SYN goes: its client may be accepted before this thread goes on.
                self.holds.ready().insert(ends, Ready { server, since: Instant::now() });
                let_go(queue, held.id, Verdict::Divert);
            }
            Err(error) => match Verdict::of(&error) {
                Some(verdict) => let_go(queue, held.id, verdict),
                None => drop(queue.drop(held.id)),
            },
        }
    }

    /// Drops the SYNs of clients that have given up, and connections that no client has come for.
    fn give_up(&mut self, queue: Option<&mut Queue>) {
        self.holds.ready().retain(|_, ready| ready.since.elapsed() < UNCLAIMED);
        let has_given_up = |held: &HeldSyn| {
            let patience = match held.count {
                0..=SOON => GIVEN_UP,
                more => GIVEN_UP * 2 * (1 << (more - SOON).min(4)),
            };
            held.last.elapsed() > patience
        };
        let over: Vec<Ends> = self.held.iter().filter(|(_, held)| has_given_up(held)).map(|(ends, _)| *ends).collect();
        let Some(queue) = queue else { return };
        for ends in over {
            if let Some(held) = self.remove(&ends) {
                let _ = queue.drop(held.id);
            }
        }
    }

    fn forget_all(&mut self, queue: &mut Queue) {
        let all: Vec<Ends> = self.held.keys().copied().collect();
        for ends in all {
            if let Some(held) = self.remove(&ends) {
                let _ = queue.drop(held.id);
            }
        }
        self.holds.ready().clear();
    }

    fn remove(&mut self, ends: &Ends) -> Option<HeldSyn> {
        let held = self.held.remove(ends)?;
        // The task that has ended is not disturbed by it; another one's socket is closed.
        held.connecting.abort();
        if let Some(count) = self.clients.get_mut(&held.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&held.client);
            }
        }
        Some(held)
    }
}

/// Lets a packet go on. One that the kernel does not have any more needs nothing.
fn let_go(queue: &mut Queue, id: u32, verdict: Verdict) {
    let _ = queue.accept_marked(id, verdict.mark());
}
