//! Native carriage: the kernel forwards users' packets, and holds each until it is told to let it go.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use headend_engine::circuit::turns::Waiting;
use headend_engine::time::Time;

use super::carrier::Ending;
use super::classify::{self, Numbers};
use super::config::{Config, Fallback, PeerConfig};
use super::peer::{Hold, Peer};
use super::rules::{InForce, Rules, Table};
use super::tunnels::Tunnels;
use crate::error::{During, Error};
use crate::nfqueue::Queue;
use headend_datagram::{Outbox, PublicKey};

/// Reads of one queue in a row before others have their turn.
const BATCHES_A_LOOK: usize = 8;

/// A queue of the kernel's for each peer, and the rules that lead there.
#[derive(Debug)]
pub(super) struct Native {
    queues: Vec<Queue>,
    /// The peers' numbers, in the order of the queues.
    numbers: Vec<u8>,
    rules: Rules,
    /// What a trunk of this name had left where packets are led into queues, for a start that comes to nothing.
    before: Option<InForce>,
    /// The devices into which packets go, in tunnelled carriage.
    tunnels: Option<Tunnels>,
    leaving: Vec<Waiting>,
    /// The reason why the rules in force are neither those of now nor those of before: the trunk ends.
    broken: Option<Error>,
}

/// Queues of peers that are gone, each with its peer's number.
pub(super) type Closed = BTreeMap<u8, Queue>;

/// The numbers of the peers of a trunk that begins.
pub(super) fn numbers(config: &Config) -> Vec<u8> {
    (0..config.peers.len()).map(|number| number as u8).collect()
}

/// The rules of a trunk with native or tunnelled carriage, whose peers have these numbers.
pub(super) fn rules(config: &Config, numbers: &[u8], tunnels: Option<&Tunnels>) -> Rules {
    let of_peer = |(peer, number): (&PeerConfig, &u8)| {
        let queue =
            queue_of(config.queue, *number).expect("the first ones were checked, and later ones are opened before");
        peer.networks.iter().map(move |network| (*network, queue)).collect::<Vec<_>>()
    };
    Rules {
        name: config.name.clone(),
        queues: config.peers.iter().zip(numbers).flat_map(of_peer).collect(),
        bypass: config.fallback == Fallback::Direct,
        marks: config.marks_users,
        sources: tunnels.map(Tunnels::sources).unwrap_or_default(),
    }
}

/// The queue of the peer with this number. A long-lived trunk may have numbers that are higher than it has peers.
fn queue_of(first: u16, number: u8) -> Result<u16, Error> {
    first.checked_add(u16::from(number)).ok_or_else(|| {
        let why = format!(
            "queue {first} leaves none for number {number}, which is the next free one of a peer: say a smaller `queue`, and restart"
        );
        Error::wrong("take a queue of netfilter's for a peer", why)
    })
}

impl Native {
    /// Opens the queues in the calling thread's namespace, without rules.
    pub(super) fn open(config: &Config, own: &PublicKey) -> Result<Native, Error> {
        let numbers = numbers(config);
        let queues: Result<Vec<Queue>, Error> = numbers.iter().map(|number| open_queue(config, *number)).collect();
        let tunnels = Tunnels::new(config, own);
        let (queues, rules) = (queues?, rules(config, &numbers, tunnels.as_ref()));
        Ok(Native { queues, rules, before: None, tunnels, numbers, leaving: Vec::new(), broken: None })
    }

    /// Opens the queues of new peers, and puts the rules of `config` in the place of those that are in force, in one step for each
    /// version of IP. Where that fails nothing has changed, unless the rules [are broken](Native::is_broken).
    pub(super) fn change(&mut self, config: &Config, numbers: &[u8]) -> Result<Closed, Error> {
        let new = numbers.iter().filter(|number| !self.numbers.contains(number));
        let opened: Result<Closed, Error> = new.map(|number| Ok((*number, open_queue(config, *number)?))).collect();
        let mut queues = opened?;
        let rules = rules(config, numbers, self.tunnels.as_ref());
        if rules != self.rules {
            if let Err(error) = rules.set(Table::Mangle) {
                // Those of one version of IP may be in force.
                self.broken = self.rules.set(Table::Mangle).err();
                return Err(error);
            }
            self.rules = rules;
        }
        queues.extend(std::mem::take(&mut self.numbers).into_iter().zip(std::mem::take(&mut self.queues)));
        self.numbers = numbers.to_vec();
        self.queues = numbers.iter().filter_map(|number| queues.remove(number)).collect();
        Ok(queues)
    }

    /// True if the rules are in no known state: the next look ends the trunk.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Drops packets that the kernel holds for the peer at this place.
    pub(super) fn drop_waiting(&mut self, place: usize, packets: Vec<Waiting>) -> Result<(), Error> {
        let queue = &mut self.queues[place];
        packets.into_iter().try_for_each(|packet| queue.drop(packet.id as u32)).during(|| "drop packets")
    }

    /// Sets the rules: from now on packets come. Returns lines for the operator.
    pub(super) fn begin(&mut self) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        let before = self.before.insert(self.rules.in_force(Table::Mangle)?);
        if let Some(tunnels) = &self.tunnels {
            // What keeps strangers' packets out comes before the devices by which they would come in.
            let begun = self.rules.set(Table::Raw).and_then(|more| {
                said.extend(more);
                tunnels.begin()
            });
            match begun {
                Ok(more) => said.extend(more),
                Err(error) => {
                    // What keeps strangers out goes only once no device is left by which they would come in.
                    let _ = self.end_tunnels();
                    return Err(error);
                }
            }
        }
        match self.rules.set(Table::Mangle) {
            Ok(more) => said.extend(more),
            Err(error) => {
                // Nothing half set, and what an earlier one left to stop packets goes on stopping them.
                let put = self.rules.put_back(before);
                let _ = self.end_tunnels();
                return Err(match put {
                    Ok(()) => error,
                    Err(put) => {
                        let text = format!("{error}; and what an earlier one left is not as it was: {put}");
                        Error::new("begin", io::Error::new(error.kind(), text))
                    }
                });
            }
        }
        Ok(said)
    }

    /// Takes away the rules, unless they are to stop packets from now on, and then lets go what waits: nothing that was taken in is
    /// lost by an orderly end. After a failure of a trunk that blocks, the kernel drops what it holds when the queues are closed.
    /// A start that comes to nothing puts back what it found.
    pub(super) fn end(
        &mut self,
        peers: &mut [Peer],
        config: &Config,
        numbers: &Numbers,
        ending: Ending,
    ) -> Result<(), Error> {
        let stops = stops(config.at_end, config.fallback, ending);
        let before = self.before.as_ref().filter(|_| ending == Ending::Abandoned);
        let removed = match before {
            Some(before) => self.rules.put_back(before),
            None if stops => Ok(()),
            None => self.rules.remove(Table::Mangle).map(drop),
        };
        if !(stops && ending == Ending::Failed || before.is_some_and(InForce::stop)) {
            let _ = self.take_in(peers, config, numbers);
            for (peer, queue) in peers.iter_mut().zip(&mut self.queues) {
                while let Some((_, packet)) = peer.edge.pop() {
                    queue.accept(packet.id as u32);
                }
                let _ = queue.flush();
            }
        }
        removed.and(self.end_tunnels())
    }

    /// Takes the tunnels away, and then what keeps strangers' packets out of them.
    fn end_tunnels(&self) -> Result<(), Error> {
        let Some(tunnels) = &self.tunnels else { return Ok(()) };
        tunnels.end()?;
        self.rules.remove(Table::Raw).map(drop)
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.queues.iter().map(|queue| queue.as_fd())
    }

    /// Puts what the kernel holds for peers into their classes. What has no room is dropped.
    pub(super) fn take_in(&mut self, peers: &mut [Peer], config: &Config, numbers: &Numbers) -> Result<(), Error> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        for (peer, queue) in peers.iter_mut().zip(&mut self.queues) {
            take_in(peer, queue, config, numbers).during(|| "read netfilter's queue")?;
        }
        Ok(())
    }

    /// Lets packets for the peer of this number leave, as far as they may now. Nothing more may before the time that it returns.
    pub(super) fn release(
        &mut self,
        (number, peer): (usize, &mut Peer),
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<Option<Time>, Error> {
        let queue = &mut self.queues[number];
        let may = peer.release(now, &mut Hold::Kernel(&mut self.leaving), outbox);
        self.leaving.drain(..).for_each(|packet| queue.accept(packet.id as u32));
        // They leave while this is called, and so before the headers that follow them.
        queue.flush().during(|| "let packets go")?;
        queue.keep_whole(peer.keeps_whole()).during(|| "configure netfilter's queue")?;
        Ok(may)
    }

    /// Verdicts about packets that were not there, and such.
    pub(super) fn errors(&self) -> u64 {
        self.queues.iter().map(|queue| queue.errors).sum()
    }
}

/// True if the rules stay after this ending, so that packets stop.
fn stops(at_end: Fallback, fallback: Fallback, ending: Ending) -> bool {
    match ending {
        Ending::Orderly => at_end == Fallback::Block,
        Ending::Failed => fallback == Fallback::Block,
        Ending::Abandoned => false,
    }
}

/// Lets go what waits for a peer that is gone.
pub(super) fn let_go(mut peer: Peer, config: &Config, numbers: &Numbers, closed: &mut Closed) {
    let Some(mut queue) = closed.remove(&peer.number) else { return };
    let _ = take_in(&mut peer, &mut queue, config, numbers);
    while let Some((_, packet)) = peer.edge.pop() {
        queue.accept(packet.id as u32);
    }
    let _ = queue.flush();
}

fn open_queue(config: &Config, number: u8) -> Result<Queue, Error> {
    Queue::open(queue_of(config.queue, number)?, classify::COPIED, config.fallback == Fallback::Direct)
}

/// Puts what the kernel holds for a peer into its classes. What has no room is dropped.
fn take_in(peer: &mut Peer, queue: &mut Queue, config: &Config, numbers: &Numbers) -> io::Result<()> {
    let mut dropped = Vec::new();
    for _ in 0..BATCHES_A_LOOK {
        let edge = &mut peer.edge;
        let more = queue.receive(|held| {
            let read = classify::read(held.head);
            let class = read.as_ref().map_or(config.classes.len() - 1, |(facts, dscp)| config.class_of(facts, *dscp));
            let flow = read.as_ref().map_or(0, |(facts, _)| numbers.of(facts));
            let mut victim = edge.push(class, Waiting { id: u64::from(held.id), flow, len: held.len });
            while let Some(packet) = victim {
                dropped.push(packet.id as u32);
                victim = edge.overflow(class);
            }
        })?;
        dropped.drain(..).try_for_each(|id| queue.drop(id))?;
        if !more {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trunk_that_blocks_lets_nothing_pass_when_it_fails() {
        let (direct, block) = (Fallback::Direct, Fallback::Block);
        assert!(stops(direct, block, Ending::Failed) && !stops(direct, block, Ending::Orderly));
        assert!(stops(block, block, Ending::Orderly) && !stops(block, block, Ending::Abandoned));
        assert!(!stops(direct, direct, Ending::Failed));
    }

    #[test]
    fn a_peer_beyond_the_last_queue_is_refused() {
        assert_eq!(queue_of(65_530, 5).unwrap(), u16::MAX);
        let error = queue_of(65_530, 6).unwrap_err().to_string();
        assert!(error.contains("queue 65530 leaves none for number 6"), "{error}");
    }
}
