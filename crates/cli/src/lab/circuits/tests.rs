use headend_scenario::{Document, Scenario};

use super::*;

/// Two sites, two users at each, and a third user whose packets pass both edges too.
const NETWORK: &str = r#"
    [nodes.a]
    [nodes.b]
    [nodes.c]
    [nodes.d]
    [nodes.west]
    kind = "router"
    [nodes.east]
    kind = "router"
    [links.a]
    between = ["a", "west"]
    rate = "10Mbit/s"
    [links.b]
    between = ["b", "west"]
    rate = "10Mbit/s"
    [links.core]
    between = ["west", "east"]
    rate = "5Mbit/s"
    [links.c]
    between = ["east", "c"]
    rate = "10Mbit/s"
    [links.d]
    between = ["east", "d"]
    rate = "10Mbit/s"
    [flows.one]
    from = "a"
    to = "c"
    [flows.two]
    from = "b"
    to = "d"
    [circuits.it]
    from = "west"
    to = "east"
    flows = ["one"]
"#;

fn scenario(settings: &[(&str, &str)]) -> Scenario {
    let mut document = Document::parse("net.toml", NETWORK).expect("TOML");
    settings.iter().for_each(|(path, value)| document.set(path, value).unwrap_or_else(|error| panic!("{error}")));
    document.points().unwrap_or_else(|error| panic!("{error}")).remove(0).scenario
}

fn refused(settings: &[(&str, &str)]) -> String {
    let (field, why) = beyond(&scenario(settings)).expect("a trunk cannot do that");
    format!("{field}: {why}")
}

#[test]
fn what_a_trunk_cannot_do_is_refused_with_its_field() {
    assert_eq!(beyond(&scenario(&[])), None);
    let of = |field: &str, value: &str| refused(&[(&format!("circuits.it.{field}"), value)]);
    assert!(of("implementation", "byte-stream").starts_with("circuits.it.implementation: "));
    assert!(of("controls", "65").contains("circuits.it.controls: 65: a trunk has 64 at most"));
    assert!(of("vmss", "100B").contains("circuits.it.vmss: 100B: a trunk has 512 to 60000 bytes"));
    assert!(of("drops", "early").starts_with("circuits.it.drops: "));
    assert!(of("delays", "true").starts_with("circuits.it.delays: "));
    assert!(of("tcp", "{ controller = \"fast\", fast_gamma_percent = 10 }").contains("no fast with these parameters"));
    assert_eq!(beyond(&scenario(&[("circuits.it.tcp", "{ controller = \"fast\", fast_alpha = 4 }")])), None);
    let copies = [("circuits.it.tcp", "{ timestamps = true }"), ("circuits.it.copies", "1")];
    assert!(refused(&copies).starts_with("circuits.it.copies: "));
}

#[test]
fn flows_that_a_destination_cannot_tell_apart_are_refused() {
    let same = refused(&[("flows.two.to", "c")]);
    assert!(same.contains("packets of two pass west for c too"), "{same}");
    // Going back the two are told apart by nobody either, which matters where carriage goes both ways.
    let back = [("flows.two.from", "a")];
    assert_eq!(beyond(&scenario(&back)), None);
    let sealed = refused(&[back[0], ("circuits.it.loss_signal", "in-band")]);
    assert!(sealed.contains("packets of two pass east for a too"), "{sealed}");
}

#[test]
fn the_two_ends_files_say_what_the_circuit_says() {
    let settings = [
        ("circuits.it.flows", r#"["one", "two"]"#),
        ("circuits.it.controls", "3"),
        ("circuits.it.vmss", "3000B"),
        ("circuits.it.gmb", "800kbit/s"),
        ("circuits.it.classes", r#"[["two"]]"#),
        ("circuits.it.weights", "[2]"),
        ("circuits.it.tcp", "{ controller = \"reno\" }"),
    ];
    let plans = plans(&scenario(&settings), &[(0, 5_001), (1, 5_002)], 1_500);
    let [plan] = plans.as_slice() else { panic!("one circuit: {plans:?}") };
    let [west, east] = &plan.ends;
    assert_eq!((west.circuit, east.circuit, &west.hosts), (Some(0), None, &BTreeSet::from([2, 3])));
    for line in ["carriage = \"native\"", "mark_users = true", "classes = \"weights\"", "ports = [5002]", "weight = 2"]
    {
        assert!(west.head.contains(line), "{line} in {}", west.head);
    }
    assert!(west.head.contains("name = \"all\"\nroom = \"150000B\""), "a hundred packets: {}", west.head);
    for line in
        ["controls = 3", "vmss = \"3000B\"", "gmb = \"800kbit/s\"", "\"reno\"", "10.77.0.3/32", "10.77.0.6:7700"]
    {
        assert!(west.peer.contains(line), "{line} in {}", west.peer);
    }
    assert!(east.head.contains("link = ") && east.peer.contains("gmb_max = \"800kbit/s\""), "{east:?}");
}

#[test]
fn circuits_there_and_back_share_two_daemons() {
    let both = [("circuits.it.loss_signal", "in-band"), ("circuits.it.flows", r#"["one", "two"]"#)];
    let text = format!("{NETWORK}[circuits.back]\nfrom = \"east\"\nto = \"west\"\nloss_signal = \"in-band\"\n");
    let mut document = Document::parse("net.toml", &text).expect("TOML");
    both.iter().for_each(|(path, value)| document.set(path, value).unwrap_or_else(|error| panic!("{error}")));
    let scenario = document.points().unwrap_or_else(|error| panic!("{error}")).remove(0).scenario;
    assert_eq!(beyond(&scenario), None);
    let plans = plans(&scenario, &[], 1_500);
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0].ends.each_ref().map(|end| end.circuit), [Some(0), Some(1)]);
    assert!(plans[0].ends.iter().all(|end| end.head.contains("mtu = 1500") && end.hosts.len() == 2), "{plans:?}");
    assert!(!otherwise(&scenario).iter().any(|(_, text)| text.contains("both ways")));
}
