//! Flows through reliable sockets over a link that damages packets.

use super::*;
use headend_scenario::Document;
use headend_scenario::results::RunOutcome;

/// One flow of 2 MB over a link with 50 ms each way whose bits are damaged; `socket` is what the flow has of that.
fn run(kind: &str, socket: &str, seed: u64) -> RunOutcome {
    build(kind, socket, "", seed).run(0, &|| false).expect("nobody stops it").0
}

fn build(kind: &str, socket: &str, link: &str, seed: u64) -> World {
    let text = format!(
        "seed = {seed}
        duration = \"300s\"
        [nodes.a]
        personality = \"newreno\"
        [nodes.b]
        personality = \"newreno\"
        [links.wire]
        between = [\"a\", \"b\"]
        rate = \"10Mbit/s\"
        delay = \"50ms\"
        loss = {{ model = \"bit\", rate = 2e-6 }}
        queue = {{ model = \"header-drop\", headers = 50, buffer = \"1MB\" }}
        {link}
        [flows.get]
        kind = \"{kind}\"
        from = \"a\"
        to = \"b\"
        bytes = \"2MB\"
        {socket}"
    );
    let document = Document::parse("sockets.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    World::build(&scenario, 0, false)
}

#[test]
fn a_socket_is_several_times_as_fast_as_its_control_tcp_and_has_a_row() {
    let socket = "socket = { personality = \"newreno\" }";
    for kind in ["bulk", "ftp-get"] {
        let [plain, decoupled] = ["", socket].map(|socket| run(kind, socket, 1));
        let [slow, fast] = [&plain, &decoupled].map(|run| run.flows[0].transfer_ns.expect("all of it arrived"));
        assert!(fast * 2 < slow, "{kind}: {fast} ns, and {slow} ns without a socket");
        let (flow, circuit) = (&decoupled.flows[0], &decoupled.circuits[0]);
        assert_eq!(&*circuit.circuit, "get/0");
        assert!(flow.retransmits > 10, "one packet in forty is damaged: {}", flow.retransmits);
        assert!(circuit.headers > 1_382, "a header for each packet: {}", circuit.headers);
        assert!(decoupled.links.iter().all(|link| link.dropped_user == 0), "routers drop headers and not data");
        assert!(plain.circuits.is_empty());
    }
}

#[test]
fn many_sockets_at_one_host_keep_their_control_tcps_apart() {
    let outcome = run("bulk", "count = 7\nsocket = { personality = \"linux\", controls = 3, vmss = \"3000B\" }", 2);
    assert_eq!(outcome.flows.len(), 7);
    assert!(outcome.flows.iter().all(|flow| flow.transfer_ns.is_some()));
    assert_eq!(outcome.circuits.len(), 7);
    for circuit in &outcome.circuits {
        // 2 MB of payload are 1382 packets of 1500 bytes and more for what is sent again; two of them for each header.
        assert!((691..=760).contains(&circuit.headers), "{}", circuit.headers);
        assert_eq!(circuit.failed, 0);
    }
}

/// Fast retransmits and time-outs of control TCPs in four runs. They are out of slow start before the router drops
/// headers, so that all that is lost is damaged.
fn found(socket: &str, link: &str) -> [u64; 2] {
    let tcp = "personality = \"newreno\", tcp = { initial_ssthresh_segments = 40 }";
    let socket = format!("socket = {{ {tcp}, {socket} }}");
    let runs = (1..=4).map(|seed| build("bulk", &socket, link, seed).run(0, &|| false).expect("nobody stops it").0);
    runs.fold([0; 2], |[fast, timeouts], run| {
        let circuit = &run.circuits[0];
        [fast + circuit.fast_retransmits, timeouts + circuit.timeouts]
    })
}

#[test]
fn headers_that_are_sent_twice_spare_a_circuit_its_losses() {
    assert!(found("copies = 0", "")[0] >= 2, "of 5500 headers one in 1200 is damaged");
    assert_eq!(found("copies = 1", ""), [0, 0], "and one pair in more than a million");
    assert_eq!(found("copies = 0", "header_copies = 1"), [0, 0], "on the link as well");
}

#[test]
fn a_header_that_the_link_sends_again_is_missed_by_nobody() {
    let socket = "socket = { personality = \"newreno\", tcp = { initial_ssthresh_segments = 40 } }";
    for seed in 1..=4 {
        let (run, _) = build("bulk", socket, "header_repeats = 3", seed).run(0, &|| false).expect("nobody stops it");
        let dropped: u64 = run.links.iter().map(|link| link.dropped_headers).sum();
        let noticed = run.circuits[0].fast_retransmits + run.circuits[0].timeouts;
        // Headers that waited for one come at once, their acknowledgements too, and then the router may drop some.
        assert!(noticed <= dropped, "none was missed for damage: {noticed} of {dropped} drops");
    }
}

#[test]
fn compressed_headers_fail_less_and_without_twice_take_all_that_follow() {
    let [plain, vj, twice] =
        ["none", "vj", "twice"].map(|way| found("controls = 1", &format!("header_compression = \"{way}\"")));
    assert!(twice[0] < plain[0], "16 bytes are damaged a third as often as 52: {twice:?}, {plain:?}");
    assert_eq!([plain[1], twice[1]], [0, 0], "duplicates tell of each loss");
    assert_eq!(vj[0], 0, "what cannot be made out is not acknowledged: {vj:?}");
    assert!(vj[1] >= 1, "so the timer expires: {vj:?}");
}
