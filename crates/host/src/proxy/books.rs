//! The proxy's books: counts, memory, and a page for each connection. Written by the workers, read by whoever asks.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use headend_engine::relay::Side;
use tokio::sync::Notify;

use super::rates::{Quota, Rates};
use crate::socket::{self, Info};

/// All counts since the start.
#[derive(Debug)]
pub struct Books {
    /// The time of the start by the calendar.
    pub started: SystemTime,
    /// The same, for durations.
    pub began: Instant,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections that were refused, or ended before a server was reached.
    pub refused: AtomicU64,
    /// Connections that were joined to a server, or had one answer a request.
    pub joined: AtomicU64,
    /// Requests for whole URLs.
    pub requests: AtomicU64,
    /// Of those, the ones that went over a connection to the server which had served another before.
    pub reused: AtomicU64,
    /// Connections that were refused because their client had as many as it may.
    pub over_share: AtomicU64,
    /// Requests refused: their client or user has made as many as it may.
    pub over_rate: AtomicU64,
    /// How often a connection began to wait because its client or user was ahead of its rate.
    pub delayed: AtomicU64,
    pub(crate) rates: Rates,
    /// Connections that were refused because no place was free.
    pub over_limit: AtomicU64,
    /// Connections that were ended for others, because nothing had moved on them for longest.
    pub evicted: AtomicU64,
    /// Joined connections that ended by a reset, a time-out or an abort.
    pub failed: AtomicU64,
    /// Bytes of payload read, by the side that they came from.
    pub read: [AtomicU64; 2],
    /// Bytes written, by the side that took them; what the proxy itself says to a client is among them.
    pub written: [AtomicU64; 2],
    /// The counts of TCP on each side, up to the last [`Books::sample`] of each open connection and up to the end of
    /// the others.
    pub tcp: [SegmentCounts; 2],
    /// Bytes of memory that data waits in.
    pub memory: Account,
    /// Bytes of the spool that data waits in.
    pub spool: Account,
    /// The number of times that the disk took less for the spool than it was given.
    pub spool_refusals: AtomicU64,
    /// Memory of the kernel's that TCP has on this machine, and what it may have before the proxy's buffers are cut.
    pub sockets: Account,
    /// The bound that each of the proxy's socket buffers is cut to, in bytes; 0 while they are the kernel's affair.
    pub buffer_bound: AtomicU64,
    /// Why, the last time.
    spool_error: Mutex<Option<String>>,
    flows: Mutex<BTreeMap<u64, Arc<FlowPage>>>,
    clients: Mutex<HashMap<IpAddr, usize>>,
    next: AtomicU64,
}

/// The segments that the connections of a side have sent, and sent again.
#[derive(Debug, Default)]
pub struct SegmentCounts {
    /// Segments with data, retransmissions among them.
    pub segments: AtomicU64,
    /// Segments sent again.
    pub retransmits: AtomicU64,
    /// Retransmission time-outs.
    pub timeouts: AtomicU64,
}

/// An amount with a bound.
#[derive(Debug)]
pub struct Account {
    taken: AtomicU64,
    bound: AtomicU64,
}

/// A connection of a client, from being accepted to its end.
#[derive(Debug)]
pub struct FlowPage {
    /// Its number since the start.
    pub id: u64,
    /// The time at which it was accepted.
    pub since: SystemTime,
    /// The same, for durations.
    pub began: Instant,
    /// The protocol that the client speaks.
    pub way: &'static str,
    /// The client's address.
    pub client: SocketAddr,
    /// The client for whom that one said, in a PROXY header, that it speaks.
    pub behind: OnceLock<SocketAddr>,
    /// What the client asked for: once, or with a request for each URL again.
    lap: Mutex<Lap>,
    /// Milliseconds since it was accepted at which a byte was read last.
    moved: AtomicU64,
    /// It is to end, so that another may have its place.
    pub(crate) evicted: Notify,
    /// Bytes of payload read, by the side that they came from. Of an HTTP client that asks for whole URLs they are all, of a
    /// tunnel's those in it.
    pub read: [AtomicU64; 2],
    /// Bytes written, by the side that took them.
    pub written: [AtomicU64; 2],
    /// Bytes held in memory, by the side that they are for.
    pub held: [AtomicU64; 2],
    /// Bytes held in the spool, by the side that they are for.
    pub spooled: [AtomicU64; 2],
    legs: Mutex<[LegBytes; 2]>,
    quota: Mutex<Quota>,
    has_quota: AtomicBool,
}

/// A part of a connection that has a destination of its own: all of it, or one request for a URL with its answer.
#[derive(Clone, Debug)]
pub struct Lap {
    /// The time at which it began.
    pub since: SystemTime,
    /// The same, for durations.
    pub began: Instant,
    /// The user's name that the client gave, right or wrong, if it had to give one.
    pub user: Option<Arc<str>>,
    /// The destination that the client asked for.
    pub destination: Option<Arc<str>>,
    /// The server's address, once it is reached.
    pub server: Option<SocketAddr>,
    /// Bytes that the connection had read before, by side.
    pub before: [u64; 2],
}

/// A socket of a connection, and what the books have of it already.
#[derive(Debug, Default)]
pub(crate) struct LegBytes {
    fd: Option<RawFd>,
    segments: u32,
    retransmits: u32,
    timeouts: u32,
    /// Buffers that were cut, as bits of [`socket::SO_BUF_LOCK`].
    cut: libc::c_int,
}

/// A place in the books that is given up with the value.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) flow: Arc<FlowPage>,
    /// The address that it counts for.
    counted: OnceLock<IpAddr>,
    books: Arc<Books>,
}

impl Books {
    pub(crate) fn new(memory: u64, spool: u64) -> Books {
        Books {
            started: SystemTime::now(),
            began: Instant::now(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            over_share: AtomicU64::new(0),
            over_rate: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            rates: Rates::new(),
            over_limit: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            read: Default::default(),
            written: Default::default(),
            tcp: Default::default(),
            memory: Account::new(memory),
            spool: Account::new(spool),
            sockets: Account::new(0),
            buffer_bound: AtomicU64::new(0),
            spool_refusals: AtomicU64::new(0),
            spool_error: Mutex::default(),
            flows: Mutex::default(),
            clients: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// The oldest connections that are open now and came after number `after`, at most `count`. Whoever wants all asks
    /// again and again: the workers wait no longer than one such answer takes.
    pub fn flows_after(&self, after: u64, count: usize) -> Vec<Arc<FlowPage>> {
        let flows = lock(&self.flows);
        flows.range((Bound::Excluded(after), Bound::Unbounded)).take(count).map(|(_, flow)| flow.clone()).collect()
    }

    /// The kernel's figures of the connection of `flow` on `side`, while there is one; what is new in them goes into
    /// [`Books::tcp`].
    pub fn sample(&self, flow: &FlowPage, side: Side) -> Option<Info> {
        let mut legs = lock(&flow.legs);
        let leg = &mut legs[side as usize];
        // SAFETY: the descriptor is open: who closes it takes it out of here first, and waits for this lock.
        let info = Info::of(unsafe { BorrowedFd::borrow_raw(leg.fd?) }).ok()?;
        let tcp = &self.tcp[side as usize];
        let add = |total: &AtomicU64, known: &mut u32, now: u32| {
            total.fetch_add(u64::from(now.wrapping_sub(*known)), Ordering::Relaxed);
            *known = now;
        };
        add(&tcp.segments, &mut leg.segments, info.data_segments.unwrap_or(0));
        add(&tcp.retransmits, &mut leg.retransmits, info.retransmits);
        add(&tcp.timeouts, &mut leg.timeouts, u32::from(info.timeouts.unwrap_or(0)));
        Some(info)
    }

    /// The disk's last error, from when it took less for the spool than it was given.
    pub fn spool_error(&self) -> Option<String> {
        lock(&self.spool_error).clone()
    }

    pub(crate) fn refuse_spool(&self, error: &io::Error) {
        self.spool_refusals.fetch_add(1, Ordering::Relaxed);
        *lock(&self.spool_error) = Some(error.to_string());
    }

    /// Counts bytes of payload that came from `side`.
    pub(crate) fn has_read(&self, flow: &FlowPage, side: Side, bytes: u64) {
        flow.moved.store(flow.began.elapsed().as_millis() as u64, Ordering::Relaxed);
        flow.read[side as usize].fetch_add(bytes, Ordering::Relaxed);
        self.read[side as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the connection on which nothing has moved for longest, if that is `idle_min` or more; false if there is none.
    pub(crate) fn evict(&self, idle_min: Duration) -> bool {
        let flows = lock(&self.flows);
        let Some((idle, flow)) = flows.values().map(|flow| (flow.idle(), flow)).max_by_key(|(idle, _)| *idle) else {
            return false;
        };
        if idle < idle_min {
            return false;
        }
        // Not chosen again before it has gone.
        flow.moved.store(flow.began.elapsed().as_millis() as u64, Ordering::Relaxed);
        flow.evicted.notify_one();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Ends a connection, by its number; false if there is none.
    pub fn end(&self, id: u64) -> bool {
        lock(&self.flows).get(&id).map(|flow| flow.evicted.notify_one()).is_some()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        lock(&self.flows).len()
    }

    /// A page for a connection from `client`.
    pub(crate) fn open_page(self: &Arc<Books>, way: &'static str, client: SocketAddr) -> Page {
        let (since, began) = (SystemTime::now(), Instant::now());
        let flow = Arc::new(FlowPage {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            since,
            began,
            way,
            client,
            behind: OnceLock::new(),
            lap: Mutex::new(Lap { since, began, user: None, destination: None, server: None, before: [0; 2] }),
            moved: AtomicU64::new(0),
            evicted: Notify::new(),
            read: Default::default(),
            written: Default::default(),
            held: Default::default(),
            spooled: Default::default(),
            legs: Mutex::default(),
            quota: Mutex::default(),
            has_quota: AtomicBool::new(false),
        });
        lock(&self.flows).insert(flow.id, flow.clone());
        Page { flow, counted: OnceLock::new(), books: self.clone() }
    }
}

impl Page {
    /// Counts it as one of `client`'s, as `subscriber` tells clients apart; false if that has `per_client`
    /// already.
    pub(crate) fn count_for(&self, client: IpAddr, per_client: usize) -> bool {
        let mut clients = lock(&self.books.clients);
        let count = clients.entry(client).or_default();
        let is_one_more = *count < per_client && self.counted.set(client).is_ok();
        *count += usize::from(is_one_more);
        is_one_more
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        lock(&self.books.flows).remove(&self.flow.id);
        let Some(client) = self.counted.get() else { return };
        let mut clients = lock(&self.books.clients);
        if let Some(count) = clients.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(client);
            }
        }
    }
}

impl FlowPage {
    /// Begins to keep the rates of its client, or of its user.
    pub(crate) fn keep_rates(&self, of: Quota, are_users: bool) {
        let mut quota = lock(&self.quota);
        quota.replace(of, are_users);
        self.has_quota.store(!quota.is_free(), Ordering::Relaxed);
    }

    /// The rates that it has to keep.
    pub(crate) fn quota(&self) -> Quota {
        if self.has_quota.load(Ordering::Relaxed) { lock(&self.quota).clone() } else { Quota::default() }
    }

    /// The time for which nothing was read on it.
    pub fn idle(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.moved.load(Ordering::Relaxed)))
    }

    /// The part of it that is under way, or was the last.
    pub fn lap(&self) -> Lap {
        lock(&self.lap).clone()
    }

    /// Begins another part.
    pub(crate) fn begin_lap(&self) {
        let before = [0, 1].map(|side| self.read[side].load(Ordering::Relaxed));
        let (since, began) = (SystemTime::now(), Instant::now());
        *lock(&self.lap) = Lap { since, began, user: None, destination: None, server: None, before };
    }

    /// Tells who the client says that it is.
    pub(crate) fn set_user(&self, user: &str) {
        lock(&self.lap).user = Some(user.into());
    }

    /// Tells what the client asked for.
    pub(crate) fn set_destination(&self, destination: &str) {
        lock(&self.lap).destination = Some(destination.into());
    }

    /// Tells which server was reached.
    pub(crate) fn set_server(&self, server: SocketAddr) {
        lock(&self.lap).server = Some(server);
    }

    /// Tells of the socket on `side`, or that it is about to be closed.
    pub(crate) fn set_socket(&self, side: Side, fd: Option<RawFd>) {
        lock(&self.legs)[side as usize].fd = fd;
    }

    /// Takes over a socket that another connection had, with what the books have of it.
    pub(crate) fn take_socket(&self, side: Side, leg: LegBytes, fd: RawFd) {
        lock(&self.legs)[side as usize] = LegBytes { fd: Some(fd), ..leg };
    }

    /// Gives up a socket, for another connection to take it over.
    pub(crate) fn give_socket(&self, side: Side) -> LegBytes {
        LegBytes { fd: None, ..std::mem::take(&mut lock(&self.legs)[side as usize]) }
    }

    /// No buffer of the connection's sockets is to be larger than `bytes`, but for those of a size that was asked for. True
    /// if one was.
    pub(crate) fn cut_buffers(&self, bytes: libc::c_int) -> bool {
        let mut legs = lock(&self.legs);
        legs.iter_mut().map(|leg| leg.cut(bytes)).fold(false, |any, is_cut| any | is_cut)
    }

    /// Leaves those that were cut to the kernel again.
    pub(crate) fn ease_buffers(&self) {
        lock(&self.legs).iter_mut().for_each(LegBytes::ease);
    }
}

impl LegBytes {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor is open: who closes it takes it out of here first, and waits for the lock on this.
        self.fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    fn cut(&mut self, bytes: libc::c_int) -> bool {
        let Some(socket) = self.socket() else { return false };
        // Without the option (before Linux 5.14) a size that was asked for cannot be told from one that was not.
        let Ok(asked) = socket::read(socket, libc::SOL_SOCKET, socket::SO_BUF_LOCK) else { return false };
        // Less than two segments of the loopback's size took its connections from 600 MB/s to 2.
        let segment = socket::read(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG).unwrap_or(0);
        let bytes = bytes.max(segment.saturating_mul(2));
        let is_to_change = |bit, now: libc::c_int, wanted: libc::c_int| match self.cut & bit != 0 {
            true => now > wanted || now < wanted / 2,
            false => asked & bit == 0 && now > wanted,
        };
        let mut cut = self.cut;
        if let Ok(now) = socket::read(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)
            && is_to_change(socket::SEND_BUFFER_LOCK, now, bytes)
            // The kernel doubles what it is told.
            && socket::set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes / 2).is_ok()
        {
            cut |= socket::SEND_BUFFER_LOCK;
        }
        // A window that was offered is not taken back (RFC 9293 s3.8.6, SHLD-14): with a receive buffer too small for what
        // is on its way the kernel drops it, acknowledgements of the other direction among it, and nothing moves for
        // time-outs of seconds. So that buffer stays as it is and grows no more; half of the share is offered from now on.
        let window = (bytes / 2).max(segment.saturating_mul(2));
        let locks = asked | cut | socket::RECEIVE_BUFFER_LOCK;
        if let Ok(now) = socket::read(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)
            && is_to_change(socket::RECEIVE_BUFFER_LOCK, now, window)
            && socket::set(socket, libc::SOL_SOCKET, socket::SO_BUF_LOCK, locks).is_ok()
            && socket::set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window).is_ok()
        {
            cut |= socket::RECEIVE_BUFFER_LOCK;
        }
        let is_new = cut != self.cut;
        self.cut = cut;
        is_new
    }

    fn ease(&mut self) {
        if let Some(socket) = self.socket()
            && let Ok(asked) = socket::read(socket, libc::SOL_SOCKET, socket::SO_BUF_LOCK)
        {
            // A socket that refuses is as it was: slower than need be.
            let _ = socket::set(socket, libc::SOL_SOCKET, socket::SO_BUF_LOCK, asked & !self.cut);
            if self.cut & socket::RECEIVE_BUFFER_LOCK != 0 {
                let _ = socket::clamp_window(socket, headend_engine::units::Bytes::MAX);
            }
        }
        self.cut = 0;
    }
}

impl Account {
    pub(crate) fn new(bound: u64) -> Account {
        Account { taken: AtomicU64::new(0), bound: AtomicU64::new(bound) }
    }

    /// The bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The bytes that may be taken.
    pub fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Sets both to what somebody else has counted.
    pub(crate) fn set(&self, taken: u64, bound: u64) {
        self.taken.store(taken, Ordering::Relaxed);
        self.set_bound(bound);
    }

    pub(crate) fn set_bound(&self, bound: u64) {
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// Takes `amount`, if that stays within the bound.
    pub(crate) fn take(&self, amount: u64) -> bool {
        let before = self.taken.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= self.bound();
        if !fits {
            self.give(amount);
        }
        fits
    }

    /// Takes `amount`, which another taking allowed for.
    pub(crate) fn add(&self, amount: u64) {
        self.taken.fetch_add(amount, Ordering::Relaxed);
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, amount: u64) {
        self.taken.fetch_sub(amount, Ordering::Relaxed);
    }
}

/// A thread that panicked while it held one of these locks left nothing half done: each holds it for one statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_the_bound() {
        let account = Account::new(10);
        assert!(account.take(6) && !account.take(5) && account.take(4));
        account.give(4);
        assert!(account.take(3));
        assert_eq!(account.taken(), 9);
    }

    #[test]
    fn only_buffers_of_no_asked_size_are_cut_and_later_released() {
        use std::os::fd::AsRawFd;
        let listening = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listening.set_tcp_mss(1_000).unwrap();
        listening.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listening.listen(1).unwrap();
        let listening = std::net::TcpListener::from(listening);
        let near = std::net::TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let (far, _) = listening.accept().unwrap();
        let number_of = |socket: &std::net::TcpStream, level, option| socket::read(socket, level, option).unwrap();
        let number = |socket: &std::net::TcpStream, option| number_of(socket, libc::SOL_SOCKET, option);
        socket::set(&far, libc::SOL_SOCKET, libc::SO_SNDBUF, 50_000).unwrap();
        let books = Arc::new(Books::new(0, 0));
        let flow = books.open_page("http", "192.0.2.1:1".parse().unwrap()).flow.clone();
        assert!(!flow.cut_buffers(20_000), "it has no sockets yet");
        flow.set_socket(Side::Local, Some(near.as_raw_fd()));
        flow.set_socket(Side::Remote, Some(far.as_raw_fd()));
        let before = number(&near, libc::SO_RCVBUF);
        assert!(before > 20_000, "as the kernel has it");
        assert!(flow.cut_buffers(20_000));
        assert!(!flow.cut_buffers(20_000), "they are cut already");
        let window = |socket| number_of(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
        let sizes = |socket| (number(socket, libc::SO_SNDBUF), window(socket));
        assert!(sizes(&near) <= (20_000, 10_000), "{:?}", sizes(&near));
        assert_eq!(number(&near, libc::SO_RCVBUF), before, "what was offered has its place");
        assert_eq!(sizes(&far), (100_000, 10_000), "who asked for a size has it");
        flow.cut_buffers(60_000);
        assert_eq!(sizes(&far), (100_000, 30_000), "a share that has grown");
        flow.cut_buffers(10);
        let segment = number_of(&near, libc::IPPROTO_TCP, libc::TCP_MAXSEG);
        assert!(window(&near) >= 2 * segment, "two segments fit in whatever is said");
        flow.ease_buffers();
        let locks = [&near, &far].map(|socket| number(socket, socket::SO_BUF_LOCK));
        assert_eq!(locks, [0, socket::SEND_BUFFER_LOCK]);
        assert!([&near, &far].iter().all(|socket| window(socket) > 1_000_000), "the buffer alone is the limit again");
        flow.set_socket(Side::Local, None);
        flow.set_socket(Side::Remote, None);
    }

    #[test]
    fn a_client_has_so_many_connections_and_no_more_until_one_ends() {
        let books = Arc::new(Books::new(0, 0));
        let open = |client: &str| {
            let client: SocketAddr = client.parse().unwrap();
            let page = books.open_page("http", client);
            page.count_for(client.ip(), 2).then_some(page)
        };
        let first = open("192.0.2.1:1");
        let second = open("192.0.2.1:2");
        assert!(first.is_some() && second.is_some() && open("192.0.2.1:3").is_none());
        assert!(open("192.0.2.2:1").is_some());
        drop(first);
        assert!(open("[::ffff:192.0.2.1]:3").is_some());
        assert_eq!(books.open(), 1, "only the second is kept");
    }
}
