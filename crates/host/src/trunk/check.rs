//! What is wrong with a configuration, whatever the machine is like.

use std::net::{IpAddr, SocketAddr};

use headend_engine::circuit::in_band::Losses;
use headend_engine::units::{Bytes, Rate};

use super::classify::Matches;
use super::config::{
    CONTROLS_MAX, Carriage, Config, EdgeClass, Fallback, PEERS_MAX, PeerConfig, REPAIR_TRIES, REPAIR_WITHIN, VMSS,
};
use super::rules::NAME_MAX;
use headend_datagram::PublicKey;

/// A field, and what is wrong with it. A field of a peer or class is `peer NAME: FIELD` or `class NAME: FIELD`.
pub type Wrong = (String, String);

/// Lengths of users' packets that the device may be told to take: what every host takes (RFC 791), and jumbo frames.
const MTU: std::ops::RangeInclusive<u32> = 576..=9_600;
/// What a link of IPv6 must take (RFC 8200 s5).
pub(super) const MTU_IPV6: u32 = 1_280;

impl Config {
    /// Checks the configuration of the site that has the public key `own`. The error names the first field found that is wrong.
    pub fn check(&self, own: &PublicKey) -> Result<(), Wrong> {
        plain("name", &self.name)?;
        if let Some(why) = no_place(self.listen, true) {
            return wrong("listen", why);
        }
        self.check_carriage()?;
        if self.carriage.is_the_kernels() && self.at_end == Fallback::Block && self.fallback == Fallback::Direct {
            let why = "\"block\" keeps the rules of a trunk that stops packets: say `fallback = \"block\"` too";
            return wrong("at_end", why.to_owned());
        }
        if self.peers.is_empty() || self.peers.len() > PEERS_MAX {
            return wrong("peer", format!("expected 1 to {PEERS_MAX} of them: a trunk leads to another site"));
        }
        if usize::from(u16::MAX - self.queue) < self.peers.len() {
            return wrong("queue", format!("{} leaves no numbers for {} peers", self.queue, self.peers.len()));
        }
        self.check_classes()?;
        for (number, peer) in self.peers.iter().enumerate() {
            let of_peer = |(field, why): Wrong| (format!("peer {}: {field}", peer.name), why);
            plain("name", &peer.name).map_err(of_peer)?;
            if peer.key == *own {
                return Err(of_peer((
                    "public_key".to_owned(),
                    "it is this site's own: say the other site's".to_owned(),
                )));
            }
            peer.check(&self.peers[..number], self.listen).map_err(of_peer)?;
            self.check_places(peer).map_err(of_peer)?;
            if self.carriage == Carriage::Tunnelled && peer.endpoint.is_none() {
                let why = "missing: a tunnel of VXLAN begins and ends at addresses that are known at both sites";
                return Err(of_peer(("endpoint".to_owned(), why.to_owned())));
            }
            if self.carriage.is_the_kernels() && peer.send.repair.is_some() {
                let why =
                    "only sealed carriage has packets to send again: say `carriage = \"sealed\"`, or leave it out";
                return Err(of_peer(("repair".to_owned(), why.to_owned())));
            }
            if self.carriage.is_the_kernels() && peer.send.losses != Losses::All {
                let why =
                    "only sealed carriage knows which packets were lost: say `carriage = \"sealed\"`, or leave it out";
                return Err(of_peer(("losses".to_owned(), why.to_owned())));
            }
        }
        self.check_link()
    }

    fn check_carriage(&self) -> Result<(), Wrong> {
        let device = &self.device;
        if self.carriage == Carriage::Probe {
            return Ok(());
        }
        if self.carriage == Carriage::Native
            && self.marks_users
            && self.classes.iter().any(|class| !class.matches.dscp.is_empty())
        {
            let why = "it replaces the code points by which the file's classes tell packets apart: leave out either";
            return wrong("mark_users", why.to_owned());
        }
        if self.carriage.is_the_kernels() {
            let said = [
                ("mtu", device.mtu.is_some() && self.carriage == Carriage::Native),
                ("addresses", !device.addresses.is_empty()),
                ("clamp_mss", device.clamps_mss),
            ];
            let why = "only sealed carriage has a device: say `carriage = \"sealed\"`, or leave this out";
            if let Some((field, _)) = said.into_iter().find(|(_, is_said)| *is_said) {
                return wrong(field, why.to_owned());
            }
            if self.carriage == Carriage::Native {
                return Ok(());
            }
        }
        if self.marks_users {
            let why = "only in native carriage are users' packets seen by routers: leave it out";
            return wrong("mark_users", why.to_owned());
        }
        if self.carriage == Carriage::Sealed && self.fallback == Fallback::Direct {
            let why =
                "\"direct\" would send users' packets unencrypted past a sealed trunk: leave it out, or say \"block\"";
            return wrong("fallback", why.to_owned());
        }
        let is_name = |c: u8| c.is_ascii_graphic() && !matches!(c, b'/' | b':' | b'%');
        if device.name.is_empty() || device.name.len() > 15 || !device.name.bytes().all(is_name) {
            return wrong(
                "device",
                format!("{:?} is no interface's name: expected 1 to 15 letters and digits", device.name),
            );
        }
        // iptables is told the name too, and takes a + at the end for any name that begins so.
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        if self.carriage == Carriage::Tunnelled && (device.name.starts_with('-') || !device.name.bytes().all(is_plain))
        {
            let why =
                format!("{:?} cannot be in a rule: expected letters, digits, and _ . - between them", device.name);
            return wrong("device", why);
        }
        let has_ipv6 = self.peers.iter().flat_map(|peer| &peer.networks).any(|network| network.addr().is_ipv6());
        match device.mtu {
            Some(mtu) if !MTU.contains(&mtu) => {
                wrong("mtu", format!("found {mtu} bytes, expected {} to {}", MTU.start(), MTU.end()))
            }
            Some(mtu) if (has_ipv6 || self.carriage == Carriage::Tunnelled) && mtu < MTU_IPV6 => {
                wrong("mtu", format!("found {mtu} bytes; IPv6 needs {MTU_IPV6} at least (RFC 8200)"))
            }
            _ => Ok(()),
        }
    }

    fn check_classes(&self) -> Result<(), Wrong> {
        if let Some(last) = self.classes.last()
            && last.matches != Matches::default()
        {
            return wrong(
                &format!("class {}", last.name),
                "the last class takes what no other does: say nothing of what it takes".to_owned(),
            );
        }
        for (number, class) in self.classes.iter().enumerate() {
            let EdgeClass { name, queue, .. } = class;
            if self.classes[..number].iter().any(|other| other.name == *name) {
                return wrong("class", format!("two are called {name:?}"));
            }
            let of_class = |(field, why): Wrong| (format!("class {name}: {field}"), why);
            plain("name", name).map_err(of_class)?;
            if queue.room == Bytes::ZERO {
                return Err(of_class(("room".to_owned(), "found 0, expected room for a packet at least".to_owned())));
            }
        }
        Ok(())
    }

    /// Checks that the trunk's own packets to a peer do not go through the trunk.
    fn check_places(&self, peer: &PeerConfig) -> Result<(), Wrong> {
        let networks = || self.peers.iter().flat_map(|other| other.networks.iter().map(move |one| (other, one)));
        if let Some(endpoint) = peer.endpoint
            && let Some((other, network)) = networks().find(|(_, network)| network.contains(&endpoint.ip()))
        {
            let why = format!(
                "{endpoint} is in {network}, which goes to {}: the trunk's own packets would wait for themselves",
                other.name
            );
            return wrong("endpoint", why);
        }
        let here = self.listen.ip();
        if let Some(network) = peer.networks.iter().find(|network| !here.is_unspecified() && network.contains(&here)) {
            return wrong("networks", format!("{network} has this site's own address in it, {here} (`listen`)"));
        }
        Ok(())
    }

    fn check_link(&self) -> Result<(), Wrong> {
        let granted: u64 = self.peers.iter().map(|peer| peer.receive.guaranteed_max.get()).fold(0, u64::saturating_add);
        match self.link {
            Some(link) if link == Rate::bit(0) => {
                wrong("link", "found 0, expected the rate of this site's link".to_owned())
            }
            Some(link) if granted > link.get() => wrong(
                "link",
                format!(
                    "{link} is less than all gmb_max together, {}: the guarantees would not hold",
                    Rate::bit(granted)
                ),
            ),
            None if granted > 0 => wrong(
                "link",
                "missing: the rate of this site's link, which all gmb_max together must not exceed".to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

impl PeerConfig {
    fn check(&self, others: &[PeerConfig], listen: SocketAddr) -> Result<(), Wrong> {
        if self.key.is_zero() {
            return wrong("public_key", "it is all zeros, which is nobody's: say what keygen printed there".to_owned());
        }
        if let Some(other) = others.iter().find(|other| other.name == self.name || other.key == self.key) {
            return wrong("public_key", format!("{} has the same name or key", other.name));
        }
        if self.networks.is_empty() {
            return wrong("networks", "missing: the site's networks, such as [\"10.2.0.0/16\"]".to_owned());
        }
        for (number, network) in self.networks.iter().enumerate() {
            let shared = others.iter().flat_map(|other| other.networks.iter().map(move |one| (&other.name, one)));
            let own = self.networks[..number].iter().map(|one| (&self.name, one));
            if let Some((other, one)) =
                shared.chain(own).find(|(_, one)| one.contains(network) || network.contains(*one))
            {
                return wrong("networks", format!("{network} and {one} of {other} overlap: packets go to one site"));
            }
            if network.addr().is_multicast() {
                return wrong("networks", format!("{network} is of multicast addresses, which are no site's"));
            }
        }
        if let Some(endpoint) = self.endpoint {
            if endpoint.is_ipv4() != listen.is_ipv4() {
                return wrong(
                    "endpoint",
                    format!("{endpoint} cannot be reached from `listen`, {listen}: give both the same version of IP"),
                );
            }
            if let Some(why) = no_place(endpoint, false) {
                return wrong("endpoint", why);
            }
        }
        if !(1..=CONTROLS_MAX).contains(&self.send.controls) {
            return wrong("controls", format!("found {}, expected 1 to {CONTROLS_MAX}", self.send.controls));
        }
        if self.receive.controls_max > CONTROLS_MAX {
            return wrong("controls_max", format!("found {}, expected 0 to {CONTROLS_MAX}", self.receive.controls_max));
        }
        if !VMSS.contains(&self.send.vmss) {
            return wrong(
                "vmss",
                format!("found {} bytes, expected {} to {}", self.send.vmss, VMSS.start(), VMSS.end()),
            );
        }
        match self.send.repair {
            Some(rules) if !REPAIR_WITHIN.contains(&rules.within) => wrong(
                "repair",
                format!(
                    "within: found {}, expected {} to {}",
                    rules.within,
                    REPAIR_WITHIN.start(),
                    REPAIR_WITHIN.end()
                ),
            ),
            Some(rules) if !REPAIR_TRIES.contains(&rules.tries) => wrong(
                "repair",
                format!("tries: found {}, expected {} to {}", rules.tries, REPAIR_TRIES.start(), REPAIR_TRIES.end()),
            ),
            _ => Ok(()),
        }
    }
}

fn wrong(field: &str, why: String) -> Result<(), Wrong> {
    Err((field.to_owned(), why))
}

/// Checks a name that the kernel or a terminal is to show.
fn plain(field: &str, name: &str) -> Result<(), Wrong> {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_MAX
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if is_plain {
        return Ok(());
    }
    wrong(field, format!("found {name:?}, expected up to {NAME_MAX} small letters, digits and hyphens"))
}

/// What keeps datagrams from going to an address and coming from it, or from coming in at it.
fn no_place(address: SocketAddr, may_be_any: bool) -> Option<String> {
    let why = match address.ip() {
        _ if address.port() == 0 => "it has no port",
        ip if ip.is_unspecified() && !may_be_any => "it is no address of anybody",
        ip if ip.is_multicast() => "it is an address of many",
        IpAddr::V4(ip) if ip.is_broadcast() => "it is an address of many",
        _ => return None,
    };
    Some(format!("{address} is no place to send to and to be sent to: {why}"))
}
