//! A TCP connection (RFC 9293): set-up, close, and the segments in between. It counts bytes and never holds them.

mod handshake;

use super::counters::SenderCounters;
use super::personality::Personality;
use super::receiver::Receiver;
use super::rto::Rto;
use super::segment::{Flags, Options, Segment};
use super::sender::{Heard, Piece, Sender};
use super::{seq, timestamp};
use crate::time::{Duration, Time, earlier};
use crate::units::Bytes;

/// RFC 9293 s3.4.1 asks for 2 MSL with an MSL of two minutes; Linux and BSD wait one minute in all.
const TIME_WAIT: Duration = Duration::from_secs(60);
/// SYNs sent before giving up: with 3 s and doubling, more than the three minutes of RFC 1122 s4.2.3.5.
const SYN_ATTEMPTS: u32 = 7;
/// How long a timestamp is compared with (RFC 7323 s5.5).
const TIMESTAMP_LIFE: Duration = Duration::from_secs(24 * 24 * 3_600);

/// What a connection wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// This segment leaves now.
    Send(Segment),
    /// Nothing more until this time, or until a segment arrives or the application acts.
    Wait(Option<Time>),
}

/// RFC 9293 s3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "RFC 9293 s3.3.2 names and defines them")]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// Why a connection ended without both ends closing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The peer reset it.
    Reset,
    /// The peer refused it: a reset in answer to the SYN.
    Refused,
    /// The peer did not answer for too long.
    TimedOut,
    /// The application aborted it.
    Aborted,
}

/// The state of the sending half, for traces. Positions are bytes of the stream, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX` before the first congestion.
    pub ssthresh: Bytes,
    /// Bytes believed to be in the network.
    pub in_flight: Bytes,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// Smoothed round trip, once measured.
    pub srtt: Option<Duration>,
    /// Oldest byte not acknowledged.
    pub una: u64,
    /// Next byte to send.
    pub nxt: u64,
}

/// One end of a connection that both ends agreed on beforehand; see [`Connection::pair`].
#[derive(Clone, Copy, Debug)]
pub struct PairedEnd<'a> {
    /// Its options.
    pub personality: &'a Personality,
    /// Its initial sequence number.
    pub isn: u32,
    /// How long before time zero its coarse clock ticked last.
    pub clock_phase: Duration,
}

/// One end of a TCP connection.
///
/// A driver calls [`poll`](Connection::poll) after every other call that takes the time, until it returns
/// [`Output::Wait`]; in particular after every [`receive`](Connection::receive), because acknowledgements that are
/// due are not counted but remembered.
///
/// What every segment touches stands first and together (`repr(C)`): with hundreds of connections, what a segment costs
/// is cache lines.
#[derive(Debug)]
#[repr(C)]
pub struct Connection {
    phase: Phase,
    fin_sent: bool,
    /// The application has aborted; a RST is to be sent.
    reset_due: bool,
    /// The application has closed before the sender existed.
    closing: bool,
    /// The peer's FIN came before ours left: no TIME-WAIT for us.
    passive_close: bool,
    fault: Option<Fault>,
    isn: u32,
    /// The peer's initial sequence number, once known.
    irs: u32,
    /// RFC 7323 TS.Recent, when it was taken, and the last position acknowledged.
    ts_recent: u32,
    ts_recent_at: Time,
    last_ack_sent: u64,
    sender: Option<Box<Sender>>,
    /// A segment in answer to one that belongs to nothing.
    answer: Option<Box<Segment>>,
    /// Sequence number and acknowledgement of the segment whose window was taken last (RFC 9293 SND.WL1, WL2).
    window_from: (u64, u64),
    agreed: Agreed,
    receiver: Receiver,
    time_wait_until: Option<Time>,
    clock_phase: Duration,
    /// What the hand-shake needs, until it is over.
    hello: Option<Box<Hello>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Open,
    TimeWait,
}

/// What the two SYNs agreed on.
#[derive(Clone, Copy, Debug, Default)]
struct Agreed {
    /// Smaller of the two MSS options.
    mss: u64,
    timestamps: bool,
    sack: bool,
    /// Shift of the windows that the peer offers and that we offer, if scaling was agreed.
    scale: Option<(u8, u8)>,
}

#[derive(Clone, Debug)]
struct Hello {
    personality: Personality,
    rto: Rto,
    /// When the SYN or SYN-ACK is to be sent (again).
    due: Option<Time>,
    /// Times that the timer had it sent.
    attempts: u32,
    /// Times that it was sent, answers to a repeated SYN included, and when last.
    copies: u32,
    sent: Time,
}

impl Connection {
    /// Active open: the first poll sends the SYN. `clock_phase` is how long before time zero the sender's coarse clock
    /// ticked last.
    pub fn connect(personality: &Personality, isn: u32, clock_phase: Duration) -> Connection {
        let mut connection = Connection::new(personality, isn, clock_phase, Phase::SynSent);
        connection.hello.as_mut().expect("it has not begun").due = Some(Time::ZERO);
        connection
    }

    /// Passive open: waits for a SYN.
    pub fn listen(personality: &Personality, isn: u32, clock_phase: Duration) -> Connection {
        Connection::new(personality, isn, clock_phase, Phase::Listen)
    }

    /// Two ends of a connection that is established without a hand-shake, as simulators do. Neither has a round-trip
    /// sample.
    pub fn pair(a: PairedEnd<'_>, b: PairedEnd<'_>) -> (Connection, Connection) {
        let mut first = Connection::new(a.personality, a.isn, a.clock_phase, Phase::SynReceived);
        let mut second = Connection::new(b.personality, b.isn, b.clock_phase, Phase::SynReceived);
        let (hello_first, hello_second) = (first.syn_options(), second.syn_options());
        first.agree(&hello_second);
        second.agree(&hello_first);
        (first.irs, second.irs) = (b.isn, a.isn);
        let (first_edge, second_edge) = (first.receiver.edge(), second.receiver.edge());
        first.open(second_edge, 0);
        second.open(first_edge, 0);
        (first, second)
    }

    fn new(personality: &Personality, isn: u32, clock_phase: Duration, phase: Phase) -> Connection {
        let rto = Rto::new(personality.rto, clock_phase);
        let rto = if personality.era.nearest_tick { rto.rounding_to_nearest_tick() } else { rto };
        Connection {
            isn,
            irs: 0,
            phase,
            fault: None,
            agreed: Agreed::default(),
            clock_phase,
            hello: Some(Box::new(Hello {
                personality: personality.clone(),
                rto,
                due: None,
                attempts: 0,
                copies: 0,
                sent: Time::ZERO,
            })),
            sender: None,
            receiver: Receiver::new(personality, clock_phase),
            closing: false,
            reset_due: false,
            answer: None,
            fin_sent: false,
            passive_close: false,
            time_wait_until: None,
            window_from: (0, 0),
            ts_recent: 0,
            ts_recent_at: Time::ZERO,
            last_ack_sent: 0,
        }
    }

    /// Offers `len` bytes to the send buffer; returns how many it took, 0 before the connection is established. After
    /// a refusal, in whole or in part, no small segment is sent until the rest is written or the stream closed.
    pub fn write(&mut self, len: Bytes) -> Bytes {
        match &mut self.sender {
            Some(sender) if !self.closing && self.phase == Phase::Open => Bytes::new(sender.write(len.get())),
            _ => Bytes::ZERO,
        }
    }

    /// From now on each write is a segment of its own, however long, and sent again as such: what waits is one packet after
    /// another, and no stream. Such a connection is not closed.
    ///
    /// # Panics
    /// If the connection is not established, or something was written.
    pub fn keep_records(&mut self) {
        self.sender.as_mut().expect("a connection that is established").keep_records();
    }

    /// Bytes of free send buffer.
    pub fn space(&self) -> Bytes {
        Bytes::new(self.sender.as_ref().map_or(0, |sender| sender.space()))
    }

    /// No more will be written: a FIN follows what was. The other direction stays open.
    pub fn close(&mut self) {
        self.closing = true;
        match (&mut self.sender, self.phase) {
            (Some(sender), _) => sender.close(),
            // RFC 9293 s3.10.4: nothing was established, so nothing is left to close.
            (None, Phase::Listen | Phase::SynSent) => self.phase = Phase::Closed,
            (None, _) => {}
        }
    }

    /// Ends the connection at once; a RST tells the peer.
    pub fn abort(&mut self) {
        // RFC 9293 s3.10.5: in CLOSING, LAST-ACK and TIME-WAIT the peer expects nothing more.
        let both_closed = self.fin_sent && self.receiver.has_fin();
        self.reset_due = matches!(self.phase, Phase::SynReceived | Phase::Open) && !both_closed;
        self.end(Fault::Aborted);
    }

    /// In-order bytes that the application has not read.
    pub fn readable(&self) -> Bytes {
        Bytes::new(self.receiver.readable())
    }

    /// The application reads up to `len` bytes; returns how many there were.
    pub fn read(&mut self, len: Bytes) -> Bytes {
        Bytes::new(self.receiver.read(len.get()))
    }

    /// Bytes received in order so far, read or not.
    pub fn received(&self) -> Bytes {
        Bytes::new(self.receiver.received())
    }

    /// Bytes written that the peer has acknowledged.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.sender.as_ref().map_or(0, |sender| sender.acknowledged()))
    }

    /// True once the hand-shake is done, until the connection ends.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Open
    }

    /// True once the peer has closed its direction and all its data has arrived.
    pub fn is_peer_closed(&self) -> bool {
        self.receiver.has_fin()
    }

    /// The state in RFC 9293's terms.
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Listen => State::Listen,
            Phase::SynSent => State::SynSent,
            Phase::SynReceived => State::SynReceived,
            Phase::TimeWait => State::TimeWait,
            Phase::Open => {
                let fin_acked = self.sender.as_ref().is_some_and(|sender| sender.is_done());
                match (self.fin_sent, fin_acked, self.receiver.has_fin()) {
                    (false, _, false) => State::Established,
                    (false, _, true) => State::CloseWait,
                    (true, false, false) => State::FinWait1,
                    (true, true, false) => State::FinWait2,
                    (true, _, true) if self.passive_close => State::LastAck,
                    (true, _, true) => State::Closing,
                }
            }
        }
    }

    /// Why the connection ended, if it did not end well.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// What the sending half has done so far.
    pub fn counters(&self) -> SenderCounters {
        self.sender.as_ref().map_or_else(SenderCounters::default, |sender| sender.flight.counters)
    }

    /// Segments with payload that brought the receiving half nothing new.
    pub fn duplicates_received(&self) -> u64 {
        self.receiver.duplicates()
    }

    /// The round trip measured since the last call, exact, if any.
    pub fn take_rtt(&mut self) -> Option<Duration> {
        self.sender.as_mut()?.flight.rtt.take()
    }

    /// For a connection that only controls errors: how many duplicate acknowledgements mean that what it sent again was lost
    /// again. The window of whoever says when it sends, in segments.
    pub fn set_patience(&mut self, segments: u64) {
        if let Some(sender) = &mut self.sender {
            sender.set_patience(segments);
        }
    }

    /// The congestion window; zero before the connection is established.
    pub fn window(&self) -> Bytes {
        self.sender.as_ref().map_or(Bytes::ZERO, |sender| sender.flight.controller.window())
    }

    /// The state of the sending half; `None` before the connection is established.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let sender = self.sender.as_ref()?;
        let flight = &sender.flight;
        Some(Snapshot {
            cwnd: flight.controller.window(),
            ssthresh: flight.controller.threshold(),
            in_flight: Bytes::new(sender.in_flight()),
            rto: flight.rto.timeout(),
            srtt: flight.rto.srtt(),
            una: flight.una - 1,
            nxt: flight.nxt - 1,
        })
    }

    /// Payload bytes of a full segment, options taken off; 0 before the SYNs have agreed.
    pub fn mss(&self) -> Bytes {
        Bytes::new(self.payload_max())
    }

    /// The byte of our stream, from 0, at which a segment of ours begins.
    pub fn offset_of(&self, segment: &Segment) -> Option<u64> {
        let near = self.sender.as_ref().map_or(0, |sender| sender.flight.una);
        seq::position(self.isn, segment.seq, near)?.checked_sub(1)
    }

    /// The byte of the peer's stream, from 0, at which a segment of the peer's begins.
    pub fn offset_of_peer(&self, segment: &Segment) -> Option<u64> {
        seq::position(self.irs, segment.seq, self.receiver.next())?.checked_sub(1)
    }

    /// Takes a segment that arrived for this connection (RFC 9293 s3.10.7).
    pub fn receive(&mut self, now: Time, segment: &Segment) {
        match self.phase {
            Phase::Closed => self.refuse(segment),
            Phase::Listen => self.receive_in_listen(now, segment),
            Phase::SynSent => self.receive_in_syn_sent(now, segment),
            Phase::SynReceived | Phase::Open | Phase::TimeWait => self.receive_synchronised(now, segment),
        }
    }

    /// RFC 9293 s3.10.7.1: a segment for no connection is answered with a RST, unless it is one.
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.rst {
            return;
        }
        let mut answer = Segment { flags: Flags { rst: true, ..Flags::default() }, ..Segment::default() };
        if segment.flags.ack {
            answer.seq = segment.ack;
        } else {
            answer.flags.ack = true;
            answer.ack = segment.seq.wrapping_add(segment.seq_len());
        }
        self.answer = Some(Box::new(answer));
    }

    fn receive_synchronised(&mut self, now: Time, segment: &Segment) {
        if self.is_expected_data(segment) {
            let start = self.receiver.next();
            self.window_from.0 = start;
            self.receiver.arrive(now, start, u64::from(segment.len), false);
            return;
        }
        if !self.is_acceptable(now, segment) {
            if self.phase == Phase::SynReceived && segment.flags.syn && !segment.flags.ack && segment.seq == self.irs {
                // The peer is still in SYN-SENT, where a bare ACK would not help it.
                let again = self.hello_segment(now);
                self.answer = Some(Box::new(again));
            } else if !segment.flags.rst {
                self.note_repeat(now, segment);
                self.receiver.acknowledge();
            }
            return;
        }
        if segment.flags.rst {
            // RFC 9293 s3.10.7.4, from RFC 5961: only the exact number resets; others in the window are challenged.
            if segment.seq == seq::number(self.irs, self.receiver.next()) {
                // In CLOSING, LAST-ACK and TIME-WAIT nothing is lost by it.
                if self.fin_sent && self.receiver.has_fin() {
                    self.phase = Phase::Closed;
                } else {
                    self.end(Fault::Reset);
                }
            } else {
                self.receiver.acknowledge();
            }
            return;
        }
        if segment.flags.syn {
            // Step 4, from RFC 5961 s4: challenged. Going back to LISTEN is for whoever owns the listening socket.
            self.receiver.acknowledge();
            return;
        }
        if !segment.flags.ack {
            return;
        }
        self.update_ts_recent(now, segment);
        if self.phase == Phase::SynReceived {
            if segment.ack != self.isn.wrapping_add(1) {
                self.refuse(segment);
                return;
            }
            let opens = self.hello.as_ref().is_some_and(|hello| hello.personality.era.handshake_ack_opens_window);
            self.establish(now, segment, if opens { self.payload_max() } else { 0 });
        }
        if !self.take_acknowledgement(now, segment) {
            self.receiver.acknowledge();
            return;
        }
        self.take_data(now, segment);
        self.settle_close(now);
    }

    /// Header prediction (Jacobson 1990): the next data in order, which acknowledge nothing new, for an end that has
    /// nothing under way. Nothing but the receiver has to do with such a segment, and most are like it.
    #[inline]
    fn is_expected_data(&self, segment: &Segment) -> bool {
        let Some(sender) = &self.sender else { return false };
        let (next, una) = (self.receiver.next(), sender.flight.una);
        let window = u64::from(segment.window) << self.agreed.scale.map_or(0, |(theirs, _)| theirs);
        self.phase == Phase::Open
            && segment.flags.is_plain()
            && segment.seq == seq::number(self.irs, next)
            && segment.ack == seq::number(self.isn, una)
            && una == sender.flight.max
            && una + window == sender.flight.edge
            && una == self.window_from.1
            && next >= self.window_from.0
            && segment.len > 0
            && next + u64::from(segment.len) <= self.receiver.edge()
            && !self.agreed.timestamps
            && segment.options.sack.is_empty()
            && !self.receiver.has_fin()
    }

    /// RFC 9293 s3.4: some of it lies in the window; RFC 7323 s5.3: and it is not older than what came before.
    fn is_acceptable(&self, now: Time, segment: &Segment) -> bool {
        if self.agreed.timestamps
            && !segment.flags.rst
            && segment.options.timestamps.is_some_and(|(value, _)| seq::older(value, self.ts_recent))
            && !self.ts_recent_expired(now)
        {
            return false;
        }
        let Some(start) = seq::position(self.irs, segment.seq, self.receiver.next()) else {
            return false;
        };
        let (next, edge, len) = (self.receiver.next(), self.receiver.edge(), u64::from(segment.seq_len()));
        if len == 0 {
            // A FIN that fills the window lies one beyond it, and what follows has the number after that.
            return start >= next && start <= edge.max(next);
        }
        start < edge && start + len > next
    }

    /// A repetition of what has arrived: counted, and reported by D-SACK.
    fn note_repeat(&mut self, now: Time, segment: &Segment) {
        if let Some(start) = seq::position(self.irs, segment.seq, self.receiver.next()) {
            self.receiver.note_repeat(start, u64::from(segment.len));
        }
        if self.phase == Phase::TimeWait && segment.flags.fin {
            // RFC 9293 s3.10.7.4: a repeated FIN restarts the wait.
            self.time_wait_until = Some(now + TIME_WAIT);
        }
    }

    /// RFC 7323 s5.5: after 24 days of silence the peer's clock may have wrapped half way round.
    fn ts_recent_expired(&self, now: Time) -> bool {
        now.since(self.ts_recent_at) > TIMESTAMP_LIFE
    }

    fn update_ts_recent(&mut self, now: Time, segment: &Segment) {
        // RFC 7323 s4.3: only a segment that spans the last acknowledgement sent may be echoed.
        if let Some((value, _)) = segment.options.timestamps
            && let Some(start) = seq::position(self.irs, segment.seq, self.receiver.next())
            && start <= self.last_ack_sent
            && (!seq::older(value, self.ts_recent) || self.ts_recent_expired(now))
        {
            self.ts_recent = value;
            self.ts_recent_at = now;
        }
    }

    /// False if the segment acknowledges what was never sent.
    fn take_acknowledgement(&mut self, now: Time, segment: &Segment) -> bool {
        let Some(sender) = &mut self.sender else { return true };
        let base = sender.flight.una;
        let Some(una) = seq::position(self.isn, segment.ack, base) else { return false };
        if !sender.may_acknowledge(una) {
            return false;
        }
        let start = seq::position(self.irs, segment.seq, self.receiver.next()).unwrap_or(0);
        let fresh = (start, una) >= self.window_from;
        if fresh {
            self.window_from = (start, una);
        }
        let mut sacks = [(0, 0); 4];
        let mut count = 0;
        let mut dsack = None;
        if self.agreed.sack {
            for &(left, right) in segment.options.sack.as_slice() {
                let edges = seq::position(self.isn, left, base).zip(seq::position(self.isn, right, base));
                let Some((left, right)) = edges.filter(|&(left, right)| left < right && right <= sender.flight.max)
                else {
                    continue;
                };
                if right <= una {
                    // RFC 2883 s4: below the acknowledgement, so it arrived twice.
                    dsack = Some((left, right));
                } else {
                    sacks[count] = (left, right);
                    count += 1;
                }
            }
            // RFC 2883 s4.1: a first block that lies within the second is a duplicate beyond the acknowledgement.
            if count >= 2 && sacks[1].0 <= sacks[0].0 && sacks[0].1 <= sacks[1].1 {
                dsack = Some(sacks[0]);
            }
            // The receiver reports the newest first; in order of the stream, none looks overtaken.
            sacks[..count].sort_unstable();
        }
        let echoed = segment
            .options
            .timestamps
            .filter(|_| self.agreed.timestamps)
            .map(|(_, echo)| timestamp::sent_at(now, echo));
        let heard = Heard {
            now,
            una,
            window: u64::from(segment.window) << self.agreed.scale.map_or(0, |(theirs, _)| theirs),
            carries_data: segment.len > 0 || segment.flags.fin,
            sacks: &sacks[..count],
            dsack,
            echoed,
        };
        sender.hear(&heard, fresh);
        true
    }

    fn take_data(&mut self, now: Time, segment: &Segment) {
        if segment.len == 0 && !segment.flags.fin {
            return;
        }
        let had_fin = self.receiver.has_fin();
        if let Some(start) = seq::position(self.irs, segment.seq, self.receiver.next()) {
            self.receiver.arrive(now, start, u64::from(segment.len), segment.flags.fin);
        }
        if !had_fin && self.receiver.has_fin() && !self.fin_sent {
            self.passive_close = true;
        }
    }

    fn settle_close(&mut self, now: Time) {
        let fin_acked = self.sender.as_ref().is_some_and(|sender| sender.is_done());
        if self.phase == Phase::Open && fin_acked && self.receiver.has_fin() {
            if self.passive_close {
                self.phase = Phase::Closed;
            } else {
                self.phase = Phase::TimeWait;
                self.time_wait_until = Some(now + TIME_WAIT);
            }
        }
    }

    fn end(&mut self, fault: Fault) {
        if self.phase != Phase::Closed {
            self.fault = Some(fault);
            self.phase = Phase::Closed;
        }
        self.hello = None;
        self.time_wait_until = None;
    }

    /// For an end that only receives, as most do most of the time: what a poll now would wait for, without the poll
    /// (`Time::MAX`: for no time). `None` if only a poll can tell.
    #[inline]
    pub fn quiet_until(&self, now: Time) -> Option<Time> {
        let idle = self.phase == Phase::Open
            && self.sender.as_ref().is_some_and(|sender| sender.has_nothing_to_send())
            && self.answer.is_none()
            && !self.reset_due
            && !self.receiver.wants_acknowledgement(now);
        idle.then(|| self.receiver.deadline().unwrap_or(Time::MAX))
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        if let Some(answer) = self.answer.take() {
            return Output::Send(*answer);
        }
        if std::mem::take(&mut self.reset_due) {
            return Output::Send(self.reset());
        }
        match self.phase {
            Phase::Closed | Phase::Listen => Output::Wait(None),
            Phase::SynSent | Phase::SynReceived => self.poll_hello(now),
            Phase::Open => self.poll_open(now),
            Phase::TimeWait => {
                if self.time_wait_until.is_some_and(|until| until <= now) {
                    self.phase = Phase::Closed;
                    return Output::Wait(None);
                }
                match self.poll_acknowledgement(now) {
                    Some(segment) => Output::Send(segment),
                    None => Output::Wait(self.time_wait_until),
                }
            }
        }
    }

    /// Runs the timers, and says whether a [`poll`](Connection::poll) now would send data, new or again: for who decides
    /// when they leave. He asks when there is something to send, writes beforehand, and lets the connection answer its
    /// peer with [`poll_without_data`](Connection::poll_without_data) meanwhile.
    pub fn wants_to_send(&mut self, now: Time) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        if self.phase != Phase::Open {
            return false;
        }
        sender.tick(now);
        if sender.gives_up() {
            self.end(Fault::TimedOut);
            return false;
        }
        sender.is_ready(now)
    }

    /// When [`wants_to_send`](Connection::wants_to_send) may say something else, if no segment arrives before.
    pub fn send_deadline(&self) -> Option<Time> {
        self.sender.as_ref().filter(|_| self.phase == Phase::Open).and_then(|sender| sender.deadline())
    }

    /// As [`poll`](Connection::poll), but an established connection sends only acknowledgements and answers, and no timer
    /// of its sending half expires.
    pub fn poll_without_data(&mut self, now: Time) -> Output {
        if self.phase != Phase::Open || self.answer.is_some() || self.reset_due {
            return self.poll(now);
        }
        match self.poll_acknowledgement(now) {
            Some(segment) => Output::Send(segment),
            None => Output::Wait(self.receiver.deadline()),
        }
    }

    fn poll_open(&mut self, now: Time) -> Output {
        let Some(sender) = &mut self.sender else { unreachable!("an open connection has a sender") };
        sender.tick(now);
        if sender.gives_up() {
            self.end(Fault::TimedOut);
            return Output::Wait(None);
        }
        // RFC 5681 s2: a duplicate ACK carries no data; with SACK blocks a full segment has no room for any.
        if self.receiver.wants_bare_acknowledgement()
            && let Some(segment) = self.poll_acknowledgement(now)
        {
            return Output::Send(segment);
        }
        let Some(sender) = &mut self.sender else { unreachable!("an open connection has a sender") };
        if let Some(piece) = sender.next(now) {
            return Output::Send(self.data_segment(now, piece));
        }
        match self.poll_acknowledgement(now) {
            Some(segment) => Output::Send(segment),
            None if self.sender.as_ref().is_some_and(|sender| sender.gives_up()) => {
                self.end(Fault::TimedOut);
                Output::Wait(None)
            }
            None => {
                let sender = self.sender.as_ref().and_then(|sender| sender.deadline());
                Output::Wait(earlier(sender, self.receiver.deadline()))
            }
        }
    }

    fn poll_acknowledgement(&mut self, now: Time) -> Option<Segment> {
        if !self.receiver.wants_acknowledgement(now) {
            return None;
        }
        let nxt = self.sender.as_ref().map_or(1, |sender| sender.flight.max);
        let mut segment = self.header(now, nxt);
        if self.agreed.sack {
            // Four blocks fit into the options, three beside timestamps (RFC 2018 s3).
            let blocks_max = if self.agreed.timestamps { 3 } else { 4 };
            segment.options.sack = self.receiver.sack_blocks(self.irs, blocks_max);
        }
        Some(segment)
    }

    fn data_segment(&mut self, now: Time, piece: Piece) -> Segment {
        let mut segment = self.header(now, piece.start);
        segment.len = piece.len as u32;
        segment.flags.fin = piece.fin;
        segment.flags.psh = piece.fin;
        self.fin_sent |= piece.fin;
        segment
    }

    /// A segment at position `start` that acknowledges all that has arrived.
    fn header(&mut self, now: Time, start: u64) -> Segment {
        let (ack, window) = self.receiver.acknowledged();
        self.last_ack_sent = ack;
        let shift = self.agreed.scale.map_or(0, |(_, ours)| ours);
        Segment {
            seq: seq::number(self.isn, start),
            ack: seq::number(self.irs, ack),
            len: 0,
            window: (window >> shift).min(65_535) as u16,
            flags: Flags { ack: true, ..Flags::default() },
            options: Options {
                timestamps: self.agreed.timestamps.then_some((timestamp::value(now), self.ts_recent)),
                ..Options::default()
            },
        }
    }

    fn reset(&mut self) -> Segment {
        // Not SND.NXT, which goes back after a timeout: the peer may have it all, and ignores what lies left of its window.
        let start = self.sender.as_ref().map_or(1, |sender| sender.flight.max);
        let ack = self.receiver.next();
        Segment {
            seq: seq::number(self.isn, start),
            ack: seq::number(self.irs, ack),
            flags: Flags { rst: true, ack: true, ..Flags::default() },
            ..Segment::default()
        }
    }

    /// How long before time zero this end's coarse clock ticked last.
    pub fn clock_phase(&self) -> Duration {
        self.clock_phase
    }
}
