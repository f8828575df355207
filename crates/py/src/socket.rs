//! Sockets for Python's asyncio: what `headend.socket` is made of.
//!
//! Nothing here waits. What is not ready leaves a token with a [`Bell`], a descriptor in the event loop, and is asked again when
//! that has rung. So no thread of ours ever takes the interpreter's lock, a cancelled call has lost nothing, and the one thread
//! there is drives the UDP sockets of all endpoints.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use headend_socket::{Config, Ended, Identity, KeyError, PublicKey, StreamError};
use pyo3::create_exception;
use pyo3::exceptions::{PyBrokenPipeError, PyConnectionError, PyConnectionResetError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix::event::{EventfdFlags, eventfd};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

create_exception!(
    headend.socket,
    ConnectionEndedError,
    PyConnectionError,
    "A connection has ended, or was not granted."
);
create_exception!(headend.socket, StreamResetError, PyConnectionResetError, "The peer has reset a stream.");
create_exception!(headend.socket, StreamStoppedError, PyBrokenPipeError, "The peer reads no more of a stream.");

/// The most that is read at a time.
const READ_MAX: usize = 1 << 18;

/// A descriptor that can be read from when some of the tokens that were left with it are to be tried again.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Bell(Arc<Rung>);

struct Rung {
    fd: OwnedFd,
    tokens: Mutex<Vec<u64>>,
}

/// What wakes a call: its token, and the bell that it rings.
struct Left(Arc<Rung>, u64);

impl Wake for Left {
    fn wake(self: Arc<Self>) {
        lock(&self.0.tokens).push(self.1);
        // It fails only if it rings already, 2^64 times.
        let _ = rustix::io::write(&self.0.fd, &1_u64.to_ne_bytes());
    }
}

impl Bell {
    fn waker(&self, token: u64) -> Waker {
        Arc::new(Left(self.0.clone(), token)).into()
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Bell> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        Ok(Bell(Arc::new(Rung { fd, tokens: Mutex::default() })))
    }

    fn fileno(&self) -> i32 {
        self.0.fd.as_raw_fd()
    }

    /// The tokens to try again, and quiet.
    fn woken(&self) -> Vec<u64> {
        let _ = rustix::io::read(&self.0.fd, &mut [0; 8]);
        std::mem::take(&mut *lock(&self.0.tokens))
    }
}

/// A private key, and with it the public one.
#[pyclass(module = "headend.socket", frozen)]
pub(crate) struct Key(Identity);

#[pymethods]
impl Key {
    /// Make a new key.
    #[staticmethod]
    fn generate() -> Key {
        Key(Identity::generate())
    }

    /// Read a private key from a file that only its owner may read, as `headend tunnel keygen` writes it.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Key> {
        Identity::load(&path).map(Key).map_err(unusable)
    }

    /// Write it to a new file that only its owner may read.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.0.save(&path).map_err(unusable)
    }

    /// The public key, which others may know.
    #[getter]
    fn public(&self) -> String {
        self.0.public().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Key whose public one is {}>", self.0.public())
    }
}

/// A UDP socket with connections.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Endpoint(headend_socket::Endpoint);

#[pymethods]
impl Endpoint {
    /// Open one to which the owners of these public keys may connect.
    #[staticmethod]
    fn listen(address: &str, key: &Key, clients: Vec<String>) -> PyResult<Endpoint> {
        let clients = clients.iter().map(|text| public_key(text)).collect::<PyResult<BTreeSet<PublicKey>>>()?;
        let allow = Box::new(move |key: &PublicKey| clients.contains(key));
        let _guard = runtime()?.enter();
        Ok(Endpoint(headend_socket::Endpoint::server(
            socket_address(address)?,
            key.0.clone(),
            allow,
            Config::default(),
        )?))
    }

    /// Open one to which nobody can connect.
    #[staticmethod]
    fn client(address: &str, key: &Key) -> PyResult<Endpoint> {
        let _guard = runtime()?.enter();
        Ok(Endpoint(headend_socket::Endpoint::client(socket_address(address)?, key.0.clone(), Config::default())?))
    }

    /// The address and port at which it listens.
    #[getter]
    fn address(&self) -> (String, u16) {
        let address = self.0.address();
        (address.ip().to_string(), address.port())
    }

    fn connect(&self, address: &str, peer: &str) -> PyResult<Operation> {
        let (endpoint, to, peer) = (self.0.clone(), socket_address(address)?, public_key(peer)?);
        Ok(Operation::new(async move { endpoint.connect(to, &peer).await.map(Outcome::Connection) }))
    }

    /// The next connection of a client.
    fn accept(&self) -> Operation {
        let endpoint = self.0.clone();
        Operation::of(async move {
            let accepted = endpoint.accept().await.map(Outcome::Connection);
            accepted.ok_or_else(|| {
                let why = endpoint.failed().unwrap_or_else(|| "the endpoint is closed".to_owned());
                Wrong::Stream(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, why))
            })
        })
    }

    fn close(&self, py: Python<'_>, code: u64, reason: &str) {
        py.detach(|| self.0.close(code, reason));
    }

    /// Waits until a closed endpoint has told its peers so.
    fn closed(&self) -> Operation {
        let endpoint = self.0.clone();
        Operation::new(async move {
            endpoint.closed().await;
            Ok(Outcome::Done)
        })
    }
}

/// A connection with a peer that is known by its key.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Connection(headend_socket::Connection);

#[pymethods]
impl Connection {
    fn open(&self) -> Operation {
        let connection = self.0.clone();
        Operation::new(async move { connection.open().await.map(Outcome::Stream) })
    }

    fn accept(&self) -> Operation {
        let connection = self.0.clone();
        Operation::new(async move { connection.accept().await.map(Outcome::Stream) })
    }

    /// Waits until it ends, and raises why.
    fn ended(&self) -> Operation {
        let connection = self.0.clone();
        Operation::new(async move { Err(connection.ended().await) })
    }

    fn close(&self, py: Python<'_>, code: u64, reason: &str) {
        py.detach(|| self.0.close(code, reason));
    }

    /// The peer's public key, address and port; None once it has ended.
    fn peer(&self) -> Option<(String, String, u16)> {
        let (key, address, _) = self.0.look()?;
        Some((key.to_string(), address.ip().to_canonical().to_string(), address.port()))
    }

    /// Counts so far; None once it has ended.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some((_, _, at)) = self.0.look() else { return Ok(None) };
        let told = PyDict::new(py);
        told.set_item("rtt_s", at.rtt.map(|rtt| rtt.as_nanos() as f64 / 1e9))?;
        told.set_item("window_bytes", at.window.get())?;
        told.set_item("in_flight_bytes", at.in_flight.get())?;
        told.set_item("sent", at.sent)?;
        told.set_item("delivered", at.delivered)?;
        told.set_item("lost", at.lost)?;
        told.set_item("streams", at.streams)?;
        Ok(Some(told))
    }
}

/// Ordered bytes both ways.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Stream(Arc<Mutex<Option<Arc<headend_socket::Stream>>>>);

impl Stream {
    fn held(&self) -> PyResult<Arc<headend_socket::Stream>> {
        lock(&self.0).clone().ok_or_else(|| PyValueError::new_err("the stream is closed here"))
    }
}

#[pymethods]
impl Stream {
    /// Some bytes, at most so many; none at the end, and None if there are none yet.
    fn read<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        bell: &Bell,
        token: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (stream, waker) = (self.held()?, bell.waker(token));
        let mut bytes = vec![0; size.min(READ_MAX)];
        let read = py.detach(|| {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut &*stream).poll_read(&mut Context::from_waker(&waker), &mut buffer);
            read.map_ok(|()| buffer.filled().len())
        });
        match read {
            Poll::Ready(Ok(len)) => Ok(Some(PyBytes::new(py, &bytes[..len]))),
            Poll::Ready(Err(error)) => Err(broken(py, error)),
            Poll::Pending => Ok(None),
        }
    }

    /// Writes some bytes, and says how many; None if there is no room yet.
    fn write(&self, py: Python<'_>, data: &[u8], bell: &Bell, token: u64) -> PyResult<Option<usize>> {
        let (stream, waker) = (self.held()?, bell.waker(token));
        match py.detach(|| Pin::new(&mut &*stream).poll_write(&mut Context::from_waker(&waker), data)) {
            Poll::Ready(Ok(len)) => Ok(Some(len)),
            Poll::Ready(Err(error)) => Err(broken(py, error)),
            Poll::Pending => Ok(None),
        }
    }

    /// Ends what is written.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.held()?;
        let _ = py.detach(|| Pin::new(&mut &*stream).poll_shutdown(&mut Context::from_waker(Waker::noop())));
        Ok(())
    }

    /// Waits until all that was written has come.
    fn sent(&self) -> PyResult<Operation> {
        let stream = self.held()?;
        Ok(Operation::of(async move { stream.sent().await.map(|()| Outcome::Done).map_err(Wrong::Stream) }))
    }

    fn reset(&self, py: Python<'_>, code: u64) {
        if let Ok(stream) = self.held() {
            py.detach(|| stream.reset(code));
        }
    }

    fn stop(&self, py: Python<'_>, code: u64) {
        if let Ok(stream) = self.held() {
            py.detach(|| stream.stop(code));
        }
    }

    /// Has done with it: what was not ended is reset.
    fn close(&self, py: Python<'_>) {
        let stream = lock(&self.0).take();
        py.detach(|| drop(stream));
    }
}

/// A call that may have to wait.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Operation(Mutex<Option<Waiting>>);

type Waiting = Pin<Box<dyn Future<Output = Result<Outcome, Wrong>> + Send>>;

enum Outcome {
    Connection(headend_socket::Connection),
    Stream(headend_socket::Stream),
    Done,
}

enum Wrong {
    Connection(Ended),
    Stream(std::io::Error),
}

impl Operation {
    fn new(future: impl Future<Output = Result<Outcome, Ended>> + Send + 'static) -> Operation {
        Operation::of(async move { future.await.map_err(Wrong::Connection) })
    }

    fn of(future: impl Future<Output = Result<Outcome, Wrong>> + Send + 'static) -> Operation {
        Operation(Mutex::new(Some(Box::pin(future))))
    }
}

#[pymethods]
impl Operation {
    /// What came of it; None if it is to be tried again when the bell says so.
    fn poll(&self, py: Python<'_>, bell: &Bell, token: u64) -> PyResult<Option<Py<PyAny>>> {
        let waker = bell.waker(token);
        let polled = py.detach(|| {
            let mut held = lock(&self.0);
            let future = held.as_mut()?;
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *held = None;
            }
            Some(polled)
        });
        match polled {
            None => Err(PyValueError::new_err("it has been taken already")),
            Some(Poll::Pending) => Ok(None),
            Some(Poll::Ready(Ok(Outcome::Connection(one)))) => Ok(Some(Py::new(py, Connection(one))?.into_any())),
            Some(Poll::Ready(Ok(Outcome::Stream(one)))) => {
                let stream = Stream(Arc::new(Mutex::new(Some(Arc::new(one)))));
                Ok(Some(Py::new(py, stream)?.into_any()))
            }
            Some(Poll::Ready(Ok(Outcome::Done))) => Ok(Some(true.into_pyobject(py)?.to_owned().into_any().unbind())),
            Some(Poll::Ready(Err(Wrong::Connection(why)))) => Err(ended(py, &why)),
            Some(Poll::Ready(Err(Wrong::Stream(error)))) => Err(broken(py, error)),
        }
    }

    /// Gives it up.
    fn close(&self, py: Python<'_>) {
        let future = lock(&self.0).take();
        py.detach(|| drop(future));
    }
}

/// The runtime on whose thread all endpoints of this process are driven.
fn runtime() -> PyResult<&'static Handle> {
    static RUNTIME: OnceLock<(u32, Handle)> = OnceLock::new();
    if RUNTIME.get().is_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        // Of two that are here at the same time one has made a runtime that is dropped again.
        if RUNTIME.set((std::process::id(), handle)).is_ok() {
            let drive = move || runtime.block_on(std::future::pending::<()>());
            std::thread::Builder::new().name("headend-socket".to_owned()).spawn(drive)?;
        }
    }
    let (process, handle) = RUNTIME.get().expect("it was made");
    if *process != std::process::id() {
        return Err(PyOSError::new_err("headend.socket cannot be used in a child after fork(): start it by spawn"));
    }
    Ok(handle)
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn socket_address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| PyValueError::new_err(format!("{text:?} is no address with a port")))
}

fn public_key(text: &str) -> PyResult<PublicKey> {
    PublicKey::read(text).ok_or_else(|| {
        PyValueError::new_err(format!(
            "{text:?} is no public key: expected 44 letters, as `headend tunnel keygen` prints it"
        ))
    })
}

fn unusable(error: KeyError) -> PyErr {
    // With its number Python makes of it the error that `open` would raise.
    match error.source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => PyValueError::new_err(error.to_string()),
    }
}

fn ended(py: Python<'_>, why: &Ended) -> PyErr {
    let code = if let Ended::Peer { code, .. } = why { Some(*code) } else { None };
    with_code(py, ConnectionEndedError::new_err(why.to_string()), code)
}

fn broken(py: Python<'_>, error: std::io::Error) -> PyErr {
    let inner = error.get_ref();
    if let Some(why) = inner.and_then(|inner| inner.downcast_ref::<Ended>()) {
        return ended(py, why);
    }
    match inner.and_then(|inner| inner.downcast_ref::<StreamError>()) {
        Some(StreamError::Reset(code)) => with_code(py, StreamResetError::new_err(error.to_string()), Some(*code)),
        Some(StreamError::Stopped(code)) => with_code(py, StreamStoppedError::new_err(error.to_string()), Some(*code)),
        Some(StreamError::Ended) => PyValueError::new_err("nothing more can be written: the stream was ended here"),
        None => error.into(),
    }
}

fn with_code(py: Python<'_>, error: PyErr, code: Option<u64>) -> PyErr {
    match error.value(py).setattr("code", code) {
        Ok(()) => error,
        Err(worse) => worse,
    }
}
