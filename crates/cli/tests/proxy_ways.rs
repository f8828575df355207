//! The proxy's ways in and its limits, with the real binary on the loopback.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

#[path = "support/operated.rs"]
mod operated;

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use operated::{ADMIN, admin, status_when};
use proxied::{Proxy, Server, Tongue, connected, noise, rest_of, server_and_client};
use tempfile::TempDir;

#[test]
fn a_proxy_header_names_the_client_and_is_passed_on() {
    for version in ["v1", "v2"] {
        let fields = format!(
            "proxy_protocol = \"accept\"\nproxy_senders = [\"127.0.0.1\"]\nclients = [\"192.0.2.0/24\"]\nsend_proxy = \"{version}\"\n"
        );
        let mut proxy =
            Proxy::start_edited(|text| text.replace("way = \"http\"\n", &format!("way = \"http\"\n{fields}")));
        let listening = Server::new();
        let connect = format!("CONNECT {} HTTP/1.1\r\n\r\nhello", listening.address());
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\n").unwrap();
        client.write_all(connect.as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let got = rest_of(&mut listening.accept());
        // The client of an HTTP proxy means the server: that is what it would be connected to without one.
        assert_eq!(got, [told(version, [127, 0, 0, 1], listening.address().port()), b"hello".to_vec()].concat());
        // Another client than those listed, whoever speaks for it; and one that speaks for nobody.
        let mut stranger = connected(proxy.address(Tongue::Connect));
        stranger.write_all(b"PROXY TCP4 198.51.100.7 192.0.2.1 5555 80\r\n").unwrap();
        stranger.write_all(connect.as_bytes()).unwrap();
        assert!(rest_of(&mut stranger).starts_with(b"HTTP/1.1 403 "));
        let mut plain = connected(proxy.address(Tongue::Connect));
        plain.write_all(connect.as_bytes()).unwrap();
        assert_eq!(plain.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        proxy.signal("TERM");
        assert_eq!(proxy.wait(), Some(0));
    }
}

/// The header of a connection from 192.0.2.7, port 5555.
fn told(version: &str, to: [u8; 4], port: u16) -> Vec<u8> {
    let [a, b, c, d] = to;
    match version {
        "v1" => format!("PROXY TCP4 192.0.2.7 {a}.{b}.{c}.{d} 5555 {port}\r\n").into_bytes(),
        _ => {
            let ends = [[192, 0, 2, 7], to].concat();
            let ports = [5_555_u16.to_be_bytes(), port.to_be_bytes()].concat();
            [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &ends, &ports].concat()
        }
    }
}

#[test]
fn the_address_in_a_proxy_header_is_passed_on_where_the_client_is_mute() {
    let fields = "proxy_protocol = \"accept\"\nproxy_senders = [\"127.0.0.1\"]\nclients = [\"192.0.2.0/24\"]\n";
    let proxy = Proxy::start_edited(|text| {
        text.replace("way = \"forward\"\n", &format!("way = \"forward\"\n{fields}send_proxy = \"v1\"\n"))
    });
    let mut client = connected(proxy.address(Tongue::Forward));
    client.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.1 5555 80\r\nhello").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest_of(&mut proxy.forwarded()), [told("v1", [192, 0, 2, 1], 80), b"hello".to_vec()].concat());
}

#[test]
fn the_address_of_a_denied_name_is_for_the_log_and_not_the_client() {
    let mut proxy = Proxy::start_edited(|text| {
        format!("log = \"connections\"\n{}", text.replace("allow = [\"127.0.0.0/8\", \"::1\"]", ""))
    });
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(b"CONNECT localhost:7 HTTP/1.1\r\n\r\n").unwrap();
    let answer = String::from_utf8(rest_of(&mut client)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("localhost:7 is not allowed"), "{answer}");
    assert!(!answer.contains("127.0.0.1") && !answer.contains("::1") && !answer.contains("loopback"), "{answer}");
    let line = proxy.says("localhost:7");
    assert!(line.contains("is not allowed: it is a loopback address"), "{line}");
    assert!(line.contains("127.0.0.1") || line.contains("[::1]"), "{line}");
}

#[test]
fn heads_of_requests_take_memory_of_all_and_wait_when_there_is_none() {
    let limits = "[limits]\nmemory = \"64KiB\"\nmemory_per_connection = \"64KiB\"\nhandshake = \"3s\"\n";
    let mut proxy = Proxy::start(&format!("{ADMIN}{limits}"));
    let address = admin(&mut proxy);
    // Heads without an end: sixteen kilobytes each are more than there is for all of them.
    let mut greedy: Vec<_> = (0..40).map(|_| connected(proxy.address(Tongue::Connect))).collect();
    for one in &mut greedy {
        one.write_all(b"CONNECT example.org:443 HTTP/1.1\r\nA: ").unwrap();
        one.write_all(&[b'a'; 16_000]).unwrap();
    }
    let memory = |status: &serde_json::Value| status["memory"]["bytes"].as_u64().unwrap();
    let held = memory(&status_when(address, "", |status| memory(status) > 48 << 10));
    assert!(held <= 64 << 10, "{held} bytes are more than all may take");
    // A request of the usual length waits for nothing.
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    server.write_all(b"welcome").unwrap();
    drop(server);
    assert_eq!(rest_of(&mut client), b"welcome");
    for one in &mut greedy {
        // With what it has sent unread the connection may be reset before it hears why.
        let mut answer = Vec::new();
        let _ = one.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    drop(greedy);
    status_when(address, "", |status| memory(status) == 0);
}

#[test]
fn short_of_kernel_memory_buffers_are_small_and_every_byte_arrives() {
    let mut proxy = Proxy::start(&format!("{ADMIN}[limits]\nsocket_memory = \"1B\"\n"));
    let address = admin(&mut proxy);
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    // Somebody who takes nothing: whatever waits for it is more than that.
    let (mut full, _stalled) = server_and_client(&proxy, Tongue::Connect);
    full.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(full.write_all(&vec![7; 256 << 20]).is_err(), "nobody reads it");
    proxy.says("the proxy's socket buffers are cut, now to 16384 bytes each");
    let cut = status_when(address, "", |status| status["sockets"]["buffer_limit_bytes"] == 16_384);
    assert_eq!(cut["sockets"]["limit_bytes"], 1);
    for tongue in [Tongue::Connect, Tongue::Forward] {
        let bytes = noise(7, 3_000_000);
        let sent = bytes.clone();
        let sender = thread::spawn(move || server.write_all(&sent).map(|()| drop(server)));
        assert!(rest_of(&mut client) == bytes, "{tongue:?}");
        sender.join().unwrap().unwrap();
        (server, client) = server_and_client(&proxy, Tongue::Forward);
    }
    proxy.edit(|text| text.replace("\"1B\"", "\"1TB\""));
    proxy.signal("HUP");
    proxy.says("TCP has enough of the kernel's memory again");
    status_when(address, "", |status| status["sockets"]["buffer_limit_bytes"] == 0);
    drop((server, client));
}

#[test]
fn buffers_that_may_take_too_much_memory_are_warned_of_at_the_start() {
    let mut proxy = Proxy::start("[local]\nsend_buffer = \"1MB\"\n[limits]\nsocket_memory = \"100MB\"\n");
    proxy.says("may take 16384000000 bytes of the kernel's memory, and socket_memory is 100000000");
}

#[test]
fn with_users_nobody_is_served_who_does_not_say_who_it_is() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("users");
    let mut hashing = Command::new(env!("CARGO_BIN_EXE_headend"));
    let mut hashing =
        hashing.args(["proxy", "password", "ann"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    hashing.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let line = hashing.wait_with_output().unwrap().stdout;
    assert!(line.starts_with(b"ann:$argon2id$") && !line.windows(6).any(|part| part == b"secret"));
    fs::write(&path, line).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let users = format!("users = {path:?}\n");
    let mut proxy = Proxy::start_edited(|text| {
        format!("log = \"connections\"\n{text}")
            .replace("way = \"http\"\n", &format!("way = \"http\"\n{users}"))
            .replace("way = \"socks5\"\n", &format!("way = \"socks5\"\n{users}"))
    });
    let listening = Server::new();
    let to = listening.address();
    for (field, status) in [
        ("", "407 "),
        ("Proxy-Authorization: Basic YW5uOndyb25n\r\n", "407 "),
        ("Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n", "200 "),
    ] {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(format!("CONNECT {to} HTTP/1.1\r\n{field}\r\n").as_bytes()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        if status == "200 " {
            drop(listening.accept());
        }
        let answer = String::from_utf8(rest_of(&mut client)).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{field}: {answer}");
        drop(client);
        let line = proxy.says("way=http");
        assert_eq!(line.contains(" user=ann "), !field.is_empty(), "{line}");
        assert_eq!(line.contains("end=refused"), status == "407 ", "{line}");
    }
    let mut client = connected(proxy.address(Tongue::Socks5));
    client.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(rest_of(&mut client), [5, 0xff]);
    for (password, code) in [("secret", 0), ("wrong", 1)] {
        let mut client = connected(proxy.address(Tongue::Socks5));
        client.write_all(&[5, 1, 2]).unwrap();
        let length = [password.len() as u8];
        client.write_all(&[&[1, 3], b"ann".as_slice(), &length, password.as_bytes()].concat()).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [5, 2, 1, code]);
    }
}

#[test]
fn with_a_store_no_sender_waits_for_a_reader_and_all_of_it_arrives() {
    let spool = TempDir::new().unwrap();
    fs::set_permissions(spool.path(), Permissions::from_mode(0o777)).unwrap();
    let tables = format!("[spool]\nfolder = {:?}\nquota = \"200MB\"\n[limits]\nmemory = \"4MB\"\n", spool.path());
    let proxy = Proxy::start_with("relay = \"store\"", &tables);
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    let bytes = noise(5, 60_000_000);
    // Far beyond what sockets take; nobody reads.
    server.write_all(&bytes).unwrap();
    drop(server);
    assert!(rest_of(&mut client) == bytes);
    assert_eq!(spool.path().read_dir().unwrap().count(), 0, "files have no names");
}

#[test]
fn a_store_that_is_full_holds_back_the_sender_and_loses_nothing() {
    let spool = TempDir::new().unwrap();
    fs::set_permissions(spool.path(), Permissions::from_mode(0o777)).unwrap();
    let tables = format!("[spool]\nfolder = {:?}\nquota = \"1MB\"\n", spool.path());
    let proxy = Proxy::start_with("relay = \"store\"", &tables);
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    let bytes = noise(6, 60_000_000);
    let sent = bytes.clone();
    let sender = thread::spawn(move || server.write_all(&sent).unwrap());
    assert!(rest_of(&mut client) == bytes);
    sender.join().unwrap();
}

#[test]
fn whoever_says_nothing_is_sent_away_in_time() {
    let proxy = Proxy::start("[limits]\nhandshake = \"200ms\"\n");
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(b"CONNECT example.org:443 HTT").unwrap();
    assert!(rest_of(&mut client).starts_with(b"HTTP/1.1 408 "));
    let mut client = connected(proxy.address(Tongue::Socks5));
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn connections_on_which_nothing_moves_are_reset_in_time() {
    let proxy = Proxy::start("[limits]\nidle = \"200ms\"\n");
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_client_has_so_many_connections_and_no_more() {
    let proxy = Proxy::start("[limits]\nconnections_per_client = 2\n");
    let first = server_and_client(&proxy, Tongue::Connect);
    let _second = server_and_client(&proxy, Tongue::Socks5);
    let mut third = connected(proxy.address(Tongue::Connect));
    let answer = String::from_utf8(rest_of(&mut third)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("as many connections as it may"), "{answer}");
    drop(first);
    // The end of the first is heard of in a moment.
    let again = (0..1_000).any(|_| {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").unwrap();
        rest_of(&mut client).starts_with(b"HTTP/1.1 502 ")
    });
    assert!(again, "a place that comes free is given again");
}

#[test]
fn beyond_all_connections_others_wait_for_one_to_end() {
    let proxy = Proxy::start("[limits]\nconnections = 2\n");
    let first = server_and_client(&proxy, Tongue::Connect);
    let _second = server_and_client(&proxy, Tongue::Connect);
    let mut third = connected(proxy.address(Tongue::Connect));
    third.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").unwrap();
    third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert_eq!(third.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(first);
    third.set_read_timeout(Some(proxied::PATIENCE)).unwrap();
    assert!(rest_of(&mut third).starts_with(b"HTTP/1.1 502 "));
}

#[test]
fn who_finds_no_place_hears_so_and_what_is_idle_makes_room() {
    let limits = "[limits]\nconnections = 4\nconnections_per_client = 4\n";
    let mut proxy = Proxy::start(&format!("{ADMIN}{limits}"));
    let address = admin(&mut proxy);
    let mut open: Vec<_> = (0..4).map(|_| server_and_client(&proxy, Tongue::Connect)).collect();
    // Nothing is idle for long enough: after some patience each hears why in its own tongue.
    let mut refused = [connected(proxy.address(Tongue::Connect)), connected(proxy.address(Tongue::Socks5))];
    assert!(rest_of(&mut refused[0]).starts_with(b"HTTP/1.1 503 "));
    let reply = rest_of(&mut refused[1]);
    assert_eq!(reply[..4], [5, 0, 5, 1], "no method is asked for, and a general failure: {reply:?}");
    proxy.says("all 4 places are taken");
    // By now the others are idle for long enough, but for one on which something moves.
    thread::sleep(Duration::from_secs(6));
    let (server, client) = &mut open[0];
    client.write_all(b"busy").unwrap();
    server.read_exact(&mut [0; 4]).unwrap();
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    server.write_all(b"welcome").unwrap();
    drop(server);
    assert_eq!(rest_of(&mut client), b"welcome");
    assert_eq!(open[1].1.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "the oldest idle one");
    open[0].1.write_all(b"as ever").unwrap();
    open[0].0.read_exact(&mut [0; 7]).unwrap();
    let metrics = operated::ask(address, "/metrics").1;
    assert!(metrics.contains("connections_over_limit_total 2\n"), "{metrics}");
    assert!(metrics.contains("connections_evicted_total 1\n"), "{metrics}");
}

#[test]
fn one_client_leaves_places_to_others() {
    let proxy = Proxy::start("[limits]\nconnections = 100\n");
    let mut greedy: Vec<_> = (0..100).map(|_| connected(proxy.address(Tongue::Connect))).collect();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&proxy.address(Tongue::Connect).into()).unwrap();
    let mut other = std::net::TcpStream::from(socket);
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    other.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"HTTP/1.1 400", "served, and not refused as the others are");
    assert!(rest_of(&mut greedy[99]).starts_with(b"HTTP/1.1 503 "));
}

#[test]
fn half_closed_connections_have_a_time_of_their_own() {
    let proxy = Proxy::start("[limits]\nhalf_closed = \"500ms\"\n");
    let (_server, mut whole) = server_and_client(&proxy, Tongue::Connect);
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(rest_of(&mut server), b"");
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    whole.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert_eq!(whole.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "what is whole stays");
}

#[test]
fn a_name_with_two_addresses_is_reached_at_the_one_that_answers() {
    // `localhost` is both ::1 and 127.0.0.1 where the machine has it so; a server on either is found.
    let proxy = Proxy::start("");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listening) = TcpListener::bind(address) else { continue };
        let names = format!("localhost:{}", listening.local_addr().unwrap().port());
        if std::net::TcpStream::connect(&names).is_err() {
            continue;
        }
        drop(listening.accept());
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(format!("CONNECT {names} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        drop(listening.accept().unwrap());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(rest_of(&mut client).starts_with(b"HTTP/1.1 200 "), "{address}");
    }
}
