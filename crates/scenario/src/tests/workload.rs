//! Flows whose instances come at random, and whose sizes are drawn.

use std::fs;

use super::super::*;

/// A flow between two hosts for 100 s, with these further lines.
fn text(more: &str) -> String {
    format!(
        "duration = \"100s\"\n[nodes.a]\n[nodes.b]\n[links.ab]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\n\
         [flows.web]\nfrom = \"a\"\nto = \"b\"\n{more}\n"
    )
}

fn flow(more: &str) -> Flow {
    let scenario = Scenario::parse("net.toml", &text(more)).unwrap_or_else(|error| panic!("{error}"));
    scenario.flows[0].clone()
}

/// The first mistake.
fn message(more: &str) -> String {
    match Scenario::parse("net.toml", &text(more)) {
        Err(Error::Wrong(mistakes)) => mistakes.listed[0].to_string(),
        other => panic!("a mistake: {other:?}"),
    }
}

const END: Duration = Duration::from_secs(100);

#[test]
fn a_load_is_what_instances_ask_for_in_the_mean() {
    for (sizes, mean) in [
        ("\"50KB\"", 50_000.0),
        ("{ model = \"web-search\" }", 1_711_250.0),
        ("{ model = \"pareto\", mean = \"20KB\", least = \"4KB\", most = \"10MB\" }", 20_000.0),
        ("{ model = \"log-normal\", mean = \"50KB\", median = \"10KB\" }", 50_000.0),
    ] {
        let flow = flow(&format!("bytes = {sizes}\nload = \"8Mbit/s\""));
        let (mut bytes, mut count) = (0.0, 0.0);
        for seed in 0..200 {
            let instances = flow.instances(seed, END);
            assert!(instances.len() <= flow.count as usize && instances.is_sorted_by_key(|one| one.start));
            count += instances.len() as f64;
            bytes += instances.iter().map(|one| one.bytes.expect("it ends").get() as f64).sum::<f64>();
        }
        // 1 MB a second.
        let (load, every) = (bytes / 200e8, 20_000.0 / count);
        assert!((load - 1.0).abs() < 0.07, "{sizes}: {load}");
        assert!((every / (mean / 1e6) - 1.0).abs() < 0.03, "{sizes}: one every {every} s");
    }
}

#[test]
fn instances_come_from_the_start_on_and_a_seed_says_when() {
    let flow = flow("bytes = \"1KB\"\narrivals = \"250ms\"\nstart = \"60s\"");
    let instances = flow.instances(3, END);
    assert!((100..230).contains(&instances.len()), "{}", instances.len());
    assert!(instances.iter().all(|one| one.start >= Duration::from_secs(60) && one.start < END));
    assert_eq!(instances, flow.instances(3, END));
    assert_ne!(instances, flow.instances(4, END));
    // Without arrivals there are as many as are asked for, at the start.
    let flow = self::flow("bytes = { model = \"data-mining\" }\ncount = 3");
    let starts: Vec<Duration> = flow.instances(1, END).iter().map(|one| one.start).collect();
    assert_eq!(starts, [Duration::ZERO; 3]);
}

#[test]
fn a_distribution_can_be_a_file_beside_the_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let [file, sizes] = ["net.toml", "web.cdf"].map(|name| folder.path().join(name));
    fs::write(&file, text("bytes = { cdf = \"web.cdf\" }")).expect("it is written");
    let complaint = |error: Error| match error {
        Error::Wrong(mistakes) => mistakes.listed[0].to_string(),
        error => panic!("{error}"),
    };
    let missing = complaint(Scenario::load(&file).expect_err("there is no such file"));
    assert!(missing.contains("flows.web.bytes.cdf: found ") && missing.contains("web.cdf"), "{missing}");
    fs::write(&sizes, "1000 0.5\n500 1\n").expect("it is written");
    let wrong = complaint(Scenario::load(&file).expect_err("sizes descend"));
    assert!(wrong.contains("web.cdf:2: ") && wrong.contains("found \"500 1\""), "{wrong}");
    fs::write(&sizes, "1000 0.5\n3000 1\n").expect("it is written");
    let scenario = Scenario::load(&file).expect("a scenario");
    let Some(Amount::Drawn(model)) = scenario.flows[0].kind.transfer().map(|transfer| &transfer.bytes) else {
        panic!("sizes are drawn");
    };
    assert_eq!(model.distribution().mean().get(), 1_500);
}

#[test]
fn what_cannot_be_together_is_told() {
    let begins = |said: String, with: &str| assert!(said.starts_with(with), "{said}");
    begins(
        message("bytes = \"1KB\"\nload = \"1Mbit/s\"\narrivals = \"1s\""),
        "net.toml:11: flows.web.load: says how often instances come, and so does `arrivals`",
    );
    begins(
        message("bytes = \"1KB\"\nload = \"1Mbit/s\"\ncount = 3"),
        "net.toml:12: flows.web.count: says how many instances there are, and `load` lets them come as they do",
    );
    begins(
        message("arrivals = \"1s\""),
        "net.toml:10: flows.web.arrivals: lets instances come, and without `bytes` none of them ends",
    );
    begins(
        message("bytes = \"1KB\"\nload = \"7Mbit/s\""),
        "net.toml:11: flows.web.load: \"a\" would have 89875 ends of flows",
    );
    begins(
        message("bytes = { model = \"pareto\", mean = \"1KB\", least = \"4KB\", most = \"9KB\" }"),
        "net.toml:10: flows.web.bytes.mean: is 1000B, and from 4000B to 9000B means from ",
    );
}
