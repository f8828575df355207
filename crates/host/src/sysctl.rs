//! Settings of the kernel under `/proc/sys`. Those of `net` belong to the namespace of the thread that writes them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{During, Error};

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelSetting {
    /// Its name with dots, such as `net.ipv4.tcp_sack`.
    pub name: &'static str,
    /// Its value, as it is written.
    pub value: String,
}

impl KernelSetting {
    /// `name` shall be `value`.
    pub fn new(name: &'static str, value: impl ToString) -> KernelSetting {
        KernelSetting { name, value: value.to_string() }
    }

    /// Makes it so, in the namespace of the calling thread.
    pub fn apply(&self) -> Result<(), Error> {
        fs::write(path(self.name), &self.value).during(|| format!("set {} = {}", self.name, self.value))
    }
}

/// The value of `name`, in the namespace of the calling thread, white space trimmed.
pub fn read(name: &str) -> Result<String, Error> {
    Ok(fs::read_to_string(path(name)).during(|| format!("read {name}"))?.trim().to_owned())
}

/// True if the kernel has a setting of this name, in the namespace of the calling thread.
pub(crate) fn exists(name: &str) -> bool {
    path(name).exists()
}

fn path(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}
