//! The PyO3 module `headend._native`.
