//! The two ends of a trunk's circuit on the wire: the engine's, under the control that the carriage allows.

mod headers;
mod in_band;

use headend_engine::circuit::repair::{Repaired, Waited};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

pub(super) use headers::{HeaderReceiver, HeaderSender};
pub(super) use in_band::{Copy, DatagramReceiver, DatagramSender, Held, Permission};

use super::wire::Terms;

/// The end that sends.
#[derive(Debug)]
pub(super) enum Outgoing {
    Headers(HeaderSender),
    InBand(DatagramSender),
}

/// The end that receives.
#[derive(Debug)]
pub(super) enum Incoming {
    Headers(HeaderReceiver),
    InBand(DatagramReceiver),
}

/// What is told of an end that sends.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) controller: String,
    pub(super) window: Bytes,
    pub(super) srtt: Option<Duration>,
    /// The shortest round trip of this circuit.
    pub(super) rtt_least: Option<Duration>,
    /// The time for which packets wait in the network's queues.
    pub(super) queueing: Option<Duration>,
    /// Headers, or numbered datagrams, that were sent.
    pub(super) sent: u64,
    /// Times that a window shrank for a loss, and those at which nothing had come for long.
    pub(super) losses: u64,
    pub(super) timeouts: u64,
    /// Datagrams that were lost; none are known of where there are headers.
    pub(super) lost: u64,
    pub(super) controlled_bytes: u64,
    pub(super) guaranteed_bytes: u64,
    /// True while the guaranteed rate is suspended because the path loses most of what is sent (RFC 8084).
    pub(super) is_suspended: bool,
    /// What was sent again, in a circuit that repairs.
    pub(super) repaired: Option<Repaired>,
}

impl Outgoing {
    pub(super) fn terms(&self) -> Terms {
        match self {
            Outgoing::Headers(to) => to.terms,
            Outgoing::InBand(to) => to.terms,
        }
    }

    /// Returns true if a control TCP has given up because headers do not come through.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Outgoing::Headers(to) if to.has_failed())
    }

    /// Counts an acknowledgement of the circuit in the other direction as data (thesis s2.3.2). Under in-band control they are
    /// not counted, as those of TCP and QUIC are not.
    pub(super) fn charge(&mut self, len: usize) {
        if let Outgoing::Headers(to) = self {
            to.charge(len);
        }
    }

    pub(super) fn guaranteed(&self) -> Rate {
        Rate::bit(self.terms().guaranteed_bps)
    }

    pub(super) fn report(&self) -> Report {
        match self {
            Outgoing::Headers(to) => to.report(),
            Outgoing::InBand(to) => to.report(),
        }
    }
}

impl Incoming {
    pub(super) fn terms(&self) -> Terms {
        match self {
            Incoming::Headers(from) => from.terms,
            Incoming::InBand(from) => from.terms,
        }
    }

    /// Gives up what packets have waited for long enough. Returns when that is due next.
    pub(super) fn give_up(&mut self, now: Time) -> Option<Time> {
        match self {
            Incoming::Headers(_) => None,
            Incoming::InBand(from) => from.order.as_mut()?.poll(now),
        }
    }

    /// A user's packet that has waited for earlier ones of its flow, and passes now.
    pub(super) fn released(&mut self) -> Option<Held> {
        match self {
            Incoming::Headers(_) => None,
            Incoming::InBand(from) => from.order.as_mut()?.released(),
        }
    }

    /// What has waited, in a circuit that repairs.
    pub(super) fn waited(&self) -> Option<Waited> {
        match self {
            Incoming::Headers(_) => None,
            Incoming::InBand(from) => from.order.as_ref().map(|order| order.counters()),
        }
    }

    /// Headers, or users' packets, that came.
    pub(super) fn received(&self) -> u64 {
        match self {
            Incoming::Headers(from) => from.headers,
            Incoming::InBand(from) => from.datagrams,
        }
    }
}
