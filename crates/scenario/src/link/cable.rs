//! The papers' cable path: two channels, a modem with a buffer, and an Ethernet behind it.

use headend_engine::link::loss::LossModel;
use headend_engine::time::Duration;
use headend_engine::units::{Capacity, Rate};

use super::{DELAY, Kind, LOSS_MODEL, Table};
use crate::fields::Absent::{Is, Required};
use crate::fields::{self, Field, Shape, field};
use crate::read::{Section, constant_delay, loss};
use crate::recording::Recordings;

/// Two channels of a cable network, a modem with a buffer, and an Ethernet behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The channel from headend to modem.
    pub down: Channel,
    /// The channel from modem to headend.
    pub up: Channel,
    /// Propagation over the cable, one way, the same in each direction.
    pub delay: Duration,
    /// The modem's buffer towards the Ethernet; the packet in transmission is counted.
    pub modem_buffer: Capacity,
    /// The rate of the Ethernet between modem and subscriber.
    pub lan: Rate,
}

/// One channel of a cable network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The rate at which packets are served.
    pub rate: Rate,
    /// The room for packets that wait before the channel; the one in service is not counted.
    pub queue: Capacity,
    /// The losses on the medium.
    pub loss: LossModel,
}

impl Kind for Cable {
    const NAME: &'static str = "cable";
    const DOC: &'static str =
        "A cable link is the papers' path: two channels, a modem with a buffer and an Ethernet behind it.";
    const FIELDS: &'static [Field] = FIELDS;

    fn read(Table { section, recordings }: &Table<'_, '_>) -> Cable {
        let delay = constant_delay(section);
        Cable {
            down: channel(&section.table_under("down", &CHANNEL), recordings),
            up: channel(&section.table_under("up", &CHANNEL), recordings),
            delay,
            modem_buffer: section.setting("modem_buffer").capacity(),
            lan: section.setting("lan").rate(),
        }
    }

    fn delays(&self) -> Vec<Duration> {
        vec![self.delay]
    }

    fn graph_nodes(&self) -> usize {
        1
    }
}

fn channel(section: &Section<'_>, recordings: &Recordings) -> Channel {
    let (rate, queue) = (section.setting("rate").rate(), section.setting("queue").capacity());
    Channel { rate, queue, loss: loss(section, recordings) }
}

const FIELDS: &[Field] = &[
    DELAY,
    field("down", fields::Kind::Table(&CHANNEL), Required, "The downstream channel, headend to modem."),
    field("up", fields::Kind::Table(&CHANNEL), Required, "The upstream channel, modem to headend."),
    field(
        "modem_buffer",
        fields::Kind::Capacity,
        Is("unlimited"),
        "The modem's buffer towards the Ethernet; the packet in transmission is counted. What does not fit is dropped.",
    ),
    field("lan", fields::Kind::Rate, Is("10Mbit/s"), "The Ethernet between modem and subscriber, each direction."),
];

/// A channel of a cable link.
pub static CHANNEL: Shape = Shape { name: "channel", tag: None, fields: || CHANNEL_FIELDS };
const CHANNEL_FIELDS: &[Field] = &[
    field("rate", fields::Kind::Rate, Required, "How fast packets are served."),
    field(
        "queue",
        fields::Kind::Capacity,
        Is("unlimited"),
        "How much may wait before the channel; the packet in service is not counted.",
    ),
    field("loss", LOSS_MODEL, Is("0%"), "Packets lost on the channel, after service."),
];
