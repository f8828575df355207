//! Segments that leave: what a poll sends, and in which order.

use super::{Connection, Fault, Output, Phase};
use crate::tcp::segment::{Flags, Options, Segment};
use crate::tcp::sender::Piece;
use crate::tcp::{seq, timestamp};
use crate::time::{Time, earlier};
use crate::units::Bytes;

impl Connection {
    /// The time that a poll now would wait for, without the poll, for an end that only receives or whose window is full, as
    /// most do most of the time: `Time::MAX` if for none. `None` if only a poll can tell.
    #[inline]
    pub fn quiet_until(&self, now: Time) -> Option<Time> {
        let idle = self.phase == Phase::Open
            && self.answer.is_none()
            && !self.reset_due
            && !self.receiver.wants_acknowledgement(now);
        let sender = self.sender.as_ref().filter(|_| idle)?;
        let due = if sender.has_nothing_to_send() { Time::MAX } else { sender.full_until(now)? };
        Some(self.receiver.deadline().map_or(due, |delayed| delayed.min(due)))
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

    /// Bytes of new data for which the windows have room, asked for when the connection
    /// [wants to send](Connection::wants_to_send). `None` where room does not decide: what leaves next leaves again, or
    /// nothing is under way, whose acknowledgement could make more.
    pub fn credit(&mut self) -> Option<Bytes> {
        let sender = self.sender.as_mut().filter(|sender| sender.in_flight() > 0)?;
        sender.credit().map(Bytes::new)
    }

    /// The time at which [`wants_to_send`](Connection::wants_to_send) may say something else, if no segment arrives before.
    pub fn send_deadline(&self) -> Option<Time> {
        self.sender.as_ref().filter(|_| self.phase == Phase::Open).and_then(|sender| sender.deadline())
    }

    /// Does what [`poll`](Connection::poll) does, but an established connection sends only acknowledgements and answers, and no timer
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
        let sent_before = sender.flight.max;
        if let Some(piece) = sender.next(now) {
            return Output::Send(self.data_segment(now, piece, sent_before));
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

    pub(super) fn poll_acknowledgement(&mut self, now: Time) -> Option<Segment> {
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
        if let Some(marks) = &mut self.marks {
            marks.depart(&mut segment, None, false);
        }
        Some(segment)
    }

    /// The segment of a piece; what lies before `sent_before` has been sent before.
    fn data_segment(&mut self, now: Time, piece: Piece, sent_before: u64) -> Segment {
        let mut segment = self.header(now, piece.start);
        segment.len = piece.len as u32;
        segment.flags.fin = piece.fin;
        segment.flags.psh = piece.fin;
        self.fin_sent |= piece.fin;
        if let Some(marks) = &mut self.marks {
            let flight = self.sender.as_mut().map(|sender| &mut sender.flight);
            // A window probe is beyond what the peer offers, and does not count as sent.
            let is_new = piece.len > 0 && flight.as_ref().is_some_and(|flight| flight.max > sent_before);
            marks.depart(&mut segment, flight, is_new);
        }
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
}
