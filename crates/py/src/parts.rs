//! The parts that a scenario can name, for those who try them all.

use headend_engine::cc::Algorithm;
use headend_engine::link::queue::Discipline;
use headend_engine::part::{Absent, Description};
use pyo3::prelude::*;

/// A part's name, its documentation, and the fields that it cannot be without.
type Part = (&'static str, &'static str, Vec<&'static str>);

/// The congestion controls that a host can have.
#[pyfunction]
pub(crate) fn controllers() -> Vec<Part> {
    Algorithm::ALL.iter().map(part).collect()
}

/// The queue disciplines that a link can have.
#[pyfunction]
pub(crate) fn queues() -> Vec<Part> {
    Discipline::ALL.iter().map(part).collect()
}

fn part(description: &Description) -> Part {
    let required = description.fields.iter().filter(|field| field.absent == Absent::Required);
    (description.name, description.doc, required.map(|field| field.name).collect())
}
