//! The comparison as a table: for each flow of each point what the simulator and what the kernel yielded.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_scenario::Point;
use headend_scenario::results::{Column, Swept, Table};

use crate::summary::{cut_short, mean, significant};

/// A measure: its column in the tables of flows, its name in the comparison, its heading for people, and what to divide
/// it by there.
struct Measure {
    column: &'static str,
    name: &'static str,
    unit: &'static str,
    heading: &'static str,
    scale: f64,
}

const MEASURES: [Measure; 7] = [
    Measure { column: "goodput_bps", name: "goodput", unit: "_bps", heading: "goodput [Mbit/s]", scale: 1e6 },
    Measure { column: "rtt_p50_s", name: "rtt_p50", unit: "_s", heading: "RTT p50 [ms]", scale: 1e-3 },
    Measure { column: "rtt_p95_s", name: "rtt_p95", unit: "_s", heading: "RTT p95 [ms]", scale: 1e-3 },
    Measure { column: "segments_sent", name: "segments_sent", unit: "", heading: "segments", scale: 1.0 },
    Measure { column: "retransmits", name: "retransmits", unit: "", heading: "retransmits", scale: 1.0 },
    Measure { column: "timeouts", name: "timeouts", unit: "", heading: "time-outs", scale: 1.0 },
    Measure { column: "fast_retransmits", name: "fast_retransmits", unit: "", heading: "recoveries", scale: 1.0 },
];

const SIDES: [&str; 2] = ["linux", "sim"];

/// The column of a measure on one side, or of the difference.
fn column_of(measure: &Measure, side: &str) -> String {
    format!("{}_{side}{}", measure.name, measure.unit)
}

/// A row for each flow of each point: `point`, the swept fields, `flow`, `runs`, and for each measure its mean over the
/// runs and the flow's instances, from Linux and from the simulator, and the difference in per cent of Linux's value (NaN
/// where that is zero). `late` says of each point in how many runs the machine did not keep up: `runs_late`.
pub(super) fn compare(points: &[Point], swept: &[Swept], sim: &Table, linux: &Table, late: &[u64]) -> Table {
    let keys: Vec<(usize, Arc<str>)> = points
        .iter()
        .flat_map(|point| point.scenario.flows.iter().map(move |flow| (point.index, Arc::from(flow.name.as_str()))))
        .collect();
    let mut table = Table::default();
    table.push("point", Column::U64(keys.iter().map(|&(point, _)| point as u64).collect()));
    for (path, values) in swept {
        table.push(path.as_str(), Column::Text(keys.iter().map(|&(point, _)| values[point].clone()).collect()));
    }
    table.push("flow", Column::Text(keys.iter().map(|(_, flow)| flow.clone()).collect()));
    let runs = keys.iter().map(|&(point, _)| u64::from(points[point].scenario.runs)).collect();
    table.push("runs", Column::U64(runs));
    table.push("runs_late", Column::U64(keys.iter().map(|&(point, _)| late[point]).collect()));
    for measure in &MEASURES {
        let [linux, sim] = [linux, sim].map(|side| means(side, measure.column, &keys));
        let difference = linux.iter().zip(&sim).map(|(&linux, &sim)| difference(linux, sim)).collect();
        table.push(column_of(measure, SIDES[0]), Column::F64(linux));
        table.push(column_of(measure, SIDES[1]), Column::F64(sim));
        table.push(format!("{}_difference_percent", measure.name), Column::F64(difference));
    }
    for (side, name) in [linux, sim].into_iter().zip(SIDES) {
        let spreads = keys.iter().map(|(point, flow)| spread(&by_run(side, *point, Some(flow)))).collect();
        table.push(format!("goodput_spread_{name}_percent"), Column::F64(spreads));
    }
    table
}

/// A row for each point: `point`, the swept fields, and of the goodput of all flows together its mean over the runs, from Linux and from
/// the simulator, the difference in per cent, and each side's own spread.
pub(super) fn together(points: &[Point], swept: &[Swept], sim: &Table, linux: &Table) -> Table {
    let mut table = Table::default();
    table.push("point", Column::U64(points.iter().map(|point| point.index as u64).collect()));
    for (path, values) in swept {
        table.push(path.as_str(), Column::Text(points.iter().map(|point| values[point.index].clone()).collect()));
    }
    let runs = [linux, sim].map(|side| points.iter().map(|point| by_run(side, point.index, None)).collect::<Vec<_>>());
    let means = runs.each_ref().map(|runs| runs.iter().map(|runs| mean_of(runs)).collect::<Vec<f64>>());
    let differences = means[0].iter().zip(&means[1]).map(|(&linux, &sim)| difference(linux, sim)).collect();
    for (means, side) in means.into_iter().zip(SIDES) {
        table.push(format!("goodput_{side}_bps"), Column::F64(means));
    }
    table.push("goodput_difference_percent", Column::F64(differences));
    for (runs, side) in runs.iter().zip(SIDES) {
        let spreads = runs.iter().map(|runs| spread(runs)).collect();
        table.push(format!("goodput_spread_{side}_percent"), Column::F64(spreads));
    }
    table
}

/// The goodput of each run of a point: of one flow, or of all together.
fn by_run(flows: &Table, point: usize, flow: Option<&str>) -> Vec<f64> {
    let points = flows.column("point").and_then(Column::as_u64).expect("results number their points");
    let runs = flows.column("run").and_then(Column::as_u64).expect("results number their runs");
    let names = flows.column("flow").and_then(Column::as_text).expect("results name their flows");
    let goodput = flows.column("goodput_bps").and_then(Column::as_f64).expect("results have this column");
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for row in (0..flows.rows()).filter(|&row| points[row] == point as u64) {
        if flow.is_none_or(|flow| *names[row] == *flow) {
            let sum = sums.entry(runs[row]).or_default();
            // A flow that delivered nothing has no goodput.
            *sum += if goodput[row].is_nan() { 0.0 } else { goodput[row] };
        }
    }
    sums.into_values().collect()
}

fn mean_of(runs: &[f64]) -> f64 {
    mean(runs.iter().copied()).unwrap_or(f64::NAN)
}

/// From the least run to the best, in per cent of the mean; NaN if there is but one.
fn spread(runs: &[f64]) -> f64 {
    let (least, best) = runs.iter().fold((f64::MAX, f64::MIN), |(least, best), &run| (least.min(run), best.max(run)));
    let mean = mean_of(runs);
    if runs.len() < 2 || mean == 0.0 { f64::NAN } else { 100.0 * (best - least) / mean }
}

fn difference(linux: f64, sim: f64) -> f64 {
    if linux == 0.0 { f64::NAN } else { 100.0 * (sim - linux) / linux }
}

/// The mean of a column over the rows of each point and flow.
fn means(flows: &Table, column: &str, keys: &[(usize, Arc<str>)]) -> Vec<f64> {
    let points = flows.column("point").and_then(Column::as_u64).expect("results number their points");
    let names = flows.column("flow").and_then(Column::as_text).expect("results name their flows");
    let column = flows.column(column).expect("results have this column");
    let value = |row: usize| match column {
        Column::U64(values) => values[row] as f64,
        Column::F64(values) => values[row],
        Column::Text(_) => panic!("a measure is a number"),
    };
    let of_key = |(point, flow): &(usize, Arc<str>)| {
        let rows = (0..flows.rows()).filter(|&row| points[row] == *point as u64 && names[row] == *flow);
        mean(rows.map(value)).unwrap_or(f64::NAN)
    };
    keys.iter().map(of_key).collect()
}

/// Headings and rows for people: of each measure both values, and the difference of the first ones.
pub(super) fn shown(points: &[Point], rows: &Table) -> (Vec<String>, Vec<Vec<String>>) {
    const WITH_DIFFERENCE: usize = 3;
    let swept: Vec<&str> = points[0].settings.iter().map(|(path, _)| path.as_str()).collect();
    let mut headings: Vec<String> = swept.iter().map(|path| (*path).to_owned()).collect();
    headings.push("flow".to_owned());
    for (i, measure) in MEASURES.iter().enumerate() {
        headings.push(format!("{}: Linux", measure.heading));
        headings.push("sim".to_owned());
        if i < WITH_DIFFERENCE {
            headings.push("%".to_owned());
        }
    }
    let late = rows.column("runs_late").and_then(Column::as_u64).expect("it is counted");
    let is_any_late = late.iter().any(|&runs| runs > 0);
    if is_any_late {
        headings.push("late runs".to_owned());
    }
    let text = |name: &str, row: usize| rows.column(name).and_then(Column::as_text).expect("a name")[row].clone();
    let number = |name: &str, row: usize| rows.column(name).and_then(Column::as_f64).expect("a number")[row];
    let cells = |row: usize| {
        let mut cells: Vec<String> = swept.iter().map(|path| cut_short(&text(path, row))).collect();
        cells.push(text("flow", row).to_string());
        for (i, measure) in MEASURES.iter().enumerate() {
            for side in SIDES {
                cells.push(or_dash(number(&column_of(measure, side), row) / measure.scale, significant));
            }
            if i < WITH_DIFFERENCE {
                let difference = number(&format!("{}_difference_percent", measure.name), row);
                cells.push(or_dash(difference, |percent| format!("{percent:+.1}")));
            }
        }
        if is_any_late {
            cells.push(late[row].to_string());
        }
        cells
    };
    (headings, (0..rows.rows()).map(cells).collect())
}

fn or_dash(value: f64, show: impl FnOnce(f64) -> String) -> String {
    if value.is_nan() { "-".to_owned() } else { show(value) }
}

/// Sentences on how well goodput agrees, flow by flow and of all flows together, and on how much Linux differs from itself.
pub(super) fn verdict(rows: &Table, together: &Table) -> String {
    let sizes = |table: &Table, column: &str| {
        let values = table.column(column).and_then(Column::as_f64).expect("it is a measure");
        let mut sizes: Vec<f64> = values.iter().map(|value| value.abs()).filter(|size| !size.is_nan()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes
    };
    let judged = |what: &str, table: &Table| {
        let sizes_of = sizes(table, "goodput_difference_percent");
        let (middle, most) = (median(&sizes_of)?, sizes_of.last()?);
        let within = sizes_of.iter().filter(|&&size| size <= 15.0).count();
        let own = match median(&sizes(table, "goodput_spread_linux_percent")) {
            Some(spread) => format!("Linux's own runs differ by {spread:.1}% in the median."),
            None => "How much Linux's own runs differ, one of each does not say (--runs).".to_owned(),
        };
        let n = sizes_of.len();
        Some(format!(
            "{what} differs by {middle:.1}% in the median and by {most:.1}% at most; {within} of {n} are within 15%. {own}"
        ))
    };
    let said: Vec<String> = match rows.rows() > together.rows() {
        // With one flow at each point, all together are the same.
        false => judged("Goodput", rows).into_iter().collect(),
        true => {
            let each = judged("Goodput flow by flow", rows);
            each.into_iter().chain(judged("Goodput of all flows together", together)).collect()
        }
    };
    if said.is_empty() { "Nothing was delivered, so nothing is compared.".to_owned() } else { said.join("\n") }
}

/// The median of values in ascending order.
fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

#[cfg(test)]
mod tests {
    use headend_scenario::Document;

    use super::*;

    const SCENARIO: &str = r#"
        runs = 2
        [nodes.a]
        [nodes.b]
        [links.l]
        between = ["a", "b"]
        rate = "1Mbit/s"
        [flows.f]
        from = "a"
        to = "b"
        bytes = "1KB"
        [sweep]
        "links.l.delay" = ["1ms", "2ms"]
    "#;

    /// A table of flows with this goodput for runs 0 and 1 of points 0 and 1.
    fn flows(goodput: [f64; 4]) -> Table {
        let mut table = Table::default();
        table.push("point", Column::U64(vec![0, 0, 1, 1]));
        table.push("run", Column::U64(vec![0, 1, 0, 1]));
        table.push("flow", Column::Text(vec!["f".into(); 4]));
        for measure in &MEASURES {
            let is_goodput = measure.name == "goodput";
            let column = if is_goodput { Column::F64(goodput.to_vec()) } else { Column::U64(vec![0, 0, 3, 5]) };
            table.push(measure.column, column);
        }
        table
    }

    fn compared(sim: [f64; 4], linux: [f64; 4]) -> (Vec<Point>, [Table; 2]) {
        let points = Document::parse("test", SCENARIO).unwrap().points().unwrap();
        let swept = headend_sim::sweep::swept_columns(&points);
        let rows = compare(&points, &swept, &flows(sim), &flows(linux), &[0, 1]);
        let together = together(&points, &swept, &flows(sim), &flows(linux));
        (points, [rows, together])
    }

    #[test]
    fn a_difference_is_of_the_means_over_runs_in_per_cent_of_the_kernel_s() {
        let (_, [rows, together]) = compared([100.0, 120.0, 90.0, 90.0], [90.0, 110.0, 100.0, 100.0]);
        let numbers = |name: &str| rows.column(name).and_then(Column::as_f64).expect(name).to_vec();
        assert_eq!(numbers("goodput_sim_bps"), [110.0, 90.0]);
        assert_eq!(numbers("goodput_difference_percent"), [10.0, -10.0]);
        assert_eq!(numbers("timeouts_linux"), [0.0, 4.0]);
        assert!(numbers("timeouts_difference_percent")[0].is_nan(), "of nothing there is no per cent");
        assert_eq!(
            verdict(&rows, &together),
            "Goodput differs by 10.0% in the median and by 10.0% at most; 2 of 2 are within 15%. Linux's own runs differ by \
             10.0% in the median."
        );
        assert_eq!(numbers("goodput_spread_linux_percent"), [20.0, 0.0]);
    }

    #[test]
    fn a_flow_that_delivered_nothing_is_a_dash_and_is_not_judged() {
        let (points, [rows, together]) = compared([1e6, 1e6, 2e6, 2e6], [0.0, 0.0, 1e6, 1e6]);
        let (headings, shown) = shown(&points, &rows);
        assert_eq!(headings[..5], ["links.l.delay", "flow", "goodput [Mbit/s]: Linux", "sim", "%"]);
        assert_eq!(shown[0][..5], ["1ms", "f", "0", "1", "-"]);
        assert_eq!(headings.last().map(String::as_str), Some("late runs"));
        assert_eq!([&shown[0], &shown[1]].map(|row| row.last().map(String::as_str)), [Some("0"), Some("1")]);
        assert_eq!(shown[1][..5], ["2ms", "f", "1", "2", "+100.0"]);
        assert!(verdict(&rows, &together).contains("; 0 of 1 are within 15%."), "{}", verdict(&rows, &together));
    }

    #[test]
    fn flows_that_share_otherwise_agree_together() {
        let table = |goodput: [f64; 4]| {
            let mut table = Table::default();
            table.push("point", Column::U64(vec![0; 4]));
            table.push("run", Column::U64(vec![0, 0, 1, 1]));
            table.push("flow", Column::Text(["f", "g", "f", "g"].map(Arc::from).to_vec()));
            for measure in &MEASURES {
                table.push(measure.column, Column::F64(goodput.to_vec()));
            }
            table
        };
        let text = SCENARIO.split("[sweep]").next().expect("what is before it").to_owned();
        let two = text + "[flows.g]\nfrom = \"a\"\nto = \"b\"";
        let points = Document::parse("test", &two).unwrap().points().unwrap();
        let (sim, linux) = (table([4.0, 6.0, 4.0, 6.0]), table([6.0, 4.0, 5.0, 5.0]));
        let (rows, together) = (compare(&points, &[], &sim, &linux, &[0]), together(&points, &[], &sim, &linux));
        let text = verdict(&rows, &together);
        let mut lines = text.lines();
        assert!(
            lines.next().is_some_and(|line| line.contains("flow by flow differs by 30.3% in the median")),
            "{text}"
        );
        let all = "Goodput of all flows together differs by 0.0% in the median and by 0.0% at most; 1 of 1 are within 15%. Linux's own runs \
                   differ by 0.0% in the median.";
        assert_eq!(lines.next(), Some(all));
    }
}
