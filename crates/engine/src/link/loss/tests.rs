//! Each model against its theory. Bounds are five standard deviations of the statistic: with the seeds written here the
//! tests give the same answer always, and another seed fails once in two million.

use super::bit::chance_of_loss;
use super::*;
use crate::link::recording::Series;
use crate::rng::Rng;
use crate::units::Chance;

const LEN: Bytes = Bytes::new(1460);

fn chance(p: f64) -> Chance {
    Chance::from_f64(p).expect("a probability")
}

fn pattern(loss: &mut dyn Loss, packets: usize, len: Bytes) -> Vec<bool> {
    (0..packets).map(|_| loss.strikes(Time::ZERO, len)).collect()
}

fn losses(pattern: &[bool]) -> f64 {
    pattern.iter().filter(|&&lost| lost).count() as f64
}

/// Lengths of the runs of consecutive losses.
fn runs(pattern: &[bool]) -> Vec<f64> {
    pattern.split(|&lost| !lost).filter(|run| !run.is_empty()).map(|run| run.len() as f64).collect()
}

/// `measured` is within five times `sigma` of `expected`.
fn assert_near(what: &str, seed: u64, measured: f64, expected: f64, sigma: f64) {
    assert!(
        (measured - expected).abs() <= 5.0 * sigma,
        "{what}, seed {seed}: {measured} is not {expected} within five times {sigma}"
    );
}

#[test]
fn bernoulli_loses_its_share_of_packets_and_remembers_nothing() {
    for (seed, p) in [(1, 0.01), (2, 0.2), (3, 0.5)] {
        let n = 200_000;
        let lost = pattern(&mut Bernoulli::new(chance(p), Rng::named(seed, "loss")), n, LEN);
        assert_near("losses", seed, losses(&lost), n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        // A run of losses goes on with chance p: geometric with mean 1 / (1 - p).
        let runs = runs(&lost);
        let mean = runs.iter().sum::<f64>() / runs.len() as f64;
        assert_near("run length", seed, mean, 1.0 / (1.0 - p), p.sqrt() / (1.0 - p) / (runs.len() as f64).sqrt());
    }
}

#[test]
fn bernoulli_of_never_and_always_is_exact() {
    let rng = Rng::named(4, "loss");
    assert!(pattern(&mut Bernoulli::new(Chance::NEVER, rng.clone()), 1000, LEN).iter().all(|&lost| !lost));
    assert!(pattern(&mut Bernoulli::new(Chance::ALWAYS, rng), 1000, LEN).iter().all(|&lost| lost));
}

#[test]
fn a_packet_survives_if_every_bit_does() {
    for ber in [1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.5] {
        for len in [1, 40, 536, 1460, 65_535] {
            // expm1 and ln_1p keep the digits that 1 - (1 - ber)^n would lose.
            let expected = -(8.0 * len as f64 * (-ber_of(ber)).ln_1p()).exp_m1();
            let measured = chance_of_loss(chance(ber), Bytes::new(len)).as_f64();
            let bound = 8.0 * len as f64 / 2f64.powi(64) + 1e-13 * expected;
            assert!((measured - expected).abs() <= bound, "ber {ber}, {len} B: {measured} is not {expected}");
            assert!((measured - expected).abs() <= 1e-7 * expected, "ber {ber}, {len} B: one part in ten million");
        }
    }
}

/// The bit error rate after rounding to units of 2^-64, which is the reader's choice and not the model's error.
fn ber_of(ber: f64) -> f64 {
    chance(ber).as_f64()
}

#[test]
fn the_ends_of_the_bit_error_scale_are_exact() {
    assert_eq!(chance_of_loss(Chance::NEVER, LEN), Chance::NEVER);
    assert_eq!(chance_of_loss(Chance::ALWAYS, LEN), Chance::ALWAYS);
    assert_eq!(chance_of_loss(chance(0.5), Bytes::ZERO), Chance::NEVER);
    assert_eq!(chance_of_loss(chance(0.5), LEN), Chance::ALWAYS, "2^-11680 is below any unit");
    assert_eq!(chance_of_loss(Chance::from_raw(1), Bytes::new(1)).raw(), 8);
}

#[test]
fn bit_errors_strike_long_packets_more_often_than_short_ones() {
    let (seed, ber, n) = (5, 1e-6, 200_000);
    let mut loss = Bit::new(chance(ber), Rng::named(seed, "loss"));
    for len in [40_u64, 1460, 40] {
        let p = 1.0 - (1.0 - ber).powf(8.0 * len as f64);
        let lost = pattern(&mut loss, n, Bytes::new(len));
        assert_near("losses", seed, losses(&lost), n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
    }
}

#[test]
fn gilbert_elliott_has_the_mean_loss_and_the_bursts_of_its_chain() {
    for (seed, g, b, good, bad) in [(6, 0.01, 0.25, 0.0, 1.0), (7, 0.002, 0.1, 0.0, 0.5), (8, 0.05, 0.2, 0.01, 0.3)] {
        let n = 400_000;
        let mut loss = GilbertElliott::new(chance(g), chance(b), chance(good), chance(bad), Rng::named(seed, "loss"));
        let lost = pattern(&mut loss, n, LEN);
        let share_bad = g / (g + b);
        let mean = share_bad * bad + (1.0 - share_bad) * good;
        // Losses k packets apart are correlated as the states are, by memory^k: their covariances are a geometric series.
        let memory = 1.0 - g - b;
        let covariances = share_bad * (1.0 - share_bad) * (bad - good).powi(2) * memory / (1.0 - memory);
        let variance = mean * (1.0 - mean) + 2.0 * covariances;
        assert_near("losses", seed, losses(&lost), n as f64 * mean, (n as f64 * variance).sqrt());
        if good == 0.0 {
            let goes_on = bad * (1.0 - b);
            let runs = runs(&lost);
            let sigma = goes_on.sqrt() / (1.0 - goes_on) / (runs.len() as f64).sqrt();
            let length = runs.iter().sum::<f64>() / runs.len() as f64;
            assert_near("run length", seed, length, 1.0 / (1.0 - goes_on), sigma);
        }
    }
}

#[test]
fn a_gilbert_elliott_medium_starts_in_its_long_run_state() {
    // The first packet alone, of many media: a short transfer sees the same mean loss as a long one.
    let (n, share_bad) = (20_000, 0.2);
    let lost: Vec<bool> = (0..n)
        .map(|seed| {
            let rng = Rng::named(seed, "loss");
            GilbertElliott::new(chance(0.01), chance(0.04), Chance::NEVER, Chance::ALWAYS, rng).strikes(Time::ZERO, LEN)
        })
        .collect();
    let sigma = (n as f64 * share_bad * (1.0 - share_bad)).sqrt();
    assert_near("first losses", 0, losses(&lost), n as f64 * share_bad, sigma);
}

#[test]
fn a_medium_that_cannot_turn_bad_loses_as_a_good_one() {
    let rng = Rng::named(9, "loss");
    let mut loss = GilbertElliott::new(Chance::NEVER, Chance::NEVER, Chance::NEVER, Chance::ALWAYS, rng);
    assert!(pattern(&mut loss, 1000, LEN).iter().all(|&lost| !lost));
}

#[test]
fn a_list_loses_exactly_its_packets() {
    let mut loss = List::new(vec![14, 11, 1]);
    let lost = pattern(&mut loss, 20, LEN);
    let numbers: Vec<usize> = (1..=20).filter(|n| lost[n - 1]).collect();
    assert_eq!(numbers, [1, 11, 14]);
}

#[test]
fn a_chance_that_changes_holds_from_its_time_on() {
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let steps = [(at(0), Chance::NEVER), (at(10), Chance::ALWAYS), (at(20), Chance::NEVER)];
    let mut loss = Steps::new(Series::held(steps), Rng::named(1, "loss"));
    let lost: Vec<bool> = [0, 9, 10, 19, 20, 99].map(|ms| loss.strikes(at(ms), Bytes::new(1_500))).to_vec();
    assert_eq!(lost, [false, false, true, true, false, false]);
}
