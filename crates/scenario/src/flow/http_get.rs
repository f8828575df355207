//! The client connects and asks; the server answers on the same connection (tuning paper s6.1).

use super::transfer::{ARRIVALS, BYTES, LOAD, VIA};
use super::{Kind, Ports, Table, Talk, Transfer};
use crate::fields::Absent::Is;
use crate::fields::{self, Field, field};

/// The client connects and asks; the server answers on the same connection (tuning paper s6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet(pub Transfer);

pub(super) const REQUEST: Field =
    field("request", fields::Kind::Size { min: 1, max: 1_000_000 }, Is("300B"), "Length of the request.");

impl Kind for HttpGet {
    const NAME: &'static str = "http-get";
    const DOC: &'static str =
        "the client `to` connects to the server `from` and asks, and is answered on the same connection.";
    const FIELDS: &'static [Field] = &[
        VIA,
        BYTES,
        ARRIVALS,
        LOAD,
        REQUEST,
        field(
            "header",
            fields::Kind::Size { min: 0, max: 1_000_000 },
            Is("250B"),
            "Length of the response header, sent before `bytes` and not counted in them.",
        ),
        field(
            "header_apart",
            fields::Kind::Flag,
            Is("true"),
            "The header leaves in a segment of its own, as from the servers of 1996 (tuning paper, section 6.1).",
        ),
    ];
    const ONLY_SIMULATED: Option<&'static str> = None;

    fn read(table: &Table<'_, '_>) -> HttpGet {
        let section = table.section;
        let talk = Talk::Answer {
            request: section.setting("request").size(),
            header: section.setting("header").size(),
            header_apart: section.setting("header_apart").flag(),
        };
        HttpGet(Transfer::read(table, talk))
    }

    fn transfer(&self) -> Option<&Transfer> {
        Some(&self.0)
    }

    fn ports(&self) -> Ports {
        self.0.ports()
    }
}
