mod bbr;
mod books;
mod circuits;
mod disturbed;
mod fast;
mod friendly;
mod implementations;
mod in_band;
mod lossless;
mod many;
mod media;
mod proxy;
mod queues;
mod recorded;
mod sockets;
#[path = "../../../scenario/src/pcapng/tshark.rs"]
mod tshark;
mod workload;

use headend_engine::link::delay::DelayModel;
use headend_engine::link::headers::HeaderCompression;
use headend_engine::link::loss::LossModel;
use headend_engine::link::queue::Discipline;
use headend_engine::link::service::RateModel;
use headend_engine::tcp::personality::{DelayedAck, Headers, Personality};
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Capacity, Chance, Rate};

use self::tshark::tshark;
use super::*;
use headend_scenario::results::FlowRow;
use headend_scenario::results::trace::Traces;
use headend_scenario::topology;
use headend_scenario::{
    Amount, Bulk, Channel, Direction, Flow, FlowKind, FtpGet, HttpGet, Link as LinkSpec, LinkKind, Node as NodeSpec,
    NodeKind, Opening, Plain, Scenario, Sweep, Talk, Transfer,
};

/// The paper's sender and receiver as ns has them: headers not counted, 6 packets of 1460 B as "8 KB".
fn ns_1996() -> Personality {
    Personality { headers: Headers::Uncounted, ..Personality::bsd_reno_1996() }
}

fn host(name: &str, personality: Personality) -> NodeSpec {
    let kind = NodeKind::Host { personality_name: "test".into(), personality: personality.into() };
    NodeSpec { name: name.into(), kind }
}

fn router(name: &str) -> NodeSpec {
    NodeSpec { name: name.into(), kind: NodeKind::Router }
}

fn direction(rate: Rate, delay_ms: u64, loss: LossModel) -> Direction {
    Direction {
        rate: RateModel::constant(rate),
        processing: Duration::ZERO,
        delay: DelayModel::constant(Duration::from_millis(delay_ms)),
        queue: Discipline::UNLIMITED,
        loss,
        header_compression: HeaderCompression::None,
        detour: None,
        disturbance: headend_engine::link::disturbance::Parameters::NONE,
        header_copies: 0,
        header_repeats: 0,
    }
}

fn link(name: &str, between: [usize; 2], there: Direction, back: Direction) -> LinkSpec {
    LinkSpec { name: name.into(), between, kind: LinkKind::Plain(Plain { there, back, one_way: false }.into()) }
}

fn wire(name: &str, between: [usize; 2]) -> LinkSpec {
    let one_way = direction(Rate::mbit(100), 1, LossModel::NONE);
    link(name, between, one_way.clone(), one_way)
}

fn transfer(bytes: Option<u64>, talk: Talk) -> Transfer {
    let bytes = bytes.map_or(Amount::Unlimited, |bytes| Amount::Exactly(Bytes::new(bytes)));
    Transfer { bytes, arrivals: None, via: None, talk }
}

/// A transfer over a connection that comes about in this way.
fn push(bytes: Option<u64>, opening: Opening, whole_segments: bool) -> Transfer {
    transfer(bytes, Talk::Push { opening, whole_segments, socket: None })
}

fn bulk(name: &str, from: usize, to: usize, bytes: u64) -> Flow {
    Flow {
        name: name.into(),
        kind: FlowKind::Bulk(Bulk(push(Some(bytes), Opening::Beforehand, true))),
        from,
        to,
        start: Duration::ZERO,
        stagger: Duration::ZERO,
        first: 0,
        count: 1,
    }
}

fn scenario(nodes: Vec<NodeSpec>, links: Vec<LinkSpec>, flows: Vec<Flow>) -> Scenario {
    let duration = Duration::from_secs(1_000);
    let (circuits, interval, sweep) = (Vec::new(), None, Sweep::default());
    let [start_jitter, host_jitter] = [None; 2];
    Scenario {
        title: "test".into(),
        seed: 1,
        runs: 1,
        duration,
        start_jitter,
        host_jitter,
        nodes,
        links,
        flows,
        circuits,
        interval,
        sweep,
    }
}

/// The paper's path of plain links: 25 Mbit/s down, 3 up, 20 ms there and back, then Ethernet.
pub(crate) fn paper(bytes: u64, loss: LossModel) -> Scenario {
    let lan = direction(Rate::mbit(10), 0, LossModel::NONE);
    scenario(
        vec![host("server", ns_1996()), router("modem"), host("pc", ns_1996())],
        vec![
            link("hfc", [0, 1], direction(Rate::mbit(25), 10, loss), direction(Rate::mbit(3), 10, LossModel::NONE)),
            link("lan", [1, 2], lan.clone(), lan),
        ],
        vec![bulk("get", 0, 2, bytes)],
    )
}

pub(crate) fn percent(n: u64) -> LossModel {
    LossModel::bernoulli(Chance::from_f64(n as f64 / 100.0).unwrap())
}

fn run(scenario: &Scenario, number: u32, trace: bool) -> (RunOutcome, Option<RunTrace>) {
    World::build(scenario, number, trace).run(0, &|| false).unwrap()
}

fn traces(outcome: &RunOutcome, trace: Option<RunTrace>) -> Traces {
    Traces::of(std::slice::from_ref(outcome), trace.into_iter(), &[])
}

fn flow(scenario: &Scenario) -> FlowRow {
    run(scenario, 0, false).0.flows.remove(0)
}

fn near(nanos: Option<u64>, seconds: f64) -> bool {
    nanos.is_some_and(|nanos| (nanos as f64 / 1e9 - seconds).abs() < 1e-5)
}

#[test]
fn three_megabytes_without_loss_take_exactly_what_ns_2_took() {
    // ns-2.35, p1_fig04 "8KB delack=1 iw=1" at no loss: 8.10714 s, 2055 packets.
    let get = flow(&paper(3_000_000, LossModel::NONE));
    assert!(near(get.transfer_ns, 8.10714), "{get:?}");
    assert_eq!((get.segments_sent, get.retransmits, get.timeouts, get.spurious), (2_055, 0, 0, 0));
    assert_eq!((get.bytes, get.delivered_bytes, get.wire_bytes), (3_000_000, 3_000_000, 2_055 * 1_460));
}

#[test]
fn the_cable_is_the_path_of_its_four_links() {
    let mut cable = paper(300_000, LossModel::NONE);
    let of_links = flow(&cable);
    let channel = |rate| Channel { rate, queue: Capacity::Unlimited, loss: LossModel::NONE };
    cable.nodes.remove(1);
    let kind = LinkKind::Cable(headend_scenario::Cable {
        down: channel(Rate::mbit(25)),
        up: channel(Rate::mbit(3)),
        delay: Duration::from_millis(10),
        modem_buffer: Capacity::Unlimited,
        lan: Rate::mbit(10),
    });
    cable.links = vec![LinkSpec { name: "cable".into(), between: [0, 1], kind }];
    cable.flows[0].to = 1;
    let (outcome, _) = run(&cable, 0, false);
    assert_eq!(outcome.flows[0], of_links);
    let names: Vec<&str> = outcome.links.iter().map(|link| &*link.direction).collect();
    assert_eq!(names, ["hfc-down", "lan-down", "lan-up", "hfc-up"]);
}

#[test]
fn without_delayed_acknowledgements_short_transfers_take_what_ns_2_took() {
    // ns-2.35, p1_fig08 "8KB delack=0 iw=1": 100 KB take 0.295863 s, 200 KB 0.537712 s.
    for (bytes, seconds) in [(100_000, 0.295863), (200_000, 0.537712)] {
        let mut scenario = paper(bytes, LossModel::NONE);
        let tcp = ns_1996();
        let at_once = Personality { delayed_ack: DelayedAck { segments: 1, ..tcp.delayed_ack }, ..tcp };
        scenario.nodes[2] = host("pc", at_once);
        let get = flow(&scenario);
        assert!(near(get.transfer_ns, seconds), "{bytes} B: {get:?}");
    }
}

#[test]
fn a_run_depends_on_its_seed_and_on_nothing_else() {
    let lossy = paper(300_000, percent(3));
    let first = run(&lossy, 0, false).0;
    assert_eq!(first, run(&lossy, 0, false).0);
    assert_ne!(first.flows, run(&lossy, 1, false).0.flows);
    let shifted = Scenario { seed: 2, ..lossy.clone() };
    assert_eq!(run(&shifted, 0, false).0.flows, run(&lossy, 1, false).0.flows, "run r uses seed + r");
}

#[test]
fn adding_an_unrelated_node_changes_no_other_flows_draws() {
    let mut alone = paper(300_000, percent(3));
    alone.flows[0].stagger = Duration::from_millis(100);
    let mut joined = alone.clone();
    // In front, so that every index moves.
    joined.nodes.insert(0, host("stranger", Personality::newreno()));
    joined.nodes.insert(0, host("friend", Personality::newreno()));
    joined.links.iter_mut().for_each(|link| link.between = link.between.map(|node| node + 2));
    joined.flows.iter_mut().for_each(|flow| (flow.from, flow.to) = (flow.from + 2, flow.to + 2));
    let lossy = direction(Rate::mbit(10), 5, percent(2));
    joined.links.insert(0, link("elsewhere", [0, 1], lossy.clone(), lossy));
    joined.flows.insert(0, bulk("other", 0, 1, 1_000_000));
    assert_eq!(run(&alone, 0, false).0.flows[0], run(&joined, 0, false).0.flows[1]);
}

#[test]
fn tracing_changes_nothing_and_shows_what_became_of_each_packet() {
    let lossy = paper(60_000, LossModel::list(vec![11, 14]));
    let (plain, none) = run(&lossy, 0, false);
    let (traced, trace) = run(&lossy, 0, true);
    assert!(none.is_none());
    assert_eq!(plain, traced);
    let trace = traces(&traced, trace);
    let text = |name: &str| trace.packets.column(name).unwrap().as_text().unwrap();
    let number = |name: &str| trace.packets.column(name).unwrap().as_u64().unwrap();
    let count = |event: &str, from: &str| {
        text("event").iter().zip(text("from")).filter(|(e, f)| &***e == event && &***f == from).count() as u64
    };
    let get = &traced.flows[0];
    assert_eq!(count("sent", "server"), get.segments_sent);
    assert_eq!(count("lost", "server"), 2);
    assert_eq!(count("received", "server"), get.segments_sent - 2);
    let lost: Vec<u64> =
        (0..trace.packets.rows()).filter(|&i| &*text("event")[i] == "lost").map(|i| number("seq")[i]).collect();
    assert_eq!(lost, [10 * 1_460, 13 * 1_460], "packets 11 and 14 of the first transmission");
    let again = (0..trace.packets.rows())
        .filter(|&i| &*text("event")[i] == "sent" && number("retransmission")[i] == 1)
        .count() as u64;
    assert_eq!(again, get.retransmits);
    assert!(again >= 2);
    assert!(trace.series.rows() > 20, "the window changed with every acknowledgement");
    let acked = trace.series.column("una_bytes").unwrap().as_u64().unwrap().last().copied();
    assert_eq!(acked, Some(60_000_u64.div_ceil(1_460) * 1_460));
}

#[test]
fn a_flow_cut_short_is_not_completed_but_what_it_delivered_counts() {
    let mut short = paper(3_000_000, LossModel::NONE);
    short.duration = Duration::from_secs(2);
    let get = flow(&short);
    assert_eq!((get.transfer_ns, get.acked_ns), (None, None));
    assert_eq!(get.active_ns, 2_000_000_000);
    assert!((600_000..800_000).contains(&get.delivered_bytes), "a quarter of the transfer: {get:?}");
}

#[test]
fn a_flow_without_end_runs_until_the_duration_and_its_links_stay_busy() {
    let mut endless = paper(1, LossModel::NONE);
    endless.flows[0].kind = FlowKind::Bulk(Bulk(push(None, Opening::Beforehand, true)));
    endless.duration = Duration::from_secs(10);
    let (outcome, _) = run(&endless, 0, false);
    assert_eq!(outcome.end_ns, 10_000_000_000);
    let get = &outcome.flows[0];
    // 6 packets a round trip of 22 ms or a little more: about 3 Mbit/s.
    let rate = get.delivered_bytes as f64 * 8.0 / 10.0;
    assert!((2.8e6..3.2e6).contains(&rate), "{rate}");
    assert_eq!(get.bytes, get.delivered_bytes);
}

#[test]
fn instances_start_within_the_stagger_and_each_at_its_own_time() {
    let mut many = paper(10_000, LossModel::NONE);
    many.flows[0] = Flow { count: 20, stagger: Duration::from_millis(10), ..many.flows[0].clone() };
    let mut starts: Vec<u64> = run(&many, 0, false).0.flows.iter().map(|flow| flow.start_ns).collect();
    assert!(starts.iter().all(|&start| start <= 10_000_000), "{starts:?}");
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 20);
}

#[test]
fn packets_take_the_way_with_the_fewest_links() {
    // 0 - 1 - 2 - 3 and the direct 0 - 3 by a link that the file names last.
    let tcp = ns_1996();
    let nodes = vec![host("a", tcp.clone()), router("r"), router("s"), host("b", tcp)];
    let links = vec![wire("ar", [0, 1]), wire("rs", [1, 2]), wire("sb", [2, 3]), wire("ab", [3, 0])];
    let (outcome, _) = run(&scenario(nodes, links, vec![bulk("get", 0, 3, 100_000)]), 0, false);
    let carried: Vec<u64> = outcome.links.iter().map(|link| link.arrived).collect();
    assert!(carried[..6].iter().all(|&packets| packets == 0), "{carried:?}");
    assert_eq!(&*outcome.links[7].direction, "a->b");
    assert_eq!(outcome.links[7].delivered, 69);
}

#[test]
fn an_ftp_get_opens_closes_and_waits_for_the_first_delayed_ack() {
    let mut ftp = paper(30_000, LossModel::NONE);
    ftp.flows[0].kind = FlowKind::FtpGet(FtpGet(push(Some(30_000), Opening::BySender, false)));
    let (outcome, trace) = run(&ftp, 0, true);
    let get = &outcome.flows[0];
    assert_eq!((get.delivered_bytes, get.retransmits, get.fault.as_str()), (30_000, 0, ""));
    let trace = traces(&outcome, trace);
    let flags: Vec<&str> =
        trace.packets.column("flags").unwrap().as_text().unwrap().iter().map(|flags| &**flags).collect();
    assert_eq!(flags[0], "S");
    assert_eq!(flags.iter().filter(|flags| flags.contains('F')).count(), 4, "both ends say FIN, both hear it");
    // Section 6.1, Figure 11a: one segment, then 200 ms of silence.
    let transfer = get.transfer_ns.unwrap();
    assert!((250_000_000..450_000_000).contains(&transfer), "{get:?}");
    let mut beforehand = ftp.clone();
    beforehand.flows[0].kind = FlowKind::Bulk(Bulk(push(Some(30_000), Opening::Beforehand, false)));
    let saved = transfer - flow(&beforehand).transfer_ns.unwrap();
    assert!((20_000_000..21_000_000).contains(&saved), "the hand-shake takes a round trip of small packets: {saved}");
}

#[test]
fn an_http_get_sends_its_header_alone_and_then_one_full_segment() {
    let mut http = paper(30_000, LossModel::NONE);
    let talk = Talk::Answer { request: Bytes::new(300), header: Bytes::new(200), header_apart: true };
    http.flows[0].kind = FlowKind::HttpGet(HttpGet(transfer(Some(30_000), talk)));
    let (outcome, trace) = run(&http, 0, true);
    let get = &outcome.flows[0];
    assert_eq!((get.bytes, get.delivered_bytes, get.fault.as_str()), (30_000, 30_000, ""));
    let trace = traces(&outcome, trace);
    let text = |name: &str| trace.packets.column(name).unwrap().as_text().unwrap();
    let time = trace.packets.column("time_s").unwrap().as_f64().unwrap();
    let len = trace.packets.column("len").unwrap().as_u64().unwrap();
    let sent: Vec<(f64, u64)> = (0..trace.packets.rows())
        .filter(|&i| &*text("event")[i] == "sent" && &*text("from")[i] == "server" && len[i] > 0)
        .map(|i| (time[i], len[i]))
        .collect();
    // Section 6.1, Figure 11b: the header, one full segment, and then nothing until the delayed ACK.
    assert_eq!((sent[0].1, sent[1].1), (200, 1_460));
    assert!(sent[1].0 - sent[0].0 < 0.001);
    assert!(sent[2].0 - sent[1].0 > 0.1, "{sent:?}");
}

#[test]
fn tshark_finds_nothing_amiss_in_a_clean_transfer() {
    for personality in [Personality::bsd_reno_1996(), Personality::linux()] {
        let mut ftp = paper(100_000, LossModel::NONE);
        ftp.nodes[0] = host("server", personality.clone());
        ftp.nodes[2] = host("pc", personality);
        ftp.flows[0].kind = FlowKind::FtpGet(FtpGet(push(Some(100_000), Opening::BySender, false)));
        let (outcome, trace) = run(&ftp, 0, true);
        let captures = traces(&outcome, trace).captures;
        assert_eq!(captures.iter().map(|capture| &*capture.host).collect::<Vec<_>>(), ["server", "pc"]);
        // A full window is nothing amiss; what seems lost, repeated or misplaced would be.
        let filter = "_ws.malformed || _ws.expert.severity >= 0x800000 || ip.checksum.status != 1 || \
                      tcp.analysis.retransmission || tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment || \
                      tcp.analysis.out_of_order || tcp.analysis.zero_window || tcp.analysis.duplicate_ack";
        let Some(complaints) = tshark(&captures[1].pcapng, "world", &["-Y", filter]) else { return };
        assert_eq!(complaints, "");
    }
}

#[test]
fn a_run_that_is_stopped_has_no_outcome() {
    let mut long = paper(1, LossModel::NONE);
    long.flows[0].kind = FlowKind::Bulk(Bulk(push(None, Opening::Beforehand, true)));
    assert!(World::build(&long, 0, false).run(0, &|| true).is_none());
}

#[test]
fn a_network_is_as_large_as_was_foreseen_when_it_was_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    for name in ["hfc", "dumbbell", "docsis", "web", "trunks", "sockets"] {
        let scenario = Scenario::load(format!("{folder}/{name}.toml").as_ref()).unwrap();
        let world = World::build(&scenario, 0, false);
        assert_eq!(
            world.network.graph.nodes().len(),
            topology::graph_nodes(&scenario.nodes, &scenario.links),
            "{name}"
        );
    }
}
