//! Every mistake is answered with its place, its field, what was found and what is allowed.

use super::super::*;
use super::{SMALL, examples, small};

/// The messages for a text that is no scenario.
fn messages(text: &str) -> Vec<String> {
    match Scenario::parse("net.toml", text) {
        Ok(_) => panic!("this is a scenario after all:\n{text}"),
        Err(Error::Wrong(mistakes)) => mistakes.listed.iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

/// The one message for the small scenario with `from` replaced.
fn message(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from} is in the small scenario");
    let messages = messages(&SMALL.replacen(from, to, 1));
    assert_eq!(messages.len(), 1, "one mistake, one message: {messages:#?}");
    messages[0].clone()
}

fn set_message(path: &str, text: &str) -> String {
    let mut document = small();
    match document.set(path, text).and_then(|()| document.scenario()) {
        Ok(_) => panic!("{path} = {text} is allowed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_wrong_value_is_answered_with_file_line_field_found_and_expected() {
    assert_eq!(
        message("10Mbit/s", "25Mbits"),
        "net.toml:8: links.wire.rate: found \"25Mbits\", expected a rate such as \"25Mbit/s\" or \"3kbit/s\" (from \
         1bit/s to 1Tbit/s)"
    );
}

#[test]
fn a_wrong_step_is_answered_with_what_is_wrong_with_it() {
    let steps = |list: &str| message("\"10Mbit/s\"", list);
    let step = "net.toml:8: links.wire.rate: found";
    assert_eq!(steps("[]"), format!("{step} 0 steps, expected at least one and at most 100000, the first at \"0s\""));
    assert_eq!(steps(r#"[["1s", "1Mbit/s"]]"#), format!("{step} \"1s\", expected \"0s\" in the first step"));
    assert_eq!(
        steps(r#"[["0s", "1Mbit/s"], ["2s", "1Mbit/s"], ["2s", "2Mbit/s"]]"#),
        format!("{step} \"2s\", expected a time later than that of the step before")
    );
    assert_eq!(
        steps(r#"[["0s", "fast"]]"#),
        format!("{step} \"fast\", expected a rate such as \"25Mbit/s\" or \"3kbit/s\" (from 1bit/s to 1Tbit/s)")
    );
    for no_step in [r#"["0s", "1Mbit/s"]"#, r#"[["0s"]]"#, r#"[["0s", "1Mbit/s", "x"]]"#] {
        assert!(steps(no_step).contains("expected a time and a value in a step"), "{no_step}: {}", steps(no_step));
    }
    assert!(steps("[[5, 5]]").contains("expected a time such as \"20ms\""), "{}", steps("[[5, 5]]"));
    assert!(steps("17").contains("or a table such as { trace = \"path.up\" }"), "{}", steps("17"));
    let missing = steps("{ trace = \"no-such-file\" }");
    assert!(missing.starts_with("net.toml:8: links.wire.rate.trace: found no-such-file (No such file"), "{missing}");
}

#[test]
fn a_wrong_delay_is_answered_with_what_is_wrong_with_it() {
    let delay = |delay: &str, more: &str| message("rate =", &format!("delay = {delay}\n{more}rate ="));
    assert!(delay(r#""soon""#, "").contains("links.wire.delay: found \"soon\", expected a time such as"));
    assert!(delay("17", "").contains("or a table such as { trace = \"path.csv\" }"));
    let bounds = delay(r#"{ model = "uniform", least = "5ms", most = "4ms" }"#, "");
    assert!(bounds.contains("links.wire.delay.most: must not be below `least`, 5ms"), "{bounds}");
    let pareto = delay(r#"{ model = "pareto", most = "4ms" }"#, "");
    assert!(pareto.contains("links.wire.delay.least: must be longer than none"), "{pareto}");
    let normal = delay(r#"{ model = "normal", mean = "4ms", deviation = "1ms", least = "5ms" }"#, "");
    assert!(normal.contains("links.wire.delay.least: must not be above `mean`, 4ms"), "{normal}");
    let repeats = delay(r#"[["0s", "5ms"], ["1s", "6ms"]]"#, "header_repeats = 1\n");
    assert!(repeats.contains("links.wire.header_repeats: what the far end asks for"), "{repeats}");
    assert!(delay(r#"{ trace = "none.csv" }"#, "").contains("links.wire.delay.trace: found none.csv (No such file"));
}

#[test]
fn the_delay_of_a_cable_does_not_change() {
    let docsis = "kind = \"docsis\"\ndelay = [[\"0s\", \"1ms\"], [\"1s\", \"2ms\"]]";
    let found = message("rate = \"10Mbit/s\"", docsis);
    assert!(found.contains("links.wire.delay: the delay of a plain link can change, and that of no other"), "{found}");
}

#[test]
fn a_wrong_field_is_answered_with_the_nearest_and_all_that_are_allowed() {
    assert_eq!(
        message("rate =", "dealy = \"1ms\"\nrate ="),
        "net.toml:8: links.wire.dealy: no such field; did you mean \"delay\"?; allowed: kind, between, rate, \
         processing, delay, detour, detour_start, detour_end, queue, loss, jitter, reorder, reorder_by, duplicate, corrupt, \
         header_compression, header_copies, header_repeats, one_way, back"
    );
}

#[test]
fn a_wrong_name_is_answered_with_those_that_exist() {
    assert_eq!(
        message("to = \"b\"", "to = \"bb\""),
        "net.toml:11: flows.f.to: no such host; did you mean \"b\"?; allowed: a, b"
    );
    assert_eq!(
        message("newreno", "newrino"),
        "net.toml:3: nodes.a.personality: no such personality; did you mean \"newreno\"?; allowed: tahoe-1988, \
         bsd-reno-1996, hfc-tuned, newreno, sack, linux"
    );
}

#[test]
fn what_must_be_given_is_asked_for_by_name() {
    assert_eq!(message("from = \"a\"\n", ""), "net.toml:9: flows.f.from: missing, expected the name of a host");
    let all = messages("title = \"nothing\"");
    assert_eq!(all.len(), 3, "nodes, links and flows: {all:#?}");
    assert!(all[0].starts_with("net.toml: nodes: missing"), "{}", all[0]);
}

#[test]
fn links_alone_need_no_flows_where_nothing_is_sent() {
    let text = SMALL.split("[flows.f]").next().expect("the network comes first");
    assert!(messages(text)[0].contains("flows: missing"), "{:?}", messages(text));
    let points = Document::parse("net.toml", text).expect("TOML").of_links_alone().points().expect("links alone");
    assert!(points[0].scenario.flows.is_empty() && points[0].scenario.links.len() == 1);
}

#[test]
fn programs_are_for_real_hosts_alone_and_begin_with_a_name() {
    let text = format!("{SMALL}kind = \"program\"\nprogram = [\"curl\", \"http://{{server}}/\"]\n");
    let refused = messages(&text);
    assert_eq!(refused.len(), 1, "{refused:#?}");
    assert!(refused[0].contains("flows.f.kind: ") && refused[0].contains("`headend lab` runs it"), "{refused:#?}");
    let read = |text: &str| Document::parse("net.toml", text).expect("TOML").for_real_hosts().points();
    let flow = read(&text).expect("real hosts run it").swap_remove(0).scenario.flows.swap_remove(0);
    let FlowKind::Programs(programs) = flow.kind else { panic!("a flow of programs") };
    assert_eq!((programs.client.len(), programs.server, programs.client_receives), (2, None, true));
    let nameless = read(&text.replace("\"curl\"", "\"\"")).expect_err("it has no name").to_string();
    assert!(nameless.contains("flows.f.program: ") && nameless.contains("the name of a program first"), "{nameless}");
    assert!(read(&text.replace("[\"curl\", \"http://{server}/\"]", "[]")).is_err(), "no words");
}

#[test]
fn a_field_of_another_kind_is_told_from_a_misspelt_one() {
    assert_eq!(
        message("rate =", "lan = \"10Mbit/s\"\nrate ="),
        "net.toml:8: links.wire.lan: only for a link with kind = \"cable\"; this one has \"plain\""
    );
}

#[test]
fn all_mistakes_are_answered_at_once_up_to_twenty() {
    let text = SMALL.replace("10Mbit/s", "fast").replace("to = \"b\"", "to = 7").replace("newreno", "old");
    assert_eq!(messages(&text).len(), 4, "one for each: {:#?}", messages(&text));
    let many = format!("{SMALL}{}", (0..30).map(|i| format!("wrong{i} = 1\n")).collect::<String>());
    let Err(error) = Scenario::parse("net.toml", &many) else { panic!("thirty wrong fields") };
    assert!(error.to_string().ends_with("... and 10 more"), "{error}");
}

#[test]
fn after_a_mistake_at_a_table_s_head_what_it_lacks_is_not_reported() {
    assert!(message("rate = \"10Mbit/s\"", "kind = \"kable\"").contains("expected one of \"plain\", \"cable\""));
    let cable = examples()[0].1.replace("down = { rate = \"25Mbit/s\" }", "down = 25");
    assert_eq!(messages(&cable).len(), 1, "{:#?}", messages(&cable));
}

#[test]
fn text_that_is_not_toml_is_answered_with_its_line() {
    let all = messages("title = \"x\"\nnodes = [\n");
    assert!(all[0].starts_with("net.toml:"), "{all:#?}");
    assert!(all[0].contains("not TOML"), "{all:#?}");
    assert!(messages("a = 1\na = 2\n")[0].starts_with("net.toml:2: not TOML: duplicate key"));
}

#[test]
fn numbers_without_a_unit_are_refused_where_one_is_needed() {
    assert!(message("\"10Mbit/s\"", "10000000").contains("found 10000000, expected a rate such as"));
    assert!(set_message("flows.f.bytes", "3000").contains("found 3000, expected a size such as"));
    assert!(set_message("duration", "5").contains("found 5, expected a time such as"));
}

#[test]
fn values_beyond_the_limits_are_refused() {
    for (path, text) in [
        ("links.wire.rate", "0bit/s"),
        ("links.wire.rate", "2Tbit/s"),
        ("links.wire.delay", "2h"),
        ("links.wire.loss", "101%"),
        ("links.wire.queue", "99999TB"),
        ("flows.f.count", "0"),
        ("flows.f.count", "100001"),
        ("flows.f.bytes", "0B"),
        ("runs", "0"),
        ("runs", "99999999999999999999999999999999999999999999"),
        ("seed", "-1"),
        ("duration", "0s"),
        ("nodes.a.tcp.mss", "12B"),
        ("nodes.a.tcp.dupack_threshold", "0"),
    ] {
        let message = set_message(path, text);
        assert!(message.starts_with(&format!("set: {path}: found ")), "{message}");
    }
}

#[test]
fn a_bare_1_for_a_chance_is_refused_in_a_request_and_not_in_a_file() {
    let text = SMALL.replacen("rate = \"10Mbit/s\"", "rate = \"10Mbit/s\"\nloss = 1", 1);
    assert!(Scenario::parse("net.toml", &text).is_ok(), "all of them, as the file says");
    for one in ["1", "1.0", "\"1\"", "10e-1"] {
        let said = set_message("links.wire.loss", one);
        assert!(said.starts_with("set: links.wire.loss: found ") && said.ends_with("its unit: 1% or 100%?"), "{said}");
    }
    let table = set_message("links.wire.loss", "{ model = \"bernoulli\", rate = 1 }");
    assert_eq!(table, "set: links.wire.loss.rate: found 1, expected its unit: 1% or 100%?");
    let steps = set_message("links.wire.loss", r#"[["0s", 0], ["1s", 1]]"#);
    assert_eq!(steps, "set: links.wire.loss: found 1, expected its unit: 1% or 100%?");
    for right in ["0", "0.5", "1e-7", "1%", "100%", "0.999"] {
        let mut document = small();
        document.set("links.wire.loss", right).expect("a field");
        assert!(document.scenario().is_ok(), "{right}");
    }
    let mut document = small();
    document.sweep("links.wire.loss", &["1", "2", "3%"]);
    let Err(error) = document.points() else { panic!("1% or 100%?") };
    assert_eq!(error.to_string(), "sweep: links.wire.loss: found 1, expected its unit: 1% or 100%?");
    document.sweep("links.wire.loss", &["0%", "1", "2"]);
    let Err(error) = document.points() else { panic!("1% or 100%?") };
    assert_eq!(error.to_string().lines().count(), 2, "each wrong value once: {error}");
}

#[test]
fn instances_of_all_flows_are_counted_together() {
    let text = format!("{SMALL}count = 60000\n[flows.g]\nfrom = \"a\"\nto = \"b\"\ncount = 60000\n");
    assert!(messages(&text)[0].contains("flows: found 120000 flows in all, expected at most 100000"));
}

#[test]
fn a_network_that_cannot_carry_a_flow_is_refused() {
    let apart = SMALL.replace("[links.wire]", "[nodes.c]\n[links.wire]").replace("[\"a\", \"b\"]", "[\"a\", \"c\"]");
    assert!(messages(&apart)[0].ends_with("flows.f.to: no links lead from \"a\" to \"b\" over routers"));
    assert!(message("[\"a\", \"b\"]", "[\"a\", \"a\"]").contains("a link joins two nodes"));
    assert!(message("to = \"b\"", "to = \"a\"").contains("a flow needs two hosts"));
    let twice = format!("{SMALL}[links.other]\nbetween = [\"b\", \"a\"]\nrate = \"1Mbit/s\"\n");
    assert!(messages(&twice)[0].contains("as links.wire does already"));
    let router = SMALL.replacen("personality = \"newreno\"", "kind = \"router\"", 1);
    assert!(messages(&router)[0].contains("flows.f.from: no such host; did you mean \"b\"?; allowed: b"));
}

#[test]
fn a_personality_that_contradicts_itself_is_refused() {
    assert!(set_message("nodes.a.tcp.send_buffer", "1KB").contains("send_buffer = 1000B holds no segment"));
    assert!(set_message("nodes.a.tcp.rto_min", "90s").contains("rto_min = 90s is over rto_max = 60s"));
    assert!(set_message("nodes.a.tcp.recovery", "sack").contains("recovery = \"sack\" needs sack = true"));
}

#[test]
fn a_path_that_leads_nowhere_is_answered_with_the_nearest() {
    assert_eq!(
        set_message("links.wyre.rate", "1Mbit/s"),
        "set: links.wyre: no such link; did you mean \"wire\"?; allowed: wire"
    );
    assert!(set_message("link.wire.rate", "1Mbit/s").contains("set: link: no such field; did you mean \"links\"?"));
    assert!(set_message("nodes.a.tcp.receive_bufer", "8KB").contains("did you mean \"receive_buffer\"?"));
    assert!(set_message("links.wire.rate.max", "1").contains("links.wire.rate: is \"10Mbit/s\" and no table"));
    assert!(set_message("links.wire.jitter.max", "1").contains("links.wire.jitter: has no fields"));
    assert!(set_message("", "1").contains("no such field"));
    assert!(set_message("sweep.runs", "1").contains("ask for a sweep"));
    assert!(set_message("links.wire.loss.rate", "1%").contains("only for a loss with model ="));
}

#[test]
fn a_congestion_control_in_place_of_a_personality_is_told_of_the_field() {
    let text = set_message("nodes.a.personality", "cubic");
    assert!(text.contains("nodes.a.personality: \"cubic\" is a congestion control and no personality"), "{text}");
    assert!(text.contains("controller = \"cubic\""), "{text}");
}

#[test]
fn a_bad_point_of_a_sweep_is_found_before_any_run() {
    let text = format!("{SMALL}[sweep]\n\"links.wire.loss\" = [\n \"0%\",\n \"1%\",\n \"three\",\n \"4\",\n]\n");
    let all = messages(&text);
    assert_eq!(all.len(), 2, "each wrong value once: {all:#?}");
    assert!(all[0].starts_with("net.toml:16: links.wire.loss: found \"three\""), "{}", all[0]);
}

#[test]
fn swept_values_that_contradict_each_other_are_answered_with_the_point() {
    let mut document = small();
    document.sweep("nodes.a.tcp.recovery", &["newreno", "sack"]);
    document.sweep("nodes.a.tcp.sack", &["true", "false"]);
    let Err(error) = document.scenario() else { panic!("SACK recovery without SACK") };
    let text = error.to_string();
    assert!(text.ends_with("(at the point nodes.a.tcp.recovery = sack, nodes.a.tcp.sack = false)"), "{text}");
}

#[test]
fn sweeps_that_cannot_be_are_refused() {
    for (path, values, expected) in [
        ("links.wire.loss", vec![], "expected a list of 1 to"),
        ("runs", vec!["1", "2"], "is the same for all points"),
        ("links.wire.speed", vec!["1"], "no such field"),
        ("links.wire.loss", vec!["1%", "2%", "1%"], "has the value \"1%\" twice"),
    ] {
        let mut document = small();
        document.sweep(path, &values);
        let Err(error) = document.scenario() else { panic!("{path} was swept") };
        assert!(error.to_string().contains(expected), "{error}");
    }
    let twice = format!("{SMALL}[sweep]\n\"runs\" = 7\nlinks.wire.loss = [0]\n\"links.wire.loss\" = [0]\n");
    let all = messages(&twice).join("\n");
    assert!(all.contains("found 7, expected a list") && all.contains("is swept twice"), "{all}");
}

#[test]
fn a_sweep_of_too_many_points_or_runs_is_refused_before_it_is_laid_out() {
    let values: Vec<String> = (1..=400).map(|n| format!("{n}KB")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let mut document = small();
    document.sweep("flows.f.bytes", &values);
    document.sweep("links.wire.queue", &values);
    let Err(error) = document.scenario() else { panic!("160000 points") };
    assert_eq!(error.to_string(), "sweep: sweep: found 160000 points, expected at most 100000");
    let mut document = small();
    document.sweep("flows.f.bytes", &values[..200]);
    document.set("runs", "100000").expect("a field");
    let Err(error) = document.scenario() else { panic!("20 million runs") };
    assert!(error.to_string().contains("found 200 points of 100000 runs, expected at most 10000000 runs"), "{error}");
}

#[test]
fn a_large_network_is_not_swept_over_many_points() {
    let nodes: String = (0..10_000).map(|n| format!("[nodes.n{n}]\n")).collect();
    let values: Vec<String> = (1..=1_000).map(|n| format!("{n}KB")).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let mut document = Document::parse("net.toml", &format!("{SMALL}{nodes}")).expect("TOML");
    document.sweep("flows.f.bytes", &values);
    let Err(error) = document.points() else { panic!("ten million values") };
    assert!(error.to_string().contains("expected at most 5000000 values in all points"), "{error}");
}

#[test]
fn a_file_that_is_too_long_or_not_there_is_refused() {
    let long = format!("title = \"{}\"", "x".repeat(FILE_BYTES_MAX));
    assert!(messages(&long)[0].contains("expected at most 1048576 bytes"));
    let missing = std::path::Path::new("no-such-folder/net.toml");
    let Err(Error::Read { path, .. }) = Scenario::load(missing) else { panic!("the file is not there") };
    assert_eq!(path, missing);
}

#[test]
fn json_that_is_no_scenario_is_answered_with_its_field() {
    let Err(error) = Document::parse_json("dict", "[1]") else { panic!("a list is no scenario") };
    assert_eq!(error.to_string(), "dict: found [1], expected an object");
    let document = Document::parse_json("dict", "{\"runs\": null}").expect("JSON");
    let Err(error) = document.scenario() else { panic!("null is no number") };
    assert!(error.to_string().contains("dict: runs: found null, expected a whole number"), "{error}");
}

/// A proxy between two hosts, with `node` and `flow` as further lines of the proxy and of the flow.
fn proxied(node: &str, flow: &str) -> String {
    format!(
        "[nodes.a]\n[nodes.b]\n[nodes.p]\nkind = \"proxy\"\n{node}\n[links.near]\nbetween = [\"p\", \"b\"]\nrate = \
         \"1Mbit/s\"\n[links.far]\nbetween = [\"a\", \"p\"]\nrate = \"1Mbit/s\"\n[flows.get]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    )
}

#[test]
fn a_proxy_s_mistakes_name_its_line_and_what_would_be_right() {
    let only = |node: &str, flow: &str| {
        let messages = messages(&proxied(node, flow));
        assert_eq!(messages.len(), 1, "one mistake, one message: {messages:#?}");
        messages[0].clone()
    };
    let near = "local_link = \"near\"";
    assert!(Scenario::parse("net.toml", &proxied(near, "via = \"p\"")).is_ok());
    assert_eq!(only("", ""), "net.toml:3: nodes.p.local_link: missing, expected text in quotes");
    assert_eq!(
        only("local_link = \"neat\"", ""),
        "net.toml:5: nodes.p.local_link: no such link of this proxy; did you mean \"near\"?; allowed: near, far"
    );
    assert_eq!(only(near, "via = \"a\""), "net.toml:15: flows.get.via: no such proxy; did you mean \"p\"?; allowed: p");
    assert_eq!(
        only(&format!("{near}; relay = \"store\"; limit = \"1KB\"").replace("; ", "\n"), ""),
        "net.toml:7: nodes.p.limit: only with relay = \"buffer\": a store holds whatever arrives"
    );
    let wrong = only(&format!("{near}\nlocal = {{ tcp = {{ mss = 5 }} }}"), "");
    assert!(wrong.starts_with("net.toml:6: nodes.p.local.tcp.mss: found 5, expected a size"), "{wrong}");
    let no_proxy = messages("[nodes.a]\nlocal_link = \"x\"");
    assert!(no_proxy[0].contains("only for a node with kind = \"proxy\"; this one has \"host\""), "{no_proxy:?}");
}

/// The messages for the trunks with settings.
fn trunk_messages(settings: &[(&str, &str)]) -> String {
    let (name, text) = examples().into_iter().find(|(name, _)| *name == "trunks.toml").expect("an example");
    let mut document = Document::parse(name, text).expect("TOML");
    for (path, text) in settings {
        document.set(path, text).unwrap_or_else(|error| panic!("{error}"));
    }
    document.scenario().err().map_or_else(|| panic!("{settings:?} is allowed"), |error| error.to_string())
}

#[test]
fn a_circuit_joins_two_routers_and_carries_flows_that_exist() {
    let from = trunk_messages(&[("circuits.trunk1.from", "a")]);
    assert!(from.contains("circuits.trunk1.from: no such router; did you mean \"b\"?; allowed: b, d, e, f"), "{from}");
    assert!(trunk_messages(&[("circuits.trunk1.to", "b")]).contains("a circuit joins two routers"));
    assert!(trunk_messages(&[("circuits.trunk1.flows", r#"["web"]"#)]).contains("no such flow; allowed: user1, user2"));
    assert!(trunk_messages(&[("circuits.trunk1.flows", "[]")]).contains("a list, each of them text in quotes"));
    assert!(trunk_messages(&[("circuits.trunk1.vmss", "10B")]).contains("from 64B to 60000B"));
    let fair = trunk_messages(&[("circuits.trunk1.drops", "fair"), ("circuits.trunk1.queue", "90KB")]);
    assert!(fair.contains("circuits.trunk1.queue: drops = \"fair\" counts packets"), "{fair}");
    let early = trunk_messages(&[("circuits.trunk1.drops", "early"), ("circuits.trunk1.threshold", "100")]);
    assert!(early.contains("circuits.trunk1.threshold: is not below the 100 packets"), "{early}");
}

#[test]
fn a_circuit_with_in_band_control_has_no_header_packets_to_speak_of() {
    let in_band = ("circuits.trunk1.loss_signal", "in-band");
    let vmss = trunk_messages(&[in_band]);
    assert!(vmss.contains("circuits.trunk1.vmss: loss_signal = \"in-band\" has no header packets"), "{vmss}");
    let losses = trunk_messages(&[("circuits.trunk1.losses", "delayed")]);
    assert!(losses.contains("give loss_signal = \"in-band\" as well"), "{losses}");
    let wrong = trunk_messages(&[("circuits.trunk1.loss_signal", "in band")]);
    assert!(wrong.contains("expected one of \"headers\", \"in-band\""), "{wrong}");
}

#[test]
fn classes_name_flows_of_the_circuit_once_and_weights_are_as_many() {
    let wrong = |settings: &[(&str, &str)]| trunk_messages(settings);
    let classes = "circuits.trunk1.classes";
    assert!(wrong(&[(classes, r#"[["voice"]]"#)]).contains("no such flow; allowed: user1, user2"));
    assert!(wrong(&[(classes, r#"["user1"]"#)]).contains("a list, each of them a list, each of them text in quotes"));
    let twice = wrong(&[(classes, r#"[["user1"], ["user2", "user1"]]"#)]);
    assert!(twice.contains("circuits.trunk1.classes: \"user1\" waits in one class only"), "{twice}");
    let foreign = wrong(&[(classes, r#"[["user1"]]"#), ("circuits.trunk1.flows", r#"["user2"]"#)]);
    assert!(foreign.contains("\"user1\" is not among the circuit's `flows`"), "{foreign}");
    let many = wrong(&[(classes, r#"[["user1"], ["user2"]]"#), ("circuits.trunk1.weights", "[1]")]);
    assert!(many.contains("circuits.trunk1.weights: 1 for 2 `classes`: give one for each"), "{many}");
    assert!(wrong(&[("circuits.trunk1.weights", "[1]")]).contains("1 for 0 `classes`"));
    assert!(wrong(&[(classes, r#"[["user1"]]"#), ("circuits.trunk1.weights", "[0]")]).contains("from 1 to 1000"));
}

#[test]
fn a_trunk_inside_of_a_connection_has_nothing_of_control_tcps() {
    let packed = r#"{ from = "b", to = "f", implementation = "encapsulation" }"#;
    let also = |field: &str, value: &str| trunk_messages(&[("circuits.trunk1", packed), (field, value)]);
    for (field, value) in [("controls", "4"), ("vmss", "1500B"), ("gmb", "1Mbit/s"), ("copies", "1")] {
        let said = also(&format!("circuits.trunk1.{field}"), value);
        assert!(
            said.contains(&format!("circuits.trunk1.{field}: implementation = \"encapsulation\" has no")),
            "{said}"
        );
    }
    assert!(also("circuits.trunk1.drops", "fair").contains("needs the window of control TCPs"));
    assert!(also("circuits.trunk1.mtu", "67B").contains("from 68B to 65535B"));
    let unknown = also("circuits.trunk1.implementation", "tunnel");
    assert!(unknown.contains(r#"expected one of "decoupling", "encapsulation", "byte-stream""#), "{unknown}");
    let mtu = trunk_messages(&[("circuits.trunk1.mtu", "576B")]);
    assert!(mtu.contains("circuits.trunk1.mtu: users' packets stay as long as they are"), "{mtu}");
}

#[test]
fn a_queue_that_drops_early_has_thresholds_that_fit() {
    let wrong = |table: &str| trunk_messages(&[("links.ef.queue", table)]);
    let bare = wrong("fq-codel");
    assert!(bare.contains("found \"fq-codel\", expected a table, { model = \"fq-codel\" },"), "{bare}");
    assert!(wrong(r#"{ model = "blue" }"#).contains("links.ef.queue.model"));
    assert!(wrong(r#"{ model = "red", min = 20 }"#).contains("links.ef.queue.min: is not below max = 15"));
    assert!(wrong(r#"{ model = "red", buffer = "9KB" }"#).contains("give their number"));
    assert!(wrong(r#"{ model = "header-drop", headers = 9, buffer = "9 packets" }"#).contains("give a size"));
    assert!(wrong(r#"{ model = "header-drop" }"#).contains("links.ef.queue.headers"));
    assert!(
        wrong(r#"{ model = "occupancy-drop", threshold = "9KB", buffer = "9KB" }"#).contains("more than the threshold")
    );
    assert!(wrong("7").contains("or a table such as { model = \"red\""));
}

#[test]
fn requests_and_datagrams_have_their_own_fields_and_no_others() {
    assert!(trunk_messages(&[("flows.user1.bytes", "9KB")]).contains("only for a flow with kind"));
    let sizes = trunk_messages(&[("flows.user1", r#"{ kind = "requests", from = "a", to = "g" }"#)]);
    assert!(sizes.contains("flows.user1.sizes"), "{sizes}");
}

#[test]
fn a_socket_joins_two_hosts_of_a_transfer_that_one_of_them_sends() {
    let datagrams = trunk_messages(&[("flows.user1.socket", "{}")]);
    assert!(datagrams.contains("flows.user1.socket: only for a flow with kind"), "{datagrams}");
    let silent = r#"{ kind = "bulk", from = "a", to = "g", socket = { copies = 1, tcp = { timestamps = false } } }"#;
    let silent = trunk_messages(&[("flows.user1", silent)]);
    assert!(silent.contains("flows.user1.socket.copies: copies need control TCPs with `timestamps`"), "{silent}");
    let bulk = r#"{ kind = "bulk", from = "a", to = "g", socket = { vmss = "9B" } }"#;
    assert!(trunk_messages(&[("flows.user1", bulk)]).contains("flows.user1.socket.vmss"));
    let proxied = "[nodes.a]\n[nodes.b]\n[nodes.p]\nkind = \"proxy\"\nlocal_link = \"ap\"\n[links.ap]\nbetween = [\"a\", \"p\"]\n\
                   rate = \"1Mbit/s\"\n[links.pb]\nbetween = [\"p\", \"b\"]\nrate = \"1Mbit/s\"\n\
                   [flows.get]\nfrom = \"a\"\nto = \"b\"\nvia = \"p\"\nsocket = {}\n";
    let messages = messages(proxied);
    assert!(messages[0].contains("flows.get.socket: a socket joins `from` and `to`"), "{messages:#?}");
    assert_eq!(messages.len(), 1, "{messages:#?}");
}
