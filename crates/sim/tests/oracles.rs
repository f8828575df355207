//! Long transfers under random loss against the two models of TCP's throughput, within 15% where the models'
//! assumptions hold. `cargo test --test oracles -- --nocapture` prints measured and predicted.
//!
//! What both models assume, and the scenario keeps: the round trip is propagation alone (10 Gbit/s take no time), only
//! the congestion window limits the sender, the transfer never ends, every segment is lost with the same chance and no
//! acknowledgement is. Each case is four runs of 500 s: at least 500 losses.

use std::fmt::Write as _;

use headend_engine::rng::Rng;
use headend_engine::units::Chance;
use headend_scenario::Scenario;
use headend_sim::world::World;

/// The round trip without load, in seconds.
const RTT: f64 = 0.1;
/// The timeout, in seconds: a round trip that hardly varies leaves RFC 6298's minimum.
const T0: f64 = 1.0;
const MSS: f64 = 1_460.0;
const RUNS: u32 = 4;
const TOLERANCE: f64 = 0.15;

/// The behaviour of the senders of one case.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Delivered in order, and sent, in segments a second.
    delivered: f64,
    sent: f64,
    timeouts: u64,
    fast_retransmits: u64,
}

impl Measured {
    /// Share of the loss events that ended in a timeout.
    fn timeout_share(&self) -> f64 {
        self.timeouts as f64 / (self.timeouts + self.fast_retransmits) as f64
    }
}

/// A transfer without end under loss `p`, the receiver acknowledging every `b` segments.
fn transfer(personality: &str, recovery: &str, p: f64, b: u32) -> Measured {
    let text = format!(
        r#"
        title = "A long transfer under random loss"
        seed = 1
        duration = "500s"
        [nodes.sender]
        personality = "{personality}"
        tcp = {{ recovery = "{recovery}", timestamps = false }}
        [nodes.receiver]
        personality = "{personality}"
        tcp = {{ delayed_ack = {b}, delayed_ack_timeout = "100ms", timestamps = false }}
        [links.path]
        between = ["sender", "receiver"]
        rate = "10Gbit/s"
        delay = "50ms"
        loss = {p}
        back = {{ loss = 0.0 }}
        [flows.bulk]
        from = "sender"
        to = "receiver"
        "#
    );
    let scenario = Scenario::parse("oracle", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut sum = Measured::default();
    for run in 0..RUNS {
        let world = World::build(&scenario, run, false);
        let (outcome, _) = world.run(0, &|| false).expect("nobody stops it");
        let flow = &outcome.flows[0];
        let seconds = flow.active_ns as f64 / 1e9 * f64::from(RUNS);
        sum.delivered += flow.delivered_bytes as f64 / MSS / seconds;
        sum.sent += flow.segments_sent as f64 / seconds;
        sum.timeouts += flow.timeouts;
        sum.fast_retransmits += flow.fast_retransmits;
    }
    sum
}

/// Mathis et al. 1997: C / (RTT sqrt(p)) segments a second; C as the paper has it for random losses, not the 1.22 and
/// 0.87 of periodic ones.
fn mathis(p: f64, b: u32) -> f64 {
    let c = if b == 1 { 1.31 } else { 0.93 };
    c / (RTT * p.sqrt())
}

/// The expected window at a loss (PFTK s2.1), in segments.
fn window_at_loss(p: f64, b: f64) -> f64 {
    let k = (2.0 + b) / (3.0 * b);
    k + (8.0 * (1.0 - p) / (3.0 * b * p) + k * k).sqrt()
}

/// The share of loss events that end in a timeout if a loss takes all that follows in its round (PFTK s2.2).
fn pftk_timeout_share(p: f64, w: f64) -> f64 {
    let q = 1.0 - p;
    ((1.0 - q.powi(3)) * (1.0 + q.powi(3) * (1.0 - q.powf(w - 3.0))) / (1.0 - q.powf(w))).min(1.0)
}

/// PFTK s2.2, the full formula for a window that nothing else limits, with `timeout_share` for its Q: segments sent a
/// second.
fn pftk_with(timeout_share: f64, p: f64, b: u32) -> f64 {
    let b = f64::from(b);
    let (q, w) = (1.0 - p, window_at_loss(p, b));
    // How many times T0 a sequence of timeouts lasts, on average, with doubling up to 64.
    let backed_off = 1.0 + (0..6).map(|n| f64::from(1 << n) * p.powi(n + 1)).sum::<f64>();
    let sent = q / p + w + timeout_share / q;
    sent / (RTT * (b / 2.0 * w + 1.0) + timeout_share * T0 * backed_off / q)
}

fn pftk(p: f64, b: u32) -> f64 {
    pftk_with(pftk_timeout_share(p, window_at_loss(p, f64::from(b))), p, b)
}

/// A table that compares case by case, and fails as a whole if any misses.
struct Table {
    lines: String,
    missed: u32,
}

impl Table {
    fn new(title: &str) -> Table {
        Table { lines: format!("{title}\n  measured  model  ratio  case [segments/s]\n"), missed: 0 }
    }

    fn compare(&mut self, case: &str, measured: f64, model: f64) {
        let ratio = measured / model;
        writeln!(self.lines, "  {measured:8.1} {model:6.1} {ratio:6.3}  {case}").expect("a string takes everything");
        self.missed += u32::from((ratio - 1.0).abs() > TOLERANCE);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        println!("{}", self.lines);
        assert!(self.missed == 0 || std::thread::panicking(), "{} cases miss by more than {TOLERANCE}", self.missed);
    }
}

/// Additive increase, multiplicative decrease, round trip by round trip and nothing else: Mathis's sender, but in whole
/// segments, and with a round trip to repair a loss in which the window does not grow. Segments a second.
fn rounds(p: f64, b: u32) -> f64 {
    let chance = Chance::from_f64(p).expect("a probability");
    let mut rng = Rng::named(1, "rounds");
    let (mut window, mut delivered, mut trips) = (10.0_f64, 0.0, 0.0);
    while trips < 400_000.0 {
        let segments = window.floor();
        let lost = (0..segments as u32).filter(|_| rng.strikes(chance)).count();
        delivered += segments - lost as f64;
        trips += 1.0;
        if lost > 0 {
            window = (window / 2.0).max(2.0);
            delivered += window.floor() * (1.0 - p);
            trips += 1.0;
        } else {
            window += segments / window / f64::from(b);
        }
    }
    delivered / trips / RTT
}

#[test]
fn senders_without_timeouts_follow_mathis_while_windows_are_large() {
    let mut table = Table::new("Mathis et al. 1997");
    for (b, losses) in [(1, [0.001, 0.003, 0.01]), (2, [0.001, 0.003, 0.005])] {
        for p in losses {
            // The model's window is a fluid and a repair takes no time: so it must be many segments, and many round
            // trips from loss to loss. Nor does it know timeouts.
            assert!(mathis(p, b) * RTT > 10.0, "the mean window, in segments");
            for (personality, recovery) in [("sack", "sack"), ("newreno", "newreno")] {
                let got = transfer(personality, recovery, p, b);
                assert!(got.timeout_share() < 0.03, "{recovery} at {p}: {got:?}");
                table.compare(&format!("{recovery}, p {p}, an ACK every {b}"), got.delivered, mathis(p, b));
            }
        }
    }
}

#[test]
fn at_small_windows_mathis_misses_whole_segments_and_time_to_repair() {
    // At 1% with delayed ACKs the mean window is 9 segments, and senders are up to 17% slower than the model. Counting
    // in whole segments, with a round trip for each repair, agrees within 6% in every case.
    let mut table = Table::new("Mathis's sender in whole segments, a round trip for each repair");
    for p in [0.003, 0.01] {
        for b in [1, 2] {
            let model = rounds(p, b);
            assert!(model < mathis(p, b), "p {p}, an ACK every {b}");
            for (personality, recovery) in [("sack", "sack"), ("newreno", "newreno")] {
                let got = transfer(personality, recovery, p, b);
                table.compare(&format!("{recovery}, p {p}, an ACK every {b}"), got.delivered, model);
            }
        }
    }
}

#[test]
fn reno_follows_pftk_up_to_three_percent_loss() {
    let mut table = Table::new("Padhye et al. 1998");
    // Every second segment acknowledged: up to 2%. Beyond, independent losses are not what the model assumes; see the
    // next test.
    for (b, losses) in [(1, &[0.001, 0.003, 0.01, 0.02, 0.03][..]), (2, &[0.001, 0.003, 0.01, 0.02])] {
        for &p in losses {
            let got = transfer("newreno", "reno", p, b);
            table.compare(&format!("reno, p {p}, an ACK every {b}"), got.sent, pftk(p, b));
        }
    }
}

#[test]
fn where_reno_outruns_pftk_it_is_the_share_of_timeouts_that_differs() {
    // The model has a loss take the rest of its round with it, as a full queue does. Small windows then seldom see
    // three duplicate ACKs. Of independent losses the rest of the round does arrive, and fast retransmit does better:
    // at 3% with delayed ACKs, Reno is 17 to 20% faster than it. With the share of timeouts that was measured in place
    // of the model's Q, the same equation holds everywhere: the sender is right, the assumption does not apply.
    let mut table = Table::new("Padhye et al. 1998 with the measured share of timeouts");
    for b in [1, 2] {
        for p in [0.01, 0.02, 0.03] {
            let got = transfer("newreno", "reno", p, b);
            let assumed = pftk_timeout_share(p, window_at_loss(p, f64::from(b)));
            let share = got.timeout_share();
            assert!(share < assumed, "p {p}: {share:.2} of the losses ended in timeouts, {assumed:.2} in the model");
            let case = format!("reno, p {p}, an ACK every {b}: timeouts {share:.2}, in the model {assumed:.2}");
            table.compare(&case, got.sent, pftk_with(share, p, b));
        }
    }
}
