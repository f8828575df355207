//! Modems on DOCSIS channels, each alone on its channel or with others.

use headend_engine::cable::docsis::{self, Access, MODEMS_MAX, Shaping};
use headend_engine::part::names;
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use super::{DELAY, Kind, Link, LinkKind, SPAN, Table};
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is};
use crate::fields::{self, Field, SIZE_BYTES_MAX, Shape, field};
use crate::read::{Section, constant_delay};

/// A modem and the channel that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Docsis {
    /// The channel.
    pub channel: DocsisChannel,
    /// The modem.
    pub modem: docsis::Modem,
}

/// The channel that a modem is on: its own, or another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocsisChannel {
    /// One that this link brings.
    Own(docsis::Channel),
    /// The channel of the link with this index, which has one of its own.
    Of(usize),
}

impl Kind for Docsis {
    const NAME: &'static str = "docsis";
    const DOC: &'static str =
        "A docsis link is a modem that asks its headend for each burst, alone on its channel or with others.";
    const FIELDS: &'static [Field] = FIELDS;

    /// Reads a modem. The link with which it shares a channel is found once all links are read.
    fn read(Table { section, .. }: &Table<'_, '_>) -> Docsis {
        let delay = constant_delay(section);
        let modem = modem(&section.table_under("modem", &MODEM));
        let channel = if section.setting("shares").text().is_empty() {
            let before = section.mistakes();
            let channel = channel(&section.table_under("channel", &DOCSIS_CHANNEL), delay);
            if section.mistakes() == before
                && let Err(text) = channel.check()
            {
                section.wrong("channel", section.place_of("channel"), Problem::Contradiction(text));
            }
            DocsisChannel::Own(channel)
        } else {
            DocsisChannel::Of(usize::MAX)
        };
        Docsis { channel, modem }
    }

    fn delays(&self) -> Vec<Duration> {
        match &self.channel {
            DocsisChannel::Own(channel) => vec![channel.propagation],
            DocsisChannel::Of(_) => Vec::new(),
        }
    }

    fn graph_nodes(&self) -> usize {
        match self.channel {
            DocsisChannel::Own(_) => 1,
            DocsisChannel::Of(_) => 0,
        }
    }
}

/// Gives each link that shares a channel the index of the link that has it.
pub(crate) fn find_channels(links: &mut [Link], sections: &[(&str, Section<'_>)]) {
    let has_own =
        |link: &Link| matches!(&link.kind, LinkKind::Docsis(docsis) if matches!(docsis.channel, DocsisChannel::Own(_)));
    let owners: Vec<(usize, String)> =
        links.iter().enumerate().filter(|(_, link)| has_own(link)).map(|(i, link)| (i, link.name.clone())).collect();
    let mut modems = vec![1; links.len()];
    for (link, (_, section)) in links.iter_mut().zip(sections) {
        let LinkKind::Docsis(docsis) = &mut link.kind else { continue };
        let DocsisChannel::Of(owner) = &mut docsis.channel else { continue };
        let name = section.setting("shares").text();
        match owners.iter().find(|(_, other)| *other == name) {
            Some(&(index, _)) => {
                *owner = index;
                modems[index] += 1;
                if modems[index] == MODEMS_MAX + 1 {
                    let (found, expected) =
                        (format!("modem {}", modems[index]), format!("at most {MODEMS_MAX} on a channel"));
                    section.wrong("shares", section.place_of("shares"), Problem::Value { found, expected });
                }
            }
            None => {
                let what = "docsis link with a channel of its own";
                section.unknown("shares", what, &name, owners.iter().map(|(_, other)| other.as_str()));
            }
        }
        for field in ["channel", "delay"].into_iter().filter(|field| section.has(field)) {
            let text = format!("links.{name} says it for all modems on its channel");
            section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        }
    }
}

fn channel(section: &Section<'_>, delay: Duration) -> docsis::Channel {
    let exponent = |name| section.setting(name).count() as u32;
    docsis::Channel {
        down: section.setting("down").rate(),
        symbols: section.setting("symbols").count(),
        bits_per_symbol: section.setting("modulation").choice(BITS_PER_SYMBOL),
        slot_ticks: section.setting("slot_ticks").count(),
        propagation: delay,
        interleaving: section.setting("interleaving").span(),
        map_interval: section.setting("map_interval").span(),
        look_ahead: section.setting("look_ahead").span(),
        processing: section.setting("processing").span(),
        opportunities: section.setting("opportunities").count(),
        fill: section.setting("fill").flag(),
        backoff_start: exponent("backoff_start"),
        backoff_end: exponent("backoff_end"),
        access: section.setting("access").choice(ACCESS),
    }
}

fn modem(section: &Section<'_>) -> docsis::Modem {
    let shaping = |rate: &str, burst: &str, granularity: &str| {
        section.has(rate).then(|| Shaping {
            rate: section.setting(rate).rate(),
            burst: section.setting(burst).size(),
            granularity: section.setting(granularity).span(),
        })
    };
    for (rate, fields) in
        [("down_rate", ["down_burst", "down_granularity"]), ("up_rate", ["up_burst", "up_granularity"])]
    {
        for field in fields.into_iter().filter(|field| section.has(field) && !section.has(rate)) {
            let text = format!("only with `{rate}`: without one nothing waits for tokens");
            section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        }
    }
    docsis::Modem {
        down: shaping("down_rate", "down_burst", "down_granularity"),
        down_delay_max: section.setting("down_delay_max").span(),
        up: shaping("up_rate", "up_burst", "up_granularity"),
        grant_calendar: section.setting("grant_calendar").span(),
        up_buffer: section.setting("up_buffer").size_or().unwrap_or(Bytes::MAX),
        burst_max: section.setting("burst_max").size(),
        piggyback: section.setting("piggyback").flag(),
        concatenation: section.setting("concatenation").flag(),
        fragmentation: section.setting("fragmentation").flag(),
    }
}

const FIELDS: &[Field] = &[
    DELAY,
    field(
        "shares",
        fields::Kind::Text,
        Is(""),
        "The docsis link on whose channel this modem is, too; its `channel` and `delay` hold. Empty: this link has a \
         channel of its own.",
    ),
    field(
        "channel",
        fields::Kind::Table(&DOCSIS_CHANNEL),
        Is("{}"),
        "The channels, and how the headend hands them out.",
    ),
    field("modem", fields::Kind::Table(&MODEM), Is("{}"), "The modem and what its subscriber may use."),
];

/// The channels of a docsis link.
pub static DOCSIS_CHANNEL: Shape = Shape { name: "docsis-channel", tag: None, fields: || DOCSIS_CHANNEL_FIELDS };
/// The modulations of the upstream channel.
const BITS_PER_SYMBOL: &[(&str, u64)] = &[("qpsk", 2), ("16qam", 4)];
/// The ways in which modems may come to send.
const ACCESS: &[(&str, Access)] =
    &[("contention", Access::Contention), ("polled", Access::Polled), ("free", Access::Free)];
const EXPONENT: fields::Kind = fields::Kind::Count { min: 0, max: 15 };
const DOCSIS_CHANNEL_FIELDS: &[Field] = &[
    field(
        "down",
        fields::Kind::Rate,
        Is("26.97Mbit/s"),
        "The downstream channel, which all modems share: 64-QAM in 6 MHz.",
    ),
    field(
        "interleaving",
        SPAN,
        Is("980us"),
        "What interleaving adds to the downstream channel's delay, for data and MAPs alike: 64-QAM and a depth of 32.",
    ),
    field(
        "symbols",
        fields::Kind::Count { min: 160_000, max: 2_560_000 },
        Is("1280000"),
        "Symbols per second of the upstream channel: 160,000 times 1, 2, 4, 8 or 16.",
    ),
    field(
        "modulation",
        fields::Kind::Choice(|| names(BITS_PER_SYMBOL)),
        Is("qpsk"),
        "2 or 4 bits in an upstream symbol.",
    ),
    field(
        "slot_ticks",
        fields::Kind::Count { min: 2, max: 128 },
        Is("8"),
        "A mini-slot, in ticks of 6.25 us: a power of two. With the other defaults it carries 16 bytes.",
    ),
    field("map_interval", SPAN, Is("2ms"), "From one MAP to the next; whole mini-slots."),
    field(
        "look_ahead",
        SPAN,
        Is("4ms"),
        "From a MAP's departure to the first mini-slot that it describes; whole mini-slots.",
    ),
    field("processing", SPAN, Is("0s"), "From the end of a request until a MAP can have the grant."),
    field(
        "opportunities",
        fields::Kind::Count { min: 0, max: 1_000 },
        Is("2"),
        "Request opportunities at the start of each MAP that has room.",
    ),
    field("fill", fields::Kind::Flag, Is("true"), "Mini-slots that nobody was granted are request opportunities too."),
    field(
        "backoff_start",
        EXPONENT,
        Is("0"),
        "A first request waits for one of so many opportunities, as a power of two.",
    ),
    field("backoff_end", EXPONENT, Is("4"), "The window doubles with every request lost, up to this power of two."),
    field(
        "access",
        fields::Kind::Choice(|| names(ACCESS)),
        Is("contention"),
        "`contention`: modems share the request opportunities. `polled`: they have them in turn. `free`: nobody asks, and \
         what comes is sent when the channel is free; no such modem exists.",
    ),
];

/// The modem of a docsis link.
pub static MODEM: Shape = Shape { name: "modem", tag: None, fields: || MODEM_FIELDS };
const CALENDAR: &str = "What must wait for its tokens is released at the next multiple of this; `\"0s\"`: at once.";
const BUCKET: fields::Kind = fields::Kind::Size { min: 1, max: SIZE_BYTES_MAX };
const MODEM_FIELDS: &[Field] = &[
    field(
        "down_rate",
        fields::Kind::Rate,
        Follows("the channel's"),
        "The downstream rate, of Ethernet frames, by a token bucket.",
    ),
    field("down_burst", BUCKET, Is("1522B"), "That bucket."),
    field("down_granularity", SPAN, Is("0s"), CALENDAR),
    field(
        "down_delay_max",
        SPAN,
        Is("512ms"),
        "A packet that would wait longer for its tokens, or without `down_rate` for the channel, is dropped.",
    ),
    field(
        "up_rate",
        fields::Kind::Rate,
        Follows("the channel's"),
        "The rate of the frames that the headend grants, likewise.",
    ),
    field("up_burst", BUCKET, Is("1522B"), "That bucket."),
    field("up_granularity", SPAN, Is("0s"), CALENDAR),
    field(
        "grant_calendar",
        SPAN,
        Is("0s"),
        "The upstream flow is granted at most once in each such stretch of time; `\"0s\"`: whenever it asks.",
    ),
    field(
        "up_buffer",
        fields::Kind::SizeOr("unlimited"),
        Is("unlimited"),
        "The modem's buffer for what waits to be sent.",
    ),
    field("burst_max", BUCKET, Is("1600B"), "The largest burst, with its MAC headers. A single packet may be longer."),
    field("piggyback", fields::Kind::Flag, Is("true"), "A burst asks for the next."),
    field("concatenation", fields::Kind::Flag, Is("true"), "A burst carries several packets."),
    field(
        "fragmentation",
        fields::Kind::Flag,
        Is("false"),
        "The modem asks for more than a burst, and gets it in several.",
    ),
];
