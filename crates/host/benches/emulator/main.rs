//! Measures how exact and how fast the emulator is on this machine, between namespaces that it makes itself.
//!
//!     cargo bench -p headend-host --bench emulator [-- [--seconds N] [--json FILE]]
//!
//! Delay: small packets cross a link of 10 ms. The kernel's time stamp on arrival, less the time of sending, less what
//! the link takes, is the error. Meanwhile a thread does nothing but sleep and notes how late it is woken: no driver can
//! do better than that, so the error beyond it is what counts.
//!
//! Throughput: full packets at a steady rate through a link of 10 Gbit/s and 10 ms, faster and faster, for as long as
//! none is lost. The reference is the kernel's own forwarding from one veth to another, offloads off, between the same
//! sender and receiver.
//!
//! Takes root; without it, says so and measures nothing.
#![cfg(target_os = "linux")]

mod load;
mod path;

use std::path::PathBuf;
use std::time::Duration as Wall;
use std::{env, fs, process, thread};

use headend_host::Error;

use load::{Late, Load};
use path::{Emulated, Forwarded};

/// Rates to try, in Mbit/s of 1500-byte packets.
const RATES_MBIT: [u64; 10] = [500, 1_000, 1_500, 2_000, 2_500, 3_000, 3_500, 4_000, 5_000, 6_000];

/// The goals of the bench: bounds that delays beyond the link's own and packet rates are to keep.
const BEYOND_P50_NS_MAX: i64 = 50_000;
const BEYOND_P99_NS_MAX: i64 = 200_000;
const RATE_MBIT_MIN: u64 = 1_500;

struct Arguments {
    seconds: u64,
    json: Option<PathBuf>,
}

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("emulator: not measured: making network namespaces and devices takes root");
        return;
    }
    let arguments = arguments();
    match measure(&arguments) {
        Ok(true) => {}
        Ok(false) => process::exit(1),
        Err(error) => {
            eprintln!("emulator: {error}");
            process::exit(1);
        }
    }
}

fn arguments() -> Arguments {
    let mut arguments = Arguments { seconds: 5, json: None };
    let mut given = env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().unwrap_or_else(|| panic!("{argument} takes a value"));
        match argument.as_str() {
            "--seconds" => arguments.seconds = value().parse().expect("--seconds takes a whole number"),
            "--json" => arguments.json = Some(value().into()),
            // cargo says this to every bench.
            "--bench" => {}
            other => panic!("no such argument: {other}; there are --seconds N and --json FILE"),
        }
    }
    arguments
}

/// Measures, prints, and says whether the figures hold.
fn measure(arguments: &Arguments) -> Result<bool, Error> {
    let seconds = Wall::from_secs(arguments.seconds);
    println!("machine: {} cores, load {}", thread::available_parallelism().map_or(0, usize::from), load_average());

    let (error, sleep) = delay(seconds)?;
    let beyond = |error: u64, sleep: u64| error as i64 - sleep as i64;
    let (beyond_p50, beyond_p99) = (beyond(error.p50, sleep.p50), beyond(error.p99, sleep.p99));
    println!("\ndelay, {} packets over 10 ms [us]    p50      p99      max", error.count);
    let micros = |ns: u64| ns as f64 / 1e3;
    for (name, late) in [("added delay error", &error), ("sleep lateness of a thread", &sleep)] {
        println!("  {name:<32} {:>6.1}   {:>6.1}   {:>6.1}", micros(late.p50), micros(late.p99), micros(late.max));
    }
    println!("  {:<32} {:>6.1}   {:>6.1}", "beyond", beyond_p50 as f64 / 1e3, beyond_p99 as f64 / 1e3);
    let is_exact = beyond_p50 < BEYOND_P50_NS_MAX && beyond_p99 < BEYOND_P99_NS_MAX;
    println!("  wanted: p50 under 50, p99 under 200: {}", verdict(is_exact));

    println!("\nthroughput, 1500-byte packets        sent     arrived  not read  lost    core");
    let emulated = throughput("emulated link", seconds, |rate| Emulated::new()?.carry(rate, seconds))?;
    let forwarded = throughput("kernel forwarding", seconds, |rate| Forwarded::new()?.carry(rate, seconds))?;
    println!(
        "  emulated {emulated} Mbit/s without a loss, kernel forwarding {forwarded}: {:.2} of it",
        emulated as f64 / forwarded.max(1) as f64
    );
    let is_fast = emulated >= RATE_MBIT_MIN;
    println!("  wanted: {RATE_MBIT_MIN} Mbit/s or more: {}", verdict(is_fast));

    if let Some(path) = &arguments.json {
        let quantiles = |late: &Late| {
            format!(
                "{{\"count\": {}, \"p50_ns\": {}, \"p99_ns\": {}, \"max_ns\": {}}}",
                late.count, late.p50, late.p99, late.max
            )
        };
        let text = format!(
            "{{\n  \"delay_error\": {},\n  \"sleep_lateness\": {},\n  \"emulated_mbit_per_s\": {emulated},\n  \
             \"kernel_forwarding_mbit_per_s\": {forwarded},\n  \"load\": \"{}\"\n}}\n",
            quantiles(&error),
            quantiles(&sleep),
            load_average()
        );
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::new(folder.display().to_string(), error))?;
        }
        fs::write(path, text).map_err(|error| Error::new(path.display().to_string(), error))?;
    }
    Ok(is_exact && is_fast)
}

fn verdict(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Measures how wrong the delay of probe packets is, and how late a thread that only sleeps is woken meanwhile.
fn delay(seconds: Wall) -> Result<(Late, Late), Error> {
    let path = Emulated::new()?;
    let sleeper = thread::spawn(move || load::sleep_lateness(seconds));
    let error = path.delay_error(seconds)?;
    Ok((error, sleeper.join().expect("the sleeper does not panic")))
}

/// The highest rate in Mbit/s, of those that are tried, at which all arrives.
fn throughput(name: &str, seconds: Wall, mut carry: impl FnMut(u64) -> Result<Load, Error>) -> Result<u64, Error> {
    println!("  {name}, {} s each", seconds.as_secs());
    let mut best = 0;
    for rate_mbit in RATES_MBIT {
        let load = carry(rate_mbit)?;
        let core = load.core.map_or("-".to_owned(), |share| format!("{:.0}%", 100.0 * share));
        println!(
            "    {rate_mbit:>5} Mbit/s wanted, {:>5.0} sent  {:>8}  {:>8}  {:>7}  {:>5}  {core:>6}",
            load.sent_mbit(),
            load.sent,
            load.arrived,
            load.not_read,
            load.sent - load.arrived.min(load.sent),
        );
        // A sender that does not manage the rate says nothing of the path.
        if load.sent_mbit() < 0.98 * rate_mbit as f64 {
            break;
        }
        if load.arrived < load.sent {
            break;
        }
        best = rate_mbit;
    }
    Ok(best)
}
