//! Vegas: between alpha and beta packets of its own in the queue, a packet more or less a round trip (Brakmo and Peterson
//! 1995).
//!
//! Once a round trip the rate that the window would have without a queue, w / d, is held against the rate that it has,
//! w / D. Their difference over d is w (D - d) / D: packets that wait. Where [`fast`](super::fast) goes half of the way to its
//! aim, Vegas goes a packet.

#[cfg(test)]
mod tests;

use super::{Ack, Cause, Congestion, Controller, Factory, Setup};
use crate::part::{Absent, Description, Field, Kind, Mistake, Part, Value, Values};
use crate::time::Duration;
use crate::units::Bytes;

/// The parameters of Vegas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The window grows with fewer packets of its own in the queue.
    pub alpha_packets: u32,
    /// The window shrinks with more.
    pub beta_packets: u32,
    /// Slow start ends with more.
    pub gamma_packets: u32,
}

impl Parameters {
    /// Brakmo and Peterson 1995 run Vegas with 1 and 3 or with 2 and 4, and slow start with 1; Linux has these.
    pub const DEFAULT: Parameters = Parameters { alpha_packets: 2, beta_packets: 4, gamma_packets: 1 };
}

/// A number of the flow's own packets in the queues of its path.
const PACKETS: Kind = Kind::Count { min: 0, max: 1_000_000 };

impl Part for Parameters {
    const DESCRIPTION: Description = Description {
        name: "vegas",
        doc: "Between alpha and beta packets of its own in the queues of its path (Brakmo and Peterson 1995).",
        fields: &[
            Field {
                name: "vegas_alpha",
                kind: PACKETS,
                absent: Absent::Is("2"),
                doc: "The window grows with fewer packets of its own in the queues of its path.",
            },
            Field {
                name: "vegas_beta",
                kind: PACKETS,
                absent: Absent::Is("4"),
                doc: "The window shrinks with more packets of its own in the queues of its path.",
            },
            Field {
                name: "vegas_gamma",
                kind: PACKETS,
                absent: Absent::Is("1"),
                doc: "Slow start ends with more packets of its own in the queues of its path.",
            },
        ],
    };

    fn read(values: &Values) -> Result<Parameters, Mistake> {
        let [alpha_packets, beta_packets, gamma_packets] =
            ["vegas_alpha", "vegas_beta", "vegas_gamma"].map(|field| values.small(field));
        if alpha_packets > beta_packets {
            let text = format!("= {alpha_packets} is over vegas_beta = {beta_packets}");
            return Err(Mistake { field: "vegas_alpha", text });
        }
        Ok(Parameters { alpha_packets, beta_packets, gamma_packets })
    }
}

impl Factory for Parameters {
    fn name(&self) -> &str {
        Parameters::DESCRIPTION.name
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Vegas::new(*self, setup))
    }

    fn values(&self) -> Values {
        let count = |value: u32| Value::Count(value.into());
        Values::new(vec![
            ("vegas_alpha", count(self.alpha_packets)),
            ("vegas_beta", count(self.beta_packets)),
            ("vegas_gamma", count(self.gamma_packets)),
        ])
    }
}

/// Vegas' window, in whole segments.
#[derive(Debug)]
pub struct Vegas {
    parameters: Parameters,
    mss: u64,
    cwnd: u64,
    /// The window below which slow start goes on; `u64::MAX` until slow start has ended.
    ssthresh: u64,
    /// Bytes acknowledged beyond whole segments.
    rest: u64,
    /// The shortest round trip so far.
    base: Option<Duration>,
    /// The latest. When a round is over it is that of the segment sent as the round began.
    latest: Option<Duration>,
    /// Bytes in flight when the round began, that segment's the last of them, less those acknowledged since: at none, the
    /// round is over.
    round_left: u64,
    /// Slow start grows in every other round, so that in between a window can be judged that stood still.
    grows: bool,
    initial: u64,
    /// The window and the threshold before the last reduction.
    before: (u64, u64),
}

/// Packets of a window `w` that wait: w (D - d) / D, rounded down.
fn queued(w: u64, base: Duration, rtt: Duration) -> u64 {
    w * rtt.as_nanos().saturating_sub(base.as_nanos()) / rtt.as_nanos().max(1)
}

impl Vegas {
    /// A controller at its initial window.
    pub fn new(parameters: Parameters, setup: &Setup) -> Vegas {
        let mss = setup.mss.get().max(1);
        let initial = (setup.initial_window.get() / mss).max(1);
        let threshold = setup.initial_threshold;
        let ssthresh = if threshold == Bytes::MAX { u64::MAX } else { threshold.get() / mss };
        Vegas {
            parameters,
            mss,
            cwnd: initial,
            ssthresh,
            rest: 0,
            base: None,
            latest: None,
            round_left: setup.initial_window.get(),
            grows: true,
            initial,
            before: (initial, ssthresh),
        }
    }

    /// Judges the window by the round that is over.
    fn end_round(&mut self, is_window_limited: bool) {
        let (Some(base), Some(rtt)) = (self.base, self.latest) else { return };
        let Parameters { alpha_packets, beta_packets, gamma_packets } = self.parameters;
        let waiting = queued(self.cwnd, base, rtt);
        if self.cwnd < self.ssthresh {
            if self.grows {
                self.grows = false;
            } else if waiting > u64::from(gamma_packets) {
                // What the path carries and a packet (Linux, `tcp_vegas_cong_avoid`); the rest would wait for long.
                self.cwnd = (self.cwnd - waiting + 1).clamp(2.min(self.cwnd), self.cwnd);
                self.ssthresh = self.cwnd;
            } else {
                self.grows = true;
            }
        } else if waiting > u64::from(beta_packets) {
            self.cwnd = (self.cwnd - 1).max(2);
            // That is no reason for slow start.
            self.ssthresh = self.ssthresh.min(self.cwnd);
        } else if waiting < u64::from(alpha_packets) && is_window_limited {
            self.cwnd += 1;
        }
    }
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.latest = Some(rtt);
        }
        self.rest += ack.acked.get();
        let acked = self.rest / self.mss;
        self.rest -= acked * self.mss;
        self.round_left = self.round_left.saturating_sub(ack.acked.get());
        if ack.may_grow && ack.window_limited && self.grows && self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + acked).min(self.ssthresh);
        }
        if self.round_left == 0 {
            if ack.may_grow {
                self.end_round(ack.window_limited);
            }
            self.round_left = ack.in_flight.get();
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        self.grows = true;
        if congestion.cause == Cause::Idle {
            self.ssthresh = self.cwnd;
            self.cwnd = self.cwnd.min(self.initial);
            return;
        }
        if !congestion.repeated {
            self.before = (self.cwnd, self.ssthresh);
            // As Reno, which Linux's Vegas keeps for losses.
            self.ssthresh = (self.cwnd / 2).max(2);
        }
        self.cwnd = match congestion.cause {
            Cause::Loss | Cause::Marked | Cause::Idle => self.ssthresh,
            Cause::LossTahoe => 1,
            // What is still in the network is counted, and a segment is sent.
            Cause::Timeout => congestion.pipe.get() / self.mss + 1,
        };
    }

    fn on_spurious(&mut self) {
        self.cwnd = self.cwnd.max(self.before.0);
        self.ssthresh = self.ssthresh.max(self.before.1);
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.cwnd * self.mss)
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.ssthresh.saturating_mul(self.mss))
    }
}
