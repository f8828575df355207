//! The fields of a personality that are not its congestion control: what each takes, and what it changes.

use headend_engine::tcp::personality::{EcnPolicy, EraRules, Headers, Personality, Recovery, Repeat, WindowUpdate};

use super::INHERITED;
use crate::fields::{Field, Kind, SIZE_BYTES_MAX};
use crate::setting::Setting;

/// One field of a personality, beside those of its congestion control.
pub struct TcpOption {
    /// Its key and what it takes.
    pub field: Field,
    /// The member of [`Personality`] behind it; `None` if there are several.
    pub member: Option<&'static str>,
    /// Changes the personality.
    pub(super) set: fn(&mut Personality, Setting),
    /// The personality's value, as a scenario writes it.
    pub(super) show: fn(&Personality) -> String,
}

const SEGMENTS: Kind = Kind::Count { min: 1, max: 1_000 };
const BUFFER: Kind = Kind::Size { min: 1, max: SIZE_BYTES_MAX };
/// A clock that ticks less often than hourly drives no timer worth simulating.
const TIMER: Kind = Kind::Span { min: 1_000, max: 3_600_000_000_000 };
const REPEATS: &[(&str, Repeat)] =
    &[("always", Repeat::Always), ("unless-timed-out", Repeat::UnlessTimedOut), ("never", Repeat::Never)];
const HEADERS: &[(&str, Headers)] = &[("ipv4", Headers::Ipv4), ("uncounted", Headers::Uncounted)];

const fn option(
    name: &'static str,
    member: &'static str,
    kind: Kind,
    doc: &'static str,
    set: fn(&mut Personality, Setting),
    show: fn(&Personality) -> String,
) -> TcpOption {
    let field = Field { name, kind, absent: INHERITED, only: &[], doc };
    TcpOption { field, member: Some(member), set, show }
}

/// The members of a personality that are not its congestion control.
pub static OPTIONS: &[TcpOption] = &[
    option(
        "mss",
        "mss",
        // A segment must have room for 40 bytes of options (RFC 9293 s3.1) and some data; IPv4 ends at 65,535.
        Kind::Size { min: 64, max: 65_495 },
        "Maximum segment size offered and used; options come off the payload (RFC 6691).",
        |p, s| p.mss = s.size(),
        |p| p.mss.to_string(),
    ),
    option(
        "headers",
        "headers",
        Kind::Choice(|| keys(HEADERS)),
        "What a packet's length counts: `ipv4` as on a real link, `uncounted` nothing on data and 40 bytes on a \
         segment without data, as in ns and the papers.",
        |p, s| p.headers = named(HEADERS, &s.text()),
        |p| name_of(HEADERS, &p.headers),
    ),
    option(
        "initial_window_segments",
        "initial_window_segments",
        Kind::CountOr { min: 1, max: 1_000, word: "rfc6928" },
        "Initial window in segments; `rfc6928`: min(10 MSS, max(2 MSS, 14600 B)).",
        |p, s| p.initial_window_segments = s.count_or().map(small),
        |p| p.initial_window_segments.map_or("rfc6928".into(), |n| n.to_string()),
    ),
    option(
        "initial_ssthresh_segments",
        "initial_ssthresh_segments",
        Kind::CountOr { min: 2, max: 1_000_000, word: "unlimited" },
        "Window at which slow start ends before any loss was seen, in segments; `unlimited`: none (RFC 5681 s3.1).",
        |p, s| p.initial_ssthresh_segments = s.count_or().map(small),
        |p| p.initial_ssthresh_segments.map_or("unlimited".into(), |n| n.to_string()),
    ),
    option(
        "abc_limit_segments",
        "abc_limit_segments",
        Kind::CountOr { min: 1, max: 1_000, word: "unlimited" },
        "Most that one ACK adds to the window in slow start, in segments: 1 (RFC 5681), 2 (RFC 3465), `unlimited` \
         for all that it acknowledges (Linux).",
        |p, s| p.abc_limit_segments = s.count_or().map(small),
        |p| p.abc_limit_segments.map_or("unlimited".into(), |n| n.to_string()),
    ),
    TcpOption {
        field: Field {
            name: "socket_buffer",
            kind: BUFFER,
            absent: INHERITED,
            only: &[],
            doc: "Both buffers at once: `send_buffer` and `receive_buffer`.",
        },
        member: None,
        set: |p, s| {
            p.send_buffer = s.size();
            p.receive_buffer = s.size();
        },
        show: |p| if p.send_buffer == p.receive_buffer { p.send_buffer.to_string() } else { "two sizes".into() },
    },
    option(
        "send_buffer",
        "send_buffer",
        BUFFER,
        "Send buffer: bytes written and not yet acknowledged.",
        |p, s| p.send_buffer = s.size(),
        |p| p.send_buffer.to_string(),
    ),
    option(
        "receive_buffer",
        "receive_buffer",
        BUFFER,
        "Receive buffer: the largest window ever offered.",
        |p, s| p.receive_buffer = s.size(),
        |p| p.receive_buffer.to_string(),
    ),
    option(
        "window_scaling",
        "window_scaling",
        Kind::Flag,
        "Offer window scaling (RFC 7323, section 2).",
        |p, s| p.window_scaling = s.flag(),
        |p| p.window_scaling.to_string(),
    ),
    option(
        "timestamps",
        "timestamps",
        Kind::Flag,
        "Offer timestamps (RFC 7323, section 3).",
        |p, s| p.timestamps = s.flag(),
        |p| p.timestamps.to_string(),
    ),
    option(
        "sack",
        "sack",
        Kind::Flag,
        "Offer selective acknowledgements (RFC 2018).",
        |p, s| p.sack = s.flag(),
        |p| p.sack.to_string(),
    ),
    option(
        "ecn",
        "ecn",
        Kind::Choice(|| keys(EcnPolicy::ALL)),
        "Explicit congestion notification (RFC 3168), so that queues can mark packets instead of dropping them: `request` it when \
         opening a connection and accept it, `accept` it if the peer asks for it, or `off`.",
        |p, s| p.ecn = named(EcnPolicy::ALL, &s.text()),
        |p| name_of(EcnPolicy::ALL, &p.ecn),
    ),
    option(
        "dupack_threshold",
        "dupack_threshold",
        SEGMENTS,
        "Duplicate ACKs that mean a loss: 3 (RFC 5681), 1 is the tuning paper's \"super\" fast retransmit.",
        |p, s| p.dupack_threshold = small(s.count()),
        |p| p.dupack_threshold.to_string(),
    ),
    option(
        "limited_transmit",
        "limited_transmit",
        Kind::Flag,
        "Send new data on the first two duplicate ACKs (RFC 3042).",
        |p, s| p.limited_transmit = s.flag(),
        |p| p.limited_transmit.to_string(),
    ),
    option(
        "recovery",
        "recovery",
        Kind::Choice(|| Recovery::ALL.iter().map(|recovery| recovery.name()).collect()),
        "How losses are found and repaired.",
        |p, s| p.recovery = recovery(&s.text()),
        |p| p.recovery.name().to_owned(),
    ),
    option(
        "window_in_segments",
        "window_in_segments",
        Kind::Flag,
        "Windows in whole segments, computed as Linux does, and not in bytes, as the RFCs do.",
        |p, s| p.window_in_segments = s.flag(),
        |p| p.window_in_segments.to_string(),
    ),
    option(
        "frto",
        "frto",
        Kind::Flag,
        "Take a time-out back that turns out to have been spurious (RFC 5682); with `rack-tlp` only.",
        |p, s| p.frto = s.flag(),
        |p| p.frto.to_string(),
    ),
    option(
        "undo_spurious",
        "undo_spurious",
        Kind::Flag,
        "Take a reduction of the window back when timestamps (RFC 3522) or D-SACK (RFC 3708) show that its \
         retransmissions were spurious; with `rack-tlp` only.",
        |p, s| p.undo_spurious = s.flag(),
        |p| p.undo_spurious.to_string(),
    ),
    option(
        "rto_tick",
        "rto.tick",
        TIMER,
        "Clock granularity of the retransmission timer: round trips are measured in whole ticks (RFC 6298, section 4).",
        |p, s| p.rto.tick = s.span(),
        |p| p.rto.tick.to_string(),
    ),
    option(
        "rto_heartbeat",
        "rto.heartbeat",
        Kind::Flag,
        "Retransmission timers fire on the ticks of a free-running clock (BSD), and not exactly when due.",
        |p, s| p.rto.heartbeat = s.flag(),
        |p| p.rto.heartbeat.to_string(),
    ),
    option(
        "rto_initial",
        "rto.initial",
        TIMER,
        "RTO before the first measurement (RFC 6298, section 2.1).",
        |p, s| p.rto.initial = s.span(),
        |p| p.rto.initial.to_string(),
    ),
    option(
        "rto_min",
        "rto.min",
        Kind::Span { min: 0, max: 3_600_000_000_000 },
        "Smallest RTO (RFC 6298, section 2.4).",
        |p, s| p.rto.min = s.span(),
        |p| p.rto.min.to_string(),
    ),
    option(
        "rto_min_on_variance",
        "rto.min_on_variance",
        Kind::Flag,
        "`rto_min` bounds the variance term instead of the sum, as Linux does.",
        |p, s| p.rto.min_on_variance = s.flag(),
        |p| p.rto.min_on_variance.to_string(),
    ),
    option(
        "rto_max",
        "rto.max",
        TIMER,
        "Largest RTO after back-off (RFC 6298, section 2.5).",
        |p, s| p.rto.max = s.span(),
        |p| p.rto.max.to_string(),
    ),
    option(
        "rto_backoff_max",
        "rto.backoff_max",
        Kind::Count { min: 1, max: 1 << 30 },
        "Largest back-off factor (BSD and ns: 64).",
        |p, s| p.rto.backoff_max = small(s.count()),
        |p| p.rto.backoff_max.to_string(),
    ),
    option(
        "delayed_ack",
        "delayed_ack.segments",
        SEGMENTS,
        "Acknowledge at once when this many segments wait: 2 (RFC 5681), 1 turns delayed ACK off.",
        |p, s| p.delayed_ack.segments = small(s.count()),
        |p| p.delayed_ack.segments.to_string(),
    ),
    option(
        "quick_acks",
        "delayed_ack.quick_segments",
        Kind::Count { min: 0, max: 1_000 },
        "So many of the first segments are acknowledged one by one, and again after a long pause (Linux: 17).",
        |p, s| p.delayed_ack.quick_segments = small(s.count()),
        |p| p.delayed_ack.quick_segments.to_string(),
    ),
    option(
        "delayed_ack_timeout",
        "delayed_ack.timeout",
        TIMER,
        "Longest delay of an ACK.",
        |p, s| p.delayed_ack.timeout = s.span(),
        |p| p.delayed_ack.timeout.to_string(),
    ),
    option(
        "delayed_ack_timeout_max",
        "delayed_ack.timeout_max",
        Kind::Span { min: 0, max: 3_600_000_000_000 },
        "Where segments come far apart the delay grows with their distance up to this, but not beyond a round trip \
         (Linux: 200 ms); at most `delayed_ack_timeout`: it is fixed.",
        |p, s| p.delayed_ack.timeout_max = s.span(),
        |p| p.delayed_ack.timeout_max.to_string(),
    ),
    option(
        "delayed_ack_heartbeat",
        "delayed_ack.heartbeat",
        Kind::Flag,
        "The delay ends on the ticks of a free-running clock (BSD), so that it is anything up to the time-out.",
        |p, s| p.delayed_ack.heartbeat = s.flag(),
        |p| p.delayed_ack.heartbeat.to_string(),
    ),
    option(
        "delayed_ack_gap_fill_at_once",
        "delayed_ack.gap_fill_at_once",
        Kind::Flag,
        "A segment that fills a gap, wholly or in part, is acknowledged at once (RFC 5681, section 4.2).",
        |p, s| p.delayed_ack.gap_fill_at_once = s.flag(),
        |p| p.delayed_ack.gap_fill_at_once.to_string(),
    ),
    option(
        "delayed_ack_out_of_order_at_once",
        "delayed_ack.out_of_order_at_once",
        Kind::Flag,
        "Out-of-order segments are acknowledged at once (RFC 5681, section 4.2); Tahoe's receiver delays those too.",
        |p, s| p.delayed_ack.out_of_order_at_once = s.flag(),
        |p| p.delayed_ack.out_of_order_at_once.to_string(),
    ),
    option(
        "window_update",
        "window_update",
        Kind::Choice(|| keys(WindowUpdate::ALL)),
        "When a window that opens, because the application reads, is told of without data to acknowledge: \
         `two-segments` once it can grow by two segments or half of the buffer (4.4BSD), `doubled` once it would be \
         twice what is still offered (Linux).",
        |p, s| p.window_update = named(WindowUpdate::ALL, &s.text()),
        |p| name_of(WindowUpdate::ALL, &p.window_update),
    ),
    option(
        "idle_restart",
        "idle_restart",
        Kind::Flag,
        "Return to the restart window after an idle RTO (RFC 5681, section 4.1).",
        |p, s| p.idle_restart = s.flag(),
        |p| p.idle_restart.to_string(),
    ),
    option(
        "nagle",
        "nagle",
        Kind::Flag,
        "Hold small segments back while data is unacknowledged (RFC 1122, section 4.2.3.4).",
        |p, s| p.nagle = s.flag(),
        |p| p.nagle.to_string(),
    ),
    TcpOption {
        field: Field {
            name: "era",
            kind: Kind::Choice(|| keys(EraRules::ALL)),
            absent: INHERITED,
            only: &[],
            doc: "Loss-recovery rules of the 1990s that later RFCs settled, all at once; the `era_` fields change one.",
        },
        member: None,
        set: |p, s| p.era = named(EraRules::ALL, &s.text()),
        show: |p| {
            let known = EraRules::ALL.iter().find(|(_, rules)| *rules == p.era);
            known.map_or("its own", |(name, _)| name).to_owned()
        },
    },
    option(
        "era_repeat",
        "era.repeat",
        Kind::Choice(|| keys(REPEATS)),
        "Whether a fast retransmit may happen again in a window of data that has seen a loss (RFC 6582: `never`).",
        |p, s| p.era.repeat = named(REPEATS, &s.text()),
        |p| name_of(REPEATS, &p.era.repeat),
    ),
    option(
        "era_halve_usable",
        "era.halve_usable",
        Kind::Flag,
        "Halve the usable window in whole segments (BSD, ns) and not the bytes in flight (RFC 5681).",
        |p, s| p.era.halve_usable = s.flag(),
        |p| p.era.halve_usable.to_string(),
    ),
    option(
        "era_floor_segments",
        "era.floor_segments",
        Kind::Count { min: 0, max: 1_000 },
        "Smallest window after a halving, in segments.",
        |p, s| p.era.floor_segments = s.count(),
        |p| p.era.floor_segments.to_string(),
    ),
    option(
        "era_fast_retransmit_backs_off",
        "era.fast_retransmit_backs_off",
        Kind::Flag,
        "Every fast retransmit doubles the RTO's back-off until a fresh sample, from the next timer on (ns of December \
         1996, inferred).",
        |p, s| p.era.fast_retransmit_backs_off = s.flag(),
        |p| p.era.fast_retransmit_backs_off.to_string(),
    ),
    option(
        "era_nearest_tick",
        "era.nearest_tick",
        Kind::Flag,
        "Round trips are rounded to the nearest tick (ns of December 1996); else the ticks between are counted (BSD).",
        |p, s| p.era.nearest_tick = s.flag(),
        |p| p.era.nearest_tick.to_string(),
    ),
    option(
        "era_restart_at_initial_window",
        "era.restart_at_initial_window",
        Kind::Flag,
        "After a time-out the window is the initial window and not one segment (ns of December 1996).",
        |p, s| p.era.restart_at_initial_window = s.flag(),
        |p| p.era.restart_at_initial_window.to_string(),
    ),
    option(
        "era_inflate_when_refused",
        "era.inflate_when_refused",
        Kind::Flag,
        "Duplicate ACKs beyond the threshold inflate the window even if fast retransmit was refused (ns of 1996).",
        |p, s| p.era.inflate_when_refused = s.flag(),
        |p| p.era.inflate_when_refused.to_string(),
    ),
    option(
        "era_handshake_ack_opens_window",
        "era.handshake_ack_opens_window",
        Kind::Flag,
        "The ACK that ends the handshake opens the accepting end's window by a segment (BSD; tuning paper, section 6.1).",
        |p, s| p.era.handshake_ack_opens_window = s.flag(),
        |p| p.era.handshake_ack_opens_window.to_string(),
    ),
];

fn recovery(name: &str) -> Recovery {
    let known = Recovery::ALL.iter().find(|recovery| recovery.name() == name);
    *known.expect("a choice was checked against its registry")
}

/// The shapes hold every count under 2^31.
fn small(count: u64) -> u32 {
    u32::try_from(count).expect("the field's range fits 32 bits")
}

fn keys<T>(registry: &[(&'static str, T)]) -> Vec<&'static str> {
    registry.iter().map(|(name, _)| *name).collect()
}

fn named<T: Copy>(registry: &[(&str, T)], name: &str) -> T {
    registry.iter().find(|(known, _)| *known == name).expect("a choice was checked against its registry").1
}

fn name_of<T: PartialEq>(registry: &[(&str, T)], value: &T) -> String {
    registry.iter().find(|(_, known)| known == value).expect("the registry names every value").0.to_owned()
}
