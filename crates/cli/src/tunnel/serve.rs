//! The server's end: clients' streams, and connections to where they want to go.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headend_host::privilege;
use headend_host::proxy::Outward;
use headend_socket::{Config, Connection, Endpoint, PublicKey, Stream};
use rustix::thread::CapabilitySet;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::admin::{self, Books};
use super::datagrams::{self, ALL_FLOWS_MAX, Flows};
use super::speech::Kind;
use super::{ServeArguments, Signals, authorized, relay, speech};
use crate::failure::Failure;

/// The time for a request to come whole, and for a destination to be reached.
const REQUEST: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(30);
/// The user to become unless told otherwise, and the one that every machine has.
const USERS: [&str; 2] = ["headend", "nobody"];
/// The code and the words with which a server goes.
const ENDING: (u64, &str) = (65, "the server ends");
/// A stream is a descriptor here.
const DESCRIPTORS: u64 = 65_536;
/// Connections of one client's key, so that it cannot have all flows and descriptors: a client has one, and one more each time that it
/// starts anew without a farewell, until the old one is silent for too long.
const CONNECTIONS_PER_KEY: usize = 8;

type Keys = Arc<Mutex<BTreeSet<PublicKey>>>;

pub(super) async fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let identity = arguments.common.identity()?;
    let config = Config { connections_per_key: CONNECTIONS_PER_KEY, ..arguments.common.config() };
    let public = identity.public();
    let keys: Keys = Arc::new(Mutex::new(authorized(&arguments.authorized)?.into_iter().collect()));
    let known = keys.clone();
    let allow = Box::new(move |key: &PublicKey| lock(&known).contains(key));
    let listen = arguments.listen;
    let endpoint = Endpoint::server(listen, identity, allow, config)
        .map_err(|error| Failure::Failed(format!("listen on {listen} (UDP): {error}")))?;
    let looked_at = admin::listen(&arguments.common).await?;
    privilege::raise_open_files(DESCRIPTORS);
    become_nobody(arguments.user.as_deref())?;
    let outward = Outward::new(arguments.destinations());
    let outward = Arc::new(outward.map_err(|error| Failure::Failed(format!("look up names: {error}")))?);
    let life = arguments.common.udp_deadline;
    let free = Arc::new(Semaphore::new(ALL_FLOWS_MAX));
    let mut signals = Signals::new()?;
    eprintln!("public key of this server: {public}");
    eprintln!("listening on {} (UDP) for {} keys", endpoint.address(), lock(&keys).len());
    let books = Arc::new(Books::default());
    admin::answer(looked_at, &endpoint, &books, false);
    admin::tell_supervisor(&format!("listening on {}", endpoint.address()))?;
    loop {
        tokio::select! {
            accepted = endpoint.accept() => match accepted {
                Some(connection) => {
                    let flows = Flows::start(connection.clone(), life, free.clone());
                    tokio::spawn(client(connection, outward.clone(), flows, books.clone()));
                }
                None => {
                    let why = endpoint.failed().unwrap_or_else(|| "the socket is closed".to_owned());
                    return Err(Failure::Failed(format!("UDP {listen}: {why}")));
                }
            },
            is_end = signals.is_end() => {
                if is_end {
                    endpoint.close(ENDING.0, ENDING.1);
                    endpoint.closed().await;
                    return Ok(());
                }
                match authorized(&arguments.authorized) {
                    Ok(read) => {
                        *lock(&keys) = read.into_iter().collect();
                        eprintln!("{} keys may connect from now on; connections go on", lock(&keys).len());
                    }
                    Err(failure) => eprintln!("the keys stay as they were: {}", failure.message().unwrap_or_default()),
                }
            }
        }
    }
}

/// Gives up being root, if this process is root's.
fn become_nobody(user: Option<&str>) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let user = user.unwrap_or(if privilege::has_user(USERS[0]) { USERS[0] } else { USERS[1] });
    Ok(privilege::become_user(user, CapabilitySet::empty())?)
}

fn lock(keys: &Keys) -> MutexGuard<'_, BTreeSet<PublicKey>> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a client until its connection ends.
async fn client(connection: Connection, outward: Arc<Outward>, flows: Arc<Flows>, books: Arc<Books>) {
    let _entry = books.enter(&connection);
    let Some((key, from, _)) = connection.look() else { return };
    eprintln!("{key} is connected from {from}");
    let why = loop {
        match connection.accept().await {
            Ok(stream) => {
                tokio::spawn(serve(stream, from, outward.clone(), flows.clone(), books.clone()));
            }
            Err(why) => break why,
        }
    };
    eprintln!("{key} at {from}: {why}");
}

/// Connects a stream to where it wants to go.
async fn serve(mut stream: Stream, from: SocketAddr, outward: Arc<Outward>, flows: Arc<Flows>, books: Arc<Books>) {
    let Ok(Ok((kind, to))) = tokio::time::timeout(REQUEST, speech::read_request(&mut stream)).await else { return };
    Books::count(&books.streams);
    if kind == Kind::Datagrams {
        return datagrams::serve(stream, to, from.ip().to_canonical(), flows, outward).await;
    }
    match outward.connect(from.ip().to_canonical(), &to, CONNECT).await {
        Ok(tcp) => {
            let _ = tcp.set_nodelay(true);
            if speech::answer(&mut stream, None).await.is_ok() {
                relay::join(tcp, stream).await;
            }
        }
        Err(failure) => {
            Books::count(&books.failures);
            let told = speech::answer(&mut stream, Some(&failure)).await;
            if told.is_ok() && stream.shutdown().await.is_ok() {
                let _ = stream.sent().await;
            }
        }
    }
}
