//! Requests for whole URLs through the proxy, with the real binary on the loopback.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

#[path = "support/operated.rs"]
mod operated;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use operated::{ADMIN, admin, ask, status_when};
use proxied::{Proxy, Server, Tongue, connected, noise, reset, rest_of};

/// A message's head as text, with the empty line.
fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {:?}", head.escape_ascii()));
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn exactly(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn get(server: SocketAddr, path: &str) -> String {
    format!("GET http://{server}{path} HTTP/1.1\r\nHost: {server}\r\n\r\n")
}

/// The rest of a body, in chunks.
fn chunked(stream: &mut TcpStream) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(exactly(stream, 1));
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim_end(), 16).unwrap();
        body.extend(exactly(stream, size));
        assert_eq!(exactly(stream, 2), b"\r\n");
        if size == 0 {
            return body;
        }
    }
}

#[test]
fn requests_follow_each_other_on_the_same_two_connections() {
    let mut proxy = Proxy::start_with("log = \"connections\"", ADMIN);
    let looked_at = admin(&mut proxy);
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    let mut server = None;
    for index in 0..5 {
        client.write_all(get(listening.address(), &format!("/{index}")).as_bytes()).unwrap();
        let server: &mut TcpStream = server.get_or_insert_with(|| listening.accept());
        assert!(head_of(server).starts_with(&format!("GET /{index} HTTP/1.1\r\n")));
        server.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nbody {index}").as_bytes()).unwrap();
        let head = head_of(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.to_lowercase().contains("connection:"), "{head}");
        assert_eq!(exactly(&mut client, 6), format!("body {index}").as_bytes());
        let line = proxy.says("end=answered");
        assert!(
            line.contains(&format!("destination={}", listening.address())) && line.contains("status=200"),
            "{line}"
        );
        // The next request may come before the proxy has put the connection aside.
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let metrics = ask(looked_at, "/metrics").1;
    let value = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(value("headend_proxy_requests_total"), "5");
    assert_eq!(value("headend_proxy_requests_reused_total"), "4");
    assert_eq!(value("headend_proxy_connections_joined_total"), "1");
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let proxy = Proxy::start("");
    let [one, two] = [Server::new(), Server::new()];
    let mut client = connected(proxy.address(Tongue::Connect));
    let both = get(one.address(), "/1") + &get(two.address(), "/2");
    client.write_all(both.as_bytes()).unwrap();
    let mut first = one.accept();
    head_of(&mut first);
    first.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n").unwrap();
    let mut second = two.accept();
    head_of(&mut second);
    second.write_all(b"HTTP/1.1 200 OK\r\n\r\ntwo").unwrap();
    drop(second);
    assert!(head_of(&mut client).contains("hunked"));
    assert_eq!(chunked(&mut client), b"one");
    // An answer that ends with its server's connection does not end the client's.
    assert!(head_of(&mut client).contains("hunked"));
    assert_eq!(chunked(&mut client), b"two");
    client.write_all(get(one.address(), "/3").as_bytes()).unwrap();
    assert!(head_of(&mut first).starts_with("GET /3 "), "the first server's connection was kept");
}

#[test]
fn only_a_request_in_origin_form_and_its_body_reach_the_server() {
    let proxy = Proxy::start("");
    let listening = Server::new();
    let host = listening.address();
    let mut client = connected(proxy.address(Tongue::Connect));
    let request = format!(
        "POST http://{host}/x?y HTTP/1.1\r\nHost: other\r\nContent-Length: 4\r\nProxy-Connection: keep-alive\r\n\
         X-CASE: kept\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n\r\nbody"
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut server = listening.accept();
    let head = head_of(&mut server);
    assert!(head.starts_with("POST /x?y HTTP/1.1\r\n"), "{head}");
    let mut fields: Vec<&str> = head.trim_end().lines().skip(1).collect();
    fields.sort_unstable();
    let via =
        fields.iter().position(|field| field.starts_with("Via: 1.1 headend-")).expect("a proxy says that it was there");
    fields.remove(via);
    assert_eq!(fields, ["Content-Length: 4", &format!("Host: {host}"), "X-CASE: kept"]);
    assert_eq!(exactly(&mut server, 4), b"body");
    server.write_all(b"HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=5\r\n\r\n").unwrap();
    let answer = head_of(&mut client);
    assert!(answer.starts_with("HTTP/1.1 204 No Content\r\nVia: 1.1 headend-"), "{answer}");
    assert!(!answer.contains("Keep-Alive"), "{answer}");
}

#[test]
fn a_request_that_can_be_read_in_two_ways_closes_and_reaches_nobody() {
    let proxy = Proxy::start("");
    let listening = Server::new();
    let host = listening.address();
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Host: other\r\n",
        "X: a\r\n folded: b\r\n",
    ] {
        for is_second in [false, true] {
            let mut client = connected(proxy.address(Tongue::Connect));
            if is_second {
                client.write_all(get(host, "/").as_bytes()).unwrap();
                let mut server = listening.accept();
                head_of(&mut server);
                server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                head_of(&mut client);
            }
            let request = format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n0\r\n\r\nGET /smuggled");
            client.write_all(request.as_bytes()).unwrap();
            // hyper settles the first of them by the rule of RFC 9112 s6.3, which is to close after.
            if is_second && fields.starts_with("Content-Length: 4\r\nT") {
                let mut server = listening.accept();
                let head = head_of(&mut server);
                assert!(!head.to_lowercase().contains("content-length"), "{head}");
                assert_eq!(exactly(&mut server, 5), b"0\r\n\r\n");
                server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                assert!(head_of(&mut client).to_lowercase().contains("connection: close"));
                assert_eq!(rest_of(&mut client), b"");
                assert_eq!(rest_of(&mut server), b"", "nothing more is said to the server");
                continue;
            }
            let answer = String::from_utf8(rest_of(&mut client)).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 501"), "{fields:?}: {answer}");
        }
    }
}

#[test]
fn no_two_clients_share_a_connection_to_a_server() {
    let proxy = Proxy::start("");
    let listening = Server::new();
    let mut servers = Vec::new();
    let mut serve = |client: &mut TcpStream| {
        client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
        let mut server = listening.accept();
        head_of(&mut server);
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        head_of(client);
        servers.push(server);
    };
    serve(&mut connected(proxy.address(Tongue::Connect)));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&proxy.address(Tongue::Connect).into()).unwrap();
    // Would wait for ever at accept() if it had the first one's.
    serve(&mut TcpStream::from(socket));
}

#[test]
fn an_upgraded_connection_is_a_tunnel_both_ways() {
    let mut proxy = Proxy::start_with("log = \"connections\"", "");
    let listening = Server::new();
    let host = listening.address();
    let mut client = connected(proxy.address(Tongue::Connect));
    let ask = format!(
        "GET http://{host}/chat HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: x\r\n\r\nearly"
    );
    client.write_all(ask.as_bytes()).unwrap();
    let mut server = listening.accept();
    let head = head_of(&mut server);
    assert!(head.contains("Connection: Upgrade\r\n") && head.contains("Upgrade: websocket\r\n"), "{head}");
    server
        .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        .unwrap();
    let head = head_of(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Upgrade: websocket\r\n"), "{head}");
    assert_eq!(exactly(&mut client, 5), b"first");
    assert_eq!(exactly(&mut server, 5), b"early");
    let bytes = noise(5, 300_000);
    client.write_all(&bytes).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(rest_of(&mut server) == bytes);
    server.write_all(b"last").unwrap();
    drop(server);
    assert_eq!(rest_of(&mut client), b"last");
    assert!(proxy.says("end=closed").contains(&format!("destination={host}")));
}

#[test]
fn a_tunnel_may_follow_a_request() {
    let proxy = Proxy::start("");
    let [one, two] = [Server::new(), Server::new()];
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(get(one.address(), "/").as_bytes()).unwrap();
    let mut server = one.accept();
    head_of(&mut server);
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    head_of(&mut client);
    let there = two.address();
    client.write_all(format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\nhello").as_bytes()).unwrap();
    let mut tunnelled = two.accept();
    assert!(head_of(&mut client).starts_with("HTTP/1.1 200 "));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest_of(&mut tunnelled), b"hello");
    tunnelled.write_all(b"bye").unwrap();
    drop(tunnelled);
    assert_eq!(rest_of(&mut client), b"bye");
}

#[test]
fn what_is_cut_short_on_one_side_is_reset_on_the_other() {
    let proxy = Proxy::start("");
    let listening = Server::new();
    for answer in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n", ""] {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
        let mut server = listening.accept();
        head_of(&mut server);
        server.write_all(format!("HTTP/1.1 200 OK\r\n{answer}\r\n8\r\npart of it").as_bytes()).unwrap();
        head_of(&mut client);
        exactly(&mut client, 4);
        reset(server);
        let mut rest = Vec::new();
        assert_eq!(client.read_to_end(&mut rest).unwrap_err().kind(), ErrorKind::ConnectionReset, "{answer:?}");
    }
    // Of a request the server is not to believe that it is whole either.
    let mut client = connected(proxy.address(Tongue::Connect));
    let host = listening.address();
    client
        .write_all(format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\npart").as_bytes())
        .unwrap();
    let mut server = listening.accept();
    head_of(&mut server);
    exactly(&mut server, 4);
    reset(client);
    assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_kept_connection_that_its_server_closed_is_replaced_without_a_word() {
    let proxy = Proxy::start("");
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    for _ in 0..3 {
        client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
        let mut server = listening.accept();
        head_of(&mut server);
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert!(head_of(&mut client).starts_with("HTTP/1.1 200 "));
        exactly(&mut client, 2);
    }
    // Closed just when the next request has come: it may be sent again, since it only asks.
    client.write_all(get(listening.address(), "/kept").as_bytes()).unwrap();
    let mut kept = listening.accept();
    head_of(&mut kept);
    kept.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    head_of(&mut client);
    thread::sleep(std::time::Duration::from_millis(50));
    client.write_all(get(listening.address(), "/again").as_bytes()).unwrap();
    assert!(head_of(&mut kept).starts_with("GET /again "));
    drop(kept);
    let mut other = listening.accept();
    assert!(head_of(&mut other).starts_with("GET /again "));
    other.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(head_of(&mut client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_request_that_came_by_before_is_refused_and_a_trace_counted_down() {
    let proxy = Proxy::start("");
    let here = proxy.address(Tongue::Connect);
    let mut client = connected(here);
    let trace = "TRACE http://example.org/x HTTP/1.1\r\nHost: example.org\r\nMax-Forwards: 0\r\nCookie: secret\r\nVia: 1.1 p\r\n\r\n";
    client.write_all(trace.as_bytes()).unwrap();
    let head = head_of(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("message/http"), "{head}");
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let said = String::from_utf8(exactly(&mut client, length.unwrap().parse().unwrap())).unwrap();
    assert!(said.starts_with("TRACE http://example.org/x HTTP/1.1\r\n") && !said.contains("secret"), "{said}");
    let listening = Server::new();
    let host = listening.address();
    client
        .write_all(format!("TRACE http://{host}/ HTTP/1.1\r\nHost: {host}\r\nMax-Forwards: 3\r\n\r\n").as_bytes())
        .unwrap();
    let mut server = listening.accept();
    let head = head_of(&mut server);
    assert!(head.contains("Max-Forwards: 2\r\n"), "{head}");
    let via = head.lines().find(|line| line.starts_with("Via: ")).unwrap().to_owned();
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    head_of(&mut client);
    client.write_all(format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{via}\r\n\r\n").as_bytes()).unwrap();
    assert!(head_of(&mut client).starts_with("HTTP/1.1 508 "));
}

#[test]
fn a_client_that_asks_no_more_is_closed_on_in_time_and_at_a_drain() {
    let mut proxy = Proxy::start("[limits]\nkeep_alive = \"300ms\"\nhandshake = \"300ms\"\n");
    let listening = Server::new();
    let serve = |proxy: &Proxy| {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
        let mut server = listening.accept();
        head_of(&mut server);
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        head_of(&mut client);
        client
    };
    assert_eq!(rest_of(&mut serve(&proxy)), b"");
    let mut slow = serve(&proxy);
    slow.write_all(b"GET http://half").unwrap();
    assert!(rest_of(&mut slow).starts_with(b"HTTP/1.1 408 "));
    proxy.edit(|text| text.replace("300ms", "300s"));
    proxy.signal("HUP");
    proxy.says("read again");
    let mut waiting = serve(&proxy);
    proxy.signal("TERM");
    assert_eq!(rest_of(&mut waiting), b"");
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn rules_that_are_read_again_hold_for_the_next_request() {
    let mut proxy = Proxy::start("");
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
    let mut server = listening.accept();
    head_of(&mut server);
    proxy.edit(|text| text.replace("[destinations]", "[destinations]\ndeny = [\"127.0.0.1\"]"));
    proxy.signal("HUP");
    proxy.says("read again");
    // What is under way goes on, and is the last under the old rules.
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    let answer = String::from_utf8(rest_of(&mut client)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"), "{answer}");
    let mut again = connected(proxy.address(Tongue::Connect));
    again.write_all(get(listening.address(), "/").as_bytes()).unwrap();
    assert!(head_of(&mut again).starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_stalled_reader_of_an_answer_holds_back_its_server_within_bounds() {
    let mut proxy = Proxy::start(ADMIN);
    let looked_at = admin(&mut proxy);
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(get(listening.address(), "/").as_bytes()).unwrap();
    let mut server = listening.accept();
    head_of(&mut server);
    let bytes = noise(7, 40 << 20);
    let sent = bytes.clone();
    let sender = thread::spawn(move || {
        server.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()).as_bytes()).unwrap();
        server.write_all(&sent).unwrap();
    });
    let memory = |status: &serde_json::Value| status["memory"]["bytes"].as_u64().unwrap();
    let held = memory(&status_when(looked_at, "", |status| memory(status) > 0));
    assert!(held <= 512 << 10, "{held} bytes wait for one reader");
    head_of(&mut client);
    assert!(exactly(&mut client, bytes.len()) == bytes);
    sender.join().unwrap();
    status_when(looked_at, "", |status| memory(status) == 0);
}
