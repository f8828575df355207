//! The datagrams that two ends of a trunk send each other, as bytes. Numbers are big-endian.
//!
//! | datagram | bytes |
//! |---|---|
//! | initiation | kind 1, version, 0, 0; sender's number (4); Noise message 1 with the time (104); proof (16) |
//! | response | kind 2, version, 0, 0; sender's number (4); receiver's number (4); Noise message 2 (48); proof (16) |
//! | sealed | kind 4, version, 0, 0; receiver's number (4); counter (8); a [`Message`] under AES-256-GCM, with its tag (16) |
//!
//! The proof tells that the sender knows the receiver's public key: others are not answered, and cost no more than a hash.
//! The first sixteen bytes of a sealed datagram are authenticated with it.

use headend_engine::tcp::segment::{Flags, Options, SackBlocks, Segment};

/// The version of all this.
pub const VERSION: u8 = 1;
/// Bytes of an AES-GCM tag.
pub const TAG: usize = 16;
/// Bytes before what is sealed.
pub const SEALED_HEADER: usize = 16;
/// Bytes of the proof at the end of a hand-shake's datagram.
pub const PROOF: usize = 16;
/// Bytes of Noise's first message in IKpsk2 with the payload of eight bytes that it has here.
pub const NOISE_1: usize = 32 + 48 + 8 + TAG;
/// Bytes of its second message, without payload.
pub const NOISE_2: usize = 32 + TAG;
/// Bytes of an initiation.
pub const INITIATION: usize = 8 + NOISE_1 + PROOF;
/// Bytes of a response.
pub const RESPONSE: usize = 12 + NOISE_2 + PROOF;
/// The longest message.
pub const MESSAGE_MAX: usize = CONTROL + 4 * 8;
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
                let (proven, proof) = bytes.split_at(INITIATION - PROOF);
                Some(Datagram::Initiation { sender: u32_at(bytes, 4)?, noise: &proven[8..], proven, proof })
            }
            2 if bytes.len() == RESPONSE => {
                let (proven, proof) = bytes.split_at(RESPONSE - PROOF);
                let (sender, receiver) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
                Some(Datagram::Response { sender, receiver, noise: &proven[12..], proven, proof })
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

/// The beginning of a sealed datagram.
pub fn sealed_header(receiver: u32, counter: u64) -> [u8; SEALED_HEADER] {
    let mut bytes = [0; SEALED_HEADER];
    bytes[..2].copy_from_slice(&[4, VERSION]);
    bytes[4..8].copy_from_slice(&receiver.to_be_bytes());
    bytes[8..].copy_from_slice(&counter.to_be_bytes());
    bytes
}

/// The message inside a sealed datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
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
    /// Its sender has no receiving end of this circuit.
    Unknown(u32),
    /// Its sender ends.
    Goodbye,
}

/// The terms on which the two ends of a circuit agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The circuit: another number with each new start.
    pub circuit: u32,
    /// Number of control TCPs that it has.
    pub controls: u8,
    /// Bytes of data for each header.
    pub vmss: u32,
    /// Rate at which users' packets may leave without control, in bit/s.
    pub guaranteed_bps: u64,
}

impl Message {
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
            Message::Unknown(circuit) => {
                out.push(5);
                out.extend_from_slice(&circuit.to_be_bytes());
            }
            Message::Goodbye => out.push(6),
        }
    }

    /// Reads a message; `None` if it is not exactly one.
    pub fn read(bytes: &[u8]) -> Option<Message> {
        match *bytes {
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
            _ => None,
        }
    }
}

impl Terms {
    fn write(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind, self.controls]);
        out.extend_from_slice(&self.circuit.to_be_bytes());
        out.extend_from_slice(&self.vmss.to_be_bytes());
        out.extend_from_slice(&self.guaranteed_bps.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Terms> {
        (bytes.len() == 18).then_some(())?;
        Some(Terms {
            controls: bytes[1],
            circuit: u32_at(bytes, 2)?,
            vmss: u32_at(bytes, 6)?,
            guaranteed_bps: u64_at(bytes, 10)?,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn terms() -> impl Strategy<Value = Terms> {
        (any::<u32>(), any::<u8>(), any::<u32>(), any::<u64>())
            .prop_map(|(circuit, controls, vmss, guaranteed_bps)| Terms { circuit, controls, vmss, guaranteed_bps })
    }

    fn control() -> impl Strategy<Value = Message> {
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

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::Goodbye),
            any::<u32>().prop_map(Message::Alive),
            any::<u32>().prop_map(Message::Unknown),
            terms().prop_map(Message::Offer),
            terms().prop_map(Message::Answer),
            control(),
        ]
    }

    proptest! {
        #[test]
        fn a_message_is_read_as_it_was_written_and_not_shorter_or_longer(message in message(), more in any::<u8>()) {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            prop_assert!(bytes.len() <= MESSAGE_MAX);
            prop_assert_eq!(Message::read(&bytes), Some(message));
            for len in 0..bytes.len() {
                prop_assert_ne!(Message::read(&bytes[..len]), Some(message));
            }
            bytes.push(more);
            prop_assert_eq!(Message::read(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_message_or_none_and_what_is_read_is_written_so(bytes in vec(any::<u8>(), 0..80)) {
            if let Some(message) = Message::read(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn any_bytes_are_a_datagram_or_none(
            kind in 0..6_u8,
            rest in prop_oneof![vec(any::<u8>(), 0..200), vec(any::<u8>(), INITIATION - 4), vec(any::<u8>(), RESPONSE - 4)],
        ) {
            let mut bytes = vec![kind, VERSION, 0, 0];
            bytes.extend(rest);
            match Datagram::read(&bytes) {
                Some(Datagram::Initiation { noise, proven, proof, .. }) => {
                    prop_assert_eq!((kind, noise.len(), proof.len()), (1, NOISE_1, PROOF));
                    prop_assert_eq!(proven.len() + proof.len(), bytes.len());
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
