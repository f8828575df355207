//! Delays in milliseconds: LeoReplayer's, one a line (its `traces/README.md`: `delay_*.txt`), and CellReplay's, on each line a time,
//! the base delay from then on, and light packet delivery opportunities (its `cellular_queue.cc`).

use headend_engine::link::recording::{Recording, Series};
use headend_engine::time::{Duration, Time};

use super::{Reading, Source, milliseconds};

pub(super) fn parse(source: &Source<'_>) -> Reading {
    match source.lines().next() {
        None => Err(source.wrong(0, source.text, "a delay in milliseconds on each line, or a table")),
        Some((_, first)) if first.contains(' ') => timed(source),
        Some(_) => by_span(source),
    }
}

/// LeoReplayer's: how long a line holds is not in the file.
fn by_span(source: &Source<'_>) -> Reading {
    let read = |(line, text)| {
        let delay = milliseconds(text).filter(|&ms| ms <= DELAY_MS_MAX);
        delay.map(Duration::from_millis).ok_or_else(|| source.wrong(line, text, DELAY))
    };
    Ok(Recording::DelaysBySpan(source.lines().map(read).collect::<Result<_, _>>()?))
}

/// An hour.
const DELAY_MS_MAX: u64 = 3_600_000;
const DELAY: &str = "a delay of at most 3600000, a whole number of milliseconds";

/// CellReplay's: the first time begins the recording, and the last line ends it. The opportunities of a light load are read past.
fn timed(source: &Source<'_>) -> Reading {
    let mut steps: Vec<(Time, Duration)> = Vec::new();
    let mut begun = 0;
    let mut last = None;
    for (line, text) in source.lines() {
        let mut numbers = text.split(' ').map(milliseconds);
        let (Some(Some(time)), Some(Some(delay))) = (numbers.next(), numbers.next()) else {
            return Err(source.wrong(line, text, "a time and a delay, whole numbers of milliseconds"));
        };
        if delay > DELAY_MS_MAX {
            return Err(source.wrong(line, text, DELAY));
        }
        if numbers.any(|opportunity| opportunity.is_none()) {
            return Err(source.wrong(line, text, "whole numbers of milliseconds behind the delay"));
        }
        if last.is_some_and(|last| time <= last) {
            return Err(source.wrong(line, text, "a time later than that of the line above"));
        }
        if last.is_none() {
            begun = time;
        }
        last = Some(time);
        steps.push((Time::ZERO + Duration::from_millis(time - begun), Duration::from_millis(delay)));
    }
    match steps.pop() {
        Some((end, _)) if !steps.is_empty() => Ok(Recording::Delays(Series::repeated(steps, end.since(Time::ZERO)))),
        _ => Err(source.wrong(0, source.text, "two lines or more: the last one ends the recording")),
    }
}
