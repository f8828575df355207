//! `headend lab` as its users meet it. Networks of real hosts take root: these tests say so where they are skipped.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use headend_engine::rng::Rng;
use headend_host::socket::Memory;
use headend_host::{netns, privilege};
use serde_json::Value;
use tempfile::TempDir;

/// Two hosts, a router and 300 KB, which take about a second.
const SMALL: &str = r#"
title = "Small"
duration = "20s"
[nodes.a]
personality = "linux"
[nodes.r]
kind = "router"
[nodes.b]
personality = "linux"
[links.ar]
between = ["a", "r"]
rate = "100Mbit/s"
[links.rb]
between = ["r", "b"]
rate = "4Mbit/s"
delay = "10ms"
queue = "20 packets"
[flows.f]
from = "a"
to = "b"
bytes = "300KB"
"#;

/// One lab at a time: they would take each other's time, and one test looks for what is left.
static ALONE: Mutex<()> = Mutex::new(());

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(TempDir::new().expect("a folder"));
        fs::write(place.0.path().join("small.toml"), SMALL).expect("the scenario is written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.current_dir(self.0.path()).args(arguments).stdin(Stdio::null());
        // What is tested here holds on a busy machine too.
        if matches!(arguments, ["lab" | "compare", file, ..] if *file != "clean") {
            command.arg("--accept-late");
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Starts a command whose output is of no interest.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("stdout is JSON and nothing else")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        eprintln!("skipped: making networks takes root");
    }
    is_root
}

/// Namespaces of the lab that process `pid` runs.
fn namespaces(pid: u32) -> Vec<String> {
    let prefix = format!("headend-lab-{pid}-");
    netns::names().expect("names can be listed").into_iter().filter(|name| name.starts_with(&prefix)).collect()
}

/// Waits until `is_so`, for a generous while.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: not after 30 s");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_lab_prints_the_simulator_s_tables_and_agrees_that_all_arrived() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let [lab, sim] = ["lab", "sim"].map(|kind| place.json(&[kind, "small.toml", "--format", "json", "-q"]));
    for table in ["flows", "links"] {
        let columns =
            |results: &Value| -> Vec<String> { results[table].as_object().expect("a table").keys().cloned().collect() };
        assert_eq!(columns(&lab), columns(&sim), "{table}");
        for column in ["flow", "instance", "link", "direction", "bytes", "completed", "fault", "point", "run", "seed"] {
            assert_eq!(lab[table][column], sim[table][column], "{table} {column}");
        }
    }
    assert!(lab["runs"][0]["kept_up"].is_boolean(), "{:#}", lab["runs"]);
    let flows = &lab["flows"];
    // 300 KB over 4 Mbit/s take 0.6 s and no less, and the path has 20 ms.
    assert!(flows["transfer_s"][0].as_f64().is_some_and(|transfer| transfer > 0.6), "{flows:#}");
    assert!(flows["rtt_min_s"][0].as_f64().is_some_and(|rtt| rtt >= 0.020), "{flows:#}");
    assert!(flows["segments_sent"][0].as_u64().is_some_and(|segments| segments >= 300_000 / 1_460), "{flows:#}");
    assert!(flows["cwnd_max_bytes"][0].as_u64().is_some_and(|cwnd| cwnd > 0), "{flows:#}");
    // What a link delivers has a header for every segment.
    let delivered = lab["links"]["delivered_bytes"][2].as_u64().expect("a count");
    assert!(delivered > 300_000, "{:#}", lab["links"]);
}

#[test]
fn requests_and_connections_made_beforehand_run_between_real_hosts() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let more = r#"
[flows.page]
kind = "http-get"
from = "a"
to = "b"
request = "200B"
header = "250B"
bytes = "20KB"
start = "100ms"
count = 3
stagger = "50ms"
[flows.file]
kind = "ftp-get"
from = "b"
to = "a"
bytes = "20KB"
[flows.ready]
from = "b"
to = "a"
bytes = "10000B"
handshake = false
whole_segments = true
"#;
    fs::write(place.path("small.toml"), format!("{SMALL}{more}")).expect("written");
    let [lab, sim] = ["lab", "sim"].map(|kind| place.json(&[kind, "small.toml", "--format", "json", "-q"]));
    for column in ["flow", "instance", "bytes", "completed", "fault", "start_s"] {
        assert_eq!(lab["flows"][column], sim["flows"][column], "{column}");
    }
}

#[test]
fn a_folder_of_results_has_the_series_and_says_if_the_machine_kept_up() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let output = place.run(&["lab", "small.toml", "--out", "results", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let series = fs::read_to_string(place.path("results/series.csv")).expect("written");
    let mut lines = series.lines();
    let heading = lines.next().expect("a heading");
    assert!(heading.starts_with("point,run,seed,flow,instance,time_s,cwnd_bytes,ssthresh_bytes"), "{heading}");
    assert!(lines.count() > 10, "a second has two hundred samples, and the window grows");
    let meta = fs::read_to_string(place.path("results/meta.json")).expect("written");
    let meta: Value = serde_json::from_str(&meta).expect("JSON");
    assert!(meta["lab"][0]["kept_up"].is_boolean(), "{meta:#}");
}

#[test]
fn both_sides_of_a_comparison_agree_if_nothing_is_left_to_chance() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let sweep = ["--sweep", "links.rb.rate=2Mbit/s,4Mbit/s", "--runs", "2", "--together", "2", "-q"];
    let compared = place.json(&[&["compare", "small.toml", "--format", "json", "--out", "out"], &sweep[..]].concat());
    let rows = &compared["rows"];
    assert_eq!(rows["links.rb.rate"], serde_json::json!(["2Mbit/s", "4Mbit/s"]));
    for row in 0..2 {
        let [linux, sim] = ["goodput_linux_bps", "goodput_sim_bps"].map(|name| rows[name][row].as_f64().expect(name));
        // 300 KB through a link without loss: both fill it. A machine with other things to do is given a third.
        assert!((0.66..1.5).contains(&(sim / linux)), "{sim} against {linux}");
    }
    assert_eq!(compared["runs"].as_array().map(Vec::len), Some(4));
    let by = compared["series"]["by"].as_array().expect("a column");
    assert!(by.contains(&Value::from("sim")) && by.contains(&Value::from("linux")));
    for file in ["comparison.csv", "series.csv", "sim-flows.csv", "linux-flows.csv", "scenario.toml", "meta.json"] {
        assert!(place.path("out").join(file).is_file(), "{file}");
    }
}

/// A subscriber on a lossy cable, a proxy and a server.
const SPLIT: &str = r#"
title = "Split"
duration = "20s"
[nodes.server]
[nodes.proxy]
kind = "proxy"
local_link = "cable"
local = { personality = "linux", tcp = { rto_min = "50ms" } }
[nodes.pc]
[links.internet]
between = ["server", "proxy"]
rate = "50Mbit/s"
delay = "20ms"
[links.cable]
between = ["proxy", "pc"]
rate = "10Mbit/s"
delay = "5ms"
queue = "50 packets"
loss = { model = "list", packets = [40, 41, 90] }
back = { loss = "0%" }
[flows.get]
kind = "http-get"
from = "server"
to = "pc"
via = "proxy"
bytes = "300KB"
"#;

#[test]
fn a_flow_via_a_proxy_goes_through_the_real_one_either_way() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let pushed = SPLIT.replace("http-get", "bulk").replace("[flows.get]", "[flows.put]");
    let store = SPLIT.replace("kind = \"proxy\"", "kind = \"proxy\"\nrelay = \"store\"");
    for (flow, text) in [("get", SPLIT), ("put", pushed.as_str()), ("get", store.as_str())] {
        fs::write(place.path("split.toml"), text).expect("the scenario is written");
        let printed = place.json(&["lab", "split.toml", "--format", "json", "-q"]);
        let flows = &printed["flows"];
        assert_eq!((&flows["completed"][0], &flows["flow"][0]), (&1.into(), &flow.into()), "{flows}");
        // Once to the proxy and once from it, and what the cable lost is the proxy's to repair.
        let segments = flows["segments_sent"][0].as_u64().expect("a count");
        assert!((2 * 300_000 / 1_460..600).contains(&segments), "{flows}");
        let proxy = &printed["runs"][0]["proxies"][0];
        assert!(proxy["down_bytes"].as_u64() >= Some(300_000), "{printed}");
        assert!(proxy["local_retransmits"].as_u64() >= Some(3) && proxy["remote_retransmits"] == 0, "{proxy}");
        assert!(flows["rtt_min_s"][0].as_f64() < Some(0.06), "the server's round trip ends at the proxy: {flows}");
    }
    assert_eq!(text(&place.run(&["lab", "clean"]).stdout).trim(), "nothing to remove");
}

/// Between the routers of two sites a link that drops headers first, and a circuit over it.
const SITES: &str = r#"
duration = "60s"
interval = "100ms"
[nodes.a]
[nodes.west]
kind = "router"
[nodes.east]
kind = "router"
[nodes.b]
[links.a]
between = ["a", "west"]
rate = "100Mbit/s"
[links.core]
between = ["west", "east"]
rate = "4Mbit/s"
delay = "5ms"
queue = { model = "header-drop", headers = 16, buffer = "100KB" }
[links.b]
between = ["east", "b"]
rate = "100Mbit/s"
[circuits.it]
from = "west"
to = "east"
vmss = "1500B"
gmb = "400kbit/s"
[flows.call]
kind = "datagrams"
from = "a"
to = "b"
rate = "200kbit/s"
packet = "500B"
[flows.f]
from = "a"
to = "b"
bytes = "200KB"
"#;

#[test]
fn circuits_run_as_trunks_between_real_sites_in_either_carriage() {
    let _alone = ALONE.lock();
    let missing = [false, true].map(privilege::missing_for_trunks).concat();
    if !is_root() || !missing.is_empty() {
        eprintln!("skipped: trunks need {}", missing.join("; "));
        return;
    }
    let place = Place::new();
    let sealed = "vmss = \"1500B\"";
    for (text, carriage) in
        [(SITES.to_owned(), "native"), (SITES.replace(sealed, "loss_signal = \"in-band\""), "sealed")]
    {
        // The stream has no end: the run ends with its time.
        fs::write(place.path("sites.toml"), text).expect("the scenario is written");
        let lab = place.json(&["lab", "sites.toml", "--set", "duration=4s", "--format", "json", "-q"]);
        let (trunk, circuit) = (&lab["runs"][0]["trunks"][0], |what: &str| lab["circuits"][what][0].as_u64());
        assert_eq!((trunk["circuit"].as_str(), trunk["carriage"].as_str()), (Some("it"), Some(carriage)), "{trunk:#}");
        assert!(circuit("controlled_bytes") > Some(0), "{:#}", lab["circuits"]);
        assert_eq!(circuit("headers") > Some(0), carriage == "native", "{:#}", lab["circuits"]);
        assert!(circuit("sent_bytes") > circuit("controlled_bytes"), "{:#}", lab["circuits"]);
        for flow in 0..2 {
            assert!(lab["flows"]["goodput_bps"][flow].as_f64() > Some(0.0), "{:#}", lab["flows"]);
        }
        let arrived: Vec<&str> =
            lab["intervals"]["name"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
        assert!(["call", "f", "core"].iter().all(|name| arrived.contains(name)), "spans of flows and links");
    }
    assert_eq!(text(&place.run(&["lab", "clean"]).stdout), "nothing to remove\n");
}

#[test]
fn what_no_trunk_does_is_refused_with_line_and_field() {
    let place = Place::new();
    fs::write(place.path("sites.toml"), SITES.replace("[flows.call]", "drops = \"early\"\n[flows.call]"))
        .expect("written");
    let output = place.run(&["lab", "sites.toml"]);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("sites.toml:26: circuits.it.drops: a trunk drops"),
        "{said}"
    );
}

#[test]
fn a_flow_with_both_ends_on_one_side_of_its_proxy_is_refused() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let text_of_it = SPLIT.replace("local_link = \"cable\"", "local_link = \"other\"") + OTHER;
    fs::write(place.path("split.toml"), text_of_it).expect("the scenario is written");
    let done = place.run(&["lab", "split.toml", "-q"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("flows.get.via: neither of \"server\" and \"pc\" lies behind the `local_link`"), "{said}");
}

/// A link of the proxy that leads to neither end.
const OTHER: &str = "[nodes.aside]\n[links.other]\nbetween = [\"proxy\", \"aside\"]\nrate = \"1Mbit/s\"\n";

#[test]
fn an_option_that_the_kernel_cannot_have_is_reported() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let output = place.run(&["lab", "small.toml", "-q", "--set", "nodes.a.personality=bsd-reno-1996"]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("a: recovery is not as the scenario says: in Linux there is no Reno"), "{said}");
    assert!(!said.contains("b: "), "{said}");
}

#[test]
fn without_privilege_it_says_which_is_missing_and_what_to_run_instead() {
    let place = Place::new();
    let mut command = if is_root() {
        // Somebody without any, who can read what is here.
        let binary = place.path("headend");
        fs::copy(env!("CARGO_BIN_EXE_headend"), &binary).expect("copied");
        for (path, mode) in [(place.0.path().to_owned(), 0o755), (binary.clone(), 0o755)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let mut command = Command::new(binary);
        command.current_dir(place.0.path()).uid(65_534).gid(65_534);
        command
    } else {
        place.command(&[])
    };
    let output = command.args(["lab", "small.toml"]).stdin(Stdio::null()).output().expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_SYS_ADMIN") && said.contains("CAP_NET_ADMIN"), "{said}");
    assert!(said.contains("headend sim small.toml"), "{said}");
}

#[test]
fn an_interrupted_lab_takes_everything_down_before_it_ends() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    for signal in ["INT", "TERM"] {
        let mut lab = place.start(&["lab", "small.toml", "--set", "flows.f.bytes=90MB", "-q"]);
        wait_until("its namespaces are there", || namespaces(lab.id()).len() == 2);
        thread::sleep(Duration::from_millis(200));
        let killed = Command::new("kill").args([format!("-{signal}"), lab.id().to_string()]).status();
        assert!(killed.expect("kill is on every system").success());
        assert_eq!(lab.wait().expect("it ends").code(), Some(130), "{signal}");
        assert_eq!(namespaces(lab.id()), Vec::<String>::new(), "{signal}");
    }
}

/// True if `program` can be run here; says so if not.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|folder| folder.join(program).is_file());
    if !is_there {
        eprintln!("skipped: no {program} on this machine");
    }
    is_there
}

#[test]
fn real_programs_send_the_same_bytes() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::write(place.path("web.toml"), SMALL.replace("[flows.f]", "[flows.f]\nkind = \"http-get\"")).expect("written");
    for (program, needed, file) in
        [("iperf3", vec!["iperf3"], "small.toml"), ("curl", vec!["curl", "nginx"], "web.toml")]
    {
        if !needed.into_iter().all(has) {
            continue;
        }
        let flows = &place.json(&["lab", file, "--with", program, "--format", "json", "-q"])["flows"];
        assert_eq!((&flows["completed"][0], &flows["fault"][0]), (&Value::from(1), &Value::from("")), "{program}");
        assert!(flows["transfer_s"][0].as_f64().is_some_and(|transfer| transfer > 0.6), "{program}: {flows:#}");
        assert!(flows["segments_sent"][0].as_u64().is_some_and(|sent| sent >= 300_000 / 1_460), "{program}: {flows:#}");
    }
}

#[test]
fn a_program_that_cannot_do_a_flow_is_refused_with_the_one_that_can() {
    let _alone = ALONE.lock();
    if !is_root() || !has("iperf3") {
        return;
    }
    let place = Place::new();
    let output = place.run(&["lab", "small.toml", "--with", "iperf3", "--set", "flows.f.kind=http-get"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("flows.f: is an http-get") && said.contains("--with curl"), "{said}");
}

/// `SMALL` with a flow of programs beside its own.
fn with_programs(lines: &str) -> String {
    format!("{SMALL}[flows.own]\nkind = \"program\"\nfrom = \"a\"\nto = \"b\"\n{lines}\n")
}

/// A server that sends so many bytes to each client.
fn sending(bytes: u64) -> String {
    format!(
        "server = [\"python3\", \"-c\", \"import socket\\nl = socket.create_server(('{{server}}', {{port}}))\\nwhile True:\\n  \
         s = l.accept()[0]; s.sendall(b'HTTP/1.0 200 OK\\\\r\\\\n\\\\r\\\\n' + bytes({bytes})); s.shutdown(1); s.recv(9999); s.close()\"]"
    )
}

#[test]
fn a_flow_of_programs_moves_bytes_and_keeps_what_they_say() {
    let _alone = ALONE.lock();
    if !is_root() || !["python3", "curl", "sh"].into_iter().all(has) {
        return;
    }
    let place = Place::new();
    let program = "program = [\"sh\", \"-c\", \"curl -sS http://{server}:{port}/ | wc -c; echo from {client} >&2\"]";
    fs::write(place.path("own.toml"), with_programs(&format!("{}\n{program}", sending(200_000)))).expect("written");
    let told = place.json(&["lab", "own.toml", "--format", "json", "-q", "--out", "out"]);
    let flows = &told["flows"];
    assert_eq!((&flows["flow"][1], &flows["completed"][1], &flows["fault"][1]), (&"own".into(), &1.into(), &"".into()));
    let delivered = flows["bytes"][1].as_u64().expect("a count");
    assert!((200_000..201_000).contains(&delivered), "the file and a line of a header: {delivered}");
    assert!(flows["segments_sent"][1].as_u64().is_some_and(|sent| sent >= 200_000 / 1_460), "{flows:#}");
    let seconds = flows["transfer_s"][1].as_f64().expect("it ended");
    assert!(seconds > 0.4, "200 KB over 4 Mbit/s take longer than {seconds} s");
    let own = &told["runs"][0]["programs"][0];
    assert_eq!((&own["client"]["exit_status"], &own["client"]["stdout"]), (&0.into(), &"200000\n".into()));
    assert_eq!((&own["client"]["host"], &own["client"]["stderr"]), (&"b".into(), &"from 10.77.0.3\n".into()));
    assert!(own["client"]["seconds"].as_f64().is_some_and(|wall| (wall - seconds).abs() < 1e-6), "{own:#}");
    assert!(own["bytes_to_from"].as_u64().is_some_and(|back| back > 40 * 20), "acknowledgements: {own:#}");
    let kept = fs::read_to_string(place.path("out/programs/point0-run0-own-0-client.stdout")).expect("it is kept");
    assert_eq!(kept, "200000\n");
    assert!(place.path("out/programs/point0-run0-own-0-server.stderr").exists());
}

#[test]
fn a_program_that_fails_is_a_fault_and_one_without_end_ends_with_the_run() {
    let _alone = ALONE.lock();
    if !is_root() || !has("sh") {
        return;
    }
    let place = Place::new();
    let of = |program: &str| {
        fs::write(place.path("own.toml"), with_programs(program)).expect("written");
        place.json(&["lab", "own.toml", "--format", "json", "-q", "--set", "duration=2s"])
    };
    let failed = of("program = [\"sh\", \"-c\", \"echo no such thing >&2; exit 7\"]");
    assert_eq!(failed["flows"]["fault"][1], "exit status: 7: no such thing");
    assert_eq!((&failed["flows"]["completed"][1], &failed["flows"]["transfer_s"][1]), (&0.into(), &Value::Null));
    let endless = of("program = [\"sh\", \"-c\", \"sleep 600 | sleep 601\"]");
    let client = &endless["runs"][0]["programs"][0]["client"];
    assert_eq!(
        (&client["ended_with_the_run"], &endless["flows"]["fault"][1]),
        (&true.into(), &"".into()),
        "{client:#}"
    );
    assert!(client["seconds"].as_f64().is_some_and(|seconds| seconds >= 1.5), "{client:#}");
}

#[test]
fn a_flow_of_programs_that_cannot_run_is_refused_with_its_line() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::write(place.path("own.toml"), with_programs("program = [\"no-such-program\", \"x\"]")).expect("written");
    for (command, status, expected) in [
        ("lab", 2, "own.toml:26: flows.own.program: no-such-program: not on the PATH"),
        (
            "sim",
            2,
            "own.toml:23: flows.own.kind: runs real programs, and here hosts are simulated: `headend lab` runs it",
        ),
        ("compare", 2, "own.toml:23: flows.own.kind: runs real programs"),
        ("check", 0, ""),
    ] {
        let output = place.run(&[command, "own.toml"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{command}: {said}");
        assert!(said.contains(expected), "{command}: {said}");
    }
    let deaf = "server = [\"sh\", \"-c\", \"echo not here >&2; exit 3; {port}\"]\nprogram = [\"true\"]";
    fs::write(place.path("deaf.toml"), with_programs(deaf)).expect("written");
    let output = place.run(&["lab", "deaf.toml", "-q"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("flows.own, instance 0, its server, sh: not here"), "{said}");
}

#[test]
fn flows_through_sockets_run_through_real_ones_either_way_of_opening() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::write(place.path("socket.toml"), format!("{SMALL}socket = {{ tcp = {{ controller = \"backfill\" }} }}\n"))
        .expect("written");
    for handshake in ["true", "false"] {
        let handshake = format!("flows.f.handshake={handshake}");
        let arguments =
            ["lab", "socket.toml", "--format", "json", "-q", "--set", &handshake, "--set", "links.rb.loss=5%"];
        let (told, simulated) = (place.json(&arguments), place.json(&["sim", "socket.toml", "--format", "json", "-q"]));
        let flows = &told["flows"];
        assert_eq!((&flows["completed"][0], &flows["fault"][0]), (&1.into(), &"".into()), "{flows:#}");
        // 300 KB over 4 Mbit/s take 0.6 s, and one in twenty packets is sent again.
        let seconds = flows["transfer_s"][0].as_f64().expect("it is complete");
        assert!((0.6..3.0).contains(&seconds), "{seconds} s");
        let sent = flows["segments_sent"][0].as_u64().expect("a count");
        assert!((300_000 / 1_500..600).contains(&sent), "{sent} datagrams");
        assert!(
            flows["throughput_bps"][0].as_f64() > flows["goodput_bps"][0].as_f64(),
            "headers are counted: {flows:#}"
        );
        assert_eq!(told["circuits"]["circuit"], simulated["circuits"]["circuit"], "a row of the same name");
        assert!(told["circuits"]["datagrams_lost"][0].as_u64() > Some(0), "5% are lost: {told:#}");
    }
}

#[test]
fn programs_end_with_the_lab_that_was_killed() {
    let _alone = ALONE.lock();
    if !is_root() || !has("iperf3") {
        return;
    }
    let place = Place::new();
    let mut lab = place.start(&["lab", "small.toml", "--set", "flows.f.bytes=90MB", "--with", "iperf3", "-q"]);
    let inside = |pid: u32| -> usize {
        let processes = |name: &String| netns::Namespace::open(name).and_then(|namespace| namespace.processes());
        namespaces(pid).iter().map(|name| processes(name).map_or(0, |all| all.len())).sum()
    };
    wait_until("iperf3 runs at both ends", || inside(lab.id()) == 2);
    lab.kill().expect("it is ours");
    lab.wait().expect("it is ours");
    wait_until("they have ended", || inside(lab.id()) == 0);
    assert_eq!(place.run(&["lab", "clean"]).status.code(), Some(0));
    assert_eq!(namespaces(lab.id()), Vec::<String>::new());
}

/// Connections without a program that may come of other work on this machine while a test runs.
const OTHERS: u64 = 5;

/// Connections of the whole machine that no program has any more and that the kernel still keeps.
fn orphans() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").expect("/proc is mounted");
    let line = text.lines().find(|line| line.starts_with("TCP:")).expect("every Linux counts them");
    let mut words = line.split(' ').skip_while(|word| *word != "orphan");
    words.nth(1).and_then(|count| count.parse().ok()).expect("a count")
}

#[test]
fn a_flow_that_is_cut_short_leaves_no_connection_behind() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let before = orphans();
    let flows = ["--set", "flows.f.bytes=90MB", "--set", "flows.f.count=20"];
    let output = place.run(&[&["lab", "small.toml", "-q", "--set", "duration=1s"], &flows[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(orphans() <= before + OTHERS, "{} connections, {before} before", orphans());
}

/// A lab of 30 flows, which need more than 90 descriptors, where a shell has set a limit.
fn limited(place: &Place, limit: &str) -> Output {
    let script = format!(
        "ulimit {limit} && exec \"$0\" lab small.toml -q --accept-late --set duration=1s --set flows.f.count=30"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_headend")]).current_dir(place.0.path());
    command.stdin(Stdio::null()).output().expect("a shell runs")
}

#[test]
fn a_refusal_of_the_machine_ends_the_lab_and_is_no_result() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let output = limited(&place, "-n 64");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{said}");
    assert!(said.contains("flows.f, instance ") && said.contains("Too many open files"), "{said}");
    // A limit that may be raised is.
    let output = limited(&place, "-S -n 64");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_connection_that_cannot_be_made_beforehand_ends_the_run_soon() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let lossy = ["--set", "flows.f.handshake=false", "--set", "links.rb.loss=100%", "--set", "duration=1s"];
    let begun = Instant::now();
    let flows = &place.json(&[&["lab", "small.toml", "-q", "--format", "json"], &lossy[..]].concat())["flows"];
    // Linux itself tries for two minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!((&flows["completed"][0], &flows["goodput_bps"][0]), (&Value::from(0), &Value::from(0.0)), "{flows:#}");
}

#[test]
fn files_of_others_where_labs_keep_theirs_are_left_alone() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let files = ["headend-lab-1-1-0", "headend-lab-1-1-1"].map(|name| place.path(name));
    fs::write(&files[0], "").expect("written");
    fs::create_dir(&files[1]).expect("made");
    let ours = place.path("headend-lab-1-1-2");
    fs::create_dir(&ours).expect("made");
    std::os::unix::fs::chown(&files[1], Some(65_534), None).expect("we are root");
    let output = place.command(&["lab", "clean"]).env("TMPDIR", place.0.path()).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(files.iter().all(|file| file.exists()) && !ours.exists(), "{}", text(&output.stdout));
}

#[test]
fn a_run_while_the_machine_is_short_of_memory_for_tcp_is_marked() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let place = Place::new();
    let _held = hold_memory();
    // For this lab alone, in a mount namespace of its own: a limit that any data exceeds. The kernel's stays as it is.
    fs::write(place.path("tcp_mem"), "0 1 2\n").expect("written");
    let script =
        "mount --bind tcp_mem /proc/sys/net/ipv4/tcp_mem || exit 77; exec \"$0\" lab small.toml --out results -q";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_headend")]).current_dir(place.0.path());
    let output = command.stdin(Stdio::null()).output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(77)) else {
        eprintln!("skipped: no mount namespace here");
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "results that are not to be relied on: {said}");
    assert!(said.contains("In 1 of 1 runs TCP held more memory") && said.contains("net.ipv4.tcp_mem"), "{said}");
    let meta = fs::read_to_string(place.path("results/meta.json")).expect("written");
    let meta: Value = serde_json::from_str(&meta).expect("JSON");
    assert_eq!(
        (&meta["lab"][0]["short_of_memory"], &meta["lab"][0]["kept_up"]),
        (&Value::from(true), &Value::from(false))
    );
}

/// Connections on loopback with unread data, until the kernel's count shows it. Each core charges up to 1 MiB (256 pages)
/// before it tells, so that a count after little data may be 0.
fn hold_memory() -> Vec<(TcpStream, TcpStream)> {
    const UNTOLD_BY_A_CORE: u64 = 256;
    let cores = thread::available_parallelism().expect("known").get() as u64;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut held = Vec::new();
    while Memory::now().expect("Linux tells").held_pages <= 2 * UNTOLD_BY_A_CORE * cores {
        assert!(held.len() < 1000, "{:?} with {} connections full of data", Memory::now(), held.len());
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (far, _) = listener.accept().expect("connected");
        near.set_nonblocking(true).expect("a socket can");
        while (&near).write(&[0; 65_536]).is_ok() {}
        held.push((near, far));
    }
    held
}

/// The issue's measure of cleanliness: 20 labs killed at random times, and one `headend lab clean`.
#[test]
fn labs_killed_at_random_times_leave_nothing_that_clean_does_not_remove() {
    let _alone = ALONE.lock();
    if !is_root() {
        return;
    }
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    println!("seed {seed}");
    let mut rng = Rng::named(seed, "kills");
    let place = Place::new();
    let rules_before = listed(&["rule", "show"]);
    let devices_before = listed(&["-o", "link", "show"]);
    let orphans_before = orphans();
    let (mut killed, mut left) = (Vec::new(), 0);
    for _ in 0..20 {
        let mut lab = place.start(&["lab", "small.toml", "--set", "flows.f.bytes=90MB", "-q"]);
        thread::sleep(Duration::from_micros(rng.below(400_000)));
        lab.kill().expect("it is ours");
        lab.wait().expect("it is ours");
        left += namespaces(lab.id()).len();
        killed.push(lab.id());
    }
    assert!(left > 0, "some were killed while they had namespaces");
    // One that runs is none of clean's business.
    let mut live = place.start(&["lab", "small.toml", "--set", "flows.f.bytes=90MB", "-q"]);
    wait_until("its namespaces are there", || namespaces(live.id()).len() == 2);
    let output = place.run(&["lab", "clean"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(namespaces(live.id()).len(), 2, "a lab that runs keeps what it has");
    assert!(live.try_wait().expect("it is ours").is_none(), "and it goes on");
    live.kill().expect("it is ours");
    live.wait().expect("it is ours");
    killed.push(live.id());
    assert_eq!(place.run(&["lab", "clean"]).status.code(), Some(0));
    for pid in killed {
        assert_eq!(namespaces(pid), Vec::<String>::new());
        assert!(fs::metadata(format!("/proc/{pid}")).is_err(), "no process {pid}");
    }
    assert_eq!(listed(&["rule", "show"]), rules_before);
    assert_eq!(listed(&["-o", "link", "show"]), devices_before);
    let again = place.run(&["lab", "clean"]);
    assert_eq!(text(&again.stdout), "nothing to remove\n");
    // What killed senders had written goes without a name to ask for it: 21 connections at most, and others have theirs.
    wait_until("the kernel has given up their connections", || orphans() <= orphans_before + OTHERS);
}

/// The output of `ip`, or nothing where there is no `ip`.
fn listed(arguments: &[&str]) -> String {
    let Ok(mut child) = Command::new("ip").args(arguments).stdout(Stdio::piped()).spawn() else { return String::new() };
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("it prints text");
    child.wait().expect("it is ours");
    text
}
