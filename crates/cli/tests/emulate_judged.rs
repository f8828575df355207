//! What the emulator says of its own lateness, held against a judge from outside: the kernel's time stamps of UDP packets at the sender
//! and the receiver (`bench/stamps.c`). It takes root, and is skipped with a word where there is none.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration as Wall;

use headend_host::netns::{self, Namespace};
use headend_host::privilege;
use serde_json::Value;

const RATE_MBIT: f64 = 50.0;
const DELAY_NS: f64 = 10e6;
const PACKET_BYTES: f64 = 1_500.0;
const LINKS: &str = r#"
    [nodes.a]
    [nodes.b]
    [links.path]
    between = ["a", "b"]
    rate = "50Mbit/s"
    delay = "10ms"
"#;

/// A namespace of this test process, which goes when the test ends, however it ends.
struct Made(Namespace);

impl Made {
    fn new(of: &str) -> Made {
        Made(Namespace::create(&format!("headend-test-{}-{of}", std::process::id())).expect("root makes namespaces"))
    }

    /// A program in it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0.name()]).arg(program);
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
    fn start(mut command: Command) -> Running {
        Running(command.stdout(Stdio::piped()).spawn().expect("it starts"))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).expect("it runs");
    }

    fn lines(&mut self) -> BufReader<std::process::ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("it was asked for"))
    }
}

/// The kernel's times by packet, in nanoseconds.
fn stamps(file: &Path) -> BTreeMap<u64, u64> {
    let bytes = fs::read(file).expect("the program has written it");
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(16).map(|record| (number(&record[..8]), number(&record[8..]))).collect()
}

/// The judge's 99% of the time that packets took beyond what the link asks for.
fn p99_ns(sent: &Path, received: &Path) -> f64 {
    let (sent, received) = (stamps(sent), stamps(received));
    // From the first packet on: a float has no room for the nanoseconds since 1970.
    let start = *sent.values().min().expect("something was sent");
    let mut free = 0.0_f64;
    let mut errors: Vec<f64> = Vec::new();
    for (number, &time) in &sent {
        free = free.max((time - start) as f64) + PACKET_BYTES * 8_000.0 / RATE_MBIT;
        errors.extend(received.get(number).map(|&time| (time - start) as f64 - free - DELAY_NS));
    }
    assert!(errors.len() > 1_000, "{} of {} packets have arrived", errors.len(), sent.len());
    errors.sort_by(f64::total_cmp);
    errors[errors.len() * 99 / 100]
}

/// The judge's 99% and the emulator's own summary of two seconds of traffic, in which it is stopped so often for 80 ms.
fn judged(of: &str, stops: u32) -> (f64, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let compiled = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(at("stamps"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/stamps.c"))
        .arg("-lpthread")
        .status();
    assert!(compiled.expect("a C compiler is installed").success());
    fs::write(at("links.toml"), LINKS).expect("a scenario");
    let (a, b) = (Made::new(&format!("{of}-a")), Made::new(&format!("{of}-b")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    command.arg("emulate").arg(at("links.toml")).args(["--format", "json", "--between", a.0.name(), b.0.name()]);
    let mut emulator = Running::start(command);
    let mut told = emulator.lines().lines().map(|line| line.expect("its output can be read"));
    assert!(told.next().is_some_and(|line| line.contains("start")), "its devices are there");
    let mut receive = b.command(&at("stamps"));
    receive.args(["receive", "10.83.0.2", "9000"]).arg(at("received"));
    let mut receiver = Running::start(receive);
    let ready = receiver.lines().lines().next();
    assert!(ready.is_some_and(|line| line.is_ok_and(|line| line == "ready")), "the receiver listens");
    let mut send = a.command(&at("stamps"));
    send.args(["send", "10.83.0.1", "10.83.0.2", "9000", "40", "1500", "2"]).arg(at("sent"));
    let mut sender = Running::start(send);
    for _ in 0..stops {
        thread::sleep(Wall::from_millis(100));
        emulator.signal(rustix::process::Signal::STOP);
        thread::sleep(Wall::from_millis(80));
        emulator.signal(rustix::process::Signal::CONT);
    }
    assert!(sender.0.wait().expect("it ends").success() && receiver.0.wait().expect("it ends").success());
    emulator.signal(rustix::process::Signal::INT);
    let summary = told.last().expect("a summary");
    (p99_ns(&at("sent"), &at("received")), serde_json::from_str(&summary).expect("JSON"))
}

#[test]
fn the_emulator_s_own_account_is_that_of_the_kernel_s_time_stamps() {
    let missing = privilege::missing();
    if !missing.is_empty() {
        eprintln!("skipped: this process lacks {}", missing.join("; "));
        return;
    }
    for (of, stops) in [("calm", 0), ("stopped", 10)] {
        let (judge_ns, summary) = judged(of, stops);
        let own_ns = summary["lateness"]["p99_ns"].as_f64().expect("a number");
        // The judge sees the packet's way through both kernels besides, and a busy machine makes that long.
        let (less, more) = (judge_ns.min(own_ns), judge_ns.max(own_ns));
        assert!(more - less < 3e6 + 0.3 * more, "{of}: own {own_ns} ns, judge {judge_ns} ns: {summary}");
        if stops > 0 {
            assert!(own_ns > 60e6 && judge_ns > 60e6, "own {own_ns} ns, judge {judge_ns} ns");
            assert_eq!(summary["kept_up"], false, "{summary}");
        }
    }
}
