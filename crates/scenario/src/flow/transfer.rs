//! Data over one connection from end to end, or over two through a proxy: what several kinds of flows do.

use headend_engine::units::Bytes;

use super::{Ports, Socket, Table};
use crate::fields::Absent::Is;
use crate::fields::{self, Field, field};
use crate::model::{Node, NodeKind};

/// An amount of data over one connection, or over two through a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The amount of data; `None` until the duration ends.
    pub bytes: Option<Bytes>,
    /// The proxy that splits the connection, if any: an index into [`Scenario::nodes`](crate::Scenario::nodes).
    pub via: Option<usize>,
    /// The talk on the connection: who connects, and what else is said.
    pub talk: Talk,
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

    /// True if the last segment is padded to a full one.
    pub fn whole_segments(&self) -> bool {
        matches!(self.talk, Talk::Push { whole_segments: true, .. })
    }

    pub(super) fn read(table: &Table<'_, '_>, talk: Talk) -> Transfer {
        Transfer { bytes: table.section.setting("bytes").size_or(), via: via(table), talk }
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
    fields::Kind::SizeOr("unlimited"),
    Is("unlimited"),
    "How much data; `unlimited` lasts until the duration ends.",
);
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
