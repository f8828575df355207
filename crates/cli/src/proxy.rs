//! `headend proxy`

/// Prints as the standard macro does, which panics when nobody reads stderr any more: a pipe of a log that broke ends
/// no connections.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

mod admin;
mod ctl;
mod file;
mod lines;
mod password;
mod rules;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{ArgGroup, Args, ValueEnum};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};

use headend_host::proxy::access::{Networks, Rule};
use headend_host::proxy::books::Books;
use headend_host::proxy::config::{Config, Listener, Way};
use headend_host::proxy::inbound::Destination;
use headend_host::proxy::{Proxy, ProxyError, Sinks};

use headend_host::handover;
use headend_host::privilege;
use headend_host::service::{self, News, Passed, Supervisor};

use crate::failure::Failure;
use admin::{Admin, State};
use ctl::Consequence;
use lines::{Line, Lines};

/// Split TCP connections: end those of clients here, and connect on to servers
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("what").required(true),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
    headend proxy --listen 127.0.0.1:3128 --way http\n  \
    headend proxy --listen 10.0.0.1:1080 --way socks5 --clients 10.0.0.0/8\n  \
    headend proxy --config /etc/headend/proxy.toml\n\n\
    SIGHUP reads the file again, SIGTERM and Ctrl-C let open connections end and a second one does not.\n\
    Messages go to stderr, the lines of connections to stdout.\n\
    Exit codes: 0; 2 for a wrong request; 1 for a failure."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Subcommand>,

    /// The proxy's file (docs/reference/proxy-config.md)
    #[arg(long, value_name = "FILE", group = "what")]
    config: Option<PathBuf>,

    /// Read the file, say what is wrong with it, and end
    #[arg(long, requires = "config", conflicts_with = "listen")]
    check: bool,

    /// Take the sockets of the proxy whose file has this path as `handover`, which then lets its connections end; without
    /// one there, listen anew
    #[arg(long, value_name = "PATH", requires = "config", conflicts_with = "listen")]
    take_over: Option<PathBuf>,

    /// Listen here, without a file
    #[arg(long, value_name = "ADDRESS:PORT", group = "what")]
    listen: Option<SocketAddr>,

    /// The protocol that clients speak
    #[arg(long, value_enum, default_value_t = WayName::Http, requires = "listen", conflicts_with = "config")]
    way: WayName,

    /// The place to which all connections go, with --way forward
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "listen",
        conflicts_with = "config",
        required_if_eq("way", "forward")
    )]
    to: Option<String>,

    /// Clients to serve, such as 10.0.0.0/8 [default on a loopback address: whoever is on this machine]
    #[arg(long, value_name = "NETWORK", requires = "listen", conflicts_with = "config")]
    clients: Vec<String>,

    /// Destinations to allow although they are private, loopback, link-local or this machine's, such as 127.0.0.1:8080
    #[arg(long, value_name = "RULE", requires = "listen", conflicts_with = "config")]
    allow: Vec<String>,

    /// Destinations to refuse, such as 203.0.113.0/24 or *:22
    #[arg(long, value_name = "RULE", requires = "listen", conflicts_with = "config")]
    deny: Vec<String>,

    /// Print a line for each connection when it has ended
    #[arg(long, requires = "listen", conflicts_with = "config")]
    log: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    Rules(rules::Arguments),
    Password(password::Arguments),
    Ctl(ctl::Arguments),
}

/// The ways in, as files and the command line have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WayName {
    /// HTTP: CONNECT and absolute targets
    Http,
    /// SOCKS version 5
    Socks5,
    /// Connections that the kernel diverts here (TPROXY)
    Transparent,
    /// Clients say nothing: all connections go to one place
    Forward,
}

/// The time between two questions to every worker for a sign of life.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The time without an answer after which a worker is taken for stuck.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A disk that has refused nothing for so long is one that takes what it is given; a full one is tried twice a second.
const REFUSAL_AGE_MAX: Duration = Duration::from_secs(10);
/// The time between two looks at whether the last connection has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Some(Subcommand::Rules(rules)) => return rules::run(rules),
        Some(Subcommand::Password(password)) => return password::run(password),
        Some(Subcommand::Ctl(ctl)) => return ctl::run(ctl),
        None => {}
    }
    let config = read(arguments)?;
    config.check().map_err(|wrong| Failure::Wrong(located(arguments.config.as_deref(), &wrong)))?;
    if arguments.check {
        return Ok(());
    }
    let (lines, waiting) = Lines::new();
    let out = lines::Out::open(config.syslog.as_deref()).map_err(|(path, error)| Failure::io(&path, error))?;
    let (has_syslog, lines) = (config.syslog.is_some(), Arc::new(lines));
    let messages = lines.clone();
    let say = move |message: &str| {
        eprintln!("{message}");
        if has_syslog {
            messages.write(Line::Message(message.to_owned()));
        }
    };
    let sinks = Sinks { say: Box::new(say), line: Box::new(move |line| lines.write(Line::Connection(line))) };
    let supervisor = Supervisor::from_environment()?;
    let taken = match &arguments.take_over {
        Some(path) => handover::ask(path)?,
        None => None,
    };
    let (mut passed, predecessor) = match taken {
        Some((passed, predecessor)) => (passed, Some(predecessor)),
        None => (service::passed()?, None),
    };
    let proxy = Proxy::start_with(config, sinks, &mut passed)
        .map_err(|refusal| failure(arguments.config.as_deref(), refusal))?;
    for Passed { name, .. } in &passed {
        if predecessor.is_none() {
            return Err(Failure::Wrong(format!(
                "LISTEN_FDNAMES: nothing in the file listens where the socket {name:?} does; give both the same address"
            )));
        }
        eprintln!("{name}: a socket of the proxy before this one, which the file has no more");
    }
    drop(passed);
    // After the proxy gave up its privileges: a thread that was there before would keep some of its own.
    let writing = lines::start_writing(waiting, out)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("signals cannot be received: {error}")))?;
    let admin = Admin::start(&proxy)?;
    if let Some(predecessor) = predecessor {
        predecessor.relieve()?;
        eprintln!("took over from the proxy that ran");
    }
    if let Err(error) = privilege::forbid_needless_calls() {
        eprintln!("{error}; the proxy runs without that");
    }
    let outcome = runtime.block_on(serve(proxy, admin.as_ref(), supervisor.as_ref(), arguments.config.as_deref()));
    writing.finish();
    outcome
}

/// Serves until a signal says to end.
async fn serve(
    mut proxy: Proxy,
    admin: Option<&Admin>,
    supervisor: Option<&Supervisor>,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let mut reload = receive(SignalKind::hangup())?;
    let mut terminate = receive(SignalKind::terminate())?;
    let mut interrupt = receive(SignalKind::interrupt())?;
    // What rotates logs sends them to everybody, and unheard they end a process.
    let mut reopen = [receive(SignalKind::user_defined1())?, receive(SignalKind::user_defined2())?];
    // Only now: whoever reads that it listens may send a signal at once, and one that nobody waits for would end it.
    report(&proxy);
    if let Some(file) = file
        && let Err(failure) = file::read(file)
    {
        let why = failure.message().unwrap_or_default();
        eprintln!("{why}\nA SIGHUP cannot read the file again. {}", advice(&proxy));
    }
    let tell = |proxy: &Proxy, state| admin.iter().for_each(|admin| admin.tell(proxy, state));
    let notify = |news: News<'_>| supervisor.iter().for_each(|supervisor| supervisor.tell(news));
    let no_door = |error: std::io::Error| Failure::Failed(format!("no successor can be waited for: {error}"));
    let door = proxy.door().map(|door| UnixListener::from_std(door.try_clone()?)).transpose().map_err(no_door)?;
    let control = proxy.control().map(|control| UnixListener::from_std(control.try_clone()?)).transpose();
    let control = control.map_err(|error| Failure::Failed(format!("nobody can ask at the control socket: {error}")))?;
    let due = supervisor.and_then(|supervisor| supervisor.watchdog).map_or(ASK_EVERY, |due| ASK_EVERY.min(due / 2));
    let mut clock = tokio::time::interval(due);
    let mut answered = Instant::now();
    let mut is_stuck = false;
    let mut disk = Disk::new(proxy.books());
    notify(News::Ready("serving"));
    let state = loop {
        tokio::select! {
            _ = reload.recv() => match file {
                Some(file) => {
                    notify(News::Reloading);
                    reread(&mut proxy, file);
                    tell(&proxy, State::Serving);
                    notify(News::Ready("serving"));
                }
                None => eprintln!("SIGHUP: there is no file to read again"),
            },
            () = any(&mut reopen) => eprintln!("SIGUSR1 and SIGUSR2 change nothing: there is no file of logs to open again"),
            _ = clock.tick() => {
                disk.look();
                if proxy.responds() {
                    answered = Instant::now();
                    notify(News::Alive);
                }
                let was_stuck = std::mem::replace(&mut is_stuck, answered.elapsed() >= SILENCE_MAX);
                if is_stuck && !was_stuck {
                    eprintln!("a worker has not answered for {} s", SILENCE_MAX.as_secs());
                }
                if is_stuck != was_stuck {
                    tell(&proxy, if is_stuck { State::Stuck } else { State::Serving });
                }
            }
            asked = next(control.as_ref()) => if let Ok(asked) = asked {
                match ctl::serve(&mut proxy, asked).await {
                    Consequence::Nothing => {}
                    Consequence::Drain => break State::Draining,
                    Consequence::Changed => tell(&proxy, State::Serving),
                }
            },
            successor = next(door.as_ref()) => {
                if has_handed_over(&proxy, successor) {
                    break State::HandedOver;
                }
            }
            _ = terminate.recv() => break State::Draining,
            _ = interrupt.recv() => break State::Draining,
        }
    };
    notify(News::Stopping(state.name()));
    proxy.close_listeners();
    tell(&proxy, state);
    let limit = proxy.config().limits.drain;
    let open = proxy.books().open();
    if open > 0 {
        eprintln!("{open} connections are open and have {} s to end; a second signal ends them", limit.as_secs_f64());
    }
    let end = Instant::now() + limit;
    while !proxy.is_idle() && Instant::now() < end {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = clock.tick() => if proxy.responds() { notify(News::Alive) },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    let left = proxy.books().open();
    if left > 0 {
        eprintln!("{left} connections are reset");
    }
    if state == State::Draining {
        let config = proxy.config();
        for path in config.handover.iter().chain(&config.control) {
            // Left behind, where this user may not remove it, it does no harm.
            let _ = std::fs::remove_file(path);
        }
    }
    proxy.stop();
    Ok(())
}

/// A watch on whether the spool's disk takes what it is given.
struct Disk {
    books: Arc<Books>,
    refusals: u64,
    refused_at: Option<Instant>,
}

impl Disk {
    fn new(books: Arc<Books>) -> Disk {
        Disk { books, refusals: 0, refused_at: None }
    }

    /// Says so once when it begins to refuse, and not again before it has taken everything for a while.
    fn look(&mut self) {
        let refusals = self.books.spool_refusals.load(Ordering::Relaxed);
        if refusals != self.refusals {
            self.refusals = refusals;
            if self.refused_at.replace(Instant::now()).is_none() {
                let why = self.books.spool_error().unwrap_or_default();
                eprintln!("the spool takes no more: {why}; senders are held back until it does");
            }
        } else if self.refused_at.is_some_and(|refused_at| refused_at.elapsed() >= REFUSAL_AGE_MAX) {
            self.refused_at = None;
        }
    }
}

/// The next process that asks at a socket.
async fn next(door: Option<&UnixListener>) -> std::io::Result<UnixStream> {
    match door {
        Some(door) => door.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// True once another process serves all ways in.
fn has_handed_over(proxy: &Proxy, successor: std::io::Result<UnixStream>) -> bool {
    let outcome = successor.and_then(|successor| {
        let user = successor.peer_cred()?.uid();
        if user != 0 && user != proxy.owner().as_raw() {
            return Err(std::io::Error::other(format!("user {user} is neither root nor who started this proxy")));
        }
        handover::give(&successor.into_std()?, &proxy.sockets())
    });
    match outcome {
        Ok(true) => {
            eprintln!("another process has taken over");
            return true;
        }
        Ok(false) => eprintln!("a process that was to take over has given up; this one goes on"),
        Err(error) => eprintln!("nothing was handed over, this process goes on: {error}"),
    }
    false
}

async fn any([one, other]: &mut [Signal; 2]) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

fn receive(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::Failed(format!("signals cannot be received: {error}")))
}

/// A file with a mistake changes nothing.
fn reread(proxy: &mut Proxy, file: &Path) {
    let read = file::read(file).map_err(|failure| failure.message().unwrap_or_default().to_owned());
    let outcome = read.and_then(|config| {
        proxy.reload(config).map_err(|refusal| match refusal {
            ProxyError::Wrong(wrong) => located(Some(file), &wrong),
            ProxyError::System(error) => error.to_string(),
        })
    });
    match outcome {
        Ok(kept_back) => {
            for name in kept_back {
                eprintln!("{}: {name} is what it was until the next start: it takes a restart", file.display());
            }
            eprintln!("{}: read again", file.display());
            report(proxy);
        }
        Err(message) => {
            eprintln!("{message}\nNothing has changed: the proxy goes on as it was.");
            // The system's words, whichever file or address they are about.
            let denied = std::io::Error::from(rustix::io::Errno::ACCESS).to_string();
            if message.contains(&denied) {
                eprintln!("{}", advice(proxy));
            }
        }
    }
}

/// Advice to a person about what this process may not do.
fn advice(proxy: &Proxy) -> String {
    let (owner, user) = (proxy.owner().as_raw(), rustix::process::geteuid().as_raw());
    let who = match owner == user {
        true => format!("This proxy runs as user {user}"),
        false => format!("This proxy was started by user {owner} and has become user {user}"),
    };
    format!(
        "{who}, who may not do this. Let that user read the file and those that it names; for the rest start another proxy \
         with --take-over, which takes this one's place without refusing anybody."
    )
}

/// Reports the addresses on which the proxy listens, and the options that its sockets have.
fn report(proxy: &Proxy) {
    let config = proxy.config();
    for ((name, side), grants) in [("local", &config.local), ("remote", &config.remote)].into_iter().zip(proxy.grants())
    {
        let personality = side.name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
        if grants.is_empty() {
            eprintln!("{name} side{personality}: as the machine has it");
        }
        for grant in grants {
            eprintln!("{name} side{personality}: {grant}");
        }
    }
    for (address, way) in proxy.listening() {
        eprintln!("listening on {address} ({way})");
    }
    if let Some(address) = proxy.admin().and_then(|socket| socket.local_addr().ok()) {
        eprintln!("to look at: http://{address}/");
    }
    if let Some(warning) = proxy.warning() {
        eprintln!("{warning}");
    }
}

fn read(arguments: &Arguments) -> Result<Config, Failure> {
    let address = match (&arguments.config, arguments.listen) {
        (Some(path), _) => return file::read(path),
        (None, Some(address)) => address,
        (None, None) => unreachable!("the parser has seen to one of them"),
    };
    let wrong = |option: &str, text: &str, expected: &str| {
        Failure::Wrong(format!("--{option}: found {text:?}, expected {expected}"))
    };
    let way = match (arguments.way, &arguments.to) {
        (WayName::Forward, Some(to)) => {
            Way::Forward(Destination::read(to.as_bytes()).map_err(|why| wrong("to", to, &format!("host:port; {why}")))?)
        }
        (_, Some(to)) => return Err(wrong("to", to, "nothing but with --way forward")),
        (WayName::Http, None) => Way::Http,
        (WayName::Socks5, None) => Way::Socks5,
        (WayName::Transparent, None) => Way::Transparent,
        (WayName::Forward, None) => unreachable!("the parser has seen to it"),
    };
    let mut listener = Listener::new(address, way);
    let network = |text: &String| {
        Networks::read(text).ok_or_else(|| wrong("clients", text, "a network such as 10.0.0.0/8 or 2001:db8::/32"))
    };
    listener.clients = Networks::new(arguments.clients.iter().map(network).collect::<Result<_, _>>()?);
    let mut config = Config::new(vec![listener]);
    let rules = |option: &str, texts: &[String]| -> Result<Vec<Rule>, Failure> {
        texts.iter().map(|text| Rule::read(text).map_err(|expected| wrong(option, text, expected))).collect()
    };
    config.destinations.allow = rules("allow", &arguments.allow)?;
    config.destinations.deny = rules("deny", &arguments.deny)?;
    config.log.connections = arguments.log;
    Ok(config)
}

fn located(file: Option<&Path>, wrong: &dyn std::fmt::Display) -> String {
    match file {
        Some(file) => format!("{}: {wrong}", file.display()),
        None => wrong.to_string(),
    }
}

fn failure(file: Option<&Path>, refusal: ProxyError) -> Failure {
    match refusal {
        ProxyError::Wrong(wrong) => Failure::Wrong(located(file, &wrong)),
        ProxyError::System(error) => error.into(),
    }
}
