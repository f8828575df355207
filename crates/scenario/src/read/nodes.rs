//! Nodes: hosts, routers and proxies, and the personalities of their TCPs.

use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::cc::Algorithm;
use headend_engine::relay::RelayModel;
use headend_engine::tcp::personality::Personality;

use super::{Reader, Section};
use crate::error::Problem;
use crate::fields::{self, NodeTag};
use crate::link::Link;
use crate::model::{Node, NodeKind, Proxy, Tcp};
use crate::tcp::{self, Draft};

impl Reader<'_> {
    pub(super) fn node(&self, name: &str, section: &Section<'_>, before: Option<&Node>) -> Node {
        // Where it is right, there are as many tables already.
        if section.has("count") {
            section.setting("count");
        }
        let kind = match section.chosen(fields::NODE_KINDS) {
            NodeTag::Router => NodeKind::Router,
            NodeTag::Proxy => NodeKind::Proxy(Box::new(self.proxy(section))),
            NodeTag::Host => {
                let Tcp { name, personality } = self.tcp(section);
                let personality = match before {
                    Some(Node { kind: NodeKind::Host { personality: same, .. }, .. }) if *same == personality => {
                        same.clone()
                    }
                    _ => personality,
                };
                NodeKind::Host { personality_name: name, personality }
            }
        };
        Node { name: name.to_owned(), kind }
    }

    /// The personality that a section names, with its `tcp` fields.
    pub(crate) fn tcp(&self, section: &Section<'_>) -> Tcp {
        let name = section.setting("personality").text();
        let known =
            Personality::named(&name).map(Draft::from).or_else(|| self.personalities.get(name.as_str()).cloned());
        let base = known.unwrap_or_else(|| {
            if Algorithm::ALL.iter().any(|algorithm| algorithm.name == name) {
                let text = format!(
                    "\"{name}\" is a congestion control and no personality: personality = \"linux\" with \
                     tcp = {{ controller = \"{name}\" }} is a host that has it"
                );
                section.wrong("personality", section.place_of("personality"), Problem::Contradiction(text));
            } else {
                let own = self.personalities.keys().copied();
                section.unknown("personality", "personality", &name, tcp::names().into_iter().chain(own));
            }
            Personality::linux().into()
        });
        let options = section.table_under("tcp", &tcp::SHAPE);
        let mistakes = self.root.log.count();
        let personality = with_fields(base, &options).finish().unwrap_or_else(|text| {
            if mistakes == self.root.log.count() {
                section.wrong("tcp", section.place_of("tcp"), Problem::Contradiction(text));
            }
            Personality::linux()
        });
        Tcp { name, personality: Arc::new(personality) }
    }

    /// A proxy; its link is found once the links are read.
    fn proxy(&self, section: &Section<'_>) -> Proxy {
        let limit = section.setting("limit").size();
        let model = section.setting("relay").choice(fields::RELAYS)(limit);
        if model == RelayModel::StoreAndForward && section.has("limit") {
            let text = "only with relay = \"buffer\": a store holds whatever arrives".to_owned();
            section.wrong("limit", section.place_of("limit"), Problem::Contradiction(text));
        }
        let [local, remote] = ["local", "remote"].map(|side| self.tcp(&section.table_under(side, &fields::SIDE)));
        Proxy { local_link: usize::MAX, model, local, remote }
    }
}

/// The scenario's own personalities, and those that the document was given.
pub(super) fn personalities<'a>(
    root: &Section<'a>,
    given: &'a BTreeMap<String, Personality>,
) -> BTreeMap<&'a str, Draft> {
    let mut all: BTreeMap<&str, Draft> =
        given.iter().map(|(name, personality)| (name.as_str(), personality.clone().into())).collect();
    for (name, section) in root.named("personalities") {
        if tcp::names().contains(&name) || given.contains_key(name) {
            let text = format!("\"{name}\" is a built-in personality; give this one a name of its own");
            section.log.add(section.place, format!("personalities.{name}"), Problem::Contradiction(text));
        }
        let base = section.setting("base").text();
        let base = Personality::named(&base).expect("a choice was checked against the registry");
        all.insert(name, with_fields(base.into(), &section));
    }
    all
}

/// Returns `draft` with the fields that `section` gives.
fn with_fields(mut draft: Draft, section: &Section<'_>) -> Draft {
    for field in tcp::fields().iter().filter(|field| section.has(field.name)) {
        draft.set(field.name, section.setting(field.name));
    }
    draft
}

/// The index of the link that proxy `node` says leads to its subscribers.
pub(super) fn local_link(node: usize, section: &Section<'_>, links: &[Link]) -> usize {
    let before = section.log.count();
    let name = section.setting("local_link").text();
    let own = || links.iter().enumerate().filter(|(_, link)| link.between.contains(&node));
    let found = own().find(|(_, link)| link.name == name);
    if found.is_none() && section.log.count() == before && !section.muted {
        section.unknown("local_link", "link of this proxy", &name, own().map(|(_, link)| link.name.as_str()));
    }
    found.map_or(usize::MAX, |(index, _)| index)
}
