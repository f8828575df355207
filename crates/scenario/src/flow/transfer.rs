//! Data over one connection from end to end, or over two through a proxy: what several kinds of flows do.

use headend_engine::time::Duration;
use headend_engine::units::Bytes;
use headend_engine::workload::SizeModel;

use super::{Ports, Socket, Table};
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is};
use crate::fields::{self, Field, HOUR_NS, SIZE, field};
use crate::model::{Node, NodeKind};
use crate::read::{Section, amount};

/// An amount of data over one connection, or over two through a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The amount of data.
    pub bytes: Amount,
    /// The mean time from one instance to the next, which come as a Poisson process; `None` if they all start as the flow
    /// does.
    pub arrivals: Option<Duration>,
    /// The proxy that splits the connection, if any: an index into [`Scenario::nodes`](crate::Scenario::nodes).
    pub via: Option<usize>,
    /// The talk on the connection: who connects, and what else is said.
    pub talk: Talk,
}

/// How much data an instance carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// As much as it can until the duration ends.
    Unlimited,
    /// So much.
    Exactly(Bytes),
    /// As a random draw says.
    Drawn(SizeModel),
}

/// The talk on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Talk {
    /// The sender sends.
    Push {
        /// The way in which the connection comes about.
        opening: Opening,
        /// The last segment is padded to a full one, as in ns; goodput counts the data alone.
        whole_segments: bool,
        /// The circuit of a reliable socket; `None` for a plain TCP.
        socket: Option<Socket>,
    },
    /// The receiver connects and asks, and the sender answers.
    Answer {
        /// Length of the request.
        request: Bytes,
        /// Length of the response header, before the data; may be zero.
        header: Bytes,
        /// The header leaves in a segment of its own, before the data are written.
        header_apart: bool,
    },
}

/// The ways in which a connection comes about over which the sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The connection is there beforehand, as in ns.
    Beforehand,
    /// The sender connects.
    BySender,
}

impl Talk {
    /// Bytes that the receiver asks with.
    pub fn request(&self) -> Bytes {
        if let Talk::Answer { request, .. } = self { *request } else { Bytes::ZERO }
    }

    /// Bytes that come before the data.
    pub fn header(&self) -> Bytes {
        if let Talk::Answer { header, .. } = self { *header } else { Bytes::ZERO }
    }
}

impl Transfer {
    /// The circuit of its reliable socket; `None` for a plain TCP.
    pub fn socket(&self) -> Option<&Socket> {
        match &self.talk {
            Talk::Push { socket, .. } => socket.as_ref(),
            Talk::Answer { .. } => None,
        }
    }

    /// The amount of data of every instance, where it is the same in all; `None` also if there is no end to it.
    pub fn fixed_bytes(&self) -> Option<Bytes> {
        match self.bytes {
            Amount::Exactly(bytes) => Some(bytes),
            Amount::Unlimited | Amount::Drawn(_) => None,
        }
    }

    /// True if the last segment is padded to a full one.
    pub fn whole_segments(&self) -> bool {
        matches!(self.talk, Talk::Push { whole_segments: true, .. })
    }

    pub(super) fn read(table: &Table<'_, '_>, talk: Talk) -> Transfer {
        let bytes = amount(table.section, table.reader.recordings);
        let arrivals = arrivals(table.section, &bytes);
        Transfer { bytes, arrivals, via: via(table), talk }
    }

    pub(super) fn ports(&self) -> Ports {
        Ports::Connection { controls: self.socket().map_or(0, |socket| socket.controls) }
    }
}

pub(super) const VIA: Field = field(
    "via",
    fields::Kind::Text,
    Is(""),
    "The proxy at which the connection ends that one of the two opens, and which connects on to the other. Empty: one \
     connection from end to end.",
);
pub(super) const BYTES: Field = field(
    "bytes",
    fields::Kind::Part(&SIZE),
    Is("unlimited"),
    "How much data; `unlimited` lasts until the duration ends. With a table, each instance has a size of its own.",
);
pub(super) const ARRIVALS: Field = field(
    "arrivals",
    fields::Kind::Span { min: 1_000, max: HOUR_NS },
    Follows("all instances start when the flow does"),
    "The mean time from one instance to the next. They come from `start` on until the duration ends, as a Poisson process, \
     and take the place of `count`.",
);
pub(super) const LOAD: Field = field(
    "load",
    fields::Kind::Rate,
    Follows("what `arrivals` says"),
    "The data that instances ask for, per time: they come as with `arrivals`, as often as this load and their mean size say.",
);

/// The field `arrivals`, or what `load` says in its place.
fn arrivals(section: &Section<'_>, bytes: &Amount) -> Option<Duration> {
    let given: Vec<&str> = ["arrivals", "load"].into_iter().filter(|field| section.has(field)).collect();
    let field = *given.first()?;
    let contradict = |field: &str, text: &str| {
        section.wrong(field, section.place_of(field), Problem::Contradiction(text.to_owned()));
        None
    };
    if given.len() == 2 {
        return contradict("load", "says how often instances come, and so does `arrivals`");
    }
    if section.has("count") {
        return contradict(
            "count",
            &format!("says how many instances there are, and `{field}` lets them come as they do"),
        );
    }
    let mean = match bytes {
        // What is wrong with the size has been told.
        Amount::Unlimited if section.table.get("bytes").is_some_and(|bytes| bytes.data.shown() != "unlimited") => {
            return None;
        }
        Amount::Unlimited => return contradict(field, "lets instances come, and without `bytes` none of them ends"),
        Amount::Exactly(bytes) => *bytes,
        Amount::Drawn(sizes) => sizes.distribution().mean(),
    };
    let gap =
        if field == "load" { section.setting(field).rate().time_for(mean) } else { section.setting(field).span() };
    Some(gap.max(Duration::from_nanos(1)))
}
pub(super) const WHOLE_SEGMENTS: Field = field(
    "whole_segments",
    fields::Kind::Flag,
    Is("false"),
    "The last segment is padded to a full one, as in ns; goodput counts `bytes`.",
);

/// The index of the proxy that a flow goes through, if it names one.
fn via(Table { section, names, nodes, .. }: &Table<'_, '_>) -> Option<usize> {
    let name = section.setting("via").text();
    if name.is_empty() {
        return None;
    }
    let is_proxy = |node: &Node| matches!(node.kind, NodeKind::Proxy(_));
    let known = names.get(name.as_str()).copied().filter(|&index| is_proxy(&nodes[index]));
    if known.is_none() {
        let proxies = nodes.iter().filter(|node| is_proxy(node)).map(|node| node.name.as_str());
        section.unknown("via", "proxy", &name, proxies);
    }
    known
}
