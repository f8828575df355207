//! `headend conform`

mod disturbance;
mod report;

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use headend_conform::{Behaviour, Entrance, Error, FAULTS, HeaderVersion, Matrix, SocketPlace, Trial, WayIn};
use headend_engine::units::quantity;
use headend_host::netns::Namespace;
use rustix::process::Resource;

use crate::failure::Failure;
use crate::printing::{self, Format};
use crate::signals;

use disturbance::Disturbance;
use report::Heading;

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

    /// The way in which a client tells the proxy where it wants to go
    #[arg(long, value_parser = named(&WayIn::ALL, WayIn::name, WayIn::meaning))]
    way: WayIn,

    /// The address at which the server listens, as the proxy is to reach it; with a port in the way `forward`
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
    #[arg(long, value_name = "VERSION", value_parser = named(&HeaderVersion::ALL, HeaderVersion::name, HeaderVersion::meaning))]
    send_proxy: Option<HeaderVersion>,

    /// The proxy must tell the server who the client is with a PROXY header of this version
    #[arg(long, value_name = "VERSION", value_parser = named(&HeaderVersion::ALL, HeaderVersion::name, HeaderVersion::meaning))]
    expect_proxy: Option<HeaderVersion>,

    /// The number of schedules
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

    /// A command for the shell that is run again and again meanwhile, such as one that has the proxy read its file again
    #[arg(long, value_name = "COMMAND")]
    meanwhile: Option<String>,

    /// The time from the end of that command to its next begin
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = span, requires = "meanwhile")]
    every: Duration,

    /// Form of the matrix on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupted = signals::stop_flag(true)?;
    let entrance = entrance(arguments)?;
    let schedules = schedules(arguments, &Behaviour::suite(&entrance))?;
    let origin = origin_address(arguments)?;
    let heading = Heading {
        proxy: entrance.proxy.map_or_else(|| format!("the way to {}", origin.ip()), |proxy| proxy.to_string()),
        way: entrance.way.name(),
        seed: arguments.seed,
        asked: schedules.len() as u64,
        again: again(arguments),
    };
    let trial = Trial {
        entrance,
        origin,
        expected_header: arguments.expect_proxy,
        clients_place: place("--client-namespace", arguments.client_namespace.as_deref())?,
        origin_place: place("--origin-namespace", arguments.origin_namespace.as_deref())?,
        schedules,
        allowed: arguments.allow.clone(),
        jobs: usize::from(arguments.jobs),
        patience: arguments.patience,
        held_bytes_max: arguments.held_max,
    };
    allow_many_descriptors();
    let progress = ProgressLine::new(arguments.quiet, heading.asked);
    let begin = Instant::now();
    let mut disturbance = arguments.meanwhile.as_deref().map(|command| Disturbance::new(command, arguments.every));
    let report = trial.run(&mut |matrix| {
        progress.show(matrix);
        disturbance.iter_mut().for_each(Disturbance::go_on);
        let is_over = interrupted.load(Ordering::Relaxed) || begin.elapsed() >= arguments.time_limit;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.finish();
    let report = report.map_err(|error| match &error {
        Error::Listen { .. } => Failure::Failed(format!("--origin-address: {error}")),
        Error::NoProxy { .. } => Failure::Failed(format!("{error} (--way {})", heading.way)),
        Error::SocketPlace(_) => Failure::Failed(format!("--client-namespace: {error}")),
    })?;
    if let Some(why) = disturbance.and_then(Disturbance::finish) {
        return Err(Failure::Failed(format!("--meanwhile: {why}")));
    }
    printing::print(|out| match arguments.format {
        Format::Table => report::write_text(&heading, &report, out),
        Format::Json => report::write_json(&heading, &report, out),
    })?;
    verdict(&report.matrix, &heading, &interrupted, arguments.time_limit)
}

fn verdict(matrix: &Matrix, heading: &Heading, interrupted: &AtomicBool, limit: Duration) -> Result<(), Failure> {
    let (done, failed) = (matrix.done(), matrix.failed());
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted(format!("interrupted after {done} of {} schedules", heading.asked)));
    }
    if let Some(why) = matrix.without_any_connection() {
        let text =
            format!("none of {done} schedules got a connection through the proxy (--way {}): {why}", heading.way);
        return Err(Failure::Failed(text));
    }
    if failed > 0 {
        return Err(Failure::Failed(format!("{failed} of {done} schedules failed")));
    }
    if done < heading.asked {
        let text = format!("only {done} of {} schedules were run within {limit:?} (--time-limit)", heading.asked);
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
        (None, WayIn::Transparent) => None,
        (Some(address), WayIn::Transparent) => {
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
    if arguments.way == WayIn::Transparent && arguments.send_proxy.is_some() {
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
        (_, Ok(_)) if arguments.way == WayIn::Forward => {
            Err(wrong("the port too, which the proxy connects to, such as 127.0.0.1:9000"))
        }
        (_, Ok(ip)) if ip.is_unspecified() => Err(wrong("an address that can be connected to")),
        (_, Ok(ip)) => Ok(SocketAddr::new(ip, 0)),
        _ => Err(wrong("an address, such as 127.0.0.1, or 127.0.0.1:9000")),
    }
}

/// The place in the namespace of this name, or where the command itself is.
fn place(flag: &str, namespace: Option<&str>) -> Result<SocketPlace, Failure> {
    let Some(name) = namespace else { return Ok(SocketPlace::here()) };
    let namespace = Namespace::open(name).map_err(|error| {
        Failure::Failed(format!("{flag}: {error}; expected one that `ip netns list` shows, and root"))
    })?;
    Ok(SocketPlace::behind(move || namespace.enter()))
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
    Ok(Behaviour::seeds(suite, &arguments.behaviours, arguments.seed, arguments.schedules))
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

/// Allows as many descriptors as the system lets this process have: some schedules have eight connections, each with
/// two ends here.
fn allow_many_descriptors() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer it works too, with fewer jobs.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// A line on the terminal that follows what is done.
#[derive(Debug)]
struct ProgressLine {
    is_shown: bool,
    asked: u64,
}

impl ProgressLine {
    fn new(quiet: bool, asked: u64) -> ProgressLine {
        ProgressLine { is_shown: !quiet && io::stderr().is_terminal(), asked }
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

/// A parser that takes one of `all` by its name.
fn named<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    meaning: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|&value| PossibleValue::new(name(value)).help(meaning(value))))
        .map(move |text| *all.iter().find(|&&value| name(value) == text).expect("the names are those of all"))
}

fn behaviour(text: &str) -> Result<Behaviour, String> {
    let all = Behaviour::all();
    all.iter().copied().find(|behaviour| behaviour.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|behaviour| behaviour.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn fault(text: &str) -> Result<String, String> {
    if FAULTS.iter().any(|(name, _)| *name == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
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
