//! A relay that does nothing but move bytes, in the way it is told: to choose how `headend proxy` does it.
//!
//!     copying LISTEN TO splice|read-write BYTES
//!
//! `read-write` reads so many bytes at most and writes them; `splice` has a pipe of so many bytes for each direction, and the
//! kernel hands pages from the one socket to the pipe to the other. Threads, runtime and turns are those of the proxy's
//! workers, so that the copying is all that differs. It serves until it is ended; `bench/copying.py` runs it.
#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::exit;
use std::rc::Rc;
use std::str::FromStr;
use std::thread;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local, yield_now};

/// The bytes after which the thread's other connections have their turn, as in the proxy.
const TURN_BYTES: usize = 1024 * 1024;
const BACKLOG: i32 = 4_096;

#[derive(Clone, Copy, Debug)]
enum Method {
    ReadWrite,
    Splice,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [listen, to, method, bytes] = words.as_slice() else { wrong("expected LISTEN TO splice|read-write BYTES") };
    let method = match method.as_str() {
        "read-write" => Method::ReadWrite,
        "splice" => Method::Splice,
        other => wrong(&format!("{other}: expected splice or read-write")),
    };
    let (listen, to): (SocketAddr, SocketAddr) = (parsed(listen), parsed(to));
    let bytes: usize = parsed(bytes);
    if let Err(error) = serve(listen, to, method, bytes) {
        eprintln!("copying: {listen}: {error}");
        exit(1);
    }
}

fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| wrong(&format!("{text}: expected an address with a port, or a number of bytes")))
}

fn wrong(text: &str) -> ! {
    eprintln!("copying: {text}");
    exit(2);
}

fn serve(listen: SocketAddr, to: SocketAddr, method: Method, bytes: usize) -> io::Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(listen), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from(socket);
    let threads = (0..thread::available_parallelism()?.get())
        .map(|_| socket.try_clone())
        .collect::<io::Result<Vec<TcpListener>>>()?
        .into_iter()
        .map(|socket| thread::spawn(move || work(socket, to, method, bytes)));
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("a worker does not panic")?;
    }
    Ok(())
}

/// One thread: accepts for ever, and its connections stay with it.
fn work(socket: TcpListener, to: SocketAddr, method: Method, bytes: usize) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let scratch = Rc::new(RefCell::new(vec![0; bytes]));
    LocalSet::new().block_on(&runtime, async move {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        loop {
            let (client, _) = socket.accept().await?;
            let scratch = scratch.clone();
            spawn_local(async move {
                let Ok(server) = TcpStream::connect(to).await else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                match method {
                    Method::ReadWrite => both(&client, &server, |from, to| read_write(from, to, &scratch)).await,
                    Method::Splice => both(&client, &server, |from, to| splice(from, to, bytes)).await,
                }
            });
        }
    })
}

/// Both directions, until both have ended or one has failed.
async fn both<'a, F: Future<Output = io::Result<()>>>(
    client: &'a TcpStream,
    server: &'a TcpStream,
    copy: impl Fn(&'a TcpStream, &'a TcpStream) -> F,
) {
    let _ = tokio::try_join!(copy(client, server), copy(server, client));
}

async fn read_write(from: &TcpStream, to: &TcpStream, scratch: &RefCell<Vec<u8>>) -> io::Result<()> {
    let mut moved = 0;
    loop {
        from.readable().await?;
        let read = from.try_io(Interest::READABLE, || {
            Ok(rustix::net::recv(from, &mut scratch.borrow_mut()[..], rustix::net::RecvFlags::empty())?.1)
        });
        let read = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        if read == 0 {
            rustix::net::shutdown(to, rustix::net::Shutdown::Write)?;
            return Ok(());
        }
        let taken = send(to, &scratch.borrow()[..read])?;
        // Only what is not taken at once is copied once more: the scratch buffer is everybody's.
        let rest = scratch.borrow()[taken..read].to_vec();
        let mut rest = &rest[..];
        while !rest.is_empty() {
            to.writable().await?;
            rest = &rest[send(to, rest)?..];
        }
        take_turns(&mut moved, read).await;
    }
}

/// The number of bytes that the kernel takes now.
fn send(to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let sent = to.try_io(Interest::WRITABLE, || Ok(rustix::net::send(to, bytes, rustix::net::SendFlags::NOSIGNAL)?));
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        sent => sent,
    }
}

async fn splice(from: &TcpStream, to: &TcpStream, bytes: usize) -> io::Result<()> {
    let (pipe_out, pipe_in) = pipe(bytes)?;
    let mut moved = 0;
    loop {
        from.readable().await?;
        // The pipe is empty here: that there is nothing can only be said of the socket.
        let read = from.try_io(Interest::READABLE, || splice_once(from, &pipe_in, bytes));
        let read = match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            read => read?,
        };
        if read == 0 {
            rustix::net::shutdown(to, rustix::net::Shutdown::Write)?;
            return Ok(());
        }
        let mut left = read;
        while left > 0 {
            match to.try_io(Interest::WRITABLE, || splice_once(&pipe_out, to, left)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                taken => left -= taken?,
            }
        }
        take_turns(&mut moved, read).await;
    }
}

/// A pipe's two ends, and its size.
fn pipe(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into the array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were opened just now, and nobody else has them.
    let (out, into) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    let size = libc::c_int::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: this command takes an int.
    if unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, size) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((out, into))
}

fn splice_once(from: &impl AsFd, to: &impl AsFd, bytes: usize) -> io::Result<usize> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    let (none, flags) = (std::ptr::null_mut(), libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK);
    // SAFETY: both descriptors are open, and without offsets nothing is read or written in this process's memory.
    let moved = unsafe { libc::splice(from, none, to, none, bytes, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

async fn take_turns(moved: &mut usize, more: usize) {
    *moved += more;
    if *moved >= TURN_BYTES {
        *moved = 0;
        yield_now().await;
    }
}
