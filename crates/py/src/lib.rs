//! The PyO3 module `headend._native`: scenarios in, tables out; and, on Linux, sockets for asyncio.

mod columns;
mod controller;
mod parts;
mod run;
#[cfg(target_os = "linux")]
mod socket;
mod store;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(headend, ScenarioError, PyValueError, "A scenario, or what was asked to change in it, is wrong.");
create_exception!(headend, SimulationError, PyRuntimeError, "A scenario could not be simulated.");

/// The compiled core of the package `headend`; its types for Python are in `python/headend/_native.pyi`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::columns::definitions;
    #[pymodule_export]
    use super::columns::quantity;
    #[pymodule_export]
    use super::controller::{Ack, Loss, Setup};
    #[pymodule_export]
    use super::parts::{controllers, queues};
    #[pymodule_export]
    use super::run::{Results, run, toml};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::socket::{
        Bell, Connection, ConnectionEndedError, Endpoint, Key, Operation, Stream, StreamResetError, StreamStoppedError,
    };
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::{ScenarioError, SimulationError};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__commit__", env!("HEADEND_COMMIT"))
    }
}
