//! Virtual time: hosts, traffic, scenario files, sweeps, results and traces.

pub mod edge;
pub mod histogram;
pub mod host;
pub mod network;
pub mod pcapng;
pub mod proxy;
pub mod results;
pub mod router;
pub mod scenario;
pub mod size;
pub mod sweep;
pub mod trace;
pub mod traffic;
pub mod world;
