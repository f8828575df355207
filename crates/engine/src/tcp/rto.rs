//! The retransmission timeout: round trips measured in ticks of the sender's clock (Jacobson 1988, RFC 6298).

use super::personality::RtoPolicy;
use crate::time::{Duration, Time};

/// The estimator of round trips and the back-off; integers throughout, as in 4.4BSD and Linux.
#[derive(Clone, Debug)]
pub(crate) struct Rto {
    policy: RtoPolicy,
    /// The time between the last tick of the sender's clock and time zero; timers and measurements see whole ticks only.
    phase: Duration,
    /// Round trips are rounded to the nearest tick.
    nearest: bool,
    /// SRTT in eighths of a tick.
    srtt: u64,
    /// RTTVAR in quarters of a tick.
    rttvar: u64,
    measured: bool,
    /// The RTO before back-off.
    base: Duration,
    backoff: u32,
    /// SRTT of exact samples, in eighths of a nanosecond: for controllers and probes, not for the RTO.
    exact_srtt: Option<u64>,
}

impl Rto {
    /// An estimator without a measurement; the clock ticks at `phase` before time zero and every tick from there.
    pub(crate) fn new(policy: RtoPolicy, phase: Duration) -> Rto {
        Rto {
            policy,
            phase,
            nearest: false,
            srtt: 0,
            rttvar: 0,
            measured: false,
            base: policy.initial,
            backoff: 1,
            exact_srtt: None,
        }
    }

    /// Rounds round trips to the nearest tick.
    pub(crate) fn rounding_to_nearest_tick(self) -> Rto {
        Rto { nearest: true, ..self }
    }

    /// Takes a round trip, free of Karn's ambiguity (RFC 6298 s3), and ends the back-off.
    pub(crate) fn measure(&mut self, sent: Time, now: Time) {
        let exact = (now - sent).as_nanos();
        self.exact_srtt = Some(self.exact_srtt.map_or(exact * 8, |srtt| srtt - srtt / 8 + exact));
        let rtt = if self.nearest {
            let tick = self.policy.tick.as_nanos();
            ((exact + tick / 2) / tick).max(1)
        } else {
            self.ticks(now).saturating_sub(self.ticks(sent)).max(1)
        };
        if self.measured {
            // RFC 6298 s2.3 with alpha 1/8 and beta 1/4, in the scaled integers of Jacobson's appendix.
            let error = rtt as i64 - (self.srtt >> 3) as i64;
            self.srtt = self.srtt.saturating_add_signed(error).max(1);
            let deviation = error.abs() - (self.rttvar >> 2) as i64;
            self.rttvar = self.rttvar.saturating_add_signed(deviation).max(1);
        } else {
            // RFC 6298 s2.2: SRTT = R, RTTVAR = R/2.
            self.srtt = rtt << 3;
            self.rttvar = rtt << 1;
            self.measured = true;
        }
        self.backoff = 1;
        self.base = self.computed();
    }

    fn computed(&self) -> Duration {
        let tick = self.policy.tick;
        // RFC 6298 s2.3: RTO = SRTT + max(G, 4 RTTVAR); `rttvar` holds 4 RTTVAR and is at least one tick.
        let (srtt, variance) = (tick * (self.srtt >> 3), tick * self.rttvar);
        if self.policy.min_on_variance {
            srtt + variance.max(self.policy.min)
        } else {
            (srtt + variance).max(self.policy.min)
        }
    }

    /// The timeout now, with back-off (RFC 6298 s5.5).
    pub(crate) fn timeout(&self) -> Duration {
        (self.base * u64::from(self.backoff)).min(self.policy.max)
    }

    /// The time at which a timer set now for the current timeout fires.
    pub(crate) fn deadline(&self, now: Time) -> Time {
        let timeout = self.timeout();
        if !self.policy.heartbeat {
            return now + timeout;
        }
        // 4.4BSD counts heartbeats: n ticks take between n - 1 and n of them.
        let tick = self.policy.tick.as_nanos();
        let beats = timeout.as_nanos().div_ceil(tick);
        Time::from_nanos((self.ticks(now) + beats) * tick).saturating_back(self.phase)
    }

    /// Doubles the timeout (RFC 6298 s5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff * 2).min(self.policy.backoff_max);
        if self.backoff > 8 {
            // 4.4BSD tcp_timer.c, RFC 6298 s5: after so many the estimate is worth nothing; the next sample starts it anew.
            self.measured = false;
        }
    }

    /// The SYN was lost and gave no sample: for data, the timeout is at least three seconds (RFC 6298 s5.7).
    pub(crate) fn forgive_lost_syn(&mut self) {
        let cautious = Duration::from_secs(3);
        if !self.measured && self.timeout() < cautious {
            self.base = cautious;
            self.backoff = 1;
        }
    }

    /// The smoothed round trip from exact samples.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.exact_srtt.map(|srtt| Duration::from_nanos(srtt / 8))
    }

    fn ticks(&self, at: Time) -> u64 {
        (at + self.phase).as_nanos() / self.policy.tick.as_nanos()
    }
}

impl Time {
    fn saturating_back(self, span: Duration) -> Time {
        Time::from_nanos(self.as_nanos().saturating_sub(span.as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::personality::Personality;

    fn ms(n: u64) -> Time {
        Time::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_500_ms_clock_gives_three_ticks_once_measured_and_three_s_before() {
        let mut rto = Rto::new(Personality::bsd_reno_1996().rto, Duration::ZERO);
        assert_eq!(rto.timeout(), Duration::from_secs(3));
        for start in [0, 480, 1000, 1499] {
            rto.measure(ms(start), ms(start + 22));
            assert_eq!(rto.timeout(), Duration::from_millis(1500), "sample at {start} ms");
        }
    }

    #[test]
    fn a_round_trip_just_over_a_tick_is_one_tick_or_two_by_counting() {
        let samples = |rto: Rto| {
            let mut rto = rto;
            [0, 50, 190].map(|start| {
                rto.measured = false;
                rto.measure(ms(start), ms(start + 220));
                rto.timeout().as_millis()
            })
        };
        let rto = Rto::new(Personality::hfc_tuned().rto, Duration::ZERO);
        assert_eq!(samples(rto.clone()), [600, 600, 1_200], "ticks between");
        assert_eq!(samples(rto.rounding_to_nearest_tick()), [600, 600, 600]);
    }

    #[test]
    fn a_200_ms_clock_gives_600_ms() {
        let mut rto = Rto::new(Personality::hfc_tuned().rto, Duration::ZERO);
        rto.measure(ms(0), ms(22));
        assert_eq!(rto.timeout(), Duration::from_millis(600));
    }

    #[test]
    fn timeouts_double_up_to_the_largest_and_a_sample_ends_it() {
        let mut rto = Rto::new(Personality::bsd_reno_1996().rto, Duration::ZERO);
        rto.measure(ms(0), ms(22));
        let mut seen = Vec::new();
        for _ in 0..8 {
            rto.back_off();
            seen.push(rto.timeout().as_millis());
        }
        assert_eq!(seen, [3000, 6000, 12_000, 24_000, 48_000, 64_000, 64_000, 64_000], "ms");
        rto.measure(ms(0), ms(22));
        assert_eq!(rto.timeout(), Duration::from_millis(1500));
    }

    #[test]
    fn a_heartbeat_timer_fires_on_a_tick_up_to_one_tick_early() {
        let policy = RtoPolicy { heartbeat: true, ..Personality::bsd_reno_1996().rto };
        let mut rto = Rto::new(policy, Duration::from_millis(100));
        rto.measure(ms(0), ms(22));
        // Ticks fall at 400, 900, 1400, ... ms; three ticks after 30 ms is the third of them.
        assert_eq!(rto.deadline(ms(30)), ms(1400));
        assert_eq!(rto.deadline(ms(399)), ms(1400));
        assert_eq!(rto.deadline(ms(400)), ms(1900));
    }

    #[test]
    fn a_fine_clock_follows_rfc_6298_within_a_tick() {
        let mut rto = Rto::new(Personality::newreno().rto, Duration::ZERO);
        rto.measure(ms(0), ms(2_000));
        assert_eq!(rto.timeout().as_millis(), 2_000 + 4 * 1_000, "SRTT + 4 RTTVAR with RTTVAR = R/2");
        rto.measure(ms(0), ms(2_000));
        assert_eq!(rto.timeout().as_millis(), 2_000 + 4 * 750, "RTTVAR decays by a quarter");
    }
}
