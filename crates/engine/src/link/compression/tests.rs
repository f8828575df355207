//! Headers that follow one another, alone and over a link that loses some.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::link::Link;
use crate::link::headers::{HeaderCoding, HeaderCompression};
use crate::link::loss::List;
use crate::link::queue::DropTail;
use crate::link::service::Constant;
use crate::node::{Node, Port, Step};
use crate::packet::Ecn;
use crate::tcp::segment::{Flags, Options, Segment};
use crate::time::{Duration, Time};
use crate::units::{Capacity, Rate};

const VMSS: u32 = 1_500;

/// Header `number` of a control TCP, whose other end is at `port`.
fn header(number: u32, port: u16) -> Packet {
    let segment = Segment {
        seq: (u32::MAX - 20_000).wrapping_add(number * VMSS),
        ack: 7,
        len: VMSS,
        window: 65_535,
        flags: Flags { ack: true, ..Flags::default() },
        options: Options { timestamps: Some((number, 1)), ..Options::default() },
    };
    let dst = Endpoint { node: 1, port };
    let id = u64::from(number);
    Packet {
        id,
        src: Endpoint::default(),
        dst,
        len: 52,
        class: Class::Header,
        ecn: Ecn::NotEct,
        body: Body::Tcp(segment),
    }
}

fn sent(compression: &mut Compression, packet: &Packet) -> u64 {
    compression.send(packet).get()
}

/// Sends the headers of these numbers, loses those of these, and says which arrive.
fn arrive(twice: bool, numbers: impl IntoIterator<Item = u32>, lost: &[u32]) -> Vec<u32> {
    let mut compression = Compression::new(twice);
    let arrives = |number: &u32| {
        let packet = header(*number, 9);
        compression.send(&packet);
        if lost.contains(number) {
            compression.lost(&packet);
            return false;
        }
        compression.restores(&packet)
    };
    numbers.into_iter().filter(arrives).collect()
}

#[test]
fn a_header_in_order_takes_four_bytes_and_one_sent_again_comes_whole() {
    let mut compression = Compression::new(true);
    assert_eq!(sent(&mut compression, &header(0, 9)), 52, "nothing is known of the first");
    assert_eq!(sent(&mut compression, &header(1, 9)), 16);
    assert_eq!(sent(&mut compression, &header(3, 9)), 19, "3000 more instead of 1500: three bytes say so");
    assert_eq!(sent(&mut compression, &header(2, 9)), 52, "back");
    assert_eq!(sent(&mut compression, &header(2, 9)), 52, "and again the same, as a copy is");
    let other = Packet { class: Class::User, ..header(3, 9) };
    assert_eq!(sent(&mut compression, &other), 52, "no header of a control TCP");
}

#[test]
fn without_twice_a_loss_takes_all_that_follow_until_a_whole_header() {
    assert_eq!(arrive(false, [0, 1, 2, 3, 4, 2, 5, 6], &[2]), [0, 1], "the second 2 is lost as well");
    assert_eq!(arrive(false, [0, 1, 2, 3, 4, 1, 5, 6], &[2]), [0, 1, 1, 5, 6], "1 goes back and comes whole");
}

#[test]
fn with_twice_what_follows_a_loss_is_made_out_at_once() {
    assert_eq!(arrive(true, 0..10, &[3, 6, 7]), [0, 1, 2, 4, 5, 8, 9]);
    let lost: Vec<u32> = (1..=GUESSES_MAX as u32).collect();
    assert_eq!(arrive(true, 0..20, &lost).len(), 20 - lost.len(), "so many guesses are made");
    let lost: Vec<u32> = (1..=GUESSES_MAX as u32 + 1).collect();
    assert_eq!(arrive(true, 0..20, &lost), [0], "and no more");
    assert_eq!(arrive(true, [0, 1, 2, 3, 5, 6], &[3]), [0, 1, 2, 6], "no number of steps of two leads from 2 to 5");
}

#[test]
fn each_connection_is_known_apart() {
    let mut compression = Compression::new(false);
    for number in 0..5 {
        for port in [9, 10] {
            let packet = header(number, port);
            let len = compression.send(&packet).get();
            assert_eq!(len, if number == 0 { 52 } else { 16 });
            if (number, port) == (2, 9) {
                compression.lost(&packet);
            } else {
                assert_eq!(compression.restores(&packet), port == 10 || number < 2);
            }
        }
    }
}

proptest! {
    #[test]
    fn over_a_link_each_header_not_lost_arrives_and_the_books_are_right(
        lost in vec(1_u64..200, 0..40),
        micros in 0_u64..500,
    ) {
        // A byte a microsecond.
        let service = Box::new(Constant::new(Rate::mbit(8)));
        let loss = Box::new(List::new(lost.clone()));
        let mut link = Link::new(Box::new(DropTail::new(Capacity::Unlimited)), service, Some(loss), Duration::from_micros(micros))
            .with_coding(HeaderCoding::build(HeaderCompression::Twice, 0));
        for number in 0..200 {
            link.receive(Time::ZERO, Port(0), &header(number, 9));
        }
        let (mut now, mut arrived) = (Time::ZERO, Vec::new());
        loop {
            match link.poll(now) {
                Step::Send(_, packet) => {
                    prop_assert_eq!(packet.len, 52, "it comes out as it went in");
                    arrived.push(packet.id + 1);
                }
                Step::Wait(Some(wake)) => now = wake,
                Step::Wait(None) => break,
            }
        }
        // The first one is known to nobody before, and a run of losses may be too long to guess.
        let mut expected = Vec::new();
        let mut missing = 0;
        for number in 1..=200 {
            let is_lost = lost.contains(&number);
            missing = if is_lost { missing + 1 } else { missing };
            if !is_lost && (number == 1 || !expected.is_empty()) && missing <= GUESSES_MAX as u64 {
                expected.push(number);
                missing = 0;
            }
        }
        prop_assert_eq!(&arrived, &expected);
        let stats = link.close_books(now + Duration::from_secs(1));
        prop_assert_eq!((stats.delivered, stats.lost), (expected.len() as u64, 200 - expected.len() as u64));
        prop_assert_eq!(stats.delivered_bytes + stats.lost_bytes, 200 * 52);
        prop_assert_eq!(stats.busy, Duration::from_micros(52 + 199 * 16));
    }
}
