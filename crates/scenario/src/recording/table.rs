//! Tables: lines of numbers between commas, and a header that names the columns and their units.

use headend_engine::link::recording::{Recording, Series};
use headend_engine::part::{RATE_BPS, Recorded};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Rate, quantity};

use super::{Reading, Source, Wrong};
use crate::fields::DURATION_NS_MAX;

/// Names of columns, and nanoseconds in their units.
const TIMES: Units = &[("time_s", 1_000_000_000), ("time_ms", 1_000_000), ("time_us", 1_000), ("time_ns", 1)];
const DELAYS: Units = &[("delay_s", 1_000_000_000), ("delay_ms", 1_000_000), ("delay_us", 1_000), ("delay_ns", 1)];
/// Names of columns, and bits per second in their units.
const RATES: Units = &[("rate_bps", 1), ("rate_kbps", 1_000), ("rate_mbps", 1_000_000), ("rate_gbps", 1_000_000_000)];
/// Names of columns, and what stands behind a number of theirs.
const LOSSES: &[(&str, &str)] = &[("loss_percent", "%"), ("loss_share", "")];
const DELAY_NS_MAX: u64 = 3_600_000_000_000;

type Units = &'static [(&'static str, u64)];

pub(super) fn parse(source: &Source<'_>, what: Recorded) -> Reading {
    let series = match what {
        Recorded::Rate => {
            let rates = series(source, RATES, |text, factor| {
                let rate = quantity::nearest(text, *factor).filter(|rate| (0..=*RATE_BPS.end()).contains(rate));
                rate.map(Rate::bit).ok_or("a rate from zero to 1 Tbit/s, in the unit of the header")
            })?;
            if rates.values().all(|rate| rate == Rate::bit(0)) {
                return Err(source.wrong(0, "0", "some rate that is not zero"));
            }
            Recording::Rates(rates)
        }
        Recorded::Delay => Recording::Delays(series(source, DELAYS, |text, factor| {
            let delay = quantity::nearest(text, *factor).filter(|&delay| delay <= DELAY_NS_MAX);
            delay.map(Duration::from_nanos).ok_or("a delay from zero to an hour, in the unit of the header")
        })?),
        Recorded::Loss => Recording::Losses(series(source, LOSSES, |text, unit| {
            quantity::chance(&format!("{text}{unit}")).ok_or("a probability in the unit of the header")
        })?),
    };
    Ok(series)
}

/// A column over time, which counts from the first line. The last line lasts as long as the one before it, and a cell without a
/// number means that of the line above.
fn series<T: Copy, U>(
    source: &Source<'_>,
    names: &[(&str, U)],
    read: impl Fn(&str, &U) -> Result<T, &'static str>,
) -> Result<Series<T>, Wrong> {
    let mut lines = source.lines();
    let (number, header) = lines.next().unwrap_or((0, ""));
    let (time_at, time_unit) = column(source, (number, header), TIMES)?;
    let (value_at, unit) = column(source, (number, header), names)?;
    let width = header.split(',').count();
    let mut steps: Vec<(Time, T)> = Vec::new();
    let mut begun = None;
    let mut gap = Duration::from_secs(1);
    for (line, text) in lines {
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != width {
            return Err(source.wrong(line, text, &format!("{width} numbers between commas, as in the header")));
        }
        let time = quantity::nearest(cells[time_at], *time_unit)
            .ok_or_else(|| source.wrong(line, cells[time_at], "a time in the unit of the header"))?;
        let begun = *begun.get_or_insert(time);
        if time.saturating_sub(begun) > DURATION_NS_MAX {
            return Err(source.wrong(line, cells[time_at], "a time within 1,000 hours of the first"));
        }
        let time = match steps.last() {
            Some(&(last, _)) if begun + last.as_nanos() >= time => {
                return Err(source.wrong(line, cells[time_at], "a time later than that of the line above"));
            }
            Some(&(last, _)) => {
                let time = Time::from_nanos(time - begun);
                gap = time - last;
                time
            }
            None => Time::ZERO,
        };
        let value = match (cells[value_at], steps.last()) {
            ("", Some(&(_, above))) => above,
            (cell, _) => read(cell, unit).map_err(|expected| source.wrong(line, cell, expected))?,
        };
        steps.push((time, value));
    }
    match steps.last() {
        None => Err(source.wrong(number, header, "a line of numbers behind the header")),
        Some(&(last, _)) => Ok(Series::repeated(steps, last.since(Time::ZERO) + gap)),
    }
}

/// The place of the one column that has one of these names, and its unit.
fn column<'n, U>(
    source: &Source<'_>,
    (line, header): (usize, &str),
    names: &'n [(&str, U)],
) -> Result<(usize, &'n U), Wrong> {
    let columns = header.split(',').map(str::trim).enumerate();
    let mut found =
        columns.filter_map(|(at, name)| names.iter().find(|(known, _)| *known == name).map(|(_, u)| (at, u)));
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(found),
        (None, _) => {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            Err(source.wrong(line, header, &format!("a header with a column {}", names.join(" or "))))
        }
        (Some(_), Some(_)) => {
            Err(source.wrong(line, header, &format!("one column that begins with {:?}", stem(names))))
        }
    }
}

fn stem<U>(names: &[(&str, U)]) -> String {
    names[0].0.split('_').next().unwrap_or_default().to_owned()
}
