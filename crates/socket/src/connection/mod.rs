//! A connection, once both ends have keys: datagrams and time in, datagrams and the next wake-up out.

mod outgoing;

use std::fmt;

use headend_datagram::{Cipher, Outbox, PublicKey, Way};
use headend_engine::circuit::in_band::{Fate, Receiver};
use headend_engine::time::{Duration, Time, earlier};
use headend_engine::units::{Bytes, Rate};

use crate::config::Config;
use crate::frame::{self, Frame, Frames};
use crate::streams::{Budget, Limits, StreamError, StreamId, Streams, Violation};
use crate::unreliable::Path;
use crate::wire::{self, Terms};
use outgoing::Outgoing;

/// Datagrams that make an acknowledgement due (RFC 9000 s13.2.2).
const ACKNOWLEDGE_EVERY: u32 = 2;
/// Datagrams that leave in one round at most, before others have their turn.
const DATAGRAMS_A_ROUND: usize = 192;
/// The time for which an end that has closed a connection tells so whoever writes to it.
const LINGER: Duration = Duration::from_secs(3);
/// The least time between two such answers, and between two challenges.
const PAUSE: Duration = Duration::from_millis(100);
/// The round trip before one is known (RFC 9002 s6.2.2).
const RTT_INITIAL: Duration = Duration::from_millis(333);
/// Messages after which a connection ends: the numbers of its datagrams have 48 bits. Keys are renewed long before.
const MESSAGES_MAX: u64 = 1 << 47;

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// This end has closed it.
    #[error("the connection was closed here")]
    Here,
    /// The peer has closed it.
    #[error("the peer has closed the connection (code {code}): {reason}")]
    Peer {
        /// The peer's code.
        code: u64,
        /// The peer's words.
        reason: String,
    },
    /// Nothing came for longer than an idle connection lives.
    #[error("nothing was heard of the peer for {} s", .0.as_nanos() / 1_000_000_000)]
    Silent(Duration),
    /// The peer has broken the rules of the protocol.
    #[error("the peer has broken the protocol: {0}")]
    Violation(&'static str),
    /// The server does not know the connection any more, because it has started anew.
    #[error("the server does not know the connection any more: it has started anew")]
    Gone,
    /// The server has not answered.
    #[error(
        "no answer from {0}: is its address right, does it serve UDP there, and does it have this client's key in its \
         list, and this client the server's?"
    )]
    NoAnswer(std::net::SocketAddr),
    /// As many messages as it has numbers for.
    #[error("the connection has carried as many datagrams as it has numbers for: connect again")]
    WornOut,
    /// Its endpoint has ended, not because it was closed.
    #[error("the endpoint can do nothing any more: {0}")]
    Failed(String),
}

/// Counts of a connection so far, and what it is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The window of what may be under way, and what is.
    pub window: Bytes,
    /// Bytes under way.
    pub in_flight: Bytes,
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// Numbered datagrams that left.
    pub sent: u64,
    /// Those that were acknowledged.
    pub delivered: u64,
    /// Those that were lost, without those that came after all.
    pub lost: u64,
    /// Times that a window shrank.
    pub reductions: u64,
    /// Probe timeouts.
    pub probes: u64,
    /// Times that the path changed.
    pub moves: u64,
    /// Bytes of a datagram.
    pub datagram: usize,
    /// Streams that have not ended.
    pub streams: usize,
}

/// Another address from which the peer writes, and which it has not shown to hear at.
#[derive(Debug)]
struct Candidate {
    way: Way,
    challenge: [u8; 8],
    asked: Time,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// Closed here; who writes is told so until then.
    Closing {
        until: Time,
        code: u64,
        reason: String,
        /// When it may be told again; at once at first.
        next: Time,
    },
    Over,
}

/// A connection.
pub(crate) struct Connection {
    is_client: bool,
    cipher: Cipher,
    /// The id under which the peer writes here, and that under which it is written to.
    pub(crate) ours: u64,
    theirs: u64,
    pub(crate) peer: PublicKey,
    pub(crate) way: Way,
    candidate: Option<Candidate>,
    response: Option<([u8; 8], Way)>,
    idle: Duration,
    keep_alive: Option<Duration>,
    controller: headend_engine::cc::Algorithm,
    outgoing: Outgoing,
    circuit_in: u8,
    receiver: Receiver,
    pub(crate) streams: Streams,
    heard: Time,
    /// When something last left that the peer answers.
    spoke: Time,
    handshake_rtt: Option<Duration>,
    phase: Phase,
    ended: Option<Ended>,
    moves: u64,
    random: u64,
    plain: Vec<u8>,
}

/// What a hand-shake yields.
pub(crate) struct Agreed {
    pub(crate) is_client: bool,
    pub(crate) cipher: Cipher,
    pub(crate) ours: u64,
    pub(crate) theirs: u64,
    pub(crate) peer: PublicKey,
    pub(crate) way: Way,
    pub(crate) terms: Terms,
    pub(crate) rtt: Option<Duration>,
    pub(crate) random: u64,
}

impl Connection {
    /// A connection on what was agreed.
    pub(crate) fn new(now: Time, agreed: Agreed, config: &Config, budget: Budget) -> Connection {
        let Agreed { is_client, cipher, ours, theirs, peer, way, terms, rtt, random } = agreed;
        let limits = Limits {
            window: config.window.into(),
            window_max: config.window_max.into(),
            streams: config.streams_max.into(),
            frames: config.frames.into(),
        };
        let idle = match terms.idle_ms {
            0 => config.idle,
            ms => config.idle.min(Duration::from_millis(ms.into())),
        };
        Connection {
            is_client,
            cipher,
            ours,
            theirs,
            peer,
            way,
            candidate: None,
            response: None,
            idle,
            keep_alive: config.keep_alive.filter(|_| is_client).map(|pause| pause.min(idle / 3)),
            controller: config.controller.clone(),
            outgoing: Outgoing::new(0, &config.controller, &way, random),
            circuit_in: 0,
            receiver: Receiver::new(ACKNOWLEDGE_EVERY),
            streams: Streams::new(is_client, limits, &terms, budget),
            heard: now,
            spoke: now,
            handshake_rtt: rtt,
            phase: Phase::Open,
            ended: None,
            moves: 0,
            random,
            plain: Vec::with_capacity(1_500),
        }
    }

    /// Why it has ended, if it has.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Returns true if nothing is to be kept of it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let counters = self.outgoing.sender.counters();
        Snapshot {
            window: self.outgoing.sender.window(),
            in_flight: self.outgoing.sender.in_flight(),
            rtt: self.outgoing.sender.rtt(),
            sent: counters.datagrams,
            delivered: counters.delivered,
            lost: counters.lost.saturating_sub(counters.late),
            reductions: counters.reductions,
            probes: counters.probes,
            moves: self.moves,
            datagram: self.outgoing.datagram(),
            streams: self.streams.len(),
        }
    }

    /// Takes bytes for a stream; none: later.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.streams.write(id, bytes, self.outgoing.sender.window().get())
    }

    /// Closes it. What was written and has not come is lost.
    pub(crate) fn close(&mut self, now: Time, code: u64, reason: &str) {
        self.end(now, Ended::Here, code, reason);
    }

    fn end(&mut self, now: Time, why: Ended, code: u64, reason: &str) {
        if self.ended.is_none() {
            self.ended = Some(why);
            let cut = (0..=reason.len().min(frame::REASON_MAX)).rev().find(|at| reason.is_char_boundary(*at));
            let reason = reason[..cut.unwrap_or(0)].to_owned();
            self.phase = Phase::Closing { until: now + LINGER, code, reason, next: now };
        }
    }

    /// Ends it without a word: there is nobody to hear it.
    pub(crate) fn drop_dead(&mut self, why: Ended) {
        self.ended.get_or_insert(why);
        self.phase = Phase::Over;
    }

    /// Opens a sealed datagram that came, in its place, and acts on its frames. Returns false if it is not authentic.
    pub(crate) fn receive(&mut self, now: Time, way: Way, low: u32, bytes: &mut [u8]) -> bool {
        let number = wire::whole_number(low, self.cipher.next_expected());
        let (header, sealed) = bytes.split_at_mut(wire::SEALED_HEADER);
        let Some(opened) = self.cipher.open(number, header, sealed) else { return false };
        self.heard = now;
        if let Phase::Closing { next, .. } = &mut self.phase {
            *next = (*next).min(now + PAUSE);
            return true;
        }
        let is_newest = opened.is_newest;
        self.set_time(now);
        if let Err(Violation(code, what)) = self.take_frames(now, opened.plain) {
            self.end(now, Ended::Violation(what), code, what);
            return true;
        }
        if is_newest {
            self.look_at_path(now, way);
        }
        true
    }

    fn take_frames(&mut self, now: Time, plain: &[u8]) -> Result<(), Violation> {
        for frame in Frames::new(plain) {
            let frame = frame.map_err(|_| Violation(frame::code::PROTOCOL, "bytes that are no frame"))?;
            match frame {
                Frame::Padding(_) | Frame::Ping => {}
                Frame::Number { circuit, number } => {
                    // All datagrams of the one between may be lost.
                    if (1..128).contains(&circuit.wrapping_sub(self.circuit_in)) {
                        self.circuit_in = circuit;
                        self.receiver = Receiver::new(ACKNOWLEDGE_EVERY);
                    }
                    // Of an older circuit it is of no interest: its sender has given up on it.
                    if circuit == self.circuit_in {
                        self.receiver.receive(now, number);
                    }
                }
                Frame::Acknowledged { circuit, told } => {
                    if circuit == self.outgoing.circuit {
                        let lie = Violation(frame::code::PROTOCOL, "an acknowledgement of what was never sent");
                        self.outgoing.sender.on_acknowledgement(now, &told).map_err(|_| lie)?;
                        self.settle();
                    }
                }
                Frame::Close { code, reason } => {
                    self.ended.get_or_insert(Ended::Peer { code, reason: reason.to_owned() });
                    self.phase = Phase::Over;
                    return Ok(());
                }
                Frame::Challenge(bytes) => self.response = Some((bytes, self.way)),
                Frame::Response(bytes) => {
                    if let Some(candidate) = self.candidate.take_if(|candidate| candidate.challenge == bytes) {
                        self.move_to(candidate.way);
                    }
                }
                frame => self.streams.take(&frame)?,
            }
        }
        Ok(())
    }

    /// A server follows a client whose newest datagram came from elsewhere, once it has shown that it hears there: until then
    /// nothing but a challenge goes there (RFC 9000 s9.3, s8.1).
    fn look_at_path(&mut self, now: Time, way: Way) {
        if self.is_client || way.to == self.way.to {
            self.candidate = None;
            return;
        }
        let is_known = self.candidate.as_ref().is_some_and(|candidate| candidate.way.to == way.to);
        if !is_known {
            let challenge = self.draw().to_be_bytes();
            let asked = Time::ZERO;
            self.candidate = Some(Candidate { way, challenge, asked });
        }
        if let Some(candidate) = &mut self.candidate {
            // Nothing goes to an address from which nothing came since.
            candidate.asked = if now.since(candidate.asked) >= PAUSE { Time::ZERO } else { candidate.asked };
        }
    }

    /// Another path: what was learnt of the old one is worth nothing, and what is under way there counts as lost.
    fn move_to(&mut self, way: Way) {
        self.way = way;
        self.moves += 1;
        let circuit = self.outgoing.circuit.wrapping_add(1);
        let seed = self.draw();
        let old = std::mem::replace(&mut self.outgoing, Outgoing::new(circuit, &self.controller, &way, seed));
        for item in old.into_items() {
            self.streams.on_lost(item);
        }
    }

    fn rtt(&self) -> Duration {
        self.outgoing.sender.rtt().or(self.handshake_rtt).unwrap_or(RTT_INITIAL)
    }

    fn set_time(&mut self, now: Time) {
        let rtt = self.rtt();
        self.streams.set_time(now, rtt);
        // Half of the shortest round trip is the way there; what is longer now waits before the bottleneck, on the way there.
        let trip = self.outgoing.sender.rtt_least().unwrap_or(Duration::ZERO) / 2;
        let path = Path { trip, trip_now: rtt.saturating_sub(trip), rate: self.rate() };
        self.streams.frames.sending.set_time(now, path);
        self.streams.frames.receiving.set_time(now);
    }

    /// The rate at which frames can leave, if nothing changes: that of the connection, in equal parts with the streams that have
    /// something to send. `None` before a round trip has been measured.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let (window, rtt) = (self.outgoing.sender.window().get(), self.outgoing.sender.rtt()?);
        let datagram = self.outgoing.datagram();
        let all = u128::from(window) * 8 * 1_000_000_000 / u128::from(rtt.as_nanos().max(1));
        let on_wire = u128::from(self.outgoing.on_wire(datagram).get());
        let mine = all * (datagram - wire::SEAL) as u128 / on_wire / (1 + self.streams.turns_len()) as u128;
        Some(Rate::bit(u64::try_from(mine).unwrap_or(u64::MAX)))
    }

    fn draw(&mut self) -> u64 {
        outgoing::draw(&mut self.random)
    }

    /// Tells the streams what became of their items.
    fn settle(&mut self) {
        while let Some(fate) = self.outgoing.sender.fate() {
            match fate {
                Fate::Delivered(number) => self.outgoing.on_delivered(number, &mut self.streams),
                Fate::Lost(number) => self.outgoing.on_lost(number, &mut self.streams),
                Fate::Late(number) => self.outgoing.on_late(number, &mut self.streams),
            }
        }
    }

    /// Does what is due by now. Nothing more is due before the time that it returns.
    pub(crate) fn poll(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        match &mut self.phase {
            Phase::Over => return None,
            Phase::Closing { until, next, .. } => {
                if now >= *until {
                    self.phase = Phase::Over;
                    return None;
                }
                if now >= *next {
                    *next = Time::MAX;
                    self.tell_end(outbox);
                }
                let Phase::Closing { until, next, .. } = &self.phase else { return None };
                return Some((*until).min(*next));
            }
            Phase::Open => {}
        }
        if now.since(self.heard) >= self.idle {
            self.drop_dead(Ended::Silent(self.idle));
            return None;
        }
        if self.cipher.sent() >= MESSAGES_MAX {
            self.end(now, Ended::WornOut, frame::code::NONE, "no numbers are left");
            return Some(now);
        }
        while self.outgoing.sender.deadline().is_some_and(|due| due <= now) {
            self.outgoing.on_deadline(now);
            self.settle();
        }
        self.answer_paths(now, outbox);
        let mut wake = Some(self.heard + self.idle);
        if let Some(pause) = self.keep_alive {
            let due = self.heard.max(self.spoke) + pause;
            if due <= now {
                self.outgoing.wants_ping = true;
            } else {
                wake = earlier(wake, Some(due));
            }
        }
        let may = self.release(now, outbox);
        wake = earlier(wake, self.streams.rest());
        let frames = &self.streams.frames;
        let told = earlier(self.receiver.deadline(), earlier(frames.sending.deadline(), frames.receiving.deadline()));
        earlier(earlier(wake, may), told)
    }

    fn answer_paths(&mut self, now: Time, outbox: &mut Outbox) {
        if let Some((bytes, way)) = self.response.take() {
            self.seal(way, outbox, &Frame::Response(bytes));
        }
        let due = self.candidate.as_mut().filter(|candidate| candidate.asked == Time::ZERO);
        if let Some(candidate) = due {
            candidate.asked = now.max(Time::from_nanos(1));
            let (way, challenge) = (candidate.way, candidate.challenge);
            self.seal(way, outbox, &Frame::Challenge(challenge));
        }
    }

    fn tell_end(&mut self, outbox: &mut Outbox) {
        let Phase::Closing { code, reason, .. } = &self.phase else { return };
        let (code, reason) = (*code, reason.clone());
        self.seal(self.way, outbox, &Frame::Close { code, reason: &reason });
    }

    /// Sends a frame in a datagram of its own, without a number: nobody acknowledges it.
    fn seal(&mut self, way: Way, outbox: &mut Outbox, frame: &Frame<'_>) {
        self.plain.clear();
        frame.write(&mut self.plain);
        self.push(way, outbox);
    }

    /// Seals what is in `plain`.
    fn push(&mut self, way: Way, outbox: &mut Outbox) {
        let (cipher, theirs, plain) = (&mut self.cipher, self.theirs, &self.plain);
        outbox.push(way, 0, plain.len() + wire::SEAL, |out| {
            cipher.seal(out, |number| wire::sealed_header(theirs, number), |out| out.extend_from_slice(plain));
        });
    }

    /// Lets leave what may, and returns when more may.
    fn release(&mut self, now: Time, outbox: &mut Outbox) -> Option<Time> {
        self.set_time(now);
        for _ in 0..DATAGRAMS_A_ROUND {
            let room = self.outgoing.datagram() - wire::SEAL;
            let on_wire = self.outgoing.on_wire(self.outgoing.datagram());
            let has_something =
                self.streams.has_something() || self.outgoing.wants_ping || self.outgoing.sender.owes_probe();
            let may = has_something && self.outgoing.sender.permits(now, on_wire);
            self.plain.clear();
            if let Some(told) = self.receiver.poll(now) {
                Frame::Acknowledged { circuit: self.circuit_in, told }.write(&mut self.plain);
            }
            if may {
                self.fill(now, room);
            }
            if self.plain.is_empty() {
                if !has_something {
                    self.outgoing.sender.on_nothing_to_send();
                    return self.outgoing.sender.deadline();
                }
                return earlier(self.outgoing.sender.release(now), self.outgoing.sender.deadline());
            }
            self.push(self.way, outbox);
        }
        Some(now)
    }

    /// Fills a numbered datagram behind the acknowledgement in `plain`.
    fn fill(&mut self, now: Time, room: usize) {
        let at = self.plain.len();
        self.outgoing.maybe_skip(now);
        let (circuit, number) = (self.outgoing.circuit, self.outgoing.sender.next_number());
        Frame::Number { circuit, number }.write(&mut self.plain);
        let mut items = self.outgoing.take_items();
        if !self.streams.has_something() && self.outgoing.sender.owes_probe() {
            // Nothing new: what has waited longest for an answer leaves again (RFC 9002 s6.2.4).
            self.outgoing.repeat_oldest(&mut self.streams);
        }
        self.streams.fill(&mut self.plain, room, &mut items);
        if items.is_empty() && !self.outgoing.wants_ping && !self.outgoing.sender.owes_probe() {
            // What wanted to leave does not matter any more.
            self.plain.truncate(at);
            self.outgoing.give_back(items);
            return;
        }
        if items.is_empty() {
            items.push(crate::streams::Item::Ping);
            Frame::Ping.write(&mut self.plain);
        }
        if std::mem::take(&mut self.outgoing.wants_ping)
            && let Some(len) = self.outgoing.probe_len()
        {
            let padding = (len - wire::SEAL).saturating_sub(self.plain.len());
            Frame::Padding(padding).write(&mut self.plain);
        }
        self.spoke = now;
        self.outgoing.on_sent(now, self.plain.len() + wire::SEAL, items);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:016x} at {}, {:?})", self.ours, self.way.to, self.phase)
    }
}

#[cfg(test)]
impl Connection {
    pub(crate) fn next_number(&self) -> u64 {
        self.outgoing.sender.next_number()
    }

    /// Takes frames as if the peer had sent them.
    pub(crate) fn lie(&mut self, now: Time, plain: &[u8]) {
        if self.ended.is_none()
            && let Err(Violation(code, what)) = self.take_frames(now, plain)
        {
            self.end(now, Ended::Violation(what), code, what);
        }
    }
}
