//! The datagrams of connections, as bytes. Numbers are big-endian.
//!
//! | datagram | bytes |
//! |---|---|
//! | hello | kind 1, version, 0, 0; client's id (8); token (24); Noise message 1 with [`Terms`] (132); proof (16) |
//! | retry | kind 2, version, 0, 0; client's id (8); token (24) |
//! | welcome | kind 3, version, 0, 0; client's id (8); server's id (8); Noise message 2 with [`Terms`] (84) |
//! | sealed | kind 4; receiver's id (8); low half of the message's number (4); frames under AES-256-GCM, with their tag (16) |
//! | gone | kind 5, version, 0, 0; the id of which nothing is known (8); tag (16) |
//!
//! The proof tells that a client knows the server's public key: others are not answered, and cost no more than a hash. The
//! first hello has a token of zeros, and is answered by a retry that is shorter and leaves no state; the second has the token of
//! that retry, which only who gets the client's datagrams can know. The tag of a `gone` only the server can make: the client got
//! it in the welcome's terms.

use headend_datagram::{NOISE_1, NOISE_2, PROOF, TAG};

/// The version of all this.
pub const VERSION: u8 = 2;
/// What both ends of a hand-shake must mean (Noise's prologue).
pub(crate) const PROTOCOL: &[u8] = b"headend socket 2";
/// Bytes of a token.
pub const TOKEN: usize = 8 + PROOF;
/// Bytes of the terms.
pub const TERMS: usize = 4 * 5 + PROOF;
/// Bytes of a hello.
pub const HELLO: usize = 4 + 8 + TOKEN + NOISE_1 + TERMS + PROOF;
/// Bytes of a retry.
pub const RETRY: usize = 4 + 8 + TOKEN;
/// Bytes of a welcome.
pub const WELCOME: usize = 4 + 8 + 8 + NOISE_2 + TERMS;
/// Bytes before what is sealed.
pub const SEALED_HEADER: usize = 1 + 8 + 4;
/// Bytes of a `gone`.
pub const GONE: usize = 4 + 8 + PROOF;
/// Bytes that a sealed datagram adds to its frames.
pub const SEAL: usize = SEALED_HEADER + TAG;

/// A datagram's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// A client wants a connection.
    Hello {
        /// The id under which it wants to be written to.
        client: u64,
        /// The token of a retry, or zeros.
        token: &'a [u8; TOKEN],
        /// Noise's first message.
        noise: &'a [u8],
        /// The bytes that the proof covers.
        proven: &'a [u8],
        /// The proof that its sender knows the receiver's public key.
        proof: &'a [u8],
    },
    /// A server wants the hello again, with this token.
    Retry {
        /// The client's id.
        client: u64,
        /// The token.
        token: &'a [u8; TOKEN],
    },
    /// A server grants a connection.
    Welcome {
        /// The client's id.
        client: u64,
        /// The id under which the server wants to be written to.
        server: u64,
        /// Noise's second message.
        noise: &'a [u8],
    },
    /// Frames of a connection.
    Sealed {
        /// The receiver's id.
        receiver: u64,
        /// The low half of the message's number.
        low: u32,
    },
    /// A server knows nothing of a connection.
    Gone {
        /// The id that was written to.
        id: u64,
        /// The tag that only the server can make.
        tag: &'a [u8],
    },
}

impl<'a> Datagram<'a> {
    /// Reads a datagram; `None` if it is none of ours.
    pub fn read(bytes: &'a [u8]) -> Option<Datagram<'a>> {
        if bytes.first() == Some(&4) {
            let (receiver, low) = (u64_at(bytes, 1)?, u32::from_be_bytes(*bytes.get(9..)?.first_chunk()?));
            return (bytes.len() > SEAL).then_some(Datagram::Sealed { receiver, low });
        }
        let (&[kind, VERSION, 0, 0], _) = bytes.split_first_chunk::<4>()? else { return None };
        let id = u64_at(bytes, 4)?;
        let token = || bytes.get(12..)?.first_chunk::<TOKEN>();
        match (kind, bytes.len()) {
            (1, HELLO) => {
                let (proven, proof) = bytes.split_at(HELLO - PROOF);
                Some(Datagram::Hello { client: id, token: token()?, noise: &proven[12 + TOKEN..], proven, proof })
            }
            (2, RETRY) => Some(Datagram::Retry { client: id, token: token()? }),
            (3, WELCOME) => Some(Datagram::Welcome { client: id, server: u64_at(bytes, 12)?, noise: &bytes[20..] }),
            (5, GONE) => Some(Datagram::Gone { id, tag: &bytes[12..] }),
            _ => None,
        }
    }
}

/// The beginning of every datagram that is not sealed.
pub(crate) fn header(kind: u8, id: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&[kind, VERSION]);
    bytes[4..].copy_from_slice(&id.to_be_bytes());
    bytes
}

/// The beginning of a sealed datagram.
pub(crate) fn sealed_header(receiver: u64, number: u64) -> [u8; SEALED_HEADER] {
    let mut bytes = [4; SEALED_HEADER];
    bytes[1..9].copy_from_slice(&receiver.to_be_bytes());
    bytes[9..].copy_from_slice(&(number as u32).to_be_bytes());
    bytes
}

/// The number whose low half is `low` and that is nearest to the one that is expected (RFC 9000 A.3).
pub(crate) fn whole_number(low: u32, expected: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    let candidate = expected & !(SPAN - 1) | u64::from(low);
    if candidate + SPAN / 2 <= expected {
        candidate + SPAN
    } else if candidate > expected + SPAN / 2 && candidate >= SPAN {
        candidate - SPAN
    } else {
        candidate
    }
}

/// The limits within which an end lets the other one begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of all streams together that may be sent to it before it says more.
    pub data: u32,
    /// Bytes of each stream.
    pub stream_data: u32,
    /// Streams that may be opened.
    pub streams: u32,
    /// The time without a datagram after which it ends the connection, in milliseconds.
    pub idle_ms: u32,
    /// Bytes of the longest unreliable frame that it takes; 0 for none.
    pub frame: u32,
    /// The tag of a `gone`; zeros from a client.
    pub gone: [u8; PROOF],
}

impl Terms {
    pub(crate) fn bytes(&self) -> [u8; TERMS] {
        let mut bytes = [0; TERMS];
        for (at, n) in [self.data, self.stream_data, self.streams, self.idle_ms, self.frame].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&n.to_be_bytes());
        }
        bytes[20..].copy_from_slice(&self.gone);
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Terms> {
        let bytes: &[u8; TERMS] = bytes.try_into().ok()?;
        let n = |at: usize| u32::from_be_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let gone = bytes[20..].try_into().expect("the rest");
        Some(Terms { data: n(0), stream_data: n(1), streams: n(2), idle_ms: n(3), frame: n(4), gone })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_server_answers_to_a_stranger_is_shorter_than_what_it_got() {
        // RFC 9000 s8.1 allows three times as much.
        const { assert!(RETRY < HELLO && WELCOME < HELLO && GONE <= SEAL) };
    }

    proptest! {
        #[test]
        fn a_number_is_made_whole_from_its_low_half(expected in 0..1_u64 << 50, ahead in -(1_i64 << 30)..1 << 30) {
            let number = expected.saturating_add_signed(ahead);
            prop_assert_eq!(whole_number(number as u32, expected), number);
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Datagram::read(&bytes);
        }

        #[test]
        fn terms_are_read_as_they_were_written(n in any::<[u32; 5]>(), gone in any::<[u8; PROOF]>()) {
            let terms = Terms { data: n[0], stream_data: n[1], streams: n[2], idle_ms: n[3], frame: n[4], gone };
            prop_assert_eq!(Terms::read(&terms.bytes()), Some(terms));
        }
    }
}
