//! One TCP on a bench: the test plays the peer, segment by segment, and reads what leaves as text.
//!
//! Numbers are positions in each end's stream: 0 is the SYN, 1 the first byte. Both initial sequence numbers lie just
//! below the wrap, so that every longer exchange crosses it.

use headend_engine::packet::Ecn;
use headend_engine::tcp::connection::{Connection, Output, State};
use headend_engine::tcp::personality::{DelayedAck, Personality, RtoPolicy};
use headend_engine::tcp::segment::{Flags, Options, Segment};
use headend_engine::tcp::seq;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

/// The initial sequence number of the TCP on the bench.
pub(crate) const OURS: u32 = 0xffff_fa00;
/// The initial sequence number of the peer that the test plays.
pub(crate) const THEIRS: u32 = 0xffff_f000;

/// RFC 5681 with NewReno and no options: segments of 1000 B, a receive buffer of 8000 B, an initial window of 4.
pub(crate) fn plain() -> Personality {
    let newreno = Personality::newreno();
    Personality {
        mss: Bytes::new(1_000),
        initial_window_segments: Some(4),
        send_buffer: Bytes::new(100_000),
        receive_buffer: Bytes::new(8_000),
        window_scaling: false,
        timestamps: false,
        limited_transmit: false,
        rto: RtoPolicy { initial: Duration::from_secs(1), ..newreno.rto },
        delayed_ack: DelayedAck { segments: 2, timeout: Duration::from_millis(200), ..newreno.delayed_ack },
        ..newreno
    }
}

/// An instant in milliseconds.
pub(crate) fn ms(n: u64) -> Time {
    Time::from_nanos(n * 1_000_000)
}

/// A segment from the peer that acknowledges our SYN and offers 8000 B.
fn theirs(start: u64) -> Segment {
    Segment {
        seq: seq::number(THEIRS, start),
        ack: seq::number(OURS, 1),
        window: 8_000,
        flags: Flags { ack: true, ..Flags::default() },
        ..Segment::default()
    }
}

/// `len` bytes from `start` of the peer's stream.
pub(crate) fn data(start: u64, len: u32) -> Segment {
    Segment { len, ..theirs(start) }
}

/// A bare acknowledgement of our stream up to `ack`, from a peer that has sent nothing.
pub(crate) fn ack(ack: u64) -> Segment {
    theirs(1).acks(ack)
}

/// A FIN at `start` of the peer's stream.
pub(crate) fn fin(start: u64) -> Segment {
    let mut segment = theirs(start);
    segment.flags.fin = true;
    segment
}

/// A RST at `start` of the peer's stream.
pub(crate) fn rst(start: u64) -> Segment {
    let mut segment = theirs(start);
    segment.flags = Flags { rst: true, ..Flags::default() };
    segment
}

/// The peer's SYN, with an MSS of 1000 B.
pub(crate) fn syn() -> Segment {
    Segment {
        seq: THEIRS,
        window: 8_000,
        flags: Flags { syn: true, ..Flags::default() },
        options: Options { mss: Some(1_000), ..Options::default() },
        ..Segment::default()
    }
}

/// The peer's SYN that acknowledges ours.
pub(crate) fn syn_ack() -> Segment {
    let mut segment = syn().acks(1);
    segment.flags.ack = true;
    segment
}

/// Small changes to a segment.
pub(crate) trait Edit: Sized {
    /// Acknowledges our stream up to `position`.
    fn acks(self, position: u64) -> Self;
    /// Offers `window`, unscaled.
    fn offers(self, window: u16) -> Self;
    /// Adds these timestamps: value and echo, in milliseconds.
    fn stamped(self, value: u32, echo: u32) -> Self;
    /// Adds these SACK blocks of our stream.
    fn sacks(self, blocks: &[(u64, u64)]) -> Self;
}

impl Edit for Segment {
    fn acks(mut self, position: u64) -> Segment {
        self.ack = seq::number(OURS, position);
        self
    }

    fn offers(mut self, window: u16) -> Segment {
        self.window = window;
        self
    }

    fn stamped(mut self, value: u32, echo: u32) -> Segment {
        self.options.timestamps = Some((value, echo));
        self
    }

    fn sacks(mut self, blocks: &[(u64, u64)]) -> Segment {
        for &(left, right) in blocks {
            self.options.sack.push(seq::number(OURS, left), seq::number(OURS, right));
        }
        self
    }
}

/// The TCP on the bench, and the clock.
pub(crate) struct Bench {
    pub(crate) tcp: Connection,
    pub(crate) now: Time,
    /// The last segment that left.
    pub(crate) last: Segment,
}

impl Bench {
    /// A connection that wants to open.
    pub(crate) fn connecting(personality: &Personality) -> Bench {
        Bench::new(Connection::connect(personality, OURS, Duration::ZERO))
    }

    /// A connection that waits for a SYN.
    pub(crate) fn listening(personality: &Personality) -> Bench {
        Bench::new(Connection::listen(personality, OURS, Duration::ZERO))
    }

    fn new(tcp: Connection) -> Bench {
        Bench { tcp, now: Time::ZERO, last: Segment::default() }
    }

    /// A connection opened by us at 0; the SYN-ACK came after 100 ms.
    pub(crate) fn client(personality: &Personality) -> Bench {
        Bench::client_of(personality, syn_ack())
    }

    /// A connection opened by us at 0; this SYN-ACK came after 100 ms.
    pub(crate) fn client_of(personality: &Personality, answer: Segment) -> Bench {
        let mut bench = Bench::connecting(personality);
        bench.poll();
        bench.now = ms(100);
        bench.hear(answer);
        assert_eq!(bench.tcp.state(), State::Established);
        bench
    }

    /// A connection opened by the peer at 0 with this SYN; its ACK of our SYN-ACK came after 100 ms.
    pub(crate) fn server_of(personality: &Personality, opening: Segment) -> Bench {
        let mut bench = Bench::listening(personality);
        bench.hear(opening);
        bench.now = ms(100);
        let mut third = ack(1).offers(opening.window);
        if opening.options.timestamps.is_some() && bench.last.options.timestamps.is_some() {
            third = third.stamped(100, 0);
        }
        bench.hear(third);
        assert_eq!(bench.tcp.state(), State::Established);
        bench
    }

    /// Opened by the peer at 0; its ACK of our SYN-ACK came after 100 ms.
    pub(crate) fn server(personality: &Personality) -> Bench {
        Bench::server_of(personality, syn())
    }

    /// Segments that leave now.
    pub(crate) fn poll(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        while let Output::Send(segment) = self.tcp.poll(self.now) {
            left.push(say(&segment));
            self.last = segment;
            assert!(left.len() < 1_000, "a connection must not send for ever at one instant");
        }
        left
    }

    /// Segments that leave now, in answer to one.
    pub(crate) fn hear(&mut self, segment: Segment) -> Vec<String> {
        self.tcp.receive(self.now, &segment);
        self.poll()
    }

    /// Segments that leave now, in answer to one whose packet has this ECN field.
    pub(crate) fn hear_with(&mut self, segment: Segment, ecn: Ecn) -> Vec<String> {
        self.tcp.receive_with(self.now, &segment, ecn);
        self.poll()
    }

    /// Segments that leave now, after the application has written `len` bytes.
    pub(crate) fn write(&mut self, len: u64) -> Vec<String> {
        self.tcp.write(Bytes::new(len));
        self.poll()
    }

    /// Segments that leave now, after the application has read `len` bytes.
    pub(crate) fn read(&mut self, len: u64) -> Vec<String> {
        self.tcp.read(Bytes::new(len));
        self.poll()
    }

    /// Segments that leave now, after the application has closed.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.tcp.close();
        self.poll()
    }

    /// Segments that leave until `limit`, each with its time.
    pub(crate) fn until(&mut self, limit: Time) -> Vec<String> {
        let mut left = Vec::new();
        loop {
            match self.tcp.poll(self.now) {
                Output::Send(segment) => {
                    left.push(format!("{}: {}", self.now - Time::ZERO, say(&segment)));
                    self.last = segment;
                    assert!(left.len() < 10_000, "a connection must not send for ever");
                }
                Output::Wait(Some(due)) if due <= limit => {
                    assert!(due > self.now, "a connection that waits waits for later");
                    self.now = due;
                }
                Output::Wait(_) => {
                    self.now = limit;
                    return left;
                }
            }
        }
    }

    /// The congestion window in bytes.
    pub(crate) fn cwnd(&self) -> u64 {
        self.tcp.snapshot().expect("an open connection has a sender").cwnd.get()
    }
}

/// The words for a segment of ours: control bits, its range, what it acknowledges; a bare ACK says its window too.
fn say(segment: &Segment) -> String {
    let at = |isn, number| seq::position(isn, number, 1_000_000).unwrap_or(u64::MAX);
    let mut words = Vec::new();
    let Flags { syn, ack, fin, rst, .. } = segment.flags;
    for (set, name) in [(syn, "SYN"), (fin, "FIN"), (rst, "RST")] {
        if set {
            words.push(name.to_owned());
        }
    }
    let start = at(OURS, segment.seq);
    if segment.len > 0 {
        words.push(format!("{start}:{}", start + u64::from(segment.len)));
    } else if fin || rst {
        words.push(start.to_string());
    }
    if ack {
        words.push(format!("ack {}", at(THEIRS, segment.ack)));
    }
    if words.len() == 1 && ack {
        words.push(format!("win {}", segment.window));
    }
    for &(left, right) in segment.options.sack.as_slice() {
        words.push(format!("sack {}:{}", at(THEIRS, left), at(THEIRS, right)));
    }
    words.join(" ")
}

/// Two TCPs with 50 ms between them each way, from which segments can be lost.
pub(crate) struct Wire {
    pub(crate) ends: [Connection; 2],
    pub(crate) now: Time,
    in_air: Vec<(Time, usize, Segment)>,
    /// Every segment that left: which end, and what.
    pub(crate) sent: Vec<(usize, Segment)>,
    /// True for a segment to lose, by the end that sent it.
    pub(crate) loses: fn(usize, &Segment) -> bool,
    lost: usize,
    /// The largest number of segments to lose.
    pub(crate) losses_max: usize,
}

impl Wire {
    pub(crate) fn between(left: Connection, right: Connection) -> Wire {
        Wire {
            ends: [left, right],
            now: Time::ZERO,
            in_air: Vec::new(),
            sent: Vec::new(),
            loses: |_, _| false,
            lost: 0,
            losses_max: 0,
        }
    }

    /// A client and a server that is listening, both of this personality.
    pub(crate) fn dialling(personality: &Personality) -> Wire {
        Wire::between(
            Connection::connect(personality, OURS, Duration::ZERO),
            Connection::listen(personality, THEIRS, Duration::ZERO),
        )
    }

    /// Runs until `limit`.
    pub(crate) fn run(&mut self, limit: Time) {
        loop {
            let mut next = limit;
            for which in 0..2 {
                loop {
                    match self.ends[which].poll(self.now) {
                        Output::Send(segment) => self.launch(which, segment),
                        Output::Wait(due) => {
                            next = next.min(due.unwrap_or(limit));
                            break;
                        }
                    }
                }
            }
            next = self.in_air.iter().map(|&(at, ..)| at).fold(next, Time::min);
            self.now = next;
            let landed: Vec<_> = self.in_air.extract_if(.., |&mut (at, ..)| at <= next).collect();
            for (_, from, segment) in &landed {
                self.ends[1 - from].receive(next, segment);
            }
            if landed.is_empty() && next == limit {
                return;
            }
        }
    }

    fn launch(&mut self, from: usize, segment: Segment) {
        self.sent.push((from, segment));
        assert!(self.sent.len() < 100_000, "two ends must not talk for ever");
        if self.lost < self.losses_max && (self.loses)(from, &segment) {
            self.lost += 1;
        } else {
            self.in_air.push((self.now + Duration::from_millis(50), from, segment));
        }
    }

    pub(crate) fn states(&self) -> [State; 2] {
        [self.ends[0].state(), self.ends[1].state()]
    }
}
