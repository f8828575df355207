//! Backfill's programs in the kernel, and what is pinned of them: see [`bpf`](crate::bpf).

use crate::bpf::{self, Holder, outside};
use crate::error::{During, Error};

/// The folder of all instances that are installed, by name.
const FOLDER: &str = "/sys/fs/bpf/headend/backfill";
const CONTROLLER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/backfill.bpf.o"));

/// A controller in the kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    holder: Holder,
}

impl Loaded {
    pub(super) fn load(name: &str) -> Result<Loaded, Error> {
        let attached = Holder::attach(CONTROLLER, "backfill", name, true, |_| Ok(()));
        let (holder, ()) = attached.during(|| format!("install {name}"))?;
        Ok(Loaded { holder })
    }

    pub(super) fn keep(mut self, name: &str) -> Result<(), Error> {
        outside(|| format!("keep {name}"), move || bpf::keep(FOLDER, name, &[], |folder| self.holder.pin(folder)))
    }
}

pub(super) fn installed() -> Result<Vec<String>, Error> {
    outside(|| FOLDER.to_owned(), || bpf::names(FOLDER))
}

pub(super) fn remove(name: &str) -> Result<(), Error> {
    outside(|| format!("remove {name}"), || bpf::remove(FOLDER, name, &[]))
}

#[cfg(test)]
mod tests;
