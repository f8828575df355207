//! Links: the nodes that they join, and what carries their packets.

use std::collections::BTreeMap;

use super::medium::{compression, copies, discipline, loss, rate};
use super::{Names, Reader, Section, docsis};
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::{self, Kind};
use crate::model::{Cable, Channel, Direction, Link, LinkKind, Node};
use crate::recording::Recordings;

impl Reader<'_> {
    pub(super) fn link(&self, name: &str, section: &Section<'_>, names: &Names<'_>) -> Link {
        let between = self.between(section, names);
        let delay = section.setting("delay").span();
        let kind = match section.tag.as_deref() {
            Some("docsis") => docsis::link(section, delay),
            Some("cable") => LinkKind::Cable(Cable {
                down: channel(&section.table_under("down", &fields::CHANNEL), self.recordings),
                up: channel(&section.table_under("up", &fields::CHANNEL), self.recordings),
                delay,
                modem_buffer: section.setting("modem_buffer").capacity(),
                lan: section.setting("lan").rate(),
            }),
            Some("plain") | None => {
                let there = Direction {
                    rate: rate(section, self.recordings),
                    processing: section.setting("processing").span(),
                    delay,
                    queue: discipline(section, self.recordings),
                    loss: loss(section, self.recordings),
                    header_compression: compression(section.setting("header_compression")),
                    header_copies: copies(section.setting("header_copies")),
                };
                let differs = section.table_under("back", &fields::BACK);
                let given = |field| differs.has(field).then(|| differs.setting(field));
                let back = Direction {
                    rate: if differs.has("rate") { rate(&differs, self.recordings) } else { there.rate.clone() },
                    processing: given("processing").map_or(there.processing, |s| s.span()),
                    delay: given("delay").map_or(there.delay, |s| s.span()),
                    queue: if differs.has("queue") {
                        discipline(&differs, self.recordings)
                    } else {
                        there.queue.clone()
                    },
                    loss: if differs.has("loss") { loss(&differs, self.recordings) } else { there.loss.clone() },
                    header_compression: given("header_compression").map_or(there.header_compression, compression),
                    header_copies: given("header_copies").map_or(there.header_copies, copies),
                };
                LinkKind::Plain { there, back }
            }
            Some(other) => unreachable!("{other} is a kind of links that is not read"),
        };
        let one_way = matches!(kind, LinkKind::Plain { .. }) && section.setting("one_way").flag();
        Link { name: name.to_owned(), between, one_way, kind }
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

fn channel(section: &Section<'_>, recordings: &Recordings) -> Channel {
    let (rate, queue) = (section.setting("rate").rate(), section.setting("queue").capacity());
    Channel { rate, queue, loss: loss(section, recordings) }
}
