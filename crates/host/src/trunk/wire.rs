//! The datagrams that two ends of a trunk send each other, as bytes. Numbers are big-endian.
//!
//! | datagram | bytes |
//! |---|---|
//! | initiation | kind 1, version, 0, 0; sender's number (4); Noise message 1 with the time (104); proof (16); tag under the receiver's cookie, or zeros (16) |
//! | response | kind 2, version, 0, 0; sender's number (4); receiver's number (4); Noise message 2 (48); proof (16) |
//! | cookie | kind 3, version, 0, 0; receiver's number (4); a [cookie](headend_datagram::Cookies) (48) |
//! | sealed | kind 4, version, 0, 0; receiver's number (4); counter (8); a [`Message`] under AES-256-GCM, with its tag (16) |
//!
//! A probe of the path is as long as the user's packet whose way it tries, and zeros.
//!
//! A user's packet is a message as well: 14 bytes before it say its circuit, its number in the circuit, and whether its checksum
//! is left open. In a circuit that repairs they are 18: the last four are the packet's place in its flow.
//!
//! The proof tells that the sender knows the receiver's public key: others are not answered, and cost no more than a hash.
//! The first sixteen bytes of a sealed datagram are authenticated with it.

pub use headend_datagram::{COOKIE, NOISE_2, PROOF, TAG};
use headend_engine::circuit::in_band::Acknowledgement;
use headend_engine::circuit::repair::{FLOWS, Place};
use headend_engine::tcp::segment::{Flags, Options, SackBlocks, Segment};

use super::config::Carriage;

/// The version of all this.
pub const VERSION: u8 = 4;
/// What both ends of a hand-shake must mean (Noise's prologue).
pub(super) const PROTOCOL: &[u8] = b"headend trunk 4";
/// Bytes before what is sealed.
pub const SEALED_HEADER: usize = 16;
/// Bytes of Noise's first message with the payload that it has here: the time on the sender's wall clock, in nanoseconds
/// since 1970.
pub const NOISE_1: usize = headend_datagram::NOISE_1 + 8;
/// Bytes of an initiation.
pub const INITIATION: usize = 8 + NOISE_1 + PROOF + PROOF;
/// Bytes of a response.
pub const RESPONSE: usize = 12 + NOISE_2 + PROOF;
/// Bytes of a cookie's datagram.
pub const COOKIE_REPLY: usize = 8 + COOKIE;
/// The longest message: what fits into the longest datagram of UDP over IPv4.
pub const MESSAGE_MAX: usize = 65_507 - SEALED_HEADER - TAG;
/// Bytes of a message before the user's packet in it.
pub const DATA_HEADER: usize = 1 + 1 + 4 + 8;
/// Bytes more before a packet that has a place in its flow.
pub const PLACE: usize = 2 + 2;
/// Flags of a user's packet: its checksum is left open; it left without control and has no number.
const OPEN: u8 = 1;
const FREE: u8 = 2;
/// The largest number of a packet: none ever comes so far (RFC 9000 s12.3).
const NUMBER_MAX: u64 = (1 << 62) - 1;
/// The shortest packet: a header of IPv4.
const PACKET_MIN: usize = 20;
/// A control packet without SACK blocks.
const CONTROL: usize = 32;

/// A datagram's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// The first datagram of a hand-shake, whose sender wants a session.
    Initiation {
        /// The number under which its sender wants to be answered.
        sender: u32,
        /// Noise's first message.
        noise: &'a [u8],
        /// The bytes that the proof covers.
        proven: &'a [u8],
        /// The proof that the sender knows the receiver's public key.
        proof: &'a [u8],
        /// The bytes that the tag covers.
        tagged: &'a [u8],
        /// The tag under the receiver's cookie; zeros without one.
        tag: &'a [u8],
    },
    /// The answer to an initiation, whose sender grants a session.
    Response {
        /// The number under which its sender wants to be written to.
        sender: u32,
        /// The number in the initiation.
        receiver: u32,
        /// Noise's second message.
        noise: &'a [u8],
        /// The bytes that the proof covers.
        proven: &'a [u8],
        /// The proof that the sender knows the receiver's public key.
        proof: &'a [u8],
    },
    /// The answer to an initiation that was not looked at, for there are too many: whoever shows the cookie in the next one is.
    Cookie {
        /// The number in the initiation.
        receiver: u32,
        /// The cookie.
        cookie: &'a [u8; COOKIE],
    },
    /// A message in a session.
    Sealed {
        /// The receiver's number of the session.
        receiver: u32,
        /// The number of the message in its session and direction, which no other has.
        counter: u64,
        /// The first bytes of the datagram, which are authenticated and not encrypted.
        header: &'a [u8],
        /// The encrypted message, with its tag.
        sealed: &'a [u8],
    },
}

impl<'a> Datagram<'a> {
    /// Reads a datagram; `None` if it is none of ours.
    pub fn read(bytes: &'a [u8]) -> Option<Datagram<'a>> {
        let (&[kind, version, 0, 0], _) = bytes.split_first_chunk::<4>()? else { return None };
        if version != VERSION {
            return None;
        }
        match kind {
            1 if bytes.len() == INITIATION => {
                let (tagged, tag) = bytes.split_at(INITIATION - PROOF);
                let (proven, proof) = tagged.split_at(INITIATION - 2 * PROOF);
                let (sender, noise) = (u32_at(bytes, 4)?, &proven[8..]);
                Some(Datagram::Initiation { sender, noise, proven, proof, tagged, tag })
            }
            2 if bytes.len() == RESPONSE => {
                let (proven, proof) = bytes.split_at(RESPONSE - PROOF);
                let (sender, receiver) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
                Some(Datagram::Response { sender, receiver, noise: &proven[12..], proven, proof })
            }
            3 if bytes.len() == COOKIE_REPLY => {
                Some(Datagram::Cookie { receiver: u32_at(bytes, 4)?, cookie: bytes[8..].first_chunk()? })
            }
            4 if bytes.len() > SEALED_HEADER + TAG && bytes.len() <= SEALED_HEADER + MESSAGE_MAX + TAG => {
                let (header, sealed) = bytes.split_at(SEALED_HEADER);
                Some(Datagram::Sealed { receiver: u32_at(bytes, 4)?, counter: u64_at(bytes, 8)?, header, sealed })
            }
            _ => None,
        }
    }
}

/// The beginning of an initiation.
pub fn initiation_header(sender: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&[1, VERSION]);
    bytes[4..].copy_from_slice(&sender.to_be_bytes());
    bytes
}

/// The beginning of a response.
pub fn response_header(sender: u32, receiver: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&[2, VERSION]);
    bytes[4..8].copy_from_slice(&sender.to_be_bytes());
    bytes[8..].copy_from_slice(&receiver.to_be_bytes());
    bytes
}

/// The beginning of a cookie's datagram.
pub fn cookie_header(receiver: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&[3, VERSION]);
    bytes[4..].copy_from_slice(&receiver.to_be_bytes());
    bytes
}

/// The beginning of a sealed datagram.
pub fn sealed_header(receiver: u32, counter: u64) -> [u8; SEALED_HEADER] {
    let mut bytes = [0; SEALED_HEADER];
    bytes[..2].copy_from_slice(&[4, VERSION]);
    bytes[4..8].copy_from_slice(&receiver.to_be_bytes());
    bytes[8..].copy_from_slice(&counter.to_be_bytes());
    bytes
}

/// The message inside a sealed datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Its sender is there, and has the receiving end of this circuit; 0 if of none.
    Alive(u32),
    /// Its sender begins a circuit to the receiver.
    Offer(Terms),
    /// Its sender has begun the receiving end of the circuit, on these terms: never more than was offered. Without control
    /// TCPs it has refused.
    Answer(Terms),
    /// A segment of a control TCP.
    Control {
        /// True for a header, from the end that sends users' packets; false for an acknowledgement.
        is_header: bool,
        /// The circuit.
        circuit: u32,
        /// The number of the control TCP in the circuit.
        which: u8,
        /// The segment.
        segment: Segment,
    },
    /// A user's packet, in sealed carriage.
    Data {
        /// The circuit.
        circuit: u32,
        /// Its number in the circuit; none if it left at the guaranteed rate.
        number: Option<u64>,
        /// True if its checksum is left open: whoever passes it on completes it.
        is_open: bool,
        /// Its place in its flow, in a circuit that repairs.
        place: Option<Place>,
        /// The packet.
        packet: &'a [u8],
    },
    /// The numbers of users' packets that have come.
    Told {
        /// The circuit.
        circuit: u32,
        /// The acknowledgement.
        told: Acknowledgement,
    },
    /// Its sender has no receiving end of this circuit.
    Unknown(u32),
    /// Its sender ends.
    Goodbye,
    /// A datagram as long as one with a user's packet of that length, to see whether it passes.
    Probe(Probed),
    /// A probe that came.
    Probed(Probed),
}

/// A probe of the path's MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The number of the probe.
    pub id: u32,
    /// The length of the user's packet in whose place it goes.
    pub len: u32,
}

/// The terms on which the two ends of a circuit agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The circuit: another number with each new start.
    pub circuit: u32,
    /// The carriage of its packets. An answer tells that of the receiver: if it is another, the receiver has refused.
    pub carriage: Carriage,
    /// Number of control TCPs that it has, or of flows under in-band control.
    pub controls: u8,
    /// Bytes of data for each header, in native carriage.
    pub vmss: u32,
    /// Rate at which users' packets may leave without control, in bit/s.
    pub guaranteed_bps: u64,
    /// The longest that a packet waits at the receiving end for an earlier one of its flow that is sent again, in microseconds; 0 if
    /// nothing is repaired.
    pub repair_us: u32,
}

/// What stands before a user's packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The circuit.
    pub circuit: u32,
    /// The packet's number in the circuit; none if it left at the guaranteed rate.
    pub number: Option<u64>,
    /// True if its checksum is left open.
    pub is_open: bool,
    /// Its place in its flow, in a circuit that repairs.
    pub place: Option<Place>,
}

impl DataHeader {
    /// Bytes that it takes.
    pub fn wire_len(&self) -> usize {
        DATA_HEADER + self.place.map_or(0, |_| PLACE)
    }

    /// Writes it behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; DATA_HEADER];
        bytes[0] = if self.place.is_some() { 11 } else { 7 };
        bytes[1] = if self.is_open { OPEN } else { 0 } | if self.number.is_none() { FREE } else { 0 };
        bytes[2..6].copy_from_slice(&self.circuit.to_be_bytes());
        bytes[6..].copy_from_slice(&self.number.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&bytes);
        if let Some(Place { flow, turn }) = self.place {
            out.extend_from_slice(&flow.to_be_bytes());
            out.extend_from_slice(&turn.to_be_bytes());
        }
    }
}

impl<'a> Message<'a> {
    /// Writes the message behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Message::Alive(circuit) => {
                out.push(0);
                out.extend_from_slice(&circuit.to_be_bytes());
            }
            Message::Offer(terms) => terms.write(1, out),
            Message::Answer(terms) => terms.write(2, out),
            Message::Control { is_header, circuit, which, segment } => {
                let sacks = segment.options.sack.as_slice();
                out.extend_from_slice(&[if *is_header { 3 } else { 4 }, *which, sacks.len() as u8, 0]);
                let (value, echo) = segment.options.timestamps.unwrap_or_default();
                for number in [*circuit, segment.seq, segment.ack, segment.len, value, echo, u32::from(segment.window)]
                {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                for (left, right) in sacks {
                    out.extend_from_slice(&left.to_be_bytes());
                    out.extend_from_slice(&right.to_be_bytes());
                }
            }
            Message::Probe(Probed { id, len }) => {
                let end = out.len() + DATA_HEADER + *len as usize;
                out.push(9);
                out.extend_from_slice(&id.to_be_bytes());
                out.resize(end, 0);
            }
            Message::Probed(Probed { id, len }) => {
                out.push(10);
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&len.to_be_bytes());
            }
            Message::Unknown(circuit) => {
                out.push(5);
                out.extend_from_slice(&circuit.to_be_bytes());
            }
            Message::Goodbye => out.push(6),
            Message::Data { circuit, number, is_open, place, packet } => {
                let (circuit, number, is_open, place) = (*circuit, *number, *is_open, *place);
                DataHeader { circuit, number, is_open, place }.write(out);
                out.extend_from_slice(packet);
            }
            Message::Told { circuit, told } => {
                out.push(8);
                out.extend_from_slice(&circuit.to_be_bytes());
                told.encode(out);
            }
        }
    }

    /// Reads a message; `None` if it is not exactly one.
    pub fn read(bytes: &'a [u8]) -> Option<Message<'a>> {
        match *bytes {
            [kind @ (7 | 11), flags @ 0..=3, ..] => {
                let (circuit, number) = (u32_at(bytes, 2)?, u64_at(bytes, 6)?);
                let is_free = flags & FREE != 0;
                let (place, packet) = match kind {
                    7 => (None, bytes.get(DATA_HEADER..)?),
                    _ => (Some(place_at(bytes, DATA_HEADER)?), bytes.get(DATA_HEADER + PLACE..)?),
                };
                let is_possible = if is_free { number == 0 } else { number <= NUMBER_MAX };
                (is_possible && packet.len() >= PACKET_MIN).then_some(Message::Data {
                    circuit,
                    number: (!is_free).then_some(number),
                    is_open: flags & OPEN != 0,
                    place,
                    packet,
                })
            }
            [8, ..] => {
                let told = Acknowledgement::decode(bytes.get(5..)?).ok()?;
                Some(Message::Told { circuit: u32_at(bytes, 1)?, told })
            }
            [0, ..] if bytes.len() == 5 => u32_at(bytes, 1).map(Message::Alive),
            [1, ..] => Terms::read(bytes).map(Message::Offer),
            [2, ..] => Terms::read(bytes).map(Message::Answer),
            [kind @ (3 | 4), which, sacks @ 0..=4, 0, ..] if bytes.len() == CONTROL + 8 * usize::from(sacks) => {
                let number = |at: usize| u32_at(bytes, 4 + 4 * at);
                let mut sack = SackBlocks::default();
                for block in bytes[CONTROL..].chunks_exact(8) {
                    let (left, right) = (u32_at(block, 0)?, u32_at(block, 4)?);
                    if left == right {
                        return None;
                    }
                    sack.push(left, right);
                }
                let segment = Segment {
                    seq: number(1)?,
                    ack: number(2)?,
                    len: number(3)?,
                    window: u16::try_from(number(6)?).ok()?,
                    flags: Flags { ack: true, ..Flags::default() },
                    options: Options { timestamps: Some((number(4)?, number(5)?)), sack, ..Options::default() },
                };
                Some(Message::Control { is_header: kind == 3, circuit: number(0)?, which, segment })
            }
            [5, ..] if bytes.len() == 5 => u32_at(bytes, 1).map(Message::Unknown),
            [6] => Some(Message::Goodbye),
            [9, ..] if bytes.len() >= DATA_HEADER + PACKET_MIN && bytes[5..].iter().all(|byte| *byte == 0) => {
                Some(Message::Probe(Probed { id: u32_at(bytes, 1)?, len: (bytes.len() - DATA_HEADER) as u32 }))
            }
            [10, ..] if bytes.len() == 9 => {
                Some(Message::Probed(Probed { id: u32_at(bytes, 1)?, len: u32_at(bytes, 5)? }))
            }
            _ => None,
        }
    }
}

impl Terms {
    fn write(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind, self.carriage.number(), self.controls]);
        out.extend_from_slice(&self.circuit.to_be_bytes());
        out.extend_from_slice(&self.vmss.to_be_bytes());
        out.extend_from_slice(&self.guaranteed_bps.to_be_bytes());
        out.extend_from_slice(&self.repair_us.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Terms> {
        (bytes.len() == 23).then_some(())?;
        Some(Terms {
            carriage: Carriage::of_number(bytes[1])?,
            controls: bytes[2],
            circuit: u32_at(bytes, 3)?,
            vmss: u32_at(bytes, 7)?,
            guaranteed_bps: u64_at(bytes, 11)?,
            repair_us: u32_at(bytes, 19)?,
        })
    }
}

fn place_at(bytes: &[u8], at: usize) -> Option<Place> {
    let number = u32_at(bytes, at)?;
    let (flow, turn) = ((number >> 16) as u16, number as u16);
    (u64::from(flow) < FLOWS).then_some(Place { flow, turn })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use headend_engine::time::{Duration, Time};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn terms() -> impl Strategy<Value = Terms> {
        (any::<bool>(), any::<u32>(), any::<u8>(), any::<u32>(), any::<u64>(), any::<u32>()).prop_map(
            |(is_sealed, circuit, controls, vmss, guaranteed_bps, repair_us)| {
                let carriage = if is_sealed { Carriage::Sealed } else { Carriage::Native };
                Terms { circuit, carriage, controls, vmss, guaranteed_bps, repair_us }
            },
        )
    }

    fn control() -> impl Strategy<Value = Message<'static>> {
        let numbers = any::<[u32; 6]>();
        let blocks = vec((any::<u32>(), 1..u32::MAX), 0..=4);
        (any::<bool>(), any::<u8>(), numbers, any::<u16>(), blocks).prop_map(|(is_header, which, n, window, blocks)| {
            let mut sack = SackBlocks::default();
            blocks.iter().for_each(|(left, len)| sack.push(*left, left.wrapping_add(*len)));
            let options = Options { timestamps: Some((n[3], n[4])), sack, ..Options::default() };
            let flags = Flags { ack: true, ..Flags::default() };
            let segment = Segment { seq: n[0], ack: n[1], len: n[2], window, flags, options };
            Message::Control { is_header, circuit: n[5], which, segment }
        })
    }

    fn data() -> impl Strategy<Value = Message<'static>> {
        let number = prop::option::of(0..=NUMBER_MAX);
        let place = (0..FLOWS as u16, any::<u16>()).prop_map(|(flow, turn)| Place { flow, turn });
        let place = prop::option::of(place);
        (any::<u32>(), number, any::<bool>(), place, PACKET_MIN..100).prop_map(
            |(circuit, number, is_open, place, len)| {
                const PACKET: [u8; 100] = [0x45; 100];
                Message::Data { circuit, number, is_open, place, packet: &PACKET[..len] }
            },
        )
    }

    fn told() -> impl Strategy<Value = Message<'static>> {
        let ranges = vec((2..1_000_u64, 0..1_000_u64), 1..=16);
        (any::<u32>(), any::<u64>(), any::<u32>(), ranges).prop_map(|(circuit, received, held, steps)| {
            let mut below = 1 << 40;
            let ranges = steps.into_iter().map(|(gap, len)| {
                let last = below - gap;
                below = last - len;
                (below, last)
            });
            let ranges = ranges.collect();
            let (received, held) = (Time::from_nanos(received), Duration::from_micros(u64::from(held)));
            Message::Told { circuit, told: Acknowledgement { received, held, ranges } }
        })
    }

    fn message() -> impl Strategy<Value = Message<'static>> {
        prop_oneof![
            Just(Message::Goodbye),
            any::<u32>().prop_map(Message::Alive),
            any::<u32>().prop_map(Message::Unknown),
            terms().prop_map(Message::Offer),
            terms().prop_map(Message::Answer),
            control(),
            data(),
            told(),
            (any::<u32>(), PACKET_MIN as u32..100).prop_map(|(id, len)| Message::Probe(Probed { id, len })),
            any::<[u32; 2]>().prop_map(|[id, len]| Message::Probed(Probed { id, len })),
        ]
    }

    /// What fuzzing begins with: each kind of message and datagram, and every beginning of them.
    #[test]
    fn what_fuzzing_begins_with_is_read_as_it_was_written() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/trunk_wire");
        let (mut messages, mut datagrams) = (0, 0);
        for entry in std::fs::read_dir(folder).expect("the seeds are in the tree") {
            let bytes = std::fs::read(entry.expect("they can be listed").path()).expect("they can be read");
            datagrams += usize::from(Datagram::read(&bytes).is_some());
            messages += usize::from(Message::read(&bytes).is_some());
            for len in 0..=bytes.len() {
                if let Some(message) = Message::read(&bytes[..len]) {
                    let mut again = Vec::new();
                    message.write(&mut again);
                    assert_eq!(again, &bytes[..len]);
                }
            }
        }
        assert_eq!((messages, datagrams), (17, 4));
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written_and_not_shorter_or_longer(message in message(), more in any::<u8>()) {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            prop_assert!(bytes.len() <= MESSAGE_MAX);
            prop_assert_eq!(Message::read(&bytes), Some(message.clone()));
            for len in 0..bytes.len() {
                prop_assert_ne!(Message::read(&bytes[..len]), Some(message.clone()));
            }
            bytes.push(more);
            // A packet may be of any length, and a probe as well.
            let is_any = matches!(message, Message::Data { .. }) || more == 0 && matches!(message, Message::Probe(_));
            prop_assert_eq!(Message::read(&bytes).is_some(), is_any);
        }

        #[test]
        fn any_bytes_are_a_message_or_none_and_what_is_read_is_written_so(bytes in vec(any::<u8>(), 0..80)) {
            if let Some(message) = Message::read(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        /// What a fuzzer would come to: a message that was written, with some of its bytes changed, gone or doubled.
        #[test]
        fn a_damaged_message_is_another_or_none(
            message in message(), harms in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        ) {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            for (at, byte, harm) in harms {
                let at = at.index(bytes.len());
                match harm {
                    0 => bytes[at] ^= byte,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, byte),
                }
            }
            if let Some(message) = Message::read(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn any_bytes_are_a_datagram_or_none(
            kind in 0..6_u8,
            rest in prop_oneof![vec(any::<u8>(), 0..200), vec(any::<u8>(), INITIATION - 4), vec(any::<u8>(), RESPONSE - 4),
                vec(any::<u8>(), COOKIE_REPLY - 4)],
        ) {
            let mut bytes = vec![kind, VERSION, 0, 0];
            bytes.extend(rest);
            match Datagram::read(&bytes) {
                Some(Datagram::Initiation { noise, proven, proof, tagged, tag, .. }) => {
                    prop_assert_eq!((kind, noise.len(), proof.len()), (1, NOISE_1, PROOF));
                    prop_assert_eq!((proven.len() + proof.len(), tagged.len() + tag.len()), (tagged.len(), bytes.len()));
                }
                Some(Datagram::Cookie { receiver, cookie }) => {
                    prop_assert_eq!([&cookie_header(receiver)[..], cookie].concat(), bytes);
                }
                Some(Datagram::Response { noise, .. }) => prop_assert_eq!((kind, noise.len()), (2, NOISE_2)),
                Some(Datagram::Sealed { header, sealed, receiver, counter }) => {
                    prop_assert_eq!(header, &sealed_header(receiver, counter)[..]);
                    prop_assert!(sealed.len() > TAG);
                }
                None => {}
            }
        }
    }
}
