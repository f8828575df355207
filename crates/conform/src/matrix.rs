//! The matrix of a trial: behaviours, and how often each was right.

use std::collections::BTreeMap;

use super::behaviour::Behaviour;
use super::fault::Fault;

/// The most seeds that are kept of a fault.
const SEEDS_MAX: usize = 10;

/// The judgement on one schedule.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) seed: u64,
    pub(crate) behaviour: Behaviour,
    /// None if the behaviour does not apply.
    pub(crate) faults: Option<Vec<Fault>>,
}

/// The counts of all schedules that have been run, by behaviour.
#[derive(Debug)]
pub struct Matrix {
    allowed: Vec<String>,
    rows: BTreeMap<Behaviour, Tally>,
}

/// The counts of the schedules about one behaviour.
#[derive(Debug, Default)]
pub struct Tally {
    /// Schedules without a fault.
    pub passed: u64,
    /// Schedules with allowed faults only.
    pub allowed: u64,
    /// Schedules with a fault that is not allowed.
    pub failed: u64,
    /// Schedules that could not be run, because the entrance does not let the behaviour be seen.
    pub not_applicable: u64,
    /// The faults that were found, by name.
    pub faults: BTreeMap<&'static str, FaultTally>,
}

/// The schedules that showed one fault.
#[derive(Debug)]
pub struct FaultTally {
    /// The number of schedules.
    pub count: u64,
    /// The seeds of the first ones.
    pub seeds: Vec<u64>,
    /// The first one's detail.
    pub example: String,
}

impl Matrix {
    /// A matrix without counts; a schedule with faults of the names `allowed` alone has not failed.
    pub(crate) fn new(allowed: Vec<String>) -> Matrix {
        Matrix { allowed, rows: BTreeMap::new() }
    }

    pub(crate) fn note(&mut self, verdict: Verdict) {
        let row = self.rows.entry(verdict.behaviour).or_default();
        let Some(faults) = verdict.faults else {
            row.not_applicable += 1;
            return;
        };
        let is_allowed = |fault: &Fault| self.allowed.iter().any(|name| name == fault.name);
        match () {
            () if faults.is_empty() => row.passed += 1,
            () if faults.iter().all(is_allowed) => row.allowed += 1,
            () => row.failed += 1,
        }
        for fault in faults {
            let empty = || FaultTally { count: 0, seeds: Vec::new(), example: fault.detail };
            let tally = row.faults.entry(fault.name).or_insert_with(empty);
            tally.count += 1;
            if tally.seeds.len() < SEEDS_MAX {
                tally.seeds.push(verdict.seed);
            }
        }
    }

    /// The behaviours that schedules were about, and their counts.
    pub fn rows(&self) -> impl Iterator<Item = (Behaviour, &Tally)> {
        self.rows.iter().map(|(behaviour, row)| (*behaviour, row))
    }

    /// True if a fault of this name is no failure.
    pub fn allows(&self, fault: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == fault)
    }

    /// The number of schedules that have been run, those that do not apply included.
    pub fn done(&self) -> u64 {
        self.sum(|row| row.passed + row.allowed + row.failed + row.not_applicable)
    }

    /// The number of schedules that have failed.
    pub fn failed(&self) -> u64 {
        self.sum(|row| row.failed)
    }

    /// The sum of a count over all behaviours.
    pub fn sum(&self, count: fn(&Tally) -> u64) -> u64 {
        self.rows.values().map(count).sum()
    }

    /// Why no schedule got a connection through the proxy. None if one did.
    pub fn without_any_connection(&self) -> Option<&str> {
        let mut why = None;
        for (behaviour, row) in &self.rows {
            for (name, tally) in &row.faults {
                match *name {
                    "no-connection" => why = Some(tally.example.as_str()),
                    "refusal-not-passed" | "header-not-refused" => {}
                    _ => return None,
                }
            }
            if (row.passed > 0 && !behaviour.passes_without_connection()) || row.allowed > 0 {
                return None;
            }
        }
        why
    }
}
