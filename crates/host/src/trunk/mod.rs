//! A TCP trunk between two sites: users' packets pass from one to the other under the control of TCPs that carry no data.
//!
//! In *native* carriage the kernel forwards users' packets. On their way out it shows each to this process (NFQUEUE) and lets it go
//! when the engine's [circuit](headend_engine::circuit) permits; headers of control TCPs and their acknowledgements go between
//! the two ends by UDP, sealed. In *sealed* carriage users' packets come into this process (TUN) and go to the other end in datagrams
//! of ours, encrypted and numbered; what becomes of these is the circuit's signal, and there are no headers. Until packets may
//! leave they wait here, by class and flow.
//!
//! | where | what |
//! |---|---|
//! | `config` `check` | what it is told to be, and what cannot be. Files are read in `cli/src/trunk/file` |
//! | `gate` | the hand-shakes that are looked at when there are too many |
//! | `handshake` `session` | how a session begins, and how long it lasts; keys, Noise and seals are `headend_datagram`'s |
//! | `wire` | datagrams as bytes |
//! | `peer` `circuit` | what is known of another end, without clock or sockets; the two ends of circuits |
//! | `classify` | the flow and the class of a packet, by its first bytes |
//! | `carrier` | the carriage, one of the two that follow |
//! | `native` `rules` | the kernel's queues of packets; the rules that lead them there, and that keep strangers out of tunnels |
//! | `tunnels` | devices of VXLAN, into which the kernel forwards in tunnelled carriage |
//! | `sealed` `routes` | the device; the routes that lead there |
//! | `mtu` | the search for the longest packet that passes to a peer |
//! | `mss` | the segments that users' TCPs announce, cut to what passes |
//! | `probe` | neither: datagrams that measure the path |
//! | `bundle` `store` `runs` `layout` | several segments as one packet: cut when they leave, held until then, joined when they have come |
//! | `daemon` `status` | the loop; what it is at |
//! | `reload` | a changed configuration, while it runs |
//! | `claim` | the name, which one process has; what others of that name left |
//! | `marked` | datagrams that leave with a mark for routers that know of circuits |

mod bundle;
mod carrier;
mod check;
mod circuit;
mod claim;
mod classify;
mod config;
mod daemon;
mod gate;
mod handshake;
mod layout;
mod marked;
mod mss;
mod mtu;
mod native;
mod peer;
mod probe;
mod reload;
mod routes;
mod rules;
mod runs;
mod sealed;
mod session;
mod status;
mod store;
mod tunnels;
pub mod wire;

pub use carrier::settings;
pub use check::Wrong;
pub use claim::clear;
pub use classify::Matches;
pub use config::{
    CONTROLS_MAX, Carriage, Config, DeviceConfig, EdgeClass, Fallback, PEERS_MAX, PeerConfig, REPAIR_TRIES,
    REPAIR_WITHIN, Receive, Send, VMSS,
};
pub use daemon::{Handle, Trunk};
pub use headend_datagram::{Identity, KeyError, PublicKey, SecretKey};
pub use reload::NotTaken;
pub use sealed::Strays;
pub use status::{CircuitStatus, ClassStatus, DEEP, PeerStatus, Status, fills_queues};
pub use tunnels::try_vxlan;
