//! The table of a flow.

use super::Absent::{Follows, Is, Required};
use super::circuit::COPIES;
use super::{DURATION_NS_MAX, FLOWS_MAX, Field, HOUR_NS, Kind, SIZE_BYTES_MAX, Shape, field, field_of};
use crate::tcp;

/// A flow.
pub static FLOW: Shape = Shape { name: "flow", tag: Some("kind"), fields: || FLOW_FIELDS };
const HTTP: &[&str] = &["http-get"];
const GETS: &[&str] = &["http-get", "requests"];
const REQUESTS: &[&str] = &["requests"];
const DATAGRAMS: &[&str] = &["datagrams"];
const MEDIA: &[&str] = &["media"];
const TRANSFERS: &[&str] = &["bulk", "ftp-get", "http-get"];
const FLOW_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| vec!["bulk", "ftp-get", "http-get", "requests", "datagrams", "media"]),
        Is("bulk"),
        "`bulk`: `from` connects and sends. `ftp-get`: the server `from` opens the data connection to its client `to` \
         and sends. `http-get`: the client `to` connects to the server `from` and asks, and is answered on the same \
         connection. `requests`: the same again and again, each with a connection of its own and a row in the results. \
         `datagrams`: packets at a rate, with no regard to anything. `media`: frames at a rate, each with a deadline, and a \
         row in a table of their own (chapter 5 of the decoupling thesis).",
    ),
    field("from", Kind::Node, Required, "The host that sends the data."),
    field("to", Kind::Node, Required, "The host that receives the data."),
    field_of(
        TRANSFERS,
        "via",
        Kind::Text,
        Is(""),
        "The proxy at which the connection ends that one of the two opens, and which connects on to the other. \
         Empty: one connection from end to end.",
    ),
    field_of(
        TRANSFERS,
        "bytes",
        Kind::SizeOr("unlimited"),
        Is("unlimited"),
        "How much data; `unlimited` lasts until the duration ends.",
    ),
    field_of(
        &["bulk"],
        "handshake",
        Kind::Flag,
        Is("true"),
        "If `false`, the connections are established beforehand, as in ns.",
    ),
    field_of(
        &["bulk", "ftp-get"],
        "whole_segments",
        Kind::Flag,
        Is("false"),
        "The last segment is padded to a full one, as in ns; goodput counts `bytes`.",
    ),
    field_of(
        &["bulk", "ftp-get"],
        "socket",
        Kind::Table(&SOCKET),
        Follows("a plain TCP"),
        "With it, even empty: the data go through a reliable decoupling socket (chapter 4 of the thesis). The hosts' TCPs only \
         control errors, and a circuit from `from` to `to` says when they send. Each has a row in the table of circuits.",
    ),
    field("start", Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "When the flow starts."),
    field(
        "stagger",
        Kind::Span { min: 0, max: DURATION_NS_MAX },
        Is("0s"),
        "Each instance starts later by a random time, uniform from zero to this.",
    ),
    field("count", Kind::Count { min: 1, max: FLOWS_MAX }, Is("1"), "How many of these flows there are."),
    field_of(GETS, "request", Kind::Size { min: 1, max: 1_000_000 }, Is("300B"), "Length of the request."),
    field_of(
        HTTP,
        "header",
        Kind::Size { min: 0, max: 1_000_000 },
        Is("250B"),
        "Length of the response header, sent before `bytes` and not counted in them.",
    ),
    field_of(
        HTTP,
        "header_apart",
        Kind::Flag,
        Is("true"),
        "The header leaves in a segment of its own, as from the servers of 1996 (tuning paper, section 6.1).",
    ),
    field_of(
        REQUESTS,
        "sizes",
        Kind::List(&Kind::Size { min: 1, max: SIZE_BYTES_MAX }),
        Required,
        "What is asked for, in turns; each instance begins at another.",
    ),
    field_of(
        REQUESTS,
        "pause",
        Kind::Span { min: 0, max: HOUR_NS },
        Is("0s"),
        "From the end of one connection to the beginning of the next.",
    ),
    field_of(
        REQUESTS,
        "answer_after",
        Kind::Span { min: 0, max: HOUR_NS },
        Is("0s"),
        "What the server takes from a request to its answer.",
    ),
    field_of(
        REQUESTS,
        "answer_spread",
        Kind::Span { min: 0, max: HOUR_NS },
        Is("0s"),
        "Each answer begins later by a random time, uniform from zero to this.",
    ),
    field_of(DATAGRAMS, "rate", Kind::Rate, Required, "How fast packets are sent, headers included."),
    field_of(
        &["datagrams", "media"],
        "packet",
        Kind::Size { min: 28, max: 65_535 },
        Is("1500B"),
        "A packet, headers included; of media the largest, over TCP without meaning.",
    ),
    field_of(
        DATAGRAMS,
        "on",
        Kind::Span { min: 1_000, max: DURATION_NS_MAX },
        Follows("always"),
        "How long packets are sent before each pause of `off`.",
    ),
    field_of(DATAGRAMS, "off", Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "How long none are sent then."),
    field_of(
        MEDIA,
        "over",
        Kind::Choice(|| vec!["circuit", "udp", "tcp"]),
        Is("circuit"),
        "What carries the frames. `circuit`: datagrams through an unreliable decoupling socket, a circuit between the two \
         hosts with one control TCP of theirs. `udp`: datagrams that leave as soon as they are made. `tcp`: a connection. \
         Connections are established beforehand.",
    ),
    field_of(
        MEDIA,
        "rates",
        Kind::List(&Kind::Rate),
        Required,
        "Rates at which frames can be made, ascending, headers not included. Of several the source begins with the lowest, \
         and chooses by how much it reads is waiting to leave: a lower one when that takes more than a quarter of the \
         `deadline`, a higher one after 2 s in which it took less than a frame's time. With `udp` there is nothing to \
         read, and one rate.",
    ),
    field_of(
        MEDIA,
        "frame_interval",
        Kind::Span { min: 100_000, max: HOUR_NS },
        Is("40ms"),
        "From one frame to the next.",
    ),
    field_of(
        MEDIA,
        "key_every",
        Kind::Count { min: 1, max: 10_000 },
        Is("1"),
        "Every so-many-th frame is a key frame, which can be larger.",
    ),
    field_of(
        MEDIA,
        "key_size",
        Kind::Count { min: 1, max: 1_000 },
        Is("1"),
        "How many times as large as the others; the rate is that of all together.",
    ),
    field_of(
        MEDIA,
        "deadline",
        Kind::Span { min: 1_000, max: HOUR_NS },
        Is("200ms"),
        "A frame that is whole at the other end later than so long after it was made is late.",
    ),
    field_of(
        MEDIA,
        "stale",
        Kind::Choice(|| vec!["keep", "withdraw", "replace"]),
        Is("withdraw"),
        "What the source does, whenever it has made a frame, with those that wait and are stale. `keep`: nothing. `withdraw`: it \
         takes them back. `replace`: and the new one takes the place of the first. Over TCP, only what the send buffer has not \
         begun to take can be taken back, and `replace` is `withdraw`. With `udp` nothing waits.",
    ),
    field_of(
        MEDIA,
        "stale_after",
        Kind::Span { min: 1_000, max: HOUR_NS },
        Follows("half of the `deadline`"),
        "A frame that has waited so long is stale if nothing of it has left; otherwise it is after the `deadline`.",
    ),
    field_of(
        MEDIA,
        "gmb",
        Kind::Rate,
        Follows("nothing guaranteed"),
        "With `over = \"circuit\"`: the minimum rate, headers included, sent with no regard to congestion.",
    ),
    field_of(
        MEDIA,
        "vmss",
        Kind::Size { min: 64, max: 60_000 },
        Is("1500B"),
        "With `over = \"circuit\"`: bytes of datagrams for each header packet.",
    ),
    field_of(
        MEDIA,
        "queue",
        Kind::Capacity,
        Is("100 packets"),
        "With `over = \"circuit\"`: how much may wait to leave. A frame that finds no room is skipped.",
    ),
];

/// The circuit of a reliable socket.
pub static SOCKET: Shape = Shape { name: "socket", tag: None, fields: || SOCKET_FIELDS };
const SOCKET_FIELDS: &[Field] = &[
    field("controls", Kind::Count { min: 1, max: 100 }, Is("1"), "How many control TCPs there are."),
    field("vmss", Kind::Size { min: 64, max: 60_000 }, Is("1500B"), "Bytes of data packets for each header packet."),
    COPIES,
    field("personality", Kind::Personality, Is("linux"), "The control TCPs, by name."),
    field(
        "tcp",
        Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality. Segments are of `vmss`, and buffers without limit, whatever it says.",
    ),
];
