//! The proxy among changes and failures: nothing may crash, leak, or come out wrong.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use proxied::{PATIENCE, Proxy, Server, Tongue, connected, noise, reset, rest_of, server_and_client};

/// Flows that are alive during a reload.
const FLOWS: u64 = 1_000;

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Waits until so many descriptors are open and no more.
fn settles_at(pid: u32, expected: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors(pid) > expected {
        assert!(Instant::now() < end, "{} descriptors are open, and {expected} were before", descriptors(pid));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reload_under_a_thousand_flows_changes_no_byte_of_them_and_leaves_nothing_behind() {
    headend_host::privilege::raise_open_files();
    let mut proxy = Proxy::start("[limits]\nconnections_per_client = 4000\n");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let mut pairs = Vec::new();
    for flow in 0..FLOWS {
        let (server, client) = server_and_client(&proxy, Tongue::Forward);
        let sent = noise(flow, 40_000);
        (&server).write_all(&sent[..20_000]).unwrap();
        pairs.push((flow, server, client, sent));
    }
    let open = descriptors(pid);
    assert!(open as u64 >= 2 * FLOWS, "each flow has two sockets, and {open} descriptors are open");
    for connections in [3_000, 3_500] {
        proxy.edit(|text| {
            let kept: String =
                text.lines().filter(|line| !line.starts_with("connections =")).flat_map(|line| [line, "\n"]).collect();
            kept.replace("[limits]\n", &format!("[limits]\nconnections = {connections}\n"))
        });
        proxy.signal("HUP");
        proxy.says("read again");
    }
    for (_, server, _, sent) in &mut pairs {
        server.write_all(&sent[20_000..]).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
    }
    for (flow, _server, mut client, sent) in pairs {
        assert!(rest_of(&mut client) == sent, "flow {flow}");
    }
    settles_at(pid, before);
}

#[test]
fn a_reload_that_cannot_be_done_whole_changes_nothing() {
    let mut proxy = Proxy::start_with("workers = 4\nuser = \"root\"\nhandover = \"one.sock\"", "");
    // It answers signals once it has opened all that it will.
    proxy.signal("HUP");
    proxy.says("read again");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let other = |text: String| text.replace("127.0.0.1:0\"\nway = \"socks5\"", "127.0.0.2:0\"\nway = \"socks5\"");
    proxy.edit(other);
    // Enough to read the file and to open the new way in; not enough for all workers to accept from it.
    let taken: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    let fourth = (0..).filter(|number| !taken.contains(number)).nth(3).unwrap();
    limit_descriptors(pid, fourth);
    proxy.signal("HUP");
    // Whichever of the steps it is that has none left.
    proxy.says("Too many open files");
    proxy.says("Nothing has changed");
    server_and_client(&proxy, Tongue::Socks5);
    settles_at(pid, before);
    // With enough of them it is another file, all of it but for what only a restart can change.
    limit_descriptors(pid, 1_000);
    proxy.edit(|text| text.replace("one.sock", "two.sock"));
    for _ in 0..2 {
        proxy.signal("HUP");
        proxy.says("handover is what it was at the start until the next: it takes a restart");
        proxy.says("listening on 127.0.0.2:");
    }
    assert_eq!(TcpStream::connect(proxy.address(Tongue::Socks5)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Of a process of the user of this one, which alone may limit it.
fn limit_descriptors(pid: u32, count: u32) {
    let limit = format!("--nofile={count}:");
    assert!(Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap().success());
}

#[test]
fn a_server_that_goes_away_and_comes_back_is_reached_again() {
    let mut proxy = Proxy::start("");
    let listening = Server::new();
    let address = listening.address();
    let ask = || {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        client
    };
    // A server that ends in the middle of what it says: what it has said arrives, and that this was not all of it.
    let said = noise(10, 100_000);
    let mut first = ask();
    let mut server = listening.accept();
    server.write_all(&said).unwrap();
    let mut got = vec![0; 39 + said.len()];
    first.read_exact(&mut got).unwrap();
    assert!(got.ends_with(&said));
    reset(server);
    assert_eq!(first.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(listening);
    let refused = String::from_utf8(rest_of(&mut ask())).unwrap();
    assert!(refused.starts_with("HTTP/1.1 502 "), "{refused}");
    let again = TcpListener::bind(address).unwrap();
    let mut second = ask();
    let (mut server, _) = again.accept().unwrap();
    server.write_all(&said).unwrap();
    drop(server);
    assert!(rest_of(&mut second).ends_with(&said));
    // The proxy waits for connections that are open: this one is, until the client too has ended it.
    drop(second);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
}

/// Descriptors that a proxy may have, and clients that would need more.
const DESCRIPTORS_MAX: u32 = 64;
const CROWD: usize = 100;

/// What the process has taken of the processor's time, in ticks: a hundred a second, as proc(5) has it.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may have spaces in it, comes field 3; utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_clients_wait_the_processor_rests_and_all_are_served_later() {
    // A worker alone, so that no other takes the descriptor that a connection has kept for its server.
    let mut proxy = Proxy::start_with("workers = 1\nuser = \"root\"", "[limits]\nconnections_per_client = 4000\n");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    limit_descriptors(pid, DESCRIPTORS_MAX);
    let crowded = Server::new();
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| connected(proxy.address(Tongue::Connect))).collect();
    for one in &mut crowd {
        one.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", crowded.address()).as_bytes()).unwrap();
    }
    proxy.says("no connection can be accepted, trying again until one can");
    // Nobody is refused: whoever is not served yet waits.
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", listening.address()).as_bytes()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(1_000))).unwrap();
    let ticks = processor_ticks(pid);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let spent = processor_ticks(pid) - ticks;
    assert!(spent < 50, "{spent} hundredths of a second of work in one second, for nothing");
    for (index, one) in crowd.iter_mut().enumerate() {
        one.set_nonblocking(true).unwrap();
        let mut answer = [0; 39];
        match one.read(&mut answer) {
            Ok(len) => assert!(answer[..len].starts_with(b"HTTP/1.1 200 "), "client {index} was refused"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "client {index}"),
        }
    }
    drop(crowded);
    drop(crowd);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.read_exact(&mut [0; 39]).unwrap();
    let mut server = listening.accept();
    let data = noise(9, 1_000_000);
    let sent = data.clone();
    let sender = thread::spawn(move || server.write_all(&sent).unwrap());
    assert!(rest_of(&mut client) == data);
    sender.join().unwrap();
    drop(client);
    settles_at(pid, before);
}
