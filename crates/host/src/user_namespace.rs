//! A user namespace of this process's own, in which an ordinary user may make networks (user_namespaces(7)).

use std::fs;
use std::io;

use rustix::thread::UnshareFlags;

use crate::device::{Change, Device};
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// Moves this process into a user namespace and a network namespace of its own, where it is root and where nothing is but the
/// loopback. Threads must not have been started yet. Files and programs are those of the user who started it.
pub fn enter() -> Result<(), Error> {
    let what = || "make a user namespace";
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // SAFETY: the process has one thread, as unshare(2) asks for with CLONE_NEWUSER; no memory or descriptors change hands.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }.during(what)?;
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text).during(what);
    // Without this the kernel maps no groups for an ordinary user.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {uid} 1"))?;
    write("gid_map", format!("0 {gid} 1"))?;
    let mut netlink = Netlink::open()?;
    Device::find(&mut netlink, "lo")?.change(&mut netlink, Change { up: Some(true), ..Change::default() })
}

/// True if the kernel lets ordinary users make such namespaces, as far as it says so.
pub fn are_allowed() -> bool {
    let is_zero = |file: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == "0");
    let is_missing = fs::metadata("/proc/self/ns/user").is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    !is_missing
        && !is_zero("/proc/sys/user/max_user_namespaces")
        && !is_zero("/proc/sys/kernel/unprivileged_userns_clone")
}
