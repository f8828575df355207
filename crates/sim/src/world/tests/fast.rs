//! FAST over whole paths: flows that look at the path without their own packets share it, and their queue does not creep.

use super::*;

/// Goodput of five flows that begin 3 s after each other [Mbit/s], and the mean queue [packets], over 20 Mbit/s and 40 ms.
fn five(check_seconds: u32) -> (Vec<f64>, f64) {
    let text = format!(
        r#"
        title = "Five FAST flows"
        seed = 1
        duration = "600s"
        [nodes.a]
        tcp = {{ controller = "fast", fast_check_seconds = {check_seconds}, socket_buffer = "16MB" }}
        [nodes.b]
        tcp = {{ socket_buffer = "16MB" }}
        [links.line]
        between = ["a", "b"]
        rate = "20Mbit/s"
        delay = "20ms"
        queue = "1000 packets"
        back = {{ queue = "unlimited", loss = "0%" }}
        [flows.bulk]
        from = "a"
        to = "b"
        kind = "bulk"
        count = 5
        stagger = "3s"
        "#
    );
    let scenario = Scenario::parse("fast.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let (outcome, _) = run(&scenario, 0, false);
    let rates = outcome.flows.iter().map(|flow| flow.delivered_bytes as f64 * 8e3 / flow.active_ns as f64).collect();
    let line = outcome.links.iter().find(|link| &*link.link == "line").expect("the link there");
    (rates, line.occupancy_packet_ns as f64 / 600e9)
}

#[test]
fn flows_that_begin_one_after_the_other_come_to_share_by_their_checks() {
    // Alpha is 20 packets each.
    let (rates, queue) = five(5);
    assert!(rates.iter().all(|rate| (3.3..4.4).contains(rate)), "{rates:.2?} Mbit/s");
    assert!((80.0..115.0).contains(&queue), "{queue} packets in the mean");
    // As published, each takes the queue of those before it for the path, for ever.
    let (rates, queue) = five(0);
    assert!(rates.iter().any(|rate| *rate < 2.7) && rates.iter().any(|rate| *rate > 5.5), "{rates:.2?} Mbit/s");
    assert!(queue > 130.0, "{queue} packets in the mean");
}
