//! A scenario as a graph in virtual time: built, run by jumping from event to event, and read out at the end.

mod build;
mod circuits;
mod collect;
mod intervals;
mod media;
mod sockets;
mod split;
mod streams;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::Cell;
use std::rc::Rc;

use headend_engine::node::Step;
use headend_engine::packet::Endpoint;
use headend_engine::time::{Duration, Time};
use headend_engine::units::Bytes;

use crate::host::Host;
use crate::network::Network;
use crate::proxy::Proxy;
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

/// One instance of a flow.
#[derive(Debug)]
struct Instance {
    flow: String,
    instance: u32,
    kind: Kind,
    /// `None` for a flow without end.
    bytes: Option<Bytes>,
    /// Bytes that arrive at the receiver before those of the file: a response header.
    header: Bytes,
    start: Time,
    sender: Endpoint,
    receiver: Endpoint,
    /// Initial sequence numbers of the two.
    isn: [u32; 2],
    /// The proxy's ends between them, if there is one.
    split: Option<Between>,
}

/// What kind of flow an instance is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One connection, or two through a proxy.
    Transfer,
    /// One connection after another.
    Requests,
    /// No connection.
    Datagrams,
    /// Frames, in whatever carries them.
    Media,
}

/// A proxy's two ends of a flow: what faces the sender of the data, and what faces its receiver.
#[derive(Clone, Copy, Debug)]
struct Between {
    at: [Endpoint; 2],
    isn: [u32; 2],
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
            intervals.note(&self, now);
            if live.get() == 0 {
                break;
            }
        }
        Some(self.collect(point, now, intervals.into_rows()))
    }
}
