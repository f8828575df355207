//! Tokens, by which a server knows again an address that has heard it, without having kept anything of it.

use std::net::{IpAddr, SocketAddr};

use headend_datagram::SecretKey;
use headend_engine::time::{Duration, Time};

use crate::wire::TOKEN;

/// The time for which a token is good: longer than a client tries to connect.
const LIFE: Duration = Duration::from_secs(30);

/// The token for a client that writes from this address under this id.
pub(crate) fn make(secret: &SecretKey, now: Time, client: u64, from: SocketAddr) -> [u8; TOKEN] {
    let mut token = [0; TOKEN];
    // Never zeros, which are no token.
    token[..8].copy_from_slice(&(now.as_nanos() + 1).to_be_bytes());
    let tag = secret.tag(&covered(token[..8].try_into().expect("eight bytes"), client, from));
    token[8..].copy_from_slice(&tag);
    token
}

/// Returns true if the token was made here for this client, and not long ago.
pub(crate) fn is_good(secret: &SecretKey, now: Time, client: u64, from: SocketAddr, token: &[u8; TOKEN]) -> bool {
    let made: [u8; 8] = token[..8].try_into().expect("eight bytes");
    let Some(at) = u64::from_be_bytes(made).checked_sub(1) else { return false };
    let is_young = now.as_nanos().checked_sub(at).is_some_and(|age| age < LIFE.as_nanos());
    is_young && secret.is_tag(&covered(made, client, from), &token[8..])
}

fn covered(made: [u8; 8], client: u64, from: SocketAddr) -> Vec<u8> {
    let address = match from.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    [&made[..], &client.to_be_bytes(), &address, &from.port().to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use headend_datagram::Identity;

    use super::*;

    #[test]
    fn a_token_is_good_for_one_client_at_one_address_for_a_while() {
        let secret = Identity::generate().derived(b"tokens");
        let (now, from) = (Time::from_nanos(5), SocketAddr::from(([192, 0, 2, 1], 7)));
        let token = make(&secret, now, 1, from);
        assert!(is_good(&secret, now, 1, from, &token) && is_good(&secret, now + LIFE / 2, 1, from, &token));
        assert!(!is_good(&secret, now + LIFE, 1, from, &token), "it is old");
        assert!(!is_good(&secret, now, 2, from, &token));
        assert!(!is_good(&secret, now, 1, SocketAddr::from(([192, 0, 2, 1], 8)), &token));
        assert!(!is_good(&Identity::generate().derived(b"tokens"), now, 1, from, &token));
        assert!(!is_good(&secret, now, 1, from, &[0; TOKEN]));
        assert!(!is_good(&secret, Time::ZERO, 1, from, &token), "of the future");
    }
}
