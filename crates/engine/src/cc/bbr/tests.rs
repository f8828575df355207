use super::*;

const MSS: u64 = 1_000;
const RTT_MS: u64 = 50;

/// A path of 8 Mbit/s and 50 ms that holds 50 segments, driven round by round: a window, or what the pace allows, leaves
/// and is acknowledged.
struct Path {
    bbr: Bbr,
    now_ms: u64,
    delivered: u64,
    lost: u64,
    segments_per_round: u64,
    /// Segments that the path has not let through yet.
    queue: u64,
}

fn setup() -> Setup {
    Setup::linux(MSS, 10)
}

impl Path {
    fn new() -> Path {
        let mut bbr = Bbr::new(&setup());
        bbr.on_established(Some(Duration::from_millis(RTT_MS)));
        Path { bbr, now_ms: 0, delivered: 0, lost: 0, segments_per_round: 50, queue: 0 }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.now_ms * 1_000_000)
    }

    /// One acknowledgement for a round trip's segments, as many as the path lets through.
    fn round(&mut self) -> RateSample {
        let paced = self.bbr.pace / 8 * RTT_MS / 1_000 / MSS;
        let out = self.queue + self.bbr.cwnd.saturating_sub(self.queue).min(paced).max(1);
        let through = out.min(self.segments_per_round);
        self.queue = out - through;
        self.now_ms += RTT_MS;
        let prior = self.delivered;
        self.delivered += through * MSS;
        let sample = self.sample(prior, out);
        self.bbr.on_delivery(&sample);
        sample
    }

    /// What the round trip that has just ended says, at whose begin so much had been delivered and `out` segments left.
    fn sample(&self, prior: u64, out: u64) -> RateSample {
        let through = self.delivered - prior;
        RateSample {
            now: self.now(),
            delivered: Bytes::new(self.delivered),
            prior_delivered: Bytes::new(prior),
            acked: Bytes::new(through),
            lost: Bytes::ZERO,
            lost_so_far: Bytes::new(self.lost),
            prior_in_flight: Bytes::new(out * MSS),
            in_flight: Bytes::new(self.queue * MSS),
            rate: Some(Rate::bit(through * 8 * 1_000 / RTT_MS)),
            rtt: Some(Duration::from_millis(RTT_MS)),
            is_app_limited: false,
            runs_dry: false,
            sent_in_flight: Bytes::new(out * MSS),
            lost_since: Bytes::ZERO,
            una: self.delivered,
            sent: self.delivered,
        }
    }

    /// A round trip in which the path lets through what it can and as many segments more are lost.
    fn lossy_round(&mut self, lost: u64) {
        self.lost += lost * MSS;
        self.now_ms += RTT_MS;
        let prior = self.delivered;
        self.delivered += self.segments_per_round * MSS;
        self.bbr.on_delivery(&RateSample {
            lost: Bytes::new(lost * MSS),
            lost_so_far: Bytes::new(self.lost),
            ..self.sample(prior, self.segments_per_round + lost)
        });
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round();
        }
    }

    fn full() -> Path {
        let mut path = Path::new();
        path.rounds(12);
        assert!(matches!(path.bbr.mode, Mode::ProbeRate { .. }), "{:?}", path.bbr.mode);
        path
    }
}

fn congestion(cause: Cause, pipe: u64) -> Congestion {
    Congestion {
        now: Time::ZERO,
        cause,
        in_flight: Bytes::ZERO,
        usable: Bytes::ZERO,
        repeated: false,
        pipe: Bytes::new(pipe * MSS),
        timeouts: 0,
    }
}

#[test]
fn the_first_pace_is_that_of_the_round_trip_times_start_ups_gain() {
    let path = Path::new();
    let initial = 10 * MSS * 8 * 1_000 / RTT_MS;
    let pace = path.bbr.pacing().expect("it paces from the start").get();
    assert!((pace as f64 / initial as f64 - 2.885).abs() < 0.005, "{pace} over {initial} bit/s");
}

#[test]
fn until_a_round_trip_is_measured_the_pace_is_that_of_a_millisecond() {
    let mut path = Path::new();
    path.bbr = Bbr::new(&setup());
    let blind = path.bbr.pace;
    path.round();
    assert_eq!(blind / path.bbr.pace.max(1) / 10, RTT_MS / 10, "{blind} and {}", path.bbr.pace);
}

#[test]
fn start_up_doubles_the_rate_until_it_grows_no_more_and_then_drains() {
    let mut path = Path::new();
    let mut delivered = Vec::new();
    while path.bbr.mode == Mode::Startup {
        delivered.push(path.round().acked.get() / MSS);
        assert!(delivered.len() < 20, "{delivered:?}");
    }
    assert_eq!(delivered[..3], [10, 20, 40], "a window, doubled");
    assert!(delivered.len() <= 7, "three rounds at 50: {delivered:?}");
    assert!(path.bbr.is_full);
}

#[test]
fn the_pace_goes_a_quarter_up_and_down_once_in_eight_round_trips() {
    let mut path = Path::full();
    let mut gains = Vec::new();
    for _ in 0..160 {
        path.round();
        // A round trip and a bit each: one more round if the first ends just in time.
        gains.push(path.bbr.pacing_gain());
    }
    let share = |gain| gains.iter().filter(|known| **known == gain).count() as f64 / gains.len() as f64;
    assert!((0.05..0.2).contains(&share(320)), "{} of the time faster", share(320));
    assert!((0.05..0.2).contains(&share(192)), "{} of the time slower", share(192));
    assert!(share(UNIT) > 0.6, "{} of the time level", share(UNIT));
}

#[test]
fn the_window_is_twice_what_the_path_holds_and_room_for_three_bursts() {
    let mut path = Path::full();
    path.rounds(20);
    // 50 segments; at 8 Mbit/s a burst is 2. All of a round trip's are acknowledged at once, which is allowed for as well.
    let bunch = path.bbr.aggregation.allowance(path.bbr.rate.max()) / MSS;
    let window = path.bbr.window().get() / MSS;
    assert!((102..=110).contains(&(window - bunch)), "{window} segments, {bunch} of them for bunches");
    assert!((40..=60).contains(&bunch), "{bunch} segments");
}

#[test]
fn behind_a_policer_the_pace_is_the_policers_and_nothing_is_probed_for() {
    let mut path = Path::full();
    for _ in 0..40 {
        path.lossy_round(12);
    }
    // A policer lets 50 segments a round trip through: 8 Mbit/s.
    assert_eq!(path.bbr.policer.rate(), Some(8_000_000));
    assert_eq!(path.bbr.pacing_gain(), UNIT);
    assert_eq!(path.bbr.pace, 8_000_000 / 100 * 99);
}

#[test]
fn after_ten_seconds_the_window_is_four_segments_for_a_moment() {
    let mut path = Path::full();
    // Each round trip is a little longer than the shortest, as if others queued.
    path.bbr.min_rtt = Some(Duration::from_millis(RTT_MS - 1));
    path.bbr.min_rtt_at = path.now();
    let before = path.bbr.cwnd;
    let (mut small, mut least) = (0, u64::MAX);
    for _ in 0..(11_000 / RTT_MS) {
        path.round();
        least = least.min(path.bbr.cwnd);
        small += u64::from(path.bbr.cwnd == WINDOW_MIN);
    }
    assert_eq!(least, WINDOW_MIN);
    assert!((200..=400).contains(&(small * RTT_MS)), "{} ms", small * RTT_MS);
    assert!(path.bbr.cwnd + 4 >= before, "it is {} again, and was {before}", path.bbr.cwnd);
    assert_eq!(path.bbr.min_rtt, Some(Duration::from_millis(RTT_MS)), "what was found");
}

#[test]
fn a_sender_that_is_kept_waiting_does_not_lower_its_rate() {
    let mut path = Path::full();
    let known = path.bbr.rate.max();
    for _ in 0..40 {
        path.now_ms += RTT_MS;
        let prior = path.delivered;
        path.delivered += 2 * MSS;
        path.bbr.on_delivery(&RateSample {
            now: path.now(),
            delivered: Bytes::new(path.delivered),
            prior_delivered: Bytes::new(prior),
            acked: Bytes::new(2 * MSS),
            lost: Bytes::ZERO,
            lost_so_far: Bytes::ZERO,
            prior_in_flight: Bytes::new(2 * MSS),
            in_flight: Bytes::ZERO,
            rate: Some(Rate::bit(2 * MSS * 8 * 1_000 / RTT_MS)),
            rtt: Some(Duration::from_millis(RTT_MS)),
            is_app_limited: true,
            runs_dry: true,
            sent_in_flight: Bytes::new(2 * MSS),
            lost_since: Bytes::ZERO,
            una: path.delivered,
            sent: path.delivered,
        });
    }
    assert_eq!(path.bbr.rate.max(), known);
    let mut busy = Path::full();
    busy.segments_per_round = 10;
    busy.rounds(40);
    assert!(busy.bbr.rate.max() < known / 4, "one that is not waiting follows the path down: {}", busy.bbr.rate.max());
}

#[test]
fn a_loss_holds_the_window_for_a_round_trip_and_takes_nothing_off() {
    let mut path = Path::full();
    path.rounds(20);
    let (before, rate) = (path.bbr.cwnd, path.bbr.rate.max());
    path.bbr.on_congestion(&congestion(Cause::Loss, 0));
    path.round();
    assert!(path.bbr.cwnd < 80 && before > 100, "no more than arrives: {}", path.bbr.cwnd);
    path.rounds(3);
    assert_eq!(path.bbr.rate.max(), rate);
    assert!(path.bbr.cwnd + 8 >= before, "{} of {before} segments", path.bbr.cwnd);
}

#[test]
fn a_timeout_leaves_a_segment_until_all_is_repaired() {
    let mut path = Path::full();
    path.rounds(20);
    let before = path.bbr.cwnd;
    path.bbr.on_congestion(&congestion(Cause::Timeout, 0));
    assert_eq!(path.bbr.window(), Bytes::new(MSS));
    path.rounds(2);
    assert!(path.bbr.cwnd + 8 >= before, "{} of {before} segments", path.bbr.cwnd);
}
