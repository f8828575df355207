//! The sender connects and sends.

use super::transfer::{ARRIVALS, BYTES, LOAD, VIA, WHOLE_SEGMENTS};
use super::{Kind, Opening, Ports, Table, Talk, Transfer, socket};
use crate::fields::Absent::Is;
use crate::fields::{self, Field, field};

/// The sender connects and sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk(pub Transfer);

impl Kind for Bulk {
    const NAME: &'static str = "bulk";
    const DOC: &'static str = "`from` connects and sends.";
    const FIELDS: &'static [Field] = &[
        VIA,
        BYTES,
        ARRIVALS,
        LOAD,
        field(
            "handshake",
            fields::Kind::Flag,
            Is("true"),
            "If `false`, the connections are established beforehand, as in ns.",
        ),
        WHOLE_SEGMENTS,
        socket::FIELD,
    ];
    const ONLY_SIMULATED: Option<&'static str> = None;

    fn read(table: &Table<'_, '_>) -> Bulk {
        let has_handshake = table.section.setting("handshake").flag();
        let opening = if has_handshake { Opening::BySender } else { Opening::Beforehand };
        let whole_segments = table.section.setting("whole_segments").flag();
        Bulk(Transfer::read(table, Talk::Push { opening, whole_segments, socket: socket::read(table) }))
    }

    fn transfer(&self) -> Option<&Transfer> {
        Some(&self.0)
    }

    fn ports(&self) -> Ports {
        self.0.ports()
    }
}
