//! Loading FAST's programs with libbpf, and what is pinned of them.
//!
//! From Linux 6.4 on a *link* holds a controller in the kernel: it goes with the last descriptor or file of the link. Before,
//! the map that describes the controller holds itself, until its only element is deleted; it is pinned to be found again.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libbpf_rs::{
    ErrorKind as BpfKind, Iter, Link, MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject, PrintLevel,
};

use super::{FastConnection, Installed, Parameters};
use crate::error::{During, Error};
use crate::mount_namespace;

pub(super) const IS_BUILT: bool = true;

/// The BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";
/// The folder of all instances that are installed, by name.
const FOLDER: &str = "/sys/fs/bpf/headend/fast";
/// The files in an instance's folder: the link, or the map of a kernel before them, and the settings.
const LINK: &str = "link";
const MAP: &str = "controller";
const SETTINGS: &str = "settings";
/// The only element of an array of one.
const ONLY: [u8; 4] = [0; 4];

const CONTROLLER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast.bpf.o"));
const CONNECTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast_connections.bpf.o"));

/// A controller in the kernel.
#[derive(Debug)]
pub(super) struct Loaded {
    holder: Holder,
    settings: MapHandle,
    parameters: Parameters,
}

/// The object that holds it in the kernel, and lets it go when it is dropped.
#[derive(Debug)]
enum Holder {
    Link(Link),
    Map(Registered),
}

/// The map of a kernel without links, which its controller's registration holds.
#[derive(Debug)]
struct Registered {
    map: MapHandle,
    is_kept: bool,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.is_kept {
            // That it is no longer registered is what is wanted.
            let _ = self.map.delete(&ONLY);
        }
    }
}

impl Loaded {
    pub(super) fn load(name: &str, parameters: Parameters) -> Result<Loaded, Error> {
        Loaded::load_as(name, parameters, super::has_links())
    }

    fn load_as(name: &str, parameters: Parameters, by_link: bool) -> Result<Loaded, Error> {
        let what = || format!("install {name}");
        let mut object = open(CONTROLLER).during(what)?;
        for mut map in object.maps_mut().filter(|map| map.name() == "fast") {
            // `struct tcp_congestion_ops` as bpf/kernel.h has it: the name comes first.
            let value = map.initial_value_mut().expect("a controller has an initial value");
            value[..16].fill(0);
            value[..name.len()].copy_from_slice(name.as_bytes());
            if !by_link {
                map.set_map_flags(0).map_err(told).during(what)?;
            }
        }
        let mut object = object.load().map_err(told).during(what)?;
        let find = |wanted: &str| {
            let map = object.maps().find(|map| map.name() == wanted).expect("bpf/fast.bpf.c has it");
            MapHandle::try_from(&map).map_err(told).during(what)
        };
        let (settings, map) = (find("settings")?, find("fast")?);
        write(&settings, parameters, "").during(what)?;
        let mut controller = object.maps_mut().find(|map| map.name() == "fast").expect("bpf/fast.bpf.c has it");
        let mut link = controller.attach_struct_ops().map_err(told).during(what)?;
        let holder = if by_link {
            Holder::Link(link)
        } else {
            // The library's stand-in for a link borrows the object's descriptor, which is closed before it.
            link.disconnect();
            Holder::Map(Registered { map, is_kept: false })
        };
        Ok(Loaded { holder, settings, parameters })
    }

    pub(super) fn keep(mut self, name: &str, default_before: Option<&str>) -> Result<(), Error> {
        let what = || format!("keep {name}");
        outside(what, move || {
            mount().during(what)?;
            let folder = Path::new(FOLDER).join(name);
            fs::create_dir_all(&folder).during(|| folder.display().to_string())?;
            let pinned = self.pin(&folder, default_before.unwrap_or_default());
            if pinned.is_err() {
                // What was pinned goes again, and this value takes the controller with it.
                let _ = unpin(&folder);
            }
            pinned.during(what)
        })
    }

    fn pin(&mut self, folder: &Path, default_before: &str) -> io::Result<()> {
        write(&self.settings, self.parameters, default_before)?;
        self.settings.pin(folder.join(SETTINGS)).map_err(told)?;
        match &mut self.holder {
            // The file holds it from here on; this descriptor goes without taking it along.
            Holder::Link(link) => link.pin(folder.join(LINK)).map_err(told)?,
            Holder::Map(registered) => {
                registered.map.pin(folder.join(MAP)).map_err(told)?;
                registered.is_kept = true;
            }
        }
        Ok(())
    }
}

/// Does what pins are made, found or removed by where they outlive this process and others see them.
fn outside<T: Send>(what: impl FnOnce() -> String, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    mount_namespace::run_outside(work).during(what)?
}

pub(super) fn installed() -> Result<Vec<Installed>, Error> {
    outside(|| FOLDER.to_owned(), installed_here)
}

fn installed_here() -> Result<Vec<Installed>, Error> {
    let entries = match fs::read_dir(FOLDER) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.during(|| FOLDER)?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
    // A folder that somebody else has put there.
    let names = names.filter(|name| super::check_name(name).is_ok());
    let read_there = |name: String| match read(&name) {
        // Somebody has removed it since.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read),
    };
    names.filter_map(read_there).collect()
}

pub(super) fn set(name: &str, parameters: Parameters) -> Result<(), Error> {
    let what = || format!("set {name}");
    outside(what, || {
        let default_before = read(name)?.default_before.unwrap_or_default();
        write(&settings(name)?, parameters, &default_before).during(what)
    })
}

pub(super) fn remove(name: &str) -> Result<(), Error> {
    outside(|| format!("remove {name}"), || remove_here(name))
}

fn remove_here(name: &str) -> Result<(), Error> {
    let what = || format!("remove {name}");
    let folder = folder(name)?;
    if let Ok(map) = MapHandle::from_pinned_path(folder.join(MAP)) {
        match map.delete(&ONLY) {
            // Not in use since the pin was made: there is nothing to end.
            Err(error) if error.kind() != BpfKind::NotFound => return Err(told(error)).during(what),
            _ => {}
        }
    }
    if let Ok(link) = Link::open(folder.join(LINK)) {
        // Whatever else holds the link, the controller is no longer offered.
        link.detach().map_err(told).during(what)?;
    }
    unpin(&folder).during(what)
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

/// The kernel's words on the last program or map that it did not take.
static COMPLAINT: Mutex<String> = Mutex::new(String::new());

fn open(object: &[u8]) -> io::Result<OpenObject> {
    /// A verifier's log may be a book; what is wrong comes last.
    const COMPLAINT_MAX: usize = 2_000;
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        let mut complaint = COMPLAINT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        complaint.push_str(&text);
        let excess = complaint.len().saturating_sub(COMPLAINT_MAX);
        let start = (excess..complaint.len()).find(|&at| complaint.is_char_boundary(at)).unwrap_or(0);
        complaint.drain(..start);
    })));
    COMPLAINT.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    ObjectBuilder::default().open_memory(object).map_err(told)
}

/// The error with what the kernel had to say.
fn told(error: libbpf_rs::Error) -> io::Error {
    let complaint = std::mem::take(&mut *COMPLAINT.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    let kind = match error.kind() {
        BpfKind::NotFound => ErrorKind::NotFound,
        BpfKind::PermissionDenied => ErrorKind::PermissionDenied,
        BpfKind::AlreadyExists => ErrorKind::AlreadyExists,
        BpfKind::Unsupported => ErrorKind::Unsupported,
        BpfKind::OutOfMemory => ErrorKind::OutOfMemory,
        _ => ErrorKind::Other,
    };
    let text = if complaint.is_empty() { format!("{error:#}") } else { format!("{error:#}\n{}", complaint.trim_end()) };
    io::Error::new(kind, text)
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
    let path = folder(name)?.join(SETTINGS);
    MapHandle::from_pinned_path(path).map_err(told).during(|| format!("settings of {name}"))
}

/// The folder of an installed name.
fn folder(name: &str) -> Result<PathBuf, Error> {
    let what = || format!("{name:?}");
    super::check_name(name).map_err(|text| Error::wrong(what(), text))?;
    let path = Path::new(FOLDER).join(name);
    if path.is_dir() {
        return Ok(path);
    }
    let text = "nothing of this name is installed (`headend cc list` says what is)";
    Err(Error::new(what(), io::Error::new(ErrorKind::NotFound, text)))
}

fn unpin(folder: &Path) -> io::Result<()> {
    for file in [LINK, MAP, SETTINGS] {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(folder)
}

/// Sees to it that the BPF file system is there.
fn mount() -> io::Result<()> {
    /// BPF_FS_MAGIC (linux/magic.h).
    const MAGIC: u64 = 0xcafe_4a11;
    let is_there = || rustix::fs::statfs(FILE_SYSTEM).is_ok_and(|it| it.f_type as u64 == MAGIC);
    if is_there() {
        return Ok(());
    }
    rustix::mount::mount("bpf", FILE_SYSTEM, "bpf", rustix::mount::MountFlags::empty(), Some(c"mode=0700"))?;
    Ok(())
}

#[cfg(test)]
mod tests;
