//! Endpoints, each with a thread that drives it, and connections.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int};
use std::net::{SocketAddr, ToSocketAddrs};
use std::task::Waker;
use std::thread::JoinHandle;

use headend_socket::{Config, PublicKey};
use tokio::sync::oneshot;

use crate::error::{Failure, known, object, status, text};
use crate::key::{Key, public, write_public};
use crate::stream::Stream;
use crate::wait::wait;

/// The time that closing an endpoint takes at most.
const FAREWELL_MS: c_int = 2_000;

/// A UDP socket with connections.
pub struct Endpoint {
    endpoint: headend_socket::Endpoint,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A connection with a peer that is known by its key.
pub struct Connection(headend_socket::Connection);

/// Counts of a connection so far, and what it is at.
#[repr(C)]
pub struct Snapshot {
    /// The smoothed round trip; 0 before there is one.
    pub rtt_ns: u64,
    /// The window of what may be under way, and what is.
    pub window_bytes: u64,
    /// Bytes under way.
    pub in_flight_bytes: u64,
    /// Numbered datagrams that left.
    pub sent: u64,
    /// Those that were acknowledged.
    pub delivered: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Streams that have not ended.
    pub streams: u64,
}

impl Endpoint {
    /// Makes an endpoint in a runtime of its own, which a thread drives.
    fn new(make: impl FnOnce() -> std::io::Result<headend_socket::Endpoint>) -> Result<Endpoint, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Failure::wrong)?;
        let endpoint = {
            let _guard = runtime.enter();
            make().map_err(Failure::wrong)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let drive = move || {
            let _ = runtime.block_on(stopped);
        };
        let thread = std::thread::Builder::new().name("headend-socket".to_owned()).spawn(drive);
        Ok(Endpoint { endpoint, stop: Some(stop), thread: Some(thread.map_err(Failure::wrong)?) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.endpoint.close(0, "");
        wait(FAREWELL_MS, Waker::noop(), self.endpoint.closed());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens an endpoint at "ADDRESS:PORT" to which the owners of these public keys may connect. NULL if that fails.
///
/// # Safety
/// `address` is a text, `key` a key, and `clients` has `clients_count` texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_listen(
    address: *const c_char,
    key: *const Key,
    clients: *const *const c_char,
    clients_count: usize,
) -> *mut Endpoint {
    let opened = || {
        // SAFETY: the caller has said so.
        let (address, identity) = unsafe { (text("address", address)?, known("key", key)?.0.clone()) };
        let address: SocketAddr = address
            .parse()
            .map_err(|_| Failure::wrong(format!("{address:?}: expected ADDRESS:PORT, such as 0.0.0.0:4433")))?;
        if clients.is_null() && clients_count > 0 {
            return Err(Failure::wrong("clients is NULL"));
        }
        let mut listed = BTreeSet::new();
        for at in 0..clients_count {
            // SAFETY: there are so many.
            listed.insert(unsafe { public("clients", *clients.add(at)) }?);
        }
        let allow = Box::new(move |key: &PublicKey| listed.contains(key));
        let server = || headend_socket::Endpoint::server(address, identity, allow, Config::default());
        Endpoint::new(server).map_err(|failure| failure.about(format!("listen on {address} (UDP)")))
    };
    object(opened())
}

/// Opens an endpoint that connects, and to which nobody can connect. NULL if that fails.
///
/// # Safety
/// `key` is a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_client(key: *const Key) -> *mut Endpoint {
    let opened = || {
        // SAFETY: the caller has said so.
        let identity = &unsafe { known("key", key) }?.0;
        let client = |any| headend_socket::Endpoint::client(any, identity.clone(), Config::default());
        // A socket of IPv6 reaches IPv4 as well; some machines have none.
        let either = || client(([0_u16; 8], 0).into()).or_else(|_| client(([0_u8; 4], 0).into()));
        Endpoint::new(either).map_err(|failure| failure.about("open a UDP socket".to_owned()))
    };
    object(opened())
}

/// Returns the UDP port at which an endpoint listens; 0 for NULL.
///
/// # Safety
/// `endpoint` is an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_port(endpoint: *const Endpoint) -> u16 {
    // SAFETY: the caller has said so.
    unsafe { endpoint.as_ref() }.map_or(0, |endpoint| endpoint.endpoint.address().port())
}

/// Closes an endpoint and all its connections, tells their peers so, and frees it. Its connections and streams remain
/// to be freed. NULL is none. It does not end a headend_accept of another thread: no thread may wait there any more.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_endpoint_close(endpoint: *mut Endpoint) {
    if !endpoint.is_null() {
        // SAFETY: it came from `object`, and the caller gives it back.
        drop(unsafe { Box::from_raw(endpoint) });
    }
}

/// Waits for the next connection of a client. NULL if the time is up, or if the endpoint can do nothing any more. A program that is to
/// close the endpoint one day waits with a timeout here, again and again, and not with -1.
///
/// # Safety
/// `endpoint` is an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_accept(endpoint: *const Endpoint, timeout_ms: c_int) -> *mut Connection {
    let accepted = || {
        // SAFETY: the caller has said so.
        let endpoint = &unsafe { known("endpoint", endpoint) }?.endpoint;
        match wait(timeout_ms, Waker::noop(), endpoint.accept()) {
            Some(Some(connection)) => Ok(Connection(connection)),
            Some(None) => Err(Failure::ended(endpoint.failed().unwrap_or_else(|| "the endpoint is closed".to_owned()))),
            None => Err(Failure::timed_out()),
        }
    };
    object(accepted())
}

/// Connects to the owner of the public key `peer` at "HOST:PORT". NULL if that fails, or if the time is up; by itself it gives
/// up after 12 s. The look-up of a host's name is the system's, and takes its own time before the timeout begins; an address needs none.
///
/// # Safety
/// `endpoint` is an endpoint, `address` and `peer` are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_connect(
    endpoint: *const Endpoint,
    address: *const c_char,
    peer: *const c_char,
    timeout_ms: c_int,
) -> *mut Connection {
    let connected = || {
        // SAFETY: the caller has said so.
        let (endpoint, address, peer) =
            unsafe { (&known("endpoint", endpoint)?.endpoint, text("address", address)?, public("peer", peer)?) };
        let expected = "expected HOST:PORT, such as example.org:4433";
        let mut found =
            address.to_socket_addrs().map_err(|error| Failure::wrong(format!("{address:?}: {error}; {expected}")))?;
        let to = found.next().ok_or_else(|| Failure::wrong(format!("{address} has no address")))?;
        let connection = wait(timeout_ms, Waker::noop(), endpoint.connect(to, &peer)).ok_or_else(Failure::timed_out)?;
        Ok(Connection(connection?))
    };
    object(connected())
}

/// Writes the peer's public key: HEADEND_PUBLIC_KEY_SIZE bytes, the last of them zero. HEADEND_ENDED once the connection has.
///
/// # Safety
/// `connection` is a connection, and `public_key` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_connection_peer(connection: *const Connection, public_key: *mut c_char) -> c_int {
    // SAFETY: the caller has said so.
    let looked = unsafe { known("connection", connection) }.and_then(|one| one.0.look().ok_or_else(gone));
    // SAFETY: there is room, the caller has said so.
    status(looked.map(|(key, ..)| unsafe { write_public(&key, public_key) }))
}

/// Writes what a connection is at. HEADEND_ENDED once the connection has.
///
/// # Safety
/// `connection` is a connection, and `to` has room for a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_connection_snapshot(connection: *const Connection, to: *mut Snapshot) -> c_int {
    // SAFETY: the caller has said so.
    let looked = unsafe { known("connection", connection) }.and_then(|one| one.0.look().ok_or_else(gone));
    status(looked.map(|(_, _, at)| {
        let told = Snapshot {
            rtt_ns: at.rtt.map_or(0, |rtt| rtt.as_nanos()),
            window_bytes: at.window.get(),
            in_flight_bytes: at.in_flight.get(),
            sent: at.sent,
            delivered: at.delivered,
            lost: at.lost,
            streams: at.streams as u64,
        };
        // SAFETY: there is room, the caller has said so; what was there needs no drop.
        unsafe { to.write(told) };
    }))
}

fn gone() -> Failure {
    Failure::ended("the connection has ended")
}

/// Closes a connection with a code and words for the peer, or NULL, and frees it. What has not come by now does not come. Its
/// streams remain to be freed. NULL is no connection. A code above 2^62 - 1 counts as that.
///
/// # Safety
/// `connection` is NULL or a connection that nobody uses any more, and `reason` is NULL or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_connection_close(connection: *mut Connection, code: u64, reason: *const c_char) {
    if connection.is_null() {
        return;
    }
    // SAFETY: it came from `object`, and the caller gives it back.
    let connection = unsafe { Box::from_raw(connection) };
    // SAFETY: the caller has said so.
    let reason = unsafe { text("reason", reason) };
    connection.0.close(code, reason.unwrap_or_default());
}

/// Opens a stream, as soon as the peer allows another. The peer hears of it with the first byte. NULL if that fails, or if the
/// time is up.
///
/// # Safety
/// `connection` is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_open(connection: *const Connection, timeout_ms: c_int) -> *mut Stream {
    // SAFETY: the caller has said so.
    let connection = unsafe { known("connection", connection) };
    object(connection.and_then(|connection| match wait(timeout_ms, Waker::noop(), connection.0.open()) {
        Some(opened) => opened.map(Stream::new).map_err(Failure::from),
        None => Err(Failure::timed_out()),
    }))
}

/// Waits for the next stream that the peer opens. NULL if the connection ends, or if the time is up.
///
/// # Safety
/// `connection` is a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn headend_accept_stream(connection: *const Connection, timeout_ms: c_int) -> *mut Stream {
    // SAFETY: the caller has said so.
    let connection = unsafe { known("connection", connection) };
    object(connection.and_then(|connection| match wait(timeout_ms, Waker::noop(), connection.0.accept()) {
        Some(opened) => opened.map(Stream::new).map_err(Failure::from),
        None => Err(Failure::timed_out()),
    }))
}
