//! The datagrams of a hand-shake: Noise's messages between a header and a proof that the sender knows the receiver's key.

use headend_datagram::{Asked, Identity, Initiation, Keys, PublicKey, SecretKey};

use super::wire::{self, INITIATION, PROOF, PROTOCOL, RESPONSE};

/// Begins a hand-shake with `peer`, and shows the cookie if there is one. Returns it, and the datagram to send.
pub(super) fn initiate(
    identity: &Identity,
    peer: &PublicKey,
    shared: &SecretKey,
    (number, clock_ns): (u32, u64),
    cookie: Option<&SecretKey>,
) -> (Initiation, Vec<u8>) {
    let mut datagram = Vec::with_capacity(INITIATION);
    datagram.extend_from_slice(&wire::initiation_header(number));
    let initiation = Initiation::new(identity, peer, shared, PROTOCOL, &clock_ns.to_be_bytes(), &mut datagram);
    datagram.extend_from_slice(&peer.proof(&datagram));
    let tag = cookie.map_or([0; PROOF], |cookie| cookie.tag(&datagram));
    datagram.extend_from_slice(&tag);
    (initiation, datagram)
}

/// The proof in an initiation.
pub(super) fn proof_of(initiation: &[u8]) -> [u8; PROOF] {
    *initiation[INITIATION - 2 * PROOF..].first_chunk().expect("an initiation ends in a proof and a tag")
}

/// Takes Noise's first message. Returns it with the time on the sender's wall clock, in nanoseconds since 1970; `None` if it is
/// not for this identity.
pub(super) fn read(identity: &Identity, noise: &[u8]) -> Option<(Asked, u64)> {
    let asked = Asked::read(identity, PROTOCOL, noise)?;
    let clock_ns = u64::from_be_bytes(asked.payload.as_slice().try_into().ok()?);
    Some((asked, clock_ns))
}

/// Grants a session, under `number`, to the end that asked under `theirs`. Returns the keys and the datagram to send.
pub(super) fn grant(asked: Asked, shared: &SecretKey, number: u32, theirs: u32) -> Option<(Keys, Vec<u8>)> {
    let from = asked.from;
    let mut datagram = Vec::with_capacity(RESPONSE);
    datagram.extend_from_slice(&wire::response_header(number, theirs));
    let keys = asked.grant(shared, &[], &mut datagram)?;
    datagram.extend_from_slice(&from.proof(&datagram));
    Some((keys, datagram))
}

#[cfg(test)]
mod tests {
    use super::super::wire::Datagram;
    use super::*;

    #[test]
    fn a_hand_shake_survives_its_datagrams() {
        let (a, b) = (Identity::generate(), Identity::generate());
        let (mut initiation, first) = initiate(&a, &b.public(), &SecretKey::NONE, (7, 1_234), None);
        let Some(Datagram::Initiation { sender: 7, noise, proven, proof, .. }) = Datagram::read(&first) else {
            panic!("an initiation is read as one")
        };
        assert!(b.public().is_proven(proven, proof) && !a.public().is_proven(proven, proof));
        let (asked, clock_ns) = read(&b, noise).unwrap();
        assert_eq!((asked.from, clock_ns), (a.public(), 1_234));
        let (_, second) = grant(asked, &SecretKey::NONE, 9, 7).unwrap();
        let Some(Datagram::Response { sender: 9, receiver: 7, noise, .. }) = Datagram::read(&second) else {
            panic!("a response is read as one")
        };
        assert!(initiation.finish(noise).is_some());
    }
}
