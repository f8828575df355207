//! Managed queues beside the pseudo-code of their RFCs: `aqm/judge.py` follows it step by step in floating point, and has written
//! what each does with the same packets. Both must drop and mark the same ones.

use headend_engine::link::queue::Queue;
use headend_engine::link::queue::codel::{self, Codel, Times};
use headend_engine::link::queue::dualpi2::{self, DualPi2};
use headend_engine::link::queue::fq_codel::{self, FqCodel};
use headend_engine::link::queue::pie::{self, Pie};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Capacity};

const TIMES: Times = Times { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

fn packet(id: u64, len: u32, ecn: Ecn, flow: u16) -> Packet {
    let end = Endpoint { node: 0, port: flow };
    Packet { id, src: end, dst: end, len, class: Class::Unmarked, ecn, body: Body::Opaque }
}

/// Lets a queue do what the lines say, and compares what becomes of the packets.
fn follow(queue: &mut dyn Queue, lines: &str) {
    let (mut drops, mut marks) = (0, 0);
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let now = Time::from_nanos(number(1) * 1_000);
        if words[0] == "e" {
            let packet = packet(number(2), number(3) as u32, Ecn::of_bits(number(4) as u8), number(5) as u16);
            assert_eq!(queue.enqueue(now, &packet, Bytes::ZERO), None, "{line}");
            continue;
        }
        let next = queue.dequeue(now);
        let dropped: Vec<String> =
            std::iter::from_fn(|| queue.take_dropped()).map(|(_, packet)| packet.id.to_string()).collect();
        let dropped = if dropped.is_empty() { "-".to_owned() } else { dropped.join(",") };
        let served = next.map_or("-".to_owned(), |(_, packet)| {
            marks += u64::from(packet.ecn == Ecn::Ce);
            format!("{} {}", packet.id, u8::from(packet.ecn == Ecn::Ce))
        });
        drops += u64::from(dropped != "-");
        assert_eq!(format!("d {} = {dropped} | {served}", words[1]), line);
    }
    assert!(drops > 100 && marks > 40, "the judge drops and marks: {drops}, {marks}");
    assert_eq!((queue.marked(), queue.bytes()), (marks, Bytes::ZERO));
}

#[test]
fn codel_drops_and_marks_what_rfc_8289_does() {
    let parameters = codel::Parameters { buffer: Capacity::Unlimited, times: TIMES, marks: true };
    follow(&mut Codel::new(parameters), include_str!("aqm/codel.txt"));
}

#[test]
fn fq_codel_drops_and_marks_what_rfc_8290_does() {
    let parameters =
        fq_codel::Parameters { buffer: Capacity::Unlimited, times: TIMES, flows: 65_536, quantum: 1_514, marks: true };
    follow(&mut FqCodel::new(parameters, 1), include_str!("aqm/fq_codel.txt"));
}

#[test]
fn dualpi2_drops_and_marks_what_rfc_9332_does() {
    let parameters = dualpi2::Parameters {
        buffer: Capacity::Unlimited,
        target: Duration::from_millis(15),
        threshold: Duration::from_micros(800),
        range: Duration::from_micros(400),
    };
    follow(&mut DualPi2::new(parameters), include_str!("aqm/dualpi2.txt"));
}

/// The mean wait of the last half of 60 s in which one more packet of 1500 bytes comes each 1 ms than 10 Mbit/s carry, of senders
/// that never slow down, and the share that is dropped.
fn overload(queue: &mut dyn Queue, ecn: Ecn) -> (f64, f64) {
    let service = Duration::from_micros(1_200);
    let (mut free, mut waiting, mut dropped) = (Time::ZERO, 0_u64, 0_u64);
    let mut waits = Vec::new();
    for id in 0..60_000 {
        let now = Time::ZERO + Duration::from_millis(id);
        while waiting > 0 && free <= now {
            let next = queue.dequeue(free);
            while queue.take_dropped().is_some() {
                (waiting, dropped) = (waiting - 1, dropped + 1);
            }
            let Some((came, _)) = next else { break };
            waiting -= 1;
            if id >= 30_000 {
                waits.push((free - came).as_secs_f64());
            }
            free += service;
        }
        if waiting == 0 && free <= now {
            free = now + service;
        } else if queue.enqueue(now, &packet(id, 1_500, ecn, 1), Bytes::ZERO).is_none() {
            waiting += 1;
        } else {
            dropped += 1;
        }
    }
    (waits.iter().sum::<f64>() / waits.len() as f64, dropped as f64 / 60_000.0)
}

#[test]
fn pie_holds_its_target_against_senders_that_never_slow_down() {
    for (target, ecn) in [(15, Ecn::NotEct), (30, Ecn::NotEct), (15, Ecn::Ect0)] {
        let parameters =
            pie::Parameters { buffer: Capacity::Unlimited, target: Duration::from_millis(target), marks: true };
        let mut queue = Pie::new(parameters, Rng::named(1, "pie"));
        let (wait, dropped) = overload(&mut queue, ecn);
        let target = target as f64 / 1e3;
        assert!((0.7..1.3).contains(&(wait / target)), "{wait} s with a target of {target} s");
        // A sixth more comes than can leave; beyond a tenth marks are no answer (RFC 8033 s5.1).
        assert!((0.15..0.19).contains(&dropped), "{dropped}");
        assert_eq!(queue.marked() > 0, ecn == Ecn::Ect0);
    }
}

#[test]
fn where_marks_are_off_what_could_be_marked_is_dropped() {
    let parameters = codel::Parameters { buffer: Capacity::Unlimited, times: TIMES, marks: false };
    let mut queue = Codel::new(parameters);
    let (_, dropped) = overload(&mut queue, Ecn::Ect0);
    assert!(dropped > 0.1 && queue.marked() == 0, "{dropped}");
}

#[test]
fn flows_that_take_turns_do_not_wait_for_a_greedy_one() {
    let parameters =
        fq_codel::Parameters { buffer: Capacity::Packets(50), times: TIMES, flows: 1_024, quantum: 1_514, marks: true };
    let mut queue = FqCodel::new(parameters, 7);
    for id in 0..200 {
        queue.enqueue(Time::ZERO, &packet(id, 1_500, Ecn::NotEct, 1), Bytes::ZERO);
    }
    assert_eq!(std::iter::from_fn(|| queue.take_dropped()).map(|(_, packet)| packet.id).max(), Some(149), "its oldest");
    queue.enqueue(Time::ZERO, &packet(900, 100, Ecn::NotEct, 2), Bytes::ZERO);
    let order: Vec<u64> =
        std::iter::from_fn(|| queue.dequeue(Time::ZERO)).take(3).map(|(_, packet)| packet.id).collect();
    assert!(order[..2].contains(&900) || order[2] == 900, "within two packets of the greedy one: {order:?}");
}
