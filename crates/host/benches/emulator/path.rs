//! Two namespaces and what is between them: an emulated link, or the kernel's forwarding.

use std::net::{Ipv4Addr, UdpSocket};
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration as Wall, Instant};

use headend_engine::cable::{Cable, CableConfig};
use headend_engine::link::queue::DropTail;
use headend_engine::time::Duration;
use headend_engine::units::{Capacity, Rate};
use headend_host::clock;
use headend_host::device::{Change, Device, DeviceCounters};
use headend_host::netns::{self, Namespace};
use headend_host::reactor::{Attachment, Destination, Devices, Limits, Reactor, Report, Stop};
use headend_host::tun::{DeviceSetup, Tun};
use headend_host::{Error, Netlink};

use crate::load::{self, Late, Load, PORT};

const A: Ipv4Addr = Ipv4Addr::new(10, 124, 0, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 125, 0, 2);
const DELAY: Duration = Duration::from_millis(10);
const RATE: Rate = Rate::mbit(10_000);
const MTU: u32 = 1_500;

/// A namespace that goes when this does.
struct Place(Namespace);

impl Place {
    fn new(name: &str) -> Result<Place, Error> {
        Namespace::create(&format!("headend-bench-{}-{name}", std::process::id())).map(Place)
    }

    fn socket(&self, address: Ipv4Addr) -> UdpSocket {
        let bound = self.0.run(|| UdpSocket::bind((address, PORT))).expect("the namespace is there");
        let socket = bound.expect("the address is the namespace's own");
        // What arrives in bursts must wait somewhere.
        let bytes: libc::c_int = 64 << 20;
        // SAFETY: the option takes an int, which is read before the call returns.
        unsafe {
            let len = size_of_val(&bytes) as libc::socklen_t;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const bytes).cast(), len);
        }
        socket
    }

    fn counters(&self, device: &str) -> Result<DeviceCounters, Error> {
        self.0.run(|| Ok(Device::find(&mut Netlink::open()?, device)?.counters))?
    }

    fn ip(&self, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.0.name()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        netns::remove(self.0.name()).expect("a namespace of this bench can be removed");
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2 is installed");
    assert!(status.success(), "ip {arguments}");
}

/// Steady load from `a` to `b`; how many packets came by then to `device` of `b` is for the caller to say.
fn send(a: &Place, b: &Place, rate_mbit: u64, seconds: Wall) -> (u64, Wall) {
    let (from, to) = (a.socket(A), b.socket(B));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load::discard(&to, &stop));
        let sent = scope.spawn(|| load::send_steadily(&from, B, rate_mbit, seconds)).join();
        // What is under way arrives.
        thread::sleep(Wall::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        sent.expect("the sender does not panic")
    })
}

/// Two namespaces with an emulated link between them.
pub(crate) struct Emulated {
    a: Place,
    b: Place,
    stop: Stop,
    driver: Option<JoinHandle<Result<Driven, Error>>>,
}

/// The driver's counts at its end.
struct Driven {
    report: Report,
    /// Packets that the model dropped or lost.
    discarded: u64,
    processor: Wall,
    took: Wall,
}

impl Emulated {
    pub(crate) fn new() -> Result<Emulated, Error> {
        let (a, b) = (Place::new("a")?, Place::new("b")?);
        let tun =
            |place: &Place, address| Tun::create(Some(&place.0), &DeviceSetup::new("path", vec![(address, 8)], MTU));
        let tuns = vec![Some(tun(&a, A)?), Some(tun(&b, B)?)];
        let stop = Stop::new()?;
        let stopper = stop.clone();
        let driver = thread::spawn(move || drive(tuns, stopper));
        Ok(Emulated { a, b, stop, driver: Some(driver) })
    }

    /// The delay of small packets beyond the link's own.
    pub(crate) fn delay_error(mut self, seconds: Wall) -> Result<Late, Error> {
        let (from, to) = (self.a.socket(A), self.b.socket(B));
        let took = thread::scope(|scope| {
            let receiver = scope.spawn(|| load::receive_probes(&to));
            load::send_probes(&from, B, seconds);
            receiver.join().expect("the receiver does not panic")
        });
        self.finish()?;
        // Of the two links in a row the second is the modem's.
        let service = RATE.time_for(headend_engine::units::Bytes::new(load::PROBE_BYTES));
        let own = (DELAY + service + service).as_nanos();
        Ok(Late::of(took.into_iter().map(|took| took.saturating_sub(own)).collect()))
    }

    pub(crate) fn carry(mut self, rate_mbit: u64, seconds: Wall) -> Result<Load, Error> {
        let (sent, took) = send(&self.a, &self.b, rate_mbit, seconds);
        let before = self.a.counters("path")?.tx_dropped;
        let arrived = self.b.counters("path")?.rx_packets;
        let driven = self.finish()?;
        assert_eq!(driven.discarded, 0, "the link's queue is unlimited");
        assert_eq!(driven.report.strain.refused, 0, "the device takes what it is given");
        let core = driven.processor.as_secs_f64() / driven.took.as_secs_f64();
        Ok(Load { sent, took, arrived, not_read: before, core: Some(core) })
    }

    fn finish(&mut self) -> Result<Driven, Error> {
        self.stop.stop();
        self.driver.take().expect("it ends once").join().expect("the driver does not panic")
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        if self.driver.is_some() {
            let _ = self.finish();
        }
    }
}

fn drive(tuns: Vec<Option<Tun>>, stop: Stop) -> Result<Driven, Error> {
    let _ = clock::wake_on_time();
    let config = CableConfig {
        down: RATE,
        up: RATE,
        lan: RATE,
        delay: DELAY,
        down_queue: DropTail::new(Capacity::Unlimited),
        up_queue: DropTail::new(Capacity::Unlimited),
        ..CableConfig::papers()
    };
    let mut cable = Cable::new(config);
    cable.links_mut().into_iter().for_each(|link| link.record_discards());
    let attachment = |node, to| Some(Attachment { node, to: Destination::Always(to) });
    let mut reactor = Reactor::new(cable, vec![attachment(0, 1), attachment(1, 0)], Limits::new(MTU, Duration::ZERO));
    let mut last = Report::default();
    let start = Instant::now();
    reactor.run(&mut Devices::new(tuns, stop), Duration::from_secs(1), &mut |_, report| {
        last = report.clone();
        ControlFlow::Continue(())
    })?;
    let took = start.elapsed();
    let discarded = reactor.node().links().iter().map(|link| link.stats().dropped + link.stats().lost).sum();
    Ok(Driven { report: last, discarded, processor: processor_time(), took })
}

/// The processor time that the calling thread has used.
fn processor_time() -> Wall {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Wall::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Three namespaces: the one in the middle forwards between two veth pairs.
pub(crate) struct Forwarded {
    a: Place,
    b: Place,
    _middle: Place,
}

impl Forwarded {
    pub(crate) fn new() -> Result<Forwarded, Error> {
        let (a, b, middle) = (Place::new("fa")?, Place::new("fb")?, Place::new("fm")?);
        for (end, subnet, side) in [(&a, 124, "left"), (&b, 125, "right")] {
            let (end_name, middle_name) = (end.0.name(), middle.0.name());
            ip(&format!("link add path netns {end_name} type veth peer name {side} netns {middle_name}"));
            end.ip(&format!("address add 10.{subnet}.0.2/24 dev path"));
            middle.ip(&format!("address add 10.{subnet}.0.1/24 dev {side}"));
            middle.ip(&format!("link set {side} up"));
            end.ip("link set path up");
            end.ip(&format!("route add default via 10.{subnet}.0.1"));
            end.0.run(|| offloads_off("path"))??;
            middle.0.run(|| offloads_off(side))??;
        }
        middle.0.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?.expect("a namespace may forward");
        Ok(Forwarded { a, b, _middle: middle })
    }

    pub(crate) fn carry(self, rate_mbit: u64, seconds: Wall) -> Result<Load, Error> {
        // The first packet asks for the neighbours' addresses.
        let (from, to) = (self.a.socket(A), self.b.socket(B));
        thread::scope(|scope| scope.spawn(|| load::send_steadily(&from, B, 1, Wall::from_millis(300))).join())
            .expect("the sender does not panic");
        drop((from, to));
        let before = self.b.counters("path")?.rx_packets;
        let (sent, took) = send(&self.a, &self.b, rate_mbit, seconds);
        let arrived = self.b.counters("path")?.rx_packets - before;
        Ok(Load { sent, took, arrived, not_read: 0, core: None })
    }
}

/// Has the kernel do on `device` of the calling thread's namespace what it does for a TUN device: cut packets to size
/// and compute checksums before.
fn offloads_off(device: &str) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    let whole = Change { gso_max_segs: Some(1), ..Change::default() };
    Device::find(&mut netlink, device)?.change(&mut netlink, whole)?;
    /// `struct ethtool_value` (linux/ethtool.h).
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const ETHTOOL_STXCSUM: u32 = 0x17;
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket to ask with");
    let mut value = Value { command: ETHTOOL_STXCSUM, data: 0 };
    // SAFETY: all zeros are a value of this structure of integers and arrays.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as _;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: SIOCETHTOOL takes a `struct ifreq` that points to what the command takes, and keeps no pointer.
    let set = unsafe { libc::ioctl(fd, libc::SIOCETHTOOL as _, &raw mut request) };
    assert_eq!(set, 0, "{device} computes checksums: {}", std::io::Error::last_os_error());
    Ok(())
}
