//! The server behind the proxy: a thread that accepts connections and plays their server's ends.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time;

use super::exchange::Exchange;
use super::introduction::HeaderVersion;
use super::message::{self, HEAD_BYTES_MAX};
use super::outcome::Outcome;
use super::place::{self, SocketPlace};
use super::player::{self, Begin};
use super::role::Role;
use super::schedule::Schedule;
use super::socket;
use super::speech::Names;
use super::told::{self, Told};

/// An order from the clients' thread to the server's.
#[derive(Debug)]
pub(crate) enum Order {
    /// The next connection at this listener is connection `exchange.connection` of the plan.
    Play {
        gate: usize,
        plan: Arc<Schedule>,
        exchange: Arc<Exchange>,
        accepted: oneshot::Sender<()>,
        done: oneshot::Sender<Outcome>,
    },
    /// Whatever comes at this listener up to a connection that begins with the token is left over from before.
    Flush { gate: usize, token: [u8; TOKEN_BYTES], done: oneshot::Sender<()> },
}

pub(crate) const TOKEN_BYTES: usize = 16;
/// A connection that is left over says nothing for this long, or something else.
const FLUSH_PATIENCE: Duration = Duration::from_millis(300);
/// The time that a proxy which is to say who the client is may take to, once it has connected.
const INTRODUCTION_PATIENCE: Duration = Duration::from_secs(2);

/// The server's thread. It ends when nobody can order anything any more.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    /// The addresses at which it listens: as many as were asked for.
    pub(crate) gates: Vec<SocketAddr>,
    /// The address at which it refuses connections.
    pub(crate) refusing: SocketAddr,
    pub(crate) thread: JoinHandle<()>,
}

impl Origin {
    /// Listens at `address`, at so many ports: the first is that of `address`, if it has one. With `told` every connection
    /// is to begin with a PROXY header.
    pub(crate) fn start(
        address: SocketAddr,
        gates: usize,
        place: SocketPlace,
        told: Option<HeaderVersion>,
    ) -> io::Result<Origin> {
        let (orders, received) = mpsc::unbounded_channel();
        let (ready, listening) = std_mpsc::channel();
        let thread = thread::spawn(move || {
            let opened = place.enter().and_then(|()| open(address, gates));
            match opened {
                Ok((listeners, refusing)) => {
                    let addresses: io::Result<Vec<SocketAddr>> =
                        listeners.iter().map(StdListener::local_addr).collect();
                    // Whoever asked waits for the answer.
                    let _ = ready.send(addresses.and_then(|gates| Ok((gates, local_addr(&refusing)?))));
                    serve(listeners, received, told);
                    drop(refusing);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        });
        let (gates, refusing) = listening.recv().expect("the thread answers before it ends")?;
        Ok(Origin { orders, gates, refusing, thread })
    }
}

fn open(address: SocketAddr, gates: usize) -> io::Result<(Vec<StdListener>, Socket)> {
    let at = |port| SocketAddr::new(address.ip(), port);
    let mut listeners = vec![StdListener::bind(address)?];
    for _ in 1..gates {
        listeners.push(StdListener::bind(at(0))?);
    }
    for listener in &listeners {
        listener.set_nonblocking(true)?;
    }
    // A port that is taken and where nobody listens: connections to it are refused, and nobody else gets it meanwhile.
    let refusing = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    refusing.bind(&at(0).into())?;
    Ok((listeners, refusing))
}

fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn serve(listeners: Vec<StdListener>, mut orders: mpsc::UnboundedReceiver<Order>, told: Option<HeaderVersion>) {
    let runtime = place::runtime();
    LocalSet::new().block_on(&runtime, async move {
        let listeners: Vec<Arc<TcpListener>> = listeners
            .into_iter()
            .map(|listener| Arc::new(TcpListener::from_std(listener).expect("a listener that does not block")))
            .collect();
        while let Some(order) = orders.recv().await {
            match order {
                Order::Play { gate, plan, exchange, accepted, done } => {
                    let listener = listeners[gate].clone();
                    tokio::task::spawn_local(async move {
                        let came = tokio::select! {
                            came = arrival(&listener, &plan, &exchange, told) => came,
                            // Dropping `done` says that nobody came.
                            () = exchange.abort.given() => return,
                        };
                        let Ok((stream, begin)) = came else { return };
                        // Whoever ordered may have given up.
                        let _ = accepted.send(());
                        let _ = stream.set_nodelay(true);
                        let script = &plan.connections[exchange.connection].server;
                        let _ = done.send(player::play(stream, begin, script, Role::Server, &exchange).await.0);
                    });
                }
                Order::Flush { gate, token, mut done } => {
                    let listener = listeners[gate].clone();
                    tokio::task::spawn_local(async move {
                        tokio::select! {
                            () = flush(&listener, token, told) => {}
                            () = done.closed() => return,
                        }
                        let _ = done.send(());
                    });
                }
            }
        }
    });
}

/// The next connection that is the one of `exchange`, as far as that can be told, and what it began with.
async fn arrival(
    listener: &TcpListener,
    plan: &Schedule,
    exchange: &Exchange,
    told: Option<HeaderVersion>,
) -> io::Result<(TcpStream, Begin)> {
    let dialogue = plan.connections[exchange.connection].dialogue;
    let path = message::path(exchange.seed, exchange.connection);
    loop {
        let (stream, _) = listener.accept().await?;
        let mut begin = Begin::default();
        if let Some(version) = told {
            let read = told::read(&stream, version, &mut begin.came);
            match time::timeout(INTRODUCTION_PATIENCE, read).await {
                Ok(Ok(told)) => begin.told = Some(told),
                // A client that resets need not have been told of.
                Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => begin.is_reset = true,
                _ => begin.told = Some(Told::Nothing(format!("{} bytes came, and no more", begin.came.len()))),
            }
        }
        let Some(dialogue) = dialogue else { return Ok((stream, begin)) };
        // Left over from before, if its request is for something else.
        if has_request_for(&stream, &path, &mut begin.came).await {
            begin.dialogue = Some((dialogue, Names { server: listener.local_addr()?.to_string(), ..Names::default() }));
            return Ok((stream, begin));
        }
    }
}

/// True if a request came, up to the end of its head, and is for this path.
async fn has_request_for(stream: &TcpStream, path: &str, came: &mut Vec<u8>) -> bool {
    let end = |came: &[u8]| came.windows(4).position(|window| window == b"\r\n\r\n");
    while end(came).is_none() {
        if came.len() > HEAD_BYTES_MAX || !matches!(socket::read_some(stream, came, 4_096).await, Ok(1..)) {
            return false;
        }
    }
    let line = came.split(|byte| *byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(line).split(' ').any(|word| word.ends_with(path))
}

async fn flush(listener: &TcpListener, token: [u8; TOKEN_BYTES], told: Option<HeaderVersion>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let mut came = Vec::new();
        if let Some(version) = told {
            // Whether there is a header does not matter here.
            let _ = time::timeout(FLUSH_PATIENCE, told::read(&stream, version, &mut came)).await;
        }
        let read = async {
            while came.len() < TOKEN_BYTES {
                let left = TOKEN_BYTES - came.len();
                if socket::read_some(&stream, &mut came, left).await? == 0 {
                    break;
                }
            }
            io::Result::Ok(())
        };
        // Whatever becomes of it, only the token counts.
        let _ = time::timeout(FLUSH_PATIENCE, read).await;
        if came == token {
            return;
        }
    }
}
