//! Devices, routes and settings in a namespace of their own: these tests need root and say so where they are skipped.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;

use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;
use headend_host::device::{Change, Device};
use headend_host::netns::{self, Namespace};
use headend_host::route::{Metrics, Route};
use headend_host::socket::Info;
use headend_host::{Netlink, personality, sysctl};

/// Runs `test` in a namespace of its own, which ends with it.
fn inside(of: &str, test: impl FnOnce() + Send) {
    struct Name(String);
    impl Drop for Name {
        fn drop(&mut self) {
            netns::remove(&self.0).expect("a namespace of this test can be removed");
        }
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: making network namespaces takes root");
        return;
    }
    let name = Name(format!("headend-test-{}-{of}", std::process::id()));
    Namespace::create(&name.0).expect("root may make a namespace").run(test).expect("it can be entered");
}

/// The loopback, brought up.
fn loopback(netlink: &mut Netlink) -> Device {
    let lo = Device::find(netlink, "lo").expect("every namespace has a loopback");
    lo.change(netlink, Change { up: Some(true), ..Change::default() }).expect("root may");
    lo
}

#[test]
fn a_device_is_as_it_was_changed() {
    inside("device", || {
        let mut netlink = Netlink::open().expect("a socket");
        let before = Device::find(&mut netlink, "lo").expect("every namespace has a loopback");
        assert!(!before.up);
        let change = Change { up: Some(true), mtu: Some(1_300), tx_queue_len: Some(7_000), gso_max_segs: Some(1) };
        before.change(&mut netlink, change).expect("root may");
        let after = Device::find(&mut netlink, "lo").expect("it is still there");
        assert_eq!((after.up, after.mtu, after.tx_queue_len, after.gso_max_segs), (true, 1_300, 7_000, 1));
        let error = Device::find(&mut netlink, "eth7").expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}

#[test]
fn a_route_shows_the_metrics_it_was_given() {
    inside("route", || {
        let mut netlink = Netlink::open().expect("a socket");
        let lo = loopback(&mut netlink);
        let address = Ipv4Addr::new(10, 1, 2, 3);
        lo.add_address(&mut netlink, address, 32).expect("root may");
        let metrics = Metrics {
            initial_window_segments: Some(4),
            rto_min: Some(Duration::from_millis(700)),
            advertised_mss: Some(1_000),
            quick_ack: true,
            congestion_control: Some("reno".to_owned()),
        };
        let route = Route::default_route(address, metrics);
        route.add(&mut netlink, &lo).expect("root may");
        let error = route.add(&mut netlink, &lo).expect_err("it is there");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        let Ok(output) = Command::new("ip").args(["route", "show", "default"]).output() else {
            eprintln!("skipped: no `ip` on this machine");
            return;
        };
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        for part in ["dev lo", "src 10.1.2.3", "initcwnd 4", "rto_min lock 700ms", "advmss 1000", "quickack 1"] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert!(shown.contains("congctl reno"), "{shown}");
    });
}

#[test]
fn a_setting_belongs_to_its_namespace() {
    let before = sysctl::read("net.ipv4.tcp_reordering").expect("every Linux has it");
    inside("sysctl", || {
        sysctl::KernelSetting::new("net.ipv4.tcp_reordering", 17).apply().expect("root may");
        assert_eq!(sysctl::read("net.ipv4.tcp_reordering").expect("read"), "17");
        let error = sysctl::KernelSetting::new("net.ipv4.no_such_setting", 1).apply().expect_err("there is none");
        assert!(error.to_string().contains("net.ipv4.no_such_setting = 1"), "{error}");
    });
    assert_eq!(sysctl::read("net.ipv4.tcp_reordering").expect("read"), before, "nothing leaks out");
}

/// The kernel takes what every personality maps to, and a connection has it.
#[test]
fn a_host_takes_every_personality() {
    for (name, make) in Personality::ALL {
        inside(name, || {
            let personality = make();
            let (settings, _) = personality::map_here(&personality);
            let mut netlink = Netlink::open().expect("a socket");
            let lo = loopback(&mut netlink);
            let address = Ipv4Addr::new(10, 1, 2, 3);
            lo.add_address(&mut netlink, address, 32).expect("root may");
            Route::default_route(address, settings.metrics.clone())
                .add(&mut netlink, &lo)
                .expect("the kernel takes it");
            for setting in &settings.sysctls {
                setting.apply().expect("the kernel takes it");
            }
            let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback is up");
            settings.socket.apply(&listener).expect("the kernel takes it");
            let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            settings.socket.apply(&sender).expect("the kernel takes it");
            let (accepted, _) = listener.accept().expect("it connected");
            let info = Info::of(&accepted).expect("it is a TCP socket");
            // Options come off the segment size that was asked for (RFC 6691): 12 bytes of timestamps.
            let options = if personality.timestamps { 12 } else { 0 };
            assert_eq!(info.mss.get(), personality.mss.get() - options, "{name}: {info:?}");
        });
    }
}
