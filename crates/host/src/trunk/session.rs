//! Keys in use: a session seals what leaves and opens what comes, each message once, until it is too old.

use headend_datagram::{Cipher, Keys, Opened};
use headend_engine::time::{Duration, Time};

use super::wire::{self, MESSAGE_MAX, TAG};

/// Age of a session at which the end that began it begins the next one (WireGuard's REKEY_AFTER_TIME).
pub(super) const REKEY: Duration = Duration::from_secs(120);
/// Age of a session at which the other end begins the next one, if the first has not.
pub(super) const REKEY_OTHER: Duration = Duration::from_secs(150);
/// Age at which a session is over (REJECT_AFTER_TIME).
pub(super) const LIFE: Duration = Duration::from_secs(180);
/// Messages after which a session is over too, and those after which either end begins the next one: a key of AES-GCM is good
/// for 2^28 packets of up to 2^11 bytes (RFC 9001 s6.6 and B.1).
const MESSAGES_MAX: u64 = 1 << 28;
const MESSAGES_REKEY: u64 = 1 << 27;

/// A session with a peer.
pub(super) struct Session {
    /// The number under which the peer writes here, and that under which it is written to.
    pub(super) mine: u32,
    pub(super) theirs: u32,
    pub(super) is_initiator: bool,
    pub(super) since: Time,
    cipher: Cipher,
}

impl Session {
    pub(super) fn new(keys: &Keys, mine: u32, theirs: u32, is_initiator: bool, now: Time) -> Session {
        Session { mine, theirs, is_initiator, since: now, cipher: Cipher::new(keys) }
    }

    /// True while the session may be used.
    pub(super) fn is_alive(&self, now: Time) -> bool {
        now.since(self.since) < LIFE && self.cipher.sent() < MESSAGES_MAX
    }

    /// The time at which this end should begin another session.
    pub(super) fn rekey_at(&self) -> Time {
        if self.cipher.sent() >= MESSAGES_REKEY {
            return self.since;
        }
        self.since + if self.is_initiator { REKEY } else { REKEY_OTHER }
    }

    /// Writes a datagram with what `write` writes in it behind what is in `out`.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.cipher.seal(out, |counter| wire::sealed_header(self.theirs, counter), write);
    }

    /// Opens a message in its place; `None` if it is not authentic, or came before.
    pub(super) fn open<'a>(&mut self, counter: u64, header: &[u8], sealed: &'a mut [u8]) -> Option<Opened<'a>> {
        if sealed.len() > MESSAGE_MAX + TAG {
            return None;
        }
        self.cipher.open(counter, header, sealed)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({:08x} to {:08x}, {} sent)", self.mine, self.theirs, self.cipher.sent())
    }
}

#[cfg(test)]
mod tests {
    use headend_datagram::{Identity, SecretKey};

    use super::super::wire::Datagram;
    use super::*;

    fn pair() -> (Session, Session) {
        let identity = Identity::generate();
        let (one, two): (SecretKey, SecretKey) = (identity.derived(b"one"), identity.derived(b"two"));
        let a = Keys { send: one.clone(), receive: two.clone() };
        let b = Keys { send: two, receive: one };
        (Session::new(&a, 1, 2, true, Time::ZERO), Session::new(&b, 2, 1, false, Time::ZERO))
    }

    /// Whether the message is the newest, and its bytes.
    fn open(session: &mut Session, bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
        let Some(Datagram::Sealed { counter, header, sealed, .. }) = Datagram::read(bytes) else { return None };
        let mut sealed = sealed.to_vec();
        session.open(counter, header, &mut sealed).map(|opened| (opened.is_newest, opened.plain.to_vec()))
    }

    fn seal(session: &mut Session, plain: &[u8], out: &mut Vec<u8>) {
        session.seal(out, |out| out.extend_from_slice(plain));
    }

    #[test]
    fn what_is_sealed_is_opened_once_and_nothing_else_is() {
        let (mut a, mut b) = pair();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        seal(&mut a, b"first", &mut first);
        seal(&mut a, b"second", &mut second);
        assert_eq!(open(&mut b, &second), Some((true, b"second".to_vec())));
        assert_eq!(open(&mut b, &first), Some((false, b"first".to_vec())));
        assert_eq!(open(&mut b, &first), None, "replayed");
        assert_eq!(open(&mut a, &second), None, "reflected");
        let mut third = Vec::new();
        seal(&mut a, b"third", &mut third);
        for at in 4..third.len() {
            let mut forged = third.clone();
            forged[at] ^= 1;
            // Another number of the session is authenticated as well.
            assert_eq!(open(&mut b, &forged), None, "forged at {at}");
        }
        assert!(open(&mut b, &third).is_some(), "forgeries spoil nothing");
    }

    #[test]
    fn a_session_ends_and_who_began_it_is_first_to_begin_another() {
        let (a, b) = pair();
        assert!(a.rekey_at() < b.rekey_at() && b.rekey_at() < Time::ZERO + LIFE);
        assert!(a.is_alive(b.rekey_at()) && !a.is_alive(Time::ZERO + LIFE));
    }
}
