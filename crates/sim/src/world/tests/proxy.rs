//! Split connections, beside ns-2 and through open, half-closed and broken connections.

use super::*;

/// The proxies paper's network (s3.1) as the reference curves have it; `edit` changes lines of it.
fn network(edit: &[(&str, &str)]) -> Scenario {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/headend/papers/scenarios/proxies/fig05.toml");
    let mut text = std::fs::read_to_string(file).expect("the paper's scenario");
    text.truncate(text.find("[sweep]").expect("it sweeps"));
    for (from, to) in edit {
        assert!(text.contains(from), "{from} is in {file}");
        text = text.replace(from, to);
    }
    Scenario::parse("proxy.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

const VIA: (&str, &str) = ("to = \"pc\"\n", "to = \"pc\"\nvia = \"proxy\"\n");
const BUFFER: (&str, &str) = ("relay = \"store\"", "relay = \"buffer\"");
/// An edit that makes the flow a real connection, opened and closed in both directions.
const HTTP: (&str, &str) = (
    "kind = \"bulk\"\nfrom = \"server\"\nto = \"pc\"\nbytes = \"3MB\"\nhandshake = false\nwhole_segments = true\n",
    "kind = \"http-get\"\nfrom = \"server\"\nto = \"pc\"\nvia = \"proxy\"\nbytes = \"300KB\"\n",
);

/// True if the two agree to the six digits with which ns-2's times are printed.
fn agrees(nanos: Option<u64>, seconds: f64) -> bool {
    nanos.is_some_and(|nanos| (nanos as f64 / 1e9 / seconds - 1.0).abs() < 5e-6)
}

#[test]
fn without_loss_each_way_through_takes_exactly_what_ns_2_took() {
    // ns-2.35, p2_fig05, delayed ACK, initial window 1: T [s] of "direct", "sf" and "bf".
    let direct = flow(&network(&[]));
    assert!(agrees(direct.transfer_ns, 49.0836), "{direct:?}");
    for (relay, delay, bytes, seconds) in [
        ("store", "50ms", "3MB", 40.7037),
        ("buffer", "50ms", "3MB", 40.7037),
        ("store", "50ms", "5KB", 0.661_296),
        ("buffer", "25ms", "500KB", 3.79335),
        ("buffer", "150ms", "50KB", 3.56296),
    ] {
        let (relay, delay) = (format!("relay = \"{relay}\""), format!("delay = \"{delay}\""));
        let get = flow(&network(&[VIA, ("relay = \"store\"", &relay), ("delay = \"50ms\"", &delay), ("3MB", bytes)]));
        assert!(agrees(get.transfer_ns, seconds), "{relay} {delay} {bytes}: {get:?}");
    }
}

#[test]
fn a_buffer_between_two_equal_connections_takes_what_it_took_in_1996() {
    // p2_fig05, "bf remRTT=20ms": every window update of the proxy's receiver counts here.
    for (bytes, seconds) in [("500KB", 1.69488), ("3MB", 8.60225)] {
        let set = [VIA, BUFFER, ("delay = \"50ms\"", "delay = \"10ms\""), ("3MB", bytes)];
        let get = flow(&network(&set));
        assert!(agrees(get.transfer_ns, seconds), "{bytes}: {get:?}");
    }
}

#[test]
fn a_flow_that_does_not_go_via_a_proxy_passes_it_as_a_router() {
    let through_a_router = network(&[
        ("kind = \"proxy\"", "kind = \"router\""),
        ("relay = \"store\"\nlocal_link = \"cable\"", ""),
        ("local = {", "# local = {"),
        ("remote = {", "# remote = {"),
    ]);
    assert_eq!(flow(&network(&[])), flow(&through_a_router));
}

#[test]
fn a_lossy_cable_is_repaired_without_the_server_noticing() {
    let lossy = ("loss = \"0%\" }\nup", "loss = \"5%\" }\nup");
    let (outcome, trace) = run(&network(&[VIA, lossy, ("3MB", "100KB")]), 0, true);
    let get = &outcome.flows[0];
    assert!(get.transfer_ns.is_some() && get.retransmits > 5, "{get:?}");
    let traces = traces(&outcome, trace);
    let [places, whats] = ["place", "event"].map(|name| traces.packets.column(name).unwrap().as_text().unwrap());
    let lost_at: Vec<&str> =
        places.iter().zip(whats).filter(|(_, what)| &***what == "lost").map(|(place, _)| &**place).collect();
    assert!(!lost_at.is_empty() && lost_at.iter().all(|place| place.starts_with("cable")), "{lost_at:?}");
    let sent = |host: &str| places.iter().zip(whats).filter(|(p, w)| &***p == host && &***w == "sent").count();
    assert_eq!(sent("server"), 187, "each segment leaves the server once");
    assert!(sent("proxy") > 187 + 90, "the proxy repeats what is lost, and acknowledges what arrives");
}

#[test]
fn a_store_never_holds_back_the_server_and_a_buffer_does() {
    // A cable slower than the Internet: the server is acknowledged long before the PC has it all, or not.
    let slow = [VIA, ("25Mbit/s", "200kbit/s"), ("3MB", "300KB")];
    let store = flow(&network(&slow));
    let buffer = flow(&network(&[slow[0], slow[1], slow[2], BUFFER]));
    let limited =
        flow(&network(&[slow[0], slow[1], slow[2], ("relay = \"store\"", "relay = \"buffer\"\nlimit = \"100KB\"")]));
    for get in [&store, &buffer, &limited] {
        assert!(get.transfer_ns.is_some_and(|time| time > 12_000_000_000), "200 kbit/s is the limit: {get:?}");
    }
    let lead =
        |get: &FlowRow| (get.transfer_ns.unwrap() - get.acked_ns.unwrap().min(get.transfer_ns.unwrap())) / 1_000_000;
    let (store, buffer, limited) = (lead(&store), lead(&buffer), lead(&limited));
    assert!(store > 5_000, "the server is done {store} ms early");
    assert!(buffer < 800, "the server is done {buffer} ms early, two socket buffers before the end");
    assert!((4_000..store).contains(&limited), "100 KB are 4 s: {limited} ms");
}

#[test]
fn connections_open_and_close_through_a_proxy_one_direction_at_a_time() {
    for relay in [("relay = \"store\"", "relay = \"store\""), BUFFER] {
        let mut scenario = network(&[HTTP, relay]);
        scenario.duration = Duration::from_secs(100);
        let (outcome, _) = run(&scenario, 0, false);
        let get = &outcome.flows[0];
        assert_eq!((get.delivered_bytes, &*get.fault), (300_000, ""), "{get:?}");
        assert!(outcome.end_ns < 30_000_000_000, "all four ends close, and the run ends: {}", outcome.end_ns);
    }
}

#[test]
fn many_connections_share_a_proxy_under_loss_and_every_byte_arrives() {
    let lossy = ("loss = \"0%\" }\nup", "loss = \"3%\" }\nup");
    let internet = ("delay = \"50ms\"\n", "delay = \"50ms\"\nloss = \"2%\"\n");
    for relay in [("relay = \"store\"", "relay = \"store\""), BUFFER] {
        let mut scenario = network(&[HTTP, relay, lossy, internet, ("300KB", "40KB\"\ncount = 30\nstagger = \"2s")]);
        scenario.seed = 7;
        let (outcome, _) = run(&scenario, 0, false);
        assert_eq!(outcome.flows.len(), 30);
        for get in &outcome.flows {
            assert_eq!((get.delivered_bytes, &*get.fault), (40_000, ""), "{get:?}");
        }
    }
}

#[test]
fn a_server_that_is_gone_is_a_reset_to_the_client() {
    // The Internet loses everything: the proxy's connection times out, and the PC, which had been accepted, hears it.
    let dead = ("delay = \"50ms\"\n", "delay = \"50ms\"\nloss = \"100%\"\n");
    let (outcome, _) = run(&network(&[HTTP, dead]), 0, false);
    let get = &outcome.flows[0];
    assert_eq!((get.delivered_bytes, &*get.fault), (0, "reset by the peer"), "{get:?}");
    assert!(get.active_ns < 1_000_000_000_000, "the PC does not wait for ever: {get:?}");
}
