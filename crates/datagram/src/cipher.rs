//! Keys in use: what leaves is sealed with AES-256-GCM, and what comes is opened, each message once.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::handshake::Keys;
use crate::keys::SecretKey;
use crate::replay::Window;

/// Bytes of an AES-GCM tag.
pub const TAG: usize = 16;

/// The two keys of a session, and the numbers of the messages under them.
pub struct Cipher {
    seal: LessSafeKey,
    open: LessSafeKey,
    sent: u64,
    seen: Window,
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
        Cipher { seal: key(&keys.send), open: key(&keys.receive), sent: 0, seen: Window::new() }
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
        let header = header(counter);
        out.extend_from_slice(&header);
        let at = out.len();
        write(out);
        let tag = self.seal.seal_in_place_separate_tag(nonce(counter), Aad::from(&header), &mut out[at..]);
        out.extend_from_slice(tag.expect("a message is shorter than AES-GCM allows").as_ref());
    }

    /// Opens the message with this number in its place; `None` if it is not authentic, or came before.
    pub fn open<'a>(&mut self, counter: u64, header: &[u8], sealed: &'a mut [u8]) -> Option<Opened<'a>> {
        if !self.seen.is_new(counter) {
            return None;
        }
        let plain = self.open.open_in_place(nonce(counter), Aad::from(header), sealed).ok()?;
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
