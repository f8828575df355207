//! Frames with a deadline in a world.

use super::circuits::run_with;
use super::*;
use headend_scenario::results::MediaRow;

/// A camera behind a link of 2 Mbit/s and 10 ms.
const CAMERA: &str = r#"
duration = "30s"
[nodes.camera]
[nodes.r]
kind = "router"
[nodes.viewer]
[nodes.other]
[links.uplink]
between = ["camera", "r"]
rate = "2Mbit/s"
delay = "10ms"
queue = "20 packets"
[links.viewer]
between = ["r", "viewer"]
rate = "100Mbit/s"
[links.other]
between = ["r", "other"]
rate = "100Mbit/s"
[flows.stream]
kind = "media"
from = "camera"
to = "viewer"
rates = ["800kbit/s"]
"#;

fn stream(settings: &[(&str, &str)]) -> (MediaRow, FlowRow) {
    let mut outcome = run_with(CAMERA, settings);
    (outcome.media.remove(0), outcome.flows.remove(0))
}

#[test]
fn on_a_link_that_is_free_every_frame_is_on_time_whatever_carries_it() {
    // A frame of 4000 bytes every 40 ms: three packets of 1500, 1500 and 1084 bytes take 16.336 ms and 10 ms, then 0.09
    // ms.
    for (over, packets) in [("circuit", 3), ("udp", 3), ("tcp", 3)] {
        let (frames, flow) = stream(&[("flows.stream.over", over)]);
        assert_eq!((frames.frames, frames.on_time, frames.pending), (751, 750, 1), "{over}: {frames:?}");
        assert_eq!(frames.on_time_bytes, 750 * 4_000);
        assert_eq!(flow.delivered_bytes, 750 * 4_000);
        assert!(frames.delay_max_ns.unwrap() < 100_000_000, "{over}: {frames:?}");
        if over == "udp" {
            assert_eq!(frames.delay_max_ns, frames.delay_mean_ns, "each has the link to itself");
            // The last packet waits for the second at the first link and for nothing at the second.
            assert_eq!(frames.delay_max_ns, Some(16_336_000 + 10_000_000 + 1_084 * 80));
            assert_eq!(flow.wire_bytes, 750 * (4_000 + packets * 28));
        }
    }
}

#[test]
fn a_source_overruns_a_slow_link_unless_it_adapts_to_what_waits() {
    let (naive, _) = stream(&[("flows.stream.over", "udp"), ("flows.stream.rates", r#"["3Mbit/s"]"#)]);
    assert!(naive.broken > naive.frames / 4, "{naive:?}");
    for over in ["circuit", "tcp"] {
        let ladder = [("flows.stream.over", over), ("flows.stream.rates", r#"["500kbit/s", "1Mbit/s", "3Mbit/s"]"#)];
        let (adapts, _) = stream(&ladder);
        assert!(adapts.on_time * 10 > adapts.frames * 9, "{over}: {adapts:?}");
        assert!(adapts.on_time_bytes > naive.on_time_bytes / 2 && adapts.rate_changes > 2, "{over}: {adapts:?}");
    }
}

#[test]
fn stale_frames_stay_at_home_unless_they_are_kept() {
    let too_much = |stale| {
        let settings = [("flows.stream.rates", r#"["3Mbit/s"]"#), ("flows.stream.stale", stale)];
        stream(&[settings[0], settings[1], ("flows.stream.queue", "unlimited")]).0
    };
    let [keep, withdraw, replace] = ["keep", "withdraw", "replace"].map(too_much);
    // Half as much again as the link carries: ten seconds' worth waits in the end.
    assert!(keep.pending > 150 && keep.withdrawn + keep.replaced == 0 && keep.on_time < 50, "{keep:?}");
    assert!(keep.stale_sent > 400, "{keep:?}");
    for fresh in [&withdraw, &replace] {
        assert!(fresh.pending < 10 && fresh.stale_sent < fresh.frames / 4, "{fresh:?}");
        assert!(fresh.delay_max_ns.unwrap() < 400_000_000, "{fresh:?}");
        assert!(fresh.withdrawn + fresh.replaced > 200, "{fresh:?}");
    }
    assert!(withdraw.replaced == 0 && replace.replaced > 0, "{replace:?}");
}

#[test]
fn a_frame_that_finds_no_room_is_skipped_whole() {
    let (frames, _) = stream(&[("flows.stream.rates", r#"["4Mbit/s"]"#), ("flows.stream.queue", "20 packets")]);
    assert!(frames.skipped > 100 && frames.on_time > 100, "{frames:?}");
    let (none, flow) = stream(&[("flows.stream.rates", r#"["4Mbit/s"]"#), ("flows.stream.queue", "5 packets")]);
    assert_eq!((none.skipped, flow.segments_sent), (none.frames, 0), "20,000 bytes never fit");
}

#[test]
fn a_minimum_rate_brings_frames_over_though_every_second_header_is_lost() {
    let lossy = ("links.uplink.loss", r#"{ model = "bernoulli", rate = 0.5 }"#);
    let small = [("flows.stream.rates", r#"["250kbit/s"]"#), lossy];
    let (without, _) = stream(&small);
    let (with, flow) = stream(&[small[0], lossy, ("flows.stream.gmb", "300kbit/s")]);
    // A frame is one packet, and half of those arrive too.
    assert!(with.on_time * 100 > 40 * with.frames, "{with:?}");
    assert!(without.on_time * 4 < with.on_time, "{without:?}");
    assert_eq!(flow.fault, "");
}

#[test]
fn every_frame_is_accounted_for_at_any_loss() {
    // The world checks the sum; here it is that losses are seen as what they are.
    for over in ["circuit", "udp", "tcp"] {
        let (frames, flow) = stream(&[("flows.stream.over", over), ("links.uplink.loss", "5%")]);
        assert!(frames.pending < 20, "{over}: {frames:?}");
        assert_eq!(frames.broken > 50, over != "tcp", "{over}: {frames:?}");
        assert_eq!(flow.retransmits > 0, over != "udp", "{over}: a header or a segment is sent again");
    }
}

#[test]
fn a_run_with_frames_can_be_traced_and_repeated() {
    let document = headend_scenario::Document::parse("camera.toml", CAMERA).unwrap();
    let scenario = document.scenario().unwrap();
    let (plain, _) = run(&scenario, 0, false);
    let (traced, _) = run(&scenario, 0, true);
    assert_eq!(plain, traced);
}

#[test]
fn mistakes_in_a_flow_of_frames_are_told() {
    for (settings, expected) in [
        (&[("over", "udp"), ("rates", r#"["1Mbit/s", "2Mbit/s"]"#)][..], "has one rate"),
        (&[("over", "tcp"), ("gmb", "1Mbit/s")], "only with over = \"circuit\""),
        (&[("over", "udp"), ("stale", "keep")], "no frame waits"),
        (&[("rates", r#"["2Mbit/s", "1Mbit/s"]"#)], "higher than the one before"),
        (&[("packet", "28B")], "headers alone"),
    ] {
        let mut document = headend_scenario::Document::parse("camera.toml", CAMERA).unwrap();
        for (field, value) in settings {
            document.set(&format!("flows.stream.{field}"), value).unwrap();
        }
        let error = document.scenario().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("flows.stream."), "{error}");
    }
}
