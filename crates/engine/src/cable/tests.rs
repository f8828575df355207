use super::*;
use crate::link::loss::{Bernoulli, List};
use crate::packet::{Body, Class, Ecn, Endpoint};
use crate::rng::Rng;
use crate::units::{Bytes, Capacity, Chance};

fn packet(id: u64, len: u32) -> Packet {
    Packet {
        id,
        src: Endpoint::default(),
        dst: Endpoint::default(),
        len,
        class: Class::default(),
        ecn: Ecn::NotEct,
        body: Body::Opaque,
    }
}

/// Runs the path until it has nothing more to do: what left, when and where.
fn run_dry(cable: &mut Cable, mut now: Time) -> Vec<(Time, Port, Packet)> {
    let mut left = Vec::new();
    loop {
        match cable.poll(now) {
            Step::Send(port, packet) => left.push((now, port, packet)),
            Step::Wait(Some(wake)) => now = wake,
            Step::Wait(None) => return left,
        }
    }
}

fn numbers(left: &[(Time, Port, Packet)]) -> Vec<u64> {
    left.iter().map(|(_, _, packet)| packet.id).collect()
}

#[test]
fn a_full_packet_and_its_ack_with_no_load_take_21_774_ms() {
    // 1460 B at 25 Mbit/s and 10 Mbit/s, 40 B at 10 Mbit/s and 3 Mbit/s, 20 ms of propagation.
    let (hfc_down, lan_down, lan_up, hfc_up) = (467_200, 1_168_000, 32_000, 106_667);
    let mut cable = Cable::new(CableConfig::papers());
    cable.receive(Time::ZERO, Cable::HEADEND, &packet(1, 1460));
    let (at_pc, port, data) = run_dry(&mut cable, Time::ZERO)[0];
    assert_eq!((port, data.id), (Cable::PC, 1));
    assert_eq!(at_pc.as_nanos(), hfc_down + 10_000_000 + lan_down);
    cable.receive(at_pc, Cable::PC, &packet(2, 40));
    let (back, port, ack) = run_dry(&mut cable, at_pc)[0];
    assert_eq!((port, ack.id), (Cable::HEADEND, 2));
    assert_eq!((back - at_pc).as_nanos(), lan_up + hfc_up + 10_000_000);
    assert_eq!(back.as_nanos(), 21_773_867, "ns");
}

#[test]
fn a_modem_of_seven_packets_drops_exactly_what_finds_it_full() {
    // 25 Mbit/s in, 10 out: when packet k arrives, ceil(0.4 (k - 1)) - 1 have left, one that leaves at that very time not
    // counted. Packet 11 is the first to find 10 - 3 = 7; of every five from then on, two find a place.
    let mut cable = Cable::new(CableConfig { modem_buffer: Capacity::Packets(7), ..CableConfig::papers() });
    cable.links_mut()[1].record_discards();
    for id in 1..=20 {
        cable.receive(Time::ZERO, Cable::HEADEND, &packet(id, 1460));
    }
    let left = run_dry(&mut cable, Time::ZERO);
    assert_eq!(numbers(&left), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 19]);
    let discards = cable.links()[1].discards();
    assert!(discards.iter().all(|discard| !discard.lost));
    let dropped: Vec<_> = discards.iter().map(|discard| (discard.packet.id, discard.time.as_nanos())).collect();
    // Packet k reaches the modem k times 467.2 us after it was sent, and 10 ms.
    let expected: Vec<_> = [11, 13, 15, 16, 18, 20].map(|id| (id, id * 467_200 + 10_000_000)).to_vec();
    assert_eq!(dropped, expected);
    let stats = cable.stats("lan-down").expect("a link");
    assert_eq!((stats.dropped, stats.queued_max), (6, 6), "seven held are six waiting and one in transmission");
}

#[test]
fn a_modem_of_10_kb_holds_six_full_packets() {
    // 6 times 1460 B are 8760 B, 7 are 10220 B: packet 10 is the first to find 9 - 3 = 6 in the modem.
    let mut cable =
        Cable::new(CableConfig { modem_buffer: Capacity::Bytes(Bytes::new(10_000)), ..CableConfig::papers() });
    for id in 1..=10 {
        cable.receive(Time::ZERO, Cable::HEADEND, &packet(id, 1460));
    }
    assert_eq!(numbers(&run_dry(&mut cable, Time::ZERO)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn the_channels_lose_packets_after_they_took_their_time() {
    let mut cable = Cable::new(CableConfig {
        down_loss: Some(Box::new(List::new(vec![1]))),
        up_loss: Some(Box::new(List::new(vec![2]))),
        ..CableConfig::papers()
    });
    for id in 1..=2 {
        cable.receive(Time::ZERO, Cable::HEADEND, &packet(id, 1460));
        cable.receive(Time::ZERO, Cable::PC, &packet(10 + id, 40));
    }
    let left = run_dry(&mut cable, Time::ZERO);
    assert_eq!(numbers(&left), [11, 2]);
    assert_eq!(left[1].0.as_nanos(), 2 * 467_200 + 10_000_000 + 1_168_000, "the lost packet came first on the channel");
    for (name, lost) in [("hfc-down", 1), ("lan-down", 0), ("lan-up", 0), ("hfc-up", 1)] {
        assert_eq!(cable.stats(name).expect("a link").lost, lost, "{name}");
    }
    assert_eq!(cable.stats("hfc-sideways"), None);
}

#[test]
fn whatever_is_sent_keeps_its_order_and_is_accounted_for_on_every_link() {
    for seed in 0..20 {
        let loss =
            |name| Some(Box::new(Bernoulli::new(Chance::from_raw(1 << 61), Rng::named(seed, name))) as Box<dyn Loss>);
        let mut cable = Cable::new(CableConfig {
            down_loss: loss("down"),
            up_loss: loss("up"),
            modem_buffer: Capacity::Packets(5),
            up_queue: DropTail::holding_service(Capacity::Bytes(Bytes::new(4_000))),
            ..CableConfig::papers()
        });
        let mut rng = Rng::named(seed, "traffic");
        let (mut now, mut left) = (Time::ZERO, Vec::new());
        for id in 0..400 {
            let side = if rng.below(2) == 0 { Cable::HEADEND } else { Cable::PC };
            cable.receive(now, side, &packet(id, 40 + rng.below(1421) as u32));
            let until = now + Duration::from_nanos(rng.below(400_000));
            loop {
                match cable.poll(now) {
                    Step::Send(port, packet) => left.push((port, packet.id)),
                    Step::Wait(Some(wake)) if wake <= until => now = wake,
                    Step::Wait(_) => break,
                }
            }
            now = until;
            for stats in LINKS.map(|name| cable.stats(name).expect("a link")) {
                assert_eq!(stats.arrived, stats.delivered + stats.dropped + stats.lost + stats.inside, "seed {seed}");
            }
        }
        left.extend(run_dry(&mut cable, now).into_iter().map(|(_, port, packet)| (port, packet.id)));
        for side in [Cable::HEADEND, Cable::PC] {
            let ids: Vec<u64> = left.iter().filter(|(port, _)| *port == side).map(|&(_, id)| id).collect();
            assert!(ids.is_sorted(), "seed {seed}: {ids:?}");
        }
        let [hfc_down, lan_down, lan_up, hfc_up] = LINKS.map(|name| cable.stats(name).expect("a link"));
        assert_eq!(hfc_down.delivered, lan_down.arrived, "seed {seed}");
        assert_eq!(lan_up.delivered, hfc_up.arrived, "seed {seed}");
        assert_eq!(left.len() as u64, lan_down.delivered + hfc_up.delivered, "seed {seed}");
        assert!(hfc_down.lost > 0 && lan_down.dropped > 0 && hfc_up.lost > 0 && hfc_up.dropped > 0, "seed {seed}");
        for stats in [hfc_down, lan_down, lan_up, hfc_up] {
            assert_eq!(stats.inside, 0, "seed {seed}");
            assert_eq!(stats.occupancy, stats.sojourn, "seed {seed}: Little's law, in packet-nanoseconds");
            let through = stats.delivered_bytes + stats.dropped_bytes + stats.lost_bytes;
            assert_eq!(stats.arrived_bytes, through, "seed {seed}");
        }
    }
}
