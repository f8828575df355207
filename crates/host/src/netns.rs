//! Network namespaces with names, the same that `ip netns` makes and lists: a file under `/run/netns` on which the
//! namespace is mounted keeps it alive, with or without processes in it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::process::{Pid, Signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{During, Error};

/// The folder of the namespaces' names (ip-netns(8)).
const FOLDER: &str = "/run/netns";

/// The file system of namespaces (linux/magic.h).
const NSFS_MAGIC: u64 = 0x6e73_6673;

/// A network namespace with a name, opened. Dropping it closes the descriptor; the namespace stays until it is removed.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Makes a namespace called `name`. A name that is taken is an error.
    pub fn create(name: &str) -> Result<Namespace, Error> {
        let path = path(name)?;
        share_folder().during(|| FOLDER)?;
        let what = || format!("make namespace {name}");
        OpenOptions::new().write(true).create_new(true).open(&path).during(what)?;
        // A thread's namespace is its own, so the one that makes it must also mount it; it leaves with the namespace.
        let made = on_a_thread(|| {
            // SAFETY: CLONE_NEWNET gives this thread another network namespace and shares or unshares no memory or
            // descriptors. The thread was started for this and ends with it.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            rustix::mount::mount_bind("/proc/thread-self/ns/net", &path)
        });
        if let Err(error) = made {
            // The empty file would look like a namespace; that it could not be made is what matters.
            let _ = fs::remove_file(&path);
            return Err(Error::new(what(), error));
        }
        Namespace::open(name)
    }

    /// Makes a namespace without a name under `/run/netns`, which goes with this value and the processes inside. Messages call it
    /// `name`.
    pub fn unnamed(name: &str) -> Result<Namespace, Error> {
        let made = on_a_thread(|| {
            // SAFETY: as in `create`.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            File::open("/proc/thread-self/ns/net")
        });
        Ok(Namespace { name: name.to_owned(), file: made.during(|| format!("make namespace {name}"))? })
    }

    /// The namespace called `name`, made by this program or any other.
    pub fn open(name: &str) -> Result<Namespace, Error> {
        let file = File::open(path(name)?).during(|| format!("namespace {name}"))?;
        Ok(Namespace { name: name.to_owned(), file })
    }

    /// Every namespace of this machine that can be found, each once: the calling thread's own, those with names, and those
    /// of processes, which are called `/proc/PID/ns/net` here.
    pub fn all() -> Vec<Namespace> {
        let named = fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
        let of_processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let is_process = entry.file_name().to_str().is_some_and(|name| name.bytes().all(|c| c.is_ascii_digit()));
            is_process.then(|| entry.path().join("ns/net"))
        });
        let own = PathBuf::from("/proc/thread-self/ns/net");
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for path in [own].into_iter().chain(named).chain(of_processes) {
            // A process may end while it is looked at, and a name may be that of a plain file.
            let Ok(file) = File::open(&path) else { continue };
            let is_new = rustix::fs::fstat(&file).is_ok_and(|stat| seen.insert((stat.st_dev, stat.st_ino)));
            if is_new && rustix::fs::fstatfs(&file).is_ok_and(|it| it.f_type as u64 == NSFS_MAGIC) {
                let name = path.strip_prefix(FOLDER).unwrap_or(&path).display().to_string();
                all.push(Namespace { name, file });
            }
        }
        all
    }

    /// Its name under `/run/netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` inside, on a thread of its own, and waits for it. Sockets and devices that `f` makes belong to the
    /// namespace for good, wherever they are used later. A panic in `f` goes on in the caller.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let entered = on_a_thread(|| self.enter().map(|()| f()));
        entered.during(|| format!("enter namespace {}", self.name))
    }

    /// Moves the calling thread inside, for the rest of its life. Threads it starts from then on are inside as well.
    pub fn enter(&self) -> io::Result<()> {
        Ok(rustix::thread::move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The processes inside that can be seen from here. One that has its first thread elsewhere is a visitor, such as
    /// `headend cc` while it looks around, and not among them.
    pub fn processes(&self) -> Result<Vec<u32>, Error> {
        let what = || format!("processes of namespace {}", self.name);
        let own = rustix::fs::fstat(&self.file).during(what)?;
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").during(what)?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process may end while it is looked at: then it is none of those inside.
            let its = rustix::fs::stat(entry.path().join("ns/net"));
            let is_inside = its.is_ok_and(|its| (its.st_dev, its.st_ino) == (own.st_dev, own.st_ino));
            if is_inside {
                found.push(pid);
            }
        }
        Ok(found)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Takes the name `name` away. The namespace and its devices end when no process and no descriptor holds it any more.
/// No such name is no error: what is wanted is that there be none.
pub fn remove(name: &str) -> Result<(), Error> {
    let path = path(name)?;
    match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
        // Not mounted: a file that was left by a run that ended between making the file and mounting on it.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(Error::new(format!("unmount namespace {name}"), error)),
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::new(format!("remove namespace {name}"), error))
        }
        _ => Ok(()),
    }
}

/// Ends process `pid` at once; that it has ended by itself is as good.
pub fn kill(pid: u32) -> Result<(), Error> {
    let what = || format!("end process {pid}");
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::new(what(), io::Error::from(io::ErrorKind::InvalidInput)))?;
    match rustix::process::kill_process(pid, Signal::KILL) {
        Err(error) if error != rustix::io::Errno::SRCH => Err(Error::new(what(), error)),
        _ => Ok(()),
    }
}

/// All names there are, in order.
pub fn names() -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(FOLDER) {
        // Nobody has ever named a namespace.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.during(|| FOLDER)?,
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

/// The file of a name.
fn path(name: &str) -> Result<PathBuf, Error> {
    let is_plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    if !is_plain {
        let what = format!("namespace {name:?}: expected a name without a slash, as in /run/netns");
        return Err(Error::new(what, io::Error::from(io::ErrorKind::InvalidInput)));
    }
    Ok(Path::new(FOLDER).join(name))
}

/// Makes the folder of names, and makes it a shared mount as ip-netns(8) does: a name that is removed then goes from
/// every mount namespace that has copied the folder, and a forgotten copy keeps no namespace alive.
fn share_folder() -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let share = || rustix::mount::mount_change(FOLDER, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
    match share() {
        // Not a mount yet: it becomes one, upon itself.
        Err(rustix::io::Errno::INVAL) => {
            rustix::mount::mount_bind_recursive(FOLDER, FOLDER)?;
            Ok(share()?)
        }
        shared => Ok(shared?),
    }
}

/// Runs `f` on a thread of its own and waits for it. A panic in `f` goes on in the caller.
fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join()).unwrap_or_else(|panicked| panic::resume_unwind(panicked))
}
