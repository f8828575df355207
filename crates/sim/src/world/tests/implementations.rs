//! A trunk in each of its implementations (section 3.4 of the decoupling thesis).

use super::circuits::run_with;
use headend_scenario::results::{CircuitRow, RunOutcome};

const TRUNK: &str = r#"
duration = "10s"
[nodes.a]
[nodes.b]
kind = "router"
[nodes.f]
kind = "router"
[nodes.g]
[links.ab]
between = ["a", "b"]
rate = "100Mbit/s"
[links.core]
between = ["b", "f"]
rate = "10Mbit/s"
delay = "10ms"
[links.fg]
between = ["f", "g"]
rate = "100Mbit/s"
[circuits.trunk]
from = "b"
to = "f"
delays = true
personality = "newreno"
[flows.voice]
kind = "datagrams"
from = "a"
to = "g"
count = 10
rate = "80kbit/s"
packet = "200B"
[flows.file]
from = "a"
to = "g"
bytes = "1MB"
"#;

const ALL: [&str; 3] = ["decoupling", "encapsulation", "byte-stream"];

fn run(implementation: &str, settings: &[(&str, &str)]) -> RunOutcome {
    run_with(TRUNK, &[&[("circuits.trunk.implementation", implementation)], settings].concat())
}

fn trunk(outcome: &RunOutcome) -> &CircuitRow {
    &outcome.circuits[0]
}

#[test]
fn users_packets_cross_any_free_trunk_in_order_and_in_the_link_s_time() {
    for implementation in ALL {
        let outcome = run(implementation, &[]);
        let file = outcome.flows.iter().find(|flow| flow.flow == "file").unwrap();
        assert!(file.transfer_ns.is_some(), "{implementation}: {file:?}");
        let voices: u64 = outcome.flows.iter().filter(|flow| flow.flow == "voice").map(|flow| flow.wire_bytes).sum();
        // 100 kB a second, less what is under way at the end.
        assert!((997_000..=1_000_000).contains(&voices), "{implementation}: {voices}");
        let trunk = trunk(&outcome);
        assert_eq!((trunk.dropped, trunk.reordered), (0, 0), "{implementation}");
        assert!(trunk.passed > 5_000 && trunk.passed <= trunk.arrived, "{implementation}: {trunk:?}");
        let [mean, _, max] = trunk.carried_ns.unwrap();
        assert!(mean > 10_000_000 && max < 200_000_000, "{implementation}: {trunk:?}");
        assert!(trunk.delay_ns.unwrap()[0] >= mean, "{implementation}: {trunk:?}");
    }
}

#[test]
fn what_leaves_the_trunk_s_ends_is_what_its_links_deliver() {
    for implementation in ALL {
        let outcome = run(implementation, &[]);
        let delivered: Vec<u64> =
            outcome.links.iter().filter(|link| &*link.link == "core").map(|link| link.delivered_bytes).collect();
        let trunk = trunk(&outcome);
        // Acknowledgements of the file go back beside the trunk, and something is under way.
        let acknowledgements = delivered[1] - trunk.answered_bytes;
        assert!(delivered[0].abs_diff(trunk.sent_bytes) < 50_000, "{implementation}: {delivered:?}, {trunk:?}");
        assert!((10_000..40_000).contains(&acknowledgements), "{implementation}: {delivered:?}, {trunk:?}");
    }
}

#[test]
fn a_loss_holds_up_a_stream_reorders_capsules_and_costs_one_if_decoupled() {
    let lossy = [("links.core.loss", "1%"), ("duration", "30s")];
    let [decoupled, encapsulated, stream] = ALL.map(|implementation| run(implementation, &lossy));
    let [decoupled, encapsulated, stream] = [&decoupled, &encapsulated, &stream].map(trunk);
    assert_eq!((decoupled.reordered, stream.reordered), (0, 0));
    assert!(encapsulated.reordered > 50, "{encapsulated:?}");
    let max = |row: &CircuitRow| row.carried_ns.unwrap()[2];
    assert!(max(decoupled) < 60_000_000 && max(stream) > 100_000_000, "{decoupled:?} {stream:?}");
    let mean = |row: &CircuitRow| row.carried_ns.unwrap()[0];
    assert!(mean(decoupled) < mean(encapsulated) && mean(encapsulated) < mean(stream), "{encapsulated:?} {stream:?}");
    // A packet is lost or comes, once; those inside of a connection all come.
    let missing = |row: &CircuitRow| row.arrived - row.dropped - row.passed;
    assert!(missing(decoupled) > 100, "{decoupled:?}");
    assert!(missing(encapsulated) < 60 && missing(stream) < 60, "{encapsulated:?} {stream:?}");
}

#[test]
fn full_packets_behind_a_header_are_divided_and_a_short_mtu_divides_all() {
    let full = [("flows.voice.packet", "1500B"), ("flows.file.bytes", "1B")];
    for (implementation, settings, percent) in [
        ("decoupling", full.to_vec(), 0),
        ("byte-stream", full.to_vec(), 0),
        ("encapsulation", full.to_vec(), 99),
        ("encapsulation", [full.to_vec(), vec![("circuits.trunk.mtu", "1600B")]].concat(), 0),
        // 1502 bytes make a full segment and one of 54 bytes.
        ("byte-stream", [full.to_vec(), vec![("circuits.trunk.mtu", "576B")]].concat(), 49),
    ] {
        let outcome = run(implementation, &settings);
        let trunk = trunk(&outcome);
        assert!(trunk.passed > 660, "{implementation}: {trunk:?}");
        assert_eq!(trunk.fragmented * 100 / trunk.headers, percent, "{implementation} {settings:?}: {trunk:?}");
    }
}

#[test]
fn the_same_run_without_delays_noted_is_the_same_run() {
    for implementation in ALL {
        let noted = run(implementation, &[("links.core.loss", "1%")]);
        let plain = run(implementation, &[("links.core.loss", "1%"), ("circuits.trunk.delays", "false")]);
        assert_eq!((&noted.flows, &noted.links), (&plain.flows, &plain.links), "{implementation}");
        let row = trunk(&plain);
        assert_eq!((row.passed, row.passed_bytes, row.reordered, row.delay_ns), (0, 0, 0, None));
    }
}

#[test]
fn a_packet_passes_a_trunk_of_one_kind_and_then_one_of_another() {
    let middle = r#"
[nodes.m]
kind = "router"
[links.mf]
between = ["m", "f"]
rate = "10Mbit/s"
[circuits.second]
from = "m"
to = "f"
delays = true
"#;
    let text = TRUNK.replace(r#"between = ["b", "f"]"#, r#"between = ["b", "m"]"#) + middle;
    for first in ALL {
        for second in ALL {
            let outcome = run_with(
                &text,
                &[
                    ("circuits.trunk.to", "m"),
                    ("circuits.trunk.implementation", first),
                    ("circuits.second.implementation", second),
                ],
            );
            let [a, b] = [&outcome.circuits[0], &outcome.circuits[1]];
            assert_eq!(a.passed, b.arrived, "{first}, {second}");
            assert!(b.passed > 5_000 && b.passed <= b.arrived, "{first}, {second}: {b:?}");
        }
    }
}
