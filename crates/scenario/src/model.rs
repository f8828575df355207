//! What a scenario says, in the engine's types, with every name resolved.

use std::sync::Arc;

use headend_engine::cable::docsis;
use headend_engine::circuit::carried::Method;
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
            Implementation::Decoupling { .. } => u32::MAX,
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

/// Transfers of one kind between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its name in the file.
    pub name: String,
    /// What the applications do.
    pub kind: FlowKind,
    /// The host that sends the data: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub from: usize,
    /// The host that receives it: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub to: usize,
    /// The proxy that splits its connection, if any: an index into [`Scenario::nodes`](super::Scenario::nodes).
    pub via: Option<usize>,
    /// How much data; `None` until the duration ends.
    pub bytes: Option<Bytes>,
    /// The last segment is padded to a full one, as in ns; goodput counts `bytes`.
    pub whole_segments: bool,
    /// When the flow starts.
    pub start: Duration,
    /// Each instance starts later by a random time, uniform in `0..=stagger`.
    pub stagger: Duration,
    /// How many instances, at least 1.
    pub count: u32,
    /// What is asked for in turns; of [`FlowKind::Requests`] only.
    pub sizes: Vec<Bytes>,
    /// The frames of [`FlowKind::Media`], and of nothing else.
    pub media: Option<Arc<Media>>,
    /// The circuit of its reliable socket; `None` for a plain TCP.
    pub socket: Option<Socket>,
}

/// Frames with a deadline, and how they get across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What carries them.
    pub over: Over,
    /// From one frame to the next.
    pub frame_interval: Duration,
    /// Bit rates of all frames together, ascending; at least one.
    pub rates: Vec<Rate>,
    /// Every so-many-th frame is a key frame, at least 1 ...
    pub key_every: u64,
    /// ... and so many times as large as the others, at least 1.
    pub key_size: u64,
    /// A frame that is not whole at the other end by then is late.
    pub deadline: Duration,
    /// The largest datagram, with its headers.
    pub packet: Bytes,
    /// What becomes of frames that are stale before they leave.
    pub stale: Stale,
    /// A frame that has waited so long is, unless it has begun to leave.
    pub stale_after: Duration,
}

/// What carries frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Datagrams that leave as soon as they are made.
    Udp,
    /// One connection for all.
    Tcp,
    /// Datagrams through a circuit between the two hosts, with one control TCP.
    Circuit {
        /// Bytes of datagrams for each header packet.
        vmss: Bytes,
        /// The guaranteed minimum rate.
        gmb: Option<Rate>,
        /// How much may wait to enter.
        queue: Capacity,
    },
}

/// What a source does with frames that have become stale before they left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// They leave all the same.
    Keep,
    /// It takes them back.
    Withdraw,
    /// It takes them back, and puts the newest in the place of the first.
    Replace,
}

/// The circuit of a reliable decoupling socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// How many control TCPs there are.
    pub controls: u32,
    /// Bytes of data packets for each header packet.
    pub vmss: Bytes,
    /// How many copies follow each header packet.
    pub copies: u32,
    /// The control TCPs.
    pub tcp: Tcp,
}

/// What the applications at the two ends of a flow do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// The sender connects and sends.
    Bulk {
        /// False: the connection is established beforehand, as in ns.
        handshake: bool,
    },
    /// The server (`from`) opens the data connection to the client and sends, as for an FTP `get` (tuning paper s6.1).
    FtpGet,
    /// The client (`to`) connects and asks; the server answers on the same connection (tuning paper s6.1).
    HttpGet {
        /// Length of the request.
        request: Bytes,
        /// Length of the response header; may be zero.
        header: Bytes,
        /// The header leaves in a segment of its own, before the data are written.
        header_apart: bool,
    },
    /// The client (`to`) connects and asks as above, again and again.
    Requests {
        /// Length of a request.
        request: Bytes,
        /// From the end of one connection to the beginning of the next.
        pause: Duration,
        /// From a request's arrival to its answer: the shortest time, and how much longer it may be, uniform.
        answer: [Duration; 2],
    },
    /// Packets at a rate.
    Datagrams {
        /// How fast.
        rate: Rate,
        /// A packet on the wire.
        packet: Bytes,
        /// How long packets are sent before each pause; `None` for ever.
        on: Option<Duration>,
        /// How long a pause lasts.
        off: Duration,
    },
    /// Frames at a rate, each with a deadline: [`Flow::media`] says the rest.
    Media,
}

impl FlowKind {
    /// True if [`Flow::whole_segments`] is the flow's to choose.
    pub(super) fn pads(&self) -> bool {
        matches!(self, FlowKind::Bulk { .. } | FlowKind::FtpGet)
    }
}
