//! A link: queue, service, loss, propagation, always in that order, in one direction.
//!
//! A packet waits in the queue, is served for as long as its length takes, may be lost on the medium (after it has used
//! its share of it), and arrives a propagation delay later.

pub mod coding;
pub mod compression;
pub mod delay;
pub mod disturbance;
pub mod express;
pub mod headers;
pub mod loss;
pub mod queue;
pub mod recording;
pub mod repeating;
pub mod service;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::node::{Node, Port, Step};
use crate::packet::{Class, Discard, Packet};
use crate::room;
use crate::time::{Duration, Time};
use crate::units::Bytes;

use coding::{Coding, OnLine};
use delay::Delay;
use loss::Loss;
use queue::Queue;
use service::{Constant, Service};

/// One direction of a link. Packets enter at port 0 and leave at port 1.
///
/// What every packet touches stands first and together (`repr(C)`): with hundreds of links, what a packet costs is cache
/// lines.
#[derive(Debug)]
#[repr(C)]
pub struct Link {
    /// The time at which the first packet on the line arrives; `Time::MAX` if there is none.
    next_arrival: Time,
    /// Packets in the queue, so as not to ask it for every packet that passes.
    queued: u64,
    /// Packets that left the queue, each with the time of its arrival at the far end, in order. The last one that was put there is
    /// still in service if `serving` says so: it need not be moved when its service ends, unless the medium loses it.
    line: VecDeque<(Time, Packet)>,
    /// The service that began last. It may have ended: that is noticed where it makes a difference.
    serving: Option<InService>,
    propagation: Duration,
    /// No packet that is served from now on arrives before this: since the delay became shorter, packets are on the line that
    /// began with a longer one, and a line keeps their order.
    not_before: Time,
    loss: Option<Box<dyn Loss>>,
    /// The coding of packets on the line, if they are not there what they are outside.
    coding: Option<Box<dyn Coding>>,
    /// The way, if it is not always as long.
    way: Option<Box<Way>>,
    /// The service, if it is of the simplest kind: asked here, without a call.
    constant: Option<Constant>,
    stats: Stats,
    service: Box<dyn Service>,
    queue: Box<dyn Queue>,
    /// The queue drops packets that it took.
    drops_late: bool,
    /// Packets that did not get through, if somebody wants to know.
    discards: Option<Vec<Discard>>,
}

/// A longer way that packets take for a time, such as a route's after a failure. Packets do not overtake one another when it
/// ends: those that come the short way wait for the last that came the long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// Propagation beyond that of the usual way.
    pub extra: Duration,
    /// The time from which on packets go it.
    pub start: Time,
    /// The time from which on they go the usual way again.
    pub end: Time,
}

impl Detour {
    fn at(&self, time: Time) -> Duration {
        if (self.start..self.end).contains(&time) { self.extra } else { Duration::ZERO }
    }
}

/// A way whose length changes.
#[derive(Debug, Default)]
struct Way {
    /// What packets take, instead of the link's propagation.
    varying: Option<Varying>,
    detour: Option<Detour>,
    /// When the packet arrives that is in service, or was last.
    last: Time,
}

/// A delay that is not the same for all packets.
#[derive(Debug)]
pub struct Varying {
    /// The delay.
    pub delay: Box<dyn Delay>,
    /// True if packets overtake those that take longer; otherwise they wait for them.
    pub overtakes: bool,
}

#[derive(Clone, Copy, Debug)]
struct InService {
    /// The time at which the packet entered the link.
    entered: Time,
    finish: Time,
    /// The packet's bytes on the line, copies included.
    len: Bytes,
    /// The number of times that it is on the line.
    times: NonZeroU32,
}

/// Counters of a link. Conservation: `arrived == delivered + dropped + lost + inside`, in packets and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stats {
    /// Packets offered to the link.
    pub arrived: u64,
    /// Bytes offered to the link.
    pub arrived_bytes: u64,
    /// Packets handed over at the far end.
    pub delivered: u64,
    /// Bytes handed over at the far end.
    pub delivered_bytes: u64,
    /// Packets whose service has begun; with the books closed, those whose service has ended.
    pub served: u64,
    /// Time in service, in all.
    pub busy: Duration,
    /// Time from entry to the end of service, summed over the packets in `served`, in nanoseconds.
    pub sojourn: u128,
    /// Packets in queue and service, integrated over time, in packet-nanoseconds.
    pub occupancy: u128,
    occupied_since: Time,
    /// Most packets ever in the queue, the one in service not counted.
    pub queued_max: u64,
    /// Most bytes ever in the queue, the one in service not counted.
    pub queued_bytes_max: u64,
    /// Packets that the queue refused or evicted.
    pub dropped: u64,
    /// Bytes that the queue refused or evicted.
    pub dropped_bytes: u64,
    /// Packets that the queue has marked and not dropped (RFC 3168).
    pub marked: u64,
    /// Packets lost on the medium.
    pub lost: u64,
    /// Bytes lost on the medium.
    pub lost_bytes: u64,
    /// Packets dropped that were of the class [`Class::User`].
    pub dropped_user: u64,
    /// Packets dropped that were of the class [`Class::Header`].
    pub dropped_headers: u64,
    /// Packets still queued, in service or propagating.
    pub inside: u64,
    /// Time from entry to eviction, summed over the dropped packets, in nanoseconds.
    sojourn_dropped: u128,
}

#[cfg(test)]
impl Stats {
    /// The counters without what only helps to count them.
    fn without_marks(self) -> Stats {
        Stats { occupied_since: Time::ZERO, sojourn_dropped: 0, ..self }
    }
}

impl Link {
    /// A link that serves `queue` with `service`, loses packets as `loss` says, and takes `propagation` on top.
    pub fn new(
        queue: Box<dyn Queue>,
        service: Box<dyn Service>,
        loss: Option<Box<dyn Loss>>,
        propagation: Duration,
    ) -> Link {
        Link {
            next_arrival: Time::MAX,
            queued: 0,
            line: VecDeque::new(),
            serving: None,
            propagation,
            not_before: Time::ZERO,
            loss,
            coding: None,
            way: None,
            constant: service.as_constant(),
            stats: Stats::default(),
            service,
            drops_late: queue.drops_late(),
            queue,
            discards: None,
        }
    }

    /// Lets packets become something else while they are on the line; queue and counters know them as they are outside.
    pub fn with_coding(self, coding: Option<Box<dyn Coding>>) -> Link {
        Link { coding, ..self }
    }

    /// Lets packets go a longer way for a time.
    pub fn with_detour(mut self, detour: Option<Detour>) -> Link {
        if detour.is_some() {
            self.way.get_or_insert_default().detour = detour;
        }
        self
    }

    /// Lets packets take another time than the link's propagation, which is the shortest of them.
    pub fn with_delay(mut self, varying: Option<Varying>) -> Link {
        if varying.is_some() {
            self.way.get_or_insert_default().varying = varying;
        }
        self
    }

    /// Becomes another link at `now`; what is `None` stays. A packet in service ends it as it began, and those on the line arrive when
    /// they would have.
    pub fn change(
        &mut self,
        now: Time,
        service: Option<Box<dyn Service>>,
        loss: Option<Option<Box<dyn Loss>>>,
        propagation: Option<(Duration, Option<Varying>)>,
    ) {
        self.settle_before(now);
        if let Some(service) = service {
            self.constant = service.as_constant();
            self.service = service;
        }
        if let Some(loss) = loss {
            // Without a model services end unseen; one that has may not meet it.
            self.settle(now);
            self.loss = loss;
        }
        if let Some((propagation, varying)) = propagation {
            self.propagation = propagation;
            if varying.is_some() || self.way.is_some() {
                // The packet in service arrives last of those on the line so far.
                let last = self.line.back().map_or(Time::ZERO, |&(arrival, _)| arrival);
                self.way.get_or_insert_with(|| Box::new(Way { last, ..Way::default() })).varying = varying;
            }
            self.not_before = self.line.back().map_or(self.not_before, |&(arrival, _)| arrival);
        }
    }

    /// Keeps a record from now on of every packet that does not get through.
    pub fn record_discards(&mut self) {
        self.discards.get_or_insert_default();
    }

    /// The packets that did not get through since the record began, in the order of time; empty without a record.
    pub fn discards(&self) -> &[Discard] {
        self.discards.as_deref().unwrap_or_default()
    }

    /// The counters so far, with the occupancy of the queue integrated up to its last change.
    pub fn stats(&self) -> Stats {
        Stats {
            inside: self.queued + self.line.len() as u64,
            marked: self.queue.marked(),
            // Whoever is served is one packet inside.
            occupancy: self.stats.occupancy + u128::from(self.stats.busy.as_nanos()),
            ..self.stats.clone()
        }
    }

    /// The counters when a run ends at `now`, after settling what is due and checking the books.
    ///
    /// # Panics
    /// If packets were not conserved, or Little's law does not hold: the packets inside, integrated over time, are the
    /// times that each packet spent inside, summed.
    pub fn close_books(&mut self, now: Time) -> Stats {
        self.settle(now);
        self.account(now);
        let mut stats = self.stats();
        let mut under_way = self.queue.waited(now);
        if let Some(InService { entered, finish, .. }) = self.serving {
            // The service under way was counted whole when it began.
            stats.busy = stats.busy - (finish - now);
            stats.occupancy -= u128::from((finish - now).as_nanos());
            stats.served -= 1;
            stats.sojourn -= u128::from((finish - entered).as_nanos());
            under_way += u128::from((now - entered).as_nanos());
        }
        assert_eq!(
            stats.arrived,
            stats.delivered + stats.dropped + stats.lost + stats.inside,
            "every packet that arrived at a link was delivered, dropped or lost, or is inside: {stats:?}"
        );
        assert_eq!(
            stats.occupancy,
            stats.sojourn + stats.sojourn_dropped + under_way,
            "Little's law: occupancy over time is the sum of sojourns: {stats:?}"
        );
        assert!(stats.busy <= now.since(Time::ZERO), "a link serves one packet at a time: {stats:?}");
        stats
    }

    fn discard(&mut self, time: Time, lost: bool, packet: Packet) {
        if let Some(discards) = &mut self.discards {
            discards.push(Discard { time, lost, packet });
        }
    }

    /// Packets and bytes waiting, the one in service not counted, as of when the link was last [settled](Link::settle).
    pub fn backlog(&self) -> (u64, Bytes) {
        (self.queued, self.queue.bytes())
    }

    /// Ends every service that is due by `now`, in order, each starting the next. Who comes now finds the server idle if
    /// nothing waits.
    pub fn settle(&mut self, now: Time) {
        self.settle_before(now + Duration::from_nanos(1));
        self.serving = self.serving.filter(|served| served.finish > now);
    }

    /// Ends every service that is due before `end`, if that makes a difference: a packet may be lost, or another waits.
    #[inline]
    fn settle_before(&mut self, end: Time) {
        while (self.queued > 0 || self.loss.is_some())
            && let Some(served) = self.serving
            && served.finish < end
        {
            self.finish(served);
        }
    }

    /// Ends a service, lets the medium lose the packet, and starts the next. Apart, so that the rest fits into its
    /// callers: most links lose nothing and are never queued for.
    #[inline(never)]
    fn finish(&mut self, served: InService) {
        let InService { finish, len, times, .. } = served;
        self.serving = None;
        let once = Bytes::new(len.get() / u64::from(times.get()));
        if let Some(loss) = &mut self.loss
            // Each is there, whatever became of those before.
            && (0..times.get()).fold(true, |all, _| loss.strikes(finish, once) && all)
        {
            let served = match &self.way {
                None => self.line.pop_back(),
                // The last that arrives then: others that do were there before.
                Some(way) => self.line.remove(self.line.partition_point(|&(arrival, _)| arrival <= way.last) - 1),
            };
            let (_, packet) = served.expect("the packet in service is on the line");
            self.note_first();
            if let Some(coding) = &mut self.coding {
                coding.lost(&packet);
            }
            self.lose(finish, packet);
        }
        if self.queued > 0 {
            self.account(finish);
            let next = self.queue.dequeue(finish);
            if self.drops_late {
                self.drop_late(finish);
            }
            match next {
                Some((entered, packet)) => {
                    self.queued -= 1;
                    self.serve(finish, entered, &packet);
                }
                None => assert_eq!(self.queued, 0, "the queue has what was put in and not taken out or dropped"),
            }
        }
    }

    /// The medium loses a packet, or the far end cannot make it out.
    fn lose(&mut self, time: Time, packet: Packet) {
        self.stats.lost += 1;
        self.stats.lost_bytes += u64::from(packet.len);
        self.discard(time, true, packet);
    }

    /// Starts a service, and counts it whole.
    #[inline]
    fn serve(&mut self, start: Time, entered: Time, packet: &Packet) {
        let OnLine { len, times } = match &mut self.coding {
            None => OnLine::unchanged(packet),
            Some(coding) => coding.send(packet),
        };
        let len = Bytes::new(len.get() * u64::from(times.get()));
        let finish = match &mut self.constant {
            Some(constant) => constant.finish(start, len),
            None => self.service.finish(start, len),
        };
        self.stats.busy += finish - start;
        self.stats.served += 1;
        self.stats.sojourn += u128::from((finish - entered).as_nanos());
        self.serving = Some(InService { entered, finish, len, times });
        if self.way.is_some() {
            self.send(finish, packet);
            return;
        }
        let arrival = (finish + self.propagation).max(self.not_before);
        self.next_arrival = self.next_arrival.min(arrival);
        room::for_one_more(&mut self.line);
        self.line.push_back((arrival, *packet));
    }

    /// Puts a packet whose service ends at `finish` on the line, if its way changes.
    #[inline(never)]
    fn send(&mut self, finish: Time, packet: &Packet) {
        let way = self.way.as_mut().expect("it is asked for because there is one");
        let (delay, overtakes) = match &mut way.varying {
            None => (self.propagation, false),
            Some(varying) => (varying.delay.after(finish), varying.overtakes),
        };
        let detour = way.detour.map_or(Duration::ZERO, |detour| detour.at(finish));
        let mut arrival = (finish + delay).max(self.not_before) + detour;
        let mut at = self.line.len();
        if overtakes {
            at = self.line.partition_point(|&(before, _)| before <= arrival);
        } else {
            arrival = self.line.back().map_or(arrival, |&(last, _)| last.max(arrival));
        }
        way.last = arrival;
        self.next_arrival = self.next_arrival.min(arrival);
        room::for_one_more(&mut self.line);
        self.line.insert(at, (arrival, *packet));
    }

    /// The time at which something is to be done; `Time::MAX` if there is nothing.
    #[inline]
    fn due(&self) -> Time {
        match &self.way {
            None => self.next_arrival,
            Some(way) => self.next_arrival.min(self.next_start(way)),
        }
    }

    /// The time from which on the next packet in the queue is to be looked at: it may overtake all that are on the line.
    fn next_start(&self, way: &Way) -> Time {
        match &self.serving {
            Some(served) if self.queued > 0 && way.varying.as_ref().is_some_and(|varying| varying.overtakes) => {
                served.finish + Duration::from_nanos(1)
            }
            _ => Time::MAX,
        }
    }

    /// The first packet on the line is another one.
    #[inline]
    fn note_first(&mut self) {
        self.next_arrival = match self.line.front() {
            Some(&(arrival, _)) => arrival,
            None => {
                // Begins at the start of its memory again, and not wherever the last packet was: a line that seldom
                // holds more than one packet then stays in the cache.
                self.line.clear();
                Time::MAX
            }
        };
    }

    /// Puts a packet into the queue, which may drop this one or another.
    #[inline(never)]
    fn wait(&mut self, now: Time, packet: &Packet, in_service: Bytes) {
        self.account(now);
        match self.queue.enqueue(now, packet, in_service) {
            None => self.queued += 1,
            Some((entered, victim)) => self.count_drop(now, entered, victim),
        }
        if self.drops_late {
            self.drop_late(now);
        }
        self.stats.queued_max = self.stats.queued_max.max(self.queued);
        self.stats.queued_bytes_max = self.stats.queued_bytes_max.max(self.queue.bytes().get());
    }

    /// Counts the packets that the queue has dropped of those that waited in it.
    fn drop_late(&mut self, now: Time) {
        while let Some((entered, victim)) = self.queue.take_dropped() {
            self.queued -= 1;
            self.count_drop(now, entered, victim);
        }
    }

    /// Counts a packet that the queue dropped.
    fn count_drop(&mut self, now: Time, entered: Time, victim: Packet) {
        self.stats.dropped += 1;
        self.stats.dropped_bytes += u64::from(victim.len);
        self.stats.dropped_user += u64::from(victim.class == Class::User);
        self.stats.dropped_headers += u64::from(victim.class == Class::Header);
        self.stats.sojourn_dropped += u128::from((now - entered).as_nanos());
        self.discard(now, false, victim);
    }

    /// Integrates the occupancy of the queue up to `now`, before it changes.
    #[inline]
    fn account(&mut self, now: Time) {
        let span = now.since(self.stats.occupied_since).as_nanos();
        self.stats.occupancy += u128::from(self.queued) * u128::from(span);
        self.stats.occupied_since = now;
    }
}

impl Node for Link {
    fn receive(&mut self, now: Time, port: Port, packet: &Packet) {
        debug_assert_eq!(port, Port(0), "a link has one way in");
        // A packet that arrives at the very instant at which a service ends finds the buffer as it was. Such ties are no
        // rarity: an ACK clock spaces packets by the bottleneck's own service time. ns-2 decides them so.
        self.settle_before(now);
        self.stats.arrived += 1;
        self.stats.arrived_bytes += u64::from(packet.len);
        match self.serving {
            Some(InService { finish, len, .. }) if finish >= now => self.wait(now, packet, len),
            _ => self.serve(now, now, packet),
        }
    }

    #[inline]
    fn quiet_until(&self, now: Time) -> Option<Time> {
        let due = self.due();
        (due > now && due != Time::MAX).then_some(due)
    }

    fn poll(&mut self, now: Time) -> Step {
        // Without propagation a packet leaves as its service ends. Otherwise a service that ends now is left for later: an
        // arrival still to come now finds the buffer as it was, whoever was polled first.
        if self.propagation == Duration::ZERO {
            self.settle(now)
        } else {
            self.settle_before(now)
        }
        while self.next_arrival <= now
            && let Some((_, packet)) = self.line.front()
        {
            if let Some(coding) = &mut self.coding
                && !coding.restores(packet)
            {
                let (arrival, packet) = self.line.pop_front().expect("it is the first on the line");
                self.note_first();
                self.lose(arrival, packet);
                continue;
            }
            self.stats.delivered += 1;
            self.stats.delivered_bytes += u64::from(packet.len);
            let step = Step::Send(Port(1), *packet);
            self.line.pop_front();
            self.note_first();
            return step;
        }
        // The first on the line may still be in service. No packet arrives before it has propagated, so one wake-up
        // a packet is enough: the end of its service is settled on the way.
        let due = self.due();
        Step::Wait((due != Time::MAX).then_some(due))
    }

    fn take_discards(&mut self, into: &mut Vec<Discard>) {
        if let Some(discards) = &mut self.discards {
            into.append(discards);
        }
    }
}
