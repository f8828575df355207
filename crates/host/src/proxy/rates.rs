//! Rates: the bytes and requests that a client, and a user, may have in a second, over all of its connections.
//!
//! Each is a virtual clock that runs ahead of time by what was taken (the generic cell rate algorithm, ITU-T I.371): who is
//! ahead by more than a burst waits, or is refused. A clock that is behind says nothing, and is forgotten: so the table has
//! those alone who are connected or were so a moment ago, and to come with another address gains a burst and no more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headend_engine::relay::Side;
use headend_engine::units::{Bytes, Rate};

use super::config::Limits;

/// What may come at once, of bytes and of requests: what comes in so long at the rate.
const BYTES_BURST: Duration = Duration::from_millis(250);
const REQUESTS_BURST: Duration = Duration::from_secs(5);
/// The most that is read at once, as time at the rate; and not less than that many bytes.
const PIECE: Duration = Duration::from_millis(50);
const PIECE_BYTES_MIN: u64 = 16 * 1024;
/// The first time that the table is looked through for clocks that are behind.
const SWEEP_LEN: usize = 1_024;

/// Who has a rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Client(IpAddr),
    User(Box<[u8]>),
}

/// The clocks of all who have a rate.
#[derive(Debug)]
pub(crate) struct Rates {
    began: Instant,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    clocks: HashMap<Holder, Arc<Clocks>>,
    sweep_len: usize,
}

/// Nanoseconds from the begin up to which what was taken is paid: of bytes from each side, and of requests.
#[derive(Debug, Default)]
struct Clocks {
    bytes: [AtomicU64; 2],
    requests: AtomicU64,
}

/// The rates that a connection has to keep: its client's and its user's, as far as there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quota(Vec<Part>);

#[derive(Clone, Debug)]
struct Part {
    began: Instant,
    clocks: Arc<Clocks>,
    is_users: bool,
    rate: Option<Rate>,
    requests: Option<usize>,
}

impl Rates {
    pub(crate) fn new() -> Rates {
        Rates { began: Instant::now(), table: Mutex::new(Table { clocks: HashMap::new(), sweep_len: SWEEP_LEN }) }
    }

    /// The rates of a client, as limits count clients.
    pub(crate) fn of_client(&self, limits: &Limits, client: IpAddr) -> Quota {
        self.quota(Holder::Client(client), limits.rate_per_client, limits.requests_per_client)
    }

    /// The rates of a user, whatever address it comes from.
    pub(crate) fn of_user(&self, limits: &Limits, user: &[u8]) -> Quota {
        self.quota(Holder::User(user.into()), limits.rate_per_user, limits.requests_per_user)
    }

    fn quota(&self, holder: Holder, rate: Option<Rate>, requests: Option<usize>) -> Quota {
        if rate.is_none() && requests.is_none() {
            return Quota::default();
        }
        let is_users = matches!(holder, Holder::User(_));
        let clocks = self.table.lock().unwrap_or_else(PoisonError::into_inner).clocks_of(holder, self.now());
        Quota(vec![Part { began: self.began, clocks, is_users, rate, requests }])
    }

    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }
}

impl Table {
    fn clocks_of(&mut self, holder: Holder, now: u64) -> Arc<Clocks> {
        if self.clocks.len() >= self.sweep_len {
            self.clocks.retain(|_, clocks| Arc::strong_count(clocks) > 1 || clocks.are_ahead_of(now));
            self.sweep_len = SWEEP_LEN.max(2 * self.clocks.len());
        }
        self.clocks.entry(holder).or_default().clone()
    }
}

impl Clocks {
    fn are_ahead_of(&self, now: u64) -> bool {
        self.bytes.iter().chain([&self.requests]).any(|clock| clock.load(Ordering::Relaxed) > now)
    }
}

impl Quota {
    /// True if there is nothing to keep.
    pub(crate) fn is_free(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over the parts of `of` in place of those of the same kind: another request may be another user's.
    pub(crate) fn replace(&mut self, of: Quota, are_users: bool) {
        self.0.retain(|part| part.is_users != are_users);
        self.0.extend(of.0);
    }

    /// The time until bytes of a side may be read again, if they may not now.
    pub(crate) fn wait(&self, from: Side) -> Option<Duration> {
        let ahead = |part: &Part| {
            part.rate?;
            let ahead = part.clocks.bytes[from as usize].load(Ordering::Relaxed).saturating_sub(part.now());
            ahead.checked_sub(nanos(BYTES_BURST)).filter(|wait| *wait > 0)
        };
        self.0.iter().filter_map(ahead).max().map(Duration::from_nanos)
    }

    /// The most bytes to read at once.
    pub(crate) fn piece(&self) -> usize {
        let piece = |rate: Rate| (rate.get() / 8).saturating_mul(nanos(PIECE)) / 1_000_000_000;
        let least = self.0.iter().filter_map(|part| part.rate).map(piece).min();
        least.map_or(usize::MAX, |bytes| usize::try_from(bytes.max(PIECE_BYTES_MIN)).unwrap_or(usize::MAX))
    }

    /// Notes that so many bytes of a side were read.
    pub(crate) fn has_read(&self, from: Side, bytes: u64) {
        for part in &self.0 {
            let Some(rate) = part.rate else { continue };
            let (now, cost) = (part.now(), rate.time_for(Bytes::new(bytes)).as_nanos());
            let paid = |clock: u64| Some(clock.max(now).saturating_add(cost));
            let _ = part.clocks.bytes[from as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
        }
    }

    /// Takes a request; false if that is one too many.
    pub(crate) fn take_request(&self) -> bool {
        self.0.iter().all(|part| {
            let Some(requests) = part.requests else { return true };
            let (now, cost) = (part.now(), 1_000_000_000 / requests as u64);
            let paid = |clock: u64| {
                let next = clock.max(now).saturating_add(cost);
                (next <= now.saturating_add(nanos(REQUESTS_BURST).max(cost))).then_some(next)
            };
            part.clocks.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid).is_ok()
        })
    }
}

impl Part {
    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_client_ahead_of_its_rate_waits_for_as_long_as_it_is_ahead() {
        let rates = Rates::new();
        let limits = Limits { rate_per_client: Some(Rate::mbit(8)), ..Limits::default() };
        let (one, same, other) = (
            rates.of_client(&limits, client(1)),
            rates.of_client(&limits, client(1)),
            rates.of_client(&limits, client(2)),
        );
        assert_eq!(one.wait(Side::Remote), None);
        one.has_read(Side::Remote, 100_000_000);
        let wait = same.wait(Side::Remote).expect("over all of its connections");
        assert!(wait > Duration::from_secs(99) && wait <= Duration::from_secs(100), "100 s less a burst: {wait:?}");
        assert_eq!((same.wait(Side::Local), other.wait(Side::Remote)), (None, None));
        assert_eq!(one.piece(), 50_000, "50 ms of it");
    }

    #[test]
    fn requests_beyond_the_burst_are_refused_and_others_have_theirs() {
        let rates = Rates::new();
        let limits = Limits { requests_per_user: Some(2), ..Limits::default() };
        let quota = rates.of_user(&limits, b"ann");
        let taken = (0..100).filter(|_| quota.take_request()).count();
        assert!((10..=11).contains(&taken), "five seconds' worth at once: {taken}");
        assert!(rates.of_user(&limits, b"bob").take_request());
        assert!(rates.of_client(&limits, client(1)).is_free());
    }

    #[test]
    fn clocks_that_are_behind_are_forgotten_and_those_ahead_are_not() {
        let rates = Rates::new();
        let limits = Limits { requests_per_client: Some(1), ..Limits::default() };
        let ahead = rates.of_client(&limits, client(1));
        while ahead.take_request() {}
        drop(ahead);
        let mut address = 0_u32;
        let mut come = || {
            address += 1;
            drop(rates.of_client(&limits, IpAddr::from((0x0a00_0000 + address).to_be_bytes())));
        };
        (0..5 * SWEEP_LEN).for_each(|_| come());
        assert!(rates.table.lock().expect("whole").clocks.len() <= SWEEP_LEN + 1);
        assert!(!rates.of_client(&limits, client(1)).take_request(), "to come again gains nothing");
    }
}
