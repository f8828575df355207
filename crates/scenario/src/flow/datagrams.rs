//! Packets at a rate, with no regard to anything.

use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};

use super::{Kind, Ports, Table};
use crate::fields::Absent::{Follows, Is, Required};
use crate::fields::{self, DURATION_NS_MAX, Field, field};

/// Packets at a rate, with no regard to anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// The rate at which packets are sent, headers included.
    pub rate: Rate,
    /// A packet on the wire.
    pub packet: Bytes,
    /// The time for which packets are sent before each pause; `None` for ever.
    pub on: Option<Duration>,
    /// The length of a pause.
    pub off: Duration,
}

pub(super) const PACKET: Field = field(
    "packet",
    fields::Kind::Size { min: 28, max: 65_535 },
    Is("1500B"),
    "A packet, headers included; of media the largest, over TCP without meaning.",
);

impl Kind for Datagrams {
    const NAME: &'static str = "datagrams";
    const DOC: &'static str = "packets at a rate, with no regard to anything.";
    const FIELDS: &'static [Field] = &[
        field("rate", fields::Kind::Rate, Required, "How fast packets are sent, headers included."),
        PACKET,
        field(
            "on",
            fields::Kind::Span { min: 1_000, max: DURATION_NS_MAX },
            Follows("always"),
            "How long packets are sent before each pause of `off`.",
        ),
        field("off", fields::Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "How long none are sent then."),
    ];
    const ONLY_SIMULATED: Option<&'static str> = None;

    fn read(Table { section, .. }: &Table<'_, '_>) -> Datagrams {
        Datagrams {
            rate: section.setting("rate").rate(),
            packet: section.setting("packet").size(),
            on: section.has("on").then(|| section.setting("on").span()),
            off: section.setting("off").span(),
        }
    }

    fn ports(&self) -> Ports {
        Ports::Stream
    }
}
