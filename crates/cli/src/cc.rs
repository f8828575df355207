//! `headend cc`

use std::io::{ErrorKind, Write};

use clap::{Args, Subcommand, ValueEnum};

use headend_engine::time::Duration;
use headend_host::backfill;
use headend_host::fast::{self, DEFAULT_SETTING, FastConnection, Installed, Instance, Parameters};
use headend_host::netns::Namespace;
use headend_host::sysctl::{self, KernelSetting};
use headend_host::{Error, socket};

use crate::failure::Failure;
use crate::printing::{self, Format};

/// Put a congestion control into the running kernel: FAST, which goes by delay, or Backfill, for lines that lose packets
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend cc install fast --alpha 12\n  \
    headend cc install backfill\n  \
    headend cc status\n  \
    headend cc set alpha=20\n  \
    headend cc remove fast\n\n\
    Once installed, every user's programs can choose it by its name: by the socket option TCP_CONGESTION, by route \
    (ip route change ... congctl fast) or as default (--default, or sysctl net.ipv4.tcp_congestion_control=fast).\n\
    It takes root, Linux 6.1 or later (Backfill: 6.10) and a kernel with BTF.\n\
    Exit codes: 0; 2 for a wrong request, or for what this machine or build lacks; 1 for a failure.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put it into the kernel, where it stays until it is removed or the machine restarts
    Install {
        /// Which congestion control
        algorithm: Algorithm,

        #[command(flatten)]
        parameters: Chosen,

        /// The name by which programs, routes and settings choose it; a name has one alpha, and two names have two
        /// [default: the algorithm's]
        #[arg(long)]
        name: Option<String>,

        /// Make it the default of new connections in this network namespace
        #[arg(long)]
        default: bool,
    },
    /// List what is installed
    List {
        /// Form of the output
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Show each connection that FAST controls: its window, its base round trip, its queueing delay
    Status {
        /// Show those of every network namespace of this machine, and not of this one alone
        #[arg(long)]
        all: bool,

        /// Form of the output
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Change what the connections aim at, also of those that are there: alpha=N or alpha=auto, gamma=PERCENT, rounds=N, check=SECONDS
    Set {
        /// The changes, such as alpha=20
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,

        /// The installed name to change [default: the only one]
        #[arg(long)]
        name: Option<String>,
    },
    /// Take it away again; connections that use it keep it until they end
    Remove {
        /// The installed name to remove [default: the only one]
        name: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Algorithm {
    /// FAST TCP (Jin, Wei and Low 2004)
    Fast,
    /// The larger of a CUBIC window and one that fills the line while its queue is short; it has no parameters
    Backfill,
}

/// FAST's parameters.
#[derive(Args, Clone, Copy, Debug)]
struct Chosen {
    /// Packets of its own that each connection aims to have in the queues of its path; auto is 20, and as many more as it sends in 2 ms
    /// [default: 20]
    #[arg(long, value_name = "N|auto", value_parser = alpha)]
    alpha: Option<u32>,

    /// The part of the way to its aim that the window goes with every update, in percent
    /// [default: 50]
    #[arg(long, value_name = "PERCENT")]
    gamma: Option<u32>,

    /// Round trips from one update of the window to the next
    /// [default: 2]
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,

    /// Seconds after which a base round trip that was not seen again is checked, as a longer route asks for; 0 never does
    /// [default: 5]
    #[arg(long, value_name = "SECONDS")]
    check: Option<u32>,
}

fn alpha(text: &str) -> Result<u32, String> {
    Parameters::alpha_of(text).ok_or_else(|| "expected a number of packets from 1 on, or auto".to_owned())
}

impl Chosen {
    fn parameters(self) -> Parameters {
        let Parameters { alpha_packets, gamma_percent, update_rounds, check_seconds } = Parameters::DEFAULT;
        Parameters {
            alpha_packets: self.alpha.unwrap_or(alpha_packets),
            gamma_percent: self.gamma.unwrap_or(gamma_percent),
            update_rounds: self.rounds.unwrap_or(update_rounds),
            check_seconds: self.check.unwrap_or(check_seconds),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(missing) = fast::missing() {
        return Err(Failure::Wrong(format!("headend cc: {missing}")));
    }
    match &arguments.command {
        Command::Install { algorithm: Algorithm::Fast, parameters, name, default } => {
            install_fast(name.as_deref().unwrap_or("fast"), parameters.parameters(), *default)
        }
        Command::Install { algorithm: Algorithm::Backfill, parameters, name, default } => {
            let Chosen { alpha, gamma, rounds, check } = parameters;
            if alpha.or(*gamma).or(*rounds).or(*check).is_some() {
                return Err(Failure::Wrong(
                    "backfill has no parameters: alpha, gamma, rounds and check are FAST's".to_owned(),
                ));
            }
            install_backfill(name.as_deref().unwrap_or("backfill"), *default)
        }
        Command::List { format } => list(*format),
        Command::Status { all, format } => status(*all, *format),
        Command::Set { changes, name } => set(name.as_deref(), changes),
        Command::Remove { name } => remove(name.as_deref()),
    }
}

fn install_fast(name: &str, parameters: Parameters, is_default: bool) -> Result<(), Failure> {
    if let Some(there) = fast::installed().map_err(failure)?.into_iter().find(|there| there.name == name) {
        if there.parameters == parameters {
            return say_already(name, is_default);
        }
        let text = format!(
            "{name} is installed already, with {}; change it with `headend cc set --name {name} alpha=N`, or \
             install another one with --name",
            describe(there.parameters)
        );
        return Err(Failure::Wrong(text));
    }
    let instance = Instance::load(name, parameters).map_err(failure)?;
    let before = if is_default { Some(sysctl::read(DEFAULT_SETTING)?) } else { None };
    instance.keep(before.as_deref()).map_err(failure)?;
    if is_default && let Err(error) = KernelSetting::new(DEFAULT_SETTING, name).apply() {
        fast::remove(name).map_err(failure)?;
        return Err(failure(error));
    }
    say_installed(name, &describe(parameters), before.as_deref())
}

fn install_backfill(name: &str, is_default: bool) -> Result<(), Failure> {
    if let Some(missing) = backfill::missing() {
        return Err(Failure::Wrong(format!("headend cc: {missing}")));
    }
    if backfill::installed().map_err(failure)?.iter().any(|there| there == name) {
        return say_already(name, is_default);
    }
    let before = if is_default { Some(sysctl::read(DEFAULT_SETTING)?) } else { None };
    backfill::Instance::load(name).and_then(backfill::Instance::keep).map_err(failure)?;
    if is_default && let Err(error) = KernelSetting::new(DEFAULT_SETTING, name).apply() {
        backfill::remove(name).map_err(failure)?;
        return Err(failure(error));
    }
    say_installed(name, "the larger of CUBIC's window and one that fills the line", before.as_deref())
}

/// Tells that what is to be installed is there already, which is no mistake: whoever installs at each start need not look
/// first. The default is made all the same.
fn say_already(name: &str, is_default: bool) -> Result<(), Failure> {
    let before = if is_default { Some(sysctl::read(DEFAULT_SETTING)?) } else { None };
    if is_default {
        KernelSetting::new(DEFAULT_SETTING, name).apply().map_err(failure)?;
    }
    printing::print(|out| {
        writeln!(out, "{name} is installed already (to have this build's: headend cc remove {name}, then install it)")?;
        say_default(out, before.as_deref())
    })
}

fn say_installed(name: &str, what: &str, default_before: Option<&str>) -> Result<(), Failure> {
    printing::print(|out| {
        writeln!(out, "installed {name}: {what}")?;
        say_default(out, default_before)
    })
}

fn say_default(out: &mut dyn Write, before: Option<&str>) -> std::io::Result<()> {
    match before {
        Some(before) => writeln!(out, "new connections of this network namespace use it; before it was {before}"),
        None => Ok(()),
    }
}

fn describe(parameters: Parameters) -> String {
    let Parameters { gamma_percent, update_rounds, check_seconds, .. } = parameters;
    let alpha = parameters.alpha();
    let check = match check_seconds {
        0 => "the base never checked".to_owned(),
        seconds => format!("the base checked every {seconds} s"),
    };
    format!("alpha {alpha}, gamma {gamma_percent}%, an update every {update_rounds} round trips, {check}")
}

/// A namespace with what FAST controls in it, listening sockets of other controllers left out.
struct Inside {
    namespace: Namespace,
    connections: Vec<FastConnection>,
    /// Its default.
    default: String,
}

/// Every namespace, or only this one.
fn look_inside(all: bool, names: &[&str]) -> Result<Vec<Inside>, Failure> {
    let mut namespaces = Namespace::all();
    if !all {
        namespaces.truncate(1);
    }
    let look = |namespace: Namespace| {
        let (connections, default) = namespace.run(|| (fast::connections(), sysctl::read(DEFAULT_SETTING)))?;
        let mut connections = connections.map_err(failure)?;
        connections.retain(|connection| !connection.is_listening || names.contains(&connection.name.as_str()));
        Ok(Inside { namespace, connections, default: default.unwrap_or_default() })
    };
    namespaces.into_iter().map(look).collect()
}

fn list(format: Format) -> Result<(), Failure> {
    let installed = fast::installed().map_err(failure)?;
    let names: Vec<&str> = installed.iter().map(|one| one.name.as_str()).collect();
    let everywhere = look_inside(true, &names)?;
    let count = |name: &str| {
        let all = everywhere.iter().flat_map(|inside| &inside.connections);
        all.filter(|connection| connection.name == name && !connection.is_listening).count()
    };
    let default = everywhere.first().map(|here| here.default.clone()).unwrap_or_default();
    let backfills = backfill::installed().map_err(failure)?;
    match format {
        Format::Table if installed.is_empty() && backfills.is_empty() => {
            printing::print(|out| writeln!(out, "nothing is installed"))
        }
        Format::Table => {
            let headings =
                ["name", "alpha", "gamma [%]", "rounds", "check [s]", "connections", "default here"].map(str::to_owned);
            let row = |one: &Installed| {
                let Parameters { gamma_percent, update_rounds, check_seconds, .. } = one.parameters;
                let is_default = if one.name == default { "yes" } else { "no" };
                vec![
                    one.name.clone(),
                    one.parameters.alpha(),
                    gamma_percent.to_string(),
                    update_rounds.to_string(),
                    check_seconds.to_string(),
                    count(&one.name).to_string(),
                    is_default.to_owned(),
                ]
            };
            let bare = |name: &String| {
                let is_default = if *name == default { "yes" } else { "no" };
                [name.as_str(), "-", "-", "-", "-", "-", is_default].map(str::to_owned).to_vec()
            };
            let rows: Vec<Vec<String>> = installed.iter().map(row).chain(backfills.iter().map(bare)).collect();
            printing::print(|out| printing::write_table(out, &headings, &rows))
        }
        Format::Json => {
            let object = |one: &Installed| {
                serde_json::json!({
                    "name": one.name,
                    "alpha": one.parameters.alpha(),
                    "alpha_packets": Some(one.parameters.alpha_packets).filter(|&alpha| alpha != Parameters::ALPHA_BY_RATE),
                    "gamma_percent": one.parameters.gamma_percent,
                    "update_rounds": one.parameters.update_rounds,
                    "check_seconds": one.parameters.check_seconds,
                    "connections": count(&one.name),
                    "is_default": one.name == default,
                })
            };
            let bare = |name: &String| serde_json::json!({ "name": name, "is_default": *name == default });
            let json: serde_json::Value = installed.iter().map(object).chain(backfills.iter().map(bare)).collect();
            printing::print(|out| writeln!(out, "{json:#}"))
        }
    }
}

fn status(all: bool, format: Format) -> Result<(), Failure> {
    let mut found = look_inside(all, &[])?;
    found.retain(|inside| !inside.connections.is_empty());
    let rows = || found.iter().flat_map(|inside| inside.connections.iter().map(|one| (inside.namespace.name(), one)));
    match format {
        Format::Table if found.is_empty() => printing::print(|out| writeln!(out, "FAST controls no connection")),
        Format::Table => {
            let headings =
                ["name", "local", "remote", "window", "base RTT [ms]", "queueing [ms]", "queued", "alpha", "namespace"];
            let columns = if all { headings.len() } else { headings.len() - 1 };
            let headings: Vec<String> = headings[..columns].iter().map(|heading| (*heading).to_owned()).collect();
            let row = |(namespace, one): (&str, &FastConnection)| {
                let mut row = cells(one);
                row.push(place(namespace));
                row.truncate(columns);
                row
            };
            let rows: Vec<Vec<String>> = rows().map(row).collect();
            printing::print(|out| printing::write_table(out, &headings, &rows))
        }
        Format::Json => {
            let json: serde_json::Value = rows().map(|(namespace, one)| object(namespace, one)).collect();
            printing::print(|out| writeln!(out, "{json:#}"))
        }
    }
}

/// Windows and queues in packets.
fn cells(connection: &FastConnection) -> Vec<String> {
    let time =
        |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{:.3}", time.as_nanos() as f64 / 1e6));
    vec![
        connection.name.clone(),
        connection.local.to_string(),
        connection.remote.to_string(),
        connection.cwnd_segments.to_string(),
        time(connection.base_rtt),
        time(connection.queueing_delay()),
        connection.queued_millipackets().map_or("-".to_owned(), |queued| format!("{:.1}", queued as f64 / 1e3)),
        connection.alpha_packets.to_string(),
    ]
}

fn object(namespace: &str, connection: &FastConnection) -> serde_json::Value {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_nanos() as f64 / 1e9);
    serde_json::json!({
        "namespace": namespace,
        "name": connection.name,
        "local": connection.local.to_string(),
        "remote": connection.remote.to_string(),
        "cwnd_segments": connection.cwnd_segments,
        "ssthresh_segments": connection.ssthresh_segments,
        "mss_bytes": connection.mss.get(),
        "base_rtt_s": seconds(connection.base_rtt),
        "mean_rtt_s": seconds(connection.mean_rtt),
        "queueing_delay_s": seconds(connection.queueing_delay()),
        "queued_packets": connection.queued_millipackets().map(|queued| queued as f64 / 1e3),
        "alpha_packets": connection.alpha_packets,
    })
}

/// A namespace in words.
fn place(namespace: &str) -> String {
    match namespace {
        "/proc/thread-self/ns/net" => "this one".to_owned(),
        other => other.to_owned(),
    }
}

fn set(name: Option<&str>, changes: &[String]) -> Result<(), Failure> {
    let there = the_one(name)?;
    let mut parameters = there.parameters;
    for change in changes {
        let wrong = || {
            Failure::Wrong(format!(
                "{change:?}: expected alpha=N or alpha=auto, gamma=PERCENT, rounds=N or check=SECONDS"
            ))
        };
        let (key, value) = change.split_once('=').ok_or_else(wrong)?;
        let number = || value.parse().map_err(|_| wrong());
        match key {
            "alpha" => parameters.alpha_packets = Parameters::alpha_of(value).ok_or_else(wrong)?,
            "gamma" => parameters.gamma_percent = number()?,
            "rounds" => parameters.update_rounds = number()?,
            "check" => parameters.check_seconds = number()?,
            _ => return Err(wrong()),
        }
    }
    fast::set(&there.name, parameters).map_err(failure)?;
    printing::print(|out| writeln!(out, "{}: {}", there.name, describe(parameters)))
}

fn remove(name: Option<&str>) -> Result<(), Failure> {
    let installed = fast::installed().map_err(failure)?;
    let backfills = backfill::installed().map_err(failure)?;
    let the_only = (installed.is_empty() && backfills.len() == 1).then(|| backfills[0].as_str());
    if let Some(name) = name.or(the_only).filter(|name| backfills.iter().any(|there| there == name)) {
        return remove_backfill(name);
    }
    match name.filter(|name| installed.iter().all(|one| one.name != *name)) {
        Some(name) => remove_what_is_left(name),
        None => remove_installed(the_one(name)?),
    }
}

/// Takes back a name that is not installed and is the default of namespaces nevertheless: what held it in the kernel has gone,
/// and a default stays with its namespace.
fn remove_what_is_left(name: &str) -> Result<(), Failure> {
    let has_left = |inside: &Inside| inside.default == name;
    if socket::kernel_names().iter().any(|known| known == name) || !look_inside(true, &[])?.iter().any(has_left) {
        return the_one(Some(name)).map(drop);
    }
    let said = release(name, None)?;
    printing::print(|out| {
        writeln!(out, "{name} was not installed any more")?;
        said.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

fn remove_backfill(name: &str) -> Result<(), Failure> {
    let said = release(name, None)?;
    backfill::remove(name).map_err(failure)?;
    printing::print(|out| {
        writeln!(out, "removed {name}")?;
        said.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

fn remove_installed(Installed { name, default_before, .. }: Installed) -> Result<(), Failure> {
    let said = release(&name, default_before)?;
    fast::remove(&name).map_err(failure)?;
    printing::print(|out| {
        writeln!(out, "removed {name}")?;
        said.iter().try_for_each(|line| writeln!(out, "{line}"))
    })
}

/// Gives every namespace that has `name` for its default another one, and says so; and which sockets keep it.
fn release(name: &str, default_before: Option<String>) -> Result<Vec<String>, Failure> {
    let everywhere = look_inside(true, &[name])?;
    // Only the machine's first namespace takes for its default what ordinary users may not choose; all take Reno.
    let successors = default_before.into_iter().filter(|before| before != name);
    let successors: Vec<String> = successors.chain(["cubic".to_owned(), "reno".to_owned()]).collect();
    let take_over = || {
        let (last, others) = successors.split_last().expect("Reno is the last");
        let taken = others.iter().find(|one| KernelSetting::new(DEFAULT_SETTING, one).apply().is_ok());
        taken.map_or_else(|| KernelSetting::new(DEFAULT_SETTING, last).apply().map(|()| last), Ok)
    };
    let mut said = Vec::new();
    for Inside { namespace, connections, default } in &everywhere {
        let place = place(namespace.name());
        // It would hold what is removed, and go on giving it to new connections.
        if *default == name {
            let successor = namespace.run(take_over)??;
            said.push(format!("network namespace {place}: the default is {successor} again"));
        }
        let own = connections.iter().filter(|connection| connection.name == name);
        let (listening, open): (Vec<_>, Vec<_>) = own.partition(|connection| connection.is_listening);
        for (sockets, what) in [(open, "connections"), (listening, "listening sockets")] {
            if !sockets.is_empty() {
                let count = sockets.len();
                said.push(format!("network namespace {place}: {what} that keep {name} until they are closed: {count}"));
            }
        }
    }
    Ok(said)
}

/// The instance that is installed under `name`, or the only one that is.
fn the_one(name: Option<&str>) -> Result<Installed, Failure> {
    let mut installed = fast::installed().map_err(failure)?;
    let names = installed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    if installed.is_empty() {
        let text = "nothing is installed; `headend cc install fast` does that";
        return Err(Failure::Wrong(name.map_or(text.to_owned(), |name| format!("{name}: {text}"))));
    }
    match name {
        Some(name) => {
            let found = installed.into_iter().find(|one| one.name == name);
            found.ok_or_else(|| Failure::Wrong(format!("{name}: nothing of this name is installed; there is {names}")))
        }
        None if installed.len() == 1 => Ok(installed.remove(0)),
        None => Err(Failure::Wrong(format!("say which: {names} are installed"))),
    }
}

/// The failure of a request that was wrong, or of the system: they have different exit codes.
fn failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::Unsupported => {
            Failure::Wrong(error.to_string())
        }
        _ => Failure::Failed(error.to_string()),
    }
}
