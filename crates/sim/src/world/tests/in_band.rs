//! The share that a circuit which stands for n TCPs gets of a link with n such TCPs, its datagrams being the signal.

use super::*;
use headend_scenario::Document;
use headend_scenario::results::{CircuitRow, RunOutcome};

const NETWORK: &str = include_str!("../../../../../python/headend/papers/scenarios/decoupling/signals.toml");
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

fn run(seed: u64, settings: &[(&str, &str)]) -> RunOutcome {
    let mut document = Document::parse("signals.toml", NETWORK).unwrap();
    document.set("seed", &seed.to_string()).unwrap();
    for (path, value) in settings {
        document.set(path, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    World::build(&scenario, 0, false).run(0, &|| false).unwrap().0
}

/// The circuit's share of all bytes, its datagrams' headers included: the mean of all seeds.
fn share(queue: &str, personality: &str, n: u64) -> f64 {
    let n = n.to_string();
    let settings = [
        ("links.core.queue", queue),
        ("nodes.b.personality", personality),
        ("nodes.d.personality", personality),
        ("circuits.circuit.personality", personality),
        ("circuits.circuit.controls", &n),
        ("flows.tcp.count", &n),
    ];
    let shares = SEEDS.map(|seed| {
        let outcome = run(seed, &settings);
        let tcps = outcome.flows.iter().filter(|flow| &*flow.flow == "tcp");
        let others: u64 = tcps.map(|flow| flow.wire_bytes).sum();
        let own = outcome.circuits[0].sent_bytes;
        own as f64 / (own + others) as f64
    });
    shares.sum::<f64>() / SEEDS.count() as f64
}

fn assert_even(queue: &str) {
    std::thread::scope(|scope| {
        for (personality, n) in [("sack", 1), ("sack", 4), ("linux", 1), ("linux", 4)] {
            scope.spawn(move || {
                let share = share(queue, personality, n);
                assert!((0.45..0.55).contains(&share), "{n} {personality} through {queue}, seeds {SEEDS:?}: {share}");
            });
        }
    });
}

#[test]
fn a_circuit_and_its_like_share_a_tail_in_packets_evenly() {
    assert_even("17 packets");
}

#[test]
fn a_circuit_and_its_like_share_a_tail_in_bytes_evenly() {
    assert_even("52500B");
}

#[test]
fn a_circuit_and_its_like_share_red_evenly() {
    assert_even(r#"{ model = "red", min = 10, max = 30, max_chance = "10%", buffer = "100 packets" }"#);
}

/// The circuit of one flow alone on a link that damages bits.
fn on_damaged(losses: &str) -> CircuitRow {
    let alone = [("flows.tcp.count", "1"), ("flows.tcp.bytes", "1KB"), ("circuits.circuit.controls", "1")];
    let damage = [("links.core.loss", r#"{ model = "bit", rate = 2e-6 }"#), ("circuits.circuit.losses", losses)];
    run(1, &[alone.as_slice(), &damage].concat()).circuits.remove(0)
}

#[test]
fn damage_slows_a_circuit_down_unless_only_delayed_losses_count() {
    let [all, delayed] = ["all", "delayed"].map(on_damaged);
    assert!(delayed.sent_bytes > 3 * all.sent_bytes, "{delayed:?} {all:?}");
    // 2e-6 of 12,000 bits, in 100 s at 10 Mbit/s.
    let lost = delayed.datagrams_lost as f64 / (delayed.sent_bytes as f64 / 1_500.0);
    assert!((0.02..0.03).contains(&lost), "{lost}");
    assert!(delayed.datagrams_damaged > delayed.datagrams_lost * 9 / 10, "{delayed:?}");
}

#[test]
fn a_guarantee_leaves_whatever_the_windows_say() {
    let settings = [("circuits.circuit.gmb", "4Mbit/s"), ("flows.tcp.count", "16"), ("circuits.circuit.controls", "1")];
    let row = run(1, &settings).circuits.remove(0);
    let due = 4_000_000 / 8 * 100;
    assert!((due * 99 / 100..=due + 1_500).contains(&row.guaranteed_bytes), "{row:?}");
    assert!(row.controlled_bytes > 0 && row.controlled_bytes < due / 2, "one window beside 16: {row:?}");
}
