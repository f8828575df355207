//! From what is written to what is meant: a document becomes a scenario, or a list of all its mistakes.

mod circuit;
mod docsis;
mod medium;
mod network;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use headend_engine::part::{self, Description, Values};
use headend_engine::relay::RelayModel;
use headend_engine::tcp::personality::Personality;

use super::document::{Data, Document, Table, Value};
use super::error::{Error, MISTAKES_MAX, Mistake, Mistakes, Place, Problem};
use super::fields::{self, Absent, FLOWS_MAX, Field, Kind, NAME_BYTES_MAX, NODES_MAX, NodeTag, Shape};
use super::flow::{self, Flow, FlowKind};
use super::model::{Cable, Channel, Direction, Link, LinkKind, Node, NodeKind, Proxy, Tcp};
use super::recording::{Recordings, Wrong};
use super::setting::Setting;
use super::tcp::{self, Draft};
use super::{Scenario, Sweep};
pub(crate) use circuit::copies_of_headers;
use medium::{compression, copies, discipline, loss, rate};

/// Reads a document without its sweep.
pub(super) fn scenario(document: &Document) -> Result<Scenario, Error> {
    let log = Log::default();
    let place = Place::Line { file: document.name.clone(), line: 0 };
    let root = Section::open(&log, &fields::ROOT, String::new(), &place, &document.root);
    let own = personalities(&root, &document.personalities);
    let reader = Reader { personalities: own, recordings: &document.recordings, root };
    let scenario = reader.scenario();
    log.into_result(scenario)
}

/// Checks the name that an author gave to a node, link, flow or personality.
fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Log(RefCell<Vec<Mistake>>, Cell<usize>);

impl Log {
    pub(super) fn add(&self, place: &Place, field: String, problem: Problem) {
        self.add_with(place, field, || problem);
    }

    /// As [`add`](Log::add), for a problem that takes time to tell: it is not told if there are enough.
    fn add_with(&self, place: &Place, field: String, problem: impl FnOnce() -> Problem) {
        if self.0.borrow().len() < MISTAKES_MAX {
            let mistake = Mistake { place: place.clone(), field, problem: problem() };
            self.0.borrow_mut().push(mistake);
        } else {
            self.1.set(self.1.get() + 1);
        }
    }

    /// How many mistakes there are.
    fn count(&self) -> usize {
        self.0.borrow().len() + self.1.get()
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, Error> {
        let (listed, more) = (self.0.into_inner(), self.1.get());
        if listed.is_empty() { Ok(value) } else { Err(Error::Wrong(Mistakes { listed, more })) }
    }
}

/// A table of the document, read as its shape.
pub(crate) struct Section<'a> {
    log: &'a Log,
    shape: &'static Shape,
    /// Its path, with a dot at the end unless it is the top level.
    prefix: String,
    place: &'a Place,
    table: &'a Table,
    tag: Option<String>,
    /// The table itself is a mistake and was reported: what it lacks is no further one.
    muted: bool,
}

impl<'a> Section<'a> {
    /// Opens a table, reads its tag and reports the fields that it may not have.
    fn open(log: &'a Log, shape: &'static Shape, prefix: String, place: &'a Place, table: &'a Table) -> Section<'a> {
        let mut section = Section { log, shape, prefix, place, table, tag: None, muted: false };
        if let Some(tag) = shape.tag {
            let before = log.count();
            let value = section.setting(tag).text();
            section.muted = log.count() > before;
            section.tag = (!section.muted).then_some(value);
        }
        for (name, value) in &table.0 {
            let Some(field) = shape.field(name) else {
                let allowed = shape.fields_with(section.tag.as_deref()).map(|field| field.name);
                section.unknown(name, "field", name, allowed);
                continue;
            };
            if let (Some(tag_name), Some(tag)) = (shape.tag, section.tag.as_deref())
                && !field.applies(tag)
            {
                let (what, only) = (shape.name, field.only.join("\" or \""));
                let text = format!("only for a {what} with {tag_name} = \"{only}\"; this one has \"{tag}\"");
                section.wrong(name, &value.place, Problem::Contradiction(text));
            }
        }
        section
    }

    pub(crate) fn wrong(&self, field: &str, place: &Place, problem: Problem) {
        self.log.add(place, format!("{}{field}", self.prefix), problem);
    }

    /// Nothing that may stand in `field` has the name that is there.
    pub(crate) fn unknown<'n>(
        &self,
        field: &str,
        what: &'static str,
        name: &str,
        allowed: impl IntoIterator<Item = &'n str>,
    ) {
        let path = format!("{}{field}", self.prefix);
        self.log.add_with(self.place_of(field), path, || Problem::unknown(what, name, allowed));
    }

    /// What the table's tag stands for; the first of all if the tag is a mistake, which was reported.
    fn chosen<T: Copy>(&self, tags: &[(&str, T)]) -> T {
        let name = self.tag.as_deref().unwrap_or(tags[0].0);
        tags.iter().find(|(known, _)| *known == name).expect("a tag was checked against its choices").1
    }

    /// True if the field is written.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    pub(crate) fn place_of(&self, name: &str) -> &'a Place {
        self.table.get(name).map_or(self.place, |value| &value.place)
    }

    fn field(&self, name: &str) -> &'static Field {
        self.shape.field(name).unwrap_or_else(|| panic!("{} has no field {name}", self.shape.name))
    }

    /// The field's value, or what holds without it; after a mistake, a placeholder.
    pub(crate) fn setting(&self, name: &str) -> Setting {
        let field = self.field(name);
        if let Some(value) = self.table.get(name) {
            return field.kind.read_from(value).unwrap_or_else(|expected| {
                self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
                field.kind.placeholder()
            });
        }
        match field.absent {
            Absent::Is(text) => default_setting(field, text),
            Absent::Required => {
                self.missing(name);
                field.kind.placeholder()
            }
            Absent::Follows(_) => panic!("{name} follows something else; its reader must look there"),
        }
    }

    /// The part of a family that the table's tag names, with the fields that the table gives; `None` after a mistake.
    fn part<P>(
        &self,
        family: &[Description],
        read: fn(&str, &Values) -> Option<Result<P, part::Mistake>>,
        recordings: &Recordings,
    ) -> Option<P> {
        let name = self.tag.as_deref()?;
        let fields = family.iter().find(|part| part.name == name).expect("a tag is one of the family's names").fields;
        let before = self.log.count();
        let is_given = |field: &&part::Field| self.has(field.name) || !matches!(field.absent, Absent::Follows(_));
        let value = |field: &part::Field| match field.kind {
            part::Kind::Recording => self.recording(field.name, recordings),
            _ => self.setting(field.name),
        };
        let given = fields.iter().filter(is_given).map(|field| (field.name, value(field)));
        let values = Values::new(given.collect());
        if self.log.count() > before {
            return None;
        }
        match read(name, &values).expect("a tag is one of the family's names") {
            Ok(part) => Some(part),
            Err(part::Mistake { field, text }) => {
                self.wrong(field, self.place_of(field), Problem::Contradiction(text));
                None
            }
        }
    }

    /// What the file holds that the field names.
    fn recording(&self, name: &str, recordings: &Recordings) -> Setting {
        let before = self.log.count();
        let file = self.setting(name);
        if self.log.count() > before {
            return file;
        }
        recordings.read(&file.text()).map_or_else(
            |Wrong { place, problem }| {
                self.wrong(name, place.as_ref().unwrap_or(self.place_of(name)), problem);
                self.field(name).kind.placeholder()
            },
            Setting::Recording,
        )
    }

    fn missing(&self, name: &str) {
        if !self.muted {
            let problem = Problem::Missing { expected: self.field(name).kind.expected() };
            self.wrong(name, self.place, problem);
        }
    }

    /// The table under a field, or an empty one if it may be left out.
    pub(crate) fn table_under(&self, name: &str, shape: &'static Shape) -> Section<'a> {
        static NOTHING: Table = Table(Vec::new());
        let prefix = format!("{}{name}.", self.prefix);
        let is_required = self.field(name).absent == Absent::Required;
        match self.table.get(name) {
            Some(Value { place, data: Data::Table(table) }) => {
                return Section::open(self.log, shape, prefix, place, table);
            }
            Some(value) => {
                let expected = self.field(name).kind.expected();
                self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
            }
            None if is_required => self.missing(name),
            None => {}
        }
        Section { log: self.log, shape, prefix, place: self.place, table: &NOTHING, tag: None, muted: true }
    }

    /// The tables under a field of the kind [`Kind::Named`], in the file's order.
    fn named(&self, name: &str) -> Vec<(&'a str, Section<'a>)> {
        let Kind::Named(shape) = self.field(name).kind else { panic!("{name} holds no named tables") };
        let Some(value) = self.table.get(name) else {
            if self.field(name).absent == Absent::Required {
                self.missing(name);
            }
            return Vec::new();
        };
        let Data::Table(tables) = &value.data else {
            let expected = self.field(name).kind.expected();
            self.wrong(name, &value.place, Problem::Value { found: value.data.found(), expected });
            return Vec::new();
        };
        if tables.0.len() > NODES_MAX {
            let (found, expected) = (format!("{} of them", tables.0.len()), format!("at most {NODES_MAX}"));
            self.wrong(name, &value.place, Problem::Value { found, expected });
            return Vec::new();
        }
        if tables.0.is_empty() && self.field(name).absent == Absent::Required {
            self.missing(name);
        }
        let open = |(key, value): &'a (String, Value)| {
            let path = format!("{name}.{key}");
            if !is_name(key) {
                let expected = format!("a name of letters, digits, - and _, at most {NAME_BYTES_MAX} long");
                self.wrong(&path, &value.place, Problem::Value { found: Data::Text(key.clone()).found(), expected });
                return None;
            }
            let Data::Table(table) = &value.data else {
                let (found, expected) = (value.data.found(), format!("a table: [{path}]"));
                self.wrong(&path, &value.place, Problem::Value { found, expected });
                return None;
            };
            Some((key.as_str(), Section::open(self.log, shape, format!("{path}."), &value.place, table)))
        };
        tables.0.iter().filter_map(open).collect()
    }
}

/// What holds without a field; the shapes' own texts are right, and a test reads them all.
pub(super) fn default_setting(field: &Field, text: &str) -> Setting {
    let data = match field.kind {
        Kind::Flag => Data::Flag(text == "true"),
        Kind::Count { .. } => Data::Integer(text.parse().expect("a default count is a number")),
        Kind::CountOr { .. } => text.parse().map_or(Data::Text(text.into()), Data::Integer),
        _ => Data::Text(text.into()),
    };
    field.kind.read(&data).unwrap_or_else(|expected| panic!("{}: the default {text:?} is not {expected}", field.name))
}

/// The scenario's own personalities, and those that the document was given.
fn personalities<'a>(root: &Section<'a>, given: &'a BTreeMap<String, Personality>) -> BTreeMap<&'a str, Draft> {
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

/// `draft` with the fields that `section` gives.
fn with_fields(mut draft: Draft, section: &Section<'_>) -> Draft {
    for field in tcp::fields().iter().filter(|field| section.has(field.name)) {
        draft.set(field.name, section.setting(field.name));
    }
    draft
}

pub(crate) struct Reader<'a> {
    root: Section<'a>,
    recordings: &'a Recordings,
    /// The scenario's own personalities, and those that the document was given.
    personalities: BTreeMap<&'a str, Draft>,
}

/// Nodes by name, with their indices.
pub(crate) type Names<'a> = BTreeMap<&'a str, usize>;

impl<'a> Reader<'a> {
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
        docsis::find_channels(&mut links, &link_sections);
        self.check_links(&links, &nodes);
        for (number, (node, (_, section))) in nodes.iter_mut().zip(&sections).enumerate() {
            if let NodeKind::Proxy(proxy) = &mut node.kind {
                proxy.local_link = local_link(number, section, &links);
            }
        }
        let flow_sections = root.named("flows");
        let flows: Vec<Flow> =
            flow_sections.iter().map(|(name, section)| self.flow(name, section, &names, &nodes)).collect();
        let instances: u64 = flows.iter().map(|flow| u64::from(flow.count)).sum();
        if instances > FLOWS_MAX {
            let (found, expected) = (format!("{instances} flows in all"), format!("at most {FLOWS_MAX}"));
            root.wrong("flows", root.place_of("flows"), Problem::Value { found, expected });
        }
        let circuit_sections = root.named("circuits");
        let circuits = circuit::circuits(self, &circuit_sections, &names, &nodes, &flows);
        let scenario = Scenario {
            title: root.setting("title").text(),
            seed: root.setting("seed").count(),
            runs: u32::try_from(root.setting("runs").count()).expect("the field's range fits 32 bits"),
            duration: root.setting("duration").span(),
            nodes,
            links,
            flows,
            circuits,
            interval: root.has("interval").then(|| root.setting("interval").span()),
            sweep: Sweep::default(),
        };
        // Only then every name is resolved.
        if root.log.count() == 0 {
            network::check(&scenario, root, &flow_sections, &circuit_sections);
        }
        scenario
    }

    fn node(&self, name: &str, section: &Section<'_>, before: Option<&Node>) -> Node {
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
            let own = self.personalities.keys().copied();
            section.unknown("personality", "personality", &name, tcp::names().into_iter().chain(own));
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

    fn link(&self, name: &str, section: &Section<'_>, names: &Names<'_>) -> Link {
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
    fn check_links(&self, links: &[Link], nodes: &[Node]) {
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

    fn flow(&self, name: &str, section: &Section<'_>, names: &Names<'_>, nodes: &[Node]) -> Flow {
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

/// The index of the link that proxy `node` says leads to its subscribers.
fn local_link(node: usize, section: &Section<'_>, links: &[Link]) -> usize {
    let before = section.log.count();
    let name = section.setting("local_link").text();
    let own = || links.iter().enumerate().filter(|(_, link)| link.between.contains(&node));
    let found = own().find(|(_, link)| link.name == name);
    if found.is_none() && section.log.count() == before && !section.muted {
        section.unknown("local_link", "link of this proxy", &name, own().map(|(_, link)| link.name.as_str()));
    }
    found.map_or(usize::MAX, |(index, _)| index)
}

fn channel(section: &Section<'_>, recordings: &Recordings) -> Channel {
    let (rate, queue) = (section.setting("rate").rate(), section.setting("queue").capacity());
    Channel { rate, queue, loss: loss(section, recordings) }
}
