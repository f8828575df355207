//! Many nodes that one table makes.

use super::*;

#[test]
fn a_star_of_many_is_the_star_that_one_would_write() {
    let common = "duration = \"5s\"\n[nodes.server]\n[nodes.cmts]\nkind = \"router\"\n\
                  [links.backbone]\nbetween = [\"server\", \"cmts\"]\nrate = \"20Mbit/s\"\n";
    let home = |name: &str, count: &str| format!("[nodes.{name}]\n{count}");
    let link = |name: &str, node: &str| {
        format!("[links.{name}]\nbetween = [\"cmts\", \"{node}\"]\nrate = \"5Mbit/s\"\nloss = \"1%\"\n")
    };
    let flow = |name: &str, node: &str| format!("[flows.{name}]\nfrom = \"server\"\nto = \"{node}\"\n");
    let many = [common, &home("pc", "count = 3\n"), &link("cable", "pc[]"), &flow("get", "pc[]")].concat();
    let mut by_hand = common.to_owned();
    for number in 0..3 {
        let (node, name) = (format!("pc-{number}"), format!("cable-{number}"));
        by_hand += &(home(&node, "") + &link(&name, &node) + &flow(&format!("get-{number}"), &node));
    }
    let rows = |text: &str| {
        let scenario = Scenario::parse("star.toml", text).unwrap_or_else(|error| panic!("{error}"));
        run(&scenario, 0, false).0
    };
    let (many, by_hand) = (rows(&many), rows(&by_hand));
    let named: Vec<(&str, u64)> = many.flows.iter().map(|row| (&*row.flow, row.instance)).collect();
    assert_eq!(named, [("get", 0), ("get", 1), ("get", 2)]);
    let names = |outcome: &RunOutcome| outcome.links.iter().map(|row| row.link.to_string()).collect::<Vec<_>>();
    let [mut ours, mut others] = [names(&many), names(&by_hand)];
    ours.sort();
    others.sort();
    assert_eq!(ours, others);
    assert!(many.flows.iter().all(|row| row.delivered_bytes > 500_000), "each home gets some");
}
