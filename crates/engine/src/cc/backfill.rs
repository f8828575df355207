//! Backfill: a CUBIC that fills what loss leaves idle. Its window is the larger of two: a CUBIC window, which sees every
//! loss, and a window that sees only delay and takes no more than leaves the queue short.
//!
//! No loss is classified. The CUBIC window claims what any CUBIC would claim here; the other one backfills. Alone on a
//! damaged line the queue is short, the filling window leads, and what damage does to CUBIC's window does not matter. Beside
//! other flows that fill the queue the filling window gives way, as a scavenger does (RFC 6817), and the CUBIC window competes
//! as one of its kind. [`law`] has the arithmetic, on plain integers, so that it can run elsewhere to the same last digit;
//! this file puts it behind [`Controller`].

pub mod law;
#[cfg(test)]
mod tests;

use super::{Ack, Cause, Congestion, Controller, Factory, RateSample, Setup};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Value, Values, names};
use crate::time::Time;
use crate::units::{Bytes, Rate};
use law::{Heard, Law};

/// A guard of the law, to be switched off by those who want to know what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// No guard: the law as it is.
    #[default]
    None,
    /// Losses count for CUBIC's window by its share of the larger one.
    Thinning,
    /// A delay that stands still is looked at with a smaller window: a longer route, if it does not fall.
    Look,
    /// The shortest round trip is looked for with a smaller window once it was not seen for ten seconds.
    Probe,
    /// The filling window wants less in the queue than the longest queue.
    Alpha,
    /// The filling window is bounded by the rate of delivery.
    Ceiling,
    /// The filling window wants more, the longer the line is idle.
    Haste,
    /// Slow start ends once the rate does not grow.
    Plateau,
    /// Packets are spread over the round trip while the filling window leads.
    Pacing,
}

impl Guard {
    /// The registry: all of them with their names in scenario files.
    pub const ALL: &[(&'static str, Guard)] = &[
        ("none", Guard::None),
        ("thinning", Guard::Thinning),
        ("look", Guard::Look),
        ("probe", Guard::Probe),
        ("alpha", Guard::Alpha),
        ("ceiling", Guard::Ceiling),
        ("haste", Guard::Haste),
        ("plateau", Guard::Plateau),
        ("pacing", Guard::Pacing),
    ];

    /// The name, as scenario files have it.
    pub fn name(self) -> &'static str {
        Guard::ALL.iter().find(|(_, known)| *known == self).expect("every one has a name").0
    }
}

/// The parameters of Backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The guard that is switched off.
    pub without: Guard,
}

impl Parameters {
    /// The law with all its guards.
    pub const DEFAULT: Parameters = Parameters { without: Guard::None };
}

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "backfill",
        doc: "The larger of a CUBIC window, which sees every loss, and one that fills the line as long as the queue is short.",
        fields: &[Field {
            name: "backfill_without",
            kind: Kind::Choice(|| names(Guard::ALL)),
            absent: Absent::Is("none"),
            doc: "The guard of the law that is switched off, in studies of what each is for.",
        }],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters { without: values.choice("backfill_without", Guard::ALL) })
    }
}

impl Factory for Parameters {
    fn name(&self) -> &str {
        Parameters::DESCRIPTION.name
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Backfill::new(*self, setup))
    }

    fn values(&self) -> Values {
        Values::new(vec![("backfill_without", Value::Text(self.without.name().to_owned()))])
    }
}

/// The pace of a connection that has measured no round trip: none to speak of.
const UNPACED: Rate = Rate::bit(1_000_000_000_000);

/// Backfill's windows, in segments.
#[derive(Debug)]
pub struct Backfill {
    law: Law,
    mss: u64,
    initial_segments: u64,
    /// The time of the last event.
    now_us: u64,
    /// Bytes acknowledged and lost beyond whole segments.
    acked_rest: u64,
    lost_rest: u64,
    /// A loss was noticed with this acknowledgement.
    is_loss_noticed: bool,
    is_window_limited: bool,
}

impl Backfill {
    /// A controller at its initial window.
    pub fn new(parameters: Parameters, setup: &Setup) -> Backfill {
        let mss = setup.mss.get().max(1);
        let initial = (setup.initial_window.get() / mss).max(1);
        Backfill {
            law: Law::new(parameters.without, initial, setup.initial_threshold.get() / mss),
            mss,
            initial_segments: initial,
            now_us: 0,
            acked_rest: 0,
            lost_rest: 0,
            is_loss_noticed: false,
            is_window_limited: false,
        }
    }

    /// A rate of payload in the law's unit, 2^-24 segments a microsecond.
    fn per_microsecond(&self, rate: Rate) -> u64 {
        let scaled = (u128::from(rate.get()) << 24) / (8_000_000 * u128::from(self.mss));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// The time in whole microseconds, the kernel's unit.
fn micros(now: Time) -> u64 {
    now.as_nanos() / 1_000
}

/// The whole segments of `rest` and `bytes` together; what is left stays in `rest`.
fn segments(rest: &mut u64, bytes: Bytes, mss: u64) -> u64 {
    *rest += bytes.get();
    let whole = *rest / mss;
    *rest %= mss;
    whole
}

impl Controller for Backfill {
    fn on_ack(&mut self, ack: &Ack) {
        self.is_window_limited = ack.window_limited;
    }

    fn wants_delivery(&self) -> bool {
        true
    }

    fn on_delivery(&mut self, sample: &RateSample) -> bool {
        self.now_us = micros(sample.now);
        let lost = segments(&mut self.lost_rest, sample.lost, self.mss).max(u64::from(self.is_loss_noticed));
        self.is_loss_noticed = false;
        self.law.on_ack(Heard {
            now_us: self.now_us,
            rtt_us: sample.rtt.map_or(0, |rtt| (rtt.as_nanos() / 1_000).max(1)),
            acked: segments(&mut self.acked_rest, sample.acked, self.mss),
            lost,
            delivered: sample.delivered.get() / self.mss,
            prior_delivered: sample.prior_delivered.get() / self.mss,
            una: sample.una,
            sent: sample.sent,
            rate: sample.rate.map_or(0, |rate| self.per_microsecond(rate)),
            is_app_limited: sample.is_app_limited,
            is_window_limited: self.is_window_limited,
        });
        false
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.now_us = micros(congestion.now);
        match congestion.cause {
            // The sample that follows says how much was lost; that something was is known here.
            Cause::Loss => self.is_loss_noticed = true,
            Cause::LossTahoe | Cause::Timeout => {
                self.law.on_timeout(congestion.pipe.get() / self.mss, congestion.repeated);
            }
            // A mark is no damage, and the law answers queues by their delay.
            Cause::Marked => {}
            Cause::Idle => self.law.on_idle(congestion.timeouts, self.initial_segments),
        }
    }

    fn on_spurious(&mut self) {
        self.law.undo();
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.law.cwnd(self.now_us) * self.mss)
    }

    fn threshold(&self) -> Bytes {
        if self.law.is_starting { Bytes::MAX } else { Bytes::new(self.law.ssthresh / law::SEGMENT * self.mss) }
    }

    fn pacing(&self) -> Option<Rate> {
        if self.law.is_new() {
            return Some(UNPACED);
        }
        let pace = self.law.pace(self.now_us);
        (pace > 0).then(|| {
            let bits = (u128::from(pace) * u128::from(self.mss) * 8_000_000) >> 24;
            Rate::bit(u64::try_from(bits).unwrap_or(u64::MAX).max(1))
        })
    }
}
