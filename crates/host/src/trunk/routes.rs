//! The routes that lead users' packets into the device of a trunk, and those behind them that stop these packets when the device is
//! gone: a site whose trunk has ended must not send them on unencrypted.

use std::io;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::check::MTU_IPV6;
use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// The number by which these routes are known to be a trunk's (rtnetlink(7), rtm_protocol; none that iproute2 has a name for).
pub(super) const PROTOCOL: u8 = 104;
/// The metric of the first route that stops packets, behind all that people set; the trunk's name makes the difference.
const BEHIND: u32 = 0x6800_0000;

/// The routes of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Routes {
    /// The trunk's name.
    pub(super) name: String,
    /// The networks of all peers.
    pub(super) networks: Vec<IpNet>,
}

impl Routes {
    /// The routes as ip-route(8) writes them, for people.
    pub(super) fn shown(&self, device: &str) -> Vec<String> {
        let lines = |network: &IpNet| {
            let (family, metric) = (if network.addr().is_ipv4() { "ip" } else { "ip -6" }, self.metric());
            [
                format!("{family} route add {network} dev {device} proto {PROTOCOL}"),
                format!("{family} route add unreachable {network} metric {metric} proto {PROTOCOL}"),
            ]
        };
        self.networks.iter().flat_map(lines).collect()
    }

    /// Sets the routes, and takes over those that a trunk of this name left. Returns the networks that nothing stopped before, and lines
    /// for the operator.
    pub(super) fn set(&self, netlink: &mut Netlink, device: &Device) -> Result<(Vec<IpNet>, Vec<String>), Error> {
        let mut said = Vec::new();
        let left = self.left(netlink)?;
        if !left.is_empty() {
            said.push(format!("took over {} routes that a trunk of this name left to stop packets", left.len()));
        }
        for found in self.find(netlink)?.iter().filter_map(to) {
            if let Some(network) = self.networks.iter().find(|network| **network != found && network.contains(&found)) {
                said.push(format!("the route to {found} leads past the trunk, which has {network}"));
            }
        }
        let new: Vec<IpNet> = self.networks.iter().filter(|network| !left.contains(network)).copied().collect();
        let outcome = self
            .stop(netlink, &new)
            .and_then(|()| self.networks.iter().try_for_each(|network| self.lead(netlink, network, device)));
        if let Err(error) = outcome {
            // Those that lead go with the device.
            let _ = self.remove(netlink, |network| new.contains(network));
            return Err(error);
        }
        self.remove(netlink, |network| !self.networks.contains(network))?;
        Ok((new, said))
    }

    /// Sets the routes in the place of those of `before`, which are in force: those to other networks are added, all or none, and then
    /// those to networks of `before` alone go.
    pub(super) fn replace(&self, before: &Routes, netlink: &mut Netlink, device: &Device) -> Result<(), Error> {
        let without = |all: &[IpNet], some: &[IpNet]| -> Vec<IpNet> {
            all.iter().filter(|network| !some.contains(network)).copied().collect()
        };
        let new = without(&self.networks, &before.networks);
        let outcome = self
            .stop(netlink, &new)
            .and_then(|()| new.iter().try_for_each(|network| self.lead(netlink, network, device)));
        let gone = if outcome.is_ok() { without(&before.networks, &self.networks) } else { new };
        for network in &gone {
            // One that was not set, or that somebody has removed, is gone already.
            let _ = netlink.change(RouteNetlinkMessage::DelRoute(leading(network, device)));
        }
        let removed = self.remove(netlink, |network| gone.contains(network));
        outcome.and(removed.map(drop))
    }

    /// Has the routes to these networks let pass packets of this length, or of the device's without one. A route that somebody has taken
    /// away stays away.
    pub(super) fn narrow(&self, netlink: &mut Netlink, device: &Device, networks: &[IpNet], mtu: Option<u32>) {
        for network in networks {
            let mut message = leading(network, device);
            // RFC 8200 s5: IPv6 has no links that are narrower.
            let mtu = mtu.map(|mtu| if network.addr().is_ipv6() { mtu.max(MTU_IPV6) } else { mtu });
            message.attributes.extend(mtu.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)])));
            let _ = netlink.replace(RouteNetlinkMessage::NewRoute(message));
        }
    }

    /// Takes away the routes to these networks that stop packets; those that lead go with the device. Returns how many there were.
    pub(super) fn remove(&self, netlink: &mut Netlink, which: impl Fn(&IpNet) -> bool) -> Result<usize, Error> {
        let mut removed = 0;
        for message in self.find(netlink)? {
            if self.stops(&message) && to(&message).is_some_and(|network| which(&network)) {
                netlink.change(RouteNetlinkMessage::DelRoute(message)).during(|| "remove a route")?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The networks to which a route of this trunk's stops packets.
    fn left(&self, netlink: &mut Netlink) -> Result<Vec<IpNet>, Error> {
        Ok(self.find(netlink)?.iter().filter(|message| self.stops(message)).filter_map(to).collect())
    }

    fn stops(&self, message: &RouteMessage) -> bool {
        message.header.protocol == RouteProtocol::from(PROTOCOL)
            && message.header.kind == RouteType::Unreachable
            && message.attributes.contains(&RouteAttribute::Priority(self.metric()))
    }

    /// Adds the routes to these networks that stop packets. They come before those that lead, so that between the two nothing leaks.
    fn stop(&self, netlink: &mut Netlink, networks: &[IpNet]) -> Result<(), Error> {
        networks.iter().try_for_each(|network| {
            let what = || format!("add a route to {network} behind the trunk's");
            netlink.create(RouteNetlinkMessage::NewRoute(self.stopping(network))).during(what)
        })
    }

    fn lead(&self, netlink: &mut Netlink, network: &IpNet, device: &Device) -> Result<(), Error> {
        let added = netlink.create(RouteNetlinkMessage::NewRoute(leading(network, device)));
        added.map_err(|error| not_added(network, &device.name, error))
    }

    fn stopping(&self, network: &IpNet) -> RouteMessage {
        let mut message = message_of(network, RouteType::Unreachable);
        message.attributes.push(RouteAttribute::Priority(self.metric()));
        message
    }

    /// All routes of the main table, of the versions of IP that are wanted.
    fn find(&self, netlink: &mut Netlink) -> Result<Vec<RouteMessage>, Error> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut asked = RouteMessage::default();
            asked.header.address_family = family;
            // A kernel without IPv6 has no routes of it.
            let answers = match netlink.list(RouteNetlinkMessage::GetRoute(asked)) {
                Err(_) if family == AddressFamily::Inet6 => Vec::new(),
                answers => answers.during(|| "list the routes")?,
            };
            found.extend(answers.into_iter().filter_map(|answer| match answer {
                RouteNetlinkMessage::NewRoute(route) if route.header.table == RouteHeader::RT_TABLE_MAIN => Some(route),
                _ => None,
            }));
        }
        Ok(found)
    }

    /// A metric that belongs to this trunk's name: FNV-1a, of which 24 bits.
    fn metric(&self) -> u32 {
        let hash =
            self.name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        BEHIND | hash >> 8
    }
}

/// The network to which a route leads.
fn to(message: &RouteMessage) -> Option<IpNet> {
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    });
    let len = message.header.destination_prefix_length;
    match address {
        Some(address) => IpNet::new(address, len).ok(),
        // The whole of a version of IP has no destination in its route.
        None if len == 0 && message.header.address_family == AddressFamily::Inet => Some(IpNet::V4(Ipv4Net::default())),
        None if len == 0 => Some(IpNet::V6(Ipv6Net::default())),
        None => None,
    }
}

/// The reason why a route to a network through a device of ours was not added.
pub(super) fn not_added(network: &IpNet, device: &str, error: io::Error) -> Error {
    let what = format!("add a route to {network} through {device}");
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let why = "there is another already; remove it (`ip route`), for the trunk makes its own";
            Error::new(what, io::Error::new(error.kind(), why))
        }
        _ => Error::new(what, error),
    }
}

/// The route to a network through the device.
fn leading(network: &IpNet, device: &Device) -> RouteMessage {
    let mut message = message_of(network, RouteType::Unicast);
    if network.addr().is_ipv4() {
        message.header.scope = RouteScope::Link;
    }
    message.attributes.push(RouteAttribute::Oif(device.index));
    message
}

/// A route to a network, of a trunk's, that leads nowhere yet.
pub(super) fn message(network: &IpNet) -> RouteMessage {
    message_of(network, RouteType::Unicast)
}

fn message_of(network: &IpNet, kind: RouteType) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: if network.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 },
        destination_prefix_length: network.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::from(PROTOCOL),
        scope: RouteScope::Universe,
        kind,
        ..RouteHeader::default()
    };
    let to = match network {
        IpNet::V4(network) => RouteAddress::Inet(network.addr()),
        IpNet::V6(network) => RouteAddress::Inet6(network.addr()),
    };
    if network.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(to));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_listed_and_two_names_have_two_metrics() {
        let routes = |name: &str| Routes { name: name.to_owned(), networks: vec!["10.2.0.0/16".parse().unwrap()] };
        let metric = routes("west").metric();
        assert_eq!(
            routes("west").shown("hd-west"),
            [
                "ip route add 10.2.0.0/16 dev hd-west proto 104".to_owned(),
                format!("ip route add unreachable 10.2.0.0/16 metric {metric} proto 104"),
            ]
        );
        assert_ne!(routes("east").metric(), metric);
    }
}
