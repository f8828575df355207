//! BBR over whole paths: it fills them, keeps the queue short, shares, and takes no loss for congestion.

use super::*;

/// Two hosts over 20 Mbit/s and 40 ms there and back, 100 KB or 67 packets, with a queue of five times that.
fn path(flows: usize, queue_packets: u32, loss: &str) -> Scenario {
    let text = format!(
        r#"
        title = "BBR over a path"
        seed = 1
        duration = "40s"
        [nodes.a]
        tcp = {{ controller = "bbr", socket_buffer = "16MB" }}
        [nodes.b]
        tcp = {{ socket_buffer = "16MB" }}
        [links.line]
        between = ["a", "b"]
        rate = "20Mbit/s"
        delay = "20ms"
        queue = "{queue_packets} packets"
        loss = "{loss}"
        back = {{ queue = "unlimited", loss = "0%" }}
        [flows.bulk]
        from = "a"
        to = "b"
        kind = "bulk"
        count = {flows}
        stagger = "500ms"
        "#
    );
    Scenario::parse("bbr.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Goodput of each flow over the run [Mbit/s], and the queue's mean in packets.
fn outcome(scenario: &Scenario) -> (Vec<f64>, f64) {
    let (outcome, _) = run(scenario, 0, false);
    let rates = outcome.flows.iter().map(|flow| flow.delivered_bytes as f64 * 8e3 / flow.active_ns as f64).collect();
    let line = outcome.links.iter().find(|link| &*link.link == "line").expect("the link there");
    (rates, line.occupancy_packet_ns as f64 / 40e9)
}

#[test]
fn one_flow_fills_the_path_with_less_than_what_it_holds_in_the_queue() {
    let (rates, queue) = outcome(&path(1, 333, "0%"));
    // 19.3 Mbit/s of payload fit; start-up and the search for the round trip take the rest.
    assert!((18.5..19.4).contains(&rates[0]), "{rates:?} Mbit/s");
    assert!(queue < 67.0 / 2.0, "{queue} packets in the mean");
}

#[test]
fn losses_up_to_fifteen_percent_cost_little_more_than_their_packets() {
    // At 15% now and then as much is lost in some round trips as a policer drops, and is taken for one, as by Linux.
    for (loss, least) in [("1%", 0.95), ("5%", 0.9), ("10%", 0.8), ("15%", 0.4)] {
        let (rates, _) = outcome(&path(1, 333, loss));
        let share: f64 = loss.trim_end_matches('%').parse::<f64>().expect("a number") / 100.0;
        let fits = 19.3 * (1.0 - share);
        assert!(rates[0] > least * fits && rates[0] <= fits, "{loss}: {:.1} of {fits:.1} Mbit/s", rates[0]);
    }
}

#[test]
fn cubic_under_the_same_losses_is_a_fraction_of_it() {
    let mut cubic = path(1, 333, "1%");
    let NodeKind::Host { personality, .. } = &mut cubic.nodes[0].kind else { panic!("a is a host") };
    let mut other = (**personality).clone();
    other.controller = Personality::linux().controller;
    *personality = other.into();
    let (rates, _) = outcome(&cubic);
    assert!(rates[0] < 6.0, "{rates:?} Mbit/s");
}

#[test]
fn two_flows_share_the_path_and_the_queue_stays_below_what_it_holds() {
    let (rates, queue) = outcome(&path(2, 333, "0%"));
    let all: f64 = rates.iter().sum();
    assert!(all > 18.5, "{rates:?} Mbit/s together");
    assert!(rates.iter().all(|rate| *rate > 0.3 * all), "{rates:?} Mbit/s");
    // Each believes in its own share of the shortest round trip: together they hold one path's worth in the queue, and
    // what bunches of acknowledgements are allowed.
    assert!(queue < 95.0, "{queue} packets in the mean");
}

#[test]
fn a_shallow_queue_is_overrun_while_the_rate_doubles_and_still_filled() {
    let (rates, _) = outcome(&path(1, 20, "0%"));
    assert!(rates[0] > 17.0, "{rates:?} Mbit/s");
}
