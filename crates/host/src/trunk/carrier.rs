//! The carriage of a trunk: what brings users' packets here and lets them go.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use headend_engine::circuit::turns::Waiting;
use headend_engine::time::{Time, earlier};

use super::circuit::Held;
use super::classify::Numbers;
use super::config::{Carriage, Config};
use super::native::{self, Closed, Native};
use super::peer::Peer;
use super::probe::Probe;
use super::runs::Place;
use super::sealed::{self, Sealed, Strays};
use super::tunnels::Tunnels;
use crate::error::Error;
use crate::iptables::FAMILIES;
use crate::nfqueue::Queue;
use headend_datagram::{Outbox, PublicKey};

/// What carries users' packets.
#[derive(Debug)]
pub(super) enum Carrier {
    Native(Native),
    Sealed(Box<Sealed>),
    Probe(Probe),
}

/// The way in which a trunk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was told to.
    Orderly,
    /// The system refused what it cannot be without.
    Failed,
    /// It had not begun: the machine is to be as it was before.
    Abandoned,
}

impl Carriage {
    /// The carriage that this machine has, and why it is that: native where the kernel holds packets for programs, for it costs
    /// least; sealed otherwise.
    pub fn of_machine() -> (Carriage, String) {
        if !FAMILIES[0].is_here() {
            return (Carriage::Sealed, "there is no iptables on this machine".to_owned());
        }
        // What every namespace of a kernel with NFQUEUE has, once that is loaded; opening a queue loads it.
        let has_queues = || Path::new("/proc/net/netfilter/nfnetlink_queue").exists();
        if has_queues() || Queue::open(u16::MAX, 0, true).is_ok() || has_queues() {
            return (Carriage::Native, "the kernel has NFQUEUE".to_owned());
        }
        (Carriage::Sealed, "the kernel has no NFQUEUE, or this process may not use it".to_owned())
    }
}

/// What a trunk of the site that has the public key `own` sets in the kernel, for people to read.
pub fn settings(config: &Config, own: &PublicKey) -> Vec<String> {
    match config.carriage {
        Carriage::Native | Carriage::Tunnelled => {
            let tunnels = Tunnels::new(config, own);
            let rules = native::rules(config, &native::numbers(config), tunnels.as_ref()).shown();
            [tunnels.map(|tunnels| tunnels.shown()).unwrap_or_default(), rules].concat()
        }
        Carriage::Probe => Vec::new(),
        Carriage::Sealed => {
            let name = &config.device.name;
            let mut lines =
                vec![format!("ip tuntap add {name} mode tun; ip link set {name} up mtu {}", sealed::mtu(config))];
            let address = |address| format!("ip address add {address} dev {name}");
            lines.extend(config.device.addresses.iter().map(address));
            lines.extend(sealed::routes(config).shown(name));
            lines
        }
    }
}

impl Carrier {
    /// Opens what brings packets, without what leads them there.
    pub(super) fn open(config: &Config, own: &PublicKey) -> Result<Carrier, Error> {
        Ok(match config.carriage {
            Carriage::Native | Carriage::Tunnelled => Carrier::Native(Native::open(config, own)?),
            Carriage::Sealed => Carrier::Sealed(Box::new(Sealed::open(config)?)),
            Carriage::Probe => Carrier::Probe(Probe::new(config)),
        })
    }

    /// Sets what leads packets here. Returns lines for the operator. The last that can fail of a start: nothing is half set.
    pub(super) fn begin(&mut self) -> Result<Vec<String>, Error> {
        match self {
            Carrier::Native(native) => native.begin(),
            Carrier::Sealed(sealed) => sealed.begin(),
            Carrier::Probe(_) => Ok(Vec::new()),
        }
    }

    /// Takes away what was set, but for what stops packets where these are not to pass without the trunk: that is for the next start
    /// to find, and for [`clear`](super::clear).
    pub(super) fn end(
        &mut self,
        peers: &mut [Peer],
        config: &Config,
        numbers: &Numbers,
        ending: Ending,
    ) -> Result<(), Error> {
        match self {
            Carrier::Native(native) => native.end(peers, config, numbers, ending),
            Carrier::Sealed(sealed) => sealed.end(config.at_end, ending),
            Carrier::Probe(_) => Ok(()),
        }
    }

    /// Sets what leads the packets of another configuration here, all or nothing, and takes away what no longer does. `numbers` are
    /// those of its peers. Returns what holds packets of peers that are gone.
    pub(super) fn change(&mut self, config: &Config, numbers: &[u8]) -> Result<Closed, Error> {
        match self {
            Carrier::Native(native) => native.change(config, numbers),
            Carrier::Sealed(sealed) => sealed.change(config).map(|()| Closed::default()),
            Carrier::Probe(_) => Ok(Closed::default()),
        }
    }

    /// True if a [`change`](Carrier::change) failed, and what was set before could not be set again: the trunk ends.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Carrier::Native(native) if native.is_broken())
    }

    /// Lets go, or drops, what waits for a peer that is gone, after a [`change`](Carrier::change).
    pub(super) fn forget(&mut self, peer: Peer, config: &Config, numbers: &Numbers, closed: &mut Closed) {
        match self {
            Carrier::Native(_) => native::let_go(peer, config, numbers, closed),
            Carrier::Sealed(sealed) => sealed.forget(peer),
            Carrier::Probe(_) => {}
        }
    }

    /// Drops packets that have waited for the peer at this place.
    pub(super) fn drop_waiting(&mut self, place: usize, packets: Vec<Waiting>) -> Result<(), Error> {
        match self {
            Carrier::Native(native) => native.drop_waiting(place, packets),
            Carrier::Sealed(sealed) => {
                sealed.drop_waiting(packets);
                Ok(())
            }
            Carrier::Probe(_) => Ok(()),
        }
    }

    /// Has the routes to peers let pass what was found to pass.
    pub(super) fn follow(&mut self, peers: &mut [Peer]) {
        if let Carrier::Sealed(sealed) = self {
            peers.iter_mut().for_each(|peer| sealed.follow(peer));
        }
    }

    /// The descriptors that can be read when packets have come.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Carrier::Native(native) => native.fds().collect(),
            Carrier::Sealed(sealed) => vec![sealed.as_fd()],
            Carrier::Probe(_) => Vec::new(),
        }
    }

    /// Puts packets that have come from users into the peers' classes.
    pub(super) fn take_in(&mut self, peers: &mut [Peer], config: &Config, numbers: &Numbers) -> Result<(), Error> {
        match self {
            Carrier::Native(native) => native.take_in(peers, config, numbers),
            Carrier::Sealed(sealed) => sealed.take_in(peers, config, numbers),
            Carrier::Probe(_) => Ok(()),
        }
    }

    /// Lets packets for all peers leave, as far as they may now. Nothing more may before the time that it returns.
    pub(super) fn release(
        &mut self,
        peers: &mut [Peer],
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<Option<Time>, Error> {
        let mut wake = None;
        for (number, peer) in peers.iter_mut().enumerate() {
            let may = match self {
                Carrier::Native(native) => native.release((number, peer), now, outbox)?,
                Carrier::Sealed(sealed) => sealed.release(peer, now, outbox),
                Carrier::Probe(probe) => probe.release(peer, now, outbox),
            };
            wake = earlier(wake, may);
        }
        Ok(wake)
    }

    /// Takes a user's packet that came from a peer, and is at `place` of the buffers; `ecn` is of its outer header.
    pub(super) fn arrive(&mut self, peer: &Peer, packet: &mut [u8], place: Place, is_open: bool, ecn: u8) {
        if let Carrier::Sealed(sealed) = self {
            sealed.arrive(peer, packet, place, is_open, ecn);
        }
    }

    /// Takes a user's packet that came from a peer and has waited for earlier ones of its flow.
    pub(super) fn arrive_late(&mut self, peer: &Peer, held: Held) {
        if let Carrier::Sealed(sealed) = self {
            sealed.arrive_late(peer, held);
        }
    }

    /// Passes on what arrived, in the buffers where it is.
    pub(super) fn deliver(&mut self, buffers: &[Vec<u8>]) {
        if let Carrier::Sealed(sealed) = self {
            sealed.deliver(buffers);
        }
    }

    /// Verdicts about packets that were not there, and packets that went nowhere.
    pub(super) fn errors(&self) -> (u64, Strays) {
        match self {
            Carrier::Native(native) => (native.errors(), Strays::default()),
            Carrier::Sealed(sealed) => (0, sealed.strays),
            Carrier::Probe(_) => (0, Strays::default()),
        }
    }
}
