//! The PyO3 module `headend._native`.

use pyo3::prelude::*;

/// What the package `headend` is built on; its typed face is `python/headend/_native.pyi`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
