//! Rules that iptables sets: queues (NFQUEUE), which not every kernel's nftables has.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Output, Stdio};

use ipnet::IpNet;

use crate::error::Error;
use crate::process;

/// The two commands for one version of IP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// The command that lists, and that people know.
    pub(crate) list: &'static str,
    restore: &'static str,
    pub(crate) is_ipv6: bool,
}

pub(crate) const FAMILIES: [Family; 2] = [
    Family { list: "iptables", restore: "iptables-restore", is_ipv6: false },
    Family { list: "ip6tables", restore: "ip6tables-restore", is_ipv6: true },
];
/// Seconds to wait for the lock that another iptables holds: a trunk that waits longer does nothing else meanwhile.
const PATIENCE: &str = "5";
/// Folders in which administrators' commands are, whatever PATH says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/bin"];

impl Family {
    /// True if both commands are on this machine.
    pub(crate) fn is_here(self) -> bool {
        path_of(self.list).is_some() && path_of(self.restore).is_some()
    }

    /// True if the network is of this version of IP.
    pub(crate) fn has(self, network: &IpNet) -> bool {
        network.addr().is_ipv6() == self.is_ipv6
    }

    /// The rules of a table, as `-S` lists them; `None` without the command.
    pub(crate) fn rules(self, table: &str) -> Result<Option<String>, Error> {
        let Some(command) = path_of(self.list) else { return Ok(None) };
        let what = || format!("{} -t {table} -S", self.list);
        let output = process::command(command).args(["-w", PATIENCE, "-t", table, "-S"]).output();
        let output = output.map_err(|error| Error::new(what(), error))?;
        if output.status.success() {
            Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
        } else {
            Err(refused(what(), &output))
        }
    }

    /// Has all of `order` done in a table, or none.
    pub(crate) fn restore(self, table: &str, order: &str) -> Result<(), Error> {
        if order.is_empty() {
            return Ok(());
        }
        let what = || format!("{} of rules", self.restore);
        let Some(command) = path_of(self.restore) else {
            let why = "it is not on this machine: install the package iptables";
            return Err(Error::new(what(), io::Error::new(io::ErrorKind::NotFound, why)));
        };
        let run = || -> io::Result<Output> {
            let mut command = process::command(command);
            let mut child = command
                .args(["-w", PATIENCE, "--noflush"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut input = child.stdin.take().expect("it was asked for");
            let written = write!(input, "*{table}\n{order}COMMIT\n");
            drop(input);
            let output = child.wait_with_output()?;
            // One that refuses early closes its input, and then says why.
            if output.status.success() {
                written?;
            }
            Ok(output)
        };
        let output = run().map_err(|error| Error::new(what(), error))?;
        if output.status.success() { Ok(()) } else { Err(refused(what(), &output)) }
    }
}

fn refused(what: String, output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    Error::new(what, io::Error::other(format!("refused: {said}")))
}

fn path_of(command: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&on_path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(command)).find(|path| path.is_file())
}
