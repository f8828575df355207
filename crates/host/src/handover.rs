//! Sockets go from one process to another that takes its place, over a Unix socket that only their owner may use.
//!
//! A listening socket that both have is never closed: whoever connects meanwhile is accepted by one or the other. The old
//! process sends all it has at once; the new one says when it serves, and then the old one accepts no more. If the new one
//! fails before that, nothing has changed.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use rustix::process::Uid;

use crate::error::{During, Error};
use crate::service::Passed;

/// The most that the kernel passes at once (SCM_MAX_FD).
const SOCKETS_MAX: usize = 253;
/// The time for which each of the two waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// The word of the new process once it serves.
const SERVING: &[u8] = b"serving\n";
/// Ends the list of names.
const END: &[u8] = b"\n\n";

/// A process that has given its sockets and waits to hear that they are served.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

/// Opens the place where another process may ask for the sockets of this one: by its owner and by root, nobody else.
pub fn open(path: &Path) -> Result<UnixListener, Error> {
    let what = || format!("wait for a successor at {}", path.display());
    folder_is_ours(path).during(what)?;
    if UnixStream::connect(path).is_ok() {
        let why = "another process waits there; take its place with --take-over, or name another path";
        return Err(Error::new(what(), io::Error::new(io::ErrorKind::AddrInUse, why)));
    }
    // One that ended without a chance to clean up has left it.
    if fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket()) {
        fs::remove_file(path).during(what)?;
    }
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let socket = bound.during(what)?;
    socket.set_nonblocking(true).during(what)?;
    Ok(socket)
}

/// Whoever may write to the folder could put a socket of their own in the place of ours.
fn folder_is_ours(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entry = fs::metadata(folder)?;
    let owner = Uid::from_raw(entry.uid());
    let refuse = |why: &str| {
        let why = format!("{} {why}; take a folder that only root or this user may write to", folder.display());
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    if !owner.is_root() && owner != rustix::process::geteuid() {
        return refuse("belongs to another user");
    }
    if Mode::from_raw_mode(entry.mode()).intersects(Mode::WGRP | Mode::WOTH) {
        return refuse("may be written to by others");
    }
    Ok(())
}

/// Asks the process that waits at `path` for its sockets; `None` if none waits there.
pub fn ask(path: &Path) -> Result<Option<(Vec<Passed>, Predecessor)>, Error> {
    let what = || format!("take over from the process that waits at {}", path.display());
    let stream = match UnixStream::connect(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        connected => connected.during(what)?,
    };
    // What is served then, and to whom, is up to whoever answers. The kernel says who began to listen there.
    let owner = rustix::net::sockopt::socket_peercred(&stream).during(what)?.uid;
    if !owner.is_root() && owner != rustix::process::geteuid() {
        let why = format!("user {} waits there, who is neither root nor who started this process", owner.as_raw());
        return Err(Error::wrong(what(), why));
    }
    stream.set_read_timeout(Some(PATIENCE)).during(what)?;
    stream.set_write_timeout(Some(PATIENCE)).during(what)?;
    let passed = receive(&stream).during(what)?;
    Ok(Some((passed, Predecessor(stream))))
}

impl Predecessor {
    /// Tells it that its sockets are served: it takes no more connections.
    pub fn relieve(mut self) -> Result<(), Error> {
        self.0.write_all(SERVING).during(|| "tell the process before this one that it is relieved")
    }
}

/// Gives a successor the sockets, and waits until it serves; false if it gave up.
pub fn give(successor: &UnixStream, sockets: &[(String, BorrowedFd<'_>)]) -> io::Result<bool> {
    if sockets.len() > SOCKETS_MAX {
        let why = format!("{} sockets are more than the {SOCKETS_MAX} that can be passed", sockets.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    successor.set_nonblocking(false)?;
    successor.set_read_timeout(Some(PATIENCE))?;
    successor.set_write_timeout(Some(PATIENCE))?;
    let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = names.join("\n").into_bytes();
    text.extend(END);
    let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, socket)| *socket).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for the sockets"));
    }
    let sent = rustix::net::sendmsg(successor, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    (&*successor).write_all(&text[sent..])?;
    let mut answer = [0; SERVING.len()];
    match io::Read::read_exact(&mut &*successor, &mut answer) {
        Ok(()) => Ok(answer == SERVING),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn receive(stream: &UnixStream) -> io::Result<Vec<Passed>> {
    let mut text = Vec::new();
    let mut sockets = Vec::new();
    while !text.ends_with(END) {
        let mut bytes = [0; 4_096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message =
            rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if message.bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it refused: only its owner or root may"));
        }
        text.extend(&bytes[..message.bytes]);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                sockets.extend(passed);
            }
        }
    }
    let text = String::from_utf8_lossy(&text[..text.len() - END.len()]).into_owned();
    let names: Vec<&str> = text.split('\n').filter(|name| !name.is_empty()).collect();
    if names.len() != sockets.len() {
        let why = format!("{} names came with {} sockets", names.len(), sockets.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(names.into_iter().zip(sockets).map(|(name, socket)| Passed { name: name.to_owned(), socket }).collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    #[test]
    fn sockets_arrive_under_their_names_and_the_giver_hears_of_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("sock");
        let door = open(&path).unwrap();
        let listeners: Vec<TcpListener> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let giver = thread::spawn(move || {
            door.set_nonblocking(false).unwrap();
            let (stream, _) = door.accept().unwrap();
            let sockets: Vec<_> =
                listeners.iter().enumerate().map(|(index, one)| (format!("way {index}"), one.as_fd())).collect();
            give(&stream, &sockets).unwrap()
        });
        let (passed, predecessor) = ask(&path).unwrap().expect("somebody waits");
        assert_eq!(passed.len(), 200);
        for (index, (passed, address)) in passed.into_iter().zip(addresses).enumerate() {
            assert_eq!(passed.name, format!("way {index}"));
            assert_eq!(TcpListener::from(passed.socket).local_addr().unwrap(), address);
        }
        predecessor.relieve().unwrap();
        assert!(giver.join().unwrap());
    }

    #[test]
    fn a_successor_that_gives_up_is_noticed() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("sock");
        let door = open(&path).unwrap();
        let asking = thread::spawn(move || drop(ask(&path).unwrap()));
        door.set_nonblocking(false).unwrap();
        let (stream, _) = door.accept().unwrap();
        assert!(!give(&stream, &[]).unwrap());
        asking.join().unwrap();
    }

    #[test]
    fn nobody_waits_in_a_folder_that_others_may_write_to() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("sock");
        // A sticky one too: there another can be first.
        for mode in [0o777, 0o1777, 0o775] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains("may be written to by others; take a folder"), "{error}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        open(&path).unwrap();
    }

    #[test]
    fn nobody_waits_where_a_process_has_died_and_its_place_can_be_taken() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("sock");
        drop(open(&path).unwrap());
        assert!(ask(&path).unwrap().is_none());
        let second = open(&path).unwrap();
        assert!(open(&path).is_err(), "somebody waits there");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        drop(second);
    }
}
