//! Virtual time: worlds of hosts, links and traffic, and sweeps over many of them.

pub mod edge;
pub mod histogram;
pub mod host;
pub mod network;
pub mod proxy;
pub mod router;
pub mod size;
pub mod sweep;
pub mod trace;
pub mod traffic;
pub mod world;
