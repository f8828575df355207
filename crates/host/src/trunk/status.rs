//! The status of a trunk, for programs and people that ask for it.

use std::net::SocketAddr;

use headend_engine::circuit::repair::{Repaired, Waited};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

use super::config::{Carriage, EdgeClass};
use super::peer::{Peer, To};
use super::sealed::Strays;

/// The time in the network's queues from which an operator is told of a remedy: as long as the way to a server near by, which is what
/// TCP wants a buffer for.
pub const DEEP: Duration = Duration::from_millis(20);

/// The status of a trunk.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Time since it came up.
    pub up: Duration,
    /// Datagrams that belong to no known peer.
    pub strangers: u64,
    /// Initiations that were not looked at because too many came; most were answered with a cookie.
    pub flooded: u64,
    /// Datagrams from addresses in peers' networks: answers would go through the trunk itself.
    pub looped: u64,
    /// Verdicts that the kernel knew no packet for, and such.
    pub queue_errors: u64,
    /// Users' packets that went nowhere, in sealed carriage.
    pub strays: Strays,
    /// Each peer.
    pub peers: Vec<PeerStatus>,
}

/// The status of a peer.
#[derive(Clone, Debug, Default)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// `"down"`, `"offering"`, `"refused"` or `"carrying"`.
    pub state: &'static str,
    /// The carriage of a peer that has refused; it must be that of this site.
    pub refuses_with: Option<Carriage>,
    /// Its address, if that is known.
    pub endpoint: Option<SocketAddr>,
    /// The longest packet of users that passes to it, and whether one of that length has, in sealed carriage.
    pub mtu: Option<(u32, bool)>,
    /// Time since it was heard.
    pub silent: Option<Duration>,
    /// Sessions and circuits to it that were begun.
    pub sessions: u64,
    /// See `sessions`.
    pub circuits: u64,
    /// Datagrams in its name that were not authentic, or came twice.
    pub refused: u64,
    /// Users' packets of it that came without control beyond what was granted, and were dropped.
    pub ungranted: u64,
    /// Acknowledgements of what was never sent.
    pub lies: u64,
    /// Users' packets that passed without control while there was no circuit, and their bytes.
    pub direct: u64,
    /// See `direct`.
    pub direct_bytes: u64,
    /// The circuit to it.
    pub to: Option<CircuitStatus>,
    /// Control TCPs of the circuit from it, its guaranteed rate as granted, and headers, or users' packets, that came.
    pub from: Option<(u8, Rate, u64)>,
    /// The longest that packets from it wait for earlier ones of their flow, and counts of them, if what is lost is sent again.
    pub waited: Option<(Duration, Waited)>,
    /// The classes in which users' packets wait.
    pub classes: Vec<ClassStatus>,
}

/// The status of a circuit.
#[derive(Clone, Debug)]
pub struct CircuitStatus {
    /// Its carriage.
    pub carriage: Carriage,
    /// The name of the congestion controller of its control TCPs.
    pub controller: String,
    /// Number of control TCPs that it has.
    pub controls: u8,
    /// Bytes of data for each header.
    pub vmss: Bytes,
    /// Rate at which users' packets may leave without their permission, as the peer grants it.
    pub guaranteed: Rate,
    /// The windows of all control TCPs together.
    pub window: Bytes,
    /// Their round trip, smoothed.
    pub srtt: Option<Duration>,
    /// The shortest since the circuit began.
    pub rtt_least: Option<Duration>,
    /// The time for which packets wait in the network's queues: what the round trip now has beyond the shortest.
    pub queueing: Option<Duration>,
    /// Headers sent, or numbered datagrams in sealed carriage.
    pub headers: u64,
    /// Datagrams that were lost, in sealed carriage.
    pub lost: u64,
    /// Times that a control TCP found a loss.
    pub losses: u64,
    /// Times that its timer expired.
    pub timeouts: u64,
    /// Users' bytes sent under control.
    pub controlled_bytes: u64,
    /// Users' bytes sent at the guaranteed rate.
    pub guaranteed_bytes: u64,
    /// True while the guaranteed rate is suspended because the path loses most of what is sent.
    pub is_suspended: bool,
    /// True if this site's file wants what is lost to be sent again.
    pub asks_repair: bool,
    /// The time within which that is done, and what was sent, if the peer grants it.
    pub repaired: Option<(Duration, Repaired)>,
}

/// The status of a class of users' packets.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Counts of its packets so far, and of those that wait.
    pub counters: headend_engine::circuit::turns::Counters,
}

impl CircuitStatus {
    /// True if copies of lost packets cannot leave in time: it takes a round trip to hear of a loss.
    pub fn repairs_too_late(&self) -> bool {
        self.repaired.zip(self.srtt).is_some_and(|((within, _), srtt)| srtt >= within)
    }

    /// True if packets wait in the network for long, and it is this circuit's controller that lets them.
    pub fn fills_a_deep_queue(&self) -> bool {
        fills_queues(&self.controller) && self.queueing.is_some_and(|queueing| queueing > DEEP)
    }
}

/// True if a controller of this name fills whatever queue there is, because only a loss stops it.
pub fn fills_queues(controller: &str) -> bool {
    matches!(controller, "cubic" | "reno" | "backfill")
}

impl PeerStatus {
    pub(super) fn of(peer: &Peer, classes: &[EdgeClass], now: Time) -> PeerStatus {
        let counters = peer.counters;
        let (state, to) = match &peer.to {
            To::Circuit(to) => {
                let (terms, report) = (to.terms(), to.report());
                let within = Duration::from_micros(u64::from(terms.repair_us));
                let circuit = CircuitStatus {
                    carriage: terms.carriage,
                    controller: report.controller,
                    controls: terms.controls,
                    vmss: Bytes::new(u64::from(terms.vmss)),
                    guaranteed: to.guaranteed(),
                    window: report.window,
                    srtt: report.srtt,
                    rtt_least: report.rtt_least,
                    queueing: report.queueing,
                    headers: report.sent,
                    lost: report.lost,
                    losses: report.losses,
                    timeouts: report.timeouts,
                    controlled_bytes: report.controlled_bytes,
                    guaranteed_bytes: report.guaranteed_bytes,
                    is_suspended: report.is_suspended,
                    asks_repair: peer.config.send.repair.is_some(),
                    repaired: report.repaired.map(|repaired| (within, repaired)),
                };
                ("carrying", Some(circuit))
            }
            To::Refused(..) => ("refused", None),
            _ if peer.is_up(now) => ("offering", None),
            _ => ("down", None),
        };
        let class = |(class, counters): (&EdgeClass, _)| ClassStatus { name: class.name.clone(), counters };
        PeerStatus {
            name: peer.config.name.clone(),
            state,
            endpoint: peer.way.map(|way| way.to),
            mtu: peer.mtu(),
            silent: peer.silent(now),
            sessions: counters.sessions,
            circuits: counters.circuits,
            refuses_with: match peer.to {
                To::Refused(carriage, _) => Some(carriage),
                _ => None,
            },
            refused: counters.refused,
            ungranted: counters.ungranted,
            lies: counters.lies,
            direct: counters.direct,
            direct_bytes: counters.direct_bytes,
            to,
            from: peer
                .from
                .as_ref()
                .map(|from| (from.terms().controls, Rate::bit(from.terms().guaranteed_bps), from.received())),
            waited: peer.from.as_ref().and_then(|from| {
                let within = Duration::from_micros(u64::from(from.terms().repair_us));
                from.waited().map(|waited| (within, waited))
            }),
            classes: classes.iter().zip(peer.edge.counters()).map(class).collect(),
        }
    }
}
