//! A TCP and a peer that sends anything at all: no segment, in any order, makes it panic, talk without end at one instant,
//! ask to be woken in the past, or count bytes that nobody wrote.
#![no_main]

#[path = "../bytes.rs"]
mod bytes;

use bytes::Bytes as Input;
use headend_engine::tcp::connection::{Connection, Output};
use headend_engine::tcp::personality::Personality;
use headend_engine::tcp::segment::{Flags, Options, Segment};
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use libfuzzer_sys::fuzz_target;

const OURS: u32 = 0xffff_f000;
const THEIRS: u32 = 0xffff_f800;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let personality = input.personality();
    let mut tcp = if input.flag() {
        Connection::connect(&personality, OURS, Duration::ZERO)
    } else {
        Connection::listen(&personality, OURS, Duration::ZERO)
    };
    let (mut now, mut written, mut read) = (Time::ZERO, 0, 0);
    settle(&mut tcp, now);
    while !input.is_empty() {
        match input.byte() % 16 {
            0 => written += tcp.write(Bytes::new(u64::from(input.short()))).get(),
            1 => read += tcp.read(Bytes::new(u64::from(input.short()))).get(),
            2 => tcp.close(),
            3 if input.byte() == 0 => tcp.abort(),
            4..=6 => now += Duration::from_micros(1 << (input.byte() % 36)),
            _ => {
                let segment = segment(&mut input);
                tcp.receive(now, &segment);
            }
        }
        settle(&mut tcp, now);
        check(&tcp, &personality, written, read);
    }
});

/// Anything, but more often than not something near what the TCP expects.
fn segment(input: &mut Input<'_>) -> Segment {
    let near = |base: u32, input: &mut Input<'_>| match input.byte() % 4 {
        0 => base.wrapping_add(1),
        1 => base.wrapping_add(u32::from(input.byte())),
        2 => base.wrapping_add(u32::from(input.short())),
        _ => input.word(),
    };
    let (bits, options) = (input.byte(), input.byte());
    let mut segment = Segment {
        seq: near(THEIRS, input),
        ack: near(OURS, input),
        len: if bits & 0x20 != 0 { u32::from(input.short()) } else { 0 },
        window: input.short(),
        flags: Flags {
            syn: bits & 1 != 0,
            ack: bits & 2 == 0,
            fin: bits & 4 != 0,
            rst: bits & 0x18 == 0x18,
            psh: bits & 0x40 != 0,
        },
        options: Options {
            mss: (options & 1 != 0).then(|| input.short()),
            window_scale: (options & 2 != 0).then(|| input.byte()),
            sack_permitted: options & 4 != 0,
            timestamps: (options & 8 != 0).then(|| (u32::from(input.byte()), u32::from(input.short()))),
            ..Options::default()
        },
    };
    for _ in 0..options >> 5 {
        segment.options.sack.push(near(OURS, input), near(OURS, input));
    }
    segment
}

/// Polls until it waits.
fn settle(tcp: &mut Connection, now: Time) {
    for _ in 0..100_000 {
        match tcp.poll(now) {
            Output::Send(segment) => assert!(segment.len <= 65_535, "{segment:?}"),
            Output::Wait(due) => {
                assert!(due.is_none_or(|due| due > now), "at {now:?} it waits for {due:?}");
                return;
            }
        }
    }
    panic!("it talks without end");
}

fn check(tcp: &Connection, personality: &Personality, written: u64, read: u64) {
    assert!(tcp.acknowledged().get() <= written, "acknowledged what nobody wrote");
    assert!(tcp.readable().get() <= personality.receive_buffer.get(), "more than the buffer holds");
    assert_eq!(tcp.received().get(), read + tcp.readable().get(), "received is read or readable");
    if let Some(snapshot) = tcp.snapshot() {
        assert!(snapshot.una <= snapshot.nxt.max(snapshot.una), "{snapshot:?}");
        assert!(snapshot.in_flight.get() <= written + 1, "{snapshot:?}");
    }
}
