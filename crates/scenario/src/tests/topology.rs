//! Flows and circuits that the network cannot carry are refused when the scenario is read, each point of a sweep before
//! any runs.

use proptest::prelude::*;

use super::super::*;
use super::examples;
use crate::topology::Topology;

/// Two hosts at two routers, and what else is in `more`; `link` are further lines of the link between the routers.
fn chain(link: &str, more: &str) -> String {
    format!(
        r#"[nodes.a]
[nodes.b]
[nodes.r]
kind = "router"
[nodes.s]
kind = "router"
[links.ar]
between = ["a", "r"]
rate = "1Mbit/s"
[links.rs]
between = ["r", "s"]
rate = "1Mbit/s"
{link}
[links.sb]
between = ["s", "b"]
rate = "1Mbit/s"
[flows.f]
from = "a"
to = "b"
{more}
"#
    )
}

fn messages(text: &str) -> Vec<String> {
    match Document::parse("net.toml", text).and_then(|document| document.points()) {
        Ok(_) => panic!("this is a scenario after all:\n{text}"),
        Err(Error::Wrong(mistakes)) => mistakes.listed.iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

/// The one message for a text that is no scenario.
fn message(text: &str) -> String {
    let messages = messages(text);
    assert_eq!(messages.len(), 1, "one mistake, one message: {messages:#?}");
    messages[0].clone()
}

#[test]
fn a_flow_that_gets_there_and_not_back_is_refused() {
    assert!(Scenario::parse("net.toml", &chain("", "")).is_ok());
    assert_eq!(
        message(&chain("one_way = true", "")),
        "net.toml:19: flows.f.to: no links lead back from \"b\" to \"a\" over routers; links.rs is `one_way`, from the \
         first node of `between` to the second"
    );
    let wrong_way = chain("one_way = true", "").replace("[\"r\", \"s\"]", "[\"s\", \"r\"]");
    assert!(message(&wrong_way).contains("no links lead from \"a\" to \"b\" over routers, only back; links.rs is"));
    let ring = "[nodes.t]\nkind = \"router\"\n[links.st]\nbetween = [\"s\", \"t\"]\nrate = \"1Mbit/s\"\n\
                [links.tr]\nbetween = [\"t\", \"r\"]\nrate = \"1Mbit/s\"\none_way = true\n";
    assert!(Scenario::parse("net.toml", &chain("one_way = true", ring)).is_ok(), "the answer goes round");
}

#[test]
fn hosts_do_not_pass_packets_on() {
    let through_a_host = chain("", "").replacen("[nodes.s]\nkind = \"router\"", "[nodes.s]", 1);
    assert!(message(&through_a_host).ends_with("flows.f.to: no links lead from \"a\" to \"b\" over routers"));
}

#[test]
fn every_value_of_a_sweep_is_checked_and_the_point_is_named() {
    let text = chain("", "[sweep]\n\"links.rs.one_way\" = [false, true]");
    let said = message(&text);
    assert!(said.starts_with("net.toml:19: flows.f.to: no links lead back from \"b\" to \"a\""), "{said}");
    assert!(said.ends_with("(at the point links.rs.one_way = true)"), "{said}");
    let text = chain("", "[sweep]\n\"flows.f.bytes\" = [\"1KB\", \"2KB\"]\n\"links.rs.one_way\" = [false, true]");
    let said = message(&text);
    assert!(said.ends_with("(at the point flows.f.bytes = 1KB, links.rs.one_way = true)"), "{said}");
}

#[test]
fn a_flow_with_both_ends_on_one_side_of_its_proxy_is_refused() {
    let proxied = |from: &str| {
        let text = chain("", "via = \"s\"\n[nodes.c]\n[links.cs]\nbetween = [\"c\", \"s\"]\nrate = \"1Mbit/s\"\n");
        let text = text.replacen("[nodes.s]\nkind = \"router\"", "[nodes.s]\nkind = \"proxy\"\nlocal_link = \"sb\"", 1);
        text.replace("from = \"a\"\nto = \"b\"", from)
    };
    assert!(Scenario::parse("net.toml", &proxied("from = \"a\"\nto = \"b\"")).is_ok());
    let neither = message(&proxied("from = \"a\"\nto = \"c\""));
    assert_eq!(
        neither,
        "net.toml:21: flows.f.via: neither of \"a\" and \"c\" lies behind the `local_link` of \"s\", links.sb: one must, \
         and the other not"
    );
    let lonely =
        proxied("from = \"a\"\nto = \"b\"").replace("rate = \"1Mbit/s\"\n\n", "rate = \"1Mbit/s\"\none_way = true\n");
    let said = message(&lonely);
    assert!(said.contains("flows.f.via: no links lead back from \"s\" to \"a\" over routers; links.rs"), "{said}");
}

#[test]
fn a_host_has_no_more_connections_than_ports() {
    // 65536 ports but for 1024, and a socket takes 101 of them.
    let sockets = |count: u32| chain("", &format!("count = {count}\nsocket = {{ controls = 100 }}"));
    assert!(Scenario::parse("net.toml", &sockets(638)).is_ok());
    let said = messages(&sockets(639));
    assert_eq!(
        said[0],
        "net.toml:20: flows.f.count: \"a\" would have 64539 ends of flows, with control TCPs, and has ports for 64512"
    );
    assert!(said[1].contains("\"b\" would have 64539"), "{said:?}");
    let plain = |count: u32| chain("", &format!("count = {count}"));
    assert!(Scenario::parse("net.toml", &plain(64_512)).is_ok());
    assert!(messages(&plain(64_513))[0].contains("\"a\" would have 64513 ends of flows"));
    let streams = |kind: &str, count: u32| {
        chain("", &format!("kind = \"datagrams\"\nrate = \"1Mbit/s\"\n{kind}\ncount = {count}"))
    };
    assert!(Scenario::parse("net.toml", &streams("", 1_024)).is_ok());
    let said = messages(&streams("", 1_025));
    assert!(said[0].contains("\"a\" would have 1025 flows of datagrams or frames and has ports for 1024"), "{said:?}");
    let two = format!("{}[flows.g]\nfrom = \"b\"\nto = \"a\"\ncount = 40000\n", plain(40_000));
    assert!(
        messages(&two)[0].starts_with("net.toml:24: flows.g.count: \"b\" would have 80000"),
        "the second is too many"
    );
}

#[test]
fn a_proxy_splits_no_more_flows_than_it_has_ports_for() {
    let split = |count: u32| {
        let text = chain("", &format!("via = \"s\"\ncount = {count}"));
        text.replacen("[nodes.s]\nkind = \"router\"", "[nodes.s]\nkind = \"proxy\"\nlocal_link = \"sb\"", 1)
    };
    assert!(Scenario::parse("net.toml", &split(32_256)).is_ok());
    let said = message(&split(32_257));
    assert!(
        said.contains("flows.f.count: \"s\" would have 32257 flows that it splits and has ports for 32256"),
        "{said}"
    );
}

#[test]
fn a_circuit_whose_ends_are_not_joined_is_refused() {
    let (name, text) = examples().into_iter().find(|(name, _)| *name == "trunks.toml").expect("an example");
    let mut document = Document::parse(name, text).expect("TOML");
    document.set("links.be.between", r#"["b", "a2"]"#).expect("a link");
    document.set("links.ab.between", r#"["a", "f"]"#).expect("a link");
    let text = format!("{}\n[nodes.a2]\n", document.to_toml());
    let said = messages(&text).join("\n");
    assert!(said.contains("circuits.trunk1.to: no links lead from \"b\" to \"f\" over routers"), "{said}");
    let circuit = "[circuits.c]\nfrom = \"r\"\nto = \"s\"\nflows = [\"f\"]";
    assert!(Scenario::parse("net.toml", &chain("", circuit)).is_ok());
    let said = messages(&chain("one_way = true", circuit)).join("\n");
    assert!(said.contains("net.toml:22: circuits.c.to: no links lead back from \"s\" to \"r\""), "{said}");
}

#[test]
fn circuits_have_no_more_control_tcps_at_a_router_than_ports() {
    let circuits = |count: u32| {
        let one = |n: u32| format!("[circuits.c{n}]\nfrom = \"r\"\nto = \"s\"\nflows = [\"f\"]\ncontrols = 1000\n");
        chain("", &(0..count).map(one).collect::<String>())
    };
    assert!(Scenario::parse("net.toml", &circuits(64)).is_ok());
    let said = messages(&circuits(65));
    assert!(
        said[0].contains("circuits.c64.controls: \"r\" would have 65000 control TCPs and has ports for 64512"),
        "{said:?}"
    );
}

#[test]
fn a_network_too_large_for_its_duration_is_refused() {
    let spokes: String = (0..1_400)
        .map(|n| format!("[nodes.h{n}]\n[links.l{n}]\nbetween = [\"r\", \"h{n}\"]\nrate = \"1Mbit/s\"\n"))
        .collect();
    assert!(Scenario::parse("net.toml", &chain("", &spokes)).is_ok(), "1000 s are possible");
    let said = message(&format!("duration = \"1000h\"\n{}", chain("", &spokes)));
    assert_eq!(
        said,
        "net.toml:1: duration: is 3600000s, and with so many nodes and links less than 1125899s is possible"
    );
}

/// A network of these kinds of nodes (a host if true) and links (with whether each leads one way).
fn topology(hosts: &[bool], links: &[(usize, usize, bool)]) -> Topology {
    let mut text = String::new();
    for (number, is_host) in hosts.iter().enumerate() {
        text += &format!("[nodes.n{number}]\nkind = \"{}\"\n", if *is_host { "host" } else { "router" });
    }
    for (number, (a, b, one_way)) in links.iter().enumerate() {
        text +=
            &format!("[links.l{number}]\nbetween = [\"n{a}\", \"n{b}\"]\nrate = \"1Mbit/s\"\none_way = {one_way}\n");
    }
    // Two more, so that there is a flow.
    text += "[nodes.x]\n[nodes.y]\n[links.xy]\nbetween = [\"x\", \"y\"]\nrate = \"1Mbit/s\"\n[flows.f]\nfrom = \"x\"\nto = \"y\"\n";
    Topology::of(&Scenario::parse("random.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

proptest! {
    #[test]
    fn who_is_reached_has_a_route_that_leads_there(
        hosts in prop::collection::vec(any::<bool>(), 2..12),
        links in prop::collection::btree_map((0..12_usize, 0..12_usize), any::<(bool, bool)>(), 0..25),
    ) {
        let links: Vec<(usize, usize, bool)> = links
            .into_iter()
            .filter(|((a, b), _)| a < b && *b < hosts.len())
            .map(|((a, b), (turned, one_way))| if turned { (b, a, one_way) } else { (a, b, one_way) })
            .collect();
        let topology = topology(&hosts, &links);
        for from in 0..hosts.len() {
            let routes = topology.routes(from);
            for (to, route) in routes.iter().enumerate().take(hosts.len()) {
                prop_assert_eq!(topology.reaches(from, to), route.is_some(), "{} to {} of {:?}", from, to, links);
                prop_assert_eq!(topology.port(from, to), *route, "{} to {} of {:?}", from, to, links);
                let path = topology.path(from, to);
                prop_assert_eq!(path.last().copied(), route.map(|_| to), "the path ends where it should");
                let inner = path.iter().take(path.len().saturating_sub(1));
                prop_assert!(inner.clone().all(|&node| !hosts[node]), "no host passes packets on: {path:?}");
            }
        }
    }
}
