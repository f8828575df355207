//! The ends of the emulated network: devices made in namespaces, or interfaces that are there.

use std::net::IpAddr;
use std::sync::Arc;

use headend_engine::node::Port;
use headend_engine::time::Duration;
use headend_engine::units::Bytes;
use headend_host::Netlink;
use headend_host::device::{self, Device};
use headend_host::netns::{self, Namespace};
use headend_host::packet::{HEADER_BYTES, Interface};
use headend_host::privilege;
use headend_host::reactor::{Addresses, Attachment, Destination, Gate};
use headend_host::tun::{DeviceSetup, Tun};
use headend_scenario::{LinkKind, Scenario};
use headend_sim::network::Network;

use super::Emulation;
use super::inside::Inside;
use crate::failure::Failure;

/// The bytes of an Ethernet frame besides the packet.
pub(super) const FRAME_BYTES: u32 = HEADER_BYTES as u32;

/// All ends, as the reactor takes them: by port.
pub(super) struct Ends {
    pub(super) gates: Vec<Option<Gate>>,
    pub(super) attachments: Vec<Option<Attachment>>,
    pub(super) sides: Vec<EmulatedSide>,
    /// The namespace in which a command is to run.
    pub(super) inside: Option<Inside>,
}

/// One end.
#[derive(Clone, Debug)]
pub(super) struct EmulatedSide {
    /// The scenario's host whose place it takes.
    pub(super) node: String,
    /// The namespace or interface that takes it, and the address there.
    pub(super) place: String,
    pub(super) port: Port,
}

/// A device that is open, where it is, and the addresses of its own.
pub(super) type Opened = (Gate, String, Vec<IpAddr>);

/// Opens all ends.
pub(super) fn open(arguments: &Emulation, scenario: &Scenario, network: &Network) -> Result<Ends, Failure> {
    let (option, asked) = match (&arguments.between, &arguments.interfaces, &arguments.hosts) {
        (between, _, _) if !between.is_empty() => ("--between", between.clone()),
        (_, interfaces, _) if !interfaces.is_empty() => ("--interfaces", interfaces.clone()),
        (_, _, hosts) if !hosts.is_empty() => ("--hosts", hosts.clone()),
        // A command: the network is between this namespace and a new one.
        _ => ("--", vec!["here".to_owned(), "inside".to_owned()]),
    };
    let asked: Vec<(Option<&str>, &str)> = asked.iter().map(|text| end(text)).collect();
    let places: Vec<&str> = asked.iter().map(|&(_, place)| place).collect();
    for (i, place) in places.iter().enumerate() {
        if places[..i].contains(place) {
            let text = match places.len() {
                2 => format!("{option}: both ends are {place}, and a path has two"),
                _ => format!("{option}: {place} is there twice, and each host has its own"),
            };
            return Err(Failure::Wrong(text));
        }
    }
    let nodes = match option {
        "--hosts" => named_nodes(option, &asked, network)?,
        _ => nodes(option, [asked[0].0, asked[1].0], network)?.to_vec(),
    };
    let segments = segments(scenario, arguments.mtu);
    let mut inside = None;
    let opened: Vec<Opened> = match option {
        "--interfaces" => interfaces(arguments, [places[0], places[1]])?,
        "--" => {
            let (made, opened) = Inside::open(arguments, segments)?;
            inside = Some(made);
            opened
        }
        _ => tuns(arguments, segments, &places)?,
    };

    let ports: Vec<Port> = nodes.iter().map(|&node| network.port(node).expect("hosts have a port")).collect();
    let count = ports.iter().map(|port| usize::from(port.0) + 1).max().unwrap_or(0);
    let mut ends =
        Ends { gates: (0..count).map(|_| None).collect(), attachments: vec![None; count], sides: Vec::new(), inside };
    let number = |node: usize| u16::try_from(node).expect("a network has at most 65536 nodes");
    let own: Vec<Vec<IpAddr>> = opened.iter().map(|(_, _, own)| own.clone()).collect();
    for (i, (gate, place, _)) in opened.into_iter().enumerate() {
        let to = match nodes.as_slice() {
            // A path has no other end: whatever the address, a packet goes there.
            &[first, second] => Destination::Always(number(if i == 0 { second } else { first })),
            all => {
                let within_reach = (0..all.len()).filter(|&to| network.topology().reaches(nodes[i], all[to]));
                let addresses: Addresses =
                    within_reach.flat_map(|to| own[to].iter().map(move |&its| (its, number(all[to])))).collect();
                Destination::Of(Arc::new(addresses))
            }
        };
        let port = usize::from(ports[i].0);
        ends.gates[port] = Some(gate);
        ends.attachments[port] = Some(Attachment { node: number(nodes[i]), to });
        ends.sides.push(EmulatedSide { node: network.nodes()[nodes[i]].clone(), place, port: ports[i] });
    }
    Ok(ends)
}

/// `[NODE=]PLACE`
fn end(text: &str) -> (Option<&str>, &str) {
    text.split_once('=').map_or((None, text), |(node, place)| (Some(node), place))
}

/// The hosts that are named, each once.
fn named_nodes(option: &str, asked: &[(Option<&str>, &str)], network: &Network) -> Result<Vec<usize>, Failure> {
    let hosts: Vec<usize> = (0..network.nodes().len()).filter(|&node| network.port(node).is_some()).collect();
    let name = |node: usize| network.nodes()[node].as_str();
    let listed = || hosts.iter().map(|&node| name(node)).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    for &(named, place) in asked {
        let wrong = |text: String| Err(Failure::Wrong(format!("{option}: {text}; hosts: {}", listed())));
        let Some(named) = named else { return wrong(format!("say in whose place {place} is, as in HOST={place}")) };
        match hosts.iter().copied().find(|&node| name(node) == named) {
            None => return wrong(format!("the scenario has no host {named}")),
            Some(node) if found.contains(&node) => return wrong(format!("two are in the place of {named}")),
            Some(node) => found.push(node),
        }
    }
    for (&from, &to) in found.iter().flat_map(|from| found.iter().map(move |to| (from, to))) {
        if from != to && !network.topology().reaches(from, to) {
            let text = format!("{option}: no links lead from {} to {} through routers alone", name(from), name(to));
            return Err(Failure::Wrong(text));
        }
    }
    Ok(found)
}

/// The two hosts between which it is: as named, and the two that there are where none is named.
fn nodes(option: &str, named: [Option<&str>; 2], network: &Network) -> Result<[usize; 2], Failure> {
    let hosts: Vec<usize> = (0..network.nodes().len()).filter(|&node| network.port(node).is_some()).collect();
    let name = |node: usize| network.nodes()[node].as_str();
    let listed = || hosts.iter().map(|&node| name(node)).collect::<Vec<_>>().join(", ");
    let wrong = |text: String| Failure::Wrong(format!("{option}: {text}; hosts: {}", listed()));
    let mut found = [None; 2];
    for (found, named) in found.iter_mut().zip(named) {
        let Some(named) = named else { continue };
        let node = hosts.iter().copied().find(|&node| name(node) == named);
        *found = Some(node.ok_or_else(|| wrong(format!("the scenario has no host {named}")))?);
    }
    let nodes = match (found, hosts.as_slice()) {
        ([Some(first), Some(second)], _) if first != second => [first, second],
        ([Some(first), Some(_)], _) => return Err(wrong(format!("both ends are in the place of {}", name(first)))),
        ([None, None], &[first, second]) => [first, second],
        ([Some(one), None], &[first, second]) => [one, if one == first { second } else { first }],
        ([None, Some(one)], &[first, second]) => [if one == first { second } else { first }, one],
        _ => {
            let example = format!("{option} {0}=ONE {1}=OTHER", name(hosts[0]), name(hosts[hosts.len() - 1]));
            return Err(wrong(format!("say in the places of which two hosts, as in {example}")));
        }
    };
    for [from, to] in [nodes, [nodes[1], nodes[0]]] {
        if !network.topology().reaches(from, to) {
            return Err(wrong(format!("no links lead from {} to {} through routers alone", name(from), name(to))));
        }
    }
    Ok(nodes)
}

/// The packets of a connection that senders may hand over at once: those that no link is longer busy with than a quarter of a
/// millisecond. On slow links every packet comes by itself, so that a queue meets what it would meet of a sender without offloads.
fn segments(scenario: &Scenario, mtu: u32) -> u32 {
    const BUNDLE: Duration = Duration::from_micros(250);
    /// The most segments of a bundle: as many as fit into the longest packet that Linux makes, with room for headers.
    const SEGMENTS_MAX: u64 = 40;
    let packet = Bytes::new(mtu.into());
    let slowest = scenario.links.iter().map(|link| match &link.kind {
        LinkKind::Plain(plain) => plain.there.rate.usual_time_for(packet).max(plain.back.rate.usual_time_for(packet)),
        LinkKind::Cable(cable) => cable.down.rate.min(cable.up.rate).min(cable.lan).time_for(packet),
        LinkKind::Docsis(_) => BUNDLE,
    });
    let slowest = slowest.max().unwrap_or(BUNDLE).max(Duration::from_nanos(1));
    (BUNDLE.as_nanos() / slowest.as_nanos()).clamp(1, SEGMENTS_MAX) as u32
}

/// A device in each of several namespaces.
fn tuns(arguments: &Emulation, segments: u32, namespaces: &[&str]) -> Result<Vec<Opened>, Failure> {
    let given = match arguments.addresses.is_empty() {
        true => (1..=namespaces.len()).map(|n| format!("10.83.0.{n}/24")).collect(),
        false => arguments.addresses.clone(),
    };
    if given.len() != namespaces.len() {
        let text = format!("--addresses: {} for {} ends; each needs its own", given.len(), namespaces.len());
        return Err(Failure::Wrong(text));
    }
    let addresses = given.iter().map(|text| addresses(text)).collect::<Result<Vec<_>, Failure>>()?;
    for (i, own) in addresses.iter().enumerate() {
        let others = addresses[..i].iter().flatten();
        if let Some((twice, _)) =
            others.map(|(other, _)| (other, ())).find(|(other, ())| own.iter().any(|(it, _)| it == *other))
        {
            let text = match addresses.len() {
                2 => format!("--addresses: both sides have {twice}, and each needs its own"),
                _ => format!("--addresses: two ends have {twice}, and each needs its own"),
            };
            return Err(Failure::Wrong(text));
        }
    }
    check_privilege(arguments, "makes devices", &privilege::missing())?;
    let mut opened = Vec::new();
    for ((name, text), addresses) in namespaces.iter().zip(&given).zip(addresses) {
        if !netns::names()?.iter().any(|known| known == name) {
            return Err(Failure::Wrong(format!("there is no namespace {name}; make it with: ip netns add {name}")));
        }
        let namespace = Namespace::open(name)?;
        let (devices, taken) = namespace.run(|| {
            let mut netlink = Netlink::open()?;
            Ok::<_, headend_host::Error>((Device::all(&mut netlink)?, device::addresses(&mut netlink)?))
        })??;
        // The kernel's own words for a name that is taken depend on what has it.
        if devices.iter().any(|device| device.name == arguments.device) {
            let device = &arguments.device;
            let text = format!("namespace {name} has a device {device} already; another name: --device");
            return Err(Failure::Wrong(text));
        }
        if let Some((twice, _)) = addresses.iter().find(|(address, _)| taken.contains(address)) {
            let text = format!(
                "namespace {name} has the address {twice} already, perhaps from another emulator: with two of them packets \
                 would take the first's links; others: --addresses"
            );
            return Err(Failure::Wrong(text));
        }
        let own = addresses.iter().map(|&(address, _)| address).collect();
        let setup = DeviceSetup::new(&arguments.device, addresses, arguments.mtu).with_offloads(segments);
        let tun = Tun::create(Some(&namespace), &setup)?;
        opened.push((Gate::from(tun), format!("namespace {name}, device {}, {text}", arguments.device), own));
    }
    Ok(opened)
}

fn interfaces(arguments: &Emulation, names: [&str; 2]) -> Result<Vec<Opened>, Failure> {
    check_privilege(arguments, "--interfaces takes over interfaces", &privilege::missing_for_interfaces())?;
    let devices = Device::all(&mut Netlink::open()?)?;
    let wrong = |text: String| Err(Failure::Wrong(format!("--interfaces: {text}")));
    for name in names {
        match devices.iter().find(|device| device.name == name) {
            None => return wrong(format!("there is no interface {name} here; ip link lists those that are")),
            Some(device) if !device.is_ethernet => {
                return wrong(format!("{name} is no Ethernet interface: its packets have no frames to pass on"));
            }
            Some(device) if !device.up => {
                return wrong(format!("{name} is down; bring it up with: ip link set {name} up"));
            }
            Some(_) => {}
        }
    }
    let mut opened = Vec::new();
    for name in names {
        let interface = Interface::open(name)?;
        let mtu = interface.device().mtu;
        if mtu > arguments.mtu {
            let text = format!("--interfaces: {name} has packets of up to {mtu} bytes: say so with --mtu {mtu}");
            return Err(Failure::Wrong(text));
        }
        opened.push((Gate::from(interface), format!("interface {name}"), Vec::new()));
    }
    Ok(opened)
}

/// Says what this process lacks and what takes its place.
pub(super) fn check_privilege(arguments: &Emulation, what: &str, missing: &[String]) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "headend emulate {what}, and this process lacks {}; run it as root, or simulate: headend sim {}",
        missing.join("; "),
        arguments.request.file.display()
    )))
}

/// `10.83.0.1/24`, or several with commas between them.
fn addresses(text: &str) -> Result<Vec<(IpAddr, u8)>, Failure> {
    text.split(',').map(address).collect()
}

/// `10.83.0.1/24` or `fd83::1/64`: of one host, in a network that all can be in.
fn address(text: &str) -> Result<(IpAddr, u8), Failure> {
    let wrong = |expected: &str| Failure::Wrong(format!("--addresses: found {text:?}, expected {expected}"));
    let parts = text.split_once('/').and_then(|(address, length)| Some((address.parse().ok()?, length.parse().ok()?)));
    let (address, length): (IpAddr, u8) = parts
        .filter(|&(address, length): &(IpAddr, u8)| length <= if address.is_ipv4() { 32 } else { 128 })
        .ok_or_else(|| wrong("an address and a length such as 10.83.0.1/24 or fd83::1/64"))?;
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let is_a_hosts = !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast);
    is_a_hosts.then_some((address, length)).ok_or_else(|| wrong("the address of one host such as 10.83.0.1/24"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = r#"
        [nodes.a]
        [nodes.r]
        kind = "router"
        [nodes.b]
        [nodes.c]
        [links.ar]
        between = ["a", "r"]
        rate = "1Mbit/s"
        [links.rb]
        between = ["r", "b"]
        rate = "1Mbit/s"
        [flows.f]
        from = "a"
        to = "b"
    "#;

    fn resolve(text: &str, named: [Option<&str>; 2]) -> Result<[usize; 2], String> {
        let network = Network::outside(&Scenario::parse("net.toml", text).expect("a scenario"), 0);
        nodes("--between", named, &network).map_err(|failure| failure.message().expect("a reason").to_owned())
    }

    #[test]
    fn of_two_hosts_none_or_one_need_be_named() {
        let two = NETWORK.replace("[nodes.c]", "");
        assert_eq!(resolve(&two, [None, None]), Ok([0, 2]));
        assert_eq!(resolve(&two, [Some("b"), None]), Ok([2, 0]));
        assert_eq!(resolve(&two, [None, Some("a")]), Ok([2, 0]));
        assert_eq!(resolve(&two, [Some("b"), Some("a")]), Ok([2, 0]));
    }

    #[test]
    fn ends_that_are_no_two_ends_of_a_path_are_refused_with_the_reason() {
        let wrong = |named| resolve(NETWORK, named).expect_err("no path");
        assert_eq!(
            wrong([None, None]),
            "--between: say in the places of which two hosts, as in --between a=ONE c=OTHER; hosts: a, b, c"
        );
        let network = Network::outside(&Scenario::parse("net.toml", NETWORK).expect("a scenario"), 0);
        let asked = |names: &[&'static str]| {
            let asked: Vec<_> = names.iter().map(|text| end(text)).collect();
            named_nodes("--hosts", &asked, &network).map_err(|failure| failure.message().expect("a reason").to_owned())
        };
        assert_eq!(asked(&["a=one", "b=two"]), Ok(vec![0, 2]));
        assert!(asked(&["a=one", "two"]).is_err_and(|text| text.contains("HOST=two")));
        assert!(asked(&["a=one", "a=two"]).is_err_and(|text| text.contains("two are in the place of a")));
        assert!(asked(&["a=one", "b=two", "c=three"]).is_err_and(|text| text.contains("no links lead from a to c")));
        assert_eq!(wrong([Some("r"), Some("b")]), "--between: the scenario has no host r; hosts: a, b, c");
        assert_eq!(wrong([Some("b"), Some("b")]), "--between: both ends are in the place of b; hosts: a, b, c");
        assert_eq!(
            wrong([Some("a"), Some("c")]),
            "--between: no links lead from a to c through routers alone; hosts: a, b, c"
        );
    }

    #[test]
    fn the_slowest_link_says_how_many_packets_may_come_at_once() {
        let with = |rate: &str| {
            let text = NETWORK.replacen("1Mbit/s", rate, 1).replace("rate = \"1Mbit/s\"", "rate = \"10Gbit/s\"");
            segments(&Scenario::parse("net.toml", &text).expect("a scenario"), 1_500)
        };
        assert_eq!(["1000kbit/s", "48Mbit/s", "96Mbit/s", "1Gbit/s", "10Gbit/s"].map(with), [1, 1, 2, 20, 40]);
    }

    #[test]
    fn addresses_are_of_hosts_and_have_a_length() {
        let parsed = addresses("10.83.0.1/24,fd83::1/64").expect("one of each family");
        assert_eq!(parsed, [("10.83.0.1".parse().unwrap(), 24), ("fd83::1".parse().unwrap(), 64)]);
        for text in [
            "224.0.0.1/24",
            "127.0.0.1/8",
            "0.0.0.0/0",
            "255.255.255.255/32",
            "10.83.0.1",
            "10.83.0.1/33",
            "10.83.0/24",
            "/24",
            "fd00::1/129",
            "ff02::1/64",
            "::1/128",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
