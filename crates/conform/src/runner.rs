//! Runs schedules: makes their connections, has both ends play, and judges.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time;

use super::behaviour::Behaviour;
use super::entrance::{Connected, Entrance, NoConnection, WayIn};
use super::exchange::Exchange;
use super::fault::Fault;
use super::introduction::{self, Introduction};
use super::judge;
use super::matrix::Verdict;
use super::origin::{Order, TOKEN_BYTES};
use super::outcome::Outcome;
use super::pattern::Pattern;
use super::place;
use super::player::{self, Begin};
use super::role::Role;
use super::schedule::{ConnectionPlan, Last, Schedule};
use super::socket;
use super::speech::Names;

/// Everything that the schedules have in common.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) entrance: Entrance,
    /// The behaviours that schedules are about.
    pub(crate) suite: Vec<Behaviour>,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    /// A listener each; whoever makes a connection holds it until that has arrived.
    pub(crate) gates: Vec<(SocketAddr, Mutex<()>)>,
    pub(crate) refusing: SocketAddr,
    /// A schedule on which nothing moves for so long is stuck.
    pub(crate) patience: Duration,
    pub(crate) held_bytes_max: u64,
}

/// The time between two looks at whether anything moves.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Runner {
    /// Runs `schedules` with so many jobs at a time, until all are done or `stop` is set.
    pub(crate) fn run(
        self,
        jobs: usize,
        schedules: Vec<u64>,
        stop: Arc<AtomicBool>,
        verdicts: std_mpsc::Sender<Verdict>,
    ) {
        let runtime = place::runtime();
        let runner = Rc::new(self);
        let next = Rc::new(Cell::new(0));
        let schedules = Rc::new(schedules);
        LocalSet::new().block_on(&runtime, async {
            let job = |slot: usize| {
                let (runner, next, schedules) = (runner.clone(), next.clone(), schedules.clone());
                let (stop, verdicts) = (stop.clone(), verdicts.clone());
                async move {
                    while let Some(&seed) = schedules.get(next.replace(next.get() + 1)) {
                        let verdict = tokio::select! {
                            biased;
                            () = set(&stop) => return,
                            verdict = runner.schedule(slot % runner.gates.len(), seed) => verdict,
                        };
                        // The receiver goes only once it has what it wants.
                        if verdicts.send(verdict).is_err() {
                            return;
                        }
                    }
                }
            };
            let jobs: Vec<_> = (0..jobs).map(job).collect();
            join_all(jobs).await;
        });
    }

    async fn schedule(self: &Rc<Self>, gate: usize, seed: u64) -> Verdict {
        let plan = Arc::new(Schedule::new(seed, &self.suite, self.entrance.way == WayIn::Absolute));
        let behaviour = plan.behaviour;
        let faults = match behaviour {
            _ if !behaviour.applies_to(&self.entrance) => None,
            Behaviour::Refused => Some(self.refused(seed).await),
            Behaviour::WrongHeader => Some(self.wrong_header(gate, seed).await),
            _ => Some(self.play(gate, &plan).await),
        };
        Verdict { seed, behaviour, faults }
    }

    async fn play(self: &Rc<Self>, gate: usize, plan: &Arc<Schedule>) -> Vec<Fault> {
        let count = plan.connections.len();
        let exchanges: Vec<Arc<Exchange>> =
            (0..count).map(|index| Arc::new(Exchange::new(plan.seed, index, count, self.held_bytes_max))).collect();
        let mut calls: Vec<Option<Call>> = Vec::new();
        let mut faults = Vec::new();
        for (exchange, connection) in exchanges.iter().zip(&plan.connections) {
            let stalled = &exchanges[0];
            if connection.waits && self.unless_stuck(&exchanges, stalled.held.given()).await.is_none() {
                break;
            }
            let mut kept = None;
            if connection.follows
                && let Some(Some(before)) = calls.last_mut()
            {
                if self.unless_stuck(&exchanges, before.outcomes()).await.is_none() {
                    break;
                }
                kept = before.kept.take();
            }
            match self.open(gate, plan, exchange.clone(), kept).await {
                Ok(call) => calls.push(call),
                Err(fault) if connection.waits => {
                    // It is the stalled one's doing only if such a connection gets through without it.
                    stalled.released.give();
                    let again = Arc::new(Exchange::new(plan.seed, exchange.connection, count, self.held_bytes_max));
                    let opened = self.open(gate, plan, again.clone(), None).await;
                    again.abort.give();
                    faults.push(match opened {
                        Ok(call) => {
                            if let Some(mut call) = call {
                                call.outcomes().await;
                            }
                            Fault::new("other-connection-blocked", fault.detail)
                        }
                        Err(_) => fault,
                    });
                    break;
                }
                Err(fault) => {
                    faults.push(fault);
                    break;
                }
            }
            if connection.waits {
                if let Some(call) = calls.last_mut().and_then(Option::as_mut)
                    && self.unless_stuck(&exchanges, call.outcomes()).await.is_none()
                {
                    stalled.released.give();
                    // If it is stuck all the same, what its ends had seen tells where.
                    if self.unless_stuck(&exchanges, call.outcomes()).await.is_some() {
                        let detail = "the connection beside the stalled one did not end before that read on";
                        faults.push(Fault::new("other-connection-blocked", detail));
                    }
                } else if self.unless_stuck(&exchanges, stalled.other_way.given()).await.is_none() {
                    let detail = "the bytes that the stalled reader wrote did not arrive";
                    faults.push(Fault::new("other-direction-blocked", detail));
                }
                stalled.released.give();
            }
        }
        if calls.len() == count {
            let all = async {
                for call in calls.iter_mut().flatten() {
                    call.outcomes().await;
                }
            };
            // If it is stuck, what its ends had seen tells where.
            let _ = self.unless_stuck(&exchanges, all).await;
        }
        for exchange in &exchanges {
            exchange.abort.give();
        }
        for ((call, connection), exchange) in calls.into_iter().zip(&plan.connections).zip(&exchanges) {
            // One that never arrived at the server has nothing to be judged by.
            let Some(mut call) = call else { continue };
            call.outcomes().await;
            if let (Some(client), Some(server)) = (&call.client_saw, &call.server_saw)
                && faults.is_empty()
            {
                faults = judge::judge(connection, client, server);
                if let (Some(told), Some((named, own))) = (&server.told, exchange.client.get()) {
                    faults.extend(told.judge(*named, *own));
                }
            }
        }
        faults
    }

    /// Makes a connection through the proxy, or goes on with one, and has both its ends play. None if it never arrived, and
    /// need not.
    async fn open(
        self: &Rc<Self>,
        gate: usize,
        plan: &Arc<Schedule>,
        exchange: Arc<Exchange>,
        kept: Option<TcpStream>,
    ) -> Result<Option<Call>, Fault> {
        let (server, lock) = &self.gates[gate];
        let lock = lock.lock().await;
        let connection: &ConnectionPlan = &plan.connections[exchange.connection];
        let mut early = vec![0; connection.early];
        Pattern::new(plan.seed, exchange.connection, Role::Client as usize).fill(0, &mut early);
        let ((accepted, arrived), (done, server_done)) = (oneshot::channel(), oneshot::channel());
        let order = Order::Play { gate, plan: plan.clone(), exchange: exchange.clone(), accepted, done };
        self.orders.send(order).expect("the server's thread outlives this one");
        let in_pieces = plan.behaviour == Behaviour::HeaderInPieces;
        let is_kept = kept.is_some();
        let introduction = self.introduction(plan.seed, exchange.connection, in_pieces).filter(|_| !is_kept);
        let connected = match kept {
            Some(stream) => Ok(Ok(Connected { stream, came: Vec::new(), first: Vec::new() })),
            None => {
                let connecting = self.entrance.connect(*server, &early, introduction.as_ref());
                time::timeout(self.patience, connecting).await
            }
        };
        let fault = |detail: String| Fault::new("no-connection", detail);
        let failed = match connected {
            Ok(Ok(Connected { stream, came, first })) => {
                let named = introduction.and_then(|introduction| introduction.client);
                if let Ok(own) = stream.local_addr() {
                    // Nobody else sets it.
                    let _ = exchange.client.set((named, own));
                }
                let server = server.to_string();
                let names = || Names { server, authorization: self.entrance.authorization() };
                let dialogue = connection.dialogue.map(|dialogue| (dialogue, names()));
                let begin = Begin { early: connection.early, came, first, dialogue, ..Begin::default() };
                let client = self.client(plan.clone(), exchange.clone(), stream, begin);
                let may_never_arrive = plan.behaviour.may_never_arrive(self.entrance.way);
                let patience = may_never_arrive.unwrap_or(self.patience).min(self.patience);
                if let Ok(Ok(())) = time::timeout(patience, arrived).await {
                    return Ok(Some(Call::new(client, server_done)));
                }
                exchange.abort.give();
                let refused = client.await.ok().and_then(|(outcome, _)| outcome.refused);
                match refused {
                    _ if may_never_arrive.is_some() => None,
                    Some(answer) => Some(fault(format!("the proxy answered {answer:?}"))),
                    None if is_kept => {
                        let detail = "the answer before did not say close, and the next request reached no server";
                        Some(fault(detail.to_owned()))
                    }
                    None => Some(fault("no connection arrived at the server".to_owned())),
                }
            }
            // A server that resets may do so before the client's side of the connection is complete: then the client sees
            // the reset, or a refusal, and in both cases no clean connection.
            Ok(Err(NoConnection::Reset | NoConnection::Answered(_))) if connection.server.last == Last::Reset => {
                match self.unless_stuck(slice::from_ref(&exchange), arrived).await {
                    Some(Ok(())) => None,
                    _ => Some(fault("no connection arrived at the server".to_owned())),
                }
            }
            Ok(Err(NoConnection::Answered(answer))) => Some(fault(format!("the proxy refused: {answer}"))),
            Ok(Err(NoConnection::Reset)) => Some(fault("the connection was reset".to_owned())),
            Ok(Err(NoConnection::Failed(reason))) => Some(fault(reason)),
            Err(_) => Some(fault(format!("no answer from the proxy for {:?}", self.patience))),
        };
        exchange.abort.give();
        // Nobody waits for a connection at this listener any more; one that comes nevertheless is none of the next schedule's.
        let _ = server_done.await;
        if self.entrance.way != WayIn::Absolute {
            // There, requests tell connections apart.
            self.flush(gate, plan.seed).await;
        }
        drop(lock);
        failed.map_or(Ok(None), Err)
    }

    fn client(
        &self,
        plan: Arc<Schedule>,
        exchange: Arc<Exchange>,
        stream: TcpStream,
        begin: Begin,
    ) -> JoinHandle<(Outcome, Option<TcpStream>)> {
        tokio::task::spawn_local(async move {
            let connection = &plan.connections[exchange.connection];
            player::play(stream, begin, &connection.client, Role::Client, &exchange).await
        })
    }

    /// Sends a connection that can be told from all others, and waits until it has arrived.
    async fn flush(&self, gate: usize, seed: u64) {
        let mut token = [0; TOKEN_BYTES];
        Pattern::new(seed, usize::MAX / 4, 0).fill(0, &mut token);
        let (done, arrived) = oneshot::channel();
        self.orders.send(Order::Flush { gate, token, done }).expect("the server's thread outlives this one");
        let through = async {
            let introduction = self.introduction(seed, usize::MAX / 4, false);
            let Connected { stream, .. } =
                self.entrance.connect(self.gates[gate].0, &[], introduction.as_ref()).await.ok()?;
            stream.writable().await.ok()?;
            stream.try_write(&token).ok()?;
            arrived.await.ok()
        };
        // A proxy that does not get even this through fails the next schedule as well.
        let _ = time::timeout(self.patience, through).await;
    }

    fn introduction(&self, seed: u64, connection: usize, in_pieces: bool) -> Option<Introduction> {
        self.entrance.introduces.map(|version| Introduction::new(seed, connection, version, in_pieces))
    }

    /// A connection that begins with no header where the proxy wants one.
    async fn wrong_header(&self, gate: usize, seed: u64) -> Vec<Fault> {
        let (server, lock) = &self.gates[gate];
        let _lock = lock.lock().await;
        let at = self.entrance.proxy.unwrap_or(*server);
        let begin = introduction::wrong(seed);
        let given_up = async {
            let stream = TcpStream::connect(at).await?;
            socket::write_all(&stream, &begin).await?;
            let mut came = Vec::new();
            // It may say why first.
            while socket::read_some(&stream, &mut came, 4_096).await? > 0 {}
            Ok::<(), std::io::Error>(())
        };
        let faults = match time::timeout(self.patience, given_up).await {
            Ok(Err(error))
                if matches!(NoConnection::from(std::io::Error::from(error.kind())), NoConnection::Failed(_)) =>
            {
                vec![Fault::new("no-connection", format!("connect to {at}: {error}"))]
            }
            Ok(_) => Vec::new(),
            Err(_) => {
                let detail = format!("{:?} was not given up", String::from_utf8_lossy(&begin));
                vec![Fault::new("header-not-refused", detail)]
            }
        };
        if !faults.is_empty() && self.entrance.way != WayIn::Absolute {
            self.flush(gate, seed).await;
        }
        faults
    }

    /// A connection to where nobody listens.
    async fn refused(&self, seed: u64) -> Vec<Fault> {
        let fault = |name: &'static str, detail: &str| vec![Fault::new(name, detail)];
        let introduction = self.introduction(seed, 0, false);
        let connecting = async {
            match self.entrance.way {
                WayIn::Absolute => Err(self.entrance.ask_absolute(self.refusing, introduction.as_ref()).await),
                _ => self.entrance.connect(self.refusing, &[], introduction.as_ref()).await,
            }
        };
        let stream = match time::timeout(self.patience, connecting).await {
            Err(_) => return fault("refusal-not-passed", "no answer from the proxy"),
            Ok(Err(NoConnection::Answered(_))) => return Vec::new(),
            // Where the proxy does not speak, the connection itself is refused.
            Ok(Err(NoConnection::Failed(_) | NoConnection::Reset)) if self.entrance.proxy.is_none() => {
                return Vec::new();
            }
            // A proxy that speaks is to say why.
            Ok(Err(NoConnection::Reset)) => {
                return fault("refusal-not-passed", "the connection was reset without an answer");
            }
            Ok(Err(NoConnection::Failed(reason))) => return fault("refusal-not-passed", &reason),
            Ok(Ok(_)) if self.entrance.proxy.is_some() => {
                return fault("refusal-not-passed", "the proxy said that it was connected");
            }
            Ok(Ok(connected)) => connected.stream,
        };
        let mut came = Vec::new();
        match time::timeout(self.patience, socket::read_some(&stream, &mut came, 1)).await {
            Err(_) => fault("refusal-not-passed", "the connection stayed open"),
            Ok(Ok(0)) => fault("refusal-became-end", "the connection ended properly"),
            Ok(Ok(_)) => fault("bytes-changed", "bytes came from a server that is not there"),
            Ok(Err(_)) => Vec::new(),
        }
    }

    /// Waits for `what`, for as long as anything moves.
    async fn unless_stuck<T>(&self, exchanges: &[Arc<Exchange>], what: impl Future<Output = T>) -> Option<T> {
        let stuck = async {
            let progress = || exchanges.iter().map(|exchange| exchange.progress()).sum::<u64>();
            let mut before = progress();
            let mut still = Duration::ZERO;
            while still < self.patience {
                time::sleep(LOOK_EVERY).await;
                let now = progress();
                still = if now == before { still + LOOK_EVERY } else { Duration::ZERO };
                before = now;
            }
        };
        tokio::select! {
            biased;
            done = what => Some(done),
            () = stuck => None,
        }
    }
}

/// A connection whose ends play.
#[derive(Debug)]
struct Call {
    client: Option<JoinHandle<(Outcome, Option<TcpStream>)>>,
    server: Option<oneshot::Receiver<Outcome>>,
    client_saw: Option<Outcome>,
    server_saw: Option<Outcome>,
    /// The client's connection, if it may be used again.
    kept: Option<TcpStream>,
}

impl Call {
    fn new(client: JoinHandle<(Outcome, Option<TcpStream>)>, server: oneshot::Receiver<Outcome>) -> Call {
        Call { client: Some(client), server: Some(server), client_saw: None, server_saw: None, kept: None }
    }

    /// Waits until both ends have left. Given up in between, it can be waited for again.
    async fn outcomes(&mut self) {
        if let Some(client) = &mut self.client {
            let (outcome, kept) = client.await.expect("an end that plays does not panic");
            (self.client_saw, self.kept) = (Some(outcome), kept);
            self.client = None;
        }
        if let Some(server) = &mut self.server {
            self.server_saw = server.await.ok();
            self.server = None;
        }
    }
}

/// Waits until `stop` is set.
async fn set(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        time::sleep(LOOK_EVERY).await;
    }
}

async fn join_all(futures: Vec<impl Future<Output = ()> + 'static>) {
    let tasks: Vec<JoinHandle<()>> = futures.into_iter().map(tokio::task::spawn_local).collect();
    for task in tasks {
        task.await.expect("a job does not panic");
    }
}
