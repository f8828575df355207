//! Tables handed to NumPy: the arrays own the simulator's memory, nothing is copied.

use std::collections::HashMap;
use std::sync::Arc;

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
