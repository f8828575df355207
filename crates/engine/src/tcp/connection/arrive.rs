//! Segments that arrive (RFC 9293 s3.10.7). Their sequence numbers become positions here, once, and are none further in.

use super::{Connection, Fault, Phase, TIME_WAIT};
use crate::packet::Ecn;
use crate::tcp::recovery::Acknowledgement;
use crate::tcp::segment::{Flags, Segment};
use crate::tcp::{seq, timestamp};
use crate::time::{Duration, Time};

/// The age beyond which a timestamp is compared with no longer (RFC 7323 s5.5).
const TIMESTAMP_LIFE: Duration = Duration::from_secs(24 * 24 * 3_600);

impl Connection {
    /// Takes a segment that arrived for this connection (RFC 9293 s3.10.7).
    pub fn receive(&mut self, now: Time, segment: &Segment) {
        match self.phase {
            Phase::Closed => self.refuse(segment),
            Phase::Listen => self.receive_in_listen(now, segment),
            Phase::SynSent => self.receive_in_syn_sent(now, segment),
            Phase::SynReceived | Phase::Open | Phase::TimeWait => self.receive_synchronised(now, segment),
        }
    }

    /// Takes a segment that arrived in a packet with this ECN field.
    #[inline]
    pub fn receive_with(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        if self.marks.is_some() {
            self.note_ecn(segment, ecn);
        }
        self.receive(now, segment);
    }

    /// Notes what a packet says of congestion on its way, before its segment is taken.
    fn note_ecn(&mut self, segment: &Segment, ecn: Ecn) {
        let Some(marks) = &mut self.marks else { return };
        // RFC 3168 s6.1.5: what lies outside of the window, such as data sent again needlessly, says nothing.
        let start = seq::position(self.irs, segment.seq, self.receiver.next());
        let is_in_window = start
            .is_some_and(|start| start < self.receiver.edge() && start + u64::from(segment.len) > self.receiver.next());
        if segment.len > 0 && is_in_window && marks.arrive(segment, ecn) {
            self.receiver.acknowledge();
        }
    }

    /// Answers a segment for no connection with a RST, unless it is one (RFC 9293 s3.10.7.1).
    pub(super) fn refuse(&mut self, segment: &Segment) {
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
        let start = seq::position(self.irs, segment.seq, self.receiver.next());
        let Some(start) = start.filter(|&start| self.is_acceptable(now, segment, start)) else {
            if self.phase == Phase::SynReceived && segment.flags.syn && !segment.flags.ack && segment.seq == self.irs {
                // The peer is still in SYN-SENT, where a bare ACK would not help it.
                let again = self.hello_segment(now);
                self.answer = Some(Box::new(again));
            } else if !segment.flags.rst {
                self.note_repeat(now, segment, start);
                self.receiver.acknowledge();
            }
            return;
        };
        if segment.flags.rst {
            // RFC 9293 s3.10.7.4, from RFC 5961: only the exact number resets; others in the window are challenged.
            if start == self.receiver.next() {
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
        self.update_ts_recent(now, segment, start);
        if self.phase == Phase::SynReceived {
            if segment.ack != self.isn.wrapping_add(1) {
                self.refuse(segment);
                return;
            }
            let opens = self.hello.as_ref().is_some_and(|hello| hello.personality.era.handshake_ack_opens_window);
            self.establish(now, segment, if opens { self.payload_max() } else { 0 });
        }
        if !self.take_acknowledgement(now, segment, start) {
            self.receiver.acknowledge();
            return;
        }
        self.take_data(now, segment, start);
        self.settle_close(now);
    }

    /// True for the next data in order, which acknowledge nothing new, at an end that has nothing under way: header
    /// prediction (Jacobson 1990). Only the receiver has to do with such a segment, and most are like it.
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

    /// True if some of a segment lies in the window (RFC 9293 s3.4) and it is not older than what came before (RFC 7323
    /// s5.3).
    fn is_acceptable(&self, now: Time, segment: &Segment, start: u64) -> bool {
        if self.agreed.timestamps
            && !segment.flags.rst
            && segment.options.timestamps.is_some_and(|(value, _)| seq::older(value, self.ts_recent))
            && !self.ts_recent_expired(now)
        {
            return false;
        }
        let (next, edge, len) = (self.receiver.next(), self.receiver.edge(), u64::from(segment.seq_len()));
        if len == 0 {
            // A FIN that fills the window lies one beyond it, and what follows has the number after that.
            return start >= next && start <= edge.max(next);
        }
        start < edge && start + len > next
    }

    /// Counts a segment that repeats what has arrived, and has D-SACK report it.
    fn note_repeat(&mut self, now: Time, segment: &Segment, start: Option<u64>) {
        if let Some(start) = start {
            self.receiver.note_repeat(start, u64::from(segment.len));
        }
        if self.phase == Phase::TimeWait && segment.flags.fin {
            // RFC 9293 s3.10.7.4: a repeated FIN restarts the wait.
            self.time_wait_until = Some(now + TIME_WAIT);
        }
    }

    /// True after 24 days of silence, when the peer's clock may have wrapped half way round (RFC 7323 s5.5).
    fn ts_recent_expired(&self, now: Time) -> bool {
        now.since(self.ts_recent_at) > TIMESTAMP_LIFE
    }

    fn update_ts_recent(&mut self, now: Time, segment: &Segment, start: u64) {
        // RFC 7323 s4.3: only a segment that spans the last acknowledgement sent may be echoed.
        if let Some((value, _)) = segment.options.timestamps
            && start <= self.last_ack_sent
            && (!seq::older(value, self.ts_recent) || self.ts_recent_expired(now))
        {
            self.ts_recent = value;
            self.ts_recent_at = now;
        }
    }

    /// Hands what a segment acknowledges to the sender; false if that was never sent.
    fn take_acknowledgement(&mut self, now: Time, segment: &Segment, start: u64) -> bool {
        let Some(sender) = &mut self.sender else { return true };
        let base = sender.flight.una;
        let Some(una) = seq::position(self.isn, segment.ack, base) else { return false };
        if !sender.may_acknowledge(una) {
            return false;
        }
        let fresh = (start, una) >= self.window_from;
        if fresh {
            self.window_from = (start, una);
        }
        if let Some(marks) = &self.marks {
            sender.flight.marked_max = marks.echoed(segment);
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
        let window = u64::from(segment.window) << self.agreed.scale.map_or(0, |(theirs, _)| theirs);
        let carries_data = segment.len > 0 || segment.flags.fin;
        let ack =
            Acknowledgement { now, before: base, duplicate: !carries_data, sacks: &sacks[..count], dsack, echoed };
        sender.hear(una, window, fresh, ack);
        true
    }

    fn take_data(&mut self, now: Time, segment: &Segment, start: u64) {
        if segment.len == 0 && !segment.flags.fin {
            return;
        }
        let had_fin = self.receiver.has_fin();
        self.receiver.arrive(now, start, u64::from(segment.len), segment.flags.fin);
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
}
