//! FAST: a window that keeps a set number of its own packets, alpha, in the queues of its path (Jin, Wei and Low 2004).
//!
//! The queue is told from the delay: of a window w of which the round trip is D and would be d without queues, w d / D
//! are on their way and the others wait. Every so many round trips the window moves half of the way to where alpha wait
//! (equation 1 of Andrew et al.). Every few seconds it looks at its path without its own packets in the queue: a base
//! round trip that is out of date, because the route has become longer, is found so. [`law`] has the arithmetic, on plain integers, so that it can run elsewhere to the same
//! last digit; this file puts it behind [`Controller`].

pub mod law;
#[cfg(test)]
mod tests;

use super::{Ack, Cause, Congestion, Controller, Factory, Setup};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Value, Values};
use crate::time::{Duration, Time};
use crate::units::Bytes;
use law::{Heard, Law};

/// The parameters of FAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Packets of its own that the flow aims to have in the queues of its path, or [`ALPHA_BY_RATE`](Parameters::ALPHA_BY_RATE).
    pub alpha_packets: u32,
    /// The share of the way to its aim that the window goes with every update, in percent: gamma of Jin, Wei and Low 2004.
    pub gamma_percent: u32,
    /// Round trips from one update of the window to the next.
    pub update_rounds: u32,
    /// Seconds after which a base round trip that was not seen again is checked; 0 for never, as published.
    pub check_seconds: u32,
}

impl Parameters {
    /// In the place of alpha: 20 packets, and as many more as the flow sends in 2 ms.
    pub const ALPHA_BY_RATE: u32 = 0;

    /// 20 packets, what FAST has by default on a slow link (Andrew et al. s4-B); half of the way (their equation 1); updated
    /// in one round trip and left alone in the next (Jin, Wei and Low 2004). The papers know no check of the base: every
    /// 5 s a longer route is found in time to fill it within 10 s.
    pub const DEFAULT: Parameters =
        Parameters { alpha_packets: 20, gamma_percent: 50, update_rounds: 2, check_seconds: 5 };

    /// Alpha as a person writes it: a number, or `auto`.
    pub fn alpha(&self) -> String {
        match self.alpha_packets {
            Parameters::ALPHA_BY_RATE => AUTO.to_owned(),
            alpha => alpha.to_string(),
        }
    }

    /// The `alpha_packets` that a person writes so; `None` if it is neither `auto` nor a number from 1 on.
    pub fn alpha_of(text: &str) -> Option<u32> {
        if text == AUTO {
            return Some(Parameters::ALPHA_BY_RATE);
        }
        text.parse().ok().filter(|&alpha| alpha != Parameters::ALPHA_BY_RATE)
    }
}

/// The word for an alpha by rate.
const AUTO: &str = "auto";

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "fast",
        doc: "A window that keeps a set number of its own packets in the queues of its path (Jin, Wei and Low 2004).",
        fields: &[
            Field {
                name: "fast_alpha",
                kind: Kind::CountOr { min: 1, max: 1_000_000, word: AUTO },
                absent: Absent::Is("20"),
                doc: "The number of its own packets that the flow aims to have in the queues of its path; `auto` is 20, and as many more \
                      as it sends in 2 ms.",
            },
            Field {
                name: "fast_gamma_percent",
                kind: Kind::Count { min: 1, max: 100 },
                absent: Absent::Is("50"),
                doc: "The share of the way to its aim that the window goes with every update, in percent.",
            },
            Field {
                name: "fast_update_rounds",
                kind: Kind::Count { min: 1, max: 1_000 },
                absent: Absent::Is("2"),
                doc: "Round trips from one update of the window to the next.",
            },
            Field {
                name: "fast_check_seconds",
                kind: Kind::Count { min: 0, max: 3_600 },
                absent: Absent::Is("5"),
                doc: "Seconds after which a base round trip that was not seen again is checked with the queue drained, as a \
                      longer route asks for; 0 never checks, as published.",
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        Ok(Parameters {
            alpha_packets: values.count_or("fast_alpha").map_or(Parameters::ALPHA_BY_RATE, |alpha| alpha as u32),
            gamma_percent: values.small("fast_gamma_percent"),
            update_rounds: values.small("fast_update_rounds"),
            check_seconds: values.small("fast_check_seconds"),
        })
    }
}

impl Factory for Parameters {
    fn name(&self) -> &str {
        Parameters::DESCRIPTION.name
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Fast::new(*self, setup))
    }

    fn values(&self) -> Values {
        let count = |value: u32| Value::Count(value.into());
        let alpha = match self.alpha_packets {
            Parameters::ALPHA_BY_RATE => Value::Text(AUTO.into()),
            alpha => count(alpha),
        };
        Values::new(vec![
            ("fast_alpha", alpha),
            ("fast_gamma_percent", count(self.gamma_percent)),
            ("fast_update_rounds", count(self.update_rounds)),
            ("fast_check_seconds", count(self.check_seconds)),
        ])
    }
}

/// FAST's window, in whole segments.
#[derive(Debug)]
pub struct Fast {
    law: Law,
    mss: u64,
    /// Bytes acknowledged beyond whole segments.
    rest: u64,
    initial_segments: u64,
    /// The window and the threshold before the last reduction.
    before: (u64, u64),
}

impl Fast {
    /// A controller at its initial window.
    pub fn new(parameters: Parameters, setup: &Setup) -> Fast {
        let mss = setup.mss.get().max(1);
        let initial = (setup.initial_window.get() / mss).max(1);
        let threshold = setup.initial_threshold;
        let ssthresh = if threshold == Bytes::MAX { u64::MAX } else { threshold.get() / mss };
        let law = Law::new(parameters, initial, ssthresh);
        Fast { law, mss, rest: 0, initial_segments: initial, before: (initial, ssthresh) }
    }
}

/// The time in whole microseconds, the kernel's unit for round trips.
fn micros(now: Time) -> u64 {
    now.as_nanos() / 1_000
}

impl Controller for Fast {
    fn on_established(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.law.begin(rtt.as_nanos() / 1_000);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.rest += ack.acked.get();
        let acked = self.rest / self.mss;
        self.rest -= acked * self.mss;
        self.law.on_ack(Heard {
            now_us: micros(ack.now),
            rtt_us: ack.rtt.map(|rtt| rtt.as_nanos() / 1_000),
            acked,
            is_recovering: !ack.may_grow,
            is_window_limited: ack.window_limited,
        });
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        let now_us = micros(congestion.now);
        if congestion.cause == Cause::Idle {
            // RFC 5681 s4.1; what was learnt of the path stays, so slow start ends where the window was.
            self.law.restart(now_us, self.law.cwnd.min(self.initial_segments), self.law.cwnd);
            return;
        }
        if !congestion.repeated {
            self.before = (self.law.cwnd, self.law.ssthresh);
            self.law.halve(now_us);
        }
        match congestion.cause {
            Cause::Loss | Cause::Marked | Cause::Idle => {}
            Cause::LossTahoe => self.law.restart(now_us, 1, self.law.ssthresh),
            // What is still in the network is counted, and a segment is sent.
            Cause::Timeout => self.law.restart(now_us, congestion.pipe.get() / self.mss + 1, self.law.ssthresh),
        }
    }

    fn on_spurious(&mut self) {
        let (cwnd, ssthresh) = self.before;
        self.law.undo(cwnd, ssthresh);
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.law.cwnd * self.mss)
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.law.ssthresh.saturating_mul(self.mss))
    }
}
