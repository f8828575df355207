//! A TCP is a personality: a named, documented set of options.

pub use super::recovery::Recovery;
use super::segment::Segment;
use crate::cc::hystart::HyStart;
use crate::cc::{Algorithm, Setup, cubic, reno};
use crate::time::Duration;
use crate::units::Bytes;

/// The headers that a packet's length on the wire counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// IPv4 and TCP headers with their options, as on a real link.
    Ipv4,
    /// No headers on data, and 40 bytes for a segment without data: the convention of ns and of the papers.
    Uncounted,
}

/// The rules of the retransmission timer: when it fires and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoPolicy {
    /// Clock granularity: round trips are measured in whole ticks, at least one (RFC 6298 s4).
    pub tick: Duration,
    /// Timers fire on the ticks of a free-running clock (BSD's heartbeat) and not exactly when due.
    pub heartbeat: bool,
    /// The RTO before the first measurement (RFC 6298 s2.1).
    pub initial: Duration,
    /// Smallest RTO (RFC 6298 s2.4).
    pub min: Duration,
    /// `min` bounds the variance term instead of the sum: RTO = SRTT + max(min, 4 RTTVAR), as Linux does.
    pub min_on_variance: bool,
    /// Largest RTO after back-off (RFC 6298 s2.5).
    pub max: Duration,
    /// Largest back-off factor (BSD and ns: 64).
    pub backoff_max: u32,
}

/// The rules by which a receiver holds an acknowledgement back (RFC 1122 s4.2.3.2, RFC 5681 s4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Acknowledge at once when this many segments wait: 1 means no delay.
    pub segments: u32,
    /// The number of first segments that are acknowledged one by one, at once, and again after a pause of an RTO
    /// (Linux: 17).
    pub quick_segments: u32,
    /// The longest delay, but where `timeout_max` allows more.
    pub timeout: Duration,
    /// The longest delay where segments arrive further apart than half of `timeout`: it grows with their distance, but not
    /// beyond a round trip (Linux: 200 ms). If this is no more than `timeout`, the delay is fixed.
    pub timeout_max: Duration,
    /// The delay ends on the ticks of a free-running clock of period `timeout` (BSD), uniform in 0..timeout.
    pub heartbeat: bool,
    /// A segment that fills a gap, wholly or in part, is acknowledged at once (RFC 5681 s4.2). ns without
    /// `RFC2581_immediate_ack_` delays that ACK if the gap's first part only is filled.
    pub gap_fill_at_once: bool,
    /// Out-of-order segments are acknowledged at once (RFC 5681 s4.2); Tahoe-era receivers delayed those too.
    pub out_of_order_at_once: bool,
}

/// The moment when a receiver whose application reads tells of the room, without data to acknowledge (RFC 1122 s4.2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdate {
    /// The window can grow by two full segments, or by half of the buffer (4.4BSD-Lite, `tcp_output`).
    TwoSegments,
    /// The window would be twice what is still offered, and two full segments more (Linux, `tcp_cleanup_rbuf`).
    Doubled,
}

impl WindowUpdate {
    /// The registry: both with their names in scenario files.
    pub const ALL: &[(&str, WindowUpdate)] =
        &[("two-segments", WindowUpdate::TwoSegments), ("doubled", WindowUpdate::Doubled)];
}

/// The use of explicit congestion notification (RFC 3168), which both ends of a connection agree on in their SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnPolicy {
    /// It is not used.
    Off,
    /// It is used if the peer, opening a connection, asks for it (Linux's `tcp_ecn` 2, its default).
    Accept,
    /// The end asks for it when it opens a connection, and accepts it when the peer does (Linux's `tcp_ecn` 1).
    Request,
}

impl EcnPolicy {
    /// The registry: all with their names in scenario files.
    pub const ALL: &[(&str, EcnPolicy)] =
        &[("off", EcnPolicy::Off), ("accept", EcnPolicy::Accept), ("request", EcnPolicy::Request)];
}

/// Loss-recovery rules of the 1990s that later RFCs settled; only Tahoe, Reno and NewReno look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraRules {
    /// The answer to whether fast retransmit may happen again in a window of data that has already seen a loss.
    pub repeat: Repeat,
    /// Halve the usable window in whole segments (BSD, ns) and not the bytes in flight (RFC 5681 eq. 4).
    pub halve_usable: bool,
    /// Smallest window after a halving, in segments.
    pub floor_segments: u64,
    /// Every fast retransmit doubles the RTO back-off until a fresh sample; its own timer still runs for what the RTO was
    /// before (ns of December 1996, inferred).
    pub fast_retransmit_backs_off: bool,
    /// Round trips are rounded to the nearest tick; else the ticks between are counted (ns-2.35 and BSD).
    pub nearest_tick: bool,
    /// The window after a timeout is the initial window and not one segment (ns of December 1996).
    pub restart_at_initial_window: bool,
    /// Duplicate ACKs beyond the threshold inflate the window even if fast retransmit was refused (ns of 1996).
    pub inflate_when_refused: bool,
    /// The ACK that ends the hand-shake opens the accepting end's window by one segment (BSD; tuning paper s6.1).
    pub handshake_ack_opens_window: bool,
}

/// The rule for a second fast retransmit of data sent before the last loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It happens whenever enough duplicate ACKs arrive (4.4BSD; ns `bugFix_ 0`).
    Always,
    /// It happens unless the last loss was found by a timeout (ns of December 1996).
    UnlessTimedOut,
    /// It never happens: RFC 6582 s3.2 step 2 with its `recover` variable.
    Never,
}

impl EraRules {
    /// ns-2.35 with `bugFix_ 0 exitFastRetrans_ 0 precisionReduce_ 0`, nearest to 4.4BSD.
    pub const NS_2_35: EraRules = EraRules {
        repeat: Repeat::Always,
        halve_usable: true,
        floor_segments: 0,
        fast_retransmit_backs_off: false,
        nearest_tick: false,
        restart_at_initial_window: false,
        inflate_when_refused: true,
        handshake_ack_opens_window: true,
    };
    /// ns of December 1996, a reconstruction: the simulator of the first two papers.
    pub const NS_1996: EraRules = EraRules {
        repeat: Repeat::UnlessTimedOut,
        floor_segments: 0,
        fast_retransmit_backs_off: true,
        nearest_tick: true,
        restart_at_initial_window: true,
        ..EraRules::NS_2_35
    };
    /// 4.4BSD-Lite's tcp_input.c: as ns-2.35, but never below two segments.
    pub const BSD_4_4: EraRules = EraRules { floor_segments: 2, ..EraRules::NS_2_35 };
    /// RFC 5681 and RFC 6582.
    pub const RFC: EraRules = EraRules {
        repeat: Repeat::Never,
        halve_usable: false,
        floor_segments: 2,
        fast_retransmit_backs_off: false,
        nearest_tick: false,
        restart_at_initial_window: false,
        inflate_when_refused: false,
        handshake_ack_opens_window: false,
    };

    /// The registry: the sets with their names in scenario files.
    pub const ALL: &[(&str, EraRules)] = &[
        ("ns-2.35", EraRules::NS_2_35),
        ("ns-1996", EraRules::NS_1996),
        ("bsd-4.4", EraRules::BSD_4_4),
        ("rfc", EraRules::RFC),
    ];
}

/// Makes a named personality.
pub type MakePersonality = fn() -> Personality;

/// A TCP's options, both halves: what it does as a sender and what as a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Personality {
    /// Maximum segment size offered and used, in bytes; options come off the payload (RFC 6691).
    pub mss: Bytes,
    /// The headers that a packet's length counts.
    pub headers: Headers,
    /// Initial window in segments; `None` for RFC 6928's min(10 MSS, max(2 MSS, 14600 B)).
    pub initial_window_segments: Option<u32>,
    /// Slow start ends at this window, in segments, before any loss was seen; `None` for as high as possible (RFC 5681
    /// s3.1). Linux keeps one a destination in its TCP metrics.
    pub initial_ssthresh_segments: Option<u32>,
    /// The most that one ACK adds to the window in slow start, in segments: 1 (RFC 5681 s3.1), 2 (RFC 3465); `None` for
    /// all that it acknowledges (Linux).
    pub abc_limit_segments: Option<u32>,
    /// Send buffer: bytes written and not yet acknowledged.
    pub send_buffer: Bytes,
    /// Receive buffer: the largest window ever offered.
    pub receive_buffer: Bytes,
    /// Offer window scaling (RFC 7323 s2).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323 s3).
    pub timestamps: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification: whether to use it, and who asks.
    pub ecn: EcnPolicy,
    /// Duplicate ACKs that mean a loss (RFC 5681: 3; the tuning paper's "super" fast retransmit: 1).
    pub dupack_threshold: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Congestion control.
    pub controller: Algorithm,
    /// Windows in whole segments, computed as Linux does; else in bytes, as the RFCs do.
    pub window_in_segments: bool,
    /// Look whether a timeout was spurious, and take it back if so (RFC 5682); RACK-TLP only.
    pub frto: bool,
    /// Take back what retransmissions did that timestamps (RFC 3522, RFC 4015) or D-SACK (RFC 3708) show to have been
    /// spurious; RACK-TLP only.
    pub undo_spurious: bool,
    /// The retransmission timer.
    pub rto: RtoPolicy,
    /// Delayed acknowledgements.
    pub delayed_ack: DelayedAck,
    /// The moment when a window that opens is told of.
    pub window_update: WindowUpdate,
    /// Return to the restart window after an idle RTO (RFC 5681 s4.1).
    pub idle_restart: bool,
    /// Hold small segments back while data is unacknowledged (RFC 1122 s4.2.3.4).
    pub nagle: bool,
    /// Loss-recovery rules of the era.
    pub era: EraRules,
}

impl Personality {
    /// 4.3BSD-Tahoe: fast retransmit without fast recovery; its receiver delays ACKs even of out-of-order data.
    pub fn tahoe_1988() -> Personality {
        let bsd = Personality::bsd_reno_1996();
        Personality {
            recovery: Recovery::Tahoe,
            delayed_ack: DelayedAck { out_of_order_at_once: false, ..bsd.delayed_ack },
            ..bsd
        }
    }

    /// The sender and receiver of the first two papers: Reno on a 500 ms clock, 8 KB socket buffers, delayed ACKs.
    pub fn bsd_reno_1996() -> Personality {
        Personality {
            mss: Bytes::new(1460),
            headers: Headers::Ipv4,
            initial_window_segments: Some(1),
            initial_ssthresh_segments: None,
            abc_limit_segments: Some(1),
            send_buffer: Bytes::new(8_760),
            receive_buffer: Bytes::new(8_760),
            window_scaling: false,
            timestamps: false,
            sack: false,
            ecn: EcnPolicy::Off,
            dupack_threshold: 3,
            limited_transmit: false,
            recovery: Recovery::Reno,
            controller: Algorithm::Reno(reno::Parameters),
            window_in_segments: false,
            frto: false,
            undo_spurious: false,
            rto: RtoPolicy {
                tick: Duration::from_millis(500),
                heartbeat: false,
                initial: Duration::from_secs(3),
                min: Duration::from_secs(1),
                min_on_variance: false,
                max: Duration::from_secs(64),
                backoff_max: 64,
            },
            delayed_ack: DelayedAck {
                segments: 2,
                quick_segments: 0,
                timeout: Duration::from_millis(200),
                timeout_max: Duration::ZERO,
                heartbeat: false,
                gap_fill_at_once: false,
                out_of_order_at_once: true,
            },
            window_update: WindowUpdate::TwoSegments,
            idle_restart: false,
            nagle: false,
            era: EraRules::NS_2_35,
        }
    }

    /// The tuning paper's remedy (s6): 200 ms timer, super fast retransmit, initial window 2.
    pub fn hfc_tuned() -> Personality {
        let bsd = Personality::bsd_reno_1996();
        Personality {
            initial_window_segments: Some(2),
            dupack_threshold: 1,
            rto: RtoPolicy { tick: Duration::from_millis(200), min: Duration::from_millis(400), ..bsd.rto },
            ..bsd
        }
    }

    /// RFC 5681 with NewReno (RFC 6582), limited transmit and RFC 6298 timers.
    pub fn newreno() -> Personality {
        Personality {
            mss: Bytes::new(1460),
            headers: Headers::Ipv4,
            initial_window_segments: None,
            initial_ssthresh_segments: None,
            abc_limit_segments: Some(1),
            send_buffer: Bytes::new(4_000_000),
            receive_buffer: Bytes::new(4_000_000),
            window_scaling: true,
            timestamps: true,
            sack: false,
            ecn: EcnPolicy::Off,
            dupack_threshold: 3,
            limited_transmit: true,
            recovery: Recovery::NewReno,
            controller: Algorithm::Reno(reno::Parameters),
            window_in_segments: false,
            frto: false,
            undo_spurious: false,
            rto: RtoPolicy {
                tick: Duration::from_millis(1),
                heartbeat: false,
                initial: Duration::from_secs(1),
                min: Duration::from_secs(1),
                min_on_variance: false,
                max: Duration::from_secs(60),
                backoff_max: 64,
            },
            delayed_ack: DelayedAck {
                segments: 2,
                quick_segments: 0,
                timeout: Duration::from_millis(200),
                timeout_max: Duration::ZERO,
                heartbeat: false,
                gap_fill_at_once: true,
                out_of_order_at_once: true,
            },
            window_update: WindowUpdate::Doubled,
            idle_restart: true,
            nagle: false,
            era: EraRules::RFC,
        }
    }

    /// [`newreno`](Personality::newreno) with selective acknowledgements (RFC 2018, 6675) and PRR (RFC 6937).
    pub fn sack() -> Personality {
        Personality { sack: true, recovery: Recovery::Sack, ..Personality::newreno() }
    }

    /// The TCP that a Linux server runs today: SACK, RACK-TLP, CUBIC, initial window 10, 200 ms minimum RTO, 40 ms delayed ACK.
    pub fn linux() -> Personality {
        let sack = Personality::sack();
        Personality {
            recovery: Recovery::RackTlp,
            controller: Algorithm::Cubic(cubic::Parameters { hystart: HyStart::Classic }),
            window_in_segments: true,
            ecn: EcnPolicy::Accept,
            frto: true,
            undo_spurious: true,
            abc_limit_segments: None,
            rto: RtoPolicy {
                tick: Duration::from_micros(1),
                min: Duration::from_millis(200),
                min_on_variance: true,
                max: Duration::from_secs(120),
                backoff_max: 1 << 15,
                ..sack.rto
            },
            delayed_ack: DelayedAck {
                // Counted in a capture of Linux 6.18: the first segment does not count as one of the kernel's 16.
                quick_segments: 17,
                timeout: Duration::from_millis(40),
                timeout_max: Duration::from_millis(200),
                ..sack.delayed_ack
            },
            ..sack
        }
    }

    /// The registry: all built-in personalities with their names in scenario files.
    pub const ALL: &[(&str, MakePersonality)] = &[
        ("tahoe-1988", Personality::tahoe_1988),
        ("bsd-reno-1996", Personality::bsd_reno_1996),
        ("hfc-tuned", Personality::hfc_tuned),
        ("newreno", Personality::newreno),
        ("sack", Personality::sack),
        ("linux", Personality::linux),
    ];

    /// The personality of this name.
    pub fn named(name: &str) -> Option<Personality> {
        Personality::ALL.iter().find(|(known, _)| *known == name).map(|(_, make)| make())
    }

    /// Bytes that `segment` takes on the wire.
    pub fn wire_len(&self, segment: &Segment) -> u32 {
        // IPv4 and TCP headers without options (RFC 791, RFC 9293 s3.1).
        const HEADERS: u32 = 40;
        match self.headers {
            Headers::Ipv4 => HEADERS + segment.options.wire_len() + segment.len,
            Headers::Uncounted if segment.len == 0 => HEADERS,
            Headers::Uncounted => segment.len,
        }
    }

    /// The set-up of the controller: segments of `mss` bytes, this era's rules, and whether losses are told one by one.
    pub(crate) fn controller_setup(&self, mss: Bytes, era: &EraRules, selective: bool) -> Setup {
        let initial_window = match self.initial_window_segments {
            Some(segments) => mss * u64::from(segments),
            // RFC 6928 s2.
            None => (mss * 10).min((mss * 2).max(Bytes::new(14_600))),
        };
        Setup {
            mss,
            initial_window,
            initial_threshold: self.initial_ssthresh_segments.map_or(Bytes::MAX, |segments| mss * u64::from(segments)),
            abc_limit: self.abc_limit_segments.map_or(Bytes::MAX, |segments| mss * u64::from(segments)),
            loss_window: if era.restart_at_initial_window { initial_window } else { mss },
            floor_segments: era.floor_segments,
            halve_usable: era.halve_usable,
            in_segments: self.window_in_segments,
            selective,
        }
    }

    /// The initial window in bytes.
    pub fn initial_window(&self) -> Bytes {
        match self.initial_window_segments {
            Some(segments) => self.mss * u64::from(segments),
            // RFC 6928 s2.
            None => (self.mss * 10).min((self.mss * 2).max(Bytes::new(14_600))),
        }
    }
}
