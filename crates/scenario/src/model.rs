//! Nodes and circuits of a scenario in the engine's types, with every name resolved.

use std::sync::Arc;

use headend_engine::circuit::carried::Method;
use headend_engine::circuit::in_band::Losses;
use headend_engine::relay::RelayModel;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Capacity, Rate};

/// A place where links end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in the file.
    pub name: String,
    /// The kind of node.
    pub kind: NodeKind,
}

/// A kind of node: a place that has connections, passes packets on, or splits connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A host runs connections and applications.
    Host {
        /// The name under which the file asked for the personality.
        personality_name: String,
        /// The personality with the node's own `tcp` fields applied; hosts in a row that are alike share it.
        personality: Arc<Personality>,
    },
    /// A router passes packets on.
    Router,
    /// A proxy ends connections and connects on; it passes on what is not for it.
    Proxy(Box<Proxy>),
}

/// A split-connection proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Index of the link that leads to the subscribers.
    pub local_link: usize,
    /// The limit on how far one connection may run ahead of the other.
    pub model: RelayModel,
    /// The TCP of connections over that link.
    pub local: Tcp,
    /// The TCP of all others.
    pub remote: Tcp,
}

/// A personality and what the file calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The name under which the file asked for the personality.
    pub name: String,
    /// The personality with the `tcp` fields beside it applied.
    pub personality: Arc<Personality>,
}

/// A circuit of TCP decoupling between two routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    /// Its name in the file.
    pub name: String,
    /// The router at which packets enter: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub from: usize,
    /// The router at which they leave: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub to: usize,
    /// The flows whose packets enter, as indices into [`Scenario::flows`](super::Scenario::flows); `None` for all.
    pub flows: Option<Vec<usize>>,
    /// The way in which users' packets cross.
    pub implementation: Implementation,
    /// The control TCPs, or the connection that they cross in.
    pub tcp: Tcp,
    /// The room for packets that wait to enter.
    pub queue: Capacity,
    /// The packets that are dropped before that is full.
    pub drops: TunnelDrops,
    /// Flows that wait apart, by class, as indices into [`Scenario::flows`](super::Scenario::flows); all others in one more.
    pub classes: Vec<Vec<usize>>,
    /// The share of each of `classes`, beside 1 for all others; empty if the more urgent has priority.
    pub weights: Vec<u32>,
    /// True if it is noted how long each packet takes.
    pub delays: bool,
}

/// The ways in which a circuit carries its users' packets (section 3.4 of the decoupling thesis).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Users' packets cross as they are, with header packets behind them.
    Decoupling {
        /// The number of control TCPs.
        controls: u32,
        /// Bytes of users' packets for each header packet.
        vmss: Bytes,
        /// The number of copies that follow each header packet.
        copies: u32,
        /// The guaranteed minimum bandwidth.
        gmb: Option<Rate>,
    },
    /// Users' packets cross in numbered datagrams, whose fate is the signal of congestion.
    InBand {
        /// The number of TCPs that the circuit stands for.
        flows: u32,
        /// The losses that shrink a window.
        losses: Losses,
        /// The guaranteed minimum bandwidth.
        gmb: Option<Rate>,
    },
    /// Users' packets cross in the segments of a connection.
    Carried {
        /// The way in which they are put there.
        method: Method,
        /// The longest packet on the way.
        mtu: u32,
    },
}

impl Implementation {
    /// The longest packet on the way; without meaning where packets stay as long as they are.
    pub fn mtu(&self) -> u32 {
        match self {
            Implementation::Decoupling { .. } | Implementation::InBand { .. } => u32::MAX,
            Implementation::Carried { mtu, .. } => *mtu,
        }
    }
}

/// The ways of dropping packets that wait to enter a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelDrops {
    /// Packets that do not fit.
    Tail,
    /// Some packets, from this many waiting on.
    Early(u64),
    /// One packet of each flow when the circuit shrinks and this many wait, and no flow twice in a row.
    Fair {
        /// The number of waiting packets from which on flows are told.
        threshold: u64,
        /// The longest round trip of users.
        user_rtt: Duration,
        /// Packets of a flow that pass after one was dropped, in hundredths of those that it sends until it has recovered.
        exempt_percent: u64,
    },
}
