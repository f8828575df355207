//! `headend tunnel`

mod admin;
mod connect;
mod datagrams;
mod relay;
mod serve;
mod speech;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use headend_engine::cc::Algorithm;
use headend_engine::units::quantity;
use headend_host::proxy::access::{Destinations, Networks, Rule};
use headend_host::proxy::inbound::Destination;
use headend_socket::{Config, Identity, PublicKey};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::printing;

/// The longest time for which a datagram of UDP may be worth something.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// Carry any program's TCP and UDP to a server of yours, fast over a line that loses packets and fair to others in a queue
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend tunnel keygen /etc/headend/tunnel.key                                     # at both ends; prints the public key\n  \
    headend tunnel serve --listen 0.0.0.0:4433 --key /etc/headend/tunnel.key --authorized /etc/headend/authorized_keys\n  \
    headend tunnel connect tunnel.example.org:4433 --key ~/tunnel.key --server PUBLIC-KEY --socks 127.0.0.1:1080\n  \
    headend tunnel connect 192.0.2.1:4433 --key ~/tunnel.key --server PUBLIC-KEY --forward 8080:10.0.0.5:80\n  \
    headend tunnel connect 192.0.2.1:4433 --key ~/tunnel.key --server PUBLIC-KEY --udp 5353:10.0.0.5:53\n  \
    curl --proxy socks5h://127.0.0.1:1080 https://example.org/\n\n\
    authorized_keys has a client's public key on each line, and what you like behind it; SIGHUP has it read again. \
    Exit codes: 0 after SIGTERM or Ctrl-C; 2 for a wrong request; 1 for a failure.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a private key in a new file, and print its public key for the other end
    Keygen {
        /// Where the private key goes
        key: PathBuf,
    },
    /// Take the connections of clients whose keys are listed, and connect on to where they want to go
    Serve(ServeArguments),
    /// Open ways in for programs on this machine, and carry their connections to a server
    Connect(ConnectArguments),
}

#[derive(Args, Debug)]
struct Common {
    /// This end's private key, as `keygen` writes it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// Congestion control of what leaves here
    #[arg(long, value_name = "NAME", default_value = "backfill", value_parser = controller)]
    controller: Algorithm,

    /// End a connection on which nothing was heard for this long
    #[arg(long, value_name = "TIME", default_value = "180s", value_parser = crate::trunk::span)]
    idle: headend_engine::time::Duration,

    /// Send no datagram of UDP that cannot come within this time
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = life)]
    udp_deadline: Duration,

    /// Serve /status, /metrics (for Prometheus) and /healthz over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,

    /// Networks whose hosts may look at --admin, if it is beyond the loopback
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    admin_clients: Vec<ipnet::IpNet>,
}

#[derive(Args, Debug)]
struct ServeArguments {
    /// The address and UDP port at which clients come
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:4433")]
    listen: SocketAddr,

    /// A file with the public keys of clients
    #[arg(long, value_name = "FILE")]
    authorized: PathBuf,

    #[command(flatten)]
    common: Common,

    /// A destination that clients may have although it is private, this machine or mail, such as 10.0.0.0/8 or 127.0.0.1:8080
    #[arg(long, value_name = "RULE", value_parser = Rule::read)]
    allow: Vec<Rule>,

    /// A destination that they may not have, whatever else says so
    #[arg(long, value_name = "RULE", value_parser = Rule::read)]
    deny: Vec<Rule>,

    /// The only destinations that they may have, besides those of --allow
    #[arg(long, value_name = "RULE", value_parser = Rule::read)]
    only: Vec<Rule>,

    /// The user to become if started as root
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

#[derive(Args, Debug)]
struct ConnectArguments {
    /// The server, as HOST:PORT
    #[arg(value_name = "HOST:PORT")]
    server: String,

    /// The server's public key
    #[arg(long = "server", value_name = "PUBLIC-KEY", value_parser = public_key)]
    server_key: PublicKey,

    #[command(flatten)]
    common: Common,

    /// Serve SOCKS 5 at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    socks: Vec<SocketAddr>,

    /// Serve HTTP CONNECT at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Vec<SocketAddr>,

    /// Carry connections to this port, or address and port, to a host and port as the server sees them: 8080:10.0.0.5:80
    #[arg(long, value_name = "[ADDRESS:]PORT:HOST:PORT", value_parser = forward)]
    forward: Vec<Forward>,

    /// Carry datagrams of UDP to this port to a host and port as the server sees them: 5353:10.0.0.5:53
    #[arg(long, value_name = "[ADDRESS:]PORT:HOST:PORT", value_parser = forward)]
    udp: Vec<Forward>,

    /// Networks of programs that may use the ways in, beyond this machine
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    clients: Vec<ipnet::IpNet>,
}

/// A way in whose connections all have one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Forward {
    listen: SocketAddr,
    to: Destination,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Keygen { key } => {
            let identity = Identity::generate();
            identity.save(key).map_err(|error| match error.source.kind() {
                std::io::ErrorKind::AlreadyExists => Failure::Wrong(format!(
                    "{}: there is a key already, and a lost one locks its owner out: name another file, or remove this one first",
                    key.display()
                )),
                _ => Failure::from(error),
            })?;
            printing::print(|out| writeln!(out, "{}", identity.public()))
        }
        Command::Serve(arguments) => in_runtime(|| serve::run(arguments)),
        Command::Connect(arguments) => in_runtime(|| connect::run(arguments)),
    }
}

/// Runs on this thread until it is done.
fn in_runtime<F: Future<Output = Result<(), Failure>>>(body: impl FnOnce() -> F) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("no runtime: {error}")))?;
    runtime.block_on(async { body().await })
}

impl Common {
    fn identity(&self) -> Result<Identity, Failure> {
        Identity::load(&self.key).map_err(|error| match error.source.kind() {
            std::io::ErrorKind::NotFound => Failure::Wrong(format!(
                "{}: there is no key: make one with `headend tunnel keygen {}`",
                self.key.display(),
                self.key.display()
            )),
            _ => Failure::Wrong(error.to_string()),
        })
    }

    fn config(&self) -> Config {
        Config { controller: self.controller.clone(), idle: self.idle, ..Config::default() }
    }
}

impl ServeArguments {
    fn destinations(&self) -> Destinations {
        let (deny, allow, only) = (self.deny.clone(), self.allow.clone(), self.only.clone());
        Destinations { deny, allow, only, ..Destinations::default() }
    }
}

/// The signals that end a tunnel, and the one that has files read again.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("signals cannot be received: {error}"));
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// Waits for one; true if the tunnel is to end.
    async fn is_end(&mut self) -> bool {
        tokio::select! {
            _ = self.terminate.recv() => true,
            _ = self.interrupt.recv() => true,
            _ = self.hangup.recv() => false,
        }
    }
}

fn controller(text: &str) -> Result<Algorithm, String> {
    let names = || Algorithm::ALL.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
    crate::trunk::controller(text).ok_or_else(|| format!("expected one of {}", names()))
}

fn life(text: &str) -> Result<Duration, String> {
    let span = quantity::span(text).map(|span| Duration::from_nanos(span.as_nanos()));
    let span = span.filter(|span| !span.is_zero() && *span <= LIFE_MAX);
    span.ok_or_else(|| format!("expected {} longer than none, and a minute at most", quantity::SPAN))
}

fn public_key(text: &str) -> Result<PublicKey, &'static str> {
    PublicKey::read(text).ok_or("expected a public key, 44 letters, as `headend tunnel keygen` prints it at the server")
}

fn network(text: &str) -> Result<ipnet::IpNet, &'static str> {
    Networks::read(text).ok_or("expected an address or a network, such as 10.0.0.0/8")
}

fn forward(text: &str) -> Result<Forward, String> {
    const EXPECTED: &str = "expected PORT:HOST:PORT or ADDRESS:PORT:HOST:PORT, such as 8080:10.0.0.5:80";
    // The destination is the last two parts, and a host of IPv6 is in brackets.
    let splits = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    for (listen, to) in splits {
        let address = match listen.parse::<u16>() {
            Ok(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
            Err(_) => listen.parse().ok(),
        };
        if let (Some(listen), Ok(to)) = (address, Destination::read(to.as_bytes())) {
            return Ok(Forward { listen, to });
        }
    }
    Err(EXPECTED.to_owned())
}

/// The public keys in a file: one on each line, and a name behind it; lines that begin with # are nobody's.
fn authorized(path: &Path) -> Result<Vec<PublicKey>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Wrong(format!(
            "{}: there is no such file: write a client's public key on each line, as `headend tunnel keygen` prints it",
            path.display()
        )),
        _ => Failure::io(path, error),
    })?;
    read_keys(&text).map_err(|(line, what)| {
        let name = path.display().to_string();
        let message = format!("{name}:{line}: found {what}, expected a public key: 44 letters of base64");
        Failure::wrong_in(&name, &text, message)
    })
}

fn read_keys(text: &str) -> Result<Vec<PublicKey>, (usize, String)> {
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with('#')) else { continue };
        keys.push(PublicKey::read(word).ok_or_else(|| (at + 1, word.chars().take(60).collect()))?);
    }
    Ok(keys)
}
