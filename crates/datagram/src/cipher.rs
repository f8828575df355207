//! Keys in use: what leaves is sealed with AES-256-GCM, and what comes is opened, each message once.
//!
//! A cipher may renew its keys: after so many messages of a direction comes a key that is made from the one before, and does not tell
//! it. Both ends know from a message's number which key it is under, so nothing is said about it. The key before is kept for what
//! is late, the one behind is tried for what is early, and others are not there.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use crate::handshake::Keys;
use crate::keys::SecretKey;
use crate::replay::Window;

/// Bytes of an AES-GCM tag.
pub const TAG: usize = 16;
/// Messages under one key of a cipher that renews its keys, as a power of two: a sixteenth of what AES-GCM is good for (RFC 9001 B.1).
const RENEWED_AFTER_LOG2: u32 = 24;
/// The same of one that does not: numbers of messages are smaller.
const NEVER_LOG2: u32 = 63;

/// The two keys of a session, and the numbers of the messages under them.
pub struct Cipher {
    seal: Chain,
    open: Chain,
    /// Messages under one key, as a power of two.
    each_log2: u32,
    sent: u64,
    seen: Window,
}

/// The keys of a direction, each made from the one before.
struct Chain {
    secret: SecretKey,
    /// The position of the present one.
    at: u64,
    present: LessSafeKey,
    before: Option<LessSafeKey>,
    behind: Option<(SecretKey, LessSafeKey)>,
}

impl Chain {
    fn new(secret: &SecretKey) -> Chain {
        Chain { secret: secret.clone(), at: 0, present: key(secret), before: None, behind: None }
    }

    /// The key at a position, if it is the present one or next to it.
    fn key(&mut self, at: u64) -> Option<&LessSafeKey> {
        if at == self.at {
            Some(&self.present)
        } else if at + 1 == self.at {
            self.before.as_ref()
        } else if at == self.at + 1 {
            let secret = &self.secret;
            Some(&self.behind.get_or_insert_with(|| follower(secret)).1)
        } else {
            None
        }
    }

    /// Goes on to the key behind the present one.
    fn advance(&mut self) {
        let (secret, key) = self.behind.take().unwrap_or_else(|| follower(&self.secret));
        self.before = Some(std::mem::replace(&mut self.present, key));
        self.secret = secret;
        self.at += 1;
    }
}

fn follower(secret: &SecretKey) -> (SecretKey, LessSafeKey) {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret.0), b"headend next key");
    let secret = SecretKey(*tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes"));
    let key = key(&secret);
    (secret, key)
}

/// A message that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// True if no message that came before was sent after it.
    pub is_newest: bool,
    /// Its bytes, where the sealed ones were.
    pub plain: &'a mut [u8],
}

impl Cipher {
    /// Nothing is sealed yet under these keys.
    pub fn new(keys: &Keys) -> Cipher {
        Cipher::with(keys, NEVER_LOG2)
    }

    /// The same, with keys that are renewed every 2^24 messages. The other end must do so as well.
    pub fn renewing(keys: &Keys) -> Cipher {
        Cipher::with(keys, RENEWED_AFTER_LOG2)
    }

    fn with(keys: &Keys, each_log2: u32) -> Cipher {
        let (seal, open) = (Chain::new(&keys.send), Chain::new(&keys.receive));
        Cipher { seal, open, each_log2, sent: 0, seen: Window::new() }
    }

    /// The number of the next message, which is that of messages so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// One more than the largest number of a message that was opened.
    pub fn next_expected(&self) -> u64 {
        self.seen.next()
    }

    /// Writes, behind what is in `out`, the header that `header` makes of the message's number, which is authenticated, and
    /// what `write` writes, sealed.
    pub fn seal<const N: usize>(
        &mut self,
        out: &mut Vec<u8>,
        header: impl FnOnce(u64) -> [u8; N],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let counter = self.sent;
        self.sent += 1;
        if counter >> self.each_log2 > self.seal.at {
            self.seal.advance();
        }
        let header = header(counter);
        out.extend_from_slice(&header);
        let at = out.len();
        write(out);
        let tag = self.seal.present.seal_in_place_separate_tag(nonce(counter), Aad::from(&header), &mut out[at..]);
        out.extend_from_slice(tag.expect("a message is shorter than AES-GCM allows").as_ref());
    }

    /// Opens the message with this number in its place; `None` if it is not authentic, or came before.
    pub fn open<'a>(&mut self, counter: u64, header: &[u8], sealed: &'a mut [u8]) -> Option<Opened<'a>> {
        if !self.seen.is_new(counter) {
            return None;
        }
        let at = counter >> self.each_log2;
        let plain = self.open.key(at)?.open_in_place(nonce(counter), Aad::from(header), sealed).ok()?;
        // Only an authentic message shows that the other end has gone on.
        if at > self.open.at {
            self.open.advance();
        }
        Some(Opened { is_newest: self.seen.accept(counter), plain })
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher({} sent)", self.sent)
    }
}

fn key(key: &SecretKey) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key.0).expect("a key of AES-256 has 32 bytes"))
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two ends whose keys last for 16 messages.
    fn pair() -> (Cipher, Cipher) {
        let (a, b) = (SecretKey([1; 32]), SecretKey([2; 32]));
        let ours = Keys { send: a.clone(), receive: b.clone() };
        (Cipher::with(&ours, 4), Cipher::with(&Keys { send: b, receive: a }, 4))
    }

    fn sealed(cipher: &mut Cipher, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        cipher.seal(&mut out, u64::to_be_bytes, |out| out.extend_from_slice(text));
        out
    }

    fn opened(cipher: &mut Cipher, message: &[u8]) -> Option<Vec<u8>> {
        let mut message = message.to_vec();
        let (header, rest) = message.split_at_mut(8);
        let counter = u64::from_be_bytes(header.try_into().unwrap());
        cipher.open(counter, header, rest).map(|opened| opened.plain.to_vec())
    }

    #[test]
    fn a_message_of_two_keys_ago_and_one_of_two_keys_ahead_are_refused() {
        let (mut ours, mut theirs) = pair();
        let all: Vec<_> = (0..64_u8).map(|n| sealed(&mut ours, &[n])).collect();
        assert_eq!(opened(&mut theirs, &all[40]), None, "two ahead: nobody loses so many and goes on");
        for at in [3, 20, 35] {
            assert_eq!(opened(&mut theirs, &all[at]), Some(vec![at as u8]));
        }
        assert_eq!(opened(&mut theirs, &all[5]), None, "its key is gone");
        assert_eq!(opened(&mut theirs, &all[21]), Some(vec![21]), "the key before is kept");
    }

    #[test]
    fn a_forged_message_of_the_next_key_changes_nothing() {
        let (mut ours, mut theirs) = pair();
        let all: Vec<_> = (0..20_u8).map(|n| sealed(&mut ours, &[n])).collect();
        let mut forged = all[17].clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(opened(&mut theirs, &forged), None);
        assert_eq!(theirs.open.at, 0);
        assert!(all.iter().all(|message| opened(&mut theirs, message).is_some()));
        assert_eq!(theirs.open.at, 1);
    }

    proptest! {
        #[test]
        fn messages_in_disorder_are_opened_once_across_new_keys(
            fates in prop::collection::vec((0..14_usize, 0..10_u8), 300),
        ) {
            let (mut ours, mut theirs) = pair();
            // Each is late by so many others, and one in ten is lost, and one comes twice.
            let mut arriving: Vec<(usize, usize)> = Vec::new();
            for (number, (late, what)) in fates.iter().enumerate() {
                let times = match what { 0 => 0, 1 => 2, _ => 1 };
                arriving.extend((0..times).map(|again| (number + late + again, number)));
            }
            arriving.sort_unstable();
            let messages: Vec<_> = (0..fates.len()).map(|n| sealed(&mut ours, &n.to_be_bytes())).collect();
            let mut seen = vec![false; fates.len()];
            for (_, number) in arriving {
                let found = opened(&mut theirs, &messages[number]);
                prop_assert_eq!(found.is_some(), !seen[number], "{}", number);
                prop_assert!(found.is_none_or(|text| text == number.to_be_bytes()));
                seen[number] = true;
            }
        }
    }
}
