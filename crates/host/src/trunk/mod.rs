//! A TCP trunk between two sites: users' packets pass from one to the other under the control of TCPs that carry no data.
//!
//! The kernel forwards users' packets. On their way out it shows each to this process (NFQUEUE) and lets it go when the
//! engine's [circuit](headend_engine::circuit) permits; headers of control TCPs and their acknowledgements go between
//! the two ends by UDP, sealed. Until then packets wait here, by class and flow.
//!
//! | where | what |
//! |---|---|
//! | `config` | what it is told to be; [`check`](Config::check) says what cannot be. Files are read in `cli/src/trunk/file` |
//! | `keys` `handshake` `session` `replay` | who is who; Noise; what is sealed and opened; what came before |
//! | `wire` `outbox` | datagrams as bytes; those that leave together |
//! | `peer` `circuit` | what is known of another end, without clock or sockets; the two ends of circuits |
//! | `classify` | the flow and the class of a packet, by its first bytes |
//! | `rules` | what leads packets into the kernel's queue (`crate::nfqueue`) |
//! | `daemon` `status` | the loop; what it is at |

mod circuit;
mod classify;
mod config;
mod daemon;
mod handshake;
mod keys;
mod outbox;
mod peer;
mod replay;
mod rules;
mod session;
mod status;
pub mod wire;

pub use classify::Matches;
pub use config::{CONTROLS_MAX, Config, EdgeClass, Fallback, PEERS_MAX, PeerConfig, Receive, Send, VMSS, Wrong};
pub use daemon::{Handle, Trunk};
pub use keys::{Identity, PublicKey, SecretKey};
pub use rules::Rules;
pub use status::{CircuitStatus, ClassStatus, PeerStatus, Status};
