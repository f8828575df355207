//! One connection of a client, from being accepted to its end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headend_engine::relay::Side;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::Shared;
use super::access::subscriber;
use super::books::{FlowPage, Page};
use super::config::{Config, Listener, Way};
use super::connect::{Dialer, Failure, FailureKind};
use super::fetch::{Visit, VisitEnd};
use super::handshake::{self, Client, ClientRequest, HandshakeRefused, Room, Tongue, Understood};
use super::inbound::http::{Refusal, Status};
use super::inbound::{Host, socks5};
use super::listen;
use super::log::{Closed, Ending};
use super::tls::Outside;
use super::wire::socket::WireSocket;
use super::wire::{Wire, WireEnd};

/// The time that a client that was refused has to take its answer, and the bytes of it that are still read and thrown
/// away.
const FAREWELL: Duration = Duration::from_secs(2);
const FAREWELL_BYTES_MAX: usize = 1 << 20;
/// The time that a client waits for a place.
const PLACE_WAIT: Duration = Duration::from_secs(5);
const TOO_MANY: &str = "this client has as many connections as it may";

/// An accepted connection and the rules that it came under: a reload concerns those that come after.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Arc<Config>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) peer: SocketAddr,
}

/// A connection that is reset when it is dropped, whatever the reason (see [`listen::let_it_fail`]), unless it came to an
/// orderly end.
struct SessionSocket<'a> {
    socket: WireSocket,
    flow: &'a FlowPage,
    side: Side,
    is_over: bool,
}

/// The line that is written of a connection when it is over, whichever way: also when the proxy ends before it does.
struct Line<'a> {
    session: &'a Session,
    flow: &'a FlowPage,
    ending: Ending,
}

/// The task outside of a client's connection, which does not outlive its session.
struct Encrypting(JoinHandle<()>);

impl Drop for Encrypting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What begins when a client was understood.
enum Begun {
    Opened(Box<Opened>),
    /// It asks for URLs, and these bytes begin with the first request.
    Fetches {
        first: Vec<u8>,
        client: SocketAddr,
        original: SocketAddr,
    },
}

/// A client that was understood, and the connection to its server.
struct Opened {
    request: ClientRequest,
    remote: TcpStream,
    /// The client, as it is known by now.
    client: SocketAddr,
    /// The address that the client believes it is connected to.
    original: SocketAddr,
}

impl<'a> SessionSocket<'a> {
    fn new(stream: TcpStream, flow: &'a FlowPage, side: Side) -> SessionSocket<'a> {
        flow.set_socket(side, Some(stream.as_raw_fd()));
        SessionSocket { socket: WireSocket::new(stream), flow, side, is_over: false }
    }
}

impl Drop for SessionSocket<'_> {
    fn drop(&mut self) {
        self.flow.set_socket(self.side, None);
        if self.is_over {
            listen::let_it_end(&self.socket);
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let log = &self.session.config.log;
        if log.connections && !matches!(self.ending, Ending::Told) {
            self.session.shared.log(&Closed::of(self.flow, &self.ending), log.format);
        }
    }
}

impl Session {
    /// Serves the client until its connection has ended. `spare` keeps a descriptor for the connection to its server.
    pub(crate) async fn serve(self, stream: TcpStream, spare: Option<OwnedFd>) {
        let books = &self.shared.books;
        books.accepted.fetch_add(1, Ordering::Relaxed);
        let peer = SocketAddr::new(self.peer.ip().to_canonical(), self.peer.port());
        let page = books.open_page(self.listener.way.name(), peer);
        let mut line = Line { session: &self, flow: &page.flow, ending: Ending::Stopped };
        // The client behind a PROXY header is counted when it is known.
        if self.listener.proxy_senders.is_empty() && !self.may_come(&page, peer) {
            books.refused.fetch_add(1, Ordering::Relaxed);
            line.ending = Ending::Refused(TOO_MANY.to_owned());
            self.turn_away(stream, TOO_MANY).await;
            return;
        }
        line.ending = match self.enter(stream).await {
            Ok((stream, original, outside)) => {
                let outside = outside.map(|outside| Encrypting(tokio::spawn(outside.serve(page.flow.clone()))));
                let ending = self.converse(&page, (stream, original), spare).await;
                if let Some(mut outside) = outside {
                    // What it still holds keeps this client's place, or clients that read nothing would cost nothing.
                    let _ = tokio::time::timeout(self.config.limits.half_closed, &mut outside.0).await;
                }
                ending
            }
            Err(ending) => ending,
        };
        if !matches!(line.ending, Ending::Joined(_) | Ending::Told) {
            books.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn may_come(&self, page: &Page, client: SocketAddr) -> bool {
        let (limits, books) = (&self.config.limits, &self.shared.books);
        let share = limits.share(&self.listener.way, books.open());
        let client = subscriber(client.ip(), limits.client_prefix);
        page.flow.keep_rates(books.rates.of_client(limits, client), false);
        let may_come = page.count_for(client, share);
        if !may_come {
            books.over_share.fetch_add(1, Ordering::Relaxed);
            self.shared.warn(&format!("{client} has {share} connections, as many as it may: further ones are refused"));
        }
        may_come
    }

    /// Waits for a place, for a client that came while all were taken; ends what has been idle for longest if it may.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let _turn = self.shared.waiting.try_acquire().ok()?;
        self.shared.make_room();
        let waiting = tokio::time::timeout(PLACE_WAIT, self.shared.places.clone().acquire_owned());
        waiting.await.ok()?.ok()
    }

    /// Tells a client that there is no place.
    pub(crate) async fn refuse(self, stream: TcpStream) {
        let books = &self.shared.books;
        books.accepted.fetch_add(1, Ordering::Relaxed);
        books.refused.fetch_add(1, Ordering::Relaxed);
        books.over_limit.fetch_add(1, Ordering::Relaxed);
        let count = self.config.limits.connections;
        self.shared.warn(&format!("all {count} places are taken: further connections wait, and are refused"));
        self.turn_away(stream, "there is no place for another connection").await;
    }

    /// The connection on which the client speaks the protocol of this way in, and the address that it came to; with the
    /// outside of it if it speaks that inside of TLS.
    async fn enter(&self, stream: TcpStream) -> Result<(TcpStream, SocketAddr, Option<Outside>), Ending> {
        let original = stream.local_addr().map_err(Ending::Gone)?;
        let Some(tls) = &self.listener.tls else { return Ok((stream, original, None)) };
        match tls.open(stream, self.config.limits.handshake).await {
            Ok((inside, outside)) => Ok((inside, original, Some(outside))),
            Err(error) => Err(Ending::Refused(format!("no TLS: {error}"))),
        }
    }

    async fn converse(
        &self,
        page: &Page,
        (stream, original): (TcpStream, SocketAddr),
        spare: Option<OwnedFd>,
    ) -> Ending {
        let flow = &*page.flow;
        let mut local = SessionSocket::new(stream, flow, Side::Local);
        // Boxed, because it is large, and gone before the relaying begins.
        match Box::pin(self.open(page, local.socket.stream(), original, spare)).await {
            Ok(Begun::Opened(opened)) => self.relay(flow, &mut local, *opened).await,
            Ok(Begun::Fetches { first, client, original }) => {
                let visit = Visit::new(&self.shared, &self.config, &self.listener, &page.flow, [client, original]);
                let VisitEnd { is_over, has_left, ending } =
                    visit.clone().serve(local.socket.stream().clone(), first).await;
                local.is_over = is_over;
                if is_over && !has_left {
                    self.farewell(local.socket.stream(), &[]).await;
                }
                match ending {
                    Ending::Refused(_) if visit.has_joined() => Ending::Told,
                    ending => ending,
                }
            }
            Err((answer, ending)) => {
                if !answer.is_empty() {
                    self.farewell(local.socket.stream(), &answer).await;
                    local.is_over = true;
                }
                // Whoever closed without a word needs no reset.
                local.is_over |= matches!(&ending, Ending::Gone(error) if error.kind() == io::ErrorKind::UnexpectedEof);
                ending
            }
        }
    }

    /// Relays bytes between a client and its server until either is done.
    async fn relay(&self, flow: &FlowPage, local: &mut SessionSocket<'_>, opened: Opened) -> Ending {
        let Opened { request, remote, client, original } = opened;
        let (from, server) = (remote.local_addr().ok(), remote.peer_addr());
        let mut remote = SessionSocket::new(remote, flow, Side::Remote);
        self.shared.books.joined.fetch_add(1, Ordering::Relaxed);
        let end = {
            let limits = &self.config.limits;
            let hold_max = limits.memory_per_connection.get();
            let store = self.shared.store(&self.config);
            let mut wire =
                Wire::new([&mut local.socket, &mut remote.socket], hold_max, store, flow, &self.shared.books);
            wire.preload(Side::Local, &request.tongue.success(from));
            if let Some(version) = self.listener.send_proxy {
                let server = server.unwrap_or(original);
                let connection = handshake::introduced(&self.listener.way, client, original, server);
                wire.preload(Side::Remote, &connection.header(version));
            }
            wire.preload(Side::Remote, &request.first);
            self.shared.books.has_read(flow, Side::Local, request.first.len() as u64);
            drop(request);
            tokio::select! {
                end = wire.run(limits.idle, limits.half_closed) => end,
                // Dropped as they are, both are reset.
                () = flow.evicted.notified() => WireEnd::Idle,
            }
        };
        if !matches!(end, WireEnd::Closed) {
            self.shared.books.failed.fetch_add(1, Ordering::Relaxed);
        }
        let is_over = matches!(end, WireEnd::Closed);
        (local.is_over, remote.is_over) = (is_over, is_over);
        let retransmits =
            [Side::Local, Side::Remote].map(|side| self.shared.books.sample(flow, side).map(|info| info.retransmits));
        Ending::Joined((end, retransmits))
    }

    /// Goes from the first byte of the client to the connection to its server.
    async fn open(
        &self,
        page: &Page,
        stream: &TcpStream,
        original: SocketAddr,
        spare: Option<OwnedFd>,
    ) -> Result<Begun, (Vec<u8>, Ending)> {
        let flow = &*page.flow;
        let silent = |why: String| Err((Vec::new(), Ending::Refused(why)));
        let patience = self.config.limits.handshake;
        let (understood, client, original) =
            match tokio::time::timeout(patience, self.listen_to(page, stream, original)).await {
                Ok(Ok(understood)) => understood,
                Ok(Err(HandshakeRefused::Answer(answer, why))) => return Err((answer, Ending::Refused(why))),
                Ok(Err(HandshakeRefused::Silent(why))) => return silent(why),
                Ok(Err(HandshakeRefused::Gone(error))) => return Err((Vec::new(), Ending::Gone(error))),
                Err(_) => {
                    let why = format!("no request within {} s", patience.as_secs_f64());
                    let answer = match self.listener.way {
                        Way::Http => Refusal::new(Status::Timeout, why.clone()).answer(),
                        _ => Vec::new(),
                    };
                    return Err((answer, Ending::Refused(why)));
                }
            };
        let request = match understood {
            Understood::Relay(request) => request,
            Understood::Fetches(first) => return Ok(Begun::Fetches { first, client, original }),
        };
        flow.set_destination(&request.destination.to_string());
        if let Some(user) = self.listener.users.as_ref().and_then(|_| flow.lap().user) {
            flow.keep_rates(self.shared.books.rates.of_user(&self.config.limits, user.as_bytes()), true);
        }
        if let Err(why) = self.shared.take_request(flow) {
            let answer = request.tongue.failure(&Failure::new(FailureKind::TooManyRequests, why));
            return Err((answer, Ending::Refused(why.to_owned())));
        }
        let is_fixed = matches!(self.listener.way, Way::Forward(_));
        let check = |host: &Host, address| self.shared.check(&self.config, host, address, is_fixed);
        let source = self.listener.keep_client_address.then_some(client);
        let lookups = &self.shared.lookups;
        let is_diverted = self.listener.way == Way::Transparent;
        let made = is_diverted.then(|| self.shared.holds.take(self.peer, original)).flatten();
        let route = Dialer {
            side: &self.config.remote,
            source,
            lookups,
            client: subscriber(client.ip(), self.config.limits.client_prefix),
            names: (!is_fixed).then_some(&self.config.destinations),
            check: &check,
            made,
        };
        drop(spare);
        let connecting = route.connect(&request.destination, self.config.limits.connect);
        // A client that has reset its connection waits for nobody.
        let connected = tokio::select! {
            connected = connecting => connected,
            _ = stream.ready(Interest::ERROR) => {
                let error = stream.take_error().ok().flatten().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                return Err((Vec::new(), Ending::Gone(error)));
            }
        };
        match connected {
            Ok(remote) => {
                if let Ok(server) = remote.peer_addr() {
                    flow.set_server(server);
                }
                Ok(Begun::Opened(Box::new(Opened { request, remote, client, original })))
            }
            Err(failure) => {
                if is_diverted && failure.kind == FailureKind::TimedOut {
                    self.shared.holds.is_silent(original);
                }
                let answer = request.tongue.failure(&failure);
                Err((answer, Ending::Refused(failure.why)))
            }
        }
    }

    async fn listen_to(
        &self,
        page: &Page,
        stream: &TcpStream,
        mut original: SocketAddr,
    ) -> Result<(Understood, SocketAddr, SocketAddr), HandshakeRefused> {
        let mut client = page.flow.client;
        let header_bytes_max = usize::try_from(self.config.limits.header.get()).unwrap_or(usize::MAX);
        let room = Room::new(&self.shared.books);
        let (listener, flow) = (&*self.listener, &*page.flow);
        let mut reader = Client { stream, listener, flow, header_bytes_max, bytes: Vec::new(), room };
        if !self.listener.proxy_senders.is_empty() {
            if !self.listener.proxy_senders.contains(client.ip()) {
                return Err(HandshakeRefused::Silent("it is not among the senders of PROXY headers".to_owned()));
            }
            if let Some(connection) = reader.proxy_header().await? {
                client = connection.from;
                original = connection.to;
                let _ = page.flow.behind.set(client);
            }
            if !self.may_come(page, client) {
                return Err(HandshakeRefused::Silent(TOO_MANY.to_owned()));
            }
        }
        if !self.listener.admits(client.ip()) {
            let why = format!("{} is not among the clients", client.ip());
            let failure = Failure::new(FailureKind::Denied, why.clone());
            return Err(match self.listener.way {
                Way::Http => HandshakeRefused::Answer(Tongue::Connect.failure(&failure), why),
                // SOCKS has nothing to say this with before its greeting.
                _ => HandshakeRefused::Silent(why),
            });
        }
        let request = reader.request(original).await?;
        Ok((request, client, original))
    }

    /// Tells a client, in its own tongue, why it has no connection.
    async fn turn_away(&self, stream: TcpStream, why: &str) {
        let answer = match self.listener.way {
            // To agree on TLS first would be a service.
            _ if self.listener.tls.is_some() => return,
            Way::Http => Refusal::new(Status::Unavailable, why).answer(),
            // Whatever it is about to say is answered beforehand: that it need not say who it is, and that it failed.
            Way::Socks5 if self.listener.users.is_none() => {
                [socks5::NOT_ASKED.to_vec(), socks5::reply(socks5::Code::GeneralFailure, None)].concat()
            }
            _ => return,
        };
        self.farewell(&stream, &answer).await;
        listen::let_it_end(&stream);
    }

    /// Says the last word, and waits for it to be heard while not too many others do: those who are refused must not take
    /// the places of those who are not.
    async fn farewell(&self, stream: &TcpStream, answer: &[u8]) {
        match self.shared.farewells.try_acquire() {
            Ok(_turn) => farewell(stream, answer).await,
            // It is heard unless the client has said more than was read.
            Err(_) => drop(stream.try_write(answer)),
        }
    }
}

/// Says the last word and waits until the client has it: closing while it still sends would reset the connection, and the
/// word be lost.
async fn farewell(stream: &TcpStream, answer: &[u8]) {
    let say = async {
        handshake::say(stream, answer).await?;
        rustix::net::shutdown(stream, rustix::net::Shutdown::Write)?;
        let mut thrown = 0;
        let mut bytes = [0; 512];
        while thrown < FAREWELL_BYTES_MAX {
            stream.readable().await?;
            match stream.try_read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => thrown += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok::<(), io::Error>(())
    };
    // Whether it listens is its own affair.
    let _ = tokio::time::timeout(FAREWELL, say).await;
}
