//! The router queue of TCP decoupling (thesis s2.2.7): one FIFO, from which header packets are dropped early and users'
//! packets only when it is really full.

use super::red::{Law, Thresholds, WEIGHT_BITS, weight_bits};
use super::{Fifo, Queue, Site};
use crate::packet::{Class, Packet};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Values, names};
use crate::rng::Rng;
use crate::time::{Duration, Time};
use crate::units::{Bytes, Capacity, Chance};

/// The parameters of a queue that drops headers first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Header packets that may wait, HP_Th; at least 2.
    pub headers: u64,
    /// Bytes that may wait at all.
    pub bytes_max: Bytes,
    /// True if a packet of no circuit counts as a header.
    pub unmarked_is_header: bool,
    /// The average of waiting headers follows their number with the weight 2^-`weight_bits`.
    pub weight_bits: u32,
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "header-drop",
        doc: "The routers of TCP decoupling, which drop header packets first (section 2.2.7 of the thesis).",
        fields: &[
            Field {
                name: "buffer",
                kind: Kind::Capacity,
                absent: Absent::Is("unlimited"),
                doc: "How many bytes may wait.",
            },
            Field {
                name: "headers",
                kind: Kind::Count { min: 2, max: 1_000_000 },
                absent: Absent::Required,
                doc: "Header packets that may wait, HP_Th; from half as many on some are dropped.",
            },
            UNMARKED,
            Field {
                doc: "The average of waiting headers follows their number with the weight 2^-`weight_bits` at each header \
                      that comes.",
                ..WEIGHT_BITS
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let headers = values.count("headers");
        Ok(Parameters {
            headers,
            bytes_max: bytes_max(values)?,
            unmarked_is_header: unmarked_is_header(values),
            weight_bits: weight_bits(values, headers.ilog2()),
        })
    }
}

impl Parameters {
    /// An empty queue.
    pub fn build(&self, site: Site<'_>) -> Box<dyn Queue> {
        let early = Early::Headers(self.headers);
        let departure = header_departure(&site);
        Box::new(HeaderDrop::new(early, self.bytes_max, self.unmarked_is_header, self.weight_bits, departure, site.rng))
    }
}

pub(super) const UNMARKED: Field = Field {
    name: "unmarked",
    kind: Kind::Choice(|| names(UNMARKED_AS)),
    absent: Absent::Is("data"),
    doc: "What a packet of no circuit counts as (section 3.8.4 of the thesis).",
};

const UNMARKED_AS: &[(&str, bool)] = &[("data", false), ("header", true)];

pub(super) fn unmarked_is_header(values: &Values) -> bool {
    values.choice("unmarked", UNMARKED_AS)
}

/// A full packet, and the header that follows it.
const WITH_HEADER: Bytes = Bytes::new(1_552);

/// The time that the link takes for a header and the data before it, as long as a full packet.
pub(super) fn header_departure(site: &Site<'_>) -> Duration {
    site.rate.usual_time_for(WITH_HEADER)
}

/// The field `buffer`, where bytes are counted.
pub(super) fn bytes_max(values: &Values) -> Result<Bytes, Mistake> {
    match values.capacity("buffer") {
        Capacity::Unlimited => Ok(Bytes::MAX),
        Capacity::Bytes(bytes) => Ok(bytes),
        Capacity::Packets(_) => Err(Mistake {
            field: "buffer",
            text: "header packets and users' packets differ in length: give a size, such as \"222656B\"".to_owned(),
        }),
    }
}

/// The quantity that decides whether a header packet is dropped before the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// The number of header packets waiting, at most this many: HP_Th of equation (1) (s2.2.7.1).
    Headers(u64),
    /// The bytes waiting in all, on average: headers are dropped by chance from this many on. For circuits whose VMSS nobody
    /// knows (s2.3.1, the last alternative).
    Occupancy(Bytes),
}

/// The thesis says "a simple RED-like scheme" and no more. The chance rises to what Floyd recommended for RED, 1 in 10.
///
/// RED's weight of 2^-9 is too slow. The average moves at headers only, and 512 of them take ten round trips to come, while they
/// are to be dropped "early enough so that their control TCP senders can reduce their rates" (s2.2.7). The count itself is too
/// quick: a circuit whose VMSS is one packet brings headers in closer succession than one whose VMSS is two, and gets less than
/// its share. So the average follows over as many headers as may wait, HP_Th, rounded down to a power of two. That many come
/// in a round trip with a full queue. `python -m headend.papers run decoupling.weights` shows what each weight does.
const MAX_CHANCE: Chance = Chance::from_raw(u64::MAX / 10);

/// First in, first out; header packets are dropped first.
#[derive(Debug)]
pub struct HeaderDrop {
    waiting: Fifo,
    bytes_max: Bytes,
    headers: u64,
    early: Early,
    law: Law,
    /// True if a packet of no circuit counts as a header (s3.8.4).
    unmarked_is_header: bool,
}

impl HeaderDrop {
    /// A queue of at most `bytes_max` waiting bytes. Header packets are dropped by chance if their average number is above
    /// half of HP_Th, or the average occupancy above its threshold; and surely at HP_Th.
    ///
    /// While nothing that counts waits, the average falls as RED's does, once for each `departure`: how long the link takes
    /// for a header with the data before it. A header alone would leave in a thirtieth of that, but none comes without data.
    ///
    /// # Panics
    /// If the threshold is below two: there is no half.
    pub fn new(
        early: Early,
        bytes_max: Bytes,
        unmarked_is_header: bool,
        weight_bits: u32,
        departure: Duration,
        rng: Rng,
    ) -> HeaderDrop {
        // For the occupancy the whole buffer is the slope's end: at half of it, as s2.3.1 suggests, drops begin.
        let (min, max) = match early {
            Early::Headers(threshold) => (threshold / 2, threshold),
            Early::Occupancy(threshold) => (threshold.get(), bytes_max.get()),
        };
        assert!(0 < min && min < max, "header packets are dropped by chance before all are: {early:?}, {bytes_max}");
        let thresholds = Thresholds { min, max, max_chance: MAX_CHANCE, weight_bits, departure };
        HeaderDrop {
            waiting: Fifo::default(),
            bytes_max,
            headers: 0,
            early,
            law: Law::new(thresholds, rng),
            unmarked_is_header,
        }
    }

    fn is_header(&self, packet: &Packet) -> bool {
        match packet.class {
            Class::Header => true,
            Class::Unmarked => self.unmarked_is_header,
            Class::User => false,
        }
    }

    /// The quantity that is averaged: header packets, or all bytes.
    fn counted(&self) -> u64 {
        match self.early {
            Early::Headers(_) => self.headers,
            Early::Occupancy(_) => self.waiting.bytes().get(),
        }
    }
}

impl Queue for HeaderDrop {
    fn enqueue(&mut self, now: Time, packet: &Packet, _in_service: Bytes) -> Option<(Time, Packet)> {
        let is_header = self.is_header(packet);
        let counted = self.counted();
        let bytes = self.waiting.bytes() + packet.len();
        let over = matches!(self.early, Early::Headers(threshold) if counted >= threshold);
        if is_header && (self.law.strikes(now, counted) || over) || bytes > self.bytes_max {
            return Some((now, *packet));
        }
        self.headers += u64::from(is_header);
        self.waiting.push(now, packet);
        None
    }

    fn dequeue(&mut self, now: Time) -> Option<(Time, Packet)> {
        let counted = self.counted();
        let (entered, packet) = self.waiting.pop()?;
        self.headers -= u64::from(self.is_header(&packet));
        // Users' packets may wait on: those with a guarantee have no headers.
        if counted > 0 && self.counted() == 0 {
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
    use super::super::tests::packet;
    use super::*;
    use crate::link::recording::Series;
    use crate::link::service::{self, RateModel};
    use crate::units::Rate;

    fn marked(class: Class, len: u32) -> Packet {
        Packet { class, ..packet(len) }
    }

    fn queue(early: Early, unmarked_is_header: bool) -> HeaderDrop {
        weighted(early, unmarked_is_header, 9)
    }

    fn weighted(early: Early, unmarked_is_header: bool, weight_bits: u32) -> HeaderDrop {
        let departure = Duration::from_millis(1);
        HeaderDrop::new(early, Bytes::new(100_000), unmarked_is_header, weight_bits, departure, Rng::named(1, "router"))
    }

    fn taken(queue: &mut HeaderDrop, packet: &Packet, count: usize) -> usize {
        (0..count).filter(|_| queue.enqueue(Time::ZERO, packet, Bytes::ZERO).is_none()).count()
    }

    #[test]
    fn headers_never_number_more_than_the_threshold_and_users_pass() {
        let mut queue = queue(Early::Headers(64), false);
        let header = marked(Class::Header, 52);
        assert_eq!(taken(&mut queue, &header, 64), 64, "a burst passes: the average is still low");
        assert_eq!(taken(&mut queue, &header, 10_000), 0);
        assert_eq!(taken(&mut queue, &header, 10), 0);
        assert_eq!(taken(&mut queue, &marked(Class::User, 1_500), 10), 10);
    }

    #[test]
    fn users_packets_are_dropped_only_when_not_one_more_byte_fits() {
        let mut queue = queue(Early::Headers(64), false);
        assert_eq!(taken(&mut queue, &marked(Class::User, 1_500), 100), 66);
        assert_eq!(taken(&mut queue, &marked(Class::User, 1_000), 2), 1);
        assert_eq!(queue.bytes(), Bytes::new(100_000));
    }

    #[test]
    fn what_leaves_makes_room_for_headers_again_and_order_is_kept() {
        let mut queue = queue(Early::Headers(4), false);
        for len in [52, 53, 1_500] {
            let class = if len < 100 { Class::Header } else { Class::User };
            assert_eq!(queue.enqueue(Time::ZERO, &marked(class, len), Bytes::ZERO), None);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.dequeue(Time::ZERO)).map(|(_, packet)| packet.len).collect();
        assert_eq!(order, [52, 53, 1_500]);
        assert_eq!((queue.headers, queue.bytes()), (0, Bytes::ZERO));
    }

    #[test]
    fn a_header_leaves_with_its_data_as_fast_as_the_link_is() {
        let is = |rate: RateModel, micros| {
            let site = Site { rng: Rng::named(1, "router"), rate: &rate };
            assert_eq!(header_departure(&site), Duration::from_micros(micros));
        };
        is(RateModel::constant(Rate::mbit(8)), 1_552);
        is(RateModel::constant(Rate::mbit(4)), 3_104);
        let steps = Series::held([(Time::ZERO, Rate::mbit(8)), (Time::from_nanos(1), Rate::mbit(80))]);
        is(RateModel::Steps(service::steps::Parameters { steps }), 1_552);
        // 1500 bytes at each of three times in 6 ms.
        let times = [1, 2, 6].map(Duration::from_millis).into();
        let each = Bytes::new(1_500);
        is(RateModel::Trace(service::trace::Parameters::Opportunities { times, each }), 2_000);
    }

    /// The number of headers dropped out of 100 that come `idle_ms` after a time in which the average was close to the
    /// threshold, each to a queue without headers; in it `users` of users' packets wait all the time.
    fn dropped_after(idle_ms: u64, users: usize) -> usize {
        let mut queue = queue(Early::Headers(64), false);
        let header = marked(Class::Header, 52);
        taken(&mut queue, &header, 10_000);
        taken(&mut queue, &marked(Class::User, 1_500), users);
        while queue.headers > 0 {
            queue.dequeue(Time::ZERO);
        }
        let later = Time::ZERO + Duration::from_millis(idle_ms);
        let dropped = (0..100).filter(|_| {
            let dropped = queue.enqueue(later, &header, Bytes::ZERO).is_some();
            while queue.headers > 0 {
                queue.dequeue(later);
            }
            dropped
        });
        dropped.count()
    }

    #[test]
    fn a_queue_that_was_empty_for_long_has_forgotten_how_full_it_was() {
        assert!(dropped_after(0, 0) > 0);
        assert_eq!(dropped_after(10_000, 0), 0);
    }

    #[test]
    fn headers_are_forgotten_although_guaranteed_packets_wait_on() {
        assert!(dropped_after(0, 20) > 0);
        assert_eq!(dropped_after(10_000, 20), 0);
    }

    #[test]
    fn a_tcp_of_no_circuit_counts_as_a_header_where_the_router_is_told_so() {
        let plain = marked(Class::Unmarked, 1_500);
        assert_eq!(taken(&mut queue(Early::Headers(8), false), &plain, 1_000), 66);
        assert_eq!(taken(&mut queue(Early::Headers(8), true), &plain, 1_000), 8);
    }

    #[test]
    fn an_average_of_fewer_headers_follows_sooner() {
        let header = marked(Class::Header, 52);
        // Headers that pass before the first is dropped, where no more than 48 of 64 ever wait.
        let passed = |weight_bits| {
            let mut queue = weighted(Early::Headers(64), false, weight_bits);
            let passes = |queue: &mut HeaderDrop| {
                let passes = queue.enqueue(Time::ZERO, &header, Bytes::ZERO).is_none();
                if queue.headers > 48 {
                    queue.dequeue(Time::ZERO);
                }
                passes
            };
            (0..10_000).take_while(|_| passes(&mut queue)).count()
        };
        assert!(passed(6) * 4 < passed(9), "{} and {} headers", passed(6), passed(9));
    }

    #[test]
    fn by_occupancy_headers_are_dropped_for_the_bytes_of_whoever_waits() {
        let mut queue = queue(Early::Occupancy(Bytes::new(50_000)), false);
        let (header, user) = (marked(Class::Header, 52), marked(Class::User, 1_500));
        assert_eq!(taken(&mut queue, &user, 40), 40);
        // Each header that passes is taken back, so that 60 KB wait all the time.
        let turns = |queue: &mut HeaderDrop| {
            let passed = taken(queue, &header, 1);
            if passed == 1 {
                queue.waiting.take_back();
                queue.headers -= 1;
            }
            passed
        };
        let early: usize = (0..200).map(|_| turns(&mut queue)).sum();
        assert_eq!(early, 200, "60 KB wait, but the average is below 50");
        let late: usize = (0..5_000).map(|_| turns(&mut queue)).sum();
        assert!((1..5_000).contains(&late), "the average comes to 60 KB: by chance, {late} of 5000 passed");
    }
}
