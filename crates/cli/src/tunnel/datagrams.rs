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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use super::connect::Lane;
use super::speech::{self, Kind};

/// The time without datagrams after which a flow ends (RFC 4787 REQ-5: two minutes at least).
const IDLE: Duration = Duration::from_secs(120);
/// Flows at a time of one connection, and programs of one way in.
const FLOWS_MAX: usize = 512;
/// Flows at a time of all connections of a server: each has a port and a descriptor.
pub(super) const ALL_FLOWS_MAX: usize = 8_192;
/// Datagrams of a flow that wait for its task, and bytes of all flows of a connection, or programs of a way in. More are lost, as in a
/// socket's buffer.
const INBOX: usize = 256;
const INBOXES_BYTES: usize = 4 << 20;
/// Datagrams that came before the stream of their flow and are kept for it, and their bytes.
const EARLY_MAX: usize = 64;
const EARLY_BYTES: usize = 256 << 10;
/// Datagrams that are read before others have their turn.
const LOOKS: usize = 64;
/// The longest datagram of UDP, and a little more.
const DATAGRAM_MAX: usize = 65_536;
/// Bytes of the flow's number before a datagram, and the longest frame that can be a datagram of UDP (over IPv4: 65,507 bytes).
const NUMBER: usize = 8;
const FRAME_MAX: usize = NUMBER + 65_507;
/// The time for a destination to be found.
const FOUND: Duration = Duration::from_secs(30);

/// The flows of a connection.
#[derive(Debug)]
pub(super) struct Flows {
    connection: Connection,
    /// The time for which a datagram is worth something.
    life: Duration,
    state: Mutex<Inboxes>,
}

/// Bytes that wait, and the memory that they hold of what there is for all.
type Waiting = (Vec<u8>, OwnedSemaphorePermit);

/// The flows of UDP that take a connection's frames, by the number that each frame begins with.
#[derive(Debug)]
struct Inboxes {
    inboxes: BTreeMap<u64, mpsc::Sender<Waiting>>,
    /// Bytes that may still wait in all of them.
    room: Arc<Semaphore>,
    /// Flows that may still begin, of this connection and others.
    free: Arc<Semaphore>,
    /// A frame and a stream are sent together and may come one before the other.
    early: VecDeque<(u64, Vec<u8>)>,
    early_bytes: usize,
}

/// A flow, at one end.
#[derive(Debug)]
struct Flow {
    flows: Arc<Flows>,
    id: u64,
    inbox: mpsc::Receiver<Waiting>,
    _place: OwnedSemaphorePermit,
}

impl Flows {
    /// The flows of a connection, whose frames go to them until it ends. They are of those that are `free`.
    pub(super) fn start(connection: Connection, life: Duration, free: Arc<Semaphore>) -> Arc<Flows> {
        let flows = Arc::new(Flows { connection, life, state: Mutex::new(Inboxes::new(free)) });
        let dispatcher = flows.clone();
        tokio::spawn(async move {
            while let Ok(frame) = dispatcher.connection.read_frame().await {
                dispatcher.lock().hand_on(frame);
            }
        });
        flows
    }

    fn lock(&self) -> MutexGuard<'_, Inboxes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a flow, or says why there are as many as may be.
    fn begin(self: &Arc<Flows>, id: u64) -> Result<Flow, String> {
        let (inbox, place) = self.lock().begin(id)?;
        Ok(Flow { flows: self.clone(), id, inbox, _place: place })
    }
}

impl Inboxes {
    fn new(free: Arc<Semaphore>) -> Inboxes {
        let room = Arc::new(Semaphore::new(INBOXES_BYTES));
        Inboxes { inboxes: BTreeMap::new(), room, free, early: VecDeque::new(), early_bytes: 0 }
    }

    fn hand_on(&mut self, frame: Vec<u8>) {
        // What is no datagram of a flow is nobody's.
        let Some(id) = frame.first_chunk().map(|number| u64::from_be_bytes(*number)) else { return };
        if frame.len() > FRAME_MAX {
            return;
        }
        if let Some(inbox) = self.inboxes.get(&id) {
            put(inbox, &self.room, frame);
            return;
        }
        while self.early.len() >= EARLY_MAX || self.early_bytes + frame.len() > EARLY_BYTES {
            let Some((_, oldest)) = self.early.pop_front() else { break };
            self.early_bytes -= oldest.len();
        }
        self.early_bytes += frame.len();
        self.early.push_back((id, frame));
    }

    fn begin(&mut self, id: u64) -> Result<(mpsc::Receiver<Waiting>, OwnedSemaphorePermit), String> {
        if self.inboxes.len() >= FLOWS_MAX {
            return Err(format!("{FLOWS_MAX} flows of UDP are open already"));
        }
        let place = self.free.clone().try_acquire_owned();
        let place = place.map_err(|_| "as many flows of UDP are open already as there may be".to_owned())?;
        let (sender, inbox) = mpsc::channel(INBOX);
        let early = std::mem::take(&mut self.early);
        let (mine, others) = early.into_iter().partition::<VecDeque<_>, _>(|(early, _)| *early == id);
        self.early = others;
        for (_, frame) in mine {
            self.early_bytes -= frame.len();
            put(&sender, &self.room, frame);
        }
        self.inboxes.insert(id, sender);
        Ok((inbox, place))
    }
}

/// Puts bytes into an inbox. Those for which there is no room are lost.
fn put(inbox: &mpsc::Sender<Waiting>, room: &Arc<Semaphore>, bytes: Vec<u8>) {
    let held = u32::try_from(bytes.len()).ok().and_then(|len| room.clone().try_acquire_many_owned(len).ok());
    if let Some(held) = held {
        let _ = inbox.try_send((bytes, held));
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
            Some((frame, _)) => frame,
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
        Ok(flow) => outward.datagrams(client, &to, FOUND).await.map(|socket| (flow, socket)),
        Err(why) => Err(Failure::new(FailureKind::TooManyRequests, why)),
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
    let mut programs: BTreeMap<SocketAddr, mpsc::Sender<Waiting>> = BTreeMap::new();
    let room = Arc::new(Semaphore::new(INBOXES_BYTES));
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
        put(&programs[&from], &room, buffer[..len].to_vec());
    }
}

/// The client's end of a flow.
async fn carry(
    lane: Arc<Lane>,
    to: Destination,
    socket: Arc<UdpSocket>,
    program: SocketAddr,
    mut datagrams: mpsc::Receiver<Waiting>,
) {
    let began = async {
        let (connection, flows) = lane.carrier().await?;
        let stream = connection.open().await.map_err(|why| why.to_string())?;
        (&stream).write_all(&speech::request(Kind::Datagrams, &to)).await.map_err(|why| why.to_string())?;
        let flow = flows.begin(stream.id().get())?;
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
                Some((datagram, _)) => flow.send(&datagram),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: u64, len: usize) -> Vec<u8> {
        [&id.to_be_bytes()[..], &vec![7; len]].concat()
    }

    fn inboxes() -> Inboxes {
        Inboxes::new(Arc::new(Semaphore::new(ALL_FLOWS_MAX)))
    }

    fn lengths(inbox: &mut mpsc::Receiver<Waiting>) -> Vec<usize> {
        std::iter::from_fn(|| inbox.try_recv().ok()).map(|(frame, _)| frame.len()).collect()
    }

    #[test]
    fn what_comes_before_its_flow_is_bounded_in_bytes_and_the_newest_is_kept() {
        let mut inboxes = inboxes();
        inboxes.hand_on(frame(1, 10));
        for _ in 0..100 {
            inboxes.hand_on(frame(2, 60_000));
            assert!(inboxes.early_bytes <= EARLY_BYTES, "{} bytes", inboxes.early_bytes);
        }
        inboxes.hand_on(frame(3, 20));
        let [(mut one, _place), (mut two, _places), (mut three, _others)] =
            [1, 2, 3].map(|id| inboxes.begin(id).unwrap());
        assert!(lengths(&mut one).is_empty(), "the oldest has made way");
        assert_eq!(lengths(&mut two), [NUMBER + 60_000; 4]);
        assert_eq!(lengths(&mut three), [NUMBER + 20]);
        assert_eq!((inboxes.early.len(), inboxes.early_bytes), (0, 0));
    }

    #[test]
    fn a_frame_that_is_longer_than_a_datagram_of_udp_goes_nowhere() {
        let mut inboxes = inboxes();
        inboxes.hand_on(frame(1, 2_000_000));
        assert_eq!(inboxes.early_bytes, 0);
        let (mut inbox, _place) = inboxes.begin(1).unwrap();
        inboxes.hand_on(frame(1, 65_508));
        inboxes.hand_on(frame(1, 65_507));
        assert_eq!(lengths(&mut inbox), [NUMBER + 65_507]);
    }

    #[test]
    fn flows_that_nobody_serves_hold_no_more_memory_than_there_is_for_all() {
        let mut inboxes = inboxes();
        let mut flows: Vec<_> = (0..3).map(|id| inboxes.begin(id).unwrap()).collect();
        for at in 0..1_000 {
            inboxes.hand_on(frame(at % 3, 50_000));
        }
        let held: usize = flows.iter_mut().flat_map(|(inbox, _)| lengths(inbox)).sum();
        assert!((INBOXES_BYTES - 60_000..=INBOXES_BYTES).contains(&held), "{held} bytes");
        inboxes.hand_on(frame(0, 50_000));
        assert_eq!(lengths(&mut flows[0].0), [NUMBER + 50_000], "what was read has made room");
    }

    #[test]
    fn a_server_has_a_limit_of_flows_for_each_connection_and_one_for_all() {
        let free = Arc::new(Semaphore::new(FLOWS_MAX + 1));
        let [mut one, mut two] = [(); 2].map(|()| Inboxes::new(free.clone()));
        let mut held: Vec<_> = (0..FLOWS_MAX as u64).map(|id| one.begin(id).unwrap()).collect();
        assert!(one.begin(1 << 20).unwrap_err().contains("512 flows"));
        held.push(two.begin(1).unwrap());
        assert!(two.begin(2).unwrap_err().contains("as there may be"));
        held.pop();
        assert!(two.begin(2).is_ok(), "a flow that ends makes room for another");
    }
}
