//! The state that the threads of a run share: the clock, when the run began, and whether to stop.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration as StdDuration;

use headend_engine::time::{Duration, Time};
use headend_host::clock::Monotonic;

/// The stage on which the ends of a run's flows get ready, begin together and leave.
#[derive(Debug)]
pub(super) struct Stage {
    clock: Monotonic,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Ends that are not ready yet.
    preparing: usize,
    /// Ends that have not left yet.
    present: usize,
    begun: Option<Time>,
    stopped: bool,
    /// The first refusal of the machine, if there was one; the run has stopped then.
    failure: Option<String>,
}

impl Stage {
    /// A stage for `ends` threads.
    pub(super) fn new(clock: Monotonic, ends: usize) -> Stage {
        let state = State { preparing: ends, present: ends, begun: None, stopped: false, failure: None };
        Stage { clock, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The time on the reactor's clock.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// An end comes on.
    pub(super) fn enter(&self) -> Presence<'_> {
        Presence { stage: self, is_ready: Cell::new(false) }
    }

    /// Waits up to `patience` for all ends to be ready; true if they are.
    pub(super) fn all_are_ready(&self, patience: StdDuration) -> bool {
        let state = self.lock();
        let (state, _) =
            self.changed.wait_timeout_while(state, patience, |state| state.preparing > 0).expect(UNPOISONED);
        state.preparing == 0
    }

    /// The run begins, now.
    pub(super) fn begin(&self) -> Time {
        let now = self.now();
        self.lock().begun = Some(now);
        self.changed.notify_all();
        now
    }

    /// Sleeps until `time`; false if the run stops first.
    pub(super) fn sleep_until(&self, time: Time) -> bool {
        let mut state = self.lock();
        loop {
            let left = time.since(self.now());
            if state.stopped || left == Duration::ZERO {
                return !state.stopped;
            }
            let left = StdDuration::from_nanos(left.as_nanos());
            (state, _) = self.changed.wait_timeout(state, left).expect(UNPOISONED);
        }
    }

    /// Waits up to `patience` for all ends to leave; true if they have.
    pub(super) fn all_have_left(&self, patience: StdDuration) -> bool {
        let state = self.lock();
        let (state, _) = self.changed.wait_timeout_while(state, patience, |state| state.present > 0).expect(UNPOISONED);
        state.present == 0
    }

    /// The run stops: no end begins or sleeps any more.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The run stops, and comes to nothing, because the machine would not do what it needs.
    pub(super) fn fail(&self, why: String) {
        let mut state = self.lock();
        state.failure.get_or_insert(why);
        state.stopped = true;
        self.changed.notify_all();
    }

    /// The first refusal of the machine, if there was one.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// True if the run has stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.lock().stopped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

/// An end on the stage. It leaves when this is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct Presence<'a> {
    stage: &'a Stage,
    is_ready: Cell<bool>,
}

impl Presence<'_> {
    /// The end is ready; waits for the beginning and returns when it was. `None` if the run stops instead.
    pub(super) fn ready(&self) -> Option<Time> {
        let mut state = self.stage.lock();
        if !self.is_ready.replace(true) {
            state.preparing -= 1;
            self.stage.changed.notify_all();
        }
        let wait = |state: &mut State| state.begun.is_none() && !state.stopped;
        let state = self.stage.changed.wait_while(state, wait).expect(UNPOISONED);
        state.begun.filter(|_| !state.stopped)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        let mut state = self.stage.lock();
        // An end that failed before it was ready holds nobody up.
        state.preparing -= usize::from(!self.is_ready.get());
        state.present -= 1;
        self.stage.changed.notify_all();
    }
}

const UNPOISONED: &str = "no thread panics while it holds the stage";
