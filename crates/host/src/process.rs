//! Programs of others, started so that none outlives us.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A command without input whose process is killed when the thread ends that started it, also by a SIGKILL. It runs in
/// that thread's network namespace.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    let parent = std::process::id();
    let die_with_parent = move || {
        // SAFETY: PR_SET_PDEATHSIG takes a number and concerns the calling process alone.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // It may have ended before it was to be heard of.
        // SAFETY: getppid has no arguments and cannot fail.
        if unsafe { libc::getppid() } as u32 != parent {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(die_with_parent) };
    command
}
