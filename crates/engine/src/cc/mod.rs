//! Congestion control: how much may be in flight. One file per algorithm, behind [`Controller`].
//!
//! A controller sees acknowledgements and congestion events; it never sees sequence numbers, timers or packets, so the
//! same one serves a simulated connection, a control TCP and a test. A [`Personality`](crate::tcp::personality::Personality)
//! names an [`Algorithm`] with its parameters; each connection starts a controller from it.
//!
//! # A controller of one's own
//!
//! Another crate implements [`Controller`] for the state of one connection and [`Factory`] for what its connections have
//! in common, and puts the factory into a personality:
//!
//! ```
//! use headend_engine::cc::{Ack, Congestion, Controller, Custom, Factory, Setup};
//! use headend_engine::tcp::personality::Personality;
//! use headend_engine::units::Bytes;
//!
//! /// A window of as many segments as the path is known to hold.
//! #[derive(Debug)]
//! struct Fixed {
//!     segments: u64,
//! }
//!
//! #[derive(Debug)]
//! struct Window(Bytes);
//!
//! impl Controller for Window {
//!     fn on_ack(&mut self, _ack: &Ack) {}
//!     fn on_congestion(&mut self, _congestion: &Congestion) {}
//!     fn window(&self) -> Bytes {
//!         self.0
//!     }
//!     fn threshold(&self) -> Bytes {
//!         Bytes::MAX
//!     }
//! }
//!
//! impl Factory for Fixed {
//!     fn name(&self) -> &str {
//!         "fixed"
//!     }
//!     fn start(&self, setup: &Setup) -> Box<dyn Controller> {
//!         Box::new(Window(setup.mss * self.segments))
//!     }
//! }
//!
//! let controller = Custom::new(Fixed { segments: 12 }).into();
//! let personality = Personality { controller, ..Personality::linux() };
//! assert_eq!(personality.controller.name(), "fixed");
//! ```
//!
//! `examples/controller.rs` runs such a controller over a link that loses packets.

pub mod backfill;
pub mod bbr;
pub mod bbr3;
pub mod cubic;
pub mod fast;
pub mod hystart;
mod linux;
mod max_filter;
#[cfg(test)]
mod path;
pub mod reno;
pub mod vegas;

use std::fmt::Debug;
use std::sync::Arc;

use crate::part::{Values, registry};
use crate::time::{Duration, Time};
use crate::units::{Bytes, Rate};

/// New data was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time when the acknowledgement arrived.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or by SACK.
    pub acked: Bytes,
    /// Bytes in flight before this acknowledgement.
    pub in_flight: Bytes,
    /// A round-trip sample that this acknowledgement gave, Karn's rule applied (RFC 6298 s3).
    pub rtt: Option<Duration>,
    /// The connection's smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// False while loss recovery holds the window: then only state is kept, the window does not grow.
    pub may_grow: bool,
    /// True if the window, not the application or the peer, limited what was in flight (RFC 7661 s4.1).
    pub window_limited: bool,
    /// Of `acked`, the bytes that the peer reports to have come with a mark of ECN. Where it only says that some did (RFC
    /// 3168), it is all of them.
    pub marked: Bytes,
}

/// The rate at which the network delivered, as of one acknowledgement (draft-cheng-iccrg-delivery-rate-estimation-00), for
/// controllers that [ask](Controller::wants_delivery) for it.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// The time when the acknowledgement arrived.
    pub now: Time,
    /// Bytes delivered so far, by acknowledgement or SACK.
    pub delivered: Bytes,
    /// Bytes that had been delivered when the segment left that this sample is of.
    pub prior_delivered: Bytes,
    /// Bytes that this acknowledgement delivered.
    pub acked: Bytes,
    /// Bytes that this acknowledgement shows to be lost.
    pub lost: Bytes,
    /// Bytes found lost so far, by acknowledgements and by timers.
    pub lost_so_far: Bytes,
    /// Bytes in flight before this acknowledgement.
    pub prior_in_flight: Bytes,
    /// Bytes in flight after it.
    pub in_flight: Bytes,
    /// The rate of delivery over about a round trip; `None` if nothing was delivered, or too soon to tell.
    pub rate: Option<Rate>,
    /// The round trip that the acknowledgement gave, if any.
    pub rtt: Option<Duration>,
    /// The application did not keep the network busy meanwhile: the rate is a lower bound.
    pub is_app_limited: bool,
    /// The same holds for what leaves now: the application has had no more to send.
    pub runs_dry: bool,
    /// Bytes that were in flight when the segment had left that this sample is of, itself included; 0 if it is of none.
    pub sent_in_flight: Bytes,
    /// Bytes found lost since then.
    pub lost_since: Bytes,
    /// The place in the stream before which all is acknowledged.
    pub una: u64,
    /// The place in the stream before which all has been sent.
    pub sent: u64,
}

/// A segment was found lost, for controllers that [ask](Controller::wants_delivery) for the rate of delivery, of senders
/// whose peer says what has arrived ([`Setup::selective`]).
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The time when it was found.
    pub now: Time,
    /// The place in the stream at which it begins.
    pub start: u64,
    /// One past its last place in the stream.
    pub end: u64,
    /// Bytes delivered so far.
    pub delivered: Bytes,
    /// Bytes that were in flight when it had left, itself included.
    pub sent_in_flight: Bytes,
    /// Bytes found lost since then, itself included.
    pub lost_since: Bytes,
    /// The application did not keep the network busy then.
    pub is_app_limited: bool,
}

/// The reason why the window must shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Loss found by duplicate ACKs, SACK or RACK: one event per window of data.
    Loss,
    /// Loss found by duplicate ACKs by a sender that has no fast recovery (Tahoe): slow start follows.
    LossTahoe,
    /// The peer tells of packets that a queue has marked (RFC 3168 s6.1.2): one event per window of data. Nothing is lost.
    Marked,
    /// The retransmission timer expired.
    Timeout,
    /// The connection was idle for longer than the RTO (RFC 5681 s4.1).
    Idle,
}

/// An event upon which the window must shrink.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// The time when it was noticed.
    pub now: Time,
    /// The reason why the window must shrink.
    pub cause: Cause,
    /// Bytes in flight then (RFC 5681 FlightSize).
    pub in_flight: Bytes,
    /// The bytes that the sender could have had in flight then: the window, with inflation, bounded by the peer's.
    pub usable: Bytes,
    /// True for a further timeout of the same data (RFC 5681 s3.1: ssthresh is then kept).
    pub repeated: bool,
    /// Bytes still believed to be in the network after a timeout: sent too recently to be taken for lost.
    pub pipe: Bytes,
    /// The number of retransmission timeouts that an idle time lasted (RFC 2861 s3.1); 0 if the connection was not idle.
    pub timeouts: u64,
}

/// The properties of a connection that every controller is told at the start.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Sender maximum segment size: payload bytes of a full segment.
    pub mss: Bytes,
    /// Initial window.
    pub initial_window: Bytes,
    /// The window at which slow start ends before any loss was seen; `Bytes::MAX` for as high as possible (RFC 5681 s3.1).
    pub initial_threshold: Bytes,
    /// The most that one ACK adds in slow start: one segment (RFC 5681 s3.1), two (RFC 3465), `Bytes::MAX` (Linux).
    pub abc_limit: Bytes,
    /// Window after a timeout, in bytes: one segment (RFC 5681 s3.1), or the initial window (ns of 1996).
    pub loss_window: Bytes,
    /// Smallest window left by a halving, in segments: 2 (RFC 5681 s3.1), or 0 for the integer halving of 1996.
    pub floor_segments: u64,
    /// Halve the usable window in whole segments (BSD, ns) and not the bytes in flight (RFC 5681 eq. 4).
    pub halve_usable: bool,
    /// Windows in whole segments, computed as Linux does; else in bytes, as the RFCs do.
    pub in_segments: bool,
    /// The peer says what has arrived beyond a gap (RFC 2018): every loss of a round trip is found.
    pub selective: bool,
}

#[cfg(test)]
impl Setup {
    /// A set-up for tests, as the RFCs have it, with segments of `mss` bytes and an initial window of so many of them.
    pub(crate) fn rfc(mss: u64, segments: u64) -> Setup {
        Setup {
            mss: Bytes::new(mss),
            initial_window: Bytes::new(segments * mss),
            initial_threshold: Bytes::MAX,
            abc_limit: Bytes::new(mss),
            loss_window: Bytes::new(mss),
            floor_segments: 2,
            halve_usable: false,
            in_segments: false,
            selective: true,
        }
    }

    /// A set-up for tests like [`Setup::rfc`], counted as Linux counts.
    pub(crate) fn linux(mss: u64, segments: u64) -> Setup {
        Setup { abc_limit: Bytes::MAX, in_segments: true, ..Setup::rfc(mss, segments) }
    }
}

/// A congestion-control algorithm.
pub trait Controller: Debug + Send {
    /// Data was sent: `len` bytes, with `in_flight` after it.
    fn on_sent(&mut self, _now: Time, _len: Bytes, _in_flight: Bytes) {}

    /// New data was acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// The window must shrink.
    fn on_congestion(&mut self, congestion: &Congestion);

    /// The last congestion event was a mistake: nothing had been lost (RFC 3522, RFC 5682).
    fn on_spurious(&mut self) {}

    /// The connection is established, and its hand-shake took so long, if that was measured.
    fn on_established(&mut self, _rtt: Option<Duration>) {}

    /// True for an algorithm that steers by the rate of delivery. It is told of every acknowledgement by
    /// [`on_delivery`](Controller::on_delivery), after [`on_ack`](Controller::on_ack), and its window holds in loss
    /// recovery too.
    fn wants_delivery(&self) -> bool {
        false
    }

    /// A segment was found lost: before [`on_delivery`](Controller::on_delivery), if an acknowledgement shows it.
    fn on_lost(&mut self, _lost: &Lost) {}

    /// An acknowledgement arrived, and loss recovery has dealt with it. True if the algorithm itself keeps the network
    /// less than busy now, so that samples of what it sends are lower bounds.
    fn on_delivery(&mut self, _sample: &RateSample) -> bool {
        false
    }

    /// The congestion window.
    fn window(&self) -> Bytes;

    /// The slow-start threshold; `Bytes::MAX` until the first congestion.
    fn threshold(&self) -> Bytes;

    /// The rate of payload at which to spread packets, if the algorithm paces; one that does gives a rate from the start.
    fn pacing(&self) -> Option<Rate> {
        None
    }
}

/// An algorithm with its parameters, which makes the controllers of connections.
pub trait Factory: Debug + Send + Sync {
    /// The algorithm's name, in lower case, as the kernel and scenario files spell names.
    fn name(&self) -> &str;

    /// A controller for a new connection.
    fn start(&self, setup: &Setup) -> Box<dyn Controller>;

    /// The parameters as values of the algorithm's fields, for an algorithm that has fields.
    fn values(&self) -> Values {
        Values::default()
    }
}

registry! {
    /// A congestion-control algorithm with its parameters, as a personality has it.
    pub enum Algorithm {
        Reno(reno::Parameters),
        Cubic(cubic::Parameters),
        Fast(fast::Parameters),
        Vegas(vegas::Parameters),
        Bbr(bbr::Parameters),
        Bbr3(bbr3::Parameters),
        Backfill(backfill::Parameters),
    } and {
        Custom(Custom),
    }

    /// The algorithm's name.
    fn name(&self) -> &str;

    /// A controller for a new connection.
    fn start(&self, setup: &Setup) -> Box<dyn Controller>;

    /// The parameters as values of the algorithm's fields.
    fn values(&self) -> Values;
}

/// An algorithm that this crate does not know. Two are equal if they are the same factory.
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn Factory>);

impl Custom {
    /// The algorithm of which `factory` makes the controllers.
    pub fn new(factory: impl Factory + 'static) -> Custom {
        Custom(Arc::new(factory))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        self.0.start(setup)
    }

    fn values(&self) -> Values {
        self.0.values()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Custom {}
