//! The rules of the transparent mode, on a path of three namespaces: these tests need root, `ip` and `nft`, and say so
//! where they are skipped.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headend_host::netns::{self, Namespace};
use tempfile::TempDir;

/// Long beyond what anything here takes: only what hangs is ended by it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client, a router with the rules, and a server.
struct Path {
    client: Namespace,
    router: Namespace,
    server: Namespace,
    v4: TcpListener,
    v6: TcpListener,
    folder: TempDir,
}

impl Path {
    fn new(of: &str) -> Option<Path> {
        let has = |program: &str| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
        if !rustix::process::geteuid().is_root() || !has("ip") || !has("nft") {
            eprintln!("skipped: a path with rules takes root, ip (iproute2) and nft (nftables)");
            return None;
        }
        let make = |end: &str| {
            let name = format!("headend-test-{}-{of}-{end}", std::process::id());
            Namespace::create(&name).expect("root may make a namespace")
        };
        let (client, router, server) = (make("client"), make("router"), make("server"));
        for (end, side, network) in [(&client, "lan", 1), (&server, "wan", 2)] {
            let (here, there) = (router.name(), end.name());
            run(&format!("ip -n {here} link add {side} type veth peer name eth netns {there}"));
            for (namespace, device, host) in [(here, side, 1), (there, "eth", 2)] {
                run(&format!("ip -n {namespace} address add 10.83.{network}.{host}/24 dev {device}"));
                run(&format!("ip -n {namespace} address add fd83:{network}::{host}/64 dev {device} nodad"));
                run(&format!("ip -n {namespace} link set {device} up"));
                run(&format!("ip -n {namespace} link set lo up"));
            }
            run(&format!("ip -n {there} route add default via 10.83.{network}.1"));
            run(&format!("ip -n {there} -6 route add default via fd83:{network}::1"));
        }
        let forward = || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("root may");
        };
        router.run(forward).expect("it can be entered");
        let listen = |address: &'static str| {
            server.run(move || TcpListener::bind(address)).expect("it can be entered").expect("the address is there")
        };
        let (v4, v6) = (listen("10.83.2.2:80"), listen("[fd83:2::2]:80"));
        Some(Path { v4, v6, client, router, server, folder: TempDir::new().expect("a folder") })
    }

    /// Connects, and says as whom the server sees the client.
    fn call(&self, is_v4: bool) -> (TcpStream, TcpStream, IpAddr) {
        let listener = if is_v4 { &self.v4 } else { &self.v6 };
        let address = listener.local_addr().expect("it listens");
        let client =
            self.client.run(move || TcpStream::connect_timeout(&address, PATIENCE)).expect("it can be entered");
        let client = client.expect("the server can be reached");
        let (server, from) = listener.accept().expect("a connection");
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).expect("a time-out is allowed");
        }
        (client, server, from.ip())
    }

    /// The client's address that the server sees; the connection carries bytes both ways.
    fn seen(&self, is_v4: bool) -> IpAddr {
        let (mut client, mut server, from) = self.call(is_v4);
        echo(&mut client, &mut server);
        from
    }

    fn headend(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name(), env!("CARGO_BIN_EXE_headend"), "proxy"]);
        command.args(words.split_whitespace());
        command
    }

    fn rules(&self, words: &str) {
        let output = self.headend(&format!("rules {words}")).output().expect("the binary runs");
        assert!(output.status.success(), "rules {words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Everything in the router that rules could leave behind.
    fn traces(&self) -> String {
        let inside = |command: &str| run(&format!("ip netns exec {} {command}", self.router.name()));
        let mut traces = inside("nft list ruleset");
        for family in ["-4", "-6"] {
            traces += &inside(&format!("ip {family} rule"));
            let routes = inside(&format!("ip {family} route show table all"));
            // The kernel's own come and go with its link-local addresses.
            traces.extend(routes.lines().filter(|line| !line.contains("proto kernel")));
        }
        traces
    }

    /// Starts the proxy on the router, with both families.
    fn proxy(&self, keep_client_address: bool) -> Proxy {
        let listener = |address: &str, clients: &str| {
            format!(
                "[[listen]]\naddress = \"{address}\"\nway = \"transparent\"\nclients = [\"{clients}\"]\n\
                 keep_client_address = {keep_client_address}\n"
            )
        };
        let file = self.folder.path().join("proxy.toml");
        let text = listener("127.0.0.1:3129", "10.83.1.0/24") + &listener("[::1]:3129", "fd83:1::/64");
        fs::write(&file, text).expect("a file");
        let mut command = self.headend("--config");
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the binary runs");
        let mut lines = BufReader::new(process.stderr.take().expect("it was asked for")).lines();
        let mut heard = Vec::new();
        while heard.iter().filter(|line: &&String| line.contains("3129")).count() < 2 {
            match lines.next() {
                Some(Ok(line)) => heard.push(line),
                _ => panic!("the proxy ended: {heard:?}"),
            }
        }
        // What else it says is of no interest, and must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        Proxy(process)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for namespace in [&self.client, &self.router, &self.server] {
            netns::remove(namespace.name()).expect("a namespace of this test can be removed");
        }
    }
}

/// A proxy that ends at once when it is dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // `ip netns exec` becomes the command, so that this is the proxy itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // A table that has never been used is an empty table to us, and an error to ip.
    assert!(output.status.success() || said.contains("does not exist"), "{command}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn echo(client: &mut TcpStream, server: &mut TcpStream) {
    let mut buffer = [0; 4];
    client.write_all(b"ping").expect("the way there");
    server.read_exact(&mut buffer).expect("the way there");
    server.write_all(b"pong").expect("the way back");
    client.read_exact(&mut buffer).expect("the way back");
    assert_eq!(&buffer, b"pong");
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const BOTH: &str = "apply --listener 127.0.0.1:3129 --listener [::1]:3129 --interface lan";
const CLIENT: [&str; 2] = ["fd83:1::2", "10.83.1.2"];
const ROUTER: [&str; 2] = ["fd83:2::1", "10.83.2.1"];

#[test]
fn connections_are_forwarded_untouched_whenever_the_proxy_is_down() {
    let Some(path) = Path::new("open") else { return };
    path.rules(BOTH);
    for is_v4 in [true, false] {
        let (client, router) = (ip(CLIENT[usize::from(is_v4)]), ip(ROUTER[usize::from(is_v4)]));
        assert_eq!(path.seen(is_v4), client, "before the proxy is there");
        let (mut old_client, mut old_server, _) = path.call(is_v4);
        let proxy = path.proxy(false);
        assert_eq!(path.seen(is_v4), router, "the proxy connects on, with its own address");
        echo(&mut old_client, &mut old_server);
        drop(proxy);
        assert_eq!(path.seen(is_v4), client, "after the proxy was killed");
        echo(&mut old_client, &mut old_server);
        let again = path.proxy(false);
        assert_eq!(path.seen(is_v4), router, "when it is back");
        drop(again);
    }
}

#[test]
fn a_server_sees_the_client_s_address_where_the_proxy_keeps_it() {
    let Some(path) = Path::new("keep") else { return };
    path.rules(BOTH);
    let _proxy = path.proxy(true);
    for is_v4 in [true, false] {
        assert_eq!(path.seen(is_v4), ip(CLIENT[usize::from(is_v4)]));
    }
    // Not because nothing was diverted: both ends of the connection have their other end on the router.
    let (_client, _server, _) = path.call(true);
    let sockets = run(&format!("ip netns exec {} ss -Htn state established", path.router.name()));
    assert_eq!(sockets.lines().filter(|line| line.contains("10.83.2.2:80")).count(), 2, "{sockets}");
}

#[test]
fn beyond_the_limit_connections_are_forwarded() {
    let Some(path) = Path::new("limit") else { return };
    path.rules(&format!("{BOTH} --connections-max 2"));
    let _proxy = path.proxy(false);
    let calls: Vec<_> = (0..4).map(|_| path.call(true)).collect();
    let seen: Vec<IpAddr> = calls.iter().map(|(_, _, from)| *from).collect();
    let (client, router) = (ip(CLIENT[1]), ip(ROUTER[1]));
    assert_eq!(seen, [router, router, client, client]);
}

#[test]
fn only_the_ports_interfaces_and_networks_that_were_named_are_diverted() {
    let Some(path) = Path::new("named") else { return };
    let _proxy = path.proxy(false);
    let (client, router) = (ip(CLIENT[1]), ip(ROUTER[1]));
    let cases = [
        ("--ports 80,443", router),
        ("--ports 443", client),
        ("--interface lan", router),
        ("--interface wan", client),
        ("--clients 10.83.0.0/16", router),
        ("--clients 10.83.7.0/24", client),
    ];
    for (words, expected) in cases {
        path.rules(&format!("apply --listener 127.0.0.1:3129 {words}"));
        assert_eq!(path.seen(true), expected, "{words}");
    }
}

#[test]
fn rules_are_applied_once_and_removed_whole() {
    let Some(path) = Path::new("whole") else { return };
    let before = path.traces();
    path.rules("remove");
    assert_eq!(path.traces(), before, "to remove nothing is no error");
    path.rules(BOTH);
    let once = path.traces();
    assert_ne!(once, before);
    path.rules(BOTH);
    assert_eq!(path.traces(), once, "the same again");
    path.rules(&format!("{BOTH} --mark 77 --table 78"));
    path.rules(BOTH);
    assert_eq!(path.traces(), once, "another mark and table, and back");
    path.rules("remove");
    assert_eq!(path.traces(), before);
    // Nothing of this was done where the test runs.
    assert!(!run("nft list tables").contains("inet headend"));
}
