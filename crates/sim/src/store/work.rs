//! A share of a store's tasks on the cores of this machine.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Error, Shard, Store};
use crate::sweep::Progress;

/// The time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Options of the work.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The tasks to be done.
    pub shard: Shard,
    /// Worker threads; `None` for one per core.
    pub threads: Option<NonZeroUsize>,
    /// A flag that is set from outside to interrupt: tasks under way are given up.
    pub stop: &'a AtomicBool,
}

impl Store {
    /// Makes every part of a share that is not there. `progress` hears several times a second of the runs that have ended,
    /// those of parts that are there included. Returns the number of parts that were made.
    ///
    /// # Errors
    /// A file that cannot be read or written; an interruption.
    ///
    /// # Panics
    /// If a run breaks an invariant, with that invariant.
    pub fn fill(&self, work: &Work<'_>, progress: &mut dyn FnMut(Progress)) -> Result<u64, Error> {
        let tasks: Vec<u64> = self.share(work.shard).collect();
        let total = tasks.iter().map(|&task| self.runs_of(task)).sum::<u64>() as usize;
        let done = AtomicUsize::new(0);
        let (next, made) = (AtomicUsize::new(0), AtomicU64::new(0));
        let halt = AtomicBool::new(false);
        let failure = Mutex::new(None);
        let stopped = || work.stop.load(Ordering::Relaxed) || halt.load(Ordering::Relaxed);
        let owner = thread::current();
        let work_on = || {
            while !stopped()
                && let Some(&task) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let under_way = Cell::new(0);
                let ran = || {
                    under_way.update(|runs| runs + 1);
                    done.fetch_add(1, Ordering::Relaxed);
                };
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    if self.has(task)? {
                        done.fetch_add(self.runs_of(task) as usize, Ordering::Relaxed);
                    } else if self.make(task, &stopped, &ran)? {
                        made.fetch_add(1, Ordering::Relaxed);
                    } else {
                        // What was given up is not there.
                        done.fetch_sub(under_way.get(), Ordering::Relaxed);
                    }
                    Ok(())
                }));
                if !matches!(ended, Ok(Ok(()))) {
                    halt.store(true, Ordering::Relaxed);
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ended);
                }
            }
            owner.unpark();
        };
        let threads = work.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.min(tasks.len())).map(|_| scope.spawn(work_on)).collect();
            let at = || Progress { done: done.load(Ordering::Relaxed), total };
            while workers.iter().any(|worker| !worker.is_finished()) {
                progress(at());
                thread::park_timeout(REPORT_EVERY);
            }
            progress(at());
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Err(panic)) => resume_unwind(panic),
            Some(Ok(Err(error))) => return Err(error),
            Some(Ok(Ok(()))) | None => {}
        }
        let done = done.into_inner();
        if done < total { Err(Error::Interrupted(Progress { done, total })) } else { Ok(made.into_inner()) }
    }
}
