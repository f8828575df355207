//! The table of a circuit.

use super::Absent::{Follows, Is, Required};
use super::{Field, HOUR_NS, Kind, Shape, field};
use crate::tcp;
use headend_engine::circuit::carried::Method;
use headend_engine::circuit::in_band::Losses;
use headend_engine::part::names;

/// The copies of header packets, of a trunk or of a socket.
pub(crate) const COPIES: Field = field(
    "copies",
    Kind::Count { min: 0, max: 8 },
    Is("0"),
    "How many copies follow each header packet, which is lost only if all of them are (thesis section 4.9). The control TCPs must \
     have timestamps.",
);

/// The connection in which users' packets cross, if they do not cross as they are.
pub(crate) const IMPLEMENTATIONS: &[(&str, Option<Method>)] =
    &[("decoupling", None), ("encapsulation", Some(Method::Encapsulation)), ("byte-stream", Some(Method::ByteStream))];

/// The signals that can tell a circuit of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossSignal {
    Headers,
    InBand,
}

pub(crate) const LOSS_SIGNALS: &[(&str, LossSignal)] =
    &[("headers", LossSignal::Headers), ("in-band", LossSignal::InBand)];

/// The losses that can count as congestion, with in-band control.
pub(crate) const LOSSES: &[(&str, Losses)] = &[("all", Losses::All), ("delayed", Losses::Delayed)];

/// The ways of dropping packets that wait to enter a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropsTag {
    Tail,
    Early,
    Fair,
}

pub(crate) const DROPS: &[(&str, DropsTag)] =
    &[("tail", DropsTag::Tail), ("early", DropsTag::Early), ("fair", DropsTag::Fair)];

/// A circuit of TCP decoupling.
pub static CIRCUIT: Shape = Shape { name: "circuit", tag: None, fields: || CIRCUIT_FIELDS };
const CIRCUIT_FIELDS: &[Field] = &[
    field("from", Kind::Text, Required, "The router at which packets enter."),
    field(
        "to",
        Kind::Text,
        Required,
        "The router at which they leave; packets that pass `from` on a way over `to` enter.",
    ),
    field(
        "flows",
        Kind::List(&Kind::Text),
        Follows("all flows"),
        "Only packets of these flows enter, data as well as acknowledgements.",
    ),
    field(
        "implementation",
        Kind::Choice(|| names(IMPLEMENTATIONS)),
        Is("decoupling"),
        "How users' packets cross (section 3.4 of the thesis). `decoupling`: as they are, with header packets of control TCPs \
         behind them. `encapsulation`: each in a segment of one TCP connection. `byte-stream`: one after another as the data \
         of one TCP connection, each with its length in two bytes before it. The last two have no `controls`, `vmss`, `copies` and `gmb`.",
    ),
    field(
        "loss_signal",
        Kind::Choice(|| names(LOSS_SIGNALS)),
        Is("headers"),
        "What tells of congestion. `headers`: the loss of header packets, as in the thesis, for routers that know of them. \
         `in-band`: the loss of users' packets themselves, each in a numbered datagram that takes 36 bytes more; there are no \
         header packets, so no `vmss` and no `copies`, and `controls` says how many TCPs the circuit stands for. For routers \
         that know of no headers.",
    ),
    field(
        "losses",
        Kind::Choice(|| names(LOSSES)),
        Is("all"),
        "With `loss_signal = \"in-band\"`: which losses are congestion. `all`, or only those next to which the one-way delay was \
         high (`delayed`): the others are damage, unless more than a tenth is lost. Not for a path whose queue drops early, or \
         holds less than two milliseconds: there a circuit takes nearly all of what it shares.",
    ),
    field(
        "mtu",
        Kind::Size { min: 68, max: 65_535 },
        Is("1500B"),
        "The longest packet on the way, for an `implementation` with packets of its own: longer ones go in fragments.",
    ),
    field(
        "delays",
        Kind::Flag,
        Is("false"),
        "Whether to note how long each user's packet takes, and in which order they come: for the columns from `passed` on.",
    ),
    field("controls", Kind::Count { min: 1, max: 1_000 }, Is("1"), "How many control TCPs there are."),
    field("vmss", Kind::Size { min: 64, max: 60_000 }, Is("1500B"), "Bytes of users' packets for each header packet."),
    COPIES,
    field(
        "gmb",
        Kind::Rate,
        Follows("nothing guaranteed"),
        "The guaranteed minimum bandwidth: sent with no regard to congestion.",
    ),
    field("personality", Kind::Personality, Is("linux"), "The control TCPs or the one connection, by name."),
    field(
        "tcp",
        Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality. Segments are of `vmss` (of one packet, if each is in one), and buffers without \
         limit, whatever it says.",
    ),
    field("queue", Kind::Capacity, Is("100 packets"), "How much may wait to enter."),
    field(
        "drops",
        Kind::Choice(|| names(DROPS)),
        Is("tail"),
        "What is dropped of what waits. `tail`: what does not fit. `early`: some packets before that, by random early \
         detection. `fair`: a packet of each flow when the circuit's window shrinks, and none of a flow that has just lost \
         one (section 3.6 of the thesis). The last two need a `queue` in packets.",
    ),
    field(
        "threshold",
        Kind::Count { min: 1, max: 1_000_000 },
        Is("10"),
        "With `drops = \"early\"` or `\"fair\"`: nothing is dropped that has room while fewer packets wait.",
    ),
    field(
        "user_rtt",
        Kind::Span { min: 1_000, max: HOUR_NS },
        Is("500ms"),
        "With `drops = \"fair\"`: the longest round trip of users; a flow silent for longer is not active.",
    ),
    field(
        "exempt_percent",
        Kind::Count { min: 1, max: 10_000 },
        Is("50"),
        "With `drops = \"fair\"`: how many packets of a flow pass after one was dropped, K of section 3.6, in hundredths of \
         those that it sends until it is as fast as before.",
    ),
    field(
        "classes",
        Kind::List(&Kind::List(&Kind::Text)),
        Follows("one class"),
        "Flows that wait apart, a list of them for each class, the most urgent class first: a packet leaves when no class \
         before its own has one. What is in no list waits in a last class. `queue` and `drops` hold for each.",
    ),
    field(
        "weights",
        Kind::List(&Kind::Count { min: 1, max: 1_000 }),
        Follows("absolute priority"),
        "Classes take turns instead, and share the circuit's bytes in proportion to these: a number for each of \
         `classes`. What is in no list has 1.",
    ),
];
