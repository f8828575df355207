//! How a study is divided: into tasks, and tasks among machines.

use std::str::FromStr;

use headend_scenario::Point;

use crate::world::World;

/// The number of packets on links that a task is worth at least: a few seconds of a core.
const TASK_PACKETS: u64 = 10_000_000;
/// What a run costs besides its packets, in packets.
const RUN_PACKETS: u64 = 500;
/// Points that are tried.
const TRIED_MAX: usize = 16;

/// A share of a study's tasks: those of `index`, from 1, of `of`.
///
/// Machines that know nothing of each other divide a study alike, because what a task is follows from the study alone: the
/// first run of up to 16 of its points, evenly spread, is tried, and a task has as many runs as carry ten million packets over
/// links. That is the same number everywhere, which seconds are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    /// All of the study.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// True if `task` is in this share.
    pub(super) fn has(self, task: u64) -> bool {
        task % self.of == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if 1 <= index && index <= of => Ok(Shard { index, of }),
            _ => Err(format!("{text:?} is no shard: expected I/N with I from 1 to N, such as 3/40")),
        }
    }
}

/// The number of runs of a task; `None` if it was stopped.
pub(super) fn task_runs(points: &[Point], stopped: &dyn Fn() -> bool) -> Option<u64> {
    let tried = points.len().min(TRIED_MAX);
    let mut packets = 0;
    for i in 0..tried {
        if stopped() {
            return None;
        }
        let point = i * points.len() / tried;
        let (outcome, _) = World::build(&points[point].scenario, 0, false).run(point, stopped)?;
        packets += outcome.links.iter().map(|link| link.arrived).sum::<u64>() + RUN_PACKETS;
    }
    Some((TASK_PACKETS * tried as u64).div_ceil(packets))
}
