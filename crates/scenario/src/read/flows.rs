//! Flows: the hosts that they join, and when they start.

use headend_engine::time::Duration;

use super::{Names, Reader, Section};
use crate::error::Problem;
use crate::flow::{self, Flow, FlowKind};
use crate::model::{Node, NodeKind};

impl Reader<'_> {
    pub(super) fn flow(
        &self,
        name: &str,
        section: &Section<'_>,
        names: &Names<'_>,
        nodes: &[Node],
        before: usize,
    ) -> Flow {
        let from = self.host("from", section, names, nodes);
        let to = self.host("to", section, names, nodes);
        if from == to && from != usize::MAX {
            let text = format!("a flow needs two hosts, and \"{}\" is `from` as well", nodes[to].name);
            section.wrong("to", section.place_of("to"), Problem::Contradiction(text));
        }
        // A tag that is none was reported, and what is read instead is never used.
        let kind = section.tag.as_deref().unwrap_or(FlowKind::NAMES[0]);
        let table = flow::Table { section, reader: self, names, nodes };
        let kind = FlowKind::read(kind, &table).expect("a tag is one of the kinds");
        let start = section.setting("start").span();
        let count = match kind.transfer().and_then(|transfer| transfer.arrivals) {
            None => section.setting("count").count(),
            Some(gap) => most_arrivals(self.root.setting("duration").span().saturating_sub(start), gap),
        };
        Flow {
            name: name.to_owned(),
            kind,
            from,
            to,
            start,
            first: u32::try_from((before as u64).saturating_mul(count)).unwrap_or(u32::MAX),
            stagger: section.setting("stagger").span(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
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

/// More than ever come in this time, if they come at random so far apart: eight standard deviations beyond the mean.
fn most_arrivals(time: Duration, gap: Duration) -> u64 {
    let mean = time.as_nanos() / gap.as_nanos();
    mean + 8 * mean.isqrt() + 16
}
