//! Results on disk for Python: a study's tasks, which any process can do, and the parts that they leave.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use headend_sim::store::{self, BUILD, Shard, Work};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::SimulationError;
use crate::run::{attended, points_of, thread_count};

/// A study and the folder for its results.
#[pyclass(module = "headend._native", frozen)]
pub(crate) struct Store {
    store: store::Store,
    scenario: String,
}

#[pymethods]
impl Store {
    /// Open the folder for this study, or begin it; the arguments that say what is run are those of `run`.
    #[new]
    #[allow(clippy::too_many_arguments)] // what is run, and where it goes
    #[pyo3(signature = (folder, kind, text, settings, sweep, task_runs=None, beside=None))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        kind: &str,
        text: &str,
        settings: Vec<(String, String)>,
        sweep: Vec<(String, Vec<String>)>,
        task_runs: Option<u64>,
        beside: Option<PathBuf>,
    ) -> PyResult<Store> {
        if task_runs == Some(0) {
            return Err(PyValueError::new_err("task_runs must be 1 or more"));
        }
        let (points, scenario) = points_of(kind, text, &settings, &sweep, beside.as_deref(), |_| Ok(()))?;
        let opened = py.detach(|| store::Store::open(&folder, points.into(), &scenario, task_runs, &|| false));
        Ok(Store { store: opened.map_err(of_store)?, scenario })
    }

    /// The version of this module and a hash of its sources.
    #[classattr]
    fn build() -> &'static str {
        BUILD
    }

    /// The scenario as it runs, settings applied: TOML text.
    #[getter]
    fn scenario(&self) -> &str {
        &self.scenario
    }

    /// The number of tasks.
    #[getter]
    fn tasks(&self) -> u64 {
        self.store.tasks()
    }

    /// The number of runs.
    #[getter]
    fn runs(&self) -> u64 {
        self.store.runs()
    }

    /// The number of runs of a task.
    fn runs_of(&self, task: u64) -> PyResult<u64> {
        Ok(self.store.runs_of(self.known(task)?))
    }

    /// The name of a task's part.
    fn name(&self, task: u64) -> PyResult<String> {
        Ok(self.store.name(self.known(task)?))
    }

    /// True if a task's part is there and whole.
    fn has(&self, py: Python<'_>, task: u64) -> PyResult<bool> {
        let task = self.known(task)?;
        py.detach(|| self.store.has(task)).map_err(of_store)
    }

    /// Do a task, unless its part is there and whole.
    fn make(&self, py: Python<'_>, task: u64) -> PyResult<bool> {
        let task = self.known(task)?;
        py.detach(|| Ok(!self.store.has(task)? && self.store.make(task, &|| false, &|| ())?)).map_err(of_store)
    }

    /// Do every task of a share, on all cores; how many were not there already.
    #[pyo3(signature = (shard, threads=None, progress=None))]
    fn fill(&self, py: Python<'_>, shard: &str, threads: Option<usize>, progress: Option<Py<PyAny>>) -> PyResult<u64> {
        let shard: Shard = shard.parse().map_err(PyValueError::new_err)?;
        let stop = AtomicBool::new(false);
        let work = Work { shard, threads: thread_count(threads)?, stop: &stop };
        attended(py, &stop, progress.as_ref(), |told| self.store.fill(&work, told))
    }
}

impl Store {
    fn known(&self, task: u64) -> PyResult<u64> {
        let tasks = self.store.tasks();
        let unknown = || PyIndexError::new_err(format!("there is no task {task} of {tasks}"));
        (task < tasks).then_some(task).ok_or_else(unknown)
    }
}

fn of_store(error: store::Error) -> PyErr {
    SimulationError::new_err(error.to_string())
}
