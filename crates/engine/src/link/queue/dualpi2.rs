//! DualPI2: a queue for flows that answer each mark a little, which hardly waits, beside one for all others, and one controller
//! for both that couples their marks and drops so that flows of both kinds get the same (De Schepper, Briscoe and White, RFC
//! 9332, appendix A).

use super::codel::{TARGET, target};
use super::late::Struck;
use super::{Fifo, Queue, Site};
use crate::packet::{Ecn, Packet};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity};

/// The parameters of a coupled pair of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// A limit to what may wait in both queues together.
    pub buffer: Capacity,
    /// The wait that is aimed at in the classic queue.
    pub target: Duration,
    /// The wait in the low-latency queue from which on packets are marked.
    pub threshold: Duration,
    /// The range above the threshold in which the share of marked packets rises to all; zero for a step.
    pub range: Duration,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "dualpi2",
        doc: "Two coupled queues: one with hardly a wait for L4S traffic, which is marked, one for all other (RFC 9332).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How much may wait at all, in both queues together.",
            },
            TARGET,
            Field {
                name: "threshold_l4s",
                kind: Kind::Span { min: 0, max: 1_000_000_000 },
                absent: Absent::Is("800us"),
                doc: "From this wait on packets of L4S are marked.",
            },
            Field {
                name: "range_l4s",
                kind: Kind::Span { min: 0, max: 1_000_000_000 },
                absent: Absent::Is("400us"),
                doc: "So far above it all of them are; `0s` makes the ramp a step.",
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters {
            buffer: values.capacity("buffer"),
            target: target(values, Duration::from_millis(15)),
            threshold: values.span("threshold_l4s"),
            range: values.span("range_l4s"),
        })
    }
}

impl Parameters {
    /// An empty pair of queues.
    pub fn build(&self, _site: Site<'_>) -> Box<dyn Queue> {
        Box::new(DualPi2::new(*self))
    }
}

/// The longest round trip for which the controller is stable, `RTT_max` of figure 2.
const RTT_MAX: i128 = 100_000_000;
/// The period of the controller is the target, no more than a third of that, and no less than makes sense: each is computed.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_nanos(RTT_MAX as u64 / 3);
/// The coupling factor: flows of L4S see twice the root of the classic probability (s2.1).
const K: i128 = 2;
/// Certainty, in the unit of probabilities.
const ONE: i128 = 1 << 62;
/// While both queues have packets, the classic one sends this share of the bytes, in hundredths (s4.1.2: it must not starve).
const CLASSIC_SHARE: i64 = 10;

/// Two coupled queues.
#[derive(Debug)]
pub struct DualPi2 {
    low: Fifo,
    classic: Fifo,
    packets_max: u64,
    bytes_max: Bytes,
    parameters: Parameters,
    /// The base probability p' of the controller, and the classic queue's wait when it was adjusted last.
    base: i128,
    wait_before: Duration,
    period: Duration,
    next_update: Time,
    /// Parts of a mark that the low-latency queue is owed, and of one that the classic queue is (`recur`).
    low_count: i128,
    classic_count: i128,
    /// Bytes that the classic queue is owed, in hundredths.
    credit: i64,
    struck: Struck,
}

impl DualPi2 {
    /// An empty pair of queues.
    pub fn new(parameters: Parameters) -> DualPi2 {
        let (packets_max, bytes_max) = parameters.buffer.limits();
        let period = parameters.target.clamp(PERIOD_MIN, PERIOD_MAX);
        DualPi2 {
            low: Fifo::default(),
            classic: Fifo::default(),
            packets_max,
            bytes_max,
            parameters,
            base: 0,
            wait_before: Duration::ZERO,
            period,
            next_update: Time::ZERO + period,
            low_count: 0,
            classic_count: 0,
            credit: 0,
            struck: Struck::new(true),
        }
    }

    /// Runs the controller for every period that has ended by `now` (`dualpi2_update`).
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let wait = self.classic.first_came().map_or(Duration::ZERO, |came| self.next_update.since(came));
            self.update(wait);
            if self.base == 0 && wait == Duration::ZERO && self.wait_before == Duration::ZERO {
                let periods = now.since(self.next_update).as_nanos() / self.period.as_nanos();
                self.next_update += self.period * periods;
            }
            self.next_update += self.period;
        }
    }

    /// Adjusts the base probability to a wait in the classic queue.
    fn update(&mut self, wait: Duration) {
        let ns = |delay: Duration| i128::from(delay.as_nanos());
        let (period, target) = (ns(self.period), ns(self.parameters.target));
        // alpha = 0.1 Tupdate / RTT_max^2 and beta = 0.3 / RTT_max, both a second.
        let integral = ONE * period / RTT_MAX * (ns(wait) - target) / (10 * RTT_MAX);
        let proportional = ONE * 3 * (ns(wait) - ns(self.wait_before)) / (10 * RTT_MAX);
        self.base = (self.base + integral + proportional).clamp(0, ONE);
        self.wait_before = wait;
    }

    /// The probability of the low-latency queue's own marks at this wait (`laqm`).
    fn ramp(&self, wait: Duration) -> i128 {
        let Parameters { threshold, range, .. } = self.parameters;
        let above = wait.saturating_sub(threshold);
        if wait < threshold {
            0
        } else if above >= range {
            ONE
        } else {
            ONE * i128::from(above.as_nanos()) / i128::from(range.as_nanos())
        }
    }

    /// True if the low-latency queue has its turn.
    fn is_low_next(&self) -> bool {
        self.low.packets() > 0 && (self.classic.packets() == 0 || self.credit <= 0)
    }

    /// Charges a packet that was taken from one queue while the other had some too.
    fn charge(&mut self, is_low: bool, packet: &Packet) {
        if self.low.packets() == 0 || self.classic.packets() == 0 {
            return;
        }
        let share = if is_low { CLASSIC_SHARE } else { CLASSIC_SHARE - 100 };
        self.credit += share * i64::from(packet.len);
    }
}

/// True as often as `likelihood` says, evenly spread (`recur`).
fn recurs(count: &mut i128, likelihood: i128) -> bool {
    *count += likelihood;
    let is_due = *count >= ONE;
    if is_due {
        *count -= ONE;
    }
    is_due
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        self.catch_up(now);
        let packets = self.low.packets() + self.classic.packets();
        if packets >= self.packets_max || self.bytes() + packet.len() > self.bytes_max {
            return Some((now, *packet));
        }
        // RFC 9331 s5.1: ECT(1), and what is marked already.
        let is_low = matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        if is_low {
            self.low.push(now, packet)
        } else {
            self.classic.push(now, packet)
        }
        None
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        self.catch_up(now);
        // In fixed point the square of a half is exact: p_C = p'^2, p_CL = k p'.
        let classic_chance = (self.base >> 31) * (self.base >> 31);
        let coupled = K * self.base;
        let is_overloaded = coupled >= ONE;
        loop {
            let is_low = self.is_low_next();
            let queue = if is_low { &mut self.low } else { &mut self.classic };
            let (entered, mut packet) = queue.pop()?;
            let is_alone = queue.packets() == 0;
            self.charge(is_low, &packet);
            if !is_low {
                let is_struck = recurs(&mut self.classic_count, classic_chance);
                if is_struck && (is_overloaded || !self.struck.mark(&mut packet)) {
                    self.struck.drop(entered, packet);
                    continue;
                }
                return Some((entered, packet));
            }
            // s4.2.2: beyond what marks can say, packets of both kinds are dropped, as often.
            if is_overloaded && recurs(&mut self.classic_count, classic_chance) {
                self.struck.drop(entered, packet);
                continue;
            }
            // A lone packet that waited for another to be sent is no queue (Th_len).
            let own = if is_alone { 0 } else { self.ramp(now.since(entered)) };
            if recurs(&mut self.low_count, own.max(coupled).min(ONE)) {
                self.struck.mark(&mut packet);
            }
            return Some((entered, packet));
        }
    }

    fn bytes(&self) -> Bytes {
        self.low.bytes() + self.classic.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.low.waited(now) + self.classic.waited(now)
    }

    fn drops_late(&self) -> bool {
        true
    }

    fn take_dropped(&mut self) -> Option<(Time, Packet)> {
        self.struck.take()
    }

    fn marked(&self) -> u64 {
        self.struck.marked()
    }
}
