//! The client connects and asks, again and again.

use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use super::http_get::REQUEST;
use super::{Kind, Ports, Table};
use crate::fields::Absent::{Is, Required};
use crate::fields::{self, Field, HOUR_NS, SIZE_BYTES_MAX, field};
use crate::setting::Setting;

/// The client connects and asks, again and again, each time over a connection of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Length of a request.
    pub request: Bytes,
    /// The sizes that are asked for in turns; at least one.
    pub sizes: Vec<Bytes>,
    /// The time from the end of one connection to the beginning of the next.
    pub pause: Duration,
    /// The time from a request's arrival to its answer: the shortest, and the range of a uniform random time added to
    /// it.
    pub answer: [Duration; 2],
}

const PAUSE: fields::Kind = fields::Kind::Span { min: 0, max: HOUR_NS };

impl Kind for Requests {
    const NAME: &'static str = "requests";
    const DOC: &'static str = "the same again and again, each with a connection of its own and a row in the results.";
    const FIELDS: &'static [Field] = &[
        REQUEST,
        field(
            "sizes",
            fields::Kind::List(&fields::Kind::Size { min: 1, max: SIZE_BYTES_MAX }),
            Required,
            "What is asked for, in turns; each instance begins at another.",
        ),
        field("pause", PAUSE, Is("0s"), "From the end of one connection to the beginning of the next."),
        field("answer_after", PAUSE, Is("0s"), "What the server takes from a request to its answer."),
        field(
            "answer_spread",
            PAUSE,
            Is("0s"),
            "Each answer begins later by a random time, uniform from zero to this.",
        ),
    ];
    const ONLY_SIMULATED: Option<&'static str> = Some("requests one after another");

    fn read(Table { section, .. }: &Table<'_, '_>) -> Requests {
        Requests {
            request: section.setting("request").size(),
            sizes: section.setting("sizes").list().iter().map(Setting::size).collect(),
            pause: section.setting("pause").span(),
            answer: [section.setting("answer_after").span(), section.setting("answer_spread").span()],
        }
    }

    fn ports(&self) -> Ports {
        Ports::Connection { controls: 0 }
    }
}
