//! A proxy as a service: what it tells systemd, sockets that it is given, and a new process in the place of a running one.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use proxied::{PATIENCE, Server, connected, noise, rest_of};
use tempfile::TempDir;

/// The binary, and what it says.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Process { child, lines }
    }

    fn says(&self, text: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("no message with {text:?} ({error}), but: {heard:#?}"),
            }
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with the file of a proxy that forwards what comes to `address`.
fn file(address: &str, to: SocketAddr, more: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("proxy.toml");
    let text = format!(
        "{more}\n[[listen]]\naddress = \"{address}\"\nway = \"forward\"\nto = \"{to}\"\n\
         [limits]\nconnections_per_client = 8000\n"
    );
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn headend(path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    command.args(["proxy", "--config"]).arg(path);
    command
}

fn news(socket: &UnixDatagram, expected: &str) -> String {
    let mut bytes = [0; 1_000];
    loop {
        let len = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("no {expected}: {error}"));
        let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
        if text.starts_with(expected) {
            return text;
        }
        assert!(text == "WATCHDOG=1", "{text:?} before {expected}");
    }
}

#[test]
fn systemd_hears_when_it_serves_reloads_lives_and_ends() {
    let server = Server::new();
    let (folder, path) = file("127.0.0.1:0", server.address(), "");
    let socket = folder.path().join("notify");
    let notify = UnixDatagram::bind(&socket).unwrap();
    // Whoever the process becomes may tell.
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    notify.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut process = Process::start(headend(&path).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000"));
    assert!(news(&notify, "READY=1").contains("STATUS="));
    news(&notify, "WATCHDOG=1");
    news(&notify, "WATCHDOG=1");
    process.signal("HUP");
    let reloading = news(&notify, "RELOADING=1");
    let usec = reloading.split_once("MONOTONIC_USEC=").map(|(_, usec)| usec.trim().parse::<u64>());
    assert!(matches!(usec, Some(Ok(usec)) if usec > 0), "{reloading:?}");
    news(&notify, "READY=1");
    process.signal("TERM");
    news(&notify, "STOPPING=1");
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

/// Starts the binary with `socket` as its descriptor 3.
fn activated(path: &Path, socket: &TcpListener) -> Process {
    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).unwrap();
    let mut command = Command::new("bash");
    let script = format!(
        "exec 3<&{}; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$0\" proxy --config \"$1\"",
        socket.as_raw_fd()
    );
    let process = Process::start(command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_headend")).arg(path));
    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC).unwrap();
    process
}

#[test]
fn a_passed_socket_is_served_with_the_clients_that_wait_at_it() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::new();
    let (_folder, path) = file(&passed.local_addr().unwrap().to_string(), server.address(), "");
    let mut client = connected(passed.local_addr().unwrap());
    client.write_all(b"early").unwrap();
    let process = activated(&path, &passed);
    process.says("listening on");
    let mut upstream = server.accept();
    let mut bytes = [0; 5];
    upstream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"early");
}

#[test]
fn a_socket_that_the_file_knows_nothing_of_is_refused() {
    let passed = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::new();
    let (_folder, path) = file("127.0.0.1:0", server.address(), "");
    let mut process = activated(&path, &passed);
    process.says("nothing in the file listens where the socket \"web\" does");
    assert_eq!(process.child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_new_process_takes_over_without_refusing_or_breaking_anybody() {
    // Answers each connection with what it sent, until its end.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut reading = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut reading, &mut stream);
            });
        }
    });
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (folder, path) = file(&free.to_string(), to, "handover = \"proxy.sock\"\n");
    let door = folder.path().join("proxy.sock");
    let mut running = Process::start(&mut headend(&path));
    running.says("listening on");

    // Under way all the time, and half sent when the new process comes.
    let data = noise(5, 4_000_000);
    let mut long = connected(free);
    let (first, rest) = data.split_at(1_000_000);
    let mut echo = vec![0; first.len()];
    let mut writing = long.try_clone().unwrap();
    let sent = first.to_vec();
    let sender = thread::spawn(move || writing.write_all(&sent).unwrap());
    long.read_exact(&mut echo).unwrap();
    sender.join().unwrap();
    assert!(echo == first);

    let is_over = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    let visitors: Vec<_> = (0..4)
        .map(|_| {
            let (is_over, served) = (is_over.clone(), served.clone());
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(free).expect("nobody is refused");
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    stream.write_all(b"hello").expect("whoever is accepted is served");
                    let mut answer = [0; 5];
                    stream.read_exact(&mut answer).expect("whoever is accepted is answered");
                    assert_eq!(&answer, b"hello");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let reach = |count: u64| {
        let end = std::time::Instant::now() + PATIENCE;
        while served.load(Ordering::Relaxed) < count {
            assert!(std::time::Instant::now() < end, "no more are served");
            thread::yield_now();
        }
    };
    reach(300);
    // Twice, so that what was handed over can be handed on.
    let mut ended = Vec::new();
    for turn in 1..=2 {
        let next = Process::start(headend(&path).arg("--take-over").arg(&door));
        next.says("took over");
        running.says("another process has taken over");
        ended.push(std::mem::replace(&mut running, next));
        reach(served.load(Ordering::Relaxed) + 350 * turn);
    }
    is_over.store(true, Ordering::Relaxed);
    for visitor in visitors {
        visitor.join().unwrap();
    }
    assert!(served.load(Ordering::Relaxed) >= 1_000);
    // The second process had nothing else to do and has ended; the first still has this one.
    assert_eq!(ended.pop().unwrap().child.wait().unwrap().code(), Some(0));
    let mut writing = long.try_clone().unwrap();
    let sent = rest.to_vec();
    let sender = thread::spawn(move || {
        writing.write_all(&sent).unwrap();
        writing.shutdown(std::net::Shutdown::Write).unwrap();
    });
    assert!(rest_of(&mut long) == rest, "what was under way is whole");
    sender.join().unwrap();
    assert_eq!(ended.pop().unwrap().child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_process_to_take_over_from_it_listens_anew() {
    let server = Server::new();
    let (folder, path) = file("127.0.0.1:0", server.address(), "handover = \"proxy.sock\"\n");
    let door = folder.path().join("proxy.sock");
    let process = Process::start(headend(&path).arg("--take-over").arg(&door));
    process.says("listening on");
    // A second one that does not take over leaves the first alone.
    let mut second = Process::start(&mut headend(&path));
    second.says("take its place with --take-over");
    assert_ne!(second.child.wait().unwrap().code(), Some(0));
}

#[test]
fn systemd_understands_the_units_that_are_published() {
    let folder = TempDir::new().unwrap();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut units = Vec::new();
    for published in std::fs::read_dir(packaging).unwrap().map(|entry| entry.unwrap().path()) {
        if !published.extension().is_some_and(|kind| kind == "service" || kind == "socket") {
            continue;
        }
        let text = std::fs::read_to_string(&published).unwrap();
        let unit = folder.path().join(published.file_name().unwrap());
        // A program that is not there would be the one thing that it says.
        std::fs::write(&unit, text.replace("/usr/bin/headend", env!("CARGO_BIN_EXE_headend"))).unwrap();
        units.push(unit);
    }
    let Ok(output) = Command::new("systemd-analyze").arg("verify").args(&units).output() else {
        eprintln!("skipped: to check units takes systemd-analyze (systemd)");
        return;
    };
    let said = String::from_utf8(output.stderr).unwrap();
    // Of other units of the machine it may say what it likes; a line that it ignores is no failure to it.
    let ours: Vec<_> = said.lines().filter(|line| line.contains("headend-")).collect();
    assert!(units.len() >= 4, "{units:?}");
    assert!(ours.is_empty(), "{ours:#?}");
    assert!(output.status.success(), "{said}");
}
