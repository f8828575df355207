//! The sending half: what to send, when to send it again, and how much the peer and the network allow.

mod records;
#[cfg(test)]
mod tests;

use records::Records;

use super::counters::SenderCounters;
use super::flight::{Flight, Shrink};
use super::personality::{EraRules, Personality, RtoPolicy};
use super::recovery::{Acknowledgement, LossRecovery, measured::Measured};
use super::rto::Rto;
use crate::cc::{Cause, Setup};
use crate::time::{Duration, Time, earlier};
use crate::units::Bytes;

/// Retransmissions of the same data, or window probes without an answer, before giving up (Linux `tcp_retries2`; RFC 1122
/// s4.2.3.5 wants at least 100 s).
const ATTEMPTS: u32 = 15;
/// The least time before giving up if the timer does not back off (RFC 1122 s4.2.3.5, R2).
const PATIENCE_WITHOUT_BACK_OFF: Duration = Duration::from_secs(100);
/// The most lateness that pacing makes up for.
const PACING_SLACK: Duration = Duration::from_millis(1);

/// A piece of the stream to put into a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) fin: bool,
}

/// The sending half of a connection.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sender {
    pub(crate) flight: Flight,
    recovery: Box<dyn LossRecovery>,
    /// Bytes that may be written and not acknowledged.
    send_buffer: u64,
    /// One past the last byte written.
    written: u64,
    /// The last write was refused in part: more follows, so no small segment now (RFC 9293 s3.8.6.2.1).
    more: bool,
    /// The FIN follows what was written.
    closing: bool,
    nagle: bool,
    idle_restart: bool,
    /// Largest window that the peer ever offered.
    window_max: u64,
    timeouts_in_a_row: u32,
    /// The number of timeouts in a row beyond which it gives up.
    attempts: u32,
    /// Zero-window probing: when, and how often in a row.
    probe_at: Option<Time>,
    probes: u32,
    /// Zero-window probes since the peer was last heard.
    unanswered_probes: u32,
    /// One past the byte that the last zero-window probe carried.
    probed_to: u64,
    last_sent: Option<Time>,
    /// The controller gives a rate: when the next segment may leave, and whether it was held until then.
    paced: bool,
    release: Time,
    held: Option<Time>,
    /// Ends of the application's writes, if each is to be a segment.
    records: Option<Box<Records>>,
}

impl Sender {
    /// A sender whose SYN is acknowledged; `mss` is payload bytes of a full segment, `sack` whether it was agreed on,
    /// `extra_window` what the hand-shake added to the initial window, `edge` the peer's right edge.
    pub(crate) fn new(
        personality: &Personality,
        mss: u64,
        sack: bool,
        rto: Rto,
        extra_window: u64,
        edge: u64,
    ) -> Sender {
        let one = Bytes::new(mss);
        let era = if personality.recovery.follows_era() { personality.era } else { EraRules::RFC };
        let setup = personality.controller_setup(one, &era, sack && personality.recovery.needs_sack());
        let setup = Setup { initial_window: setup.initial_window + Bytes::new(extra_window), ..setup };
        let mut sender = Sender {
            flight: Flight {
                una: 1,
                nxt: 1,
                max: 1,
                end: 1,
                edge,
                mss,
                controller: personality.controller.start(&setup),
                rto,
                dupack_threshold: personality.dupack_threshold.max(1),
                limited_transmit: personality.limited_transmit,
                era,
                frto: personality.frto,
                undo_spurious: personality.undo_spurious,
                restart_timer: false,
                marked_max: 0,
                reduced: false,
                retransmit_at: None,
                rtt: None,
                counters: SenderCounters::default(),
            },
            recovery: personality.recovery.with(sack).start(),
            send_buffer: personality.send_buffer.get(),
            written: 1,
            more: false,
            closing: false,
            nagle: personality.nagle,
            idle_restart: personality.idle_restart,
            window_max: edge - 1,
            timeouts_in_a_row: 0,
            attempts: attempts(&personality.rto),
            probe_at: None,
            probes: 0,
            unanswered_probes: 0,
            probed_to: 0,
            last_sent: None,
            paced: false,
            release: Time::ZERO,
            held: None,
            records: None,
        };
        sender.flight.controller.on_established(sender.flight.rto.srtt());
        if sender.flight.controller.wants_delivery() {
            sender.recovery = Box::new(Measured::new(sender.recovery));
        }
        sender.paced = sender.flight.controller.pacing().is_some();
        sender
    }

    /// The application offers `len` bytes; returns how many the buffer takes.
    pub(crate) fn write(&mut self, len: u64) -> u64 {
        if self.closing {
            return 0;
        }
        let taken = len.min(self.space());
        self.written += taken;
        self.more = taken < len;
        self.flight.end = self.written;
        if let Some(records) = self.records.as_mut().filter(|_| taken > 0) {
            records.write(self.written);
        }
        taken
    }

    /// Makes each write from now on a segment of its own, however long, and sent again as such.
    pub(crate) fn keep_records(&mut self) {
        assert_eq!(self.written, 1, "before the first write");
        self.records = Some(Box::default());
    }

    /// Bytes of free send buffer.
    pub(crate) fn space(&self) -> u64 {
        let held = self.written - self.flight.una.min(self.written);
        self.send_buffer.saturating_sub(held)
    }

    /// Takes note that nothing more will be written.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.more = false;
        self.flight.end = self.written + 1;
    }

    /// True once the peer was asked in vain too often: retransmissions since the last new acknowledgement, zero-window
    /// probes since anything came.
    pub(crate) fn gives_up(&self) -> bool {
        self.timeouts_in_a_row > self.attempts || self.unanswered_probes > ATTEMPTS
    }

    /// True once all that was written, and the FIN, is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.closing && self.flight.una == self.flight.end
    }

    /// Bytes written and acknowledged, the FIN not counted.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.flight.una.min(self.written) - 1
    }

    /// True if `una` acknowledges nothing that was never sent.
    pub(crate) fn may_acknowledge(&self, una: u64) -> bool {
        una <= self.flight.max.max(self.probed_to)
    }

    /// Takes an acknowledgement up to `una`, which [may be](Self::may_acknowledge). It offers a window of `window` bytes;
    /// `fresh` says that this is newer than the last one taken (RFC 9293 s3.10.7.4, SND.WL1 and WL2).
    pub(crate) fn hear(&mut self, una: u64, window: u64, fresh: bool, mut ack: Acknowledgement<'_>) {
        let flight = &mut self.flight;
        let before = ack.before;
        self.unanswered_probes = 0;
        if una < before {
            return;
        }
        let offered = una + window;
        // The other end's data mostly acknowledge what is known: nothing is in flight, and nothing changes.
        let known = una == flight.max && una == before && offered == flight.edge;
        if known && ack.dsack.is_none() {
            return;
        }
        // RFC 9293 s3.8.6: a peer that takes its offer back is followed, by news or by a closed window.
        let edge = if fresh && (offered > flight.edge || una > before || window == 0) { offered } else { flight.edge };
        let window_moved = edge != flight.edge;
        flight.edge = edge;
        self.window_max = self.window_max.max(window);
        flight.una = una;
        if let Some(records) = &mut self.records {
            records.acknowledge(una);
        }
        flight.rtt = None;
        // A probed byte that the peer had room for after all.
        flight.max = flight.max.max(una);
        flight.nxt = flight.nxt.max(una);
        ack.duplicate &= una == before && !window_moved && flight.max > una;
        // RFC 6298 s5.3; recovery may decide otherwise (NewReno's impatient variant).
        flight.restart_timer = flight.una > before;
        // RFC 1122 s4.2.2.17: who answers with a closed window, taken back perhaps, is there.
        if flight.una > before || edge <= flight.una {
            self.timeouts_in_a_row = 0;
        }
        self.recovery.on_ack(flight, &ack);
        self.run_timer(ack.now);
        // Nothing is left to probe for, or nothing to probe with.
        if self.flight.edge > self.flight.una || self.flight.una == self.flight.end {
            self.probe_at = None;
            self.probes = 0;
        }
    }

    fn run_timer(&mut self, now: Time) {
        if self.flight.max == self.flight.una {
            self.flight.retransmit_at = None;
        } else if self.flight.restart_timer || self.flight.retransmit_at.is_none() {
            self.flight.retransmit_at = Some(self.flight.rto.deadline(now));
        }
        self.flight.restart_timer = false;
    }

    /// Runs the timers that are due by `now`.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.flight.max == self.flight.una {
            return;
        }
        if self.recovery.deadline().is_some_and(|due| due <= now) {
            self.recovery.on_deadline(&mut self.flight, now);
            self.run_timer(now);
        }
        if self.flight.retransmit_at.is_some_and(|due| due <= now) {
            self.flight.counters.timeouts += 1;
            self.timeouts_in_a_row += 1;
            self.recovery.on_timeout(&mut self.flight, now);
            self.flight.rto.back_off();
            self.flight.restart_timer = true;
            self.run_timer(now);
        }
    }

    /// True if all that was written is acknowledged, as it mostly is at an end that receives.
    pub(crate) fn has_nothing_to_send(&self) -> bool {
        self.flight.una == self.flight.end
    }

    /// The time until which a poll would only wait, if the window takes no full segment more, as after most acknowledgements
    /// of a sender with enough to send: until one of its timers. `None` if only a poll can tell.
    #[inline]
    pub(crate) fn full_until(&self, now: Time) -> Option<Time> {
        let flight = &self.flight;
        if self.paced || self.records.is_some() || self.probe_at.is_some() {
            return None;
        }
        let window_end = flight.max + self.recovery.room(flight)?;
        let is_full = window_end < (flight.max + flight.mss).min(self.written).min(flight.edge);
        self.deadline().filter(|due| is_full && *due > now)
    }

    /// The next piece to send now, if any. The caller puts it into a segment at once.
    pub(crate) fn next(&mut self, now: Time) -> Option<Piece> {
        if self.has_nothing_to_send() {
            return None;
        }
        if !self.is_blocked() {
            self.probe_at = None;
        } else if let Some(probe) = self.window_probe(now) {
            return Some(probe);
        }
        let piece = self.proposal(now)?;
        self.account(now, piece);
        Some(piece)
    }

    /// True if [`next`](Self::next) would yield a piece now that is no window probe. To be asked after
    /// [`tick`](Self::tick).
    pub(crate) fn is_ready(&mut self, now: Time) -> bool {
        !self.has_nothing_to_send() && !self.is_blocked() && self.proposal(now).is_some()
    }

    /// Bytes of new data that the windows leave room for, or `None` if what leaves next is sent again. To be asked when
    /// [`is_ready`](Self::is_ready) says yes.
    pub(crate) fn credit(&mut self) -> Option<u64> {
        let want = self.recovery.next(&self.flight)?;
        let is_new = want.start >= self.flight.max;
        is_new.then(|| want.limit.min(self.flight.edge).saturating_sub(want.start))
    }

    /// The piece that timers and windows allow to be sent now.
    #[inline(always)]
    fn proposal(&mut self, now: Time) -> Option<Piece> {
        if self.paced {
            self.held = Some(self.release).filter(|release| *release > now);
            if self.held.is_some() {
                return None;
            }
        }
        self.restart_after_idle(now);
        let want = self.recovery.next(&self.flight)?;
        let flight = &self.flight;
        if let Some(records) = &self.records {
            return records.piece(want, flight);
        }
        let start = want.start;
        let room = want.limit.min(flight.edge.max(if want.forced { flight.max } else { 0 }));
        let data_end = self.written.min(room).min(start + flight.mss);
        let len = data_end.saturating_sub(start);
        let last = start + len == self.written;
        let fin = self.closing && last && start + len < room;
        if len == 0 && !fin {
            return None;
        }
        if len < flight.mss && !want.forced && !self.may_be_small(start, len, last) {
            return None;
        }
        Some(Piece { start, len, fin })
    }

    /// Sender's silly-window avoidance and Nagle (RFC 9293 s3.8.6.2.1, s3.7.4).
    fn may_be_small(&self, start: u64, len: u64, last: bool) -> bool {
        let resend = start < self.flight.max;
        // A writer that was refused has more to come, but while nothing is in flight nothing makes room for it.
        let idle = self.flight.size() == 0;
        if last && (resend || idle || !self.more && (self.closing || !self.nagle)) {
            return true;
        }
        let offered = self.flight.edge - start;
        // What left in a sliver before must be able to leave again. Otherwise the peer's buffer may be smaller than a
        // segment: half of the largest window it ever offered is worth sending.
        offered <= len && (resend || len >= (self.window_max / 2).max(1))
    }

    #[inline(always)]
    fn account(&mut self, now: Time, piece: Piece) {
        let flight = &mut self.flight;
        let end = piece.start + piece.len + u64::from(piece.fin);
        let resend = piece.start < flight.max;
        flight.max = flight.max.max(end);
        // Only going forward from where we were moves SND.NXT; a lone retransmission does not.
        if piece.start == flight.nxt || !resend {
            flight.nxt = flight.nxt.max(end);
        }
        if piece.len > 0 {
            flight.counters.segments += 1;
            flight.counters.bytes += piece.len;
            flight.counters.retransmits += u64::from(resend);
        }
        self.recovery.on_sent(flight, now, piece.start, end, resend);
        let in_flight = Bytes::new(self.recovery.in_flight(flight));
        flight.controller.on_sent(now, Bytes::new(piece.len), in_flight);
        self.last_sent = Some(now);
        if self.paced
            && let Some(rate) = self.flight.controller.pacing()
        {
            // A driver that wakes late makes up for it, but not by a burst.
            let due = self.release.max(Time::from_nanos(now.as_nanos().saturating_sub(PACING_SLACK.as_nanos())));
            self.release = due + rate.time_for(Bytes::new(piece.len));
        }
        self.run_timer(now);
    }

    /// Shrinks the window to the restart window after an idle RTO (RFC 5681 s4.1).
    fn restart_after_idle(&mut self, now: Time) {
        if !self.idle_restart || self.flight.size() > 0 || self.flight.max >= self.flight.end {
            return;
        }
        if self.last_sent.is_some_and(|sent| now.since(sent) > self.flight.rto.timeout()) {
            let timeouts =
                now.since(self.last_sent.unwrap_or(now)).as_nanos() / self.flight.rto.timeout().as_nanos().max(1);
            self.flight.congest(now, Shrink { timeouts, ..Shrink::new(Cause::Idle, 0) });
            self.last_sent = None;
        }
    }

    /// A probe of a closed window: one byte beyond it, again and again, slower and slower (RFC 9293 s3.8.6.1).
    #[cold]
    fn window_probe(&mut self, now: Time) -> Option<Piece> {
        let offered = self.flight.edge.saturating_sub(self.flight.una);
        let wait = if offered > 0 { self.override_interval() } else { self.probe_interval() };
        let due = *self.probe_at.get_or_insert(now + wait);
        if due > now {
            return None;
        }
        if offered > 0 {
            // RFC 9293 s3.8.6.2.1 (4): the sliver leaves after all, in case no better window ever comes.
            self.probe_at = None;
            let start = self.flight.una;
            let len = offered.min(self.flight.mss).min(self.written - start);
            let piece = Piece { start, len, fin: self.closing && start + len == self.written && len < offered };
            self.account(now, piece);
            return Some(piece);
        }
        self.unanswered_probes += 1;
        if self.unanswered_probes > ATTEMPTS {
            return None;
        }
        self.probes += 1;
        self.flight.counters.window_probes += 1;
        self.probe_at = Some(now + self.probe_interval());
        let (start, fin) = (self.flight.una, self.flight.una == self.written);
        self.flight.counters.bytes += u64::from(!fin);
        self.probed_to = start + 1;
        Some(Piece { start, len: u64::from(!fin), fin })
    }

    /// True if there is data to send, nothing is under way, and the window is closed or not worth a segment.
    #[inline]
    fn is_blocked(&self) -> bool {
        let flight = &self.flight;
        flight.max == flight.una && flight.max < flight.end && !self.window_takes_a_segment()
    }

    /// True if the window offered is worth a segment: a full one, all that there is, or half of the most ever offered.
    fn window_takes_a_segment(&self) -> bool {
        let flight = &self.flight;
        let offered = flight.edge.saturating_sub(flight.una);
        let waiting = flight.end - flight.una;
        offered > 0 && (offered >= flight.mss.min(waiting) || offered >= (self.window_max / 2).max(1))
    }

    fn probe_interval(&self) -> Duration {
        let factor = 1 << self.probes.min(6);
        // 4.4BSD bounds the persist timer to 5..60 s; RFC 9293 s3.8.6.1 asks for the RTO and exponential growth.
        (self.flight.rto.timeout() * factor).min(Duration::from_secs(60))
    }

    /// The wait before a sliver leaves after all: 0.1 to 1 s (RFC 9293 s3.8.6.2.1).
    fn override_interval(&self) -> Duration {
        self.flight.rto.timeout().clamp(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// The time at which the sender wants to be asked again.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        let timers = earlier(earlier(self.flight.retransmit_at, self.recovery.deadline()), self.probe_at);
        if self.paced { earlier(timers, self.held) } else { timers }
    }

    /// Bytes believed to be in the network.
    pub(crate) fn in_flight(&self) -> u64 {
        self.recovery.in_flight(&self.flight)
    }

    /// Sets the patience of the recovery: [`LossRecovery::set_patience`].
    pub(crate) fn set_patience(&mut self, segments: u64) {
        self.recovery.set_patience(segments);
    }
}

/// Timeouts in a row before giving up: what back-off makes last long enough does not without it.
fn attempts(rto: &RtoPolicy) -> u32 {
    if rto.backoff_max > 1 {
        return ATTEMPTS;
    }
    let least = rto.min.as_nanos().max(1);
    ATTEMPTS.max(u32::try_from(PATIENCE_WITHOUT_BACK_OFF.as_nanos().div_ceil(least)).unwrap_or(u32::MAX))
}
