//! Flows: who sends what to whom. A kind of flow is one file, which holds its name, its documentation, its fields and how
//! it is read from them, and one line in the list of kinds below.

mod bulk;
mod datagrams;
mod ftp_get;
mod http_get;
mod media;
mod program;
mod requests;
mod socket;
mod transfer;

use std::sync::LazyLock;

use headend_engine::rng::Rng;
use headend_engine::time::Duration;
use headend_engine::units::Bytes;
use headend_engine::workload::arrivals as arrivals_of;

use super::fields::Absent::{Is, Required};
use super::fields::{self, DURATION_NS_MAX, FLOWS_MAX, Field, Shape, field};
use super::model::Node;
use super::read::{Names, Reader, Section};

pub use bulk::Bulk;
pub use datagrams::Datagrams;
pub use ftp_get::FtpGet;
pub use http_get::HttpGet;
pub use media::{Media, Over, Stale};
pub use program::Programs;
pub use requests::Requests;
pub use socket::{SOCKET, Socket};
pub use transfer::{Amount, Opening, Talk, Transfer};

/// Flows of one kind between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name in the file.
    pub name: String,
    /// The kind of flow, which says what the applications do.
    pub kind: FlowKind,
    /// The host that sends the data: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub from: usize,
    /// The host that receives it: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub to: usize,
    /// The time at which the flow starts.
    pub start: Duration,
    /// Each instance starts later by a random time, uniform in `0..=stagger`.
    pub stagger: Duration,
    /// The number of instances of flows of the same name before its own: of those of each of many nodes that one table makes.
    pub first: u32,
    /// The number of instances, at least 1; where they come at random, more than ever come.
    pub count: u32,
}

/// One instance of a flow in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// When it starts, before what is random for each instance of its own.
    pub start: Duration,
    /// The amount of data of a transfer that ends.
    pub bytes: Option<Bytes>,
}

/// A kind of flow: what scenarios may say of it, and how it is read.
pub(crate) trait Kind: Sized {
    /// Its name in files.
    const NAME: &'static str;
    /// One sentence on what the applications do.
    const DOC: &'static str;
    /// The fields that it has beside those of every flow. Kinds may share a field, if it is the same in each.
    const FIELDS: &'static [Field];
    /// The words for such flows where they can only be simulated; `None` if Linux can run them.
    const ONLY_SIMULATED: Option<&'static str>;

    /// Reads a flow from its table, and reports its mistakes.
    fn read(table: &Table<'_, '_>) -> Self;

    /// The one connection that carries its data, if it is a flow of that sort.
    fn transfer(&self) -> Option<&Transfer> {
        None
    }

    /// The ports that an instance takes at either host.
    fn ports(&self) -> Ports;
}

/// The ports that an instance of a flow takes at each of its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// One port of those for connections, and one more for each control TCP.
    Connection {
        /// The number of control TCPs.
        controls: u32,
    },
    /// One port of those for streams of datagrams.
    Stream,
}

/// A flow's table, and what it may name besides.
pub(crate) struct Table<'a, 't> {
    pub(crate) section: &'t Section<'a>,
    pub(crate) reader: &'t Reader<'a>,
    pub(crate) names: &'t Names<'a>,
    pub(crate) nodes: &'t [Node],
}

struct Description {
    name: &'static str,
    doc: &'static str,
    fields: &'static [Field],
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident,)+) => {
        /// A kind of flow: the behaviour of the applications at its two ends.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum FlowKind {
            $($(#[$doc])* $Kind($Kind),)+
        }

        const ALL: &[Description] = &[$(Description {
            name: <$Kind as Kind>::NAME,
            doc: <$Kind as Kind>::DOC,
            fields: <$Kind as Kind>::FIELDS,
        },)+];

        impl FlowKind {
            /// The names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$(<$Kind as Kind>::NAME,)+];

            /// The kind of this name as the table says; `None` if there is no such kind.
            pub(crate) fn read(name: &str, table: &Table<'_, '_>) -> Option<FlowKind> {
                $(
                    if name == <$Kind as Kind>::NAME {
                        return Some(FlowKind::$Kind(<$Kind as Kind>::read(table)));
                    }
                )+
                None
            }

            /// The one connection, or two through a proxy, that carries its data; `None` for a flow of another sort.
            pub fn transfer(&self) -> Option<&Transfer> {
                match self { $(FlowKind::$Kind(kind) => Kind::transfer(kind),)+ }
            }

            /// The words for such flows where they can only be simulated; `None` if Linux can run them.
            pub fn only_simulated(&self) -> Option<&'static str> {
                match self { $(FlowKind::$Kind(_) => <$Kind as Kind>::ONLY_SIMULATED,)+ }
            }

            /// The ports that an instance takes at either host.
            pub fn ports(&self) -> Ports {
                match self { $(FlowKind::$Kind(kind) => Kind::ports(kind),)+ }
            }
        }
    };
}

kinds! {
    /// The sender connects and sends.
    Bulk,
    /// The server opens the data connection and sends.
    FtpGet,
    /// The client connects and asks.
    HttpGet,
    /// The client asks again and again.
    Requests,
    /// Packets at a rate.
    Datagrams,
    /// Frames at a rate, each with a deadline.
    Media,
    /// Programs of the user's own.
    Programs,
}

impl Flow {
    /// The proxy that splits its connection, if any: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub fn via(&self) -> Option<usize> {
        self.kind.transfer()?.via
    }

    /// The amount of data that each instance carries, if it is a transfer that ends.
    pub fn bytes(&self) -> Option<Bytes> {
        self.kind.transfer()?.fixed_bytes()
    }

    /// The instances of the run with this seed, which ends after `duration`.
    pub fn instances(&self, seed: u64, duration: Duration) -> Vec<Instance> {
        let of = if self.first > 0 { format!("{}/{}", self.name, self.first) } else { self.name.clone() };
        let rng = |what: &str| Rng::named(seed, &format!("flows/{of}/{what}"));
        let arrivals = self.kind.transfer().and_then(|transfer| transfer.arrivals);
        let starts = match arrivals {
            None => vec![self.start; self.count as usize],
            Some(gap) => {
                let left = duration.saturating_sub(self.start);
                let times = arrivals_of(&mut rng("arrivals"), gap, left, self.count as usize);
                times.into_iter().map(|time| self.start + time).collect()
            }
        };
        let mut sizes = rng("sizes");
        let mut bytes = || match &self.kind.transfer()?.bytes {
            Amount::Unlimited => None,
            Amount::Exactly(bytes) => Some(*bytes),
            Amount::Drawn(model) => Some(model.distribution().draw(&mut sizes)),
        };
        starts.into_iter().map(|start| Instance { start, bytes: bytes() }).collect()
    }
}

/// A flow.
pub static FLOW: Shape = Shape { name: "flow", tag: Some("kind"), fields: || &FIELDS };

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = fields::Kind::Choice(|| FlowKind::NAMES.to_vec());
    let meanings: Vec<String> = ALL.iter().map(|kind| format!("`{}`: {}", kind.name, kind.doc)).collect();
    let span = fields::Kind::Span { min: 0, max: DURATION_NS_MAX };
    let mut all = vec![
        // The table is made once, and kept.
        field("kind", names, Is("bulk"), meanings.join(" ").leak()),
        field("from", fields::Kind::Node, Required, "The host that sends the data."),
        field("to", fields::Kind::Node, Required, "The host that receives the data."),
        field("start", span, Is("0s"), "When the flow starts."),
        field("stagger", span, Is("0s"), "Each instance starts later by a random time, uniform from zero to this."),
        field("count", fields::Kind::Count { min: 1, max: FLOWS_MAX }, Is("1"), "How many of these flows there are."),
    ];
    all.extend(fields::of_kinds("flows", &ALL.iter().map(|kind| (kind.name, kind.fields)).collect::<Vec<_>>()));
    all
});
