//! The circuits of a scenario as trunks between its sites: which packets each takes, what `headend trunk` cannot do, and the file
//! of each end.
//!
//! Two routers with circuits between them have a daemon each for these. A daemon takes packets by their destination, so the flows of a
//! circuit must be all that goes from its begin to the hosts where they end.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use headend_engine::cc::{Algorithm, backfill, bbr, bbr3, fast, reno, vegas};
use headend_engine::circuit::in_band::Losses;
use headend_engine::tcp::personality::Personality;
use headend_engine::units::{Bytes, Capacity, Rate};
use headend_host::trunk::{CONTROLS_MAX, VMSS};
use headend_scenario::topology::Topology;
use headend_scenario::{Circuit, Implementation, Scenario, TunnelDrops};

use super::site;

/// The ports at which daemons listen, and the numbers of their queues, from these on.
const FIRST_PORT: u16 = 7_700;
const FIRST_QUEUE: u16 = 4_700;
/// The longest packet of a queue that counts packets.
const PACKET: Bytes = Bytes::new(1_500);
/// The room of a queue without limit.
const ROOM_MAX: Bytes = Bytes::new(1_000_000_000);

/// A field of the scenario, and why no trunk can be as it says.
pub(super) type Wrong = (String, String);

/// The daemons of two routers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrunkPlan {
    /// The name that both ends' daemons have for it.
    pub(super) name: String,
    pub(super) is_sealed: bool,
    pub(super) ends: [End; 2],
}

/// One of two daemons.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) node: usize,
    /// The circuit that begins here, as an index into those of the scenario.
    pub(super) circuit: Option<usize>,
    /// The hosts for which packets enter here.
    pub(super) hosts: BTreeSet<usize>,
    /// The lines of its file that are known before there are keys: those before the peer's table, and those in it.
    pub(super) head: String,
    pub(super) peer: String,
}

/// The first part of a scenario's circuits that a trunk cannot do.
pub(super) fn beyond(scenario: &Scenario) -> Option<Wrong> {
    let topology = Topology::of(scenario);
    let ways = ways(scenario, &topology);
    if !scenario.circuits.is_empty()
        && let Some(flow) = scenario.flows.iter().find(|flow| flow.via().is_some())
    {
        let why = "a trunk takes packets by their destination, and the proxy's is not the flow's: leave out either";
        return Some((format!("flows.{}.via", flow.name), why.to_owned()));
    }
    scenario.circuits.iter().enumerate().find_map(|(number, circuit)| {
        let of = |(field, why): (&str, String)| (format!("circuits.{}.{field}", circuit.name), why);
        own_fields(circuit).or_else(|| among_others(scenario, &ways, number)).map(of)
    })
}

/// The first of a circuit's own fields that no trunk can do, and why; none if a trunk can do all.
fn own_fields(circuit: &Circuit) -> Option<(&'static str, String)> {
    let controls = match &circuit.implementation {
        Implementation::Carried { .. } => {
            return Some((
                "implementation",
                "a trunk leaves users' packets as they are: \"decoupling\" alone".to_owned(),
            ));
        }
        Implementation::Decoupling { copies, .. } if *copies > 0 => {
            return Some(("copies", "a trunk sends each header once".to_owned()));
        }
        Implementation::Decoupling { vmss, .. } if !VMSS.contains(&(vmss.get() as u32)) => {
            return Some(("vmss", format!("{vmss}: a trunk has {} to {} bytes", VMSS.start(), VMSS.end())));
        }
        Implementation::Decoupling { controls, .. } | Implementation::InBand { flows: controls, .. } => *controls,
    };
    if controls > u32::from(CONTROLS_MAX) {
        return Some(("controls", format!("{controls}: a trunk has {CONTROLS_MAX} at most")));
    }
    if circuit.drops != TunnelDrops::Tail {
        let why = "a trunk drops from the flow that has most waiting, when its queue is full: leave it out";
        return Some(("drops", why.to_owned()));
    }
    if circuit.delays {
        return Some(("delays", "a trunk notes no packet's time: leave it out".to_owned()));
    }
    let controller = &circuit.tcp.personality.controller;
    if controller_lines(controller).is_none() {
        let why = format!("`headend trunk` has no {} with these parameters", controller.name());
        return Some(("tcp", why));
    }
    None
}

/// The first of a circuit's fields that a trunk cannot do beside the other circuits and flows, and why.
fn among_others(scenario: &Scenario, ways: &[Way], number: usize) -> Option<(&'static str, String)> {
    let circuit = &scenario.circuits[number];
    let own = taken(circuit, ways);
    let name = |node: usize| &scenario.nodes[node].name;
    for other in &scenario.circuits[..number] {
        if (other.from, other.to) == (circuit.from, circuit.to) {
            let why =
                format!("{} joins the same two: a trunk has one circuit to a peer; it may have classes", other.name);
            return Some(("to", why));
        }
        if other.from == circuit.from
            && let Some(&host) = taken(other, ways).intersection(&own).next()
        {
            let why =
                format!("{} takes packets for {} as well, and a trunk goes by the destination", other.name, name(host));
            return Some(("flows", why));
        }
    }
    if own.is_empty() {
        return Some(("flows", "no packet of any flow enters it".to_owned()));
    }
    let is_chosen = |flow: usize| circuit.flows.as_ref().is_none_or(|chosen| chosen.contains(&flow));
    let mut sides = vec![(circuit.from, own)];
    if is_sealed(circuit) {
        sides.push((circuit.to, sources(circuit, ways)));
    }
    for (edge, hosts) in sides {
        let stray = ways.iter().find(|way| !is_chosen(way.flow) && hosts.contains(&way.to) && way.transits(edge));
        if let Some(way) = stray {
            let other = &scenario.flows[way.flow].name;
            let why = format!(
                "packets of {other} pass {} for {} too, and a trunk takes packets by their destination: give {other} another host, or \
                 list it too",
                name(edge),
                name(way.to)
            );
            return Some(("flows", why));
        }
    }
    None
}

/// The parts of a scenario's circuits that trunks do otherwise: a circuit's name and what is otherwise.
pub(super) fn otherwise(scenario: &Scenario) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    for circuit in &scenario.circuits {
        let mut note = |text: &str| notes.push((format!("circuits.{}", circuit.name), text.to_owned()));
        let own = &*circuit.tcp.personality;
        if *own != (Personality { controller: own.controller.clone(), ..Personality::linux() }) {
            note(
                "personality and tcp are not as the scenario says: control TCPs are those of Linux, with the controller that it names",
            );
        }
        note("flows take turns in the trunk's queue, and a full one drops from the flow that has most waiting");
        let is_back = |other: &&Circuit| (other.from, other.to) == (circuit.to, circuit.from) && is_sealed(other);
        if is_sealed(circuit) && !scenario.circuits.iter().any(|other| is_back(&other)) {
            note("sealed carriage goes both ways: what goes back to its flows' senders is in a circuit as well");
        }
    }
    notes
}

/// The daemons of a scenario's circuits. Instances of flows are given with the port at which each listens.
pub(super) fn plans(scenario: &Scenario, ports: &[(usize, u16)], mtu: u32) -> Vec<TrunkPlan> {
    let topology = Topology::of(scenario);
    let ways = ways(scenario, &topology);
    let mut plans: Vec<TrunkPlan> = Vec::new();
    for (number, circuit) in scenario.circuits.iter().enumerate() {
        let is_back = |plan: &TrunkPlan| {
            [plan.ends[1].node, plan.ends[0].node] == [circuit.from, circuit.to] && plan.is_sealed == is_sealed(circuit)
        };
        let end = |node| End { node, circuit: None, hosts: BTreeSet::new(), head: String::new(), peer: String::new() };
        let (plan, at) = match plans.iter().position(is_back) {
            Some(at) => (at, 1),
            None => {
                let ends = [circuit.from, circuit.to].map(end);
                plans.push(TrunkPlan { name: format!("t{}", plans.len()), is_sealed: is_sealed(circuit), ends });
                (plans.len() - 1, 0)
            }
        };
        let ends = &mut plans[plan].ends;
        ends[at].circuit = Some(number);
        ends[at].hosts.extend(taken(circuit, &ways));
        if is_sealed(circuit) {
            ends[1 - at].hosts.extend(sources(circuit, &ways));
        }
    }
    for (number, plan) in plans.iter_mut().enumerate() {
        let circuits = plan.ends.each_ref().map(|end| end.circuit.map(|circuit| &scenario.circuits[circuit]));
        for at in 0..2 {
            let other = site::address(plan.ends[1 - at].node);
            let (name, is_sealed) = (plan.name.clone(), plan.is_sealed);
            let end = &mut plan.ends[at];
            end.head = head(&name, number as u16, end.node, is_sealed.then_some(mtu), circuits[at]);
            if let Some(granted) = circuits[1 - at].and_then(guaranteed) {
                // A link of this site that is no limit: what is granted is the scenario's affair.
                let _ = writeln!(end.head, "link = \"{}\"", Rate::mbit(1_000_000).max(granted));
            }
            end.head += &classes(circuits[at], ports);
            end.peer = peer(number as u16, other, &end.hosts, circuits[at], circuits[1 - at]);
        }
    }
    plans
}

fn head(name: &str, number: u16, node: usize, mtu: Option<u32>, circuit: Option<&Circuit>) -> String {
    let mut text = format!("name = \"{name}\"\nlisten = \"{}:{}\"\n", site::address(node), FIRST_PORT + number);
    match mtu {
        Some(mtu) => text += &format!("carriage = \"sealed\"\nmtu = {mtu}\n"),
        // The simulator marks what enters a circuit.
        None => text += &format!("carriage = \"native\"\nqueue = {}\nmark_users = true\n", FIRST_QUEUE + number),
    }
    if circuit.is_some_and(|circuit| !circuit.weights.is_empty()) {
        text += "classes = \"weights\"\n";
    }
    text
}

/// The tables of the classes in which packets wait: a scenario's are of flows, a trunk's of their ports.
fn classes(circuit: Option<&Circuit>, ports: &[(usize, u16)]) -> String {
    let Some(circuit) = circuit else { return String::new() };
    let room = match circuit.queue {
        Capacity::Packets(packets) => PACKET * packets,
        Capacity::Bytes(bytes) => bytes,
        Capacity::Unlimited => ROOM_MAX,
    };
    let mut text = String::new();
    for (number, flows) in circuit.classes.iter().enumerate() {
        let own: Vec<String> =
            ports.iter().filter(|(flow, _)| flows.contains(flow)).map(|(_, port)| port.to_string()).collect();
        let _ = writeln!(text, "[[class]]\nname = \"c{number}\"\nports = [{}]\nroom = \"{room}\"", own.join(", "));
        if let Some(weight) = circuit.weights.get(number) {
            let _ = writeln!(text, "weight = {weight}");
        }
    }
    let _ = writeln!(text, "[[class]]\nname = \"all\"\nroom = \"{room}\"");
    text
}

/// The lines of the table of the peer, without its key.
fn peer(number: u16, other: Ipv4Addr, hosts: &BTreeSet<usize>, own: Option<&Circuit>, its: Option<&Circuit>) -> String {
    let mut text = format!("name = \"other\"\nendpoint = \"{other}:{}\"\n", FIRST_PORT + number);
    let mut networks: Vec<String> = hosts.iter().map(|&host| format!("\"{}/32\"", site::address(host))).collect();
    if networks.is_empty() {
        // A trunk has to lead somewhere. Nobody has this address (RFC 5737).
        networks.push("\"192.0.2.1/32\"".to_owned());
    }
    let _ = writeln!(text, "networks = [{}]", networks.join(", "));
    if let Some(circuit) = own {
        let controls = match &circuit.implementation {
            Implementation::Decoupling { controls, vmss, .. } => {
                let _ = writeln!(text, "vmss = \"{vmss}\"");
                *controls
            }
            Implementation::InBand { flows, losses, .. } => {
                if *losses == Losses::Delayed {
                    text += "losses = \"delayed\"\n";
                }
                *flows
            }
            Implementation::Carried { .. } => unreachable!("it was refused"),
        };
        let _ = writeln!(text, "controls = {controls}");
        text += &controller_lines(&circuit.tcp.personality.controller).expect("others were refused");
        if let Some(gmb) = guaranteed(circuit) {
            let _ = writeln!(text, "gmb = \"{gmb}\"");
        }
    }
    if let Some(gmb) = its.and_then(guaranteed) {
        let _ = writeln!(text, "gmb_max = \"{gmb}\"");
    }
    text
}

/// The lines that say a controller; `None` if the trunk has no such one.
fn controller_lines(controller: &Algorithm) -> Option<String> {
    let line = format!("controller = \"{}\"\n", controller.name());
    match controller {
        Algorithm::Fast(parameters) => {
            let alpha = parameters.alpha_packets;
            let known = fast::Parameters { alpha_packets: alpha, ..fast::Parameters::DEFAULT };
            (*parameters == known).then(|| format!("{line}fast_alpha = {alpha}\n"))
        }
        _ => {
            let known: [Algorithm; 6] = [
                reno::Parameters.into(),
                Personality::linux().controller,
                vegas::Parameters::DEFAULT.into(),
                bbr::Parameters.into(),
                bbr3::Parameters.into(),
                backfill::Parameters::DEFAULT.into(),
            ];
            known.contains(controller).then_some(line)
        }
    }
}

/// The guaranteed rate of a circuit.
fn guaranteed(circuit: &Circuit) -> Option<Rate> {
    match &circuit.implementation {
        Implementation::Decoupling { gmb, .. } | Implementation::InBand { gmb, .. } => *gmb,
        Implementation::Carried { .. } => None,
    }
}

/// True if users' packets go in datagrams of the trunk's own, whose losses are the signal.
pub(super) fn is_sealed(circuit: &Circuit) -> bool {
    matches!(circuit.implementation, Implementation::InBand { .. })
}

/// The way of a flow's packets, data or what answers them.
#[derive(Debug)]
struct Way {
    flow: usize,
    from: usize,
    to: usize,
    /// The nodes between.
    over: Vec<usize>,
}

impl Way {
    fn transits(&self, node: usize) -> bool {
        self.over.contains(&node)
    }

    /// True if packets that come to the begin of a circuit go on over its end.
    fn enters(&self, circuit: &Circuit) -> bool {
        let at = |node: usize| self.over.iter().position(|&over| over == node);
        at(circuit.from).zip(at(circuit.to)).is_some_and(|(from, to)| from < to)
    }
}

/// The ways of all flows, there and back.
fn ways(scenario: &Scenario, topology: &Topology) -> Vec<Way> {
    let way = |flow: usize, from: usize, to: usize| {
        let mut over = topology.path(from, to);
        over.pop();
        Way { flow, from, to, over }
    };
    let both = |(number, flow): (usize, &headend_scenario::Flow)| {
        [way(number, flow.from, flow.to), way(number, flow.to, flow.from)]
    };
    scenario.flows.iter().enumerate().flat_map(both).collect()
}

/// The ways of which packets enter a circuit.
fn entering<'w>(circuit: &'w Circuit, ways: &'w [Way]) -> impl Iterator<Item = &'w Way> {
    let is_chosen = |flow: usize| circuit.flows.as_ref().is_none_or(|chosen| chosen.contains(&flow));
    ways.iter().filter(move |way| is_chosen(way.flow) && way.enters(circuit))
}

/// The hosts for which packets enter a circuit.
fn taken(circuit: &Circuit, ways: &[Way]) -> BTreeSet<usize> {
    entering(circuit, ways).map(|way| way.to).collect()
}

/// The hosts whose packets enter a circuit.
fn sources(circuit: &Circuit, ways: &[Way]) -> BTreeSet<usize> {
    entering(circuit, ways).map(|way| way.from).collect()
}

#[cfg(test)]
mod tests;
