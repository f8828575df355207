//! A congestion control that no crate of headend knows, in a world of its own.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use headend_engine::cc::{Ack, Congestion, Controller, Custom, Factory, Setup};
use headend_engine::tcp::personality::Personality;
use headend_engine::units::Bytes;
use headend_scenario::{Document, NodeKind};
use headend_sim::sweep::{self, Options};

/// A window of as many segments as the path is known to hold.
#[derive(Debug)]
struct KnownPath {
    segments: u64,
}

#[derive(Debug)]
struct Window(Bytes);

impl Factory for KnownPath {
    fn name(&self) -> &str {
        "known-path"
    }

    fn start(&self, setup: &Setup) -> Box<dyn Controller> {
        Box::new(Window(setup.mss * self.segments))
    }
}

impl Controller for Window {
    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_congestion(&mut self, _congestion: &Congestion) {}

    fn window(&self) -> Bytes {
        self.0
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }
}

/// A path of 20 Mbit/s and 50 ms, which holds 86 segments.
const LOSSY: &str = r#"
duration = "100s"
[nodes.server]
tcp = { timestamps = false }
[nodes.pc]
[links.line]
between = ["server", "pc"]
rate = "20Mbit/s"
delay = "25ms"
queue = "100 packets"
loss = "2%"
back = { loss = "0%" }
[flows.get]
from = "server"
to = "pc"
bytes = "10MB"
[sweep]
"nodes.server.personality" = ["linux", "outside"]
"#;

#[test]
fn a_scenario_names_a_personality_with_a_controller_from_outside() {
    let mut document = Document::parse("lossy.toml", LOSSY).expect("it is TOML");
    assert!(document.points().is_err(), "nobody has said what \"outside\" is");
    let controller = Custom::new(KnownPath { segments: 90 }).into();
    document.add_personality("outside", Personality { controller, ..Personality::linux() });
    let points = document.points().expect("both points are right");
    let NodeKind::Host { personality, .. } = &points[1].scenario.nodes[0].kind else { panic!("the server is a host") };
    assert_eq!((personality.controller.name(), personality.timestamps), ("known-path", false));

    let stop = AtomicBool::new(false);
    let options = Options { threads: NonZeroUsize::new(1), journal: None, resume: false, stop: &stop, trace: false };
    let flows = sweep::run(&points, &options, &mut |_| {}).expect("both points run").flows;
    let goodput_bps = flows.column("goodput_bps").unwrap().as_f64().unwrap();
    let [cubic, own] = goodput_bps else { panic!("a flow a point: {goodput_bps:?}") };
    assert!(*own > 14e6, "a window that is known to fit fills most of the line: {own} bit/s");
    assert!(*own > 3.0 * cubic, "CUBIC takes each loss for congestion: {cubic} bit/s");
}

#[test]
fn a_controller_from_outside_gives_way_to_one_that_a_host_names() {
    let mut document = Document::parse("lossy.toml", LOSSY).expect("it is TOML");
    let controller = Custom::new(KnownPath { segments: 90 }).into();
    document.add_personality("outside", Personality { controller, ..Personality::linux() });
    document.set("nodes.server.tcp.fast_alpha", "7").expect("it is a field");
    let name = |document: &Document| {
        let point = document.points().expect("both points are right").swap_remove(1);
        let NodeKind::Host { personality, .. } = &point.scenario.nodes[0].kind else { panic!("the server is a host") };
        personality.controller.name().to_owned()
    };
    assert_eq!(name(&document), "known-path", "a parameter of another controller changes nothing");
    document.set("nodes.server.tcp.controller", "fast").expect("it is a field");
    assert_eq!(name(&document), "fast");
}
