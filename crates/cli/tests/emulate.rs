//! `headend emulate` as a person uses it, between namespaces made for the purpose: these tests need root and say so
//! where they are skipped.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::Duration as Wall;

use headend_engine::packet::Class;
use headend_host::Netlink;
use headend_host::device::Device;
use headend_host::netns::{self, Namespace};
use headend_host::privilege;
use serde_json::Value;
use socket2::SockRef;

/// 10 Mbit/s and 10 ms one way; the other way a tenth is lost.
const SCENARIO: &str = r#"
    [nodes.server]
    [nodes.pc]
    [links.path]
    between = ["server", "pc"]
    rate = "10Mbit/s"
    delay = "10ms"
    queue = "50 packets"
    back = { loss = { model = "list", packets = [3, 5, 7] } }
    [flows.f]
    from = "server"
    to = "pc"
"#;

/// A namespace of this test process, which goes when the test ends, however it ends.
struct Made(Namespace);

impl Made {
    fn new(of: &str) -> Made {
        Made(Namespace::create(&format!("headend-test-{}-{of}", std::process::id())).expect("root makes namespaces"))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn socket(&self, address: &str) -> UdpSocket {
        let bound = self.0.run(|| UdpSocket::bind((address, 7_000))).expect("the namespace is there");
        let socket = bound.expect("the device has the address");
        socket.set_read_timeout(Some(Wall::from_secs(5))).expect("a time-out is allowed");
        socket
    }

    fn ip(&self, arguments: &str) {
        let status = Command::new("ip").args(["-n", self.name()]).args(arguments.split(' ')).status();
        assert!(status.expect("iproute2 is installed").success(), "ip {arguments}");
    }

    fn devices(&self) -> Vec<String> {
        let find = || Netlink::open().and_then(|mut netlink| Device::all(&mut netlink));
        let devices = self.0.run(find).and_then(|devices| devices).expect("devices can be listed");
        devices.into_iter().map(|device| device.name).collect()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        netns::remove(self.0.name()).expect("a namespace of this test can be removed");
    }
}

/// An emulator under way; killed when the test ends before it.
struct Emulator {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Emulator {
    /// Starts one with JSON on its output, and waits until its devices are there. On a busy machine it ends well too.
    fn start(folder: &Path, a: &Made, b: &Made, more: &[&str]) -> Emulator {
        Emulator::start_strict(folder, a, b, &[&["--accept-late"], more].concat())
    }

    /// The same, which fails if the machine does not keep up.
    fn start_strict(folder: &Path, a: &Made, b: &Made, more: &[&str]) -> Emulator {
        let scenario = folder.join("net.toml");
        fs::write(&scenario, SCENARIO).expect("a scenario");
        let mut command = headend();
        command.arg("emulate").arg(&scenario).args(["--between", a.name(), b.name(), "--format", "json"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut emulator = Emulator { child, lines };
        assert_eq!(emulator.line()["event"], "start");
        emulator
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the output can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// Interrupts it, as Ctrl-C does, and returns its last line.
    fn interrupt(self) -> Value {
        let (code, summary) = self.end();
        assert_eq!(code, Some(0), "{summary}");
        summary
    }

    /// The same with its exit code.
    fn end(mut self) -> (Option<i32>, Value) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
        loop {
            let line = self.line();
            if line["event"] == "summary" {
                return (self.child.wait().expect("it ends").code(), line);
            }
        }
    }

    /// The processor time that it has used, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        // After the name in brackets: user and system time are the 12th and 13th (proc_pid_stat(5)).
        let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
        fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn headend() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headend"))
}

fn is_allowed() -> bool {
    let missing = privilege::missing();
    if !missing.is_empty() {
        eprintln!("skipped: this process lacks {}", missing.join("; "));
    }
    missing.is_empty()
}

#[test]
fn packets_are_carried_counted_and_recorded_and_nothing_is_left_behind() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("em-a"), Made::new("em-b"));
    let captures = folder.path().join("captures");
    let more = ["--pcap", captures.to_str().expect("a path of ASCII"), "--device", "path"];
    let emulator = Emulator::start(folder.path(), &a, &b, &more);
    assert_eq!(
        (a.devices(), b.devices()),
        (vec!["lo".to_owned(), "path".to_owned()], vec!["lo".into(), "path".into()])
    );
    let (near, far) = (a.socket("10.83.0.1"), b.socket("10.83.0.2"));
    let mut buffer = [0; 2_000];
    for n in 0..20_u8 {
        near.send_to(&[n; 1_000], "10.83.0.2:7000").expect("the path takes it");
    }
    for n in 0..20 {
        let (len, _) = far.recv_from(&mut buffer).expect("everything arrives on the way without losses");
        assert_eq!(buffer[..len], [n; 1_000]);
    }
    for n in 0..20_u8 {
        far.send_to(&[n; 100], "10.83.0.1:7000").expect("the path takes it");
    }
    // Of these and what interfaces say of their own accord, the third, fifth and seventh are lost.
    let arrived = (0..).map_while(|_| near.recv_from(&mut buffer).ok().filter(|_| buffer[0] != 19)).count();
    assert!((16..20).contains(&arrived), "{arrived} before the last of 20");
    let summary = emulator.interrupt();
    let links = summary["links"].as_array().expect("a list");
    let number = |link: usize, field: &str| links[link][field].as_u64().expect("a number");
    assert_eq!(
        (links[0]["direction"].as_str(), links[1]["direction"].as_str()),
        (Some("server->pc"), Some("pc->server"))
    );
    assert!(number(0, "delivered") >= 20 && number(0, "lost") == 0, "{summary}");
    assert_eq!((number(1, "lost"), number(1, "dropped")), (3, 0), "{summary}");
    let strain = &summary["strain"];
    assert_eq!((&strain["dropped_unread"], &strain["refused"]), (&0.into(), &0.into()), "{summary}");
    for (side, least) in [("server.pcapng", 20 + 17), ("pc.pcapng", 20 + 20)] {
        let capture = fs::read(captures.join(side)).expect("a record of each side");
        let packets = blocks(&capture).filter(|&kind| kind == 6).count();
        assert!(packets >= least, "{side}: {packets} packets");
    }
    assert_eq!((a.devices(), b.devices()), (vec!["lo".to_owned()], vec!["lo".to_owned()]), "the devices are gone");
}

/// The types of the blocks of a pcapng file, of which the last must end where the file does.
fn blocks(capture: &[u8]) -> impl Iterator<Item = u32> {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("four bytes"));
    let mut at = 0;
    std::iter::from_fn(move || {
        let kind = (at < capture.len()).then(|| word(at))?;
        at += word(at + 4) as usize;
        assert!(at <= capture.len(), "the last block is whole");
        Some(kind)
    })
}

#[test]
fn an_emulator_that_is_killed_leaves_no_device() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("kill-a"), Made::new("kill-b"));
    let emulator = Emulator::start(folder.path(), &a, &b, &[]);
    assert_eq!(a.devices(), ["lo", "headend"]);
    // Dropping it is SIGKILL, and waits for its end.
    drop(emulator);
    assert_eq!((a.devices(), b.devices()), (vec!["lo".to_owned()], vec!["lo".to_owned()]));
}

#[test]
fn an_idle_emulator_takes_less_than_a_hundredth_of_a_core() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("calm-a"), Made::new("calm-b"));
    let mut emulator = Emulator::start(folder.path(), &a, &b, &[]);
    // The first second has the start and the interfaces' own announcements.
    emulator.line();
    let before = emulator.ticks();
    thread::sleep(Wall::from_secs(4));
    let used = emulator.ticks() - before;
    // In hundredths of a second, of 400.
    assert!(used <= 4, "an idle emulator took {used} of 400 ticks");
}

#[test]
fn a_pause_in_which_packets_waited_unread_marks_the_result() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("stall-a"), Made::new("stall-b"));
    let emulator = Emulator::start(folder.path(), &a, &b, &[]);
    let (near, far) = (a.socket("10.83.0.1"), b.socket("10.83.0.2"));
    let mut buffer = [0; 100];
    let mut cross = || {
        near.send_to(b"one", "10.83.0.2:7000").expect("the device takes it");
        far.recv_from(&mut buffer).expect("it arrives");
    };
    cross();
    let send = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&emulator.child), signal);
    send(rustix::process::Signal::STOP).expect("it runs");
    thread::scope(|scope| {
        scope.spawn(cross);
        thread::sleep(Wall::from_millis(400));
        send(rustix::process::Signal::CONT).expect("it is stopped");
    });
    let summary = emulator.interrupt();
    assert_eq!(summary["kept_up"], false, "{summary}");
    assert!(summary["strain"]["stalls"].as_u64() >= Some(1), "{summary}");
}

#[test]
fn short_pauses_under_traffic_are_exit_code_3_unless_accepted() {
    if !is_allowed() {
        return;
    }
    let stopped_often = |of: &str, more: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let (a, b) = (Made::new(&format!("{of}-a")), Made::new(&format!("{of}-b")));
        let emulator = Emulator::start_strict(folder.path(), &a, &b, more);
        let near = a.socket("10.83.0.1");
        let send = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&emulator.child), signal);
        for millisecond in 0..1_500 {
            near.send_to(b"one", "10.83.0.2:7000").expect("the device takes it");
            match millisecond % 300 {
                100 => send(rustix::process::Signal::STOP).expect("it runs"),
                180 => send(rustix::process::Signal::CONT).expect("it is stopped"),
                _ => {}
            }
            thread::sleep(Wall::from_millis(1));
        }
        emulator.end()
    };
    // A quarter of the packets came while nobody read them.
    let (code, summary) = stopped_often("often", &[]);
    assert_eq!((code, &summary["kept_up"]), (Some(3), &Value::Bool(false)), "{summary}");
    assert!(summary["strain"]["late_deliveries"].as_u64() >= Some(150), "{summary}");
    assert!(summary["lateness"]["p99_ns"].as_u64() >= Some(60_000_000), "{summary}");
    let (code, summary) = stopped_often("taken", &["--accept-late"]);
    assert_eq!((code, &summary["kept_up"]), (Some(0), &Value::Bool(false)), "{summary}");
}

/// The links of [`SCENARIO`] alone, without losses.
const LINKS: &str = r#"
    [nodes.server]
    [nodes.pc]
    [links.path]
    between = ["server", "pc"]
    rate = "10Mbit/s"
    delay = "10ms"
"#;

#[test]
fn a_command_runs_behind_links_alone_and_its_exit_code_is_told() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let links = folder.path().join("links.toml");
    fs::write(&links, LINKS).expect("a scenario");
    let run = |command: &[&str]| {
        let output = headend().arg("emulate").arg(&links).args(["--accept-late", "--"]).args(command).output();
        let Output { status, stdout, stderr } = output.expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (status.code(), text(stdout), text(stderr))
    };
    // A socket of this namespace, by which the command's packets are seen to come from behind the links.
    let here = UdpSocket::bind("0.0.0.0:0").expect("any port");
    here.set_read_timeout(Some(Wall::from_secs(20))).expect("a time-out is allowed");
    let port = here.local_addr().expect("it is bound").port();
    let send =
        format!("echo $HEADEND_INSIDE; exec 3<>/dev/udp/$HEADEND_HERE/{port}; echo hello >&3; sleep 0.2; exit 7");
    let (code, stdout, stderr) = run(&["bash", "-c", &send]);
    assert_eq!(code, Some(7), "{stderr}");
    let mut buffer = [0; 100];
    let (len, from) = here.recv_from(&mut buffer).expect("it has crossed");
    assert_eq!((&buffer[..len], from.ip().to_string().as_str()), (&b"hello\n"[..], stdout.trim()));
    let (code, _, stderr) = run(&["no-such-command"]);
    assert!(code == Some(2) && stderr.contains("no-such-command: No such file"), "{stderr}");
    let (code, stdout, stderr) = run(&["true"]);
    assert!(code == Some(0) && stdout.is_empty() && stderr.contains("deliveries late by"), "{stdout}{stderr}");
}

#[test]
fn real_packets_are_repeated_and_corrupted() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("bad-a"), Made::new("bad-b"));
    let bad = ["--set", "links.path.duplicate=100%", "--set", "links.path.back.duplicate=0%"];
    let worse = ["--set", "links.path.back.corrupt=100%", "--set", "links.path.back.loss=0%"];
    let emulator = Emulator::start(folder.path(), &a, &b, &[bad, worse].concat());
    let (near, far) = (a.socket("10.83.0.1"), b.socket("10.83.0.2"));
    let mut buffer = [0; 100];
    for n in 0..10_u8 {
        near.send_to(&[n; 50], "10.83.0.2:7000").expect("the path takes it");
        far.send_to(&[n; 50], "10.83.0.1:7000").expect("the path takes it");
    }
    for n in 0..20_u8 {
        far.recv_from(&mut buffer).expect("each arrives twice");
        assert_eq!(buffer[..50], [n / 2; 50]);
    }
    near.set_read_timeout(Some(Wall::from_millis(300))).expect("a time-out is allowed");
    near.recv_from(&mut buffer).expect_err("the kernel finds each wrong bit");
    let errors = a.0.run(udp_checksum_errors).expect("the namespace is there");
    assert!(errors >= 5, "of 10 wrong bits most are where the checksum sees them, {errors} were seen");
    let summary = emulator.interrupt();
    assert!(summary["links"][1]["delivered"].as_u64() >= Some(10), "{summary}");
}

#[test]
fn real_packets_with_a_circuit_s_marks_are_dropped_as_their_marks_say() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (Made::new("mark-a"), Made::new("mark-b"));
    // A header takes the link 62 ms, and two may wait.
    let queue =
        ["--set", "links.path.rate=20kbit/s", "--set", r#"links.path.queue={ model = "header-drop", headers = 2 }"#];
    let emulator = Emulator::start(folder.path(), &a, &b, &queue);
    let (near, far) = (a.socket("10.83.0.1"), b.socket("10.83.0.2"));
    let send = |class: Class, count: u8| {
        SockRef::from(&near).set_tos_v4(u32::from(class.code_point()) << 2).expect("whoever sends marks");
        for _ in 0..count {
            near.send_to(&[class as u8; 128], "10.83.0.2:7000").expect("the path takes it");
        }
    };
    send(Class::Header, 60);
    send(Class::User, 5);
    let (mut users, mut headers, mut buffer) = (0, 0, [0; 200]);
    while users < 5 {
        far.recv_from(&mut buffer).expect("no user's packet is dropped");
        if buffer[0] == Class::User as u8 { users += 1 } else { headers += 1 }
    }
    assert!(headers < 60, "some of 60 headers are dropped");
    let summary = emulator.interrupt();
    assert!(summary["links"][0]["dropped"].as_u64() >= Some(60 - headers), "{summary}");
}

/// The datagrams that the calling thread's namespace has thrown away for a wrong checksum or length (`InErrors`).
fn udp_checksum_errors() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").expect("the kernel counts");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Udp:")).collect();
    let at = lines[0].split_whitespace().position(|name| name == "InErrors").expect("it is named");
    lines[1].split_whitespace().nth(at).expect("a value each").parse().expect("a number")
}

#[test]
fn three_hosts_reach_each_other_and_links_change_while_they_run() {
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let star = folder.path().join("star.toml");
    let link =
        |to: &str| format!("[links.{to}]\nbetween = [\"{to}\", \"middle\"]\nrate = \"10Mbit/s\"\ndelay = \"1ms\"\n");
    let nodes = "[nodes.a]\n[nodes.b]\n[nodes.c]\n[nodes.middle]\nkind = \"router\"\n";
    fs::write(&star, [nodes.to_owned(), link("a"), link("b"), link("c")].concat()).expect("a scenario");
    let made = ["a", "b", "c"].map(|name| Made::new(&format!("star-{name}")));
    let hosts: Vec<String> =
        ["a", "b", "c"].iter().zip(&made).map(|(node, made)| format!("{node}={}", made.name())).collect();
    let mut command = headend();
    command.arg("emulate").arg(&star).args(["--accept-late", "--format", "json", "--hosts"]).args(&hosts);
    command.args(["--addresses", "fd83::1/64", "fd83::2/64", "fd83::3/64"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
    let mut emulator = Emulator { child, lines };
    assert_eq!(emulator.line()["ends"].as_array().map(Vec::len), Some(3));
    let socket = |index: usize| made[index].socket(&format!("fd83::{}", index + 1));
    let sockets = [socket(0), socket(1), socket(2)];
    let crosses = |from: usize, to: usize| {
        let start = std::time::Instant::now();
        sockets[from].send_to(b"one", (format!("fd83::{}", to + 1).as_str(), 7_000)).expect("the device takes it");
        sockets[to].recv_from(&mut [0; 100]).expect("it arrives");
        start.elapsed()
    };
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        crosses(from, to);
    }
    let pid = emulator.child.id().to_string();
    let ctl = |setting: &str| {
        let Output { status, stderr, .. } =
            headend().args(["emulate", "ctl", "--pid", &pid, setting]).output().expect("the binary runs");
        (status.code(), String::from_utf8(stderr).expect("UTF-8"))
    };
    assert_eq!(ctl("links.b.delay=300ms"), (Some(0), String::new()));
    // The answer is given when the order is, and it is carried out within 20 ms.
    thread::sleep(Wall::from_millis(50));
    assert!(crosses(0, 1) >= Wall::from_millis(300));
    let (code, message) = ctl("links.b.queue=5KB");
    assert!(code == Some(2) && message.starts_with("error: only `rate`"), "{message}");
    let again = [
        &["emulate", star.to_str().expect("ASCII"), "--device", "other", "--hosts"],
        &hosts.iter().map(String::as_str).collect::<Vec<_>>()[..],
    ]
    .concat();
    let (code, message) = refused(&[&again[..], &["--addresses", "fd83::1/64", "fd83::2/64", "fd83::3/64"]].concat());
    assert!(code == Some(2) && message.contains("has the address fd83::1 already"), "{message}");
    made[1].ip("link set headend down");
    let (code, summary) = emulator.end();
    // A busy machine may have been late with one of so few packets; that the device was down is not counted with what it did.
    assert_eq!((code, &summary["strain"]["refused"]), (Some(1), &0.into()), "{summary}");
    assert!(summary["devices_down"][0].as_str().is_some_and(|text| text.contains("was taken down")), "{summary}");
}

#[test]
fn interfaces_without_the_privilege_are_refused_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("net.toml");
    fs::write(&scenario, SCENARIO).expect("a scenario");
    let file = scenario.to_str().expect("a path of ASCII").to_owned();
    let said = format!("or simulate: headend sim {file}\n");
    // The bounding set is a thread's own, and what it starts cannot have more.
    let asked = thread::spawn(move || {
        for one in [rustix::thread::CapabilitySet::NET_RAW, rustix::thread::CapabilitySet::NET_ADMIN] {
            // Who may not do this has no such capability to begin with.
            let _ = rustix::thread::remove_capability_from_bounding_set(one);
        }
        refused(&["emulate", &file, "--interfaces", "lo", "eth-none"])
    });
    let (code, message) = asked.join().expect("the binary runs");
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("lacks CAP_NET_RAW") && message.contains("CAP_NET_ADMIN"), "{message}");
    assert!(message.ends_with(&said), "{message}");
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = headend().args(arguments).output().expect("the binary runs");
    (status.code(), String::from_utf8(stderr).expect("UTF-8"))
}

#[test]
fn a_wrong_request_is_answered_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("net.toml");
    fs::write(&scenario, SCENARIO).expect("a scenario");
    let file = scenario.to_str().expect("a path of ASCII");
    let (code, message) = refused(&["emulate", file]);
    assert!(code == Some(2) && message.contains("--between") && message.contains("--interfaces"), "{message}");
    let (code, message) = refused(&["emulate", file, "--between", "one", "one"]);
    assert_eq!((code, message.as_str()), (Some(2), "error: --between: both ends are one, and a path has two\n"));
    let (code, message) = refused(&["emulate", file, "--between", "router=one", "two"]);
    let expected = "error: --between: the scenario has no host router; hosts: server, pc\n";
    assert_eq!((code, message.as_str()), (Some(2), expected));
    let sweep = ["--sweep", "links.path.delay=1ms,2ms"];
    let (code, message) = refused(&[&["emulate", file, "--between", "one", "two"], &sweep[..]].concat());
    assert!(code == Some(2) && message.contains("sweeps over 2 points"), "{message}");
    let equal = ["--addresses", "10.9.0.1/24", "10.9.0.1/16"];
    let (code, message) = refused(&[&["emulate", file, "--between", "one", "two"], &equal[..]].concat());
    let expected = "error: --addresses: both sides have 10.9.0.1, and each needs its own\n";
    assert_eq!((code, message.as_str()), (Some(2), expected));
    let (code, message) = refused(&["emulate", file, "--between", "one", "two", "--runs", "7"]);
    assert_eq!((code, message.as_str()), (Some(2), "error: --runs: an emulation is one run; leave it out\n"));
    for (names, said) in [(["lo", "eth-none"], "lo is no Ethernet"), (["eth-none", "lo"], "there is no interface")] {
        let (code, message) = refused(&[&["emulate", file, "--interfaces"], &names[..]].concat());
        assert!(code == Some(2) && (message.contains(said) || message.contains("lacks CAP_NET_")), "{message}");
    }
    let (code, message) = refused(&["emulate", file, "--between", "headend-no-such-place", "two"]);
    assert_eq!(code, Some(2), "{message}");
    // Without privilege that is what is said.
    let is_told = message.contains("there is no namespace headend-no-such-place; make it with: ip netns add");
    assert!(is_told || message.contains("run it as root, or simulate"), "{message}");
}
