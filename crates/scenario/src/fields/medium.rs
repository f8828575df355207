//! The tables of what a link does to packets: which are lost, how fast it serves, and what its queue drops.

use std::sync::LazyLock;

use headend_engine::link::queue::Discipline;

use super::Absent::{Is, Required};
use super::part::of_family;
use super::{CHANCE, Field, Kind, Shape, field, field_of};

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
pub static QUEUE: Shape = Shape { name: "queue", tag: Some("model"), fields: || &QUEUE_FIELDS };
static QUEUE_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| Discipline::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Required, ""), Discipline::ALL)
});
