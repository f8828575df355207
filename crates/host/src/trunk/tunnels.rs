//! Tunnelled carriage: what the kernel lets go in native carriage goes into a device of VXLAN (RFC 7348), one for each peer, and control
//! packets with it. So users' and control packets are one flow of UDP to whoever carries them, and take one path.
//!
//! The two ends need not agree on anything but their keys: the network's number, the addresses inside and those of the links are made of both.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use headend_datagram::PublicKey;
use ipnet::IpNet;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::config::{Carriage, Config, PeerConfig};
use super::routes;
use crate::device::{Change, Device};
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// The port of VXLAN (RFC 7348 s8), from which ours are sent as well: what the kernel would vary by flow would take many paths.
const PORT: u16 = 4_789;
/// The longest packet of an Ethernet, and what is around a packet in VXLAN: Ethernet, VXLAN, UDP and IP.
const ETHERNET: u32 = 1_500;
const AROUND: [u32; 2] = [14 + 8 + 8 + 20, 14 + 8 + 8 + 40];
/// Settings of a device that are 0 before it goes up, because anybody may put a packet into a tunnel: no word of a router is believed
/// there, nor a claim to have this end's address.
const DEAF: [&str; 4] =
    ["ipv6/conf/*/accept_ra", "ipv6/conf/*/accept_redirects", "ipv6/conf/*/accept_dad", "ipv4/conf/*/accept_redirects"];
/// Letters that the name of a device leaves for the number of its peer.
const NAME: usize = 12;
const PREFIX: u8 = 126;

/// The devices of a trunk with tunnelled carriage.
#[derive(Clone, Debug)]
pub(super) struct Tunnels {
    trunk: String,
    tunnels: Vec<Tunnel>,
}

/// A device that leads to a peer.
#[derive(Clone, Debug)]
struct Tunnel {
    device: String,
    vni: u32,
    local: Option<IpAddr>,
    remote: IpAddr,
    mtu: u32,
    /// What both ends' keys make.
    pair: [u8; 16],
    /// 1 or 2: of the two ends the one whose key is the smaller, or the other.
    side: u8,
    networks: Vec<IpNet>,
}

/// The place inside the tunnel to which control packets for a peer go; none in other carriages.
pub(super) fn inside(config: &Config, own: &PublicKey, peer: &PeerConfig) -> Option<SocketAddr> {
    let endpoint = peer.endpoint.filter(|_| config.carriage == Carriage::Tunnelled)?;
    let (pair, side) = pair(own, &peer.key);
    Some(SocketAddr::new(address(&pair, 3 - side).into(), endpoint.port()))
}

/// What the keys of two ends make, and whether the first has the smaller.
fn pair(own: &PublicKey, other: &PublicKey) -> ([u8; 16], u8) {
    let (low, high, side) = if own < other { (own, other, 1) } else { (other, own, 2) };
    (low.proof(format!("headend trunk tunnel {high}").as_bytes()), side)
}

/// An address of nobody else's (RFC 4193).
fn address(pair: &[u8; 16], side: u8) -> Ipv6Addr {
    let mut bytes = [0; 16];
    bytes[0] = 0xfd;
    bytes[1..13].copy_from_slice(&pair[4..]);
    bytes[15] = side;
    bytes.into()
}

impl Tunnels {
    /// The devices of this trunk, of the site that has the public key `own`; none in other carriages.
    pub(super) fn new(config: &Config, own: &PublicKey) -> Option<Tunnels> {
        (config.carriage == Carriage::Tunnelled).then(|| {
            let tunnel = |(number, peer): (usize, &PeerConfig)| {
                let (pair, side) = pair(own, &peer.key);
                let remote = peer.endpoint.expect("it was checked that each peer has one").ip();
                let name = &config.device.name;
                let around = AROUND[usize::from(remote.is_ipv6())];
                Tunnel {
                    device: match number {
                        0 => name.clone(),
                        _ => format!("{}{number}", name.get(..NAME).unwrap_or(name)),
                    },
                    vni: u32::from_be_bytes([0, pair[0], pair[1], pair[2]]),
                    local: Some(config.listen.ip()).filter(|ip| !ip.is_unspecified()),
                    remote,
                    mtu: config.device.mtu.unwrap_or(ETHERNET - around),
                    pair,
                    side,
                    networks: peer.networks.clone(),
                }
            };
            Tunnels { trunk: config.name.clone(), tunnels: config.peers.iter().enumerate().map(tunnel).collect() }
        })
    }

    /// The devices, each with the networks from which its peer's packets come.
    pub(super) fn sources(&self) -> Vec<(String, Vec<IpNet>)> {
        let of = |tunnel: &Tunnel| {
            let far = IpNet::from(IpAddr::from(address(&tunnel.pair, 3 - tunnel.side)));
            (tunnel.device.clone(), tunnel.networks.iter().copied().chain([far]).collect())
        };
        self.tunnels.iter().map(of).collect()
    }

    /// What is set, as ip(8) and sysctl(8) write it, for people.
    pub(super) fn shown(&self) -> Vec<String> {
        self.tunnels.iter().flat_map(Tunnel::shown).collect()
    }

    /// Makes the devices, in the place of those that a trunk of this name left, and the routes. Returns lines for the operator.
    pub(super) fn begin(&self) -> Result<Vec<String>, Error> {
        let mut netlink = Netlink::open()?;
        let left = remove(&mut netlink, &self.trunk)?;
        let outcome = self.tunnels.iter().try_for_each(|tunnel| tunnel.make(&mut netlink, &self.trunk));
        if let Err(error) = outcome {
            let _ = remove(&mut netlink, &self.trunk);
            return Err(error);
        }
        Ok(left.into_iter().map(|name| format!("removed the device {name} that a trunk of this name left")).collect())
    }

    /// Takes the devices away, and the routes with them.
    pub(super) fn end(&self) -> Result<(), Error> {
        remove(&mut Netlink::open()?, &self.trunk).map(drop)
    }
}

/// Makes a device of VXLAN in this network namespace and takes it away again: what tunnelled carriage wants of the kernel.
pub fn try_vxlan() -> Result<(), Error> {
    let name = "headend-try";
    let mut netlink = Netlink::open()?;
    let mut message = LinkMessage::default();
    let about = InfoData::Vxlan(vec![InfoVxlan::Id(1), InfoVxlan::Port(PORT)]);
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(about)]),
    ];
    netlink.create(RouteNetlinkMessage::NewLink(message)).during(|| "make a device of VXLAN")?;
    let mut message = LinkMessage::default();
    message.header.index = Device::find(&mut netlink, name)?.index;
    netlink.change(RouteNetlinkMessage::DelLink(message)).during(|| "remove a device of VXLAN")
}

/// Takes away all devices of the trunk of this name. Returns their names.
pub(super) fn remove(netlink: &mut Netlink, trunk: &str) -> Result<Vec<String>, Error> {
    let mut removed = Vec::new();
    let all = netlink.list(RouteNetlinkMessage::GetLink(LinkMessage::default())).during(|| "list the devices")?;
    for answer in all {
        let RouteNetlinkMessage::NewLink(link) = answer else { continue };
        if !link.attributes.contains(&LinkAttribute::IfAlias(alias(trunk))) {
            continue;
        }
        let name = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        });
        let mut message = LinkMessage::default();
        message.header.index = link.header.index;
        netlink.change(RouteNetlinkMessage::DelLink(message)).during(|| "remove a device of VXLAN")?;
        removed.extend(name);
    }
    Ok(removed)
}

/// What marks a device as a trunk's.
fn alias(trunk: &str) -> String {
    format!("headend trunk {trunk}")
}

impl Tunnel {
    fn shown(&self) -> Vec<String> {
        let Tunnel { device, vni, remote, mtu, .. } = self;
        let local = self.local.map_or(String::new(), |local| format!(" local {local}"));
        let far = address(&self.pair, 3 - self.side);
        let mut lines = vec![format!(
            "ip link add {device} type vxlan id {vni}{local} remote {remote} dstport {PORT} srcport {PORT} {} nolearning",
            PORT + 1
        )];
        lines.extend(DEAF.map(|setting| format!("sysctl -w net/{}=0", setting.replace('*', device))));
        lines.extend([
            format!("ip link set {device} up mtu {mtu} address {}", shown_link(&self.link(self.side))),
            format!("ip address add {}/{PREFIX} dev {device}", address(&self.pair, self.side)),
            format!("ip neighbour add {far} lladdr {} dev {device}", shown_link(&self.link(3 - self.side))),
        ]);
        lines.extend(self.networks.iter().map(|network| match network.addr().is_ipv4() {
            true => format!("ip route add {network} via inet6 {far} dev {device} proto {}", routes::PROTOCOL),
            false => format!("ip -6 route add {network} via {far} dev {device} proto {}", routes::PROTOCOL),
        }));
        lines
    }

    /// The address of a link of one of the two ends: locally administered.
    fn link(&self, side: u8) -> [u8; 6] {
        [2, self.pair[0], self.pair[1], self.pair[2], self.pair[3], side]
    }

    fn make(&self, netlink: &mut Netlink, trunk: &str) -> Result<(), Error> {
        let name = &self.device;
        if Device::find(netlink, name).is_ok() {
            let why = "there is a device of this name already: say another `device` in the file";
            let why = io::Error::new(io::ErrorKind::AlreadyExists, why);
            return Err(Error::new(format!("make VXLAN device {name}"), why));
        }
        let mut about = vec![
            InfoVxlan::Id(self.vni),
            InfoVxlan::Port(PORT),
            InfoVxlan::PortRange((PORT, PORT + 1)),
            InfoVxlan::Learning(false),
        ];
        about.push(match self.remote {
            IpAddr::V4(remote) => InfoVxlan::Group(remote),
            IpAddr::V6(remote) => InfoVxlan::Group6(remote),
        });
        about.extend(self.local.map(|local| match local {
            IpAddr::V4(local) => InfoVxlan::Local(local),
            IpAddr::V6(local) => InfoVxlan::Local6(local),
        }));
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.clone()),
            LinkAttribute::Address(self.link(self.side).to_vec()),
            LinkAttribute::Mtu(self.mtu),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(about))]),
        ];
        netlink.create(RouteNetlinkMessage::NewLink(message)).during(|| format!("make VXLAN device {name}"))?;
        let device = Device::find(netlink, name)?;
        let mut message = LinkMessage::default();
        message.header.index = device.index;
        message.attributes = vec![LinkAttribute::IfAlias(alias(trunk))];
        netlink.change(RouteNetlinkMessage::SetLink(message)).during(|| format!("mark device {name}"))?;
        DEAF.iter().try_for_each(|setting| deafen(name, setting))?;
        device.change(netlink, Change { up: Some(true), ..Change::default() })?;
        device.add_address(netlink, address(&self.pair, self.side), PREFIX)?;
        let far = address(&self.pair, 3 - self.side);
        let neighbour = neighbour(&device, far, self.link(3 - self.side));
        netlink.create(RouteNetlinkMessage::NewNeighbour(neighbour)).during(|| format!("add a neighbour to {name}"))?;
        self.networks.iter().try_for_each(|network| {
            let added = netlink.create(RouteNetlinkMessage::NewRoute(route(network, &device, far)));
            added.map_err(|error| routes::not_added(network, name, error))
        })
    }
}

/// Sets a setting of a device to 0, unless that is what it has from the defaults for new devices.
fn deafen(device: &str, setting: &str) -> Result<(), Error> {
    // A device's name may have dots in it, which the names of settings have between their parts.
    let path = PathBuf::from("/proc/sys/net").join(setting.replace('*', device));
    if fs::read_to_string(&path).is_ok_and(|value| value.trim() == "0") {
        return Ok(());
    }
    fs::write(&path, "0").map_err(|error| {
        let default = setting.replace('*', "default");
        let why = format!(
            "{error}: without this anybody who reaches UDP port {PORT} could lead packets astray. Let this process write /proc/sys/net, \
             or set net/{default}=0 before"
        );
        Error::new(format!("write 0 to {}", path.display()), io::Error::new(error.kind(), why))
    })
}

fn neighbour(device: &Device, far: Ipv6Addr, link: [u8; 6]) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.ifindex = device.index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(far)),
        NeighbourAttribute::LinkLayerAddress(link.to_vec()),
    ];
    message
}

fn route(network: &IpNet, device: &Device, far: Ipv6Addr) -> RouteMessage {
    let mut message = routes::message(network);
    message.attributes.push(RouteAttribute::Oif(device.index));
    message.attributes.push(match network {
        // RFC 5549: a next hop of IPv6 for packets of IPv4.
        IpNet::V4(_) => RouteAttribute::Via(RouteVia::Inet6(far)),
        IpNet::V6(_) => RouteAttribute::Gateway(RouteAddress::Inet6(far)),
    });
    message
}

fn shown_link(link: &[u8; 6]) -> String {
    link.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use headend_datagram::Identity;

    use super::*;

    #[test]
    fn two_ends_agree_on_everything_inside_by_their_keys() {
        let (a, b) = (Identity::generate().public(), Identity::generate().public());
        let ((here, side), (there, other)) = (pair(&a, &b), pair(&b, &a));
        assert_eq!((here, side), (there, 3 - other));
        assert_ne!(address(&here, 1), address(&here, 2));
        assert_ne!(pair(&a, &Identity::generate().public()).0, here);
    }
}
