//! A configuration that a running trunk takes over: all of it, or nothing.

use std::sync::mpsc::Sender;

use headend_datagram::{Outbox, PublicKey};
use headend_engine::circuit::tunnel::Schedule;
use headend_engine::circuit::turns::{Turns, Waiting};

use super::check::Wrong;
use super::config::{Carriage, Config, EdgeClass, PEERS_MAX, PeerConfig};
use super::daemon::{Trunk, habits, places};
use super::peer::Peer;
use crate::error::Error;

/// The reason why a configuration was not taken over. The trunk goes on as before, but for the last two.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// A field has changed that cannot change while a trunk runs.
    #[error("{}: {}", .0.0, .0.1)]
    Field(Wrong),
    /// The system refused something.
    #[error(transparent)]
    System(#[from] Error),
    /// The system refused something, and then what was set before as well: the trunk ends.
    #[error("{0}; what was set before could not be set again either, and the trunk ends")]
    Broken(Error),
    /// The trunk has ended.
    #[error("the trunk has ended")]
    Ended,
}

/// An order to take over a configuration, of the site with this public key.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) config: Config,
    pub(super) own: PublicKey,
    pub(super) answer: Sender<Result<Vec<String>, NotTaken>>,
}

impl Trunk {
    /// Takes over a configuration. Returns lines for the operator. Other peers than those that have changed notice nothing.
    pub(super) fn take_over(&mut self, new: Config, own: &PublicKey) -> Result<Vec<String>, NotTaken> {
        if self.identity.public() != *own {
            return Err(fixed("private_key", "a key", "another"));
        }
        if let Some((field, is, wanted)) = self.config.fixed(&new) {
            return Err(fixed(field, &is, &wanted));
        }
        let numbers = self.number(&new.peers)?;
        // The last that can fail.
        let mut closed = self.carrier.change(&new, &numbers).map_err(|error| match self.carrier.is_broken() {
            true => NotTaken::Broken(error),
            false => NotTaken::System(error),
        })?;
        let now = self.clock.now();
        let (mut said, mut outbox) = (Vec::new(), Outbox::default());
        let old = std::mem::replace(&mut self.config, new);
        let mut left: Vec<Peer> = std::mem::take(&mut self.peers);
        for (peer, &number) in self.config.peers.clone().into_iter().zip(&numbers) {
            let Some(at) = left.iter().position(|known| known.number == number) else {
                said.push(format!("peer {}: added", peer.name));
                self.peers.push(self.fresh(peer, number));
                continue;
            };
            let mut known = left.swap_remove(at);
            if known.config != peer {
                said.push(format!("peer {}: changed", peer.name));
            }
            known.change(now, peer, habits(&self.config), &mut outbox);
            self.peers.push(known);
        }
        for mut peer in left {
            said.push(format!("peer {}: removed", peer.config.name));
            peer.part(now, &mut outbox);
            self.carrier.forget(peer, &old, &self.numbers, &mut closed);
        }
        self.places = places(&self.peers);
        if (&old.classes, old.schedule) != (&self.config.classes, self.config.schedule) {
            said.push("classes: changed; what waits stays in the class of its name, or goes to the last".to_owned());
            for (at, peer) in self.peers.iter_mut().enumerate() {
                let victims = sort_anew(&mut peer.edge, &old.classes, &self.config.classes, self.config.schedule);
                let count = victims.len();
                if let Err(error) = self.carrier.drop_waiting(at, victims) {
                    let name = &peer.config.name;
                    said.push(format!(
                        "peer {name}: {count} packets without room are held until the trunk ends: {error}"
                    ));
                }
            }
        }
        self.send(&outbox);
        Ok(said)
    }

    /// The number of each peer: of one that is there already its own, and of others one that no peer has now.
    fn number(&self, peers: &[PeerConfig]) -> Result<Vec<u8>, NotTaken> {
        let mut free = (0..=u8::MAX).filter(|number| self.peers.iter().all(|known| known.number != *number));
        let number = |peer: &PeerConfig| match self.peers.iter().find(|known| known.config.key == peer.key) {
            Some(known) => Ok(known.number),
            None => free.next().ok_or_else(|| {
                let why = format!("those of before and the new ones are more than {PEERS_MAX}: remove some first");
                NotTaken::Field(("peer".to_owned(), why))
            }),
        };
        peers.iter().map(number).collect()
    }
}

impl Config {
    /// The first field that cannot change while a trunk runs and is another in `new`, with both values.
    fn fixed(&self, new: &Config) -> Option<(&'static str, String, String)> {
        let of = |config: &Config| {
            let device = &config.device;
            [
                ("name", config.name.clone()),
                ("listen", config.listen.to_string()),
                ("carriage", config.carriage.name().to_owned()),
                ("queue", config.queue.to_string()),
                ("device", device.name.clone()),
                ("addresses", device.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
                ("mtu", device.mtu.map_or("what fits".to_owned(), |mtu| mtu.to_string())),
                ("peer", tunnels(config)),
                ("fallback", format!("{:?}", config.fallback).to_lowercase()),
            ]
        };
        let mut pairs = of(self).into_iter().zip(of(new));
        pairs.find(|(is, wanted)| is != wanted).map(|((field, is), (_, wanted))| (field, is, wanted))
    }
}

/// What the devices of tunnelled carriage are made of.
fn tunnels(config: &Config) -> String {
    let one = |peer: &PeerConfig| {
        let networks = peer.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        format!("{} at {} with {networks}", peer.key, peer.endpoint.map_or("-".to_owned(), |at| at.to_string()))
    };
    match config.carriage {
        Carriage::Tunnelled => config.peers.iter().map(one).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    }
}

fn fixed(field: &str, is: &str, wanted: &str) -> NotTaken {
    let why =
        format!("this cannot change while the trunk runs: it has {is}, and the file {wanted}. Restart it instead");
    NotTaken::Field((field.to_owned(), why))
}

/// Puts what waits into the classes `new`, and returns what has no room there.
fn sort_anew(edge: &mut Turns, old: &[EdgeClass], new: &[EdgeClass], schedule: Schedule) -> Vec<Waiting> {
    let classes: Vec<_> = new.iter().map(|class| class.queue).collect();
    let mut before = std::mem::replace(edge, Turns::new(&classes, schedule));
    let mut victims = Vec::new();
    while let Some((class, packet)) = before.pop() {
        let same = new.iter().position(|new| new.name == old[class].name);
        let class = same.unwrap_or(classes.len() - 1);
        let mut victim = edge.push(class, packet);
        while let Some(packet) = victim {
            victims.push(packet);
            victim = edge.overflow(class);
        }
    }
    victims
}

#[cfg(test)]
mod tests {
    use headend_engine::circuit::turns::Class;
    use headend_engine::units::Bytes;

    use super::super::classify::Matches;
    use super::*;

    fn class(name: &str, room: u64) -> EdgeClass {
        let queue = Class { room: Bytes::new(room), weight: 1 };
        EdgeClass { name: name.to_owned(), queue, matches: Matches::default() }
    }

    #[test]
    fn what_waits_stays_in_the_class_of_its_name_as_far_as_there_is_room() {
        let old = [class("voice", 1_000), class("gone", 1_000), class("all", 1_000)];
        let classes: Vec<_> = old.iter().map(|class| class.queue).collect();
        let mut edge = Turns::new(&classes, Schedule::Priority);
        for id in 0..3 {
            assert_eq!(edge.push(id as usize, Waiting { id, flow: id, len: 600 }), None);
        }
        let new = [class("first", 1_000), class("second", 1_000), class("voice", 1_000), class("all", 1_000)];
        let victims = sort_anew(&mut edge, &old, &new, Schedule::Priority);
        assert_eq!(victims.len(), 1, "two of 600 bytes have no room in the last");
        assert_eq!(edge.pop().map(|(class, packet)| (class, packet.id)), Some((2, 0)));
        assert_eq!(edge.push(3, Waiting { id: 9, flow: 9, len: 100 }), None, "each new class is there");
    }
}
