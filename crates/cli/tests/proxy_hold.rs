//! First segments that are held until their server has answered, on a path of three namespaces: these tests need root, `ip`,
//! `nft`, `iptables` and `curl`, and say so where they are skipped.
#![cfg(target_os = "linux")]

#[path = "support/diverted.rs"]
mod diverted;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use diverted::{BOTH, CLIENT, PATIENCE, Path, Proxy, ROUTER, echo, ip, run};
use socket2::{Domain, Protocol, Socket, Type};

/// An address of the server's at which nothing answers.
const DEAD: &str = "fd83:2::66";

/// Makes the server lose all packets to the dead address, and those that `more` names.
fn lose(path: &Path, more: &str) {
    let inside = |words: &str| run(&format!("ip netns exec {} nft {words}", path.server.name()));
    run(&format!("ip -n {} address add {DEAD}/64 dev eth nodad", path.server.name()));
    inside("add table inet lossy");
    let script = path.folder.path().join("lossy");
    let rules = format!(
        "table inet lossy {{\n chain in {{\n type filter hook input priority 0\n ip6 daddr {DEAD} drop\n {more}\n }}\n}}\n"
    );
    std::fs::write(&script, rules).unwrap();
    inside(&format!("-f {}", script.display()));
}

/// Answers requests for as long as somebody comes.
fn serve(listener: &TcpListener) {
    let listener = listener.try_clone().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
}

/// The time that curl takes for a page of a host with both addresses.
fn fetch_from_either(path: &Path) -> Duration {
    let begin = Instant::now();
    let output = Command::new("ip")
        .args(["netns", "exec", path.client.name(), "curl", "-sS", "--max-time", "25", "--resolve"])
        .args([&format!("either.example:80:[{DEAD}],10.83.2.2"), "http://either.example/"])
        .output()
        .expect("ip runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"ok");
    begin.elapsed()
}

fn error_of(path: &Path, address: &str) -> ErrorKind {
    let address: SocketAddr = address.parse().unwrap();
    let outcome = path.client.run(move || TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
    outcome.expect_err("nobody is there").kind()
}

fn signal(proxy: &Proxy, name: &str) {
    run(&format!("kill -{name} {}", proxy.0.id()));
}

#[test]
fn a_dead_address_is_left_for_a_live_one_as_soon_as_without_a_proxy() {
    let Some(path) = Path::new("dead") else { return };
    if Command::new("curl").arg("-V").output().is_err() {
        eprintln!("skipped: takes curl");
        return;
    }
    lose(&path, "");
    serve(&path.v4);
    let direct = fetch_from_either(&path);
    path.rules(BOTH);
    let proxy = path.proxy(false);
    let held = fetch_from_either(&path);
    // The client has its own 0.2 s, after which it tries the other; answered at once, it would take 30 s and have nothing.
    assert!(held < direct + Duration::from_secs(5), "{held:?} where {direct:?} are taken directly");
    drop(proxy);
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of_as_without_a_proxy() {
    let Some(path) = Path::new("told") else { return };
    run(&format!("ip -n {} route add unreachable 10.84.0.0/16", path.router.name()));
    let places = ["10.83.2.2:81", "[fd83:2::2]:81", "10.84.0.1:80", "192.0.2.1:80"];
    let direct = places.map(|place| error_of(&path, place));
    path.rules(BOTH);
    let _proxy = path.proxy(false);
    assert_eq!(places.map(|place| error_of(&path, place)), direct);
    assert_eq!(direct[..2], [ErrorKind::ConnectionRefused; 2]);
}

#[test]
fn a_slow_server_that_lives_is_waited_for() {
    let Some(path) = Path::new("slow") else { return };
    path.rules(BOTH);
    let _proxy = path.proxy(false);
    lose(&path, "tcp dport 80 tcp flags & (syn | ack) == syn drop");
    let name = path.server.name().to_owned();
    let healed = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1_500));
        run(&format!("ip netns exec {name} nft delete table inet lossy"));
    });
    assert_eq!(path.seen(true), ip(ROUTER[1]), "its answer comes after two of the client's segments were lost");
    healed.join().unwrap();
}

#[test]
fn a_proxy_that_is_stopped_is_passed_by_until_it_goes_on() {
    let Some(path) = Path::new("stop") else { return };
    path.rules(BOTH);
    let proxy = path.proxy(false);
    let (mut old_client, mut old_server, _) = path.call(true);
    assert_eq!(path.seen(true), ip(ROUTER[1]));
    signal(&proxy, "STOP");
    // What it said last is over after 0.9 s.
    thread::sleep(Duration::from_millis(1_100));
    for is_v4 in [true, false] {
        let begin = Instant::now();
        assert_eq!(path.seen(is_v4), ip(CLIENT[usize::from(is_v4)]), "directly");
        assert!(begin.elapsed() < Duration::from_secs(10), "and soon: {:?}", begin.elapsed());
    }
    let (mut client, mut server, _) = path.call(true);
    signal(&proxy, "CONT");
    thread::sleep(Duration::from_millis(1_000));
    for is_v4 in [true, false] {
        assert_eq!(path.seen(is_v4), ip(ROUTER[usize::from(is_v4)]), "through it again");
    }
    echo(&mut client, &mut server);
    echo(&mut old_client, &mut old_server);
}

#[test]
fn a_segment_held_by_a_proxy_that_stops_does_not_break_its_connection_later() {
    let Some(path) = Path::new("stale") else { return };
    path.rules(BOTH);
    let proxy = path.proxy(false);
    signal(&proxy, "STOP");
    // Held by the kernel at first, and sent again by the client when the proxy is passed by.
    let (mut client, mut server, from) = path.call(true);
    assert_eq!(from, ip(CLIENT[1]));
    signal(&proxy, "CONT");
    thread::sleep(Duration::from_millis(1_500));
    echo(&mut client, &mut server);
}

#[test]
fn spoofed_segments_do_not_become_connections_of_the_server() {
    let Some(path) = Path::new("spoof") else { return };
    path.rules(BOTH);
    let _proxy = path.proxy(false);
    const SENT: u16 = 2_000;
    path.client
        .run(|| {
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
            for number in 0..SENT {
                let source = Ipv4Addr::new(10, 83, 1, 100 + (number % 100) as u8);
                let packet = syn(source, Ipv4Addr::new(10, 83, 2, 2), 10_000 + number);
                raw.send_to(&packet, &SocketAddr::from(([10, 83, 2, 2], 0)).into()).unwrap();
            }
        })
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    path.v4.set_nonblocking(true).unwrap();
    let mut connections = 0;
    while path.v4.accept().is_ok() {
        connections += 1;
    }
    assert!(connections > 0, "the first is held, and its server asked");
    assert!(connections < SENT / 4, "{connections} of {SENT} have become connections");
}

/// A first segment from `source` to port 80.
fn syn(source: Ipv4Addr, destination: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(source.octets());
    ip.extend(destination.octets());
    let mut tcp = port.to_be_bytes().to_vec();
    tcp.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = [&source.octets()[..], &destination.octets(), &[0, 6, 0, 20], &tcp].concat();
    let sum = pseudo.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    ip.extend(tcp);
    ip
}
