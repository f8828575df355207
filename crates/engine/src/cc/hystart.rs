//! Leaving slow start before it overruns the path: HyStart as Linux's CUBIC runs it (Ha and Rhee 2011), and HyStart++
//! (RFC 9406).

#[cfg(test)]
mod tests;

use super::Ack;
use crate::time::{Duration, Time};

/// The way in which slow start ends before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HyStart {
    /// Slow start ends with a loss (RFC 5681).
    Off,
    /// Slow start ends by the length of an ACK train, or by a delay that grows: congestion avoidance follows at once.
    Classic,
    /// Slow start ends by a delay that grows; five slower rounds decide whether that was real (RFC 9406).
    PlusPlus,
}

impl HyStart {
    /// The registry: all of them with their names in scenario files.
    pub const ALL: &[(&'static str, HyStart)] =
        &[("off", HyStart::Off), ("classic", HyStart::Classic), ("plus-plus", HyStart::PlusPlus)];

    /// The name, as scenario files have it.
    pub fn name(self) -> &'static str {
        HyStart::ALL.iter().find(|(_, known)| *known == self).expect("every one has a name").0
    }
}

/// Samples of a round that are looked at before judging it (RFC 9406 s4.3 N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Growth of the round trip that counts: an eighth of it, within these (RFC 9406 s4.3).
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);
/// Classic HyStart looks only at windows of so many segments.
const LOW_WINDOW: u64 = 16;
/// ACKs no further apart than this are one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// The length that a sender's own batches may add to a train.
const TRAIN_SLACK: Duration = Duration::from_millis(1);
/// RFC 9406 s4.3 CSS_GROWTH_DIVISOR and CSS_ROUNDS.
const CSS_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// A slow start in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowStart {
    which: HyStart,
    /// Classic HyStart judges one slow start, until a time-out begins another.
    over: bool,
    round: Round,
    /// The least round trip of the round before (RFC 9406 lastRoundMinRTT).
    last: Option<Duration>,
    /// The least round trip when conservative slow start began, and its rounds so far.
    conservative: Option<(Duration, u32)>,
    /// The part of what was acknowledged that has not turned into growth yet, in conservative slow start.
    rest: u64,
}

/// The time from an ACK to the one for what was sent after it.
#[derive(Clone, Copy, Debug)]
struct Round {
    start: Time,
    last_ack: Time,
    /// Bytes of the round that are not yet acknowledged.
    left: u64,
    rtt_min: Option<Duration>,
    samples: u32,
}

impl Round {
    const NONE: Round = Round { start: Time::ZERO, last_ack: Time::ZERO, left: 0, rtt_min: None, samples: 0 };

    fn sample(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
    }
}

fn eighth(rtt: Duration) -> Duration {
    (rtt / 8).clamp(DELAY_MIN, DELAY_MAX)
}

impl SlowStart {
    pub(crate) fn new(which: HyStart) -> SlowStart {
        SlowStart { which, over: which == HyStart::Off, round: Round::NONE, last: None, conservative: None, rest: 0 }
    }

    /// A time-out: slow start begins again.
    pub(crate) fn restart(&mut self) {
        *self = SlowStart::new(self.which);
    }

    /// True if slow start shall end with this ACK. `rtt` is its sample, `rtt_min` the least so far, `cwnd` the window in
    /// segments.
    pub(crate) fn is_over(&mut self, ack: &Ack, rtt: Option<Duration>, rtt_min: Option<Duration>, cwnd: u64) -> bool {
        if self.over {
            return false;
        }
        match self.which {
            HyStart::Off => false,
            HyStart::Classic => self.classic(ack, rtt, rtt_min, cwnd),
            HyStart::PlusPlus => self.plus_plus(ack, rtt),
        }
    }

    /// The part of `acked` that counts for growth.
    pub(crate) fn share(&mut self, acked: u64) -> u64 {
        if self.conservative.is_none() {
            return acked;
        }
        self.rest += acked;
        let share = self.rest / CSS_DIVISOR;
        self.rest %= CSS_DIVISOR;
        share
    }

    /// True if this ACK began a round.
    fn turn(&mut self, ack: &Ack) -> bool {
        let acked = ack.acked.get();
        if acked <= self.round.left {
            self.round.left -= acked;
            return false;
        }
        let left = ack.in_flight.get().saturating_sub(acked);
        self.round = Round { start: ack.now, last_ack: ack.now, left, ..Round::NONE };
        true
    }

    fn classic(&mut self, ack: &Ack, rtt: Option<Duration>, rtt_min: Option<Duration>, cwnd: u64) -> bool {
        let (Some(rtt), Some(rtt_min)) = (rtt, rtt_min) else { return false };
        // Also of small windows, as Linux does it: a round that began in the middle of a flight would see its train torn.
        self.turn(ack);
        if cwnd < LOW_WINDOW {
            return false;
        }
        let round = &mut self.round;
        if ack.now.since(round.last_ack) <= TRAIN_GAP {
            round.last_ack = ack.now;
            // A train as long as half a round trip means that the window is about what the path holds.
            self.over = ack.now.since(round.start) > (rtt_min + TRAIN_SLACK) / 2;
        }
        let full = round.samples >= SAMPLES;
        round.sample(Some(rtt));
        self.over |= full && round.rtt_min.is_some_and(|least| least > rtt_min + eighth(rtt_min));
        self.over
    }

    /// Judges an acknowledgement by HyStart++ (RFC 9406 s4.2): true once slow start is over.
    fn plus_plus(&mut self, ack: &Ack, rtt: Option<Duration>) -> bool {
        let before = self.round.rtt_min;
        if self.turn(ack) {
            self.last = before;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                self.over = *rounds >= CSS_ROUNDS;
            }
        }
        self.round.sample(rtt);
        if self.round.samples >= SAMPLES
            && let Some(least) = self.round.rtt_min
        {
            match self.conservative {
                None if self.last.is_some_and(|last| least >= last + eighth(last)) => {
                    self.conservative = Some((least, 0));
                }
                // The delay was jitter: back to slow start.
                Some((baseline, _)) if least < baseline => self.conservative = None,
                _ => {}
            }
        }
        self.over
    }
}
