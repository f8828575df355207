use super::*;
use crate::link::recording::Series;

const DRAWS: usize = 100_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Delays in milliseconds of a model, drawn and sorted.
fn drawn(model: &DelayModel) -> Vec<f64> {
    let mut delay = model.build(Rng::named(1, "delay")).expect("it varies");
    let mut drawn: Vec<f64> = (0..DRAWS).map(|_| delay.after(Time::ZERO).as_secs_f64() * 1e3).collect();
    assert!(
        drawn.iter().all(|&drawn| drawn + 1e-9 >= model.shortest().as_secs_f64() * 1e3),
        "none is below the shortest"
    );
    drawn.sort_by(f64::total_cmp);
    drawn
}

/// Asserts that quantiles are what is expected, within a share of it.
fn assert_quantiles(drawn: &[f64], expected: &[(f64, f64)], within: f64) {
    for &(share, value) in expected {
        let found = drawn[(share * DRAWS as f64) as usize];
        assert!((found - value).abs() <= within * value, "at {share}: {found} and not {value} ms");
    }
}

#[test]
fn an_even_delay_has_even_quantiles() {
    let model = DelayModel::Uniform(uniform::Parameters { least: ms(10), most: ms(30), overtake: false });
    assert_quantiles(&drawn(&model), &[(0.0, 10.0), (0.25, 15.0), (0.5, 20.0), (0.9, 28.0), (0.9999, 30.0)], 0.01);
}

#[test]
fn a_normal_delay_has_the_normal_quantiles() {
    let parameters = normal::Parameters { mean: ms(100), deviation: ms(10), least: Duration::ZERO, overtake: false };
    let all = drawn(&DelayModel::Normal(parameters.clone()));
    // The quantiles of the standard normal distribution at 2.5%, 16%, 50%, 84%, 97.5% and 99.9%.
    let expected = [(0.025, 80.4), (0.1587, 90.0), (0.5, 100.0), (0.8413, 110.0), (0.975, 119.6), (0.999, 130.9)];
    assert_quantiles(&all, &expected, 0.01);
    let mean = all.iter().sum::<f64>() / DRAWS as f64;
    let deviation = (all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / DRAWS as f64).sqrt();
    assert!((mean - 100.0).abs() < 0.1 && (deviation - 10.0).abs() < 0.1, "{mean} {deviation}");
    let bounded = drawn(&DelayModel::Normal(normal::Parameters { least: ms(95), ..parameters }));
    assert_quantiles(&bounded, &[(0.0, 95.0), (0.3, 95.0), (0.5, 100.0)], 0.01);
}

#[test]
fn a_pareto_delay_has_the_tail_of_its_shape() {
    for shape in [1, 2, 3, 20] {
        let model = pareto::Parameters { least: ms(10), shape, most: ms(1_000), overtake: false };
        let at = |share: f64| (share, (10.0 * (1.0 - share).powf(-1.0 / f64::from(shape))).min(1_000.0));
        assert_quantiles(&drawn(&DelayModel::Pareto(model)), &[0.0, 0.1, 0.5, 0.9, 0.99].map(at), 0.1);
    }
}

#[test]
fn each_sample_is_as_likely() {
    let model =
        DelayModel::Samples(samples::Parameters { delays: [ms(5), ms(5), ms(7), ms(9)].into(), overtake: true });
    assert_quantiles(&drawn(&model), &[(0.01, 5.0), (0.49, 5.0), (0.51, 7.0), (0.74, 7.0), (0.76, 9.0)], 0.0001);
    assert_eq!((model.shortest(), model.overtakes()), (ms(5), true));
}

#[test]
fn a_delay_in_steps_is_that_of_the_time_when_a_packet_leaves() {
    let steps = [(Time::ZERO, ms(20)), (Time::ZERO + ms(100), ms(35))];
    let model = DelayModel::Steps(steps::Parameters { steps: Series::repeated(steps, ms(200)) });
    let mut delay = model.build(Rng::named(1, "delay")).expect("it varies");
    let found = [0, 99, 100, 199, 200, 350].map(|at| delay.after(Time::ZERO + ms(at)));
    assert_eq!(found, [20, 20, 35, 35, 20, 35].map(ms));
    assert_eq!(model.shortest(), ms(20));
}
