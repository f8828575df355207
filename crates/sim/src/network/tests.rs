//! A network with its hosts outside.

use headend_engine::packet::{Body, Class, Ecn, Endpoint};
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};

use super::*;
use headend_scenario::Scenario;

/// Two hosts at a router, each link 8 Mbit/s and 1 ms, and a third host apart, on a link to nowhere else.
const NETWORK: &str = r#"
    [nodes.a]
    [nodes.r]
    kind = "router"
    [nodes.b]
    [nodes.c]
    [nodes.d]
    [links.ar]
    between = ["a", "r"]
    rate = "8Mbit/s"
    delay = "1ms"
    [links.rb]
    between = ["r", "b"]
    rate = "8Mbit/s"
    delay = "1ms"
    queue = "1 packets"
    [links.cd]
    between = ["c", "d"]
    rate = "8Mbit/s"
    [flows.f]
    from = "a"
    to = "b"
"#;

fn network() -> Network {
    Network::outside(&Scenario::parse("network", NETWORK).unwrap(), 0)
}

fn packet(id: u64, from: u16, to: u16, len: u32) -> Packet {
    let end = |node| Endpoint { node, port: 0 };
    Packet { id, src: end(from), dst: end(to), len, class: Class::default(), ecn: Ecn::NotEct, body: Body::Opaque }
}

/// Polls until nothing more happens: when each packet leaves, and at which port.
fn run(network: &mut Network) -> Vec<(Time, Port, u64)> {
    let (mut now, mut left) = (Time::ZERO, Vec::new());
    loop {
        match network.poll(now) {
            Step::Send(port, packet) => left.push((now, port, packet.id)),
            Step::Wait(Some(next)) => now = next,
            Step::Wait(None) => return left,
        }
    }
}

#[test]
fn packets_enter_in_one_host_s_place_and_leave_in_another_s() {
    let mut network = network();
    let [a, b] = [0, 2].map(|node| network.port(node).expect("a host has a port"));
    assert_eq!(network.port(1), None, "a router has none");
    network.receive(Time::ZERO, a, &packet(7, 0, 2, 1_000));
    network.receive(Time::ZERO, b, &packet(8, 2, 0, 500));
    // Two services of a microsecond a byte, and two milliseconds.
    let times = [500, 1_000].map(|bytes| Time::ZERO + Rate::mbit(8).time_for(Bytes::new(bytes)) * 2 + MS * 2);
    assert_eq!(run(&mut network), [(times[0], a, 8), (times[1], b, 7)]);
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_host_reaches_those_that_routers_lead_to_and_no_others() {
    let network = network();
    let topology = network.topology();
    assert!(topology.reaches(0, 2) && topology.reaches(2, 0) && topology.reaches(3, 4));
    assert!(!topology.reaches(0, 3) && !topology.reaches(0, 0));
}

#[test]
fn what_links_discard_can_be_taken_and_the_links_have_names() {
    let mut network = network();
    let a = network.port(0).unwrap();
    for id in 0..4 {
        // All at once at the first link, whose queue has room; the second serves one and keeps one as they come.
        network.receive(Time::ZERO, a, &packet(id, 0, 2, if id == 0 { 1_000 } else { 10 }));
    }
    let delivered: Vec<u64> = run(&mut network).into_iter().map(|(_, _, id)| id).collect();
    let mut discards = Vec::new();
    network.take_discards(&mut discards);
    assert_eq!(delivered, [0, 1]);
    assert_eq!(discards.iter().map(|discard| discard.packet.id).collect::<Vec<_>>(), [2, 3]);
    let ways = network.ways();
    let names: Vec<String> = ways.iter().map(|way| format!("{} {}", way.link, way.direction)).collect();
    assert_eq!(names, ["ar a->r", "ar r->a", "rb r->b", "rb b->r", "cd c->d", "cd d->c"]);
    assert_eq!((ways[2].stats().dropped, ways[2].stats().delivered), (2, 2));
}

#[test]
fn a_proxy_s_place_takes_what_is_for_it_and_passes_on_what_is_for_others() {
    let with_proxy = NETWORK.replace("kind = \"router\"", "kind = \"proxy\"\nlocal_link = \"rb\"");
    let scenario = Scenario::parse("network", &with_proxy).unwrap();
    let mut network = Network::outside_with_sites(&scenario, 0);
    let [a, r, b] = [0, 1, 2].map(|node| network.port(node).expect("hosts and proxies have ports"));
    network.receive(Time::ZERO, a, &packet(1, 0, 1, 1_000));
    network.receive(Time::ZERO, a, &packet(2, 0, 2, 1_000));
    network.receive(Time::ZERO, r, &packet(3, 1, 2, 500));
    let left: Vec<_> = run(&mut network).into_iter().map(|(_, port, id)| (port, id)).collect();
    assert_eq!(left, [(b, 3), (r, 1), (b, 2)]);
    let topology = network.topology();
    assert!(topology.leads_over(1, 2, 1) && !topology.leads_over(1, 0, 1), "the local link leads to b");
    assert_eq!(Network::outside(&scenario, 0).port(1), None, "elsewhere a proxy is a router");
}

#[test]
fn all_packets_pass_whoever_is_in_the_place_of_a_circuit_s_end() {
    let text = NETWORK.replace("[nodes.c]", "[nodes.s]\nkind = \"router\"\n[nodes.c]");
    let text = text.replace("[\"r\", \"b\"]", "[\"r\", \"s\"]");
    let text = format!(
        "{text}\n[links.sb]\nbetween = [\"s\", \"b\"]\nrate = \"8Mbit/s\"\n[circuits.it]\nfrom = \"r\"\nto = \"s\"\n"
    );
    let scenario = Scenario::parse("network", &text).unwrap_or_else(|error| panic!("{error}"));
    let node = |name: &str| scenario.nodes.iter().position(|node| node.name == name).expect("a node");
    let [a, r, s, b] = ["a", "r", "s", "b"].map(node);
    let port = |network: &Network, node: usize| network.port(node).expect("hosts and circuits' ends have ports");
    let mut way = vec![];
    for from in [a, r, s] {
        let mut network = Network::outside_with_sites(&scenario, 0);
        let (at, packet) = (port(&network, from), packet(1, from as u16, b as u16, 100));
        network.receive(Time::ZERO, at, &packet);
        way.extend(run(&mut network).into_iter().map(|(_, port, _)| port));
    }
    let network = Network::outside_with_sites(&scenario, 0);
    assert_eq!(way, [r, s, b].map(|node| port(&network, node)), "out and in again at both ends");
}
