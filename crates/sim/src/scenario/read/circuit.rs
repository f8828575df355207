//! Circuits: which routers they join, and whose packets they carry.

use super::{Names, Reader, Section};
use crate::scenario::error::Problem;
use crate::scenario::model::{Circuit, Flow, Node, NodeKind, QueueSpec, TunnelDrops};

/// Where a name leads that is not known.
const NOWHERE: usize = usize::MAX;

/// All circuits, in the file's order.
pub(super) fn circuits(reader: &Reader<'_>, names: &Names<'_>, nodes: &[Node], flows: &[Flow]) -> Vec<Circuit> {
    let sections = reader.root.named("circuits");
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
    let queue = section.setting("queue").queue();
    Circuit {
        name: name.to_owned(),
        from,
        to,
        flows: section.has("flows").then(|| carried(section, flows)),
        controls: u32::try_from(section.setting("controls").count()).expect("the field's range fits 32 bits"),
        vmss: section.setting("vmss").size(),
        gmb: section.has("gmb").then(|| section.setting("gmb").rate()),
        tcp: reader.tcp(section),
        queue,
        drops: drops(section, queue),
    }
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

fn carried(section: &Section<'_>, flows: &[Flow]) -> Vec<usize> {
    let before = section.log.count();
    let named = section.setting("flows").list();
    if section.log.count() > before {
        return Vec::new();
    }
    let find = |name: String| {
        let found = flows.iter().position(|flow| flow.name == name);
        if found.is_none() {
            section.unknown("flows", "flow", &name, flows.iter().map(|flow| flow.name.as_str()));
        }
        found
    };
    named.into_iter().filter_map(|name| find(name.text())).collect()
}

fn drops(section: &Section<'_>, queue: QueueSpec) -> TunnelDrops {
    let drops = section.setting("drops").text();
    if drops == "tail" {
        return TunnelDrops::Tail;
    }
    let threshold = section.setting("threshold").count();
    match queue {
        QueueSpec::Packets(packets) if threshold < packets => {}
        QueueSpec::Packets(packets) => {
            let text = format!("is not below the {packets} packets that may wait");
            section.wrong("threshold", section.place_of("threshold"), Problem::Contradiction(text));
        }
        QueueSpec::Unlimited | QueueSpec::Bytes(_) => {
            let text = format!("drops = \"{drops}\" counts packets: give their number, such as \"100 packets\"");
            section.wrong("queue", section.place_of("queue"), Problem::Contradiction(text));
        }
    }
    match drops.as_str() {
        "early" => TunnelDrops::Early(threshold),
        _ => TunnelDrops::Fair { threshold, user_rtt: section.setting("user_rtt").span() },
    }
}
