//! Plain links: a queue, a rate, losses and a delay in each direction.

use headend_engine::link::Detour;
use headend_engine::link::delay::DelayModel;
use headend_engine::link::disturbance::Parameters as Disturbance;
use headend_engine::link::headers::HeaderCompression;
use headend_engine::link::loss::LossModel;
use headend_engine::link::queue::Discipline;
use headend_engine::link::service::RateModel;
use headend_engine::part::names;
use headend_engine::time::{Duration, Time};

use super::{DELAY, DELAY_MODEL, Kind, LOSS_MODEL, SPAN, Table};
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is, Required};
use crate::fields::{self, Field, QUEUE, RATE, Shape, field};
use crate::read::{Section, compression, copies, delay, discipline, loss, rate};

/// A wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The direction from the first node of `between` to the second.
    pub there: Direction,
    /// The direction from the second node to the first.
    pub back: Direction,
    /// True if routes lead over it only from the first node to the second.
    pub one_way: bool,
}

/// One direction of a plain link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The rate at which packets are served.
    pub rate: RateModel,
    /// Each packet's service takes longer by a random time, uniform in `0..=processing`.
    pub processing: Duration,
    /// Propagation, one way.
    pub delay: DelayModel,
    /// A time for which the way is longer.
    pub detour: Option<Detour>,
    /// The queue in which packets wait; the one in service is not counted.
    pub queue: Discipline,
    /// The losses on the medium.
    pub loss: LossModel,
    /// What else the medium does to packets.
    pub disturbance: Disturbance,
    /// The compression of headers of control TCPs on the medium.
    pub header_compression: HeaderCompression,
    /// The number of copies that follow each of them on the medium.
    pub header_copies: u32,
    /// How often each of them is sent again when the medium has lost it.
    pub header_repeats: u32,
}

impl Direction {
    /// True if packets may be repeated, corrupted or held, or overtake one another.
    pub(crate) fn disturbs(&self) -> bool {
        self.disturbance.is_any() || self.delay.overtakes()
    }
}

impl Kind for Plain {
    const NAME: &'static str = "plain";
    const DOC: &'static str = "A plain link is a queue, a rate, losses and a delay in each direction.";
    const FIELDS: &'static [Field] = FIELDS;

    fn read(Table { section, recordings }: &Table<'_, '_>) -> Plain {
        let there = Direction {
            rate: rate(section, recordings),
            processing: section.setting("processing").span(),
            delay: delay(section, recordings),
            detour: detour(section),
            queue: discipline(section, recordings),
            loss: loss(section, recordings),
            disturbance: Disturbance {
                jitter: section.setting("jitter").span(),
                reorder: section.setting("reorder").chance(),
                reorder_by: section.setting("reorder_by").span(),
                duplicate: section.setting("duplicate").chance(),
                corrupt: section.setting("corrupt").chance(),
            },
            header_compression: compression(section.setting("header_compression")),
            header_copies: copies(section.setting("header_copies")),
            header_repeats: copies(section.setting("header_repeats")),
        };
        let differs = section.table_under("back", &BACK);
        let given = |field| differs.has(field).then(|| differs.setting(field));
        let back = Direction {
            rate: if differs.has("rate") { rate(&differs, recordings) } else { there.rate.clone() },
            processing: given("processing").map_or(there.processing, |s| s.span()),
            delay: if differs.has("delay") { delay(&differs, recordings) } else { there.delay.clone() },
            // Both ways would be twice as much of the round trip: the way there is enough.
            detour: None,
            queue: if differs.has("queue") { discipline(&differs, recordings) } else { there.queue.clone() },
            loss: if differs.has("loss") { loss(&differs, recordings) } else { there.loss.clone() },
            disturbance: Disturbance {
                jitter: given("jitter").map_or(there.disturbance.jitter, |s| s.span()),
                reorder: given("reorder").map_or(there.disturbance.reorder, |s| s.chance()),
                reorder_by: given("reorder_by").map_or(there.disturbance.reorder_by, |s| s.span()),
                duplicate: given("duplicate").map_or(there.disturbance.duplicate, |s| s.chance()),
                corrupt: given("corrupt").map_or(there.disturbance.corrupt, |s| s.chance()),
            },
            header_compression: given("header_compression").map_or(there.header_compression, compression),
            header_copies: given("header_copies").map_or(there.header_copies, copies),
            header_repeats: given("header_repeats").map_or(there.header_repeats, copies),
        };
        let says_more = ["header_repeats", "delay"].into_iter().any(|field| differs.has(field));
        for (direction, table, is_own) in [(&there, *section, true), (&back, &differs, says_more)] {
            if is_own && direction.header_repeats > 0 && !matches!(direction.delay, DelayModel::Constant(_)) {
                let text =
                    "what the far end asks for takes the way back's time, so the delay must not change".to_owned();
                table.wrong("header_repeats", table.place_of("header_repeats"), Problem::Contradiction(text));
            }
        }
        Plain { there, back, one_way: section.setting("one_way").flag() }
    }

    fn delays(&self) -> Vec<Duration> {
        [&self.there, &self.back].map(|direction| direction.delay.shortest()).into()
    }

    fn graph_nodes(&self) -> usize {
        let disturbed = [&self.there, &self.back].into_iter().filter(|direction| direction.disturbance.is_any());
        2 + disturbed.count()
    }

    fn is_one_way(&self) -> bool {
        self.one_way
    }
}

/// The longer way of the direction there, if it has one.
fn detour(section: &Section<'_>) -> Option<Detour> {
    let time = |field| Time::ZERO + section.setting(field).span();
    let extra = section.setting("detour").span();
    (extra > Duration::ZERO).then(|| Detour { extra, start: time("detour_start"), end: time("detour_end") })
}

const RATE_MODEL: fields::Kind = fields::Kind::Part(&RATE);
const DISCIPLINE: fields::Kind = fields::Kind::Part(&QUEUE);
const CHANCE: fields::Kind = fields::Kind::Chance;
const COPIES: fields::Kind = fields::Kind::Count { min: 0, max: 8 };
const COMPRESSION: fields::Kind = fields::Kind::Choice(|| names(HeaderCompression::ALL));

const FIELDS: &[Field] = &[
    field("rate", RATE_MODEL, Required, "How fast packets are served, from the first node to the second."),
    field(
        "processing",
        SPAN,
        Is("0s"),
        "Each packet's service takes longer by a random time, uniform from zero to this: what a processor takes for it.",
    ),
    DELAY,
    field(
        "detour",
        SPAN,
        Is("0s"),
        "How much longer the way there is from `detour_start` to `detour_end`, as after a route has failed. Packets do not \
         overtake one another when it gets shorter again.",
    ),
    field("detour_start", SPAN, Is("0s"), "When the way gets longer."),
    field("detour_end", SPAN, Is("3600s"), "When it gets shorter again."),
    field(
        "queue",
        DISCIPLINE,
        Is("unlimited"),
        "How much may wait for service; the packet in service is not counted. What does not fit is dropped, and with a \
         table also some of what would.",
    ),
    field("loss", LOSS_MODEL, Is("0%"), "Packets lost on the medium, after service."),
    field(
        "jitter",
        SPAN,
        Is("0s"),
        "Each packet takes longer by a random time, uniform from zero to this, and none overtakes another.",
    ),
    field(
        "reorder",
        CHANCE,
        Is("0%"),
        "The chance that a packet is held for `reorder_by` behind the link, so that those behind it overtake it.",
    ),
    field("reorder_by", SPAN, Is("5ms"), "How long such a packet is held."),
    field(
        "duplicate",
        CHANCE,
        Is("0%"),
        "The chance that a packet arrives twice. One that arrives twice is repeated by no other link.",
    ),
    field(
        "corrupt",
        CHANCE,
        Is("0%"),
        "The chance that a bit of a packet is wrong. Its receiver finds that out by the checksum and throws it away.",
    ),
    field(
        "header_compression",
        COMPRESSION,
        Is("none"),
        "What headers of control TCPs become on the medium. `vj`: what changed since the one before (RFC 1144); what follows a \
         lost one is lost as well, until one is sent again. `twice`: the far end guesses what the lost one was (thesis section 4.9).",
    ),
    field(
        "header_copies",
        COPIES,
        Is("0"),
        "How many copies of each header of a control TCP follow it on the medium, where it is lost only if all of them are \
         (thesis section 4.9). Unlike the `copies` of a circuit, these hide no drop: the queue has one of each.",
    ),
    field(
        "header_repeats",
        COPIES,
        Is("0"),
        "How often a header of a control TCP that the medium has lost is sent again (thesis section 4.9). The far end asks when it would \
         have arrived, and holds those behind it; what it asks takes the way back's time, no room, and is never lost.",
    ),
    field(
        "one_way",
        fields::Kind::Flag,
        Is("false"),
        "Routes lead over it only from the first node to the second, as on a ring whose packets all go round one way.",
    ),
    field("back", fields::Kind::Table(&BACK), Is("{}"), "What differs from the second node to the first."),
];

/// The other direction of a plain link.
pub static BACK: Shape = Shape { name: "direction", tag: None, fields: || BACK_FIELDS };
const BACK_FIELDS: &[Field] = &[
    field("rate", RATE_MODEL, Follows("the link's `rate`"), "How fast packets are served."),
    field("processing", SPAN, Follows("the link's `processing`"), "The longest that a processor takes for a packet."),
    field("delay", DELAY_MODEL, Follows("the link's `delay`"), "Propagation."),
    field("queue", DISCIPLINE, Follows("the link's `queue`"), "How much may wait for service."),
    field("loss", LOSS_MODEL, Follows("the link's `loss`"), "Packets lost on the medium, after service."),
    field("jitter", SPAN, Follows("the link's `jitter`"), "The longest random time that a packet takes longer."),
    field("reorder", CHANCE, Follows("the link's `reorder`"), "The chance that a packet is held and overtaken."),
    field("reorder_by", SPAN, Follows("the link's `reorder_by`"), "How long such a packet is held."),
    field("duplicate", CHANCE, Follows("the link's `duplicate`"), "The chance that a packet arrives twice."),
    field("corrupt", CHANCE, Follows("the link's `corrupt`"), "The chance that a bit of a packet is wrong."),
    field(
        "header_compression",
        COMPRESSION,
        Follows("the link's `header_compression`"),
        "What headers of control TCPs become on the medium.",
    ),
    field("header_copies", COPIES, Follows("the link's `header_copies`"), "Copies of headers on the medium."),
    field("header_repeats", COPIES, Follows("the link's `header_repeats`"), "How often a lost header is sent again."),
];
