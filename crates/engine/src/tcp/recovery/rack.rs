//! RACK-TLP: a segment is lost once one sent later was delivered and a reordering window has passed; a probe finds the
//! losses at the tail (RFC 8985). Repaired under PRR.

use super::selective::Selective;
use super::{Acknowledgement, LossRecovery, Registered, Want};
use crate::tcp::flight::Flight;
use crate::tcp::scoreboard::Sent;
use crate::time::{Duration, Time, earlier};

/// RFC 8985 s7.2: the longest that a receiver may sit on the acknowledgement of a single segment (WCDelAckT).
const DELAYED_ACK_MAX: Duration = Duration::from_millis(200);
/// RFC 8985 s6.2 step 4: recoveries for which a widened reordering window persists.
const REORDERING_PERSIST: u32 = 16;

/// RFC 8985's loss recovery.
#[derive(Debug)]
pub(crate) struct RackTlp {
    common: Selective,
    rack: Rack,
    /// The time when the reordering window of a segment under suspicion ends.
    reordering_deadline: Option<Time>,
    probe_deadline: Option<Time>,
    /// A probe is to be sent.
    probe_due: bool,
    /// The probe that is out.
    probe: Option<Probe>,
}

/// A tail-loss probe (RFC 8985 s7.1: TLP.end_seq and TLP.is_retrans).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The highest position when it left.
    end: u64,
    resent: bool,
    /// Bytes unacknowledged when it left: what a loss that it repaired is charged for.
    in_flight: u64,
}

/// The most recently sent segment that was delivered, and what reordering was seen (RFC 8985 s5.3).
#[derive(Debug)]
struct Rack {
    /// The time when that segment left, and its end.
    sent: Time,
    end: u64,
    rtt: Duration,
    min_rtt: Option<Duration>,
    /// Highest position delivered so far.
    forward: u64,
    reordering_seen: bool,
    window_quarters: u64,
    persist: u32,
    /// SND.NXT when the window was last widened; once a round trip is enough.
    widened_at: Option<u64>,
}

impl Default for RackTlp {
    fn default() -> Self {
        RackTlp {
            common: Selective::charging_once(),
            rack: Rack {
                sent: Time::ZERO,
                end: 0,
                rtt: Duration::ZERO,
                min_rtt: None,
                forward: 0,
                reordering_seen: false,
                window_quarters: 1,
                persist: REORDERING_PERSIST,
                widened_at: None,
            },
            reordering_deadline: None,
            probe_deadline: None,
            probe_due: false,
            probe: None,
        }
    }
}

impl Rack {
    /// RFC 8985 s6.2 steps 2 and 3 for one delivered segment.
    fn deliver(&mut self, now: Time, segment: &Sent) {
        let rtt = now - segment.at;
        if !segment.retransmitted {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            if segment.end < self.forward {
                self.reordering_seen = true;
            }
        } else if self.min_rtt.is_some_and(|least| rtt < least) {
            // The original was delivered, not the retransmission.
            return;
        }
        self.forward = self.forward.max(segment.end);
        if (segment.at, segment.end) > (self.sent, self.end) {
            (self.sent, self.end, self.rtt) = (segment.at, segment.end, rtt);
        }
    }

    /// The reordering window (RFC 8985 s6.2 step 4).
    fn window(&self, flight: &Flight, certain: bool) -> Duration {
        if !self.reordering_seen && certain {
            return Duration::ZERO;
        }
        let quarter = self.min_rtt.unwrap_or(Duration::ZERO) / 4;
        (quarter * self.window_quarters).min(flight.rto.srtt().unwrap_or(Duration::MAX))
    }

    /// A D-SACK shows that the window was too small: widen it, once a round trip.
    fn on_dsack(&mut self, flight: &Flight) {
        if self.widened_at.is_none_or(|nxt| flight.una >= nxt) {
            self.window_quarters += 1;
            self.persist = REORDERING_PERSIST;
            self.widened_at = Some(flight.max);
        }
    }

    fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.window_quarters = 1;
        }
    }
}

impl Registered for RackTlp {
    const NAME: &str = "rack-tlp";
    const DOC: &str = "Time-based detection and tail-loss probes (RFC 8985) with proportional rate reduction.";
    const NEEDS_SACK: bool = true;
}

impl LossRecovery for RackTlp {
    fn on_sent(&mut self, flight: &mut Flight, now: Time, start: u64, end: u64, resend: bool) {
        self.common.on_sent(now, start, end, resend);
        if std::mem::take(&mut self.probe_due) {
            flight.counters.tail_loss_probes += 1;
            self.probe = Some(Probe { end: flight.max, resent: resend, in_flight: flight.size() });
            // RFC 8985 s7.3: after a probe, the RTO runs anew.
            flight.restart_timer = true;
        } else if !resend {
            self.schedule_probe(flight, now);
        }
    }

    fn on_ack(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let recovering = self.common.recovering();
        let rack = &mut self.rack;
        let delivery = self.common.deliver(flight, ack, |segment| rack.deliver(ack.now, segment));
        if ack.dsack.is_some() {
            self.rack.on_dsack(flight);
        }
        let found = self.detect(flight, ack.now);
        self.common.settle(flight, ack, delivery, found);
        if recovering && !self.common.recovering() {
            self.rack.on_recovered();
        }
        self.judge_probe(flight, ack);
        if ack.acked(flight) > 0 {
            self.probe_due = false;
            self.schedule_probe(flight, ack.now);
        } else if self.common.repairing() || self.common.board.sacked_bytes() > 0 {
            // RFC 8985 s7.2: no probe in recovery, nor once SACK has reported something.
            self.probe_due = false;
            self.probe_deadline = None;
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight, now: Time) {
        // RFC 8985 s6.3: the first segment, and whatever has been out for a round trip.
        let overdue = self.rack.rtt + self.rack.window(flight, true);
        self.common.on_timeout(flight, now, |segment| segment.at + overdue <= now);
        self.reordering_deadline = None;
        self.probe_deadline = None;
        self.probe_due = false;
        self.probe = None;
    }

    fn next(&mut self, flight: &Flight) -> Option<Want> {
        if self.probe_due {
            if flight.max < flight.end.min(flight.edge) {
                return Some(Want { start: flight.max, limit: flight.max + flight.mss, forced: true });
            }
            match self.common.board.last() {
                Some(last) => return Some(Want { start: last.start, limit: last.end, forced: true }),
                None => self.probe_due = false,
            }
        }
        self.common.next(flight)
    }

    fn room(&self, flight: &Flight) -> Option<u64> {
        if self.probe_due { None } else { self.common.room(flight) }
    }

    fn in_flight(&self, _flight: &Flight) -> u64 {
        self.common.board.pipe()
    }

    fn note_losses(&mut self) {
        self.common.board.note_losses();
    }

    fn take_losses(&mut self) -> Vec<(u64, u64)> {
        self.common.board.take_losses()
    }

    fn deadline(&self) -> Option<Time> {
        earlier(self.reordering_deadline, self.probe_deadline)
    }

    fn on_deadline(&mut self, flight: &mut Flight, now: Time) {
        if self.probe_deadline.is_some_and(|due| due <= now) {
            self.probe_deadline = None;
            self.probe_due = self.common.board.first().is_some();
            // RFC 8985 s7.3: the probe comes instead of the timeout.
            flight.restart_timer = self.probe_due;
        }
        if self.reordering_deadline.is_some_and(|due| due <= now) {
            let found = self.detect(flight, now);
            let nothing =
                Acknowledgement { now, before: flight.una, duplicate: false, sacks: &[], dsack: None, echoed: None };
            let delivery = self.common.deliver(flight, &nothing, |_| {});
            self.common.settle(flight, &nothing, delivery, found);
        }
    }
}

impl RackTlp {
    /// RFC 8985 s6.2 step 5: marks what is lost, and sets the timer for what may be.
    fn detect(&mut self, flight: &Flight, now: Time) -> bool {
        self.reordering_deadline = None;
        let board = &mut self.common.board;
        if board.sacked_bytes() == 0
            && board.first().is_none_or(|first| !first.retransmitted && first.at >= self.rack.sent)
        {
            return false;
        }
        let certain = board.lost_below(flight.dupack_threshold).is_some() || self.common.repairing();
        let patience = self.rack.rtt + self.rack.window(flight, certain);
        let (rack_sent, rack_end) = (self.rack.sent, self.rack.end);
        let highest = self.common.board.highest_sacked();
        let mut wait: Option<Time> = None;
        let found = self.common.board.mark_lost(|segment| {
            if (segment.at, segment.end) >= (rack_sent, rack_end) {
                // Beyond what was ever SACKed, segments were sent in order and once: none can be older.
                let in_order = !segment.retransmitted && segment.start >= highest;
                return if in_order { None } else { Some(false) };
            }
            let due = segment.at + patience;
            if due > now {
                wait = wait.max(Some(due));
            }
            Some(due <= now)
        });
        self.reordering_deadline = wait;
        found
    }

    /// Sets the time of the next tail-loss probe (RFC 8985 s7.2).
    fn schedule_probe(&mut self, flight: &Flight, now: Time) {
        let board = &self.common.board;
        let (Some(first), Some(last)) = (board.first(), board.last()) else {
            self.probe_deadline = None;
            return;
        };
        if self.common.repairing() || board.sacked_bytes() > 0 || self.probe.is_some() {
            self.probe_deadline = None;
            return;
        }
        let alone = first.start == last.start;
        let wait = match flight.rto.srtt() {
            Some(srtt) => srtt * 2 + if alone { DELAYED_ACK_MAX } else { Duration::ZERO },
            None => Duration::from_secs(1),
        };
        // Never later than the timer itself, which the probe then restarts.
        let latest = flight.retransmit_at.filter(|_| !flight.restart_timer).unwrap_or(now + flight.rto.timeout());
        self.probe_deadline = Some((now + wait).min(latest));
    }

    /// RFC 8985 s7.4.2: was the probe needed?
    fn judge_probe(&mut self, flight: &mut Flight, ack: &Acknowledgement<'_>) {
        let Some(Probe { end, resent, in_flight }) = self.probe else { return };
        if flight.una < end {
            return;
        }
        let duplicate = ack.dsack.is_some_and(|(_, right)| right == end);
        if !resent || duplicate {
            self.probe = None;
        } else if flight.una > end {
            // The probe repaired a loss: the window must answer for it.
            self.probe = None;
            self.common.congest_without_recovery(flight, ack.now, in_flight);
        } else if ack.duplicate && ack.sacks.is_empty() {
            self.probe = None;
        }
    }
}
