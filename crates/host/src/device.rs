//! Network devices: what they are called, whether they are up, what they count.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::{During, Error};
use crate::netlink::Netlink;

/// A device of the namespace in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// True if its packets travel in Ethernet frames. Those of the loopback only look so.
    pub is_ethernet: bool,
    /// True if it is up.
    pub up: bool,
    /// The largest packet it takes, in bytes.
    pub mtu: u32,
    /// Packets that wait in it or before it at most.
    pub tx_queue_len: u32,
    /// Segments that it takes as one, to be cut further down: 1 if none are.
    pub gso_max_segs: u32,
    /// Its counters.
    pub counters: DeviceCounters,
}

/// The counters of a device since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets that the device took from the kernel.
    pub tx_packets: u64,
    /// Packets for the device that the kernel threw away, for want of room above all.
    pub tx_dropped: u64,
    /// Packets that came from the device.
    pub rx_packets: u64,
    /// Packets from the device that the kernel threw away.
    pub rx_dropped: u64,
}

/// Changes to a device; `None` leaves a property as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Up or down.
    pub up: Option<bool>,
    /// The largest packet, in bytes.
    pub mtu: Option<u32>,
    /// Room for packets that wait. A TUN device has this much and drops what is more without a word to the sender.
    pub tx_queue_len: Option<u32>,
    /// Segments that may leave TCP as one packet. 1 makes every packet a packet: without that a loss or a queue that
    /// counts packets would meet bundles of up to 64 KB.
    pub gso_max_segs: Option<u32>,
}

impl Device {
    /// The device called `name`.
    pub fn find(netlink: &mut Netlink, name: &str) -> Result<Device, Error> {
        let none = || Error::new(format!("device {name}"), io::Error::from(io::ErrorKind::NotFound));
        Device::all(netlink)?.into_iter().find(|device| device.name == name).ok_or_else(none)
    }

    /// All devices of the namespace.
    pub fn all(netlink: &mut Netlink) -> Result<Vec<Device>, Error> {
        let answers =
            netlink.list(RouteNetlinkMessage::GetLink(LinkMessage::default())).during(|| "list the devices")?;
        let device = |answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(Device::read(&message)),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(device).collect())
    }

    fn read(message: &LinkMessage) -> Device {
        let mut device = Device {
            index: message.header.index,
            name: String::new(),
            is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
            up: message.header.flags.contains(LinkFlags::Up),
            mtu: 0,
            tx_queue_len: 0,
            gso_max_segs: 0,
            counters: DeviceCounters::default(),
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => device.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => device.mtu = *mtu,
                LinkAttribute::TxQueueLen(packets) => device.tx_queue_len = *packets,
                LinkAttribute::GsoMaxSegs(segments) => device.gso_max_segs = *segments,
                LinkAttribute::Stats64(stats) => {
                    device.counters = DeviceCounters {
                        tx_packets: stats.tx_packets,
                        tx_dropped: stats.tx_dropped,
                        rx_packets: stats.rx_packets,
                        rx_dropped: stats.rx_dropped,
                    }
                }
                _ => {}
            }
        }
        device
    }

    /// Changes the device.
    pub fn change(&self, netlink: &mut Netlink, change: Change) -> Result<(), Error> {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        if let Some(up) = change.up {
            message.header.change_mask = LinkFlags::Up;
            message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        }
        let attributes = [
            change.mtu.map(LinkAttribute::Mtu),
            change.tx_queue_len.map(LinkAttribute::TxQueueLen),
            change.gso_max_segs.map(LinkAttribute::GsoMaxSegs),
        ];
        message.attributes = attributes.into_iter().flatten().collect();
        netlink
            .change(RouteNetlinkMessage::SetLink(message))
            .during(|| format!("change device {}: {change:?}", self.name))
    }

    /// Gives the device an address, and its namespace the route to that address's network.
    pub fn add_address(&self, netlink: &mut Netlink, address: impl Into<IpAddr>, prefix_len: u8) -> Result<(), Error> {
        let address = address.into();
        let mut message = AddressMessage::default();
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.prefix_len = prefix_len;
        message.header.scope = AddressScope::Universe;
        message.header.index = self.index;
        if address.is_ipv6() {
            // It is at once what it is to be: there is nobody else on the device who could have it (RFC 4862 section 5.4).
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        netlink
            .create(RouteNetlinkMessage::NewAddress(message))
            .during(|| format!("give device {} the address {address}/{prefix_len}", self.name))
    }
}

/// All addresses of the namespace.
pub fn addresses(netlink: &mut Netlink) -> Result<Vec<IpAddr>, Error> {
    let answers =
        netlink.list(RouteNetlinkMessage::GetAddress(AddressMessage::default())).during(|| "list the addresses")?;
    let address = |answer| match answer {
        RouteNetlinkMessage::NewAddress(message) => Some(message.attributes),
        _ => None,
    };
    let own = |attribute| match attribute {
        AddressAttribute::Local(address) | AddressAttribute::Address(address) => Some(address),
        _ => None,
    };
    Ok(answers.into_iter().filter_map(address).flatten().filter_map(own).collect())
}
