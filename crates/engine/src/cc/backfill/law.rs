//! Backfill's arithmetic on plain unsigned integers: no type of this crate, no sign, no float and nothing that overflows, so
//! that a program in the kernel can do the same steps. `vectors.csv` beside this file holds both to the same windows.

use super::Guard;

/// Windows are kept in units of 2^-16 segments: growth by a part of a segment for each acknowledged is otherwise nothing.
pub const SEGMENT: u64 = 1 << 16;
/// Largest window, in segments; longest round trip taken for one, 33 s; fastest rate, in units of 2^-24 segments a
/// microsecond; most segments of one acknowledgement. Together they keep every product within 64 bits.
const CWND_MAX: u64 = 1 << 22;
const RTT_US_MAX: u64 = (1 << 25) - 1;
const RATE_MAX: u64 = 1 << 30;
const BATCH_MAX: u64 = 1 << 16;
/// Nothing was measured yet.
const NONE: u64 = u64::MAX;

/// CUBIC's factor after a loss, 0.7 in 1024ths, and its C, 0.4 in 1024ths (RFC 9438 s4.6, s5), as Linux rounds them.
const BETA: u64 = 717;
const C: u64 = 410;
/// The furthest from its flat place that the cubic is followed, in 1/1024 s: two minutes.
const DISTANCE_MAX: u64 = 1 << 17;

/// Segments of its own that the filling window wants in the queue: 2 or a 64th of the window at most, and a tenth of the longest
/// queue seen, but an eighth of a segment in any case.
const ALPHA_MAX: u64 = 2 * SEGMENT;
const ALPHA_SHARE: u64 = 64;
const ALPHA_MIN: u64 = SEGMENT / 8;
/// The part of the window in the queue that is taken for noise, and the most doublings of what an idle line is given more of.
const IDLE_SHARE: u64 = 128;
const DOUBLINGS_MAX: u64 = 20;
/// The shortest time for which a delay must stand still to be looked at.
const STEADY_US: u64 = 2_000_000;
/// The time after which a shortest round trip that was not seen again is looked for.
const UNSEEN_US: u64 = 10_000_000;
/// The shortest span of each of the two halves of the memory of the fastest delivery.
const RATE_SPAN_US: u64 = 100_000;
/// Slow start has found the path's rate once it has grown by less than a quarter in so many round trips (BBRCheckFullPipe of
/// draft-cardwell-iccrg-bbr-congestion-control-00).
const FULL_ROUNDS: u64 = 3;
/// The things that an acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// The time at which the acknowledgement came.
    pub now_us: u64,
    /// The round trip that it measured; 0 if it measured none.
    pub rtt_us: u64,
    /// Segments that it says have arrived, in order or not.
    pub acked: u64,
    /// Segments found lost since the acknowledgement before.
    pub lost: u64,
    /// Segments that had arrived by now, and when the newest of those that arrived was sent.
    pub delivered: u64,
    /// Segments that had arrived when the newest of those that arrived was sent.
    pub prior_delivered: u64,
    /// The place in the stream before which all is acknowledged, in any unit.
    pub una: u64,
    /// The place in the stream before which all has been sent, in the same unit.
    pub sent: u64,
    /// The rate of delivery, in units of 2^-24 segments a microsecond; 0 if it is not known.
    pub rate: u64,
    /// The application, and not the network, may have kept the rate low.
    pub is_app_limited: bool,
    /// The window, and nothing else, limits what is in flight.
    pub is_window_limited: bool,
}

/// The least or most of the last one to two spans of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recent {
    now: u64,
    before: u64,
    turn_us: u64,
}

impl Recent {
    fn new(none: u64) -> Recent {
        Recent { now: none, before: none, turn_us: 0 }
    }

    fn turn(&mut self, now_us: u64, span_us: u64, none: u64) {
        if now_us >= self.turn_us {
            self.before = if now_us >= self.turn_us + span_us { none } else { self.now };
            self.now = none;
            self.turn_us = now_us + span_us;
        }
    }

    fn least(&mut self, now_us: u64, value: u64, span_us: u64) -> u64 {
        self.turn(now_us, span_us, NONE);
        self.now = self.now.min(value);
        self.now.min(self.before)
    }

    fn most(&mut self, now_us: u64, value: u64, span_us: u64) -> u64 {
        self.turn(now_us, span_us, 0);
        self.now = self.now.max(value);
        self.now.max(self.before)
    }
}

/// The two windows and what they are computed from. Windows are in units of 2^-16 segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// The guard that is switched off, in studies of what each is for.
    pub without: Guard,
    /// CUBIC's window, which sees every loss.
    pub claim: u64,
    /// CUBIC's slow-start threshold.
    pub ssthresh: u64,
    /// CUBIC's window at its last loss, the flat place of its curve, the time when it is reached [1/1024 s], and the window that
    /// Reno would have.
    w_max: u64,
    origin: u64,
    k: u64,
    w_est: u64,
    /// When the curve began; 0 if it has not.
    epoch_us: u64,
    /// Losses towards the next cut, of a flow as large as CUBIC's window is of the larger one.
    losses: u64,
    /// The place in the stream before which all must be acknowledged for the next: a cut a flight.
    cut_until: u64,
    /// The window, threshold and maximum before the last cut.
    before: (u64, u64, u64),
    /// The filling window, which sees the delay only.
    pub fill: u64,
    /// The filling window is in slow start.
    pub is_starting: bool,
    full_rate: u64,
    full_rounds: u64,
    /// The round trip: smoothed (2^-3 us), and the shortest of a minute.
    srtt: u64,
    /// The shortest round trip since the route changed last; 0 before the first.
    pub base_us: u64,
    base_seen_us: u64,
    standing: Recent,
    /// The shortest of about one round trip's, whose excess over the base is the queue that stands.
    pub standing_us: u64,
    queue_max_us: u64,
    rates: Recent,
    /// The fastest delivery of about ten round trips, in units of 2^-24 segments a microsecond.
    pub rate: u64,
    /// Round trips one after the other in which the queue was as good as empty.
    idle_rounds: u64,
    /// The round trip began when so much had been delivered.
    round_from: u64,
    /// The fastest delivery since slow start began last.
    rate_max: u64,
    /// The delay has stood between these two since this time.
    steady_from_us: u64,
    steady_least_us: u64,
    steady_most_us: u64,
    /// The window is three quarters, to see whether the delay falls, until this time; 0 if it is not.
    look_until_us: u64,
}

/// The part of `difference` that belongs to `acked` segments of a window `w`: difference acked / w.
fn portion(difference: u64, acked: u64, w: u64) -> u64 {
    ((difference * acked) << 8) / (w >> 8)
}

/// The largest number whose cube is at most `n`, for n up to 2^54.
fn cube_root(n: u64) -> u64 {
    let mut root = 0;
    for bit in (0..18).rev() {
        let larger = root | 1 << bit;
        if larger * larger * larger <= n {
            root = larger;
        }
    }
    root
}

impl Law {
    /// A law that has measured nothing, at a window of so many segments.
    pub fn new(without: Guard, cwnd: u64, ssthresh: u64) -> Law {
        let window = cwnd.clamp(1, CWND_MAX) * SEGMENT;
        let ssthresh = if ssthresh >= CWND_MAX { NONE } else { ssthresh * SEGMENT };
        Law {
            without,
            claim: window,
            ssthresh,
            w_max: 0,
            origin: 0,
            k: 0,
            w_est: 0,
            epoch_us: 0,
            losses: 0,
            cut_until: 0,
            before: (window, ssthresh, 0),
            fill: window,
            is_starting: true,
            full_rate: 0,
            full_rounds: 0,
            srtt: 0,
            base_us: 0,
            base_seen_us: 0,
            standing: Recent::new(NONE),
            standing_us: 0,
            queue_max_us: 0,
            rates: Recent::new(0),
            rate: 0,
            idle_rounds: 0,
            round_from: 0,
            rate_max: 0,
            steady_from_us: 0,
            steady_least_us: 0,
            steady_most_us: 0,
            look_until_us: 0,
        }
    }

    /// The larger of the two windows.
    fn larger(&self, now_us: u64) -> u64 {
        let w = self.claim.max(self.fill);
        let w = if self.look_until_us > now_us { w / 4 * 3 } else { w };
        w.max(2 * SEGMENT)
    }

    /// True before the first round trip was measured.
    pub fn is_new(&self) -> bool {
        self.srtt == 0
    }

    /// Segments that may be in flight.
    pub fn cwnd(&self, now_us: u64) -> u64 {
        self.larger(now_us) / SEGMENT
    }

    /// The pace, in units of 2^-24 segments a microsecond; 0 for none. CUBIC's window is not paced, as CUBIC is not.
    pub fn pace(&self, now_us: u64) -> u64 {
        if self.srtt == 0 || self.claim >= self.fill && !self.is_starting || self.without == Guard::Pacing {
            return 0;
        }
        let per_us = (self.larger(now_us) << 11) / self.srtt;
        if self.is_starting { per_us * 2 } else { per_us * 5 / 4 }
    }

    /// The segments that the path holds without a queue.
    fn bdp(&self) -> u64 {
        ((self.rate * self.base_us) >> 8).min(CWND_MAX * SEGMENT)
    }

    /// Takes an acknowledgement.
    pub fn on_ack(&mut self, heard: Heard) {
        let heard = Heard { acked: heard.acked.min(BATCH_MAX), lost: heard.lost.min(BATCH_MAX), ..heard };
        let begins_round = heard.acked > 0 && heard.prior_delivered >= self.round_from;
        if begins_round {
            self.round_from = heard.delivered;
        }
        self.measure(heard);
        let w = self.larger(heard.now_us);
        if heard.lost > 0 {
            self.lose(heard, w);
        }
        if heard.una >= self.cut_until && heard.is_window_limited {
            self.grow_claim(heard, w);
        }
        self.move_fill(heard, w, begins_round);
    }

    fn measure(&mut self, heard: Heard) {
        let now_us = heard.now_us;
        if heard.rtt_us > 0 {
            let rtt_us = heard.rtt_us.min(RTT_US_MAX);
            self.srtt = if self.srtt == 0 { rtt_us << 3 } else { self.srtt - (self.srtt >> 3) + rtt_us };
            if self.base_us == 0 || rtt_us <= self.base_us + (self.base_us >> 11) {
                self.base_seen_us = now_us;
            }
            self.base_us = if self.base_us == 0 { rtt_us } else { self.base_us.min(rtt_us) };
            self.standing_us = self.standing.least(now_us, rtt_us, self.srtt >> 4);
            self.queue_max_us = self.queue_max_us.max(rtt_us - self.base_us);
        }
        if heard.rate > 0 && (!heard.is_app_limited || heard.rate > self.rate) {
            let span = (5 * (self.srtt >> 3)).max(RATE_SPAN_US);
            self.rate = self.rates.most(now_us, heard.rate.min(RATE_MAX), span);
            self.rate_max = self.rate_max.max(self.rate);
        }
    }

    /// Losses: CUBIC's window is cut for them as if it were alone with its share of them, once a flight.
    fn lose(&mut self, heard: Heard, w: u64) {
        let share = if self.without == Guard::Thinning { SEGMENT } else { self.claim * SEGMENT / w };
        self.losses += heard.lost * share;
        if self.losses < SEGMENT {
            return;
        }
        self.losses = 0;
        if heard.una >= self.cut_until {
            self.cut();
            self.cut_until = heard.sent.max(1);
        }
    }

    /// CUBIC's reduction, with fast convergence (RFC 9438 s4.6, s4.7), rounded as Linux rounds it.
    fn cut(&mut self) {
        self.before = (self.claim, self.ssthresh, self.w_max);
        self.w_max = if self.claim < self.w_max { self.claim * (1024 + BETA) / 2048 } else { self.claim };
        self.claim = ((self.claim / SEGMENT * BETA / 1024).max(2)) * SEGMENT;
        self.ssthresh = self.claim;
        self.epoch_us = 0;
    }

    /// CUBIC's growth by the share of the arrivals that are its own (RFC 9438 s4.2, s4.3).
    fn grow_claim(&mut self, heard: Heard, w: u64) {
        if self.claim < self.ssthresh {
            let grown = self.claim + portion(self.claim, heard.acked, w);
            self.claim = grown.min(self.ssthresh).min(CWND_MAX * SEGMENT);
            return;
        }
        if self.epoch_us == 0 {
            self.epoch_us = heard.now_us.max(1);
            self.origin = self.w_max.max(self.claim);
            // K^3 = (W_max - cwnd) / C in seconds cubed, in 1/1024 s.
            self.k = cube_root((self.origin - self.claim) * ((1 << 24) / C));
            self.w_est = self.claim;
        }
        let t = ((heard.now_us - self.epoch_us + self.base_us).min(1 << 27) << 10) / 1_000_000;
        let distance = t.abs_diff(self.k).min(DISTANCE_MAX);
        let rise = (C * distance * distance * distance) >> 24;
        let curve = if t < self.k { self.origin.saturating_sub(rise) } else { self.origin + rise };
        // Reno's mean with a factor of 0.7: 8/15 of a segment a round trip, where the RFC has 9/17, as Linux.
        self.w_est += portion(SEGMENT * 8 / 15, heard.acked, w);
        let step = curve.saturating_sub(self.claim).max(SEGMENT / 100).min(self.claim / 2);
        let blind = if self.w_max == 0 { self.claim / 20 } else { 0 };
        let grown = self.claim + portion(step.max(blind), heard.acked, w);
        self.claim = grown.max(self.w_est).min(CWND_MAX * SEGMENT);
    }

    /// The filling window: FAST's law towards a few segments in the queue, half of the way each round trip. As long as the
    /// line is idle it wants twice as many each round trip, within a tenth of what the path has delivered.
    fn move_fill(&mut self, heard: Heard, w: u64, begins_round: bool) {
        if self.base_us == 0 {
            return;
        }
        let longest = (self.queue_max_us * self.rate) >> 8;
        let most = ALPHA_MAX.max(w / ALPHA_SHARE);
        let alpha = if self.without == Guard::Alpha { most } else { (longest / 10).clamp(ALPHA_MIN, most) };
        let acked = heard.acked.min(w / SEGMENT);
        if self.is_starting {
            self.start(heard, w, most, begins_round);
            return;
        }
        self.watch(heard.now_us, alpha);
        if self.look_until_us > 0 || self.is_starting {
            return;
        }
        if begins_round {
            // Less in the queue than wanted, or than can be told from noise.
            let is_idle = w * (self.standing_us - self.base_us) / self.standing_us < alpha.max(w / IDLE_SHARE);
            self.idle_rounds = if is_idle && self.without != Guard::Haste { self.idle_rounds + 1 } else { 0 };
        }
        let more = (alpha << self.idle_rounds.min(DOUBLINGS_MAX)).min(alpha.max(w / 4));
        let mut aim = w * self.base_us / self.standing_us + more;
        if self.without != Guard::Ceiling {
            aim = aim.min(self.bdp() + self.bdp() / 10 + alpha);
        }
        let from = self.fill.min(w.max(aim));
        self.fill = if aim >= from {
            from + portion((aim - from) / 2, acked, w)
        } else {
            from - portion((from - aim) / 2, acked, w)
        };
        self.fill = self.fill.clamp(2 * SEGMENT, CWND_MAX * SEGMENT);
    }

    fn start(&mut self, heard: Heard, w: u64, most: u64, begins_round: bool) {
        let waits = w * (self.standing_us - self.base_us) / self.standing_us;
        if begins_round && self.without != Guard::Plateau {
            self.full_rounds += 1;
            if self.rate > self.full_rate + self.full_rate / 4 {
                self.full_rate = self.rate;
                self.full_rounds = 0;
            }
        }
        if waits > most || self.full_rounds >= FULL_ROUNDS {
            self.is_starting = false;
            self.fill = self.bdp().min(w) + most;
        } else if heard.is_window_limited {
            self.fill = (self.fill + heard.acked * SEGMENT).min(CWND_MAX * SEGMENT);
        }
    }

    /// Looks at the delay with three quarters of the window for two round trips, for one of two reasons. The shortest round
    /// trip was not seen for a while: one's own queue may hide it. Or a delay stands still that is more than the queue of a
    /// filling window: if it does not fall, it is no queue but a longer route.
    fn watch(&mut self, now_us: u64, alpha: u64) {
        if self.look_until_us > 0 {
            self.judge_look(now_us);
            return;
        }
        let excess_us = self.standing_us - self.base_us;
        let is_own = (excess_us * self.rate_max) >> 8 <= 2 * alpha;
        if is_own || self.steady_from_us == 0 || self.without == Guard::Look {
            self.stand(now_us);
            let is_unseen = now_us >= self.base_seen_us + UNSEEN_US && self.fill > self.claim;
            if is_unseen && self.without != Guard::Probe {
                self.look(now_us);
                // Whatever is seen is no other route.
                self.steady_least_us = NONE;
            }
            return;
        }
        self.steady_least_us = self.steady_least_us.min(self.standing_us);
        self.steady_most_us = self.steady_most_us.max(self.standing_us);
        // As long as CUBIC takes to get back to where it lost: a queue that it makes does not stand still for that.
        if now_us - self.steady_from_us >= STEADY_US.max(self.k << 10) {
            if self.steady_most_us - self.steady_least_us <= (self.steady_least_us - self.base_us) / 8 {
                self.look(now_us);
            } else {
                self.stand(now_us);
            }
        }
    }

    fn look(&mut self, now_us: u64) {
        self.look_until_us = now_us + (self.srtt >> 2);
        self.base_seen_us = now_us;
    }

    fn judge_look(&mut self, now_us: u64) {
        if now_us < self.look_until_us {
            return;
        }
        self.look_until_us = 0;
        if self.standing_us + (self.standing_us - self.base_us) / 8 >= self.steady_least_us {
            self.base_us = self.standing_us;
            self.queue_max_us = 0;
            self.restart();
        }
        self.stand(now_us);
    }

    fn stand(&mut self, now_us: u64) {
        self.steady_from_us = now_us;
        self.steady_least_us = self.standing_us;
        self.steady_most_us = self.standing_us;
    }

    /// The retransmission timer expired; so many segments are still believed to be in the network.
    pub fn on_timeout(&mut self, pipe: u64, is_repeated: bool) {
        if !is_repeated {
            self.cut();
        }
        self.claim = self.claim.min(pipe.min(CWND_MAX) * SEGMENT + SEGMENT);
        self.w_max = 0;
        self.epoch_us = 0;
        self.cut_until = 0;
        self.fill = (self.fill / 2).max(2 * SEGMENT);
        self.restart();
    }

    /// The connection was idle: both windows halve for every time-out that it lasted, down to `initial` (RFC 2861 s3.1).
    pub fn on_idle(&mut self, timeouts: u64, initial: u64) {
        let halved = |w: u64| (w >> timeouts.min(63)).max(w.min(initial * SEGMENT));
        self.ssthresh = self.ssthresh.max(self.claim / 4 * 3);
        self.claim = halved(self.claim);
        self.fill = halved(self.fill);
        self.epoch_us = 0;
        self.restart();
    }

    fn restart(&mut self) {
        self.is_starting = true;
        self.full_rate = 0;
        self.full_rounds = 0;
        self.rate_max = 0;
    }

    /// The last cut was a mistake: CUBIC's window and threshold are at least what they were (RFC 4015 s3.2).
    pub fn undo(&mut self) {
        self.claim = self.claim.max(self.before.0);
        self.ssthresh = self.ssthresh.max(self.before.1);
        self.w_max = self.before.2;
    }
}
