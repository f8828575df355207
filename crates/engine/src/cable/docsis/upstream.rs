//! The upstream channel: MAPs, requests, grants and bursts, at the times of the headend's receiver.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Docsis;
use super::config::{Access, Channel, Drawing, MAP_PROCESSING};
use super::contention::Contention;
use super::modem::{self, RequestState, UpstreamModem};
use super::shaper::Bucket;
use crate::node::Port;
use crate::packet::Packet;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// Counts of the upstream channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounters {
    /// Request opportunities in MAPs that were made; idle times are left out.
    pub opportunities: u64,
    /// Opportunities in which one modem asked, and was heard.
    pub heard: u64,
    /// Opportunities in which several asked, and none was heard.
    pub collisions: u64,
    /// Requests lost in collisions.
    pub collided: u64,
    /// Requests that a burst carried.
    pub piggybacked: u64,
    /// Bursts sent; fragments count one each.
    pub bursts: u64,
    /// Mini-slots that they took.
    pub burst_slots: u64,
}

/// A request that the headend has: when it came, who may be granted when, and the bursts still to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    /// The time before which no MAP grants it.
    ready: Time,
    /// The request's place among those that are ready: the first to come is served first.
    number: u64,
    modem: u32,
    /// MAC bytes in all, and how many bursts of them were granted.
    bytes: u64,
    granted: u64,
}

/// A granted burst.
#[derive(Clone, Copy, Debug)]
struct Burst {
    start: Time,
    end: Time,
    modem: u32,
    /// The last of its request: with it, all of the packets are there.
    is_last: bool,
    /// Packets that arrive with it; known once it is sent.
    packets: usize,
    /// The size of the request that it carries: MAC bytes, and Ethernet bytes.
    asks: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct Upstream {
    channel: Channel,
    pub(super) modems: Vec<UpstreamModem>,
    pub(super) counters: UpstreamCounters,
    /// Number of the next MAP; it leaves at that many intervals.
    map: u64,
    /// The first mini-slot that no MAP describes yet.
    cursor: u64,
    contention: Contention,
    requests: BinaryHeap<Reverse<Request>>,
    numbers: u64,
    /// Granted bursts in the order of their mini-slots: not sent yet, and sent.
    granted: VecDeque<Burst>,
    sent: VecDeque<Burst>,
    /// Modems whose requests collided, and when: they do not know yet.
    collided: VecDeque<(Time, u32)>,
    /// The time at which they will have heard.
    told: VecDeque<(Time, u32)>,
    /// Room for the modems of one opportunity.
    asking: Vec<u32>,
}

/// MAPs that pass unmade before it is worth while to skip them all at once.
const IDLE_MAPS: u64 = 64;

impl Upstream {
    pub(super) fn new(channel: Channel, modems: Vec<Drawing>) -> Upstream {
        Upstream {
            contention: Contention::new(channel.request_slots()),
            channel,
            modems: modems.into_iter().map(|(spec, rng)| UpstreamModem::new(spec, rng)).collect(),
            counters: UpstreamCounters::default(),
            map: 0,
            cursor: 0,
            requests: BinaryHeap::new(),
            numbers: 0,
            granted: VecDeque::new(),
            sent: VecDeque::new(),
            collided: VecDeque::new(),
            told: VecDeque::new(),
            asking: Vec::new(),
        }
    }

    fn time_of(&self, slot: u64) -> Time {
        Time::ZERO + self.channel.slot() * slot
    }

    /// The first mini-slot that begins at `time` or later.
    fn slot_from(&self, time: Time) -> u64 {
        time.as_nanos().div_ceil(self.channel.slot().as_nanos())
    }

    fn slots(&self, span: Duration) -> u64 {
        span.as_nanos() / self.channel.slot().as_nanos()
    }

    fn map_time(&self) -> Time {
        Time::ZERO + self.channel.map_interval * self.map
    }

    /// A packet comes to a modem.
    pub(super) fn receive(&mut self, now: Time, modem: usize, packet: &Packet) {
        if !self.modems[modem].takes(now, packet) {
            return;
        }
        if self.channel.access == Access::Free {
            self.send_at_once(now, modem);
        } else if self.modems[modem].state == RequestState::Silent {
            self.contend(now, modem as u32);
        }
    }

    /// Grants the modem the next mini-slots, without a request.
    fn send_at_once(&mut self, now: Time, modem: usize) {
        let index = self.modems[modem].queue.len() - 1;
        let ask = self.modems[modem].ask(index, &self.channel);
        let delay = |bucket: &mut Bucket| bucket.take(now, Bytes::new(ask.rated), Duration::MAX);
        let ready = self.modems[modem].bucket.as_mut().and_then(delay).unwrap_or(now);
        self.cursor = self.cursor.max(self.slot_from(ready + self.channel.propagation));
        self.grant(now, modem as u32, ask.bytes, true);
        self.modems[modem].state = RequestState::Asked(1);
    }

    /// A modem chooses the opportunity in which it asks.
    fn contend(&mut self, now: Time, modem: u32) {
        self.catch_up(now);
        let first = self.contention.first_from(self.slot_from(now + self.channel.propagation));
        let asking = &mut self.modems[modem as usize];
        asking.state = RequestState::Contends;
        let chosen = match self.channel.access {
            Access::Polled => {
                let modems = self.modems.len() as u64;
                first + (u64::from(modem) + modems - first % modems) % modems
            }
            _ => first + asking.back_off(&self.channel),
        };
        self.contention.choose(chosen, modem);
    }

    /// True if nothing is asked, granted or under way.
    fn is_idle(&self) -> bool {
        self.contention.is_idle()
            && self.requests.is_empty()
            && self.granted.is_empty()
            && self.sent.is_empty()
            && self.collided.is_empty()
            && self.told.is_empty()
    }

    /// Makes the MAPs that have left by `now`.
    fn catch_up(&mut self, now: Time) {
        let due = now.as_nanos() / self.channel.map_interval.as_nanos() + 1;
        let reach = self.slots(self.channel.look_ahead) / self.slots(self.channel.map_interval) + 2;
        if self.is_idle() && due > self.map + reach + IDLE_MAPS {
            self.map = due - reach;
            self.contention.forget(u64::MAX);
        }
        while self.map < due {
            self.make_map();
        }
    }

    /// Makes the next MAP: request opportunities, then grants to whoever came first, then what is left.
    fn make_map(&mut self) {
        let now = self.map_time();
        self.map += 1;
        self.tell_collided(now);
        let start = self.slot_from(now) + self.slots(self.channel.look_ahead);
        let end = start + self.slots(self.channel.map_interval);
        self.cursor = self.cursor.max(start);
        if self.cursor >= end {
            // Bursts granted before take all of it.
            return;
        }
        self.contention.forget(self.slot_from(now));
        let described = self.contention.described();
        self.contention.describe(self.cursor, self.channel.opportunities);
        self.cursor += self.channel.opportunities * self.channel.request_slots();
        while self.cursor < end
            && let Some(&Reverse(request)) = self.requests.peek()
            && request.ready <= now
        {
            self.requests.pop();
            self.grant_next(request, now);
        }
        if self.cursor < end {
            if self.channel.fill {
                self.contention.describe(self.cursor, (end - self.cursor) / self.channel.request_slots());
            }
            self.cursor = end;
        }
        self.counters.opportunities += self.contention.described() - described;
    }

    /// Grants the next burst of a request; if more remain, they come after those who wait.
    fn grant_next(&mut self, request: Request, now: Time) {
        let Request { modem, bytes, granted, .. } = request;
        let spec = &self.modems[modem as usize].spec;
        let mut pieces =
            if spec.fragmentation { modem::pieces(bytes, spec.burst_max) } else { modem::pieces(bytes, Bytes::MAX) }
                .skip(granted as usize);
        let piece = pieces.next().expect("a request has bursts left");
        let is_last = pieces.next().is_none();
        self.grant(now, modem, piece, is_last);
        if !is_last {
            let number = self.number();
            self.requests.push(Reverse(Request { ready: now, number, granted: granted + 1, ..request }));
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The next mini-slots are for a burst of `bytes`.
    fn grant(&mut self, now: Time, modem: u32, bytes: u64, is_last: bool) {
        self.modems[modem as usize].granted_at = Some(now);
        let slots = self.channel.burst_slots(bytes);
        let (start, end) = (self.time_of(self.cursor), self.time_of(self.cursor + slots));
        self.cursor += slots;
        self.granted.push_back(Burst { start, end, modem, is_last, packets: 0, asks: None });
        self.counters.bursts += 1;
        self.counters.burst_slots += slots;
    }

    /// The headend has a request for so many bytes.
    fn hears(&mut self, now: Time, modem: u32, bytes: u64, rated: u64) {
        let asking = &mut self.modems[modem as usize];
        let delay = |bucket: &mut Bucket| bucket.take(now, Bytes::new(rated), Duration::MAX);
        let conforms = asking.bucket.as_mut().and_then(delay).unwrap_or(now);
        let ready = conforms.max(now + self.channel.processing).max(asking.next_entry());
        let number = self.number();
        self.requests.push(Reverse(Request { ready, number, modem, bytes, granted: 0 }));
    }

    /// The first opportunity that somebody waited for has passed.
    fn resolve(&mut self, now: Time) {
        let mut asking = std::mem::take(&mut self.asking);
        self.contention.resolve(&mut asking);
        if let [alone] = *asking {
            self.counters.heard += 1;
            let ask = self.modems[alone as usize].ask(0, &self.channel);
            self.modems[alone as usize].state = RequestState::Asked(ask.packets);
            self.hears(now, alone, ask.bytes, ask.rated);
        } else {
            self.counters.collisions += 1;
            self.counters.collided += asking.len() as u64;
            self.collided.extend(asking.iter().map(|&modem| (now, modem)));
        }
        self.asking = asking;
    }

    /// A MAP says up to when requests were heard: who asked before and is not in it knows that its request was lost.
    fn tell_collided(&mut self, now: Time) {
        let heard = self.channel.propagation + self.channel.interleaving + MAP_PROCESSING;
        while let Some(&(asked, modem)) = self.collided.front()
            && asked + self.channel.processing <= now
        {
            self.collided.pop_front();
            self.told.push_back((now + heard, modem));
        }
    }

    /// A modem has heard that its request was lost.
    fn retry(&mut self, now: Time, modem: u32) {
        let asking = &mut self.modems[modem as usize];
        asking.lost_request(now, &self.channel);
        if asking.queue.is_empty() {
            asking.state = RequestState::Silent;
        } else {
            self.contend(now, modem);
        }
    }

    /// A modem sends its burst.
    fn send(&mut self, now: Time) {
        let mut burst = self.granted.pop_front().expect("a burst is sent that was granted");
        if burst.is_last {
            let index = burst.modem as usize;
            let sending = &mut self.modems[index];
            let RequestState::Asked(packets) = sending.state else { unreachable!("only who asked is granted") };
            sending.transmits(packets);
            burst.packets = packets;
            if self.channel.access == Access::Free {
                // Whatever waits has its mini-slots already.
            } else if sending.queue.is_empty() {
                sending.state = RequestState::Silent;
            } else if sending.spec.piggyback {
                let ask = sending.ask(0, &self.channel);
                sending.state = RequestState::Asked(ask.packets);
                burst.asks = Some((ask.bytes, ask.rated));
                self.counters.piggybacked += 1;
            } else {
                self.sent.push_back(burst);
                return self.contend(now, burst.modem);
            }
        }
        self.sent.push_back(burst);
    }

    /// A burst has arrived whole.
    fn arrive(&mut self, now: Time, out: &mut VecDeque<(Port, Packet)>) {
        let Burst { start, end, modem, packets, asks, .. } =
            self.sent.pop_front().expect("a burst arrives that was sent");
        self.modems[modem as usize].books.busy(end - start);
        for _ in 0..packets {
            let packet = self.modems[modem as usize].arrived(now);
            out.push_back((Docsis::headend_port(modem as usize), packet));
        }
        if let Some((bytes, rated)) = asks {
            self.hears(now, modem, bytes, rated);
        }
    }

    /// The time at which a MAP must be made, if one must.
    fn map_due(&self) -> Option<Time> {
        let is_wanted = !self.requests.is_empty() || !self.collided.is_empty() || self.contention.waits_for_map();
        is_wanted.then(|| self.map_time())
    }

    /// The next thing to happen and its time; of things at the same time, what has arrived comes before what is decided upon it.
    fn event(&self) -> Option<(Time, Event)> {
        let sending = |burst: &Burst| Time::ZERO + burst.start.since(Time::ZERO + self.channel.propagation);
        [
            (self.sent.front().map(|burst| burst.end), Event::Arrives),
            (self.contention.next_end().map(|slot| self.time_of(slot)), Event::Opportunity),
            (self.map_due(), Event::Map),
            (self.told.front().map(|&(time, _)| time), Event::Told),
            (self.granted.front().map(sending), Event::Sends),
        ]
        .into_iter()
        .filter_map(|(time, event)| Some((time?, event)))
        .min_by_key(|&(time, _)| time)
    }

    /// The time of the next thing to happen.
    pub(super) fn next(&self) -> Option<Time> {
        self.event().map(|(time, _)| time)
    }

    /// Lets happen what is due by `now`.
    pub(super) fn settle(&mut self, now: Time, out: &mut VecDeque<(Port, Packet)>) {
        while let Some((time, event)) = self.event()
            && time <= now
        {
            match event {
                Event::Arrives => self.arrive(time, out),
                Event::Opportunity => self.resolve(time),
                Event::Map => self.make_map(),
                Event::Told => {
                    let (time, modem) = self.told.pop_front().expect("somebody is told");
                    self.retry(time, modem);
                }
                Event::Sends => self.send(time),
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrives,
    Opportunity,
    Map,
    Told,
    Sends,
}
