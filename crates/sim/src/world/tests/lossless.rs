//! Tests whether routers with the buffer of equation (2) drop a packet of a user, in two dozen random networks of trunks.

use std::fmt::Write as _;

use headend_engine::circuit::size::Trunks;
use headend_engine::rng::Rng;
use headend_engine::units::{Bytes, Rate};

use super::*;
use headend_scenario::Document;
use headend_scenario::results::LinkRow;

/// One to four trunks of any VMSS over one to three routers, and the buffer that the equation asks for.
fn network(seed: u64, threshold: &str) -> (String, u64) {
    let mut rng = Rng::named(seed, "lossless");
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let (trunks, hops) = (pick(&[1, 2, 3, 4]), pick(&[1, 2, 3]));
    let mut text = format!("duration = \"30s\"\nseed = {seed}\n[nodes]\n");
    for node in 0..trunks {
        let _ = writeln!(text, "a{node} = {{}}\nz{node} = {{}}\ne{node} = {{ kind = \"router\" }}");
    }
    for hop in 0..=hops {
        let _ = writeln!(text, "r{hop} = {{ kind = \"router\" }}");
    }
    let (mut links, mut circuits, mut flows) = (String::new(), String::new(), String::new());
    let (mut connections, mut vmss_max, mut packet_max, mut guaranteed) = (0, 0, 0, 0);
    for trunk in 0..trunks {
        let (vmss, controls) = (pick(&[500, 1_000, 1_500, 2_000, 3_000, 4_500]), pick(&[1, 2, 3, 4]));
        let (gmb, delay, packet) = (pick(&[1, 400, 1_200]), pick(&[0, 3, 20]), pick(&[300, 1_000, 1_500]));
        connections += controls;
        vmss_max = vmss_max.max(vmss);
        packet_max = packet_max.max(packet);
        guaranteed += gmb;
        let _ = write!(
            links,
            "a{trunk} = {{ between = [\"a{trunk}\", \"e{trunk}\"], rate = \"100Mbit/s\" }}\n\
             e{trunk} = {{ between = [\"e{trunk}\", \"r0\"], rate = \"100Mbit/s\", delay = \"{delay}ms\" }}\n\
             z{trunk} = {{ between = [\"r{hops}\", \"z{trunk}\"], rate = \"100Mbit/s\" }}\n"
        );
        let _ = writeln!(
            circuits,
            "t{trunk} = {{ from = \"e{trunk}\", to = \"r{hops}\", flows = [\"u{trunk}\"], controls = {controls}, \
             vmss = \"{vmss}B\", gmb = \"{gmb}kbit/s\", personality = \"bsd-reno-1996\", \
             tcp = {{ timestamps = true, era = \"bsd-4.4\"{threshold} }} }}"
        );
        let _ = writeln!(
            flows,
            "u{trunk} = {{ kind = \"datagrams\", from = \"a{trunk}\", to = \"z{trunk}\", rate = \"20Mbit/s\", \
             packet = \"{packet}B\" }}"
        );
    }
    let buffer = Trunks {
        alpha: 8,
        connections,
        vmss: Bytes::new(vmss_max),
        header: Bytes::new(52),
        gmb: Rate::kbit(guaranteed),
        link: Rate::kbit(9_600),
    }
    .buffer();
    // The equation counts what each control TCP has sent no header for as less than a VMSS. Packets leave whole.
    let required = buffer.required().get() + connections * u64::saturating_sub(packet_max, vmss_max);
    for hop in 0..hops {
        let _ = writeln!(
            links,
            "core{hop} = {{ between = [\"r{hop}\", \"r{}\"], rate = \"9600kbit/s\", delay = \"5ms\", \
             queue = {{ model = \"header-drop\", headers = {}, buffer = \"{required}B\" }} }}",
            hop + 1,
            buffer.headers,
        );
    }
    let _ = write!(text, "[links]\n{links}[circuits]\n{circuits}[flows]\n{flows}");
    (text, required)
}

/// Users' packets dropped in the core, and the largest occupancy there.
fn run(seed: u64, threshold: &str) -> (u64, u64, u64) {
    let (text, required) = network(seed, threshold);
    let (core, most) = core(seed, &text);
    (core.iter().map(|link| link.dropped_user).sum(), most, required)
}

/// The links of the core, and the largest occupancy there.
fn core(seed: u64, text: &str) -> (Vec<LinkRow>, u64) {
    let scenario = Document::parse("lossless", text).unwrap().scenario().unwrap_or_else(|error| panic!("{error}"));
    let outcome = World::build(&scenario, 0, false).run(0, &|| false).unwrap().0;
    let core: Vec<LinkRow> = outcome.links.into_iter().filter(|link| link.link.starts_with("core")).collect();
    let delivered: u64 = core.iter().map(|link| link.delivered).sum();
    assert!(delivered > 1_000, "seed {seed}: the trunks send");
    let most = core.iter().map(|link| link.queue_bytes_max).max().unwrap();
    (core, most)
}

/// So many random networks.
const NETWORKS: u64 = 24;
/// The network with the smallest buffer: one control TCP, and 8 headers for 500 bytes each. A header that is dropped has had its
/// data sent before it, for which the thesis wants "a few percents" more (s2.2.7.2). Here that is a tenth.
const SMALLEST: u64 = 10;
const ENDED: &str = ", initial_ssthresh_segments = 8";

#[test]
fn trunks_that_leave_slow_start_at_alpha_lose_no_user_s_packet() {
    for seed in 1..=NETWORKS {
        let (dropped, most, required) = run(seed, ENDED);
        let accepted = if seed == SMALLEST { 20 } else { 0 };
        assert!(dropped <= accepted, "seed {seed}: {dropped} dropped, {most} of {required} bytes waited");
        assert!(most < required, "seed {seed}: {most} of {required} bytes");
    }
}

#[test]
fn the_equation_does_not_cover_tcps_that_leave_slow_start_all_at_once() {
    let lossy = (1..=12).filter(|&seed| run(seed, "").0 > 0).count();
    assert!(lossy > 6, "users' packets are dropped in {lossy} networks of 12");
}

/// The networks in which routers that go by all bytes lose no user's packet, and the most lost in one per million delivered.
fn by_occupancy(weight_bits: &str) -> (u64, u64) {
    let (mut lossless, mut worst) = (0, 0);
    for seed in 1..=NETWORKS {
        let (text, required) = network(seed, ENDED);
        // Section 2.3.1: headers are dropped from half of the buffer on.
        let half = required / 2;
        let queue =
            format!("model = \"occupancy-drop\", threshold = \"{half}B\", buffer = \"{required}B\"{weight_bits}");
        let from = text.find("model = \"header-drop\"").expect("a router of the core");
        let old = &text[from..from + text[from..].find(" }").expect("its end")];
        let (core, most) = core(seed, &text.replace(old, &queue));
        let sum = |of: fn(&LinkRow) -> u64| core.iter().map(of).sum::<u64>();
        let (lost, headers, delivered) =
            (sum(|link| link.dropped_user), sum(|link| link.dropped_headers), sum(|link| link.delivered));
        assert!(headers > 0 && most > half, "seed {seed}: {headers} headers dropped, {most} of {required} bytes");
        lossless += u64::from(lost == 0);
        worst = worst.max(lost * 1_000_000 / delivered);
    }
    (lossless, worst)
}

#[test]
fn routers_that_go_by_all_bytes_at_the_moment_lose_no_user_s_packet() {
    let (lossless, worst) = by_occupancy("");
    // All but the smallest.
    assert!(lossless >= NETWORKS - 1 && worst < 100, "none in {lossless} networks, at most {worst} in a million");
}

#[test]
fn routers_that_go_by_a_slow_average_of_all_bytes_lose_some() {
    let (lossless, worst) = by_occupancy(", weight_bits = 9");
    assert!(lossless < NETWORKS - 4 && worst > 1_000, "none in {lossless} networks, at most {worst} in a million");
}
