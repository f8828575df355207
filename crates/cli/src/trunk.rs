//! `headend trunk`

mod admin;
mod file;
mod gain;
mod measure;
mod reload;
mod status;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use headend_host::service::{News, Supervisor};
use headend_host::trunk::{self, Carriage, Config, Fallback, Identity, PeerConfig, Trunk};
use headend_host::{privilege, sysctl};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::printing::{self, Format};
pub(crate) use file::controller;
pub(crate) use measure::span;
use reload::Reloader;

/// Carry all packets to another site as one aggregate under TCP's congestion control
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend trunk keygen /etc/headend/trunk.key\n  \
    headend trunk check /etc/headend/west.toml\n  \
    headend trunk up /etc/headend/west.toml\n  \
    headend trunk status\n  \
    headend trunk reload /etc/headend/west.toml\n  \
    headend trunk down /etc/headend/west.toml\n  \
    headend trunk measure /etc/headend/west.toml east\n\n\
    The file is described in docs/reference/trunk-config.md. `up` ends on SIGTERM and Ctrl-C, and takes away what it set,\n\
    but for what keeps the packets of a sealed trunk from passing unencrypted.\n\
    Exit codes: 0; 2 for a wrong request; 1 for a failure.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a private key in a new file, and print its public key for the other site's file
    Keygen {
        /// Where the private key goes
        key: PathBuf,
    },
    /// Read the file, say what is wrong with it, and list everything that `up` would set in the kernel
    Check {
        /// The trunk's file
        file: PathBuf,
    },
    /// Run the trunk in the foreground
    Up {
        /// The trunk's file
        file: PathBuf,
    },
    /// Have the running trunk read its file again: all that has changed, or nothing
    ///
    /// Peers that have not changed go on as they are. SIGHUP does the same, and says what came of it where `up` does.
    Reload {
        /// The trunk's file
        file: PathBuf,
    },
    /// Let users' packets pass again that a trunk, now ended, has left stopped
    ///
    /// A trunk with sealed carriage leaves routes that keep packets from passing unencrypted when it ends, unless the file says
    /// `at_end = "direct"`. The next `up` takes them over; this takes them away.
    Down {
        /// The trunk's file
        file: PathBuf,
    },
    /// Measure the path to a peer, and say what a trunk and a proxy would gain on it, by the simulator
    ///
    /// No trunk may run with this file meanwhile; at the peer one must. Nothing is set in the kernel, and no user's packet
    /// is touched, but the path is filled for two thirds of the time.
    Measure {
        /// The trunk's file
        file: PathBuf,
        /// The peer, by its name in the file
        peer: String,
        /// Time to measure for, 3 s at least
        #[arg(long, value_name = "TIME", default_value = "15s", value_parser = measure::span)]
        duration: headend_engine::time::Duration,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Say what the trunks of this machine are at
    Status {
        /// The socket of one of them [default: all in /run/headend]
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Form of the output; in JSON a line for each trunk
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

/// The longest time between two signs of life to a supervisor that wants them.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Keygen { key } => keygen(key),
        Command::Check { file } => check(file),
        Command::Up { file } => up(file),
        Command::Reload { file } => reload::ask(file),
        Command::Down { file } => down(file),
        Command::Measure { file, peer, duration, format } => {
            measure::run(file, peer, *duration, *format == Format::Json)
        }
        Command::Status { socket, format } => status::ask(socket.as_deref(), *format == Format::Json),
    }
}

fn keygen(path: &Path) -> Result<(), Failure> {
    let identity = Identity::generate();
    identity.save(path)?;
    printing::print(|out| writeln!(out, "{}", identity.public()))
}

fn check(path: &Path) -> Result<(), Failure> {
    let read = file::read(path)?;
    let config = &read.config;
    printing::print(|out| {
        writeln!(out, "public key of this site: {}", read.identity.public())?;
        writeln!(out, "socket: UDP {}", listens(config))?;
        writeln!(out, "status: {}", read.status.display())?;
        if let Some(admin) = &read.admin {
            writeln!(out, "page: http://{}", admin.address)?;
        }
        writeln!(out, "carriage: {}, for {}", config.carriage.name(), read.why)?;
        for (number, peer) in config.peers.iter().enumerate() {
            writeln!(out, "peer {}: {}", peer.name, way(config, number, peer))?;
        }
        match config.at_end {
            Fallback::Direct => writeln!(out, "set in the kernel, and taken away at the end:")?,
            Fallback::Block => writeln!(
                out,
                "set in the kernel, and taken away at the end, but for what stops packets (`headend trunk down`):"
            )?,
        }
        trunk::settings(config, &read.identity.public()).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        advice(config).iter().try_for_each(|line| writeln!(out, "this machine: {line}"))
    })
}

fn down(path: &Path) -> Result<(), Failure> {
    let config = file::read(path)?.config;
    let said = trunk::clear(&config)?;
    printing::print(|out| {
        if said.is_empty() {
            writeln!(out, "nothing of the trunk {} was left", config.name)?;
        }
        said.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// The place where it listens, in words.
fn listens(config: &Config) -> String {
    match config.carriage {
        Carriage::Tunnelled => format!("port {} inside the tunnels", config.listen.port()),
        _ => config.listen.to_string(),
    }
}

/// The way that packets for a peer take, in words.
fn way(config: &Config, number: usize, peer: &PeerConfig) -> String {
    let networks = peer.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match config.carriage {
        Carriage::Native => {
            format!("{networks}: native carriage through netfilter's queue {}", usize::from(config.queue) + number)
        }
        Carriage::Tunnelled => {
            let queue = usize::from(config.queue) + number;
            format!("{networks}: tunnelled carriage through netfilter's queue {queue}, into VXLAN")
        }
        Carriage::Sealed => format!("{networks}: sealed carriage through the device {}", config.device.name),
        Carriage::Probe => "a probe".to_owned(),
    }
}

/// Lines about this machine that an operator should look at.
fn advice(config: &Config) -> Vec<String> {
    let mut lines: Vec<String> = privilege::missing_for_trunks(config.carriage == Carriage::Sealed)
        .iter()
        .map(|what| format!("this process lacks {what}"))
        .collect();
    let has = |is_ipv6: bool| {
        let networks = config.peers.iter().flat_map(|peer| &peer.networks);
        networks.into_iter().any(|network| matches!(network, ipnet::IpNet::V6(_)) == is_ipv6)
    };
    if config.carriage == Carriage::Tunnelled {
        let ends = config.peers.iter().filter_map(|peer| peer.endpoint).map(|endpoint| endpoint.ip().to_string());
        let ends = ends.collect::<Vec<_>>().join(", ");
        lines.push(format!("UDP port 4789 takes packets for this site from anybody: let in only {ends}"));
    }
    for (is_wanted, setting) in [(has(false), "net.ipv4.ip_forward"), (has(true), "net.ipv6.conf.all.forwarding")] {
        if is_wanted && sysctl::read(setting).is_ok_and(|value| value == "0") {
            lines.push(format!("{setting} is 0: it forwards nobody's packets but its own"));
        }
    }
    lines
}

fn up(path: &Path) -> Result<(), Failure> {
    let file::Read { config, identity, status, admin, why } = file::read(path)?;
    let supervisor = Supervisor::from_environment()?;
    let mut notes = vec![format!("carriage: {}, for {why}", config.carriage.name())];
    notes.extend(advice(&config));
    let name = config.name.clone();
    // A signal that comes while the rules are set is heard when they are, and takes them away.
    let failed = |error: std::io::Error| Failure::Failed(format!("signals cannot be received: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let [mut terminate, mut interrupt, mut hangup] = {
        let _entered = runtime.enter();
        let wanted = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hangup] = wanted.map(|kind| signal(kind).map_err(failed));
        [terminate?, interrupt?, hangup?]
    };
    let trunk = Trunk::start(config.clone(), identity)?;
    // From here on the rules are set; whatever fails takes them away again.
    let handle = trunk.handle();
    let reloader = Reloader { path: path.to_owned(), status: status.clone(), admin, handle: handle.clone() };
    if let Err(failure) = prepare(&trunk, &config, &reloader, &notes) {
        trunk.abandon()?;
        return Err(failure);
    }
    let (ended, is_over) = tokio::sync::oneshot::channel();
    let body = move || {
        let outcome = trunk.run();
        // Nobody waits who has not asked it to end.
        let _ = ended.send(());
        outcome
    };
    let running = thread::Builder::new().name("trunk".to_owned()).spawn(body);
    let running = running.map_err(|error| Failure::Failed(format!("no thread for the trunk: {error}")))?;
    let notify = |news: News<'_>| supervisor.iter().for_each(|supervisor| supervisor.tell(news));
    let watchdog = supervisor.as_ref().and_then(|supervisor| supervisor.watchdog);
    runtime.block_on(async {
        let mut clock = tokio::time::interval(watchdog.map_or(ALIVE_EVERY, |due| ALIVE_EVERY.min(due / 2)));
        let mut is_over = is_over;
        let mut last = None;
        eprintln!("the trunk {name} is up");
        notify(News::Ready("up"));
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => match reloader.reload() {
                    Ok(said) => said.iter().for_each(|line| eprintln!("reload: {line}")),
                    Err(failure) => {
                        eprintln!("reload: {}", failure.message().unwrap_or_default());
                    }
                },
                _ = &mut is_over => break,
                _ = clock.tick() => {
                    // The loop writes what it is at several times in a second.
                    let up = Some(handle.status().up);
                    if up != last {
                        notify(News::Alive);
                    }
                    last = up;
                }
            }
        }
    });
    notify(News::Stopping("ending"));
    handle.stop();
    let outcome = running.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
    // One that stays does no harm: the next trunk replaces it.
    let _ = std::fs::remove_file(&status);
    let after = if outcome.is_ok() { config.at_end } else { config.fallback };
    if after == Fallback::Block {
        eprintln!("users' packets stay stopped until the next `up`, or `headend trunk down {}`", path.display());
    }
    Ok(outcome?)
}

/// Opens the status socket, gives up privileges and tells the operator, once the rules are set and before the trunk runs.
fn prepare(trunk: &Trunk, config: &Config, reloader: &Reloader, notes: &[String]) -> Result<(), Failure> {
    let Reloader { status, admin, .. } = reloader;
    let listener = status::listen(status)?;
    let page = admin.as_ref().map(admin::listen).transpose()?;
    privilege::keep_for_trunks()?;
    status::answer(listener, config.name.clone(), reloader.clone())?;
    if let Some((admin, page)) = admin.clone().zip(page) {
        eprintln!("page, /status, /metrics and /healthz at http://{}", page.local_addr().unwrap_or(admin.address));
        admin::answer(page, admin, config.name.clone(), trunk.handle())?;
    }
    eprintln!("listening on {} (UDP), status at {}", listens(config), status.display());
    for (number, peer) in config.peers.iter().enumerate() {
        eprintln!("peer {}: {}", peer.name, way(config, number, peer));
    }
    let without = match config.fallback {
        Fallback::Direct => "pass as if there were no trunk",
        Fallback::Block => "wait, and are dropped when this process is gone",
    };
    eprintln!("without a circuit users' packets {without}");
    trunk.said().iter().chain(notes).for_each(|line| eprintln!("{line}"));
    Ok(())
}
