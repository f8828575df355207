//! Hand-shakes: what a client asks with, and what of it a server grants.

use std::net::SocketAddr;

use headend_datagram::{Asked, Cipher, Initiation, Outbox, PublicKey, SecretKey, Way};
use headend_engine::time::{Duration, Time};

use super::{Event, Handle, Machine};
use crate::connection::{Agreed, Connection, Ended};
use crate::token;
use crate::wire::{self, PROTOCOL, TOKEN, Terms};

/// The time for which a client tries to connect.
const PATIENCE: Duration = Duration::from_secs(12);
/// The pause before a hello is sent again, at first; each is half as long again as the one before, up to the longest. On a path
/// that loses a quarter each way one of fourteen tries gets through in time but for one connection in ten thousand.
const ASK_AGAIN: Duration = Duration::from_millis(400);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(1);
/// The time for which a server keeps a connection that it has granted and that its client has not used, and how many.
const GRANTED: Duration = Duration::from_secs(10);
const GRANTED_MAX: usize = 1_024;
/// Hellos with a good token that are looked at in a second, and at once: each costs some hundred microseconds.
const HELLOS_A_SECOND: u64 = 500;
const HELLOS_AT_ONCE: u64 = 100;

/// A connection that a client has asked for.
pub(super) struct Asking {
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

/// Hellos that may be looked at now.
#[derive(Debug)]
pub(super) struct Hellos {
    left: u64,
    filled: Time,
}

impl Machine {
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

    pub(super) fn take_hello(&mut self, now: Time, way: Way, client: u64, token: &[u8; TOKEN], noise: &[u8]) {
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

    pub(super) fn take_retry(&mut self, now: Time, way: Way, client: u64, token: &[u8; TOKEN]) {
        if let Some(asking) = self.asking.get_mut(&client).filter(|asking| asking.to == way.to)
            && asking.token != *token
        {
            asking.token = *token;
            asking.asked = None;
            asking.again = now;
            self.timers.insert((now, client));
        }
    }

    pub(super) fn take_welcome(&mut self, now: Time, way: Way, client: u64, server: u64, noise: &[u8]) {
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

    /// Sends a hello, if it is time.
    pub(super) fn ask(&mut self, now: Time, id: u64, outbox: &mut Outbox) {
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
        asking.pause = (asking.pause * 3 / 2).min(ASK_AGAIN_MAX);
        let next = asking.again.min(asking.until);
        self.timers.insert((next, id));
    }
}

impl Default for Hellos {
    fn default() -> Hellos {
        Hellos { left: HELLOS_AT_ONCE, filled: Time::ZERO }
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
