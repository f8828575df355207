//! What a circuit of n control TCPs gets of a link that it shares with n Reno TCPs.

use super::*;
use crate::scenario::Document;

const NETWORK: &str = include_str!("../../../../../python/headend/papers/scenarios/decoupling/friendly.toml");

const HEADER_DROP: &str = r#"{ model = "header-drop", headers = 64, unmarked = "header" }"#;
const RED_BY_BYTES: &str =
    r#"{ model = "red", counts = "bytes", min = 20, max = 60, max_chance = "10%", buffer = "200 packets" }"#;
const RED_BY_PACKETS: &str = r#"{ model = "red", min = 10, max = 30, max_chance = "10%", buffer = "100 packets" }"#;

/// The circuit's share, headers included, one for each seed.
fn shares(queue: &str, n: u64, seeds: u64) -> Vec<f64> {
    // The fewer they are, the rarer their losses, and the longer it takes until chance evens out.
    let seconds = 400 / n;
    let share = |seed: u64| {
        let mut document = Document::parse("friendly.toml", NETWORK).unwrap();
        for (path, value) in [
            ("seed", seed.to_string()),
            ("duration", format!("{seconds}s")),
            ("links.core.queue", queue.to_owned()),
            ("circuits.circuit.controls", n.to_string()),
            ("flows.reno.count", n.to_string()),
        ] {
            document.set(path, &value).unwrap_or_else(|error| panic!("{error}"));
        }
        let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
        let outcome = World::build(&scenario, 0, false).unwrap().run(0, &|| false).unwrap().0;
        let bytes = |name: &str| -> u64 {
            outcome.flows.iter().filter(|flow| flow.flow == name).map(|flow| flow.wire_bytes).sum()
        };
        let circuit = bytes("user") + 52 * outcome.circuits[0].headers;
        circuit as f64 / (circuit + bytes("reno")) as f64
    };
    (1..=seeds).map(share).collect()
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// Within a tenth of half at each seed, and nearer on average. The report's `decoupling.friendly` has 20 seeds for each n.
fn assert_even(queue: &str) {
    for (n, seeds) in [(1, 5), (2, 5), (4, 20)] {
        let shares = shares(queue, n, seeds);
        assert!((mean(&shares) - 0.5).abs() < 0.025, "{n} against {n}: {shares:?}");
        assert!(shares.iter().all(|share| (0.45..0.55).contains(share)), "{n} against {n}: {shares:?}");
    }
}

#[test]
fn a_decoupling_router_is_shared_evenly_by_n_control_tcps_and_n_reno_tcps_at_every_seed() {
    assert_even(HEADER_DROP);
}

#[test]
fn red_that_counts_bytes_is_shared_evenly_by_n_control_tcps_and_n_reno_tcps_at_every_seed() {
    assert_even(RED_BY_BYTES);
}

#[test]
fn through_red_that_counts_packets_a_circuit_gets_no_more_than_reno_and_little_less() {
    // Its headers are half of its packets, so it meets a longer queue when much of what waits is its own.
    let shares = shares(RED_BY_PACKETS, 4, 5);
    assert!((0.45..0.5).contains(&mean(&shares)), "{shares:?}");
}

#[test]
fn through_a_tail_that_drops_it_matters_what_the_queue_counts() {
    // A header comes right behind its data: in packets it finds the place taken, in bytes it finds one where they do not.
    let (packets, bytes) = (shares("60 packets", 4, 3), shares("90KB", 4, 3));
    assert!(mean(&packets) < 0.3, "a router that counts packets takes headers more often than data: {packets:?}");
    assert!(mean(&bytes) > 0.6, "one that counts bytes spares them: {bytes:?}");
}
