//! The hand-shake in which two ends agree on keys: Noise (revision 34), pattern IKpsk2, with X25519, AES-256-GCM and SHA-256.
//!
//! The first message tells the responder who asks, and only the responder can read it. It can be recorded and sent again, so
//! the responder uses new keys only once a message under them has come: whoever sends that knew the ephemeral key.
//! The two messages may have payloads; their datagrams are the caller's.

use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState};

use crate::cipher::TAG;
use crate::keys::{Identity, LEN, PublicKey, SecretKey};

/// Bytes of Noise's first message in IKpsk2 without payload.
pub const NOISE_1: usize = 32 + 48 + TAG;
/// Bytes of its second message without payload.
pub const NOISE_2: usize = 32 + TAG;

const PATTERN: &str = "Noise_IKpsk2_25519_AESGCM_SHA256";
/// The position at which IKpsk2 mixes the shared key in.
const PSK_AT: u8 = 2;

/// The keys that a hand-shake yields, one for each direction.
#[derive(Debug)]
pub struct Keys {
    /// The key for what leaves.
    pub send: SecretKey,
    /// The key for what comes.
    pub receive: SecretKey,
}

/// A hand-shake that was begun here.
#[derive(Debug)]
pub struct Initiation {
    noise: Box<HandshakeState>,
}

/// A first message that came from somebody who owns a key.
#[derive(Debug)]
pub struct Asked {
    noise: Box<HandshakeState>,
    /// The key.
    pub from: PublicKey,
    /// The payload of the message.
    pub payload: Vec<u8>,
}

impl Initiation {
    /// Begins a hand-shake with `peer`. Both ends must name the same `protocol`. Writes Noise's first message behind what is in
    /// `out`.
    pub fn new(
        identity: &Identity,
        peer: &PublicKey,
        shared: &SecretKey,
        protocol: &[u8],
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Initiation {
        let built = builder()
            .local_private_key(&identity.private.0)
            .and_then(|builder| builder.remote_public_key(&peer.0))
            .and_then(|builder| builder.psk(PSK_AT, &shared.0))
            .and_then(|builder| builder.prologue(protocol))
            .and_then(Builder::build_initiator);
        let mut noise = built.expect("keys of 32 bytes are all that the pattern asks for");
        let at = out.len();
        out.resize(at + NOISE_1 + payload.len(), 0);
        let len = noise.write_message(payload, &mut out[at..]).expect("the first message is the initiator's");
        debug_assert_eq!(len, NOISE_1 + payload.len());
        Initiation { noise: Box::new(noise) }
    }

    /// Takes Noise's second message. Returns the keys and the payload; `None` if it is not an answer to this, and then it can
    /// still be answered.
    pub fn finish(&mut self, message: &[u8]) -> Option<(Keys, Vec<u8>)> {
        let mut payload = vec![0; message.len()];
        let len = self.noise.read_message(message, &mut payload).ok()?;
        payload.truncate(len);
        let (send, receive) = self.noise.dangerously_get_raw_split();
        Some((Keys { send: SecretKey(send), receive: SecretKey(receive) }, payload))
    }
}

impl Asked {
    /// Takes Noise's first message; `None` if it is not for this identity, or of another protocol.
    pub fn read(identity: &Identity, protocol: &[u8], message: &[u8]) -> Option<Asked> {
        let mut noise = builder()
            .local_private_key(&identity.private.0)
            .and_then(|builder| builder.prologue(protocol))
            .and_then(Builder::build_responder)
            .ok()?;
        let mut payload = vec![0; message.len()];
        let len = noise.read_message(message, &mut payload).ok()?;
        payload.truncate(len);
        let from = PublicKey(noise.get_remote_static()?.try_into().ok()?);
        Some(Asked { noise: Box::new(noise), from, payload })
    }

    /// Grants a session. Returns the keys, and writes Noise's second message behind what is in `out`.
    pub fn grant(mut self, shared: &SecretKey, payload: &[u8], out: &mut Vec<u8>) -> Option<Keys> {
        self.noise.set_psk(usize::from(PSK_AT), &shared.0).ok()?;
        let at = out.len();
        out.resize(at + NOISE_2 + payload.len(), 0);
        let len = self.noise.write_message(payload, &mut out[at..]).ok()?;
        debug_assert_eq!(len, NOISE_2 + payload.len());
        let (receive, send) = self.noise.dangerously_get_raw_split();
        Some(Keys { send: SecretKey(send), receive: SecretKey(receive) })
    }
}

fn builder<'a>() -> Builder<'a> {
    Builder::new(PATTERN.parse().expect("the pattern is one that snow has"))
}

/// A new private key and its public one.
pub(crate) fn key_pair() -> ([u8; LEN], [u8; LEN]) {
    let pair = builder().generate_keypair().expect("the system has random numbers");
    let key = |bytes: Vec<u8>| bytes.try_into().expect("a key of X25519 has 32 bytes");
    (key(pair.private), key(pair.public))
}

/// The public key of a private one.
pub(crate) fn public_of(private: &[u8; LEN]) -> [u8; LEN] {
    let mut dh = DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519).expect("the pattern has X25519");
    dh.set(private);
    dh.pubkey().try_into().expect("a key of X25519 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: &[u8] = b"a test";

    fn exchange(shared_a: &SecretKey, shared_b: &SecretKey) -> Option<(Keys, Keys)> {
        let (a, b) = (Identity::generate(), Identity::generate());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut initiation = Initiation::new(&a, &b.public(), shared_a, PROTOCOL, b"hello", &mut first);
        assert_eq!(first.len(), NOISE_1 + 5);
        assert!(Asked::read(&a, PROTOCOL, &first).is_none(), "only the receiver can read it");
        assert!(Asked::read(&b, b"another", &first).is_none(), "and only in the protocol that was meant");
        let asked = Asked::read(&b, PROTOCOL, &first).unwrap();
        assert_eq!((asked.from, &asked.payload[..]), (a.public(), &b"hello"[..]));
        let keys_b = asked.grant(shared_b, b"welcome", &mut second).unwrap();
        assert_eq!(second.len(), NOISE_2 + 7);
        let mut forged = second.clone();
        forged[40] ^= 1;
        assert!(initiation.finish(&forged).is_none());
        let (keys_a, payload) = initiation.finish(&second)?;
        assert_eq!(payload, b"welcome");
        Some((keys_a, keys_b))
    }

    #[test]
    fn both_ends_have_the_same_keys_and_a_forged_answer_spoils_nothing() {
        let (a, b) = exchange(&SecretKey::NONE, &SecretKey::NONE).expect("the real answer still counts");
        assert!(a.send == b.receive && a.receive == b.send && a.send != a.receive);
    }

    #[test]
    fn who_does_not_share_the_key_gets_no_session() {
        assert!(exchange(&SecretKey([1; LEN]), &SecretKey([2; LEN])).is_none());
    }
}
