//! The hand-shakes that are looked at: each costs some hundred microseconds, and whoever knows this site's public key may ask for as many
//! as it likes, from addresses that are not its own.
//!
//! So many are looked at whoever asks. Beyond, who asks is given a cookie instead, for which this end keeps nothing; who shows one is at
//! its address, and has a budget beside that of the others. A flood of forged addresses uses up the first and none of the second.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use headend_datagram::{Cookies, PublicKey};
use headend_engine::time::{Duration, Time};

/// Hand-shakes of anybody that are looked at in a second, and at once.
const ANYBODY: (u64, u64) = (100, 20);
/// Those of all who showed a cookie, and of one address of these.
const SHOWN: (u64, u64) = (200, 50);
const ONE_ADDRESS: (u64, u64) = (5, 10);
/// Time after which cookies are made of another secret; those of the one before are taken as long again (WireGuard's
/// COOKIE_REFRESH_TIME).
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(120);
/// Addresses that are told apart.
const ADDRESSES: usize = 256;

/// What is to be done with a hand-shake that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is looked at.
    Read,
    /// Who asks is given a cookie.
    GiveCookie,
    /// It is forgotten.
    Nothing,
}

/// Decides which hand-shakes are looked at.
#[derive(Debug)]
pub(super) struct Gate {
    cookies: Cookies,
    renewed: Time,
    anybody: Budget,
    shown: Budget,
    addresses: Vec<Budget>,
    places: RandomState,
}

/// A token bucket.
#[derive(Clone, Copy, Debug)]
struct Budget {
    left: u64,
    filled: Time,
    a_second: u64,
    most: u64,
}

impl Gate {
    pub(super) fn new(now: Time) -> Gate {
        Gate {
            cookies: Cookies::default(),
            renewed: now,
            anybody: Budget::new(now, ANYBODY),
            shown: Budget::new(now, SHOWN),
            addresses: vec![Budget::new(now, ONE_ADDRESS); ADDRESSES],
            places: RandomState::new(),
        }
    }

    /// Decides on a hand-shake that was asked for from an address; `tag` is under `of`, all zeros without a cookie.
    pub(super) fn judge(&mut self, now: Time, from: SocketAddr, of: &[u8], tag: &[u8]) -> Verdict {
        if now.since(self.renewed) >= COOKIE_LIFE {
            self.renewed = now;
            self.cookies.renew();
        }
        let shows = tag.iter().any(|byte| *byte != 0) && self.cookies.is_shown(from, of, tag);
        if shows {
            // Who has many addresses of IPv6 has one network.
            let network = match from.ip().to_canonical() {
                IpAddr::V4(ip) => u64::from(u32::from(ip)),
                IpAddr::V6(ip) => (u128::from(ip) >> 64) as u64,
            };
            let place = (self.places.hash_one(network) % ADDRESSES as u64) as usize;
            if self.addresses[place].spend(now) && self.shown.spend(now) {
                return Verdict::Read;
            }
            return Verdict::Nothing;
        }
        if self.anybody.spend(now) { Verdict::Read } else { Verdict::GiveCookie }
    }

    /// Writes the cookie of whoever asked for a hand-shake from this address, in a datagram that ended in `proof`. `own` is this site's key.
    pub(super) fn give_cookie(&self, own: &PublicKey, from: SocketAddr, proof: &[u8], out: &mut Vec<u8>) {
        self.cookies.give(own, from, proof, out);
    }
}

impl Budget {
    fn new(now: Time, (a_second, most): (u64, u64)) -> Budget {
        Budget { left: most, filled: now, a_second, most }
    }

    fn spend(&mut self, now: Time) -> bool {
        let each = Duration::from_nanos(1_000_000_000 / self.a_second);
        let earned = now.since(self.filled).as_nanos() / each.as_nanos();
        if earned > 0 {
            self.left = (self.left + earned).min(self.most);
            self.filled = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use headend_datagram::{COOKIE, Identity, take_cookie};

    use super::*;

    /// A flood of a hundred thousand a second, each from another address.
    fn flood(gate: &mut Gate, ms: u64) -> (u64, u64) {
        let (mut read, mut given) = (0, 0);
        for number in 0..100_u32 {
            let from = SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + ms as u32 * 100 + number), 7_700));
            let now = Time::ZERO + Duration::from_millis(ms);
            // Half of them pretend to have a cookie.
            match gate.judge(now, from, b"asked", &[(number % 2) as u8; 16]) {
                Verdict::Read => read += 1,
                Verdict::GiveCookie => given += 1,
                Verdict::Nothing => {}
            }
        }
        (read, given)
    }

    #[test]
    fn in_a_flood_few_are_read_and_who_shows_its_cookie_gets_in() {
        let mut gate = Gate::new(Time::ZERO);
        let own = Identity::generate().public();
        let peer: SocketAddr = "192.0.2.1:7700".parse().unwrap();
        let (mut read, mut given) = (0, 0);
        for ms in 0..3_000 {
            let of = flood(&mut gate, ms);
            (read, given) = (read + of.0, given + of.1);
        }
        assert!((300..=321).contains(&read) && read + given == 300_000, "{read} read, {given} given a cookie");
        let now = Time::ZERO + Duration::from_millis(2_999);
        assert_eq!(gate.judge(now, peer, b"asked", &[0; 16]), Verdict::GiveCookie);
        let mut cookie = Vec::new();
        gate.give_cookie(&own, peer, b"proof", &mut cookie);
        let cookie: [u8; COOKIE] = cookie.try_into().unwrap();
        let tag = take_cookie(&own, b"proof", &cookie).unwrap().tag(b"asked again");
        assert_eq!(gate.judge(now, peer, b"asked again", &tag), Verdict::Read);
        assert_eq!(gate.judge(now, "192.0.2.1:7701".parse().unwrap(), b"asked again", &tag), Verdict::GiveCookie);
    }

    #[test]
    fn one_address_with_a_cookie_is_not_read_without_end() {
        let mut gate = Gate::new(Time::ZERO);
        let own = Identity::generate().public();
        let tags: Vec<(SocketAddr, [u8; 16])> = (0..100)
            .map(|port| {
                let from = SocketAddr::from(([192, 0, 2, 1], 1_000 + port));
                let mut cookie = Vec::new();
                gate.give_cookie(&own, from, b"proof", &mut cookie);
                let cookie: [u8; COOKIE] = cookie.try_into().unwrap();
                (from, take_cookie(&own, b"proof", &cookie).unwrap().tag(b"asked"))
            })
            .collect();
        let read = tags.iter().filter(|(from, tag)| gate.judge(Time::ZERO, *from, b"asked", tag) == Verdict::Read);
        assert_eq!(read.count() as u64, ONE_ADDRESS.1, "whatever its port");
    }
}
