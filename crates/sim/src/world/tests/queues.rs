//! Managed queues at the bottleneck of today's TCPs: how long packets wait, what is marked instead of dropped, and who waits for
//! whom. That packets are conserved and Little's law holds is asserted at the end of every run.

use super::*;

/// Four uploads over 10 Mbit/s and 20 ms there and back through this queue, of hosts with this `ecn`.
fn uploads(queue: &str, ecn: &str) -> Scenario {
    let text = format!(
        r#"
        seed = 1
        duration = "30s"
        [nodes.a]
        personality = "linux"
        tcp = {{ ecn = "{ecn}" }}
        [nodes.b]
        personality = "linux"
        [links.line]
        between = ["a", "b"]
        rate = "10Mbit/s"
        delay = "10ms"
        queue = {{ buffer = "256 packets", {queue} }}
        back = {{ queue = "unlimited" }}
        [flows.bulk]
        from = "a"
        to = "b"
        count = 4
        stagger = "1s"
        "#
    );
    Scenario::parse("queues.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// What came of all flows: Mbit/s, segments sent again, milliseconds in the queue, and packets dropped and marked there.
#[derive(Debug)]
struct Came {
    goodput: f64,
    resent: u64,
    wait_ms: f64,
    dropped: u64,
    marked: u64,
}

fn came(scenario: &Scenario) -> Came {
    let (outcome, _) = run(scenario, 0, false);
    let line = &outcome.links[0];
    Came {
        goodput: outcome.flows.iter().map(|flow| flow.delivered_bytes as f64 * 8e3).sum::<f64>() / 30e9,
        resent: outcome.flows.iter().map(|flow| flow.retransmits).sum(),
        wait_ms: line.sojourn_ns as f64 / 1e6 / line.served as f64,
        dropped: line.dropped,
        marked: line.marked,
    }
}

const MANAGED: [&str; 5] = [
    r#"model = "red", min = 5, max = 60, max_chance = "20%""#,
    r#"model = "codel""#,
    r#"model = "fq-codel""#,
    r#"model = "pie""#,
    r#"model = "dualpi2""#,
];

#[test]
fn a_managed_queue_is_short_and_the_line_full() {
    let bloated = came(&uploads(r#"model = "drop-tail""#, "accept"));
    assert!(bloated.wait_ms > 150.0 && bloated.marked == 0, "256 packets are 307 ms: {bloated:?}");
    for queue in MANAGED {
        let managed = came(&uploads(queue, "accept"));
        assert!(managed.wait_ms < 30.0 && managed.goodput > 8.5, "{queue}: {managed:?}");
        assert!(managed.dropped > 0 && managed.marked == 0, "nobody asks for ECN: {queue}: {managed:?}");
    }
}

#[test]
fn with_ecn_packets_are_marked_and_next_to_none_is_sent_again() {
    for queue in MANAGED {
        let (without, with) = (came(&uploads(queue, "accept")), came(&uploads(queue, "request")));
        assert!(with.marked > 100 && with.dropped * 5 < without.dropped, "{queue}: {with:?}, not {without:?}");
        assert!(with.resent * 5 < without.resent, "{queue}: {with:?}, not {without:?}");
        assert!(with.wait_ms < 40.0 && with.goodput > without.goodput * 0.97, "{queue}: {with:?}, not {without:?}");
    }
}

#[test]
fn marks_go_where_both_ends_want_them_and_nowhere_else() {
    for (ecn, is_marked) in [("off", false), ("accept", false), ("request", true)] {
        let outcome = came(&uploads(r#"model = "codel""#, ecn));
        assert_eq!(outcome.marked > 0, is_marked, "{ecn}: {outcome:?}");
    }
    let unmarked = came(&uploads(r#"model = "codel", marks = false"#, "request"));
    assert!(unmarked.marked == 0 && unmarked.dropped > 0, "{unmarked:?}");
}

#[test]
fn every_controller_answers_marks_as_it_answers_losses() {
    for controller in ["reno", "cubic", "vegas", "fast"] {
        let scenario = uploads(r#"model = "codel""#, &format!(r#"request", controller = "{controller}"#));
        let outcome = came(&scenario);
        assert!(outcome.wait_ms < 40.0 && outcome.goodput > 8.0, "{controller}: {outcome:?}");
    }
}
