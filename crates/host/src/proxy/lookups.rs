//! Names looked up beside the workers, by the system's resolver: it blocks a thread, for many seconds where the servers of
//! a name do not answer. So that no client keeps the others from theirs with such names, each has few at a time; the
//! others wait, as connections that may end, and not as work that remains when they have.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::access::subscriber;

/// Lookups at a time of all clients: fewer than a worker has threads, which also write and read files.
const ALL_MAX: usize = 48;
/// The most look-ups of one client at a time.
const PER_CLIENT_MAX: usize = 8;

/// Lookups that are going on.
#[derive(Debug)]
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    /// The turns of clients that look up, or wait to.
    clients: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Lookups {
    pub(crate) fn new() -> Lookups {
        Lookups { all: Arc::new(Semaphore::new(ALL_MAX)), clients: Mutex::default() }
    }

    /// The addresses of `name`, with `port`.
    pub(crate) async fn find(&self, client: IpAddr, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = name.to_owned();
        self.run(client, move || Ok((name.as_str(), port).to_socket_addrs()?.collect())).await
    }

    /// Has `lookup` run when it is the client's turn. Until it has ended it counts, whoever still waits for it.
    async fn run<T: Send + 'static>(
        &self,
        client: IpAddr,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let own = self.of(client).acquire_owned().await.map_err(io::Error::other)?;
        let all = self.all.clone().acquire_owned().await.map_err(io::Error::other)?;
        let counted = move || {
            let _turns = (own, all);
            lookup()
        };
        spawn_blocking(counted).await.map_err(io::Error::other)?
    }

    fn of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, turns| Arc::strong_count(turns) > 1);
        clients.entry(subscriber(client)).or_insert_with(|| Arc::new(Semaphore::new(PER_CLIENT_MAX))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const SLOW: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn a_client_whose_look_ups_never_end_holds_up_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(ALL_MAX + 1).build().unwrap();
        runtime.block_on(async {
            let lookups = Arc::new(Lookups::new());
            let (started, starts) = channel();
            let mut ends = Vec::new();
            let tasks: Vec<_> = (0..1_000)
                .map(|index| {
                    let (lookups, started) = (lookups.clone(), started.clone());
                    let (end, is_over): (_, Receiver<()>) = channel();
                    ends.push(end);
                    let lookup = move || {
                        started.send(index).map_err(io::Error::other)?;
                        // Until the test lets it end.
                        let _ = is_over.recv();
                        Ok(index)
                    };
                    tokio::spawn(async move { lookups.run(SLOW, lookup).await })
                })
                .collect();
            // Until as many run as may: another's is over so soon on a busy machine that none of these has begun.
            while lookups.all.available_permits() > ALL_MAX - PER_CLIENT_MAX {
                tokio::task::yield_now().await;
            }
            assert_eq!(lookups.run(OTHER, || Ok(7)).await.unwrap(), 7);
            // All give up, as clients do that have gone: what runs goes on, and what waited never starts.
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            for task in tasks {
                assert!(task.await.unwrap_err().is_cancelled());
            }
            assert_eq!(lookups.all.available_permits(), ALL_MAX - PER_CLIENT_MAX, "those that run count");
            drop(ends);
            assert_eq!(lookups.run(SLOW, || Ok(8)).await.unwrap(), 8);
            drop(started);
            assert_eq!(starts.iter().count(), PER_CLIENT_MAX);
            // Their threads have said so before they give back their turns.
            while lookups.all.available_permits() < ALL_MAX {
                tokio::task::yield_now().await;
            }
            lookups.of(OTHER);
            assert_eq!(lookups.clients.lock().unwrap().len(), 1, "who looks nothing up is forgotten");
        });
    }
}
