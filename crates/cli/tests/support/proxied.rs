//! A proxy under test, with a client on one side and a server on the other.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Long beyond what anything here takes: only what hangs is ended by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The protocol that a client speaks to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    Connect,
    Socks5,
    Forward,
}

/// The real binary, with three ways in on ports of its own.
pub(crate) struct Proxy {
    process: Child,
    addresses: [SocketAddr; 3],
    messages: Receiver<String>,
    /// The server of connections in the way [`Tongue::Forward`].
    forward: TcpListener,
    folder: TempDir,
}

impl Proxy {
    /// A proxy with `tables` after its listeners.
    pub(crate) fn start(tables: &str) -> Proxy {
        Proxy::start_with("", tables)
    }

    /// A proxy with `before` at the beginning of its file, and `tables` after its listeners.
    pub(crate) fn start_with(before: &str, tables: &str) -> Proxy {
        Proxy::start_from(&[], before, tables, |text| text)
    }

    /// A proxy as [`Proxy::start_with`] makes it, by a command that becomes the proxy: what follows it is the proxy's
    /// own.
    pub(crate) fn start_by(command: &[&str], before: &str, tables: &str) -> Proxy {
        Proxy::start_from(command, before, tables, |text| text)
    }

    /// A proxy with a file that was changed.
    pub(crate) fn start_edited(change: impl FnOnce(String) -> String) -> Proxy {
        Proxy::start_from(&[], "", "", change)
    }

    /// All of this: by a command, with a file that was changed.
    pub(crate) fn start_from(
        command: &[&str],
        before: &str,
        tables: &str,
        change: impl FnOnce(String) -> String,
    ) -> Proxy {
        let forward = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = TempDir::new().unwrap();
        // The proxy may become another user, and is to read its file again.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("proxy.toml");
        std::fs::write(&path, change(Proxy::file(before, tables, forward.local_addr().unwrap()))).unwrap();
        let words = [command, &[env!("CARGO_BIN_EXE_headend"), "proxy", "--config"]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&path).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, messages) = channel();
        listen_to(process.stderr.take().unwrap(), sender.clone());
        listen_to(process.stdout.take().unwrap(), sender);
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut proxy = Proxy { process, addresses: [unknown; 3], messages, forward, folder };
        for (tongue, way) in [(Tongue::Connect, "http"), (Tongue::Socks5, "socks5"), (Tongue::Forward, "forward")] {
            let line = proxy.says(&format!("({way})"));
            let address = line.split_whitespace().nth(2).and_then(|word| word.parse().ok());
            proxy.addresses[tongue as usize] = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        }
        proxy
    }

    /// The file of a proxy that allows the loopback, which no proxy does that is not told so.
    fn file(before: &str, tables: &str, to: SocketAddr) -> String {
        let listeners: String = ["http", "socks5", "forward"]
            .iter()
            .map(|way| {
                let to = if *way == "forward" { format!("to = \"{to}\"\n") } else { String::new() };
                format!("[[listen]]\naddress = \"127.0.0.1:0\"\nway = \"{way}\"\n{to}")
            })
            .collect();
        format!("{before}\n{listeners}\n{tables}\n[destinations]\nallow = [\"127.0.0.0/8\", \"::1\"]\n")
    }

    pub(crate) fn address(&self, tongue: Tongue) -> SocketAddr {
        self.addresses[tongue as usize]
    }

    /// Waits for a message, or a line of a connection, with `text` in it.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.messages.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("no message with {text:?} ({error}), but: {heard:#?}"),
            }
        }
    }

    /// Stops reading its messages after the next one.
    pub(crate) fn hang_up(&mut self) {
        self.messages = channel().1;
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.process.id().to_string()).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Changes its file.
    pub(crate) fn edit(&self, change: impl FnOnce(String) -> String) {
        let path = self.folder.path().join("proxy.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(text)).unwrap();
    }

    /// The next connection of the forwarding way, at its server.
    pub(crate) fn forwarded(&self) -> TcpStream {
        patient(self.forward.accept().unwrap().0)
    }

    /// The exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

/// Passes each line on, until nobody wants them.
fn listen_to(output: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server that somebody can come to.
pub(crate) struct Server(TcpListener);

impl Server {
    pub(crate) fn new() -> Server {
        Server(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn accept(&self) -> TcpStream {
        patient(self.0.accept().unwrap().0)
    }
}

/// A connection to `address` that waits for no answer for ever.
pub(crate) fn connected(address: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(address).unwrap())
}

/// Both ends of a connection through the proxy.
pub(crate) fn server_and_client(proxy: &Proxy, tongue: Tongue) -> (TcpStream, TcpStream) {
    let mut client = connected(proxy.address(tongue));
    if tongue == Tongue::Forward {
        return (proxy.forwarded(), client);
    }
    let listening = Server::new();
    let address = listening.address();
    if tongue == Tongue::Connect {
        client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let mut answer = [0; 39];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 200 Connection established\r\n\r\n");
    } else {
        client.write_all(&[5, 1, 0]).unwrap();
        client.read_exact(&mut [0; 2]).unwrap();
        let port = address.port().to_be_bytes();
        client.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]]).unwrap();
        let mut answer = [0; 10];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..2], [5, 0]);
    }
    (listening.accept(), client)
}

/// All that comes until the end.
pub(crate) fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Ends a connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Bytes without a pattern: a splitmix64 generator's.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(len).collect()
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}
