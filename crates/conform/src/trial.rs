//! A trial of a proxy: a thread of clients and a thread of the server, schedules between them, a matrix at the end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::behaviour::Behaviour;
use super::entrance::{Entrance, WayIn};
use super::introduction::HeaderVersion;
use super::matrix::Matrix;
use super::origin::Origin;
use super::place::SocketPlace;
use super::runner::Runner;
use super::tcp_memory::TcpMemory;

/// A trial of a proxy, as it is asked for.
#[derive(Debug)]
pub struct Trial {
    /// The address at which clients connect, and the way in which they tell the proxy where they want to go.
    pub entrance: Entrance,
    /// The address at which the server listens, as the proxy is to reach it. At port 0 there is a port for each job;
    /// [`WayIn::Forward`] needs the one port that the proxy connects to.
    pub origin: SocketAddr,
    /// The version of the PROXY header with which the proxy must tell the server who the client is, if it must.
    pub expected_header: Option<HeaderVersion>,
    /// The place of the clients' sockets.
    pub clients_place: SocketPlace,
    /// The place of the server's sockets.
    pub origin_place: SocketPlace,
    /// The seeds of the schedules to run; see [`Behaviour::seeds`].
    pub schedules: Vec<u64>,
    /// Names of faults that are no failure.
    pub allowed: Vec<String>,
    /// The most schedules that run at a time.
    pub jobs: usize,
    /// The time without any movement after which a schedule is stuck; longer than [`PAUSE_MAX`].
    pub patience: Duration,
    /// The most bytes that may be on the way to a reader that has stopped reading; with more its sender is not held back.
    pub held_bytes_max: u64,
}

/// The results of a trial.
#[derive(Debug)]
pub struct Report {
    /// The counts of the schedules that were run, which are fewer than were asked for if the trial was ended early.
    pub matrix: Matrix,
    /// The time that the trial took.
    pub elapsed: Duration,
    /// The memory that the machine's sockets took meanwhile.
    pub tcp_memory: TcpMemory,
}

/// Why a trial could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's thread could not listen.
    #[error("listen at {address}: {source}{}", expected(.source))]
    Listen {
        /// The address at which it should have listened.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Nobody listens at the proxy's address.
    #[error("{proxy}: {source}; expected a proxy that listens there")]
    NoProxy {
        /// The address.
        proxy: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The clients' thread could not be moved to its place.
    #[error("enter the clients' namespace: {0}")]
    SocketPlace(io::Error),
}

fn expected(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => "; expected an address of this machine, or of the server's namespace",
        io::ErrorKind::AddrInUse => "; expected a port at which no other process listens, ss -ltnp names it",
        _ => "",
    }
}

/// The longest that a schedule pauses: shorter than anybody's patience.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The number of schedules after which a trial ends if none of them got a connection.
const HOPELESS_AFTER: u64 = 64;
/// The time after which it ends for the same reason, because each connection that never arrives is waited for.
const HOPELESS_TIME: Duration = Duration::from_secs(30);
/// The time between two looks at whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Trial {
    /// Runs the schedules, until all are done, or no connection gets through, or `look` breaks. `look` is called about five
    /// times a second with the counts so far.
    pub fn run(self, look: &mut dyn FnMut(&Matrix) -> ControlFlow<()>) -> Result<Report, Error> {
        let asked = self.schedules.len() as u64;
        let jobs = self.jobs.min(self.schedules.len().max(1));
        // In the way `forward` there is one server for all.
        let gates = if self.entrance.way == WayIn::Forward { 1 } else { jobs };
        let origin = Origin::start(self.origin, gates, self.origin_place, self.expected_header)
            .map_err(|source| Error::Listen { address: self.origin, source })?;
        let runner = Runner {
            suite: Behaviour::suite(&self.entrance),
            entrance: self.entrance,
            orders: origin.orders,
            gates: origin.gates.into_iter().map(|gate| (gate, Mutex::new(()))).collect(),
            refusing: origin.refusing,
            patience: self.patience,
            held_bytes_max: self.held_bytes_max,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (verdicts, received) = mpsc::channel();
        let begin = Instant::now();
        let clients = {
            let (stop, place, schedules) = (stop.clone(), self.clients_place, self.schedules);
            thread::spawn(move || {
                place.enter().map_err(Error::SocketPlace)?;
                find_proxy(&runner.entrance, runner.patience)?;
                runner.run(jobs, schedules, stop, verdicts);
                Ok(())
            })
        };
        let mut matrix = Matrix::new(self.allowed);
        let mut tcp_memory = TcpMemory::new();
        let mut looked: Option<Instant> = None;
        loop {
            match received.recv_timeout(LOOK_EVERY) {
                Ok(verdict) => matrix.note(verdict),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let has_waited = matrix.done() >= HOPELESS_AFTER.min(asked) || begin.elapsed() >= HOPELESS_TIME;
            if has_waited && matrix.without_any_connection().is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            if looked.is_none_or(|last| last.elapsed() >= LOOK_EVERY) {
                looked = Some(Instant::now());
                tcp_memory.look();
                if look(&matrix).is_break() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        let ran = clients.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        origin.thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
        ran.map(|()| Report { matrix, elapsed: begin.elapsed(), tcp_memory })
    }
}

/// Makes sure that somebody listens at the proxy's address, where a connection that says nothing goes no further. A proxy
/// that connects on at once would give the server one connection more than it expects.
fn find_proxy(entrance: &Entrance, patience: Duration) -> Result<(), Error> {
    let is_asked = matches!(entrance.way, WayIn::Http | WayIn::Absolute | WayIn::Socks5);
    match entrance.proxy {
        Some(proxy) if is_asked => {
            TcpStream::connect_timeout(&proxy, patience).map(drop).map_err(|source| Error::NoProxy { proxy, source })
        }
        _ => Ok(()),
    }
}
