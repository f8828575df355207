//! What waits at a trunk's edge and what in the network: a bottleneck with a long queue, made by `headend emulate`, between two
//! sites. These tests need root and iptables, and say so where they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sites::{PATIENCE, Sites, USERS, headend, wait_for};

/// 20 Mbit/s, and a queue of a second.
const PATH: &str = r#"
    [nodes.server]
    [nodes.pc]
    [links.path]
    between = ["server", "pc"]
    rate = "20Mbit/s"
    delay = "10ms"
    queue = "2500KB"
    [flows.f]
    from = "server"
    to = "pc"
"#;
/// The addresses that the emulator gives its devices.
const ENDS: [&str; 2] = ["10.83.0.1", "10.83.0.2"];

struct Path(Child);

impl Path {
    fn between(sites: &Sites) -> Path {
        let scenario = sites.folder.path().join("path.toml");
        fs::write(&scenario, PATH).expect("a scenario");
        let mut command = headend();
        command.arg("emulate").arg(&scenario);
        command.args(["--between", sites.site_name(0), sites.site_name(1), "--device", "path", "--format", "json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("it says that it has begun");
        assert!(line.contains("\"start\""), "{line}");
        thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        sites.route(ENDS);
        Path(child)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user that sends all it can, with the congestion control of most: until it ends.
struct Greedy {
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Greedy {
    fn start(sites: &Sites) -> Greedy {
        let is_over = Arc::new(AtomicBool::new(false));
        let listener = sites.in_user(1, || TcpListener::bind((USERS[1], 0)).expect("the address is there"));
        let to = listener.local_addr().expect("it is bound");
        let mut sender = sites.in_user(0, || TcpStream::connect_timeout(&to, PATIENCE).expect("it is reached"));
        let socket = socket2::SockRef::from(&sender);
        // Reno fills any queue: CUBIC's HyStart may leave slow start before.
        socket.set_tcp_congestion(b"reno").expect("every kernel has it");
        socket.set_send_buffer_size(16 << 20).expect("a buffer");
        sender.set_write_timeout(Some(Duration::from_millis(200))).expect("a time-out is allowed");
        let (mut receiver, _) = listener.accept().expect("it connects");
        receiver.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out is allowed");
        let (stop_writing, stop_reading) = (is_over.clone(), is_over.clone());
        let writing = thread::spawn(move || {
            let bytes = vec![7; 1 << 16];
            while !stop_writing.load(Ordering::Relaxed) {
                let _ = sender.write(&bytes);
            }
        });
        let reading = thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while !stop_reading.load(Ordering::Relaxed) {
                let _ = std::io::Read::read(&mut receiver, &mut bytes);
            }
        });
        Greedy { is_over, threads: vec![writing, reading] }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }
}

/// The median round trip of another flow's datagrams, of so many that are sent one after another.
fn round_trip(sites: &Sites, count: usize) -> Duration {
    let server = sites.in_user(1, || UdpSocket::bind((USERS[1], 0)).expect("the address is there"));
    let client = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    let to = server.local_addr().expect("it is bound");
    server.set_read_timeout(Some(Duration::from_secs(3))).expect("a time-out is allowed");
    client.set_read_timeout(Some(Duration::from_secs(3))).expect("a time-out is allowed");
    let answering = thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((len, from)) = server.recv_from(&mut bytes) {
            let _ = server.send_to(&bytes[..len], from);
        }
    });
    let mut times: Vec<Duration> = (0..count as u32)
        .map(|number| {
            let begin = Instant::now();
            client.send_to(&number.to_be_bytes(), to).expect("it is sent");
            let mut bytes = [0; 64];
            while client.recv(&mut bytes).is_ok_and(|len| bytes[..len] != number.to_be_bytes()) {}
            begin.elapsed()
        })
        .collect();
    answering.join().expect("it ends");
    times.sort();
    times[count / 2]
}

#[test]
fn a_flow_of_few_packets_does_not_wait_behind_a_greedy_one() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("wait", false);
    let _path = Path::between(&sites);
    let greedy = Greedy::start(&sites);
    // Slow start has filled the queue of a second once this takes long.
    wait_for("the network's queue is full", || round_trip(&sites, 1) > Duration::from_millis(400));
    greedy.end();
    // BBR keeps the network's queue short; what the greedy flow has too much waits at the edge.
    let peer = "controller = \"bbr\"\ncontrols = 1\n";
    let files = [0, 1].map(|side| sites.write(side, Some(&format!("{}:7700", ENDS[1 - side])), "", peer));
    let [west, _east] = sites.up_both(&files);
    let greedy = Greedy::start(&sites);
    wait_for("much waits at the edge", || {
        west.peer()["classes"][0]["waiting_bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000)
    });
    let trip = round_trip(&sites, 15);
    // The edge has 400 ms and more of the greedy flow waiting, and the network's queue room for a second.
    assert!(trip < Duration::from_millis(200), "{trip:?}; {}", west.peer());
    greedy.end();
}
