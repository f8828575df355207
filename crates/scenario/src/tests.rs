//! Scenarios that read as meant, and mistakes that are answered.

mod docsis;
mod fuzz;
mod many;
mod mistakes;
mod published;
mod registry;
mod topology;
mod workload;

use headend_engine::cc::hystart::HyStart;
use headend_engine::cc::{cubic, fast, vegas};
use headend_engine::link::delay::{self, DelayModel};
use headend_engine::link::headers::HeaderCompression;
use headend_engine::link::loss::{self, LossModel};
use headend_engine::link::queue::Discipline;
use headend_engine::link::recording::Series;
use headend_engine::link::service::{self, RateModel};
use headend_engine::tcp::personality::Recovery;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity, Chance, Rate};

use super::*;

/// Two hosts, one link, one flow.
pub(super) const SMALL: &str = r#"
[nodes.a]
personality = "newreno"
[nodes.b]
personality = "newreno"
[links.wire]
between = ["a", "b"]
rate = "10Mbit/s"
[flows.f]
from = "a"
to = "b"
"#;

const HFC: &str = include_str!("../../../scenarios/hfc.toml");

pub(super) fn examples() -> Vec<(&'static str, &'static str)> {
    vec![
        ("hfc.toml", HFC),
        ("dumbbell.toml", include_str!("../../../scenarios/dumbbell.toml")),
        ("bursty.toml", include_str!("../../../scenarios/bursty.toml")),
        ("load.toml", include_str!("../../../scenarios/load.toml")),
        ("web.toml", include_str!("../../../scenarios/web.toml")),
        ("sockets.toml", include_str!("../../../scenarios/sockets.toml")),
        ("trunks.toml", include_str!("../../../scenarios/trunks.toml")),
    ]
}

pub(super) fn small() -> Document {
    Document::parse("small.toml", SMALL).expect("the small scenario is TOML")
}

/// The small scenario with fields set.
fn small_with(settings: &[(&str, &str)]) -> Scenario {
    let mut document = small();
    for (path, text) in settings {
        document.set(path, text).unwrap_or_else(|error| panic!("{error}"));
    }
    document.scenario().unwrap_or_else(|error| panic!("{error}"))
}

fn personality(node: &Node) -> &headend_engine::tcp::personality::Personality {
    match &node.kind {
        NodeKind::Host { personality, .. } => personality,
        NodeKind::Router | NodeKind::Proxy(_) => panic!("{} is no host", node.name),
    }
}

fn there(link: &Link) -> &Direction {
    match &link.kind {
        LinkKind::Plain(plain) => &plain.there,
        LinkKind::Cable(_) | LinkKind::Docsis(_) => panic!("{} is a cable", link.name),
    }
}

/// Every scenario of the repository with its path.
pub(super) fn published() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of scenarios") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).expect("text");
                found.push((path.display().to_string(), text));
            }
        }
    }
    assert!(found.len() >= examples().len(), "the examples are among them");
    found
}

#[test]
fn every_published_scenario_is_one_and_says_what_it_is() {
    for (name, text) in published() {
        let document = Document::parse(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        let document = document.for_real_hosts().beside(Path::new(&name));
        let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.title.is_empty(), "{name} has a title");
    }
}

#[test]
fn the_cable_example_is_the_network_of_the_paper() {
    let scenario = Scenario::parse("hfc.toml", HFC).expect("a scenario");
    let LinkKind::Cable(cable) = &scenario.links[0].kind else { panic!("the link is a cable") };
    assert_eq!((cable.down.rate, cable.up.rate, cable.lan), (Rate::mbit(25), Rate::mbit(3), Rate::mbit(10)));
    assert_eq!((cable.delay, cable.modem_buffer), (Duration::from_millis(10), Capacity::Unlimited));
    assert_eq!(scenario.nodes[scenario.flows[0].from].name, "server");
    assert_eq!(scenario.flows[0].bytes(), Some(Bytes::new(3_000_000)));
    assert_eq!((scenario.runs, scenario.duration), (20, Duration::from_secs(1000)));
}

#[test]
fn fields_that_are_left_out_have_their_documented_values() {
    let scenario = small_with(&[]);
    assert_eq!((scenario.title.as_str(), scenario.seed, scenario.runs), ("", 1, 1));
    let talk = Talk::Push { opening: Opening::BySender, whole_segments: false, socket: None };
    assert_eq!(
        scenario.flows[0].kind,
        FlowKind::Bulk(Bulk(Transfer { bytes: Amount::Unlimited, arrivals: None, via: None, talk }))
    );
    assert_eq!((scenario.flows[0].bytes(), scenario.flows[0].count), (None, 1));
    let expected = Direction {
        rate: RateModel::constant(Rate::mbit(10)),
        processing: Duration::ZERO,
        delay: DelayModel::constant(Duration::ZERO),
        queue: Discipline::UNLIMITED,
        loss: LossModel::NONE,
        header_compression: HeaderCompression::None,
        detour: None,
        disturbance: headend_engine::link::disturbance::Parameters {
            reorder_by: Duration::from_millis(5),
            ..headend_engine::link::disturbance::Parameters::NONE
        },
        header_copies: 0,
        header_repeats: 0,
    };
    let plain = Plain { there: expected.clone(), back: expected, one_way: false };
    assert_eq!(scenario.links[0].kind, LinkKind::Plain(plain.into()));
}

#[test]
fn the_other_direction_differs_only_in_what_back_says() {
    let scenario = small_with(&[
        ("links.wire.loss", "1%"),
        ("links.wire.queue", "100 packets"),
        ("links.wire.header_compression", "twice"),
        ("links.wire.back.rate", "3Mbit/s"),
    ]);
    let LinkKind::Plain(plain) = &scenario.links[0].kind else { panic!("a plain link") };
    let Plain { there, back, .. } = &**plain;
    assert_eq!(there.header_compression, HeaderCompression::Twice);
    assert_eq!(*back, Direction { rate: RateModel::constant(Rate::mbit(3)), ..there.clone() });
    assert_eq!(there.queue, Discipline::drop_tail(Capacity::Packets(100)));
}

#[test]
fn a_rate_and_a_loss_may_change_at_known_times() {
    let scenario = small_with(&[
        ("links.wire.rate", r#"[["0s", "10Mbit/s"], ["1500ms", "2Mbit/s"]]"#),
        ("links.wire.back.loss", r#"[["0s", 0], ["1s", "3%"], ["2s", 1e-3]]"#),
    ]);
    let LinkKind::Plain(plain) = &scenario.links[0].kind else { panic!("a plain link") };
    let Plain { there, back, .. } = &**plain;
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let rates = [(at(0), Rate::mbit(10)), (at(1_500), Rate::mbit(2))];
    assert_eq!(
        (&there.rate, &back.rate),
        (
            &RateModel::Steps(service::steps::Parameters { steps: Series::held(rates) }),
            &RateModel::Steps(service::steps::Parameters { steps: Series::held(rates) })
        )
    );
    let chance = |text| headend_engine::units::quantity::chance(text).expect("a probability");
    let chances = [(at(0), Chance::NEVER), (at(1_000), chance("3%")), (at(2_000), chance("0.1%"))];
    assert_eq!(
        (&there.loss, &back.loss),
        (&LossModel::NONE, &LossModel::Steps(loss::steps::Parameters { steps: Series::held(chances) }))
    );
}

#[test]
fn a_recording_is_read_from_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("headend-recording-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let path = folder.join("net.toml");
    std::fs::write(folder.join("path.up"), "1\n4\n4\n6\n").expect("a recording");
    let text =
        SMALL.replacen("\"10Mbit/s\"", "{ trace = \"path.up\" }", 1).replacen("rate", "delay = \"3ms\"\nrate", 1);
    std::fs::write(&path, text).expect("a scenario");
    let document = Document::load(&path).expect("TOML");
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let LinkKind::Plain(plain) = &scenario.links[0].kind else { panic!("a plain link") };
    let Plain { there, .. } = &**plain;
    assert_eq!(
        there.rate,
        RateModel::Trace(service::trace::Parameters::Opportunities {
            times: [1, 4, 4, 6].map(Duration::from_millis).into(),
            each: Bytes::new(1_500)
        })
    );
    std::fs::write(folder.join("path.up"), "1\n4\nfour\n").expect("a recording");
    let error = Document::load(&path).and_then(|document| document.scenario()).expect_err("a mistake").to_string();
    let place = folder.join("path.up").display().to_string();
    let expected = "links.wire.rate.trace: found \"four\", expected a whole number of milliseconds";
    assert_eq!(error, format!("{place}:3: {expected}"));
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn every_model_of_delay_is_read() {
    let ms = Duration::from_millis;
    let at = |s| Time::ZERO + Duration::from_secs(s);
    for (text, expected) in [
        ("\"5ms\"", DelayModel::constant(ms(5))),
        (
            "[[\"0s\", \"5ms\"], [\"1s\", \"7ms\"]]",
            DelayModel::Steps(delay::steps::Parameters { steps: Series::held([(at(0), ms(5)), (at(1), ms(7))]) }),
        ),
        (
            "{ model = \"uniform\", most = \"9ms\", overtake = true }",
            DelayModel::Uniform(delay::uniform::Parameters { least: Duration::ZERO, most: ms(9), overtake: true }),
        ),
        (
            "{ model = \"normal\", mean = \"9ms\", deviation = \"1ms\" }",
            DelayModel::Normal(delay::normal::Parameters {
                mean: ms(9),
                deviation: ms(1),
                least: Duration::ZERO,
                overtake: false,
            }),
        ),
        (
            "{ model = \"pareto\", least = \"9ms\", most = \"1s\" }",
            DelayModel::Pareto(delay::pareto::Parameters { least: ms(9), shape: 3, most: ms(1_000), overtake: false }),
        ),
    ] {
        let read = small_with(&[("links.wire.delay", text)]);
        assert_eq!(there(&read.links[0]).delay, expected, "{text}");
        assert_eq!(read.shortest_delay() > Duration::ZERO, expected.shortest() > Duration::ZERO, "{text}");
    }
}

#[test]
fn scenarios_that_play_recordings_are_read_with_them() {
    for name in ["starlink", "cellular"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/links/{name}.toml"));
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        let there = there(&scenario.links[0]);
        assert!(matches!(there.rate, RateModel::Trace(_)) && matches!(there.delay, DelayModel::Trace(_)), "{name}");
        let shortest = scenario.shortest_delay();
        assert!((10..20).contains(&shortest.as_millis()), "{name}: {shortest}");
    }
}

#[test]
fn every_model_of_loss_is_read() {
    let half = Chance::from_raw(1 << 63);
    for (text, expected) in [
        ("0%", LossModel::NONE),
        ("50%", LossModel::bernoulli(half)),
        ("0.5", LossModel::bernoulli(half)),
        ("{ model = \"bernoulli\", rate = 0.5 }", LossModel::bernoulli(half)),
        ("{ model = \"bit\", rate = 0.5 }", LossModel::Bit(loss::bit::Parameters { chance_per_bit: half })),
        (
            "{ model = \"gilbert-elliott\", good_to_bad = 0, bad_to_good = \"50%\" }",
            LossModel::GilbertElliott(loss::gilbert_elliott::Parameters {
                good_to_bad: Chance::NEVER,
                bad_to_good: half,
                loss_good: Chance::NEVER,
                loss_bad: Chance::ALWAYS,
            }),
        ),
        ("{ model = \"list\", packets = [14, 11] }", LossModel::list(vec![11, 14])),
    ] {
        assert_eq!(there(&small_with(&[("links.wire.loss", text)]).links[0]).loss, expected, "{text}");
    }
}

#[test]
fn a_set_of_tcp_fields_stands_before_its_parts_whatever_their_order() {
    let scenario = small_with(&[
        ("nodes.a.tcp.receive_buffer", "1MB"),
        ("nodes.a.tcp.socket_buffer", "8760B"),
        ("nodes.a.tcp.era_floor_segments", "7"),
        ("nodes.a.tcp.era", "ns-1996"),
    ]);
    let tcp = personality(&scenario.nodes[0]);
    assert_eq!((tcp.send_buffer, tcp.receive_buffer), (Bytes::new(8_760), Bytes::new(1_000_000)));
    assert!(tcp.era.fast_retransmit_backs_off, "as in ns of 1996");
    assert_eq!(tcp.era.floor_segments, 7);
}

#[test]
fn a_scenario_can_have_personalities_of_its_own() {
    let text = format!("{SMALL}\n[personalities.mine]\nbase = \"sack\"\ndupack_threshold = 1\n");
    let mut document = Document::parse("own.toml", &text).expect("TOML");
    document.set("nodes.b.personality", "mine").expect("a field");
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let tcp = personality(&scenario.nodes[1]);
    assert_eq!((tcp.recovery, tcp.dupack_threshold), (Recovery::Sack, 1));
}

#[test]
fn a_star_sets_a_field_of_every_host_and_of_no_router() {
    let mut document = Document::parse("dumbbell.toml", examples()[1].1).expect("TOML");
    document.set("nodes.*.tcp.mss", "536B").expect("a field of hosts");
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let sizes: Vec<Option<Bytes>> = scenario
        .nodes
        .iter()
        .map(|node| match &node.kind {
            NodeKind::Host { personality, .. } => Some(personality.mss),
            NodeKind::Router | NodeKind::Proxy(_) => None,
        })
        .collect();
    assert_eq!(sizes, [Some(Bytes::new(536)), Some(Bytes::new(536)), None, None]);
}

#[test]
fn a_sweep_is_every_combination_with_the_last_axis_fastest() {
    let mut document = small();
    document.sweep("links.wire.loss", &["0%", "1%"]);
    document.sweep("flows.f.bytes", &["1KB", "2KB", "3KB"]);
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let points = document.points().unwrap_or_else(|error| panic!("{error}"));
    let settings: Vec<String> =
        points.iter().map(|point| format!("{} {}", point.settings[0].1, point.settings[1].1)).collect();
    assert_eq!(settings, ["0% 1KB", "0% 2KB", "0% 3KB", "1% 1KB", "1% 2KB", "1% 3KB"]);
    assert_eq!(points[4].settings[0].0, "links.wire.loss");
    assert_eq!(points[4].scenario.flows[0].bytes(), Some(Bytes::new(2_000)));
    assert_ne!(there(&points[4].scenario.links[0]).loss, LossModel::NONE);
    assert_eq!(points[4].scenario.sweep, Sweep::default(), "a point has no sweep of its own");
    assert_eq!((scenario.sweep.points(), scenario.sweep.axes[1].values[2].as_str()), (6, "3KB"));
    assert_eq!(scenario.flows[0].bytes(), Some(Bytes::new(1_000)), "the scenario's own fields are the first point's");
}

#[test]
fn a_swept_field_need_not_be_given_besides() {
    let text = SMALL.replace("rate = \"10Mbit/s\"", "");
    let mut document = Document::parse("small.toml", &text).expect("TOML");
    assert!(document.scenario().is_err(), "a link needs a rate");
    document.sweep("links.wire.rate", &["1Mbit/s", "2Mbit/s"]);
    assert_eq!(document.points().unwrap_or_else(|error| panic!("{error}")).len(), 2);
}

#[test]
fn paths_of_a_sweep_may_be_quoted_or_nested() {
    let quoted = format!("{SMALL}\n[sweep]\n\"links.wire.loss\" = [0, \"1%\"]\n");
    let nested = format!("{SMALL}\n[sweep.links.wire]\nloss = [0, \"1%\"]\n");
    for text in [quoted, nested] {
        let document = Document::parse("sweep.toml", &text).expect("TOML");
        let points = document.points().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(points[1].settings, [("links.wire.loss".to_owned(), "1%".to_owned())]);
    }
}

#[test]
fn a_scenario_prints_itself_and_reads_back_the_same() {
    for (name, text) in &published() {
        let document = Document::parse(name, text).expect("TOML");
        let mut document = document.for_real_hosts().beside(Path::new(name));
        document.set("title", "with \"quotes\", \\ and \u{1}").expect("a field");
        let points = document.points().unwrap_or_else(|error| panic!("{error}"));
        let toml = Document::parse(name, &document.to_toml()).expect("TOML").for_real_hosts();
        let json = Document::parse_json(name, &document.to_json().to_string()).expect("JSON").for_real_hosts();
        for again in [toml, json] {
            let again = again.beside(Path::new(name));
            assert_eq!(again.points().unwrap_or_else(|error| panic!("{error}")), points, "{name}");
        }
    }
}

#[test]
fn setting_a_swept_field_ends_its_sweep() {
    let text = format!("{SMALL}[sweep]\n\"links.wire.loss\" = [\"0%\", \"1%\", \"3%\"]\n");
    let mut document = Document::parse("swept.toml", &text).expect("TOML");
    assert_eq!(document.points().expect("a good scenario").len(), 3);
    document.set("links.wire.loss", "2%").expect("a good value");
    assert_eq!(document.points().expect("a good scenario").len(), 1);
}

#[test]
fn a_controller_s_parameters_survive_a_change_of_its_name() {
    let text = format!(
        "{SMALL}[personalities.mine]\nbase = \"linux\"\ncontroller = \"vegas\"\nvegas_alpha = 3\nfast_alpha = 12\n"
    );
    let with = |settings: &[(&str, &str)]| {
        let mut document = Document::parse("small.toml", &text).expect("it is TOML");
        document.set("nodes.a.personality", "mine").expect("it is a field");
        for (path, value) in settings {
            document.set(path, value).expect("it is a field");
        }
        personality(&document.scenario().expect("it is right").nodes[0]).controller.clone()
    };
    let vegas = vegas::Parameters { alpha_packets: 3, ..vegas::Parameters::DEFAULT };
    let fast = fast::Parameters { alpha_packets: 12, gamma_percent: 40, ..fast::Parameters::DEFAULT };
    assert_eq!(with(&[]), vegas.into());
    let named = [("nodes.a.tcp.fast_gamma_percent", "40"), ("nodes.a.tcp.controller", "fast")];
    assert_eq!(with(&named), fast.into());
    assert_eq!(with(&[named[1], named[0]]), fast.into(), "the order is all the same");
    // HyStart is what the base has, however many controllers came in between.
    let cubic = cubic::Parameters { hystart: HyStart::Classic };
    assert_eq!(with(&[("nodes.a.tcp.controller", "cubic")]), cubic.into());
}
