//! Flows: the hosts that they join, and when they start.

use super::{Names, Reader, Section};
use crate::error::Problem;
use crate::flow::{self, Flow, FlowKind};
use crate::model::{Node, NodeKind};

impl Reader<'_> {
    pub(super) fn flow(&self, name: &str, section: &Section<'_>, names: &Names<'_>, nodes: &[Node]) -> Flow {
        let from = self.host("from", section, names, nodes);
        let to = self.host("to", section, names, nodes);
        if from == to && from != usize::MAX {
            let text = format!("a flow needs two hosts, and \"{}\" is `from` as well", nodes[to].name);
            section.wrong("to", section.place_of("to"), Problem::Contradiction(text));
        }
        // A tag that is none was reported, and what is read instead is never used.
        let kind = section.tag.as_deref().unwrap_or(FlowKind::NAMES[0]);
        let table = flow::Table { section, reader: self, names, nodes };
        Flow {
            name: name.to_owned(),
            kind: FlowKind::read(kind, &table).expect("a tag is one of the kinds"),
            from,
            to,
            start: section.setting("start").span(),
            stagger: section.setting("stagger").span(),
            count: u32::try_from(section.setting("count").count()).expect("the field's range fits 32 bits"),
        }
    }

    /// The index of the host that a field names.
    fn host(&self, field: &str, section: &Section<'_>, names: &Names<'_>, nodes: &[Node]) -> usize {
        let is_host = |node: &Node| matches!(node.kind, NodeKind::Host { .. });
        let before = section.log.count();
        let name = section.setting(field).text();
        match names.get(name.as_str()) {
            Some(&index) if is_host(&nodes[index]) => return index,
            _ if section.log.count() > before => {}
            _ => {
                let hosts = nodes.iter().filter(|node| is_host(node)).map(|node| node.name.as_str());
                section.unknown(field, "host", &name, hosts);
            }
        }
        usize::MAX
    }
}
