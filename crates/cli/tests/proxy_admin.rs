//! The proxy's page, status and metrics, asked for over HTTP.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

#[path = "support/operated.rs"]
mod operated;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;

use operated::{ADMIN, admin, ask, ask_as, status, status_when};
use proxied::{Proxy, Tongue, connected, rest_of, server_and_client};
use serde_json::Value;

#[test]
fn the_status_tells_each_connection_s_bytes_and_the_state_of_its_tcp() {
    let mut proxy = Proxy::start(&format!("{ADMIN}[local]\npersonality = \"hfc-local\"\n"));
    let address = admin(&mut proxy);
    let before = status(address, "");
    assert_eq!((before["connections"]["open"].as_u64(), before["state"].as_str()), (Some(0), Some("serving")));
    assert_eq!(before["local"]["personality"], "hfc-local");
    assert!(before["local"]["options"].as_array().unwrap().iter().any(|option| option["option"] == "rto_min"));

    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    client.write_all(&[1; 1_000]).unwrap();
    server.read_exact(&mut [0; 1_000]).unwrap();
    server.write_all(&[2; 50_000]).unwrap();
    client.read_exact(&mut vec![0; 50_000]).unwrap();

    // Beyond what the server sent, the client got the answer to its request.
    let answer = "HTTP/1.1 200 Connection established\r\n\r\n".len() as u64;
    // What has left may be counted a moment later than what has come.
    let status = status_when(address, "", |status| {
        status["remote"]["read_bytes"] == 50_000 && status["busiest"][0]["local"]["written_bytes"] == 50_000 + answer
    });
    assert_eq!(status["connections"]["joined"], 1);
    let [connection] = &status["busiest"].as_array().unwrap()[..] else { panic!("one is open: {status:#}") };
    assert_eq!(connection["client"], client.local_addr().unwrap().to_string());
    assert_eq!(connection["server"], server.local_addr().unwrap().to_string());
    let (local, remote) = (&connection["local"], &connection["remote"]);
    assert_eq!((local["read_bytes"].as_u64(), remote["written_bytes"].as_u64()), (Some(1_000), Some(1_000)));
    assert_eq!(remote["read_bytes"], 50_000);
    assert!(local["tcp"]["cwnd_bytes"].as_u64().unwrap() > 1_000, "{connection:#}");
    assert!(local["tcp"]["segments"].as_u64().unwrap() >= 2, "{connection:#}");
    assert!(local["tcp"]["rtt_s"].as_f64().unwrap() > 0.0, "{connection:#}");

    assert_eq!(listed(address, 0), 0, "no more are listed than asked for");
    drop((server, client));
    status_when(address, "", |status| status["connections"]["open"] == 0 && status["busiest"] == Value::Array(vec![]));
}

fn listed(address: SocketAddr, count: usize) -> usize {
    status(address, &format!("connections={count}"))["busiest"].as_array().unwrap().len()
}

#[test]
fn samples_are_numbered_and_those_that_one_has_are_not_sent_again() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let first = status_when(address, "samples=all", |status| status["samples"][1].is_object());
    let number = |sample: &Value| sample["number"].as_u64().unwrap();
    let last = number(first["samples"].as_array().unwrap().last().unwrap());
    let next = status_when(address, &format!("samples={last}"), |status| status["samples"][0].is_object());
    assert_eq!(number(&next["samples"][0]), last + 1);
}

#[test]
fn metrics_count_what_was_done_also_of_connections_that_have_ended() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let value = |name: &str| -> f64 {
        let (_, text) = ask(address, "/metrics");
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Forward);
    server.write_all(&[2; 100_000]).unwrap();
    drop(server);
    assert_eq!(rest_of(&mut client).len(), 100_000);
    drop(client);
    status_when(address, "", |status| status["connections"]["open"] == 0);
    assert_eq!(value("headend_proxy_connections_accepted_total"), 1.0);
    assert_eq!(value("headend_proxy_connections_joined_total"), 1.0);
    assert_eq!(value("headend_proxy_connections_failed_total"), 0.0);
    assert_eq!(value("headend_proxy_read_bytes_total{side=\"remote\"}"), 100_000.0);
    assert_eq!(value("headend_proxy_written_bytes_total{side=\"local\"}"), 100_000.0);
    assert_eq!(value("headend_proxy_memory_bytes"), 0.0);
    assert!(value("headend_proxy_tcp_segments_total{side=\"local\"}") >= 2.0, "it is ended, and counted");
    assert!(value("process_open_fds") > 3.0);
}

/// The names of samples, and the metrics that their text tells the type of.
fn names_and_types(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let names = samples.filter_map(|line| line.split([' ', '{']).next()).collect();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    (names, types)
}

#[test]
fn metrics_are_prometheus_text_unless_openmetrics_is_asked_for() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let (head, plain) = ask(address, "/metrics");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let (names, types) = names_and_types(&plain);
    let unsaid: Vec<_> = names.symmetric_difference(&types).collect();
    // Without a connection there are no round trips.
    assert_eq!(
        unsaid,
        [&"headend_proxy_tcp_rtt_seconds"],
        "in this text a metric is called what its samples are called"
    );
    assert!(!plain.contains("# EOF") && !plain.contains("# UNIT"), "{plain}");
    let mut stream = connected(address);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n")
        .unwrap();
    let answer = String::from_utf8(rest_of(&mut stream)).unwrap();
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer}");
    assert!(answer.ends_with("# EOF\n") && answer.contains("# UNIT "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(names_and_types(body).0, names, "both have the same samples");
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let (_, text) = ask(address, "/metrics");
    let (names, types) = names_and_types(&text);
    let known = |name: &str| names.contains(name) || types.contains(name);
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for file in
        ["prometheus/headend-proxy.rules.yml", "prometheus/headend-proxy.test.yml", "grafana/headend-proxy.json"]
    {
        let text = std::fs::read_to_string(packaging.join(file)).unwrap();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let asked: Vec<&str> =
            words.filter(|word| word.starts_with("headend_proxy_") || word.starts_with("process_")).collect();
        assert!(asked.len() >= 6, "{file} asks for {asked:?}");
        for name in asked {
            assert!(known(name), "{file}: there is no {name}");
        }
    }
}

#[test]
fn those_who_ask_wrongly_or_under_another_name_learn_nothing_but_why() {
    let mut proxy = Proxy::start(&format!("{ADMIN}names = [\"proxy.example.net\"]\n"));
    let address = admin(&mut proxy);
    for (method, path, host, expected) in [
        ("GET", "/", "127.0.0.1", "200"),
        ("HEAD", "/", "127.0.0.1", "200"),
        ("GET", "/status", "proxy.example.net", "200"),
        ("GET", "/status", "evil.example", "403"),
        ("GET", "/", "evil.example", "403"),
        ("GET", "/healthz", "evil.example", "403"),
        ("GET", "/metrics", "evil.example", "403"),
        ("GET", "/metrics", "proxy.example.net", "200"),
        ("POST", "/status", "127.0.0.1", "405"),
        ("GET", "/none", "127.0.0.1", "404"),
        ("GET", "/status?connections=-1", "127.0.0.1", "400"),
    ] {
        let (head, body) = ask_as(address, method, path, host);
        assert!(head.starts_with(&format!("HTTP/1.1 {expected} ")), "{method} {path} as {host}: {head}\n{body}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    }
}

/// More than look at a time: without places of their own they have all, and those behind them wait for their time-outs.
const STRANGERS: usize = 150;

#[test]
fn strangers_who_say_nothing_keep_nobody_from_looking() {
    let mut proxy = Proxy::start(&format!("{ADMIN}clients = [\"127.0.0.2\"]\n"));
    let address = admin(&mut proxy);
    let (head, body) = ask(address, "/healthz");
    assert!(head.starts_with("HTTP/1.1 403 "), "a stranger hears why: {head}\n{body}");
    let strangers: Vec<_> = (0..STRANGERS).map(|_| connected(address)).collect();
    let visitor = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    visitor.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    visitor.connect(&address.into()).unwrap();
    let mut visitor = std::net::TcpStream::from(visitor);
    visitor.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    let answer = String::from_utf8(rest_of(&mut visitor)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The time of who came first was not over by then: the visitor did not wait for that.
    let mut first = &strangers[0];
    first.set_nonblocking(true).unwrap();
    assert!(first.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn a_client_of_the_proxy_cannot_reach_its_admin_server() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let answer = String::from_utf8(rest_of(&mut client)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("this proxy itself"), "{answer}");
}

#[test]
fn a_proxy_that_drains_says_so_until_it_ends() {
    let mut proxy = Proxy::start(ADMIN);
    let address = admin(&mut proxy);
    let (server, client) = server_and_client(&proxy, Tongue::Connect);
    proxy.signal("TERM");
    status_when(address, "", |status| status["state"] == "draining" && status["takes_connections"] == false);
    let (head, body) = ask(address, "/healthz");
    assert!(head.starts_with("HTTP/1.1 503 ") && body == "draining\n", "{head}\n{body}");
    drop((server, client));
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn beyond_the_loopback_those_who_may_look_must_be_listed() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("proxy.toml");
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\nway = \"http\"\n[admin]\nlisten = \"0.0.0.0:0\"\n";
    std::fs::write(&path, listen).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_headend")).args(["proxy", "--check", "--config"]).arg(&path).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("admin.clients: missing"), "{said}");
}
