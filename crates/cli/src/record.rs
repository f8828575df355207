//! `headend record`: a real path measured with trains of UDP packets, and written down as a recording that links read.
//!
//! Packets that leave together are spread out by the slowest link on their way: from the first to the last of a train, its bytes
//! took what that link takes for them. A train every so often follows a rate that changes, and keeps the path busy for a part of
//! the time only.

mod listen;
mod train;

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration as StdDuration, Instant};

use clap::{Args, Subcommand};

use headend_engine::time::Duration;
use headend_engine::units::quantity;
use rustix::io::Errno;

use crate::failure::Failure;
use crate::printing;
use crate::signals;
use train::{Packet, Report, Seen};

/// Measure a real path with trains of UDP packets and write a recording that links can be made of
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend record listen 0.0.0.0:9000\n  \
    headend record send 192.0.2.7:9000 --duration 60s --out radio\n\n\
    The way from `send` to `listen` is measured. radio.trace is for `rate = { trace = \"radio.trace\" }`, and radio.csv has a line for\n\
    each train. Exit codes: 0, after Ctrl-C as well; 2 for a wrong request; 1 for a failure; 3 if too few trains have arrived.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take trains at this end, and tell who sends them when they came, until Ctrl-C
    Listen {
        /// The address and port to take them at
        #[arg(value_name = "ADDRESS:PORT")]
        at: SocketAddr,
    },
    /// Send trains from this end, and write what they met
    Send(Sending),
}

#[derive(Args, Debug)]
struct Sending {
    /// Where `headend record listen` is
    #[arg(value_name = "HOST:PORT")]
    to: String,

    /// Measure for so long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    duration: Duration,

    /// The time from one train to the next; the recording's rate is the same for so long
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = span)]
    every: Duration,

    /// Bytes of each packet, as IP has them
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(200..=9_000))]
    bytes: u32,

    /// Write NAME.trace and NAME.csv
    #[arg(long, value_name = "NAME")]
    out: PathBuf,

    /// Replace them
    #[arg(long)]
    force: bool,
}

/// Packets of a train: so few until the rate is known, and then as many as the path needs for [`TRAIN`], within these bounds.
const PACKETS: std::ops::RangeInclusive<u64> = 8..=200;
/// The time that a train should take on the slowest link: long beside what hosts add to it.
const TRAIN: Duration = Duration::from_millis(8);
/// The share of the time for which a train may keep the path busy: one in so many.
const BUSY_ONE_IN: u64 = 4;
/// Packets that are sent ahead, until one is answered.
const GREETINGS: u32 = 3;
/// Reports may come so long after the last train.
const PATIENCE: StdDuration = StdDuration::from_millis(700);
/// The shortest time from one train to the next, and the longest measurement.
const EVERY_MIN: Duration = Duration::from_millis(10);
const DURATION_MAX: Duration = Duration::from_secs(3_600);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = signals::stop_flag(false)?;
    match &arguments.command {
        Command::Listen { at } => listen::run(*at, &stop),
        Command::Send(sending) => send(sending, &stop),
    }
}

fn send(sending: &Sending, stop: &AtomicBool) -> Result<(), Failure> {
    let files = ["trace", "csv"].map(|kind| file(&sending.out, kind));
    if let Some(there) = files.iter().find(|file| !sending.force && file.exists()) {
        return Err(Failure::Wrong(format!("{} is there already; replace it with --force", there.display())));
    }
    if sending.every < EVERY_MIN || sending.duration > DURATION_MAX || sending.duration < sending.every {
        let text = format!("--every is from {EVERY_MIN} on, and --duration from that to {DURATION_MAX}");
        return Err(Failure::Wrong(text));
    }
    let socket = connect(&sending.to)?;
    let seen = measure(&socket, sending, stop)?;
    let trains = (sending.duration.as_nanos() / sending.every.as_nanos()) as usize;
    let met = Met::of(&seen, trains.min(seen.last().map_or(0, |last| last.train as usize + 1)), sending.bytes);
    if seen.iter().filter(|seen| seen.rate_bps(sending.bytes).is_some()).count() < 3 {
        let text = format!(
            "{} of {trains} trains were reported, and 3 are the least: does `headend record listen` run at {}, and do its answers come \
             back?",
            seen.len(),
            sending.to
        );
        return Err(Failure::Unreliable(text));
    }
    for (file, text) in files.iter().zip([met.trace(sending.every), met.csv(sending.every)]) {
        fs::write(file, text).map_err(|error| Failure::io(file, error))?;
    }
    let name = files[0].file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    printing::print(|out| write!(out, "{}", met.summary(&name)))
}

fn file(out: &Path, kind: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".");
    name.push(kind);
    name.into()
}

fn connect(to: &str) -> Result<UdpSocket, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Wrong(format!("{to}: {why}; expected HOST:PORT"));
    let address = to.to_socket_addrs().map_err(|error| wrong(&error))?.next().ok_or_else(|| wrong(&"no address"))?;
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket));
    socket.map_err(|error| Failure::Failed(format!("{to}: {error}")))
}

/// Sends all trains and collects what the other end says of them, in their order.
fn measure(socket: &UdpSocket, sending: &Sending, stop: &AtomicBool) -> Result<Vec<Seen>, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", sending.to));
    let begun = Instant::now();
    let run = u64::from(std::process::id()) << 32 | u64::from(begun_us());
    let is_v4 = socket.peer_addr().map_err(failed)?.is_ipv4();
    let mut payload = vec![0; sending.bytes as usize - if is_v4 { 28 } else { 48 }];
    let mut found: Vec<Seen> = Vec::new();
    let mut send = |train: u32, size: u64| {
        for index in 0..size {
            let packet = Packet { run, train, index: index as u32, sent_ns: begun.elapsed().as_nanos() as u64 };
            packet.write(&mut payload);
            match socket.send(&payload) {
                Ok(_) => {}
                // Nobody listens yet, or no more: that of an earlier packet. A full queue loses this one.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {}
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    };
    // A packet alone comes first, so that no train waits for addresses to be resolved.
    for _ in 0..GREETINGS {
        send(0, 1)?;
        collect(socket, run, Instant::now() + PATIENCE, begun, 1, &mut found).map_err(failed)?;
        if !found.is_empty() || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let first = Instant::now();
    let end = first + std(sending.duration);
    let mut size = *PACKETS.start();
    for train in 0.. {
        let at = first + std(sending.every) * train;
        collect(socket, run, at, begun, usize::MAX, &mut found).map_err(failed)?;
        if at >= end || stop.load(Ordering::Relaxed) {
            break;
        }
        // The least of some, because packets that waited in a host come at any rate; and no more than twice as many as before.
        let rates = found.iter().rev().filter_map(|seen| seen.rate_bps(sending.bytes)).take(5);
        if let Some(rate) = rates.min() {
            let bits = u128::from(sending.bytes) * 8;
            let busy = TRAIN.as_nanos().min(sending.every.as_nanos() / BUSY_ONE_IN);
            let wanted = u128::from(rate) * u128::from(busy) / 1_000_000_000 / bits;
            size = (wanted.min(u128::from(2 * size)) as u64).clamp(*PACKETS.start(), *PACKETS.end());
        }
        send(train + 1, size)?;
    }
    collect(socket, run, Instant::now() + PATIENCE, begun, usize::MAX, &mut found).map_err(failed)?;
    found.sort_by_key(|seen| seen.train);
    // The packet that came first is no train.
    found.retain(|seen| seen.train > 0);
    found.iter_mut().for_each(|seen| seen.train -= 1);
    Ok(found)
}

/// Part of a run's number, so that two of one process are two.
fn begun_us() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.subsec_nanos()
}

/// Takes reports until then, or until so many trains are known.
fn collect(
    socket: &UdpSocket,
    run: u64,
    until: Instant,
    begun: Instant,
    enough: usize,
    found: &mut Vec<Seen>,
) -> std::io::Result<()> {
    let mut buffer = [0; 2_048];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || found.len() >= enough {
            return Ok(());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let Some(report) = Report::read(&buffer[..len]).filter(|report| report.run == run) else { continue };
                let round_ns = (begun.elapsed().as_nanos() as u64).checked_sub(report.last_sent_ns + report.held_ns);
                for mut seen in report.trains {
                    seen.round_ns = round_ns;
                    match found.iter_mut().rev().find(|known| known.train == seen.train) {
                        // The first word of a train may be of a part of it.
                        Some(known) => {
                            seen.round_ns = known.round_ns.into_iter().chain(seen.round_ns).min();
                            *known = seen;
                        }
                        None => found.push(seen),
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
            // Nobody listens yet, or the sleep was interrupted.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {
                thread::sleep(StdDuration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The path as trains met it: one for each time.
struct Met {
    trains: Vec<Option<Seen>>,
    bytes: u32,
}

impl Met {
    fn of(seen: &[Seen], trains: usize, bytes: u32) -> Met {
        let mut met = Met { trains: vec![None; trains], bytes };
        for one in seen {
            if let Some(slot) = met.trains.get_mut(one.train as usize) {
                *slot = Some(one.clone());
            }
        }
        met
    }

    /// The rate of each time. A train of which too little came to say it has the rate of the one before; one of which nothing came met
    /// a path that carried nothing.
    fn rates(&self) -> Vec<u64> {
        let first = self.trains.iter().flatten().find_map(|seen| seen.rate_bps(self.bytes)).unwrap_or(0);
        let mut last = first;
        let rate = |seen: &Option<Seen>| match seen {
            None => 0,
            Some(seen) => {
                last = seen.rate_bps(self.bytes).unwrap_or(last);
                last
            }
        };
        self.trains.iter().map(rate).collect()
    }

    /// In mahimahi's format: on each line a time in milliseconds at which 1500 bytes can be delivered.
    fn trace(&self, every: Duration) -> String {
        const OPPORTUNITY_BITS: u128 = 1_500 * 8;
        let mut text = String::new();
        // Bits times nanoseconds per second that were not enough for another one yet.
        let mut credit = 0_u128;
        let one = OPPORTUNITY_BITS * 1_000_000_000;
        let mut last_ms = 0;
        for (index, rate) in self.rates().into_iter().enumerate() {
            let (from, to) = (index as u64 * every.as_nanos(), (index as u64 + 1) * every.as_nanos());
            for ms in from / 1_000_000 + 1..=to / 1_000_000 {
                credit += u128::from(rate) * 1_000_000;
                for _ in 0..credit / one {
                    writeln!(text, "{ms}").expect("a String takes everything");
                    last_ms = ms;
                }
                credit %= one;
            }
        }
        // The recording ends with its last line, and has one even if the path carried nothing at last.
        let end_ms = self.trains.len() as u64 * every.as_nanos() / 1_000_000;
        if last_ms < end_ms {
            writeln!(text, "{end_ms}").expect("a String takes everything");
        }
        text
    }

    /// A line for each train: its time, its packets, the rate, and the delay beyond the least.
    fn csv(&self, every: Duration) -> String {
        let least = self.trains.iter().flatten().map(|seen| seen.way_ns).min().unwrap_or(0);
        let mut text = "time_s,packets,lost,rate_bps,delay_above_least_s,delay_s,loss_percent\n".to_owned();
        let half_round_ns = self.trains.iter().flatten().filter_map(|seen| seen.round_ns).min().unwrap_or(0) / 2;
        for (index, seen) in self.trains.iter().enumerate() {
            let time = index as f64 * every.as_secs_f64();
            let line = match seen {
                // A recording's first line says all; later an empty cell means what is above.
                None if index == 0 => format!("{time:.3},,,0,,{:.6},0", half_round_ns as f64 / 1e9),
                None => format!("{time:.3},,,0,,,"),
                Some(seen) => {
                    let rate = seen.rate_bps(self.bytes).map(|rate| rate.to_string());
                    let rate = rate.unwrap_or_else(|| if index == 0 { "0".to_owned() } else { String::new() });
                    let above = (seen.way_ns - least) as f64 / 1e9;
                    let (delay, lost) = (half_round_ns as f64 / 1e9 + above, seen.sent - seen.came);
                    let share = 100.0 * f64::from(lost) / f64::from(seen.sent.max(1));
                    format!("{time:.3},{},{lost},{rate},{above:.6},{delay:.6},{share:.3}", seen.sent)
                }
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// The totals of the measurement, and the fields of a link that is like the path.
    fn summary(&self, trace: &str) -> String {
        let mut rates: Vec<u64> = self.trains.iter().flatten().filter_map(|seen| seen.rate_bps(self.bytes)).collect();
        rates.sort_unstable();
        let at = |part: usize| rates[(rates.len() - 1) * part / 100] as f64 / 1e6;
        let (sent, came) = self
            .trains
            .iter()
            .flatten()
            .fold((0, 0), |(sent, came), seen| (sent + u64::from(seen.sent), came + u64::from(seen.came)));
        let lost = 100.0 * (sent - came) as f64 / sent.max(1) as f64;
        let round_ns = self.trains.iter().flatten().filter_map(|seen| seen.round_ns).min().unwrap_or(0);
        let ways = self.trains.iter().flatten().map(|seen| seen.way_ns);
        let varies = ways.clone().max().unwrap_or(0) - ways.min().unwrap_or(0);
        let missing = self.trains.iter().filter(|seen| seen.is_none()).count();
        format!(
            "{} trains, {missing} without a report; {came} of {sent} packets came\n\
             rate [Mbit/s]: 5% {:.3}, median {:.3}, 95% {:.3}\n\
             shortest round trip {:.3} ms; the first packet's delay varied by {:.3} ms\n\n\
             rate = {{ trace = \"{trace}\" }}\n\
             delay = \"{}us\"  # half of the shortest round trip\n\
             loss = \"{lost:.2}%\"\n",
            self.trains.len(),
            at(5),
            at(50),
            at(95),
            round_ns as f64 / 1e6,
            varies as f64 / 1e6,
            round_ns / 2_000,
        )
    }
}

fn std(span: Duration) -> StdDuration {
    StdDuration::from_nanos(span.as_nanos())
}

fn span(text: &str) -> Result<Duration, String> {
    let span = quantity::span(text).filter(|&span| span > Duration::ZERO);
    span.ok_or_else(|| format!("expected {} longer than none", quantity::SPAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(train: u32, came: u32, span_ns: u64) -> Seen {
        Seen { train, sent: 10, came, first: 0, last: 9, span_ns, way_ns: 5_000, round_ns: Some(40_000_000) }
    }

    #[test]
    fn a_recording_has_as_many_opportunities_as_the_rates_say() {
        // Nine packets of 1500 bytes after the first, in 9 and in 18 ms: 12 and 6 Mbit/s, for 100 ms each; then nothing came.
        let met = Met::of(&[seen(0, 10, 9_000_000), seen(1, 10, 18_000_000)], 3, 1_500);
        assert_eq!(met.rates(), [12_000_000, 6_000_000, 0]);
        let trace = met.trace(Duration::from_millis(100));
        let times: Vec<u64> = trace.lines().map(|line| line.parse().unwrap()).collect();
        let within = |from: u64, to: u64| times.iter().filter(|&&ms| from < ms && ms <= to).count();
        assert_eq!((within(0, 100), within(100, 200), within(200, 300)), (100, 50, 1));
        assert_eq!(times.last(), Some(&300));
    }

    #[test]
    fn a_train_of_which_one_packet_came_says_nothing_of_the_rate() {
        let met = Met::of(&[seen(0, 10, 9_000_000), seen(1, 1, 0)], 2, 1_500);
        assert_eq!(met.rates(), [12_000_000, 12_000_000]);
        let lines = met.csv(Duration::from_millis(100));
        assert_eq!(lines.lines().nth(2), Some("0.100,10,9,,0.000000,0.020000,90.000"));
        assert!(met.summary("x.trace").contains("delay = \"20000us\""), "{}", met.summary("x.trace"));
    }
}
