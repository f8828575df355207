//! Connections and streams for applications: a [`Machine`] with a clock and a UDP socket.
//!
//! A task of the runtime in which an endpoint was made drives it: it reads what came, polls the machine, and sends. Streams and
//! connections only touch the machine's state, and wake that task if something is to leave.

mod driver;
mod frames;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use headend_datagram::{Identity, PublicKey};
use headend_engine::time::Time;
use quinn_udp::UdpSocketState;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::config::Config;
use crate::connection::{Ended, Snapshot};
use crate::frame::code;
use crate::machine::{Allow, Event, Handle, Machine, Strays};
use crate::streams::{StreamEvent, StreamId};
use crate::unreliable::{Fate, FrameEvent, Ticket};

pub use stream::Stream;

/// Room for datagrams that come while the task does not run.
const SOCKET_BUFFER: usize = 8 << 20;

/// An end of connections, with a UDP socket. Those that it drops are closed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

/// A connection. It is closed when its last clone and its last stream are dropped.
#[derive(Clone, Debug)]
pub struct Connection {
    line: Arc<Line>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Line {
    handle: Handle,
    endpoint: Arc<Inner>,
}

struct Shared {
    socket: UdpSocket,
    udp: UdpSocketState,
    address: SocketAddr,
    start: Instant,
    state: Mutex<State>,
    /// Something is to leave, or the endpoint is to end.
    work: Notify,
    /// A connection came, or the endpoint ends.
    arrivals: Notify,
}

struct State {
    machine: Machine,
    lines: BTreeMap<Handle, LineState>,
    incoming: VecDeque<Handle>,
    is_closed: bool,
    /// The task that drives it is at its end.
    is_over: bool,
    /// Why the endpoint can do nothing any more.
    failed: Option<String>,
}

/// What is kept of a connection besides the machine's.
#[derive(Default)]
struct LineState {
    is_connected: bool,
    ended: Option<Ended>,
    /// Something is new: it stands or has ended, the peer has opened a stream, or another may be opened.
    news: Arc<Notify>,
    wakers: BTreeMap<StreamId, Wakers>,
    /// What became of frames, and nobody has asked yet.
    fates: VecDeque<(Ticket, Fate)>,
}

#[derive(Default)]
struct Wakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Endpoint {
    /// An endpoint at `address` to which the owners of keys that `allow` allows may connect. It may connect as well.
    ///
    /// # Panics
    /// If it is not made in a Tokio runtime with I/O.
    pub fn server(address: SocketAddr, identity: Identity, allow: Allow, config: Config) -> io::Result<Endpoint> {
        Endpoint::bind(address, Machine::new(identity, Some(allow), config))
    }

    /// An endpoint to which nobody may connect.
    ///
    /// # Panics
    /// As [`Endpoint::server`].
    pub fn client(address: SocketAddr, identity: Identity, config: Config) -> io::Result<Endpoint> {
        Endpoint::bind(address, Machine::new(identity, None, config))
    }

    fn bind(address: SocketAddr, machine: Machine) -> io::Result<Endpoint> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        driver::enlarge(&socket, SOCKET_BUFFER);
        let udp = UdpSocketState::new((&socket).into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let address = socket.local_addr()?;
        let state = State {
            machine,
            lines: BTreeMap::new(),
            incoming: VecDeque::new(),
            is_closed: false,
            is_over: false,
            failed: None,
        };
        let shared = Arc::new(Shared {
            socket,
            udp,
            address,
            start: Instant::now(),
            state: Mutex::new(state),
            work: Notify::new(),
            arrivals: Notify::new(),
        });
        let timer = driver::Timer::new()?;
        tokio::spawn(driver::drive(shared.clone(), timer));
        Ok(Endpoint { inner: Arc::new(Inner { shared }) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.inner.shared.address
    }

    /// Datagrams that were no use.
    pub fn strays(&self) -> Strays {
        self.inner.shared.lock().machine.strays()
    }

    /// Connects to the owner of the key `peer` at `to`.
    pub async fn connect(&self, to: SocketAddr, peer: &PublicKey) -> Result<Connection, Ended> {
        let shared = &self.inner.shared;
        // A socket of IPv6 reaches IPv4 by mapped addresses alone.
        let to = match (shared.address, to) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            _ => to,
        };
        let (handle, news) = {
            let mut state = shared.lock();
            if state.is_closed {
                return Err(state.failed.clone().map_or(Ended::Here, Ended::Failed));
            }
            let handle = state.machine.connect(shared.now(), to, peer);
            let line = state.lines.entry(handle).or_default();
            (handle, line.news.clone())
        };
        let connection = Connection { line: Arc::new(Line { handle, endpoint: self.inner.clone() }) };
        shared.work.notify_one();
        loop {
            let heard = news.notified();
            {
                let state = shared.lock();
                let line = &state.lines[&handle];
                if let Some(why) = &line.ended {
                    return Err(why.clone());
                }
                if line.is_connected {
                    break;
                }
            }
            heard.await;
        }
        Ok(connection)
    }

    /// The next connection of a client; `None` if the endpoint is closed.
    pub async fn accept(&self) -> Option<Connection> {
        loop {
            let heard = self.inner.shared.arrivals.notified();
            {
                let mut state = self.inner.shared.lock();
                if let Some(handle) = state.incoming.pop_front() {
                    return Some(Connection { line: Arc::new(Line { handle, endpoint: self.inner.clone() }) });
                }
                if state.is_closed {
                    return None;
                }
            }
            heard.await;
        }
    }

    /// Closes all connections, and ends.
    pub fn close(&self, code: u64, reason: &str) {
        self.inner.shared.close(code, reason);
    }

    /// Waits until an endpoint that was closed has told its peers so.
    pub async fn closed(&self) {
        loop {
            let heard = self.inner.shared.arrivals.notified();
            tokio::pin!(heard);
            heard.as_mut().enable();
            if self.inner.shared.lock().is_over {
                return;
            }
            heard.await;
        }
    }

    /// Why it ended by itself, if it did: the system refused something that it cannot be without.
    pub fn failed(&self) -> Option<String> {
        self.inner.shared.lock().failed.clone()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close(code::NONE, "");
    }
}

impl Connection {
    fn shared(&self) -> &Arc<Shared> {
        &self.line.endpoint.shared
    }

    fn stream(&self, id: StreamId) -> Stream {
        Stream::new(self.line.clone(), id)
    }

    /// Waits until `look` finds something, or until the connection ends.
    async fn until<T>(&self, look: impl Fn(&mut Machine, Handle) -> Option<T>) -> Result<T, Ended> {
        self.until_state(|state, handle| look(&mut state.machine, handle)).await
    }

    /// The same, in all of the endpoint's state.
    async fn until_state<T>(&self, look: impl Fn(&mut State, Handle) -> Option<T>) -> Result<T, Ended> {
        let handle = self.line.handle;
        let news = match self.shared().lock().lines.get(&handle) {
            Some(line) => line.news.clone(),
            None => return Err(Ended::Here),
        };
        loop {
            let heard = news.notified();
            tokio::pin!(heard);
            // Two may wait, for different things: all are woken, and none misses it.
            heard.as_mut().enable();
            {
                let mut state = self.shared().lock();
                if let Some(found) = look(&mut state, handle) {
                    return Ok(found);
                }
                if let Some(why) = state.lines.get(&handle).and_then(|line| line.ended.clone()) {
                    return Err(why);
                }
            }
            heard.await;
        }
    }

    /// Opens a stream, as soon as the peer allows another. The peer hears of it with the first byte.
    pub async fn open(&self) -> Result<Stream, Ended> {
        self.until(|machine, handle| machine.open(handle)).await.map(|id| self.stream(id))
    }

    /// The next stream that the peer opens.
    pub async fn accept(&self) -> Result<Stream, Ended> {
        self.until(|machine, handle| machine.accept(handle)).await.map(|id| self.stream(id))
    }

    /// Waits until the connection has ended, and says why.
    pub async fn ended(&self) -> Ended {
        match self.until(|_, _| None::<()>).await {
            Err(why) => why,
            Ok(()) => unreachable!("nothing was looked for"),
        }
    }

    /// Closes the connection. What has not come by now does not come.
    pub fn close(&self, code: u64, reason: &str) {
        self.line.close(code, reason);
    }

    /// Returns true until it has ended.
    pub fn is_open(&self) -> bool {
        let state = self.shared().lock();
        state.lines.get(&self.line.handle).is_some_and(|line| line.ended.is_none())
    }

    /// The peer's key and address, and the counts; `None` once it has ended.
    pub fn look(&self) -> Option<(PublicKey, SocketAddr, Snapshot)> {
        self.shared().lock().machine.look(self.line.handle)
    }
}

impl Line {
    fn close(&self, code: u64, reason: &str) {
        let shared = &self.endpoint.shared;
        shared.lock().machine.close(shared.now(), self.handle, code, reason);
        shared.work.notify_one();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close(code::NONE, "");
        self.endpoint.shared.lock().lines.remove(&self.handle);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn close(&self, code: u64, reason: &str) {
        let mut state = self.lock();
        let now = self.now();
        state.machine.close_all(now, code, reason);
        state.is_closed = true;
        drop(state);
        self.work.notify_one();
        self.arrivals.notify_waiters();
    }

    /// Nobody drives it any more: whoever waits is told so, and why unless it was closed.
    fn end(&self, why: &str) {
        let mut state = self.lock();
        if !state.is_closed {
            state.failed = Some(why.to_owned());
        }
        (state.is_closed, state.is_over) = (true, true);
        state.incoming.clear();
        let why = state.failed.clone().map_or(Ended::Here, Ended::Failed);
        let mut wakers = Vec::new();
        for line in state.lines.values_mut().filter(|line| line.ended.is_none()) {
            wakers.append(&mut line.end(why.clone()));
        }
        // What reads and writes asks the machine.
        let now = self.now();
        state.machine.close_all(now, code::NONE, "");
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.arrivals.notify_waiters();
    }
}

impl LineState {
    /// Notes the end, and returns whom to wake.
    fn end(&mut self, why: Ended) -> Vec<Waker> {
        self.ended = Some(why);
        self.news.notify_waiters();
        self.news.notify_one();
        self.wakers.values_mut().flat_map(|both| [both.reader.take(), both.writer.take()]).flatten().collect()
    }
}

impl State {
    /// Passes events on to those who wait for them.
    fn tell(&mut self, arrivals: &Notify) {
        while let Some(event) = self.machine.event() {
            match event {
                Event::Incoming(handle) => {
                    self.lines.insert(handle, LineState { is_connected: true, ..LineState::default() });
                    self.incoming.push_back(handle);
                    arrivals.notify_one();
                }
                Event::Connected(handle) => {
                    if let Some(line) = self.lines.get_mut(&handle) {
                        line.is_connected = true;
                        line.news.notify_waiters();
                        line.news.notify_one();
                    }
                }
                Event::Stream(handle, event) => {
                    let Some(line) = self.lines.get_mut(&handle) else { continue };
                    match event {
                        StreamEvent::Opened | StreamEvent::MayOpen => line.news.notify_waiters(),
                        StreamEvent::Readable(id) => wake(line.wakers.get_mut(&id).and_then(|both| both.reader.take())),
                        StreamEvent::Writable(id) => wake(line.wakers.get_mut(&id).and_then(|both| both.writer.take())),
                    }
                }
                Event::Frame(handle, event) => {
                    let Some(line) = self.lines.get_mut(&handle) else { continue };
                    if let FrameEvent::Became(ticket, fate) = event {
                        if line.fates.len() == frames::FATES_MAX {
                            line.fates.pop_front();
                        }
                        line.fates.push_back((ticket, fate));
                    }
                    line.news.notify_waiters();
                }
                Event::Ended(handle, why) => {
                    if let Some(at) = self.incoming.iter().position(|one| *one == handle) {
                        // Nobody has it yet who would give it back.
                        self.incoming.remove(at);
                        self.lines.remove(&handle);
                    } else if let Some(line) = self.lines.get_mut(&handle) {
                        line.end(why).into_iter().for_each(Waker::wake);
                    }
                }
            }
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.address)
    }
}
