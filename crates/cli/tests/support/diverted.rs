//! A path through a router with the rules of a transparent proxy. It takes root, `ip`, `nft` and `iptables`.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headend_host::netns::{self, Namespace};
use tempfile::TempDir;

/// Long beyond what anything here takes: only what hangs is ended by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A client, a router with the rules, and a server.
pub(crate) struct Path {
    pub(crate) client: Namespace,
    pub(crate) router: Namespace,
    pub(crate) server: Namespace,
    pub(crate) v4: TcpListener,
    pub(crate) v6: TcpListener,
    pub(crate) folder: TempDir,
}

impl Path {
    pub(crate) fn new(of: &str) -> Option<Path> {
        let has = |program: &str| Command::new(program).arg("-V").output().is_ok_and(|output| output.status.success());
        if !rustix::process::geteuid().is_root() || !has("ip") || !has("nft") || !has("iptables") {
            eprintln!("skipped: a path with rules takes root, ip (iproute2), nft (nftables) and iptables");
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
    pub(crate) fn call(&self, is_v4: bool) -> (TcpStream, TcpStream, IpAddr) {
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
    pub(crate) fn seen(&self, is_v4: bool) -> IpAddr {
        let (mut client, mut server, from) = self.call(is_v4);
        echo(&mut client, &mut server);
        from
    }

    pub(crate) fn headend(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name(), env!("CARGO_BIN_EXE_headend"), "proxy"]);
        command.args(words.split_whitespace());
        command
    }

    pub(crate) fn rules(&self, words: &str) {
        let output = self.headend(&format!("rules {words}")).output().expect("the binary runs");
        assert!(output.status.success(), "rules {words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Everything in the router that rules could leave behind.
    pub(crate) fn traces(&self) -> String {
        let inside = |command: &str| run(&format!("ip netns exec {} {command}", self.router.name()));
        let mut traces = String::new();
        // What is known of servers comes and goes, and tables of iptables stay when they are empty.
        let mut is_theirs = false;
        for line in inside("nft list ruleset").lines() {
            if line.starts_with("table") {
                is_theirs = line.ends_with(" raw {");
            }
            let is_passing = line.contains("expires");
            if !is_theirs && !is_passing && !line.starts_with('#') {
                let _ = writeln!(traces, "{line}");
            }
        }
        for list in ["iptables", "ip6tables"] {
            let rules = inside(&format!("{list} -t raw -S"));
            traces.extend(rules.lines().filter(|line| !line.starts_with("-P")));
        }
        for family in ["-4", "-6"] {
            traces += &inside(&format!("ip {family} rule"));
            let routes = inside(&format!("ip {family} route show table all"));
            // The kernel's own come and go with its link-local addresses.
            traces.extend(routes.lines().filter(|line| !line.contains("proto kernel")));
        }
        traces
    }

    /// Starts the proxy on the router, with both families.
    pub(crate) fn proxy(&self, keep_client_address: bool) -> Proxy {
        let listener = |address: &str, clients: &str| {
            format!(
                "[[listen]]\naddress = \"{address}\"\nway = \"transparent\"\nclients = [\"{clients}\"]\n\
                 keep_client_address = {keep_client_address}\n"
            )
        };
        let file = self.folder.path().join("proxy.toml");
        let text = listener("127.0.0.1:3129", "10.83.1.0/24")
            + &listener("[::1]:3129", "fd83:1::/64")
            + "[destinations]\nallow = [\"10.83.0.0/16\", \"10.84.0.0/16\", \"fd83::/16\"]\n";
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
pub(crate) struct Proxy(pub(crate) Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // `ip netns exec` becomes the command, so that this is the proxy itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    // A table that has never been used is an empty table to us, and an error to ip.
    assert!(output.status.success() || said.contains("does not exist"), "{command}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn echo(client: &mut TcpStream, server: &mut TcpStream) {
    let mut buffer = [0; 4];
    client.write_all(b"ping").expect("the way there");
    server.read_exact(&mut buffer).expect("the way there");
    server.write_all(b"pong").expect("the way back");
    client.read_exact(&mut buffer).expect("the way back");
    assert_eq!(&buffer, b"pong");
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) const BOTH: &str = "apply --listener 127.0.0.1:3129 --listener [::1]:3129 --interface lan";
pub(crate) const CLIENT: [&str; 2] = ["fd83:1::2", "10.83.1.2"];
pub(crate) const ROUTER: [&str; 2] = ["fd83:2::1", "10.83.2.1"];
