//! What a scenario says, in the engine's types, with every name resolved.

use std::sync::Arc;

use headend_engine::cable::docsis;
use headend_engine::circuit::carried::Method;
use headend_engine::circuit::in_band::Losses;
use headend_engine::link::headers::HeaderCompression;
use headend_engine::link::loss::LossModel;
use headend_engine::link::queue::Discipline;
use headend_engine::link::service::RateModel;
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

/// Two directions of transmission between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name in the file.
    pub name: String,
    /// Indices into [`Scenario::nodes`](super::Scenario::nodes), as the file gives them.
    pub between: [usize; 2],
    /// Routes lead over it only from the first node to the second.
    pub one_way: bool,
    /// What carries the packets.
    pub kind: LinkKind,
}

/// What carries the packets of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A wire.
    Plain {
        /// From the first node of `between` to the second.
        there: Direction,
        /// From the second node to the first.
        back: Direction,
    },
    /// The papers' cable path; the headend is the first node of `between`, the subscriber the second.
    Cable(Cable),
    /// A modem on a DOCSIS channel; the headend is the first node of `between`, the subscriber the second.
    Docsis(Box<Docsis>),
}

/// A modem and the channel that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Docsis {
    /// The channel.
    pub channel: DocsisChannel,
    /// The modem.
    pub modem: docsis::Modem,
}

/// Whose channel a modem is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocsisChannel {
    /// One that this link brings.
    Own(docsis::Channel),
    /// That of the link with this index, which has one of its own.
    Of(usize),
}

/// One direction of a plain link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// How fast packets are served.
    pub rate: RateModel,
    /// Each packet's service takes longer by a random time, uniform in `0..=processing`.
    pub processing: Duration,
    /// Propagation, one way.
    pub delay: Duration,
    /// Where packets wait; the one in service is not counted.
    pub queue: Discipline,
    /// What the medium destroys.
    pub loss: LossModel,
    /// What headers of control TCPs become on it.
    pub header_compression: HeaderCompression,
    /// How many copies follow each of them on it.
    pub header_copies: u32,
}

/// Two channels of a cable network, a modem with a buffer, and an Ethernet behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Headend to modem.
    pub down: Channel,
    /// Modem to headend.
    pub up: Channel,
    /// Propagation over the cable, one way, the same in each direction.
    pub delay: Duration,
    /// The modem's buffer towards the Ethernet; the packet in transmission is counted.
    pub modem_buffer: Capacity,
    /// The rate of the Ethernet between modem and subscriber.
    pub lan: Rate,
}

/// One channel of a cable network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// How fast packets are served.
    pub rate: Rate,
    /// Where packets wait before the channel; the one in service is not counted.
    pub queue: Capacity,
    /// What the medium destroys.
    pub loss: LossModel,
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
