//! The hand-shake in which two ends agree on keys: Noise (revision 34), pattern IKpsk2, with X25519, AES-256-GCM and SHA-256.
//!
//! The first message tells the responder who asks, and only the responder can read it. It can be recorded and sent again, so
//! the responder uses new keys only once a message under them has come: whoever sends that knew the ephemeral key.

use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState};

use super::keys::{Identity, LEN, PublicKey, SecretKey};
use super::wire::{self, INITIATION, NOISE_1, NOISE_2, RESPONSE};

const PATTERN: &str = "Noise_IKpsk2_25519_AESGCM_SHA256";
const PROLOGUE: &[u8] = b"headend trunk 2";
/// The position at which IKpsk2 mixes the shared key in.
const PSK_AT: u8 = 2;

/// The keys that a hand-shake yields, one for each direction.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) send: SecretKey,
    pub(super) receive: SecretKey,
}

/// A hand-shake that was begun here.
#[derive(Debug)]
pub(super) struct Initiation {
    noise: Box<HandshakeState>,
}

/// An initiation that came from somebody who owns a key.
#[derive(Debug)]
pub(super) struct Asked {
    noise: Box<HandshakeState>,
    pub(super) from: PublicKey,
    /// The time on the sender's wall clock, in nanoseconds since 1970.
    pub(super) clock_ns: u64,
}

impl Initiation {
    /// Begins a hand-shake with `peer`. Returns it, and the datagram to send.
    pub(super) fn new(
        identity: &Identity,
        peer: &PublicKey,
        shared: &SecretKey,
        number: u32,
        clock_ns: u64,
    ) -> (Initiation, Vec<u8>) {
        let built = builder()
            .local_private_key(&identity.private.0)
            .and_then(|builder| builder.remote_public_key(&peer.0))
            .and_then(|builder| builder.psk(PSK_AT, &shared.0))
            .and_then(|builder| builder.prologue(PROLOGUE))
            .and_then(Builder::build_initiator);
        let mut noise = built.expect("keys of 32 bytes are all that the pattern asks for");
        let mut datagram = Vec::with_capacity(INITIATION);
        datagram.extend_from_slice(&wire::initiation_header(number));
        let mut message = [0; NOISE_1];
        let len =
            noise.write_message(&clock_ns.to_be_bytes(), &mut message).expect("the first message is the initiator's");
        datagram.extend_from_slice(&message[..len]);
        datagram.extend_from_slice(&peer.proof(&datagram));
        (Initiation { noise: Box::new(noise) }, datagram)
    }

    /// Takes Noise's second message; `None` if it is not an answer to this, and then it can still be answered.
    pub(super) fn finish(&mut self, message: &[u8]) -> Option<Keys> {
        let mut payload = [0; NOISE_2];
        self.noise.read_message(message, &mut payload).ok()?;
        let (send, receive) = self.noise.dangerously_get_raw_split();
        Some(Keys { send: SecretKey(send), receive: SecretKey(receive) })
    }
}

impl Asked {
    /// Takes Noise's first message; `None` if it is not for this identity.
    pub(super) fn read(identity: &Identity, message: &[u8]) -> Option<Asked> {
        let mut noise = builder()
            .local_private_key(&identity.private.0)
            .and_then(|builder| builder.prologue(PROLOGUE))
            .and_then(Builder::build_responder)
            .ok()?;
        let mut payload = [0; NOISE_1];
        let len = noise.read_message(message, &mut payload).ok()?;
        let clock_ns = u64::from_be_bytes(payload[..len].try_into().ok()?);
        let from = PublicKey(noise.get_remote_static()?.try_into().ok()?);
        Some(Asked { noise: Box::new(noise), from, clock_ns })
    }

    /// Grants a session, under `number`, to the end that asked under `theirs`. Returns the keys and the datagram to send.
    pub(super) fn grant(mut self, shared: &SecretKey, number: u32, theirs: u32) -> Option<(Keys, Vec<u8>)> {
        self.noise.set_psk(usize::from(PSK_AT), &shared.0).ok()?;
        let mut datagram = Vec::with_capacity(RESPONSE);
        datagram.extend_from_slice(&wire::response_header(number, theirs));
        let mut message = [0; NOISE_2];
        let len = self.noise.write_message(&[], &mut message).ok()?;
        datagram.extend_from_slice(&message[..len]);
        datagram.extend_from_slice(&self.from.proof(&datagram));
        let (receive, send) = self.noise.dangerously_get_raw_split();
        Some((Keys { send: SecretKey(send), receive: SecretKey(receive) }, datagram))
    }
}

fn builder<'a>() -> Builder<'a> {
    Builder::new(PATTERN.parse().expect("the pattern is one that snow has"))
}

/// A new private key and its public one.
pub(super) fn key_pair() -> ([u8; LEN], [u8; LEN]) {
    let pair = builder().generate_keypair().expect("the system has random numbers");
    let key = |bytes: Vec<u8>| bytes.try_into().expect("a key of X25519 has 32 bytes");
    (key(pair.private), key(pair.public))
}

/// The public key of a private one.
pub(super) fn public_of(private: &[u8; LEN]) -> [u8; LEN] {
    let mut dh = DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519).expect("the pattern has X25519");
    dh.set(private);
    dh.pubkey().try_into().expect("a key of X25519 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::super::wire::Datagram;
    use super::*;

    fn exchange(shared_a: &SecretKey, shared_b: &SecretKey) -> Option<(Keys, Keys)> {
        let (a, b) = (Identity::generate(), Identity::generate());
        let (mut initiation, first) = Initiation::new(&a, &b.public(), shared_a, 7, 1_234);
        let Some(Datagram::Initiation { sender: 7, noise, proven, proof }) = Datagram::read(&first) else {
            panic!("an initiation is read as one")
        };
        assert!(b.public().is_proven(proven, proof) && !a.public().is_proven(proven, proof));
        assert!(Asked::read(&a, noise).is_none(), "only the receiver can read it");
        let asked = Asked::read(&b, noise).unwrap();
        assert_eq!((asked.from, asked.clock_ns), (a.public(), 1_234));
        let (keys_b, second) = asked.grant(shared_b, 9, 7).unwrap();
        let Some(Datagram::Response { sender: 9, receiver: 7, noise, .. }) = Datagram::read(&second) else {
            panic!("a response is read as one")
        };
        let mut forged = noise.to_vec();
        forged[40] ^= 1;
        assert!(initiation.finish(&forged).is_none());
        initiation.finish(noise).map(|keys_a| (keys_a, keys_b))
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
