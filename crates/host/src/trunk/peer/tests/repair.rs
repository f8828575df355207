//! Two ends that send again what is lost between them.

use headend_engine::circuit::repair::{Rules, Waited};

use super::*;

const WITHIN: Duration = Duration::from_millis(60);

fn asks(config: &mut PeerConfig) {
    // What leaves without a number is not known to be lost.
    config.send.guaranteed = Rate::bit(0);
    config.send.repair = Some(Rules { within: WITHIN, tries: 2 });
    config.receive.repair_within_max = WITHIN;
}

/// Two ends of which the first so many say that they repair.
fn net(sides: usize) -> Net {
    let mut net = Net::sealed();
    for side in 0..sides {
        net.change(side, asks);
    }
    net.run(secs(1));
    assert!(net.carries(0) && net.carries(1));
    net
}

fn copies(net: &Net) -> Option<u64> {
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    to.report().repaired.map(|repaired| repaired.copies)
}

fn waited(net: &Net) -> Waited {
    net.ends[1].peer.from.as_ref().and_then(|from| from.waited()).expect("it repairs")
}

/// Feeds packets a few at a time, while one datagram in `every` is lost.
fn feed_through_losses(net: &mut Net, packets: u64, every: usize) {
    net.losses = (0..4 * packets as usize).map(|number| number % every == every - 1).collect();
    for first in (0..packets).step_by(5) {
        net.feed(first..first + 5);
        net.run(Duration::from_millis(10));
    }
    net.losses.clear();
    net.run(secs(1));
}

#[test]
fn what_is_lost_comes_after_all_and_in_order() {
    let mut net = net(2);
    feed_through_losses(&mut net, 400, 20);
    assert_eq!(net.ends[1].came, (0..400).collect::<Vec<_>>());
    assert!(copies(&net).is_some_and(|copies| copies >= 10), "{:?}", copies(&net));
    assert_eq!(waited(&net).given_up, 0);
}

#[test]
fn nothing_is_repaired_unless_both_ends_say_so() {
    let mut net = net(1);
    assert_eq!(copies(&net), None);
    feed_through_losses(&mut net, 400, 20);
    assert!(net.ends[1].came.len() < 400 && net.ends[1].came.is_sorted());
    assert!(net.ends[1].peer.from.as_ref().unwrap().waited().is_none());
}

#[test]
fn the_shorter_time_of_the_two_holds() {
    let mut net = net(2);
    net.change(1, |config| config.receive.repair_within_max = Duration::from_millis(30));
    net.run(secs(2));
    let To::Circuit(to) = &net.ends[0].peer.to else { panic!("it carries") };
    assert_eq!(to.terms().repair_us, 30_000);
    assert_eq!(net.ends[1].peer.from.as_ref().unwrap().terms().repair_us, 30_000);
}

#[test]
fn a_change_of_repair_takes_a_new_circuit_and_shorter_packets() {
    let mut net = Net::sealed();
    net.run(secs(1));
    let (before, longest) = (net.circuits(), net.ends[0].peer.longest());
    net.feed(0..50);
    net.run(secs(1));
    for side in 0..2 {
        net.ends[side].peer.habits.mtu -= PLACE as u32;
        net.change(side, asks);
    }
    net.run(secs(2));
    net.feed(50..100);
    net.run(secs(1));
    assert_eq!(net.ends[1].came, (0..100).collect::<Vec<_>>());
    assert!(net.circuits()[0] > before[0] && copies(&net).is_some());
    assert_eq!(net.ends[0].peer.longest(), longest - PLACE as u32);
}

#[test]
fn what_is_replayed_or_forged_neither_passes_nor_waits() {
    let mut net = net(2);
    feed_through_losses(&mut net, 200, 20);
    let (came, before) = (net.ends[1].came.clone(), waited(&net));
    let stranger = Way { to: "198.51.100.7:9".parse().unwrap(), from: None };
    for (at, (_, bytes)) in net.seen[1].clone().into_iter().enumerate() {
        let mut forged = bytes.clone();
        forged[at % bytes.len()] ^= 1 << (at % 8);
        net.deliver(1, stranger, &bytes);
        net.deliver(1, stranger, &forged);
    }
    assert_eq!(net.ends[1].came, came);
    // What the path had lost came now, and too late.
    assert_eq!(Waited { surplus: 0, ..waited(&net) }, Waited { surplus: 0, ..before });
    feed_through_losses(&mut net, 200, 20);
    assert_eq!(net.ends[1].came.len(), 400);
}

#[test]
fn what_waits_is_bounded_and_passes_when_its_time_is_over() {
    let mut net = net(2);
    let from = net.ends[1].peer.from.as_mut().unwrap();
    let Incoming::InBand(from) = from else { panic!("sealed carriage is in-band") };
    let order = from.order.as_mut().unwrap();
    let packet = [0x45; 1_400];
    // A peer that always leaves one out, of all flows.
    for number in 0..50_000_u32 {
        let place = Place { flow: (number % 4_096) as u16, turn: (number / 4_096 * 2 + 1) as u16 };
        let held = || Held { bytes: packet.to_vec(), is_open: false, ecn: 0 };
        order.arrive(net.now, place, true, 1_400, held);
        while order.released().is_some() {}
        assert!(order.bytes() <= headend_engine::circuit::repair::HELD_BYTES_MAX);
    }
    net.run(WITHIN * 2);
    let Some(Incoming::InBand(from)) = &net.ends[1].peer.from else { panic!("it is still there") };
    assert_eq!(from.order.as_ref().unwrap().bytes(), 0);
}
