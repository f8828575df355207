//! Nodes of which there are many, and the links and flows of each of them.

use super::super::*;

const HOMES: &str = r#"
[nodes.server]
[nodes.cmts]
kind = "router"
[nodes.pc]
count = 3
tcp = { sack = true }
[links.backbone]
between = ["server", "cmts"]
rate = "1Gbit/s"
[links.cable]
between = ["cmts", "pc[]"]
rate = "25Mbit/s"
[flows.get]
from = "server"
to = "pc[]"
count = 2
[flows.put]
from = "pc[]"
to = "server"
bytes = "1KB"
arrivals = "1s"
"#;

fn messages(text: &str) -> Vec<String> {
    match Scenario::parse("net.toml", text) {
        Err(Error::Wrong(mistakes)) => mistakes.listed.iter().map(ToString::to_string).collect(),
        other => panic!("a mistake: {other:?}"),
    }
}

#[test]
fn each_of_many_nodes_has_its_link_and_its_flows() {
    let scenario = Scenario::parse("net.toml", HOMES).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = scenario.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["server", "cmts", "pc-0", "pc-1", "pc-2"]);
    let links: Vec<(&str, [usize; 2])> = scenario.links.iter().map(|link| (&*link.name, link.between)).collect();
    assert_eq!(links, [("backbone", [0, 1]), ("cable-0", [1, 2]), ("cable-1", [1, 3]), ("cable-2", [1, 4])]);
    let flows: Vec<_> = scenario.flows.iter().map(|flow| (&*flow.name, flow.from, flow.to, flow.first)).collect();
    let most = scenario.flows[3].count;
    let gets = [("get", 0, 2, 0), ("get", 0, 3, 2), ("get", 0, 4, 4)];
    assert_eq!(flows, [&gets[..], &[("put", 2, 0, 0), ("put", 3, 0, most), ("put", 4, 0, 2 * most)]].concat());
    let comes = |flow: &Flow| flow.instances(1, scenario.duration);
    assert_ne!(comes(&scenario.flows[3]), comes(&scenario.flows[4]), "each comes at times of its own");
}

#[test]
fn the_number_of_nodes_can_be_swept() {
    let text = format!("{HOMES}[sweep]\n\"nodes.pc.count\" = [1, 2, 40]\n");
    let points = Document::parse("net.toml", &text).and_then(|document| document.points()).expect("points");
    let nodes: Vec<usize> = points.iter().map(|point| point.scenario.nodes.len()).collect();
    assert_eq!(nodes, [3, 4, 42]);
}

#[test]
fn a_mistake_in_one_of_many_is_told_once() {
    let wrong = HOMES.replace("sack = true", "sack = 3");
    assert_eq!(messages(&wrong), ["net.toml:7: nodes.pc-0.tcp.sack: found 3, expected true or false"]);
}

#[test]
fn names_that_do_not_fit_are_told() {
    let plain = HOMES.replace("\"cmts\", \"pc[]\"", "\"cmts\", \"pc\"");
    let said = messages(&plain);
    assert!(
        said[0].starts_with(
            "net.toml:12: links.cable.between: \"pc\" is 3 nodes: \"pc[]\" is each of them, and \"pc-0\" the first"
        ),
        "{said:?}"
    );
    let twice = format!("{HOMES}[nodes.pc-1]\n");
    let said = messages(&twice);
    assert!(said[0].contains("nodes.pc-1: is one of the nodes that `count` of \"pc\" makes"), "{said:?}");
    let unequal =
        format!("{HOMES}[nodes.tv]\ncount = 2\n[links.house]\nbetween = [\"pc[]\", \"tv[]\"]\nrate = \"1Gbit/s\"\n");
    let said = messages(&unequal);
    assert!(said[0].contains("links.house.between: \"tv[]\" is 2 nodes, and the other end 3"), "{said:?}");
    let said = messages(&HOMES.replace("count = 3", "count = 70000"));
    assert!(said[0].contains("nodes.pc.count: makes 70000 nodes, and 65000 are possible"), "{said:?}");
    let said = messages(&HOMES.replace("count = 3", "count = 0"));
    assert!(said[0].contains("nodes.pc.count: found 0, expected a whole number from 1 to 65000"), "{said:?}");
    let said = messages(&format!("{HOMES}[links.cable-2]\nbetween = [\"server\", \"pc-0\"]\nrate = \"1Mbit/s\"\n"));
    assert!(said[0].contains("links.cable-2: is one of the links that \"cable\" makes"), "{said:?}");
    let said = messages(&HOMES.replace("kind = \"router\"", "kind = \"router\"\ncount = 1001"));
    assert!(
        said[0].contains("nodes.cmts.count: makes 1001 nodes with routes to all, and 1000 are possible"),
        "{said:?}"
    );
}

#[test]
fn mistakes_of_very_many_nodes_are_told_at_once() {
    let wrong = HOMES.replace("count = 3", "count = 60000").replace("\"cmts\", \"pc[]\"", "\"cmst\", \"pc[]\"");
    let begun = std::time::Instant::now();
    let said = messages(&wrong);
    assert!(said.iter().any(|one| one.contains("links.cable-0.between: no such node")), "{said:?}");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
