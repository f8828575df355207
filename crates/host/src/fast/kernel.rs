//! FAST's programs in the kernel, and what is pinned of them: see [`bpf`](crate::bpf).

use std::io::{self, ErrorKind, Read};

use libbpf_rs::{Iter, MapCore, MapFlags, MapHandle};

use super::{FastConnection, Installed, Parameters};
use crate::bpf::{self, Holder, ONLY, open, outside, told};
use crate::error::{During, Error};

pub(super) const IS_BUILT: bool = true;

/// The folder of all instances that are installed, by name.
const FOLDER: &str = "/sys/fs/bpf/headend/fast";
/// The file of an instance's settings, beside what holds it.
const SETTINGS: &str = "settings";

const CONTROLLER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast.bpf.o"));
const CONNECTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast_connections.bpf.o"));

/// A controller in the kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    holder: Holder,
    settings: MapHandle,
    parameters: Parameters,
}

impl Loaded {
    pub(super) fn load(name: &str, parameters: Parameters) -> Result<Loaded, Error> {
        Loaded::load_as(name, parameters, super::has_links())
    }

    fn load_as(name: &str, parameters: Parameters, by_link: bool) -> Result<Loaded, Error> {
        let set = |object: &libbpf_rs::Object| {
            let settings = bpf::find(object, "settings")?;
            write(&settings, parameters, "")?;
            Ok(settings)
        };
        let attached = Holder::attach(CONTROLLER, "fast", name, by_link, set);
        let (holder, settings) = attached.during(|| format!("install {name}"))?;
        Ok(Loaded { holder, settings, parameters })
    }

    pub(super) fn keep(mut self, name: &str, default_before: Option<&str>) -> Result<(), Error> {
        outside(
            || format!("keep {name}"),
            move || {
                bpf::keep(FOLDER, name, &[SETTINGS], |folder| {
                    write(&self.settings, self.parameters, default_before.unwrap_or_default())?;
                    self.settings.pin(folder.join(SETTINGS)).map_err(told)?;
                    self.holder.pin(folder)
                })
            },
        )
    }
}

pub(super) fn installed() -> Result<Vec<Installed>, Error> {
    outside(|| FOLDER.to_owned(), installed_here)
}

fn installed_here() -> Result<Vec<Installed>, Error> {
    let read_there = |name: String| match read(&name) {
        // Somebody has removed it since.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read),
    };
    bpf::names(FOLDER)?.into_iter().filter_map(read_there).collect()
}

pub(super) fn set(name: &str, parameters: Parameters) -> Result<(), Error> {
    let what = || format!("set {name}");
    outside(what, || {
        let default_before = read(name)?.default_before.unwrap_or_default();
        write(&settings(name)?, parameters, &default_before).during(what)
    })
}

pub(super) fn remove(name: &str) -> Result<(), Error> {
    outside(|| format!("remove {name}"), || bpf::remove(FOLDER, name, &[SETTINGS]))
}

pub(super) fn connections() -> Result<Vec<FastConnection>, Error> {
    let what = || "list FAST's connections";
    let object = open(CONNECTIONS).during(what)?.load().map_err(told).during(what)?;
    let program = object.progs_mut().next().expect("bpf/fast_connections.bpf.c has one");
    let link = program.attach().map_err(told).during(what)?;
    // Made here, it lists the namespace of this thread.
    let mut iterator = Iter::new(&link).map_err(told).during(what)?;
    let mut records = Vec::new();
    iterator.read_to_end(&mut records).during(what)?;
    let records = records.chunks_exact(FastConnection::RECORD_LEN);
    Ok(records.map(|record| FastConnection::read(record.try_into().expect("a chunk is a record"))).collect())
}

/// Bytes of `struct fast_installation` (bpf/fast.bpf.c): four numbers and a name.
const INSTALLATION_LEN: usize = 32;
/// Where its name is.
const NAME_AT: usize = 16;

fn write(settings: &MapHandle, parameters: Parameters, default_before: &str) -> io::Result<()> {
    let Parameters { alpha_packets, gamma_percent, update_rounds, check_seconds } = parameters;
    let mut value = [0; INSTALLATION_LEN];
    for (number, at) in [alpha_packets, gamma_percent, update_rounds, check_seconds].into_iter().zip([0, 4, 8, 12]) {
        value[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    let name = default_before.as_bytes();
    let len = name.len().min(15);
    value[NAME_AT..NAME_AT + len].copy_from_slice(&name[..len]);
    settings.update(&ONLY, &value, MapFlags::ANY).map_err(told)
}

fn read(name: &str) -> Result<Installed, Error> {
    let what = || format!("settings of {name}");
    let value = settings(name)?.lookup(&ONLY, MapFlags::ANY).map_err(told).during(what)?;
    let value = value.filter(|value| value.len() == INSTALLATION_LEN);
    let value = value
        .ok_or_else(|| Error::wrong(what(), "another version of headend has installed it; remove it with that one"))?;
    let number = |at: usize| u32::from_ne_bytes(value[at..at + 4].try_into().expect("four bytes"));
    let before: Vec<u8> = value[NAME_AT..].iter().copied().take_while(|c| *c != 0).collect();
    Ok(Installed {
        name: name.to_owned(),
        parameters: Parameters {
            alpha_packets: number(0),
            gamma_percent: number(4),
            update_rounds: number(8),
            check_seconds: number(12),
        },
        default_before: (!before.is_empty()).then(|| String::from_utf8_lossy(&before).into_owned()),
    })
}

fn settings(name: &str) -> Result<MapHandle, Error> {
    let path = bpf::folder(FOLDER, name)?.join(SETTINGS);
    MapHandle::from_pinned_path(path).map_err(told).during(|| format!("settings of {name}"))
}

#[cfg(test)]
mod tests;
