//! An endpoint's state, without clock and sockets: hand-shakes, and the connections by the ids in datagrams.
//!
//! A driver calls [`receive`](Machine::receive) for each datagram that came and [`poll`](Machine::poll) when the time has come that
//! it returned last, after each batch of datagrams, and after what the application did; sends what is then in the outbox;
//! and takes the [events](Machine::event).

mod frames;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use headend_datagram::{Asked, Cipher, Identity, Initiation, Outbox, PublicKey, SecretKey, Way};
use headend_engine::time::{Duration, Time};
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::Config;
use crate::connection::{Agreed, Connection, Ended, Snapshot};
use crate::frame::VARINT_MAX;
use crate::streams::{Budget, SHARE, StreamError, StreamEvent, StreamId};
use crate::token;
use crate::unreliable::{self, FrameEvent};
use crate::wire::{self, Datagram, PROTOCOL, TOKEN, Terms};

/// The time for which a client tries to connect.
const PATIENCE: Duration = Duration::from_secs(12);
/// The pause before a hello is sent again, at first; each is half as long again as the one before.
const ASK_AGAIN: Duration = Duration::from_millis(400);
/// The time for which a server keeps a connection that it has granted and that its client has not used, and how many.
const GRANTED: Duration = Duration::from_secs(10);
const GRANTED_MAX: usize = 1_024;
/// Hellos with a good token that are looked at in a second, and at once: each costs some hundred microseconds.
const HELLOS_A_SECOND: u64 = 500;
const HELLOS_AT_ONCE: u64 = 100;

/// A connection's name in its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(u64);

/// What an application is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection that was asked for here stands.
    Connected(Handle),
    /// A client has connected.
    Incoming(Handle),
    /// Something is new about a stream.
    Stream(Handle, StreamEvent),
    /// Something is new about unreliable frames.
    Frame(Handle, FrameEvent),
    /// A connection has ended, or was not granted. Its handle means nothing any more.
    Ended(Handle, Ended),
}

/// Counts of datagrams that were no use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// No datagrams of this protocol, of no connection that is known, or without the proof.
    pub strangers: u64,
    /// Not authentic, or came twice.
    pub forged: u64,
    /// Hellos without a good token, which were answered with one.
    pub retries: u64,
    /// Hellos with a good token beyond what is looked at in a second, or beyond the connections that there may be.
    pub refused: u64,
    /// Hellos of clients whose keys are not in the list.
    pub unknown_keys: u64,
}

/// Who may connect.
pub type Allow = Box<dyn Fn(&PublicKey) -> bool + Send>;

/// An endpoint's state.
pub struct Machine {
    identity: Identity,
    config: Config,
    /// `None` if nobody may connect here.
    allow: Option<Allow>,
    tokens: SecretKey,
    gone: SecretKey,
    entries: BTreeMap<u64, Entry>,
    asking: BTreeMap<u64, Asking>,
    /// Connections that were granted and not used, by the client's id.
    granted: BTreeMap<u64, u64>,
    /// Connections that were begun here, by the id under which the server is written to.
    servers: BTreeMap<u64, u64>,
    keys: BTreeMap<PublicKey, usize>,
    timers: BTreeSet<(Time, u64)>,
    /// Those with something to do now.
    due: BTreeSet<u64>,
    hellos: Hellos,
    budget: Budget,
    events: VecDeque<Event>,
    random: SystemRandom,
    strays: Strays,
    /// Datagrams that leave with the next poll.
    answers: Outbox,
}

#[derive(Debug)]
struct Entry {
    connection: Connection,
    /// The welcome for a client that has not used the connection yet, its id, and until when.
    granted: Option<(Vec<u8>, u64, Time)>,
    /// The tag of the server's `gone`.
    gone: [u8; headend_datagram::PROOF],
    theirs: u64,
    timer: Option<Time>,
    is_told: bool,
}

struct Asking {
    initiation: Initiation,
    noise: Vec<u8>,
    peer: PublicKey,
    to: SocketAddr,
    token: [u8; TOKEN],
    until: Time,
    again: Time,
    pause: Duration,
    /// When the last hello left, if it was the first with its token.
    asked: Option<Time>,
}

#[derive(Debug)]
struct Hellos {
    left: u64,
    filled: Time,
}

impl Machine {
    /// An endpoint with this identity. Whom `allow` allows may connect; without it, nobody.
    pub fn new(identity: Identity, allow: Option<Allow>, config: Config) -> Machine {
        let random = SystemRandom::new();
        let mut fresh = [0; 16];
        random.fill(&mut fresh).expect("the system has random numbers");
        Machine {
            // Of this process alone; those of the process before are no good, and those who have them ask again.
            tokens: identity.derived(&[&b"headend socket tokens"[..], &fresh].concat()),
            // The same after a new start, or nobody would believe it.
            gone: identity.derived(b"headend socket gone"),
            budget: Budget::new(config.memory),
            identity,
            config,
            allow,
            entries: BTreeMap::new(),
            asking: BTreeMap::new(),
            granted: BTreeMap::new(),
            servers: BTreeMap::new(),
            keys: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: BTreeSet::new(),
            hellos: Hellos { left: HELLOS_AT_ONCE, filled: Time::ZERO },
            events: VecDeque::new(),
            random,
            strays: Strays::default(),
            answers: Outbox::default(),
        }
    }

    /// The next thing that the application is to know.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Datagrams that were no use.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// The number of connections, those included that are only granted.
    pub fn connections(&self) -> usize {
        self.entries.len()
    }

    // What the application does.

    /// Asks `to` for a connection, whose key is `peer`. An event tells what became of it.
    pub fn connect(&mut self, now: Time, to: SocketAddr, peer: &PublicKey) -> Handle {
        let id = self.draw();
        let mut noise = Vec::new();
        let terms = self.terms([0; _]).bytes();
        let initiation = Initiation::new(&self.identity, peer, &SecretKey::NONE, PROTOCOL, &terms, &mut noise);
        let asking = Asking {
            initiation,
            noise,
            peer: *peer,
            to,
            token: [0; TOKEN],
            until: now + PATIENCE,
            again: now,
            pause: ASK_AGAIN,
            asked: None,
        };
        self.asking.insert(id, asking);
        self.timers.insert((now, id));
        Handle(id)
    }

    fn entry(&mut self, handle: Handle) -> Option<&mut Connection> {
        let entry = self.entries.get_mut(&handle.0).filter(|entry| entry.connection.ended().is_none())?;
        self.due.insert(handle.0);
        Some(&mut entry.connection)
    }

    /// Opens a stream; `None` if as many are open as the peer allows, or if the connection has ended.
    pub fn open(&mut self, handle: Handle) -> Option<StreamId> {
        self.entry(handle)?.streams.open()
    }

    /// The next stream that the peer has opened.
    pub fn accept(&mut self, handle: Handle) -> Option<StreamId> {
        self.entry(handle)?.streams.accept()
    }

    /// Writes to a stream. No bytes: later, an event tells when.
    pub fn write(&mut self, handle: Handle, id: StreamId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.entry(handle).ok_or(StreamError::Ended)?.write(id, bytes)
    }

    /// Reads from a stream. `None` is the end; no bytes: later, an event tells when.
    pub fn read(&mut self, handle: Handle, id: StreamId, to: &mut [u8]) -> Result<Option<usize>, StreamError> {
        let entry = self.entries.get_mut(&handle.0).filter(|entry| entry.connection.ended().is_none());
        let entry = entry.ok_or(StreamError::Ended)?;
        let read = entry.connection.streams.read(id, to);
        if entry.connection.streams.has_items() {
            self.due.insert(handle.0);
        }
        read
    }

    /// Nothing more will be written to a stream; what was arrives, and then its end.
    pub fn finish(&mut self, handle: Handle, id: StreamId) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.finish(id);
        }
    }

    /// Ends what is written to a stream at once; the peer hears of the code, of which none is above [`VARINT_MAX`]: a larger one counts
    /// as that.
    pub fn reset(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.reset(id, code.min(VARINT_MAX));
        }
    }

    /// Reads no more of a stream; the peer hears of the code, as with [`reset`](Machine::reset).
    pub fn stop(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.stop(id, code.min(VARINT_MAX));
        }
    }

    /// Has done with a stream. What was not ended is reset, with this code, as with [`reset`](Machine::reset).
    pub fn release(&mut self, handle: Handle, id: StreamId, code: u64) {
        if let Some(connection) = self.entry(handle) {
            connection.streams.release(id, code.min(VARINT_MAX));
        }
    }

    /// Returns true if all that was written to a stream has come, the end included, or nobody waits for it any more.
    pub fn is_sent(&mut self, handle: Handle, id: StreamId) -> bool {
        self.entries.get(&handle.0).is_none_or(|entry| entry.connection.streams.is_sent(id))
    }

    /// The peer's reason to read no more of a stream, if it does not.
    pub fn stopped(&self, handle: Handle, id: StreamId) -> Option<u64> {
        self.entries.get(&handle.0)?.connection.streams.stopped(id)
    }

    /// Closes a connection, with a code as with [`reset`](Machine::reset). What has not come by now does not come.
    pub fn close(&mut self, now: Time, handle: Handle, code: u64, reason: &str) {
        if let Some(connection) = self.entry(handle) {
            connection.close(now, code.min(VARINT_MAX), reason);
        } else if self.asking.remove(&handle.0).is_some() {
            self.events.push_back(Event::Ended(handle, Ended::Here));
        }
    }

    /// Closes all connections.
    pub fn close_all(&mut self, now: Time, code: u64, reason: &str) {
        for id in self.entries.keys().chain(self.asking.keys()).copied().collect::<Vec<_>>() {
            self.close(now, Handle(id), code, reason);
        }
    }

    /// Returns true if something is to leave or to be told, so that it is to be polled at once.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.events.is_empty()
    }

    /// The peer's key and address, and the counts of a connection.
    pub fn look(&self, handle: Handle) -> Option<(PublicKey, SocketAddr, Snapshot)> {
        let connection = &self.entries.get(&handle.0)?.connection;
        Some((connection.peer, connection.way.to, connection.snapshot()))
    }

    // What the network does.

    /// Takes a datagram, which is opened in its place.
    pub fn receive(&mut self, now: Time, way: Way, bytes: &mut [u8]) {
        match Datagram::read(bytes) {
            Some(Datagram::Sealed { receiver, low }) => self.take_sealed(now, way, receiver, low, bytes),
            Some(Datagram::Hello { client, token, noise, proven, proof }) if self.allow.is_some() => {
                if self.identity.public().is_proven(proven, proof) {
                    self.take_hello(now, way, client, token, noise);
                } else {
                    self.strays.strangers += 1;
                }
            }
            Some(Datagram::Retry { client, token }) => {
                if let Some(asking) = self.asking.get_mut(&client).filter(|asking| asking.to == way.to)
                    && asking.token != *token
                {
                    asking.token = *token;
                    asking.asked = None;
                    asking.again = now;
                    self.timers.insert((now, client));
                }
            }
            Some(Datagram::Welcome { client, server, noise }) => self.take_welcome(now, way, client, server, noise),
            Some(Datagram::Gone { id, tag }) => self.take_gone(way, id, tag),
            _ => self.strays.strangers += 1,
        }
    }

    fn take_sealed(&mut self, now: Time, way: Way, receiver: u64, low: u32, bytes: &mut [u8]) {
        let Some(entry) = self.entries.get_mut(&receiver) else {
            self.strays.strangers += 1;
            if self.allow.is_some() {
                // Shorter than what it answers, so that two ends never go on with it.
                let tag = self.gone.tag(&receiver.to_be_bytes());
                let header = wire::header(5, receiver);
                self.answers.push(way, 0, wire::GONE, |out| {
                    out.extend_from_slice(&header);
                    out.extend_from_slice(&tag);
                });
            }
            return;
        };
        if !entry.connection.receive(now, way, low, bytes) {
            self.strays.forged += 1;
            return;
        }
        self.due.insert(receiver);
        if let Some((_, client, _)) = entry.granted.take() {
            self.granted.remove(&client);
            self.events.push_back(Event::Incoming(Handle(receiver)));
        }
    }

    fn take_hello(&mut self, now: Time, way: Way, client: u64, token: &[u8; TOKEN], noise: &[u8]) {
        if !token::is_good(&self.tokens, now, client, way.to, token) {
            self.strays.retries += 1;
            let token = token::make(&self.tokens, now, client, way.to);
            self.answers.push(way, 0, wire::RETRY, |out| {
                out.extend_from_slice(&wire::header(2, client));
                out.extend_from_slice(&token);
            });
            return;
        }
        if let Some(ours) = self.granted.get(&client) {
            let entry = &self.entries[ours];
            if let Some((welcome, ..)) = entry.granted.as_ref().filter(|_| entry.connection.way.to == way.to) {
                self.answers.push(way, 0, welcome.len(), |out| out.extend_from_slice(welcome));
            }
            return;
        }
        if self.entries.len() >= self.config.connections_max
            || self.granted.len() >= GRANTED_MAX
            || !self.hellos.spend(now)
        {
            self.strays.refused += 1;
            return;
        }
        let asked = Asked::read(&self.identity, PROTOCOL, noise);
        let Some((asked, terms)) = asked.and_then(|asked| Terms::read(&asked.payload).map(|terms| (asked, terms)))
        else {
            self.strays.forged += 1;
            return;
        };
        let peer = asked.from;
        if !self.allow.as_ref().is_some_and(|allow| allow(&peer)) {
            self.strays.unknown_keys += 1;
            return;
        }
        let held = self.keys.get(&peer).copied().unwrap_or(0);
        if held >= self.config.connections_per_key {
            self.strays.refused += 1;
            return;
        }
        let ours = self.draw();
        let mine = self.terms(self.gone.tag(&ours.to_be_bytes())).bytes();
        let mut welcome = Vec::with_capacity(wire::WELCOME);
        welcome.extend_from_slice(&wire::header(3, client));
        welcome.extend_from_slice(&ours.to_be_bytes());
        let Some(keys) = asked.grant(&SecretKey::NONE, &mine, &mut welcome) else { return };
        self.answers.push(way, 0, welcome.len(), |out| out.extend_from_slice(&welcome));
        let random = self.draw();
        let cipher = Cipher::renewing(&keys);
        let agreed = Agreed { is_client: false, cipher, ours, theirs: client, peer, way, terms, rtt: None, random };
        let connection = Connection::new(now, agreed, &self.config, self.budget.clone());
        *self.keys.entry(peer).or_default() += 1;
        self.granted.insert(client, ours);
        let until = now + GRANTED;
        self.insert(ours, connection, Some((welcome, client, until)), [0; _], client);
        self.timers.insert((until, ours));
    }

    fn take_welcome(&mut self, now: Time, way: Way, client: u64, server: u64, noise: &[u8]) {
        let Some(asking) = self.asking.get_mut(&client).filter(|asking| asking.to == way.to) else {
            self.strays.strangers += 1;
            return;
        };
        let finished = asking.initiation.finish(noise);
        let finished = finished.and_then(|(keys, payload)| Terms::read(&payload).map(|terms| (keys, terms)));
        let Some((keys, terms)) = finished else {
            self.strays.forged += 1;
            return;
        };
        let asking = self.asking.remove(&client).expect("it was there");
        let random = self.draw();
        let agreed = Agreed {
            is_client: true,
            cipher: Cipher::renewing(&keys),
            ours: client,
            theirs: server,
            peer: asking.peer,
            way,
            terms,
            rtt: asking.asked.map(|asked| now.since(asked)),
            random,
        };
        let connection = Connection::new(now, agreed, &self.config, self.budget.clone());
        self.servers.insert(server, client);
        self.insert(client, connection, None, terms.gone, server);
        self.due.insert(client);
        self.events.push_back(Event::Connected(Handle(client)));
    }

    fn insert(
        &mut self,
        ours: u64,
        connection: Connection,
        granted: Option<(Vec<u8>, u64, Time)>,
        gone: [u8; headend_datagram::PROOF],
        theirs: u64,
    ) {
        let entry = Entry { connection, granted, gone, theirs, timer: None, is_told: false };
        self.entries.insert(ours, entry);
    }

    fn take_gone(&mut self, way: Way, id: u64, tag: &[u8]) {
        let ours = self.servers.get(&id).copied();
        let Some((ours, entry)) = ours.and_then(|ours| Some((ours, self.entries.get_mut(&ours)?))) else {
            self.strays.strangers += 1;
            return;
        };
        // Not secret from who sees the path, so that where it comes from counts as well.
        if entry.connection.way.to == way.to && entry.gone[..] == *tag {
            entry.connection.drop_dead(Ended::Gone);
            self.due.insert(ours);
        } else {
            self.strays.forged += 1;
        }
    }

    /// Does what is due by now, and puts what leaves into the outbox. Nothing more is due before the time that it returns.
    pub fn poll(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        outbox.trains.append(&mut self.answers.trains);
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            self.due.insert(id);
        }
        let mut soon = None;
        for id in std::mem::take(&mut self.due) {
            if self.asking.contains_key(&id) {
                self.ask(now, id, outbox);
            } else if let Some(at) = self.turn(now, id, outbox)
                && at <= now
            {
                self.due.insert(id);
                soon = Some(now);
            }
        }
        soon.or_else(|| self.timers.first().map(|(at, _)| *at))
    }

    /// Sends a hello, if it is time.
    fn ask(&mut self, now: Time, id: u64, outbox: &mut Outbox) {
        let Some(asking) = self.asking.get_mut(&id) else { return };
        if now >= asking.until {
            let to = asking.to;
            self.asking.remove(&id);
            self.events.push_back(Event::Ended(Handle(id), Ended::NoAnswer(to)));
            return;
        }
        if now < asking.again {
            return;
        }
        let way = Way { to: asking.to, from: None };
        outbox.push(way, 0, wire::HELLO, |out| {
            let at = out.len();
            out.extend_from_slice(&wire::header(1, id));
            out.extend_from_slice(&asking.token);
            out.extend_from_slice(&asking.noise);
            let proof = asking.peer.proof(&out[at..]);
            out.extend_from_slice(&proof);
        });
        let is_first = asking.pause == ASK_AGAIN || asking.asked.is_none();
        asking.asked = (is_first && asking.token != [0; TOKEN]).then_some(now);
        asking.again = now + asking.pause;
        asking.pause = asking.pause * 3 / 2;
        let next = asking.again.min(asking.until);
        self.timers.insert((next, id));
    }

    /// Gives a connection its turn. Returns when it wants the next.
    fn turn(&mut self, now: Time, id: u64, outbox: &mut Outbox) -> Option<Time> {
        let entry = self.entries.get_mut(&id)?;
        if let Some((.., until)) = &entry.granted {
            if now >= *until {
                self.forget(id);
            }
            return None;
        }
        let wake = entry.connection.poll(now, outbox);
        while let Some(event) = entry.connection.streams.event() {
            self.events.push_back(Event::Stream(Handle(id), event));
        }
        while let Some(event) = entry.connection.streams.frames.event() {
            self.events.push_back(Event::Frame(Handle(id), event));
        }
        if !entry.is_told
            && let Some(why) = entry.connection.ended()
        {
            entry.is_told = true;
            self.events.push_back(Event::Ended(Handle(id), why.clone()));
        }
        if entry.connection.is_over() {
            self.forget(id);
            return None;
        }
        if entry.timer != wake {
            if let Some(before) = entry.timer.take() {
                self.timers.remove(&(before, id));
            }
            if let Some(at) = wake.filter(|at| *at > now) {
                entry.timer = Some(at);
                self.timers.insert((at, id));
            }
        } else if let Some(at) = wake.filter(|at| *at > now) {
            // It may have been taken out because it was due for another reason.
            self.timers.insert((at, id));
        }
        wake
    }

    fn forget(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, id));
        }
        if let Some((_, client, _)) = entry.granted {
            self.granted.remove(&client);
        }
        self.servers.remove(&entry.theirs);
        if let Some(held) = self.keys.get_mut(&entry.connection.peer) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.keys.remove(&entry.connection.peer);
            }
        }
    }

    fn terms(&self, gone: [u8; headend_datagram::PROOF]) -> Terms {
        let idle_ms = u32::try_from(self.config.idle.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
        let window = self.config.window;
        let data = window.saturating_mul(SHARE as u32);
        let frame = unreliable::longest(self.config.frames.into()) as u32;
        Terms { data, stream_data: window, streams: self.config.streams_max, idle_ms, frame, gone }
    }

    fn draw(&self) -> u64 {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes).expect("the system has random numbers");
        u64::from_be_bytes(bytes)
    }
}

impl Hellos {
    fn spend(&mut self, now: Time) -> bool {
        let each = Duration::from_nanos(1_000_000_000 / HELLOS_A_SECOND);
        let earned = now.since(self.filled).as_nanos() / each.as_nanos();
        if earned > 0 {
            self.left = (self.left + earned).min(HELLOS_AT_ONCE);
            self.filled = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests;

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Machine({} connections, {:?})", self.entries.len(), self.strays)
    }
}
