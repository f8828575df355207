//! Timelines worked out by hand (drawn in docs/explanation/docsis.md), and what must hold of any.

use super::*;
use crate::packet::{Body, Class, Ecn, Endpoint};
use crate::rng::Rng;
use crate::units::Rate;

const ACK: u32 = 40;

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

fn network(channel: Channel, modem: &Modem, modems: usize, seed: u64) -> Docsis {
    let drawing = |number| (modem.clone(), Rng::named(seed, &format!("modem {number}")));
    Docsis::new(channel, (0..modems).map(drawing).collect()).expect("a channel of the standard")
}

/// Runs until `until`, or until nothing more happens: when what left, and where.
fn run(docsis: &mut Docsis, mut now: Time, until: Time) -> Vec<(Time, Port, u64)> {
    let mut left = Vec::new();
    loop {
        match docsis.poll(now) {
            Step::Send(port, packet) => left.push((now, port, packet.id)),
            Step::Wait(Some(wake)) if wake <= until => {
                assert!(wake > now, "time goes on");
                now = wake;
            }
            Step::Wait(_) => return left,
        }
    }
}

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

/// Lets packets come to modems at these times, in microseconds, and lists the deliveries: modem, packet and time.
fn timeline(docsis: &mut Docsis, arrivals: &[(u64, usize, u32)]) -> Vec<(u64, usize, u64)> {
    let mut left = Vec::new();
    let mut now = Time::ZERO;
    for (id, &(at, modem, len)) in arrivals.iter().enumerate() {
        left.extend(run(docsis, now, us(at)));
        now = us(at);
        docsis.receive(now, Docsis::subscriber_port(modem), &packet(id as u64 + 1, len));
    }
    left.extend(run(docsis, now, Time::MAX));
    left.into_iter().map(|(time, port, id)| (time.as_nanos() / 1_000, usize::from(port.0 / 2), id)).collect()
}

#[test]
fn an_idle_modem_asks_at_once_and_sends_in_the_map_after_look_ahead() {
    // Asked in the mini-slot at 10.40 ms, heard at 10.45, in the MAP of 12 ms, which begins at 16: two opportunities, and
    // six mini-slots.
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 1, 1);
    assert_eq!(timeline(&mut docsis, &[(10_300, 0, ACK)]), [(16_400, 0, 1)]);
    let UpstreamCounters { heard, collisions, bursts, burst_slots, .. } = *docsis.counters();
    assert_eq!((heard, collisions, bursts, burst_slots), (1, 0, 1, 6));
}

#[test]
fn modems_that_collide_hear_it_from_the_next_map_and_ask_again() {
    // Both ask at 10.40. The MAP of 12 ms reaches them at 13.28 with neither in it; they choose the mini-slots at 13.40
    // and 13.45. The MAP of 14 ms grants both, from 18.10.
    let differ = (0..).find(|&seed| {
        let mut choices = [0, 1].map(|number| Rng::named(seed, &format!("modem {number}")).below(2));
        choices.sort_unstable();
        choices == [0, 1]
    });
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 2, differ.expect("a seed"));
    let left = timeline(&mut docsis, &[(10_300, 0, ACK), (10_300, 1, ACK)]);
    assert_eq!(left.iter().map(|&(time, ..)| time).collect::<Vec<_>>(), [18_400, 18_700]);
    let UpstreamCounters { heard, collisions, collided, .. } = *docsis.counters();
    assert_eq!((heard, collisions, collided), (2, 1, 2));
}

#[test]
fn what_comes_during_a_request_is_asked_for_by_the_burst() {
    // The first burst is heard at 16.40, in the MAP of 18 ms: 22.10 to 22.40.
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 1, 1);
    assert_eq!(timeline(&mut docsis, &[(10_300, 0, ACK), (10_500, 0, ACK)]), [(16_400, 0, 1), (22_400, 0, 2)]);
    assert_eq!(docsis.counters().piggybacked, 1);

    let mut docsis = network(Channel::usual(), &Modem { piggyback: false, ..Modem::unlimited() }, 1, 1);
    // Without, it asks once more as the burst leaves at 16.00: in the opportunity at 16.45, the first after the burst.
    assert_eq!(timeline(&mut docsis, &[(10_300, 0, ACK), (10_500, 0, ACK)]), [(16_400, 0, 1), (22_400, 0, 2)]);
    assert_eq!((docsis.counters().piggybacked, docsis.counters().heard), (0, 2));
}

#[test]
fn concatenation_sends_in_one_burst_what_else_takes_a_cycle_each() {
    let arrivals = [(10_300, 0, ACK), (10_500, 0, ACK), (10_600, 0, ACK), (10_700, 0, ACK)];
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 1, 1);
    // Three times 74 bytes and a header of 6: 17 mini-slots from 22.10.
    let left = [(16_400, 0, 1), (22_950, 0, 2), (22_950, 0, 3), (22_950, 0, 4)];
    assert_eq!(timeline(&mut docsis, &arrivals), left);

    let mut docsis = network(Channel::usual(), &Modem { concatenation: false, ..Modem::unlimited() }, 1, 1);
    let left = [(16_400, 0, 1), (22_400, 0, 2), (28_400, 0, 3), (34_400, 0, 4)];
    assert_eq!(timeline(&mut docsis, &arrivals), left);
}

#[test]
fn what_exceeds_the_largest_burst_waits_or_goes_as_fragments() {
    // Two of 1528 bytes: 104 mini-slots each. The first ends at 21.30, and the MAP of 22 ms has the second.
    let arrivals = [(10_300, 0, 1_500), (10_300, 0, 1_500)];
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 1, 1);
    assert_eq!(timeline(&mut docsis, &arrivals), [(21_300, 0, 1), (31_300, 0, 2)]);

    // 3062 bytes in fragments of 1600 and 1494, of 109 and 102 mini-slots: from 16.10 to 21.55, and, with two
    // opportunities between, from 21.65 to 26.75.
    let mut docsis = network(Channel::usual(), &Modem { fragmentation: true, ..Modem::unlimited() }, 1, 1);
    assert_eq!(timeline(&mut docsis, &arrivals), [(26_750, 0, 1), (26_750, 0, 2)]);
    assert_eq!(docsis.counters().bursts, 2);
}

#[test]
fn polled_modems_never_collide_and_free_ones_never_ask() {
    let polled = Channel { access: Access::Polled, ..Channel::usual() };
    let arrivals: Vec<_> = (0..20).map(|modem| (10_300, modem, ACK)).collect();
    let mut docsis = network(polled, &Modem::unlimited(), 20, 1);
    assert_eq!(timeline(&mut docsis, &arrivals).len(), 20);
    let UpstreamCounters { heard, collisions, .. } = *docsis.counters();
    assert_eq!((heard, collisions), (20, 0));

    let free = Channel { access: Access::Free, ..Channel::usual() };
    let mut docsis = network(free, &Modem::unlimited(), 2, 1);
    // Six mini-slots each from 10.40 on.
    let left = timeline(&mut docsis, &[(10_300, 0, ACK), (10_300, 1, ACK), (10_300, 0, ACK)]);
    assert_eq!(left, [(10_700, 0, 1), (11_000, 1, 2), (11_300, 0, 3)]);
    assert_eq!(docsis.counters().heard, 0);
}

#[test]
fn a_modem_that_was_idle_for_an_hour_is_served_as_at_the_start() {
    let mut docsis = network(Channel::usual(), &Modem::unlimited(), 1, 1);
    let hour = 3_600_000_000;
    assert_eq!(timeline(&mut docsis, &[(10_300, 0, ACK), (hour + 10_300, 0, ACK)])[1].0, hour + 16_400);
}

#[test]
fn grants_are_held_to_the_upstream_rate_and_its_calendar() {
    // 64 bytes at 51.2 kbit/s are 10 ms. The bucket holds one frame: the second is granted in the MAP after 20.45 ms.
    let shaping = |granularity| Shaping { rate: Rate::bit(51_200), burst: Bytes::new(64), granularity };
    let modem = |granularity| Modem { up: Some(shaping(granularity)), ..Modem::unlimited() };
    let arrivals = [(10_300, 0, ACK), (10_500, 0, ACK)];
    let mut docsis = network(Channel::usual(), &modem(Duration::ZERO), 1, 1);
    assert_eq!(timeline(&mut docsis, &arrivals), [(16_400, 0, 1), (26_400, 0, 2)]);
    let mut docsis = network(Channel::usual(), &modem(Duration::from_millis(16)), 1, 1);
    assert_eq!(timeline(&mut docsis, &arrivals), [(16_400, 0, 1), (36_400, 0, 2)], "at 32 ms by the calendar");
}

#[test]
fn a_calendar_of_grants_has_one_for_a_modem_in_each_entry() {
    // Granted in the MAPs of 12 ms, of 18 ms in the entry from 16 to 32, and, asked at 22.40, in that of 32 ms.
    let modem = Modem { grant_calendar: Duration::from_millis(16), ..Modem::unlimited() };
    let mut docsis = network(Channel::usual(), &modem, 1, 1);
    let arrivals = [(10_300, 0, ACK), (10_500, 0, ACK), (17_000, 0, ACK)];
    assert_eq!(timeline(&mut docsis, &arrivals), [(16_400, 0, 1), (22_400, 0, 2), (36_400, 0, 3)]);
}

#[test]
fn downstream_packets_are_shaped_and_dropped_beyond_the_longest_delay() {
    let shaping = Shaping { rate: Rate::mbit(3), burst: Bytes::new(1_518), granularity: Duration::ZERO };
    let modem = Modem { down: Some(shaping), ..Modem::unlimited() };
    let mut docsis = network(Channel { down: Rate::bit(12_192_000), ..Channel::usual() }, &modem, 2, 1);
    for modem in [0, 1] {
        for id in 1..=200 {
            docsis.receive(Time::ZERO, Docsis::headend_port(modem), &packet(id, 1_500));
        }
    }
    let left = run(&mut docsis, Time::ZERO, Time::MAX);
    // 1524 bytes take a millisecond, and 1.08 ms to arrive; 1518 bytes at 3 Mbit/s 4.048 ms, and 512 ms are 126 of them.
    let times: Vec<_> = left.iter().take(4).map(|&(time, port, id)| (time.as_nanos() / 1_000, port.0, id)).collect();
    assert_eq!(times, [(2_080, 1, 1), (3_080, 3, 1), (6_128, 1, 2), (7_128, 3, 2)]);
    assert_eq!(left.len(), 2 * 127);
    let stats = docsis.close_books(1, ChannelDirection::Down, us(1_000_000));
    assert_eq!((stats.arrived, stats.delivered, stats.dropped, stats.inside), (200, 127, 73, 0));
}

#[test]
fn a_modem_without_a_rate_waits_for_the_channel_as_long_as_it_may() {
    let modem = Modem { down_delay_max: Duration::from_millis(5), ..Modem::unlimited() };
    let mut docsis = network(Channel { down: Rate::bit(12_192_000), ..Channel::usual() }, &modem, 1, 1);
    for id in 1..=20 {
        docsis.receive(Time::ZERO, Docsis::headend_port(0), &packet(id, 1_500));
    }
    let left = run(&mut docsis, Time::ZERO, Time::MAX);
    // A millisecond each: the sixth waits 5 ms, and the seventh would wait for 6.
    let times: Vec<_> = left.iter().map(|&(time, _, id)| (time.as_nanos() / 1_000, id)).collect();
    assert_eq!(times, [1, 2, 3, 4, 5, 6].map(|id| (1_000 * id + 1_080, id)));
    let stats = docsis.close_books(0, ChannelDirection::Down, us(10_000));
    assert_eq!((stats.dropped, stats.busy), (14, Duration::from_millis(6)));
}

#[test]
fn whatever_is_sent_keeps_its_order_and_is_accounted_for() {
    for seed in 0..30 {
        let mut rng = Rng::named(seed, "network");
        let channel = Channel {
            opportunities: rng.below(4),
            fill: true,
            backoff_start: rng.below(4) as u32,
            access: [Access::Contention, Access::Polled, Access::Free][rng.below(3) as usize],
            ..Channel::usual()
        };
        let granularity = Duration::from_millis(rng.below(9));
        let rate = |rate| Shaping { rate, burst: Bytes::new(1_522), granularity };
        let modem = Modem {
            down: Some(rate(Rate::mbit(3))),
            down_delay_max: Duration::from_millis(40),
            up: (rng.below(2) == 0).then(|| rate(Rate::kbit(512))),
            up_buffer: Bytes::new(6_000),
            piggyback: rng.below(2) == 0,
            concatenation: rng.below(2) == 0,
            fragmentation: rng.below(2) == 0,
            ..Modem::unlimited()
        };
        let mut docsis = network(channel, &modem, 3, seed);
        docsis.record_discards();
        let (mut now, mut left) = (Time::ZERO, Vec::new());
        for id in 0..600 {
            let port = Port(rng.below(6) as u16);
            docsis.receive(now, port, &packet(id, 40 + rng.below(1_461) as u32));
            let until = now + Duration::from_nanos(rng.below(4_000_000));
            left.extend(run(&mut docsis, now, until));
            now = until;
        }
        left.extend(run(&mut docsis, now, Time::MAX));
        let end = left.last().expect("something was sent").0.max(now);
        for modem in 0..3 {
            for (way, port) in [
                (ChannelDirection::Down, Docsis::subscriber_port(modem)),
                (ChannelDirection::Up, Docsis::headend_port(modem)),
            ] {
                let ids: Vec<u64> = left.iter().filter(|(_, at, _)| *at == port).map(|&(.., id)| id).collect();
                assert!(ids.is_sorted(), "seed {seed}: {ids:?}");
                let stats = docsis.close_books(modem, way, end);
                assert_eq!(stats.delivered, ids.len() as u64, "seed {seed}");
                assert_eq!(stats.inside, 0, "seed {seed}, {way:?}: everything comes through");
                assert_eq!(stats.dropped, docsis.discards(modem, way).len() as u64, "seed {seed}");
            }
        }
        let UpstreamCounters { bursts, burst_slots, .. } = *docsis.counters();
        assert!(bursts > 0 && burst_slots >= 6 * bursts, "seed {seed}");
    }
}

#[test]
fn a_channel_that_the_standard_does_not_have_is_refused_in_words() {
    let refused = |channel: Channel| Docsis::new(channel, Vec::new()).expect_err("no such channel");
    let usual = Channel::usual;
    assert!(refused(Channel { symbols: 1_000_000, ..usual() }).contains("160, 320"));
    assert!(refused(Channel { slot_ticks: 3, ..usual() }).contains("3 ticks"));
    assert!(refused(Channel { look_ahead: Duration::from_millis(1), ..usual() }).contains("less than 1380us"));
    assert!(refused(Channel { map_interval: Duration::from_micros(1_010), ..usual() }).contains("whole mini-slots"));
    assert!(refused(Channel { look_ahead: Duration::from_millis(300), ..usual() }).contains("4096"));
    assert!(refused(Channel { backoff_start: 5, ..usual() }).contains("5 to 4"));
    assert!(refused(Channel { opportunities: 0, fill: false, ..usual() }).contains("no request"));
    assert!(refused(Channel { opportunities: 41, ..usual() }).contains("do not fit"));
}
