use super::*;

const NETWORK: &str = r#"
duration = "5s"
[nodes.a]
personality = "newreno"
[nodes.b]
personality = "newreno"
[links.wire]
between = ["a", "b"]
delay = "3ms"
rate = { trace = "path.up" }
[flows.f]
from = "a"
to = "b"
bytes = "1MB"
"#;

#[test]
fn a_link_serves_as_its_recording_says() {
    let folder = std::env::temp_dir().join(format!("headend-recorded-world-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    std::fs::write(folder.join("path.up"), "1\n4\n4\n6\n").expect("a recording");
    std::fs::write(folder.join("net.toml"), NETWORK).expect("a scenario");
    let scenario = Scenario::load(&folder.join("net.toml")).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_dir_all(&folder).expect("it is there");
    // 6000 B in 6 ms are 8 Mbit/s: a megabyte and its headers take 1.027 s, and the slow start a little.
    let (outcome, _) = World::build(&scenario, 0, false).run(0, &|| false).unwrap();
    let seconds = outcome.flows[0].transfer_ns.expect("it completes") as f64 / 1e9;
    assert!((1.027..1.2).contains(&seconds), "{seconds} s");
}
