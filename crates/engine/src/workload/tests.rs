use super::*;
use crate::part::{Value, Values};
use crate::units::Bytes;

fn sizes(name: &str, fields: &[(&'static str, u64)]) -> Result<SizeModel, String> {
    let values = fields.iter().map(|&(field, size)| (field, Value::Size(Bytes::new(size)))).collect();
    SizeModel::read(name, &Values::new(values)).expect("a model").map_err(|mistake| mistake.text)
}

/// The sizes of many draws, ascending.
fn drawn(model: &SizeModel) -> Vec<f64> {
    let mut rng = Rng::named(1, "sizes");
    let mut all: Vec<f64> = (0..200_000).map(|_| model.distribution().draw(&mut rng).get() as f64).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

#[test]
fn published_sizes_have_their_quantiles_and_means() {
    let search = drawn(&SizeModel::WebSearch(published::WebSearch));
    let at = |share: f64| search[(search.len() as f64 * share) as usize];
    for (size, share) in [(10_000.0, 0.15), (80_000.0, 0.53), (1_000_000.0, 0.7), (10_000_000.0, 0.97)] {
        assert!((at(share) / size - 1.0).abs() < 0.05, "{} at {share}", at(share));
    }
    let of = |model: SizeModel| model.distribution().mean().get();
    // By hand, from the points: half the sum of the two ends of each line, by its share.
    assert_eq!(of(SizeModel::WebSearch(published::WebSearch)), 1_711_250);
    assert_eq!(of(SizeModel::DataMining(published::DataMining)), 12_658_199);
    assert!((mean(&search) / 1_711_250.0 - 1.0).abs() < 0.02, "{}", mean(&search));
}

#[test]
fn a_pareto_distribution_has_its_mean_its_ends_and_the_tail_of_one() {
    let model = sizes("pareto", &[("mean", 20_000), ("least", 4_000), ("most", 10_000_000)]).expect("it is possible");
    assert!(model.distribution().mean().get().abs_diff(20_000) < 5, "{}", model.distribution().mean());
    let all = drawn(&model);
    assert!(all[0] >= 4_000.0 && all[all.len() - 1] <= 10_000_000.0);
    // Far from the ends, each doubling leaves the same share.
    let above = |size: f64| all.iter().filter(|&&one| one > size).count() as f64;
    let ratios: Vec<f64> = [4_000.0, 8_000.0, 16_000.0, 32_000.0].map(|size| above(2.0 * size) / above(size)).into();
    assert!(ratios.iter().all(|ratio| (ratio / ratios[0] - 1.0).abs() < 0.05), "{ratios:?}");
    // ln(2) / 1 of shape 1.2 would be 0.435.
    assert!((0.40..0.47).contains(&ratios[0]), "{ratios:?}");
}

#[test]
fn a_log_normal_distribution_has_its_median_its_mean_and_its_spread() {
    let model = sizes("log-normal", &[("mean", 50_000), ("median", 10_000)]).expect("it is possible");
    assert!(model.distribution().mean().get().abs_diff(50_000) < 50, "{}", model.distribution().mean());
    let all = drawn(&model);
    let at = |share: f64| all[(all.len() as f64 * share) as usize].ln();
    assert!((at(0.5) - 10_000_f64.ln()).abs() < 0.03, "{}", at(0.5));
    // sigma^2 = 2 ln(mean / median), a little more since the tail beyond four of them is not there.
    let sigma = (2.0 * 5_f64.ln()).sqrt();
    for (share, deviations) in [(0.8413, 1.0), (0.1587, -1.0), (0.9772, 2.0), (0.0228, -2.0)] {
        let found = (at(share) - at(0.5)) / deviations;
        assert!((found / sigma - 1.0).abs() < 0.04, "{found} for {sigma} at {share}");
    }
}

#[test]
fn a_mean_that_cannot_be_is_told_with_those_that_can() {
    let said =
        sizes("pareto", &[("mean", 3_000), ("least", 4_000), ("most", 9_000)]).expect_err("it is below the least");
    assert!(said.starts_with("is 3000B, and from 4000B to 9000B means from 40"), "{said}");
    let said = sizes("pareto", &[("mean", 5_000), ("least", 9_000), ("most", 4_000)]).expect_err("there is nothing");
    assert_eq!(said, "is 9000B, and `most` is 4000B: it must be less, by more than a hundredth of it");
    let said = sizes("log-normal", &[("mean", 9_000), ("median", 10_000)]).expect_err("a mean is above the median");
    assert!(said.starts_with("is 9000B, and with a median of 10000B means from 10000B to "), "{said}");
}

#[test]
fn a_poisson_process_has_its_rate_and_as_much_variance() {
    let mut rng = Rng::named(7, "arrivals");
    let (gap, end) = (Duration::from_millis(10), Duration::from_secs(1_000));
    let times = arrivals(&mut rng, gap, end, usize::MAX);
    assert!((99_000..101_000).contains(&times.len()), "{}", times.len());
    assert!(times.is_sorted() && *times.last().expect("many") < end);
    let mut counts = vec![0.0; 1_000];
    for time in &times {
        counts[(time.as_nanos() / 1_000_000_000) as usize] += 1.0;
    }
    let mean = mean(&counts);
    let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / 1_000.0;
    assert!((variance / mean - 1.0).abs() < 0.15, "{variance} for {mean}");
    assert_eq!(arrivals(&mut rng, gap, end, 5).len(), 5);
}
