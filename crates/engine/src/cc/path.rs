//! A path in virtual time for the tests of controllers: two connections over one line whose rate, losses and delays a test
//! sets as it goes, and the controller's state after each acknowledgement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Ack, Congestion, Controller, Custom, Factory, Lost, RateSample, Setup};
use crate::tcp::connection::{Connection, Output, PairedEnd};
use crate::tcp::personality::Personality;
use crate::tcp::segment::Segment;
use crate::time::{Duration, Time, earlier};
use crate::units::{Bytes, Rate};

/// The application writes this often if it writes at a rate.
const WRITES_EVERY: Duration = Duration::from_millis(1);
/// It is so many bytes ahead of what has left, if it writes as fast as it may.
const AHEAD: u64 = 32_000;

/// What becomes of a segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    IsLost,
    /// It takes so much longer, and others overtake it.
    Lingers(Duration),
}

/// A controller as it was after an event.
#[derive(Clone, Debug)]
pub(super) struct Shot<C> {
    pub(super) now: Time,
    /// Bytes in flight.
    pub(super) in_flight: u64,
    /// Bytes delivered so far.
    pub(super) delivered: u64,
    pub(super) controller: C,
}

type Trace<C> = Arc<Mutex<Vec<Shot<C>>>>;

/// A controller of which a shot is taken after each sample of the delivery rate.
#[derive(Debug)]
struct Watched<C> {
    inner: C,
    trace: Trace<C>,
}

impl<C: Controller + Clone> Controller for Watched<C> {
    fn on_sent(&mut self, now: Time, len: Bytes, in_flight: Bytes) {
        self.inner.on_sent(now, len, in_flight);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inner.on_ack(ack);
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.inner.on_congestion(congestion);
    }

    fn on_spurious(&mut self) {
        self.inner.on_spurious();
    }

    fn on_established(&mut self, rtt: Option<Duration>) {
        self.inner.on_established(rtt);
    }

    fn wants_delivery(&self) -> bool {
        true
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.inner.on_lost(lost);
    }

    fn on_delivery(&mut self, sample: &RateSample) -> bool {
        let answer = self.inner.on_delivery(sample);
        self.trace.lock().expect("no test holds it").push(Shot {
            now: sample.now,
            in_flight: sample.in_flight.get(),
            delivered: sample.delivered.get(),
            controller: self.inner.clone(),
        });
        answer
    }

    fn window(&self) -> Bytes {
        self.inner.window()
    }

    fn threshold(&self) -> Bytes {
        self.inner.threshold()
    }

    fn pacing(&self) -> Option<Rate> {
        self.inner.pacing()
    }
}

/// The factory of a controller to watch.
#[derive(Debug)]
struct Watching<C> {
    make: fn(&Setup) -> C,
    trace: Trace<C>,
}

impl<C: Controller + Clone + Sync + 'static> Factory for Watching<C> {
    fn name(&self) -> &str {
        "watched"
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Watched { inner: (self.make)(setup), trace: Arc::clone(&self.trace) })
    }
}

/// Two connections, of which the first sends, and the line between.
pub(super) struct Path<C> {
    pub(super) now: Time,
    /// The rate of payload. Acknowledgements take the delay alone.
    pub(super) rate: Rate,
    pub(super) delay: Duration,
    /// Bytes that may wait before the line.
    pub(super) buffer: u64,
    /// What becomes of each segment with data, by its time and its place in the stream.
    pub(super) fate: Box<dyn FnMut(Time, u64) -> Fate>,
    /// A token bucket before the line: its rate and its bytes.
    pub(super) policer: Option<(Rate, u64)>,
    /// Acknowledgements arrive at multiples of this only.
    pub(super) bunches: Duration,
    /// The rate at which the application writes; `None` for as fast as it may.
    pub(super) writes: Option<Rate>,
    ends: [Connection; 2],
    mss: u64,
    trace: Trace<C>,
    free_at: Time,
    tokens: (Time, u64),
    /// When the application last wrote, how much it has written, and how far that has left.
    wrote: Time,
    written: u64,
    sent_to: u64,
    events: BTreeMap<(Time, u64), (usize, Segment)>,
    serial: u64,
    /// Bytes that were sent, and that were dropped on the way.
    pub(super) sent: u64,
    pub(super) dropped: u64,
}

impl<C: Controller + Clone + Sync + 'static> Path<C> {
    /// A path of this rate and round trip, with room for `buffer` bytes to wait.
    pub(super) fn new(make: fn(&Setup) -> C, rate: Rate, rtt: Duration, buffer: u64) -> Path<C> {
        let trace = Trace::default();
        let personality = Personality {
            controller: Custom::new(Watching { make, trace: Arc::clone(&trace) }).into(),
            send_buffer: Bytes::new(64_000_000),
            receive_buffer: Bytes::new(64_000_000),
            ..Personality::linux()
        };
        let ends = [1, 2].map(|isn| PairedEnd { personality: &personality, isn, clock_phase: Duration::ZERO });
        let (first, second) = Connection::pair(ends[0], ends[1]);
        Path {
            now: Time::ZERO,
            rate,
            delay: rtt / 2,
            buffer,
            fate: Box::new(|_, _| Fate::Passes),
            policer: None,
            bunches: Duration::ZERO,
            writes: None,
            mss: first.mss().get(),
            ends: [first, second],
            trace,
            free_at: Time::ZERO,
            tokens: (Time::ZERO, 0),
            wrote: Time::ZERO,
            written: 0,
            sent_to: 0,
            events: BTreeMap::new(),
            serial: 0,
            sent: 0,
            dropped: 0,
        }
    }

    /// Payload bytes of a full segment.
    pub(super) fn mss(&self) -> u64 {
        self.mss
    }

    /// Time-outs of the sender so far.
    pub(super) fn timeouts(&self) -> u64 {
        self.ends[0].counters().timeouts
    }

    /// Bytes that the path holds without a queue.
    pub(super) fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.delay * 2).get()
    }

    /// Runs for so long, and returns the shots taken meanwhile.
    pub(super) fn run(&mut self, time: Duration) -> Vec<Shot<C>> {
        let end = self.now + time;
        self.run_until(end, |_| false)
    }

    /// Runs until a shot is as wanted, at most for a minute, and returns the shots taken meanwhile, that one as the last.
    pub(super) fn until(&mut self, wanted: impl Fn(&C) -> bool) -> Vec<Shot<C>> {
        let end = self.now + Duration::from_secs(60);
        let shots = self.run_until(end, |shot| wanted(&shot.controller));
        assert!(self.now < end, "never, as of {:?}", shots.last());
        shots
    }

    fn run_until(&mut self, end: Time, is_last: impl Fn(&Shot<C>) -> bool) -> Vec<Shot<C>> {
        let mut shots = Vec::new();
        loop {
            let next = self.step().min(end);
            let taken = std::mem::take(&mut *self.trace.lock().expect("nobody panicked"));
            let over = taken.last().is_some_and(&is_last);
            shots.extend(taken);
            if over || next == end {
                self.now = if over { self.now } else { end };
                return shots;
            }
            self.now = next;
            if let Some((&key, _)) = self.events.first_key_value()
                && key.0 <= self.now
                && let Some((to, segment)) = self.events.remove(&key)
            {
                self.ends[to].receive(self.now, &segment);
                self.ends[to].read(Bytes::MAX);
            }
        }
    }

    /// Lets both ends send what they will now; returns when something happens next.
    fn step(&mut self) -> Time {
        self.write();
        let mut next = self.events.first_key_value().map(|(key, _)| key.0);
        for from in 0..2 {
            loop {
                match self.ends[from].poll(self.now) {
                    Output::Send(segment) => self.carry(from, segment),
                    Output::Wait(until) => {
                        next = earlier(next, until);
                        break;
                    }
                }
            }
        }
        let next = earlier(next, self.events.first_key_value().map(|(key, _)| key.0));
        let next = earlier(next, self.writes.map(|_| self.now + WRITES_EVERY));
        next.expect("somebody waits for something").max(self.now)
    }

    fn write(&mut self) {
        let len = match self.writes {
            None => Bytes::new((self.sent_to + AHEAD).saturating_sub(self.written)),
            Some(rate) => rate.bytes_in(self.now.since(self.wrote)),
        };
        if len > Bytes::ZERO {
            self.wrote = self.now;
            self.written += self.ends[0].write(len).get();
        }
    }

    fn carry(&mut self, from: usize, segment: Segment) {
        let mut at = self.now + self.delay;
        if segment.len > 0 {
            let len = u64::from(segment.len);
            self.sent += len;
            let place = self.ends[from].offset_of(&segment).expect("it has data");
            self.sent_to = self.sent_to.max(place + len);
            let fate = (self.fate)(self.now, place);
            let waiting = self.rate.bytes_in(self.free_at.since(self.now)).get();
            if fate == Fate::IsLost || waiting + len > self.buffer + 2 * self.mss || !self.is_allowed(len) {
                self.dropped += len;
                return;
            }
            self.free_at = self.free_at.max(self.now) + self.rate.time_for(Bytes::new(len));
            at = self.free_at + self.delay;
            if let Fate::Lingers(time) = fate {
                at += time;
            }
        } else if self.bunches > Duration::ZERO {
            let each = self.bunches.as_nanos();
            at = Time::from_nanos(at.as_nanos().next_multiple_of(each));
        }
        self.serial += 1;
        self.events.insert((at, self.serial), (1 - from, segment));
    }

    /// True if the policer has tokens for so many bytes.
    fn is_allowed(&mut self, len: u64) -> bool {
        let Some((rate, burst)) = self.policer else { return true };
        let (since, left) = self.tokens;
        let left = (left + rate.bytes_in(self.now.since(since)).get()).min(burst);
        let is_allowed = left >= len;
        self.tokens = (self.now, if is_allowed { left - len } else { left });
        is_allowed
    }
}
