//! The tables of what a link does to packets: which are lost, how fast it serves, and what its queue drops.

use super::Absent::{Is, Required};
use super::{CHANCE, Field, Kind, SECOND_NS, SIZE_BYTES_MAX, Shape, field, field_of};

/// A loss that a single probability does not say.
pub static LOSS: Shape = Shape { name: "loss", tag: Some("model"), fields: || LOSS_FIELDS };
const BURSTS: &[&str] = &["gilbert-elliott"];
const LOSS_FIELDS: &[Field] = &[
    field(
        "model",
        Kind::Choice(|| vec!["bernoulli", "bit", "gilbert-elliott", "list"]),
        Required,
        "`bernoulli`: each packet with the same chance, as a probability alone says. `bit`: each bit with the same \
         chance, and a packet with any of its bits. `gilbert-elliott`: in bursts. `list`: the packets named.",
    ),
    field_of(
        &["bernoulli", "bit"],
        "rate",
        CHANCE,
        Required,
        "Chance of loss of a packet (`bernoulli`) or of a bit (`bit`).",
    ),
    field_of(BURSTS, "good_to_bad", CHANCE, Required, "Chance, at each packet, of leaving the good state."),
    field_of(BURSTS, "bad_to_good", CHANCE, Required, "Chance, at each packet, of leaving the bad state."),
    field_of(BURSTS, "loss_good", CHANCE, Is("0%"), "Chance of loss in the good state."),
    field_of(BURSTS, "loss_bad", CHANCE, Is("100%"), "Chance of loss in the bad state."),
    field_of(&["list"], "packets", Kind::Numbers, Required, "Numbers of the lost packets, from 1, as they pass."),
];

/// A rate that neither a number nor steps say.
pub static RATE: Shape = Shape { name: "rate", tag: None, fields: || RATE_FIELDS };
const RATE_FIELDS: &[Field] = &[field(
    "trace",
    Kind::Text,
    Required,
    "A recording in mahimahi's format, relative to the scenario's folder: on each line a time in milliseconds at which \
     the link can deliver 1500 bytes. After the last it starts again.",
)];

/// A queue that drops before it is full.
pub static QUEUE: Shape = Shape { name: "queue", tag: Some("model"), fields: || QUEUE_FIELDS };
const RED: &[&str] = &["red"];
const HEADERS: &[&str] = &["header-drop"];
const OCCUPANCY: &[&str] = &["occupancy-drop"];
const QUEUE_FIELDS: &[Field] = &[
    field(
        "model",
        Kind::Choice(|| vec!["drop-tail", "red", "header-drop", "occupancy-drop"]),
        Required,
        "`drop-tail`: what does not fit is dropped. `red`: random early detection (Floyd and Jacobson 1993). \
         `header-drop`: the routers of TCP decoupling, which drop header packets first (section 2.2.7 of the thesis). \
         `occupancy-drop`: the same by all bytes that wait (section 2.3.1).",
    ),
    field(
        "buffer",
        Kind::Queue,
        Is("unlimited"),
        "How much may wait at all; packets with `red`, bytes where headers drop.",
    ),
    field_of(
        RED,
        "counts",
        Kind::Choice(|| vec!["packets", "bytes"]),
        Is("packets"),
        "What the queue's length is. With `bytes`, `min` and `max` are packets of 1500 bytes, and a smaller one counts less; the \
         chance of a drop is the same for all lengths (RFC 7141).",
    ),
    field_of(
        RED,
        "min",
        Kind::Count { min: 1, max: 1_000_000 },
        Is("5"),
        "From this average number of packets on some are dropped.",
    ),
    field_of(RED, "max", Kind::Count { min: 2, max: 1_000_000 }, Is("15"), "From this average on, all are."),
    field_of(RED, "max_chance", CHANCE, Is("2%"), "Chance of a drop just below `max`."),
    field_of(
        RED,
        "weight_bits",
        Kind::Count { min: 0, max: 16 },
        Is("9"),
        "The average follows the queue with the weight 2^-`weight_bits` at each packet that has to wait.",
    ),
    field_of(
        RED,
        "departure",
        Kind::Span { min: 1, max: SECOND_NS },
        Is("1ms"),
        "How long a packet takes to leave: so fast the average falls while the queue is empty.",
    ),
    field_of(
        HEADERS,
        "headers",
        Kind::Count { min: 2, max: 1_000_000 },
        Required,
        "Header packets that may wait, HP_Th; from half as many on some are dropped.",
    ),
    field_of(
        OCCUPANCY,
        "threshold",
        Kind::Size { min: 1, max: SIZE_BYTES_MAX },
        Required,
        "From this average of waiting bytes on some header packets are dropped, all of them when the `buffer` is full.",
    ),
    field_of(
        &["header-drop", "occupancy-drop"],
        "unmarked",
        Kind::Choice(|| vec!["data", "header"]),
        Is("data"),
        "What a packet of no circuit counts as (section 3.8.4 of the thesis).",
    ),
];
