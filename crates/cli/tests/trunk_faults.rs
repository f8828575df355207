//! `headend trunk` over paths that lose, reorder, repeat, slow down and are cut: a relay between two sites does that to the
//! daemons' datagrams. These tests need root, ip and iptables, and say so where they are skipped.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each file of tests uses a part")]
#[path = "support/sites.rs"]
mod sites;

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sites::{Daemon, SITES, Sites, USERS, ip, wait_for};

const SEALED: &str = "carriage = \"sealed\"\n";
/// Bytes that wait in the relay at most.
const QUEUE: u64 = 100_000;

/// The harm that the relay does to datagrams; a test changes it while it runs.
#[derive(Default)]
struct Harm {
    /// Of a thousand: lost, held back behind ten others, and sent twice.
    lost: AtomicU64,
    held: AtomicU64,
    twice: AtomicU64,
    is_cut: AtomicBool,
    /// Bits a second; 0 is as many as come.
    rate_bps: AtomicU64,
    is_over: AtomicBool,
}

/// A relay at the east's site, port 7701, to which the west sends.
struct Relay {
    harm: Arc<Harm>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(sites: &Sites, harm: Harm) -> Relay {
        let socket = sites.in_site(1, || UdpSocket::bind(("10.77.9.2", 7_701)).expect("the address is there"));
        socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out is allowed");
        let harm = Arc::new(harm);
        let orders = harm.clone();
        let thread = thread::spawn(move || relay(&socket, &orders));
        Relay { harm, thread: Some(thread) }
    }

    fn set(&self, what: impl Fn(&Harm) -> &AtomicU64, value: u64) {
        what(&self.harm).store(value, Ordering::Relaxed);
    }

    fn cut(&self, is_cut: bool) {
        self.harm.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.harm.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().expect("it is ended once").join();
    }
}

fn relay(socket: &UdpSocket, harm: &Harm) {
    let [west, east] = SITES.map(|site| SocketAddr::new(site.parse().expect("an address"), 7_700));
    let mut buffer = [0; 2_000];
    // A fixed sequence: what a run loses it loses again.
    let mut chance = 0x9e37_79b9_u64;
    let mut strikes = |thousandths: &AtomicU64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % 1_000 < thousandths.load(Ordering::Relaxed)
    };
    let mut waiting: VecDeque<(Instant, Vec<u8>, SocketAddr)> = VecDeque::new();
    let mut held: VecDeque<(u32, Vec<u8>, SocketAddr)> = VecDeque::new();
    let mut free_at = Instant::now();
    while !harm.is_over.load(Ordering::Relaxed) {
        while waiting.front().is_some_and(|(due, ..)| *due <= Instant::now()) {
            let (_, bytes, to) = waiting.pop_front().expect("it was just there");
            let _ = socket.send_to(&bytes, to);
        }
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        if harm.is_cut.load(Ordering::Relaxed) || strikes(&harm.lost) {
            continue;
        }
        let to = if from == west { east } else { west };
        let bytes = buffer[..len].to_vec();
        held.iter_mut().for_each(|(others, ..)| *others -= 1);
        let mut leaving = Vec::new();
        if strikes(&harm.held) {
            held.push_back((10, bytes, to));
        } else {
            if strikes(&harm.twice) {
                leaving.push((bytes.clone(), to));
            }
            leaving.push((bytes, to));
        }
        while held.front().is_some_and(|(others, ..)| *others == 0) {
            let (_, bytes, to) = held.pop_front().expect("it was just there");
            leaving.push((bytes, to));
        }
        let rate_bps = harm.rate_bps.load(Ordering::Relaxed);
        for (bytes, to) in leaving {
            if rate_bps == 0 {
                let _ = socket.send_to(&bytes, to);
                continue;
            }
            let now = Instant::now();
            free_at = free_at.max(now);
            let queued = free_at.duration_since(now).as_nanos() as u64 * (rate_bps / 8) / 1_000_000_000;
            if queued < QUEUE {
                free_at += Duration::from_nanos(bytes.len() as u64 * 8_000_000_000 / rate_bps);
                waiting.push_back((free_at, bytes, to));
            }
        }
    }
}

/// Two sites with sealed carriage whose daemons speak through a relay.
fn harmed(of: &str, peer: &str, harm: Harm) -> (Sites, Relay, [Daemon; 2]) {
    let sites = Sites::new(of, true);
    sites.unroute();
    let files = [sites.write(0, Some("10.77.9.2:7701"), SEALED, peer), sites.write(1, None, SEALED, peer)];
    let relay = Relay::start(&sites, harm);
    let daemons = sites.up_both(&files);
    (sites, relay, daemons)
}

#[test]
fn a_path_that_loses_three_in_ten_each_way_is_used() {
    if !sites::are_possible() {
        return;
    }
    let (sites, relay, [west, _east]) = harmed("loses", "", Harm::default());
    relay.set(|harm| &harm.lost, 300);
    sites.transfer(0, 30_000);
    let to = &west.peer()["to"];
    assert!(to["lost"].as_u64() > Some(0), "{to}");
    relay.set(|harm| &harm.lost, 0);
    sites.transfer(0, 1_000_000);
    west.carries();
}

#[test]
fn a_path_that_reorders_one_in_ten_is_no_reason_to_slow_down_for_long() {
    if !sites::are_possible() {
        return;
    }
    let (sites, relay, [west, _east]) = harmed("reorders", "", Harm::default());
    relay.set(|harm| &harm.held, 100);
    sites.transfer(0, 3_000_000);
    let before = west.peer()["to"]["losses"].as_u64().expect("a number");
    sites.transfer(0, 3_000_000);
    let to = &west.peer()["to"];
    // What is late counts as lost until it comes; after a few the sender waits longer.
    assert!(to["losses"].as_u64().expect("a number") - before <= 10, "{to}");
    assert_eq!(to["timeouts"], 0, "{to}");
}

#[test]
fn a_path_that_repeats_gives_users_each_packet_once() {
    if !sites::are_possible() {
        return;
    }
    let (sites, relay, [west, east]) = harmed("repeats", "", Harm::default());
    relay.set(|harm| &harm.twice, 1_000);
    let receiver = sites.in_user(1, || UdpSocket::bind((USERS[1], 7_000)).expect("the address is there"));
    receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out is allowed");
    let sender = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    for number in 0..200_u32 {
        sender.send_to(&number.to_be_bytes(), (USERS[1], 7_000)).expect("it is sent");
        thread::sleep(Duration::from_millis(1));
    }
    let mut came = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(len) = receiver.recv(&mut buffer) {
        came.push(u32::from_be_bytes(buffer[..len].try_into().expect("as it was sent")));
    }
    assert_eq!(came, (0..200).collect::<Vec<_>>());
    wait_for("the second ones are counted", || east.peer()["refused"].as_u64() >= Some(200));
    assert_eq!(west.peer()["to"]["losses"], 0);
}

#[test]
fn a_path_that_was_cut_for_long_is_used_again() {
    if !sites::are_possible() {
        return;
    }
    let (sites, relay, [west, east]) = harmed("cut", "", Harm::default());
    sites.transfer(0, 1_000_000);
    relay.cut(true);
    wait_for("both miss each other", || [&west, &east].iter().all(|daemon| daemon.peer()["state"] == "down"));
    assert!(!sites.reaches(0));
    thread::sleep(Duration::from_secs(5));
    relay.cut(false);
    west.carries();
    east.carries();
    sites.transfer(0, 1_000_000);
    sites.transfer(1, 1_000_000);
}

#[test]
fn a_path_whose_rate_falls_and_rises_by_ten_is_filled_each_time() {
    if !sites::are_possible() {
        return;
    }
    let (sites, relay, [west, _east]) = harmed("rates", "", Harm::default());
    relay.set(|harm| &harm.rate_bps, 20_000_000);
    sites.transfer(0, 4_000_000);
    relay.set(|harm| &harm.rate_bps, 2_000_000);
    let slow = sites.transfer(0, 1_000_000);
    assert!(slow >= Duration::from_secs(3), "a megabyte takes four seconds at that rate: {slow:?}");
    relay.set(|harm| &harm.rate_bps, 20_000_000);
    sites.transfer(0, 4_000_000);
    assert_eq!(west.peer()["circuits"], 1, "the circuit went on");
}

#[test]
fn a_guaranteed_rate_stops_where_a_path_has_collapsed() {
    if !sites::are_possible() {
        return;
    }
    let peer = "gmb = \"2Mbit/s\"\ngmb_max = \"2Mbit/s\"\n";
    let sites = Sites::new("breaker", true);
    sites.unroute();
    let whole = format!("{SEALED}link = \"10Mbit/s\"");
    let files = [sites.write(0, Some("10.77.9.2:7701"), &whole, peer), sites.write(1, None, &whole, peer)];
    let relay = Relay::start(&sites, Harm::default());
    let [west, _east] = sites.up_both(&files);
    relay.set(|harm| &harm.lost, 700);
    let sender = sites.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
    let state = || {
        let peer = west.peer();
        (peer["circuits"].as_u64(), peer["to"]["suspended"] == true, peer["to"]["guaranteed_bytes"].as_u64())
    };
    // With so much lost the other end may be given up, and a new circuit counts anew: then it is tried again.
    wait_for("nothing leaves without control while the rate is suspended", || {
        for _ in 0..400 {
            let _ = sender.send_to(&[7; 1_000], (USERS[1], 7_000));
        }
        let (circuits, is_suspended, before) = state();
        if !is_suspended {
            return false;
        }
        for _ in 0..400 {
            let _ = sender.send_to(&[7; 1_000], (USERS[1], 7_000));
        }
        thread::sleep(Duration::from_secs(1));
        let after = state();
        assert!(after.0 != circuits || !after.1 || after.2 == before, "{before:?} bytes and then {:?}", after.2);
        after == (circuits, true, before)
    });
}

#[test]
fn a_device_that_is_taken_away_ends_the_daemon_and_nothing_leaks() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("gone", true);
    sites.unroute();
    let files = sites.write_both(SEALED, "");
    for side in 0..2 {
        ip(&format!("-n {} route add default via {}", sites.site_name(side), SITES[1 - side]));
    }
    let [west, _east] = sites.up_both(&files);
    ip(&format!("-n {} link del hd-west", sites.site_name(0)));
    let (code, log) = west.ended();
    assert!(code == Some(1) && log.contains("read device hd-west"), "{log}");
    assert!(!sites.reaches(0), "packets stop, and do not pass unencrypted");
    let west = sites.up(0, &files[0]);
    west.carries();
    wait_for("packets pass again", || sites.reaches(0));
}

#[test]
fn a_path_is_measured_without_a_trunk_at_this_end() {
    if !sites::are_possible() {
        return;
    }
    let sites = Sites::new("measure", true);
    sites.unroute();
    let files = [sites.write(0, Some("10.77.9.2:7701"), SEALED, ""), sites.write(1, None, SEALED, "")];
    let relay = Relay::start(&sites, Harm::default());
    let before = sites.routes(0);
    let measured = || {
        let output = sites.in_site(0, || {
            let mut command = sites::headend();
            command.args(["trunk", "measure"]).arg(&files[0]).args(["east", "--duration", "9s", "--format", "json"]);
            command.output().expect("the binary runs")
        });
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, _, said) = measured();
    assert!(code == Some(1) && said.contains("the peer does not answer"), "{said}");
    let _east = sites.up(1, &files[1]);
    relay.set(|harm| &harm.lost, 20);
    relay.set(|harm| &harm.rate_bps, 10_000_000);
    let (code, out, said) = measured();
    assert_eq!(code, Some(0), "{said}");
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let path = &found["path"];
    let number = |name: &str| path[name].as_f64().expect("a number");
    assert!((0.002..0.06).contains(&number("loss")) && number("counted") > 300.0, "{path}");
    assert!((3e6..1.05e7).contains(&number("rate_bps")), "{path}");
    assert!(number("rtt_s") < number("full_rtt_s"), "{path}");
    let gains = found["simulated"].as_array().expect("four rows");
    assert!(gains.len() == 4 && gains[1]["goodput_bps"].as_f64() > gains[0]["goodput_bps"].as_f64(), "{found}");
    assert_eq!(sites.routes(0), before, "nothing was set");
}
