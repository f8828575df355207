//! Sockets that clients come to and that servers are reached from.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::net::SocketAddrUnix;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::config::{Listener, Way};
use super::side::SideOptions;
use crate::error::{During, Error};
use crate::handover;
use crate::service::Passed;
use crate::socket;
use crate::sysctl;

/// Connections that wait to be accepted; the kernel takes `net.core.somaxconn` if that is less.
const BACKLOG: i32 = 4_096;

/// Names of the sockets that are no way in, when they are handed over.
pub(crate) const ADMIN: &str = "admin";
pub(crate) const DOOR: &str = "handover";
/// The name of the socket at which it can be asked.
pub(crate) const CONTROL: &str = "control";

/// Opens the socket of a way in. Its accepted connections have the options of `side` from it, above all those that count
/// from the first segment on.
pub(crate) fn open(listener: &Listener, side: &SideOptions, passed: &mut Vec<Passed>) -> Result<TcpListener, Error> {
    let address = listener.address;
    let what = || format!("listen on {address}");
    let may_not = || format!("listen on {address} for diverted connections (takes CAP_NET_ADMIN)");
    if let Some(socket) = take(passed, address, listener.way.name()) {
        socket.set_nonblocking(true).during(what)?;
        if listener.way == Way::Transparent {
            transparent(&SockRef::from(&socket), address).during(may_not)?;
        }
        side.ask(&socket);
        let_it_fail(&socket);
        return Ok(socket);
    }
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP)).during(what)?;
    socket.set_reuse_address(true).during(what)?;
    if address.is_ipv6() {
        // One way in, one address: 0.0.0.0 and [::] are two.
        socket.set_only_v6(true).during(what)?;
    }
    if listener.way == Way::Transparent {
        transparent(&socket, address).during(may_not)?;
    }
    side.ask(&socket);
    let_it_fail(&socket);
    socket.bind(&address.into()).map_err(|error| explained(error, address.port())).during(what)?;
    socket.listen(BACKLOG).during(what)?;
    Ok(socket.into())
}

/// True if a socket takes CAP_NET_BIND_SERVICE to listen on `port`.
pub(crate) fn takes_privilege(port: u16) -> bool {
    let first = sysctl::read("net.ipv4.ip_unprivileged_port_start").ok().and_then(|first| first.parse().ok());
    (1..first.unwrap_or(1_024)).contains(&port)
}

/// Adds to an error what a person can do about an address that cannot be had.
fn explained(error: io::Error, port: u16) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied if takes_privilege(port) => {
            "a port as low as this takes root or CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrInUse => "another process listens there; ss -ltnp names it",
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address",
        _ => return error,
    };
    io::Error::other(format!("{error}: {advice}"))
}

/// Opens the socket for those who look at the proxy: nothing special.
pub(crate) fn open_admin(address: SocketAddr, passed: &mut Vec<Passed>) -> Result<TcpListener, Error> {
    let what = || format!("listen on {address} for whoever looks");
    let socket = match take(passed, address, ADMIN) {
        Some(socket) => socket,
        None => TcpListener::bind(address).map_err(|error| explained(error, address.port())).during(what)?,
    };
    socket.set_nonblocking(true).during(what)?;
    Ok(socket)
}

/// Opens a Unix socket for this process' owner, or goes on with that of the process before this one.
pub(crate) fn open_door(name: &str, path: &Path, passed: &mut Vec<Passed>) -> Result<UnixListener, Error> {
    let is_there = |one: &Passed| {
        let address = rustix::net::getsockname(&one.socket).ok().and_then(|any| SocketAddrUnix::try_from(any).ok());
        one.name == name && address.is_some_and(|address| address.path_bytes() == Some(path.as_os_str().as_bytes()))
    };
    match passed.iter().position(is_there) {
        Some(index) => Ok(passed.remove(index).socket.into()),
        None => handover::open(path),
    }
}

/// The socket among `passed` that listens on `address`; one whose port was left to the kernel is known by its name.
fn take(passed: &mut Vec<Passed>, address: SocketAddr, name: &str) -> Option<TcpListener> {
    let is_it = |one: &Passed| {
        let socket = SockRef::from(&one.socket);
        let there = socket.local_addr().ok().and_then(|there| there.as_socket());
        let is_like = |there: SocketAddr| address.port() == 0 && there.ip() == address.ip() && one.name == name;
        socket.is_listener().unwrap_or(false) && there.is_some_and(|there| there == address || is_like(there))
    };
    let index = passed.iter().position(is_it)?;
    Some(passed.remove(index).socket.into())
}

/// A socket towards a server, not yet connected; from `source` if given, which need not be an address of this machine.
pub(crate) fn towards(server: SocketAddr, side: &SideOptions, source: Option<SocketAddr>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    side.ask(&socket);
    let_it_fail(&socket);
    if let Some(source) = source {
        transparent(&socket, server)?;
        socket.set_reuse_address(true)?;
        // The port is left to the kernel: the client's own may still be in use towards this server.
        let _ = socket::set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        socket.bind(&SocketAddr::new(source.ip(), 0).into())?;
    }
    Ok(socket)
}

/// May be bound to, and accept connections for, addresses that are not this machine's.
fn transparent(socket: &Socket, like: SocketAddr) -> io::Result<()> {
    match like {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
        SocketAddr::V6(_) => socket::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1),
    }
}

/// Whatever closes the socket, a panic or a kill among them, resets its connection: the peer must not take what it got for
/// all there is. Accepted connections have this from their listener.
pub(crate) fn let_it_fail(socket: &impl AsFd) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// All has been said: closing the socket ends its connection properly.
pub(crate) fn let_it_end(socket: &impl AsFd) {
    let _ = SockRef::from(socket).set_linger(None);
}
