//! Modems on a DOCSIS channel: contention beside theory, and what 500 of them cost.
//!
//!     cargo bench -p headend-engine --bench docsis
//!
//! Fails if throughput or the share of lost requests is further than 5% from theory, or if 60 s of a loaded upstream of 500
//! modems take 20 CPU seconds or more.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)] // a driver, not the engine

#[path = "../tests/support/contention.rs"]
mod contention;

use std::process::ExitCode;

use contention::{Rates, Setting, at_random, packet, saturated};
use headend_engine::cable::docsis::{Channel, ChannelDirection, Docsis, Modem};
use headend_engine::node::{Node, Step};
use headend_engine::packet::Packet;
use headend_engine::rng::Rng;
use headend_engine::time::{Duration, Time};

const SEED: u64 = 1;
/// The largest share by which simulation and theory may differ.
const OFF_MAX: f64 = 0.05;
const CPU_SECONDS_MAX: f64 = 20.0;

fn seconds(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn main() -> ExitCode {
    let mut worst = 0.0_f64;
    println!("Modems that always have something to send, 600 s; seed {SEED}\n");
    println!("| modems | opportunities a MAP | back-off range | heard | theory | lost requests | theory | off |");
    println!("|---|---|---|---|---|---|---|---|");
    for (opportunities, backoff_start, backoff_end) in [(1, 4, 10), (8, 6, 10), (8, 8, 8)] {
        for modems in [2, 5, 10, 20, 50, 100, 200, 500] {
            let setting = Setting { modems, opportunities, backoff_start, backoff_end };
            let counters = saturated(setting, SEED, seconds(60), seconds(660));
            let found = Rates::of(&counters, counters.opportunities as f64);
            let theory = Rates::saturated(setting);
            worst =
                worst.max(row(&format!("{modems} | {opportunities} | {backoff_start}-{backoff_end}"), found, theory));
        }
    }
    println!("\nPackets that come at random to 500 modems, 1200 s; seed {SEED}\n");
    println!(
        "| packets an opportunity | opportunities a MAP | back-off range | heard | theory | lost requests | theory | off |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for load in [0.05, 0.1, 0.15, 0.2, 0.25] {
        let setting = Setting { modems: 500, opportunities: 1, backoff_start: 6, backoff_end: 10 };
        let found = Rates::of(&at_random(setting, load, SEED, seconds(1_200)), 600_000.0);
        worst = worst.max(row(&format!("{load} | 1 | 6-10"), found, Rates::aloha(load)));
    }
    println!("\nFurthest from theory: {:.1}%", 100.0 * worst);

    println!("\n500 modems, 60 s of a loaded upstream\n");
    println!("| back-off range | packets | delivered | requests heard | collisions | bursts | CPU seconds |");
    println!("|---|---|---|---|---|---|---|");
    // The second range is too small for so many: hardly a request is heard, and collisions are work.
    let loads = [(5, 10), (0, 4)].map(|range| {
        let lengths = [(40, 41), (40, 1_501), (1_500, 1_501)];
        lengths.map(|(least, most)| loaded(range, least, most)).into_iter().fold(0.0, f64::max)
    });
    let slowest = f64::max(loads[0], loads[1]);
    if worst < OFF_MAX && slowest < CPU_SECONDS_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a row and returns how far simulation and theory are apart in it.
fn row(what: &str, found: Rates, theory: Rates) -> f64 {
    let off = found.off(&theory).into_iter().fold(0.0, f64::max);
    println!(
        "| {what} | {:.4} | {:.4} | {:.4} | {:.4} | {:.1}% |",
        found.heard,
        theory.heard,
        found.lost,
        theory.lost,
        100.0 * off
    );
    off
}

/// Modems that always have packets to send, of `least` to `most` bytes, on the usual channel: CPU seconds.
fn loaded((backoff_start, backoff_end): (u32, u32), least: u64, most: u64) -> f64 {
    const MODEMS: usize = 500;
    let start = cpu_seconds();
    let channel = Channel { backoff_start, backoff_end, ..Channel::usual() };
    let drawing = |number| (Modem::unlimited(), Rng::named(SEED, &format!("modem {number}")));
    let mut docsis = Docsis::new(channel, (0..MODEMS).map(drawing).collect()).expect("a channel of the standard");
    let mut lengths = Rng::named(SEED, "lengths");
    let (mut now, mut top_up, mut delivered, mut id) = (Time::ZERO, Time::ZERO, 0_u64, 0);
    loop {
        if now >= top_up {
            for modem in 0..MODEMS {
                for _ in docsis.backlog(modem, ChannelDirection::Up).0..20 {
                    let len = (least + lengths.below(most - least)) as u32;
                    docsis.receive(now, Docsis::subscriber_port(modem), &Packet { len, ..packet(id) });
                    id += 1;
                }
            }
            top_up = now + Duration::from_millis(20);
        }
        match docsis.poll(now) {
            Step::Send(..) => delivered += 1,
            Step::Wait(Some(wake)) if wake <= seconds(60) => now = wake.min(top_up),
            Step::Wait(_) => break,
        }
    }
    let taken = cpu_seconds() - start;
    let counters = docsis.counters();
    let (heard, collisions, bursts) = (counters.heard, counters.collisions, counters.bursts);
    println!(
        "| {backoff_start}-{backoff_end} | {least} to {} B | {delivered} | {heard} | {collisions} | {bursts} | {taken:.2} |",
        most - 1
    );
    taken
}

/// The processor time that this process has used, in seconds; it has one thread only.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says how long a process ran");
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
    nanoseconds.expect("the first number of schedstat") as f64 / 1e9
}
