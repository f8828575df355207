//! The share that a circuit of n control TCPs gets of a link on which there are n Reno TCPs.

use super::*;
use headend_scenario::Document;

const NETWORK: &str = include_str!("../../../../../python/headend/papers/scenarios/decoupling/friendly.toml");

const HEADER_DROP: &str = r#"{ model = "header-drop", headers = 64, unmarked = "header" }"#;
const RED_BY_BYTES: &str =
    r#"{ model = "red", counts = "bytes", min = 20, max = 60, max_chance = "10%", buffer = "200 packets" }"#;
const RED_BY_PACKETS: &str = r#"{ model = "red", min = 10, max = 30, max_chance = "10%", buffer = "100 packets" }"#;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

/// The outcome of a run.
#[derive(Debug)]
struct Contest {
    /// The circuit's part of all bytes, headers included.
    share: f64,
    /// The part of the circuit's headers that routers dropped.
    header_loss: f64,
    /// The part of Reno's segments that they dropped.
    reno_loss: f64,
}

fn contest(queue: &str, n: u64, seed: u64) -> Contest {
    let mut document = Document::parse("friendly.toml", NETWORK).unwrap();
    for (path, value) in [
        ("seed", seed.to_string()),
        // The fewer they are, the rarer their losses, and the longer it takes until chance evens out.
        ("duration", format!("{}s", 400 / n)),
        ("links.core.queue", queue.to_owned()),
        ("circuits.circuit.controls", n.to_string()),
        ("flows.reno.count", n.to_string()),
    ] {
        document.set(path, &value).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let outcome = World::build(&scenario, 0, false).run(0, &|| false).unwrap().0;
    let of = |name: &'static str| outcome.flows.iter().filter(move |flow| flow.flow == name);
    let bytes = |name| of(name).map(|flow| flow.wire_bytes).sum::<u64>();
    let headers = outcome.circuits[0].headers;
    let circuit = bytes("user") + 52 * headers;
    let core = outcome.links.iter().find(|link| &*link.direction == "r->f").unwrap();
    let reno_dropped = core.dropped - core.dropped_headers - core.dropped_user;
    let reno_sent: u64 = of("reno").map(|flow| flow.segments_sent).sum();
    Contest {
        share: circuit as f64 / (circuit + bytes("reno")) as f64,
        header_loss: core.dropped_headers as f64 / headers as f64,
        reno_loss: reno_dropped as f64 / reno_sent as f64,
    }
}

fn contests(queue: &str, n: u64, seeds: impl Iterator<Item = u64>) -> Vec<Contest> {
    seeds.map(|seed| contest(queue, n, seed)).collect()
}

fn mean(contests: &[Contest], of: fn(&Contest) -> f64) -> f64 {
    contests.iter().map(of).sum::<f64>() / contests.len() as f64
}

/// Asserts that shares are within a tenth of half at each seed, and nearer on average, and that headers are dropped
/// about as often as Reno's segments.
fn assert_even(queue: &str) {
    std::thread::scope(|scope| {
        for n in [1, 2, 4] {
            scope.spawn(move || {
                let contests = contests(queue, n, SEEDS);
                let share = mean(&contests, |one| one.share);
                assert!((share - 0.5).abs() < 0.025, "{n} against {n}: {contests:?}");
                let even = contests.iter().all(|one| (0.45..0.55).contains(&one.share));
                assert!(even, "{n} against {n}, seeds {SEEDS:?}: {contests:?}");
                let ratio = mean(&contests, |one| one.header_loss) / mean(&contests, |one| one.reno_loss);
                assert!((0.7..1.5).contains(&ratio), "{n} against {n}: {ratio} {contests:?}");
            });
        }
    });
}

#[test]
fn n_control_tcps_and_n_renos_share_a_decoupling_router_evenly() {
    assert_even(HEADER_DROP);
}

#[test]
fn n_control_tcps_and_n_renos_share_red_that_counts_bytes_evenly() {
    assert_even(RED_BY_BYTES);
}

#[test]
fn n_control_tcps_and_n_renos_share_red_that_counts_packets_evenly() {
    assert_even(RED_BY_PACKETS);
}

/// The circuit's share, four against four through a queue that drops at the tail, and how much more often a header is
/// lost than one of Reno's segments.
fn at_a_tail(queue: &str) -> (f64, f64) {
    let contests = contests(queue, 4, 1..=5);
    let of = |part| mean(&contests, part);
    (of(|one| one.share), of(|one| one.header_loss) / of(|one| one.reno_loss))
}

#[test]
fn a_tail_that_counts_packets_gives_a_circuit_a_seventh() {
    // The data before a header have filled the queue. Eight times the loss alone is a third of the throughput, which
    // falls with the root of loss (Mathis 1997). And half of what so small a window loses ends in a time-out: a control
    // TCP has 30 of them in 100 s, a Reno 4.
    let (share, ratio) = at_a_tail("60 packets");
    assert!((0.1..0.2).contains(&share), "{share}");
    assert!((6.0..12.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_tail_that_counts_bytes_gives_a_circuit_four_fifths() {
    // A header fits where a segment does not.
    let (share, ratio) = at_a_tail("90KB");
    assert!((0.74..0.85).contains(&share), "{share}");
    assert!((0.1..0.3).contains(&ratio), "{ratio}");
}
