//! One of the flows of a circuit: a window, and what counts against it.

use crate::cc::{Ack, Cause, Congestion, Controller, RateSample};
use crate::tcp::delivery::DeliveryRate;
use crate::tcp::personality::{EraRules, Personality};
use crate::tcp::recovery::prr::Prr;
use crate::time::{Duration, Time};
use crate::units::Bytes;

/// The most lateness that pacing makes up for.
const SLACK: Duration = Duration::from_millis(1);

/// A congestion window of a circuit.
#[derive(Debug)]
pub(super) struct Flow {
    controller: Box<dyn Controller>,
    /// Bytes of a full datagram, by which windows grow.
    unit: u64,
    pub(super) in_flight: u64,
    /// The recovery under way: until a datagram with its `end` or a later number is acknowledged, losses belong to an event
    /// that has been answered (RFC 9002 s7.3.2).
    recovery: Option<Recovery>,
    /// Losses of the event that was answered last, without those that came after all.
    missing: u64,
    /// Bytes that were acknowledged and not yet told to the controller.
    acked: u64,
    acked_datagrams: u32,
    /// Datagrams that make an acknowledgement for the controller.
    every: u32,
    last_sent: Option<Time>,
    paced: bool,
    /// Something waited that the window did not take when the driver looked last.
    refused: bool,
    /// The time at which the next datagram may leave, if the controller paces.
    release: Time,
    rate: Option<DeliveryRate>,
    /// Bytes ever sent: positions for the estimator.
    sent: u64,
    /// Nothing before this position is awaited any more.
    settled: u64,
}

#[derive(Clone, Copy, Debug)]
struct Recovery {
    end: u64,
    /// None if the controller's own window holds.
    prr: Option<Prr>,
}

/// The news of a flow's datagrams from one acknowledgement or timer.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    pub(super) delivered: u64,
    pub(super) datagrams: u32,
    /// The largest number of the delivered datagrams.
    pub(super) largest: Option<u64>,
    pub(super) lost: u64,
    /// Datagrams that were lost to congestion.
    pub(super) congested: u64,
    /// The number of the last datagram that was lost to congestion.
    pub(super) last_lost: Option<u64>,
    /// Positions that were delivered.
    pub(super) pieces: Vec<(u64, u64)>,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.delivered == 0 && self.lost == 0
    }
}

/// The part of the news that is the same for all flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Time,
    pub(super) rtt: Option<Duration>,
    pub(super) srtt: Option<Duration>,
    /// The number that the next datagram will have.
    pub(super) next: u64,
    /// Nothing came for so long that nothing is known of the path.
    pub(super) persistent: bool,
}

impl Flow {
    pub(super) fn new(personality: &Personality, unit: Bytes) -> Flow {
        let controller = personality.controller.start(&personality.controller_setup(unit, &EraRules::RFC, true));
        Flow {
            unit: unit.get(),
            in_flight: 0,
            recovery: None,
            missing: 0,
            acked: 0,
            acked_datagrams: 0,
            every: personality.delayed_ack.segments.max(1),
            last_sent: None,
            paced: controller.pacing().is_some(),
            refused: false,
            release: Time::ZERO,
            rate: controller.wants_delivery().then(DeliveryRate::default),
            sent: 0,
            settled: 0,
            controller,
        }
    }

    /// The window now: the controller's, or less while it shrinks.
    pub(super) fn window(&self) -> u64 {
        match self.recovery {
            Some(Recovery { prr: Some(prr), .. }) => prr.window(),
            _ => self.controller.window().get(),
        }
    }

    /// Bytes that may be in flight beyond those that are.
    pub(super) fn room(&self) -> u64 {
        self.window().saturating_sub(self.in_flight)
    }

    /// The time at which pacing allows the next datagram, if that is later than now.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        (self.paced && self.release > now).then_some(self.release)
    }

    /// Bytes that pacing allows at once.
    pub(super) fn burst(&self) -> u64 {
        match self.controller.pacing().filter(|_| self.paced) {
            Some(rate) => (rate.get() / 8 * SLACK.as_nanos() / 1_000_000_000).max(2 * self.unit),
            None => u64::MAX,
        }
    }

    /// Returns true if the window takes a datagram of this length. A window with nothing in flight takes one of any length.
    pub(super) fn has_room_for(&self, len: u64) -> bool {
        self.in_flight == 0 || self.room() >= len
    }

    /// Notes whether the window refuses a datagram of this length that waits. A reduction under way says nothing of the window
    /// behind it.
    pub(super) fn on_look(&mut self, len: u64) {
        self.refused = self.recovery.is_none() && !self.has_room_for(len);
    }

    /// Shrinks a window that was not used for long, before a datagram leaves (RFC 5681 s4.1).
    pub(super) fn wake(&mut self, now: Time, patience: Duration) {
        let Some(last) = self.last_sent.filter(|_| self.in_flight == 0) else { return };
        let timeouts = now.since(last).as_nanos() / patience.as_nanos().max(1);
        if timeouts > 0 {
            self.congest(now, Cause::Idle, 0, timeouts);
        }
    }

    /// Notes that a datagram leaves. Returns where it is among the bytes of this flow.
    pub(super) fn on_sent(&mut self, now: Time, len: u64) -> (u64, u64) {
        let piece = (self.sent + 1, self.sent + 1 + len);
        self.sent += len;
        self.in_flight += len;
        if let Some(Recovery { prr: Some(prr), .. }) = &mut self.recovery {
            prr.on_sent(len);
        }
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, piece.0, piece.1, false, self.in_flight);
        }
        self.controller.on_sent(now, Bytes::new(len), Bytes::new(self.in_flight));
        self.last_sent = Some(now);
        if self.paced
            && let Some(rate) = self.controller.pacing()
        {
            // A driver that wakes late makes up for it, but not by a burst.
            let due = self.release.max(Time::from_nanos(now.as_nanos().saturating_sub(SLACK.as_nanos())));
            self.release = due + rate.time_for(Bytes::new(len));
        }
        piece
    }

    /// Notes that there was nothing to send though the window had room.
    pub(super) fn on_nothing_to_send(&mut self) {
        let room = self.room();
        self.refused &= room < self.unit;
        if let Some(rate) = self.rate.as_mut().filter(|_| room >= self.unit) {
            rate.on_app_limited(self.in_flight);
        }
    }

    /// Takes the news of an acknowledgement or timer. Returns true if the window shrank.
    pub(super) fn on_news(&mut self, news: &News, moment: Moment) -> bool {
        let before = self.in_flight;
        self.in_flight -= news.delivered + news.lost;
        if self.recovery.is_some_and(|recovery| news.largest.is_some_and(|largest| largest >= recovery.end)) {
            self.recovery = None;
        }
        let mut shrank = false;
        if news.last_lost.is_some() && moment.persistent {
            // RFC 9002 s7.6.2: the least window, and slow start from it at once.
            self.congest(moment.now, Cause::Timeout, before, 0);
            self.recovery = None;
            self.missing = 0;
            shrank = true;
        } else if news.last_lost.is_some_and(|last| self.recovery.is_none_or(|recovery| last >= recovery.end)) {
            self.congest(moment.now, Cause::Loss, before, 0);
            let reduces = !self.controller.wants_delivery();
            let prr = reduces.then(|| Prr::start(self.controller.window().get(), before));
            self.recovery = Some(Recovery { end: moment.next, prr });
            self.missing = 0;
            shrank = true;
        }
        self.missing += news.congested;
        if let Some(Recovery { prr: Some(prr), .. }) = &mut self.recovery {
            prr.on_ack(news.delivered, self.in_flight, news.lost == 0, self.unit);
        }
        self.tell(news, moment, before);
        self.sample(news, moment, before);
        shrank
    }

    /// Tells the controller of acknowledged bytes once there are as many datagrams as a TCP acknowledges at once: windows grow by
    /// acknowledgements, and one that is of two flows is not one for each.
    fn tell(&mut self, news: &News, moment: Moment, before: u64) {
        self.acked += news.delivered;
        self.acked_datagrams += news.datagrams;
        let all = self.in_flight == 0 || news.lost > 0;
        if self.acked == 0 || !all && self.acked_datagrams < self.every {
            return;
        }
        let window = self.controller.window().get();
        // RFC 7661 s4.1: a window that was not used is not grown; as for a TCP. What a driver that takes several acknowledgements
        // before it sends again has not filled yet counts as used, as in Linux, which judges when it sends.
        let window_limited = self.refused
            || if window < self.controller.threshold().get() {
                window < 2 * before.max(self.unit)
            } else {
                before + self.unit > window
            };
        self.controller.on_ack(&Ack {
            now: moment.now,
            acked: Bytes::new(std::mem::take(&mut self.acked)),
            in_flight: Bytes::new(before),
            rtt: moment.rtt,
            srtt: moment.srtt,
            may_grow: self.recovery.is_none(),
            window_limited,
            marked: Bytes::ZERO,
        });
        self.acked_datagrams = 0;
    }

    fn sample(&mut self, news: &News, moment: Moment, before: u64) {
        let Some(rate) = &mut self.rate else { return };
        rate.on_bytes_lost(news.lost);
        let mut sample: RateSample = rate.on_ack(moment.now, 0, &news.pieces, moment.rtt);
        rate.forget_before(self.settled);
        sample.prior_in_flight = Bytes::new(before);
        sample.in_flight = Bytes::new(self.in_flight);
        sample.lost = Bytes::new(news.lost);
        (sample.una, sample.sent) = (self.settled, self.sent + 1);
        if self.controller.on_delivery(&sample) {
            rate.on_app_limited(self.in_flight);
        }
    }

    /// Notes that nothing before this position is awaited any more.
    pub(super) fn settle(&mut self, end: u64) {
        self.settled = end;
    }

    /// Notes that a datagram that was taken for lost has come. Returns true if that was the last of them, and the window is what
    /// it was (RFC 9002 leaves that open; RFC 4015).
    pub(super) fn on_spurious(&mut self) -> bool {
        if self.missing == 0 {
            return false;
        }
        self.missing -= 1;
        if self.missing > 0 {
            return false;
        }
        self.controller.on_spurious();
        self.recovery = None;
        true
    }

    fn congest(&mut self, now: Time, cause: Cause, in_flight: u64, timeouts: u64) {
        let window = self.controller.window();
        // RFC 5681 s3.2 step 2: what went beyond the window does not count.
        let in_flight = Bytes::new(in_flight).min(window.max(Bytes::new(self.unit)));
        let pipe = Bytes::new(self.in_flight);
        self.controller.on_congestion(&Congestion {
            now,
            cause,
            in_flight,
            usable: window,
            repeated: false,
            pipe,
            timeouts,
        });
    }
}
