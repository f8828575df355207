//! FAST in the running kernel: a congestion control that is loaded, chosen by name and taken away again.
//!
//! [`Instance::load`] puts it in under a name of its own, for as long as the value lives: a process that is killed leaves
//! nothing. [`Instance::keep`] pins it in the BPF file system, where it stays until [`remove`] or the machine's end, and
//! where [`installed`] and [`set`] find it. Names are the whole machine's, not a namespace's; what a name aims at is one
//! number for all its connections, so that two aims are two instances.
//!
//! The programs are those of `bpf/`. Without the crate's feature `bpf` all of this is still here, and [`missing`] says what is
//! not.

mod connection;
#[cfg(feature = "bpf")]
mod kernel;
#[cfg(not(feature = "bpf"))]
mod kernel {
    //! A stand-in for builds without BPF: [`missing`](super::missing) says so, and every use fails with its words.

    use super::{FastConnection, Installed, Parameters};
    use crate::error::Error;

    pub(super) const IS_BUILT: bool = false;

    fn refuse<T>() -> Result<T, Error> {
        let reason = super::missing().unwrap_or_default();
        Err(Error::new("FAST in the kernel", std::io::Error::new(std::io::ErrorKind::Unsupported, reason)))
    }

    /// There is none.
    #[derive(Debug)]
    pub(super) enum Loaded {}

    impl Loaded {
        pub(super) fn load(_name: &str, _parameters: Parameters) -> Result<Loaded, Error> {
            refuse()
        }

        pub(super) fn keep(self, _name: &str, _default_before: Option<&str>) -> Result<(), Error> {
            match self {}
        }
    }

    pub(super) fn installed() -> Result<Vec<Installed>, Error> {
        Ok(Vec::new())
    }

    pub(super) fn set(_name: &str, _parameters: Parameters) -> Result<(), Error> {
        refuse()
    }

    pub(super) fn remove(_name: &str) -> Result<(), Error> {
        refuse()
    }

    pub(super) fn connections() -> Result<Vec<FastConnection>, Error> {
        refuse()
    }
}

use std::io::{Error as IoError, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::CapabilitySet;

use crate::error::Error;
use crate::{privilege, socket, sysctl};

pub use connection::FastConnection;
pub use headend_engine::cc::fast::Parameters;

/// The default of a machine or a namespace.
pub const DEFAULT_SETTING: &str = "net.ipv4.tcp_congestion_control";
/// The longest name of a congestion control (TCP_CA_NAME_MAX less its zero).
const NAME_MAX: usize = 15;
/// The kernel's description of its own types, without which nothing can be loaded.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The oldest Linux that it is made for: the first long-term one in which such programs may set what FAST sets.
const OLDEST: [u32; 2] = [6, 1];
/// The first one in which a controller can be held by a descriptor, and goes with the process that has it.
const HAS_LINKS: [u32; 2] = [6, 4];

/// An instance that is installed under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Its name, as sockets, routes and settings take it.
    pub name: String,
    /// The parameters of its connections.
    pub parameters: Parameters,
    /// The name of the machine's default before, if this was to take its place.
    pub default_before: Option<String>,
}

/// FAST under a name, in the kernel for as long as this lives. Connections that use it keep it until they end.
#[derive(Debug)]
pub struct Instance {
    name: String,
    loaded: kernel::Loaded,
}

impl Instance {
    /// Puts FAST in under `name`, with these parameters.
    pub fn load(name: &str, parameters: Parameters) -> Result<Instance, Error> {
        let what = || format!("install {name:?}");
        check_name(name).and_then(|()| check_parameters(parameters)).map_err(|text| Error::wrong(what(), text))?;
        if let Some(text) = missing() {
            return Err(Error::new(what(), IoError::new(ErrorKind::Unsupported, text)));
        }
        if socket::kernel_names().iter().any(|known| known == name) {
            let text = "the kernel has a congestion control of this name; choose another one";
            return Err(Error::new(what(), IoError::new(ErrorKind::AlreadyExists, text)));
        }
        Ok(Instance { name: name.to_owned(), loaded: kernel::Loaded::load(name, parameters)? })
    }

    /// Loads an instance under a name that nobody else has. Nothing is left of it, whatever becomes of this process:
    /// that takes Linux 6.4.
    pub fn load_unnamed(parameters: Parameters) -> Result<Instance, Error> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        if let Some(text) = missing_for_a_while() {
            return Err(Error::new("put FAST in for a while", IoError::new(ErrorKind::Unsupported, text)));
        }
        loop {
            // Process numbers are at most 2^22 (proc_sys_kernel(5)), so 15 characters are enough for a million instances.
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let name = format!("fast_{}_{}", base_36(std::process::id()), base_36(serial));
            match Instance::load(&name, parameters) {
                // Another process, in a PID namespace of its own, may have the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                loaded => return loaded,
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it stay beyond this process, and makes sure that it does. `default_before` is kept with it.
    pub fn keep(self, default_before: Option<&str>) -> Result<(), Error> {
        let Instance { name, loaded } = self;
        loaded.keep(&name, default_before)?;
        if kernel::installed()?.iter().any(|there| there.name == name) {
            return Ok(());
        }
        let text =
            "it was pinned, and is not found; is the BPF file system at /sys/fs/bpf another one for each process?";
        Err(Error::new(format!("keep {name}"), IoError::other(text)))
    }
}

/// All that is installed, by name. It takes the right to read the BPF file system, as root has it.
pub fn installed() -> Result<Vec<Installed>, Error> {
    let mut installed = kernel::installed()?;
    installed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(installed)
}

/// Changes what the connections of `name` aim at, also of those that are there.
pub fn set(name: &str, parameters: Parameters) -> Result<(), Error> {
    check_parameters(parameters).map_err(|text| Error::wrong(format!("set {name}"), text))?;
    kernel::set(name, parameters)
}

/// Takes `name` away: no connection can choose it any more. Those that have it keep it until they end, and so does a
/// namespace that has it for its default.
pub fn remove(name: &str) -> Result<(), Error> {
    kernel::remove(name)
}

/// The connections of the calling thread's namespace that FAST controls, under whatever name; and the namespace's listening
/// sockets, whatever controls those.
pub fn connections() -> Result<Vec<FastConnection>, Error> {
    kernel::connections()
}

/// The reasons, in words, for which FAST cannot be in the kernel of this build, machine or process; `None` if it can.
pub fn missing() -> Option<String> {
    lacking(&Facts {
        is_built: kernel::IS_BUILT,
        release: &release(),
        has_btf: Path::new(BTF).exists(),
        capabilities: privilege::held(),
    })
}

/// The same as [`missing`], for an instance that is not to outlive its process.
pub fn missing_for_a_while() -> Option<String> {
    let too_old = || format!("FAST for a while takes Linux 6.4 or later, and this is Linux {}", release());
    missing().or_else(|| (!has_links()).then(too_old))
}

fn has_links() -> bool {
    version(&release()).is_none_or(|version| version >= HAS_LINKS)
}

/// The facts that decide whether FAST can be had.
struct Facts<'a> {
    is_built: bool,
    release: &'a str,
    has_btf: bool,
    capabilities: CapabilitySet,
}

fn lacking(facts: &Facts<'_>) -> Option<String> {
    if !facts.is_built {
        return Some(
            "this headend was built without controllers for the kernel (FAST, Backfill): install clang, libelf-dev and zlib1g-dev and build \
             again with `make`, or with `cargo build --release --features bpf`"
                .to_owned(),
        );
    }
    if version(facts.release).is_some_and(|version| version < OLDEST) {
        let release = facts.release;
        return Some(format!("FAST takes Linux {}.{} or later, and this is Linux {release}", OLDEST[0], OLDEST[1]));
    }
    if !facts.has_btf {
        return Some(format!(
            "this kernel does not describe its types: there is no {BTF} (it is built without CONFIG_DEBUG_INFO_BTF)"
        ));
    }
    let needed = [
        (CapabilitySet::BPF, "CAP_BPF"),
        (CapabilitySet::PERFMON, "CAP_PERFMON"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    ];
    let is_allowed = facts.capabilities.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN)
        || needed.iter().all(|(one, _)| facts.capabilities.contains(*one));
    (!is_allowed).then(|| {
        let names: Vec<&str> = needed.iter().map(|(_, name)| *name).collect();
        format!("programs in the kernel take {}: run it as root", names.join(", "))
    })
}

/// The version of the running kernel; empty if it does not say.
fn release() -> String {
    sysctl::read("kernel.osrelease").unwrap_or_default()
}

/// The first two numbers of a kernel's release.
pub(crate) fn version(release: &str) -> Option<[u32; 2]> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// Checks that the kernel takes `name` (`bpf_obj_name_cpy`), without the dot, which the BPF file system does not take.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_right = (1..=NAME_MAX).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_right { Ok(()) } else { Err(format!("a name has 1 to {NAME_MAX} letters, digits and underscores")) }
}

/// Checks the parameters, within the bounds of the simulator's fields (`fast_alpha` and its like).
fn check_parameters(parameters: Parameters) -> Result<(), String> {
    let Parameters { alpha_packets, gamma_percent, update_rounds, check_seconds } = parameters;
    let bounds = [
        // 0 stands for an alpha by rate.
        ("alpha", alpha_packets.max(1), 1..=1_000_000),
        ("gamma", gamma_percent, 1..=100),
        ("rounds", update_rounds, 1..=1_000),
        ("check", check_seconds, 0..=3_600),
    ];
    match bounds.into_iter().find(|(_, value, range)| !range.contains(value)) {
        Some((name, value, range)) => {
            Err(format!("{name} is from {} to {}, and not {value}", range.start(), range.end()))
        }
        None => Ok(()),
    }
}

fn base_36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).expect("a remainder of 36"));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_there() -> Facts<'static> {
        Facts { is_built: true, release: "6.1.0-13-amd64", has_btf: true, capabilities: CapabilitySet::all() }
    }

    #[test]
    fn a_machine_that_has_everything_lacks_nothing() {
        assert_eq!(lacking(&all_there()), None);
        let few = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
        assert_eq!(lacking(&Facts { capabilities: few, ..all_there() }), None);
    }

    #[test]
    fn each_thing_that_is_missing_is_named_with_what_to_do() {
        let said = |facts: Facts<'_>| lacking(&facts).expect("something is missing");
        assert!(said(Facts { is_built: false, ..all_there() }).contains("libelf-dev"));
        let old = said(Facts { release: "5.15.0-91-generic", ..all_there() });
        assert!(old.contains("6.1") && old.contains("5.15.0-91-generic"), "{old}");
        assert!(said(Facts { has_btf: false, ..all_there() }).contains("CONFIG_DEBUG_INFO_BTF"));
        let capabilities = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
        assert!(said(Facts { capabilities, ..all_there() }).contains("CAP_PERFMON"));
    }

    #[test]
    fn a_release_is_compared_by_its_first_two_numbers() {
        for (release, expected) in [("6.1.0", Some([6, 1])), ("6.18.5-amd64", Some([6, 18])), ("10.0", Some([10, 0]))] {
            assert_eq!(version(release), expected);
        }
        assert_eq!(version("unknown"), None, "a kernel that says nothing is given a try");
        assert!(version("6.10.1") > Some(OLDEST) && version("5.19.0") < Some(OLDEST));
    }

    #[test]
    fn a_name_is_one_that_the_kernel_and_the_file_system_take() {
        for right in ["fast", "f", "fast_20", "abcdefghijklmno"] {
            assert_eq!(check_name(right), Ok(()), "{right}");
        }
        for wrong in ["", "abcdefghijklmnop", "fast-20", "fast.20", "a/b", "..", "schnell\u{e4}"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parameters_are_those_that_scenarios_may_have() {
        let with = |alpha_packets, gamma_percent, update_rounds| {
            check_parameters(Parameters { alpha_packets, gamma_percent, update_rounds, check_seconds: 3_600 })
        };
        assert_eq!((with(1, 1, 1), with(1_000_000, 100, 1_000)), (Ok(()), Ok(())));
        for (wrong, name) in
            [(with(1_000_001, 50, 2), "alpha"), (with(20, 101, 2), "gamma"), (with(20, 50, 0), "rounds")]
        {
            assert!(wrong.unwrap_err().contains(name));
        }
        assert!(check_parameters(Parameters { check_seconds: 3_601, ..Parameters::DEFAULT }).is_err());
    }

    #[test]
    fn the_longest_name_of_an_unnamed_instance_fits() {
        assert_eq!((base_36(0), base_36(35), base_36(36)), ("0".to_owned(), "z".to_owned(), "10".to_owned()));
        let longest = format!("fast_{}_{}", base_36(1 << 22), base_36(36_u32.pow(4) - 1));
        assert_eq!(check_name(&longest), Ok(()), "{longest}");
    }
}
