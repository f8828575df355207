//! Virtual time: hosts, traffic, scenario files, sweeps, results and traces.

pub mod scenario;
