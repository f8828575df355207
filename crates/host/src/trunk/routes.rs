//! The routes that lead users' packets into the device of a trunk, and those behind them that stop these packets when the device is
//! gone: a site whose trunk was killed must not send them on unencrypted.

use std::io;

use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// The number by which these routes are known to be a trunk's (rtnetlink(7), rtm_protocol; none that iproute2 has a name for).
const PROTOCOL: u8 = 104;
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

    /// Sets the routes, in the place of those that a trunk of this name left when it was killed. Returns lines for the operator.
    pub(super) fn set(&self, netlink: &mut Netlink, device: &Device) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        let removed = self.remove(netlink)?;
        if removed > 0 {
            said.push(format!("removed {removed} routes of a trunk that was killed"));
        }
        for found in self.find(netlink)?.iter().filter_map(Found::read) {
            if let Some(network) =
                self.networks.iter().find(|network| **network != found.to && network.contains(&found.to))
            {
                said.push(format!("the route to {} leads past the trunk, which has {network}", found.to));
            }
        }
        let outcome = self.networks.iter().try_for_each(|network| {
            // First what stops them: between the two nothing leaks.
            let what = || format!("add a route to {network} behind the trunk's");
            netlink.create(RouteNetlinkMessage::NewRoute(self.stopping(network))).during(what)?;
            self.lead(netlink, network, device)
        });
        if let Err(error) = outcome {
            // The others go with the device.
            let _ = self.remove(netlink);
            return Err(error);
        }
        Ok(said)
    }

    /// Takes away the routes that stop packets; the others go with the device. Returns how many there were.
    pub(super) fn remove(&self, netlink: &mut Netlink) -> Result<usize, Error> {
        let mut removed = 0;
        for message in self.find(netlink)? {
            let is_ours = message.header.protocol == RouteProtocol::from(PROTOCOL)
                && message.header.kind == RouteType::Unreachable
                && message.attributes.contains(&RouteAttribute::Priority(self.metric()));
            if is_ours {
                netlink.change(RouteNetlinkMessage::DelRoute(message)).during(|| "remove a route")?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn lead(&self, netlink: &mut Netlink, network: &IpNet, device: &Device) -> Result<(), Error> {
        let mut message = message(network, RouteType::Unicast);
        message.attributes.push(RouteAttribute::Oif(device.index));
        netlink.create(RouteNetlinkMessage::NewRoute(message)).map_err(|error| {
            let what = format!("add a route to {network} through {}", device.name);
            match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    let why = "there is another already; remove it (`ip route`), for the trunk makes its own";
                    Error::new(what, io::Error::new(error.kind(), why))
                }
                _ => Error::new(what, error),
            }
        })
    }

    fn stopping(&self, network: &IpNet) -> RouteMessage {
        let mut message = message(network, RouteType::Unreachable);
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

/// A route that is there.
struct Found {
    to: IpNet,
}

impl Found {
    fn read(message: &RouteMessage) -> Option<Found> {
        let address = message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some((*address).into()),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some((*address).into()),
            _ => None,
        })?;
        Some(Found { to: IpNet::new(address, message.header.destination_prefix_length).ok()? })
    }
}

fn message(network: &IpNet, kind: RouteType) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: if network.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 },
        destination_prefix_length: network.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::from(PROTOCOL),
        scope: if kind == RouteType::Unicast && network.addr().is_ipv4() {
            RouteScope::Link
        } else {
            RouteScope::Universe
        },
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
