use proptest::collection::vec;
use proptest::prelude::*;

use super::super::tests::{MAX_LEN, Path, Sends, at_ms, packet};
use super::super::tunnel::{Class, Drops, Schedule, Tunnel};
use super::*;
use crate::packet::Class as Mark;
use crate::tcp::personality::Personality;
use crate::units::{Capacity, Rate};

impl Sends for Socket {
    fn receive(&mut self, now: Time, which: usize, segment: &Segment) {
        Socket::receive(self, now, which, segment);
    }

    fn poll(&mut self, now: Time) -> Output {
        Socket::poll(self, now)
    }
}

fn path(controls: usize, guaranteed: Option<Rate>, room: Capacity) -> Path<Socket> {
    Path::new(controls, 1_500, guaranteed, room, &Personality::newreno()).with(Socket::new)
}

fn frame(number: u64, at: Time) -> Frame {
    Frame { number, captured: at, class: 0 }
}

/// The packets of a frame: the thousands of a packet's id are its frame, the ones its place there.
fn packets(number: u64, lens: &[u32]) -> Vec<Packet> {
    lens.iter().enumerate().map(|(place, len)| packet(1_000 * number + place as u64, *len)).collect()
}

fn ids(path: &Path<Socket>) -> Vec<u64> {
    path.sent.iter().map(|(_, packet)| packet.id).collect()
}

fn send(socket: &mut Socket, now: Time, number: u64, lens: &[u32]) -> Result<(), Refused> {
    socket.send(now, frame(number, now), &packets(number, lens))
}

/// Sends everything that waits, and lists the packets that have left.
fn drain(mut path: Path<Socket>) -> Vec<u64> {
    path.run_with(&[], at_ms(10_000), |_, _, _: &()| {});
    ids(&path)
}

#[test]
fn a_frame_is_taken_whole_or_not_at_all() {
    let mut path = path(1, None, Capacity::Packets(5));
    let socket = &mut path.sender;
    assert_eq!(send(socket, Time::ZERO, 0, &[1_500, 1_500, 700]), Ok(()));
    assert_eq!(socket.occupancy(), (3, Bytes::new(3_700)));
    assert_eq!(send(socket, Time::ZERO, 1, &[1_500; 3]), Err(Refused::Full));
    assert_eq!(socket.occupancy(), (3, Bytes::new(3_700)), "nothing of it waits");
    assert_eq!(send(socket, Time::ZERO, 2, &[1_500; 2]), Ok(()));
    assert_eq!((socket.counters().taken, socket.counters().refused), (2, 1));
    assert_eq!(drain(path), [0, 1, 2, 2_000, 2_001]);
}

#[test]
fn what_is_withdrawn_does_not_leave_and_the_rest_closes_up() {
    let mut path = path(1, None, Capacity::Packets(50));
    for number in 0..3 {
        send(&mut path.sender, Time::ZERO, number, &[1_000; 2]).unwrap();
    }
    let taken_back = path.sender.withdraw(Time::ZERO, 1).unwrap();
    assert_eq!((taken_back.frame.number, taken_back.packets(), taken_back.left), (1, 2, 0));
    assert_eq!(path.sender.withdraw(Time::ZERO, 1), None, "it is gone");
    let waiting: Vec<u64> = path.sender.waiting().map(|waiting| waiting.frame.number).collect();
    assert_eq!(waiting, [0, 2]);
    assert_eq!(drain(path), [0, 1, 2_000, 2_001]);
}

#[test]
fn a_new_frame_leaves_in_the_place_of_the_one_replaced_whatever_its_size() {
    for (lens, expected) in [
        (&[900_u32][..], vec![0, 9_000, 2_000]),
        (&[900, 1_500], vec![0, 9_000, 9_001, 2_000]),
        (&[1_500, 1_500, 300], vec![0, 9_000, 9_001, 9_002, 2_000]),
    ] {
        let mut path = path(1, None, Capacity::Bytes(Bytes::new(10_000)));
        for (number, lens) in [(0, &[1_500][..]), (1, &[1_200, 1_200]), (2, &[1_500])] {
            send(&mut path.sender, Time::ZERO, number, lens).unwrap();
        }
        let old = path.sender.replace(Time::ZERO, 1, frame(9, Time::ZERO), &packets(9, lens)).unwrap();
        assert_eq!(old.frame.number, 1);
        let bytes: u32 = 3_000 + lens.iter().sum::<u32>();
        assert_eq!(path.sender.occupancy(), (2 + lens.len() as u64, Bytes::new(u64::from(bytes))));
        assert_eq!(drain(path), expected);
    }
}

#[test]
fn a_frame_that_does_not_fit_in_the_place_of_another_changes_nothing() {
    let mut path = path(1, None, Capacity::Bytes(Bytes::new(3_000)));
    send(&mut path.sender, Time::ZERO, 0, &[1_000]).unwrap();
    send(&mut path.sender, Time::ZERO, 1, &[1_000, 500]).unwrap();
    let new = |lens| packets(9, lens);
    let refused = path.sender.replace(Time::ZERO, 1, frame(9, Time::ZERO), &new(&[1_000, 1_001]));
    assert_eq!(refused, Err(Refused::Full));
    assert_eq!(path.sender.occupancy(), (3, Bytes::new(2_500)));
    assert_eq!(path.sender.replace(Time::ZERO, 7, frame(9, Time::ZERO), &new(&[1])), Err(Refused::Left));
    // Less in one packet and more in the other: full to the last byte.
    path.sender.replace(Time::ZERO, 1, frame(9, Time::ZERO), &new(&[1_100, 900])).unwrap();
    assert_eq!(drain(path), [0, 9_000, 9_001]);
}

#[test]
fn the_rest_of_a_frame_can_be_taken_back_and_the_frame_counts_as_cut() {
    let mut path = path(1, None, Capacity::Packets(50));
    send(&mut path.sender, Time::ZERO, 0, &[1_500; 60]).unwrap_err();
    send(&mut path.sender, Time::ZERO, 1, &[1_500; 40]).unwrap();
    path.run_with(&[], at_ms(1), |_, _, _: &()| {});
    let left = path.sent.len() as u64;
    assert!((1..40).contains(&left), "as many as the window allows: {left}");
    let rest = path.sender.withdraw(at_ms(1), 1).unwrap();
    assert_eq!((rest.left, rest.packets()), (left, 40 - left));
    assert_eq!(path.sender.counters().cut, 1);
    assert_eq!(path.sender.occupancy(), (0, Bytes::ZERO));
}

#[test]
fn an_urgent_class_overtakes_and_each_class_is_read_by_itself() {
    let class = |_| Class { room: Capacity::Packets(20), drops: Drops::Tail, weight: 1 };
    let tunnel = Tunnel::new([0, 1].map(class).into(), Schedule::Priority);
    let mut path = Path::with_tunnel(1, 1_500, None, tunnel, &Personality::newreno()).with(Socket::new);
    for number in 0..4 {
        let frame = Frame { class: usize::from(number % 2 == 0), ..frame(number, Time::ZERO) };
        path.sender.send(Time::ZERO, frame, &packets(number, &[1_000])).unwrap();
    }
    assert_eq!(path.sender.occupancy_of(0), (2, Bytes::new(2_000)));
    assert_eq!(drain(path), [1_000, 3_000, 0, 2_000]);
}

#[test]
fn the_minimum_rate_is_held_while_every_header_is_lost() {
    let mut path = path(1, Some(Rate::kbit(800)), Capacity::Packets(100));
    path.losses = vec![true; 100_000].into();
    // Twice as much as is guaranteed: a frame of 4000 bytes every 20 ms.
    let frames: Vec<_> = (0..500).map(|number| (at_ms(20 * number), number)).collect();
    path.run_with(&frames, at_ms(10_000), |socket, now, number| {
        let oldest = socket.waiting().next().map(|waiting| waiting.frame);
        if let Some(old) = oldest.filter(|old| now.since(old.captured) > crate::time::Duration::from_millis(200)) {
            socket.withdraw(now, old.number);
        }
        send(socket, now, *number, &[1_000; 4]).unwrap();
    });
    for second in 0..10 {
        let within = |time: Time| time > at_ms(1_000 * second) && time <= at_ms(1_000 * (second + 1));
        let bytes: u64 = path.sent.iter().filter(|(time, _)| within(*time)).map(|(_, sent)| u64::from(sent.len)).sum();
        assert!(bytes >= 99_000, "second {second}: {bytes} of 100000 bytes");
    }
}

/// An action of an application on its socket.
#[derive(Clone, Debug)]
enum Act {
    Send(Vec<u32>),
    /// The n-th frame that waits, counted round.
    Withdraw(usize),
    Replace(usize, Vec<u32>),
}

fn act() -> impl Strategy<Value = Act> {
    let lens = || vec(40..=MAX_LEN, 1..6);
    prop_oneof![
        3 => lens().prop_map(Act::Send),
        1 => (0..50_usize).prop_map(Act::Withdraw),
        1 => ((0..50_usize), lens()).prop_map(|(which, lens)| Act::Replace(which, lens)),
    ]
}

proptest! {
    #[test]
    fn any_use_keeps_order_and_credit_and_no_packet_leaves_once_withdrawn(
        acts in vec((0..400_u64, act()), 0..150),
        losses in vec(prop::bool::weighted(0.25), 0..200),
        controls in 1..4_usize,
        guaranteed in prop::option::of(1..4_000_u64),
        room in 1..40_u64,
        by_bytes in any::<bool>(),
    ) {
        let room = if by_bytes { Capacity::Bytes(Bytes::new(1_000 * room)) } else { Capacity::Packets(room) };
        let mut path = path(controls, guaranteed.map(Rate::kbit), room);
        path.losses = losses.into();
        let mut times: Vec<u64> = acts.iter().map(|(ms, _)| *ms).collect();
        times.sort_unstable();
        let acts: Vec<(Time, (u64, Act))> =
            times.iter().zip(&acts).zip(1_u64..).map(|((ms, (_, act)), number)| (at_ms(*ms), (number, act.clone()))).collect();

        // What shall leave, as a plain list says it, and what shall not: by id.
        let mut model: Vec<(u64, Vec<Packet>)> = Vec::new();
        let mut gone = std::collections::BTreeSet::new();
        let mut taken = std::collections::BTreeMap::new();
        path.run_with(&acts, Time::ZERO + crate::time::Duration::from_secs(40_000), |socket, now, (number, act)| {
            // What has left meanwhile is the beginning of the list.
            let waiting: Vec<(u64, usize)> =
                socket.waiting().map(|waiting| (waiting.frame.number, waiting.packets() as usize)).collect();
            while model.len() > waiting.len() {
                model.remove(0);
            }
            for ((known, packets), (number, left)) in model.iter_mut().zip(&waiting) {
                assert_eq!(known, number, "frames wait in the order of the list");
                packets.drain(..packets.len() - left);
            }
            let chosen = |which: usize| (!waiting.is_empty()).then(|| waiting[which % waiting.len()].0);
            match act {
                Act::Send(lens) => {
                    let packets = packets(*number, lens);
                    if socket.send(now, frame(*number, now), &packets).is_ok() {
                        taken.extend(packets.iter().map(|packet| (packet.id, *packet)));
                        model.push((*number, packets));
                    }
                }
                Act::Withdraw(which) => {
                    let Some(chosen) = chosen(*which) else { return };
                    socket.withdraw(now, chosen).unwrap();
                    let at = model.iter().position(|(number, _)| *number == chosen).unwrap();
                    gone.extend(model.remove(at).1.iter().map(|packet| packet.id));
                }
                Act::Replace(which, lens) => {
                    let Some(chosen) = chosen(*which) else { return };
                    let packets = packets(*number, lens);
                    if socket.replace(now, chosen, frame(*number, now), &packets).is_ok() {
                        let at = model.iter().position(|(number, _)| *number == chosen).unwrap();
                        taken.extend(packets.iter().map(|packet| (packet.id, *packet)));
                        gone.extend(std::mem::replace(&mut model[at], (*number, packets)).1.iter().map(|packet| packet.id));
                    }
                }
            }
            let listed: Vec<(u64, u64)> = model.iter().map(|(number, packets)| (*number, packets.len() as u64)).collect();
            let waiting: Vec<(u64, u64)> =
                socket.waiting().map(|waiting| (waiting.frame.number, waiting.packets())).collect();
            assert_eq!(waiting, listed);
            let bytes: Bytes = socket.waiting().map(Waiting::bytes).sum();
            let packets: u64 = listed.iter().map(|(_, packets)| packets).sum();
            assert_eq!(socket.occupancy(), (packets, bytes), "the tunnel queue has what the frames have");
        });

        let sent: std::collections::BTreeSet<u64> = path.sent.iter().map(|(_, packet)| packet.id).collect();
        prop_assert_eq!(sent.len(), path.sent.len(), "nothing leaves twice");
        prop_assert!(sent.is_disjoint(&gone), "what was taken back or replaced stays");
        prop_assert_eq!(sent.len() + gone.len(), taken.len(), "and all the rest leaves");
        for (_, sent) in &path.sent {
            prop_assert_eq!(*sent, Packet { class: Mark::User, ..taken[&sent.id] }, "as it came, with a mark");
        }
        // Packets of a frame leave one after another, in their order.
        for pair in path.sent.windows(2) {
            let (before, after) = (pair[0].1.id, pair[1].1.id);
            prop_assert!(after % 1_000 == 0 || after == before + 1, "{before} and then {after}");
        }
        let circuit = path.sender.circuit();
        let most = (controls as u64) * (1_500 + u64::from(MAX_LEN));
        let counters = circuit.counters();
        prop_assert!(counters.controlled_bytes <= counters.headers * 1_500 + most, "{:?}", counters);
        prop_assert_eq!(counters.controlled_bytes, counters.headers * 1_500 + circuit.unpaid().get(), "the books balance");
        let frames = path.sender.counters();
        prop_assert_eq!(frames.taken, frames.left + frames.withdrawn + frames.replaced);
    }
}
