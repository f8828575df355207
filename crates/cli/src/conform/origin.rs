//! The server behind the proxy: a thread that accepts connections and plays their server's ends.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time;

use headend_host::netns::Namespace;

use super::end::{self, Outcome};
use super::exchange::{End, Exchange};
use super::plan::Plan;
use super::way;
use crate::failure::Failure;

/// What the clients' thread wants of the server's.
#[derive(Debug)]
pub(super) enum Order {
    /// The next connection at this listener is connection `exchange.connection` of the plan.
    Play {
        gate: usize,
        plan: Arc<Plan>,
        exchange: Arc<Exchange>,
        accepted: oneshot::Sender<()>,
        done: oneshot::Sender<Outcome>,
    },
    /// Whatever comes at this listener up to a connection that begins with the token is left over from before.
    Flush { gate: usize, token: [u8; TOKEN_BYTES], done: oneshot::Sender<()> },
}

pub(super) const TOKEN_BYTES: usize = 16;
/// A connection that is left over says nothing for this long, or something else.
const FLUSH_PATIENCE: Duration = Duration::from_millis(300);

/// The server's thread. It ends when nobody can order anything any more.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) orders: mpsc::UnboundedSender<Order>,
    /// Where it listens: as many as were asked for.
    pub(super) gates: Vec<SocketAddr>,
    /// Where it refuses connections.
    pub(super) refusing: SocketAddr,
    pub(super) thread: JoinHandle<()>,
}

impl Origin {
    /// Listens at `address`, at so many ports: the first is that of `address`, if it has one.
    pub(super) fn start(address: SocketAddr, gates: usize, namespace: Option<Namespace>) -> Result<Origin, Failure> {
        let (orders, received) = mpsc::unbounded_channel();
        let (ready, listening) = std_mpsc::channel();
        let thread = thread::spawn(move || {
            let opened = namespace.map_or(Ok(()), |namespace| namespace.enter()).and_then(|()| open(address, gates));
            match opened {
                Ok((listeners, refusing)) => {
                    let addresses: io::Result<Vec<SocketAddr>> =
                        listeners.iter().map(StdListener::local_addr).collect();
                    // Whoever asked waits for the answer.
                    let _ = ready.send(addresses.and_then(|gates| Ok((gates, local_addr(&refusing)?))));
                    serve(listeners, received);
                    drop(refusing);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            }
        });
        let (gates, refusing) = listening
            .recv()
            .expect("the thread answers before it ends")
            .map_err(|error| Failure::Failed(format!("listen at {address} (--origin-address): {error}")))?;
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

fn serve(listeners: Vec<StdListener>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let runtime = super::runtime();
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
                        let stream = tokio::select! {
                            stream = listener.accept() => stream,
                            // Dropping `done` says that nobody came.
                            () = exchange.abort.given() => return,
                        };
                        let Ok((stream, _)) = stream else { return };
                        // Whoever ordered may have given up.
                        let _ = accepted.send(());
                        let _ = stream.set_nodelay(true);
                        let side = &plan.connections[exchange.connection].server;
                        let _ = done.send(end::play(stream, 0, Vec::new(), side, End::Server, &exchange).await);
                    });
                }
                Order::Flush { gate, token, mut done } => {
                    let listener = listeners[gate].clone();
                    tokio::task::spawn_local(async move {
                        tokio::select! {
                            () = flush(&listener, token) => {}
                            () = done.closed() => return,
                        }
                        let _ = done.send(());
                    });
                }
            }
        }
    });
}

async fn flush(listener: &TcpListener, token: [u8; TOKEN_BYTES]) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let mut came = Vec::new();
        let read = async {
            while came.len() < TOKEN_BYTES {
                let left = TOKEN_BYTES - came.len();
                if way::read_some(&stream, &mut came, left).await? == 0 {
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
