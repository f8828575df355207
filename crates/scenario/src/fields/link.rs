//! The tables of links: plain, cable and DOCSIS, and what the direction back may differ in.

use headend_engine::cable::docsis::Access;
use headend_engine::link::headers::HeaderCompression;
use headend_engine::part::names;

use super::Absent::{Follows, Is, Required};
use super::medium::{LOSS, QUEUE, RATE};
use super::{DELAY, Field, Kind, SIZE_BYTES_MAX, Shape, field, field_of};

const RATE_MODEL: Kind = Kind::Part(&RATE);
const DISCIPLINE: Kind = Kind::Part(&QUEUE);
const LOSS_MODEL: Kind = Kind::Part(&LOSS);
const COPIES: Kind = Kind::Count { min: 0, max: 8 };
const COMPRESSION: Kind = Kind::Choice(|| names(HeaderCompression::ALL));

/// A link.
pub static LINK: Shape = Shape { name: "link", tag: Some("kind"), fields: || LINK_FIELDS };
const PLAIN: &[&str] = &["plain"];
const CABLE: &[&str] = &["cable"];
const DOCSIS: &[&str] = &["docsis"];
const LINK_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| vec!["plain", "cable", "docsis"]),
        Is("plain"),
        "A plain link is a queue, a rate, losses and a delay in each direction. A cable link is the papers' path: \
         two channels, a modem with a buffer and an Ethernet behind it. A docsis link is a modem that asks its headend for \
         each burst, alone on its channel or with others.",
    ),
    field(
        "between",
        Kind::Pair,
        Required,
        "The two nodes it joins. The first is the headend's side of a cable or docsis link; the second the subscriber's.",
    ),
    field_of(PLAIN, "rate", RATE_MODEL, Required, "How fast packets are served, from the first node to the second."),
    field_of(
        PLAIN,
        "processing",
        DELAY,
        Is("0s"),
        "Each packet's service takes longer by a random time, uniform from zero to this: what a processor takes for it.",
    ),
    field("delay", DELAY, Is("0s"), "Propagation one way, the same in each direction."),
    field_of(
        PLAIN,
        "queue",
        DISCIPLINE,
        Is("unlimited"),
        "How much may wait for service; the packet in service is not counted. What does not fit is dropped, and with a \
         table also some of what would.",
    ),
    field_of(PLAIN, "loss", LOSS_MODEL, Is("0%"), "Packets lost on the medium, after service."),
    field_of(
        PLAIN,
        "header_compression",
        COMPRESSION,
        Is("none"),
        "What headers of control TCPs become on the medium. `vj`: what changed since the one before (RFC 1144); what follows a \
         lost one is lost as well, until one is sent again. `twice`: the far end guesses what the lost one was (section 4.9).",
    ),
    field_of(
        PLAIN,
        "header_copies",
        COPIES,
        Is("0"),
        "How many copies of each header of a control TCP follow it on the medium, where it is lost only if all of them are \
         (section 4.9). Unlike the `copies` of a circuit, these hide no drop: the queue has one of each.",
    ),
    field_of(
        PLAIN,
        "one_way",
        Kind::Flag,
        Is("false"),
        "Routes lead over it only from the first node to the second, as on a ring whose packets all go round one way.",
    ),
    field_of(PLAIN, "back", Kind::Table(&BACK), Is("{}"), "What differs from the second node to the first."),
    field_of(CABLE, "down", Kind::Table(&CHANNEL), Required, "The downstream channel, headend to modem."),
    field_of(CABLE, "up", Kind::Table(&CHANNEL), Required, "The upstream channel, modem to headend."),
    field_of(
        CABLE,
        "modem_buffer",
        Kind::Capacity,
        Is("unlimited"),
        "The modem's buffer towards the Ethernet; the packet in transmission is counted. What does not fit is dropped.",
    ),
    field_of(CABLE, "lan", Kind::Rate, Is("10Mbit/s"), "The Ethernet between modem and subscriber, each direction."),
    field_of(
        DOCSIS,
        "shares",
        Kind::Text,
        Is(""),
        "The docsis link on whose channel this modem is, too; its `channel` and `delay` hold. Empty: this link has a \
         channel of its own.",
    ),
    field_of(
        DOCSIS,
        "channel",
        Kind::Table(&DOCSIS_CHANNEL),
        Is("{}"),
        "The channels, and how the headend hands them out.",
    ),
    field_of(DOCSIS, "modem", Kind::Table(&MODEM), Is("{}"), "The modem and what its subscriber may use."),
];

/// The other direction of a plain link.
pub static BACK: Shape = Shape { name: "direction", tag: None, fields: || BACK_FIELDS };
const BACK_FIELDS: &[Field] = &[
    field("rate", RATE_MODEL, Follows("the link's `rate`"), "How fast packets are served."),
    field("processing", DELAY, Follows("the link's `processing`"), "The longest that a processor takes for a packet."),
    field("delay", DELAY, Follows("the link's `delay`"), "Propagation."),
    field("queue", DISCIPLINE, Follows("the link's `queue`"), "How much may wait for service."),
    field("loss", LOSS_MODEL, Follows("the link's `loss`"), "Packets lost on the medium, after service."),
    field(
        "header_compression",
        COMPRESSION,
        Follows("the link's `header_compression`"),
        "What headers of control TCPs become on the medium.",
    ),
    field("header_copies", COPIES, Follows("the link's `header_copies`"), "Copies of headers on the medium."),
];

/// A channel of a cable link.
pub static CHANNEL: Shape = Shape { name: "channel", tag: None, fields: || CHANNEL_FIELDS };
const CHANNEL_FIELDS: &[Field] = &[
    field("rate", Kind::Rate, Required, "How fast packets are served."),
    field(
        "queue",
        Kind::Capacity,
        Is("unlimited"),
        "How much may wait before the channel; the packet in service is not counted.",
    ),
    field("loss", LOSS_MODEL, Is("0%"), "Packets lost on the channel, after service."),
];

/// The channels of a docsis link.
pub static DOCSIS_CHANNEL: Shape = Shape { name: "docsis-channel", tag: None, fields: || DOCSIS_CHANNEL_FIELDS };
/// The modulations of the upstream channel.
pub const BITS_PER_SYMBOL: &[(&str, u64)] = &[("qpsk", 2), ("16qam", 4)];
/// How modems come to send.
pub const ACCESS: &[(&str, Access)] =
    &[("contention", Access::Contention), ("polled", Access::Polled), ("free", Access::Free)];
const EXPONENT: Kind = Kind::Count { min: 0, max: 15 };
const DOCSIS_CHANNEL_FIELDS: &[Field] = &[
    field("down", Kind::Rate, Is("26.97Mbit/s"), "The downstream channel, which all modems share: 64-QAM in 6 MHz."),
    field(
        "interleaving",
        DELAY,
        Is("980us"),
        "What interleaving adds to the downstream channel's delay, for data and MAPs alike: 64-QAM and a depth of 32.",
    ),
    field(
        "symbols",
        Kind::Count { min: 160_000, max: 2_560_000 },
        Is("1280000"),
        "Symbols per second of the upstream channel: 160,000 times 1, 2, 4, 8 or 16.",
    ),
    field("modulation", Kind::Choice(|| names(BITS_PER_SYMBOL)), Is("qpsk"), "2 or 4 bits in an upstream symbol."),
    field(
        "slot_ticks",
        Kind::Count { min: 2, max: 128 },
        Is("8"),
        "A mini-slot, in ticks of 6.25 us: a power of two. With the other defaults it carries 16 bytes.",
    ),
    field("map_interval", DELAY, Is("2ms"), "From one MAP to the next; whole mini-slots."),
    field(
        "look_ahead",
        DELAY,
        Is("4ms"),
        "From a MAP's departure to the first mini-slot that it describes; whole mini-slots.",
    ),
    field("processing", DELAY, Is("0s"), "From the end of a request until a MAP can have the grant."),
    field(
        "opportunities",
        Kind::Count { min: 0, max: 1_000 },
        Is("2"),
        "Request opportunities at the start of each MAP that has room.",
    ),
    field("fill", Kind::Flag, Is("true"), "Mini-slots that nobody was granted are request opportunities too."),
    field(
        "backoff_start",
        EXPONENT,
        Is("0"),
        "A first request waits for one of so many opportunities, as a power of two.",
    ),
    field("backoff_end", EXPONENT, Is("4"), "The window doubles with every request lost, up to this power of two."),
    field(
        "access",
        Kind::Choice(|| names(ACCESS)),
        Is("contention"),
        "`contention`: modems share the request opportunities. `polled`: they have them in turn. `free`: nobody asks, and \
         what comes is sent when the channel is free; no such modem exists.",
    ),
];

/// The modem of a docsis link.
pub static MODEM: Shape = Shape { name: "modem", tag: None, fields: || MODEM_FIELDS };
const CALENDAR: &str = "What must wait for its tokens is released at the next multiple of this; `\"0s\"`: at once.";
const BUCKET: Kind = Kind::Size { min: 1, max: SIZE_BYTES_MAX };
const MODEM_FIELDS: &[Field] = &[
    field(
        "down_rate",
        Kind::Rate,
        Follows("the channel's"),
        "The downstream rate, of Ethernet frames, by a token bucket.",
    ),
    field("down_burst", BUCKET, Is("1522B"), "That bucket."),
    field("down_granularity", DELAY, Is("0s"), CALENDAR),
    field(
        "down_delay_max",
        DELAY,
        Is("512ms"),
        "A packet that would wait longer for its tokens, or without `down_rate` for the channel, is dropped.",
    ),
    field("up_rate", Kind::Rate, Follows("the channel's"), "The rate of the frames that the headend grants, likewise."),
    field("up_burst", BUCKET, Is("1522B"), "That bucket."),
    field("up_granularity", DELAY, Is("0s"), CALENDAR),
    field(
        "grant_calendar",
        DELAY,
        Is("0s"),
        "The upstream flow is granted at most once in each such stretch of time; `\"0s\"`: whenever it asks.",
    ),
    field("up_buffer", Kind::SizeOr("unlimited"), Is("unlimited"), "The modem's buffer for what waits to be sent."),
    field("burst_max", BUCKET, Is("1600B"), "The largest burst, with its MAC headers. A single packet may be longer."),
    field("piggyback", Kind::Flag, Is("true"), "A burst asks for the next."),
    field("concatenation", Kind::Flag, Is("true"), "A burst carries several packets."),
    field("fragmentation", Kind::Flag, Is("false"), "The modem asks for more than a burst, and gets it in several."),
];
