//! What a trunk is at, for whoever asks.

use std::net::SocketAddr;

use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};

use super::config::EdgeClass;
use super::peer::{Peer, To};

/// What a trunk is at.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// How long it has been up.
    pub up: Duration,
    /// Datagrams that came from nobody who is known.
    pub strangers: u64,
    /// Initiations that were not looked at because too many came.
    pub flooded: u64,
    /// Verdicts that the kernel knew no packet for, and such.
    pub queue_errors: u64,
    /// Each peer.
    pub peers: Vec<PeerStatus>,
}

/// What is known of a peer.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// `"down"`, `"offering"`, `"refused"` or `"carrying"`.
    pub state: &'static str,
    /// Where it is.
    pub endpoint: Option<SocketAddr>,
    /// How long ago it was heard.
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

/// What a circuit has done.
#[derive(Clone, Debug)]
pub struct CircuitStatus {
    /// Who controls it.
    pub controller: String,
    /// How many control TCPs it has.
    pub controls: u8,
    /// Bytes of data for each header.
    pub vmss: Bytes,
    /// What leaves without their permission, as the peer grants it.
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
    /// And at the guaranteed rate.
    pub guaranteed_bytes: u64,
}

/// What a class of users' packets has seen.
#[derive(Clone, Debug)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// What it has seen.
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
