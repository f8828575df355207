//! A scenario as a graph in virtual time: built, run by jumping from event to event, and read out at the end.

mod build;
mod circuits;
mod collect;
mod flows;
mod intervals;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::Cell;
use std::rc::Rc;

use headend_engine::node::Step;
use headend_engine::time::{Duration, Time};

use crate::host::Host;
use crate::network::Network;
use crate::proxy::Proxy;
use flows::Instance;
use headend_scenario::results::RunOutcome;
use headend_scenario::results::trace::RunTrace;
use intervals::Intervals;

/// Events between two looks at whether to stop.
const LOOK_EVERY: u32 = 1 << 14;

/// One run of a scenario, ready to start.
#[derive(Debug)]
pub struct World {
    network: Network<Host, Proxy>,
    flows: Vec<Instance>,
    circuits: Vec<circuits::Joined>,
    /// Ends of flows that are still under way.
    live: Rc<Cell<usize>>,
    limit: Time,
    /// Spans in which to count what flows and links do.
    interval: Option<Duration>,
    seed: u64,
    run: u32,
    trace: bool,
}

impl World {
    /// Runs until all flows have ended or time is up. `stopped` is asked now and then whether to give up: then there is
    /// no outcome. `point` is noted in the outcome.
    ///
    /// # Panics
    /// If an invariant does not hold at the end: packets conserved and Little's law on every link, bytes conserved in
    /// every flow.
    pub fn run(mut self, point: usize, stopped: &dyn Fn() -> bool) -> Option<(RunOutcome, Option<RunTrace>)> {
        let mut countdown = LOOK_EVERY;
        let mut gives_up = false;
        let live = Rc::clone(&self.live);
        let mut intervals = Intervals::new(self.interval);
        let mut now = Time::ZERO;
        while let Some(until) = intervals.next(now, self.limit) {
            let (reached, step) = self.network.graph.run(now, until, |_| {
                countdown -= 1;
                if countdown == 0 {
                    gives_up = stopped();
                    countdown = LOOK_EVERY;
                }
                live.get() > 0 && !gives_up
            });
            assert!(matches!(step, Step::Wait(_)), "no port of a world faces outside");
            if gives_up {
                return None;
            }
            // With flows still under way, nothing more would happen in time.
            now = if live.get() == 0 { reached } else { until };
            intervals.note(&mut self, now);
            if live.get() == 0 {
                break;
            }
        }
        Some(self.collect(point, now, intervals.into_rows()))
    }
}
