//! Losses, rates, delays and queues of links: four families of parts of the engine, each of which describes itself.

use std::sync::LazyLock;

use headend_engine::link::delay::DelayModel;
use headend_engine::link::loss::LossModel;
use headend_engine::link::queue::Discipline;
use headend_engine::link::service::RateModel;

use super::Absent::{Is, Required};
use super::part::of_family;
use super::{Family, Field, HOUR_NS, Kind, Shape, field};

/// The losses of a link.
pub static LOSS: Family = Family {
    shape: Shape { name: "loss", tag: Some("model"), fields: || &LOSS_FIELDS },
    plain: Kind::Chance,
    steps: Some("times and probabilities such as [[\"0s\", \"0%\"], [\"5s\", \"2%\"]]"),
    table: "{ model = \"bit\", rate = 1e-7 }",
};
static LOSS_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| LossModel::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Is("trace"), ""), LossModel::ALL)
});

/// The rate at which a link serves.
pub static RATE: Family = Family {
    shape: Shape { name: "rate", tag: Some("model"), fields: || &RATE_FIELDS },
    plain: Kind::Rate,
    steps: Some("times and rates such as [[\"0s\", \"10Mbit/s\"], [\"5s\", \"2Mbit/s\"]]"),
    table: "{ trace = \"path.up\" }",
};
static RATE_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| RateModel::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Is("trace"), ""), RateModel::ALL)
});

/// The delay of a link, one way.
pub static DELAY: Family = Family {
    shape: Shape { name: "delay", tag: Some("model"), fields: || &DELAY_FIELDS },
    plain: Kind::Span { min: 0, max: HOUR_NS },
    steps: Some("times and delays such as [[\"0s\", \"20ms\"], [\"15s\", \"35ms\"]]"),
    table: "{ trace = \"path.csv\" }",
};
static DELAY_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| DelayModel::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Is("trace"), ""), DelayModel::ALL)
});

/// The queue of a link, and the packets that it drops.
pub static QUEUE: Family = Family {
    shape: Shape { name: "queue", tag: Some("model"), fields: || &QUEUE_FIELDS },
    plain: Kind::Capacity,
    steps: None,
    table: "{ model = \"red\", buffer = \"50 packets\" }",
};
static QUEUE_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let names = Kind::Choice(|| Discipline::ALL.iter().map(|part| part.name).collect());
    of_family(field("model", names, Required, ""), Discipline::ALL)
});
