//! UDP through the tunnel: each datagram is an unreliable frame, and each flow has a stream.
//!
//! A flow is what a program at the client and a server say to each other. The client opens a stream for it and says where it is to go,
//! as it does for TCP; the server answers there, or why not. The flow's datagrams are frames that begin with the stream's number, in
//! eight bytes. A flow ends with its stream: after a while without datagrams, or when an end goes.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headend_host::proxy::access::Networks;
use headend_host::proxy::inbound::Destination;
use headend_host::proxy::{Failure, FailureKind, Outward};
use headend_socket::{Connection, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::connect::Lane;
use super::speech::{self, Kind};

/// The time without datagrams after which a flow ends (RFC 4787 REQ-5: two minutes at least).
const IDLE: Duration = Duration::from_secs(120);
/// Flows at a time of one client, and programs of one way in.
const FLOWS_MAX: usize = 512;
/// Datagrams of a flow that wait for its task. More are lost, as in a socket's buffer.
const INBOX: usize = 256;
/// Datagrams that came before the stream of their flow and are kept for it.
const EARLY_MAX: usize = 64;
/// Datagrams that are read before others have their turn.
const LOOKS: usize = 64;
/// The longest datagram of UDP, and a little more.
const DATAGRAM_MAX: usize = 65_536;
/// Bytes of the flow's number before a datagram.
const NUMBER: usize = 8;
/// The time for a destination to be found.
const FOUND: Duration = Duration::from_secs(30);

/// The flows of a connection.
#[derive(Debug)]
pub(super) struct Flows {
    connection: Connection,
    /// The time for which a datagram is worth something.
    life: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inboxes: BTreeMap<u64, mpsc::Sender<Vec<u8>>>,
    /// A frame and a stream are sent together and may come one before the other.
    early: VecDeque<(u64, Vec<u8>)>,
}

/// A flow, at one end.
#[derive(Debug)]
struct Flow {
    flows: Arc<Flows>,
    id: u64,
    inbox: mpsc::Receiver<Vec<u8>>,
}

impl Flows {
    /// The flows of a connection, whose frames go to them until it ends.
    pub(super) fn start(connection: Connection, life: Duration) -> Arc<Flows> {
        let flows = Arc::new(Flows { connection, life, state: Mutex::default() });
        let dispatcher = flows.clone();
        tokio::spawn(async move {
            while let Ok(frame) = dispatcher.connection.read_frame().await {
                dispatcher.hand_on(frame);
            }
        });
        flows
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_on(&self, frame: Vec<u8>) {
        // What is no datagram of a flow is nobody's.
        let Some(id) = frame.first_chunk().map(|number| u64::from_be_bytes(*number)) else { return };
        let mut state = self.lock();
        if let Some(inbox) = state.inboxes.get(&id) {
            let _ = inbox.try_send(frame);
            return;
        }
        if state.early.len() == EARLY_MAX {
            state.early.pop_front();
        }
        state.early.push_back((id, frame));
    }

    /// Begins a flow; `None` if there are as many as may be.
    fn begin(self: &Arc<Flows>, id: u64) -> Option<Flow> {
        let mut state = self.lock();
        if state.inboxes.len() >= FLOWS_MAX {
            return None;
        }
        let (sender, inbox) = mpsc::channel(INBOX);
        let early = std::mem::take(&mut state.early);
        let (mine, others) = early.into_iter().partition::<VecDeque<_>, _>(|(early, _)| *early == id);
        state.early = others;
        for (_, frame) in mine {
            let _ = sender.try_send(frame);
        }
        state.inboxes.insert(id, sender);
        Some(Flow { flows: self.clone(), id, inbox })
    }
}

impl Flow {
    /// Sends a datagram to the other end. One for which there is no room is lost, as in a router.
    fn send(&self, datagram: &[u8]) {
        let frame = [&self.id.to_be_bytes()[..], datagram].concat();
        let deadline = std::time::Instant::now() + self.flows.life;
        let _ = self.flows.connection.send_frame_of(self.id, &frame, deadline);
    }

    /// The next datagram of the other end, behind its number.
    async fn next(&mut self) -> Vec<u8> {
        match self.inbox.recv().await {
            Some(frame) => frame,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.flows.lock().inboxes.remove(&self.id);
    }
}

/// The server's end of a flow: a socket that exchanges datagrams with its destination alone.
pub(super) async fn serve(
    mut stream: Stream,
    to: Destination,
    client: IpAddr,
    flows: Arc<Flows>,
    outward: Arc<Outward>,
) {
    let found = match flows.begin(stream.id().get()) {
        Some(flow) => outward.datagrams(client, &to, FOUND).await.map(|socket| (flow, socket)),
        None => Err(Failure::new(FailureKind::TooManyRequests, format!("{FLOWS_MAX} flows of UDP are open already"))),
    };
    match found {
        Ok((flow, socket)) => {
            if speech::answer(&mut stream, None).await.is_ok() {
                exchange(&stream, flow, &socket).await;
            }
        }
        Err(failure) => {
            let told = speech::answer(&mut stream, Some(&failure)).await;
            if told.is_ok() && stream.shutdown().await.is_ok() {
                let _ = timeout(IDLE, stream.sent()).await;
            }
        }
    }
}

async fn exchange(mut stream: &Stream, mut flow: Flow, socket: &UdpSocket) {
    let mut until = Instant::now() + IDLE;
    let mut byte = [0];
    loop {
        tokio::select! {
            frame = flow.next() => {
                // What the kernel does not take is lost; an error may be what ICMP said of one before.
                let _ = socket.send(&frame[NUMBER..]).await;
            }
            readable = socket.readable() => {
                if readable.is_err() {
                    return;
                }
                pass_on(&flow, socket);
            }
            // The client says nothing more but that it goes.
            _ = stream.read(&mut byte) => return,
            () = sleep_until(until) => return,
        }
        until = Instant::now() + IDLE;
    }
}

/// Sends what the destination has sent to the client.
fn pass_on(flow: &Flow, socket: &UdpSocket) {
    let mut buffer = [0; DATAGRAM_MAX];
    for _ in 0..LOOKS {
        match socket.try_recv(&mut buffer) {
            Ok(len) => flow.send(&buffer[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(_) => {}
        }
    }
}

/// A way in: each program that sends to this socket has a flow to the destination.
pub(super) async fn listen(socket: UdpSocket, to: Destination, lane: Arc<Lane>, clients: Arc<Networks>) {
    let socket = Arc::new(socket);
    let mut programs: BTreeMap<SocketAddr, mpsc::Sender<Vec<u8>>> = BTreeMap::new();
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        // What ICMP says of an answer to a program that has gone is an error here.
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        if !from.ip().to_canonical().is_loopback() && !clients.contains(from.ip()) {
            continue;
        }
        if programs.get(&from).is_none_or(mpsc::Sender::is_closed) {
            programs.retain(|_, program| !program.is_closed());
            if programs.len() >= FLOWS_MAX {
                continue;
            }
            let (sender, datagrams) = mpsc::channel(INBOX);
            programs.insert(from, sender);
            tokio::spawn(carry(lane.clone(), to.clone(), socket.clone(), from, datagrams));
        }
        let _ = programs[&from].try_send(buffer[..len].to_vec());
    }
}

/// The client's end of a flow.
async fn carry(
    lane: Arc<Lane>,
    to: Destination,
    socket: Arc<UdpSocket>,
    program: SocketAddr,
    mut datagrams: mpsc::Receiver<Vec<u8>>,
) {
    let began = async {
        let (connection, flows) = lane.carrier().await?;
        let stream = connection.open().await.map_err(|why| why.to_string())?;
        (&stream).write_all(&speech::request(Kind::Datagrams, &to)).await.map_err(|why| why.to_string())?;
        let flow = flows.begin(stream.id().get()).ok_or_else(|| format!("{FLOWS_MAX} flows are open already"))?;
        Ok::<_, String>((stream, flow))
    };
    let (stream, mut flow) = match began.await {
        Ok(begun) => begun,
        Err(why) => return eprintln!("{to} (UDP): {why}"),
    };
    // Datagrams need not wait for the answer: the server keeps some until it has found the destination.
    let ended = async {
        let mut stream = &stream;
        match speech::read_answer(&mut stream).await {
            Ok(Some(failure)) => eprintln!("{to} (UDP): {}", failure.told()),
            Ok(None) => drop(stream.read(&mut [0]).await),
            Err(_) => {}
        }
    };
    tokio::pin!(ended);
    let mut until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            datagram = datagrams.recv() => match datagram {
                Some(datagram) => flow.send(&datagram),
                None => return,
            },
            frame = flow.next() => {
                let _ = socket.send_to(&frame[NUMBER..], program).await;
            }
            () = &mut ended => return,
            () = sleep_until(until) => return,
        }
        until = Instant::now() + IDLE;
    }
}
