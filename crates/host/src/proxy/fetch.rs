//! Requests for whole URLs, one after the other on a client's connection (RFC 9112 s9.3), answered by as many servers as they
//! name. hyper reads and writes the messages on both sides: one reader decides where a body ends, and what goes on is framed
//! anew, so that nothing ambiguous gets past.
//!
//! | where | what |
//! |---|---|
//! | `exchange` | one request and its answer |
//! | `forward` | what becomes of the fields of either |
//! | `pool` | connections to servers that wait for the next request |
//! | `body` `leg` | what flows through, and what is counted of it |

mod body;
mod exchange;
mod forward;
mod leg;
mod pool;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use headend_engine::relay::Side;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::books::FlowPage;
use super::config::{Config, Listener};
use super::inbound::http::{self, Refusal, Status};
use super::listen;
use super::log::{Closed, Ending};
use super::wire::socket::WireSocket;
use super::wire::{Wire, WireEnd};
use leg::{Leg, Meter, Phase};

/// The most that hyper reads or writes at a time, and so about a quarter of what a connection holds at most.
const BUFFER_BYTES: usize = 64 * 1024;

/// A client's connection while it asks for URLs.
pub(crate) struct Visit {
    pub(crate) shared: Arc<Shared>,
    pub(crate) config: Arc<Config>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) flow: Arc<FlowPage>,
    /// The client, as it is known by now.
    pub(crate) client: SocketAddr,
    /// The address that the client believes it is connected to.
    pub(crate) original: SocketAddr,
    meter: Arc<Meter>,
    tunnel: Mutex<Option<Tunnel>>,
    has_joined: AtomicBool,
}

/// What a connection becomes that both ends have agreed to speak something else on.
struct Tunnel {
    client: OnUpgrade,
    server: TunnelEnd,
}

enum TunnelEnd {
    /// It answered 101.
    Upgraded(OnUpgrade),
    /// A CONNECT led there.
    Connected(TcpStream),
}

/// How a visit ended.
#[derive(Debug)]
pub(crate) struct VisitEnd {
    /// The client is to hear the end of what was said to it, not a reset.
    pub(crate) is_over: bool,
    /// The client has closed its direction: there is nothing to wait for.
    pub(crate) has_left: bool,
    pub(crate) ending: Ending,
}

impl Visit {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        config: &Arc<Config>,
        listener: &Arc<Listener>,
        flow: &Arc<FlowPage>,
        [client, original]: [SocketAddr; 2],
    ) -> Arc<Visit> {
        Arc::new(Visit {
            shared: shared.clone(),
            config: config.clone(),
            listener: listener.clone(),
            flow: flow.clone(),
            client,
            original,
            meter: Arc::new(Meter::new(shared.books.clone(), flow.clone())),
            tunnel: Mutex::default(),
            has_joined: AtomicBool::new(false),
        })
    }

    /// Serves requests until the connection ends. `first` are bytes that were read already: at least a whole head.
    pub(crate) async fn serve(self: Arc<Visit>, stream: Arc<TcpStream>, first: Vec<u8>) -> VisitEnd {
        let slot = Arc::new(Mutex::new(Some(self.meter.clone())));
        self.shared.books.has_read(&self.flow, Side::Local, first.len() as u64);
        let leg = Leg::new(stream.clone(), Side::Local, slot, Bytes::from(first));
        let at_end = leg.at_end();
        let limits = &self.config.limits;
        let head_max = usize::try_from(limits.header.get()).unwrap_or(usize::MAX);
        let service = service_fn(|request| exchange::answer(self.clone(), request));
        let serving = http1::Builder::new()
            .half_close(true)
            .preserve_header_case(true)
            .title_case_headers(true)
            .auto_date_header(false)
            .max_headers(http::FIELDS_MAX)
            .max_header_size(head_max)
            .max_buf_size(BUFFER_BYTES.max(head_max))
            .serve_connection(TokioIo::new(leg), service)
            .with_upgrades();
        let mut epoch = self.shared.epoch.subscribe();
        let mut is_last = false;
        let outcome = {
            let mut serving = pin!(serving);
            loop {
                tokio::select! {
                    biased;
                    served = &mut serving => break served.map_err(Why::Broken),
                    _ = stream.ready(Interest::ERROR) => break Err(Why::Reset),
                    _ = epoch.wait_for(|epoch| epoch.is_draining || !Arc::ptr_eq(&epoch.config, &self.config)), if !is_last => {
                        is_last = true;
                        serving.as_mut().graceful_shutdown();
                    }
                    () = self.flow.evicted.notified() => match self.meter.phase() {
                        Phase::Idle(_) => break Err(Why::Waited),
                        Phase::Busy | Phase::Head(_) => break Err(Why::Stalled),
                    },
                    () = self.meter.changed.notified() => {}
                    () = sleep_until(self.deadline()) => match self.meter.phase() {
                        _ if Instant::now() < self.deadline() => {}
                        Phase::Busy => break Err(Why::Stalled),
                        Phase::Idle(_) => break Err(Why::Waited),
                        Phase::Head(_) => break Err(Why::Unfinished),
                    },
                }
            }
        };
        self.meter.settle();
        let tunnel = self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Ok(()), Some(tunnel)) = (&outcome, tunnel) {
            return self.relay(&stream, tunnel).await;
        }
        let (is_over, ending) = match outcome {
            Ok(()) | Err(Why::Waited) => (true, Ending::Told),
            Err(Why::Unfinished) => {
                let why = format!("no request within {} s", limits.handshake.as_secs_f64());
                // A client that does not even take this is not waited for.
                let _ = stream.try_write(&Refusal::new(Status::Timeout, why.clone()).answer());
                (true, Ending::Refused(why))
            }
            // hyper has answered it, and what it read is no request.
            Err(Why::Broken(error)) if error.is_parse() => (true, Ending::Refused(format!("no request: {error}"))),
            Err(Why::Broken(_) | Why::Reset | Why::Stalled) => (false, Ending::Told),
        };
        VisitEnd { is_over, has_left: at_end.load(Ordering::Relaxed), ending }
    }

    /// The time at which this connection has waited long enough.
    fn deadline(&self) -> Instant {
        let limits = &self.config.limits;
        let moved = self.meter.moved();
        let deadline = match self.meter.phase() {
            Phase::Head(since) => since + limits.handshake,
            // The last of an answer may still be on its way.
            Phase::Idle(_) if self.flow.held[Side::Local as usize].load(Ordering::Relaxed) > 0 => moved + limits.idle,
            Phase::Idle(since) => since.max(moved) + limits.keep_alive,
            Phase::Busy => moved + limits.idle,
        };
        Instant::from_std(deadline)
    }

    /// Relays bytes: the connection is another protocol's from here on.
    async fn relay(&self, stream: &Arc<TcpStream>, tunnel: Tunnel) -> VisitEnd {
        let broken = |why: &str| VisitEnd { is_over: false, has_left: false, ending: Ending::Refused(why.to_owned()) };
        let Ok(client) = tunnel.client.await else { return broken("the client did not go on to the other protocol") };
        let Ok(client) = client.downcast::<TokioIo<Leg>>() else { return broken("the client's socket is another's") };
        let (remote, server_first) = match tunnel.server {
            TunnelEnd::Connected(stream) => (Arc::new(stream), Bytes::new()),
            TunnelEnd::Upgraded(server) => {
                let Ok(server) = server.await else { return broken("the server did not go on to the other protocol") };
                let Ok(server) = server.downcast::<TokioIo<Leg>>() else {
                    return broken("the server's socket is another's");
                };
                (server.io.into_inner().stream, server.read_buf)
            }
        };
        listen::let_it_fail(&*remote);
        self.flow.set_socket(Side::Remote, Some(std::os::fd::AsRawFd::as_raw_fd(&*remote)));
        let (mut local, mut remote) = (WireSocket::new(stream.clone()), WireSocket::new(remote));
        let limits = &self.config.limits;
        let store = self.shared.store(&self.config);
        let hold_max = limits.memory_per_connection.get();
        let mut wire = Wire::new([&mut local, &mut remote], hold_max, store, &self.flow, &self.shared.books);
        wire.preload(Side::Local, &server_first);
        wire.preload(Side::Remote, &client.read_buf);
        let end = tokio::select! {
            end = wire.run(limits.idle, limits.half_closed) => end,
            () = self.flow.evicted.notified() => WireEnd::Idle,
        };
        let is_over = matches!(end, WireEnd::Closed);
        if is_over {
            listen::let_it_end(&remote);
        } else {
            self.shared.books.failed.fetch_add(1, Ordering::Relaxed);
        }
        let retransmits = [Side::Local, Side::Remote]
            .map(|side| self.shared.books.sample(&self.flow, side).map(|info| info.retransmits));
        self.flow.set_socket(Side::Remote, None);
        VisitEnd { is_over, has_left: is_over, ending: Ending::Joined((end, retransmits)) }
    }

    /// Writes a line of what has just ended.
    fn log(&self, ending: &Ending) {
        let log = &self.config.log;
        if log.connections {
            self.shared.log(&Closed::of(&self.flow, ending), log.format);
        }
    }

    /// Counts the connection as one that reached a server, once.
    fn join(&self) {
        if !self.has_joined.swap(true, Ordering::Relaxed) {
            self.shared.books.joined.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if a server was reached.
    pub(crate) fn has_joined(&self) -> bool {
        self.has_joined.load(Ordering::Relaxed)
    }
}

/// Why no more requests are served.
enum Why {
    /// What the client said, or an answer, broke off or was none.
    Broken(hyper::Error),
    Reset,
    /// Nothing moved in the middle of a request or an answer.
    Stalled,
    /// No other request came.
    Waited,
    /// A request's head did not end.
    Unfinished,
}

/// A connection's error as a refusal, if it was not the client's doing.
fn gone(error: &io::Error) -> Refusal {
    Refusal::new(Status::BadGateway, error.to_string())
}
