//! Tests whether a proxy, of any make, is as good as a wire.
//!
//! Clients and a server play seeded random schedules of writes, ends, resets and stalls through the proxy, and what both ends
//! saw is judged. The two are threads with a runtime each, so that each may live in a namespace of its own: a [`SocketPlace`] that
//! the caller gives. No proxy's code is known here, headend's own included: nothing that a proxy and its judge share could
//! be found wrong.
//!
//! A [`Trial`] is what is asked for, and its [`Report`] holds the [`Matrix`] of behaviours and faults.

mod behaviour;
mod entrance;
mod exchange;
mod fault;
mod introduction;
mod judge;
mod matrix;
mod message;
mod origin;
mod outcome;
mod pattern;
mod place;
mod player;
mod role;
mod runner;
mod schedule;
mod socket;
mod speech;
mod tcp_memory;
mod told;
mod trial;

pub use behaviour::Behaviour;
pub use entrance::{Entrance, WayIn};
pub use fault::{FAULTS, Fault};
pub use introduction::HeaderVersion;
pub use matrix::{FaultTally, Matrix, Tally};
pub use place::SocketPlace;
pub use tcp_memory::TcpMemory;
pub use trial::{Error, PAUSE_MAX, Report, Trial};
