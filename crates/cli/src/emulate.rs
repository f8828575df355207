//! `headend emulate`

mod capture;
mod ctl;
mod ends;
mod inside;
mod live;
mod meter;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration as StdDuration, Instant};

use clap::{ArgGroup, ArgMatches, Args, Command, FromArgMatches};

use headend_engine::time::Duration;
use headend_engine::units::quantity;
use headend_host::reactor::{Devices, Limits, Reactor, Report, Stop};
use headend_host::{Error, clock, privilege, user_namespace};
use headend_sim::network::Network;

use crate::failure::Failure;
use crate::printing::Format;
use crate::request::ScenarioRequest;
use crate::signals;

use capture::Recorder;
use ctl::Controlled;
use ends::{EmulatedSide, Ends};
use live::Live;
use meter::{Meter, MeterSample};

/// Run the links of a scenario in real time between namespaces or interfaces of this machine, or around a command
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("ends").required(true),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
    headend emulate scenarios/handover.toml --between left right\n  \
    headend emulate scenarios/dumbbell.toml --between right=one left=other --duration 60s --format json\n  \
    headend emulate scenarios/dumbbell.toml --hosts left=one right=other aside=third\n  \
    headend emulate scenarios/handover.toml --interfaces eth1 eth2 --pcap captures\n  \
    headend emulate scenarios/handover.toml -- ping -c 5 10.83.0.1\n\n\
    The scenario's flows are not run, and it need not have any: whatever the ends send is what crosses.\n\
    Exit codes: 0, after Ctrl-C as well; 3 if the machine did not keep up; 2 for a wrong request; 1 for a failure, or a device\n\
    that was taken down; with a command its own, unless that is 0."
)]
pub(crate) struct Emulation {
    #[command(flatten)]
    request: ScenarioRequest,

    /// The namespaces in the places of two hosts, as `ip netns` names them; NODE= says of which, if there are more
    #[arg(long, num_args = 2, value_names = ["[NODE=]NAMESPACE", "[NODE=]NAMESPACE"], group = "ends")]
    between: Vec<String>,

    /// The namespaces in the places of several hosts; each is reached at its address
    #[arg(long, num_args = 2.., value_name = "NODE=NAMESPACE", group = "ends")]
    hosts: Vec<String>,

    /// The Ethernet interfaces towards what is in the places of two hosts
    #[arg(long, num_args = 2, value_names = ["[NODE=]INTERFACE", "[NODE=]INTERFACE"], group = "ends")]
    interfaces: Vec<String>,

    /// A command behind the network, in a namespace of its own that goes with it. It is in the place of the second host, and this
    /// namespace, at 10.83.0.1, in that of the first. Needs no root where users may make namespaces
    #[arg(last = true, value_name = "COMMAND", group = "ends", conflicts_with_all = ["addresses", "pcap"])]
    command: Vec<String>,

    /// Address of the device that is made for each end, or several with commas [default: 10.83.0.1/24, .2/24 and so on]
    #[arg(long, num_args = 2.., value_name = "ADDRESS/LENGTH", conflicts_with = "interfaces")]
    addresses: Vec<String>,

    /// Name of the devices that are made in the namespaces
    #[arg(long, value_name = "NAME", default_value = "headend", conflicts_with = "interfaces")]
    device: String,

    /// Longest packet, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1_500,
        value_parser = clap::value_parser!(u32).range(576..=65_535)
    )]
    mtu: u32,

    /// Stop after this time, such as 60s [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = span)]
    duration: Option<Duration>,

    /// Form of the report of each second on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Serve a page for the browser at this address that draws what crosses, such as 127.0.0.1:8090
    #[arg(long, value_name = "ADDRESS:PORT")]
    live: Option<SocketAddr>,

    /// Record what passes each side: a pcapng file for each in this folder
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,

    /// Exit with 0 also if the machine did not keep up
    #[arg(long)]
    accept_late: bool,

    /// Bytes of a packet that a record keeps
    #[arg(long, value_name = "BYTES", default_value_t = 65_535, requires = "pcap")]
    snap_len: u32,
}

/// `headend emulate FILE` or `headend emulate ctl`.
#[derive(Debug)]
pub(crate) enum Arguments {
    Run(Box<Emulation>),
    Ctl(ctl::Ctl),
}

const CTL: &str = "ctl";

// By hand, because a derived one wants the scenario file even where the subcommand is given instead.
impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Arguments, clap::Error> {
        match matches.subcommand() {
            Some((_, ctl)) => Ok(Arguments::Ctl(ctl::Ctl::from_arg_matches(ctl)?)),
            None => Ok(Arguments::Run(Box::new(Emulation::from_arg_matches(matches)?))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Arguments::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        Emulation::augment_args(command).subcommand(ctl::Ctl::augment_args(Command::new(CTL)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Arguments::augment_args(command)
    }
}

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at whether to stop.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(100);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments {
        Arguments::Run(emulation) => emulate(emulation),
        Arguments::Ctl(ctl) => ctl::run(ctl),
    }
}

fn emulate(arguments: &Emulation) -> Result<(), Failure> {
    let listener = arguments.live.map(live::listen).transpose()?;
    let has_command = !arguments.command.is_empty();
    if has_command && !privilege::missing().is_empty() && user_namespace::are_allowed() {
        // First of all: it must be done before there is another thread.
        user_namespace::enter()?;
    }
    let stopped = signals::stop_flag(false)?;
    if arguments.request.runs.is_some() {
        return Err(Failure::Wrong("--runs: an emulation is one run; leave it out".to_owned()));
    }
    let (document, points) = arguments.request.read_links()?;
    let [point] = points.as_slice() else {
        let text =
            format!("the scenario sweeps over {} points; choose one with --set, and leave out [sweep]", points.len());
        return Err(Failure::Wrong(text));
    };
    if let Some(circuit) = point.scenario.circuits.first() {
        let text = "`headend emulate` is the network between circuits' ends: leave it out and run `headend trunk` in the hosts' places, or have \
                    `headend lab` do that";
        return Err(Failure::Wrong(format!("circuits.{}: {text}", circuit.name)));
    }
    let network = Network::outside(&point.scenario, 0);
    let Ends { gates, attachments, sides, inside } = ends::open(arguments, &point.scenario, &network)?;
    let stop = Stop::new()?;
    let devices = Devices::new(gates, stop.clone());
    let limits = Limits::new(arguments.mtu + ends::FRAME_BYTES, point.scenario.shortest_delay());
    let mut reactor = Reactor::new(network, attachments, limits);
    let writer = match &arguments.pcap {
        Some(folder) => {
            let (recorder, writer) = Recorder::start(folder, &sides, arguments.snap_len, devices.clock())?;
            reactor.tap(Box::new(recorder));
            Some(writer)
        }
        None => None,
    };
    let mut meter = Meter::new(arguments.format, has_command, limits.late, reactor.node());
    meter.tell(listener.map(Live::start));
    meter.start(&sides)?;
    let (orders, ordered) = mpsc::channel();
    reactor.orders(ordered);
    let controlled = Controlled { document, scenario: point.scenario.clone(), orders };
    let _listening = ctl::listen(controlled)
        .inspect_err(|error| eprintln!("`headend emulate ctl` cannot change this one: {error}"))
        .ok();

    let (sender, samples) = mpsc::channel();
    let driver = thread::spawn(move || drive(reactor, devices, &sender));
    let running = inside.map(|inside| inside.start(&arguments.command));
    let watched = watch(&samples, &mut meter, arguments.duration, &stopped, running.as_ref());
    stop.stop();
    let driven = driver.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    let (unwritten, recorded) = writer.map_or((0, Ok(())), capture::Writer::finish);
    // The last report is made after everything has stopped.
    for sample in samples.try_iter() {
        meter.note(&sample);
    }
    // Whatever has failed, what was counted until then is said first.
    let summed_up = watched.and_then(|ended| meter.summary(unwritten).map(|()| ended));
    driven?;
    recorded?;
    if let Some(ended) = summed_up?
        && !ended.success()
    {
        return Err(Failure::OfCommand(ended.code().or(ended.signal().map(|signal| 128 + signal)).unwrap_or(1)));
    }
    if let Some(down) = meter.downs().into_iter().next() {
        return Err(Failure::Failed(down));
    }
    if meter.kept_up() || arguments.accept_late {
        return Ok(());
    }
    let text = "exit code 3: the machine did not keep up, so these results are not to be relied on (--accept-late takes \
                them all the same)";
    Err(Failure::Unreliable(text.to_owned()))
}

/// The reactor's thread: until it is stopped, or fails.
fn drive(
    mut reactor: Reactor<Network>,
    mut devices: Devices,
    samples: &mpsc::Sender<MeterSample>,
) -> Result<(), Error> {
    let is_urgent = clock::wake_on_time().is_ok();
    reactor.run(&mut devices, INTERVAL, &mut |network: &mut Network, report: &Report| {
        // Whoever reads them may have gone: then it is about to say stop.
        let _ = samples.send(MeterSample::of(network, report, is_urgent));
        ControlFlow::Continue(())
    })
}

/// Prints what the driver reports, until time is up, or somebody wants to stop, or the driver or the command has ended; how the
/// command has, if it did.
fn watch(
    samples: &Receiver<MeterSample>,
    meter: &mut Meter,
    duration: Option<Duration>,
    stopped: &AtomicBool,
    running: Option<&inside::Running>,
) -> Result<Option<ExitStatus>, Failure> {
    let start = Instant::now();
    let end = duration.map(|duration| StdDuration::from_nanos(duration.as_nanos()));
    let look_every = if running.is_some() { LOOK_EVERY / 10 } else { LOOK_EVERY };
    loop {
        let left = end.map_or(look_every, |end| end.saturating_sub(start.elapsed()));
        if let Some(ended) = running.and_then(inside::Running::ended) {
            return ended.map(Some);
        }
        // Ctrl-C reaches the command as well, which may want to end in its own time.
        if running.is_none() && stopped.load(Ordering::Relaxed) || left.is_zero() {
            return Ok(None);
        }
        match samples.recv_timeout(left.min(look_every)) {
            Ok(sample) => meter.show(&sample)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let span = quantity::span(text).filter(|&span| span > Duration::ZERO);
    span.ok_or_else(|| format!("expected {} longer than none", quantity::SPAN))
}

/// One side as messages and files call it.
fn name(side: &EmulatedSide) -> String {
    format!("{} ({})", side.node, side.place)
}
