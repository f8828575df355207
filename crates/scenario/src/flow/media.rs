//! Frames at a rate, each with a deadline (chapter 5 of the decoupling thesis).

use headend_engine::part::names;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Capacity, Rate};

use super::datagrams::PACKET;
use super::{Kind, Ports, Table};
use crate::error::Problem;
use crate::fields::Absent::{Follows, Is, Required};
use crate::fields::{self, Field, HOUR_NS, field};
use crate::read::Section;
use crate::setting::Setting;

/// Frames at a rate, each with a deadline, and how they get across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// The carrier of the frames.
    pub over: Over,
    /// The time from one frame to the next.
    pub frame_interval: Duration,
    /// Bit rates of all frames together, ascending; at least one.
    pub rates: Vec<Rate>,
    /// The distance from one key frame to the next, in frames, at least 1.
    pub key_every: u64,
    /// The size of a key frame, in sizes of the others, at least 1.
    pub key_size: u64,
    /// The time within which a frame must be whole at the other end; otherwise it is late.
    pub deadline: Duration,
    /// The largest datagram, with its headers.
    pub packet: Bytes,
    /// The treatment of frames that are stale before they leave.
    pub stale: Stale,
    /// The wait after which a frame is stale, unless it has begun to leave.
    pub stale_after: Duration,
}

/// The carriers that frames can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Datagrams that leave as soon as they are made.
    Udp,
    /// One connection for all.
    Tcp,
    /// Datagrams through a circuit between the two hosts, with one control TCP.
    Circuit {
        /// Bytes of datagrams for each header packet.
        vmss: Bytes,
        /// The guaranteed minimum rate.
        gmb: Option<Rate>,
        /// The room for packets that wait to enter.
        queue: Capacity,
    },
}

/// The treatments of frames that have become stale before they left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Stale frames leave all the same.
    Keep,
    /// The source takes them back.
    Withdraw,
    /// The source takes them back, and puts the newest in the place of the first.
    Replace,
}

const STALE: &[(&str, Stale)] = &[("keep", Stale::Keep), ("withdraw", Stale::Withdraw), ("replace", Stale::Replace)];

/// A function that reads a carrier of frames.
type ReadOver = fn(&Section<'_>) -> Over;
const OVER: &[(&str, ReadOver)] = &[
    ("circuit", |section| Over::Circuit {
        vmss: section.setting("vmss").size(),
        gmb: section.has("gmb").then(|| section.setting("gmb").rate()),
        queue: section.setting("queue").capacity(),
    }),
    ("udp", |_| Over::Udp),
    ("tcp", |_| Over::Tcp),
];

impl Kind for Media {
    const NAME: &'static str = "media";
    const DOC: &'static str = "frames at a rate, each with a deadline, and a row in a table of their own (chapter 5 of the \
                               decoupling thesis).";
    const FIELDS: &'static [Field] = FIELDS;
    const ONLY_SIMULATED: Option<&'static str> = Some("frames with a deadline");

    fn read(Table { section, .. }: &Table<'_, '_>) -> Media {
        let contradict = |field: &str, text: &str| {
            section.wrong(field, section.place_of(field), Problem::Contradiction(text.into()))
        };
        let rates: Vec<_> = section.setting("rates").list().iter().map(Setting::rate).collect();
        if rates.windows(2).any(|pair| pair[0] >= pair[1]) {
            contradict("rates", "of several rates each is higher than the one before");
        }
        let over = section.setting("over").choice(OVER)(section);
        if !matches!(over, Over::Circuit { .. }) {
            for field in ["gmb", "vmss", "queue"].into_iter().filter(|field| section.has(field)) {
                contradict(field, "belongs to a circuit: only with over = \"circuit\"");
            }
        }
        if over == Over::Udp {
            if rates.len() > 1 {
                contradict("rates", "with over = \"udp\" a source cannot read what waits, and has one rate");
            }
            for field in ["stale", "stale_after"].into_iter().filter(|field| section.has(field)) {
                contradict(field, "with over = \"udp\" no frame waits at its source");
            }
        }
        let deadline = section.setting("deadline").span();
        let packet = section.setting("packet").size();
        if packet.get() <= headend_engine::packet::DATAGRAM_HEADERS {
            contradict("packet", "a packet of 28 bytes has room for its headers alone");
        }
        Media {
            over,
            frame_interval: section.setting("frame_interval").span(),
            rates,
            key_every: section.setting("key_every").count(),
            key_size: section.setting("key_size").count(),
            deadline,
            packet,
            stale: section.setting("stale").choice(STALE),
            stale_after: if section.has("stale_after") { section.setting("stale_after").span() } else { deadline / 2 },
        }
    }

    fn ports(&self) -> Ports {
        Ports::Stream
    }
}

const FIELDS: &[Field] = &[
    PACKET,
    field(
        "over",
        fields::Kind::Choice(|| names(OVER)),
        Is("circuit"),
        "What carries the frames. `circuit`: datagrams through an unreliable decoupling socket, a circuit between the two \
         hosts with one control TCP of theirs. `udp`: datagrams that leave as soon as they are made. `tcp`: a connection. \
         Connections are established beforehand.",
    ),
    field(
        "rates",
        fields::Kind::List(&fields::Kind::Rate),
        Required,
        "Rates at which frames can be made, ascending, headers not included. Of several the source begins with the lowest, \
         and chooses by how much it reads is waiting to leave: a lower one when that takes more than a quarter of the \
         `deadline`, a higher one after 2 s in which it took less than a frame's time. With `udp` there is nothing to \
         read, and one rate.",
    ),
    field(
        "frame_interval",
        fields::Kind::Span { min: 100_000, max: HOUR_NS },
        Is("40ms"),
        "From one frame to the next.",
    ),
    field(
        "key_every",
        fields::Kind::Count { min: 1, max: 10_000 },
        Is("1"),
        "Every so-many-th frame is a key frame, which can be larger.",
    ),
    field(
        "key_size",
        fields::Kind::Count { min: 1, max: 1_000 },
        Is("1"),
        "How many times as large as the others; the rate is that of all together.",
    ),
    field(
        "deadline",
        fields::Kind::Span { min: 1_000, max: HOUR_NS },
        Is("200ms"),
        "A frame that is whole at the other end later than so long after it was made is late.",
    ),
    field(
        "stale",
        fields::Kind::Choice(|| names(STALE)),
        Is("withdraw"),
        "What the source does, whenever it has made a frame, with those that wait and are stale. `keep`: nothing. `withdraw`: it \
         takes them back. `replace`: and the new one takes the place of the first. Over TCP, only what the send buffer has not \
         begun to take can be taken back, and `replace` is `withdraw`. With `udp` nothing waits.",
    ),
    field(
        "stale_after",
        fields::Kind::Span { min: 1_000, max: HOUR_NS },
        Follows("half of the `deadline`"),
        "A frame that has waited so long is stale if nothing of it has left; otherwise it is after the `deadline`.",
    ),
    field(
        "gmb",
        fields::Kind::Rate,
        Follows("nothing guaranteed"),
        "With `over = \"circuit\"`: the minimum rate, headers included, sent with no regard to congestion.",
    ),
    field(
        "vmss",
        fields::Kind::Size { min: 64, max: 60_000 },
        Is("1500B"),
        "With `over = \"circuit\"`: bytes of datagrams for each header packet.",
    ),
    field(
        "queue",
        fields::Kind::Capacity,
        Is("100 packets"),
        "With `over = \"circuit\"`: how much may wait to leave. A frame that finds no room is skipped.",
    ),
];
