//! Backfill in the running kernel: a congestion control that is loaded, chosen by name and taken away again, as
//! [FAST](crate::fast) is. It has no parameters.

#[cfg(feature = "bpf")]
mod kernel;
#[cfg(not(feature = "bpf"))]
mod kernel {
    //! A stand-in for builds without BPF: every use fails with the words of [`missing`](super::missing).

    use crate::error::Error;

    /// There is none.
    #[derive(Debug)]
    pub(super) enum Loaded {}

    impl Loaded {
        pub(super) fn load(name: &str) -> Result<Loaded, Error> {
            let reason = super::missing().unwrap_or_default();
            Err(Error::new(format!("install {name}"), std::io::Error::new(std::io::ErrorKind::Unsupported, reason)))
        }

        pub(super) fn keep(self, _name: &str) -> Result<(), Error> {
            match self {}
        }
    }

    pub(super) fn installed() -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    pub(super) fn remove(name: &str) -> Result<(), Error> {
        Loaded::load(name).map(|_| ())
    }
}

use std::io::{Error as IoError, ErrorKind};

use crate::error::Error;
use crate::{fast, socket, sysctl};

/// The first Linux in which a program that controls all by itself is told as this one expects (`cong_control` with an
/// acknowledgement's number and flags before its sample).
const OLDEST: [u32; 2] = [6, 10];

/// Backfill under a name, in the kernel for as long as this lives. Connections that use it keep it until they end.
#[derive(Debug)]
pub struct Instance {
    name: String,
    loaded: kernel::Loaded,
}

impl Instance {
    /// Puts Backfill in under `name`.
    pub fn load(name: &str) -> Result<Instance, Error> {
        let what = || format!("install {name:?}");
        fast::check_name(name).map_err(|text| Error::wrong(what(), text))?;
        if let Some(text) = missing() {
            return Err(Error::new(what(), IoError::new(ErrorKind::Unsupported, text)));
        }
        if socket::kernel_names().iter().any(|known| known == name) {
            let text = "the kernel has a congestion control of this name; choose another one";
            return Err(Error::new(what(), IoError::new(ErrorKind::AlreadyExists, text)));
        }
        Ok(Instance { name: name.to_owned(), loaded: kernel::Loaded::load(name)? })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it stay beyond this process, until [`remove`] or the machine's end.
    pub fn keep(self) -> Result<(), Error> {
        self.loaded.keep(&self.name)
    }
}

/// The names under which it is installed. It takes the right to read the BPF file system, as root has it.
pub fn installed() -> Result<Vec<String>, Error> {
    let mut installed = kernel::installed()?;
    installed.sort();
    Ok(installed)
}

/// Takes `name` away: no connection can choose it any more. Those that have it keep it until they end.
pub fn remove(name: &str) -> Result<(), Error> {
    kernel::remove(name)
}

/// The reasons, in words, for which it cannot be in the kernel of this build, machine or process; `None` if it can.
pub fn missing() -> Option<String> {
    let release = sysctl::read("kernel.osrelease").unwrap_or_default();
    let is_too_old = fast::version(&release).is_some_and(|version| version < OLDEST);
    let too_old = || format!("Backfill takes Linux {}.{} or later, and this is Linux {release}", OLDEST[0], OLDEST[1]);
    fast::missing().or_else(|| is_too_old.then(too_old))
}
