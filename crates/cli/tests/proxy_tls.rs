//! Clients that speak TLS to the proxy, with the real binary on the loopback and rustls as the client.
//!
//! The certificates in `support/tls` are the tests' own, and last a hundred years.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proxied::{Proxy, Server, Tongue, connected, noise, rest_of};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

type Client = StreamOwned<ClientConnection, TcpStream>;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/tls");

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(format!("{FILES}/{name}.pem")).unwrap()
}

/// Puts a certificate of the tests where the proxy reads it.
fn put(name: &str, folder: &Path) {
    for ending in ["pem", "key"] {
        let to = folder.join(format!("proxy.{ending}"));
        fs::copy(format!("{FILES}/{name}.{ending}"), &to).unwrap();
        fs::set_permissions(&to, Permissions::from_mode(if ending == "key" { 0o640 } else { 0o644 })).unwrap();
    }
}

/// A proxy whose way in for HTTP takes TLS, and the folder of its certificate.
fn proxy() -> (Proxy, TempDir) {
    proxy_with("")
}

/// The same, with these limits and what follows them.
fn proxy_with(tables: &str) -> (Proxy, TempDir) {
    let folder = TempDir::new().unwrap();
    put("first", folder.path());
    let path = folder.path().display().to_string();
    let proxy = Proxy::start_edited(|text| {
        let tls = format!("way = \"http\"\ncertificate = \"{path}/proxy.pem\"\nkey = \"{path}/proxy.key\"\n");
        // Four descriptors each, of however few the machine grants; and files that are root's alone, to be read again.
        let few = text.replace("[destinations]", "[LIMITS]\n[destinations]");
        let few = few.replace("[LIMITS]", &format!("[limits]\nconnections = 64\n{tables}"));
        format!("user = \"root\"\n{}", few.replace("way = \"http\"\n", &tls))
    });
    (proxy, folder)
}

fn client(proxy: &Proxy) -> Client {
    let mut roots = RootCertStore::empty();
    ["first", "second"].into_iter().for_each(|name| roots.add(certificate(name)).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("proxy.test").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), connected(proxy.address(Tongue::Connect)))
}

/// Both ends of a tunnel whose client's half is inside TLS.
fn server_and_client(proxy: &Proxy) -> (TcpStream, Client) {
    let (listening, mut client) = (Server::new(), client(proxy));
    let address = listening.address();
    client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; 39];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 200 Connection established\r\n\r\n");
    (listening.accept(), client)
}

#[test]
fn bytes_and_ends_cross_from_tls_to_the_server_and_back() {
    let (proxy, _folder) = proxy();
    let (mut server, mut client) = server_and_client(&proxy);
    let serving = thread::spawn(move || {
        let got = rest_of(&mut server);
        server.write_all(&noise(2, 1 << 20)).unwrap();
        got
    });
    client.write_all(&noise(1, 1 << 20)).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    let mut back = Vec::new();
    client.read_to_end(&mut back).expect("an end that TLS announces");
    assert!(serving.join().unwrap() == noise(1, 1 << 20) && back == noise(2, 1 << 20), "every byte, either way");
}

#[test]
fn a_connection_that_is_cut_without_a_word_of_tls_is_a_reset() {
    let (proxy, _folder) = proxy();
    let (mut server, client) = server_and_client(&proxy);
    drop(client.sock);
    assert_eq!(server.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let (server, mut client) = server_and_client(&proxy);
    proxied::reset(server);
    let end = client.read(&mut [0; 1]).unwrap_err().kind();
    assert!(matches!(end, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof), "{end:?}");
}

#[test]
fn a_client_that_reads_nothing_is_reset_and_its_sockets_are_gone() {
    let (proxy, _folder) = proxy_with("half_closed = \"500ms\"\n[local]\nsend_buffer = \"8KB\"\n");
    let sockets = || {
        let all = fs::read_dir(format!("/proc/{}/fd", proxy.process_id())).expect("it runs");
        let links = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let (listening, mut client) = (Server::new(), client(&proxy));
    socket2::SockRef::from(&client.sock).set_recv_buffer_size(4_096).unwrap();
    let address = listening.address();
    client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    client.read_exact(&mut [0; 39]).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    let mut server = listening.accept();
    server.write_all(&noise(1, 100_000)).unwrap();
    drop(server);
    let end = Instant::now() + proxied::PATIENCE;
    while sockets() > before {
        assert!(Instant::now() < end, "its sockets stay: {} and {before}", sockets());
        thread::sleep(Duration::from_millis(20));
    }
    drop(client);
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload() {
    let (mut proxy, folder) = proxy();
    let shown = |proxy: &Proxy| {
        let (_server, client) = server_and_client(proxy);
        client.conn.peer_certificates().unwrap()[0].clone()
    };
    assert_eq!(shown(&proxy), certificate("first"));
    put("second", folder.path());
    assert_eq!(shown(&proxy), certificate("first"), "nobody has read it yet");
    proxy.signal("HUP");
    proxy.says("read again");
    assert_eq!(shown(&proxy), certificate("second"));
    fs::write(folder.path().join("proxy.pem"), "no certificate").unwrap();
    proxy.signal("HUP");
    proxy.says("no certificate in it");
    assert_eq!(shown(&proxy), certificate("second"), "a mistake changes nothing");
}

#[test]
fn who_speaks_no_tls_is_not_served_and_harms_nobody() {
    let (proxy, _folder) = proxy();
    for said in [&b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff, 1], &noise(9, 70_000)] {
        let mut stream = connected(proxy.address(Tongue::Connect));
        // It may be reset before all is said.
        let _ = stream.write_all(said);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "{:?}", answer.escape_ascii());
    }
    let (mut server, mut client) = server_and_client(&proxy);
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0; 1]).unwrap();
}
