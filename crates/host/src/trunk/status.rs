//! The status of a trunk, for programs and people that ask for it.

use std::net::SocketAddr;

use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

use super::config::EdgeClass;
use super::peer::{Peer, To};

/// The status of a trunk.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Time since it came up.
    pub up: Duration,
    /// Datagrams that belong to no known peer.
    pub strangers: u64,
    /// Initiations that were not looked at because too many came.
    pub flooded: u64,
    /// Verdicts that the kernel knew no packet for, and such.
    pub queue_errors: u64,
    /// Each peer.
    pub peers: Vec<PeerStatus>,
}

/// The status of a peer.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// `"down"`, `"offering"`, `"refused"` or `"carrying"`.
    pub state: &'static str,
    /// Its address, if that is known.
    pub endpoint: Option<SocketAddr>,
    /// Time since it was heard.
    pub silent: Option<Duration>,
    /// Sessions and circuits to it that were begun.
    pub sessions: u64,
    /// See `sessions`.
    pub circuits: u64,
    /// Datagrams in its name that were not authentic, or came twice.
    pub refused: u64,
    /// Users' packets that passed without control while there was no circuit, and their bytes.
    pub direct: u64,
    /// See `direct`.
    pub direct_bytes: u64,
    /// The circuit to it.
    pub to: Option<CircuitStatus>,
    /// Control TCPs of the circuit from it, its guaranteed rate as granted, and headers that came.
    pub from: Option<(u8, Rate, u64)>,
    /// The classes in which users' packets wait.
    pub classes: Vec<ClassStatus>,
}

/// The status of a circuit.
#[derive(Clone, Debug)]
pub struct CircuitStatus {
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
    /// Headers sent.
    pub headers: u64,
    /// Times that a control TCP found a loss.
    pub losses: u64,
    /// Times that its timer expired.
    pub timeouts: u64,
    /// Users' bytes sent under control.
    pub controlled_bytes: u64,
    /// Users' bytes sent at the guaranteed rate.
    pub guaranteed_bytes: u64,
}

/// The status of a class of users' packets.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Counts of its packets so far, and of those that wait.
    pub counters: headend_engine::circuit::turns::Counters,
}

impl PeerStatus {
    pub(super) fn of(peer: &Peer, classes: &[EdgeClass], now: Time) -> PeerStatus {
        let counters = peer.counters;
        let (state, to) = match &peer.to {
            To::Circuit(to) => {
                let (losses, timeouts) = to.losses();
                let sender = to.sender();
                let sent = sender.counters();
                let circuit = CircuitStatus {
                    controller: to.controller().to_owned(),
                    controls: to.terms.controls,
                    vmss: sender.vmss(),
                    guaranteed: Rate::bit(to.terms.guaranteed_bps),
                    window: sender.window(),
                    srtt: to.srtt(),
                    headers: sent.headers,
                    losses,
                    timeouts,
                    controlled_bytes: sent.controlled_bytes,
                    guaranteed_bytes: sent.guaranteed_bytes,
                };
                ("carrying", Some(circuit))
            }
            To::Refused(_) => ("refused", None),
            _ if peer.is_up(now) => ("offering", None),
            _ => ("down", None),
        };
        let class = |(class, counters): (&EdgeClass, _)| ClassStatus { name: class.name.clone(), counters };
        PeerStatus {
            name: peer.config.name.clone(),
            state,
            endpoint: peer.way.map(|way| way.to),
            silent: peer.silent(now),
            sessions: counters.sessions,
            circuits: counters.circuits,
            refused: counters.refused,
            direct: counters.direct,
            direct_bytes: counters.direct_bytes,
            to,
            from: peer
                .from
                .as_ref()
                .map(|from| (from.terms.controls, Rate::bit(from.terms.guaranteed_bps), from.headers)),
            classes: classes.iter().zip(peer.edge.counters()).map(class).collect(),
        }
    }
}
