//! A ledger of users' packets in a circuit: the times that they take, and the order in which they come. Both ends
//! write into it, because packets carry no such notes.

use std::collections::BTreeMap;

use headend_engine::packet::Packet;
use headend_engine::time::{Duration, Time};

use crate::histogram::Histogram;

/// The packets of one circuit.
#[derive(Debug, Default)]
pub(crate) struct Journeys {
    /// Packets that have not come yet, by the node that sent each and its number there.
    under_way: BTreeMap<(u16, u64), Entry>,
    entered: u64,
    /// The number of the last to enter among those that have come.
    last: u64,
    reordered: u64,
    /// Bytes of those that have come.
    bytes: u64,
    /// Times from entering to leaving.
    whole: Span,
    /// Times from leaving the tunnel queue to leaving.
    carried: Span,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    entered: Time,
    left_queue: Option<Time>,
}

/// A summary of many durations: their distribution, sum, maximum and number.
#[derive(Debug, Default)]
pub(crate) struct Span {
    histogram: Histogram,
    sum: u128,
    max: Duration,
    count: u64,
}

/// Mean, quantile 95 per cent and largest.
pub(crate) type Summary = [Duration; 3];

impl Span {
    fn record(&mut self, value: Duration) {
        self.histogram.record(value);
        self.sum += u128::from(value.as_nanos());
        self.max = self.max.max(value);
        self.count += 1;
    }

    /// The number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The summary, or `None` if there was no duration.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let mean = u64::try_from(self.sum.checked_div(u128::from(self.count))?).expect("a mean is below the largest");
        Some([Duration::from_nanos(mean), self.histogram.quantile(95)?, self.max])
    }
}

impl Journeys {
    /// Notes that a packet was taken into the tunnel queue.
    pub(super) fn enter(&mut self, now: Time, packet: &Packet) {
        self.entered += 1;
        let entry = Entry { number: self.entered, entered: now, left_queue: None };
        self.under_way.insert(key(packet), entry);
    }

    /// Notes that a packet left the sending end, as it is.
    pub(super) fn leave_queue(&mut self, now: Time, packet: &Packet) {
        if let Some(entry) = self.under_way.get_mut(&key(packet)) {
            entry.left_queue = Some(now);
        }
    }

    /// Notes that a packet came to the receiving end, if it entered here. `left_queue` is given if only now it is
    /// known.
    pub(super) fn arrive(&mut self, now: Time, packet: &Packet, left_queue: Option<Time>) {
        let Some(entry) = self.under_way.remove(&key(packet)) else { return };
        self.reordered += u64::from(entry.number < self.last);
        self.last = self.last.max(entry.number);
        self.bytes += u64::from(packet.len);
        self.whole.record(now.since(entry.entered));
        let left = left_queue.or(entry.left_queue).expect("it has left before it comes");
        self.carried.record(now.since(left));
    }

    /// Packets that came after one that had entered after them.
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Bytes of all that came.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Times from entering to leaving.
    pub(crate) fn whole(&self) -> &Span {
        &self.whole
    }

    /// Times from leaving the tunnel queue to leaving.
    pub(crate) fn carried(&self) -> &Span {
        &self.carried
    }
}

fn key(packet: &Packet) -> (u16, u64) {
    (packet.src.node, packet.id)
}

#[cfg(test)]
mod tests {
    use headend_engine::packet::{Body, Class, Ecn, Endpoint};

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn packet(id: u64) -> Packet {
        let at = |node| Endpoint { node, port: 0 };
        Packet { id, src: at(1), dst: at(2), len: 100, class: Class::User, ecn: Ecn::NotEct, body: Body::Opaque }
    }

    #[test]
    fn a_packet_behind_a_later_one_is_reordered_and_a_lost_or_strange_one_not() {
        let mut journeys = Journeys::default();
        for id in 0..5 {
            journeys.enter(at(id), &packet(id));
            journeys.leave_queue(at(10 + id), &packet(id));
        }
        journeys.arrive(at(20), &packet(0), None);
        journeys.arrive(at(21), &packet(3), None);
        journeys.arrive(at(22), &packet(1), None);
        journeys.arrive(at(23), &packet(2), Some(at(13)));
        journeys.arrive(at(24), &packet(9), None);
        journeys.arrive(at(24), &packet(3), None);
        assert_eq!((journeys.reordered(), journeys.whole().count()), (2, 4), "number 4 is lost");
        assert_eq!(journeys.bytes(), 400);
        let [mean, _, max] = journeys.whole().summary().unwrap();
        assert_eq!((mean, max), (Duration::from_millis(20), Duration::from_millis(21)));
        let [mean, _, max] = journeys.carried().summary().unwrap();
        // 10, 8, 11 and 10.
        assert_eq!((mean, max), (Duration::from_micros(9_750), Duration::from_millis(11)));
        assert_eq!(Journeys::default().whole().summary(), None);
    }
}
