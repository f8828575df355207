//! Reliable decoupling sockets: the circuit of a flow's own.

use headend_engine::units::Bytes;

use super::Table;
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is};
use crate::fields::{self, COPIES, Field, Shape, field};
use crate::model::Tcp;
use crate::read::copies_of_headers;
use crate::tcp;

/// The circuit of a reliable decoupling socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The number of control TCPs.
    pub controls: u32,
    /// Bytes of data packets for each header packet.
    pub vmss: Bytes,
    /// The number of copies that follow each header packet.
    pub copies: u32,
    /// Segments that may wait for the circuit; 0: each is made when it may leave.
    pub queue: u32,
    /// The control TCPs.
    pub tcp: Tcp,
}

pub(super) const FIELD: Field = field(
    "socket",
    fields::Kind::Table(&SOCKET),
    Follows("a plain TCP"),
    "With it, even empty: the data go through a reliable decoupling socket (chapter 4 of the thesis). The hosts' TCPs only \
     control errors, and a circuit from `from` to `to` says when they send. Each has a row in the table of circuits.",
);

/// The circuit of a reliable socket.
pub static SOCKET: Shape = Shape { name: "socket", tag: None, fields: || SOCKET_FIELDS };
const SOCKET_FIELDS: &[Field] = &[
    field("controls", fields::Kind::Count { min: 1, max: 100 }, Is("1"), "How many control TCPs there are."),
    field(
        "vmss",
        fields::Kind::Size { min: 64, max: 60_000 },
        Is("1500B"),
        "Bytes of data packets for each header packet.",
    ),
    COPIES,
    field(
        "queue",
        fields::Kind::Count { min: 0, max: 1_000_000 },
        Is("0"),
        "How many segments may wait for the circuit in its tunnel queue (figure 21 of the thesis), into which the host's TCP \
         sends as fast as it can. With 0 each segment is made when it may leave.",
    ),
    field("personality", fields::Kind::Personality, Is("linux"), "The control TCPs, by name."),
    field(
        "tcp",
        fields::Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality. Segments are of `vmss`, and buffers without limit, whatever it says.",
    ),
];

/// The socket of a flow, if it has one.
pub(super) fn read(Table { section: flow, reader, .. }: &Table<'_, '_>) -> Option<Socket> {
    if !flow.has("socket") {
        return None;
    }
    if !flow.setting("via").text().is_empty() {
        let text = "a socket joins `from` and `to`, and the flow goes `via` a proxy, which would end it".to_owned();
        flow.wrong("socket", flow.place_of("socket"), Problem::Contradiction(text));
    }
    let section = flow.table_under("socket", &SOCKET);
    let tcp = reader.tcp(&section);
    Some(Socket {
        controls: u32::try_from(section.setting("controls").count()).expect("the field's range fits 32 bits"),
        vmss: section.setting("vmss").size(),
        copies: copies_of_headers(&section, &tcp),
        queue: u32::try_from(section.setting("queue").count()).expect("the field's range fits 32 bits"),
        tcp,
    })
}
