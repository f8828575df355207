//! Flows through headend's own sockets (`headend_socket`): both ends real, each with an endpoint in the namespace of its host.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration as StdDuration;

use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;
use headend_scenario::results::{CircuitRow, FlowRow};
use headend_scenario::{Flow, Opening, Socket, Talk};
use headend_socket::{Allow, Config, Connection, Endpoint, Identity, PublicKey, Snapshot};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::between::Between;
use super::stage::{Presence, Stage};

/// The time between two looks at whether the run has stopped, and at the window.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(5);
/// Bytes that are read or written at a time.
const CHUNK: usize = 1 << 16;

/// One instance of a flow through a reliable socket.
#[derive(Debug)]
pub(super) struct SocketFlow {
    pub(super) flow: Flow,
    socket: Socket,
    opening: Opening,
    pub(super) instance: u32,
    /// The port at which the receiving end listens; nobody else's in this run.
    pub(super) port: u16,
    /// The time of its start, counted from the beginning of the run.
    pub(super) start: Duration,
    /// Each end's own: the sender's, and the receiver's.
    identities: [Identity; 2],
    read: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time at which the last byte was read.
    transferred: Option<Time>,
    /// The time at which the sender knew of it.
    acked: Option<Time>,
    /// What the sender said of its connection last.
    last: Option<Snapshot>,
    window_max: Bytes,
    fault: Option<(Time, String)>,
}

/// What headend's sockets do otherwise than a flow's `socket` says; `None` if it has none.
pub(super) fn otherwise(flow: &Flow) -> Option<String> {
    flow.kind.transfer()?.socket()?;
    let text = "is `headend_socket`, with the controller that it names: lost datagrams are the signal and not header packets, so that \
                its other fields, and the hosts' TCPs, do not matter";
    Some(text.to_owned())
}

/// The two ends, as indices.
pub(super) const SENDER: usize = 0;
pub(super) const RECEIVER: usize = 1;

/// Why an end came to no good.
enum Trouble {
    /// Its connection failed: a result.
    Flow(String),
    /// The machine refused what every run needs.
    Machine(io::Error),
}

impl From<headend_socket::Ended> for Trouble {
    fn from(ended: headend_socket::Ended) -> Trouble {
        Trouble::Flow(ended.to_string())
    }
}

impl SocketFlow {
    /// `None` if the flow does not go through a socket.
    pub(super) fn of(flow: &Flow, instance: u32, port: u16, start: Duration) -> Option<SocketFlow> {
        let Talk::Push { opening, socket: Some(socket), .. } = &flow.kind.transfer()?.talk else { return None };
        Some(SocketFlow {
            flow: flow.clone(),
            socket: socket.clone(),
            opening: *opening,
            instance,
            port,
            start,
            identities: [Identity::generate(), Identity::generate()],
            read: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// The nodes of the sender and the receiver.
    pub(super) fn nodes(&self) -> [usize; 2] {
        [self.flow.from, self.flow.to]
    }

    /// Plays one end in the namespace of the calling thread, until it is over or the run is. `addresses` are the sender's and the
    /// receiver's.
    pub(super) fn play(&self, end: usize, addresses: [Ipv4Addr; 2], stage: &Stage) {
        let presence = stage.enter();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let played = match runtime {
            Ok(runtime) => runtime.block_on(async {
                match end {
                    SENDER => self.send(addresses, stage, &presence).await,
                    _ => self.receive(addresses[RECEIVER], stage, &presence).await,
                }
            }),
            Err(error) => Err(Trouble::Machine(error)),
        };
        match played {
            Ok(()) => {}
            Err(Trouble::Flow(_)) if stage.has_stopped() => {}
            Err(Trouble::Flow(why)) => drop(self.lock().fault.get_or_insert((stage.now(), why))),
            Err(Trouble::Machine(why)) => {
                let end = if end == SENDER { "sender" } else { "receiver" };
                stage.fail(format!("flows.{}, instance {}, its {end}: {why}", self.flow.name, self.instance));
            }
        }
    }

    fn config(&self) -> Config {
        Config { controller: self.socket.tcp.personality.controller.clone(), ..Config::default() }
    }

    fn identity(&self, end: usize) -> Identity {
        self.identities[end].clone()
    }

    async fn send(&self, addresses: [Ipv4Addr; 2], stage: &Stage, presence: &Presence<'_>) -> Result<(), Trouble> {
        let own = SocketAddr::new(addresses[SENDER].into(), 0);
        let endpoint = Endpoint::client(own, self.identity(SENDER), self.config()).map_err(Trouble::Machine)?;
        let to = SocketAddr::new(addresses[RECEIVER].into(), self.port);
        let peer: PublicKey = self.identities[RECEIVER].public();
        let early = match self.opening {
            Opening::Beforehand => until_stop(stage, endpoint.connect(to, &peer)).await.transpose()?,
            Opening::BySender => None,
        };
        let Some(begun) = presence.ready() else { return Ok(()) };
        let wait = (begun + self.start).since(stage.now());
        if until_stop(stage, tokio::time::sleep(StdDuration::from_nanos(wait.as_nanos()))).await.is_none() {
            return Ok(());
        }
        let connection = match early {
            Some(connection) => connection,
            None => match until_stop(stage, endpoint.connect(to, &peer)).await {
                Some(connected) => connected?,
                None => return Ok(()),
            },
        };
        let sent = tokio::select! {
            sent = self.write(&connection) => Some(sent),
            () = self.watch(&connection, stage) => None,
        };
        self.look(&connection);
        match sent {
            Some(Ok(())) => self.lock().acked = Some(stage.now()),
            Some(Err(error)) => return Err(Trouble::Flow(error.to_string())),
            None => {}
        }
        endpoint.close(0, "the flow is over");
        // The other end is told, if it hears.
        let _ = tokio::time::timeout(LOOK_EVERY * 10, endpoint.closed()).await;
        Ok(())
    }

    /// Writes all of the flow's data and waits until they have been acknowledged.
    async fn write(&self, connection: &Connection) -> io::Result<()> {
        let mut stream = connection.open().await.map_err(io::Error::other)?;
        let zeros = vec![0; CHUNK];
        let mut left = self.flow.bytes().map_or(u64::MAX, Bytes::get);
        while left > 0 {
            let len = zeros.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            stream.write_all(&zeros[..len]).await?;
            left = if self.flow.bytes().is_some() { left - len as u64 } else { left };
        }
        stream.shutdown().await?;
        stream.sent().await
    }

    async fn receive(&self, own: Ipv4Addr, stage: &Stage, presence: &Presence<'_>) -> Result<(), Trouble> {
        let own = SocketAddr::new(own.into(), self.port);
        let allow: Allow = Box::new({
            let known = self.identities[SENDER].public();
            move |key: &PublicKey| *key == known
        });
        let endpoint =
            Endpoint::server(own, self.identity(RECEIVER), allow, self.config()).map_err(Trouble::Machine)?;
        let early = match self.opening {
            Opening::Beforehand => until_stop(stage, endpoint.accept()).await.flatten(),
            Opening::BySender => None,
        };
        if presence.ready().is_none() {
            return Ok(());
        }
        let read = async {
            let connection = match early {
                Some(connection) => Some(connection),
                None => endpoint.accept().await,
            };
            let Some(connection) = connection else { return Ok(()) };
            let mut stream = connection.accept().await?;
            let mut buffer = vec![0; CHUNK];
            loop {
                let len = stream.read(&mut buffer).await.map_err(|error| Trouble::Flow(error.to_string()))?;
                if stage.has_stopped() {
                    return Ok(());
                }
                if len == 0 {
                    break;
                }
                self.read.fetch_add(len as u64, Ordering::Relaxed);
                if self.flow.bytes() == Some(self.delivered()) {
                    self.lock().transferred.get_or_insert(stage.now());
                }
            }
            // The sender closes when it knows of all.
            connection.ended().await;
            Ok(())
        };
        until_stop(stage, read).await.unwrap_or(Ok(()))
    }

    /// Bytes that the receiver has read.
    fn delivered(&self) -> Bytes {
        Bytes::new(self.read.load(Ordering::Relaxed))
    }

    /// Notes the window now and then until the run stops.
    async fn watch(&self, connection: &Connection, stage: &Stage) {
        while !stage.has_stopped() {
            self.look(connection);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn look(&self, connection: &Connection) {
        if let Some((_, _, snapshot)) = connection.look() {
            let mut state = self.lock();
            state.window_max = state.window_max.max(snapshot.window);
            state.last = Some(snapshot);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while it notes what became of a flow")
    }

    /// Its row in the table of flows, with what was seen between its hosts until the run's end at `ended`.
    pub(super) fn row(&self, between: &Between, begun: Time, ended: Time) -> FlowRow {
        let state = self.lock();
        let since_start = |at: Time| at.since(begun + self.start).as_nanos();
        let transferred = state.transferred.map(since_start);
        let failed = state.fault.as_ref().map(|(at, _)| since_start(*at));
        let delivered = self.delivered();
        let counts = state.last;
        FlowRow {
            flow: self.flow.name.clone(),
            instance: u64::from(self.instance),
            bytes: self.flow.bytes().unwrap_or(delivered).get(),
            start_ns: self.start.as_nanos(),
            transfer_ns: transferred,
            acked_ns: state.acked.map(since_start).filter(|_| transferred.is_some()),
            active_ns: transferred.or(failed).unwrap_or_else(|| since_start(ended)),
            delivered_bytes: delivered.get(),
            wire_bytes: between.wire_bytes(),
            timeouts: counts.as_ref().map_or(0, |it| it.probes),
            fast_retransmits: counts.as_ref().map_or(0, |it| it.reductions),
            segments_sent: counts.as_ref().map_or(0, |it| it.sent),
            retransmits: counts.as_ref().map_or(0, |it| it.lost),
            cwnd_max_bytes: state.window_max.get(),
            fault: state.fault.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            ..FlowRow::default()
        }
    }

    /// Its row in the table of circuits, called as the simulator calls it.
    pub(super) fn circuit(&self, between: &Between) -> CircuitRow {
        let counts = self.lock().last;
        let name = format!("{}/{}", self.flow.name, self.instance);
        CircuitRow {
            circuit: name.as_str().into(),
            timeouts: counts.as_ref().map_or(0, |it| it.probes),
            fast_retransmits: counts.as_ref().map_or(0, |it| it.reductions),
            datagrams_lost: counts.as_ref().map_or(0, |it| it.lost),
            sent_bytes: between.wire_bytes(),
            answered_bytes: between.wire_bytes_back(),
            ..CircuitRow::default()
        }
    }
}

/// What `work` yields, unless the run stops first.
async fn until_stop<T>(stage: &Stage, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        while !stage.has_stopped() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        done = work => Some(done),
        () = stopped => None,
    }
}
