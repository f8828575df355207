//! PIE: what comes is dropped with a probability that a proportional integral controller keeps adjusting, so that packets wait for
//! the target (Pan, Natarajan, Baker and White, RFC 8033).

use super::codel::{TARGET, target};
use super::late::{MARKS, Struck};
use super::{Fifo, Queue, Site};
use crate::packet::Packet;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values};
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity, Chance};

/// The parameters of a queue that PIE manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// A limit to what may wait.
    pub buffer: Capacity,
    /// The wait that it aims at (`QDELAY_REF`).
    pub target: Duration,
    /// True if packets that may be marked are marked, and not dropped.
    pub marks: bool,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "pie",
        doc: "Drops as packets come, with a probability that is adjusted until they wait for the target (RFC 8033).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How much may wait at all.",
            },
            TARGET,
            Field {
                doc: "Packets of connections that use ECN are marked where others are dropped, unless that befalls a tenth of all \
                      and more (RFC 8033, section 5.1).",
                ..MARKS
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters {
            buffer: values.capacity("buffer"),
            target: target(values, Duration::from_millis(15)),
            marks: values.flag(MARKS.name),
        })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, site: Site<'_>) -> Box<dyn Queue> {
        Box::new(Pie::new(*self, site.rng))
    }
}

/// The period of the controller (RFC 8033 s4.2, `T_UPDATE`).
const PERIOD: Duration = Duration::from_millis(15);
/// The time for which a burst passes (s4.4, `MAX_BURST`).
const BURST_MAX: Duration = Duration::from_millis(150);
/// The length of packet of which two may always wait: nothing is dropped while no more does (s4.1, `MEAN_PKTSIZE`).
const MEAN_PACKET: u64 = 1_024;
/// Certainty, in the unit of probabilities.
const ONE: i128 = 1 << 62;
const NANOS: i128 = 1_000_000_000;
/// Below such a probability, in millionths, changes are so many times smaller (s4.2).
const TUNING: [(i128, i128); 6] = [(1, 2_048), (10, 512), (100, 128), (1_000, 32), (10_000, 8), (100_000, 2)];

/// The controller, with the names of RFC 8033's appendix A.
#[derive(Clone, Copy, Debug, Default)]
struct Law {
    drop_prob: i128,
    qdelay_old: Duration,
    burst_allowance: Duration,
}

impl Law {
    /// `calculate_drop_prob`: once a period.
    fn update(&mut self, qdelay: Duration, target: Duration) {
        let ns = |delay: Duration| i128::from(delay.as_nanos());
        // s4.2: alpha = 1/8 and beta = 1 1/4, both a second.
        let sum = (ns(qdelay) - ns(target)) + 10 * (ns(qdelay) - ns(self.qdelay_old));
        let factor = TUNING.iter().find(|(below, _)| self.drop_prob < ONE * below / 1_000_000).map_or(1, |&(_, by)| by);
        let mut change = ONE * sum / (8 * NANOS) / factor;
        if self.drop_prob >= ONE / 10 {
            // s5.5: not more than 2% at once.
            change = change.min(ONE / 50);
        }
        self.drop_prob += change;
        if qdelay == Duration::ZERO && self.qdelay_old == Duration::ZERO {
            self.drop_prob = self.drop_prob * 98 / 100;
        }
        self.drop_prob = self.drop_prob.clamp(0, ONE);
        // s4.4.
        self.burst_allowance = self.burst_allowance.saturating_sub(PERIOD);
        if self.drop_prob == 0 && qdelay < target / 2 && self.qdelay_old < target / 2 {
            self.burst_allowance = BURST_MAX;
        }
        self.qdelay_old = qdelay;
    }

    /// True if a packet that comes may be struck at all while so many bytes wait (`drop_early`).
    fn may_strike(&self, target: Duration, waiting: Bytes) -> bool {
        let is_calm = self.qdelay_old < target / 2 && self.drop_prob < ONE / 5;
        self.burst_allowance == Duration::ZERO && !is_calm && waiting.get() > 2 * MEAN_PACKET
    }
}

/// First in, first out, with PIE.
#[derive(Debug)]
pub struct Pie {
    waiting: Fifo,
    packets_max: u64,
    bytes_max: Bytes,
    target: Duration,
    law: Law,
    /// The wait of the packet that left last; none once the queue is empty.
    qdelay: Duration,
    next_update: Time,
    rng: Rng,
    struck: Struck,
}

impl Pie {
    /// An empty queue.
    pub fn new(parameters: Parameters, rng: Rng) -> Pie {
        let Parameters { buffer, target, marks } = parameters;
        let (packets_max, bytes_max) = buffer.limits();
        Pie {
            waiting: Fifo::default(),
            packets_max,
            bytes_max,
            target,
            law: Law { burst_allowance: BURST_MAX, ..Law::default() },
            qdelay: Duration::ZERO,
            next_update: Time::ZERO + PERIOD,
            rng,
            struck: Struck::new(marks),
        }
    }

    /// Runs the controller for every period that has ended by `now`. What it goes by does not change between packets.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            self.law.update(self.qdelay, self.target);
            self.next_update += PERIOD;
            let Law { drop_prob, qdelay_old, burst_allowance } = self.law;
            if drop_prob == 0 && qdelay_old == Duration::ZERO && burst_allowance == BURST_MAX {
                // At rest, where every further period leaves it: the rest of a pause takes no time.
                let periods = now.since(self.next_update).as_nanos() / PERIOD.as_nanos();
                self.next_update += PERIOD * periods;
            }
        }
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        self.catch_up(now);
        let bytes = self.waiting.bytes();
        if self.waiting.packets() >= self.packets_max || bytes + packet.len() > self.bytes_max {
            return Some((now, *packet));
        }
        let mut packet = *packet;
        if self.law.may_strike(self.target, bytes) {
            let chance = u64::try_from(self.law.drop_prob * 4).map_or(Chance::ALWAYS, Chance::from_raw);
            let is_struck = self.rng.strikes(chance);
            // s5.1, MARK_ECNTH.
            let may_mark = self.law.drop_prob < ONE / 10;
            if is_struck && !(may_mark && self.struck.mark(&mut packet)) {
                return Some((now, packet));
            }
        }
        self.waiting.push(now, &packet);
        None
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        self.catch_up(now);
        let (entered, packet) = self.waiting.pop()?;
        self.qdelay = if self.waiting.packets() == 0 { Duration::ZERO } else { now.since(entered) };
        Some((entered, packet))
    }

    fn bytes(&self) -> Bytes {
        self.waiting.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.waiting.waited(now)
    }

    fn marked(&self) -> u64 {
        self.struck.marked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/aqm/judge.py` follows the pseudo-code of the RFC in floating point: a delay in ms, and the probability after it.
    #[test]
    fn the_controller_goes_where_the_pseudo_code_of_the_rfc_goes() {
        let mut law = Law::default();
        let mut highest = 0.0_f64;
        for line in include_str!("../../../tests/aqm/pie.txt").lines() {
            let (delay, wanted) = line.split_once(' ').expect("two numbers");
            let number = |text: &str| text.parse::<f64>().expect("a number");
            law.update(Duration::from_nanos((number(delay) * 1e6).round() as u64), Duration::from_millis(15));
            let got = law.drop_prob as f64 / ONE as f64;
            assert!((got - number(wanted)).abs() < 1e-9, "{line}: {got}");
            highest = highest.max(got);
        }
        assert!(highest > 0.1, "the table leads through all of the tuning: {highest}");
    }

    #[test]
    fn bursts_pass_until_their_allowance_is_used_up() {
        let mut law = Law { burst_allowance: BURST_MAX, ..Law::default() };
        let (target, long) = (Duration::from_millis(15), Duration::from_millis(40));
        let passed = (0..20).take_while(|_| {
            law.update(long, target);
            !law.may_strike(target, Bytes::new(100_000))
        });
        assert_eq!(passed.count(), 9, "150 ms are ten periods, and with the tenth they are over");
        law.qdelay_old = Duration::ZERO;
        assert!(!law.may_strike(target, Bytes::new(100_000)), "the queue was short and few are struck");
        assert!(!law.may_strike(target, Bytes::new(2_048)), "two packets are no queue");
    }

    #[test]
    fn a_long_pause_leaves_it_as_at_the_beginning() {
        let parameters = Parameters { buffer: Capacity::Unlimited, target: Duration::from_millis(15), marks: true };
        let mut pie = Pie::new(parameters, Rng::named(1, "pie"));
        pie.law.drop_prob = ONE / 3;
        pie.law.burst_allowance = Duration::ZERO;
        pie.catch_up(Time::ZERO + Duration::from_secs(100_000));
        assert_eq!((pie.law.drop_prob, pie.law.burst_allowance), (0, BURST_MAX));
        assert!(pie.next_update > Time::ZERO + Duration::from_secs(100_000));
    }
}
