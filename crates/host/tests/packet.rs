//! The reactor between interfaces that are there anyway, made for the purpose: these tests need root and iproute2, and
//! say so where they are skipped.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration as Wall, Instant};

use headend_engine::cable::{Cable, CableConfig};
use headend_engine::node::Port;
use headend_engine::time::Duration;
use headend_host::Error;
use headend_host::netns::{self, Namespace};
use headend_host::packet::{HEADER_BYTES, Interface};
use headend_host::reactor::{Attachment, Destination, Devices, Limits, Outside, Reactor, Report, Stop};
use headend_host::socket::Info;

/// A namespace of this test process, which goes when the test ends, however it ends.
struct Made(Namespace);

impl Made {
    fn new(of: &str) -> Made {
        Made(Namespace::create(&format!("headend-test-{}-{of}", std::process::id())).expect("root makes namespaces"))
    }

    fn socket(&self, address: &str) -> UdpSocket {
        let bound = self.0.run(|| UdpSocket::bind((address, 7_000))).expect("the namespace is there");
        let socket = bound.expect("the address is the namespace's own");
        socket.set_read_timeout(Some(Wall::from_secs(20))).expect("a time-out is allowed");
        socket
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        netns::remove(self.0.name()).expect("a namespace of this test can be removed");
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2 is there");
    assert!(status.success(), "ip {arguments}");
}

fn is_possible() -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: making network namespaces and interfaces takes root");
        return false;
    }
    let has_ip = Command::new("ip").arg("-V").output().is_ok();
    if !has_ip {
        eprintln!("skipped: making interfaces takes the command ip, of iproute2");
    }
    has_ip
}

/// `left` and `right` in `middle`, each wired to `end` in a place of its own, with 10.123.1.1 and .2.
fn wire(middle: &Made, places: [&Made; 2]) {
    for (place, (side, address)) in places.into_iter().zip([("left", "10.123.1.1"), ("right", "10.123.1.2")]) {
        let (end, middle) = (place.0.name(), middle.0.name());
        ip(&format!("link add end netns {end} type veth peer name {side} netns {middle}"));
        ip(&format!("-n {end} address add {address}/24 dev end"));
        ip(&format!("-n {end} link set end up"));
        ip(&format!("-n {middle} link set {side} up"));
    }
}

#[test]
fn frames_cross_between_interfaces_and_links_count_the_packets_in_them() {
    if !is_possible() {
        return;
    }
    let (a, middle, b) = (Made::new("wire-a"), Made::new("wire-m"), Made::new("wire-b"));
    wire(&middle, [&a, &b]);
    let interface = |name: &str| middle.0.run(|| Interface::open(name)).and_then(|opened| opened).expect("it is up");
    let gates = vec![Some(interface("left")), Some(interface("right"))];
    let stop = Stop::new().expect("an eventfd can be had");
    let stopper = stop.clone();
    let reactor = thread::spawn(move || {
        let mut cable = Cable::new(CableConfig { delay: Duration::from_millis(20), ..CableConfig::papers() });
        cable.links_mut().into_iter().for_each(|link| link.record_discards());
        let attachment = |node, to| Some(Attachment { node, to: Destination::Always(to) });
        let limits = Limits::new(1_500 + HEADER_BYTES as u32, Duration::ZERO);
        let mut reactor = Reactor::new(cable, vec![attachment(0, 1), attachment(1, 0)], limits);
        let mut last = Report::default();
        let mut devices = Devices::new(gates, stopper);
        let ran = reactor.run(&mut devices, Duration::from_millis(100), &mut |_, report| {
            last = report.clone();
            ControlFlow::Continue(())
        });
        ran.map(|()| last)
    });
    let (near, far) = (a.socket("10.123.1.1"), b.socket("10.123.1.2"));
    // A veth leaves checksums to hardware that it does not have; UDP may do without (RFC 768).
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option takes an int, which is read before the call returns.
    let set =
        unsafe { libc::setsockopt(near.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const on).cast(), len) };
    assert_eq!(set, 0);
    let start = Instant::now();
    near.send_to(&[7; 1_000], "10.123.1.2:7000").expect("the path takes it");
    let mut buffer = [0; 2_000];
    let (len, from) = far.recv_from(&mut buffer).expect("it arrives");
    assert_eq!((&buffer[..len], from.to_string().as_str()), (&[7; 1_000][..], "10.123.1.1:7000"));
    // The question for the other's address and its answer cross before.
    assert!(start.elapsed() >= Wall::from_millis(60), "three times 20 ms, and not {:?}", start.elapsed());
    stop.stop();
    let report = reactor.join().expect("it does not panic").expect("it does not fail");
    let counts = report.ports[1];
    assert!(counts.left_bytes >= 1_028 && counts.left_bytes < 1_028 + 60 * counts.left, "{counts:?}");
    assert_eq!(report.strain.dropped, 0, "{report:?}");
}

#[test]
fn tcp_crosses_a_veth_that_leaves_checksums_and_cutting_to_others() {
    if !is_possible() {
        return;
    }
    let (a, middle, b) = (Made::new("tcp-a"), Made::new("tcp-m"), Made::new("tcp-b"));
    wire(&middle, [&a, &b]);
    let interface = |name: &str| middle.0.run(|| Interface::open(name)).and_then(|opened| opened).expect("it is up");
    let gates = vec![Some(interface("left")), Some(interface("right"))];
    let stop = Stop::new().expect("an eventfd can be had");
    let stopper = stop.clone();
    let reactor = thread::spawn(move || {
        let mut cable = Cable::new(CableConfig { delay: Duration::from_millis(1), ..CableConfig::papers() });
        cable.links_mut().into_iter().for_each(|link| link.record_discards());
        let attachment = |node, to| Some(Attachment { node, to: Destination::Always(to) });
        let limits = Limits::new(1_500 + HEADER_BYTES as u32, Duration::ZERO);
        let mut reactor = Reactor::new(cable, vec![attachment(0, 1), attachment(1, 0)], limits);
        let mut devices = Devices::new(gates, stopper);
        reactor.run(&mut devices, Duration::from_millis(100), &mut |_, _| ControlFlow::Continue(()))
    });
    let listener = b.0.run(|| TcpListener::bind("10.123.1.2:80")).expect("it is there").expect("its own address");
    let to: SocketAddr = "10.123.1.2:80".parse().expect("an address");
    let connected = a.0.run(|| TcpStream::connect_timeout(&to, Wall::from_secs(20))).expect("it is there");
    let mut client = connected.expect("it is answered");
    let (mut server, _) = listener.accept().expect("it has connected");
    server.set_read_timeout(Some(Wall::from_secs(20))).expect("a time-out is allowed");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let writer = {
        let sent = sent.clone();
        thread::spawn(move || client.write_all(&sent).map(|()| client))
    };
    let mut came = vec![0; sent.len()];
    server.read_exact(&mut came).expect("all of it arrives");
    assert!(came == sent, "each byte in its place");
    let client = writer.join().expect("it does not panic").expect("it is taken");
    // Cut as they should be: the path lost none of them for its length.
    let info = Info::of(&client).expect("the kernel tells");
    assert!(info.retransmits < 1_000, "3 MB are 2,000 segments: {info:?}");
    stop.stop();
    reactor.join().expect("it does not panic").expect("it does not fail");
}

#[test]
fn only_an_interface_that_is_removed_ends_the_run() {
    if !is_possible() {
        return;
    }
    let (a, middle, b) = (Made::new("flap-a"), Made::new("flap-m"), Made::new("flap-b"));
    wire(&middle, [&a, &b]);
    let interface = |name: &str| middle.0.run(|| Interface::open(name)).and_then(|opened| opened).expect("it is up");
    let stop = Stop::new().expect("an eventfd can be had");
    let mut devices = Devices::new(vec![Some(interface("left")), Some(interface("right"))], stop);
    // The frames of both that come in a fifth of a second.
    let mut frames = || -> Result<usize, Error> {
        let (mut count, mut buffer) = (0, [0; 2_000]);
        let until = devices.now() + Duration::from_millis(200);
        while devices.now() < until {
            devices.wait(Some(until), true)?;
            for port in [Port(0), Port(1)] {
                while devices.read(port, &mut buffer)?.is_some() {
                    count += usize::from(port == Port(0));
                }
            }
        }
        Ok(count)
    };
    frames().expect("both are up");
    let link = |what: &str| ip(&format!("-n {} link {what}", middle.0.name()));
    link("set left down");
    frames().expect("down is no failure");
    link("set left up");
    frames().expect("up is none either");
    let near = a.socket("10.123.1.1");
    near.send_to(&[7; 100], "10.123.1.2:7000").expect("the interface is up");
    // At least the question who has the address.
    assert!(frames().expect("it is up") > 0, "frames come as before");
    link("set left down");
    frames().expect("down is no failure");
    link("del left");
    frames().expect("nothing is said of an interface that goes while it is down");
    let error = devices.dropped().expect_err("the interface is gone").to_string();
    assert!(error.contains("interface left is gone"), "{error}");
    link("del right");
}

#[test]
fn an_interface_that_is_down_or_not_there_is_refused_with_its_name() {
    if !is_possible() {
        return;
    }
    let place = Made::new("down");
    for name in ["lo", "no-such"] {
        let opened = place.0.run(|| Interface::open(name)).expect("the namespace is there");
        let error = opened.expect_err("there is nothing to open").to_string();
        assert!(error.contains(name), "{error}");
    }
}
