//! TUN devices and the reactor on them, for real: these tests need root and say so where they are skipped.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::unix::thread::JoinHandleExt;
use std::thread::{self, JoinHandle};
use std::time::{Duration as Wall, Instant};

use headend_engine::cable::{Cable, CableConfig};
use headend_engine::time::Duration;
use headend_engine::units::Rate;
use headend_host::clock;
use headend_host::device::Device;
use headend_host::netns::{self, Namespace};
use headend_host::reactor::{Attachment, Destination, Devices, Limits, Reactor, Report, Stop};
use headend_host::tun::{DeviceSetup, Tun};
use headend_host::{Error, Netlink};

const A: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 123, 0, 2);

/// A namespace of this test process, which goes when the test ends, however it ends.
struct Made(Namespace);

impl Made {
    fn new(of: &str) -> Made {
        Made(Namespace::create(&format!("headend-test-{}-{of}", std::process::id())).expect("root makes namespaces"))
    }

    fn tun(&self, address: Ipv4Addr) -> Tun {
        self.tun_with(DeviceSetup::new("path", vec![(address, 24)], 1_500))
    }

    fn tun_with(&self, setup: DeviceSetup) -> Tun {
        Tun::create(Some(&self.0), &setup).expect("root makes devices")
    }

    fn has_device(&self, name: &str) -> bool {
        let find = || Netlink::open().and_then(|mut netlink| Device::all(&mut netlink));
        let devices: Vec<Device> = self.0.run(find).and_then(|devices| devices).expect("devices can be listed");
        devices.iter().any(|device| device.name == name)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        netns::remove(self.0.name()).expect("a namespace of this test can be removed");
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: making network namespaces and devices takes root");
    }
    is_root
}

/// A cable path of 100 Mbit/s that takes `delay` one way.
fn path(delay: Duration) -> Cable {
    let rate = Rate::mbit(100);
    let mut cable = Cable::new(CableConfig { down: rate, up: rate, lan: rate, delay, ..CableConfig::papers() });
    cable.links_mut().into_iter().for_each(|link| link.record_discards());
    cable
}

/// A path between two namespaces, run on a thread of its own until this is dropped.
struct Running {
    stop: Stop,
    thread: Option<JoinHandle<Result<Report, Error>>>,
}

impl Running {
    fn between(a: &Made, b: &Made, delay: Duration) -> Running {
        Running::with([a.tun(A), b.tun(B)], delay)
    }

    fn with(tuns: [Tun; 2], delay: Duration) -> Running {
        let tuns = tuns.map(Some).into();
        let stop = Stop::new().expect("an eventfd can be had");
        let stopper = stop.clone();
        let run = move || {
            // Where it is not granted, the test's bounds are wide enough.
            let _ = clock::wake_on_time();
            let attachment = |node, to| Some(Attachment { node, to: Destination::Always(to) });
            let attachments = vec![attachment(0, 1), attachment(1, 0)];
            let mut reactor = Reactor::new(path(delay), attachments, Limits::new(1_500, Duration::ZERO));
            let mut last = Report::default();
            reactor.run(&mut Devices::new(tuns, stopper), Duration::from_millis(100), &mut |_, report| {
                last = report.clone();
                ControlFlow::Continue(())
            })?;
            Ok(last)
        };
        Running { stop, thread: Some(thread::spawn(run)) }
    }

    /// The processor time that its thread has used.
    fn processor_time(&self) -> Wall {
        let thread = self.thread.as_ref().expect("it runs").as_pthread_t();
        let mut clock = 0;
        // SAFETY: the thread has not been joined, so its handle is valid; the clock's number is written to a local.
        assert_eq!(unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) }, 0);
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock was just had, and the time is written to a local.
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
        Wall::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Stops it and returns its last report.
    fn stop(mut self) -> Report {
        self.stop.stop();
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the reactor does not panic").expect("the reactor does not fail")
    }
}

fn socket(place: &Made, address: Ipv4Addr) -> UdpSocket {
    let bound = place.0.run(|| UdpSocket::bind((address, 7_000))).expect("the namespace is there");
    let socket = bound.expect("the address is the namespace's own");
    socket.set_read_timeout(Some(Wall::from_secs(20))).expect("a time-out is allowed");
    socket
}

#[test]
fn a_device_is_what_was_asked_for_and_goes_with_its_descriptor() {
    if !is_root() {
        return;
    }
    let place = Made::new("device");
    let tun = place.tun(A);
    assert_eq!((tun.name(), tun.device().up, tun.device().mtu), ("path", true, 1_500));
    assert_eq!((tun.device().tx_queue_len, tun.device().gso_max_segs), (10_000, 1));
    assert!(place.has_device("path"));
    drop(tun);
    assert!(!place.has_device("path"));
}

#[test]
fn a_name_that_no_interface_can_have_is_refused_with_the_name() {
    for name in ["", "sixteen-letters-", "a/b"] {
        let refused = Tun::create(None, &DeviceSetup::new(name, Vec::<(Ipv4Addr, u8)>::new(), 1_500));
        let error = refused.expect_err("no interface has such a name").to_string();
        // Without root not even /dev/net/tun may be opened.
        assert!(error.contains(&format!("{name:?}")) || error.contains("/dev/net/tun"), "{error}");
    }
}

#[test]
fn packets_cross_between_namespaces_whole_and_with_the_path_s_delay() {
    if !is_root() {
        return;
    }
    let (a, b) = (Made::new("cross-a"), Made::new("cross-b"));
    let running = Running::between(&a, &b, Duration::from_millis(20));
    let (near, far) = (socket(&a, A), socket(&b, B));
    let mut buffer = [0; 2_000];
    let start = Instant::now();
    for n in 0..50_u8 {
        near.send_to(&[n; 1_000], (B, 7_000)).expect("the path takes it");
    }
    for n in 0..50 {
        let (len, from) = far.recv_from(&mut buffer).expect("everything arrives");
        assert_eq!((&buffer[..len], from), (&[n; 1_000][..], (A, 7_000).into()));
    }
    far.send_to(b"back", (A, 7_000)).expect("the path takes it");
    let (len, _) = near.recv_from(&mut buffer).expect("the answer arrives");
    assert_eq!(&buffer[..len], b"back");
    let took = start.elapsed();
    assert!(took >= Wall::from_millis(40), "twice 20 ms of propagation, and not {took:?}");
    let report = running.stop();
    // Besides ours there may be a few packets with which interfaces look for routers.
    assert!(report.ports[0].entered >= 50 && report.ports[1].left >= 50, "{report:?}");
    assert_eq!((report.strain.dropped, report.strain.refused, report.strain.full), (0, 0, 0), "{report:?}");
    assert!(!a.has_device("path") && !b.has_device("path"), "the devices go with the reactor");
}

#[test]
fn bundles_of_a_connection_cross_as_packets_and_say_the_same() {
    if !is_root() {
        return;
    }
    let (a, b) = (Made::new("bundle-a"), Made::new("bundle-b"));
    let setup = |address| DeviceSetup::new("path", vec![(address, 24)], 1_500).with_offloads(40);
    let running = Running::with([a.tun_with(setup(A)), b.tun_with(setup(B))], Duration::from_millis(1));
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let listener = b.0.run(|| TcpListener::bind((B, 80))).expect("it is there").expect("its own address");
    let stream = a.0.run(|| TcpStream::connect_timeout(&(B, 80).into(), Wall::from_secs(20)));
    let mut stream = stream.expect("it is there").expect("checksums are good");
    let (mut receiver, _) = listener.accept().expect("it has connected");
    receiver.set_read_timeout(Some(Wall::from_secs(20))).expect("a time-out is allowed");
    let mut got = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            stream.write_all(&sent).expect("it is taken");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        });
        receiver.read_to_end(&mut got).expect("it arrives");
    });
    assert!(got == sent, "every byte in order");
    let report = running.stop();
    assert_eq!((report.strain.oversize, report.strain.refused), (0, 0), "{report:?}");
    // Packets of 1500 bytes with 52 of headers, however they were handed over.
    assert!(report.ports[0].entered >= 3_000_000 / 1_448, "{report:?}");
}

#[test]
fn an_idle_reactor_takes_less_than_a_hundredth_of_a_core() {
    if !is_root() {
        return;
    }
    let (a, b) = (Made::new("idle-a"), Made::new("idle-b"));
    let running = Running::between(&a, &b, Duration::from_millis(20));
    // The first second has the interfaces' own announcements.
    thread::sleep(Wall::from_secs(1));
    let thread_time = running.processor_time();
    let start = Instant::now();
    thread::sleep(Wall::from_secs(2));
    let used = running.processor_time() - thread_time;
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    running.stop();
    assert!(share < 0.01, "an idle reactor took {:.3}% of a core", 100.0 * share);
}

/// CLOCK_MONOTONIC now, in nanoseconds.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn the_kernel_notes_when_packets_come_also_after_some_found_no_room() {
    if !is_root() {
        return;
    }
    let place = Made::new("noted");
    let mut setup = DeviceSetup::new("path", vec![(A, 24)], 1_500);
    setup.change.tx_queue_len = Some(50);
    let mut tun = place.tun_with(setup);
    if let Err(error) = tun.note_arrivals() {
        eprintln!("skipped: this root may not load programs into the kernel: {error}");
        return;
    }
    let socket = place.0.run(|| UdpSocket::bind((A, 0))).expect("the namespace is there").expect("any port");
    let send = |count: u32| (0..count).for_each(|_| drop(socket.send_to(b"one", (B, 9))));
    let mut read_all = || {
        let mut buffer = [0; 2_000];
        let mut times = Vec::new();
        while tun.receive(&mut buffer).is_ok() {
            times.push(tun.came_ns());
        }
        times
    };
    // What came before, as the kernel's own announcements, may not have been noted; from the first time that it is empty on, all are.
    send(1);
    read_all();
    for beyond in [0, 200, 5_000] {
        send(beyond);
        read_all();
        // Found empty twice, with none between.
        read_all();
        let before = now_ns();
        send(3);
        let after = now_ns();
        let times = read_all();
        let own = times.iter().filter(|time| time.is_some_and(|time| (before..=after).contains(&time))).count();
        assert!(own >= 3 && times.is_sorted(), "after {beyond}: {times:?} of {before} to {after}");
    }
}
