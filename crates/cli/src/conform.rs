//! `headend conform`

mod behaviour;
mod end;
mod exchange;
mod introduction;
mod judge;
mod message;
mod origin;
mod plan;
mod report;
mod runner;
mod speech;
mod stream;
mod tcp_memory;
mod way;

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use headend_engine::units::quantity;
use headend_host::netns::Namespace;
use rustix::process::Resource;
use tokio::sync::Mutex;

use crate::failure::Failure;
use crate::outputs;
use crate::sim;

use behaviour::Behaviour;
use introduction::Version;
use origin::Origin;
use report::{Matrix, Run};
use runner::Runner;
use tcp_memory::TcpMemory;
use way::{Entrance, Way};

/// Test whether a proxy, of any make, is as good as a wire: seeded random schedules of writes, ends, resets and stalls
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend conform 127.0.0.1:3128 --way http\n  \
    headend conform 127.0.0.1:1080 --way socks5 --schedules 10000\n  \
    headend conform 127.0.0.1:3128 --way absolute\n  \
    headend conform 127.0.0.1:8000 --way forward --origin-address 127.0.0.1:9000\n  \
    headend conform --way transparent --client-namespace pc --origin-namespace server --origin-address 10.0.2.2\n  \
    headend conform 127.0.0.1:3128 --way http --only --seed 4711\n\n\
    The command is client and server at once. The proxy must be able to reach --origin-address, and be allowed to: at \
    any port, or in the way `forward` at the one that is given.\n\
    Exit codes: 0 if every schedule passed; 1 if one failed or was not run; 2 for a wrong request; 130 for an interruption.")]
pub(crate) struct Arguments {
    /// The proxy, as HOST:PORT; left out in the way `transparent`
    address: Option<String>,

    /// How a client tells the proxy where it wants to go
    #[arg(long, value_enum)]
    way: Way,

    /// Where the server listens, as the proxy is to reach it: an address, with a port in the way `forward`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    origin_address: String,

    /// The namespace of the clients, as `ip netns` names it
    #[arg(long, value_name = "NAME")]
    client_namespace: Option<String>,

    /// The namespace of the server
    #[arg(long, value_name = "NAME")]
    origin_namespace: Option<String>,

    /// Name and password for the proxy
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<String>,

    /// Clients say who they are with a PROXY header of this version, which the proxy must accept: from 192.0.2.0/24 and
    /// 2001:db8::/32
    #[arg(long, value_enum, value_name = "VERSION")]
    send_proxy: Option<Version>,

    /// The proxy must tell the server who the client is with a PROXY header of this version
    #[arg(long, value_enum, value_name = "VERSION")]
    expect_proxy: Option<Version>,

    /// How many schedules
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    schedules: u64,

    /// Seed of the first schedule; the next ones have the next numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Run the schedule of this seed alone
    #[arg(long, conflicts_with = "schedules", requires = "seed")]
    only: bool,

    /// Run the schedules of these behaviours alone
    #[arg(long = "behaviour", value_name = "NAME", value_delimiter = ',', value_parser = behaviour)]
    behaviours: Vec<Behaviour>,

    /// Faults that are no failure
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = fault)]
    allow: Vec<String>,

    /// Schedules at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    jobs: u16,

    /// End after this time, even if not all schedules have been run
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = span)]
    time_limit: Duration,

    /// A schedule on which nothing moves for this long is stuck
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = patience)]
    patience: Duration,

    /// More bytes than this on the way to a reader that has stopped reading mean that its sender is not held back
    #[arg(long, value_name = "BYTES", default_value = "64MB", value_parser = bytes)]
    held_max: u64,

    /// Form of the matrix on stdout
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Without a connection in so many schedules, others get none either.
const HOPELESS_AFTER: u64 = 64;
/// Nor after so long, where each that never arrives is waited for.
const HOPELESS_TIME: Duration = Duration::from_secs(30);
/// Between two lines of progress, and two looks at whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupted = sim::stop_on_signals(true)?;
    let entrance = entrance(arguments)?;
    let suite = Behaviour::suite(&entrance);
    let schedules = schedules(arguments, &suite)?;
    let client_namespace = namespace("--client-namespace", arguments.client_namespace.as_deref())?;
    let origin_namespace = namespace("--origin-namespace", arguments.origin_namespace.as_deref())?;
    let at = origin_address(arguments)?;
    // Where the proxy connects on at once, this would be one connection more than the server expects.
    let is_asked = matches!(entrance.way, Way::Http | Way::Absolute | Way::Socks5);
    if let (Some(proxy), None, true) = (entrance.proxy, &client_namespace, is_asked) {
        TcpStream::connect_timeout(&proxy, arguments.patience).map_err(|error| {
            Failure::Failed(format!(
                "{proxy}: {error}; expected a proxy that listens there (--way {})",
                entrance.way.name()
            ))
        })?;
    }
    allow_many_descriptors();
    let jobs = usize::from(arguments.jobs).min(schedules.len().max(1));
    // In the way `forward` there is one server for all.
    let gates = if entrance.way == Way::Forward { 1 } else { jobs };
    let origin = Origin::start(at, gates, origin_namespace, arguments.expect_proxy)?;
    let described = match entrance.proxy {
        Some(proxy) => proxy.to_string(),
        None => format!("the way to {}", origin.gates[0].ip()),
    };
    let runner = Runner {
        entrance,
        suite,
        orders: origin.orders,
        gates: origin.gates.into_iter().map(|gate| (gate, Mutex::new(()))).collect(),
        refusing: origin.refusing,
        patience: arguments.patience,
        held_bytes_max: arguments.held_max,
    };
    let mut run = Run {
        proxy: described,
        way: arguments.way.name(),
        seed: arguments.seed,
        asked: schedules.len() as u64,
        elapsed: Duration::ZERO,
        tcp_memory: TcpMemory::new(),
        again: again(arguments),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (verdicts, received) = mpsc::channel();
    let begin = Instant::now();
    let clients = {
        let stop = stop.clone();
        thread::spawn(move || {
            if let Some(namespace) = client_namespace {
                namespace.enter()?;
            }
            runner.run(jobs, schedules, stop, verdicts);
            io::Result::Ok(())
        })
    };
    let mut matrix = Matrix::new(arguments.allow.clone());
    let mut progress = Progress::new(arguments.quiet, run.asked);
    loop {
        match received.recv_timeout(LOOK_EVERY) {
            Ok(verdict) => matrix.note(verdict),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if interrupted.load(Ordering::Relaxed) || begin.elapsed() >= arguments.time_limit {
            stop.store(true, Ordering::Relaxed);
        }
        let has_waited = matrix.done() >= HOPELESS_AFTER.min(run.asked) || begin.elapsed() >= HOPELESS_TIME;
        if has_waited && matrix.without_any_connection().is_some() {
            stop.store(true, Ordering::Relaxed);
        }
        if progress.is_due() {
            progress.show(&matrix);
            run.tcp_memory.look();
        }
    }
    progress.finish();
    let entered = clients.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    entered.map_err(|error| Failure::Failed(format!("enter the clients' namespace: {error}")))?;
    origin.thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    run.elapsed = begin.elapsed();
    outputs::print(|out| match arguments.format {
        Format::Text => matrix.write_text(&run, out),
        Format::Json => matrix.write_json(&run, out),
    })?;
    verdict(&matrix, &run, &interrupted, arguments.time_limit)
}

fn verdict(matrix: &Matrix, run: &Run, interrupted: &AtomicBool, limit: Duration) -> Result<(), Failure> {
    let (done, failed) = (matrix.done(), matrix.failed());
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!("interrupted after {done} of {} schedules", run.asked)));
    }
    if let Some(why) = matrix.without_any_connection() {
        let text = format!("none of {done} schedules got a connection through the proxy (--way {}): {why}", run.way);
        return Err(Failure::Failed(text));
    }
    if failed > 0 {
        return Err(Failure::Failed(format!("{failed} of {done} schedules failed")));
    }
    if done < run.asked {
        let text = format!("only {done} of {} schedules were run within {limit:?} (--time-limit)", run.asked);
        return Err(Failure::Failed(text));
    }
    Ok(())
}

fn entrance(arguments: &Arguments) -> Result<Entrance, Failure> {
    let user = match &arguments.user {
        None => None,
        Some(text) => match text.split_once(':') {
            Some((name, password)) if (1..=255).contains(&name.len()) && (1..=255).contains(&password.len()) => {
                Some((name.to_owned(), password.to_owned()))
            }
            _ => {
                let text = "--user: expected NAME:PASSWORD, each of 1 to 255 bytes (RFC 1929 section 2)";
                return Err(Failure::Wrong(text.to_owned()));
            }
        },
    };
    let proxy = match (&arguments.address, arguments.way) {
        (None, Way::Transparent) => None,
        (Some(address), Way::Transparent) => {
            let text = format!(
                "{address}: in the way `transparent` clients connect to the server; leave the proxy's address out and \
                 give the server's with --origin-address"
            );
            return Err(Failure::Wrong(text));
        }
        (None, way) => {
            let text = format!("expected the proxy's address, such as 127.0.0.1:3128, in the way `{}`", way.name());
            return Err(Failure::Wrong(text));
        }
        (Some(address), _) => Some(resolve(address)?),
    };
    if arguments.way == Way::Transparent && arguments.send_proxy.is_some() {
        let text = "--send-proxy: in the way `transparent` clients connect to the server and know of no proxy";
        return Err(Failure::Wrong(text.to_owned()));
    }
    Ok(Entrance { way: arguments.way, proxy, user, introduces: arguments.send_proxy })
}

fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let wrong =
        |reason: &str| Failure::Wrong(format!("{address}: expected HOST:PORT, such as 127.0.0.1:3128: {reason}"));
    let mut found = address.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address"))
}

fn origin_address(arguments: &Arguments) -> Result<SocketAddr, Failure> {
    let text = &arguments.origin_address;
    let wrong = |expected: &str| Failure::Wrong(format!("--origin-address {text}: expected {expected}"));
    match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
        (Ok(address), _) => Ok(address),
        (_, Ok(_)) if arguments.way == Way::Forward => {
            Err(wrong("the port too, which the proxy connects to, such as 127.0.0.1:9000"))
        }
        (_, Ok(ip)) if ip.is_unspecified() => Err(wrong("an address that can be connected to")),
        (_, Ok(ip)) => Ok(SocketAddr::new(ip, 0)),
        _ => Err(wrong("an address, such as 127.0.0.1, or 127.0.0.1:9000")),
    }
}

fn namespace(flag: &str, name: Option<&str>) -> Result<Option<Namespace>, Failure> {
    name.map(Namespace::open)
        .transpose()
        .map_err(|error| Failure::Failed(format!("{flag}: {error}; expected one that `ip netns list` shows, and root")))
}

/// The seeds to run.
fn schedules(arguments: &Arguments, suite: &[Behaviour]) -> Result<Vec<u64>, Failure> {
    if let Some(other) = arguments.behaviours.iter().find(|wanted| !suite.contains(wanted)) {
        let names: Vec<&str> = suite.iter().map(|behaviour| behaviour.name()).collect();
        let (other, way) = (other.name(), arguments.way.name());
        let text = format!("--behaviour {other}: not tested in the way `{way}`; expected some of {}", names.join(", "));
        return Err(Failure::Wrong(text));
    }
    if arguments.only {
        return Ok(vec![arguments.seed]);
    }
    let is_wanted = |seed: &u64| {
        arguments.behaviours.is_empty() || {
            let behaviour = suite[(seed % suite.len() as u64) as usize];
            arguments.behaviours.contains(&behaviour)
        }
    };
    Ok((arguments.seed..).filter(is_wanted).take(arguments.schedules as usize).collect())
}

/// The command line without what chooses the schedules.
fn again(arguments: &Arguments) -> String {
    let mut words = vec!["headend conform".to_owned()];
    words.extend(arguments.address.clone());
    words.push(format!("--way {}", arguments.way.name()));
    let options =
        [("--client-namespace", &arguments.client_namespace), ("--origin-namespace", &arguments.origin_namespace)];
    words.push(format!("--origin-address {}", arguments.origin_address));
    words.extend(options.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))));
    words.extend(arguments.user.as_ref().map(|_| "--user NAME:PASSWORD".to_owned()));
    let versions = [("--send-proxy", arguments.send_proxy), ("--expect-proxy", arguments.expect_proxy)];
    words.extend(versions.into_iter().filter_map(|(name, version)| Some(format!("{name} {}", version?.name()))));
    words.join(" ")
}

/// As many as the system lets this process have: some schedules have eight connections, each with two ends here.
fn allow_many_descriptors() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer it works too, with fewer jobs.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// A runtime of one thread.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime takes a few descriptors")
}

/// A line on the terminal that follows what is done.
#[derive(Debug)]
struct Progress {
    is_shown: bool,
    asked: u64,
    last: Option<Instant>,
}

impl Progress {
    fn new(quiet: bool, asked: u64) -> Progress {
        Progress { is_shown: !quiet && io::stderr().is_terminal(), asked, last: None }
    }

    /// Whether it is time to look; if so, it is not again until later.
    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }

    fn show(&self, matrix: &Matrix) {
        if self.is_shown {
            // Nobody needs it.
            let _ =
                write!(io::stderr(), "\r{} of {} schedules, {} failed ", matrix.done(), self.asked, matrix.failed());
        }
    }

    fn finish(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn behaviour(text: &str) -> Result<Behaviour, String> {
    let all = Behaviour::all();
    all.iter().copied().find(|behaviour| behaviour.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|behaviour| behaviour.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn fault(text: &str) -> Result<String, String> {
    if judge::FAULTS.iter().any(|(name, _)| *name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = judge::FAULTS.iter().map(|(name, _)| *name).collect();
    Err(format!("expected one of {}", names.join(", ")))
}

fn span(text: &str) -> Result<Duration, String> {
    let span = quantity::span(text).map(|span| Duration::from_nanos(span.as_nanos())).filter(|span| !span.is_zero());
    span.ok_or_else(|| format!("expected {} longer than none", quantity::SPAN))
}

/// Longer than the longest pause of a schedule.
fn patience(text: &str) -> Result<Duration, String> {
    span(text).and_then(|span| {
        let is_enough = span >= Duration::from_secs(3);
        is_enough.then_some(span).ok_or_else(|| "expected 3s or more: schedules pause for up to 2 s".to_owned())
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    let size = quantity::size(text).filter(|size| size.get() > 0);
    size.map(|size| size.get()).ok_or_else(|| format!("expected {}", quantity::SIZE))
}
