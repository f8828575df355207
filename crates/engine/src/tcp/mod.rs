//! TCP without payload and without I/O: segments in, segments out, time as an argument.
//!
//! [`connection::Connection`] is the whole of it; a sender and a receiver are its halves.

pub mod connection;
pub mod counters;
pub(crate) mod delivery;
pub(crate) mod ecn;
pub(crate) mod flight;
pub mod personality;
pub(crate) mod receiver;
pub(crate) mod recovery;
pub(crate) mod rto;
pub(crate) mod scoreboard;
pub mod segment;
pub(crate) mod sender;
pub mod seq;
pub(crate) mod timestamp;
