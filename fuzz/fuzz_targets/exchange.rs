//! Two TCPs and a path that the input rules: whatever it loses, repeats and reorders, each end reads a beginning of what
//! the other wrote, and nobody is told of an acknowledgement that was not given.
#![no_main]

#[path = "../bytes.rs"]
mod bytes;

use bytes::Bytes as Input;
use headend_engine::tcp::connection::{Connection, PairedEnd, Output};
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use libfuzzer_sys::fuzz_target;

/// More than this in the air at once is lost.
const AIR_MAX: usize = 256;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let personalities = [input.personality(), input.personality()];
    let (isn, peer_isn) = (0xffff_f000, 0xffff_fff0);
    let (left, right) = if input.flag() {
        (
            Connection::connect(&personalities[0], isn, Duration::ZERO),
            Connection::listen(&personalities[1], peer_isn, Duration::ZERO),
        )
    } else {
        let end = |which: usize, isn| PairedEnd { personality: &personalities[which], isn, clock_phase: Duration::ZERO };
        Connection::pair(end(0, isn), end(1, peer_isn))
    };
    let mut ends = [left, right];
    let mut written = [0_u64; 2];
    let mut air: Vec<(usize, Segment)> = Vec::new();
    let mut now = Time::ZERO;
    while !input.is_empty() {
        let (what, whom) = (input.byte(), usize::from(input.flag()));
        match what % 12 {
            0 | 1 => written[whom] += ends[whom].write(Bytes::new(u64::from(input.short()))).get(),
            2 => {
                ends[whom].read(Bytes::new(u64::from(input.short())));
            }
            3 if what > 200 => ends[whom].close(),
            4 | 5 => now += Duration::from_micros(1 << (input.byte() % 28)),
            kind if !air.is_empty() => {
                // The oldest arrives, or another one; it is lost, or comes again later.
                let at = if kind < 9 { 0 } else { usize::from(input.byte()) % air.len() };
                let (from, segment) = air[at];
                if kind != 11 || input.flag() {
                    air.remove(at);
                }
                if kind != 10 {
                    ends[1 - from].receive(now, &segment);
                }
            }
            _ => {}
        }
        for (which, end) in ends.iter_mut().enumerate() {
            let mut sent = 0;
            while let Output::Send(segment) = end.poll(now) {
                sent += 1;
                assert!(sent < 100_000, "it talks without end");
                if air.len() < AIR_MAX {
                    air.push((which, segment));
                }
            }
        }
        for which in 0..2 {
            let (here, there) = (&ends[which], &ends[1 - which]);
            assert!(there.received().get() <= written[which], "received what nobody wrote");
            assert!(here.acknowledged() <= there.received(), "acknowledged what was not received");
        }
    }
});
