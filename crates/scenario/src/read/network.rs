//! Checks that flows and circuits find in the network what they need: ways there and back, ports at nodes, and time.

use headend_engine::time::Time;

use super::Section;
use crate::Scenario;
use crate::error::Problem;
use crate::flow::{Flow, Ports};
use crate::model::{Implementation, NodeKind};
use crate::topology::{self, CONNECTIONS_MAX, STREAMS_MAX, Topology};

/// Tables by the name that their author gave them, in the file's order.
pub(super) type Named<'a> = [(&'a str, Section<'a>)];

/// Reports every flow and circuit that the network cannot carry. In `scenario` all names are resolved.
pub(super) fn check(scenario: &Scenario, root: &Section<'_>, flows: &Named<'_>, circuits: &Named<'_>) {
    let check = Check { scenario, topology: Topology::of(scenario) };
    let tally = |what, most| Tally { what, most, at: vec![0; scenario.nodes.len()] };
    let mut connections = tally("ends of flows, with control TCPs,", CONNECTIONS_MAX);
    let mut streams = tally("flows of datagrams or frames", STREAMS_MAX);
    let mut split = tally("flows that it splits", CONNECTIONS_MAX / 2);
    for (flow, (_, section)) in scenario.flows.iter().zip(flows) {
        let count = u64::from(flow.count);
        let how_many = ["load", "arrivals"].into_iter().find(|field| section.has(field)).unwrap_or("count");
        let (ends, each) = match flow.kind.ports() {
            Ports::Stream => (&mut streams, 1),
            Ports::Connection { controls } => (&mut connections, 1 + u64::from(controls)),
        };
        for node in [flow.from, flow.to] {
            check.room(section, how_many, ends, node, count * each);
        }
        let Some(via) = flow.via() else {
            check.joins(section, "to", flow.from, flow.to);
            continue;
        };
        check.room(section, how_many, &mut split, via, count);
        if [flow.from, flow.to].iter().all(|&end| check.joins(section, "via", end, via)) {
            check.sides(section, flow, via);
        }
    }
    let mut controls = tally("control TCPs", CONNECTIONS_MAX);
    for (circuit, (_, section)) in scenario.circuits.iter().zip(circuits) {
        check.joins(section, "to", circuit.from, circuit.to);
        let (field, own) = match circuit.implementation {
            Implementation::Decoupling { controls, .. } => ("controls", controls.into()),
            Implementation::InBand { .. } => ("loss_signal", 1),
            Implementation::Carried { .. } => ("implementation", 1),
        };
        for node in [circuit.from, circuit.to] {
            check.room(section, field, &mut controls, node, own);
        }
    }
    let (end, horizon) = (Time::ZERO + scenario.duration, topology::horizon(&scenario.nodes, &scenario.links));
    if end >= horizon {
        let longest = horizon.since(Time::ZERO).as_nanos() / 1_000_000_000;
        let text =
            format!("is {}, and with so many nodes and links less than {longest}s is possible", scenario.duration);
        root.wrong("duration", root.place_of("duration"), Problem::Contradiction(text));
    }
}

/// A count of something at each node, and the most for which a node has ports.
struct Tally {
    what: &'static str,
    most: u64,
    at: Vec<u64>,
}

struct Check<'a> {
    scenario: &'a Scenario,
    topology: Topology,
}

impl Check<'_> {
    fn name(&self, node: usize) -> &str {
        &self.scenario.nodes[node].name
    }

    /// Reports, at `field`, that packets do not get from `a` to `b`, or not back; true if they do both.
    fn joins(&self, section: &Section<'_>, field: &str, a: usize, b: usize) -> bool {
        let wrong = |text: String| section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        let [a_name, b_name] = [a, b].map(|node| self.name(node));
        match [self.topology.reaches(a, b), self.topology.reaches(b, a)] {
            [true, true] => return true,
            [false, false] => wrong(format!("no links lead from \"{a_name}\" to \"{b_name}\" over routers")),
            [false, true] => wrong(format!(
                "no links lead from \"{a_name}\" to \"{b_name}\" over routers, only back{}",
                self.one_way_links()
            )),
            [true, false] => wrong(format!(
                "no links lead back from \"{b_name}\" to \"{a_name}\" over routers{}",
                self.one_way_links()
            )),
        }
        false
    }

    /// The links to be looked at where packets get there and not back.
    fn one_way_links(&self) -> String {
        const LISTED_MAX: usize = 3;
        let mut names =
            self.scenario.links.iter().filter(|link| link.kind.is_one_way()).map(|link| format!("links.{}", link.name));
        let listed: Vec<String> = names.by_ref().take(LISTED_MAX).collect();
        let more = if names.next().is_some() { ", ..." } else { "" };
        let are = if listed.len() == 1 { "is" } else { "are" };
        format!("; {}{more} {are} `one_way`, from the first node of `between` to the second", listed.join(", "))
    }

    /// Reports a flow whose two ends are on the same side of its proxy.
    fn sides(&self, section: &Section<'_>, flow: &Flow, via: usize) {
        let NodeKind::Proxy(proxy) = &self.scenario.nodes[via].kind else { return };
        let routes = self.topology.routes(via);
        let is_local =
            |end: usize| routes[end].is_some_and(|port| self.topology.link_at(via, port) == Some(proxy.local_link));
        let [from, to] = [flow.from, flow.to].map(is_local);
        if from == to {
            let link = &self.scenario.links[proxy.local_link].name;
            let (which, lie) = if from { ("both", "lie") } else { ("neither", "lies") };
            let text = format!(
                "{which} of \"{}\" and \"{}\" {lie} behind the `local_link` of \"{}\", links.{link}: one must, and the \
                 other not",
                self.name(flow.from),
                self.name(flow.to),
                self.name(via)
            );
            section.wrong("via", section.place_of("via"), Problem::Contradiction(text));
        }
    }

    /// Counts `more` at `node`, and reports at `field` if there are too many now: once for each node.
    fn room(&self, section: &Section<'_>, field: &str, tally: &mut Tally, node: usize, more: u64) {
        let Tally { what, most, at } = tally;
        let before = at[node];
        at[node] += more;
        if before <= *most && at[node] > *most {
            let text = format!("\"{}\" would have {} {what} and has ports for {most}", self.name(node), at[node]);
            section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        }
    }
}
