//! The windows of senders over time, thinned until they fit a page.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::time::Duration;
use headend_scenario::results::trace::{RunTrace, Sample};
use headend_scenario::results::{Column, RunOutcome, Swept, Table};

/// The least time between two samples that are kept.
const EVERY: Duration = Duration::from_millis(50);

/// The windows that are kept of both sides.
#[derive(Debug, Default)]
pub(super) struct Windows {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    by: &'static str,
    point: usize,
    flow: Arc<str>,
    instance: u64,
    sample: Sample,
}

impl Windows {
    /// Keeps the windows of a run of `by`.
    pub(super) fn note(&mut self, by: &'static str, outcome: &RunOutcome, trace: &RunTrace) {
        let mut senders: BTreeMap<(&str, u64), Vec<Sample>> = BTreeMap::new();
        for (flow, instance, sample) in trace.series() {
            senders.entry((flow, instance)).or_default().push(*sample);
        }
        for ((flow, instance), samples) in senders {
            let flow: Arc<str> = flow.into();
            let row = |sample| Row { by, point: outcome.point, flow: flow.clone(), instance, sample };
            self.rows.extend(thin(&samples).into_iter().map(row));
        }
    }

    /// `by` (`sim` or `linux`), `point`, the swept fields, `flow`, `instance`, `time_s`, `cwnd_bytes`, `ssthresh_bytes` (NaN
    /// before the first congestion) and `in_flight_bytes`.
    pub(super) fn table(&self, swept: &[Swept]) -> Table {
        let rows = &self.rows;
        let mut table = Table::default();
        let [sim, linux]: [Arc<str>; 2] = ["sim".into(), "linux".into()];
        let by = |row: &Row| if row.by == "sim" { sim.clone() } else { linux.clone() };
        table.push("by", Column::Text(rows.iter().map(by).collect()));
        table.push("point", Column::U64(rows.iter().map(|row| row.point as u64).collect()));
        for (path, values) in swept {
            table.push(path.as_str(), Column::Text(rows.iter().map(|row| values[row.point].clone()).collect()));
        }
        table.push("flow", Column::Text(rows.iter().map(|row| row.flow.clone()).collect()));
        table.push("instance", Column::U64(rows.iter().map(|row| row.instance).collect()));
        table.push("time_s", Column::F64(rows.iter().map(|row| row.sample.time.as_secs_f64()).collect()));
        table.push("cwnd_bytes", Column::U64(rows.iter().map(|row| row.sample.cwnd).collect()));
        let ssthresh = |row: &Row| row.sample.ssthresh.map_or(f64::NAN, |bytes| bytes as f64);
        table.push("ssthresh_bytes", Column::F64(rows.iter().map(ssthresh).collect()));
        table.push("in_flight_bytes", Column::U64(rows.iter().map(|row| row.sample.in_flight).collect()));
        table
    }
}

/// The last sample of each interval, with the interval's largest and smallest window before it where it has both: sawteeth
/// keep their tips.
fn thin(samples: &[Sample]) -> Vec<Sample> {
    let interval = |sample: &Sample| sample.time.as_nanos() / EVERY.as_nanos();
    let mut kept = Vec::new();
    for chunk in samples.chunk_by(|a, b| interval(a) == interval(b)) {
        let last = chunk.len() - 1;
        let mut picks = vec![last];
        picks.extend((0..last).max_by_key(|&i| chunk[i].cwnd).filter(|&i| chunk[i].cwnd > chunk[last].cwnd));
        picks.extend((0..last).min_by_key(|&i| chunk[i].cwnd).filter(|&i| chunk[i].cwnd < chunk[0].cwnd));
        picks.sort_unstable();
        picks.dedup();
        kept.extend(picks.into_iter().map(|i| chunk[i]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use headend_engine::time::Time;

    use super::*;

    fn at(ms: u64, cwnd: u64) -> Sample {
        let time = Time::ZERO + Duration::from_millis(ms);
        Sample { time, cwnd, ssthresh: None, in_flight: 0, rto: Duration::ZERO, una: 0, nxt: 0 }
    }

    #[test]
    fn an_interval_keeps_its_last_sample_and_the_tips_of_a_sawtooth() {
        let rising: Vec<Sample> = (0..100).map(|ms| at(ms, 1_000 + ms)).collect();
        assert_eq!(thin(&rising), [at(49, 1_049), at(99, 1_099)]);
        let sawtooth = [at(0, 5), at(10, 9), at(20, 2), at(30, 3)];
        assert_eq!(thin(&sawtooth), [at(10, 9), at(20, 2), at(30, 3)]);
    }
}
