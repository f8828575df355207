//! The sending end: what has left, what became of it, and what may leave next.

use std::collections::VecDeque;
use std::fmt;

use super::acknowledgement::Acknowledgement;
use super::clock::Clock;
use super::damage::Delays;
use super::flow::{Flow, Moment, News};
use crate::tcp::personality::Personality;
use crate::time::{Duration, Time, earlier};
use crate::units::Bytes;

/// IPv4 and TCP headers: a datagram is as long as the segment of a TCP with the same `mss`.
const HEADERS: u64 = 40;
/// Eighths of a round trip that reordering adds to the time threshold at most: a whole round trip.
const EIGHTHS_MAX: u64 = 8;
/// The largest displacement by reordering, in datagrams, that the packet threshold grows to cover.
const DISPLACEMENT_MAX: u64 = 300;
/// Datagrams taken for lost that are remembered, in case they come after all.
const MISSING_MAX: usize = 256;

/// The losses that shrink a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losses {
    /// All of them.
    #[default]
    All,
    /// Those next to which the one-way delay was high; others are damage, unless more than a tenth is lost. Not for a path with
    /// a queue that drops early, or with one of less than two milliseconds: up to that tenth, nothing would be taken for
    /// congestion there.
    Delayed,
}

/// Counts of what a sending end has sent, and of what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams that were acknowledged.
    pub delivered: u64,
    /// Datagrams that were taken for lost.
    pub lost: u64,
    /// Datagrams among those lost that were taken for damaged, so that no window shrank.
    pub damaged: u64,
    /// Datagrams among those taken for lost that came after all.
    pub late: u64,
    /// Times that a flow's window shrank for a loss.
    pub reductions: u64,
    /// Reductions because nothing had come for long (RFC 9002 s7.6), counted in `reductions` too.
    pub collapses: u64,
    /// Reductions that were taken back, because all that was lost came after all.
    pub undone: u64,
    /// Probe timeouts (RFC 9002 s6.2).
    pub probes: u64,
}

/// An acknowledgement of a number that never left: another circuit's, or a lie. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverSent {
    /// The number.
    pub number: u64,
    /// The number that the next datagram will have.
    pub next: u64,
}

impl fmt::Display for NeverSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an acknowledgement of datagram {}, but the last that left is before {}", self.number, self.next)
    }
}

impl std::error::Error for NeverSent {}

/// What became of a datagram, for a driver that sends again what was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The one with this number has come.
    Delivered(u64),
    /// The one with this number is taken for lost.
    Lost(u64),
    /// The one with this number has come after all.
    Late(u64),
}

/// A datagram that has left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    len: u64,
    /// Its position among the bytes of its flow.
    start: u64,
    flow: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Delivered,
    Lost,
    /// The number was left out: no datagram has it.
    Skipped,
}

/// A datagram that was taken for lost.
#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    flow: usize,
    /// True if the loss counted as congestion.
    congested: bool,
}

/// The sending end of a circuit with in-band control.
#[derive(Debug)]
pub struct Sender {
    flows: Vec<Flow>,
    /// Bytes of a full datagram.
    unit: Bytes,
    /// The index of the flow whose turn it is.
    turn: usize,
    /// Datagrams that are not settled, by number from `first` on.
    sent: VecDeque<Sent>,
    first: u64,
    in_flight: Bytes,
    /// One past the largest number that was acknowledged.
    acknowledged: u64,
    clock: Clock,
    /// Later datagrams that must have come for one to be lost (RFC 9002 s6.1.1, kPacketThreshold).
    threshold: u64,
    /// Eighths of a round trip that reordering adds to the time threshold.
    eighths: u64,
    /// The datagrams that were taken for lost last.
    missing: VecDeque<Missing>,
    lost_at: Option<Time>,
    probe_at: Option<Time>,
    /// Datagrams that may leave whatever the windows say.
    probes: u32,
    last_sent: Time,
    delays: Option<Delays>,
    news: Vec<News>,
    /// What became of datagrams since it was asked last, if anybody asks.
    fates: Option<VecDeque<Fate>>,
    /// A number that was left out may be among those that are not settled.
    has_skipped: bool,
    counters: Counters,
}

impl Sender {
    /// A sending end that stands for `flows` TCPs of this personality: its controller, its first window, its duplicate
    /// threshold, and datagrams as long as its segments.
    ///
    /// # Panics
    /// If there is no flow.
    pub fn new(personality: &Personality, flows: u32, losses: Losses) -> Sender {
        assert!(flows > 0, "a circuit has a flow");
        let unit = personality.mss + Bytes::new(HEADERS);
        Sender {
            flows: (0..flows).map(|_| Flow::new(personality, unit)).collect(),
            unit,
            turn: 0,
            sent: VecDeque::new(),
            first: 0,
            in_flight: Bytes::ZERO,
            acknowledged: 0,
            clock: Clock::default(),
            threshold: u64::from(personality.dupack_threshold.max(1)),
            eighths: 0,
            missing: VecDeque::new(),
            lost_at: None,
            probe_at: None,
            probes: 0,
            last_sent: Time::ZERO,
            delays: (losses == Losses::Delayed).then(Delays::default),
            news: vec![News::default(); flows as usize],
            fates: None,
            has_skipped: false,
            counters: Counters::default(),
        }
    }

    /// Keeps what becomes of each datagram for [`fate`](Sender::fate), which must then be asked.
    pub fn with_fates(self) -> Sender {
        Sender { fates: Some(VecDeque::new()), ..self }
    }

    /// A sending end whose other end holds no acknowledgement back for longer than that, as
    /// [its receiver was told](super::Receiver::with_held_max).
    pub fn with_held_max(self, held_max: Duration) -> Sender {
        Sender { clock: Clock::new(held_max), ..self }
    }

    /// What became of the next datagram of which that is known by now.
    pub fn fate(&mut self) -> Option<Fate> {
        self.fates.as_mut()?.pop_front()
    }

    /// The number that the next datagram will have.
    pub fn next_number(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Leaves the next number out. An acknowledgement that has it tells of what its sender cannot have seen (RFC 9000 s21.4), as
    /// long as numbers before it are awaited.
    pub fn skip_number(&mut self, now: Time) {
        self.sent.push_back(Sent { at: now, len: 0, start: 0, flow: 0, state: State::Skipped });
        self.has_skipped = true;
    }

    /// Returns true if a probe is due: a datagram that leaves whatever the windows say.
    pub fn owes_probe(&self) -> bool {
        self.probes > 0
    }

    /// The number of TCPs that it stands for.
    pub fn flows(&self) -> u64 {
        self.flows.len() as u64
    }

    /// The windows of all flows together.
    pub fn window(&self) -> Bytes {
        self.flows.iter().map(|flow| Bytes::new(flow.window())).sum()
    }

    /// Bytes of a full datagram, by which windows grow.
    pub fn unit(&self) -> Bytes {
        self.unit
    }

    /// Bytes that have left and of which nothing is known yet.
    pub fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// The smoothed round trip, once there is one.
    pub fn rtt(&self) -> Option<Duration> {
        self.clock.smoothed()
    }

    /// The shortest round trip, once there is one.
    pub fn rtt_least(&self) -> Option<Duration> {
        self.clock.least()
    }

    /// The smoothed time that packets wait in queues, once there is a round trip: what that has beyond the shortest, without the time for
    /// which acknowledgements were held back.
    pub fn queueing(&self) -> Option<Duration> {
        self.clock.queueing()
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns true if a datagram of this length may leave now.
    pub fn permits(&mut self, now: Time, len: Bytes) -> bool {
        let is_free = self.chosen(now, len.get()).is_some();
        if !is_free {
            self.flows.iter_mut().for_each(|flow| flow.on_look(len.get()));
        }
        is_free || self.probes > 0
    }

    /// Bytes that may leave now in all, for a driver that sends in batches: the bytes of a batch beyond them are owed, and
    /// nothing more may leave until so many have been acknowledged.
    pub fn allowance(&self, now: Time) -> Bytes {
        let free = self.flows.iter().filter(|flow| flow.held_until(now).is_none());
        let room: u64 = free.map(|flow| flow.room().min(flow.burst())).sum();
        // A window smaller than a datagram takes one, if nothing else is under way; and a probe leaves in any case.
        let least = if self.in_flight == Bytes::ZERO || self.probes > 0 { 1 } else { 0 };
        Bytes::new(room.max(least))
    }

    /// The flow that sends next: the next one in turn whose window takes so much. One whose datagrams were acknowledged has room,
    /// so flows send as their own acknowledgements come, as TCPs do.
    fn chosen(&self, now: Time, len: u64) -> Option<usize> {
        let count = self.flows.len();
        let may = |which: &usize| {
            let flow = &self.flows[*which];
            flow.has_room_for(len) && flow.held_until(now).is_none()
        };
        (0..count).map(|step| (self.turn + step) % count).find(may)
    }

    /// Notes that a datagram of `len` bytes, all headers included, has left. Returns its number.
    pub fn on_sent(&mut self, now: Time, len: Bytes) -> u64 {
        let which = self.chosen(now, len.get()).unwrap_or_else(|| {
            self.probes = self.probes.saturating_sub(1);
            let roomiest = (0..self.flows.len()).max_by_key(|which| self.flows[*which].room());
            roomiest.expect("a circuit has a flow")
        });
        let patience = self.clock.patience();
        let flow = &mut self.flows[which];
        flow.wake(now, patience);
        let (start, _) = flow.on_sent(now, len.get());
        // Who has room goes on: two datagrams that an acknowledgement has made room for are the same flow's.
        self.turn = if flow.has_room_for(len.get()) { which } else { (which + 1) % self.flows.len() };
        let number = self.first + self.sent.len() as u64;
        self.sent.push_back(Sent { at: now, len: len.get(), start, flow: which as u32, state: State::Flying });
        self.in_flight += len;
        self.last_sent = now;
        self.counters.datagrams += 1;
        self.counters.bytes += len.get();
        self.schedule_probe();
        number
    }

    /// Notes that there is nothing to send: what the windows would have let leave is no sign of the path.
    pub fn on_nothing_to_send(&mut self) {
        for flow in &mut self.flows {
            flow.on_nothing_to_send();
        }
    }

    /// Takes an acknowledgement of the other end. Returns how many windows shrank for it.
    pub fn on_acknowledgement(&mut self, now: Time, told: &Acknowledgement) -> Result<u32, NeverSent> {
        let next = self.first + self.sent.len() as u64;
        let number = told.largest();
        if number >= next {
            return Err(NeverSent { number, next });
        }
        if let Some(number) = self.skipped_in(told) {
            return Err(NeverSent { number, next });
        }
        let rtt = self.measure(now, told);
        let mut any = false;
        for &(first, last) in &told.ranges {
            any |= self.deliver(first, last);
        }
        if any {
            self.clock.answered();
            self.probes = 0;
        }
        self.acknowledged = self.acknowledged.max(number + 1);
        let shrank = self.settle(now, rtt);
        Ok(shrank)
    }

    /// A number that was left out and is among those that are told.
    fn skipped_in(&self, told: &Acknowledgement) -> Option<u64> {
        if !self.has_skipped {
            return None;
        }
        told.ranges.iter().find_map(|&(first, last)| {
            let mut numbers = first.max(self.first)..=last.min(self.first + self.sent.len() as u64 - 1);
            numbers.find(|number| self.sent[(number - self.first) as usize].state == State::Skipped)
        })
    }

    /// Measures a round trip, if the largest number is news.
    fn measure(&mut self, now: Time, told: &Acknowledgement) -> Option<Duration> {
        let number = told.largest();
        let sent = *self.sent.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        if sent.state != State::Flying {
            return None;
        }
        let rtt = now.since(sent.at);
        self.clock.measure(now, rtt, told.held);
        if let Some(delays) = &mut self.delays {
            delays.sample(now, number, sent.at, told.received);
        }
        Some(rtt)
    }

    /// Notes that these numbers have come. Returns true if that is news.
    fn deliver(&mut self, first: u64, last: u64) -> bool {
        let mut any = false;
        for number in first.max(self.first)..=last {
            let Some(sent) = self.sent.get_mut((number - self.first) as usize) else { break };
            if sent.state != State::Flying {
                continue;
            }
            sent.state = State::Delivered;
            any = true;
            if let Some(fates) = &mut self.fates {
                fates.push_back(Fate::Delivered(number));
            }
            self.in_flight = self.in_flight.saturating_sub(Bytes::new(sent.len));
            self.counters.delivered += 1;
            if let Some(delays) = &mut self.delays {
                delays.settle(false);
            }
            let news = &mut self.news[sent.flow as usize];
            news.delivered += sent.len;
            news.datagrams += 1;
            news.largest = news.largest.max(Some(number));
            news.pieces.push((sent.start, sent.start + sent.len));
        }
        if self.missing.iter().any(|missing| (first..=last).contains(&missing.number)) {
            self.forgive(first, last);
        }
        any
    }

    /// Notes that some datagrams that were taken for lost have come: the path reorders, and both thresholds grow (RFC 9002 s6.1
    /// allows for it).
    fn forgive(&mut self, first: u64, last: u64) {
        let mut missing = std::mem::take(&mut self.missing);
        missing.retain(|missing| {
            if !(first..=last).contains(&missing.number) {
                return true;
            }
            self.counters.late += 1;
            if let Some(fates) = &mut self.fates {
                fates.push_back(Fate::Late(missing.number));
            }
            let displaced = self.acknowledged.saturating_sub(missing.number);
            self.threshold = self.threshold.max(displaced.min(DISPLACEMENT_MAX) + 1);
            self.eighths = (self.eighths + 1).min(EIGHTHS_MAX);
            self.counters.undone += u64::from(missing.congested && self.flows[missing.flow].on_spurious());
            false
        });
        self.missing = missing;
    }

    /// Finds what is lost, and tells every flow what became of its datagrams.
    fn settle(&mut self, now: Time, rtt: Option<Duration>) -> u32 {
        let persistent = self.find_lost(now);
        let next = self.first + self.sent.len() as u64;
        while let Some(sent) = self.sent.front().filter(|sent| sent.state != State::Flying) {
            if sent.state == State::Skipped {
                self.has_skipped = false;
            } else {
                self.flows[sent.flow as usize].settle(sent.start + sent.len);
            }
            self.sent.pop_front();
            self.first += 1;
        }
        let moment = Moment { now, rtt, srtt: self.clock.smoothed(), next, persistent };
        let mut shrank = 0;
        for (flow, news) in self.flows.iter_mut().zip(&mut self.news) {
            if !news.is_empty() {
                shrank += u32::from(flow.on_news(news, moment));
                *news = News { pieces: std::mem::take(&mut news.pieces), ..News::default() };
                news.pieces.clear();
            }
        }
        self.counters.reductions += u64::from(shrank);
        if persistent {
            self.counters.collapses += u64::from(shrank);
        }
        self.schedule_probe();
        shrank
    }

    /// Takes for lost what is far enough behind what has come, in numbers or in time (RFC 9002 s6.1). Returns true if that
    /// is all that was sent for long (s7.6.2).
    fn find_lost(&mut self, now: Time) -> bool {
        self.lost_at = None;
        let patience = self.clock.lost_after(self.eighths);
        let lasting = self.clock.patience() * 3;
        // The run of losses under way: when its first datagram left.
        let mut run: Option<Time> = None;
        let mut persistent = false;
        let behind = usize::try_from(self.acknowledged.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for (at, sent) in self.sent.iter_mut().enumerate().take(behind) {
            let number = self.first + at as u64;
            match sent.state {
                State::Delivered => {
                    run = None;
                    continue;
                }
                State::Lost | State::Skipped => continue,
                State::Flying => {}
            }
            let due = sent.at + patience;
            if due > now && self.acknowledged - 1 - number < self.threshold {
                self.lost_at = earlier(self.lost_at, Some(due));
                continue;
            }
            sent.state = State::Lost;
            if let Some(fates) = &mut self.fates {
                fates.push_back(Fate::Lost(number));
            }
            self.in_flight = self.in_flight.saturating_sub(Bytes::new(sent.len));
            self.counters.lost += 1;
            let news = &mut self.news[sent.flow as usize];
            news.lost += sent.len;
            let congested = self.delays.as_mut().is_none_or(|delays| {
                delays.settle(true);
                delays.congested_at(number)
            });
            if self.missing.len() == MISSING_MAX {
                self.missing.pop_front();
            }
            self.missing.push_back(Missing { number, flow: sent.flow as usize, congested });
            if !congested {
                self.counters.damaged += 1;
                continue;
            }
            news.congested += 1;
            news.last_lost = Some(number);
            let began = *run.get_or_insert(sent.at);
            let measured = self.clock.since().is_some_and(|since| began >= since);
            persistent |= measured && sent.at.since(began) > lasting;
        }
        persistent
    }

    /// Sets the probe timer (RFC 9002 s6.2.1): it runs from the last datagram that left; while a later one has come, the time
    /// threshold decides instead. A probe that waits for something to send needs no timer.
    fn schedule_probe(&mut self) {
        let waits = self.in_flight > Bytes::ZERO && self.lost_at.is_none() && self.probes == 0;
        self.probe_at = waits.then(|| self.last_sent + self.clock.probe_timeout());
    }

    /// The time at which [`on_deadline`](Sender::on_deadline) is to be called.
    pub fn deadline(&self) -> Option<Time> {
        earlier(self.lost_at, self.probe_at)
    }

    /// The time at which pacing lets something leave, if it is pacing that holds it.
    pub fn release(&self, now: Time) -> Option<Time> {
        self.flows.iter().fold(None, |wake, flow| earlier(wake, flow.held_until(now)))
    }

    /// Handles a timer that is due. Returns how many windows shrank for it.
    pub fn on_deadline(&mut self, now: Time) -> u32 {
        if self.lost_at.is_some_and(|due| due <= now) {
            return self.settle(now, None);
        }
        if self.probe_at.is_some_and(|due| due <= now) {
            self.counters.probes += 1;
            self.clock.back_off();
            self.probes = 1;
            self.probe_at = None;
        }
        0
    }
}
