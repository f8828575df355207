//! What controllers in the kernel have in common: loading their programs with libbpf, and what is pinned of them.
//!
//! From Linux 6.4 on a *link* holds a controller in the kernel: it goes with the last descriptor or file of the link. Before,
//! the map that describes the controller holds itself, until its only element is deleted; it is pinned to be found again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libbpf_rs::{ErrorKind as BpfKind, Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::error::{During, Error};
use crate::mount_namespace;

/// The BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";
/// The files in an instance's folder: the link, or the map of a kernel before them.
const LINK: &str = "link";
const MAP: &str = "controller";
/// The only element of an array of one.
pub(crate) const ONLY: [u8; 4] = [0; 4];

/// The object that holds a controller in the kernel, and lets it go when it is dropped.
#[derive(Debug)]
pub(crate) enum Holder {
    Link(Link),
    Map(Registered),
}

/// The map of a kernel without links, which its controller's registration holds.
#[derive(Debug)]
pub(crate) struct Registered {
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

impl Holder {
    /// Loads a program whose controller is the map `controller`, under `name`, and makes it known to the kernel once
    /// `prepare` has done what must be done before.
    pub(crate) fn attach<T>(
        program: &[u8],
        controller: &str,
        name: &str,
        by_link: bool,
        prepare: impl FnOnce(&Object) -> io::Result<T>,
    ) -> io::Result<(Holder, T)> {
        let mut object = open(program)?;
        for mut map in object.maps_mut().filter(|map| map.name() == controller) {
            // `struct tcp_congestion_ops` as bpf/kernel.h has it: the name comes first.
            let value = map.initial_value_mut().expect("a controller has an initial value");
            value[..16].fill(0);
            value[..name.len()].copy_from_slice(name.as_bytes());
            if !by_link {
                map.set_map_flags(0).map_err(told)?;
            }
        }
        let mut object = object.load().map_err(told)?;
        let map = find(&object, controller)?;
        let prepared = prepare(&object)?;
        let mut maps = object.maps_mut();
        let mut map_there = maps.find(|map| map.name() == controller).expect("the program has its controller");
        let mut link = map_there.attach_struct_ops().map_err(told)?;
        if by_link {
            return Ok((Holder::Link(link), prepared));
        }
        // The library's stand-in for a link borrows the object's descriptor, which is closed before it.
        link.disconnect();
        Ok((Holder::Map(Registered { map, is_kept: false }), prepared))
    }

    /// Pins it in a folder, which holds it from here on: this value goes without taking the controller along.
    pub(crate) fn pin(&mut self, folder: &Path) -> io::Result<()> {
        match self {
            Holder::Link(link) => link.pin(folder.join(LINK)).map_err(told),
            Holder::Map(registered) => {
                registered.map.pin(folder.join(MAP)).map_err(told)?;
                registered.is_kept = true;
                Ok(())
            }
        }
    }
}

/// A map of a loaded program.
pub(crate) fn find(object: &Object, wanted: &str) -> io::Result<MapHandle> {
    let map = object.maps().find(|map| map.name() == wanted).expect("the program has the map");
    MapHandle::try_from(&map).map_err(told)
}

/// Makes the folder of `name` under `root` and pins what `pin` pins there, or nothing.
pub(crate) fn keep(
    root: &str,
    name: &str,
    files: &[&str],
    pin: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Error> {
    let what = || format!("keep {name}");
    mount().during(what)?;
    let folder = Path::new(root).join(name);
    fs::create_dir_all(&folder).during(|| folder.display().to_string())?;
    let pinned = pin(&folder);
    if pinned.is_err() {
        // What was pinned goes again, and who holds the controller takes it with it.
        let _ = unpin(&folder, files);
    }
    pinned.during(what)
}

/// The names that have a folder under `root`.
pub(crate) fn names(root: &str) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.during(|| root.to_owned())?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
    // A folder that somebody else has put there.
    Ok(names.filter(|name| crate::fast::check_name(name).is_ok()).collect())
}

/// Ends what is pinned in the folder of `name` under `root`, and removes it with these other files.
pub(crate) fn remove(root: &str, name: &str, files: &[&str]) -> Result<(), Error> {
    let what = || format!("remove {name}");
    let folder = folder(root, name)?;
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
    unpin(&folder, files).during(what)
}

/// The folder of an installed name.
pub(crate) fn folder(root: &str, name: &str) -> Result<PathBuf, Error> {
    let what = || format!("{name:?}");
    crate::fast::check_name(name).map_err(|text| Error::wrong(what(), text))?;
    let path = Path::new(root).join(name);
    if path.is_dir() {
        return Ok(path);
    }
    let text = "nothing of this name is installed (`headend cc list` says what is)";
    Err(Error::new(what(), io::Error::new(ErrorKind::NotFound, text)))
}

fn unpin(folder: &Path, files: &[&str]) -> io::Result<()> {
    for file in [LINK, MAP].iter().chain(files) {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(folder)
}

/// Does what pins are made, found or removed by where they outlive this process and others see them.
pub(crate) fn outside<T: Send>(
    what: impl FnOnce() -> String,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    mount_namespace::run_outside(work).during(what)?
}

/// The kernel's words on the last program or map that it did not take.
static COMPLAINT: Mutex<String> = Mutex::new(String::new());

/// Opens a compiled program.
pub(crate) fn open(object: &[u8]) -> io::Result<OpenObject> {
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
pub(crate) fn told(error: libbpf_rs::Error) -> io::Error {
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

/// Sees to it that the BPF file system is there.
pub(crate) fn mount() -> io::Result<()> {
    /// BPF_FS_MAGIC (linux/magic.h).
    const MAGIC: u64 = 0xcafe_4a11;
    let is_there = || rustix::fs::statfs(FILE_SYSTEM).is_ok_and(|it| it.f_type as u64 == MAGIC);
    if is_there() {
        return Ok(());
    }
    rustix::mount::mount("bpf", FILE_SYSTEM, "bpf", rustix::mount::MountFlags::empty(), Some(c"mode=0700"))?;
    Ok(())
}
