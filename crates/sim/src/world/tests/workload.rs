//! Transfers that come at random: what a line carries of a load, and how long they take where theory says it.

use super::*;

/// Transfers of 30 KB in the mean over 10 Mbit/s at this load, for 200 s.
fn at_load(load: &str, sizes: &str) -> Scenario {
    let text = format!(
        r#"
        seed = 1
        duration = "200s"
        [nodes.server]
        [nodes.pc]
        [links.line]
        between = ["server", "pc"]
        rate = "10Mbit/s"
        delay = "1ms"
        queue = "unlimited"
        [flows.web]
        kind = "bulk"
        from = "server"
        to = "pc"
        bytes = {sizes}
        load = "{load}"
        "#
    );
    Scenario::parse("load.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_line_carries_the_load_that_it_has_room_for() {
    for load in ["2Mbit/s", "8Mbit/s"] {
        let asked: f64 = load.trim_end_matches("Mbit/s").parse().expect("a number");
        let (outcome, _) = run(&at_load(load, "\"30KB\""), 0, false);
        let delivered: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
        let carried = delivered as f64 * 8.0 / 200e6;
        assert!((carried / asked - 1.0).abs() < 0.1, "{carried} of {asked} Mbit/s");
        assert!(outcome.flows.iter().filter(|flow| flow.transfer_ns.is_some()).count() > 800);
    }
    // The one that comes while the line is full waits for those before it.
    let slow = |load| {
        let (outcome, _) = run(&at_load(load, "\"30KB\""), 0, false);
        let mut times: Vec<u64> = outcome.flows.iter().filter_map(|flow| flow.transfer_ns).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    assert!(slow("8Mbit/s") > slow("2Mbit/s") * 3 / 2, "{} and {}", slow("8Mbit/s"), slow("2Mbit/s"));
}

#[test]
fn each_instance_has_its_own_start_and_size_and_a_seed_repeats_them() {
    let scenario = at_load("4Mbit/s", "{ model = \"pareto\", mean = \"30KB\", least = \"2KB\", most = \"3MB\" }");
    let rows = |run_number| {
        let (outcome, _) = run(&scenario, run_number, false);
        outcome.flows.iter().map(|flow| (flow.instance, flow.start_ns, flow.bytes)).collect::<Vec<_>>()
    };
    let first = rows(0);
    assert!(first.len() > 1_000, "{}", first.len());
    assert!(first.iter().enumerate().all(|(number, row)| row.0 == number as u64));
    assert!(first.iter().all(|row| (2_000..=3_000_000).contains(&row.2)));
    assert_eq!(first, rows(0));
    assert_ne!(first, rows(1));
}
