//! The split-connection proxy on Linux sockets: ends the connections of clients, connects on to servers, and relays.
//!
//! | where | what |
//! |---|---|
//! | `config` `access` `users` | what it is told to be; who may use it and where to; who is who |
//! | `inbound/` | what clients say, read without sockets: HTTP, SOCKS 5, the PROXY protocol |
//! | `side` `listen` | the TCP of a side; sockets that are like that |
//! | `worker` | threads with a runtime each; all accept from the same sockets |
//! | `session` | one connection from being accepted to its end: `handshake`, `connect` (with `lookups`), `wire` |
//! | `fetch` | requests for whole URLs, one after the other, and connections to servers kept for the next |
//! | `wire` | two sockets joined: the engine's relay decides, bytes move |
//! | `hold` | first segments that wait in the kernel until their server has answered |
//! | `rules` | what the kernel is told so that connections of others come to a transparent listener |
//! | `wire/leg` `wire/socket` `wire/pipes` | one of them; what of it wakes; pipes through which bytes go uncopied |
//! | `wire/held` `spool` | bytes that the other side has not taken yet, in memory and in files |
//! | `tls` | clients that speak TLS to it, and what is inside |
//! | `rates` | the bytes and requests that a client and a user may have in a second |
//! | `shortage` | buffers cut when the kernel's memory for TCP is short |
//! | `outward` | the same way to servers, for other daemons |
//! | `books` `log` | what is going on, for whoever asks; a line for each connection |

pub mod access;
pub mod books;
pub mod config;
mod connect;
mod fetch;
pub mod field;
mod handshake;
mod hold;
pub mod inbound;
mod listen;
mod log;
mod lookups;
mod needs;
mod outward;
mod rates;
pub mod rules;
mod session;
mod shortage;
pub mod side;
mod spool;
pub mod tls;
pub mod users;
mod wire;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::process::Uid;
use tokio::sync::{Semaphore, watch};

use crate::error::{During, Error};
use crate::privilege;
use crate::service::Passed;
pub use connect::{Failure, FailureKind};
pub use outward::Outward;

use access::Denied;
use books::{Books, FlowPage};
use config::{Config, Listener, LogFormat, Model, Way, Wrong};
use hold::Holds;
use inbound::Host;
use lookups::Lookups;
use side::Grant;
use spool::SpoolFolder;
use worker::Worker;

/// A proxy that runs, on threads of its own.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    open: Vec<Open>,
    admin: Option<TcpListener>,
    door: Option<UnixListener>,
    control: Option<UnixListener>,
    owner: Uid,
    next: u64,
    /// The configuration of the start: some of it holds until the end.
    first: Arc<Config>,
}

/// The sinks of all that the proxy has to say. Neither may block for long: workers call them.
pub struct Sinks {
    /// Messages for whoever operates it, one line each.
    pub say: Box<dyn Fn(&str) + Send + Sync>,
    /// Lines of ended connections.
    pub line: Box<dyn Fn(String) + Send + Sync>,
}

/// Why a proxy does not start, or not change.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It was told to be what cannot be.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// The system refused something.
    #[error(transparent)]
    System(#[from] Error),
}

/// A way in that is open.
#[derive(Debug)]
struct Open {
    id: u64,
    socket: TcpListener,
    listener: Arc<Listener>,
}

/// A worker's part in a way in: the socket, and the first descriptor that it keeps for a server.
struct Share {
    worker: usize,
    id: u64,
    socket: TcpListener,
    spare: OwnedFd,
}

/// The state that all workers share.
pub(crate) struct Shared {
    pub(crate) books: Arc<Books>,
    /// A place for each connection that may be open.
    places: Arc<Semaphore>,
    rules: RwLock<Arc<AdmissionRules>>,
    /// The folder in which data waits, and since which configuration.
    store: RwLock<Option<Arc<SpoolFolder>>>,
    own: Mutex<(Instant, Arc<[IpAddr]>)>,
    pub(crate) lookups: Lookups,
    /// Servers' connections that were made before their clients'.
    pub(crate) holds: Arc<Holds>,
    /// Turns to wait until a client that was refused has heard why.
    pub(crate) farewells: Semaphore,
    /// Turns to wait for a place while all are taken.
    pub(crate) waiting: Semaphore,
    /// When it was last said that a client has too many connections, or that all places are taken; and when the last look for
    /// an idle one found none.
    warned: Mutex<Option<Instant>>,
    searched: Mutex<Option<Instant>>,
    /// The rules for new connections, or that there are none any more: those whose clients may ask again end with what they are
    /// doing when they came under others.
    pub(crate) epoch: watch::Sender<Epoch>,
    sinks: Sinks,
}

/// Under what connections come now.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// None come any more.
    pub(crate) is_draining: bool,
    pub(crate) config: Arc<Config>,
}

/// The rules for connections that are accepted from now on.
#[derive(Debug)]
pub(crate) struct AdmissionRules {
    pub(crate) config: Arc<Config>,
    pub(crate) listeners: BTreeMap<u64, Arc<Listener>>,
    listening: Vec<SocketAddr>,
}

/// Pipes of all workers together: 64 of 1 MiB are what an ordinary user may have (pipe(7), pipe-user-pages-soft).
const PIPES: usize = 64;
/// The most places of connections that clients have which are refused, and no more than an eighth of all.
const FAREWELLS_MAX: usize = 256;
/// The most clients that wait for a place, beyond those that the kernel keeps.
const WAITING_MAX: usize = 256;
/// The time without a byte after which a connection may be ended for another's sake.
const EVICT_AFTER: Duration = Duration::from_secs(10);
/// The pause between two looks for an idle connection while there is none.
const SEARCH_EVERY: Duration = Duration::from_millis(100);
/// The pause between two warnings of clients that are refused: the counts have the rest.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// The age at which the addresses of this machine are looked up again.
const OWN_ADDRESSES_AGE_MAX: Duration = Duration::from_secs(5);

impl Proxy {
    /// Opens all ways in, becomes the user that it is to be, and starts to serve.
    pub fn start(config: Config, sinks: Sinks) -> Result<Proxy, ProxyError> {
        Proxy::start_with(config, sinks, &mut Vec::new())
    }

    /// Starts as [`Proxy::start`] does, with sockets that are open already: those that it is to listen on are taken out
    /// of `passed`.
    pub fn start_with(config: Config, sinks: Sinks, passed: &mut Vec<Passed>) -> Result<Proxy, ProxyError> {
        config.check()?;
        let (needed, granted) = (needs::descriptors(&config), privilege::raise_open_files(needs::descriptors(&config)));
        if granted < needed {
            return Err(Wrong {
                listener: None,
                field: "limits.connections",
                what: format!(
                    "{} connections take {needed} descriptors, and this process may have {granted}: raise `ulimit -n` \
                     (LimitNOFILE= of systemd), or give a smaller number",
                    config.limits.connections
                ),
            }
            .into());
        }
        let mut open = Vec::new();
        for (id, listener) in (0..).zip(&config.listeners) {
            open.push(Open {
                id,
                socket: listen::open(listener, &config.local, passed)?,
                listener: Arc::new(listener.clone()),
            });
        }
        let admin = config.admin.as_ref().map(|admin| listen::open_admin(admin.address, passed)).transpose()?;
        let door = config.handover.as_deref().map(|path| listen::open_door(listen::DOOR, path, passed)).transpose()?;
        let control =
            config.control.as_deref().map(|path| listen::open_door(listen::CONTROL, path, passed)).transpose()?;
        let owner = rustix::process::geteuid();
        // An ordinary user is granted few that are long.
        let mut pipes = wire::pipes::make(PIPES);
        if let Some(user) = &config.user {
            let is_missing = user == config::OWN_USER && !privilege::has_user(user);
            let user = if is_missing { config::FALLBACK_USER } else { user };
            if is_missing && rustix::process::geteuid().is_root() {
                (sinks.say)(
                    "there is no user \"headend\" on this machine: the proxy becomes \"nobody\", which other daemons are too",
                );
            }
            privilege::become_user(user, needs::needed_later(&config) | needs::needed_to_hold(&config))?;
        }
        for users in config.listeners.iter().filter_map(|listener| listener.users.as_ref()) {
            if users.plain() > 0 {
                (sinks.say)(&format!(
                    "{}: {} passwords are as they are typed; `headend proxy password` writes what tells nobody",
                    users.path().display(),
                    users.plain()
                ));
            }
        }
        let own = connect::own_addresses().during(|| "list the addresses of this machine")?;
        let config = Arc::new(config);
        let (store, spool) = match &config.model {
            Model::Buffer => (None, 0),
            Model::Store(spool) => (Some(Arc::new(SpoolFolder::open(&spool.folder)?)), spool.quota.get()),
        };
        let first = config.clone();
        let shared = Arc::new(Shared {
            books: Arc::new(Books::new(config.limits.memory.get(), spool)),
            places: Arc::new(Semaphore::new(config.limits.connections)),
            rules: RwLock::new(Arc::new(AdmissionRules::new(config.clone(), &open, admin.as_ref()))),
            store: RwLock::new(store),
            own: Mutex::new((Instant::now(), own.into())),
            lookups: Lookups::start().during(|| "start to look up names")?,
            holds: Holds::new(),
            farewells: Semaphore::new((config.limits.connections / 8).clamp(1, FAREWELLS_MAX)),
            waiting: Semaphore::new(WAITING_MAX),
            warned: Mutex::default(),
            searched: Mutex::default(),
            epoch: watch::channel(Epoch { is_draining: false, config: config.clone() }).0,
            sinks,
        });
        if config.listeners.iter().any(|one| one.way == Way::Transparent) {
            hold::start(&shared)?;
            // Its threads have these on; no other is to have them.
            privilege::give_up(needs::needed_to_hold(&config) - needs::needed_later(&config))?;
        }
        let share = pipes.len() / config.workers;
        let workers: Result<Vec<Worker>, Error> = (0..config.workers.get())
            .map(|index| Worker::start(index, shared.clone(), pipes.split_off(pipes.len() - share)))
            .collect();
        shortage::watch(&shared)?;
        let next = open.len() as u64;
        let proxy = Proxy { shared, workers: workers?, open, admin, door, control, owner, next, first };
        proxy.accept_from(proxy.shares(&proxy.open)?);
        Ok(proxy)
    }

    /// The addresses at which it listens, and for what.
    pub fn listening(&self) -> Vec<(SocketAddr, &'static str)> {
        let address = |open: &Open| open.socket.local_addr().unwrap_or(open.listener.address);
        self.open.iter().map(|open| (address(open), open.listener.way.name())).collect()
    }

    /// The listener for whoever operates it, if [`Config::admin`] says so. The proxy itself serves nobody there.
    pub fn admin(&self) -> Option<&TcpListener> {
        self.admin.as_ref()
    }

    /// The listener for a process that is to take the place of this one, if [`Config::handover`] says so.
    pub fn door(&self) -> Option<&UnixListener> {
        self.door.as_ref()
    }

    /// The listener for whoever operates it, if [`Config::control`] says so.
    pub fn control(&self) -> Option<&UnixListener> {
        self.control.as_ref()
    }

    /// The user who started this process, whoever it has become since: nobody but that user and root may have its
    /// sockets.
    pub fn owner(&self) -> Uid {
        self.owner
    }

    /// All sockets that a process in the place of this one needs, with names.
    pub fn sockets(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let mut sockets: Vec<_> =
            self.open.iter().map(|open| (open.listener.way.name().to_owned(), open.socket.as_fd())).collect();
        sockets.extend(self.admin.iter().map(|socket| (listen::ADMIN.to_owned(), socket.as_fd())));
        sockets.extend(self.control.iter().map(|socket| (listen::CONTROL.to_owned(), socket.as_fd())));
        sockets.extend(self.door.iter().map(|socket| (listen::DOOR.to_owned(), socket.as_fd())));
        sockets
    }

    /// True if every thread of it has done something since this was asked last: one that hangs does not.
    pub fn responds(&mut self) -> bool {
        self.workers.iter_mut().filter_map(|worker| (!worker.responds()).then_some(())).count() == 0
    }

    /// The options that the kernel granted to the local and to the remote side.
    pub fn grants(&self) -> [Vec<Grant>; 2] {
        let rules = self.shared.rules();
        // Accepted connections are like the socket that they came to, which was told while more was allowed.
        let local = self.open.first().map(|open| rules.config.local.grants_of(&open.socket));
        [local.unwrap_or_else(|| rules.config.local.grants()), rules.config.remote.grants()]
    }

    /// A warning of what may not go well with this configuration, in words.
    pub fn warning(&self) -> Option<String> {
        shortage::warning(&self.config())
    }

    /// The books of all connections.
    pub fn books(&self) -> Arc<Books> {
        self.shared.books.clone()
    }

    /// The configuration that holds now.
    pub fn config(&self) -> Arc<Config> {
        self.shared.rules().config.clone()
    }

    /// Becomes what `config` says, for connections from now on; those that are open go on as they began. If it cannot, it
    /// stays what it was. Returns the fields that are another than at the start and stay what they were until the next.
    pub fn reload(&mut self, mut config: Config) -> Result<Vec<String>, ProxyError> {
        config.check()?;
        let mut kept_back: Vec<String> = config.keep_back(&self.first).into_iter().map(str::to_owned).collect();
        let before = self.config();
        let mut kept = Vec::new();
        let mut new = Vec::new();
        for listener in &config.listeners {
            let is_same = |open: &&Open| {
                open.listener.address == listener.address
                    // Those that left the port to the kernel are told apart by their way alone.
                    && (listener.address.port() != 0 || open.listener.way == listener.way)
                    && (open.listener.way == Way::Transparent) == (listener.way == Way::Transparent)
                    && !kept.iter().any(|(id, _)| *id == open.id)
            };
            match self.open.iter().find(is_same) {
                Some(open) => kept.push((open.id, Arc::new(listener.clone()))),
                None => new.push(listener),
            }
        }
        if !kept.is_empty() {
            kept_back.extend(config.local.keep(&before.local).into_iter().map(|name| format!("local.{name}")));
        }
        let store = match &config.model {
            Model::Buffer => None,
            Model::Store(spool) => Some(Arc::new(SpoolFolder::open(&spool.folder)?)),
        };
        // An address may go from one way in to another: those that are to be closed are only when the new ones are open.
        let mut opened = Vec::new();
        for listener in new {
            let socket = listen::open(listener, &config.local, &mut Vec::new())?;
            opened.push(Open { id: self.next + opened.len() as u64, socket, listener: Arc::new(listener.clone()) });
        }
        // The last that may fail: from here on nothing does, so that it is all of the change or none.
        let shares = self.shares(&opened)?;
        self.next += opened.len() as u64;
        let (mut open, closed): (Vec<Open>, Vec<Open>) =
            self.open.drain(..).partition(|open| kept.iter().any(|(id, _)| *id == open.id));
        for open in &mut open {
            if let Some((_, listener)) = kept.iter().find(|(id, _)| *id == open.id) {
                open.listener = listener.clone();
            }
            config.local.ask(&open.socket);
        }
        open.append(&mut opened);
        self.open = open;
        *self.shared.store.write().unwrap_or_else(PoisonError::into_inner) = store;
        self.shared.change(AdmissionRules::new(Arc::new(config), &self.open, self.admin.as_ref()), &before);
        for open in &closed {
            self.close(open);
        }
        self.accept_from(shares);
        if self.open.iter().any(|open| open.listener.way == Way::Transparent) {
            hold::start(&self.shared)?;
        }
        Ok(kept_back)
    }

    /// Accepts nothing any more; what is open goes on.
    pub fn close_listeners(&mut self) {
        self.shared.epoch.send_modify(|epoch| epoch.is_draining = true);
        self.shared.holds.end();
        for open in std::mem::take(&mut self.open) {
            self.close(&open);
        }
    }

    /// True once no connection is open.
    pub fn is_idle(&self) -> bool {
        self.shared.books.open() == 0
    }

    /// Ends. Connections that are still open are reset: nobody is to take half of something for all.
    pub fn stop(mut self) {
        self.close_listeners();
        for worker in self.workers {
            worker.stop();
        }
    }

    /// All workers accept from the one socket: whoever comes is served as long as any of them is free, and a socket that was
    /// handed over is like one that was opened.
    fn shares(&self, open: &[Open]) -> Result<Vec<Share>, Error> {
        let share = |(open, worker): (&Open, usize)| {
            let socket = open.socket.try_clone().during(|| "share a listening socket")?;
            Ok(Share { worker, id: open.id, socket, spare: worker::reserve().during(|| "reserve a descriptor")? })
        };
        open.iter().flat_map(|open| (0..self.workers.len()).map(move |worker| (open, worker))).map(share).collect()
    }

    fn accept_from(&self, shares: Vec<Share>) {
        for Share { worker, id, socket, spare } in shares {
            self.workers[worker].accept_from(id, socket, spare);
        }
    }

    fn close(&self, open: &Open) {
        for worker in &self.workers {
            worker.close(open.id);
        }
    }
}

impl AdmissionRules {
    fn new(config: Arc<Config>, open: &[Open], admin: Option<&TcpListener>) -> AdmissionRules {
        AdmissionRules {
            config,
            listeners: open.iter().map(|open| (open.id, open.listener.clone())).collect(),
            listening: {
                let sockets = open.iter().map(|open| &open.socket).chain(admin);
                sockets.filter_map(|socket| socket.local_addr().ok()).collect()
            },
        }
    }
}

impl Shared {
    pub(crate) fn rules(&self) -> Arc<AdmissionRules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The folder in which data beyond the memory of a connection waits, if it is to.
    fn store(&self, config: &Config) -> Option<Arc<SpoolFolder>> {
        match config.model {
            Model::Buffer => None,
            Model::Store(_) => self.store.read().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(crate) fn say(&self, message: &str) {
        (self.sinks.say)(message);
    }

    /// Says so, unless something of the kind was said a short time ago.
    pub(crate) fn warn(&self, message: &str) {
        if is_time(&self.warned, WARN_EVERY) {
            self.say(message);
        }
    }

    /// Ends the connection that has been idle for longest, so that another may have its place.
    pub(crate) fn make_room(&self) {
        if is_time(&self.searched, SEARCH_EVERY) && self.books.evict(EVICT_AFTER) {
            *self.searched.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn log(&self, closed: &log::Closed, format: LogFormat) {
        (self.sinks.line)(closed.line(format));
    }

    fn change(&self, rules: AdmissionRules, before: &Config) {
        let limits = &rules.config.limits;
        self.books.memory.set_bound(limits.memory.get());
        if let Model::Store(spool) = &rules.config.model {
            self.books.spool.set_bound(spool.quota.get());
        }
        let (new, old) = (limits.connections, before.limits.connections);
        if new > old {
            self.places.add_permits(new - old);
        } else {
            // Places that are taken come free to nobody.
            let gone = self.places.forget_permits(old - new);
            let owed = (old - new - gone) as u32;
            if owed > 0 {
                let places = self.places.clone();
                self.say(&format!("{owed} connections more than limits.connections are open; new ones wait"));
                std::thread::spawn(move || worker::retire(places, owed));
            }
        }
        let config = rules.config.clone();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.epoch.send_modify(|epoch| epoch.config = config);
    }

    /// Checks that a connection may go to `address`, which a client asked for as `host`; `is_fixed` if that was not the
    /// client's choice.
    fn check(&self, config: &Config, host: &Host, address: SocketAddr, is_fixed: bool) -> Result<(), Denied> {
        let own = self.own_addresses();
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        if self.rules().listening.iter().any(|listening| is_here(*listening, address, &own)) {
            return Err(Denied::Special("this proxy itself"));
        }
        if is_fixed { Ok(()) } else { config.destinations.check(host, address, &own) }
    }

    /// Takes a request of what the client and the user of `flow` may make; the error is why not.
    fn take_request(&self, flow: &FlowPage) -> Result<(), &'static str> {
        if flow.quota().take_request() {
            return Ok(());
        }
        self.books.over_rate.fetch_add(1, Ordering::Relaxed);
        Err("this client or user makes more requests in a second than it may")
    }

    fn own_addresses(&self) -> Arc<[IpAddr]> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.0.elapsed() > OWN_ADDRESSES_AGE_MAX {
            *own = (Instant::now(), still_own(&own.1, connect::own_addresses()));
        }
        own.1.clone()
    }
}

/// True if `every` has passed since this was true last.
fn is_time(last: &Mutex<Option<Instant>>, every: Duration) -> bool {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_time = last.is_none_or(|last| last.elapsed() >= every);
    if is_time {
        *last = Some(Instant::now());
    }
    is_time
}

/// Keeps what was known if no descriptor is left to ask with: an unknown address would be one that anybody may go to.
fn still_own(before: &Arc<[IpAddr]>, found: io::Result<Vec<IpAddr>>) -> Arc<[IpAddr]> {
    found.map_or_else(|_| before.clone(), Arc::from)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// True if connecting to `address` ends at a socket that listens at `listening`.
fn is_here(listening: SocketAddr, address: SocketAddr, own: &[IpAddr]) -> bool {
    let (at, to) = (listening.ip().to_canonical(), address.ip());
    let is_any = at.is_unspecified() && (to.is_loopback() || own.contains(&to));
    // Linux takes who connects to no address in particular to the loopback.
    let is_none = to.is_unspecified() && (at.is_unspecified() || at.is_loopback());
    listening.port() == address.port() && (at == to || is_any || is_none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_listed_are_those_that_they_were() {
        let before: Arc<[IpAddr]> = vec![IpAddr::from([192, 0, 2, 1])].into();
        assert_eq!(still_own(&before, Err(io::ErrorKind::OutOfMemory.into())), before);
        assert!(still_own(&before, Ok(Vec::new())).is_empty());
    }

    #[test]
    fn a_listener_is_found_under_every_address_that_leads_to_it() {
        let own = ["192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        let is_here =
            |listening: &str, address: &str| is_here(listening.parse().unwrap(), address.parse().unwrap(), &own);
        for (listening, address) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("[::1]:80", "[::]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "127.9.9.9:80"),
            ("0.0.0.0:80", "192.0.2.1:80"),
        ] {
            assert!(is_here(listening, address), "{address} leads to {listening}");
        }
        for (listening, address) in
            [("127.0.0.1:80", "127.0.0.1:81"), ("127.0.0.1:80", "192.0.2.1:80"), ("0.0.0.0:80", "192.0.2.2:80")]
        {
            assert!(!is_here(listening, address), "{address} leads elsewhere than {listening}");
        }
    }
}
