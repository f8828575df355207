//! Circuits: which routers they join, and whose packets they carry.

use std::collections::BTreeSet;

use headend_engine::units::Capacity;

use super::{Names, Reader, Section, medium};
use crate::error::Problem;
use crate::fields::{DROPS, DropsTag, IMPLEMENTATIONS, LOSS_SIGNALS, LOSSES, LossSignal};
use crate::flow::Flow;
use crate::model::{Circuit, Implementation, Node, NodeKind, Tcp, TunnelDrops};
use crate::setting::Setting;

/// The index that stands for a name that is not known.
const NOWHERE: usize = usize::MAX;

/// All circuits, in the file's order.
pub(super) fn circuits(
    reader: &Reader<'_>,
    sections: &[(&str, Section<'_>)],
    names: &Names<'_>,
    nodes: &[Node],
    flows: &[Flow],
) -> Vec<Circuit> {
    sections.iter().map(|(name, section)| circuit(reader, name, section, names, nodes, flows)).collect()
}

fn circuit(
    reader: &Reader<'_>,
    name: &str,
    section: &Section<'_>,
    names: &Names<'_>,
    nodes: &[Node],
    flows: &[Flow],
) -> Circuit {
    let [from, to] = ["from", "to"].map(|field| router(field, section, names, nodes));
    if from == to && from != NOWHERE {
        let text = format!("a circuit joins two routers, and \"{}\" is `from` as well", nodes[to].name);
        section.wrong("to", section.place_of("to"), Problem::Contradiction(text));
    }
    let queue = section.setting("queue").capacity();
    let carried = section.has("flows").then(|| listed("flows", section.setting("flows"), section, flows));
    let classes = classes(section, carried.as_deref(), flows);
    let tcp = reader.tcp(section);
    Circuit {
        name: name.to_owned(),
        from,
        to,
        flows: carried,
        implementation: implementation(section, &tcp),
        tcp,
        queue,
        drops: drops(section, queue),
        weights: weights(section, classes.len()),
        classes,
        delays: section.setting("delays").flag(),
    }
}

fn implementation(section: &Section<'_>, tcp: &Tcp) -> Implementation {
    let name = section.setting("implementation").text();
    let Some(method) = section.setting("implementation").choice(IMPLEMENTATIONS) else {
        if section.has("mtu") {
            let text = "users' packets stay as long as they are: only with an `implementation` that changes them";
            section.wrong("mtu", section.place_of("mtu"), Problem::Contradiction(text.to_owned()));
        }
        return match section.setting("loss_signal").choice(LOSS_SIGNALS) {
            LossSignal::InBand => in_band(section),
            LossSignal::Headers => decoupling(section, tcp),
        };
    };
    let others = ["controls", "vmss", "copies", "gmb", "loss_signal", "losses"];
    for field in others.into_iter().filter(|field| section.has(field)) {
        let text =
            format!("implementation = \"{name}\" has no header packets and no guarantee: one connection carries all");
        section.wrong(field, section.place_of(field), Problem::Contradiction(text));
    }
    if section.setting("drops").choice(DROPS) == DropsTag::Fair {
        let text = format!("\"fair\" needs the window of control TCPs, which implementation = \"{name}\" has not");
        section.wrong("drops", section.place_of("drops"), Problem::Contradiction(text));
    }
    let mtu = section.setting("mtu").size().get();
    Implementation::Carried { method, mtu: u32::try_from(mtu).expect("the field's range fits 32 bits") }
}

/// A circuit whose header packets are the signal.
fn decoupling(section: &Section<'_>, tcp: &Tcp) -> Implementation {
    if section.has("losses") {
        let text = "with loss_signal = \"headers\" every lost header counts: give loss_signal = \"in-band\" as well";
        section.wrong("losses", section.place_of("losses"), Problem::Contradiction(text.to_owned()));
    }
    Implementation::Decoupling {
        controls: u32::try_from(section.setting("controls").count()).expect("the field's range fits 32 bits"),
        vmss: section.setting("vmss").size(),
        copies: copies_of_headers(section, tcp),
        gmb: section.has("gmb").then(|| section.setting("gmb").rate()),
    }
}

/// A circuit whose datagrams are the signal.
fn in_band(section: &Section<'_>) -> Implementation {
    for field in ["vmss", "copies"].into_iter().filter(|field| section.has(field)) {
        let text = "loss_signal = \"in-band\" has no header packets: leave it out";
        section.wrong(field, section.place_of(field), Problem::Contradiction(text.to_owned()));
    }
    Implementation::InBand {
        flows: u32::try_from(section.setting("controls").count()).expect("the field's range fits 32 bits"),
        losses: section.setting("losses").choice(LOSSES),
        gmb: section.has("gmb").then(|| section.setting("gmb").rate()),
    }
}

/// Reads the number of copies that follow each header of control TCPs like this one.
pub(crate) fn copies_of_headers(section: &Section<'_>, tcp: &Tcp) -> u32 {
    let copies = medium::copies(section.setting("copies"));
    if copies > 0 && !tcp.personality.timestamps {
        let text =
            "copies need control TCPs with `timestamps`, by which a copy is told from a header sent again".to_owned();
        section.wrong("copies", section.place_of("copies"), Problem::Contradiction(text));
    }
    copies
}

fn router(field: &str, section: &Section<'_>, names: &Names<'_>, nodes: &[Node]) -> usize {
    let before = section.log.count();
    let name = section.setting(field).text();
    let is_router = |node: &Node| node.kind == NodeKind::Router;
    match names.get(name.as_str()) {
        Some(&index) if is_router(&nodes[index]) => return index,
        _ if section.log.count() > before => {}
        _ => {
            let routers = nodes.iter().filter(|node| is_router(node)).map(|node| node.name.as_str());
            section.unknown(field, "router", &name, routers);
        }
    }
    NOWHERE
}

/// The flows that a list in `field` names.
fn listed(field: &str, list: Setting, section: &Section<'_>, flows: &[Flow]) -> Vec<usize> {
    let find = |name: String| {
        let named = flows.iter().enumerate().filter(|(_, flow)| flow.name == name);
        let found: Vec<usize> = named.map(|(index, _)| index).collect();
        // After a mistake there are placeholders instead of names.
        if found.is_empty() && !name.is_empty() {
            section.unknown(field, "flow", &name, flows.iter().map(|flow| flow.name.as_str()));
        }
        found
    };
    list.list().into_iter().flat_map(|name| find(name.text())).collect()
}

/// Reads the flows that wait apart; none is there twice, and none that the circuit does not carry.
fn classes(section: &Section<'_>, carried: Option<&[usize]>, flows: &[Flow]) -> Vec<Vec<usize>> {
    if !section.has("classes") {
        return Vec::new();
    }
    let wrong = |text: String| section.wrong("classes", section.place_of("classes"), Problem::Contradiction(text));
    let before = section.log.count();
    let lists = section.setting("classes").list();
    let classes: Vec<_> = lists.into_iter().map(|list| listed("classes", list, section, flows)).collect();
    if section.log.count() > before {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    for &flow in classes.iter().flatten() {
        let name = &flows[flow].name;
        if !seen.insert(flow) {
            wrong(format!("\"{name}\" waits in one class only"));
        }
        if carried.is_some_and(|carried| !carried.contains(&flow)) {
            wrong(format!("\"{name}\" is not among the circuit's `flows`"));
        }
    }
    classes
}

fn weights(section: &Section<'_>, classes: usize) -> Vec<u32> {
    if !section.has("weights") {
        return Vec::new();
    }
    let before = section.log.count();
    let each = section.setting("weights").list();
    if section.log.count() == before && each.len() != classes {
        let text = format!("{} for {classes} `classes`: give one for each", each.len());
        section.wrong("weights", section.place_of("weights"), Problem::Contradiction(text));
    }
    each.into_iter().map(|weight| u32::try_from(weight.count()).expect("the field's range fits 32 bits")).collect()
}

fn drops(section: &Section<'_>, queue: Capacity) -> TunnelDrops {
    match section.setting("drops").choice(DROPS) {
        DropsTag::Tail => TunnelDrops::Tail,
        DropsTag::Early => TunnelDrops::Early(threshold(section, queue)),
        DropsTag::Fair => TunnelDrops::Fair {
            threshold: threshold(section, queue),
            user_rtt: section.setting("user_rtt").span(),
            exempt_percent: section.setting("exempt_percent").count(),
        },
    }
}

/// Reads the number of waiting packets from which on some are dropped: fewer than fit into `queue`.
fn threshold(section: &Section<'_>, queue: Capacity) -> u64 {
    let threshold = section.setting("threshold").count();
    match queue {
        Capacity::Packets(packets) if threshold < packets => {}
        Capacity::Packets(packets) => {
            let text = format!("is not below the {packets} packets that may wait");
            section.wrong("threshold", section.place_of("threshold"), Problem::Contradiction(text));
        }
        Capacity::Unlimited | Capacity::Bytes(_) => {
            let drops = section.setting("drops").text();
            let text = format!("drops = \"{drops}\" counts packets: give their number, such as \"100 packets\"");
            section.wrong("queue", section.place_of("queue"), Problem::Contradiction(text));
        }
    }
    threshold
}
