//! What a scenario says, in the engine's types, with every name resolved.

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
    /// What it does.
    pub kind: NodeKind,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Runs connections and applications.
    Host {
        /// The name under which the file asked for the personality.
        personality_name: String,
        /// That personality with the node's own `tcp` fields applied; hosts in a row that are alike share it.
        personality: Arc<Personality>,
    },
    /// Passes packets on.
    Router,
    /// Ends connections and connects on; passes on what is not for it.
    Proxy(Box<Proxy>),
}

/// A split-connection proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Index of the link that leads to the subscribers.
    pub local_link: usize,
    /// How far one connection may run ahead of the other.
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
    /// That personality with the `tcp` fields beside it applied.
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
    /// How users' packets cross.
    pub implementation: Implementation,
    /// The control TCPs, or the connection that they cross in.
    pub tcp: Tcp,
    /// How much may wait to enter.
    pub queue: Capacity,
    /// What is dropped before that.
    pub drops: TunnelDrops,
    /// Flows that wait apart, by class, as indices into [`Scenario::flows`](super::Scenario::flows); all others in one more.
    pub classes: Vec<Vec<usize>>,
    /// The share of each of `classes`, beside 1 for all others; empty if the more urgent has priority.
    pub weights: Vec<u32>,
    /// Whether it is noted how long each packet takes.
    pub delays: bool,
}

/// How a circuit carries its users' packets (section 3.4 of the decoupling thesis).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// As they are, with header packets behind them.
    Decoupling {
        /// How many control TCPs there are.
        controls: u32,
        /// Bytes of users' packets for each header packet.
        vmss: Bytes,
        /// How many copies follow each header packet.
        copies: u32,
        /// The guaranteed minimum bandwidth.
        gmb: Option<Rate>,
    },
    /// In numbered datagrams, whose fate is the signal.
    InBand {
        /// How many TCPs the circuit stands for.
        flows: u32,
        /// Which losses shrink a window.
        losses: Losses,
        /// The guaranteed minimum bandwidth.
        gmb: Option<Rate>,
    },
    /// In the segments of a connection.
    Carried {
        /// How they are put there.
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

/// What is dropped of what waits to enter a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelDrops {
    /// What does not fit.
    Tail,
    /// Some packets from this many waiting on.
    Early(u64),
    /// Some packets from this many waiting on, and no flow twice in a row.
    Fair {
        /// So many.
        threshold: u64,
        /// The longest round trip of users.
        user_rtt: Duration,
    },
}
