//! The state of another end, as this one knows it: sessions, whether it is there, the circuits to it and from it. Time and
//! datagrams are passed in.

mod carry;

use std::ops::Range;
use std::sync::Arc;

use headend_datagram::{Asked, COOKIE, Identity, Initiation, Opened, Outbox, PROOF, SecretKey, Way, take_cookie};
use headend_engine::circuit::repair::Place;
use headend_engine::circuit::turns::Turns;
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::Bytes;
use ring::rand::{SecureRandom, SystemRandom};

use super::circuit::{DatagramReceiver, DatagramSender, HeaderReceiver, HeaderSender, Incoming, Outgoing};
use super::config::{Carriage, Fallback, PeerConfig, VMSS};
use super::gate::COOKIE_LIFE;
use super::handshake;
use super::mtu::Search;
use super::session::Session;
use super::wire::{DataHeader, Message, PLACE, Probed, Terms};
use carry::{on_wire, seal};

pub(super) use carry::Hold;

/// Time after which a hand-shake that is not answered is begun again (WireGuard's REKEY_TIMEOUT is 5 s); it is a little longer
/// each time.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(5);
/// Time after which an offer that is not answered is made again; one that was refused waits for much longer.
const OFFER_AGAIN: Duration = Duration::from_millis(250);
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// The least time between two messages that say that a circuit is not known.
const UNKNOWN_AGAIN: Duration = Duration::from_millis(100);
/// Signs of life that are due in the time after which a peer counts as gone.
const SIGNS: u64 = 6;
/// A user's packet that came from the peer: where it is in what was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) bytes: Range<usize>,
    /// True if its checksum is left open.
    pub(super) is_open: bool,
    /// Its place in its flow, and whether it has a number, if the circuit is one that repairs.
    pub(super) place: Option<(Place, bool)>,
}

/// What all peers of a trunk have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) carriage: Carriage,
    pub(super) fallback: Fallback,
    pub(super) dead_after: Duration,
    /// The longest packet of users, in sealed carriage.
    pub(super) mtu: u32,
}

/// Another end.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) config: PeerConfig,
    identity: Arc<Identity>,
    /// The number of the peer, in the low eight bits of the numbers of its sessions.
    pub(super) number: u8,
    habits: Habits,
    pub(super) way: Option<Way>,
    /// The way through the tunnel to the peer, in tunnelled carriage.
    pub(super) inside: Option<Way>,
    current: Option<Session>,
    /// The session before, of which there may still be datagrams under way.
    previous: Option<Session>,
    /// Sessions that were granted and not used yet: one for the initiation with the latest clock, and one for an earlier
    /// clock. That is a recorded initiation, or a clock that went back: a replayed initiation must not displace a real one.
    granted: [Option<(Session, u64)>; 2],
    newest_clock_ns: u64,
    asking: Option<Asking>,
    ask_at: Time,
    asked_in_vain: u64,
    /// The peer's cookie, and when it came.
    cookie: Option<(SecretKey, Time)>,
    is_hastened: bool,
    /// The search for the longest packet that passes to the peer, in sealed carriage.
    search: Search,
    /// The longest packet that the routes to the peer let pass.
    routed_mtu: u32,
    heard: Option<Time>,
    was_up: bool,
    sent: Time,
    pub(super) edge: Turns,
    pub(super) to: To,
    pub(super) from: Option<Incoming>,
    /// True if the circuit from the peer is to begin anew, because what is granted to it has changed.
    regrants: bool,
    unknown_at: Time,
    pub(super) counters: Counters,
    random: SystemRandom,
}

/// The circuit to the peer.
#[derive(Debug)]
pub(super) enum To {
    /// There is none.
    Nothing,
    /// It was offered, and is again at that time.
    Offered(Terms, Time),
    /// The peer, which has this carriage, has refused it, and is asked again at that time.
    Refused(Carriage, Time),
    /// It carries.
    Circuit(Box<Outgoing>),
}

#[derive(Debug)]
struct Asking {
    initiation: Initiation,
    number: u32,
    proof: [u8; PROOF],
    /// True if it was begun because of a cookie: another one is for the next time.
    is_hastened: bool,
}

/// Counts of a peer's sessions, circuits and packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Sessions that were begun.
    pub(super) sessions: u64,
    /// Circuits to the peer that were begun.
    pub(super) circuits: u64,
    /// Datagrams that were not authentic, or came twice.
    pub(super) refused: u64,
    /// Users' packets that came without control beyond what was granted.
    pub(super) ungranted: u64,
    /// Acknowledgements of what was never sent.
    pub(super) lies: u64,
    /// Users' packets that passed without control, and their bytes.
    pub(super) direct: u64,
    pub(super) direct_bytes: u64,
}

impl Peer {
    pub(super) fn new(config: PeerConfig, identity: Arc<Identity>, number: u8, edge: Turns, habits: Habits) -> Peer {
        let place = place_len(&config);
        Peer {
            way: config.endpoint.map(|to| Way { to, from: None }),
            inside: None,
            config,
            identity,
            number,
            habits,
            current: None,
            previous: None,
            granted: [None, None],
            newest_clock_ns: 0,
            asking: None,
            ask_at: Time::ZERO,
            asked_in_vain: 0,
            cookie: None,
            is_hastened: false,
            search: Search::new(habits.mtu + place),
            routed_mtu: habits.mtu,
            heard: None,
            was_up: false,
            sent: Time::ZERO,
            edge,
            to: To::Nothing,
            from: None,
            regrants: false,
            unknown_at: Time::ZERO,
            counters: Counters::default(),
            random: SystemRandom::new(),
        }
    }

    /// Takes over another configuration of the same peer. What it does not change goes on: sessions unless the secret is another,
    /// the circuit to the peer unless it is to have other terms, and the circuit from it until the peer, which is told, has begun
    /// another.
    pub(super) fn change(&mut self, now: Time, config: PeerConfig, habits: Habits, outbox: &mut Outbox) {
        self.habits = habits;
        let before = std::mem::replace(&mut self.config, config);
        if self.config.shared != before.shared {
            self.forget(now);
            self.ask_at = now;
        }
        if self.config.networks != before.networks {
            // The routes to new ones let pass what the device does, or what passed to the peer whose they were.
            self.routed_mtu = 0;
        }
        if place_len(&self.config) != place_len(&before) {
            self.search = Search::new(self.habits.mtu + place_len(&self.config));
        }
        let has_moved = self.config.endpoint != before.endpoint && self.config.endpoint.is_some();
        if has_moved {
            self.way = self.config.endpoint.map(|to| Way { to, from: None });
            self.search.restart(now);
            (self.ask_at, self.asked_in_vain) = (now, 0);
        }
        if has_moved || self.config.send != before.send {
            self.to = To::Nothing;
        }
        if self.config.receive != before.receive && self.from.is_some() {
            self.regrants = true;
            self.send(now, &self.alive(), outbox);
        }
    }

    /// True while there is a session and the peer is heard.
    pub(super) fn is_up(&self, now: Time) -> bool {
        let is_heard = self.heard.is_some_and(|heard| now.since(heard) < self.habits.dead_after);
        is_heard && self.current.as_ref().is_some_and(|session| session.is_alive(now))
    }

    /// The time since the peer was heard.
    pub(super) fn silent(&self, now: Time) -> Option<Duration> {
        self.heard.map(|heard| now.since(heard))
    }

    /// Grants the session that the peer asks for, under its number `theirs`. The one in use stays until the peer uses the new one.
    pub(super) fn asked(
        &mut self,
        now: Time,
        (asked, clock_ns): (Asked, u64),
        theirs: u32,
        way: Way,
        outbox: &mut Outbox,
    ) {
        let mine = self.fresh_number();
        let Some((keys, datagram)) = handshake::grant(asked, &self.config.shared, mine, theirs) else { return };
        let is_newest = clock_ns > self.newest_clock_ns;
        if is_newest {
            self.newest_clock_ns = clock_ns;
        }
        let session = Session::new(&keys, mine, theirs, false, now);
        self.granted[usize::from(!is_newest)] = Some((session, clock_ns));
        outbox.push(way, 0, datagram.len(), |out| out.extend_from_slice(&datagram));
    }

    /// Begins the session that the peer grants.
    pub(super) fn answered(&mut self, now: Time, noise: &[u8], mine: u32, theirs: u32, way: Way, outbox: &mut Outbox) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.number == mine) else { return };
        let Some((keys, _)) = asking.initiation.finish(noise) else {
            self.counters.refused += 1;
            return;
        };
        self.asking = None;
        self.asked_in_vain = 0;
        self.begin(Session::new(&keys, mine, theirs, true, now));
        self.hear(now, way, true);
        // The other end may use it only once it has heard of it.
        self.send(now, &self.alive(), outbox);
    }

    /// Takes a cookie, and asks again at once, if it has not just done so.
    pub(super) fn given_cookie(&mut self, now: Time, mine: u32, cookie: &[u8; COOKIE]) {
        let Some(asking) = self.asking.as_ref().filter(|asking| asking.number == mine) else { return };
        let Some(cookie) = take_cookie(&self.config.key, &asking.proof, cookie) else {
            self.counters.refused += 1;
            return;
        };
        self.cookie = Some((cookie, now));
        if !asking.is_hastened {
            (self.is_hastened, self.ask_at) = (true, now);
        }
    }

    /// Opens a sealed datagram that came, in its place, and acts on its message. Returns a user's packet if that is what it is.
    pub(super) fn sealed(
        &mut self,
        now: Time,
        (mine, counter): (u32, u64),
        (header, sealed): (&[u8], &mut [u8]),
        way: Way,
        outbox: &mut Outbox,
    ) -> Option<Arrival> {
        let is_mine = |session: &&mut Session| session.mine == mine && session.is_alive(now);
        let used = self.current.as_mut().filter(is_mine).or(self.previous.as_mut().filter(is_mine));
        let opened = match used {
            Some(session) => session.open(counter, header, sealed),
            None => self.open_granted(now, mine, counter, header, sealed),
        };
        let Some(opened) = opened else {
            self.counters.refused += 1;
            return None;
        };
        let is_current = self.current.as_ref().is_some_and(|session| session.mine == mine);
        self.hear(now, way, opened.is_newest && is_current);
        match Message::read(opened.plain) {
            // An earlier one tells of what was before.
            Some(Message::Alive(circuit)) if opened.is_newest && is_current => self.take_alive(circuit),
            Some(Message::Data { circuit, number, is_open, place, packet }) => {
                let len = packet.len();
                let begin = DataHeader { circuit, number, is_open, place }.wire_len();
                let takes = self.take_packet(now, (circuit, number), len as u64, outbox);
                // One of the circuit before has no place among those of this one.
                let place = place.filter(|_| self.from.as_ref().is_some_and(|from| from.terms().circuit == circuit));
                let place = place.map(|place| (place, number.is_some()));
                return takes.then_some(Arrival { bytes: begin..begin + len, is_open, place });
            }
            Some(message) => self.take(now, message, outbox),
            None => self.counters.refused += 1,
        }
        None
    }

    /// Opens the first message of a session that was granted, which makes it the one that is used.
    fn open_granted<'a>(
        &mut self,
        now: Time,
        mine: u32,
        counter: u64,
        header: &[u8],
        sealed: &'a mut [u8],
    ) -> Option<Opened<'a>> {
        let granted =
            self.granted.iter_mut().find(|granted| granted.as_ref().is_some_and(|(one, _)| one.mine == mine))?;
        let (session, clock_ns) = granted.as_mut()?;
        let opened = session.is_alive(now).then(|| session.open(counter, header, sealed))??;
        self.newest_clock_ns = *clock_ns;
        let (session, _) = granted.take()?;
        self.granted = [None, None];
        self.begin(session);
        Some(opened)
    }

    fn begin(&mut self, session: Session) {
        self.counters.sessions += 1;
        // When the next is due says the session.
        self.ask_at = session.since;
        self.previous = self.current.replace(session);
    }

    /// Notes that the peer is there, and now at `way` if this is the newest message that came from it. At the end of a tunnel it stays
    /// there: what comes from elsewhere was brought by somebody else, unless the peer measures the path beside the tunnel.
    fn hear(&mut self, now: Time, way: Way, is_newest: bool) {
        self.heard = Some(now);
        let measures = self.from.as_ref().is_some_and(|from| from.terms().carriage == Carriage::Probe);
        let way = self.inside.filter(|_| !measures).unwrap_or(way);
        if is_newest && self.way != Some(way) {
            let has_moved = self.way.is_some_and(|before| before.to != way.to);
            self.way = Some(way);
            if has_moved {
                // Another path: what was learnt of the old one is worth nothing.
                self.search.restart(now);
                if matches!(self.to, To::Circuit(_)) {
                    self.to = To::Nothing;
                }
            }
        }
    }

    /// Says that there is no receiving end of a circuit here.
    fn deny(&mut self, now: Time, circuit: u32, outbox: &mut Outbox) {
        if now >= self.unknown_at {
            self.unknown_at = now + UNKNOWN_AGAIN;
            self.send(now, &Message::Unknown(circuit), outbox);
        }
    }

    fn take(&mut self, now: Time, message: Message<'_>, outbox: &mut Outbox) {
        match message {
            Message::Alive(_) | Message::Data { .. } => {}
            Message::Offer(offer) => self.take_offer(now, offer, outbox),
            Message::Answer(answer) => self.take_answer(now, answer),
            Message::Control { is_header: true, circuit, which, segment } => match &mut self.from {
                Some(Incoming::Headers(from)) if from.terms.circuit == circuit => from.receive(now, which, &segment),
                _ => self.deny(now, circuit, outbox),
            },
            Message::Control { is_header: false, circuit, which, segment } => {
                if let To::Circuit(to) = &mut self.to
                    && let Outgoing::Headers(to) = &mut **to
                    && to.terms.circuit == circuit
                {
                    to.receive(now, which, &segment);
                }
            }
            Message::Told { circuit, told } => {
                if let To::Circuit(to) = &mut self.to
                    && let Outgoing::InBand(to) = &mut **to
                    && to.terms.circuit == circuit
                    && !to.told(now, &told)
                {
                    self.counters.lies += 1;
                }
            }
            Message::Unknown(circuit) => {
                if matches!(&self.to, To::Circuit(to) if to.terms().circuit == circuit) {
                    self.to = To::Nothing;
                }
            }
            Message::Goodbye => self.forget(now),
            Message::Probe(probed) => self.send(now, &Message::Probed(probed), outbox),
            Message::Probed(Probed { id, len }) => self.search.answered(now, id, len),
        }
    }

    /// Ends the circuit to the peer if the peer names another: one that has begun anew does not know it.
    fn take_alive(&mut self, circuit: u32) {
        if matches!(&self.to, To::Circuit(to) if to.terms().circuit != circuit) {
            self.to = To::Nothing;
        }
    }

    fn alive(&self) -> Message<'static> {
        let known = self.from.as_ref().filter(|_| !self.regrants);
        Message::Alive(known.map_or(0, |from| from.terms().circuit))
    }

    /// Answers an offer, and grants as much of it as the file allows.
    fn take_offer(&mut self, now: Time, offer: Terms, outbox: &mut Outbox) {
        let most = self.config.receive;
        // A probe asks for nothing of this end but to count what it throws away.
        let carriage = match offer.carriage {
            Carriage::Probe => Carriage::Probe,
            _ => self.habits.carriage,
        };
        let is_possible = VMSS.contains(&offer.vmss) && offer.carriage == carriage;
        let controls = if is_possible { offer.controls.min(most.controls_max) } else { 0 };
        let guaranteed_bps = offer.guaranteed_bps.min(most.guaranteed_max.get());
        let repair_max = u32::try_from(most.repair_within_max.as_nanos() / 1_000).unwrap_or(u32::MAX);
        let repair_us = if carriage == Carriage::Sealed { offer.repair_us.min(repair_max) } else { 0 };
        let granted = Terms { carriage, controls, guaranteed_bps, repair_us, ..offer };
        if std::mem::take(&mut self.regrants) && controls == 0 {
            self.from = None;
        }
        if controls > 0 && self.from.as_ref().is_none_or(|from| from.terms() != granted) {
            self.from = Some(match carriage {
                Carriage::Native | Carriage::Tunnelled => Incoming::Headers(HeaderReceiver::new(granted)),
                Carriage::Sealed | Carriage::Probe => Incoming::InBand(DatagramReceiver::new(granted, now)),
            });
        }
        self.send(now, &Message::Answer(granted), outbox);
    }

    fn take_answer(&mut self, now: Time, answer: Terms) {
        let To::Offered(offer, _) = &self.to else { return };
        if answer.circuit != offer.circuit || answer.vmss != offer.vmss {
            return;
        }
        // A peer grants less, and never more than was asked for.
        let terms = Terms {
            controls: answer.controls.min(offer.controls),
            guaranteed_bps: answer.guaranteed_bps.min(offer.guaranteed_bps),
            repair_us: answer.repair_us.min(offer.repair_us),
            ..*offer
        };
        if terms.controls == 0 || answer.carriage != offer.carriage {
            self.to = To::Refused(answer.carriage, now + REFUSED_AGAIN);
            return;
        }
        self.counters.circuits += 1;
        let send = &self.config.send;
        self.to = To::Circuit(Box::new(match terms.carriage {
            Carriage::Native | Carriage::Tunnelled => Outgoing::Headers(HeaderSender::new(terms, &send.controller)),
            Carriage::Sealed | Carriage::Probe => {
                let unit = u64::from(self.search.length()) + self.way.map_or(0, |way| on_wire(&way, 0));
                Outgoing::InBand(DatagramSender::new(terms, send, Bytes::new(unit)))
            }
        }));
    }

    /// Forgets the sessions and circuits of a peer that has ended: what comes next begins with a hand-shake.
    fn forget(&mut self, now: Time) {
        (self.current, self.previous, self.heard) = (None, None, None);
        (self.to, self.from) = (To::Nothing, None);
        (self.ask_at, self.was_up) = (now + ASK_AGAIN, false);
    }

    /// Does what is due by now. Nothing more is due before the time that it returns.
    pub(super) fn poll(&mut self, now: Time, clock_ns: u64, outbox: &mut Outbox) -> Option<Time> {
        let is_up = self.is_up(now);
        if !is_up {
            (self.to, self.from) = (To::Nothing, None);
            self.way = self.inside.or(self.way);
            if self.was_up {
                // A session that is there was to be renewed much later.
                self.ask_at = now;
            }
        }
        if is_up && !self.was_up {
            self.search.restart(now);
        }
        self.was_up = is_up;
        let mut wake = self.ask(now, clock_ns, outbox);
        if is_up {
            wake = earlier(wake, self.heard.map(|heard| heard + self.habits.dead_after));
            wake = earlier(wake, self.offer(now, outbox));
            wake = earlier(wake, self.acknowledge(now, outbox));
            wake = earlier(wake, self.from.as_mut().and_then(|from| from.give_up(now)));
            wake = earlier(wake, self.search(now, outbox));
        }
        if self.current.as_ref().is_some_and(|session| session.is_alive(now)) {
            let due = self.habits.dead_after / SIGNS;
            if now.since(self.sent) >= due {
                self.send(now, &self.alive(), outbox);
            }
            wake = earlier(wake, Some(self.sent + due));
        }
        wake
    }

    /// Begins a hand-shake if there is no session, if it is old, or if the peer is silent.
    fn ask(&mut self, now: Time, clock_ns: u64, outbox: &mut Outbox) -> Option<Time> {
        let way = self.way?;
        let renewal = self.current.as_ref().filter(|_| self.is_up(now)).map(Session::rekey_at);
        let due = renewal.map_or(self.ask_at, |renewal| renewal.max(self.ask_at));
        if now < due {
            return Some(due);
        }
        let number = self.fresh_number();
        let cookie =
            self.cookie.as_ref().filter(|(_, since)| now.since(*since) < COOKIE_LIFE).map(|(cookie, _)| cookie);
        let Peer { identity, config, .. } = self;
        let (initiation, datagram) =
            handshake::initiate(identity, &config.key, &config.shared, (number, clock_ns), cookie);
        let (proof, is_hastened) = (handshake::proof_of(&datagram), std::mem::take(&mut self.is_hastened));
        self.asking = Some(Asking { initiation, number, proof, is_hastened });
        outbox.push(way, 0, datagram.len(), |out| out.extend_from_slice(&datagram));
        // Not in step with the other end, which may ask as well.
        let jitter = Duration::from_millis(u64::from(number >> 24));
        self.ask_at = now + (ASK_AGAIN * (1 + self.asked_in_vain)).min(ASK_AGAIN_MAX) + jitter;
        self.asked_in_vain += 1;
        Some(self.ask_at)
    }

    fn offer(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        if matches!(&self.to, To::Circuit(to) if to.has_failed()) {
            self.to = To::Nothing;
        }
        let (offer, at) = match &self.to {
            To::Circuit(_) => return None,
            To::Refused(_, at) if now < *at => return Some(*at),
            To::Offered(offer, at) => (*offer, *at),
            To::Nothing | To::Refused(..) => {
                let send = &self.config.send;
                let within = send.repair.map_or(Duration::ZERO, |rules| rules.within);
                let offer = Terms {
                    // Zero is none.
                    circuit: self.random_number().max(1),
                    carriage: self.habits.carriage,
                    controls: send.controls,
                    vmss: send.vmss,
                    guaranteed_bps: send.guaranteed.get(),
                    repair_us: u32::try_from(within.as_nanos() / 1_000).unwrap_or(u32::MAX),
                };
                (offer, now)
            }
        };
        if now < at {
            self.to = To::Offered(offer, at);
            return Some(at);
        }
        self.send(now, &Message::Offer(offer), outbox);
        self.to = To::Offered(offer, now + OFFER_AGAIN);
        Some(now + OFFER_AGAIN)
    }

    /// Sends the probes that are due.
    fn search(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        if self.habits.carriage != Carriage::Sealed {
            return None;
        }
        let (Some(session), Some(way)) = (&mut self.current, self.way) else { return None };
        let sent = &mut self.sent;
        self.search.poll(now, &mut |id, len| {
            seal(session, way, &Message::Probe(Probed { id, len }), outbox);
            *sent = now;
        })
    }

    /// The longest packet that passes to the peer, and whether one has passed on this path; none where the kernel forwards them.
    pub(super) fn mtu(&self) -> Option<(u32, bool)> {
        (self.habits.carriage == Carriage::Sealed).then(|| (self.longest(), self.search.is_confirmed()))
    }

    /// The longest packet that passes to the peer.
    pub(super) fn longest(&self) -> u32 {
        self.search.length() - place_len(&self.config)
    }

    /// The length that the routes to the peer are to let pass from now on, if it is another than so far.
    pub(super) fn mtu_to_route(&mut self) -> Option<u32> {
        let length = self.longest();
        (std::mem::replace(&mut self.routed_mtu, length) != length).then_some(length)
    }

    /// Tells the peer that this end goes.
    pub(super) fn part(&mut self, now: Time, outbox: &mut Outbox) {
        self.send(now, &Message::Goodbye, outbox);
    }

    fn send(&mut self, now: Time, message: &Message<'_>, outbox: &mut Outbox) {
        if let (Some(session), Some(way)) = (&mut self.current, self.way) {
            seal(session, way, message, outbox);
            self.sent = now;
        }
    }

    fn fresh_number(&self) -> u32 {
        self.random_number() << 8 | u32::from(self.number)
    }

    fn random_number(&self) -> u32 {
        let mut bytes = [0; 4];
        self.random.fill(&mut bytes).expect("the system has random numbers");
        u32::from_be_bytes(bytes)
    }
}

/// Bytes of a packet's place, which probes of the path's MTU are longer by where packets may have one.
fn place_len(config: &PeerConfig) -> u32 {
    config.send.repair.map_or(0, |_| PLACE as u32)
}

#[cfg(test)]
mod tests;
