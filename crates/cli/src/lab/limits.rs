//! Refusals of what can be simulated and a lab cannot run. Every point of a sweep is looked at before the first runs.

use headend_scenario::{Amount, Document, FlowKind, Point, Programs, Scenario, Transfer};

use super::circuits::{self, Wrong};
use super::{program, site};
use crate::failure::Failure;

/// Hosts of a lab at most: each has a namespace, and the network one device for each.
const HOSTS_MAX: usize = 100;
/// Flow instances of a run at most: each has two threads.
const TRANSFERS_MAX: u64 = 500;

/// Refuses a sweep of which a lab cannot run every point. `document` is the one that was read.
pub(super) fn check(document: &Document, points: &[Point]) -> Result<(), Failure> {
    for Point { settings, scenario, .. } in points {
        let Some((field, why)) = beyond(scenario) else { continue };
        let at: Vec<String> = settings.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        let at = if at.is_empty() { String::new() } else { format!(" (at the point {})", at.join(", ")) };
        return Err(Failure::Wrong(format!("{}: {field}: {why}{at}", document.place_of(&field))));
    }
    Ok(())
}

/// The first field of a scenario that a lab cannot do, and why.
fn beyond(scenario: &Scenario) -> Option<Wrong> {
    let hosts = (0..scenario.nodes.len()).filter(|&number| site::has_namespace(scenario, number)).count();
    if hosts > HOSTS_MAX {
        let why = format!("{hosts} hosts, proxies and circuits' ends, and a lab has at most {HOSTS_MAX}");
        return Some(("nodes".to_owned(), why));
    }
    for flow in &scenario.flows {
        if flow.first > 0 {
            let why = "flows of each of many nodes are simulated only".to_owned();
            return Some((format!("flows.{}", flow.name), why));
        }
        let field = |name: &str| format!("flows.{}.{name}", flow.name);
        if let Some(what) = flow.kind.only_simulated() {
            return Some((field("kind"), format!("{what} are simulated only")));
        }
        if let Some(Transfer { bytes: Amount::Drawn(_), .. }) = flow.kind.transfer() {
            return Some((field("bytes"), "sizes that are drawn are simulated only".to_owned()));
        }
        if flow.kind.transfer().is_some_and(|transfer| transfer.arrivals.is_some()) {
            return Some((field("arrivals"), "instances that come at random are simulated only".to_owned()));
        }
        if let FlowKind::Programs(programs) = &flow.kind
            && let Some((name, missing)) = missing(programs)
        {
            return Some((field(name), format!("{missing}: not on the PATH, nor in /usr/sbin")));
        }
        let mtu = u64::from(site::mtu(scenario));
        if let FlowKind::Datagrams(datagrams) = &flow.kind
            && datagrams.packet.get() > mtu
        {
            return Some((field("packet"), format!("{}: hosts send no packet of more than {mtu}B", datagrams.packet)));
        }
    }
    if let Some(wrong) = circuits::beyond(scenario) {
        return Some(wrong);
    }
    let count: u64 = scenario.flows.iter().map(|flow| u64::from(flow.count)).sum();
    let why = || format!("{count} instances, and a lab runs at most {TRANSFERS_MAX}");
    (count > TRANSFERS_MAX).then(|| ("flows".to_owned(), why()))
}

/// The field that names a program which is not here, and that program.
fn missing(programs: &Programs) -> Option<(&'static str, &str)> {
    let named = [("program", Some(&programs.client)), ("server", programs.server.as_ref())];
    let words = named.into_iter().filter_map(|(field, words)| Some((field, words?.first()?.as_str())));
    words.into_iter().find(|(_, word)| program::find(word).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "[nodes.a]\n[nodes.b]\n[links.ab]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
                           [flows.f]\nfrom = \"a\"\nto = \"b\"\n";

    fn said(more: &str) -> Option<String> {
        let document = Document::parse("net.toml", &format!("{NETWORK}{more}")).expect("TOML");
        let points = document.points().unwrap_or_else(|error| panic!("{error}"));
        check(&document, &points).err().and_then(|failure| failure.message().map(str::to_owned))
    }

    #[test]
    fn every_point_of_a_sweep_is_looked_at_before_the_first_runs() {
        assert_eq!(said("count = 500"), None);
        let many = said("[sweep]\n\"flows.f.count\" = [1, 501]").expect("too many");
        assert_eq!(
            many,
            "net.toml:6: flows: 501 instances, and a lab runs at most 500 (at the point flows.f.count = 501)"
        );
        assert_eq!(said("socket = {}"), None, "headend's own sockets run");
        let media = said("kind = \"media\"\nrates = [\"1Mbit/s\"]").expect("simulated only");
        assert_eq!(media, "net.toml:9: flows.f.kind: frames with a deadline are simulated only");
    }
}
