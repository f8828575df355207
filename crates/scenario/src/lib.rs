//! Scenario files: a network, its workload and what to vary, in TOML.

mod cdf;
mod document;
mod error;
pub mod fields;
mod flow;
mod link;
mod many;
mod model;
mod path;
pub mod pcapng;
pub mod python;
mod read;
mod recording;
pub mod reference;
pub mod results;
pub mod schema;
mod setting;
pub mod size;
mod sweep;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod topology;

use std::borrow::Cow;
use std::path::Path;

use headend_engine::rng::Rng;
use headend_engine::time::Duration;

pub use document::{Document, FILE_BYTES_MAX};
pub use error::{Error, MISTAKES_MAX, Mistake, Mistakes, Place, Problem, nearest};
pub use flow::{
    Amount, Bulk, Datagrams, Flow, FlowKind, FtpGet, HttpGet, Instance, Media, Opening, Over, Ports, Programs,
    Requests, Socket, Stale, Talk, Transfer,
};
pub use link::{Cable, Channel, Direction, Docsis, DocsisChannel, Link, LinkKind, Plain};
pub use model::{Circuit, Implementation, Node, NodeKind, Proxy, Tcp, TunnelDrops};

/// A network and a workload, every name resolved and every value checked.
///
/// With a sweep, the fields are those of the first point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// One line for people.
    pub title: String,
    /// The seed of the first run; run `r` of every point uses `seed + r`.
    pub seed: u64,
    /// Runs of every point, at least 1.
    pub runs: u32,
    /// Virtual time limit; a run ends when every flow has ended.
    pub duration: Duration,
    /// The longest random time by which flows begin later, if the file says.
    pub start_jitter: Option<Duration>,
    /// The longest random time that packets take longer on each plain link of a simulated network, if the file says.
    pub host_jitter: Option<Duration>,
    /// The nodes, in the file's order.
    pub nodes: Vec<Node>,
    /// The links, in the file's order.
    pub links: Vec<Link>,
    /// The flows, in the file's order.
    pub flows: Vec<Flow>,
    /// The circuits, in the file's order.
    pub circuits: Vec<Circuit>,
    /// The span of time by which it is recorded what each flow and link did; `None` for no such record.
    pub interval: Option<Duration>,
    /// The fields to vary, with their values.
    pub sweep: Sweep,
}

impl Scenario {
    /// Reads and checks a TOML file, every point of its sweep included.
    pub fn load(path: &Path) -> Result<Scenario, Error> {
        Document::load(path)?.scenario()
    }

    /// The random time by which an instance of a flow begins later than its start and `stagger` say.
    pub fn start_jitter_of(&self, flow: &Flow, instance: u32, seed: u64) -> Duration {
        let jitter = self.start_jitter.unwrap_or(Duration::ZERO);
        // A generator of its own, so that nothing else is drawn otherwise for it.
        let mut rng = Rng::named(seed, &format!("flows/{}/{instance}/start_jitter", flow.name));
        Duration::from_nanos(rng.below(jitter.as_nanos().saturating_add(1)))
    }

    /// True if a circuit begins or ends at node number `node`.
    pub fn is_edge(&self, node: usize) -> bool {
        self.circuits.iter().any(|circuit| [circuit.from, circuit.to].contains(&node))
    }

    /// The same scenario on hosts whose small delays vary, if the file says so.
    pub fn with_host_jitter(&self) -> Cow<'_, Scenario> {
        let jitter = self.host_jitter.unwrap_or(Duration::ZERO);
        if jitter == Duration::ZERO {
            return Cow::Borrowed(self);
        }
        let mut jittery = self.clone();
        for link in &mut jittery.links {
            if let LinkKind::Plain(plain) = &mut link.kind {
                for direction in [&mut plain.there, &mut plain.back] {
                    direction.disturbance.jitter = direction.disturbance.jitter.max(jitter);
                }
            }
        }
        Cow::Owned(jittery)
    }

    /// The shortest delay of all links that have one, one way; zero without any.
    pub fn shortest_delay(&self) -> Duration {
        self.links
            .iter()
            .flat_map(|link| link.kind.delays())
            .filter(|&delay| delay > Duration::ZERO)
            .min()
            .unwrap_or_default()
    }

    /// Reads and checks TOML text, every point of its sweep included; messages call it `name`.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, Error> {
        Document::parse(name, text)?.scenario()
    }
}

/// The fields to vary: every combination of the axes' values, the last axis fastest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// The swept fields, in the file's order.
    pub axes: Vec<Axis>,
}

/// One swept field and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The field's path, as for `--set`.
    pub path: String,
    /// The values, each as text.
    pub values: Vec<String>,
}

/// One combination of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its number in the sweep's order, from 0.
    pub index: usize,
    /// The swept paths and this point's values, each as text, in the order of the axes.
    pub settings: Vec<(String, String)>,
    /// The scenario with these values; its own sweep is empty.
    pub scenario: Scenario,
}
