//! The parameters of a DOCSIS channel and of its modems, and a check that there can be such a channel.

use crate::rng::Rng;
use crate::time::Duration;
use crate::units::{Bytes, Rate};

/// The unit of mini-slots: 6.25 us (RFIv1.1, "Mini-Slots").
pub const TICK: Duration = Duration::from_nanos(6_250);
/// The most mini-slots that a modem can ask for at once: the field of a request has 8 bits (RFIv1.1, "Request Frame").
pub(super) const REQUEST_SLOTS_MAX: u64 = 255;
/// The most mini-slots still to come that one MAP and those before it may describe (RFIv1.1, "Map Transmission and Timing").
pub(super) const MAPPED_SLOTS_MAX: u64 = 4_096;
/// Requests that may be lost before what was asked for is discarded (RFIv1.1, "Contention Resolution Overview").
pub(super) const RETRIES_MAX: u32 = 16;

/// A channel each way, and how the headend hands out the upstream one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Rate of the downstream channel, shared by all modems: 27 Mbit/s with 64-QAM in 6 MHz.
    pub down: Rate,
    /// Symbols per second of the upstream channel: 160,000 times a power of two up to 16.
    pub symbols: u64,
    /// Bits of an upstream symbol: 2 with QPSK, 4 with 16-QAM.
    pub bits_per_symbol: u64,
    /// A mini-slot in ticks of 6.25 us: a power of two, 2 to 128.
    pub slot_ticks: u64,
    /// Propagation one way.
    pub propagation: Duration,
    /// The delay that interleaving adds downstream: 0.98 ms at 64-QAM and the usual depth of 32.
    pub interleaving: Duration,
    /// The time from one MAP to the next.
    pub map_interval: Duration,
    /// The time from a MAP's departure to the first mini-slot that it describes.
    pub look_ahead: Duration,
    /// The time from the end of a request's burst until the headend can grant it.
    pub processing: Duration,
    /// Request opportunities at the start of each MAP in which there is room.
    pub opportunities: u64,
    /// True if mini-slots that nobody was granted are request opportunities too.
    pub fill: bool,
    /// The window of a first request, as an exponent of two: the start of the MAP's back-off range.
    pub backoff_start: u32,
    /// The largest window: the end of the range.
    pub backoff_end: u32,
    /// The way in which modems come to transmit.
    pub access: Access,
}

/// The ways in which modems come to transmit upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Modems ask, any of them at any request opportunity: requests collide.
    Contention,
    /// Modems ask, each at request opportunities of its own, in turn.
    Polled,
    /// Modems need not ask: what comes is sent as soon as the channel is free. No such modem exists; it shows what asking
    /// costs.
    Free,
}

/// A modem: the subscriber's two service flows, one each way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem {
    /// The rate that the downstream flow is held to; `None` for as much as the channel gives.
    pub down: Option<Shaping>,
    /// The longest that a packet may wait for its downstream tokens or, if there are none, for the channel; what would wait longer
    /// is dropped.
    pub down_delay_max: Duration,
    /// The rate that the upstream flow's grants are held to.
    pub up: Option<Shaping>,
    /// The entries of the calendar that grants of the upstream flow are put in: one grant to an entry, so that whoever was
    /// granted in this one waits for the next; zero for no calendar. The standard leaves it to the headend when it grants.
    pub grant_calendar: Duration,
    /// The room of the modem's upstream buffer.
    pub up_buffer: Bytes,
    /// The largest burst, its MAC headers included: 1600 bytes by default with Cisco's CMTS. A single packet may be longer.
    pub burst_max: Bytes,
    /// True if a burst asks for the next.
    pub piggyback: bool,
    /// True if a burst carries several packets.
    pub concatenation: bool,
    /// True if the modem may ask for more than a burst and get it in several, its concatenated frame cut in fragments.
    pub fragmentation: bool,
}

/// A token bucket, its releases rounded to a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// Maximum sustained traffic rate, of Ethernet frames.
    pub rate: Rate,
    /// Maximum traffic burst: the bucket.
    pub burst: Bytes,
    /// The step of release times: what must wait leaves at the next multiple of this; zero for at once.
    pub granularity: Duration,
}

impl Channel {
    /// A channel of the time: 27 Mbit/s down, 1.6 MHz of QPSK up in mini-slots of 50 us, a MAP every 2 ms.
    pub fn usual() -> Channel {
        Channel {
            down: Rate::kbit(26_970),
            symbols: 1_280_000,
            bits_per_symbol: 2,
            slot_ticks: 8,
            propagation: Duration::from_micros(100),
            interleaving: Duration::from_micros(980),
            map_interval: Duration::from_millis(2),
            look_ahead: Duration::from_millis(4),
            processing: Duration::ZERO,
            opportunities: 2,
            fill: true,
            backoff_start: 0,
            backoff_end: 4,
            access: Access::Contention,
        }
    }

    /// The length of a mini-slot.
    pub fn slot(&self) -> Duration {
        TICK * self.slot_ticks
    }

    /// Bytes that a mini-slot carries.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.symbols * self.bits_per_symbol * self.slot().as_nanos() / 8_000_000_000
    }

    /// Finds what is wrong with it, in words.
    ///
    /// # Errors
    /// If the standard has no such channel, or its MAPs would come too late.
    pub fn check(&self) -> Result<(), String> {
        if ![1, 2, 4, 8, 16].map(|n| n * 160_000).contains(&self.symbols) {
            return Err(format!("{} symbols/s: 160, 320, 640, 1280 or 2560 thousand", self.symbols));
        }
        if !(1..=6).contains(&self.bits_per_symbol) {
            return Err(format!("{} bits per symbol: 2 with QPSK, 4 with 16-QAM", self.bits_per_symbol));
        }
        if !self.slot_ticks.is_power_of_two() || !(2..=128).contains(&self.slot_ticks) {
            return Err(format!("a mini-slot of {} ticks of 6.25 us: 2, 4, 8, 16, 32, 64 or 128", self.slot_ticks));
        }
        if self.slot_bytes() < 8 {
            return Err(format!("a mini-slot carries {} bytes: it needs more ticks", self.slot_bytes()));
        }
        let slot_ns = self.slot().as_nanos();
        for (name, span) in [("interval of MAPs", self.map_interval), ("look-ahead", self.look_ahead)] {
            if span == Duration::ZERO || !span.as_nanos().is_multiple_of(slot_ns) {
                return Err(format!("the {name}, {span}, must be whole mini-slots of {}", self.slot()));
            }
        }
        let needed = self.propagation * 2 + self.interleaving + MAP_PROCESSING;
        if self.look_ahead < needed {
            let text = "a MAP takes as long to reach the modems and the first burst to come back";
            return Err(format!("a look-ahead of {} is less than {needed}: {text}", self.look_ahead));
        }
        // The last burst of a MAP may end after the others.
        let mapped = (self.look_ahead + self.map_interval).as_nanos() / slot_ns + REQUEST_SLOTS_MAX;
        if mapped > MAPPED_SLOTS_MAX {
            return Err(format!("MAPs would describe up to {mapped} mini-slots ahead, of {MAPPED_SLOTS_MAX} allowed"));
        }
        if self.map_interval.as_nanos() / slot_ns < self.opportunities * self.request_slots() {
            return Err(format!("{} request opportunities do not fit between two MAPs", self.opportunities));
        }
        if self.opportunities == 0 && !self.fill {
            return Err("there are no request opportunities at all".to_owned());
        }
        if self.backoff_start > self.backoff_end || self.backoff_end > 15 {
            let (start, end) = (self.backoff_start, self.backoff_end);
            return Err(format!(
                "a back-off range of {start} to {end}: exponents of 0 to 15, the start not above the end"
            ));
        }
        Ok(())
    }
}

/// The time that a modem takes to act on a MAP (RFIv1.1, appendix "Parameters and Constants": 200 us).
pub(super) const MAP_PROCESSING: Duration = Duration::from_micros(200);

impl Modem {
    /// A modem without limits but the channel's, with all that the standard lets it do but fragments.
    pub fn unlimited() -> Modem {
        Modem {
            down: None,
            down_delay_max: Duration::from_millis(512),
            up: None,
            grant_calendar: Duration::ZERO,
            up_buffer: Bytes::MAX,
            burst_max: Bytes::new(1_600),
            piggyback: true,
            concatenation: true,
            fragmentation: false,
        }
    }
}

/// A modem and the generator of its back-off.
pub type Drawing = (Modem, Rng);
