//! Circuits, requests and datagrams in a world.

use super::*;
use headend_scenario::Document;
use headend_scenario::results::{CircuitRow, LinkRow, RunOutcome};

const TRUNKS: &str = include_str!("../../../../../scenarios/trunks.toml");

pub(super) fn run_with(text: &str, settings: &[(&str, &str)]) -> RunOutcome {
    let mut document = Document::parse("trunks.toml", text).unwrap();
    for (path, value) in settings {
        document.set(path, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    World::build(&scenario, 0, false).run(0, &|| false).unwrap().0
}

fn core(outcome: &RunOutcome) -> &LinkRow {
    outcome.links.iter().find(|link| &*link.direction == "e->f").unwrap()
}

fn circuit<'a>(outcome: &'a RunOutcome, name: &str) -> &'a CircuitRow {
    outcome.circuits.iter().find(|circuit| &*circuit.circuit == name).unwrap()
}

#[test]
fn two_trunks_fill_a_link_and_no_user_s_packet_is_dropped_in_the_core() {
    let outcome = run_with(TRUNKS, &[]);
    let core = core(&outcome);
    let bytes: u64 = outcome.flows.iter().map(|flow| flow.wire_bytes).sum();
    // 1200 KB/s for 20 s, less the headers and the first moments.
    assert!((23_000_000..24_000_000).contains(&bytes), "{bytes}");
    assert_eq!(core.dropped_user, 0);
    assert!(core.dropped_headers > 0 && core.dropped == core.dropped_headers, "{core:?}");
    assert!(core.queue_bytes_max < 438_656, "{core:?}");
}

#[test]
fn a_guarantee_is_held_in_every_second_and_its_packets_have_no_headers() {
    let outcome = run_with(TRUNKS, &[]);
    for (flow, circuit_name, guaranteed) in [("user1", "trunk1", 400_000), ("user2", "trunk2", 200_000)] {
        let seconds: Vec<u64> =
            outcome.intervals.iter().filter(|row| &*row.name == flow).map(|row| row.bytes).collect();
        assert_eq!(seconds.len(), 20);
        assert!(seconds[1..].iter().all(|bytes| *bytes >= guaranteed), "{flow}: {seconds:?}");
        let circuit = circuit(&outcome, circuit_name);
        // A little less: while the TCPs begin, they leave nothing for the timer to send.
        let most = 20 * guaranteed;
        assert!((most * 97 / 100..=most + 1_500).contains(&circuit.guaranteed_bytes), "{circuit:?}");
        assert!(circuit.headers * 1_500 <= circuit.controlled_bytes, "{circuit:?}");
    }
}

#[test]
fn intervals_add_up_to_what_flows_and_links_did_in_all() {
    let outcome = run_with(TRUNKS, &[]);
    let sum = |kind: &str, part: &str| -> u64 {
        let rows = outcome.intervals.iter().filter(|row| &*row.kind == kind && &*row.part == part);
        rows.map(|row| row.bytes).sum()
    };
    assert_eq!(sum("flow", "0"), outcome.flows.iter().map(|flow| flow.wire_bytes).sum::<u64>());
    assert_eq!(sum("link", "e->f"), core(&outcome).delivered_bytes);
}

#[test]
fn a_circuit_that_names_its_flows_leaves_the_others_alone() {
    let named = [("circuits.trunk2.flows", r#"["user2"]"#), ("circuits.trunk1.flows", r#"["user2"]"#)];
    let outcome = run_with(TRUNKS, &named);
    assert_eq!(circuit(&outcome, "trunk1").arrived, 0, "user2 does not come by");
    assert!(circuit(&outcome, "trunk2").arrived > 0);
}

#[test]
fn a_packet_passes_two_circuits_one_after_another() {
    let settings =
        [("circuits.trunk1.to", "e"), ("circuits.trunk2.from", "e"), ("circuits.trunk2.flows", r#"["user1"]"#)];
    let outcome = run_with(TRUNKS, &settings);
    let [first, second] = ["trunk1", "trunk2"].map(|name| circuit(&outcome, name));
    assert!(second.arrived > 0 && second.arrived <= first.arrived, "{first:?}, {second:?}");
    assert!(outcome.flows[0].wire_bytes > 1_000_000);
}

/// Two trunks, of which the first carries a stream of 200 kbit/s beside more than it can send.
fn with_a_stream(settings: &[(&str, &str)]) -> [(u64, u64); 2] {
    let stream =
        "[flows.voice]\nkind = \"datagrams\"\nfrom = \"a\"\nto = \"g\"\nrate = \"200kbit/s\"\npacket = \"200B\"\n";
    let fast = ("links.ab.rate", "100Mbit/s");
    let outcome = run_with(&format!("{TRUNKS}\n{stream}"), &[&[fast], settings].concat());
    ["voice", "user1"].map(|name| {
        let flow = outcome.flows.iter().find(|flow| flow.flow == name).unwrap();
        (flow.segments_sent, flow.wire_bytes)
    })
}

#[test]
fn a_class_before_the_others_loses_nothing_in_an_overloaded_circuit() {
    let lost = |settings: &[(&str, &str)]| {
        let [(sent, bytes), _] = with_a_stream(settings);
        1.0 - bytes as f64 / (200 * sent) as f64
    };
    let together = lost(&[]);
    assert!(together > 0.1, "a circuit of one class drops whatever comes to a full queue: {together}");
    // When the run ends, those of the last third of a second may be in the router.
    let urgent = lost(&[("circuits.trunk1.classes", r#"[["voice"]]"#)]);
    assert!(urgent < 0.017, "{urgent}");
    let last = lost(&[("circuits.trunk1.classes", r#"[["user1"], ["voice"]]"#)]);
    assert!(last > 0.9, "behind a class that always has packets none leaves: {last}");
}

#[test]
fn classes_with_weights_share_what_a_circuit_sends() {
    let both_greedy = [("flows.voice.rate", "10Mbit/s"), ("flows.voice.packet", "500B")];
    let ratio = |weights: &str| {
        let classes = [("circuits.trunk1.classes", r#"[["voice"], ["user1"]]"#), ("circuits.trunk1.weights", weights)];
        let [(_, voice), (_, user)] = with_a_stream(&[&both_greedy[..], &classes[..]].concat());
        assert!(voice + user > 13_000_000, "the trunk sends what it did: {voice} and {user} bytes in 20 s");
        voice as f64 / user as f64
    };
    for (weights, expected) in [("[3, 1]", 3.0), ("[1, 1]", 1.0), ("[1, 2]", 0.5)] {
        let ratio = ratio(weights);
        assert!((ratio / expected - 1.0).abs() < 0.05, "{weights}: {ratio}");
    }
}

#[test]
fn acknowledgements_of_a_circuit_are_charged_to_the_one_back() {
    let settings = [("circuits.trunk2.from", "f"), ("circuits.trunk2.to", "b"), ("circuits.trunk2.gmb", "1kbit/s")];
    let outcome = run_with(TRUNKS, &settings);
    let back = circuit(&outcome, "trunk2");
    assert_eq!(back.arrived, 0, "nobody sends back");
    assert!(back.headers > 0, "but acknowledgements are data: {back:?}");
}

#[test]
fn acknowledgements_are_charged_to_all_circuits_back_in_turn() {
    let back =
        |name: &str, rest: &str| format!("[circuits.{name}]\nfrom = \"f\"\nto = \"b\"\nflows = [\"{name}\"]\n{rest}\n");
    let flow = |name: &str, from: &str, to: &str| {
        format!("[flows.{name}]\nkind = \"datagrams\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"8kbit/s\"\n")
    };
    let signals = ["", "", "loss_signal = \"in-band\""];
    let names = ["first", "second", "third"];
    let circuits: String = names.iter().zip(signals).map(|(name, rest)| back(name, rest)).collect();
    let flows: String = names.iter().map(|name| flow(name, "g", "a")).collect();
    let outcome = run_with(&format!("{TRUNKS}{circuits}{flows}"), &[]);
    let [first, second, third] = names.map(|name| circuit(&outcome, name));
    assert!(first.headers > 10 && first.headers.abs_diff(second.headers) <= 2, "{first:?} {second:?}");
    // A third of what is charged to each of the others: each acknowledgement takes 52 bytes.
    let charged = |row: &CircuitRow| row.headers * 1_500 - row.controlled_bytes;
    assert!(third.headers == 0 && third.controlled_bytes > 0, "{third:?}");
    let answered: u64 = ["trunk1"].map(|name| circuit(&outcome, name).answered_bytes).iter().sum();
    assert!(charged(first).abs_diff(answered / 3) < answered / 20, "{} of {answered}", charged(first));
}

#[test]
fn the_same_seed_yields_the_same_run_with_circuits_too() {
    assert_eq!(run_with(TRUNKS, &[]), run_with(TRUNKS, &[]));
    assert_ne!(run_with(TRUNKS, &[]), run_with(TRUNKS, &[("seed", "7")]));
}

const REQUESTS: &str = r#"
duration = "10s"
[nodes.server]
[nodes.client]
[links.wire]
between = ["server", "client"]
rate = "10Mbit/s"
delay = "5ms"
[flows.web]
kind = "requests"
from = "server"
to = "client"
sizes = ["8KB", "32KB"]
count = 2
"#;

#[test]
fn a_client_asks_for_one_size_after_another_and_each_answer_is_a_row() {
    let outcome = run_with(REQUESTS, &[]);
    for instance in 0..2 {
        let rows: Vec<_> = outcome.flows.iter().filter(|flow| flow.instance == instance).collect();
        assert!((80..200).contains(&rows.len()), "each takes four or five round trips of 10 ms: {}", rows.len());
        let (last, done) = rows.split_last().unwrap();
        assert!(done.iter().all(|flow| flow.fault.is_empty() && flow.delivered_bytes == flow.bytes));
        assert!(done.iter().all(|flow| flow.transfer_ns.is_some_and(|ns| (20_000_000..100_000_000).contains(&ns))));
        let sizes: Vec<u64> = done.iter().map(|flow| flow.bytes).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] != pair[1]), "in turns");
        assert_eq!(sizes[0], [8_000, 32_000][instance as usize], "not all begin with the same");
        assert!(last.transfer_ns.is_none() || last.delivered_bytes == last.bytes);
        let starts: Vec<u64> = rows.iter().map(|flow| flow.start_ns).collect();
        assert!(starts.is_sorted());
    }
}

#[test]
fn a_server_answers_after_its_time_and_no_later_than_the_spread() {
    let after = [("flows.web.answer_after", "200ms"), ("flows.web.answer_spread", "100ms"), ("duration", "100s")];
    let outcome = run_with(REQUESTS, &after);
    // Each takes 20 to 100 ms without.
    let took: Vec<u64> = outcome.flows.iter().filter_map(|flow| flow.transfer_ns).map(|ns| ns / 1_000_000).collect();
    assert!(took.iter().all(|ms| (220..400).contains(ms)), "{took:?}");
    let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
    assert!(took.len() > 300 && most - least > 90, "not all are alike: {least} to {most} ms");
}

#[test]
fn a_link_with_a_processor_delivers_less_and_what_back_says_is_its_own() {
    let text = REQUESTS.replace(
        "kind = \"requests\"\nfrom = \"server\"\nto = \"client\"\nsizes = [\"8KB\", \"32KB\"]\ncount = 2\n",
        "kind = \"datagrams\"\nfrom = \"server\"\nto = \"client\"\nrate = \"20Mbit/s\"\n",
    );
    let delivered = |from: &str, settings: &[(&str, &str)]| {
        let text = if from == "server" {
            text.clone()
        } else {
            text.replace("from = \"server\"\nto = \"client\"", "from = \"client\"\nto = \"server\"")
        };
        run_with(&text, settings).flows[0].wire_bytes as f64 / 1e7
    };
    let queue = ("links.wire.queue", "50 packets");
    let slower = [queue, ("links.wire.processing", "600us")];
    let back = [queue, ("links.wire.processing", "600us"), ("links.wire.back.processing", "0s")];
    // 1500 bytes take 1200 us at 10 Mbit/s, and 300 us more on average.
    for (from, settings, expected) in
        [("server", &[queue][..], 1.25), ("server", &slower, 1.0), ("client", &slower, 1.0), ("client", &back, 1.25)]
    {
        let measured = delivered(from, settings);
        assert!((measured - expected).abs() < 0.02, "{from} with {settings:?}: {measured} MB/s instead of {expected}");
    }
}

#[test]
fn clients_go_on_asking_over_a_link_that_loses_packets() {
    let outcome = run_with(REQUESTS, &[("links.wire.loss", "10%"), ("duration", "300s"), ("flows.web.pause", "10ms")]);
    for instance in 0..2 {
        let rows: Vec<_> = outcome.flows.iter().filter(|flow| flow.instance == instance).collect();
        let done = rows.iter().filter(|flow| flow.transfer_ns.is_some() && flow.delivered_bytes == flow.bytes).count();
        assert!(done > 100 && rows.len() - done <= 3, "client {instance}: {done} of {}", rows.len());
    }
}

#[test]
fn datagrams_go_at_their_rate_and_what_is_lost_is_gone() {
    let text = REQUESTS.replace(
        "kind = \"requests\"\nfrom = \"server\"\nto = \"client\"\nsizes = [\"8KB\", \"32KB\"]\n",
        "kind = \"datagrams\"\nfrom = \"server\"\nto = \"client\"\nrate = \"1Mbit/s\"\npacket = \"1028B\"\n",
    );
    let outcome = run_with(&text, &[("links.wire.loss", "20%")]);
    for flow in &outcome.flows {
        assert_eq!(flow.segments_sent, 10 * 1_000_000 / (8 * 1_028) + 1);
        let packets = flow.wire_bytes / 1_028;
        assert_eq!(flow.delivered_bytes, packets * 1_000);
        assert!((900..1_050).contains(&packets), "80% of 1216: {packets}");
    }
}

#[test]
fn on_a_ring_that_goes_one_way_an_answer_goes_all_the_way_round() {
    let text = r#"
        duration = "1s"
        [nodes.a]
        [nodes.c]
        [nodes.r1]
        kind = "router"
        [nodes.r2]
        kind = "router"
        [nodes.r3]
        kind = "router"
        [links]
        a1 = { between = ["a", "r1"], rate = "10Mbit/s" }
        c2 = { between = ["c", "r2"], rate = "10Mbit/s" }
        r12 = { between = ["r1", "r2"], rate = "10Mbit/s", one_way = true }
        r23 = { between = ["r2", "r3"], rate = "10Mbit/s", one_way = true }
        r31 = { between = ["r3", "r1"], rate = "10Mbit/s", one_way = true }
        [flows.f]
        from = "a"
        to = "c"
    "#;
    let outcome = run_with(text, &[]);
    let passed = |direction: &str| outcome.links.iter().find(|link| &*link.direction == direction).unwrap().delivered;
    assert!(passed("r1->r2") > 100 && passed("r2->r3") > 50 && passed("r3->r1") > 50);
    assert_eq!([passed("r2->r1"), passed("r3->r2"), passed("r1->r3")], [0, 0, 0]);
}
