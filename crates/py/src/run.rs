//! Running a sweep for Python: without the interpreter's lock, and with an eye on Ctrl-C.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headend_engine::cc::Custom;
use headend_engine::tcp::personality::Personality;
use headend_scenario::results;
use headend_scenario::{Document, Point};
use headend_sim::sweep::{self, Progress};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::columns;
use crate::controller::{Class, Failed};
use crate::{ScenarioError, SimulationError};

/// The shortest time between two takings of the interpreter's lock, to look for signals and tell of progress.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The tables that a sweep yields. Each table can be taken once: its memory goes to the caller.
#[pyclass(module = "headend._native")]
pub(crate) struct Results {
    #[pyo3(get)]
    scenario: String,
    #[pyo3(get)]
    seed: u64,
    flows: Option<results::Table>,
    links: Option<results::Table>,
    circuits: Option<results::Table>,
    media: Option<results::Table>,
    intervals: Option<results::Table>,
    series: Option<results::Table>,
    packets: Option<results::Table>,
    captures: Vec<headend_scenario::results::trace::CaptureFile>,
}

#[pymethods]
impl Results {
    /// One row per flow instance.
    fn flows<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        taken(py, &mut self.flows)?.ok_or_else(already_taken)
    }

    /// One row per link direction.
    fn links<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        taken(py, &mut self.links)?.ok_or_else(already_taken)
    }

    /// One row per circuit; None if there is none.
    fn circuits<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        taken(py, &mut self.circuits)
    }

    /// One row per flow of frames; None if there is none.
    fn media<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        taken(py, &mut self.media)
    }

    /// One row per flow instance and link direction and interval; None unless the scenario has an interval.
    fn intervals<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        taken(py, &mut self.intervals)
    }

    /// The senders' state over time; None unless it was traced.
    fn series<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        taken(py, &mut self.series)
    }

    /// A row for everything that happened to a packet; None unless it was traced.
    fn packets<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        taken(py, &mut self.packets)
    }

    /// Point, run, host and pcapng file of each capture.
    fn captures<'py>(&self, py: Python<'py>) -> Vec<(usize, u64, String, Bound<'py, PyBytes>)> {
        let file = |capture: &headend_scenario::results::trace::CaptureFile| {
            (capture.point, capture.run, capture.host.to_string(), PyBytes::new(py, &capture.pcapng))
        };
        self.captures.iter().map(file).collect()
    }
}

fn taken<'py>(py: Python<'py>, table: &mut Option<results::Table>) -> PyResult<Option<Bound<'py, PyDict>>> {
    table.take().map(|table| columns::to_dict(py, table)).transpose()
}

fn already_taken() -> PyErr {
    PyValueError::new_err("this table has been taken already")
}

/// Run every point of a scenario's sweep.
///
/// `kind` says what `text` is: "path", "toml" or "json". `settings` and the values of `sweep` are TOML, or plain text.
/// Finished runs are kept in the folder `journal`; with `resume`, those that are there are not repeated. `controllers` are
/// personalities by name: Linux's, with a controller that the callable beside the name makes for each connection.
#[pyfunction]
#[pyo3(signature = (kind, text, settings, sweep, threads=None, trace=false, progress=None, journal=None, resume=false, beside=None,
    controllers=None))]
#[allow(clippy::too_many_arguments)] // one for each of `headend.run`
pub(crate) fn run(
    py: Python<'_>,
    kind: &str,
    text: &str,
    settings: Vec<(String, String)>,
    sweep: Vec<(String, Vec<String>)>,
    threads: Option<usize>,
    trace: bool,
    progress: Option<Py<PyAny>>,
    journal: Option<PathBuf>,
    resume: bool,
    beside: Option<PathBuf>,
    controllers: Option<Vec<(String, Py<PyAny>)>>,
) -> PyResult<Results> {
    let threads = thread_count(threads)?;
    let failed = Failed::default();
    let name_theirs = |document: &mut Document| {
        for (name, make) in controllers.into_iter().flatten() {
            if Personality::named(&name).is_some() {
                let text = format!("controllers: {name:?} is the name of a built-in personality; choose another");
                return Err(PyValueError::new_err(text));
            }
            let controller = Custom::new(Class { name: name.clone(), make, failed: failed.clone() }).into();
            document.add_personality(&name, Personality { controller, ..Personality::linux() });
        }
        Ok(())
    };
    let (points, scenario) = points_of(kind, text, &settings, &sweep, beside.as_deref(), name_theirs)?;
    let seed = points.first().map_or(0, |point| point.scenario.seed);
    let stop = AtomicBool::new(false);
    let options = sweep::Options { threads, journal: journal.as_deref(), resume, stop: &stop, trace };
    let found = attended(py, &stop, progress.as_ref(), |told| sweep::run(&points, &options, told));
    // Its own words, with the line in the user's class, before those of what followed from it.
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let found = found?;
    let (series, packets, captures) = match found.traces {
        None => (None, None, Vec::new()),
        Some(traces) => (Some(traces.series), Some(traces.packets), traces.captures),
    };
    Ok(Results {
        scenario,
        seed,
        flows: Some(found.flows),
        links: Some(found.links),
        circuits: found.circuits,
        media: found.media,
        intervals: found.intervals,
        series,
        packets,
        captures,
    })
}

/// A scenario as TOML, if it is one.
#[pyfunction]
#[pyo3(signature = (kind, text, beside=None))]
pub(crate) fn toml(kind: &str, text: &str, beside: Option<PathBuf>) -> PyResult<String> {
    let document = read(kind, text, beside.as_deref())?;
    document.points().map_err(wrong)?;
    Ok(document.to_toml())
}

/// The recordings that a scenario names are in the folder of the file `beside`, if it comes from one.
fn read(kind: &str, text: &str, beside: Option<&Path>) -> PyResult<Document> {
    let document = match kind {
        "path" => Document::load(Path::new(text)),
        "toml" => Document::parse("scenario", text),
        "json" => Document::parse_json("scenario", text),
        other => return Err(PyValueError::new_err(format!("a scenario is a path, toml or json, not {other:?}"))),
    }
    .map_err(wrong)?;
    Ok(match beside {
        Some(path) => document.beside(path),
        None => document,
    })
}

/// The number of threads that was asked for.
pub(crate) fn thread_count(threads: Option<usize>) -> PyResult<Option<NonZeroUsize>> {
    let of = |count| NonZeroUsize::new(count).ok_or_else(|| PyValueError::new_err("threads must be 1 or more"));
    threads.map(of).transpose()
}

/// The points of a scenario as it was asked for, and its text. `prepare` comes before settings and sweep.
pub(crate) fn points_of(
    kind: &str,
    text: &str,
    settings: &[(String, String)],
    sweep: &[(String, Vec<String>)],
    beside: Option<&Path>,
    prepare: impl FnOnce(&mut Document) -> PyResult<()>,
) -> PyResult<(Vec<Point>, String)> {
    let mut document = read(kind, text, beside)?;
    prepare(&mut document)?;
    for (path, value) in settings {
        document.set(path, value).map_err(wrong)?;
    }
    for (path, values) in sweep {
        document.sweep(path, &values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // The document is not kept: a large one takes as much memory as the world that it describes.
    Ok((document.points().map_err(wrong)?, document.to_toml()))
}

/// Does `work` without the lock; it tells of its progress. A signal, or an exception from `progress`, stops it and is raised.
pub(crate) fn attended<T: Send, E: Send + Display>(
    py: Python<'_>,
    stop: &AtomicBool,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, E> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let mut looked = Instant::now();
    let ended = py.detach(|| {
        work(&mut |at: Progress| {
            if raised.is_some() || looked.elapsed() < LOOK_INTERVAL && at.done < at.total {
                return;
            }
            looked = Instant::now();
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress.map_or(Ok(()), |progress| progress.call1(py, (at.done, at.total)).map(drop))
            });
            if let Err(error) = told {
                raised = Some(error);
                stop.store(true, Ordering::Relaxed);
            }
        })
    });
    match (raised, ended) {
        (Some(error), _) => Err(error),
        (None, Ok(results)) => Ok(results),
        (None, Err(error)) => Err(SimulationError::new_err(error.to_string())),
    }
}

/// A mistake in a scenario as its exception: an unreadable file is an OSError, as from `open`.
fn wrong(error: headend_scenario::Error) -> PyErr {
    match error {
        headend_scenario::Error::Read { ref source, .. } => match source.raw_os_error() {
            Some(code) => PyOSError::new_err((code, error.to_string())),
            None => PyOSError::new_err(error.to_string()),
        },
        headend_scenario::Error::Wrong(_) => ScenarioError::new_err(error.to_string()),
    }
}
