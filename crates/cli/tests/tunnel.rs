//! `headend tunnel` with both ends on this machine: bytes, ends, refusals, a server that starts anew, and `headend conform`.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn headend(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headend")).args(arguments).output().expect("the binary runs")
}

/// An end that is killed when it is dropped.
struct End {
    process: Child,
    /// The addresses that it has named, in order.
    addresses: Vec<SocketAddr>,
    /// What it says after that.
    lines: mpsc::Receiver<String>,
}

impl End {
    /// Starts an end, and waits until it has named so many addresses.
    fn start(arguments: &[&str], addresses: usize) -> End {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.arg("tunnel").args(arguments);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut lines = BufReader::new(process.stderr.take().expect("it was asked for")).lines().map_while(Result::ok);
        let words = |line: String| line.split_whitespace().find_map(|word| word.parse().ok());
        let found: Vec<SocketAddr> = lines.by_ref().filter_map(words).take(addresses).collect();
        assert_eq!(found.len(), addresses, "the end of the tunnel says where it is");
        // What else it says must have somewhere to go.
        let (say, said) = mpsc::channel();
        thread::spawn(move || lines.for_each(|line| drop(say.send(line))));
        End { process, addresses: found, lines: said }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Tunnel {
    folder: tempfile::TempDir,
    server_key: String,
    server: Option<End>,
    client: Option<End>,
}

impl Tunnel {
    /// Keys for both ends in a folder.
    fn new() -> Tunnel {
        let folder = tempfile::tempdir().unwrap();
        let keygen = |name: &str| {
            let output = headend(&["tunnel", "keygen", &path(folder.path(), name)]);
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let server_key = keygen("server.key");
        fs::write(folder.path().join("authorized_keys"), format!("{} a client\n", keygen("client.key"))).unwrap();
        Tunnel { folder, server_key, server: None, client: None }
    }

    fn serve(&mut self, listen: &str, rules: &[&str]) -> SocketAddr {
        let (key, authorized) = (path(self.folder.path(), "server.key"), path(self.folder.path(), "authorized_keys"));
        let arguments = [&["serve", "--listen", listen, "--key", &key, "--authorized", &authorized], rules].concat();
        self.server = Some(End::start(&arguments, 1));
        self.server.as_ref().unwrap().addresses[0]
    }

    /// The ways in, by the address of each.
    fn connect(&mut self, to: SocketAddr, ways: &[&str]) -> Vec<SocketAddr> {
        let key = path(self.folder.path(), "client.key");
        let to = to.to_string();
        let arguments = [&["connect", &to, "--key", &key, "--server", &self.server_key], ways].concat();
        self.client = Some(End::start(&arguments, ways.len() / 2));
        self.client.as_ref().unwrap().addresses.clone()
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// A server that sends back what it got once it has got all.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let (mut stream, mut all) = (stream, Vec::new());
                if stream.read_to_end(&mut all).is_ok() {
                    let _ = stream.write_all(&all);
                }
            });
        }
    });
    address
}

fn socks(way: SocketAddr, to: SocketAddr) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(way).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).unwrap();
    assert_eq!(chosen, [5, 0]);
    let SocketAddr::V4(to) = to else { panic!("an IPv4 address") };
    let request = [&[5, 1, 0, 1][..], &to.ip().octets(), &to.port().to_be_bytes()].concat();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    (stream, reply[1])
}

fn comes_back(mut stream: TcpStream, len: usize) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + (at >> 8)) as u8).collect();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all == bytes, "{} of {len} bytes came back", all.len());
}

/// What an end tells at its place to look.
fn looked(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn each_end_tells_its_operator_of_its_connections() {
    let (tunnel, server) = (Tunnel::new(), echo());
    let file = |name| path(tunnel.folder.path(), name);
    let (key, authorized) = (file("server.key"), file("authorized_keys"));
    let serve =
        ["serve", "--listen", "127.0.0.1:0", "--key", &key, "--authorized", &authorized, "--allow", "127.0.0.1"];
    let serving = End::start(&[&serve[..], &["--admin", "127.0.0.1:0"]].concat(), 2);
    let (to, key, forward) = (serving.addresses[0].to_string(), file("client.key"), format!("127.0.0.1:0:{server}"));
    let connect = ["connect", &to, "--key", &key, "--server", &tunnel.server_key, "--forward", &forward];
    let connected = End::start(&[&connect[..], &["--admin", "127.0.0.1:0"]].concat(), 2);
    comes_back(TcpStream::connect(connected.addresses[0]).unwrap(), 10_000);
    assert!(looked(connected.addresses[1], "/healthz").ends_with("connected\n"));
    let status = looked(connected.addresses[1], "/status");
    assert!(status.contains(&tunnel.server_key) && status.contains("\"streams_begun\":1"), "{status}");
    let metrics = looked(serving.addresses[1], "/metrics");
    assert!(metrics.contains("\nheadend_tunnel_connections_total 1\n"), "{metrics}");
    assert!(metrics.contains("\nheadend_tunnel_sent_total{peer="), "{metrics}");
}

#[test]
fn a_tunnel_carries_bytes_and_half_closes_in_every_way_in() {
    let (mut tunnel, server) = (Tunnel::new(), echo());
    let at = tunnel.serve("127.0.0.1:0", &["--allow", "127.0.0.1"]);
    let forward = format!("127.0.0.1:0:{server}");
    let ways = tunnel.connect(at, &["--socks", "127.0.0.1:0", "--http", "127.0.0.1:0", "--forward", &forward]);
    let (stream, code) = socks(ways[0], server);
    assert_eq!(code, 0);
    comes_back(stream, 1_000_000);
    let mut http = TcpStream::connect(ways[1]).unwrap();
    http.set_read_timeout(Some(PATIENCE)).unwrap();
    http.write_all(format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; 39];
    http.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
    comes_back(http, 10_000);
    comes_back(TcpStream::connect(ways[2]).unwrap(), 100_000);
}

/// A socket that sends every datagram back.
fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    address
}

/// Sends a datagram until it comes back: a datagram may be lost.
fn datagram_comes_back(program: &UdpSocket, bytes: &[u8]) {
    program.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = vec![0; 65_536];
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        program.send(bytes).unwrap();
        while let Ok(len) = program.recv(&mut buffer) {
            if buffer[..len] == *bytes {
                return;
            }
        }
    }
    panic!("{} bytes have not come back", bytes.len());
}

#[test]
fn a_tunnel_carries_datagrams_of_every_size_to_and_fro() {
    let (mut tunnel, server) = (Tunnel::new(), udp_echo());
    let at = tunnel.serve("127.0.0.1:0", &["--allow", "127.0.0.1", "--udp-deadline", "30s"]);
    let udp = format!("127.0.0.1:0:{server}");
    let ways = tunnel.connect(at, &["--udp", &udp, "--udp-deadline", "30s"]);
    let programs = [(); 2].map(|()| {
        let program = UdpSocket::bind("127.0.0.1:0").unwrap();
        program.connect(ways[0]).unwrap();
        program
    });
    for len in [0, 1, 1_200, 1_472, 9_000, 65_000] {
        for (which, program) in programs.iter().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|place| (place * 7 + (place >> 8) + which) as u8).collect();
            datagram_comes_back(program, &bytes);
        }
    }
}

#[test]
fn datagrams_go_where_the_rules_let_them_and_nowhere_else() {
    let (mut tunnel, server) = (Tunnel::new(), udp_echo());
    let at = tunnel.serve("127.0.0.1:0", &[]);
    let ways = tunnel.connect(at, &["--udp", &format!("127.0.0.1:0:{server}")]);
    let program = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.send_to(b"is anybody there?", ways[0]).unwrap();
    let lines = &tunnel.client.as_ref().unwrap().lines;
    let refused = std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok()).find(|line| line.contains("(UDP): "));
    let refused = refused.expect("the client says why");
    assert!(refused.contains("is not allowed") && refused.contains(&server.to_string()), "{refused}");
}

#[test]
fn refusals_are_told_as_the_proxy_tells_them() {
    let mut tunnel = Tunnel::new();
    let at = tunnel.serve("127.0.0.1:0", &["--allow", "127.0.0.1"]);
    let ways = tunnel.connect(at, &["--socks", "127.0.0.1:0"]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(socks(ways[0], nobody).1, 5, "refused by the server");
    assert_eq!(socks(ways[0], "10.1.2.3:80".parse().unwrap()).1, 2, "a private address without a rule");
}

#[test]
fn a_client_goes_on_when_its_server_has_started_anew() {
    let (mut tunnel, server) = (Tunnel::new(), echo());
    let at = tunnel.serve("127.0.0.1:0", &["--allow", "127.0.0.1"]);
    let ways = tunnel.connect(at, &["--socks", "127.0.0.1:0"]);
    comes_back(socks(ways[0], server).0, 1_000);
    // Killed, and so without a word to the client.
    tunnel.server = None;
    tunnel.serve(&at.to_string(), &["--allow", "127.0.0.1"]);
    let again = (0..50).find_map(|_| {
        let (stream, code) = socks(ways[0], server);
        (code == 0).then_some(stream)
    });
    comes_back(again.expect("a new connection to the server"), 1_000);
}

#[test]
fn what_cannot_be_is_told_with_what_to_do() {
    let tunnel = Tunnel::new();
    let key = path(tunnel.folder.path(), "client.key");
    let base = ["tunnel", "connect", "127.0.0.1:9", "--server", &tunnel.server_key];
    let said = |more: &[&str]| {
        let output = headend(&[&base[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--key", "/nowhere/key", "--socks", "127.0.0.1:0"]).contains("tunnel keygen /nowhere/key"));
    assert!(said(&["--key", &key]).contains("--socks 127.0.0.1:1080"));
    assert!(said(&["--key", &key, "--socks", "0.0.0.0:0"]).contains("--clients 10.0.0.0/8"));
    assert!(said(&["--key", &key, "--forward", "80"]).contains("8080:10.0.0.5:80"));
    assert!(
        said(&["--key", &key, "--socks", "127.0.0.1:0", "--admin", "0.0.0.0:0"]).contains("--admin-clients 10.0.0.0/8")
    );
    let again = headend(&["tunnel", "keygen", &key]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("name another file"), "{again:?}");
}

#[test]
fn a_tunnel_is_as_good_as_a_wire() {
    let mut tunnel = Tunnel::new();
    let at = tunnel.serve("127.0.0.1:0", &["--allow", "127.0.0.0/8"]);
    let ways = tunnel.connect(at, &["--socks", "127.0.0.1:0"]);
    let arguments = ["--way", "socks5", "--schedules", "200", "--time-limit", "2min"];
    let output = headend(&[&["conform", &ways[0].to_string()], &arguments[..]].concat());
    let (matrix, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{matrix}\n{error}");
}
