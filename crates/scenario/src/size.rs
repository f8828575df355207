//! The largest socket buffer with which a modem's buffer does not overflow in slow start (tuning paper, section 5.2).
//!
//! A window of B packets arrives at the modem back to back at the rate `down`, and leaves it at the rate `lan`. The
//! modem sends only once the first packet has arrived whole; while the other B - 1 arrive, in (B - 1) P / down, it
//! sends (B - 1) lan / down packets. So (B - 1)(1 - lan / down) packets accumulate, beside the first.
//!
//! - Without any drop the buffer of C packets must hold them all: C >= (B - 1)(1 - lan / down) + 1.
//! - One drop in a window is repaired without a time-out, which leaves C >= (B - 1)(1 - lan / down).
//! - With n connections the windows can meet at the modem: n (B - 1) takes the place of B - 1.
//!
//! The paper's equations are garbled in the surviving text; these follow from its paragraph and give its 19 KB.

use std::fmt::Write as _;

use headend_engine::units::{Bytes, Capacity, Rate};

/// IPv4 and TCP headers without options (RFC 791, RFC 9293 s3.1).
const HEADERS: Bytes = Bytes::new(40);

/// A modem and the connections through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The modem's buffer, the packet in transmission included.
    pub modem_buffer: Capacity,
    /// The rate at which packets arrive.
    pub down: Rate,
    /// The rate at which they leave.
    pub lan: Rate,
    /// The number of connections that share the buffer, at least 1.
    pub connections: u64,
    /// Payload of a full segment.
    pub mss: Bytes,
}

/// The windows that the buffer allows each connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// A full packet on the wire.
    pub packet: Bytes,
    /// The modem's buffer in packets, rounded to the nearest; `None` if it is unlimited.
    pub modem_packets: Option<u64>,
    /// Largest window with at most one drop in each window; `None` if nothing limits it.
    pub one_drop: Option<Window>,
    /// Largest window without any drop; `None` if nothing limits it.
    pub no_drop: Option<Window>,
}

/// A largest window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// In packets, with the fraction that the equation gives.
    pub packets: f64,
    /// That many packets on the wire, rounded down to a byte: what the paper calls the buffer size.
    pub wire: Bytes,
    /// Whole segments in it, at least 1: a connection sends no fractions.
    pub segments: u64,
    /// Their payload: what to set a socket buffer to, since socket buffers count payload.
    pub socket_buffer: Bytes,
}

impl Question {
    /// Works the equations out. Panics if `connections`, `mss` or a rate is zero.
    pub fn answer(&self) -> Answer {
        assert!(self.connections > 0 && self.mss > Bytes::ZERO, "someone sends something");
        assert!(self.down.get() > 0 && self.lan.get() > 0, "packets arrive and leave");
        let packet = self.mss + HEADERS;
        let modem_packets = match self.modem_buffer {
            Capacity::Unlimited => None,
            Capacity::Packets(packets) => Some(packets.max(1)),
            // As the paper does: 10 KB are 6.67 packets of 1500 B, and "7 packets".
            Capacity::Bytes(bytes) => Some(((bytes.get() + packet.get() / 2) / packet.get()).max(1)),
        };
        let window = |room: u64| (self.lan < self.down).then(|| self.window(room, packet));
        Answer {
            packet,
            modem_packets,
            one_drop: modem_packets.and_then(window),
            no_drop: modem_packets.and_then(|packets| window(packets - 1)),
        }
    }

    /// The largest B with n (B - 1)(1 - lan / down) <= `room`.
    fn window(&self, room: u64, packet: Bytes) -> Window {
        let down = u128::from(self.down.get());
        let spread = u128::from(self.connections) * (down - u128::from(self.lan.get()));
        let after_first = u128::from(room) * down;
        let segments = (after_first / spread).saturating_add(1);
        let after_first_wire = after_first.saturating_mul(packet.get().into()) / spread;
        let wire = after_first_wire.saturating_add(packet.get().into());
        let segments = u64::try_from(segments).unwrap_or(u64::MAX);
        Window {
            packets: 1.0 + after_first as f64 / spread as f64,
            wire: Bytes::new(u64::try_from(wire).unwrap_or(u64::MAX)),
            segments,
            socket_buffer: self.mss * segments,
        }
    }

    /// The derivation with the numbers in it, for people.
    pub fn derivation(&self) -> String {
        let answer = self.answer();
        let mut text = String::new();
        let Question { down, lan, connections, mss, .. } = *self;
        let n = if connections == 1 { String::new() } else { format!("{connections} ") };
        let _ = writeln!(
            text,
            "A packet is {mss} of data and {HEADERS} of headers: P = {}.\n\
             A window of B packets arrives at {down} and leaves at {lan}.",
            answer.packet
        );
        let (Some(modem), Some(one), Some(none)) = (answer.modem_packets, answer.one_drop, answer.no_drop) else {
            let why = match self.modem_buffer {
                Capacity::Unlimited => "The modem's buffer is unlimited",
                _ => "The modem empties its buffer at least as fast as it fills",
            };
            let _ = writeln!(text, "{why}: it limits no window.");
            return text;
        };
        let net = 1.0 - lan.get() as f64 / down.get() as f64;
        match self.modem_buffer {
            Capacity::Bytes(bytes) => {
                let exact = bytes.get() as f64 / answer.packet.get() as f64;
                let _ = writeln!(
                    text,
                    "The modem's buffer of {bytes} is {exact:.2} packets, rounded to C = {modem} as the paper does \
                     (the one in transmission included); {} fit whole.",
                    bytes.get() / answer.packet.get()
                );
            }
            _ => {
                let _ = writeln!(text, "The modem's buffer is C = {modem} packets (the one in transmission included).");
            }
        }
        let windows = if connections == 1 { "the window" } else { "all the windows, if they meet," };
        let _ = write!(
            text,
            "\nThe modem sends once the first packet has arrived whole. While the rest of {windows} arrives,\n\
             {n}(B - 1)(1 - {lan} / {down}) = {n}(B - 1) {net:.4} packets accumulate beside the first.\n\n\
             no drop:                 C >= {n}(B - 1) {net:.4} + 1   so  B <= {:.2} packets = {}\n\
             one drop in a window:    C >= {n}(B - 1) {net:.4}       so  B <= {:.2} packets = {}\n\
             \x20                        (one drop is repaired without a time-out)\n\n\
             Largest window without a time-out in slow start: {} ({:.2} packets of {}).\n\
             Socket buffers count data: {} holds the {} whole segments in it.\n",
            none.packets,
            kilobytes(none.wire),
            one.packets,
            kilobytes(one.wire),
            kilobytes(one.wire),
            one.packets,
            answer.packet,
            one.socket_buffer,
            one.segments
        );
        text
    }
}

fn kilobytes(bytes: Bytes) -> String {
    format!("{:.1} KB", bytes.get() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Question = Question {
        modem_buffer: Capacity::Bytes(Bytes::new(10_000)),
        down: Rate::mbit(25),
        lan: Rate::mbit(10),
        connections: 1,
        mss: Bytes::new(1_460),
    };

    #[test]
    fn the_papers_modem_allows_the_papers_nineteen_kilobytes() {
        let answer = PAPER.answer();
        assert_eq!(answer.modem_packets, Some(7));
        let window = answer.one_drop.expect("a limit");
        assert!((window.packets - 12.667).abs() < 0.001, "{}", window.packets);
        assert_eq!(window.wire, Bytes::new(19_000));
        assert_eq!((window.segments, window.socket_buffer), (12, Bytes::new(17_520)));
        assert_eq!(answer.no_drop.expect("a limit").segments, 11, "1 + 6 / 0.6");
    }

    #[test]
    fn whole_segments_satisfy_the_inequality_and_one_more_does_not() {
        for packets in 1..40 {
            for (down, lan) in [(25, 10), (50, 49), (100, 1), (3, 2)] {
                for connections in 1..5 {
                    let (down, lan) = (Rate::mbit(down), Rate::mbit(lan));
                    let modem_buffer = Capacity::Packets(packets);
                    let question = Question { modem_buffer, down, lan, connections, ..PAPER };
                    let b = question.answer().one_drop.expect("a limit").segments;
                    // n (B - 1)(d - l) <= C d, in whole numbers.
                    let piles_up = |b: u64| connections * (b - 1) * (down.get() - lan.get());
                    assert!(piles_up(b) <= packets * down.get(), "{question:?}");
                    assert!(piles_up(b + 1) > packets * down.get(), "{question:?}");
                }
            }
        }
    }

    #[test]
    fn connections_that_share_the_modem_share_what_accumulates() {
        let window = |connections| Question { connections, ..PAPER }.answer().one_drop.expect("a limit").packets - 1.0;
        assert!((window(1) / window(3) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_fast_ethernet_or_an_unlimited_buffer_limits_no_window() {
        let fast = Question { lan: Rate::mbit(25), ..PAPER };
        let deep = Question { modem_buffer: Capacity::Unlimited, ..PAPER };
        for question in [fast, deep] {
            assert_eq!((question.answer().one_drop, question.answer().no_drop), (None, None));
            assert!(question.derivation().contains("limits no window"));
        }
    }

    #[test]
    fn the_derivation_shows_the_numbers_it_used() {
        let text = PAPER.derivation();
        for part in ["P = 1500B", "6.67 packets, rounded to C = 7", "6 fit whole", "0.6000", "B <= 12.67", "19.0 KB"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let modem_buffer = Capacity::Packets(u64::MAX);
        let question = Question { modem_buffer, down: Rate::bit(u64::MAX), lan: Rate::bit(u64::MAX - 1), ..PAPER };
        assert_eq!(question.answer().one_drop.expect("a limit").segments, u64::MAX);
        assert!(!question.derivation().is_empty());
    }
}
