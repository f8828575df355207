//! Results of runs: tables of equally long columns, each with a name that ends in its unit.

mod circuits;
pub mod columns;
mod flows;
mod folder;
mod intervals;
mod links;
mod media;
pub mod trace;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use circuits::CircuitRow;
pub use flows::FlowRow;
pub use folder::{JOURNAL, write_captures};
pub use intervals::IntervalRow;
pub use links::LinkRow;
pub use media::MediaRow;
use trace::Traces;

/// The results of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// One row per flow instance; see [`FlowRow`].
    pub flows: Table,
    /// One row per link direction; see [`LinkRow`].
    pub links: Table,
    /// One row per circuit, if the scenario has any; see [`CircuitRow`].
    pub circuits: Option<Table>,
    /// One row per flow of frames, if the scenario has any; see [`MediaRow`].
    pub media: Option<Table>,
    /// One row per flow instance and link direction and span of time, if the scenario asks for it; see [`IntervalRow`].
    pub intervals: Option<Table>,
    /// The traces that were asked for.
    pub traces: Option<Traces>,
}

/// Named columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, Column)>,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Counts, sizes and indices.
    U64(Vec<u64>),
    /// Times, rates and ratios; NaN where there is no value.
    F64(Vec<f64>),
    /// Names; rows with the same text share it.
    Text(Vec<Arc<str>>),
}

impl Table {
    /// Adds a column. Panics if its name is taken or its length is not that of the others.
    pub fn push(&mut self, name: impl Into<String>, column: Column) {
        let name = name.into();
        assert!(self.column(&name).is_none(), "a table has one column called {name}");
        if let Some((first, other)) = self.columns.first() {
            assert_eq!(column.len(), other.len(), "columns {name} and {first} are equally long");
        }
        self.columns.push((name, column));
    }

    /// The columns and their names, in order.
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    /// The columns and their names, to hand their memory on.
    pub fn into_columns(self) -> Vec<(String, Column)> {
        self.columns
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
}

impl Column {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::U64(values) => values.len(),
            Column::F64(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values if they are counts.
    pub fn as_u64(&self) -> Option<&[u64]> {
        if let Column::U64(values) = self { Some(values) } else { None }
    }

    /// The values if they are numbers.
    pub fn as_f64(&self) -> Option<&[f64]> {
        if let Column::F64(values) = self { Some(values) } else { None }
    }

    /// The values if they are names.
    pub fn as_text(&self) -> Option<&[Arc<str>]> {
        if let Column::Text(values) = self { Some(values) } else { None }
    }
}

/// The results of one run of one point. They are whole numbers only, so that a journal keeps them exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The point of the sweep.
    pub point: usize,
    /// The run of that point, from 0.
    pub run: u64,
    /// The seed of that run.
    pub seed: u64,
    /// The time at which the run ended, in nanoseconds.
    pub end_ns: u64,
    /// Flow instances in the order of the scenario.
    pub flows: Vec<FlowRow>,
    /// Link directions in the order of the scenario.
    pub links: Vec<LinkRow>,
    /// Circuits in the order of the scenario.
    #[serde(default)]
    pub circuits: Vec<CircuitRow>,
    /// Flows of frames in the order of the scenario.
    #[serde(default)]
    pub media: Vec<MediaRow>,
    /// Spans of time, if the scenario asks for them.
    #[serde(default)]
    pub intervals: Vec<IntervalRow>,
}

/// A swept field: its path, and its value at each point, as text.
pub type Swept = (String, Vec<Arc<str>>);

impl Results {
    /// The tables of these runs, which are in the order of their points and run numbers.
    pub fn of(runs: &[RunOutcome], swept: &[Swept], traces: Option<Traces>) -> Results {
        Results {
            flows: columns::table(&columns::rows(runs, |run| &run.flows), flows::COLUMNS, swept),
            links: columns::table(&columns::rows(runs, |run| &run.links), links::COLUMNS, swept),
            circuits: columns::table_if_any(&columns::rows(runs, |run| &run.circuits), circuits::COLUMNS, swept),
            media: columns::table_if_any(&columns::rows(runs, |run| &run.media), media::COLUMNS, swept),
            intervals: columns::table_if_any(&columns::rows(runs, |run| &run.intervals), intervals::COLUMNS, swept),
            traces,
        }
    }
}

/// Nanoseconds as seconds.
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn bits_per_second(bytes: u64, nanos: u64) -> f64 {
    ratio(bytes as f64 * 8e9, nanos as f64)
}

/// `of / to`; NaN, for "no value", if `to` is zero.
fn ratio(of: f64, to: f64) -> f64 {
    if to == 0.0 { f64::NAN } else { of / to }
}

/// Gives equal texts one allocation.
#[derive(Debug, Default)]
pub struct Interner(BTreeSet<Arc<str>>);

impl Interner {
    /// The shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let fresh: Arc<str> = text.into();
        self.0.insert(fresh.clone());
        fresh
    }
}

#[cfg(test)]
mod tests;
