//! Our proxy under `headend conform`, a short run; `make conform` is the long one, with the transparent way and other proxies.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A proxy that ends at once when it is dropped.
struct Proxy {
    process: Child,
    address: SocketAddr,
}

impl Proxy {
    fn start(arguments: &[&str]) -> Proxy {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        command.args(["proxy", "--listen", "127.0.0.1:0", "--allow", "127.0.0.0/8"]).args(arguments);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut lines = BufReader::new(process.stderr.take().expect("it was asked for")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split_whitespace().find_map(|word| word.parse().ok()));
        let address = address.expect("the proxy says where it listens");
        // What else it says must have somewhere to go.
        thread::spawn(move || lines.for_each(drop));
        Proxy { process, address }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn conform(proxy: &Proxy, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    command.args(["conform", &proxy.address.to_string(), "--schedules", "270", "--time-limit", "2min"]).args(arguments);
    let output = command.output().expect("the binary runs");
    let (matrix, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{matrix}\n{error}");
}

#[test]
fn our_http_proxy_is_as_good_as_a_wire() {
    conform(&Proxy::start(&["--way", "http"]), &["--way", "http"]);
}

#[test]
fn our_proxy_for_urls_is_as_good_as_a_wire() {
    conform(&Proxy::start(&["--way", "http"]), &["--way", "absolute"]);
}

#[test]
fn our_socks_proxy_is_as_good_as_a_wire() {
    conform(&Proxy::start(&["--way", "socks5"]), &["--way", "socks5"]);
}

#[test]
fn our_forwarding_proxy_is_as_good_as_a_wire() {
    // A port for the server: free again at once, and bound by the tool.
    let server = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    conform(&Proxy::start(&["--way", "forward", "--to", &server]), &["--way", "forward", "--origin-address", &server]);
}
