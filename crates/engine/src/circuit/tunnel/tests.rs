use super::*;
use crate::packet::{Body, Class as Mark, Ecn, Endpoint};
use crate::units::Chance;

fn packet(id: u64, len: u32) -> Packet {
    let (src, dst) = (Endpoint::default(), Endpoint::default());
    Packet { id, src, dst, len, class: Mark::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
}

fn class(room: u64, weight: u32) -> Class {
    Class { room: Capacity::Packets(room), drops: Drops::Tail, weight }
}

fn order(tunnel: &mut Tunnel) -> Vec<u64> {
    std::iter::from_fn(|| tunnel.pop(Time::ZERO)).map(|packet| packet.id).collect()
}

#[test]
fn what_finds_no_room_is_dropped_and_the_rest_leaves_in_order() {
    let mut tunnel = Tunnel::drop_tail(Capacity::Bytes(Bytes::new(3_000)));
    let taken: Vec<bool> = (0..5).map(|id| tunnel.push(Time::ZERO, 0, packet(id, 900)).is_some()).collect();
    assert_eq!(taken, [true, true, true, false, false]);
    assert_eq!(tunnel.occupancy(), (3, Bytes::new(2_700)));
    assert_eq!(order(&mut tunnel), [0, 1, 2]);
    assert!(tunnel.is_empty());
    let counters = tunnel.counters();
    assert_eq!((counters.arrived, counters.dropped, counters.left, counters.bytes_max), (5, 2, 3, 2_700));
}

#[test]
fn an_urgent_class_is_always_served_first() {
    let mut tunnel = Tunnel::new(vec![class(9, 1), class(9, 1)], Schedule::Priority);
    for id in 0..6 {
        tunnel.push(Time::ZERO, if id % 2 == 0 { 1 } else { 0 }, packet(id, 1_000));
    }
    assert_eq!(order(&mut tunnel), [1, 3, 5, 0, 2, 4]);
}

#[test]
fn classes_in_turn_share_bytes_by_weight_whatever_the_packets_lengths() {
    let mut tunnel = Tunnel::new(vec![class(10_000, 3), class(10_000, 1)], Schedule::RoundRobin);
    for id in 0..5_000 {
        tunnel.push(Time::ZERO, 0, packet(id, 200));
        tunnel.push(Time::ZERO, 1, packet(id, 1_500));
    }
    let mut bytes = [0, 0];
    for _ in 0..2_000 {
        let packet = tunnel.pop(Time::ZERO).unwrap();
        bytes[usize::from(packet.len == 1_500)] += u64::from(packet.len);
    }
    let share = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
    assert!((share - 0.75).abs() < 0.01, "three of four bytes: {share}");
}

#[test]
fn a_class_that_was_silent_does_not_catch_up() {
    let mut tunnel = Tunnel::new(vec![class(1_000, 1), class(1_000, 1)], Schedule::RoundRobin);
    for id in 0..300 {
        tunnel.push(Time::ZERO, 0, packet(id, 1_500));
    }
    for _ in 0..100 {
        tunnel.pop(Time::ZERO);
    }
    for id in 1_000..1_100 {
        tunnel.push(Time::ZERO, 1, packet(id, 1_500));
    }
    let late = (0..100).filter(|_| tunnel.pop(Time::ZERO).unwrap().id >= 1_000).count();
    assert!((49..=51).contains(&late), "half of the next hundred: {late}");
}

#[test]
fn a_packet_can_be_withdrawn_or_replaced_while_it_waits_and_not_after() {
    let mut tunnel = Tunnel::drop_tail(Capacity::Packets(10));
    let tickets: Vec<Ticket> = (0..4).map(|id| tunnel.push(Time::ZERO, 0, packet(id, 1_000)).unwrap()).collect();
    assert_eq!(tunnel.pop(Time::ZERO).unwrap().id, 0);
    assert_eq!(tunnel.withdraw(Time::ZERO, tickets[0]), None);
    assert_eq!(tunnel.withdraw(Time::ZERO, tickets[2]).unwrap().id, 2);
    assert_eq!(tunnel.replace(tickets[1], packet(11, 400)).unwrap().id, 1);
    assert_eq!(tunnel.replace(tickets[2], packet(12, 400)), Err(packet(12, 400)));
    assert_eq!(tunnel.occupancy(), (2, Bytes::new(1_400)));
    assert_eq!(order(&mut tunnel), [11, 3]);
}

#[test]
fn no_replacement_takes_more_than_the_room_that_there_is() {
    let mut tunnel = Tunnel::drop_tail(Capacity::Bytes(Bytes::new(2_000)));
    let ticket = tunnel.push(Time::ZERO, 0, packet(0, 1_000)).unwrap();
    tunnel.push(Time::ZERO, 0, packet(1, 1_000)).unwrap();
    assert!(tunnel.replace(ticket, packet(2, 1_001)).is_err());
    assert!(tunnel.replace(ticket, packet(2, 999)).is_ok());
    assert_eq!(tunnel.occupancy(), (2, Bytes::new(1_999)));
}

#[test]
fn an_early_class_drops_before_it_is_full() {
    let thresholds = Thresholds {
        min: 10,
        max: 50,
        max_chance: Chance::from_f64(0.1).unwrap(),
        weight_bits: 0,
        departure: crate::time::Duration::from_millis(1),
    };
    let drops = Drops::Early(thresholds, Rng::named(1, "tunnel"));
    let mut tunnel = Tunnel::new(vec![Class { room: Capacity::Packets(100), drops, weight: 1 }], Schedule::Priority);
    assert!((0..10).all(|id| tunnel.push(Time::ZERO, 0, packet(id, 100)).is_some()));
    for id in 10..1_000 {
        tunnel.push(Time::ZERO, 0, packet(id, 100));
    }
    assert_eq!(tunnel.occupancy().0, 50, "nothing passes from the upper threshold on");
}
