//! The client's end: ways in for programs, and one connection to the server that carries theirs.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headend_host::privilege;
use headend_host::proxy::access::Networks;
use headend_host::proxy::inbound::Destination;
use headend_host::proxy::inbound::http::{self, Head, Refusal, Status, Wants};
use headend_host::proxy::inbound::socks5::{self, Conversation, Step};
use headend_host::proxy::{Failure as Unreached, FailureKind};
use headend_socket::{Connection, Endpoint, PublicKey, Stream};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Mutex, Semaphore};

use super::admin::{self, Books};
use super::datagrams::{self, ALL_FLOWS_MAX, Flows};
use super::speech::Kind;
use super::{ConnectArguments, Signals, relay, speech};
use crate::failure::Failure;

/// The time that a program has to say what it wants.
const REQUEST: Duration = Duration::from_secs(10);
/// The longest head of an HTTP request.
const HEAD_MAX: usize = 16_384;
/// The pause after a connection that did not come about, in which nobody tries again.
const PAUSE: Duration = Duration::from_secs(1);
/// The time that a program has to take the last word.
const FAREWELL: Duration = Duration::from_secs(2);
/// The code and the words with which a client goes.
const ENDING: (u64, &str) = (65, "the client ends");
/// A program's connection is a descriptor here.
const DESCRIPTORS: u64 = 65_536;

/// What a way in speaks.
#[derive(Clone, Debug)]
enum Way {
    Socks,
    Http,
    Forward(Destination),
}

/// The connection to the server, made anew when it has ended.
pub(super) struct Lane {
    endpoint: Endpoint,
    name: String,
    key: PublicKey,
    /// The time for which a datagram of UDP is worth something.
    life: Duration,
    /// Flows that may still begin.
    flows: Arc<Semaphore>,
    state: Mutex<State>,
    books: Arc<Books>,
}

#[derive(Default)]
struct State {
    connection: Option<(Connection, Arc<Flows>)>,
    failed: Option<(Instant, String)>,
}

pub(super) async fn run(arguments: &ConnectArguments) -> Result<(), Failure> {
    let ways = ways(arguments)?;
    let (identity, config) = (arguments.common.identity()?, arguments.common.config());
    let looked_at = admin::listen(&arguments.common).await?;
    privilege::raise_open_files(DESCRIPTORS);
    let server = resolve(&arguments.server).map_err(Failure::Wrong)?;
    let unspecified: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let endpoint = Endpoint::client(unspecified, identity, config);
    let endpoint = endpoint.map_err(|error| Failure::Failed(format!("open a UDP socket: {error}")))?;
    let (name, key) = (arguments.server.clone(), arguments.server_key);
    let lane = Arc::new(Lane {
        endpoint,
        name,
        key,
        life: arguments.common.udp_deadline,
        flows: Arc::new(Semaphore::new(ALL_FLOWS_MAX)),
        state: Mutex::default(),
        books: Arc::default(),
    });
    let mut signals = Signals::new()?;
    let clients = Arc::new(Networks::new(arguments.clients.clone()));
    for (address, way) in ways {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| Failure::Failed(format!("listen on {address}: {error}")))?;
        // An urgent byte stays where it is in the stream (RFC 6093 s5); what is accepted inherits this.
        let _ = SockRef::from(&listener).set_out_of_band_inline(true);
        let at = listener.local_addr().unwrap_or(address);
        match &way {
            Way::Socks => eprintln!("SOCKS 5 on {at}"),
            Way::Http => eprintln!("HTTP CONNECT on {at}"),
            Way::Forward(to) => eprintln!("{at} leads to {to}"),
        }
        tokio::spawn(listen(listener, way, lane.clone(), clients.clone()));
    }
    for one in &arguments.udp {
        let socket = UdpSocket::bind(one.listen).await;
        let socket = socket.map_err(|error| Failure::Failed(format!("listen on {} (UDP): {error}", one.listen)))?;
        eprintln!("{} (UDP) leads to {}", socket.local_addr().unwrap_or(one.listen), one.to);
        tokio::spawn(datagrams::listen(socket, one.to.clone(), lane.clone(), clients.clone()));
    }
    admin::answer(looked_at, &lane.endpoint, &lane.books, true);
    admin::tell_supervisor(&format!("to {}", lane.name))?;
    tokio::select! {
        () = greet(&lane) => {}
        is_end = signals.is_end() => if is_end { return Ok(()) },
    }
    while !signals.is_end().await {
        eprintln!("SIGHUP: there is nothing to read again at this end");
    }
    lane.endpoint.close(ENDING.0, ENDING.1);
    lane.endpoint.closed().await;
    Ok(())
}

/// Connects before the first program does, and says what came of it.
async fn greet(lane: &Lane) {
    match lane.connection().await {
        Ok(connection) => {
            if let Some((_, address, _)) = connection.look() {
                eprintln!("connected to {} at {address}", lane.name);
            }
        }
        // It may come later: a laptop is not always on the network.
        Err(why) => eprintln!("{why}; trying again with each connection of a program"),
    }
}

/// The ways in, checked.
fn ways(arguments: &ConnectArguments) -> Result<Vec<(SocketAddr, Way)>, Failure> {
    let mut ways: Vec<(SocketAddr, Way)> = Vec::new();
    ways.extend(arguments.socks.iter().map(|address| (*address, Way::Socks)));
    ways.extend(arguments.http.iter().map(|address| (*address, Way::Http)));
    ways.extend(arguments.forward.iter().map(|one| (one.listen, Way::Forward(one.to.clone()))));
    if ways.is_empty() && arguments.udp.is_empty() {
        return Err(Failure::Wrong(
            "no way in: give --socks 127.0.0.1:1080, --http 127.0.0.1:3128, --forward 8080:HOST:PORT or --udp 5353:HOST:53".to_owned(),
        ));
    }
    let mut all = ways.iter().map(|(address, _)| *address).chain(arguments.udp.iter().map(|one| one.listen));
    if let Some(open) = all.find(|address| !address.ip().to_canonical().is_loopback())
        && arguments.clients.is_empty()
    {
        return Err(Failure::Wrong(format!(
            "{open}: beyond the loopback --clients says whose programs may use it, such as --clients 10.0.0.0/8"
        )));
    }
    Ok(ways)
}

fn resolve(server: &str) -> Result<SocketAddr, String> {
    let expected = "expected HOST:PORT, such as tunnel.example.org:4433";
    let mut addresses = server.to_socket_addrs().map_err(|error| format!("{server}: {error}; {expected}"))?;
    addresses.next().ok_or_else(|| format!("{server} has no address"))
}

impl Lane {
    /// The connection, which is made if there is none.
    async fn connection(&self) -> Result<Connection, String> {
        self.carrier().await.map(|(connection, _)| connection)
    }

    /// The same, and its flows of UDP.
    pub(super) async fn carrier(&self) -> Result<(Connection, Arc<Flows>), String> {
        let mut state = self.state.lock().await;
        if let Some(carrier) = state.connection.as_ref().filter(|(connection, _)| connection.is_open()) {
            return Ok(carrier.clone());
        }
        if let Some((_, why)) = state.failed.as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            return Err(why.clone());
        }
        let name = self.name.clone();
        // The name may have another address by now. The look-up blocks: not this thread.
        let found = tokio::task::spawn_blocking(move || resolve(&name)).await;
        let connected = match found.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(to) => self.endpoint.connect(to, &self.key).await.map_err(|why| format!("{}: {why}", self.name)),
            Err(why) => Err(why),
        };
        match connected {
            Ok(connection) => {
                let carrier = (connection.clone(), Flows::start(connection.clone(), self.life, self.flows.clone()));
                (state.connection, state.failed) = (Some(carrier.clone()), None);
                let (name, watched) = (self.name.clone(), connection);
                let entry = self.books.enter(&watched);
                tokio::spawn(async move {
                    eprintln!("{name}: {}", watched.ended().await);
                    drop(entry);
                });
                Ok(carrier)
            }
            Err(why) => {
                state.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// A stream to a destination, which the server has reached.
    async fn open(&self, to: &Destination) -> Result<Stream, Unreached> {
        Books::count(&self.books.streams);
        let own = |why: String| Unreached::new(FailureKind::Own, why);
        let connection = self.connection().await.map_err(own)?;
        let mut stream = connection.open().await.map_err(|why| own(format!("{}: {why}", self.name)))?;
        let lost = |error: io::Error| own(format!("{}: {error}", self.name));
        stream.write_all(&speech::request(Kind::Bytes, to)).await.map_err(lost)?;
        match speech::read_answer(&mut stream).await.map_err(lost)? {
            None => Ok(stream),
            Some(failure) => {
                Books::count(&self.books.failures);
                Err(failure)
            }
        }
    }
}

async fn listen(listener: TcpListener, way: Way, lane: Arc<Lane>, clients: Arc<Networks>) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) if from.ip().to_canonical().is_loopback() || clients.contains(from.ip()) => {
                tokio::spawn(serve(tcp, way.clone(), lane.clone()));
            }
            Ok(_) => {}
            // No descriptor is free, or the program has gone again.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A program's request: its destination, and what it has said already.
struct Request {
    to: Destination,
    first: Vec<u8>,
}

async fn serve(mut tcp: TcpStream, way: Way, lane: Arc<Lane>) {
    let _ = tcp.set_nodelay(true);
    let asked = match &way {
        Way::Forward(to) => Ok(Request { to: to.clone(), first: Vec::new() }),
        Way::Socks => within(socks(&mut tcp)).await,
        Way::Http => within(http_connect(&mut tcp)).await,
    };
    let request = match asked {
        Ok(request) => request,
        Err(answer) => return farewell(tcp, &answer).await,
    };
    match lane.open(&request.to).await {
        Ok(mut stream) => {
            let success = match way {
                Way::Socks => socks5::reply(socks5::Code::Succeeded, None),
                Way::Http => http::ESTABLISHED.to_vec(),
                Way::Forward(_) => Vec::new(),
            };
            if tcp.write_all(&success).await.is_ok() && stream.write_all(&request.first).await.is_ok() {
                relay::join(tcp, stream).await;
            }
        }
        Err(failure) => match way {
            Way::Socks => farewell(tcp, &socks5::reply(failure.socks5(), None)).await,
            Way::Http => farewell(tcp, &failure.http().answer()).await,
            Way::Forward(_) => {
                eprintln!("{}: {}", request.to, failure.told());
                let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
            }
        },
    }
}

async fn within(request: impl Future<Output = Result<Request, Vec<u8>>>) -> Result<Request, Vec<u8>> {
    tokio::time::timeout(REQUEST, request).await.unwrap_or_else(|_| Err(Vec::new()))
}

/// Reads more; an error is that there is nobody to answer.
async fn more(tcp: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), Vec<u8>> {
    match tcp.read_buf(bytes).await {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err(Vec::new()),
    }
}

async fn socks(tcp: &mut TcpStream) -> Result<Request, Vec<u8>> {
    let mut conversation = Conversation::new(false);
    let mut bytes = Vec::new();
    loop {
        match conversation.step(&bytes) {
            Step::More => more(tcp, &mut bytes).await?,
            Step::Reply { consumed, reply } => {
                bytes.drain(..consumed);
                tcp.write_all(reply).await.map_err(|_| Vec::new())?;
            }
            Step::Authenticate { .. } => unreachable!("nobody was asked who it is"),
            Step::Request { consumed, destination } => {
                return Ok(Request { to: destination, first: bytes.split_off(consumed) });
            }
            Step::Refused { reply, .. } => return Err(reply),
        }
    }
}

async fn http_connect(tcp: &mut TcpStream) -> Result<Request, Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match Head::read(&bytes, HEAD_MAX) {
            Head::More => more(tcp, &mut bytes).await?,
            Head::Request(request) => match request.wants {
                Wants::Tunnel(to) => return Ok(Request { to, first: bytes.split_off(request.consumed) }),
                Wants::Fetch(_) => {
                    let why = "only CONNECT is served here: curl wants --proxytunnel; SOCKS serves everything";
                    return Err(Refusal::new(Status::NotImplemented, why).answer());
                }
            },
            Head::Refused(refusal) => return Err(refusal.answer()),
        }
    }
}

/// Says the last word, and waits a while until the program has it: closing while it still sends would lose the word.
async fn farewell(mut tcp: TcpStream, answer: &[u8]) {
    let say = async {
        tcp.write_all(answer).await?;
        tcp.shutdown().await?;
        let mut bytes = [0; 512];
        while tcp.read(&mut bytes).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    let _ = tokio::time::timeout(FAREWELL, say).await;
}
