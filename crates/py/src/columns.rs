//! Tables handed to NumPy: the arrays own the simulator's memory, nothing is copied.

use std::collections::HashMap;
use std::sync::Arc;

use headend_engine::units::quantity as quantities;
use headend_scenario::results::columns::{self as published, Definition};
use headend_scenario::results::{Column, Table};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A dict of column name to array, or for text to a pair of codes (`uint32`) and the texts that they number.
pub(crate) fn to_dict(py: Python<'_>, table: Table) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in table.into_columns() {
        match column {
            Column::U64(values) => dict.set_item(name, PyArray1::from_vec(py, values))?,
            Column::F64(values) => dict.set_item(name, PyArray1::from_vec(py, values))?,
            Column::Text(values) => {
                let (codes, texts) = coded(&values);
                dict.set_item(name, (PyArray1::from_vec(py, codes), PyList::new(py, texts)?))?;
            }
        }
    }
    Ok(dict)
}

/// The definition of every column: its table, its name, its unit and its meaning.
#[pyfunction]
#[pyo3(name = "columns")]
pub(crate) fn definitions() -> Vec<[&'static str; 4]> {
    let of = |(table, _, definitions): (&'static str, &'static str, Vec<Definition>)| {
        definitions.into_iter().map(move |Definition { name, unit, meaning }| [table, name, unit, meaning])
    };
    published::all().into_iter().flat_map(of).collect()
}

/// A quantity as scenario files write it, as a number: a rate in bit/s, a size in bytes, a span of time in seconds, a probability
/// from 0 to 1, packets by number; `None` for any other text.
#[pyfunction]
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    let rate = || quantities::rate(text).map(|rate| rate.get() as f64);
    let size = || quantities::size(text).map(|size| size.get() as f64);
    let span = || quantities::span(text).map(|span| span.as_nanos() as f64 / 1e9);
    let packets = || quantities::packets(text).map(|packets| packets as f64);
    let percent = || text.strip_suffix('%')?.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0);
    number().or_else(rate).or_else(size).or_else(span).or_else(packets).or_else(percent)
}

/// Each text's place among the different ones, which stand in the order of their first appearance.
fn coded(values: &[Arc<str>]) -> (Vec<u32>, Vec<&str>) {
    let mut texts = Vec::new();
    let mut places = HashMap::new();
    let codes = values.iter().map(|value| {
        *places.entry(&**value).or_insert_with(|| {
            texts.push(&**value);
            u32::try_from(texts.len() - 1).expect("a column has fewer different texts than 2^32")
        })
    });
    (codes.collect(), texts)
}
