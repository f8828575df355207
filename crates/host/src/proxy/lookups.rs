//! Names looked up by a resolver that blocks no thread, on a thread of its own: what `resolv.conf` and `hosts` say holds, and
//! answers are kept for as long as they say. No client keeps the others from theirs with names that nobody answers for: each has
//! few look-ups at a time, and its others wait, as connections that may end.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Resolver, TokioResolver};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The most look-ups of one client at a time: a page names a dozen servers.
const PER_CLIENT_MAX: usize = 16;
/// The time that a name has to be resolved.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that a server of names has to answer, and how often it is asked.
const ATTEMPT: Duration = Duration::from_millis(1_500);
const ATTEMPTS: usize = 2;
/// Answers that are kept.
const CACHE_MAX: u64 = 8_192;
/// The longest that an answer is kept, whatever it says (RFC 8767 s4 advises a day to a week; changes should be seen sooner).
const TTL_MAX: Duration = Duration::from_secs(3_600);
/// The time between two looks at whether one of the files has changed.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Look-ups that are going on, and the resolver.
#[derive(Debug)]
pub(crate) struct Lookups {
    runtime: Handle,
    /// The turns of clients that look up, or wait to.
    clients: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    resolver: Mutex<Option<Current>>,
}

/// The resolver for the files as they are.
struct Current {
    resolver: Arc<TokioResolver>,
    written: [Option<SystemTime>; 2],
    looked: Instant,
}

impl Lookups {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Lookups> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(Lookups { runtime: handle, clients: Mutex::default(), resolver: Mutex::default() })
    }

    /// The addresses of `name`, with `port`, for a client: those of IPv6 first, as RFC 6724 has them.
    pub(crate) async fn find(&self, client: IpAddr, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let resolver = self.resolver()?;
        let name = name.to_owned();
        let lookup = async move { resolver.lookup_ip(name).await.map_err(in_words) };
        let found = self.run(client, lookup).await?;
        let mut addresses: Vec<SocketAddr> = found.iter().map(|address| SocketAddr::new(address, port)).collect();
        addresses.sort_by_key(SocketAddr::is_ipv4);
        Ok(addresses)
    }

    /// Has `lookup` run when it is the client's turn. It ends with whoever waits for it.
    async fn run<T: Send + 'static>(
        &self,
        client: IpAddr,
        lookup: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let _turn = self.of(client).acquire_owned().await.map_err(io::Error::other)?;
        let mut task = AbortOnDrop(self.runtime.spawn(lookup));
        match timeout(PATIENCE, &mut task.0).await {
            Ok(found) => found.map_err(io::Error::other)?,
            Err(_) => {
                let why = format!("no server of names answered within {} s", PATIENCE.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }

    fn of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, turns| Arc::strong_count(turns) > 1);
        clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(PER_CLIENT_MAX))).clone()
    }

    /// The resolver, made anew when one of the files has changed.
    fn resolver(&self) -> io::Result<Arc<TokioResolver>> {
        let mut current = self.resolver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = &*current
            && current.looked.elapsed() < LOOK_EVERY
        {
            return Ok(current.resolver.clone());
        }
        let written = FILES.map(|path| Path::new(path).metadata().and_then(|file| file.modified()).ok());
        let resolver = match &*current {
            Some(current) if current.written == written => current.resolver.clone(),
            _ => Arc::new(resolver().map_err(in_words)?),
        };
        *current = Some(Current { resolver: resolver.clone(), written, looked: Instant::now() });
        Ok(resolver)
    }
}

/// The resolver that the files describe. Without the first of them this machine is asked, as resolv.conf(5) has it.
fn resolver() -> Result<TokioResolver, NetError> {
    let own = || {
        let here = vec![NameServerConfig::udp_and_tcp(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        let config = ResolverConfig::from_parts(None, Vec::new(), here);
        Resolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|_| own());
    let options = builder.options_mut();
    options.timeout = ATTEMPT;
    options.attempts = ATTEMPTS;
    options.cache_size = CACHE_MAX;
    options.positive_max_ttl = Some(TTL_MAX);
    options.negative_max_ttl = Some(LOOK_EVERY);
    options.use_hosts_file = ResolveHosts::Always;
    builder.build()
}

fn in_words(error: NetError) -> io::Error {
    let why = match &error {
        error if error.is_nx_domain() => "there is no such name".to_owned(),
        error if error.is_no_records_found() => "the name has none".to_owned(),
        error => error.to_string(),
    };
    io::Error::other(why)
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("written", &self.written).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test]
    async fn clients_whose_look_ups_never_end_hold_up_nobody_else() {
        let lookups = Arc::new(Lookups::start().unwrap());
        // Six clients with a thousand names each held up everybody for ten seconds, while there were 48 look-ups for all.
        let tasks: Vec<_> = (0..6_000)
            .map(|index| {
                let (lookups, client) = (lookups.clone(), IpAddr::from([192, 0, 2, 10 + (index % 6) as u8]));
                tokio::spawn(async move { lookups.run(client, pending::<io::Result<()>>()).await })
            })
            .collect();
        let turns = |client| lookups.of(client).available_permits();
        while (10..16).any(|last| turns(IpAddr::from([192, 0, 2, last])) > 0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(lookups.run(OTHER, async { Ok(7) }).await.unwrap(), 7);
        // All give up, as clients do that have gone, and none of it remains.
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(lookups.run(IpAddr::from([192, 0, 2, 10]), async { Ok(8) }).await.unwrap(), 8);
        lookups.of(OTHER);
        assert_eq!(lookups.clients.lock().unwrap().len(), 1, "who looks nothing up is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_nobody_answers_for_is_given_up_in_time() {
        let lookups = Lookups::start().unwrap();
        let began = tokio::time::Instant::now();
        let error = lookups.run(OTHER, pending::<io::Result<()>>()).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }

    #[tokio::test]
    async fn what_the_file_of_hosts_names_is_found_without_a_server() {
        let lookups = Lookups::start().unwrap();
        let found = lookups.find(OTHER, "localhost", 7).await.unwrap();
        assert!(found.contains(&SocketAddr::from(([127, 0, 0, 1], 7))), "{found:?}");
    }
}
