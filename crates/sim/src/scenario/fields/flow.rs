//! The table of a flow.

use super::Absent::{Follows, Is, Required};
use super::{DURATION_NS_MAX, FLOWS_MAX, Field, HOUR_NS, Kind, SIZE_BYTES_MAX, Shape, field, field_of};

/// A flow.
pub static FLOW: Shape = Shape { name: "flow", tag: Some("kind"), fields: || FLOW_FIELDS };
const HTTP: &[&str] = &["http-get"];
const GETS: &[&str] = &["http-get", "requests"];
const REQUESTS: &[&str] = &["requests"];
const DATAGRAMS: &[&str] = &["datagrams"];
const TRANSFERS: &[&str] = &["bulk", "ftp-get", "http-get"];
const FLOW_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| vec!["bulk", "ftp-get", "http-get", "requests", "datagrams"]),
        Is("bulk"),
        "`bulk`: `from` connects and sends. `ftp-get`: the server `from` opens the data connection to its client `to` \
         and sends. `http-get`: the client `to` connects to the server `from` and asks, and is answered on the same \
         connection. `requests`: the same again and again, each with a connection of its own and a row in the results. \
         `datagrams`: packets at a rate, with no regard to anything.",
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
    field_of(DATAGRAMS, "packet", Kind::Size { min: 28, max: 65_535 }, Is("1500B"), "A packet, headers included."),
    field_of(
        DATAGRAMS,
        "on",
        Kind::Span { min: 1_000, max: DURATION_NS_MAX },
        Follows("always"),
        "How long packets are sent before each pause of `off`.",
    ),
    field_of(DATAGRAMS, "off", Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "How long none are sent then."),
];
