//! The configuration of a trunk.

use std::net::SocketAddr;

use headend_engine::cc::Algorithm;
use headend_engine::circuit::tunnel::Schedule;
use headend_engine::circuit::turns::Class;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};
use ipnet::IpNet;

use super::classify::Matches;
use super::keys::{PublicKey, SecretKey};
use super::rules::NAME_MAX;

/// Peers of one trunk at most: a number of a session has eight bits for its peer.
pub const PEERS_MAX: usize = 256;
/// Control TCPs of one circuit at most.
pub const CONTROLS_MAX: u8 = 64;
/// Bytes of data for each header: what a wire can be asked for.
pub const VMSS: std::ops::RangeInclusive<u32> = 512..=60_000;

/// The configuration of this site's end of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the trunk, after which its chain and its status are called.
    pub name: String,
    /// The address at which control packets come in.
    pub listen: SocketAddr,
    /// The number of the first peer's queue; others follow.
    pub queue: u16,
    /// The treatment of users' packets without a circuit.
    pub fallback: Fallback,
    /// Time without a word after which a peer counts as gone.
    pub dead_after: Duration,
    /// The classes in which users' packets wait, in the order in which they are tried: the last takes all.
    pub classes: Vec<EdgeClass>,
    /// The rule by which one of the classes goes first.
    pub schedule: Schedule,
    /// Rate of this site's link into the network: guaranteed rates that peers are granted stay below it together.
    pub link: Option<Rate>,
    /// The other sites.
    pub peers: Vec<PeerConfig>,
}

/// The treatment of users' packets while there is no circuit to their site, and when the daemon is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// They pass as if there were no trunk.
    #[default]
    Direct,
    /// They wait, as far as there is room, and are dropped when the daemon is gone.
    Block,
}

/// A class of users' packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeClass {
    /// Its name.
    pub name: String,
    /// Its room and weight.
    pub queue: Class,
    /// The packets that it takes.
    pub matches: Matches,
}

/// Another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its name.
    pub name: String,
    /// Its public key, by which it is known.
    pub key: PublicKey,
    /// The secret key that both ends share beside that.
    pub shared: SecretKey,
    /// Its address; a peer without one has to speak first.
    pub endpoint: Option<SocketAddr>,
    /// Its networks: packets for these go through the trunk.
    pub networks: Vec<IpNet>,
    /// The circuit to it.
    pub send: Send,
    /// The most that is granted to the circuit from it.
    pub receive: Receive,
}

/// The circuit to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Number of control TCPs that it has.
    pub controls: u8,
    /// Bytes of data for each header.
    pub vmss: u32,
    /// The congestion controller of the control TCPs.
    pub controller: Algorithm,
    /// Rate at which users' packets may leave without permission of the control TCPs.
    pub guaranteed: Rate,
}

/// The most that is granted to the circuit from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The most control TCPs.
    pub controls_max: u8,
    /// The highest guaranteed rate.
    pub guaranteed_max: Rate,
}

impl Default for Send {
    /// Four control TCPs as in the thesis's first experiment, CUBIC as Linux has it, and a VMSS of four full packets: a smaller one costs CPU,
    /// a larger one makes bursts.
    fn default() -> Send {
        let controller = Personality::linux().controller;
        Send { controls: 4, vmss: 6_000, controller, guaranteed: Rate::bit(0) }
    }
}

impl Default for Receive {
    fn default() -> Receive {
        Receive { controls_max: CONTROLS_MAX, guaranteed_max: Rate::bit(0) }
    }
}

impl EdgeClass {
    /// A class for all, with room for a tenth of a second at 400 Mbit/s.
    pub fn all() -> EdgeClass {
        let queue = Class { room: Bytes::new(5_000_000), weight: 1 };
        EdgeClass { name: "all".to_owned(), queue, matches: Matches::default() }
    }
}

/// A field, and what is wrong with it.
pub type Wrong = (String, String);

impl Config {
    /// Checks the configuration. The error names the first field found that is wrong whatever the machine is like.
    pub fn check(&self) -> Result<(), Wrong> {
        let wrong = |field: &str, why: String| Err((field.to_owned(), why));
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.len() <= NAME_MAX
                && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
        };
        if !is_plain(&self.name) {
            let why = format!(
                "found {:?}, expected up to {NAME_MAX} small letters, digits and hyphens: rules in the kernel are called so",
                self.name
            );
            return wrong("name", why);
        }
        if self.peers.is_empty() || self.peers.len() > PEERS_MAX {
            return wrong("peer", format!("expected 1 to {PEERS_MAX} of them: a trunk leads to another site"));
        }
        if usize::from(u16::MAX - self.queue) < self.peers.len() {
            return wrong("queue", format!("{} leaves no numbers for {} peers", self.queue, self.peers.len()));
        }
        if let Some(last) = self.classes.last()
            && last.matches != Matches::default()
        {
            return wrong(
                &format!("class {}", last.name),
                "the last class takes what no other does: say nothing of what it takes".to_owned(),
            );
        }
        for (number, class) in self.classes.iter().enumerate() {
            if self.classes[..number].iter().any(|other| other.name == class.name) {
                return wrong("class", format!("two are called {:?}", class.name));
            }
        }
        for (number, peer) in self.peers.iter().enumerate() {
            peer.check(&self.peers[..number], self.listen)
                .map_err(|(field, why)| (format!("peer {}: {field}", peer.name), why))?;
        }
        let granted: u64 = self.peers.iter().map(|peer| peer.receive.guaranteed_max.get()).fold(0, u64::saturating_add);
        match self.link {
            Some(link) if granted > link.get() => wrong(
                "link",
                format!(
                    "{link} is less than all gmb_max together, {}: the guarantees would not hold",
                    Rate::bit(granted)
                ),
            ),
            None if granted > 0 => wrong(
                "link",
                "missing: the rate of this site's link, which all gmb_max together must not exceed".to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

impl PeerConfig {
    fn check(&self, others: &[PeerConfig], listen: SocketAddr) -> Result<(), Wrong> {
        let wrong = |field: &str, why: String| Err((field.to_owned(), why));
        if let Some(other) = others.iter().find(|other| other.name == self.name || other.key == self.key) {
            return wrong("public_key", format!("{} has the same name or key", other.name));
        }
        if self.networks.is_empty() {
            return wrong("networks", "missing: the site's networks, such as [\"10.2.0.0/16\"]".to_owned());
        }
        for network in &self.networks {
            let shared = others.iter().flat_map(|other| other.networks.iter().map(move |one| (other, one)));
            if let Some((other, one)) =
                shared.into_iter().find(|(_, one)| one.contains(network) || network.contains(*one))
            {
                return wrong(
                    "networks",
                    format!("{network} and {one} of {} overlap: packets go to one site", other.name),
                );
            }
            if let Some(endpoint) = self.endpoint
                && network.contains(&endpoint.ip())
            {
                let why = format!(
                    "{network} has the endpoint {} in it: the trunk's own packets would wait for themselves",
                    endpoint.ip()
                );
                return wrong("networks", why);
            }
        }
        if let Some(endpoint) = self.endpoint {
            if endpoint.is_ipv4() != listen.is_ipv4() {
                return wrong(
                    "endpoint",
                    format!("{endpoint} cannot be reached from `listen`, {listen}: give both the same version of IP"),
                );
            }
            if endpoint.port() == 0 || endpoint.ip().is_unspecified() {
                return wrong("endpoint", format!("{endpoint} is no place to send to"));
            }
        }
        if !(1..=CONTROLS_MAX).contains(&self.send.controls) {
            return wrong("controls", format!("found {}, expected 1 to {CONTROLS_MAX}", self.send.controls));
        }
        if !VMSS.contains(&self.send.vmss) {
            return wrong(
                "vmss",
                format!("found {} bytes, expected {} to {}", self.send.vmss, VMSS.start(), VMSS.end()),
            );
        }
        Ok(())
    }
}
