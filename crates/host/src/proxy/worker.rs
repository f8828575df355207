//! A thread with a runtime of its own: its connections never leave it, and its buffers stay in its core's cache.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle as Task;

use super::Shared;
use super::session::Session;
use super::wire::pipes::{self, Pipe};
use crate::error::{During, Error};

/// A thread that serves connections.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: UnboundedSender<Command>,
    thread: JoinHandle<()>,
    asked: u64,
    answered: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Command {
    AcceptFrom(u64, TcpListener, OwnedFd),
    /// Says when it is done.
    Close(u64, SyncSender<()>),
    Answer,
    Stop,
}

/// Names that a worker resolves and files that it reads or writes at the same time; others wait.
const BLOCKING_MAX: usize = 64;
/// The time that a worker has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after the machine refused a descriptor, until the next is asked for.
const PAUSE: Duration = Duration::from_millis(100);

impl Worker {
    /// `pipes` are its own from now on.
    pub(crate) fn start(index: usize, shared: Arc<Shared>, pipes: Vec<Pipe>) -> Result<Worker, Error> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_MAX)
            .build()
            .during(|| "start a worker")?;
        let (commands, received) = unbounded_channel();
        let answered = Arc::new(AtomicU64::new(0));
        let answers = answered.clone();
        let body = move || {
            pipes::stock(pipes);
            runtime.block_on(obey(received, &shared, &answers));
            // Connections that are left are reset when they are dropped. Whoever still resolves a name is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(format!("proxy-{index}")).spawn(body).during(|| "start a worker")?;
        Ok(Worker { commands, thread, asked: 0, answered })
    }

    /// True if it has answered since it was asked last. Asks again.
    pub(crate) fn responds(&mut self) -> bool {
        let has_answered = self.answered.load(Ordering::Relaxed) == self.asked;
        if has_answered {
            self.asked += 1;
            self.command(Command::Answer);
        }
        has_answered
    }

    /// `spare` is the first of its [`reserve`]s.
    pub(crate) fn accept_from(&self, id: u64, socket: TcpListener, spare: OwnedFd) {
        self.command(Command::AcceptFrom(id, socket, spare));
    }

    /// Closes its share of a listening socket, and waits for that.
    pub(crate) fn close(&self, id: u64) {
        let (done, is_done) = sync_channel(1);
        self.command(Command::Close(id, done));
        // A worker that does not answer has panicked, or is held up by the disk: its socket closes when it goes on.
        let _ = is_done.recv_timeout(PATIENCE);
    }

    pub(crate) fn stop(self) {
        self.command(Command::Stop);
        if let Err(panicked) = self.thread.join() {
            std::panic::resume_unwind(panicked);
        }
    }

    fn command(&self, command: Command) {
        // A worker that has panicked says so when it is joined.
        let _ = self.commands.send(command);
    }
}

async fn obey(mut commands: UnboundedReceiver<Command>, shared: &Arc<Shared>, answered: &AtomicU64) {
    let mut accepting: BTreeMap<u64, Task<()>> = BTreeMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::AcceptFrom(id, socket, spare) => match tokio::net::TcpListener::from_std(socket) {
                Ok(socket) => {
                    accepting.insert(id, tokio::spawn(accept(shared.clone(), id, socket, spare)));
                }
                Err(error) => shared.say(&format!("a worker cannot accept connections: {error}")),
            },
            Command::Close(id, done) => {
                if let Some(task) = accepting.remove(&id) {
                    task.abort();
                    // It has ended as it was told to.
                    let _ = task.await;
                }
                let _ = done.send(());
            }
            Command::Answer => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Command::Stop => return,
        }
    }
}

/// Opens a descriptor that keeps the place of another. A connection takes two: one that was accepted without the second
/// could only be refused, while one that was not waits in the kernel until there are two.
pub(crate) fn reserve() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?)
}

async fn accept(shared: Arc<Shared>, id: u64, socket: tokio::net::TcpListener, spare: OwnedFd) {
    let mut has_said = false;
    let mut spare = Some(spare);
    loop {
        let reserved = spare.take().map_or_else(reserve, Ok);
        let accepted = match reserved {
            Ok(descriptor) => {
                spare = Some(descriptor);
                socket.accept().await
            }
            Err(error) => Err(error),
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                // Out of descriptors or memory: at once again would be refused again, and take all of the processor.
                if !has_said {
                    shared.say(&format!("no connection can be accepted, trying again until one can: {error}"));
                    has_said = true;
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        has_said = false;
        let place = shared.places.clone().try_acquire_owned().ok();
        let rules = shared.rules();
        let Some(listener) = rules.listeners.get(&id).cloned() else { return };
        let session = Session { shared: shared.clone(), config: rules.config.clone(), listener, peer };
        let spare = spare.take();
        tokio::spawn(async move {
            let place = match place {
                Some(place) => Some(place),
                None => session.place().await,
            };
            match place {
                Some(_place) => session.serve(stream, spare).await,
                None => session.refuse(stream).await,
            }
        });
    }
}

/// accept(2): errors that the network has with one connection, and that are passed to whoever accepts it.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
    };
    let kinds = [ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::EPROTO)
}

/// Takes `count` places out of use as they come free.
pub(crate) fn retire(places: Arc<Semaphore>, count: u32) {
    let Ok(runtime) = Builder::new_current_thread().build() else { return };
    if let Ok(taken) = runtime.block_on(places.acquire_many(count)) {
        taken.forget();
    }
}
