//! The gain of a proxy and of a trunk on a path that was measured, by the simulator.

use std::sync::atomic::AtomicBool;

use headend_scenario::Document;
use headend_scenario::results::{Column, Table};
use headend_sim::sweep::{self, Options};

use super::measure::Measured;
use crate::failure::Failure;

/// Runs of each scenario, with a seed each.
const RUNS: u32 = 5;
/// The fastest path that is simulated: faster ones are taken to be so fast. A gigabit's packets take the simulator as long as they take the
/// path, and the links beside it are no faster.
pub(super) const RATE_MAX_BPS: f64 = 200e6;
/// The longest and the shortest time that is simulated, round trips in it at least, and the rate up to which it is the longest.
const DURATION_S: (f64, f64) = (20.0, 5.0);
const ROUND_TRIPS_MIN: f64 = 50.0;
const SLOW_BPS: f64 = 20e6;
/// Bytes that the path's queue is taken to have at least: so many of full packets let a TCP go at all.
const QUEUE_MIN: f64 = 30_000.0;

/// The goodput that users get over the path with a remedy.
#[derive(Clone, Debug)]
pub(super) struct Gain {
    /// The remedy.
    pub(super) with: &'static str,
    /// Goodput of the download, the mean over the runs.
    pub(super) goodput_bps: f64,
    /// Time that a page takes, the median of all.
    pub(super) page_s: f64,
}

/// The node at this end of the path, and what else there is, by remedy.
const REMEDIES: [(&str, &str, &str); 4] = [
    ("neither", "kind = \"router\"", ""),
    (
        "a proxy at this site",
        "kind = \"proxy\"\nrelay = \"buffer\"\nlimit = \"4MB\"\nlocal_link = \"path\"\n\
         local = { personality = \"linux\", tcp = { controller = \"bbr\", socket_buffer = \"4MB\" } }\n\
         remote = { personality = \"linux\", tcp = { socket_buffer = \"4MB\" } }",
        "",
    ),
    (
        "a sealed trunk",
        "kind = \"router\"",
        "[circuits.trunk]\nfrom = \"west\"\nto = \"east\"\ncontrols = 4\nloss_signal = \"in-band\"\nlosses = \"delayed\"\n\
         queue = \"500 packets\"\ndrops = \"fair\"\nclasses = [[\"page\"], [\"download\"]]\n",
    ),
    (
        "a sealed trunk with fast",
        "kind = \"router\"",
        "[circuits.trunk]\nfrom = \"west\"\nto = \"east\"\ncontrols = 1\nloss_signal = \"in-band\"\nlosses = \"delayed\"\n\
         tcp = { controller = \"fast\", fast_alpha = 4 }\n\
         queue = \"500 packets\"\ndrops = \"fair\"\nclasses = [[\"page\"], [\"download\"]]\n",
    ),
];

/// Simulates each remedy over the path.
pub(super) fn simulate(path: &Measured) -> Result<Vec<Gain>, Failure> {
    REMEDIES.iter().map(|remedy| simulate_one(path, remedy)).collect()
}

fn simulate_one(path: &Measured, (with, west, circuits): &(&'static str, &str, &str)) -> Result<Gain, Failure> {
    let text = scenario(path, west, circuits);
    let points = Document::parse("the measured path", &text)?.points()?;
    let stop = AtomicBool::new(false);
    let options = Options { threads: None, journal: None, resume: false, stop: &stop, trace: false };
    let results = sweep::run(&points, &options, &mut |_| {})?;
    let download = of(&results.flows, "download", "goodput_bps");
    let mut pages = of(&results.flows, "page", "transfer_s");
    pages.retain(|value| value.is_finite());
    pages.sort_by(f64::total_cmp);
    Ok(Gain {
        with,
        goodput_bps: download.iter().sum::<f64>() / download.len().max(1) as f64,
        page_s: pages.get(pages.len() / 2).copied().unwrap_or(f64::NAN),
    })
}

fn scenario(path: &Measured, west: &str, circuits: &str) -> String {
    let bit = path.rate_bps.clamp(1_000.0, RATE_MAX_BPS);
    let (longest, shortest) = DURATION_S;
    let least = (path.rtt_s * ROUND_TRIPS_MIN).clamp(shortest, longest);
    let duration = (longest * SLOW_BPS / bit).clamp(least, longest);
    let queue = ((path.full_rtt_s - path.rtt_s) * bit / 8.0).max(QUEUE_MIN);
    let via = if west.contains("proxy") { "via = \"west\"\n" } else { "" };
    let buffers = "personality = \"linux\"\ntcp = { socket_buffer = \"4MB\" }";
    format!(
        "duration = \"{duration:.1}s\"\nruns = {RUNS}\n[nodes.server]\n{buffers}\n[nodes.west]\n{west}\n[nodes.east]\nkind = \"router\"\n\
         [nodes.user]\n{buffers}\n\
         [links.here]\nbetween = [\"server\", \"west\"]\nrate = \"1000Mbit/s\"\ndelay = \"100us\"\n\
         [links.path]\nbetween = [\"west\", \"east\"]\nrate = \"{bit:.0}bit/s\"\ndelay = \"{delay:.0}us\"\n\
         queue = \"{queue:.0}B\"\nloss = \"{loss:.4}%\"\n\
         [links.there]\nbetween = [\"east\", \"user\"]\nrate = \"1000Mbit/s\"\ndelay = \"100us\"\n\
         [flows.download]\nkind = \"bulk\"\nfrom = \"server\"\nto = \"user\"\n{via}\
         [flows.page]\nkind = \"requests\"\nfrom = \"server\"\nto = \"user\"\nsizes = [\"10KB\"]\n{circuits}",
        delay = (path.rtt_s * 5e5).max(1.0),
        loss = (path.loss * 100.0).min(99.0),
    )
}

/// The values of a column in the rows of a flow.
fn of(table: &Table, flow: &str, column: &str) -> Vec<f64> {
    let names = table.column("flow").and_then(Column::as_text).expect("results name their flows");
    let values = table.column(column).and_then(Column::as_f64).expect("results have this column of numbers");
    names.iter().zip(values).filter(|(name, _)| &***name == flow).map(|(_, value)| *value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_gains_where_the_path_damages_packets_and_nothing_where_it_does_not() {
        let path =
            |loss| Measured { loss, counted: 1_000, rtt_s: 0.04, full_rtt_s: 0.08, rate_bps: 10e6, full_loss: loss };
        let [neither, proxy, trunk, _] = &simulate(&path(0.01)).unwrap()[..] else { panic!("four rows") };
        assert!(proxy.goodput_bps > 1.5 * neither.goodput_bps, "{proxy:?} {neither:?}");
        assert!(trunk.goodput_bps > 0.5 * neither.goodput_bps && trunk.page_s < 1.0, "{trunk:?}");
        let [neither, proxy, ..] = &simulate(&path(0.0)).unwrap()[..] else { panic!("four rows") };
        assert!(proxy.goodput_bps < 1.1 * neither.goodput_bps && neither.goodput_bps > 8e6, "{proxy:?} {neither:?}");
    }
    #[test]
    fn behind_a_deep_queue_a_trunk_with_fast_brings_pages_soonest() {
        let path =
            Measured { loss: 0.0, counted: 1_000, rtt_s: 0.04, full_rtt_s: 1.0, rate_bps: 10e6, full_loss: 0.01 };
        let [_, _, trunk, fast] = &simulate(&path).unwrap()[..] else { panic!("four rows") };
        assert!(fast.page_s < trunk.page_s / 2.0 && fast.page_s < 0.2, "{fast:?} {trunk:?}");
        assert!(fast.goodput_bps > 0.85 * trunk.goodput_bps, "{fast:?} {trunk:?}");
    }
}
