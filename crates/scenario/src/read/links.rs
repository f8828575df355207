//! Links: the nodes that they join, and what carries their packets.

use std::collections::BTreeMap;

use super::{Names, Reader, Section};
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::Kind;
use crate::link::{self, Link, LinkKind};
use crate::model::Node;

impl Reader<'_> {
    pub(super) fn link(&self, name: &str, section: &Section<'_>, names: &Names<'_>) -> Link {
        // A tag that is none was reported, and what is read instead is never used.
        let kind = section.tag.as_deref().unwrap_or(LinkKind::NAMES[0]);
        let table = link::Table { section, recordings: self.recordings };
        Link {
            name: name.to_owned(),
            between: self.between(section, names),
            kind: LinkKind::read(kind, &table).expect("a tag is one of the kinds"),
        }
    }

    fn between(&self, section: &Section<'_>, names: &Names<'_>) -> [usize; 2] {
        const NOWHERE: [usize; 2] = [usize::MAX; 2];
        let Some(value) = section.table.get("between") else {
            section.missing("between");
            return NOWHERE;
        };
        let pair = match &value.data {
            Data::List(items) => match items.as_slice() {
                [Value { data: Data::Text(a), .. }, Value { data: Data::Text(b), .. }] => Some([a, b]),
                _ => None,
            },
            _ => None,
        };
        let Some([first, second]) = pair else {
            let (found, expected) = (value.data.found(), Kind::Pair.expected());
            section.wrong("between", &value.place, Problem::Value { found, expected });
            return NOWHERE;
        };
        let ends = [first, second].map(|name| {
            let end = names.get(name.as_str()).copied();
            if end.is_none() {
                section.unknown("between", "node", name, names.keys().copied());
            }
            end.unwrap_or(usize::MAX)
        });
        if first == second {
            let text = format!("a link joins two nodes, and both of these are \"{first}\"");
            section.wrong("between", &value.place, Problem::Contradiction(text));
        }
        ends
    }

    /// A packet takes the one link from a node to the next, so two links between the same nodes are a mistake.
    pub(super) fn check_links(&self, links: &[Link], nodes: &[Node]) {
        let mut seen: BTreeMap<[usize; 2], &str> = BTreeMap::new();
        for link in links {
            let mut ends = link.between;
            ends.sort_unstable();
            let Some(other) = seen.insert(ends, &link.name) else { continue };
            let [Some(a), Some(b)] = ends.map(|end| nodes.get(end)) else { continue };
            let text = format!("joins \"{}\" and \"{}\", as links.{other} does already", a.name, b.name);
            let all = self.root.table.get("links").and_then(Value::as_table);
            let place = all.and_then(|all| all.get(&link.name)).map_or(self.root.place, |value| &value.place);
            self.root.wrong(&format!("links.{}.between", link.name), place, Problem::Contradiction(text));
        }
    }
}
