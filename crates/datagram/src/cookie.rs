//! Cookies, as WireGuard has them (its paper, s5.3): who shows one has been seen at its address, and so may be given some work.
//!
//! An end that is asked for more hand-shakes than it looks at answers with a cookie instead, which it can make again from the address and
//! a secret that its caller has it renew: it keeps nothing. Who asks again puts a tag under what it sends, with the cookie as the key.
//! On the way to it the cookie is hidden from those who do not know the public key of who sends it, and it belongs to one question.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::keys::{LEN, PROOF, PublicKey, SecretKey};

/// Bytes of a cookie on its way: a number used once, the cookie hidden, and a tag.
pub const COOKIE: usize = NONCE + PROOF + PROOF;
const NONCE: usize = 16;

/// The secrets of which an end makes cookies: the one of now, and the one before.
#[derive(Debug)]
pub struct Cookies {
    secrets: [SecretKey; 2],
    random: SystemRandom,
}

impl Default for Cookies {
    /// Cookies of new secrets.
    fn default() -> Cookies {
        let random = SystemRandom::new();
        Cookies { secrets: [secret(&random), secret(&random)], random }
    }
}

impl Cookies {
    /// Makes cookies of another secret from now on. Those of the secret so far are taken until the next time.
    pub fn renew(&mut self) {
        let fresh = secret(&self.random);
        self.secrets[1] = std::mem::replace(&mut self.secrets[0], fresh);
    }

    /// Writes the cookie of whoever sent, from this address, what ended in `proof`, behind what is in `out`. `own` is the public key of
    /// who is asked.
    pub fn give(&self, own: &PublicKey, from: SocketAddr, proof: &[u8], out: &mut Vec<u8>) {
        let mut nonce = [0; NONCE];
        self.random.fill(&mut nonce).expect("the system has random numbers");
        let mut hidden = self.secrets[0].tag(&place(from));
        let key = key_of(own);
        hide(&mut hidden, &key, &nonce, proof);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&hidden);
        out.extend_from_slice(&key.tag(&[&b"tag"[..], &nonce, proof, &hidden].concat()));
    }

    /// Returns true if `tag` is under `of` with the cookie of this address.
    pub fn is_shown(&self, from: SocketAddr, of: &[u8], tag: &[u8]) -> bool {
        let place = place(from);
        self.secrets.iter().any(|secret| as_key(secret.tag(&place)).is_tag(of, tag))
    }
}

/// Reads the cookie that `peer` gave to who sent what ended in `proof`; `None` if it did not.
pub fn take_cookie(peer: &PublicKey, proof: &[u8], bytes: &[u8; COOKIE]) -> Option<SecretKey> {
    let (nonce, rest) = bytes.split_at(NONCE);
    let (hidden, tag) = rest.split_at(PROOF);
    let key = key_of(peer);
    key.is_tag(&[&b"tag"[..], nonce, proof, hidden].concat(), tag).then(|| {
        let mut cookie = *hidden.first_chunk().expect("it is that long");
        hide(&mut cookie, &key, nonce, proof);
        as_key(cookie)
    })
}

/// Hides a cookie, or shows one that is hidden.
fn hide(cookie: &mut [u8; PROOF], key: &SecretKey, nonce: &[u8], proof: &[u8]) {
    let mask = key.tag(&[&b"mask"[..], nonce, proof].concat());
    cookie.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// The key under which an end with this public key gives cookies.
fn key_of(own: &PublicKey) -> SecretKey {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &own.0), b"headend cookie");
    SecretKey(*tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}

fn as_key(cookie: [u8; PROOF]) -> SecretKey {
    let mut key = [0; LEN];
    key[..PROOF].copy_from_slice(&cookie);
    SecretKey(key)
}

/// An address and a port as bytes.
fn place(from: SocketAddr) -> [u8; 18] {
    let mut bytes = [0; 18];
    let ip = match from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&from.port().to_be_bytes());
    bytes
}

fn secret(random: &SystemRandom) -> SecretKey {
    let mut secret = [0; LEN];
    random.fill(&mut secret).expect("the system has random numbers");
    SecretKey(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Identity;

    #[test]
    fn a_cookie_is_good_at_its_address_until_secrets_were_renewed_twice() {
        let own = Identity::generate().public();
        let mut cookies = Cookies::default();
        let from: SocketAddr = "192.0.2.1:7700".parse().unwrap();
        let mut given = Vec::new();
        cookies.give(&own, from, b"proof", &mut given);
        let given: [u8; COOKIE] = given.try_into().unwrap();
        let cookie = take_cookie(&own, b"proof", &given).unwrap();
        let tag = cookie.tag(b"asked again");
        assert!(cookies.is_shown(from, b"asked again", &tag));
        cookies.renew();
        assert!(cookies.is_shown(from, b"asked again", &tag));
        assert!(!cookies.is_shown("192.0.2.1:7701".parse().unwrap(), b"asked again", &tag));
        assert!(!cookies.is_shown(from, b"asked otherwise", &tag));
        cookies.renew();
        assert!(!cookies.is_shown(from, b"asked again", &tag));
    }

    #[test]
    fn a_cookie_is_for_one_question_and_of_one_who_was_asked() {
        let (own, other) = (Identity::generate().public(), Identity::generate().public());
        let mut given = Vec::new();
        Cookies::default().give(&own, "192.0.2.1:7700".parse().unwrap(), b"proof", &mut given);
        let given: [u8; COOKIE] = given.try_into().unwrap();
        assert!(take_cookie(&own, b"another", &given).is_none() && take_cookie(&other, b"proof", &given).is_none());
        for at in 0..COOKIE {
            let mut forged = given;
            forged[at] ^= 1;
            assert!(take_cookie(&own, b"proof", &forged).is_none(), "forged at {at}");
        }
    }
}
