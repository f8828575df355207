//! Refusals of what can be simulated and a lab cannot run. Every point of a sweep is looked at before the first runs.

use headend_scenario::{Point, Scenario};

use super::site;
use crate::failure::Failure;

/// Hosts of a lab at most: each has a namespace, and the network one device for each.
const HOSTS_MAX: usize = 100;
/// Flow instances of a run at most: each has two threads.
const TRANSFERS_MAX: u64 = 500;

/// Refuses a sweep of which a lab cannot run every point.
pub(super) fn check(points: &[Point]) -> Result<(), Failure> {
    for Point { settings, scenario, .. } in points {
        let Some(wrong) = beyond(scenario) else { continue };
        let at: Vec<String> = settings.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" (at the point {})", at.join(", ")) };
        return Err(Failure::Wrong(format!("{wrong}{at}")));
    }
    Ok(())
}

/// The first thing in a scenario that a lab cannot do.
fn beyond(scenario: &Scenario) -> Option<String> {
    let hosts = (0..scenario.nodes.len()).filter(|&number| site::has_namespace(scenario, number)).count();
    if hosts > HOSTS_MAX {
        return Some(format!("nodes: {hosts} hosts and proxies, and a lab has at most {HOSTS_MAX}"));
    }
    for flow in &scenario.flows {
        if let Some(what) = flow.kind.only_simulated() {
            return Some(format!("flows.{}.kind: {what} are simulated only", flow.name));
        }
        if flow.kind.transfer().is_some_and(|transfer| transfer.socket().is_some()) {
            return Some(format!("flows.{}.socket: decoupling sockets are simulated only", flow.name));
        }
    }
    if let Some(circuit) = scenario.circuits.first() {
        return Some(format!("circuits.{}: circuits are simulated only", circuit.name));
    }
    let count: u64 = scenario.flows.iter().map(|flow| u64::from(flow.count)).sum();
    (count > TRANSFERS_MAX).then(|| format!("flows: {count} instances, and a lab runs at most {TRANSFERS_MAX}"))
}

#[cfg(test)]
mod tests {
    use headend_scenario::Document;

    use super::*;

    const NETWORK: &str = "[nodes.a]\n[nodes.b]\n[links.ab]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
                           [flows.f]\nfrom = \"a\"\nto = \"b\"\n";

    fn said(more: &str) -> Option<String> {
        let document = Document::parse("net.toml", &format!("{NETWORK}{more}")).expect("TOML");
        let points = document.points().unwrap_or_else(|error| panic!("{error}"));
        check(&points).err().and_then(|failure| failure.message().map(str::to_owned))
    }

    #[test]
    fn every_point_of_a_sweep_is_looked_at_before_the_first_runs() {
        assert_eq!(said("count = 500"), None);
        let many = said("[sweep]\n\"flows.f.count\" = [1, 501]").expect("too many");
        assert_eq!(many, "flows: 501 instances, and a lab runs at most 500 (at the point flows.f.count = 501)");
        let socket = said("socket = {}").expect("simulated only");
        assert_eq!(socket, "flows.f.socket: decoupling sockets are simulated only");
    }
}
