//! The summary of many runs: per point and flow, medians over the runs with 95% intervals.

use std::collections::BTreeMap;

use headend_scenario::Point;
use headend_scenario::results::{Column, Table};

/// A measure of a flow: its column, what the summary calls it, and what to divide by.
const MEASURES: &[(&str, &str, f64)] = &[
    ("goodput_bps", "goodput [Mbit/s]", 1e6),
    ("transfer_s", "transfer [s]", 1.0),
    ("timeouts", "time-outs", 1.0),
    ("fast_retransmits", "fast retransmits", 1.0),
    ("retransmits", "retransmits", 1.0),
];

/// Headings and rows of the summary. A run counts once: the mean over the flow's instances in it.
pub(crate) fn summary(points: &[Point], flows: &Table) -> (Vec<String>, Vec<Vec<String>>) {
    let swept = points[0].settings.iter().map(|(path, _)| path.clone());
    let mut headings: Vec<String> = swept.chain(["flow".into(), "runs".into(), "completed [%]".into()]).collect();
    for (i, (_, name, _)) in MEASURES.iter().enumerate() {
        headings.push((*name).to_owned());
        // The transfers and rates are what a study is about; counts need no interval to be read.
        if i < 2 {
            headings.push("95% interval".to_owned());
        }
    }
    let names = flows.column("flow").and_then(Column::as_text).expect("results name their flows");
    let point_of = counts(flows, "point");
    let run_of = counts(flows, "run");
    let completed = counts(flows, "completed");
    let measures: Vec<Vec<f64>> =
        MEASURES.iter().map(|(column, _, scale)| numbers(flows, column).map(|value| value / scale).collect()).collect();

    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, flow) in points[0].scenario.flows.iter().enumerate() {
        order.insert(&flow.name, i);
    }
    let mut groups: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    for row in 0..flows.rows() {
        groups.entry((point_of[row], order[&*names[row]])).or_default().push(row);
    }
    let rows = groups.iter().map(|(&(point, flow), rows)| {
        let point = &points[usize::try_from(point).expect("a point's number is an index")];
        let runs = rows.chunk_by(|&a, &b| run_of[a] == run_of[b]).collect::<Vec<_>>();
        let done = rows.iter().filter(|&&row| completed[row] == 1).count();
        let mut cells: Vec<String> = point.settings.iter().map(|(_, value)| cut_short(value)).collect();
        cells.push(point.scenario.flows[flow].name.clone());
        cells.push(runs.len().to_string());
        cells.push(format!("{:.0}", 100.0 * done as f64 / rows.len() as f64));
        for (i, values) in measures.iter().enumerate() {
            let of_runs: Vec<f64> = runs.iter().filter_map(|rows| mean(rows.iter().map(|&row| values[row]))).collect();
            let Median { median, interval } = Median::of(of_runs);
            cells.push(median.map_or("-".into(), significant));
            if i < 2 {
                let shown = |(low, high)| format!("{} to {}", significant(low), significant(high));
                cells.push(interval.map_or("-".into(), shown));
            }
        }
        cells
    });
    (headings, rows.collect())
}

/// A swept table, such as a model of loss, would make the row longer than a screen is wide.
pub(crate) fn cut_short(value: &str) -> String {
    const SHOWN_MAX: usize = 40;
    if value.chars().count() <= SHOWN_MAX {
        return value.to_owned();
    }
    format!("{}...", value.chars().take(SHOWN_MAX - 3).collect::<String>())
}

fn counts<'a>(table: &'a Table, name: &str) -> &'a [u64] {
    table.column(name).and_then(Column::as_u64).expect("results have this column of counts")
}

fn numbers<'a>(table: &'a Table, name: &str) -> Box<dyn Iterator<Item = f64> + 'a> {
    match table.column(name).expect("results have this column") {
        Column::U64(values) => Box::new(values.iter().map(|&value| value as f64)),
        Column::F64(values) => Box::new(values.iter().copied()),
        Column::Text(_) => panic!("{name} is a column of numbers"),
    }
}

/// The mean of the values that are there; NaN is "no value".
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Three significant digits, without an exponent.
pub(crate) fn significant(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from((2 - magnitude).clamp(0, 9)).expect("clamped");
    let text = format!("{value:.decimals$}");
    // A count of 2 is 2 and not 2.00.
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A median and a 95% interval of it that assumes nothing of the distribution.
#[derive(Debug, PartialEq)]
struct Median {
    median: Option<f64>,
    interval: Option<(f64, f64)>,
}

impl Median {
    fn of(mut values: Vec<f64>) -> Median {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        if n == 0 {
            return Median { median: None, interval: None };
        }
        let median = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
        let interval = below(n).map(|rank| (values[rank - 1], values[n - rank]));
        Median { median: Some(median), interval }
    }
}

/// The largest rank r, from 1, for which the r-th smallest and r-th largest of `n` values enclose their distribution's
/// median with at least 95%: the chance that fewer than r of n lie below it, by the binomial distribution, is at most
/// 2.5%. `None` under 6 values, where not even the extremes do.
fn below(n: usize) -> Option<usize> {
    // P(X = 0) = 2^-n, then P(X = k + 1) = P(X = k) (n - k) / (k + 1); in logarithms, as 2^-n is soon no number.
    let mut ln_chance = -(n as f64) * std::f64::consts::LN_2;
    let mut cumulative = 0.0;
    for k in 0..n {
        cumulative += ln_chance.exp();
        if cumulative > 0.025 {
            return (k > 0).then_some(k);
        }
        ln_chance += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        // For instance W. J. Conover, Practical Nonparametric Statistics: n = 20 encloses with ranks 6 and 15.
        for (n, rank) in
            [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (10, Some(2)), (20, Some(6)), (100, Some(40))]
        {
            assert_eq!(below(n), rank, "n = {n}");
        }
    }

    #[test]
    fn the_rank_of_many_values_approaches_the_normal_one() {
        let rank = below(1_000_000).expect("many values");
        let normal = 500_000.0 - 1.96 * 500.0;
        assert!((rank as f64 - normal).abs() < 3.0, "{rank} against {normal}");
    }

    #[test]
    fn a_median_lies_between_the_middle_values_and_inside_its_interval() {
        let summary = Median::of((1..=20).map(f64::from).collect());
        assert_eq!(summary, Median { median: Some(10.5), interval: Some((6.0, 15.0)) });
        assert_eq!(Median::of(vec![3.0, 1.0, 2.0]), Median { median: Some(2.0), interval: None });
        assert_eq!(Median::of(vec![]).median, None);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown: Vec<String> = [0.0, 2.0, 0.012_345, 2.71899, 1234.5].map(significant).to_vec();
        assert_eq!(shown, ["0", "2", "0.0123", "2.72", "1234"]);
    }

    #[test]
    fn runs_without_a_value_are_left_out_of_a_mean() {
        assert_eq!(mean([1.0, f64::NAN, 3.0].into_iter()), Some(2.0));
        assert_eq!(mean([f64::NAN].into_iter()), None);
    }
}
