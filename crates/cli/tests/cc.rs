//! `headend cc` as its users meet it. What is put into the kernel takes root, and a build with the feature `bpf`: these
//! tests say so where they are skipped. Names are the whole machine's, so every test has its own.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use headend_host::device::{Change, Device};
use headend_host::netns::{self, Namespace};
use headend_host::route::{Metrics, Route};
use headend_host::{Netlink, backfill, fast, socket, sysctl};
use serde_json::Value;
use socket2::SockRef;

fn headend(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headend")).arg("cc").args(arguments).output().expect("it runs")
}

/// The output of a command that must succeed.
fn said(arguments: &[&str]) -> String {
    let output = headend(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The answer to a wrong request.
fn refused(arguments: &[&str]) -> String {
    let output = headend(arguments);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?}: {} {} {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn can_install() -> bool {
    let missing = fast::missing();
    if let Some(text) = &missing {
        eprintln!("skipped: {text}");
    }
    missing.is_none()
}

/// A name under which a test installs; removed when the test ends, however it ends.
struct Name(String);

impl Name {
    fn new(of: &str) -> Name {
        Name(format!("hc{of}_{}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fast::remove(&self.0);
        let _ = backfill::remove(&self.0);
    }
}

/// Runs `test` in a namespace of its own, with a loopback.
fn inside(of: &str, test: impl FnOnce() + Send) {
    struct Space(String);
    impl Drop for Space {
        fn drop(&mut self) {
            netns::remove(&self.0).expect("a namespace of this test can be removed");
        }
    }
    let space = Space(format!("headend-test-{}-{of}", std::process::id()));
    let namespace = Namespace::create(&space.0).expect("root may make a namespace");
    namespace
        .run(|| {
            let mut netlink = Netlink::open().expect("a socket");
            let up = Change { up: Some(true), ..Change::default() };
            Device::find(&mut netlink, "lo")
                .expect("every namespace has one")
                .change(&mut netlink, up)
                .expect("root may");
            test();
        })
        .expect("it can be entered");
}

/// A connection over the loopback, its sender controlled by `name`.
fn connection(name: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let sender = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
    let (receiver, _) = listener.accept().expect("it connected");
    SockRef::from(&sender).set_tcp_congestion(name.as_bytes()).expect("it is installed");
    (sender, receiver)
}

/// Sends 3 MB and takes them.
fn transfer(sender: &mut TcpStream, receiver: &mut TcpStream) {
    const LEN: usize = 3_000_000;
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&vec![7; LEN]).expect("the receiver reads"));
        receiver.read_exact(&mut vec![0; LEN]).expect("the sender sends");
    });
}

/// The connections that the command shows, by their controller's name.
fn status(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(&said(&["status", "--format", "json"])).expect("JSON");
    all.as_array().expect("an array").iter().filter(|one| one["name"] == name).cloned().collect()
}

fn controller_of(socket: &TcpStream) -> String {
    let name = SockRef::from(socket).tcp_congestion().expect("every TCP has one");
    text(&name).trim_end_matches('\0').to_owned()
}

#[test]
fn a_connection_is_shown_with_window_round_trips_and_changeable_alpha() {
    if !can_install() {
        return;
    }
    let name = Name::new("st");
    said(&["install", "fast", "--name", &name.0, "--alpha", "12"]);
    inside("cc-status", || {
        let (mut sender, mut receiver) = connection(&name.0);
        transfer(&mut sender, &mut receiver);
        let info = || socket::Info::of(&sender).expect("it is open");
        // Or the last acknowledgement, which may be delayed, changes the window between one look and the other.
        wait_until("what the receiver has read is not acknowledged", || info().unacked_segments == 0);
        let shown = status(&name.0);
        let [one] = &shown[..] else { panic!("one connection: {shown:?}") };
        assert_eq!(one["alpha_packets"], 12);
        assert_eq!(one["cwnd_segments"], info().cwnd_segments);
        let seconds = |field: &str| one[field].as_f64().unwrap_or_else(|| panic!("{field}: {one}"));
        let (base, mean) = (seconds("base_rtt_s"), seconds("mean_rtt_s"));
        assert!(0.0 < base && base <= mean && mean < 1.0, "{one}");
        assert!((seconds("queueing_delay_s") - (mean - base)).abs() < 1e-6, "{one}");
        assert!(said(&["set", "--name", &name.0, "alpha=7", "gamma=25"]).contains("alpha 7, gamma 25%"));
        transfer(&mut sender, &mut receiver);
        assert_eq!(status(&name.0)[0]["alpha_packets"], 7);
        let table = said(&["status"]);
        assert!(table.contains("base RTT [ms]") && table.contains(&name.0), "{table}");
        drop((sender, receiver));
    });
}

#[test]
fn two_names_have_two_alphas_at_the_same_time() {
    if !can_install() {
        return;
    }
    let names = [Name::new("a"), Name::new("b")];
    for (name, alpha) in names.iter().zip(["3", "30"]) {
        said(&["install", "fast", "--name", &name.0, "--alpha", alpha]);
    }
    inside("cc-two", || {
        let mut connections = names.each_ref().map(|name| connection(&name.0));
        connections.iter_mut().for_each(|(sender, receiver)| transfer(sender, receiver));
        let alphas = names.each_ref().map(|name| status(&name.0)[0]["alpha_packets"].as_u64());
        assert_eq!(alphas, [Some(3), Some(30)]);
    });
    let list: Value = serde_json::from_str(&said(&["list", "--format", "json"])).expect("JSON");
    let alpha = |name: &Name| list.as_array()?.iter().find(|one| one["name"] == *name.0)?["alpha_packets"].as_u64();
    assert_eq!(names.each_ref().map(alpha), [Some(3), Some(30)]);
}

#[test]
fn connections_outlive_the_removal_of_what_controls_them_and_are_counted() {
    if !can_install() {
        return;
    }
    let name = Name::new("rm");
    said(&["install", "fast", "--name", &name.0]);
    inside("cc-remove", || {
        let (mut sender, mut receiver) = connection(&name.0);
        transfer(&mut sender, &mut receiver);
        let told = said(&["remove", &name.0]);
        assert!(told.contains(&format!("removed {}", name.0)), "{told}");
        assert!(told.contains(&format!("connections that keep {} until they are closed: 1", name.0)), "{told}");
        assert!(!socket::kernel_names().contains(&name.0));
        transfer(&mut sender, &mut receiver);
        assert_eq!(controller_of(&sender), name.0);
        assert_eq!(status(&name.0).len(), 1, "it is still FAST");
        let other = connection("reno").0;
        assert!(SockRef::from(&other).set_tcp_congestion(name.0.as_bytes()).is_err(), "nobody else can choose it");
    });
}

#[test]
fn a_default_is_given_back_when_it_is_removed_and_others_may_have_it_too() {
    if !can_install() {
        return;
    }
    let name = Name::new("df");
    inside("cc-default", || {
        sysctl::KernelSetting::new(fast::DEFAULT_SETTING, "reno").apply().expect("root may");
        let told = said(&["install", "fast", "--name", &name.0, "--default"]);
        assert!(told.contains("before it was reno"), "{told}");
        // What an ordinary user may choose, and what a namespace that is not the first takes for its default.
        let allowed = sysctl::read("net.ipv4.tcp_allowed_congestion_control").expect("it can be read");
        assert!(allowed.split_whitespace().any(|it| it == name.0), "{allowed}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
        assert_eq!(controller_of(&client), name.0);
        let told = said(&["remove", &name.0]);
        assert!(told.contains("the default is reno again"), "{told}");
        assert!(told.contains("listening sockets that keep"), "{told}");
        assert_eq!(sysctl::read(fast::DEFAULT_SETTING).expect("it can be read"), "reno");
    });
}

#[test]
fn under_ip_netns_exec_it_is_installed_for_everybody() {
    if !can_install() {
        return;
    }
    let name = Name::new("x");
    let space = format!("headend-test-{}-exec", std::process::id());
    let _namespace = Namespace::create(&space).expect("root may make a namespace");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &space, env!("CARGO_BIN_EXE_headend"), "cc", "install", "fast", "--default"]);
    let output = command.args(["--name", &name.0]).output().expect("ip is there");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(socket::kernel_names().contains(&name.0), "it stays beyond the process that installed it");
    assert!(said(&["list"]).contains(&name.0), "and is listed outside");
    let removed = said(&["remove", &name.0]);
    assert!(removed.contains("the default is") && removed.contains("again"), "{removed}");
    assert!(!socket::kernel_names().contains(&name.0));
    netns::remove(&space).expect("a namespace of this test can be removed");
}

#[test]
fn a_default_whose_controller_has_gone_can_be_taken_back() {
    if !can_install() {
        return;
    }
    let name = Name::new("g");
    inside("gone", || {
        let held = fast::Instance::load(&name.0, fast::Parameters::DEFAULT).expect("root may");
        sysctl::KernelSetting::new(fast::DEFAULT_SETTING, &name.0).apply().expect("it is there");
        // As when the /sys of the process that installed it goes with it.
        drop(held);
        assert_eq!(sysctl::read(fast::DEFAULT_SETTING).expect("a default"), name.0);
        let removed = said(&["remove", &name.0]);
        assert!(removed.contains("was not installed any more"), "{removed}");
        assert_ne!(sysctl::read(fast::DEFAULT_SETTING).expect("a default"), name.0);
        assert!(refused(&["remove", &name.0]).contains(&name.0), "twice is a mistake");
    });
}

#[test]
fn a_route_can_name_it() {
    if !can_install() {
        return;
    }
    let name = Name::new("rt");
    said(&["install", "fast", "--name", &name.0]);
    inside("cc-route", || {
        let mut netlink = Netlink::open().expect("a socket");
        let lo = Device::find(&mut netlink, "lo").expect("every namespace has one");
        let address = Ipv4Addr::new(10, 1, 2, 3);
        lo.add_address(&mut netlink, address, 32).expect("root may");
        let metrics = Metrics { congestion_control: Some(name.0.clone()), ..Metrics::default() };
        Route::default_route(address, metrics).add(&mut netlink, &lo).expect("root may");
        // Nobody is at that address, but on its way there a socket is told what the route says.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_nonblocking(true).expect("it can");
        let _ = socket.connect(&std::net::SocketAddr::from((Ipv4Addr::new(10, 9, 9, 9), 9)).into());
        let told = SockRef::from(&socket).tcp_congestion().expect("every TCP has one");
        assert_eq!(text(&told).trim_end_matches('\0'), name.0);
    });
}

#[test]
fn backfill_carries_connections_that_outlive_its_removal() {
    if !can_install() {
        return;
    }
    if let Some(text) = backfill::missing() {
        eprintln!("skipped: {text}");
        return;
    }
    let name = Name::new("bf");
    assert!(said(&["install", "backfill", "--name", &name.0]).contains("the larger of CUBIC's window"));
    assert!(said(&["list"]).contains(&name.0));
    assert!(said(&["install", "backfill", "--name", &name.0]).contains("installed already"), "twice is no mistake");
    inside("cc-backfill", || {
        for _ in 0..500 {
            let (mut sender, mut receiver) = connection(&name.0);
            sender.write_all(b"short").expect("the receiver is there");
            drop(sender);
            let mut got = Vec::new();
            receiver.read_to_end(&mut got).expect("the sender has ended");
            assert_eq!(got, b"short");
        }
        let (mut sender, mut receiver) = connection(&name.0);
        transfer(&mut sender, &mut receiver);
        said(&["remove", &name.0]);
        assert!(!socket::kernel_names().contains(&name.0));
        transfer(&mut sender, &mut receiver);
        assert_eq!(controller_of(&sender), name.0);
    });
    let again = refused(&["remove", &name.0]);
    assert!(again.contains(&name.0), "{again}");
}

#[test]
fn a_wrong_request_is_answered_with_what_would_be_right() {
    if !can_install() {
        return;
    }
    let name = Name::new("wr");
    said(&["install", "fast", "--name", &name.0, "--alpha", "5"]);
    let twice = refused(&["install", "fast", "--name", &name.0]);
    assert!(twice.contains("installed already, with alpha 5") && twice.contains("headend cc set"), "{twice}");
    let taken = refused(&["install", "fast", "--name", "cubic"]);
    assert!(
        said(&["install", "fast", "--name", &name.0, "--alpha", "5"]).contains("installed already"),
        "the same again"
    );
    assert!(taken.contains("has a congestion control of this name"), "{taken}");
    let dashed = refused(&["install", "fast", "--name", "fast-5"]);
    assert!(dashed.contains("letters, digits and underscores"), "{dashed}");
    let absent = refused(&["remove", "nonesuch"]);
    assert!(absent.contains("nonesuch: nothing of this name is installed") && absent.contains(&name.0), "{absent}");
    let key = refused(&["set", "--name", &name.0, "beta=3"]);
    assert!(key.contains("expected alpha=N"), "{key}");
    let none = refused(&["set", "--name", &name.0, "alpha=0"]);
    assert!(none.contains("expected alpha=N or alpha=auto"), "{none}");
    let much = refused(&["set", "--name", &name.0, "alpha=1000001"]);
    assert!(much.contains("1000000"), "{much}");
    said(&["set", "--name", &name.0, "alpha=auto"]);
    assert!(said(&["list"]).contains("auto"), "an alpha by rate is shown as such");
    said(&["remove", &name.0]);
    assert!(refused(&["remove", &name.0]).contains("nothing"), "it is gone");
}

#[test]
fn without_the_privilege_it_says_which_is_missing() {
    if !can_install() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    let output = command.args(["cc", "install", "fast"]).uid(65_534).gid(65_534).output();
    // The binary may be where nobody else can reach it.
    let Ok(output) = output else { return };
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("CAP_BPF") && told.contains("root"), "{told}");
}

#[test]
fn without_the_kernel_s_description_of_its_types_it_says_so() {
    if !can_install() {
        return;
    }
    // A view of the files in which the description is hidden.
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" cc install fast";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_headend")]).output();
    let output = output.expect("Debian has unshare");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("CONFIG_DEBUG_INFO_BTF"), "{}", text(&output.stderr));
}

#[test]
fn a_build_without_it_says_how_to_build_it() {
    if cfg!(feature = "bpf") {
        return;
    }
    let told = refused(&["install", "fast"]);
    assert!(told.contains("libelf-dev") && told.contains("--features bpf"), "{told}");
}

/// Three seconds of FAST on a line with room for four times as much as it may use.
const SCENARIO: &str = r#"
title = "FAST"
duration = "3s"
[nodes.a]
personality = "linux"
tcp = { controller = "fast", fast_alpha = 10, socket_buffer = "4MB" }
[nodes.b]
personality = "linux"
tcp = { socket_buffer = "4MB" }
[links.line]
between = ["a", "b"]
rate = "20Mbit/s"
delay = "20ms"
queue = "267 packets"
back = { queue = "unlimited" }
[flows.f]
from = "a"
to = "b"
"#;

/// The names that labs of process `pid` have given FAST.
fn names_of_lab(pid: u32) -> Vec<String> {
    let mut digits = String::new();
    let mut number = pid;
    while number > 0 {
        digits.insert(0, char::from_digit(number % 36, 36).expect("a remainder of 36"));
        number /= 36;
    }
    let mut names = socket::kernel_names();
    names.retain(|name| name.starts_with(&format!("fast_{digits}_")));
    names
}

/// Waits up to 20 s, which is for ever on any machine that works.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 20, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_lab_s_hosts_have_a_fast_of_their_own_that_leaves_with_the_lab() {
    if !can_install() {
        return;
    }
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("fast.toml");
    std::fs::write(&file, SCENARIO).expect("it is written");
    let lab = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.args(["lab", "--quiet", "--accept-late", "--format", "json"]).arg(&file);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("it runs")
    };
    let mut killed = lab();
    wait_until("no FAST for the lab", || !names_of_lab(killed.id()).is_empty());
    killed.kill().expect("it is ours");
    killed.wait().expect("it ends");
    wait_until("what a killed lab had is still there", || names_of_lab(killed.id()).is_empty());

    let whole = lab();
    let pid = whole.id();
    let output = whole.wait_with_output().expect("it ends");
    let told = text(&output.stderr);
    assert!(output.status.success() && !told.contains("controller"), "{told}");
    assert_eq!(names_of_lab(pid), [] as [String; 0]);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // A packet takes 0.6 ms; CUBIC's median is more than 60 ms here.
    let queueing_ms = 1e3 * results["flows"]["rtt_p50_s"][0].as_f64().expect("a number") - 40.0;
    assert!((1.2..40.0).contains(&queueing_ms), "10 packets wait 6 ms, and these {queueing_ms} ms: {told}");
}
