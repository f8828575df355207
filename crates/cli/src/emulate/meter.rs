//! The report of each second, and the summary at the end.

use std::io::{self, Write};

use headend_engine::link::Stats;
use headend_engine::time::{Duration, Time};
use headend_host::reactor::{Lateness, Report, Strain};
use headend_sim::network::Network;
use serde_json::json;

use super::ends::EmulatedSide;
use super::live::Live;
use super::name;
use crate::failure::Failure;
use crate::printing::{self, Format};

/// The links and the reactor at one moment.
#[derive(Debug)]
pub(super) struct MeterSample {
    ways: Vec<Counts>,
    report: Report,
    is_urgent: bool,
}

/// The counts of a direction of a link, and what waits in it.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    arrived: u64,
    delivered: u64,
    delivered_bytes: u64,
    dropped: u64,
    lost: u64,
    queued: u64,
    queued_bytes: u64,
}

impl MeterSample {
    pub(super) fn of(network: &Network, report: &Report, is_urgent: bool) -> MeterSample {
        let counts = |way: &headend_sim::network::Way<'_>| {
            let Stats { arrived, delivered, delivered_bytes, dropped, lost, .. } = way.stats();
            let (queued, queued_bytes) = way.backlog();
            Counts { arrived, delivered, delivered_bytes, dropped, lost, queued, queued_bytes: queued_bytes.get() }
        };
        MeterSample { ways: network.ways().iter().map(counts).collect(), report: report.clone(), is_urgent }
    }
}

/// Prints.
pub(super) struct Meter {
    format: Format,
    /// True if stdout is somebody else's, and only the end is told, on stderr.
    is_quiet: bool,
    sides: Vec<EmulatedSide>,
    /// The lateness from which on a delivery is late.
    late: Duration,
    /// Link and direction.
    names: Vec<(String, String)>,
    /// The counts that were last shown.
    before: Vec<Counts>,
    before_at: Time,
    last: Option<MeterSample>,
    live: Option<Live>,
}

impl Meter {
    pub(super) fn new(format: Format, is_quiet: bool, late: Duration, network: &Network) -> Meter {
        let names: Vec<_> = network.ways().iter().map(|way| (way.link.to_owned(), way.direction.clone())).collect();
        Meter {
            format,
            is_quiet,
            sides: Vec::new(),
            late,
            before: vec![Counts::default(); names.len()],
            names,
            before_at: Time::ZERO,
            last: None,
            live: None,
        }
    }

    /// Tells a page for the browser as well.
    pub(super) fn tell(&mut self, live: Option<Live>) {
        self.live = live;
    }

    /// True if the machine has kept up, as far as was noted.
    pub(super) fn kept_up(&self) -> bool {
        self.last.as_ref().is_none_or(|sample| sample.report.strain.is_none())
    }

    /// Says what is at the ends, and heads the table.
    pub(super) fn start(&mut self, sides: &[EmulatedSide]) -> Result<(), Failure> {
        self.sides = sides.to_vec();
        if self.is_quiet {
            return Ok(());
        }
        let ends: Vec<String> = sides.iter().map(name).collect();
        match self.format {
            Format::Table => print(|out| {
                writeln!(out, "{}; Ctrl-C ends it\n", ends.join(" <-> "))?;
                writeln!(
                    out,
                    "{:>7}  {:<width$}  {:>9}  {:>8}  {:>8}  {:>8}  {:>7}  {:>8}  {:>8}",
                    "time [s]",
                    "link",
                    "[Mbit/s]",
                    "packets",
                    "dropped",
                    "lost",
                    "queue",
                    "late p50",
                    "p99 [us]",
                    width = self.width()
                )
            }),
            Format::Json => print(|out| {
                let ends: Vec<_> = sides.iter().map(|side| json!({ "node": side.node, "place": side.place })).collect();
                writeln!(out, "{}", json!({ "event": "start", "ends": ends }))
            }),
        }
    }

    /// Prints what happened since the last time.
    pub(super) fn show(&mut self, sample: &MeterSample) -> Result<(), Failure> {
        if let Some(live) = &self.live {
            live.tell(self.second(sample));
        }
        if !self.is_quiet {
            self.print_second(sample)?;
        }
        self.note(sample);
        self.before.clone_from(&sample.ways);
        self.before_at = sample.report.now;
        Ok(())
    }

    /// The rate at which a way delivered since the second before [bit/s].
    fn rate_bps(&self, sample: &MeterSample, now: &Counts, before: &Counts) -> f64 {
        let seconds = sample.report.now.since(self.before_at).as_secs_f64();
        (now.delivered_bytes - before.delivered_bytes) as f64 * 8.0 / seconds.max(1e-9)
    }

    fn print_second(&self, sample: &MeterSample) -> Result<(), Failure> {
        let late = sample.report.deliveries;
        let rows = self.names.iter().zip(&sample.ways).zip(&self.before);
        match self.format {
            Format::Table => print(|out| {
                for ((name, now), before) in rows {
                    writeln!(
                        out,
                        "{:>8.1}  {:<width$}  {:>9.3}  {:>8}  {:>8}  {:>8}  {:>7}  {:>8.0}  {:>8.0}",
                        sample.report.now.as_secs_f64(),
                        format!("{} {}", name.0, name.1),
                        self.rate_bps(sample, now, before) / 1e6,
                        now.delivered - before.delivered,
                        now.dropped - before.dropped,
                        now.lost - before.lost,
                        now.queued,
                        late.p50.as_nanos() as f64 / 1e3,
                        late.p99.as_nanos() as f64 / 1e3,
                        width = self.width()
                    )?;
                }
                Ok(())
            }),
            Format::Json => {
                let line = self.second(sample);
                print(|out| writeln!(out, "{line}"))
            }
        }
    }

    /// The counts of each link since the sample before, as JSON.
    fn second(&self, sample: &MeterSample) -> serde_json::Value {
        let rows = self.names.iter().zip(&sample.ways).zip(&self.before);
        let links: Vec<_> = rows
            .map(|((name, now), before)| {
                json!({
                    "link": name.0,
                    "direction": name.1,
                    "rate_bps": self.rate_bps(sample, now, before).round(),
                    "arrived": now.arrived - before.arrived,
                    "delivered": now.delivered - before.delivered,
                    "dropped": now.dropped - before.dropped,
                    "lost": now.lost - before.lost,
                    "queue_packets": now.queued,
                    "queue_bytes": now.queued_bytes,
                })
            })
            .collect();
        json!({
            "event": "second",
            "time_s": sample.report.now.as_secs_f64(),
            "links": links,
            "lateness": lateness(sample.report.deliveries),
            "wakeups": lateness(sample.report.wakeups),
            "kept_up": sample.report.strain.is_none(),
        })
    }

    /// Notes what a sample says, for the summary.
    pub(super) fn note(&mut self, sample: &MeterSample) {
        let MeterSample { ways, report, is_urgent } = sample;
        self.last = Some(MeterSample { ways: ways.clone(), report: report.clone(), is_urgent: *is_urgent });
    }

    /// Prints what there was in all, and whether the machine kept up. `unwritten` packets are missing from the records.
    pub(super) fn summary(&self, unwritten: u64) -> Result<(), Failure> {
        let Some(MeterSample { ways, report, is_urgent }) = &self.last else { return Ok(()) };
        let rows = self.names.iter().zip(ways);
        match self.format {
            Format::Table => self.say(|out| {
                let headings = ["link", "packets", "bytes", "dropped", "lost", "lost [%]"].map(str::to_owned);
                let rows: Vec<Vec<String>> = rows
                    .map(|(name, counts)| {
                        let served = counts.delivered + counts.lost;
                        let share = 100.0 * counts.lost as f64 / served.max(1) as f64;
                        let numbers = [counts.delivered, counts.delivered_bytes, counts.dropped, counts.lost];
                        let mut row = vec![format!("{} {}", name.0, name.1)];
                        row.extend(numbers.map(|number| number.to_string()));
                        row.push(format!("{share:.3}"));
                        row
                    })
                    .collect();
                writeln!(out)?;
                printing::write_table(out, &headings, &rows)?;
                let late = report.deliveries_all;
                let [p50, p99, max] = [late.p50, late.p99, late.max].map(|late| late.as_nanos() as f64 / 1e3);
                writeln!(
                    out,
                    "\n{:.1} s; {} deliveries late by {p50:.0} us at the median, {p99:.0} us at 99%, {max:.0} us \
                     at most",
                    report.now.as_secs_f64(),
                    late.count
                )?;
                for line in warnings(&report.strain, self.late, *is_urgent, unwritten) {
                    writeln!(out, "{line}")?;
                }
                for line in self.downs() {
                    writeln!(out, "{line}")?;
                }
                if report.strain.is_none() {
                    let late = self.late.as_nanos() as f64 / 1e6;
                    writeln!(out, "The machine kept up: 99 of 100 packets were no more than {late} ms late.")?;
                }
                Ok(())
            }),
            Format::Json => self.say(|out| {
                let links: Vec<_> = rows
                    .map(|(name, counts)| {
                        json!({
                            "link": name.0,
                            "direction": name.1,
                            "arrived": counts.arrived,
                            "delivered": counts.delivered,
                            "delivered_bytes": counts.delivered_bytes,
                            "dropped": counts.dropped,
                            "lost": counts.lost,
                        })
                    })
                    .collect();
                let Strain { dropped, refused, full, oversize, late, stalls } = report.strain;
                let line = json!({
                    "event": "summary",
                    "time_s": report.now.as_secs_f64(),
                    "links": links,
                    "lateness": lateness(report.deliveries_all),
                    "late_from_ns": self.late.as_nanos(),
                    "wakeups": lateness(report.wakeups_all),
                    "kept_up": report.strain.is_none(),
                    "devices_down": self.downs(),
                    "strain": {
                        "dropped_unread": dropped,
                        "refused": refused,
                        "buffers_full": full,
                        "too_long": oversize,
                        "late_deliveries": late,
                        "stalls": stalls,
                    },
                    "real_time_priority": is_urgent,
                    "unrecorded_packets": unwritten,
                });
                writeln!(out, "{line}")
            }),
        }
    }

    /// A sentence for each device that somebody has taken down.
    pub(super) fn downs(&self) -> Vec<String> {
        let Some(sample) = &self.last else { return Vec::new() };
        let down = self.sides.iter().filter_map(|side| {
            let counts = sample.report.ports.get(usize::from(side.port.0)).filter(|counts| counts.was_down)?;
            Some(format!("{} was taken down meanwhile; {} packets met it so and are gone.", name(side), counts.down))
        });
        down.collect()
    }

    fn say(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        if self.is_quiet { printing::print_beside(write) } else { print(write) }
    }

    /// The width of the column of names.
    fn width(&self) -> usize {
        self.names
            .iter()
            .map(|(link, direction)| link.chars().count() + 1 + direction.chars().count())
            .max()
            .unwrap_or(0)
    }
}

/// The warnings that a reader must know before believing the figures.
fn warnings(strain: &Strain, late: Duration, is_urgent: bool, unwritten: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut signs = Vec::new();
    let mut sign = |count: u64, what: &str| {
        if count > 0 {
            signs.push(format!("{count} {what}"));
        }
    };
    sign(strain.dropped, "packets were dropped before they were read");
    sign(strain.refused, "packets were refused by a device");
    sign(strain.full, "times there was no buffer for a packet");
    sign(strain.oversize, "packets were longer than --mtu says and not carried");
    let what = format!("packets, more than one in 100, took more than {} ms too long", late.as_nanos() as f64 / 1e6);
    sign(strain.late, &what);
    sign(strain.stalls, "pauses of the machine left packets unread for more than 100 ms");
    if !signs.is_empty() {
        lines.push(format!(
            "THE MACHINE COULD NOT KEEP UP: {}. These results are not the scenario's.",
            signs.join("; ")
        ));
    }
    if !is_urgent {
        lines.push("Without CAP_SYS_NICE ordinary programs delay it: run it as root for exact times.".to_owned());
    }
    if unwritten > 0 {
        lines.push(format!("{unwritten} packets are missing from the records: the disk was too slow or too full."));
    }
    lines
}

fn lateness(late: Lateness) -> serde_json::Value {
    json!({
        "count": late.count,
        "p50_ns": late.p50.as_nanos(),
        "p99_ns": late.p99.as_nanos(),
        "max_ns": late.max.as_nanos(),
    })
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    printing::print(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_of_strain_is_told_and_none_where_there_is_none() {
        let late = Duration::from_micros(2_500);
        assert_eq!(warnings(&Strain::default(), late, true, 0), Vec::<String>::new());
        let strain = Strain { dropped: 7, late: 2, ..Strain::default() };
        let lines = warnings(&strain, late, false, 3);
        assert_eq!(
            lines[0],
            "THE MACHINE COULD NOT KEEP UP: 7 packets were dropped before they were read; 2 packets, more \
             than one in 100, took more than 2.5 ms too long. These results are not the scenario's."
        );
        assert!(lines[1].contains("CAP_SYS_NICE") && lines[2].starts_with("3 packets are missing"), "{lines:?}");
    }
}
