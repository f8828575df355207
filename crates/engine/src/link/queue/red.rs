//! Random early detection (Floyd and Jacobson 1993): packets are dropped before the queue is full, by chance, the longer
//! the queue has been on average the more often.

use super::late::MARKS;
use super::{Fifo, Queue, Site};
use crate::packet::Packet;
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values, names};
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity, Chance};

/// The parameters of a queue with random early detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The unit of the queue's length: packets or bytes.
    pub counts: Counts,
    /// The thresholds of early drops, in that unit.
    pub thresholds: Thresholds,
    /// Packets that may wait at all.
    pub packets_max: u64,
    /// True if packets that may be marked are marked, and not dropped early.
    pub marks: bool,
}

const COUNTS: &[(&str, Counts)] = &[("packets", Counts::Packets), ("bytes", Counts::Bytes)];

/// Bytes of a packet of `min` and `max` where bytes are counted.
const FULL_PACKET: u64 = 1_500;

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "red",
        doc: "Random early detection (Floyd and Jacobson 1993).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How many packets may wait.",
            },
            Field {
                name: "counts",
                kind: Kind::Choice(|| names(COUNTS)),
                absent: Absent::Is("packets"),
                doc: "What the queue's length is. With `bytes`, `min` and `max` are packets of 1500 bytes, and a smaller one \
                      counts less; the chance of a drop is the same for all lengths (RFC 7141).",
            },
            Field {
                name: "min",
                kind: Kind::Count { min: 1, max: 1_000_000 },
                absent: Absent::Is("5"),
                doc: "From this average number of packets on some are dropped.",
            },
            Field {
                name: "max",
                kind: Kind::Count { min: 2, max: 1_000_000 },
                absent: Absent::Is("15"),
                doc: "From this average on, all are.",
            },
            Field {
                name: "max_chance",
                kind: Kind::Chance,
                absent: Absent::Is("2%"),
                doc: "Chance of a drop just below `max`.",
            },
            Field {
                doc: "The average follows the queue with the weight 2^-`weight_bits` at each packet that has to wait.",
                ..WEIGHT_BITS
            },
            Field {
                name: "departure",
                kind: Kind::Span { min: 1, max: 1_000_000_000 },
                absent: Absent::Is("1ms"),
                doc: "How long a packet takes to leave: so fast the average falls while the queue is empty.",
            },
            Field {
                doc: "Packets of connections that use ECN are marked where others are dropped early (RFC 3168, section 7); from \
                      `max` on, and where nothing more may wait, these too are dropped.",
                ..MARKS
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let counts = values.choice("counts", COUNTS);
        let each = match counts {
            Counts::Packets => 1,
            Counts::Bytes => FULL_PACKET,
        };
        let (min, max) = (values.count("min"), values.count("max"));
        if min >= max {
            return Err(Mistake { field: "min", text: format!("is not below max = {max}") });
        }
        let packets_max = match values.capacity("buffer") {
            Capacity::Unlimited => u64::MAX,
            Capacity::Packets(packets) => packets,
            Capacity::Bytes(_) => {
                let text = "model = \"red\" counts packets: give their number, such as \"50 packets\"".to_owned();
                return Err(Mistake { field: "buffer", text });
            }
        };
        let thresholds = Thresholds {
            min: min * each,
            max: max * each,
            max_chance: values.chance("max_chance"),
            weight_bits: weight_bits(values, PAPERS_WEIGHT_BITS),
            departure: values.span("departure"),
        };
        Ok(Parameters { counts, thresholds, packets_max, marks: values.flag(MARKS.name) })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, site: Site<'_>) -> Box<dyn Queue> {
        Box::new(Red { marks: self.marks, ..Red::new(self.thresholds, self.counts, self.packets_max, site.rng) })
    }
}

/// Floyd and Jacobson's weight of a new length in the average, 0.002 (s6 of the paper), as a power of two.
const PAPERS_WEIGHT_BITS: u32 = 9;

/// The field that says how fast an average follows, without what it means for its queue.
pub(super) const WEIGHT_BITS: Field = Field {
    name: "weight_bits",
    kind: Kind::Count { min: 0, max: 16 },
    absent: Absent::Follows("`red`: 9; `header-drop`: the logarithm of `headers`; `occupancy-drop`: 0"),
    doc: "",
};

/// The field of this name, or what holds for the queue without it.
pub(super) fn weight_bits(values: &Values, absent: u32) -> u32 {
    values.given(WEIGHT_BITS.name).map_or(absent, |_| values.small(WEIGHT_BITS.name))
}

/// Fixed point of the average: 2^-16 of a packet or byte.
const AVERAGE_BITS: u32 = 16;
/// Fixed point of the decay while idle.
const DECAY_BITS: u32 = 32;

/// The averages at which the law drops, in packets or in bytes as its user counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The average below which nothing is dropped.
    pub min: u64,
    /// The average from which on everything is dropped.
    pub max: u64,
    /// The chance of a drop just below `max`.
    pub max_chance: Chance,
    /// The average follows the queue with the weight 2^-`weight_bits` at each arrival: 9 is the paper's 0.002, 0 the queue
    /// itself.
    pub weight_bits: u32,
    /// The time that a packet takes to leave, for the average while the queue is empty.
    pub departure: Duration,
}

/// The law of RED (s4 and s7 of the paper): who counts what, and what is done with a packet struck, is its user's.
#[derive(Debug)]
pub(crate) struct Law {
    thresholds: Thresholds,
    average: u64,
    /// Packets since the last drop, while the average is between the thresholds.
    since_drop: Option<u64>,
    /// The time since which the queue has been empty.
    empty_since: Option<Time>,
    rng: Rng,
}

impl Law {
    pub(crate) fn new(thresholds: Thresholds, rng: Rng) -> Law {
        Law { thresholds, average: 0, since_drop: None, empty_since: Some(Time::ZERO), rng }
    }

    /// A packet arrives that finds `waiting` in the queue: true if it is to be dropped.
    pub(crate) fn strikes(&mut self, now: Time, waiting: u64) -> bool {
        self.follow(now, waiting);
        let struck = self.decides();
        // What is dropped on its way into an empty queue leaves it empty.
        if struck && waiting == 0 {
            self.emptied(now);
        }
        struck
    }

    fn decides(&mut self) -> bool {
        let Thresholds { min, max, .. } = self.thresholds;
        if self.average < min << AVERAGE_BITS {
            self.since_drop = None;
            return false;
        }
        if self.average >= max << AVERAGE_BITS {
            self.since_drop = Some(0);
            return true;
        }
        let passed = self.since_drop.map_or(0, |passed| passed + 1);
        let struck = self.rng.strikes(self.chance(passed));
        self.since_drop = Some(if struck { 0 } else { passed });
        struck
    }

    /// True if the average has reached the threshold from which on everything is dropped.
    fn is_beyond(&self) -> bool {
        self.average >= self.thresholds.max << AVERAGE_BITS
    }

    /// The queue became empty.
    pub(crate) fn emptied(&mut self, now: Time) {
        self.empty_since = Some(now);
    }

    fn follow(&mut self, now: Time, waiting: u64) {
        if let Some(since) = self.empty_since.take() {
            // As many packets might have left meanwhile.
            let departures = now.since(since).as_nanos() / self.thresholds.departure.as_nanos().max(1);
            self.average = decayed(self.average, self.thresholds.weight_bits, departures);
        }
        let waiting = waiting << AVERAGE_BITS;
        let weight = self.thresholds.weight_bits;
        if waiting >= self.average {
            self.average += (waiting - self.average) >> weight;
        } else {
            self.average -= (self.average - waiting) >> weight;
        }
    }

    /// p_a = p_b / (1 - count p_b), where p_b rises from 0 to `max_chance` between the thresholds: so drops are spread
    /// evenly (s7).
    fn chance(&self, passed: u64) -> Chance {
        let Thresholds { min, max, max_chance, .. } = self.thresholds;
        let above = u128::from(self.average - (min << AVERAGE_BITS));
        let span = u128::from(max - min) << AVERAGE_BITS;
        let base = u128::from(max_chance.raw()) * above / span;
        let rest = (1_u128 << 64).saturating_sub(base * u128::from(passed));
        match (base << 64).checked_div(rest) {
            Some(chance) => Chance::from_raw(u64::try_from(chance).unwrap_or(u64::MAX)),
            None => Chance::ALWAYS,
        }
    }
}

/// `average` (1 - 2^-`weight_bits`)^`departures`.
fn decayed(average: u64, weight_bits: u32, departures: u64) -> u64 {
    let one = 1_u64 << DECAY_BITS;
    let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> DECAY_BITS) as u64;
    let (mut factor, mut power, mut left) = (one, one - (one >> weight_bits.min(DECAY_BITS)), departures);
    while left > 0 && factor > 0 {
        if left & 1 == 1 {
            factor = times(factor, power);
        }
        power = times(power, power);
        left >>= 1;
    }
    times(average, factor)
}

/// The unit in which a queue with random early detection counts its length. The chance of a drop is the same for packets of all
/// lengths (RFC 7141 s2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// The length in packets: a header of 52 bytes is as much as 1500 bytes of data.
    Packets,
    /// The length in bytes: how long the queue takes to leave (RFC 7141 s2.1).
    Bytes,
}

/// First in, first out, with random early detection.
#[derive(Debug)]
pub struct Red {
    waiting: Fifo,
    packets_max: u64,
    counts: Counts,
    law: Law,
    marks: bool,
    marked: u64,
}

impl Red {
    /// A queue of at most `packets_max` waiting packets, with the `thresholds` in what it `counts`.
    ///
    /// # Panics
    /// If `min` is not below `max`.
    pub fn new(thresholds: Thresholds, counts: Counts, packets_max: u64, rng: Rng) -> Red {
        assert!(thresholds.min < thresholds.max, "between the thresholds there is a slope: {thresholds:?}");
        Red { waiting: Fifo::default(), packets_max, counts, law: Law::new(thresholds, rng), marks: true, marked: 0 }
    }
}

impl Queue for Red {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        let packets = self.waiting.packets();
        let length = match self.counts {
            Counts::Packets => packets,
            Counts::Bytes => self.waiting.bytes().get(),
        };
        let is_struck = self.law.strikes(now, length);
        let mut packet = *packet;
        let is_marked = is_struck && self.marks && !self.law.is_beyond() && packets < self.packets_max && packet.mark();
        if is_struck && !is_marked || packets >= self.packets_max {
            return Some((now, packet));
        }
        self.marked += u64::from(is_marked);
        self.waiting.push(now, &packet);
        None
    }

    fn marked(&self) -> u64 {
        self.marked
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        let (entered, packet) = self.waiting.pop()?;
        if self.waiting.packets() == 0 {
            self.law.emptied(now);
        }
        Some((entered, packet))
    }

    fn bytes(&self) -> Bytes {
        self.waiting.bytes()
    }

    fn waited(&self, now: Time) -> u128 {
        self.waiting.waited(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds {
        min: 5,
        max: 15,
        max_chance: Chance::from_raw(u64::MAX / 50),
        weight_bits: 0,
        departure: Duration::from_millis(1),
    };

    fn law(thresholds: Thresholds) -> Law {
        Law::new(thresholds, Rng::named(1, "red"))
    }

    fn share_struck(law: &mut Law, waiting: u64) -> f64 {
        (0..100_000).filter(|_| law.strikes(Time::ZERO, waiting)).count() as f64 / 1e5
    }

    #[test]
    fn nothing_is_struck_below_the_thresholds_and_all_from_the_upper_on() {
        let mut law = law(THRESHOLDS);
        assert_eq!(share_struck(&mut law, 4), 0.0);
        assert_eq!(share_struck(&mut law, 15), 1.0);
    }

    #[test]
    fn between_the_thresholds_drops_come_evenly_at_twice_the_slope() {
        // With p_a = p_b / (1 - count p_b) the gap between drops is uniform in 1..1/p_b: half as long as with p_b alone.
        let share = share_struck(&mut law(THRESHOLDS), 10);
        assert!((share - 0.02).abs() < 0.001, "half the slope of 2% is 1%, and twice that {share}");
    }

    #[test]
    fn the_average_follows_a_step_with_the_papers_weight() {
        let mut law = law(Thresholds { weight_bits: 9, max: 100, ..THRESHOLDS });
        let follows = |law: &mut Law| {
            law.follow(Time::ZERO, 50);
            law.average < ((50 * 632) << AVERAGE_BITS) / 1_000
        };
        let steps = (0..10_000).take_while(|_| follows(&mut law)).count();
        assert!((480..=512).contains(&steps), "63.2% of the way takes about 512 arrivals: {steps}");
    }

    #[test]
    fn an_empty_queue_forgets_at_the_rate_at_which_packets_would_have_left() {
        let mut law = law(Thresholds { weight_bits: 9, ..THRESHOLDS });
        law.average = 10 << AVERAGE_BITS;
        law.emptied(Time::ZERO);
        law.follow(Time::ZERO + Duration::from_millis(512), 0);
        let left = law.average as f64 / f64::from(10 << AVERAGE_BITS);
        assert!((left - 0.367).abs() < 0.003, "(1 - 1/512)^513 is 0.367, not {left}");
    }

    #[test]
    fn a_drop_into_an_empty_queue_does_not_stop_it_from_forgetting() {
        let mut law = law(Thresholds { weight_bits: 9, ..THRESHOLDS });
        law.average = 20 << AVERAGE_BITS;
        law.emptied(Time::ZERO);
        assert!(law.strikes(Time::ZERO, 0), "an average of 20 is above the upper threshold");
        assert!(!law.strikes(Time::ZERO + Duration::from_secs(1), 0), "after 1000 departures it is 3");
    }

    #[test]
    fn a_short_queue_loses_nothing_and_a_full_one_drops_what_arrives() {
        let packet = super::super::tests::packet(1_000);
        let mut queue =
            Red::new(Thresholds { weight_bits: 9, ..THRESHOLDS }, Counts::Packets, 20, Rng::named(1, "red"));
        for _ in 0..20 {
            assert_eq!(queue.enqueue(Time::ZERO, &packet, Bytes::ZERO), None, "the average is still short");
        }
        assert_eq!(queue.enqueue(Time::ZERO, &packet, Bytes::ZERO), Some((Time::ZERO, packet)));
        assert_eq!(queue.bytes(), Bytes::new(20_000));
    }
    #[test]
    fn a_header_lengthens_a_queue_that_counts_bytes_by_its_bytes() {
        let struck = |counts, min, len| {
            let thresholds = Thresholds { min, max: 2 * min, max_chance: Chance::ALWAYS, ..THRESHOLDS };
            let mut queue = Red::new(thresholds, counts, 1_000, Rng::named(1, "red"));
            let packet = super::super::tests::packet(len);
            (0..10).filter(|_| queue.enqueue(Time::ZERO, &packet, Bytes::ZERO).is_some()).count()
        };
        assert_eq!(struck(Counts::Bytes, 7_500, 52), 0, "ten headers are 520 bytes");
        assert!(struck(Counts::Bytes, 7_500, 1_500) > 0);
        assert_eq!(struck(Counts::Packets, 5, 52), struck(Counts::Packets, 5, 1_500), "ten packets are ten packets");
        assert!(struck(Counts::Packets, 5, 52) > 0);
    }
}
