//! Congestion controls written in Python: each connection's is an object that is told of its acknowledgements and losses.
//!
//! Each call takes the interpreter's lock, which makes this slow: it is for a first try of an idea, whose last form is a file of
//! the engine.

use std::sync::{Arc, Mutex, PoisonError};

use headend_engine::cc::{self, Cause, Congestion, Controller, Factory};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Bytes, Rate};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// The properties of a connection that a controller is told at the start.
#[pyclass(module = "headend", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Setup {
    mss_bytes: u64,
    initial_window_bytes: u64,
}

/// New data was acknowledged.
#[pyclass(module = "headend", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Ack {
    now_s: f64,
    acked_bytes: u64,
    in_flight_bytes: u64,
    rtt_s: Option<f64>,
    srtt_s: Option<f64>,
    may_grow: bool,
    window_limited: bool,
}

/// The window must shrink.
#[pyclass(module = "headend", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct Loss {
    now_s: f64,
    in_flight_bytes: u64,
    repeated: bool,
}

/// The first exception of a sweep's controllers. After it they are asked nothing more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<PyErr>>>);

impl Failed {
    /// The exception, if there was one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn is_there(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A class of Python, or whatever can be called with a [`Setup`] and yields a controller.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) make: Py<PyAny>,
    pub(crate) failed: Failed,
}

impl Factory for Class {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&self, setup: &cc::Setup) -> Box<dyn Controller> {
        let told = Setup { mss_bytes: setup.mss.get(), initial_window_bytes: setup.initial_window.get() };
        let mut object = Object {
            python: None,
            window: setup.initial_window,
            pacing: None,
            mss: setup.mss,
            failed: self.failed.clone(),
        };
        if !self.failed.is_there() {
            let made = Python::attach(|py| {
                let python = self.make.call1(py, (told,))?;
                object.look(python.bind(py))?;
                Ok(python)
            });
            match made {
                Ok(python) => object.python = Some(python),
                Err(error) => self.failed.put(error),
            }
        }
        Box::new(object)
    }
}

/// A connection's controller, with what it last said.
#[derive(Debug)]
struct Object {
    /// None if it could not be made, or has failed.
    python: Option<Py<PyAny>>,
    window: Bytes,
    pacing: Option<Rate>,
    mss: Bytes,
    failed: Failed,
}

impl Object {
    /// Calls a method, which the class need not have if it is `optional`, and looks at what it has changed.
    fn tell<'py, T: IntoPyObject<'py>>(&mut self, py: Python<'py>, method: &str, told: T, optional: bool) {
        let Some(python) = self.python.take() else { return };
        let object = python.bind(py);
        let ended = match object.hasattr(method) {
            Ok(false) if optional => Ok(()),
            Ok(_) => object.call_method1(method, (told,)).and_then(|_| self.look(object)),
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => self.python = Some(python),
            Err(error) => self.failed.put(error),
        }
    }

    fn look(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let window: f64 = said(object, "window", "a number of bytes")?;
        // NaN is in no range.
        if !(self.mss.get() as f64..=WINDOW_MAX).contains(&window) {
            let text =
                format!("window is {window}, and must be from one segment of {} bytes to 2^50 bytes", self.mss.get());
            return Err(PyValueError::new_err(text));
        }
        self.window = Bytes::new(window as u64);
        if object.hasattr("pacing_rate")? {
            let rate: Option<f64> = said(object, "pacing_rate", "a rate in bit/s, or None")?;
            self.pacing = rate.map(read_rate).transpose()?;
        }
        Ok(())
    }
}

/// The largest window that a controller may ask for.
const WINDOW_MAX: f64 = (1_u64 << 50) as f64;
/// The fastest pacing, in bit/s.
const RATE_MAX: f64 = 1e12;

fn read_rate(rate: f64) -> PyResult<Rate> {
    if (1.0..=RATE_MAX).contains(&rate) {
        return Ok(Rate::bit(rate as u64));
    }
    Err(PyValueError::new_err(format!("pacing_rate is {rate}, and must be from 1 to 1e12 bit/s, or None")))
}

/// An attribute's value; what a method of that name yields, if it is one.
fn said<'py, T>(object: &Bound<'py, PyAny>, name: &str, wanted: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = object.getattr(name)?;
    let value = if value.is_callable() { value.call0()? } else { value };
    value.extract::<T>().map_err(|_| {
        let found = value.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{name} is {wanted}, and not of type {found}"))
    })
}

impl Controller for Object {
    fn on_ack(&mut self, ack: &cc::Ack) {
        let told = Ack {
            now_s: instant(ack.now),
            acked_bytes: ack.acked.get(),
            in_flight_bytes: ack.in_flight.get(),
            rtt_s: ack.rtt.map(seconds),
            srtt_s: ack.srtt.map(seconds),
            may_grow: ack.may_grow,
            window_limited: ack.window_limited,
        };
        Python::attach(|py| self.tell(py, "on_ack", told, false));
    }

    fn on_congestion(&mut self, congestion: &Congestion) {
        let (method, optional) = match congestion.cause {
            Cause::Loss | Cause::LossTahoe | Cause::Marked => ("on_loss", false),
            Cause::Timeout => ("on_timeout", false),
            Cause::Idle => ("on_idle", true),
        };
        let told = Loss {
            now_s: instant(congestion.now),
            in_flight_bytes: congestion.in_flight.get(),
            repeated: congestion.repeated,
        };
        Python::attach(|py| self.tell(py, method, told, optional));
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn threshold(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        self.pacing
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e9
}

fn instant(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}
