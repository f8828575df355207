//! Two sites with a user each, in namespaces in a row, and a trunk's daemon at each site:
//! user of the west - west ==== east - user of the east.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headend_host::netns::{self, Namespace};
use headend_host::privilege;
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// What a test waits for at most before it fails: the machine may have much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The users' addresses.
pub(crate) const USERS: [&str; 2] = ["10.77.1.2", "10.77.2.2"];
/// The sites' addresses towards each other.
pub(crate) const SITES: [&str; 2] = ["10.77.9.1", "10.77.9.2"];
const NAMES: [&str; 2] = ["west", "east"];

/// Whether such tests can run here; says why not.
pub(crate) fn are_possible() -> bool {
    let missing = privilege::missing();
    let has = |command: &str| {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        folders.iter().any(|folder| Path::new(folder).join(command).is_file())
    };
    let why = match missing.is_empty() {
        false => format!("this process lacks {}", missing.join("; ")),
        true if !has("iptables") || !has("ip") => "there is no iptables or no ip on this machine".to_owned(),
        true => return true,
    };
    eprintln!("skipped: {why}");
    false
}

/// Forwards each datagram between the sites, and sends each also again, later, changed, cut, and back.
pub(crate) fn attack(relay: &UdpSocket, is_done: &AtomicBool) {
    let [west, east] = SITES.map(|site| SocketAddr::new(site.parse().expect("an address"), 7_700));
    let mut kept: VecDeque<(Vec<u8>, SocketAddr)> = VecDeque::new();
    let mut buffer = [0; 2_000];
    let mut count = 0_usize;
    while !is_done.load(Ordering::Relaxed) {
        let Ok((len, from)) = relay.recv_from(&mut buffer) else { continue };
        let bytes = buffer[..len].to_vec();
        let to = if from == west { east } else { west };
        let send = |bytes: &[u8], to| drop(relay.send_to(bytes, to));
        send(&bytes, to);
        count += 1;
        let mut forged = bytes.clone();
        forged[count % len] ^= 1 << (count % 8);
        send(&forged, to);
        send(&bytes, to);
        send(&bytes[..len - count % len - 1], to);
        send(&bytes, from);
        kept.push_back((bytes, to));
        if kept.len() > 500 {
            let (old, to) = kept.pop_front().expect("it is not empty");
            send(&old, to);
        }
    }
}

/// A namespace that goes with the test.
struct Made(Namespace);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = netns::remove(self.0.name());
    }
}

/// Four namespaces, and a folder with each site's key and file.
pub(crate) struct Sites {
    users: [Made; 2],
    sites: [Made; 2],
    pub(crate) folder: tempfile::TempDir,
    pub(crate) keys: [String; 2],
}

impl Sites {
    /// Makes them. `of` is in their names. The sites are joined by two devices if `joined`, and otherwise not at all.
    pub(crate) fn new(of: &str, joined: bool) -> Sites {
        let make = |what: &str| {
            let name = format!("headend-test-{}-{of}-{what}", std::process::id());
            Made(Namespace::create(&name).expect("root makes namespaces"))
        };
        let (users, sites) = ([make("uw"), make("ue")], [make("w"), make("e")]);
        let folder = tempfile::tempdir().expect("a folder");
        let keys = NAMES.map(|name| {
            let output = headend().args(["trunk", "keygen"]).arg(folder.path().join(format!("{name}.key"))).output();
            let output = output.expect("the binary runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("base64").trim().to_owned()
        });
        let made = Sites { users, sites, folder, keys };
        made.wire(joined);
        made
    }

    fn wire(&self, joined: bool) {
        let name = |made: &Made| made.0.name().to_owned();
        for side in 0..2 {
            let (user, site) = (name(&self.users[side]), name(&self.sites[side]));
            let net = format!("10.77.{}", side + 1);
            ip(&format!("link add u0 netns {user} type veth peer name u1 netns {site}"));
            for (namespace, device, address) in
                [(&user, "u0", format!("{net}.2/24")), (&site, "u1", format!("{net}.1/24"))]
            {
                ip(&format!("-n {namespace} addr add {address} dev {device}"));
                ip(&format!("-n {namespace} link set {device} up"));
                ip(&format!("-n {namespace} link set lo up"));
            }
            ip(&format!("-n {user} route add default via {net}.1"));
            self.in_site(side, || fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root sets it"));
        }
        if joined {
            let (west, east) = (name(&self.sites[0]), name(&self.sites[1]));
            ip(&format!("link add ab netns {west} type veth peer name ab netns {east}"));
            for (site, address) in [&west, &east].into_iter().zip(SITES) {
                ip(&format!("-n {site} addr add {address}/24 dev ab"));
                ip(&format!("-n {site} link set ab up"));
            }
            self.route(SITES);
        }
    }

    /// Leads each site's packets for the other's users to these addresses.
    pub(crate) fn route(&self, sites: [&str; 2]) {
        for side in 0..2 {
            let (site, other) = (self.sites[side].0.name(), 1 - side);
            ip(&format!("-n {site} route replace 10.77.{}.0/24 via {}", other + 1, sites[other]));
        }
    }

    /// Takes the sites' routes to each other's users away: a trunk with sealed carriage makes its own.
    pub(crate) fn unroute(&self) {
        for side in 0..2 {
            ip(&format!("-n {} route del 10.77.{}.0/24", self.sites[side].0.name(), 2 - side));
        }
    }

    /// All routes and devices of a site.
    pub(crate) fn routes(&self, side: usize) -> String {
        let shown = |what: &str| {
            let output = Command::new("ip").args(["-n", self.sites[side].0.name(), "-o", what, "show"]).output();
            String::from_utf8(output.expect("ip runs").stdout).expect("ASCII")
        };
        // What is counted and guessed changes by itself.
        let links: Vec<String> = shown("link").lines().map(|line| line.split(':').take(2).collect()).collect();
        format!("{}{}", shown("route"), links.join("\n"))
    }

    pub(crate) fn user_name(&self, side: usize) -> &str {
        self.users[side].0.name()
    }

    pub(crate) fn site_name(&self, side: usize) -> &str {
        self.sites[side].0.name()
    }

    pub(crate) fn in_site<T: Send>(&self, side: usize, f: impl FnOnce() -> T + Send) -> T {
        self.sites[side].0.run(f).expect("the namespace is there")
    }

    pub(crate) fn in_user<T: Send>(&self, side: usize, f: impl FnOnce() -> T + Send) -> T {
        self.users[side].0.run(f).expect("the namespace is there")
    }

    /// Writes a site's file. `whole` goes to its beginning, `peer` to the other site.
    pub(crate) fn write(&self, side: usize, endpoint: Option<&str>, whole: &str, peer: &str) -> PathBuf {
        let (name, other) = (NAMES[side], 1 - side);
        let endpoint = endpoint.map_or(String::new(), |endpoint| format!("endpoint = \"{endpoint}\"\n"));
        let text = format!(
            "name = \"{name}\"\nprivate_key = \"{name}.key\"\nlisten = \"0.0.0.0:7700\"\nstatus = \"{name}.sock\"\n\
             dead_after = \"2s\"\n{whole}\n[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\n{endpoint}\
             networks = [\"10.77.{}.0/24\"]\n{peer}\n",
            NAMES[other],
            self.keys[other],
            other + 1,
        );
        let path = self.folder.path().join(format!("{name}.toml"));
        fs::write(&path, text).expect("a file");
        path
    }

    /// Writes both files as most tests want them.
    pub(crate) fn write_both(&self, whole: &str, peer: &str) -> [PathBuf; 2] {
        [0, 1].map(|side| self.write(side, Some(&format!("{}:7700", SITES[1 - side])), whole, peer))
    }

    /// Starts a site's daemon.
    pub(crate) fn up(&self, side: usize, file: &Path) -> Daemon {
        let log = self.folder.path().join(format!("{}.log", NAMES[side]));
        let file_of_log = fs::File::create(&log).expect("a file");
        let child = self.in_site(side, || {
            let mut command = headend();
            command.args(["trunk", "up"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file_of_log);
            command.spawn().expect("the binary runs")
        });
        let daemon = Daemon { child, log, socket: self.folder.path().join(format!("{}.sock", NAMES[side])) };
        wait_for("the daemon is up", || daemon.log().contains(" is up"));
        daemon
    }

    /// Takes away what a site's trunk left. Returns the exit code, and what was said.
    pub(crate) fn down(&self, side: usize, file: &Path) -> (Option<i32>, String) {
        let output = self.in_site(side, || headend().args(["trunk", "down"]).arg(file).output());
        let output = output.expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Starts both and waits until each carries to the other.
    pub(crate) fn up_both(&self, files: &[PathBuf; 2]) -> [Daemon; 2] {
        let daemons = [self.up(0, &files[0]), self.up(1, &files[1])];
        daemons.iter().for_each(Daemon::carries);
        daemons
    }

    /// The rules of a site's mangle table.
    pub(crate) fn rules(&self, side: usize) -> String {
        let output = self.in_site(side, || Command::new("iptables").args(["-t", "mangle", "-S"]).output());
        String::from_utf8(output.expect("iptables runs").stdout).expect("rules are ASCII")
    }

    /// Sends `len` bytes by TCP from a side's user to the other's, checked at the far end. Returns how long that took.
    pub(crate) fn transfer(&self, from: usize, len: usize) -> Duration {
        let listener =
            self.in_user(1 - from, || TcpListener::bind((USERS[1 - from], 0)).expect("the address is there"));
        let to: SocketAddr = listener.local_addr().expect("it is bound");
        let begin = Instant::now();
        let sender =
            self.in_user(from, || TcpStream::connect_timeout(&to, PATIENCE).expect("the other user is reached"));
        let writer = thread::spawn(move || {
            let mut sender = sender;
            sender.set_write_timeout(Some(PATIENCE)).expect("a time-out is allowed");
            let mut left = len;
            let mut at = 0_usize;
            while left > 0 {
                let chunk: Vec<u8> = (at..at + left.min(65_536)).map(pattern).collect();
                std::io::Write::write_all(&mut sender, &chunk).expect("it is taken");
                (at, left) = (at + chunk.len(), left - chunk.len());
            }
        });
        let (mut receiver, _) = listener.accept().expect("the other user connects");
        receiver.set_read_timeout(Some(PATIENCE)).expect("a time-out is allowed");
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).expect("it arrives");
        writer.join().expect("all was sent");
        assert!(
            got.len() == len && got.iter().enumerate().all(|(at, byte)| *byte == pattern(at)),
            "every byte in order"
        );
        begin.elapsed()
    }

    /// Sends numbered datagrams of many lengths from the west's user to the east's. Returns how many came of how many, after it saw
    /// that they came in order.
    pub(crate) fn numbered(&self) -> (u32, u32) {
        const COUNT: u32 = 20_000;
        let receiver = self.in_user(1, || UdpSocket::bind((USERS[1], 7_000)).expect("the address is there"));
        socket2::SockRef::from(&receiver).set_recv_buffer_size(8 << 20).expect("a buffer");
        receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out is allowed");
        let sender = self.in_user(0, || UdpSocket::bind((USERS[0], 0)).expect("the address is there"));
        let sending = thread::spawn(move || {
            for number in 0..COUNT {
                // Of many lengths, so that some end a VMSS and some do not.
                let mut bytes = vec![0; 4 + (number as usize * 7_919) % 1_390];
                bytes[..4].copy_from_slice(&number.to_be_bytes());
                // What the device has no room for is not the trunk's affair.
                let _ = sender.send_to(&bytes, (USERS[1], 7_000));
                if number % 16 == 0 {
                    thread::sleep(Duration::from_micros(500));
                }
            }
        });
        let (mut next, mut got) = (0, 0);
        let mut buffer = [0; 2_000];
        while let Ok(len) = receiver.recv(&mut buffer) {
            let number = u32::from_be_bytes(*buffer[..len].first_chunk().expect("four bytes at least"));
            assert!(number >= next, "{number} after {next}");
            next = number + 1;
            got += 1;
            if next == COUNT {
                break;
            }
        }
        sending.join().expect("all was sent");
        (got, COUNT)
    }

    /// Whether a datagram of a side's user reaches the other's, within two seconds.
    pub(crate) fn reaches(&self, from: usize) -> bool {
        let bind =
            |side: usize| self.in_user(side, || UdpSocket::bind((USERS[side], 0)).expect("the address is there"));
        let (sender, receiver) = (bind(from), bind(1 - from));
        receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out is allowed");
        let to = receiver.local_addr().expect("it is bound");
        sender.send_to(b"are you there?", to).expect("it is sent");
        receiver.recv(&mut [0; 64]).is_ok()
    }
}

fn pattern(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// A daemon under way; killed when the test ends before it.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    pub(crate) socket: PathBuf,
}

impl Daemon {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The status that it gives of itself; null if it does not answer.
    pub(crate) fn status(&self) -> Value {
        let output = headend().args(["trunk", "status", "--format", "json", "--socket"]).arg(&self.socket).output();
        serde_json::from_slice(&output.expect("the binary runs").stdout).unwrap_or_default()
    }

    /// The status that it gives of the other site.
    pub(crate) fn peer(&self) -> Value {
        self.status()["peers"][0].clone()
    }

    pub(crate) fn carries(&self) {
        wait_for("the circuit carries", || self.peer()["state"] == "carrying" && !self.peer()["from"].is_null());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Ends it as an operator does.
    pub(crate) fn end(mut self) -> String {
        self.signal(Signal::TERM);
        assert!(self.child.wait().expect("it ends").success(), "{}", self.log());
        self.log()
    }

    /// Waits until it ends by itself. Returns its code and its log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut code = None;
        wait_for("the daemon ends", || {
            code = self.child.try_wait().expect("it can be asked");
            code.is_some()
        });
        (code.and_then(|code| code.code()), self.log())
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

pub(crate) fn headend() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headend"))
}

/// The command as [`headend`], run by a user without any privilege.
pub(crate) fn headend_as_nobody() -> Command {
    let mut command = headend();
    command.uid(65_534).gid(65_534);
    command
}

pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(50));
    }
}
