//! Counts of what flows and links did in each of equal spans of time.

use headend_engine::time::{Duration, Time};

use super::World;
use headend_scenario::results::IntervalRow;

/// The rows so far, and the counts at the end of the last span.
#[derive(Debug)]
pub(super) struct Intervals {
    length: Option<Duration>,
    counted: Vec<u64>,
    rows: Vec<IntervalRow>,
}

impl Intervals {
    /// Spans of this length; without one the whole run is one span, and there are no rows.
    pub(super) fn new(length: Option<Duration>) -> Intervals {
        Intervals { length, counted: Vec::new(), rows: Vec::new() }
    }

    /// The end of the span that begins `now`; `None` once `limit` is reached.
    pub(super) fn next(&self, now: Time, limit: Time) -> Option<Time> {
        let end = self.length.map_or(limit, |length| now + length);
        (now < limit).then_some(end.min(limit))
    }

    /// Adds the rows of the span that ended at `end`.
    pub(super) fn note(&mut self, world: &mut World, end: Time) {
        if self.length.is_none() {
            return;
        }
        world.network.settle(end);
        let flows = world
            .flows
            .iter()
            .map(|flow| (flow.flow.clone(), flow.instance.to_string(), flow.running.arrived_bytes(world, flow), 0));
        let ways = world.network.ways();
        let links = ways.iter().map(|way| {
            (way.link.to_owned(), way.direction.clone(), way.stats().delivered_bytes, way.backlog().1.get())
        });
        for (number, (name, part, bytes, queue_bytes)) in flows.chain(links).enumerate() {
            if number == self.counted.len() {
                self.counted.push(0);
            }
            let before = std::mem::replace(&mut self.counted[number], bytes);
            let kind = if number < world.flows.len() { "flow" } else { "link" };
            self.rows.push(IntervalRow {
                kind: kind.into(),
                name: name.as_str().into(),
                part: part.as_str().into(),
                end_ns: end.as_nanos(),
                bytes: bytes - before,
                queue_bytes,
            });
        }
    }

    pub(super) fn into_rows(self) -> Vec<IntervalRow> {
        self.rows
    }
}
