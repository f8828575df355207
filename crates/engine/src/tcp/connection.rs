//! A TCP connection (RFC 9293): set-up, close, and the segments in between. It counts bytes and never holds them.

mod arrive;
mod depart;
mod handshake;

use super::counters::SenderCounters;
use super::ecn::Marks;
use super::personality::{EcnPolicy, Personality};
use super::receiver::Receiver;
use super::rto::Rto;
use super::segment::Segment;
use super::sender::Sender;
use super::seq;
use crate::packet::Ecn;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// RFC 9293 s3.4.1 asks for 2 MSL with an MSL of two minutes; Linux and BSD wait one minute in all.
const TIME_WAIT: Duration = Duration::from_secs(60);
/// SYNs sent before giving up: with 3 s and doubling, more than the three minutes of RFC 1122 s4.2.3.5.
const SYN_ATTEMPTS: u32 = 7;
/// The answer to a poll: a segment to send, or how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// This segment leaves now.
    Send(Segment),
    /// Nothing leaves until this time, or until a segment arrives or the application acts.
    Wait(Option<Time>),
}

/// The state of a connection in the terms of RFC 9293 s3.3.2.
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

/// The reason why a connection ended without both ends closing it.
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
    /// The end's options.
    pub personality: &'a Personality,
    /// The end's initial sequence number.
    pub isn: u32,
    /// The time between the last tick of its coarse clock and time zero.
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
    /// TS.Recent of RFC 7323, the time at which it was taken, and the last position acknowledged.
    ts_recent: u32,
    ts_recent_at: Time,
    last_ack_sent: u64,
    sender: Option<Box<Sender>>,
    /// A segment in answer to one that belongs to nothing.
    answer: Option<Box<Segment>>,
    /// Sequence number and acknowledgement of the segment whose window was taken last (RFC 9293 SND.WL1, WL2).
    window_from: (u64, u64),
    agreed: Agreed,
    /// The state of ECN, if both ends use it.
    marks: Option<Box<Marks>>,
    receiver: Receiver,
    time_wait_until: Option<Time>,
    clock_phase: Duration,
    /// The state of the hand-shake, until it is over.
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

/// The options that the two SYNs agreed on.
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
    /// The time at which the SYN or SYN-ACK is to be sent (again).
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
        let wishes = [a, b].map(|end| end.personality.ecn);
        if !wishes.contains(&EcnPolicy::Off) && wishes.contains(&EcnPolicy::Request) {
            (first.marks, second.marks) = (Some(Box::default()), Some(Box::default()));
        }
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
            marks: None,
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

    /// Makes each write from now on a segment of its own, however long, and sent again as such: what waits is one packet
    /// after another, and no stream. Such a connection is not closed.
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
        // Aborting again changes nothing: the RST may not have left yet.
        self.reset_due |= matches!(self.phase, Phase::SynReceived | Phase::Open) && !both_closed;
        self.end(Fault::Aborted);
    }

    /// The number of bytes that arrived in order and that the application has not read.
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

    /// The reason why the connection ended, if it did not end well.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The counts of what the sending half has done so far.
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

    /// Sets how many duplicate acknowledgements mean that what was sent again was lost again, for a connection that only
    /// controls errors. That is the window of whoever says when it sends, in segments.
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

    /// The ECN field for the packet of the segment that was polled last (RFC 3168 s5).
    #[inline]
    pub fn departing_ecn(&self) -> Ecn {
        self.marks.as_ref().map_or(Ecn::NotEct, |marks| marks.departing())
    }

    /// True if both ends agreed to use ECN.
    pub fn uses_ecn(&self) -> bool {
        self.marks.is_some()
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

    fn end(&mut self, fault: Fault) {
        if self.phase != Phase::Closed {
            self.fault = Some(fault);
            self.phase = Phase::Closed;
        }
        self.hello = None;
        self.time_wait_until = None;
    }

    /// The time between the last tick of this end's coarse clock and time zero.
    pub fn clock_phase(&self) -> Duration {
        self.clock_phase
    }
}
