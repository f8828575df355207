//! The reader: a document becomes a scenario, or a list of all its mistakes.

mod circuit;
mod flows;
mod links;
mod medium;
mod network;
mod nodes;
mod section;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::document::{Document, Purpose};
use super::error::{Error, MISTAKES_MAX, Mistake, Mistakes, Place, Problem};
use super::fields::{self, FLOWS_MAX};
use super::flow::Flow;
use super::link::{self, Link};
use super::many;
use super::model::NodeKind;
use super::recording::Recordings;
use super::tcp::Draft;
use super::{Scenario, Sweep};
pub(crate) use circuit::copies_of_headers;
pub(crate) use medium::{amount, compression, constant_delay, copies, delay, discipline, loss, rate};
use nodes::{local_link, personalities};
pub(crate) use section::{Section, default_setting};

/// Reads a document without its sweep.
pub(super) fn scenario(document: &Document) -> Result<Scenario, Error> {
    let log = Log::default();
    let place = Place::Line { file: document.name.clone(), line: 0 };
    let (table, before) = many::expanded(&document.root, &log);
    let root = Section::open(&log, &fields::ROOT, String::new(), &place, &table);
    let own = personalities(&root, &document.personalities);
    let purpose = document.purpose;
    let reader = Reader { personalities: own, recordings: &document.recordings, root, before, purpose };
    let scenario = reader.scenario();
    log.into_result(scenario)
}

fn is_disturbed(link: &Link) -> bool {
    matches!(&link.kind, link::LinkKind::Plain(plain) if plain.there.disturbs() || plain.back.disturbs())
}

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Log {
    listed: RefCell<Vec<Mistake>>,
    /// Further ones.
    more: Cell<usize>,
    /// Those that are listed for another of many nodes.
    same: Cell<usize>,
}

impl Log {
    pub(super) fn add(&self, place: &Place, field: String, problem: Problem) {
        self.add_with(place, field, || problem);
    }

    /// Adds a mistake as [`add`](Log::add) does, for a problem that takes time to tell: it is not told if there are
    /// enough.
    fn add_with(&self, place: &Place, field: String, problem: impl FnOnce() -> Problem) {
        // Of many nodes that one table makes, each has its mistakes.
        if self.listed.borrow().iter().any(|known| known.is_of_another(place, &field)) {
            self.same.set(self.same.get() + 1);
        } else if self.listed.borrow().len() < MISTAKES_MAX {
            let mistake = Mistake { place: place.clone(), field, problem: problem() };
            if self.listed.borrow().contains(&mistake) {
                self.same.set(self.same.get() + 1);
            } else {
                self.listed.borrow_mut().push(mistake);
            }
        } else {
            self.more.set(self.more.get() + 1);
        }
    }

    /// Counts the mistakes.
    fn count(&self) -> usize {
        self.listed.borrow().len() + self.more.get() + self.same.get()
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, Error> {
        let (listed, more) = (self.listed.into_inner(), self.more.get());
        if listed.is_empty() { Ok(value) } else { Err(Error::Wrong(Mistakes { listed, more })) }
    }
}

pub(crate) struct Reader<'a> {
    root: Section<'a>,
    pub(crate) recordings: &'a Recordings,
    /// The scenario's own personalities, and those that the document was given.
    personalities: BTreeMap<&'a str, Draft>,
    /// Of each flow's table, the flows of its name that come before it.
    before: Vec<usize>,
    purpose: Purpose,
}

/// Nodes by name, with their indices.
pub(crate) type Names<'a> = BTreeMap<&'a str, usize>;

impl Reader<'_> {
    /// False if what is read is to be simulated.
    pub(crate) fn has_real_hosts(&self) -> bool {
        self.purpose != Purpose::Simulation
    }

    fn scenario(&self) -> Scenario {
        let root = &self.root;
        let mut names = Names::new();
        let mut nodes = Vec::new();
        let sections = root.named("nodes");
        for (name, section) in &sections {
            names.insert(name, nodes.len());
            nodes.push(self.node(name, section, nodes.last()));
        }
        let link_sections = root.named("links");
        let mut links: Vec<Link> =
            link_sections.iter().map(|(name, section)| self.link(name, section, &names)).collect();
        link::find_channels(&mut links, &link_sections);
        self.check_links(&links, &nodes);
        for (number, (node, (_, section))) in nodes.iter_mut().zip(&sections).enumerate() {
            if let NodeKind::Proxy(proxy) = &mut node.kind {
                proxy.local_link = local_link(number, section, &links);
            }
        }
        let flow_sections = root.named("flows");
        if flow_sections.is_empty() && self.purpose != Purpose::Links {
            root.missing("flows");
        }
        let flows: Vec<Flow> = flow_sections
            .iter()
            .zip(&self.before)
            .map(|((name, section), &before)| self.flow(name, section, &names, &nodes, before))
            .collect();
        let instances: u64 = flows.iter().map(|flow| u64::from(flow.count)).sum();
        if instances > FLOWS_MAX {
            let (found, expected) = (format!("{instances} flows in all"), format!("at most {FLOWS_MAX}"));
            root.wrong("flows", root.place_of("flows"), Problem::Value { found, expected });
        }
        let circuit_sections = root.named("circuits");
        let circuits = circuit::circuits(self, &circuit_sections, &names, &nodes, &flows);
        if let Some((link, _)) = links.iter().find(|link| is_disturbed(link)).zip(circuits.first()) {
            let text = format!(
                "links.{} repeats, holds, corrupts or reorders packets, and circuits know packets that are lost only",
                link.name
            );
            root.wrong("circuits", root.place_of("circuits"), Problem::Contradiction(text));
        }
        let scenario = Scenario {
            title: root.setting("title").text(),
            seed: root.setting("seed").count(),
            runs: u32::try_from(root.setting("runs").count()).expect("the field's range fits 32 bits"),
            duration: root.setting("duration").span(),
            nodes,
            links,
            flows,
            circuits,
            start_jitter: root.has("start_jitter").then(|| root.setting("start_jitter").span()),
            host_jitter: root.has("host_jitter").then(|| root.setting("host_jitter").span()),
            interval: root.has("interval").then(|| root.setting("interval").span()),
            sweep: Sweep::default(),
        };
        // Only then every name is resolved.
        if root.log.count() == 0 {
            network::check(&scenario, root, &flow_sections, &circuit_sections);
        }
        scenario
    }
}
