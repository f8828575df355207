//! Every field a scenario may have, said once: the parser, `--set`, the JSON Schema and the reference page read this.

mod circuit;
mod medium;
pub(super) mod part;
mod workload;

pub use crate::flow::{FLOW, SOCKET};
pub use crate::link::{BACK, CHANNEL, DOCSIS_CHANNEL, LINK, MODEM};
pub use circuit::CIRCUIT;
pub(crate) use circuit::{COPIES, DROPS, DropsTag, IMPLEMENTATIONS, LOSS_SIGNALS, LOSSES, LossSignal};
pub use medium::{DELAY, LOSS, QUEUE, RATE};
pub(crate) use part::of_kinds;
pub use workload::SIZE;

pub use headend_engine::part::{Absent, RATE_BPS, SIZE_BYTES_MAX};

use headend_engine::part::{Recorded, names};
use headend_engine::relay::RelayModel;
use headend_engine::units::Bytes;

use super::tcp;

/// A table of a scenario and the fields it may have.
#[derive(Debug)]
pub struct Shape {
    /// The word for one such table in messages.
    pub name: &'static str,
    /// The field that says which of the others apply, if there is one.
    pub tag: Option<&'static str>,
    /// The fields.
    pub fields: fn() -> &'static [Field],
}

/// A family of parts, any of which a field can take.
#[derive(Debug)]
pub struct Family {
    /// The table that names a part; its tag is the name.
    pub shape: Shape,
    /// The kind of a plain value, which stands for the simplest part.
    pub plain: Kind,
    /// The words for a list of times and such values in messages, with an example; `None` if there can be no such list.
    pub steps: Option<&'static str>,
    /// An example of the table.
    pub table: &'static str,
}

/// One field of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// The values that it takes.
    pub kind: Kind,
    /// The meaning of its absence.
    pub absent: Absent,
    /// The values of the table's tag with which it applies; empty for all.
    pub only: &'static [&'static str],
    /// Its meaning, in a sentence or two.
    pub doc: &'static str,
}

/// The values that a field takes. Ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number from `min` to `max`, or a word.
    CountOr {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// The word.
        word: &'static str,
    },
    /// A rate.
    Rate,
    /// A size of `min` to `max` bytes.
    Size {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// A size of 1 to [`SIZE_BYTES_MAX`] bytes, or a word.
    SizeOr(&'static str),
    /// A span of time of `min` to `max` nanoseconds.
    Span {
        /// Shortest, in nanoseconds.
        min: u64,
        /// Longest, in nanoseconds.
        max: u64,
    },
    /// A probability.
    Chance,
    /// One of some names.
    Choice(fn() -> Vec<&'static str>),
    /// The name of a built-in personality or of one under `personalities`.
    Personality,
    /// The name of a node.
    Node,
    /// The names of two nodes.
    Pair,
    /// A limit on what may wait, in packets or bytes, or none.
    Capacity,
    /// A part of a family: a plain value, one that changes, or a table that names the part.
    Part(&'static Family),
    /// A list of one value of a kind, or more.
    List(&'static Kind),
    /// Packet numbers from 1.
    Numbers,
    /// The name of a recording of a link, from which this is read.
    Recording(Recorded),
    /// The name of a file with a cumulative distribution of sizes.
    Cdf,
    /// A table.
    Table(&'static Shape),
    /// Tables of one shape, each under a name of the author's choice.
    Named(&'static Shape),
    /// Lists of values, each under the path of a field.
    Sweep,
}

/// Most nodes, and most links: addresses have 16 bits, and a few are kept.
pub const NODES_MAX: usize = 65_000;
/// Most flow instances of a scenario.
pub const FLOWS_MAX: u64 = 100_000;
/// Longest name of a node, link, flow or personality.
pub const NAME_BYTES_MAX: usize = 64;
/// Most steps of a rate or loss that changes.
pub const STEPS_MAX: usize = 100_000;
/// Most points of a sweep.
pub const POINTS_MAX: usize = 100_000;
/// Most values of all points of a sweep together: the points are all kept while it runs.
pub const VALUES_MAX: usize = 5_000_000;
/// Most runs of a sweep: points times runs of each.
pub const RUNS_MAX: u64 = 10_000_000;

const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const HOUR_NS: u64 = 3_600 * SECOND_NS;
/// Longest run: a thousand hours of virtual time.
pub(crate) const DURATION_NS_MAX: u64 = 1_000 * HOUR_NS;

/// The times at which a step of a rate or loss may begin.
pub(super) const STEP_TIME: Kind = Kind::Span { min: 0, max: DURATION_NS_MAX };

pub(crate) const fn field(name: &'static str, kind: Kind, absent: Absent, doc: &'static str) -> Field {
    Field { name, kind, absent, only: &[], doc }
}

const fn field_of(
    only: &'static [&'static str],
    name: &'static str,
    kind: Kind,
    absent: Absent,
    doc: &'static str,
) -> Field {
    Field { name, kind, absent, only, doc }
}

use Absent::{Follows, Is, Required};

/// The top level of a file.
pub static ROOT: Shape = Shape { name: "scenario", tag: None, fields: || ROOT_FIELDS };
const ROOT_FIELDS: &[Field] = &[
    field("title", Kind::Text, Is(""), "One line for people."),
    field(
        "seed",
        // TOML's integers are signed.
        Kind::Count { min: 0, max: i64::MAX as u64 - RUNS_MAX },
        Is("1"),
        "Seed of the first run. Run `r` of every point, from 0, uses `seed + r`.",
    ),
    field("runs", Kind::Count { min: 1, max: RUNS_MAX }, Is("1"), "Runs of every point, each with a seed of its own."),
    field(
        "duration",
        Kind::Span { min: 1, max: DURATION_NS_MAX },
        Is("1000s"),
        "Limit in virtual time; a run ends earlier when every flow has ended.",
    ),
    field(
        "start_jitter",
        Kind::Span { min: 0, max: DURATION_NS_MAX },
        Follows("0, and 1 ms in `headend compare`"),
        "Flows begin later by a random time of up to this, another in each run.",
    ),
    field(
        "host_jitter",
        Kind::Span { min: 0, max: DURATION_NS_MAX },
        Follows("0, and 20 us in `headend compare`"),
        "Packets take longer by a random time of up to this on each plain link, as small delays of hosts vary. Simulated only: real hosts \
         have their own.",
    ),
    field("nodes", Kind::Named(&NODE), Required, "Hosts, routers and proxies, by name."),
    field("links", Kind::Named(&LINK), Required, "What joins the nodes, by name."),
    field(
        "flows",
        Kind::Named(&FLOW),
        Is("{}"),
        "Who sends what to whom, by name. Without any it is links alone: `headend emulate` takes them, and nothing else does.",
    ),
    field("circuits", Kind::Named(&CIRCUIT), Is("{}"), "Circuits of TCP decoupling between routers, by name."),
    field(
        "interval",
        Kind::Span { min: 1_000_000, max: DURATION_NS_MAX },
        Follows("no table of intervals"),
        "With it, a table says what each flow and link did in each such span of time.",
    ),
    field("personalities", Kind::Named(&PERSONALITY), Is("{}"), "Personalities of the scenario's own, by name."),
    field("sweep", Kind::Sweep, Is("{}"), "Fields to vary: lists of values by path. Every combination is a point."),
];

/// The kinds of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeTag {
    Host,
    Router,
    Proxy,
}

pub(crate) const NODE_KINDS: &[(&str, NodeTag)] =
    &[("host", NodeTag::Host), ("router", NodeTag::Router), ("proxy", NodeTag::Proxy)];
/// A function that makes a proxy's way of relaying from its limit.
type Relay = fn(Bytes) -> RelayModel;
pub(crate) const RELAYS: &[(&str, Relay)] =
    &[("buffer", |limit| RelayModel::BufferAndForward { limit }), ("store", |_| RelayModel::StoreAndForward)];

/// A node.
pub static NODE: Shape = Shape { name: "node", tag: Some("kind"), fields: || NODE_FIELDS };
const HOST: &[&str] = &["host"];
const PROXY: &[&str] = &["proxy"];
const NODE_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| names(NODE_KINDS)),
        Is("host"),
        "A host runs connections and applications; a router passes packets on. A proxy splits the connections of the \
         flows that go `via` it, and passes on other packets as a router.",
    ),
    field(
        "count",
        Kind::Count { min: 1, max: NODES_MAX as u64 },
        Follows("one, of just that name"),
        "How many of these nodes there are: `pc` then stands for `pc-0`, `pc-1` and so on, and a link or a flow that names \
         `pc[]` is one for each of them.",
    ),
    field_of(HOST, "personality", Kind::Personality, Is("linux"), "The host's TCP, by name."),
    field_of(
        HOST,
        "tcp",
        Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality, on this host, as a sender and as a receiver.",
    ),
    field_of(
        PROXY,
        "relay",
        Kind::Choice(|| names(RELAYS)),
        Is("buffer"),
        "`buffer`: what arrives on one side is queued for the other, whose full socket buffer holds it back. `store`: \
         what arrives is stored, and no sender waits for the other side.",
    ),
    field_of(
        PROXY,
        "limit",
        Kind::Size { min: 0, max: SIZE_BYTES_MAX },
        Is("0B"),
        "With `relay = \"buffer\"`: bytes that the proxy may hold for each connection and direction, beyond the socket \
         buffers.",
    ),
    field_of(
        PROXY,
        "local_link",
        Kind::Text,
        Required,
        "The link that leads to the subscribers. Connections over it are local, all others remote.",
    ),
    field_of(PROXY, "local", Kind::Table(&SIDE), Is("{}"), "The proxy's TCP towards the subscribers."),
    field_of(PROXY, "remote", Kind::Table(&SIDE), Is("{}"), "The proxy's TCP towards the servers."),
];

/// One side of a proxy.
pub static SIDE: Shape = Shape { name: "side", tag: None, fields: || SIDE_FIELDS };
const SIDE_FIELDS: &[Field] = &[
    field("personality", Kind::Personality, Is("linux"), "The TCP of this side, by name."),
    field("tcp", Kind::Table(&tcp::SHAPE), Is("{}"), "What differs from the personality."),
];

/// A personality of the scenario's own.
pub static PERSONALITY: Shape = Shape { name: "personality", tag: None, fields: tcp::with_base };

/// All shapes with the heading under which the reference page has them.
pub static ALL: &[(&str, &Shape)] = &[
    ("top level", &ROOT),
    ("nodes", &NODE),
    ("local and remote", &SIDE),
    ("tcp", &tcp::SHAPE),
    ("personalities", &PERSONALITY),
    ("links", &LINK),
    ("back", &BACK),
    ("down and up", &CHANNEL),
    ("channel", &DOCSIS_CHANNEL),
    ("modem", &MODEM),
    ("loss", &LOSS.shape),
    ("rate", &RATE.shape),
    ("delay", &DELAY.shape),
    ("flows", &FLOW),
    ("size", &SIZE.shape),
    ("socket", &SOCKET),
    ("queue", &QUEUE.shape),
    ("circuits", &CIRCUIT),
];

impl From<headend_engine::part::Kind> for Kind {
    fn from(kind: headend_engine::part::Kind) -> Kind {
        use headend_engine::part::Kind as Plain;
        match kind {
            Plain::Text => Kind::Text,
            Plain::Flag => Kind::Flag,
            Plain::Count { min, max } => Kind::Count { min, max },
            Plain::CountOr { min, max, word } => Kind::CountOr { min, max, word },
            Plain::Rate => Kind::Rate,
            Plain::Size { min, max } => Kind::Size { min, max },
            Plain::SizeOr(word) => Kind::SizeOr(word),
            Plain::Span { min, max } => Kind::Span { min, max },
            Plain::Chance => Kind::Chance,
            Plain::Choice(names) => Kind::Choice(names),
            Plain::Capacity => Kind::Capacity,
            Plain::Numbers => Kind::Numbers,
            Plain::Recording(what) => Kind::Recording(what),
            Plain::Cdf => Kind::Cdf,
        }
    }
}

impl Shape {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        (self.fields)().iter().find(|field| field.name == name)
    }

    /// The fields that apply when the tag has this value.
    pub fn fields_with<'a>(&self, tag: Option<&'a str>) -> impl Iterator<Item = &'static Field> + use<'a> {
        (self.fields)().iter().filter(move |field| tag.is_none_or(|tag| field.applies(tag)))
    }
}

impl Field {
    /// True if another field of this name says and takes the same.
    pub(crate) fn is_the_same_as(&self, other: &Field) -> bool {
        (self.kind.expected(), self.absent, self.doc) == (other.kind.expected(), other.absent, other.doc)
    }

    /// True if the field applies when the table's tag has this value.
    pub fn applies(&self, tag: &str) -> bool {
        self.only.is_empty() || self.only.contains(&tag)
    }
}
