//! Sealed carriage: users' packets come into this process by a device of its own and go in datagrams of its own.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use headend_engine::circuit::turns::Waiting;
use headend_engine::time::Time;
use ipnet::IpNet;

use super::bundle::Bundle;
use super::carrier::Ending;
use super::circuit::Held;
use super::classify::{self, Numbers};
use super::config::{Config, Fallback};
use super::mss;
use super::peer::{Hold, Peer};
use super::routes::Routes;
use super::runs::{Place, Runs};
use super::store::{self, CE, Store};
use super::wire::{DATA_HEADER, PLACE, SEALED_HEADER, TAG};
use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;
use crate::offload::{HEADER_BYTES as OFFLOAD_HEADER, Offload};
use crate::tun::{DeviceSetup, Tun};
use headend_datagram::Outbox;

/// The longest packet of an Ethernet, from which that of users follows where the file does not say it.
const ETHERNET: u32 = 1_500;
/// Segments that may come as one packet, and packets that wait in the device.
const SEGMENTS_MAX: u32 = 65_535;
const QUEUE_BUNDLES: u32 = 1_000;
/// Packets that are read from the device before others have their turn.
const READS_A_LOOK: usize = 64;

/// The number of the first buffer of a packet that has waited; those of a look have lower ones.
const WAITED_FROM: usize = 1 << 16;

/// A packet as the device gives it: its header, and the bytes.
type Given = ([u8; OFFLOAD_HEADER], Vec<u8>);

/// Counts of users' packets that went nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Packets from the device that are for no peer's network.
    pub unrouted: u64,
    /// Packets of a peer from an address that is none of its networks', or that could not be read.
    pub foreign: u64,
    /// Packets that the device did not take.
    pub unwritten: u64,
}

/// The device, its routes and the packets that wait.
#[derive(Debug)]
pub(super) struct Sealed {
    tun: Tun,
    routes: Routes,
    /// The networks to which nothing stopped packets before this trunk.
    newly_stopped: Vec<IpNet>,
    netlink: Netlink,
    store: Store,
    runs: Runs,
    /// Packets that have waited for earlier ones of their flow, until they are written.
    waited: Vec<Vec<u8>>,
    pub(super) strays: Strays,
    /// True if users' TCPs are made to cut their data to what passes.
    clamps_mss: bool,
}

/// Bytes that a user's packet gets more in a datagram.
pub(super) fn overhead(is_ipv4: bool) -> u32 {
    let headers = if is_ipv4 { 28 } else { 48 };
    headers + (SEALED_HEADER + DATA_HEADER + TAG) as u32
}

/// The longest packet of users, as far as no path turns out to be narrower.
pub(super) fn mtu(config: &Config) -> u32 {
    let repairs = config.peers.iter().any(|peer| peer.send.repair.is_some());
    let place = if repairs { PLACE as u32 } else { 0 };
    config.device.mtu.unwrap_or(ETHERNET - overhead(config.listen.is_ipv4()) - place)
}

/// The routes of a trunk with sealed carriage.
pub(super) fn routes(config: &Config) -> Routes {
    let networks = config.peers.iter().flat_map(|peer| peer.networks.iter().copied()).collect();
    Routes { name: config.name.clone(), networks }
}

impl Sealed {
    /// Makes the device in the calling thread's namespace, without routes.
    pub(super) fn open(config: &Config) -> Result<Sealed, Error> {
        let name = &config.device.name;
        let mut netlink = Netlink::open()?;
        if Device::find(&mut netlink, name).is_ok() {
            let why = "there is a device of this name already: say another `device` in the file";
            return Err(Error::new(
                format!("make TUN device {name}"),
                io::Error::new(io::ErrorKind::AlreadyExists, why),
            ));
        }
        let mut setup = DeviceSetup::new(name, Vec::<(IpAddr, u8)>::new(), mtu(config)).with_offloads(SEGMENTS_MAX);
        // Each may be of 64 KB.
        setup.change.tx_queue_len = Some(QUEUE_BUNDLES);
        let tun = Tun::create(None, &setup)?;
        for address in &config.device.addresses {
            tun.device().add_address(&mut netlink, address.addr(), address.prefix_len())?;
        }
        let runs = Runs::new(tun.takes_udp());
        Ok(Sealed {
            tun,
            routes: routes(config),
            newly_stopped: Vec::new(),
            netlink,
            store: Store::default(),
            runs,
            waited: Vec::new(),
            strays: Strays::default(),
            clamps_mss: config.device.clamps_mss,
        })
    }

    /// Sets the routes: from now on packets come. Returns lines for the operator.
    pub(super) fn begin(&mut self) -> Result<Vec<String>, Error> {
        let (new, said) = self.routes.set(&mut self.netlink, self.tun.device())?;
        self.newly_stopped = new;
        Ok(said)
    }

    /// Takes away the routes that stop packets where these may pass without a trunk; the device, and the routes that lead there, go with
    /// this process.
    pub(super) fn end(&mut self, at_end: Fallback, ending: Ending) -> Result<(), Error> {
        let new = &self.newly_stopped;
        let removed = match (ending, at_end) {
            (Ending::Abandoned, _) => self.routes.remove(&mut self.netlink, |network| new.contains(network)),
            (Ending::Orderly, Fallback::Direct) => self.routes.remove(&mut self.netlink, |_| true),
            (Ending::Orderly, Fallback::Block) | (Ending::Failed, _) => return Ok(()),
        };
        removed.map(drop)
    }

    /// Sets the routes to networks that are new in `config`, all or none, and takes away those to networks that are no longer there.
    pub(super) fn change(&mut self, config: &Config) -> Result<(), Error> {
        let (routes, netlink) = (routes(config), &mut self.netlink);
        routes.replace(&self.routes, netlink, self.tun.device())?;
        self.routes = routes;
        self.clamps_mss = config.device.clamps_mss;
        Ok(())
    }

    /// Drops what waits for a peer that is gone.
    pub(super) fn forget(&mut self, mut peer: Peer) {
        while let Some((_, packet)) = peer.edge.pop() {
            self.store.remove(packet.id);
        }
    }

    /// Drops packets that have waited.
    pub(super) fn drop_waiting(&mut self, packets: Vec<Waiting>) {
        packets.into_iter().for_each(|packet| self.store.remove(packet.id));
    }

    /// Has the routes to a peer let pass what was found to pass: the kernel tells senders of longer packets so, by ICMP.
    pub(super) fn follow(&mut self, peer: &mut Peer) {
        if let Some(mtu) = peer.mtu_to_route() {
            let most = self.tun.device().mtu;
            self.routes.narrow(
                &mut self.netlink,
                self.tun.device(),
                &peer.config.networks,
                (mtu < most).then_some(mtu),
            );
        }
    }

    /// Puts the packets that are for peers into their classes. What has no room is dropped.
    pub(super) fn take_in(&mut self, peers: &mut [Peer], config: &Config, numbers: &Numbers) -> Result<(), Error> {
        for _ in 0..READS_A_LOOK {
            let Some((header, mut bytes)) = self.read()? else { break };
            let Some((facts, dscp)) = classify::read(&bytes) else { continue };
            let is_for = |peer: &&mut Peer| peer.config.networks.iter().any(|net| net.contains(&facts.destination()));
            let Some(peer) = peers.iter_mut().find(is_for) else {
                self.strays.unrouted += 1;
                continue;
            };
            if self.clamps_mss {
                mss::clamp(&mut bytes, peer.longest(), Offload::read(&header).open.is_some());
            }
            let Some(bundle) = Bundle::read(&header, bytes) else {
                self.strays.unrouted += 1;
                continue;
            };
            let (class, flow) = (config.class_of(&facts, dscp), numbers.of(&facts));
            let lens: Vec<u32> = (0..bundle.count()).map(|number| bundle.len_of(number) as u32).collect();
            let first = self.store.insert(bundle);
            for (id, len) in (first..).zip(lens) {
                let mut victim = peer.edge.push(class, Waiting { id, flow, len });
                while let Some(packet) = victim {
                    self.store.remove(packet.id);
                    victim = peer.edge.overflow(class);
                }
            }
        }
        Ok(())
    }

    /// Lets packets for a peer leave, as far as they may now. Nothing more may before the time that it returns.
    pub(super) fn release(&mut self, peer: &mut Peer, now: Time, outbox: &mut Outbox) -> Option<Time> {
        peer.release(now, &mut Hold::Here(&mut self.store), outbox)
    }

    /// Takes a packet that came from a peer, and is at `place` of the buffers.
    pub(super) fn arrive(&mut self, peer: &Peer, packet: &mut [u8], place: Place, is_open: bool, ecn: u8) {
        let is_theirs =
            source(packet).is_some_and(|source| peer.config.networks.iter().any(|network| network.contains(&source)));
        if !is_theirs {
            self.strays.foreign += 1;
            return;
        }
        if self.clamps_mss {
            mss::clamp(packet, peer.longest(), is_open);
        }
        // RFC 6040 s4.2: a mark of the way is passed on, and a packet whose ends know none is dropped.
        if ecn == CE && !store::mark(packet) {
            return;
        }
        if !self.runs.push(packet, place, is_open) {
            self.strays.foreign += 1;
        }
    }

    /// Takes a packet of a peer that has waited for earlier ones of its flow.
    pub(super) fn arrive_late(&mut self, peer: &Peer, held: Held) {
        let Held { mut bytes, is_open, ecn } = held;
        let place = Place { buffer: WAITED_FROM + self.waited.len(), bytes: 0..bytes.len() };
        self.arrive(peer, &mut bytes, place, is_open, ecn);
        self.waited.push(bytes);
    }

    /// Gives the device what came, in the buffers where it is.
    pub(super) fn deliver(&mut self, buffers: &[Vec<u8>]) {
        let (tun, strays, waited) = (&self.tun, &mut self.strays, &mut self.waited);
        if !self.runs.is_empty() {
            let of_number = |number: usize| match number.checked_sub(WAITED_FROM) {
                Some(number) => &waited[number],
                None => &buffers[number],
            };
            self.runs.write(of_number, |slices| {
                strays.unwritten += u64::from(rustix::io::writev(tun, slices).is_err());
            });
        }
        waited.clear();
    }

    /// Reads a packet, if there is one: the device's header and the bytes.
    fn read(&mut self) -> Result<Option<Given>, Error> {
        let mut header = [0; OFFLOAD_HEADER];
        let mut buffer = self.store.buffer();
        let read = rustix::io::readv(&self.tun, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(&mut buffer)]);
        match read {
            Ok(len) => Ok(Some((header, self.store.cut_to(buffer, len.saturating_sub(OFFLOAD_HEADER))))),
            Err(error) => {
                self.store.keep(buffer);
                match error {
                    rustix::io::Errno::AGAIN | rustix::io::Errno::INTR => Ok(None),
                    _ => Err(error).during(|| format!("read device {}", self.tun.name())),
                }
            }
        }
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*packet.get(12..)?.first_chunk::<4>()?))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?))),
        _ => None,
    }
}
