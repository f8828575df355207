//! Virtual time: worlds of hosts, links and traffic, and sweeps over many of them.

mod edge;
mod fingerprint;
pub mod histogram;
mod host;
pub mod network;
mod proxy;
mod router;
pub mod store;
pub mod sweep;
mod trace;
pub mod traffic;
pub mod world;
