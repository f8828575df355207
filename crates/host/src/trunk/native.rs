//! Native carriage: the kernel forwards users' packets, and holds each until it is told to let it go.

use std::io;
use std::os::fd::BorrowedFd;

use headend_engine::circuit::turns::Waiting;
use headend_engine::time::Time;

use super::classify::{self, Numbers};
use super::config::{Config, Fallback, PeerConfig};
use super::peer::{Hold, Peer};
use super::rules::Rules;
use crate::error::{During, Error};
use crate::nfqueue::Queue;
use headend_datagram::Outbox;

/// Reads of one queue in a row before others have their turn.
const BATCHES_A_LOOK: usize = 8;

/// A queue of the kernel's for each peer, and the rules that lead there.
#[derive(Debug)]
pub(super) struct Native {
    queues: Vec<Queue>,
    rules: Rules,
    leaving: Vec<Waiting>,
}

/// The rules of a trunk with native carriage.
pub(super) fn rules(config: &Config) -> Rules {
    let queue = |number: usize| config.queue + number as u16;
    let of_peer = |(number, peer): (usize, &PeerConfig)| {
        peer.networks.iter().map(move |network| (*network, queue(number))).collect::<Vec<_>>()
    };
    Rules {
        name: config.name.clone(),
        queues: config.peers.iter().enumerate().flat_map(of_peer).collect(),
        bypass: config.fallback == Fallback::Direct,
    }
}

impl Native {
    /// Opens the queues in the calling thread's namespace, without rules.
    pub(super) fn open(config: &Config) -> Result<Native, Error> {
        let fails_open = config.fallback == Fallback::Direct;
        let queue = |number| Queue::open(config.queue + number as u16, classify::COPIED, fails_open);
        let queues: Result<Vec<Queue>, Error> = (0..config.peers.len()).map(queue).collect();
        Ok(Native { queues: queues?, rules: rules(config), leaving: Vec::new() })
    }

    /// Sets the rules: from now on packets come. Returns lines for the operator.
    pub(super) fn begin(&mut self) -> Result<Vec<String>, Error> {
        self.rules.set()
    }

    /// Takes away the rules, and then lets go what waits: nothing that was taken in is lost by an orderly end.
    pub(super) fn end(&mut self, peers: &mut [Peer], config: &Config, numbers: &Numbers) -> Result<(), Error> {
        let removed = self.rules.remove();
        let _ = self.take_in(peers, config, numbers);
        for (peer, queue) in peers.iter_mut().zip(&mut self.queues) {
            while let Some((_, packet)) = peer.edge.pop() {
                queue.accept(packet.id as u32);
            }
            let _ = queue.flush();
        }
        removed
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.queues.iter().map(|queue| queue.as_fd())
    }

    /// Puts what the kernel holds for peers into their classes. What has no room is dropped.
    pub(super) fn take_in(&mut self, peers: &mut [Peer], config: &Config, numbers: &Numbers) -> Result<(), Error> {
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
