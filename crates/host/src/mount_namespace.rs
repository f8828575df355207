//! The machine's mount namespace, from within a private one.
//!
//! `ip netns exec` gives every command a mount namespace of its own, with a new `/sys` (ip-netns(8)): what is mounted or
//! pinned there goes with the command, and nobody else ever sees it.

use std::fs::{self, File};
use std::io;
use std::panic;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Runs `f` where the files of the machine are: in the mount namespace of the oldest ancestor of this process that can be
/// looked at, which is PID 1 for root. Without the right to go there it is an error that says what to do.
pub(crate) fn run_outside<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(outside) = outside()? else { return Ok(f()) };
    let enter = || {
        // SAFETY: CLONE_FS gives this thread a root and a working directory of its own, which setns(2) asks for, and shares
        // or unshares no memory or descriptors. The thread was started for this and ends with it.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&outside), Some(LinkNameSpaceType::Mount))
    };
    let run = || enter().map(|()| f());
    let ran = thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)));
    ran.map_err(|error| {
        let text = format!(
            "this process has a /sys of its own, as under `ip netns exec`, and may not leave it ({error}): run it outside, \
             or as root with CAP_SYS_ADMIN and CAP_SYS_CHROOT"
        );
        io::Error::new(io::Error::from(error).kind(), text)
    })
}

/// The mount namespace of the oldest ancestor, if it is another than this process's.
fn outside() -> io::Result<Option<File>> {
    let id = |file: &File| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    let own = id(&File::open("/proc/self/ns/mnt")?)?;
    let mut oldest = None;
    let mut process = std::process::id();
    while let Some(parent) = parent(process).filter(|&parent| parent != 0) {
        // One that may not be looked at has older ones that may not be either; its namespace would be theirs.
        let Ok(file) = File::open(format!("/proc/{parent}/ns/mnt")) else { break };
        oldest = Some(file);
        process = parent;
    }
    let Some(oldest) = oldest else { return Ok(None) };
    Ok((id(&oldest)? != own).then_some(oldest))
}

/// The parent of a process: the second field behind its name in `/proc/PID/stat` (proc_pid_stat(5)).
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses, and may have any of them.
    let (_, behind) = stat.rsplit_once(") ")?;
    behind.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_the_one_that_the_system_tells() {
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent(u32::MAX), None);
    }
}
