//! Every field a scenario may have, said once: the parser, `--set`, the JSON Schema and the reference page read this.

use super::tcp;

/// A table of a scenario and the fields it may have.
#[derive(Debug)]
pub struct Shape {
    /// What one such table is called in messages.
    pub name: &'static str,
    /// The field that says which of the others apply, if there is one.
    pub tag: Option<&'static str>,
    /// The fields.
    pub fields: fn() -> &'static [Field],
}

/// One field of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds without it.
    pub absent: Absent,
    /// The values of the table's tag with which it applies; empty for all.
    pub only: &'static [&'static str],
    /// What it means, in a sentence or two.
    pub doc: &'static str,
}

/// What holds when a field is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It must be given.
    Required,
    /// This value, written as in the file (text without its quotes).
    Is(&'static str),
    /// Something else's value, in words.
    Follows(&'static str),
}

/// What a field takes. Ranges include both ends.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number from `min` to `max`, or a word.
    CountOr {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// The word.
        word: &'static str,
    },
    /// A rate.
    Rate,
    /// A size of `min` to `max` bytes.
    Size {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// A size of 1 to [`SIZE_BYTES_MAX`] bytes, or a word.
    SizeOr(&'static str),
    /// A span of time of `min` to `max` nanoseconds.
    Span {
        /// Shortest, in nanoseconds.
        min: u64,
        /// Longest, in nanoseconds.
        max: u64,
    },
    /// A probability.
    Chance,
    /// One of some names.
    Choice(fn() -> Vec<&'static str>),
    /// The name of a built-in personality or of one under `personalities`.
    Personality,
    /// The name of a node.
    Node,
    /// The names of two nodes.
    Pair,
    /// How much may wait.
    Queue,
    /// Which packets are lost: a probability, one that changes, or a table.
    Loss,
    /// How much may wait, or a table that says what is dropped before.
    Discipline,
    /// How fast a link serves: a rate, one that changes, or a table.
    Service,
    /// A list of one value of a kind, or more.
    List(&'static Kind),
    /// Packet numbers from 1.
    Numbers,
    /// A table.
    Table(&'static Shape),
    /// Tables of one shape, each under a name of the author's choice.
    Named(&'static Shape),
    /// Lists of values, each under the path of a field.
    Sweep,
}

/// Slowest and fastest link, in bit/s.
pub const RATE_BPS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Largest transfer, queue or buffer: a petabyte.
pub const SIZE_BYTES_MAX: u64 = 1_000_000_000_000_000;
/// Most nodes, and most links: addresses have 16 bits, and a few are kept.
pub const NODES_MAX: usize = 65_000;
/// Most flow instances of a scenario.
pub const FLOWS_MAX: u64 = 100_000;
/// Longest name of a node, link, flow or personality.
pub const NAME_BYTES_MAX: usize = 64;
/// Most steps of a rate or loss that changes.
pub const STEPS_MAX: usize = 100_000;
/// Most points of a sweep.
pub const POINTS_MAX: usize = 100_000;
/// Most values of all points of a sweep together: the points are all kept while it runs.
pub const VALUES_MAX: usize = 5_000_000;
/// Most runs of a sweep: points times runs of each.
pub const RUNS_MAX: u64 = 10_000_000;

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * SECOND_NS;
/// Longest run: a thousand hours of virtual time.
const DURATION_NS_MAX: u64 = 1_000 * HOUR_NS;

const DELAY: Kind = Kind::Span { min: 0, max: HOUR_NS };
const CHANCE: Kind = Kind::Chance;
/// When a step of a rate or loss begins.
pub(super) const STEP_TIME: Kind = Kind::Span { min: 0, max: DURATION_NS_MAX };

const fn field(name: &'static str, kind: Kind, absent: Absent, doc: &'static str) -> Field {
    Field { name, kind, absent, only: &[], doc }
}

const fn field_of(
    only: &'static [&'static str],
    name: &'static str,
    kind: Kind,
    absent: Absent,
    doc: &'static str,
) -> Field {
    Field { name, kind, absent, only, doc }
}

use Absent::{Follows, Is, Required};

/// The top level of a file.
pub static ROOT: Shape = Shape { name: "scenario", tag: None, fields: || ROOT_FIELDS };
const ROOT_FIELDS: &[Field] = &[
    field("title", Kind::Text, Is(""), "One line for people."),
    field(
        "seed",
        // TOML's integers are signed.
        Kind::Count { min: 0, max: i64::MAX as u64 - RUNS_MAX },
        Is("1"),
        "Seed of the first run. Run `r` of every point, from 0, uses `seed + r`.",
    ),
    field("runs", Kind::Count { min: 1, max: RUNS_MAX }, Is("1"), "Runs of every point, each with a seed of its own."),
    field(
        "duration",
        Kind::Span { min: 1, max: DURATION_NS_MAX },
        Is("1000s"),
        "Limit in virtual time; a run ends earlier when every flow has ended.",
    ),
    field("nodes", Kind::Named(&NODE), Required, "Hosts, routers and proxies, by name."),
    field("links", Kind::Named(&LINK), Required, "What joins the nodes, by name."),
    field("flows", Kind::Named(&FLOW), Required, "Who sends what to whom, by name."),
    field("circuits", Kind::Named(&CIRCUIT), Is("{}"), "Circuits of TCP decoupling between routers, by name."),
    field(
        "interval",
        Kind::Span { min: 1_000_000, max: DURATION_NS_MAX },
        Follows("no table of intervals"),
        "With it, a table says what each flow and link did in each such span of time.",
    ),
    field("personalities", Kind::Named(&PERSONALITY), Is("{}"), "Personalities of the scenario's own, by name."),
    field("sweep", Kind::Sweep, Is("{}"), "Fields to vary: lists of values by path. Every combination is a point."),
];

/// A node.
pub static NODE: Shape = Shape { name: "node", tag: Some("kind"), fields: || NODE_FIELDS };
const HOST: &[&str] = &["host"];
const PROXY: &[&str] = &["proxy"];
const NODE_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| vec!["host", "router", "proxy"]),
        Is("host"),
        "A host runs connections and applications; a router passes packets on. A proxy splits the connections of the \
         flows that go `via` it, and passes on other packets as a router.",
    ),
    field_of(HOST, "personality", Kind::Personality, Is("linux"), "The host's TCP, by name."),
    field_of(
        HOST,
        "tcp",
        Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality, on this host, as a sender and as a receiver.",
    ),
    field_of(
        PROXY,
        "relay",
        Kind::Choice(|| vec!["buffer", "store"]),
        Is("buffer"),
        "`buffer`: what arrives on one side is queued for the other, whose full socket buffer holds it back. `store`: \
         what arrives is stored, and no sender waits for the other side.",
    ),
    field_of(
        PROXY,
        "limit",
        Kind::Size { min: 0, max: SIZE_BYTES_MAX },
        Is("0B"),
        "With `relay = \"buffer\"`: bytes that the proxy may hold for each connection and direction, beyond the socket \
         buffers.",
    ),
    field_of(
        PROXY,
        "local_link",
        Kind::Text,
        Required,
        "The link that leads to the subscribers. Connections over it are local, all others remote.",
    ),
    field_of(PROXY, "local", Kind::Table(&SIDE), Is("{}"), "The proxy's TCP towards the subscribers."),
    field_of(PROXY, "remote", Kind::Table(&SIDE), Is("{}"), "The proxy's TCP towards the servers."),
];

/// One side of a proxy.
pub static SIDE: Shape = Shape { name: "side", tag: None, fields: || SIDE_FIELDS };
const SIDE_FIELDS: &[Field] = &[
    field("personality", Kind::Personality, Is("linux"), "The TCP of this side, by name."),
    field("tcp", Kind::Table(&tcp::SHAPE), Is("{}"), "What differs from the personality."),
];

/// A personality of the scenario's own.
pub static PERSONALITY: Shape = Shape { name: "personality", tag: None, fields: tcp::with_base };

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
    field_of(PLAIN, "rate", Kind::Service, Required, "How fast packets are served, from the first node to the second."),
    field("delay", DELAY, Is("0s"), "Propagation one way, the same in each direction."),
    field_of(
        PLAIN,
        "queue",
        Kind::Discipline,
        Is("unlimited"),
        "How much may wait for service; the packet in service is not counted. What does not fit is dropped, and with a \
         table also some of what would.",
    ),
    field_of(PLAIN, "loss", Kind::Loss, Is("0%"), "Packets lost on the medium, after service."),
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
        Kind::Queue,
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
    field("rate", Kind::Service, Follows("the link's `rate`"), "How fast packets are served."),
    field("delay", DELAY, Follows("the link's `delay`"), "Propagation."),
    field("queue", Kind::Discipline, Follows("the link's `queue`"), "How much may wait for service."),
    field("loss", Kind::Loss, Follows("the link's `loss`"), "Packets lost on the medium, after service."),
];

/// A channel of a cable link.
pub static CHANNEL: Shape = Shape { name: "channel", tag: None, fields: || CHANNEL_FIELDS };
const CHANNEL_FIELDS: &[Field] = &[
    field("rate", Kind::Rate, Required, "How fast packets are served."),
    field(
        "queue",
        Kind::Queue,
        Is("unlimited"),
        "How much may wait before the channel; the packet in service is not counted.",
    ),
    field("loss", Kind::Loss, Is("0%"), "Packets lost on the channel, after service."),
];

/// The channels of a docsis link.
pub static DOCSIS_CHANNEL: Shape = Shape { name: "docsis-channel", tag: None, fields: || DOCSIS_CHANNEL_FIELDS };
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
    field("modulation", Kind::Choice(|| vec!["qpsk", "16qam"]), Is("qpsk"), "2 or 4 bits in an upstream symbol."),
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
        Kind::Choice(|| vec!["contention", "polled", "free"]),
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

/// A loss that a single probability does not say.
pub static LOSS: Shape = Shape { name: "loss", tag: Some("model"), fields: || LOSS_FIELDS };
const BURSTS: &[&str] = &["gilbert-elliott"];
const LOSS_FIELDS: &[Field] = &[
    field(
        "model",
        Kind::Choice(|| vec!["bernoulli", "bit", "gilbert-elliott", "list"]),
        Required,
        "`bernoulli`: each packet with the same chance, as a probability alone says. `bit`: each bit with the same \
         chance, and a packet with any of its bits. `gilbert-elliott`: in bursts. `list`: the packets named.",
    ),
    field_of(
        &["bernoulli", "bit"],
        "rate",
        CHANCE,
        Required,
        "Chance of loss of a packet (`bernoulli`) or of a bit (`bit`).",
    ),
    field_of(BURSTS, "good_to_bad", CHANCE, Required, "Chance, at each packet, of leaving the good state."),
    field_of(BURSTS, "bad_to_good", CHANCE, Required, "Chance, at each packet, of leaving the bad state."),
    field_of(BURSTS, "loss_good", CHANCE, Is("0%"), "Chance of loss in the good state."),
    field_of(BURSTS, "loss_bad", CHANCE, Is("100%"), "Chance of loss in the bad state."),
    field_of(&["list"], "packets", Kind::Numbers, Required, "Numbers of the lost packets, from 1, as they pass."),
];

/// A rate that neither a number nor steps say.
pub static RATE: Shape = Shape { name: "rate", tag: None, fields: || RATE_FIELDS };
const RATE_FIELDS: &[Field] = &[field(
    "trace",
    Kind::Text,
    Required,
    "A recording in mahimahi's format, relative to the scenario's folder: on each line a time in milliseconds at which \
     the link can deliver 1500 bytes. After the last it starts again.",
)];

/// A queue that drops before it is full.
pub static QUEUE: Shape = Shape { name: "queue", tag: Some("model"), fields: || QUEUE_FIELDS };
const RED: &[&str] = &["red"];
const HEADERS: &[&str] = &["header-drop"];
const OCCUPANCY: &[&str] = &["occupancy-drop"];
const QUEUE_FIELDS: &[Field] = &[
    field(
        "model",
        Kind::Choice(|| vec!["drop-tail", "red", "header-drop", "occupancy-drop"]),
        Required,
        "`drop-tail`: what does not fit is dropped. `red`: random early detection by packets (Floyd and Jacobson 1993). \
         `header-drop`: the routers of TCP decoupling, which drop header packets first (section 2.2.7 of the thesis). \
         `occupancy-drop`: the same by all bytes that wait (section 2.3.1).",
    ),
    field(
        "buffer",
        Kind::Queue,
        Is("unlimited"),
        "How much may wait at all; packets with `red`, bytes where headers drop.",
    ),
    field_of(
        RED,
        "min",
        Kind::Count { min: 1, max: 1_000_000 },
        Is("5"),
        "From this average number of packets on some are dropped.",
    ),
    field_of(RED, "max", Kind::Count { min: 2, max: 1_000_000 }, Is("15"), "From this average on, all are."),
    field_of(RED, "max_chance", CHANCE, Is("2%"), "Chance of a drop just below `max`."),
    field_of(
        RED,
        "weight_bits",
        Kind::Count { min: 0, max: 16 },
        Is("9"),
        "The average follows the queue with the weight 2^-`weight_bits` at each packet that has to wait.",
    ),
    field_of(
        RED,
        "departure",
        Kind::Span { min: 1, max: SECOND_NS },
        Is("1ms"),
        "How long a packet takes to leave: so fast the average falls while the queue is empty.",
    ),
    field_of(
        HEADERS,
        "headers",
        Kind::Count { min: 2, max: 1_000_000 },
        Required,
        "Header packets that may wait, HP_Th; from half as many on some are dropped.",
    ),
    field_of(
        OCCUPANCY,
        "threshold",
        Kind::Size { min: 1, max: SIZE_BYTES_MAX },
        Required,
        "From so many waiting bytes on some header packets are dropped, all of them when the `buffer` is full.",
    ),
    field_of(
        &["header-drop", "occupancy-drop"],
        "unmarked",
        Kind::Choice(|| vec!["data", "header"]),
        Is("data"),
        "What a packet of no circuit counts as (section 3.8.4 of the thesis).",
    ),
];

/// A circuit of TCP decoupling.
pub static CIRCUIT: Shape = Shape { name: "circuit", tag: None, fields: || CIRCUIT_FIELDS };
const CIRCUIT_FIELDS: &[Field] = &[
    field("from", Kind::Text, Required, "The router at which packets enter."),
    field(
        "to",
        Kind::Text,
        Required,
        "The router at which they leave; packets that pass `from` on a way over `to` enter.",
    ),
    field(
        "flows",
        Kind::List(&Kind::Text),
        Follows("all flows"),
        "Only packets of these flows enter, data as well as acknowledgements.",
    ),
    field("controls", Kind::Count { min: 1, max: 1_000 }, Is("1"), "How many control TCPs there are."),
    field("vmss", Kind::Size { min: 64, max: 60_000 }, Is("1500B"), "Bytes of users' packets for each header packet."),
    field(
        "gmb",
        Kind::Rate,
        Follows("nothing guaranteed"),
        "The guaranteed minimum bandwidth: sent with no regard to congestion.",
    ),
    field("personality", Kind::Personality, Is("linux"), "The control TCPs, by name."),
    field(
        "tcp",
        Kind::Table(&tcp::SHAPE),
        Is("{}"),
        "What differs from the personality. Segments are of `vmss`, and buffers without limit, whatever it says.",
    ),
    field("queue", Kind::Queue, Is("100 packets"), "How much may wait to enter."),
    field(
        "drops",
        Kind::Choice(|| vec!["tail", "early", "fair"]),
        Is("tail"),
        "What is dropped of what waits. `tail`: what does not fit. `early`: some packets before that, by random early \
         detection. `fair`: some packets before that, and no flow twice in a row (section 3.6 of the thesis). The last two \
         need a `queue` in packets.",
    ),
    field(
        "threshold",
        Kind::Count { min: 1, max: 1_000_000 },
        Is("10"),
        "With `drops = \"early\"` or `\"fair\"`: from so many waiting packets on some are dropped.",
    ),
    field(
        "user_rtt",
        Kind::Span { min: 1_000, max: HOUR_NS },
        Is("500ms"),
        "With `drops = \"fair\"`: the longest round trip of users; a flow silent for longer is not active.",
    ),
];

/// A flow.
pub static FLOW: Shape = Shape { name: "flow", tag: Some("kind"), fields: || FLOW_FIELDS };
const HTTP: &[&str] = &["http-get"];
const GETS: &[&str] = &["http-get", "requests"];
const REQUESTS: &[&str] = &["requests"];
const DATAGRAMS: &[&str] = &["datagrams"];
const TRANSFERS: &[&str] = &["bulk", "ftp-get", "http-get"];
const FLOW_FIELDS: &[Field] = &[
    field(
        "kind",
        Kind::Choice(|| vec!["bulk", "ftp-get", "http-get", "requests", "datagrams"]),
        Is("bulk"),
        "`bulk`: `from` connects and sends. `ftp-get`: the server `from` opens the data connection to its client `to` \
         and sends. `http-get`: the client `to` connects to the server `from` and asks, and is answered on the same \
         connection. `requests`: the same again and again, each with a connection of its own and a row in the results. \
         `datagrams`: packets at a rate, with no regard to anything.",
    ),
    field("from", Kind::Node, Required, "The host that sends the data."),
    field("to", Kind::Node, Required, "The host that receives the data."),
    field_of(
        TRANSFERS,
        "via",
        Kind::Text,
        Is(""),
        "The proxy at which the connection ends that one of the two opens, and which connects on to the other. \
         Empty: one connection from end to end.",
    ),
    field_of(
        TRANSFERS,
        "bytes",
        Kind::SizeOr("unlimited"),
        Is("unlimited"),
        "How much data; `unlimited` lasts until the duration ends.",
    ),
    field_of(
        &["bulk"],
        "handshake",
        Kind::Flag,
        Is("true"),
        "If `false`, the connections are established beforehand, as in ns.",
    ),
    field_of(
        &["bulk", "ftp-get"],
        "whole_segments",
        Kind::Flag,
        Is("false"),
        "The last segment is padded to a full one, as in ns; goodput counts `bytes`.",
    ),
    field("start", Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "When the flow starts."),
    field(
        "stagger",
        Kind::Span { min: 0, max: DURATION_NS_MAX },
        Is("0s"),
        "Each instance starts later by a random time, uniform from zero to this.",
    ),
    field("count", Kind::Count { min: 1, max: FLOWS_MAX }, Is("1"), "How many of these flows there are."),
    field_of(GETS, "request", Kind::Size { min: 1, max: 1_000_000 }, Is("300B"), "Length of the request."),
    field_of(
        HTTP,
        "header",
        Kind::Size { min: 0, max: 1_000_000 },
        Is("250B"),
        "Length of the response header, sent before `bytes` and not counted in them.",
    ),
    field_of(
        HTTP,
        "header_apart",
        Kind::Flag,
        Is("true"),
        "The header leaves in a segment of its own, as from the servers of 1996 (tuning paper, section 6.1).",
    ),
    field_of(
        REQUESTS,
        "sizes",
        Kind::List(&Kind::Size { min: 1, max: SIZE_BYTES_MAX }),
        Required,
        "What is asked for, in turns; each instance begins at another.",
    ),
    field_of(
        REQUESTS,
        "pause",
        Kind::Span { min: 0, max: HOUR_NS },
        Is("0s"),
        "From the end of one connection to the beginning of the next.",
    ),
    field_of(DATAGRAMS, "rate", Kind::Rate, Required, "How fast packets are sent, headers included."),
    field_of(DATAGRAMS, "packet", Kind::Size { min: 28, max: 65_535 }, Is("1500B"), "A packet, headers included."),
    field_of(
        DATAGRAMS,
        "on",
        Kind::Span { min: 1_000, max: DURATION_NS_MAX },
        Follows("always"),
        "How long packets are sent before each pause of `off`.",
    ),
    field_of(DATAGRAMS, "off", Kind::Span { min: 0, max: DURATION_NS_MAX }, Is("0s"), "How long none are sent then."),
];

/// All shapes with the heading under which the reference page has them.
pub static ALL: &[(&str, &Shape)] = &[
    ("top level", &ROOT),
    ("nodes", &NODE),
    ("local and remote", &SIDE),
    ("tcp", &tcp::SHAPE),
    ("personalities", &PERSONALITY),
    ("links", &LINK),
    ("back", &BACK),
    ("down and up", &CHANNEL),
    ("channel", &DOCSIS_CHANNEL),
    ("modem", &MODEM),
    ("loss", &LOSS),
    ("rate", &RATE),
    ("flows", &FLOW),
    ("queue", &QUEUE),
    ("circuits", &CIRCUIT),
];

impl Shape {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        (self.fields)().iter().find(|field| field.name == name)
    }

    /// The fields that apply when the tag has this value.
    pub fn fields_with<'a>(&self, tag: Option<&'a str>) -> impl Iterator<Item = &'static Field> + use<'a> {
        (self.fields)().iter().filter(move |field| tag.is_none_or(|tag| field.applies(tag)))
    }
}

impl Field {
    /// True if the field applies when the table's tag has this value.
    pub fn applies(&self, tag: &str) -> bool {
        self.only.is_empty() || self.only.contains(&tag)
    }
}
