//! An endpoint's state, without clock and sockets: the connections by the ids in datagrams, and their timers.
//!
//! A driver calls [`receive`](Machine::receive) for each datagram that came and [`poll`](Machine::poll) when the time has come that
//! it returned last, after each batch of datagrams, and after what the application did; sends what is then in the outbox;
//! and takes the [events](Machine::event).

mod application;
mod frames;
mod handshake;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headend_datagram::{Identity, Outbox, PublicKey, SecretKey, Way};
use headend_engine::time::Time;
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::Config;
use crate::connection::{Connection, Ended};
use crate::streams::{Budget, SHARE, StreamEvent};
use crate::unreliable::{self, FrameEvent};
use crate::wire::{self, Datagram, Terms};
use handshake::{Asking, Hellos};

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
            hellos: Hellos::default(),
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

    fn entry(&mut self, handle: Handle) -> Option<&mut Connection> {
        let entry = self.entries.get_mut(&handle.0).filter(|entry| entry.connection.ended().is_none())?;
        self.due.insert(handle.0);
        Some(&mut entry.connection)
    }

    /// Returns true if something is to leave or to be told, so that it is to be polled at once.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty() || !self.events.is_empty()
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
            Some(Datagram::Retry { client, token }) => self.take_retry(now, way, client, token),
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

#[cfg(test)]
mod tests;

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Machine({} connections, {:?})", self.entries.len(), self.strays)
    }
}
