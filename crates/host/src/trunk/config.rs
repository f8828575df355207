//! The configuration of a trunk.

use std::net::SocketAddr;

use headend_engine::cc::Algorithm;
use headend_engine::circuit::in_band::Losses;
use headend_engine::circuit::repair::Rules;
use headend_engine::circuit::tunnel::Schedule;
use headend_engine::circuit::turns::Class;
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};
use ipnet::IpNet;

use super::classify::{Facts, Matches};
use headend_datagram::{PublicKey, SecretKey};

/// Peers of one trunk at most: a number of a session has eight bits for its peer.
pub const PEERS_MAX: usize = 256;
/// Control TCPs of one circuit at most.
pub const CONTROLS_MAX: u8 = 64;
/// The longest that a packet may wait for one that is sent again, and copies of one at most: beyond, users' ends do better themselves.
pub const REPAIR_WITHIN: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(1_000);
/// See [`REPAIR_WITHIN`].
pub const REPAIR_TRIES: std::ops::RangeInclusive<u8> = 1..=8;
/// Bytes of data for each header: what a wire can be asked for.
pub const VMSS: std::ops::RangeInclusive<u32> = 512..=60_000;

/// The configuration of this site's end of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The name of the trunk, after which its chain and its status are called.
    pub name: String,
    /// The address at which control packets come in.
    pub listen: SocketAddr,
    /// The carriage of users' packets.
    pub carriage: Carriage,
    /// The number of the first peer's queue; others follow. For native carriage.
    pub queue: u16,
    /// The device through which users' packets pass in sealed carriage.
    pub device: DeviceConfig,
    /// The time for which a probe sends little, so that what it sees is none of its own doing.
    pub gentle: Duration,
    /// True if users' packets get the mark by which routers know those of circuits, in the place of their own code point. In native carriage.
    pub marks_users: bool,
    /// The treatment of users' packets without a circuit.
    pub fallback: Fallback,
    /// Their treatment after an orderly end.
    pub at_end: Fallback,
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

/// The way in which users' packets go to the other site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// The kernel forwards them as they are; control packets go beside them.
    Native,
    /// As natively, but the kernel forwards them into a tunnel of VXLAN, and control packets with them.
    Tunnelled,
    /// They come into this process, and go in datagrams of its own, encrypted and numbered.
    Sealed,
    /// There are none: the datagrams are as in sealed carriage, and their packets are thrown away where they arrive.
    Probe,
}

impl Carriage {
    pub(super) fn number(self) -> u8 {
        match self {
            Carriage::Native => 0,
            Carriage::Sealed => 1,
            Carriage::Probe => 2,
            Carriage::Tunnelled => 3,
        }
    }

    pub(super) fn of_number(number: u8) -> Option<Carriage> {
        match number {
            0 => Some(Carriage::Native),
            1 => Some(Carriage::Sealed),
            2 => Some(Carriage::Probe),
            3 => Some(Carriage::Tunnelled),
            _ => None,
        }
    }

    /// True if the kernel holds and forwards users' packets.
    pub(super) fn is_the_kernels(self) -> bool {
        matches!(self, Carriage::Native | Carriage::Tunnelled)
    }

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Carriage::Native => "native",
            Carriage::Tunnelled => "tunnelled",
            Carriage::Sealed => "sealed",
            Carriage::Probe => "probe",
        }
    }
}

/// The device of a trunk with sealed carriage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its name.
    pub name: String,
    /// Its addresses. It needs none, unless this site itself is to be reached by one.
    pub addresses: Vec<IpNet>,
    /// The longest packet of users. Without it, what an Ethernet takes with all headers of the trunk before it.
    pub mtu: Option<u32>,
    /// True if users' TCPs are made to announce no larger segments than pass.
    pub clamps_mss: bool,
}

/// The treatment of users' packets while there is no circuit to their site, and when the daemon is gone, in order or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// They pass as if there were no trunk. In sealed carriage that is refused: they would pass unencrypted.
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
    /// The losses of packets that count, in sealed carriage: only there are they known.
    pub losses: Losses,
    /// The rules by which packets that are lost are sent again, as far as the peer grants it, in sealed carriage.
    pub repair: Option<Rules>,
}

/// The most that is granted to the circuit from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The most control TCPs.
    pub controls_max: u8,
    /// The highest guaranteed rate.
    pub guaranteed_max: Rate,
    /// The longest that packets may wait here for earlier ones of their flow that are sent again; none are if it is zero.
    pub repair_within_max: Duration,
}

impl Default for Send {
    /// Four control TCPs as in the thesis's first experiment, CUBIC as Linux has it, and a VMSS of four full packets: a smaller one costs CPU,
    /// a larger one makes bursts.
    fn default() -> Send {
        let controller = Personality::linux().controller;
        Send { controls: 4, vmss: 6_000, controller, guaranteed: Rate::bit(0), losses: Losses::All, repair: None }
    }
}

impl Default for Receive {
    fn default() -> Receive {
        Receive { controls_max: CONTROLS_MAX, guaranteed_max: Rate::bit(0), repair_within_max: Duration::ZERO }
    }
}

impl EdgeClass {
    /// A class for all, with room for a tenth of a second at 400 Mbit/s.
    pub fn all() -> EdgeClass {
        let queue = Class { room: Bytes::new(5_000_000), weight: 1 };
        EdgeClass { name: "all".to_owned(), queue, matches: Matches::default() }
    }
}

impl Config {
    /// The number of the class of a packet: the first that takes it.
    pub(super) fn class_of(&self, facts: &Facts, dscp: u8) -> usize {
        let found = self.classes.iter().position(|class| class.matches.takes(facts, dscp));
        found.unwrap_or(self.classes.len() - 1)
    }
}
