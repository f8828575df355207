//! One request of a client, and its answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headend_engine::relay::Side;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::super::access::subscriber;
use super::super::books::LegBytes;
use super::super::config::Way;
use super::super::connect::Dialer;
use super::super::handshake;
use super::super::inbound::http::{self, Fetch, Refusal, Status};
use super::super::inbound::{Credentials, Destination, Host};
use super::super::listen;
use super::super::log::Ending;
use super::body::{Download, Upload};
use super::leg::{Leg, Meter, Phase};
use super::pool::{self, Key, Server};
use super::{BUFFER_BYTES, Tunnel, TunnelEnd, Visit, forward};

/// A request that is being served. However it ends, its line is written, and what it leaves is either whole or reset.
pub(super) struct Exchange {
    visit: Arc<Visit>,
    server: Option<(Key, Server)>,
    may_be_reused: bool,
    status: u16,
    is_over: bool,
}

/// The time that a connection has to be ready for its next request: no longer than the request before is still being sent.
const READY: Duration = Duration::from_secs(5);

/// Answers a request, whatever it is.
pub(super) async fn answer(visit: Arc<Visit>, request: Request<Incoming>) -> Result<Response<Download>, Infallible> {
    visit.meter.set_phase(Phase::Busy);
    visit.meter.move_on();
    visit.meter.settle();
    visit.flow.begin_lap();
    visit.shared.books.requests.fetch_add(1, Ordering::Relaxed);
    let has_body = !request.body().is_end_stream();
    let exchange = Exchange { visit: visit.clone(), server: None, may_be_reused: true, status: 0, is_over: false };
    let answered = if request.method() == Method::CONNECT {
        exchange.tunnel(request).await
    } else {
        exchange.fetch(request).await
    };
    Ok(answered.unwrap_or_else(|(mut exchange, refusal)| {
        let answer = refuse(&refusal, has_body);
        exchange.end(&Ending::Refused(refusal.why));
        answer
    }))
}

/// A refusal, with the exchange that it ends.
type Refused = (Exchange, Refusal);

impl Exchange {
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.visit.meter
    }

    /// All of the answer has come: the connection to the server is another request's.
    pub(super) fn is_answered(&mut self) {
        if let Some((key, mut server)) = self.server.take() {
            server.end();
            listen::let_it_end(&*server.stream);
            if self.may_be_reused {
                let config = self.visit.config.clone();
                tokio::spawn(async move {
                    if let Ok(Ok(())) = tokio::time::timeout(READY, server.sender.ready()).await {
                        pool::put(key, config, server);
                    }
                });
            }
        }
        self.end(&Ending::Answered(self.status));
    }

    /// The server has failed in the middle of its answer.
    pub(super) fn is_cut(&mut self) {
        self.visit.shared.books.failed.fetch_add(1, Ordering::Relaxed);
        self.end(&Ending::Cut(Side::Remote));
    }

    fn end(&mut self, ending: &Ending) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.visit.log(ending);
            self.visit.meter.set_phase(Phase::Idle(std::time::Instant::now()));
        }
    }

    async fn fetch(mut self, mut request: Request<Incoming>) -> Result<Response<Download>, Refused> {
        let minor = forward::minor(request.version());
        let read = || {
            let fetch = self.read(&request, minor)?;
            let credentials = http::credentials(&forward::fields(request.headers()))?;
            Ok((fetch, credentials))
        };
        let (fetch, credentials) = match read() {
            Ok(understood) => understood,
            Err(refusal) => return Err((self, refusal)),
        };
        let user = match self.admit(credentials).await {
            Ok(user) => user,
            Err(refusal) => return Err((self, refusal)),
        };
        if fetch.forwards == Some(0) {
            return Ok(self.own_answer(&request, minor));
        }
        if let Err(refusal) = forward::request(&mut request, &fetch, minor) {
            return Err((self, refusal));
        }
        let client_upgrade = fetch.upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let pins = forward::authenticates_connection(request.headers());
        let key = self.key(&fetch.destination, user);
        let mut answered = match self.send(&key, request).await {
            Ok(answered) => answered,
            Err(refusal) => return Err((self, refusal)),
        };
        let is_upgrade = answered.status() == StatusCode::SWITCHING_PROTOCOLS;
        let server_upgrade = is_upgrade.then(|| hyper::upgrade::on(&mut answered));
        self.may_be_reused = !pins && !forward::authenticates_connection(answered.headers());
        let version = answered.version();
        if let Err(refusal) = forward::answer(answered.headers_mut(), version, is_upgrade) {
            self.server = None;
            return Err((self, refusal));
        }
        *answered.version_mut() = hyper::Version::HTTP_11;
        self.status = answered.status().as_u16();
        self.visit.join();
        if let Some(server) = server_upgrade {
            let Some(client) = client_upgrade else {
                let why = "the server goes on to a protocol that nobody asked for";
                self.server = None;
                return Err((self, Refusal::new(Status::BadGateway, why)));
            };
            self.become_tunnel(Tunnel { client, server: TunnelEnd::Upgraded(server) });
            return Ok(answered.map(|_| Download::Own(Full::default())));
        }
        if answered.body().is_end_stream() {
            self.is_answered();
        }
        Ok(answered.map(|body| Download::Server { body, exchange: Box::new(self) }))
    }

    /// A CONNECT after other requests.
    async fn tunnel(mut self, mut request: Request<Incoming>) -> Result<Response<Download>, Refused> {
        let read = || {
            let fields = forward::fields(request.headers());
            Ok((http::tunnel(&request.uri().to_string(), &fields)?, http::credentials(&fields)?))
        };
        let connected = match read() {
            Ok((destination, credentials)) => match self.admit(credentials).await {
                Ok(user) => {
                    self.visit.flow.set_destination(&destination.to_string());
                    self.dial(&self.key(&destination, user)).await
                }
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        let remote = match connected {
            Ok((remote, _)) => remote,
            Err(refusal) => return Err((self, refusal)),
        };
        self.visit.join();
        let client = hyper::upgrade::on(&mut request);
        self.become_tunnel(Tunnel { client, server: TunnelEnd::Connected(remote) });
        Ok(Response::new(Download::Own(Full::default())))
    }

    /// The line is written when the tunnel ends.
    fn become_tunnel(&mut self, tunnel: Tunnel) {
        if let Some((_, server)) = &mut self.server {
            server.end();
        }
        *self.visit.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        self.is_over = true;
    }

    /// Understands a request.
    fn read(&self, request: &Request<Incoming>, minor: u8) -> Result<Fetch, Refusal> {
        let fields = forward::fields(request.headers());
        let target = request.uri().to_string();
        let fetch = Fetch::read(request.method().as_str(), &target, minor, &fields)?;
        self.visit.flow.set_destination(&fetch.destination.to_string());
        if forward::has_been_here(request.headers()) {
            return Err(Refusal::new(Status::LoopDetected, "this request has passed this proxy before"));
        }
        Ok(fetch)
    }

    /// Admits whoever asks, and says as which user.
    async fn admit(&self, credentials: Option<Credentials>) -> Result<Option<Vec<u8>>, Refusal> {
        handshake::admit(&self.visit.listener, &self.visit.flow, credentials.as_ref()).await?;
        let Visit { shared, config, listener, flow, .. } = &*self.visit;
        let user = listener.users.as_ref().and(credentials).map(|credentials| credentials.user);
        if let Some(user) = &user {
            flow.keep_rates(shared.books.rates.of_user(&config.limits, user), true);
        }
        shared.take_request(flow).map_err(|why| Refusal::new(Status::TooManyRequests, why))?;
        Ok(user)
    }

    fn key(&self, destination: &Destination, user: Option<Vec<u8>>) -> Key {
        let listener = &self.visit.listener;
        let is_told = listener.send_proxy.is_some() || listener.keep_client_address;
        let client = self.visit.client;
        Key { destination: destination.clone(), client: client.ip(), user, connection: is_told.then_some(client) }
    }

    /// Sends a request to its server, and waits for the head of the answer. Over a connection that has served before goes
    /// only what may be sent twice: the server may close it at any time (RFC 9110 s9.2.2, RFC 9112 s9.3.1).
    async fn send(&mut self, key: &Key, request: Request<Incoming>) -> Result<Response<Incoming>, Refusal> {
        let meter = self.meter().clone();
        let (parts, body) = request.into_parts();
        let may_repeat = body.is_end_stream()
            && matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
            && !parts.headers.contains_key(header::UPGRADE);
        let kept = if may_repeat { pool::take(key, &self.visit.config) } else { None };
        if let Some(server) = kept {
            self.visit.shared.books.reused.fetch_add(1, Ordering::Relaxed);
            let again = Request::from_parts(parts.clone(), Upload::new(None, meter.clone()));
            match self.ask(key, server, again).await {
                Err(error) if !error.is_parse() && !error.is_timeout() => self.server = None,
                asked => return asked.map_err(|error| broken(key, &error)),
            }
        }
        let (stream, address) = self.dial(key).await?;
        let server = self.introduce(stream, address).await?;
        let body = if may_repeat { None } else { Some(body) };
        let request = Request::from_parts(parts, Upload::new(body, meter));
        self.ask(key, server, request).await.map_err(|error| broken(key, &error))
    }

    async fn ask(
        &mut self,
        key: &Key,
        mut server: Server,
        request: Request<Upload>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        server.begin(self.meter());
        self.visit.flow.set_server(server.address);
        let (_, server) = self.server.insert((key.clone(), server));
        server.sender.send_request(request).await
    }

    async fn dial(&self, key: &Key) -> Result<(TcpStream, SocketAddr), Refusal> {
        let Visit { shared, config, listener, client, .. } = &*self.visit;
        let is_fixed = matches!(listener.way, Way::Forward(_));
        let check = |host: &Host, address| shared.check(config, host, address, is_fixed);
        let source = listener.keep_client_address.then_some(*client);
        let (side, lookups) = (&config.remote, &shared.lookups);
        let turns_of = subscriber(client.ip(), config.limits.client_prefix);
        let names = (!is_fixed).then_some(&config.destinations);
        let dialer = Dialer { side, source, lookups, client: turns_of, names, check: &check, made: None };
        let connected = dialer.connect(&key.destination, config.limits.connect).await;
        let mut stream = connected.map_err(|failure| failure.http())?;
        let address = stream.peer_addr().map_err(|error| super::gone(&error))?;
        self.visit.flow.set_server(address);
        if let Some(version) = listener.send_proxy {
            let header = handshake::introduced(&listener.way, *client, self.visit.original, address).header(version);
            stream.write_all(&header).await.map_err(|error| super::gone(&error))?;
        }
        Ok((stream, address))
    }

    /// Has hyper speak HTTP on a new connection, in a task of its own.
    async fn introduce(&self, stream: TcpStream, address: SocketAddr) -> Result<Server, Refusal> {
        let (stream, meter) = (Arc::new(stream), Arc::new(Mutex::new(None)));
        let leg = Leg::new(stream.clone(), Side::Remote, meter.clone(), Bytes::new());
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .preserve_header_case(true)
            .title_case_headers(true)
            .max_headers(http::FIELDS_MAX)
            .max_buf_size(BUFFER_BYTES)
            .handshake(TokioIo::new(leg))
            .await
            .map_err(|error| Refusal::new(Status::BadGateway, error.to_string()))?;
        // Whatever goes wrong on it is told to whoever waits for the answer.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        Ok(Server { sender, address, stream, meter, tcp: LegBytes::default() })
    }

    /// The answer to a request that may go no further (RFC 9110 s7.6.2).
    fn own_answer(mut self, request: &Request<Incoming>, minor: u8) -> Response<Download> {
        let mut answer = Response::new(Download::Own(Full::default()));
        if request.method() == Method::TRACE {
            let said = said(request, minor);
            answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("message/http"));
            *answer.body_mut() = Download::Own(Full::new(Bytes::from(said)));
        }
        self.end(&Ending::Answered(StatusCode::OK.as_u16()));
        answer
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.is_over {
            self.visit.shared.books.failed.fetch_add(1, Ordering::Relaxed);
            self.end(&Ending::Cut(Side::Local));
        }
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The proxy's own answer in place of a server's. A request whose body nobody reads ends the connection.
fn refuse(refusal: &Refusal, has_body: bool) -> Response<Download> {
    let mut answer = Response::new(Download::Own(Full::new(Bytes::from(refusal.body()))));
    *answer.status_mut() = StatusCode::from_u16(refusal.status.words().0).expect("a status of ours is one");
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if refusal.status == Status::AuthenticationRequired {
        headers.insert(header::PROXY_AUTHENTICATE, HeaderValue::from_static(http::CHALLENGE));
    }
    let ends = has_body || matches!(refusal.status, Status::BadRequest | Status::NotImplemented);
    if ends {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn broken(key: &Key, error: &hyper::Error) -> Refusal {
    let status = if error.is_timeout() { Status::GatewayTimeout } else { Status::BadGateway };
    Refusal::new(status, format!("{} gave no answer that can be passed on: {error}", key.destination))
}

/// A request as it came, without what only its reader is to know (RFC 9110 s9.3.8).
fn said(request: &Request<Incoming>, minor: u8) -> Vec<u8> {
    let secret = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
    let mut text = format!("{} {} HTTP/1.{minor}\r\n", request.method(), request.uri()).into_bytes();
    let headers: &HeaderMap = request.headers();
    for (name, value) in headers.iter().filter(|(name, _)| !secret.contains(name)) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    text
}
