//! Links: the nodes that they join, and what carries their packets. A kind of link is one file, which holds its name, its
//! documentation, its fields and how it is read from them, and one line in the list of kinds below.

mod cable;
mod docsis;
mod plain;

use std::sync::LazyLock;

use headend_engine::time::Duration;

use super::fields::Absent::{Is, Required};
use super::fields::{self, Field, HOUR_NS, LOSS, Shape, field};
use super::read::Section;
use super::recording::Recordings;

pub use cable::{CHANNEL, Cable, Channel};
pub(crate) use docsis::find_channels;
pub use docsis::{DOCSIS_CHANNEL, Docsis, DocsisChannel, MODEM};
pub use plain::{BACK, Direction, Plain};

/// Two directions of transmission between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name in the file.
    pub name: String,
    /// Indices into [`Scenario::nodes`](super::Scenario::nodes), as the file gives them.
    pub between: [usize; 2],
    /// The kind of link that carries the packets.
    pub kind: LinkKind,
}

/// A kind of link: what scenarios may say of it, and how it is read.
pub(crate) trait Kind: Sized {
    /// Its name in files.
    const NAME: &'static str;
    /// One sentence on what such a link is.
    const DOC: &'static str;
    /// The fields that it has beside those of every link. Kinds may share a field, if it is the same in each.
    const FIELDS: &'static [Field];

    /// Reads a link from its table, and reports its mistakes.
    fn read(table: &Table<'_, '_>) -> Self;

    /// The delays that packets meet on it, one way; none for a link that has its delay from another.
    fn delays(&self) -> Vec<Duration>;

    /// The number of nodes that carry its packets in the graph of the network.
    fn graph_nodes(&self) -> usize;

    /// True if routes lead over it only from the first node of `between` to the second.
    fn is_one_way(&self) -> bool {
        false
    }
}

/// A link's table, and the recordings that it may name.
pub(crate) struct Table<'a, 't> {
    pub(crate) section: &'t Section<'a>,
    pub(crate) recordings: &'t Recordings,
}

struct Description {
    name: &'static str,
    doc: &'static str,
    fields: &'static [Field],
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident($Held:ty),)+) => {
        /// A kind of link, which says what carries its packets.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LinkKind {
            $($(#[$doc])* $Kind($Held),)+
        }

        const ALL: &[Description] = &[$(Description {
            name: <$Kind as Kind>::NAME,
            doc: <$Kind as Kind>::DOC,
            fields: <$Kind as Kind>::FIELDS,
        },)+];

        impl LinkKind {
            /// The names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$(<$Kind as Kind>::NAME,)+];

            /// Reads a link of the kind of this name from its table; `None` if there is no such kind.
            pub(crate) fn read(name: &str, table: &Table<'_, '_>) -> Option<LinkKind> {
                $(
                    if name == <$Kind as Kind>::NAME {
                        return Some(LinkKind::$Kind(<$Kind as Kind>::read(table).into()));
                    }
                )+
                None
            }

            /// The delays that packets meet on it, one way; none for a link that has its delay from another.
            pub fn delays(&self) -> Vec<Duration> {
                match self { $(LinkKind::$Kind(kind) => Kind::delays(kind as &$Kind),)+ }
            }

            /// The number of nodes that carry its packets in the graph of the network.
            pub fn graph_nodes(&self) -> usize {
                match self { $(LinkKind::$Kind(kind) => Kind::graph_nodes(kind as &$Kind),)+ }
            }

            /// True if routes lead over it only from the first node of `between` to the second.
            pub fn is_one_way(&self) -> bool {
                match self { $(LinkKind::$Kind(kind) => Kind::is_one_way(kind as &$Kind),)+ }
            }
        }
    };
}

kinds! {
    /// A wire.
    Plain(Box<Plain>),
    /// The papers' cable path; the headend is the first node of `between`, the subscriber the second.
    Cable(Cable),
    /// A modem on a DOCSIS channel; the headend is the first node of `between`, the subscriber the second.
    Docsis(Box<Docsis>),
}

/// The fields of a link.
pub static LINK: Shape = Shape { name: "link", tag: Some("kind"), fields: || &FIELDS };

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = fields::Kind::Choice(|| LinkKind::NAMES.to_vec());
    let meanings: Vec<&str> = ALL.iter().map(|kind| kind.doc).collect();
    let mut all = vec![
        // The table is made once, and kept.
        field("kind", names, Is("plain"), meanings.join(" ").leak()),
        field(
            "between",
            fields::Kind::Pair,
            Required,
            "The two nodes it joins. The first is the headend's side of a cable or docsis link; the second the subscriber's.",
        ),
    ];
    all.extend(fields::of_kinds("links", &ALL.iter().map(|kind| (kind.name, kind.fields)).collect::<Vec<_>>()));
    all
});

const SPAN: fields::Kind = fields::Kind::Span { min: 0, max: HOUR_NS };
const LOSS_MODEL: fields::Kind = fields::Kind::Part(&LOSS);
const DELAY_MODEL: fields::Kind = fields::Kind::Part(&fields::DELAY);
const DELAY: Field = field(
    "delay",
    DELAY_MODEL,
    Is("0s"),
    "Propagation one way, the same in each direction. On a plain link it may change.",
);
