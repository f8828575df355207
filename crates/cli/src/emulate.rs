//! `headend emulate`

mod capture;
mod ends;
mod meter;

use std::ops::ControlFlow;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration as StdDuration, Instant};

use clap::{ArgGroup, Args};

use headend_engine::time::Duration;
use headend_engine::units::quantity;
use headend_host::reactor::{Devices, Limits, Reactor, Report, Stop};
use headend_host::{Error, clock};
use headend_sim::network::Network;

use crate::failure::Failure;
use crate::printing::Format;
use crate::request::ScenarioRequest;
use crate::signals;

use capture::Recorder;
use ends::{EmulatedSide, Ends};
use meter::{Meter, MeterSample};

/// Run the links of a scenario in real time between two namespaces or interfaces of this machine
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("ends").required(true),
    after_help = "Examples:\n  \
    headend emulate scenarios/handover.toml --between left right\n  \
    headend emulate scenarios/dumbbell.toml --between right=one left=other --duration 60s --format json\n  \
    headend emulate scenarios/handover.toml --interfaces eth1 eth2 --pcap captures\n\n\
    The scenario's flows are not run: whatever the two sides send is what crosses.\n\
    Exit codes: 0, after Ctrl-C as well; 3 if the machine did not keep up; 2 for a wrong request; 1 for a failure."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: ScenarioRequest,

    /// The namespaces in the places of two hosts, as `ip netns` names them; NODE= says of which, if there are more
    #[arg(long, num_args = 2, value_names = ["[NODE=]NAMESPACE", "[NODE=]NAMESPACE"], group = "ends")]
    between: Vec<String>,

    /// The Ethernet interfaces towards what is in the places of two hosts
    #[arg(long, num_args = 2, value_names = ["[NODE=]INTERFACE", "[NODE=]INTERFACE"], group = "ends")]
    interfaces: Vec<String>,

    /// Addresses of the devices that are made in the namespaces
    #[arg(
        long,
        num_args = 2,
        value_names = ["ADDRESS/LENGTH", "ADDRESS/LENGTH"],
        default_values = ["10.83.0.1/24", "10.83.0.2/24"],
        conflicts_with = "interfaces"
    )]
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

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at whether to stop.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(100);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stopped = signals::stop_flag(false)?;
    if arguments.request.runs.is_some() {
        return Err(Failure::Wrong("--runs: an emulation is one run; leave it out".to_owned()));
    }
    let (_, points) = arguments.request.read()?;
    let [point] = points.as_slice() else {
        let text =
            format!("the scenario sweeps over {} points; choose one with --set, and leave out [sweep]", points.len());
        return Err(Failure::Wrong(text));
    };
    if let Some(circuit) = point.scenario.circuits.first() {
        return Err(Failure::Wrong(format!("circuits.{}: circuits are simulated only", circuit.name)));
    }
    let network = Network::outside(&point.scenario, 0);
    let Ends { gates, attachments, sides } = ends::open(arguments, &point.scenario, &network)?;
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
    let mut meter = Meter::new(arguments.format, limits.late, reactor.node());
    meter.start(&sides)?;

    let (sender, samples) = mpsc::channel();
    let driver = thread::spawn(move || drive(reactor, devices, &sender));
    let printed = watch(&samples, &mut meter, arguments.duration, &stopped);
    stop.stop();
    let driven = driver.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    let (unwritten, recorded) = writer.map_or((0, Ok(())), capture::Writer::finish);
    // The last report is made after everything has stopped.
    for sample in samples.try_iter() {
        meter.note(&sample);
    }
    // Whatever has failed, what was counted until then is said first.
    let summed_up = printed.and_then(|()| meter.summary(unwritten));
    driven?;
    recorded?;
    summed_up?;
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

/// Prints what the driver reports, until time is up, or somebody wants to stop, or the driver has ended.
fn watch(
    samples: &Receiver<MeterSample>,
    meter: &mut Meter,
    duration: Option<Duration>,
    stopped: &AtomicBool,
) -> Result<(), Failure> {
    let start = Instant::now();
    let end = duration.map(|duration| StdDuration::from_nanos(duration.as_nanos()));
    loop {
        let left = end.map_or(LOOK_EVERY, |end| end.saturating_sub(start.elapsed()));
        if stopped.load(Ordering::Relaxed) || left.is_zero() {
            return Ok(());
        }
        match samples.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(sample) => meter.show(&sample)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
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
