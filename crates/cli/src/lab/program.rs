//! Real programs at the ends of flows: iperf3 sends, or curl gets from nginx.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use headend_engine::units::Bytes;
use headend_host::process;
use headend_host::socket;
use headend_scenario::{Flow, NodeKind, Point, Talk};

use super::site;
use crate::failure::Failure;

/// Which program drives the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// The data's sender is iperf3's client; for bulk and ftp-get flows
    Iperf3,
    /// The data comes from nginx; for http-get flows with `bytes`
    Curl,
}

/// A listening program is given so long to listen.
const LISTENING_MAX: Duration = Duration::from_secs(10);
/// The file that nginx serves.
const FILE: &str = "data";

impl Program {
    /// The programs that have to be installed, by the end that runs them: the one that listens, and the one that
    /// connects.
    fn binaries(self) -> [&'static str; 2] {
        match self {
            Program::Iperf3 => ["iperf3", "iperf3"],
            Program::Curl => ["nginx", "curl"],
        }
    }

    /// True if the data's sender listens.
    pub(super) fn sender_listens(self) -> bool {
        self == Program::Curl
    }

    /// Checks that the program is there and can do every flow of every point.
    pub(super) fn check(self, points: &[Point]) -> Result<(), Failure> {
        for binary in self.binaries() {
            if find(binary).is_none() {
                let text = format!(
                    "{binary}: not on the PATH, nor in /usr/sbin; install it, or leave --with out for our own traffic"
                );
                return Err(Failure::Wrong(text));
            }
        }
        for flow in points.iter().flat_map(|point| &point.scenario.flows) {
            let Some(transfer) = flow.kind.transfer() else { continue };
            let wrong = match (self, &transfer.talk) {
                (Program::Iperf3, Talk::Answer { .. }) => "is an http-get, which iperf3 does not do; use --with curl",
                (Program::Curl, Talk::Push { .. }) => "is no http-get, and curl does nothing else; use --with iperf3",
                (Program::Curl, Talk::Answer { .. }) if transfer.fixed_bytes().is_none() => {
                    "has no `bytes`, and a file has an end"
                }
                _ => continue,
            };
            return Err(Failure::Wrong(format!("flows.{}: {wrong}", flow.name)));
        }
        Ok(())
    }

    /// Starts the listening end at `address` and waits until it listens.
    pub(super) fn listen(
        self,
        flow: &Flow,
        address: Ipv4Addr,
        port: u16,
    ) -> io::Result<(Child, Option<ProgramFolder>)> {
        let (mut command, folder) = match self {
            Program::Iperf3 => {
                let mut command = command("iperf3");
                command.args(["--server", "--one-off", "--bind", &address.to_string(), "--port", &port.to_string()]);
                (command, None)
            }
            Program::Curl => {
                let folder = ProgramFolder::new()?;
                let bytes = flow.bytes().unwrap_or(Bytes::ZERO);
                File::create(folder.0.join(FILE))?.set_len(bytes.get())?;
                fs::write(folder.0.join("nginx.conf"), nginx_conf(&folder.0, address, port))?;
                let mut command = command("nginx");
                command.args(["-e", "stderr", "-p"]).arg(&folder.0).arg("-c").arg(folder.0.join("nginx.conf"));
                (command, Some(folder))
            }
        };
        let mut child = spawn(&mut command)?;
        await_listening(&mut child, port, self.binaries()[0])?;
        Ok((child, folder))
    }

    /// Starts the connecting end. iperf3 goes on until it is ended.
    pub(super) fn connect(self, address: Ipv4Addr, port: u16, options: &socket::SocketOptions) -> io::Result<Child> {
        let mut command = command(self.binaries()[1]);
        match self {
            Program::Iperf3 => {
                command.args(["--client", &address.to_string(), "--port", &port.to_string()]);
                command.args(["--congestion", &options.congestion_control, "--connect-timeout", "60000"]);
                // Without end, whatever the flow's bytes: its own --bytes ends when all is written, and takes back what has
                // not arrived.
                command.args(["--time", "0"]);
            }
            Program::Curl => {
                command.args(["--silent", "--show-error", "--output", "/dev/null"]);
                command.arg(format!("http://{address}:{port}/{FILE}"));
            }
        }
        spawn(&mut command)
    }
}

/// Says of flows that a real program drives what is not as with ours.
pub(super) fn caution(points: &[Point]) -> Option<&'static str> {
    let defaults = headend_engine::tcp::personality::Personality::linux();
    let differs = points.iter().flat_map(|point| &point.scenario.nodes).any(|node| match &node.kind {
        NodeKind::Host { personality, .. } => {
            let own = &**personality;
            (own.send_buffer, own.receive_buffer, &own.delayed_ack, own.nagle)
                != (defaults.send_buffer, defaults.receive_buffer, &defaults.delayed_ack, defaults.nagle)
        }
        NodeKind::Router | NodeKind::Proxy(_) => false,
    });
    differs.then_some(
        "real programs set their sockets themselves: buffers, delayed_ack and nagle are not as the scenario says",
    )
}

/// Waits until `child`, which is called `name`, listens at `port` of this thread's namespace. One that does not is ended.
pub(super) fn await_listening(child: &mut Child, port: u16, name: &str) -> io::Result<()> {
    await_so(child, name, || is_listening(port))
}

/// The same of a program that may also wait for datagrams there.
pub(super) fn await_port(child: &mut Child, port: u16, name: &str) -> io::Result<()> {
    await_so(child, name, || Ok(is_listening(port)? || is_bound(port)?))
}

fn await_so(child: &mut Child, name: &str, mut is_so: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        if child.try_wait()?.is_some() {
            return Err(io::Error::other(last_words(child)));
        }
        if begun.elapsed() > LISTENING_MAX {
            end(child);
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{name} does not listen after {} s", LISTENING_MAX.as_secs()),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
}

/// The last words of a program that has ended badly.
pub(super) fn last_words(child: &mut Child) -> String {
    const SAID_MAX: u64 = 4_096;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // What cannot be read was not said.
        let _ = stderr.take(SAID_MAX).read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.trim().to_owned()
}

/// Ends a program that may have ended by itself.
pub(super) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The path of a program: on the PATH, or where Debian keeps daemons, which is not on everybody's.
pub(super) fn find(binary: &str) -> Option<PathBuf> {
    if binary.contains('/') {
        return Some(PathBuf::from(binary)).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(binary)).find(|file| file.is_file())
}

/// `binary`, to be run; if it has gone since it was looked for, starting it says so.
fn command(binary: &str) -> Command {
    process::command(find(binary).unwrap_or_else(|| binary.into()))
}

/// True if anybody listens at `port` in this thread's namespace (proc_net(5): state 0A).
fn is_listening(port: u16) -> io::Result<bool> {
    const LISTEN: &str = "0A";
    Ok(has_socket("tcp", port, |state| state == LISTEN)? || has_socket("tcp6", port, |state| state == LISTEN)?)
}

/// True if anybody has bound a socket of UDP to `port` there.
fn is_bound(port: u16) -> io::Result<bool> {
    Ok(has_socket("udp", port, |_| true)? || has_socket("udp6", port, |_| true)?)
}

/// True if a socket in that table of this thread's namespace has this port, in such a state.
fn has_socket(table: &str, port: u16, is_so: impl Fn(&str) -> bool) -> io::Result<bool> {
    let sockets = match fs::read_to_string(format!("/proc/thread-self/net/{table}")) {
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read?,
    };
    let wanted = format!(":{port:04X}");
    Ok(sockets.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, local, _, state, ..] if local.ends_with(&wanted) && is_so(state))
    }))
}

fn nginx_conf(folder: &Path, address: Ipv4Addr, port: u16) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr crit; events {{}}\n\
         http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
         uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         server {{ listen {address}:{port}; root {folder}; }} }}\n"
    )
}

/// A folder of this process, which goes with the value; what a killed run leaves goes with its namespaces.
#[derive(Debug)]
pub(super) struct ProgramFolder(pub(super) PathBuf);

impl ProgramFolder {
    pub(super) fn new() -> io::Result<ProgramFolder> {
        let folder = ProgramFolder(site::folder());
        // What programs say is nobody else's.
        fs::DirBuilder::new().mode(0o700).create(&folder.0)?;
        Ok(folder)
    }
}

impl Drop for ProgramFolder {
    fn drop(&mut self) {
        // The next run tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}
