//! The files that go with a folder of results: the scenario as it was run, and what the results need to be read.

use headend_scenario::results::{Results, Table};
use headend_scenario::{Document, Point};

use crate::request::ScenarioRequest;

/// The text of the scenario as it was run, with what the command line changed.
pub(crate) fn scenario_text(request: &ScenarioRequest, document: &Document) -> String {
    let file = request.file.display().to_string().replace(char::is_control, " ");
    format!("# As run, from {file} and the command line.\n\n{}", document.to_toml())
}

/// The program, the seeds and the units of results, with which they can be read and had again.
pub(crate) fn of_results(points: &[Point], results: &Results) -> serde_json::Value {
    let scenario = &points[0].scenario;
    let units = |table: &Table| -> serde_json::Value {
        let units = table.columns().iter().filter_map(|(name, _)| Some((name.clone(), unit(name)?)));
        units.map(|(name, unit)| (name, serde_json::Value::from(unit))).collect()
    };
    serde_json::json!({
        "program": "headend",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": Some(env!("HEADEND_COMMIT")).filter(|commit| !commit.is_empty()),
        "title": scenario.title,
        "seed": scenario.seed,
        "runs": scenario.runs,
        "points": points.len(),
        "units": { "flows": units(&results.flows), "links": units(&results.links) },
    })
}

/// The unit that a column's name ends in; swept fields are text and have none.
fn unit(name: &str) -> Option<&'static str> {
    if name.contains('.') {
        return None;
    }
    let (_, last) = name.rsplit_once('_').unwrap_or(("", name));
    match last {
        "s" => Some("s"),
        "bps" => Some("bit/s"),
        "bytes" => Some("B"),
        "packets" => Some("packets"),
        _ => None,
    }
}
