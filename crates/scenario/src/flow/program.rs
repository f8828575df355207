//! Programs of the user's own at the two ends of a flow: what only real hosts can run.

use super::{Kind, Ports, Table};
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is, Required};
use crate::fields::{self, Field, field};
use crate::setting::Setting;

/// Programs of the user's own at the two ends of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The client's program and its arguments; at least one word.
    pub client: Vec<String>,
    /// The program that serves it meanwhile and its arguments; `None` if nothing is started there.
    pub server: Option<Vec<String>>,
    /// True if the client is at `to`, where data arrive.
    pub client_receives: bool,
}

const AT: &[(&str, bool)] = &[("to", true), ("from", false)];
const WORDS: fields::Kind = fields::Kind::List(&fields::Kind::Text);

impl Kind for Programs {
    const NAME: &'static str = "program";
    const DOC: &'static str = "programs of your own run at the two ends: between real hosts only (`headend lab`).";
    const FIELDS: &'static [Field] = &[
        field(
            "program",
            WORDS,
            Required,
            "The client's program and its arguments, such as `[\"curl\", \"http://{server}:{port}/\"]`; no shell reads them. In \
             each `{client}` and `{server}` stand for the addresses of the two ends, and `{port}` for a port that no other flow \
             has. It runs from the flow's start until it ends or the run does.",
        ),
        field(
            "server",
            WORDS,
            Follows("nothing is started there"),
            "The program at the other end, likewise. It runs before the run begins, and as long as the client. If `{port}` is \
             among its words the run waits until it listens there.",
        ),
        field(
            "at",
            fields::Kind::Choice(|| headend_engine::part::names(AT)),
            Is("to"),
            "The end that is the client and runs `program`. Bytes are counted from `from` to `to` either way.",
        ),
    ];
    const ONLY_SIMULATED: Option<&'static str> = None;

    fn read(Table { section, reader, .. }: &Table<'_, '_>) -> Programs {
        if !reader.has_real_hosts() {
            let text = "runs real programs, and here hosts are simulated: `headend lab` runs it".to_owned();
            section.wrong("kind", section.place_of("kind"), Problem::Contradiction(text));
        }
        let words = |field: &str| -> Vec<String> {
            let words: Vec<String> = section.setting(field).list().into_iter().map(Setting::text).collect();
            if words.first().is_some_and(String::is_empty) && section.has(field) {
                let expected = "the name of a program first".to_owned();
                let problem = Problem::Value { found: "\"\"".to_owned(), expected };
                section.wrong(field, section.place_of(field), problem);
            }
            words
        };
        Programs {
            client: words("program"),
            server: section.has("server").then(|| words("server")),
            client_receives: section.setting("at").choice(AT),
        }
    }

    fn ports(&self) -> Ports {
        Ports::Connection { controls: 0 }
    }
}
