//! The binary as its users meet it: exit codes, messages on stderr, nothing but results on stdout.

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Two hosts and 30 KB; a run takes a fraction of a millisecond.
const SMALL: &str = r#"
title = "Small"
runs = 3
[nodes.a]
[nodes.b]
[links.wire]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "5ms"
loss = "2%"
[flows.f]
from = "a"
to = "b"
bytes = "30KB"
"#;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(TempDir::new().expect("a folder"));
        fs::write(place.path("small.toml"), SMALL).expect("the scenario is written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.current_dir(self.0.path()).args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Stdout of a run that must succeed and say nothing on stderr.
    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        text(&output.stdout)
    }

    /// Stderr of a run that must end with `code` and print nothing.
    fn refusal(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_wrong_request_exits_with_2_and_says_what_is_allowed() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), SMALL.replace("10Mbit/s", "10Mbits")).expect("written");
    for (arguments, expected) in [
        (vec!["sim", "bad.toml"], "bad.toml:8: links.wire.rate: found \"10Mbits\", expected a rate such as"),
        (vec!["check", "bad.toml"], "links.wire.rate"),
        (vec!["sim", "none.toml"], "none.toml: No such file"),
        (vec!["sim", "."], ".: Is a directory"),
        (vec!["sim"], "FILE"),
        (vec!["sim", "small.toml", "--fast"], "--fast"),
        (vec!["sim", "small.toml", "--set", "runs"], "expected PATH=VALUE"),
        (vec!["sim", "small.toml", "--set", "links.wyre.loss=1%"], "did you mean \"wire\"?"),
        (vec!["sim", "small.toml", "--sweep", "links.wire.loss=1%,two"], "sweep: links.wire.loss: found \"two\""),
        (vec!["sim", "small.toml", "--runs", "0"], "runs: found 0"),
        (vec!["sim", "small.toml", "--threads", "0"], "--jobs"),
        (vec!["sim", "small.toml", "--resume"], "--out"),
        (vec!["sim", "small.toml", "--trace"], "--out"),
        (vec!["sim", "small.toml", "--pcap", "x", "--runs", "5000"], "at most 1000"),
        (vec!["sim", "small.toml", "--out", ".."], "a folder with a name"),
        (vec!["sim", "small.toml", "--out", "small.toml"], "small.toml: is there and is no folder"),
        (
            vec!["size", "--modem-buffer", "10", "--down", "25M", "--lan", "10M", "--connections", "1"],
            "expected a size",
        ),
        (vec!["size", "--trunk", "--link", "5M", "--gmb", "5M", "--connections", "1"], "less than the link's rate"),
        (vec!["size", "--trunk", "--link", "5M", "--connections", "1", "--user-rtt", "2"], "a time such as 200ms"),
        (vec!["nonsense"], "nonsense"),
        (vec![], "Usage"),
    ] {
        let message = place.refusal(&arguments, 2);
        assert!(message.contains(expected), "{arguments:?} said: {message}");
    }
    assert_eq!(names(place.0.path()), ["bad.toml", "small.toml"], "nothing half-written is left");
}

#[test]
fn a_failure_exits_with_1() {
    let place = Place::new();
    fs::write(place.path("out.part"), "in the way").expect("written");
    let message = place.refusal(&["sim", "small.toml", "--quiet", "--out", "out"], 1);
    assert!(message.contains("out.part"), "{message}");
    assert_eq!(names(place.0.path()), ["out.part", "small.toml"], "nothing half-written is left");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_made_is_refused_before_anything_is_run() {
    let place = Place::new();
    // It takes minutes, and nobody may make folders there.
    let long = ["sim", "small.toml", "--quiet", "--runs", "10000000", "--out", "/proc/results/run"];
    let message = place.refusal(&long, 1);
    assert!(message.contains("/proc/results/run.part"), "{message}");
    place.stdout(&["sim", "small.toml", "--quiet", "--out", "a/b/c"]);
    assert_eq!(names(&place.path("a/b")), ["c"], "nothing that was made for trying is left");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_stdout_is_a_failure() {
    let place = Place::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has /dev/full");
    let output = place.command(&["schema"]).stdout(full).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: stdout: "), "{}", text(&output.stderr));
}

#[test]
fn a_mistake_is_shown_in_its_line_with_a_caret_beneath() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), SMALL.replace("10Mbit/s", "10Mbits")).expect("written");
    let said = place.refusal(&["sim", "bad.toml"], 2);
    assert!(said.starts_with("error: bad.toml:8: "), "{said}");
    assert!(said.contains("8 | rate = \"10Mbits\"\n") && said.contains("|        ^^^^^^^^^"), "{said}");
    assert!(!said.contains('\x1b'), "no colours in a file: {said:?}");
    assert!(place.refusal(&["sim", "bad.toml", "--color", "always"], 2).starts_with("\x1b["), "unless asked for");
    fs::write(place.path("proxy.toml"), "[[listen]]\naddress = \"127.0.0.1:0\"\nway = \"ftp\"\n").expect("written");
    let said = place.refusal(&["proxy", "--config", "proxy.toml", "--check"], 2);
    assert!(said.contains("error: proxy.toml:3: ") && said.contains("3 | way = \"ftp\"\n"), "{said}");
}

#[test]
fn an_example_from_the_binary_runs_from_standard_input() {
    let place = Place::new();
    let example = place.stdout(&["examples", "hfc"]);
    let mut child = place
        .command(&["sim", "-", "--quiet", "--runs", "1", "--set", "links.cable.down.loss=0%", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(example.as_bytes()).expect("it reads all");
    let output = child.wait_with_output().expect("it ends");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (output.status.code(), json["flows"]["goodput_bps"].as_array().map(Vec::len)),
        (Some(0), Some(1)),
        "{json}"
    );
    assert!(place.refusal(&["examples", "hcf"], 2).contains("did you mean \"hfc\"? there are hfc,"));
    assert_eq!(place.stdout(&["examples", "hfc", "--out", "."]), "./hfc.toml\n");
    assert!(place.refusal(&["examples", "hfc", "--out", "."], 2).contains("is there already"));
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    place.stdout(&["man", "--out", "man1"]);
    let pages = names(&place.path("man1"));
    for page in ["headend.1", "headend-sim.1", "headend-trunk-up.1", "headend-proxy-rules-apply.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is among {pages:?}");
    }
    let sim = fs::read_to_string(place.path("man1/headend-sim.1")).expect("a page");
    assert!(sim.contains("\\-\\-sweep") && sim.contains("Sweep a field over values"), "{sim}");
}

#[test]
fn check_counts_what_a_scenario_has_and_runs_nothing() {
    let place = Place::new();
    let said = place.stdout(&["check", "small.toml", "--sweep", "links.wire.loss=0%,1%"]);
    assert_eq!(said, "small.toml: 2 nodes, 1 link, 1 flow, 2 points, 3 runs of each\n");
}

#[test]
fn the_table_has_a_row_per_point_and_units_in_its_headings() {
    let place = Place::new();
    let table = place.stdout(&["sim", "small.toml", "--sweep", "links.wire.loss=0%,1%,2%"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "Small");
    assert!(lines[2].starts_with("links.wire.loss  flow  runs"), "{table}");
    assert!(lines[2].contains("goodput [Mbit/s]") && lines[2].contains("transfer [s]"), "{table}");
    assert_eq!(lines[3..6].iter().filter(|line| line.contains('%')).count(), 3, "{table}");
    assert!(lines.last().expect("a line").ends_with("seeds 1 to 3."), "{table}");
}

#[test]
fn csv_and_json_have_all_rows_and_nothing_else() {
    let place = Place::new();
    let csv = place.stdout(&["sim", "small.toml", "--format", "csv", "--sweep", "links.wire.loss=0%,1%"]);
    assert_eq!(csv.lines().count(), 1 + 2 * 3, "a heading, and a row for each point and run");
    assert!(csv.starts_with("point,links.wire.loss,run,seed,flow,instance,bytes,"), "{csv}");
    let json: Value = serde_json::from_str(&place.stdout(&["sim", "small.toml", "--format", "json"])).expect("JSON");
    let goodput = json["flows"]["goodput_bps"].as_array().expect("a column");
    assert_eq!(goodput.len(), 3);
    assert!(goodput.iter().all(|bps| (1e5..1e7).contains(&bps.as_f64().expect("a number"))), "{goodput:?}");
    assert_eq!(json["links"]["direction"].as_array().expect("a column").len(), 6, "two directions a run");
}

#[test]
fn results_are_the_same_bytes_whatever_the_number_of_threads() {
    let place = Place::new();
    let run =
        |threads: &str| place.stdout(&["sim", "small.toml", "--runs", "20", "--format", "csv", "--threads", threads]);
    assert_eq!(run("1"), run("2"));
    assert_ne!(run("1"), place.stdout(&["sim", "small.toml", "--runs", "20", "--format", "csv", "--seed", "99"]));
}

#[test]
fn an_output_folder_has_all_that_is_needed_to_run_again() {
    let place = Place::new();
    place.stdout(&["sim", "small.toml", "--set", "links.wire.loss=3%", "--out", "first", "--format", "csv"]);
    assert_eq!(names(&place.path("first")), ["flows.csv", "links.csv", "meta.json", "scenario.toml"]);
    place.stdout(&["sim", "first/scenario.toml", "--out", "second"]);
    let read = |name: &str| fs::read_to_string(place.path(name)).expect("a file");
    assert_eq!(read("first/flows.csv"), read("second/flows.csv"));
    assert!(read("first/scenario.toml").contains("loss = \"3%\""));
    let meta: Value = serde_json::from_str(&read("first/meta.json")).expect("JSON");
    assert_eq!((&meta["runs"], &meta["seed"], &meta["points"]), (&3.into(), &1.into(), &1.into()));
    assert_eq!(meta["units"]["flows"]["goodput_bps"], "bit/s");
    assert_eq!(names(place.0.path()), ["first", "second", "small.toml"], "no part of a folder is left");
}

#[test]
fn only_force_replaces_a_folder_and_only_one_that_holds_results() {
    let place = Place::new();
    place.stdout(&["sim", "small.toml", "--out", "out"]);
    assert!(place.refusal(&["sim", "small.toml", "--out", "out"], 2).contains("--force"));
    place.stdout(&["sim", "small.toml", "--out", "out", "--force", "--runs", "1"]);
    let flows = fs::read_to_string(place.path("out/flows.csv")).expect("a file");
    assert_eq!(flows.lines().count(), 2, "the new results");
    fs::create_dir(place.path("mine")).expect("made");
    fs::write(place.path("mine/letter.txt"), "dear").expect("written");
    let message = place.refusal(&["sim", "small.toml", "--out", "mine", "--force"], 2);
    assert!(message.contains("holds no results"), "{message}");
    assert_eq!(names(&place.path("mine")), ["letter.txt"]);
    assert_eq!(names(place.0.path()), ["mine", "out", "small.toml"]);
}

#[test]
fn traces_and_captures_are_written_on_demand() {
    let place = Place::new();
    place.stdout(&["sim", "small.toml", "--runs", "1", "--out", "trace", "--trace"]);
    assert!(names(&place.path("trace")).contains(&"series.csv".to_owned()));
    assert!(names(&place.path("trace")).iter().all(|name| !name.ends_with(".pcapng")));
    place.stdout(&["sim", "small.toml", "--runs", "1", "--pcap", "pcap"]);
    let captures = names(&place.path("pcap")).into_iter().filter(|name| name.ends_with(".pcapng")).count();
    assert_eq!(captures, 2, "one for each host");
    assert!(!names(&place.path("pcap")).contains(&"series.csv".to_owned()));
}

#[test]
fn size_gives_the_papers_nineteen_kilobytes_and_shows_how() {
    let place = Place::new();
    let paper = ["size", "--modem-buffer", "10KB", "--down", "25M", "--lan", "10M", "--connections", "1"];
    let derivation = place.stdout(&paper);
    assert!(derivation.contains("(B - 1)(1 - 10Mbit/s / 25Mbit/s)"), "{derivation}");
    assert!(derivation.contains("19.0 KB (12.67 packets of 1500B)"), "{derivation}");
    let json: Value = serde_json::from_str(&place.stdout(&[&paper[..], &["--format", "json"]].concat())).expect("JSON");
    assert_eq!(json["one_drop"]["wire_bytes"], 19_000);
    let fast =
        place.stdout(&["size", "--modem-buffer", "7 packets", "--down", "10M", "--lan", "100M", "--connections", "2"]);
    assert!(fast.contains("limits no window"), "{fast}");
}

#[test]
fn size_gives_the_buffer_of_a_router_that_trunks_pass() {
    let place = Place::new();
    let thesis = ["size", "--trunk", "--link", "9600kbit/s", "--gmb", "4800kbit/s", "--connections", "8"];
    let derivation = place.stdout(&thesis);
    assert!(derivation.contains("64 header packets"), "{derivation}");
    assert!(derivation.contains("222656B"), "{derivation}");
    let json: Value =
        serde_json::from_str(&place.stdout(&[&thesis[..], &["--format", "json"]].concat())).expect("JSON");
    assert_eq!(json["required_bytes"], 222_656);
    assert_eq!(json["header_packets"], 64);
    assert_eq!(json["sender_bytes"], Value::Null);
}

#[test]
fn size_gives_the_buffer_of_a_trunk_s_sender_for_its_users_round_trips() {
    let place = Place::new();
    let trunk = ["size", "--trunk", "--link", "9600kbit/s", "--connections", "8", "--user-rtt", "200ms"];
    // 1.2 MB/s for 0.2 s, halved.
    let derivation = place.stdout(&trunk);
    assert!(derivation.contains("RTTup x TrunkBW / 2") && derivation.contains("120000B"), "{derivation}");
    let half = place.stdout(&[&trunk[..], &["--peak", "4800kbit/s", "--format", "json"]].concat());
    let json: Value = serde_json::from_str(&half).expect("JSON");
    assert_eq!(json["sender_bytes"], 60_000);
}

#[test]
fn the_schema_that_is_printed_is_the_one_that_is_published() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&place.stdout(&["schema"])).expect("JSON");
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/schema.json");
    let published: Value = serde_json::from_str(&fs::read_to_string(published).expect("a file")).expect("JSON");
    assert_eq!(schema, published);
    let all: Value = serde_json::from_str(&place.stdout(&["personalities", "--format", "json"])).expect("JSON");
    assert_eq!(all["hfc-tuned"]["dupack_threshold"], "1");
    assert!(place.stdout(&["personalities"]).contains("dupack_threshold"));
    assert!(place.stdout(&["completions", "bash"]).contains("_headend"));
}

#[test]
fn a_store_is_filled_by_shares_and_what_is_there_is_not_run_again() {
    let place = Place::new();
    let fill = |more: &[&str]| {
        let arguments = ["sim", "small.toml", "--store", "many", "--task-runs", "1", "--quiet"];
        place.stdout(&[&arguments[..], more].concat())
    };
    assert_eq!(fill(&["--shard", "1/2"]), "many: 2 parts with 2 runs are there; 2 of the parts were made now\n");
    assert_eq!(fill(&[]), "many: 3 parts with 3 runs are there; 1 of the parts were made now\n");
    assert_eq!(fs::read_dir(place.path("many/flows")).expect("a folder").count(), 3);
    let said = place.refusal(&["sim", "small.toml", "--store", "many", "--seed", "9"], 2);
    assert!(said.contains("another scenario, sweep, seed or number of runs"), "{said}");
    let said = place.refusal(&["sim", "small.toml", "--store", "many", "--shard", "3/2"], 2);
    assert!(said.contains("such as 3/40"), "{said}");
}

#[test]
fn every_subcommand_and_flag_is_on_the_reference_page() {
    let place = Place::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = fs::read_to_string(page).expect("the page is published");
    let mut missing = Vec::new();
    let mut left = vec![Vec::<String>::new()];
    while let Some(path) = left.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = place.stdout(&[&words[..], &["--help"]].concat());
        let listed = help.split_once("Commands:\n").map_or("", |(_, list)| list.split("\n\n").next().unwrap_or(list));
        let of = |line: &str| {
            line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split(' ').next().map(str::to_owned)
        };
        let inner = listed.lines().filter_map(of).filter(|name| name != "help");
        left.extend(inner.map(|name| [&path[..], &[name]].concat()));
        // A command has a heading, and what is below it is named there.
        let section =
            words.first().map_or(Some(&page[..]), |first| page.split(&format!("\n## headend {first}\n")).nth(1));
        if !section.is_some_and(|section| words[1.min(words.len())..].iter().all(|word| section.contains(word))) {
            missing.push(format!("headend {}", words.join(" ")));
        }
        let options = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let flags = options.flat_map(str::split_whitespace).filter(|word| word.starts_with("--")).map(|word| {
            word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).split(['=', '[']).next().unwrap_or(word)
        });
        let unnamed = flags.filter(|flag| flag.len() > 2 && !page.contains(&format!("`{flag}")));
        missing.extend(unnamed.map(|flag| format!("headend {} {flag}", words.join(" "))));
    }
    assert!(missing.is_empty(), "docs/reference/cli.md lacks {missing:#?}");
}

#[test]
fn an_evaluation_starts_the_python_that_is_named() {
    let place = Place::new();
    let output = |python: &str, words: &[&str]| {
        let mut command = place.command(&[&["evaluate"][..], words].concat());
        command.env("HEADEND_PYTHON", python).output().expect("the binary runs")
    };
    let told = output("/bin/echo", &["fast", "--quick", "--set", "fast_alpha=12", "--out", "there"]);
    let told = String::from_utf8(told.stdout).expect("UTF-8");
    assert!(told.ends_with("--seed 1 --set=fast_alpha=12 --out there --quick -- fast\n"), "{told}");
    let missing = output("/nowhere/python", &["--list"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("HEADEND_PYTHON"), "it says what to do");
}

#[test]
fn a_report_is_refused_before_anything_runs_where_it_cannot_be_made() {
    let place = Place::new();
    let output = |python: &str, words: &[&str]| {
        let mut command = place.command(&[&["sim", "small.toml", "--report"][..], words].concat());
        command.env("HEADEND_PYTHON", python).output().expect("the binary runs")
    };
    let missing = output("/nowhere/python", &["page"]);
    assert_eq!((missing.status.code(), text(&missing.stdout)), (Some(2), String::new()));
    assert!(text(&missing.stderr).contains("HEADEND_PYTHON"), "it says what to do");
    assert!(output("/bin/false", &["page"]).status.code() == Some(2), "a Python without the package");
    fs::create_dir(place.path("full")).expect("a folder");
    fs::write(place.path("full/of"), "something else").expect("a file");
    let full = output("/bin/true", &["full"]);
    assert_eq!(full.status.code(), Some(2));
    assert!(text(&full.stderr).contains("holds no report"), "{}", text(&full.stderr));
    assert!(!place.path("page").exists() && !place.path("full/results").exists(), "nothing is left behind");
}

#[test]
fn a_report_is_made_of_results_that_stay_beside_it() {
    let place = Place::new();
    let words = ["sim", "small.toml", "--quiet", "--format", "csv", "--trace", "--report", "page"];
    let output = place.command(&words).env("HEADEND_PYTHON", "/bin/true").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("point,"), "stdout is for results alone: {}", text(&output.stdout));
    assert!(text(&output.stderr).contains("page/index.html"));
    assert!(place.path("page/results/flows.csv").exists() && place.path("page/results/packets.csv").exists());
    // What the real Python would have made of it.
    fs::write(place.path("page/study.json"), "{}").expect("a file");
    let mut again = place.command(&words);
    let again = again.env("HEADEND_PYTHON", "/bin/true").output().expect("the binary runs");
    assert_eq!(again.status.code(), Some(2), "results are replaced only with --force");
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let forced = place.command(&[&words[..], &["--force"]].concat()).env("HEADEND_PYTHON", "/bin/true").output();
    assert_eq!(forced.expect("the binary runs").status.code(), Some(0));
}

#[test]
fn a_plot_starts_the_python_that_is_named() {
    let place = Place::new();
    let mut command = place.command(&["plot", "out", "-y", "timeouts", "-x", "loss", "-o", "here.svg"]);
    let told = text(&command.env("HEADEND_PYTHON", "/bin/echo").output().expect("the binary runs").stdout);
    assert!(told.ends_with("--y=timeouts --x=loss --out here.svg -- out\n"), "{told}");
}

#[test]
fn the_doctor_says_of_each_thing_whether_it_is_here_and_what_to_do() {
    let place = Place::new();
    let told: Value = serde_json::from_str(&place.stdout(&["doctor", "--format", "json"])).expect("JSON");
    let findings = told["findings"].as_array().expect("a list");
    assert!(findings.len() >= 8, "{told:#}");
    for finding in findings {
        let [name, wanted, more] = ["name", "for", "more"].map(|key| finding[key].as_str().expect("text"));
        assert!(!name.is_empty() && !wanted.is_empty(), "{finding}");
        assert!(finding["here"] == true || !more.is_empty(), "what is missing has a reason: {finding}");
    }
    let text = place.stdout(&["doctor"]);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(place.stdout(&["--version"]).starts_with(concat!("headend ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::new();
    let mut child = place
        .command(&["sim", "small.toml", "--quiet", "--runs", "3000", "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert_eq!((child.wait().expect("it ends").code(), said.as_str()), (Some(0), ""));
}

/// Starts a sweep of many seconds, and interrupts it once the journal has more than `lines` lines.
#[cfg(unix)]
fn interrupted(place: &Place, lines: usize, arguments: &[&str]) -> String {
    let mut child = place
        .command(
            &[
                &["sim", "small.toml", "--quiet", "--runs", "100000", "--set", "flows.f.bytes=3MB", "--out", "out"],
                arguments,
            ]
            .concat(),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let journal = place.path("out.part/journal.jsonl");
    while !fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > lines + 1) {
        assert!(child.try_wait().expect("it runs").is_none(), "100,000 runs do not end so soon");
        std::thread::yield_now();
    }
    let signal = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().expect("sh runs");
    assert!(signal.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_keeps_its_finished_runs_and_says_how_to_go_on() {
    let place = Place::new();
    let said = interrupted(&place, 3, &[]);
    assert!(said.contains("of 100000 runs; the finished ones are kept in out.part."), "{said}");
    assert!(said.contains("--resume"), "{said}");
    let journal = || fs::read_to_string(place.path("out.part/journal.jsonl")).expect("a journal");
    let first = journal();
    let done: usize = said.split_whitespace().nth(3).and_then(|n| n.parse().ok()).expect("interrupted after N");
    assert_eq!(first.lines().count(), done + 1, "a header and the finished runs");
    assert!(!place.path("out").exists(), "no folder of results before all are there");

    let again = ["sim", "small.toml", "--runs", "100000", "--set", "flows.f.bytes=3MB", "--out", "out"];
    assert!(place.refusal(&again, 2).contains("an interrupted sweep is kept here"));
    let other = ["sim", "small.toml", "--out", "out", "--resume"];
    assert!(place.refusal(&other, 2).contains("another scenario"));
    interrupted(&place, done + 2, &["--resume"]);
    assert!(journal().starts_with(&first), "the finished runs are still there, and more");
}

#[test]
fn a_point_that_cannot_run_is_refused_before_any_point_runs() {
    let place = Place::new();
    let sweep = ["--sweep", "links.wire.one_way=false,true"];
    for command in [&["check", "small.toml"][..], &["sim", "small.toml"], &["sim", "small.toml", "--out", "out"]] {
        let refused = place.refusal(&[command, &sweep].concat(), 2);
        assert!(refused.contains("small.toml:13: flows.f.to: no links lead back from \"b\" to \"a\""), "{refused}");
        assert!(refused.contains("(at the point links.wire.one_way = true)"), "{refused}");
    }
    assert!(!place.path("out.part").exists(), "nothing was begun that would have to be resumed");
}

#[test]
fn an_unknown_option_is_answered_with_a_tip_that_helps_or_with_none() {
    let place = Place::new();
    let field = place.refusal(&["sim", "small.toml", "--links.wire.loss", "3%"], 2);
    assert!(field.contains("--set links.wire.loss=VALUE"), "{field}");
    let typo = place.refusal(&["sim", "small.toml", "--outt", "x"], 2);
    assert!(typo.contains("'--out'"), "{typo}");
    let unknown = place.refusal(&["sim", "small.toml", "--zigzag"], 2);
    assert!(unknown.contains("--zigzag") && unknown.contains("--help") && !unknown.contains("tip"), "{unknown}");
}

#[test]
fn a_trace_of_too_many_runs_is_refused_with_the_reason_and_a_way_out() {
    let place = Place::new();
    let refused = place.refusal(&["sim", "small.toml", "--runs", "1001", "--trace", "--out", "traces"], 2);
    assert!(refused.contains("at most 1000 runs, because") && refused.contains("--runs"), "{refused}");
    assert!(!place.path("traces").exists() && !place.path("traces.part").exists());
}
