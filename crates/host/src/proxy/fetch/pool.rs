//! Connections to servers that wait for their next request. Each worker has its own, and no two clients share one: what
//! request smuggling and answers to the wrong reader live on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use headend_engine::relay::Side;
use hyper::client::conn::http1::SendRequest;
use tokio::net::TcpStream;

use super::super::books::LegBytes;
use super::super::config::{Config, Limits};
use super::super::inbound::Destination;
use super::super::listen;
use super::body::Upload;
use super::leg::{Meter, MeterSlot};

/// For whom a connection to a server may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) destination: Destination,
    pub(super) client: IpAddr,
    pub(super) user: Option<Vec<u8>>,
    /// The client's connection, where the server is told of it.
    pub(super) connection: Option<SocketAddr>,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) sender: SendRequest<Upload>,
    pub(super) address: SocketAddr,
    pub(super) stream: Arc<TcpStream>,
    pub(super) meter: MeterSlot,
    pub(super) tcp: LegBytes,
}

impl Server {
    /// Begins to serve whoever `meter` is of: a reset until all of the answer has come.
    pub(super) fn begin(&mut self, meter: &Arc<Meter>) {
        listen::let_it_fail(&*self.stream);
        *self.meter.lock().unwrap_or_else(PoisonError::into_inner) = Some(meter.clone());
        meter.flow.take_socket(Side::Remote, std::mem::take(&mut self.tcp), self.stream.as_raw_fd());
    }

    /// The answer has come. Also called when it has not: the books are not to know of a socket that is closed.
    pub(super) fn end(&mut self) {
        let meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(meter) = meter {
            let _ = meter.books.sample(&meter.flow, Side::Remote);
            self.tcp = meter.flow.give_socket(Side::Remote);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

struct Waiting {
    key: Key,
    /// The rules under which it was opened.
    config: Arc<Config>,
    since: Instant,
    server: Server,
}

thread_local! {
    /// The oldest first.
    static POOL: RefCell<VecDeque<Waiting>> = const { RefCell::new(VecDeque::new()) };
    static IS_SWEPT: Cell<bool> = const { Cell::new(false) };
}

/// The time between two looks for those that have waited long enough.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The connection for `key` that was used last, if there is one that is still open.
pub(super) fn take(key: &Key, config: &Arc<Config>) -> Option<Server> {
    POOL.with_borrow_mut(|pool| {
        loop {
            let at = pool.iter().rposition(|one| one.key == *key && Arc::ptr_eq(&one.config, config))?;
            let Waiting { server, .. } = pool.remove(at)?;
            if server.sender.is_ready() {
                return Some(server);
            }
        }
    })
}

/// Keeps a connection for its next request.
pub(super) fn put(key: Key, config: Arc<Config>, server: Server) {
    listen::let_it_end(&*server.stream);
    let limits = config.limits.clone();
    let share = (limits.pool / config.workers.get()).max(1);
    POOL.with_borrow_mut(|pool| {
        pool.retain(|one| one.server.sender.is_ready());
        let of_key = pool.iter().filter(|one| one.key == key).count();
        if of_key >= limits.pool_per_server
            && let Some(oldest) = pool.iter().position(|one| one.key == key)
        {
            pool.remove(oldest);
        }
        if pool.len() >= share {
            pool.pop_front();
        }
        pool.push_back(Waiting { key, config, since: Instant::now(), server });
    });
    if !IS_SWEPT.replace(true) {
        tokio::spawn(sweep(limits));
    }
}

/// Closes what has waited long enough, until nothing waits.
async fn sweep(limits: Limits) {
    loop {
        tokio::time::sleep(SWEEP_EVERY.min(limits.pool_idle)).await;
        let is_empty = POOL.with_borrow_mut(|pool| {
            pool.retain(|one| one.since.elapsed() < one.config.limits.pool_idle && one.server.sender.is_ready());
            pool.is_empty()
        });
        if is_empty {
            IS_SWEPT.set(false);
            return;
        }
    }
}
