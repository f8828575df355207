//! Privileges that a process needs before it can make networks.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::error::{During, Error};

/// Allows this process, and those that it starts, as many open files as it may allow itself, and `needed` if it is a
/// superuser's. Returns how many that is.
pub fn raise_open_files(needed: u64) -> u64 {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let maximum = limits.maximum.map(|maximum| maximum.max(needed));
    // What is refused stays as it is.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .or_else(|_| rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }));
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// True if this machine has a user of that name.
pub fn has_user(name: &str) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends with a zero; of what is returned only whether it is there is looked at.
    unsafe { !libc::getpwnam(name.as_ptr()).is_null() }
}

/// Becomes `user` and nobody's superuser again, if this process is root's; otherwise it stays who it is. Threads must not
/// have been started yet. Of its capabilities only those of `keep` stay that it has.
pub fn become_user(user: &str, keep: CapabilitySet) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = || format!("become the user {user:?}");
    let name = CString::new(user).map_err(|_| Error::new(what(), io::Error::from(io::ErrorKind::InvalidInput)))?;
    // SAFETY: the name ends with a zero; the entry is read before anything else could change it.
    let ids = unsafe { libc::getpwnam(name.as_ptr()).as_ref().map(|entry| (entry.pw_uid, entry.pw_gid)) };
    let (uid, gid) = ids.ok_or_else(|| {
        Error::new(what(), io::Error::new(io::ErrorKind::NotFound, "there is no such user; name another with `user`"))
    })?;
    if uid == 0 {
        return Ok(());
    }
    let kept = rustix::thread::capabilities(None).during(what)?.permitted & keep;
    rustix::thread::set_keep_capabilities(!kept.is_empty()).during(what)?;
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: three calls that take numbers; no groups are read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }).during(what)?;
    // SAFETY: as above.
    check(unsafe { libc::setresgid(gid, gid, gid) }).during(what)?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(uid, uid, uid) }).during(what)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).during(what)?;
    rustix::thread::set_no_new_privs(true).during(what)
}

/// Gives up these capabilities for the calling thread, and those that it starts.
pub(crate) fn give_up(capabilities: CapabilitySet) -> Result<(), Error> {
    let what = || "give up capabilities";
    let mut sets = rustix::thread::capabilities(None).during(what)?;
    sets.effective -= capabilities;
    sets.permitted -= capabilities;
    sets.inheritable -= capabilities;
    rustix::thread::set_capabilities(None, sets).during(what)
}

/// Calls that a process which serves strangers has no use for: to run programs, to look into others, to change namespaces,
/// mounts, modules, keys, clocks or the machine.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Has the kernel refuse calls that nothing here makes from now on, in all threads and for good (seccomp(2)): whoever got hold
/// of this process could run no program. A list of what is forbidden, not of what is allowed: libraries may change what
/// they call.
pub fn forbid_needless_calls() -> Result<(), Error> {
    let what = || "forbid system calls that are not needed";
    let wrong = |error: &dyn std::fmt::Display| Error::new(what(), io::Error::other(error.to_string()));
    let rules = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| wrong(&error))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(|error| wrong(&error))?;
    let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| wrong(&error))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| wrong(&error))
}

/// Keeps of the capabilities only those that a trunk needs while it runs and when it takes away its rules, for good and also
/// for the programs that it starts. It stays the user that it was: the lock of iptables is root's. Threads must not have been
/// started yet.
pub fn keep_for_trunks() -> Result<(), Error> {
    let what = || "give up capabilities";
    let keep = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    for capability in CapabilitySet::all().difference(keep).iter() {
        // Those that are newer than the kernel are refused. Without CAP_SETPCAP all are: then the process was not root's, and a
        // program that it starts gets no more than what is permitted here.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let kept = rustix::thread::capabilities(None).during(what)?.permitted & keep;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets).during(what)?;
    for capability in kept.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true).during(what)?;
    }
    rustix::thread::set_no_new_privs(true).during(what)
}

/// The privileges that this process lacks to make namespaces and devices, in words; empty if it has all.
pub fn missing() -> Vec<String> {
    let mut missing = lacking(&[
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN, to make network namespaces"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, to make devices and routes"),
    ]);
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        missing.push(format!("/dev/net/tun, to carry packets ({error})"));
    }
    missing
}

/// The privileges that this process lacks to take over interfaces that are there, in words; empty if it has all.
pub fn missing_for_interfaces() -> Vec<String> {
    lacking(&[
        (CapabilitySet::NET_RAW, "CAP_NET_RAW, to read and write whole frames"),
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, for room in which frames wait while the machine pauses"),
    ])
}

/// The privileges that this process lacks to run a trunk with sealed or with native carriage, in words; empty if it has all.
pub fn missing_for_trunks(is_sealed: bool) -> Vec<String> {
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN, to hold packets and to set rules or routes"),
        (CapabilitySet::NET_RAW, "CAP_NET_RAW, to set rules"),
    ];
    // Only iptables wants the second.
    lacking(&needed[..if is_sealed { 1 } else { 2 }])
}

/// The words of those capabilities that this thread does not have.
fn lacking(needed: &[(CapabilitySet, &str)]) -> Vec<String> {
    let held = held();
    needed.iter().filter(|(one, _)| !held.contains(*one)).map(|(_, words)| (*words).to_owned()).collect()
}

/// The capabilities of this thread.
pub(crate) fn held() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}
