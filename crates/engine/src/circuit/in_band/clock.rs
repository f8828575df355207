//! Round trips, and how long to wait for an acknowledgement (RFC 9002 s5 and s6.2).

use super::HELD_MAX;
use crate::time::{Duration, Time};

/// RFC 9002 s6.1.2, kGranularity.
const GRANULARITY: Duration = Duration::from_millis(1);
/// RFC 9002 s6.2.2, kInitialRtt.
const INITIAL: Duration = Duration::from_millis(333);
/// Doublings of the probe timeout at most: as many as keep a probe a minute away.
const BACKOFF_MAX: u32 = 6;

/// The estimate of the round trip, and the back-off of probes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The longest that the other end holds an acknowledgement back.
    held_max: Duration,
    latest: Duration,
    least: Option<Duration>,
    smoothed: Option<Duration>,
    variation: Duration,
    /// The round trip without what acknowledgements were held back, smoothed. It tells people of queues, and decides nothing.
    unheld: Option<Duration>,
    /// The time of the first measurement: losses before it say nothing of persistent congestion.
    since: Option<Time>,
    /// Probe timeouts since the last acknowledgement.
    backoff: u32,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new(HELD_MAX)
    }
}

impl Clock {
    pub(super) fn new(held_max: Duration) -> Clock {
        Clock {
            held_max,
            latest: Duration::ZERO,
            least: None,
            smoothed: None,
            variation: Duration::ZERO,
            unheld: None,
            since: None,
            backoff: 0,
        }
    }

    /// Takes a round trip, and how much of it the other end held the acknowledgement back (RFC 9002 s5.3).
    pub(super) fn measure(&mut self, now: Time, rtt: Duration, held: Duration) {
        self.latest = rtt;
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        // Of an acknowledgement that was held for much longer than the way takes, whoever decides keeps the whole (s5.3), because of
        // a microsecond that is missing.
        let unheld = if rtt > held + least { rtt - held } else { least };
        self.unheld = Some(self.unheld.map_or(unheld, |before| (before * 7 + unheld) / 8));
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation, self.since) = (Some(rtt), rtt / 2, Some(now));
            return;
        };
        let held = held.min(self.held_max);
        let adjusted = if rtt >= least + held { rtt - held } else { rtt };
        let error = if adjusted > smoothed { adjusted - smoothed } else { smoothed - adjusted };
        self.variation = (self.variation * 3 + error) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }

    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(super) fn least(&self) -> Option<Duration> {
        self.least
    }

    /// The smoothed time that packets wait in queues: what a round trip has beyond the least, without what acknowledgements were held.
    pub(super) fn queueing(&self) -> Option<Duration> {
        let (unheld, least) = self.unheld.zip(self.least)?;
        Some(if unheld > least { unheld - least } else { Duration::ZERO })
    }

    pub(super) fn since(&self) -> Option<Time> {
        self.since
    }

    /// Ends the back-off: an acknowledgement brought news, so probes are answered.
    pub(super) fn answered(&mut self) {
        self.backoff = 0;
    }

    /// Doubles the probe timeout, because one has expired.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// The probe timeout (RFC 9002 s6.2.1) without back-off.
    pub(super) fn patience(&self) -> Duration {
        let Some(smoothed) = self.smoothed else { return INITIAL * 2 };
        smoothed + (self.variation * 4).max(GRANULARITY) + self.held_max
    }

    /// The probe timeout with back-off.
    pub(super) fn probe_timeout(&self) -> Duration {
        self.patience() * (1 << self.backoff)
    }

    /// The time after which a datagram that left counts as lost, if a later one has come (RFC 9002 s6.1.2): 9/8 of a round trip,
    /// and another `eighths` where the path was seen to reorder.
    pub(super) fn lost_after(&self, eighths: u64) -> Duration {
        let rtt = self.smoothed.unwrap_or(INITIAL).max(self.latest);
        (rtt * (9 + eighths) / 8).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acknowledgements_are_held_is_no_queue_and_what_queues_add_is() {
        let mut clock = Clock::default();
        let (way, held) = (Duration::from_micros(100), Duration::from_millis(25));
        let at = |number: u64| Time::ZERO + Duration::from_millis(100) * number;
        clock.measure(at(0), way, Duration::ZERO);
        for number in 1..50 {
            // A few microseconds less than were said to be held: a clock's grain.
            clock.measure(at(number), way + held - Duration::from_micros(number % 7), held);
        }
        assert!(clock.queueing().is_some_and(|queueing| queueing < Duration::from_millis(1)), "{:?}", clock.queueing());
        let queue = Duration::from_millis(80);
        for number in 50..100 {
            clock.measure(at(number), way + queue + held, held);
        }
        let found = clock.queueing().expect("there were round trips");
        assert!(found > queue * 9 / 10 && found <= queue, "{found:?}");
    }
}
