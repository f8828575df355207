//! Mahimahi's format (Netravali et al. 2015, s2; its `mm-link(1)`): a line for each time, in milliseconds, at which the link could
//! deliver a packet. LeoReplayer's `bw_*.txt` and CellReplay's heavy PDOs are the same.

use headend_engine::link::recording::Recording;
use headend_engine::time::Duration;

use super::{Reading, Source, milliseconds};

pub(super) fn parse(source: &Source<'_>) -> Reading {
    let mut times: Vec<Duration> = Vec::new();
    let mut end = 0;
    for (line, text) in source.lines() {
        let Some(time) = milliseconds(text).map(Duration::from_millis) else {
            return Err(source.wrong(line, text, "a whole number of milliseconds"));
        };
        if times.last().is_some_and(|&last| time < last) {
            return Err(source.wrong(line, text, "a time not before that of the line above"));
        }
        times.push(time);
        end = line;
    }
    match times.last() {
        None => Err(source.wrong(0, source.text, "a time in milliseconds on each line")),
        Some(&Duration::ZERO) => Err(source.wrong(end, "0", "a later time on the last line: it ends the recording")),
        Some(_) => Ok(Recording::Opportunities(times.into())),
    }
}
