//! Packets that were read and have not entered the node yet. They enter in the order in which they came to their devices, at the
//! times at which they did, where those are known: then it moves nothing in the node that nobody read them at once.

use std::collections::VecDeque;

use headend_engine::node::Port;
use headend_engine::packet::Packet;
use headend_engine::time::{Duration, Time};

#[derive(Debug)]
pub(super) struct Inbox {
    ports: Vec<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Waiting>,
    /// The time at which the last came of a device that may have more.
    read_until: Option<Time>,
}

/// A packet that has come.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) came: Time,
    /// The time for which it may have waited besides, where it is not known when it came.
    pub(super) unread: Duration,
    pub(super) packet: Packet,
}

impl Inbox {
    pub(super) fn new(ports: usize) -> Inbox {
        Inbox { ports: (0..ports).map(|_| Queue::default()).collect() }
    }

    /// Takes a packet that came to the device at `port` after those before.
    pub(super) fn put(&mut self, port: Port, waiting: Waiting) {
        self.queue(port).packets.push_back(waiting);
    }

    /// Notes whether the device at `port` may have packets that came before now.
    pub(super) fn has_more(&mut self, port: Port, has_more: bool) {
        let queue = self.queue(port);
        // Without a packet here there was no room to read one, and nothing is known of when it came.
        queue.read_until = queue.packets.back().map(|last| last.came).filter(|_| has_more);
    }

    /// True if a device may have packets that came before now.
    pub(super) fn is_behind(&self) -> bool {
        self.ports.iter().any(|queue| queue.read_until.is_some())
    }

    /// The time up to which all packets are here, of those that have come until `now`.
    pub(super) fn complete_until(&self, now: Time) -> Time {
        self.ports.iter().filter_map(|queue| queue.read_until).fold(now, Time::min)
    }

    /// The next packet, if it came no later than `until`.
    pub(super) fn take(&mut self, until: Time) -> Option<(Port, Waiting)> {
        let came = |queue: &Queue| queue.packets.front().map(|waiting| waiting.came).filter(|&came| came <= until);
        let fronts = self.ports.iter().enumerate().filter_map(|(port, queue)| Some((came(queue)?, port)));
        let (_, port) = fronts.min()?;
        Some((Port(port as u16), self.ports[port].packets.pop_front()?))
    }

    fn queue(&mut self, port: Port) -> &mut Queue {
        &mut self.ports[usize::from(port.0)]
    }
}

#[cfg(test)]
mod tests {
    use headend_engine::packet::{Body, Class, Ecn, Endpoint};

    use super::*;

    fn put(inbox: &mut Inbox, port: u16, came_ns: u64) {
        let end = Endpoint { node: 0, port: 0 };
        let packet =
            Packet { id: 0, src: end, dst: end, len: 1, class: Class::default(), ecn: Ecn::NotEct, body: Body::Opaque };
        inbox.put(Port(port), Waiting { came: Time::from_nanos(came_ns), unread: Duration::ZERO, packet });
    }

    #[test]
    fn packets_are_taken_as_they_came_as_far_as_all_are_known() {
        let mut inbox = Inbox::new(2);
        [10, 20, 30].into_iter().for_each(|came| put(&mut inbox, 0, came));
        [5, 25, 40].into_iter().for_each(|came| put(&mut inbox, 1, came));
        // The first device may have more, that came after 30.
        inbox.has_more(Port(0), true);
        inbox.has_more(Port(1), false);
        let until = inbox.complete_until(Time::from_nanos(99));
        let taken: Vec<_> = std::iter::from_fn(|| inbox.take(until)).map(|(_, it)| it.came.as_nanos()).collect();
        assert_eq!(taken, [5, 10, 20, 25, 30]);
        inbox.has_more(Port(0), false);
        assert_eq!(inbox.complete_until(Time::from_nanos(99)), Time::from_nanos(99));
    }
}
