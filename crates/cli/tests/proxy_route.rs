//! The proxy while the way to the other side is gone: these tests need root and `ip`, and say so where they are skipped.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headend_host::netns::{self, Namespace};
use proxied::{PATIENCE, Proxy, Tongue, connected, noise, rest_of};

/// Behind the link, in another network than the link's.
const FAR: &str = "10.85.0.1";

/// A proxy's namespace, and one that it reaches over a link.
struct Place {
    near: Namespace,
    far: Namespace,
    server: TcpListener,
}

impl Place {
    fn new(of: &str) -> Option<Place> {
        let has_ip = Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success());
        if !rustix::process::geteuid().is_root() || !has_ip {
            eprintln!("skipped: a way that can be lost takes root and ip (iproute2)");
            return None;
        }
        let make = |end: &str| {
            Namespace::create(&format!("headend-test-{}-{of}-{end}", std::process::id())).expect("root may")
        };
        let (near, far) = (make("near"), make("far"));
        let (here, there) = (near.name(), far.name());
        ip(&format!("-n {here} link add wan type veth peer name eth netns {there}"));
        for (namespace, device, host) in [(here, "wan", 1), (there, "eth", 2)] {
            ip(&format!("-n {namespace} address add 10.84.0.{host}/24 dev {device}"));
            ip(&format!("-n {namespace} link set {device} up"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        ip(&format!("-n {there} address add {FAR}/32 dev lo"));
        ip(&format!("-n {here} route add 10.85.0.0/24 via 10.84.0.2"));
        let listen = || TcpListener::bind((FAR, 80));
        let server = far.run(listen).expect("it can be entered").expect("the address is there");
        Some(Place { near, far, server })
    }

    fn ip(&self, words: &str) {
        ip(&format!("-n {} {words}", self.near.name()));
    }

    /// A proxy in the near namespace, for clients in both.
    fn proxy(&self, tables: &str) -> Proxy {
        let command = ["ip", "netns", "exec", self.near.name()];
        let clients = "0.0.0.0:0\"\nclients = [\"10.84.0.0/16\", \"127.0.0.0/8\"]\nway";
        Proxy::start_from(&command, "log = \"connections\"", tables, |text| {
            text.replace("127.0.0.1:0\"\nway", clients)
                .replace("\"127.0.0.0/8\", \"::1\"]", "\"127.0.0.0/8\", \"10.84.0.0/15\"]")
        })
    }

    /// A client's connection to `to` through the proxy.
    fn client(&self, is_near: bool, proxy: &Proxy, to: SocketAddr) -> TcpStream {
        let port = proxy.address(Tongue::Connect).port();
        let (namespace, host) = if is_near { (&self.near, [127, 0, 0, 1]) } else { (&self.far, [10, 84, 0, 1]) };
        let mut client = namespace.run(move || connected((host, port).into())).expect("it can be entered");
        client.write_all(format!("CONNECT {to} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        client
    }

    /// A near client and a far server, joined.
    fn joined(&self, proxy: &Proxy) -> (TcpStream, TcpStream) {
        let mut client = self.client(true, proxy, self.server.local_addr().unwrap());
        client.read_exact(&mut [0; 39]).unwrap();
        (client, patient(self.server.accept().unwrap().0))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            netns::remove(namespace.name()).expect("a namespace of this test can be removed");
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().expect("it runs");
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Bytes that go one way until they are told to end, and are compared as they come.
struct Stream {
    came: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    threads: [JoinHandle<u64>; 2],
}

const CHUNK: usize = 1 << 16;

impl Stream {
    fn new(seed: u64, from: &TcpStream, to: &TcpStream) -> Stream {
        let (came, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let (counted, told) = (came.clone(), is_over.clone());
        // Prime, so that nothing that is lost, doubled or moved falls on a place like its own.
        let bytes = Arc::new(noise(seed, 65_537));
        let expected = bytes.clone();
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while !told.load(Ordering::Relaxed) {
                let at = (sent % bytes.len() as u64) as usize;
                let chunk = &bytes[at..(at + CHUNK).min(bytes.len())];
                from.write_all(chunk).expect("what is held back is not refused");
                sent += chunk.len() as u64;
                // Some tens of megabytes a second are enough to be always in the middle of it.
                thread::sleep(Duration::from_millis(2));
            }
            from.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let len = to.read(&mut buffer).expect("a connection that is held up has not ended");
                if len == 0 {
                    return counted.load(Ordering::Relaxed);
                }
                let before = counted.fetch_add(len as u64, Ordering::Relaxed) as usize;
                let is_right = |(index, byte): (usize, &u8)| *byte == expected[(before + index) % expected.len()];
                assert!(buffer[..len].iter().enumerate().all(is_right), "near byte {before} of seed {seed}");
            }
        });
        Stream { came, is_over, threads: [sender, reader] }
    }

    fn count(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Waits until more has come.
    fn moves(&self, bytes: u64) {
        let (begin, end) = (self.count(), Instant::now() + PATIENCE);
        while self.count() < begin + bytes {
            assert!(Instant::now() < end, "{} bytes came, and no more", self.count() - begin);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until nothing has come for a while.
    fn stops(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let before = self.count();
            thread::sleep(Duration::from_millis(300));
            if self.count() == before {
                return;
            }
            assert!(Instant::now() < end, "bytes come although there is no way");
        }
    }

    /// All that was sent has come.
    fn ends(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let [sent, came] = self.threads.map(|thread| thread.join().expect("it went well"));
        assert_eq!(sent, came);
    }
}

#[test]
fn a_route_that_is_lost_and_comes_back_costs_no_byte() {
    let Some(place) = Place::new("back") else { return };
    let proxy = place.proxy("");
    let route = "route add 10.85.0.0/24 via 10.84.0.2";
    let faults: [(&str, &[&str]); 3] = [
        ("route del 10.85.0.0/24", &[route]),
        ("address del 10.84.0.1/24 dev wan", &["address add 10.84.0.1/24 dev wan", route]),
        ("link set wan down", &["link set wan up", route]),
    ];
    for (seed, (fault, cure)) in (1..).zip(faults) {
        let (client, server) = place.joined(&proxy);
        let streams = [Stream::new(2 * seed, &client, &server), Stream::new(2 * seed + 1, &server, &client)];
        streams.iter().for_each(|stream| stream.moves(1_000_000));
        place.ip(fault);
        // What was under way still comes.
        streams.iter().for_each(Stream::stops);
        let began = Instant::now();
        let answer = rest_of(&mut place.client(true, &proxy, SocketAddr::new(FAR.parse().unwrap(), 80)));
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("unreachable"), "{fault}: {answer}");
        assert_eq!(socks(&place, &proxy), 3, "{fault}: network unreachable (RFC 1928 s6)");
        assert!(began.elapsed() < Duration::from_secs(5), "{fault}: told after {:?}", began.elapsed());
        cure.iter().for_each(|words| place.ip(words));
        streams.iter().for_each(|stream| stream.moves(1_000_000));
        streams.into_iter().for_each(Stream::ends);
    }
}

/// The reply to a SOCKS client that wants to go there.
fn socks(place: &Place, proxy: &Proxy) -> u8 {
    let port = proxy.address(Tongue::Socks5).port();
    let mut client = place.near.run(move || connected(([127, 0, 0, 1], port).into())).expect("it can be entered");
    client.write_all(&[5, 1, 0, 5, 1, 0, 1, 10, 85, 0, 1, 0, 80]).unwrap();
    let answer = rest_of(&mut client);
    assert_eq!((answer.len(), &answer[..3]), (12, &[5, 0, 5][..]));
    answer[3]
}

#[test]
fn a_side_that_times_out_resets_the_other_and_the_log_says_why() {
    let Some(place) = Place::new("gone") else { return };
    let mut proxy = place.proxy("[remote]\nuser_timeout = \"1s\"\n[local]\nuser_timeout = \"1500ms\"\n");
    // The other end of the link: packets are lost, and no route or interface here is other than before.
    let lose = |is_lost: bool| {
        let state = if is_lost { "down" } else { "up" };
        ip(&format!("-n {} link set eth {state}", place.far.name()));
    };
    let unroute = |is_lost: bool| {
        place.ip(if is_lost { "route del 10.85.0.0/24" } else { "route add 10.85.0.0/24 via 10.84.0.2" });
    };
    for lose in [&lose as &dyn Fn(bool), &unroute] {
        let (mut client, mut server) = place.joined(&proxy);
        server.write_all(b"said before").unwrap();
        client.read_exact(&mut [0; 11]).unwrap();
        lose(true);
        client.write_all(b"to nobody").unwrap();
        let end = client.read(&mut [0]).unwrap_err().kind();
        assert_eq!(end, ErrorKind::ConnectionReset, "what timed out must not look finished");
        let line = proxy.says("end=\"remote failed\"");
        assert!(line.contains("timed out"), "{line}");
        lose(false);
    }
    // The other way around: the client is beyond the link, and the server is not.
    let listening = place.near.run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let mut client = place.client(false, &proxy, listening.local_addr().unwrap());
    client.read_exact(&mut [0; 39]).unwrap();
    let mut server = patient(listening.accept().unwrap().0);
    lose(true);
    server.write_all(b"to nobody").unwrap();
    assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let line = proxy.says("end=\"local failed\"");
    assert!(line.contains("timed out"), "{line}");
}
