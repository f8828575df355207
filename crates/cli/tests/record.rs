//! `headend record` over an emulated path whose rate and delay are known and change: it takes root, and says so where it is skipped.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headend_host::netns::{self, Namespace};
use headend_host::privilege;

/// 12 Mbit/s and 10 ms; from the third second on 4 Mbit/s and 50 ms.
const LINKS: &str = r#"
    [nodes.a]
    [nodes.b]
    [links.path]
    between = ["a", "b"]
    rate = [["0s", "12Mbit/s"], ["3s", "4Mbit/s"]]
    delay = "10ms"
    detour = "40ms"
    detour_start = "3s"
    back = { rate = "12Mbit/s" }
"#;

struct Made(Namespace);

impl Made {
    fn new(of: &str) -> Made {
        Made(Namespace::create(&format!("headend-test-{}-{of}", std::process::id())).expect("root makes namespaces"))
    }

    fn headend(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0.name(), env!("CARGO_BIN_EXE_headend")]);
        command
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        netns::remove(self.0.name()).expect("a namespace of this test can be removed");
    }
}

/// A program that is killed when the test ends before it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it and waits for its first line.
    fn start(mut command: Command) -> Running {
        let mut running = Running(command.stdout(Stdio::piped()).spawn().expect("it starts"));
        let out = running.0.stdout.as_mut().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("its output can be read");
        assert!(!line.is_empty(), "it says that it is ready");
        running
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A column of a file of trains, without those of which it says nothing.
fn column(csv: &str, name: &str) -> Vec<f64> {
    let at = csv.lines().next().and_then(|names| names.split(',').position(|it| it == name)).expect("a column");
    csv.lines().skip(1).filter_map(|line| line.split(',').nth(at)?.parse().ok()).collect()
}

#[test]
fn a_recording_has_the_rates_and_the_delays_of_the_path() {
    if !privilege::missing().is_empty() {
        eprintln!("skipped: this process lacks {}", privilege::missing().join("; "));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("links.toml"), LINKS).expect("a scenario");
    let (a, b) = (Made::new("record-a"), Made::new("record-b"));
    let mut emulate = Command::new(env!("CARGO_BIN_EXE_headend"));
    emulate.arg("emulate").arg(at("links.toml")).args(["--format", "json", "--between", a.0.name(), b.0.name()]);
    let _emulator = Running::start(emulate);
    let mut listen = b.headend();
    listen.args(["record", "listen", "10.83.0.2:9000"]);
    let _listening = Running::start(listen);
    let send = |more: &[&str]| {
        let mut send = a.headend();
        send.args(["record", "send", "10.83.0.2:9000", "--duration", "5s", "--out"]).arg(at("radio")).args(more);
        let output = send.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, said, _) = send(&[]);
    assert_eq!(code, Some(0), "{said}");
    let csv = fs::read_to_string(at("radio.csv")).expect("it was written");
    let (rates, delays) = (column(&csv, "rate_bps"), column(&csv, "delay_above_least_s"));
    // The emulator began a little before: of 50 trains the first 20 and the last 15 are well on either side of the third second.
    assert!(rates.len() >= 40 && delays.len() >= 40, "{csv}");
    let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.2;
    let (first, last) = (median(rates[..20].to_vec()), median(rates[rates.len() - 15..].to_vec()));
    assert!(near(first, 12e6) && near(last, 4e6), "{first} and {last} bit/s: {csv}");
    let longer = median(delays[delays.len() - 15..].to_vec()) - median(delays[..20].to_vec());
    assert!((0.03..0.06).contains(&longer), "{longer} s longer: {csv}");
    is_taken(folder.path(), &said);
    let (code, _, said) = send(&[]);
    assert!(code == Some(2) && said.contains("--force"), "{said}");
}

/// What was printed is a link, and its recording is read.
fn is_taken(folder: &Path, said: &str) {
    let fields: Vec<&str> = said.lines().filter(|line| line.contains(" = ")).collect();
    assert_eq!(fields.len(), 3, "{said}");
    let scenario = format!("[nodes.a]\n[nodes.b]\n[links.l]\nbetween = [\"a\", \"b\"]\n{}\n", fields.join("\n"));
    let scenario = scenario + "[flows.f]\nfrom = \"a\"\nto = \"b\"\nbytes = \"10KB\"\n";
    fs::write(folder.join("recorded.toml"), scenario).expect("a scenario");
    let checked = Command::new(env!("CARGO_BIN_EXE_headend")).arg("check").arg(folder.join("recorded.toml")).output();
    let checked = checked.expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn without_anybody_at_the_other_end_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.arg("record").args(arguments).current_dir(folder.path()).output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    // The discard port of this machine, where nobody answers.
    let (code, said) = run(&["send", "127.0.0.1:9", "--duration", "200ms", "--out", "none"]);
    assert!(code == Some(3) && said.contains("headend record listen"), "{said}");
    assert!(!folder.path().join("none.trace").exists());
    let (code, said) = run(&["send", "nowhere", "--out", "none"]);
    assert!(code == Some(2) && said.contains("HOST:PORT"), "{said}");
    let (code, said) = run(&["send", "127.0.0.1:9", "--duration", "2h", "--out", "none"]);
    assert!(code == Some(2) && said.contains("--duration"), "{said}");
    assert_eq!(run(&["listen", "203.0.113.1:9000"]).0, Some(2));
}
