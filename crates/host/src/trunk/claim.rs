//! A trunk's name, which one process has at a time; and what trunks of that name have left behind.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::config::Config;
use super::routes::Routes;
use super::rules::{Rules, Table};
use super::tunnels;
use crate::error::Error;
use crate::netlink::Netlink;

/// Claims a trunk's name in this network namespace, for as long as what is returned lives: two trunks of one name would take
/// each other's rules for those of one that was killed. An abstract address belongs to the namespace, as the rules do, and
/// goes with its process (unix(7)).
pub(super) fn claim(name: &str) -> Result<UnixListener, Error> {
    hold(name).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let why =
                format!("a trunk called {name} runs already in this network namespace: give this one another `name`");
            Error::new("start a trunk", io::Error::new(io::ErrorKind::AddrInUse, why))
        }
        _ => Error::new(format!("claim the name {name}"), error),
    })
}

fn hold(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("headend-trunk-{name}"))?)
}

/// Takes away what a trunk that has ended left to stop users' packets, of whatever carriage it was. Returns lines for the operator.
///
/// # Errors
/// While a trunk of this name runs, and where the system refuses.
pub fn clear(config: &Config) -> Result<Vec<String>, Error> {
    let _claim = hold(&config.name).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => {
                let why = format!("the trunk {} runs: end it first (systemctl stop, or SIGTERM)", config.name);
                io::Error::new(error.kind(), why)
            }
            _ => error,
        };
        Error::new("take away what a trunk left", why)
    })?;
    let mut said = Vec::new();
    let routes = Routes { name: config.name.clone(), networks: Vec::new() };
    match routes.remove(&mut Netlink::open()?, |_| true)? {
        0 => {}
        removed => said.push(format!("removed {removed} routes that stopped packets")),
    }
    for device in tunnels::remove(&mut Netlink::open()?, &config.name)? {
        said.push(format!("removed the device {device}"));
    }
    let rules =
        Rules { name: config.name.clone(), queues: Vec::new(), bypass: true, marks: false, sources: Vec::new() };
    // All of them, and not only up to the first.
    let removed = [rules.remove(Table::Mangle)?, rules.remove(Table::Raw)?];
    if removed.contains(&true) {
        said.push(format!("removed the chain {}", rules.chain()));
    }
    Ok(said)
}
