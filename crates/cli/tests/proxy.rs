//! The proxy as clients and servers meet it: the real binary between real sockets on the loopback.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;

use proxied::{Proxy, Server, Tongue, connected, noise, reset, rest_of, server_and_client};

const TONGUES: [Tongue; 3] = [Tongue::Connect, Tongue::Socks5, Tongue::Forward];

#[test]
fn every_byte_arrives_once_and_in_order_both_ways_in_each_way_in() {
    let proxy = Proxy::start("");
    for tongue in TONGUES {
        let (mut server, mut client) = server_and_client(&proxy, tongue);
        let (up, down) = (noise(1, 3_000_000), noise(2, 5_000_000));
        let (sent_up, sent_down) = (up.clone(), down.clone());
        let mut writing = client.try_clone().unwrap();
        let uploader = thread::spawn(move || {
            writing.write_all(&sent_up).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        let answering = thread::spawn(move || {
            let mut writing = server.try_clone().unwrap();
            let downloader = thread::spawn(move || writing.write_all(&sent_down).unwrap());
            let got = rest_of(&mut server);
            downloader.join().unwrap();
            got
        });
        let got = rest_of(&mut client);
        uploader.join().unwrap();
        assert!(got == down, "{tongue:?}: what the server sent is what the client got");
        assert!(answering.join().unwrap() == up, "{tongue:?}: what the client sent is what the server got");
    }
}

#[test]
fn a_half_close_goes_across_and_the_answer_still_comes() {
    let proxy = Proxy::start("");
    for tongue in TONGUES {
        let (mut server, mut client) = server_and_client(&proxy, tongue);
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest_of(&mut server), b"question", "{tongue:?}");
        server.write_all(b"answer").unwrap();
        drop(server);
        assert_eq!(rest_of(&mut client), b"answer", "{tongue:?}");
    }
}

#[test]
fn a_server_may_speak_first_and_close_first() {
    let proxy = Proxy::start("");
    for tongue in TONGUES {
        let (mut server, mut client) = server_and_client(&proxy, tongue);
        server.write_all(b"220 ready").unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest_of(&mut client), b"220 ready", "{tongue:?}");
        client.write_all(b"thanks").unwrap();
        drop(client);
        assert_eq!(rest_of(&mut server), b"thanks", "{tongue:?}");
    }
}

#[test]
fn an_urgent_byte_crosses_in_its_place_and_holds_up_nothing() {
    let proxy = Proxy::start("");
    for tongue in TONGUES {
        let (mut server, client) = server_and_client(&proxy, tongue);
        let (upstream, downstream) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        for (from, mut to) in [(&client, &upstream), (&server, &downstream)] {
            let mut expected = Vec::new();
            for round in 0..20 {
                // In one write the kernel makes the last byte the urgent one, and what follows comes in the same turn.
                let socket = socket2::SockRef::from(from);
                assert_eq!(socket.send_out_of_band(b"before!").unwrap(), 7);
                assert_eq!(socket.send(format!("after {round:2}").as_bytes()).unwrap(), 8);
                expected.extend_from_slice(format!("before!after {round:2}").as_bytes());
                let mut got = vec![0; 15];
                to.read_exact(&mut got).unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&got),
                    String::from_utf8_lossy(&expected[round * 15..]),
                    "{tongue:?}"
                );
            }
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert!(rest_of(&mut server).is_empty());
    }
}

#[test]
fn a_reset_on_either_side_resets_the_other() {
    let proxy = Proxy::start("");
    for tongue in TONGUES {
        let (server, mut client) = server_and_client(&proxy, tongue);
        reset(server);
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{tongue:?}");
        let (mut server, client) = server_and_client(&proxy, tongue);
        reset(client);
        assert_eq!(server.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{tongue:?}");
    }
}

#[test]
fn a_reset_is_heard_while_the_other_side_takes_nothing() {
    let proxy = Proxy::start("");
    let (mut server, client) = server_and_client(&proxy, Tongue::Connect);
    // Until nothing moves any more: all buffers on the way are full.
    server.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let chunk = vec![7; 1 << 20];
    let full = server.write_all(&chunk.repeat(64)).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::WouldBlock, "64 MB fit into no buffers");
    reset(server);
    let mut client = client;
    let mut bytes = vec![0; 1 << 16];
    let end = loop {
        match client.read(&mut bytes) {
            Ok(0) => panic!("half of something must not look whole"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_slow_reader_holds_back_its_own_sender_and_nobody_else() {
    let proxy = Proxy::start("[limits]\nmemory_per_connection = \"64KiB\"\nmemory = \"128KiB\"\n");
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let (mut server, client) = server_and_client(&proxy, Tongue::Connect);
        server.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        let bytes = noise(3, 1 << 20);
        let mut sent = 0_u64;
        while let Ok(len) = server.write(&bytes[(sent % (1 << 20)) as usize..]) {
            sent += len as u64;
            assert!(sent < 64 << 20, "somebody takes in what nobody reads");
        }
        stalled.push((server, client, sent));
    }
    // With all memory taken, another connection goes on as ever ...
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    let down = noise(4, 4_000_000);
    let sent = down.clone();
    let sender = thread::spawn(move || server.write_all(&sent).map(|()| drop(server)));
    assert!(rest_of(&mut client) == down);
    sender.join().unwrap().unwrap();
    // ... and what was stalled is all there.
    for (server, mut client, sent) in stalled {
        drop(server);
        let got = rest_of(&mut client);
        assert_eq!(got.len() as u64, sent);
        let bytes = noise(3, 1 << 20);
        assert!(got.chunks(1 << 20).all(|chunk| *chunk == bytes[..chunk.len()]));
    }
}

#[test]
fn bytes_that_come_with_the_request_go_on_to_the_server() {
    let mut proxy = Proxy::start_with("log = \"connections\"", "");
    let listening = Server::new();
    let mut client = TcpStream::connect(proxy.address(Tongue::Connect)).unwrap();
    let request = format!("CONNECT {} HTTP/1.1\r\n\r\nearly", listening.address());
    client.write_all(request.as_bytes()).unwrap();
    // Closed before the server is reached, and heard after.
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = listening.accept();
    assert_eq!(rest_of(&mut server), b"early");
    server.write_all(b"late").unwrap();
    drop(server);
    assert_eq!(rest_of(&mut client), b"HTTP/1.1 200 Connection established\r\n\r\nlate");
    let line = proxy.says("end=closed");
    assert!(line.contains(" up_bytes=5 down_bytes=4 "), "{line}");
}

#[test]
fn a_refused_client_is_answered_with_the_reason() {
    let proxy = Proxy::start("");
    let nobody = Server::new().address();
    for (request, status, why) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request", "this is a proxy"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n".to_owned(), "403 Forbidden", "metadata"),
        (format!("CONNECT {} HTTP/1.1\r\n\r\n", proxy.address(Tongue::Socks5)), "403 Forbidden", "this proxy itself"),
        (format!("CONNECT {nobody} HTTP/1.1\r\n\r\n"), "502 Bad Gateway", "refused"),
        ("CONNECT no.such.name.invalid:80 HTTP/1.1\r\n\r\n".to_owned(), "502 Bad Gateway", "has no address"),
        (format!("GET http://a/ HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000)), "431 Request Header", "16384 bytes"),
    ] {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(request.as_bytes()).unwrap();
        let answer = String::from_utf8(rest_of(&mut client)).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(why), "{request:.60}: {answer}");
    }
}

#[test]
fn no_thread_of_a_running_proxy_may_start_a_program() {
    let mut proxy = Proxy::start("[admin]\nlisten = \"127.0.0.1:0\"\n");
    proxy.says("to look at");
    server_and_client(&proxy, Tongue::Connect);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", proxy.process_id())).unwrap();
    let mut count = 0;
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(status.contains("Seccomp:\t2\n") && status.contains("NoNewPrivs:\t1\n"), "{status}");
        count += 1;
    }
    assert!(count >= 4, "workers, names, lines and the page have a thread each, not {count}");
}

#[test]
fn signals_for_logs_do_not_end_it() {
    let mut proxy = Proxy::start("");
    for signal in ["USR1", "USR2"] {
        proxy.signal(signal);
        proxy.says("SIGUSR1 and SIGUSR2 change nothing");
    }
    server_and_client(&proxy, Tongue::Socks5);
}

#[test]
fn a_running_proxy_is_asked_and_changed_over_its_socket() {
    let folder = tempfile::TempDir::new().unwrap();
    let socket = folder.path().join("control.sock");
    let mut proxy = Proxy::start_with(&format!("control = {socket:?}\n"), "");
    let ask = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.args(["proxy", "ctl"]).arg(&socket).args(words).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let (_server, mut client) = server_and_client(&proxy, Tongue::Forward);
    let (_, list) = ask(&["list"]);
    let flow: serde_json::Value = serde_json::from_str(list.trim()).unwrap();
    assert_eq!(flow["client"], client.local_addr().unwrap().to_string());
    assert_eq!(ask(&["end", "99"]).0, Some(2));
    let (code, said) = ask(&["end", &flow["id"].to_string()]);
    assert_eq!((code, said.contains("is ended")), (Some(0), true), "{said}");
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(ask(&["limits", "connections", "none"]).1.contains("expected a number"));
    assert_eq!(ask(&["limits", "connections_per_client", "1"]).0, Some(0));
    let limits = ask(&["limits"]).1;
    assert!(limits.contains("connections_per_client = 1\n") && limits.contains("idle = \"7440s\"\n"), "{limits}");
    let _one = server_and_client(&proxy, Tongue::Connect);
    let mut two = connected(proxy.address(Tongue::Connect));
    assert!(rest_of(&mut two).starts_with(b"HTTP/1.1 503 "));
    assert_eq!(ask(&["drain"]).0, Some(0));
    proxy.says("connections are open");
    assert!(TcpStream::connect(proxy.address(Tongue::Connect)).is_err());
}

#[test]
fn a_terminated_proxy_lets_connections_end_and_a_second_signal_does_not() {
    let mut proxy = Proxy::start("");
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    proxy.signal("TERM");
    proxy.says("connections are open");
    assert_eq!(
        TcpStream::connect(proxy.address(Tongue::Connect)).map(|_| ()).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    client.write_all(b"still").unwrap();
    let mut bytes = [0; 5];
    server.read_exact(&mut bytes).unwrap();
    drop(server);
    drop(client);
    assert_eq!(proxy.wait(), Some(0));

    let mut proxy = Proxy::start("");
    let (_server, mut client) = server_and_client(&proxy, Tongue::Connect);
    proxy.signal("TERM");
    proxy.says("connections are open");
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "half must not look whole");
}

#[test]
fn connections_that_a_proxy_does_not_wait_for_have_their_lines_too() {
    let mut proxy = Proxy::start_with("log = \"connections\"", "");
    let open: Vec<_> = (0..200).map(|_| server_and_client(&proxy, Tongue::Forward)).collect();
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    client.write_all(b"hello").unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    proxy.signal("TERM");
    proxy.says("connections are open");
    proxy.signal("TERM");
    let lines: Vec<_> = (0..=open.len()).map(|_| proxy.says("end=stopped")).collect();
    assert!(lines.iter().any(|line| line.contains("way=http") && line.contains(" up_bytes=5 ")), "{lines:?}");
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn a_proxy_that_is_killed_leaves_nothing_that_looks_whole() {
    let mut proxy = Proxy::start("");
    for tongue in TONGUES {
        let (mut server, mut client) = server_and_client(&proxy, tongue);
        server.write_all(b"half").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        proxy.signal("KILL");
        proxy.wait();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{tongue:?}");
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{tongue:?}");
        proxy = Proxy::start("");
    }
}

#[test]
fn a_file_that_is_read_again_concerns_connections_from_now_on() {
    let mut proxy = Proxy::start("");
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    proxy.edit(|text| text.replace("allow = [\"127.0.0.0/8\", \"::1\"]", "deny = [\"127.0.0.1:1-65535\"]"));
    proxy.signal("HUP");
    proxy.says("read again");
    let mut refused = connected(proxy.address(Tongue::Connect));
    refused.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").unwrap();
    assert!(String::from_utf8(rest_of(&mut refused)).unwrap().contains("the rules deny it"));
    client.write_all(b"as ever").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest_of(&mut server), b"as ever");
}

#[test]
fn messages_that_nobody_reads_end_no_connection() {
    let mut proxy = Proxy::start("");
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Connect);
    proxy.hang_up();
    let refused_because = |why: &str| {
        let mut refused = connected(proxy.address(Tongue::Connect));
        refused.write_all(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").unwrap();
        String::from_utf8(rest_of(&mut refused)).unwrap().contains(why)
    };
    for (allowed, why) in [("deny = [\"127.0.0.1\"]", "the rules deny it"), ("only = [\"10.0.0.1\"]", "loopback")] {
        proxy.edit(|text| [text.split("[destinations]").next().unwrap(), "[destinations]\n", allowed].concat());
        proxy.signal("HUP");
        let began = std::time::Instant::now();
        while !refused_because(why) {
            assert!(began.elapsed() < proxied::PATIENCE, "it was told to read its file again");
        }
    }
    client.write_all(b"as ever").unwrap();
    proxy.signal("TERM");
    drop(client);
    assert_eq!(rest_of(&mut server), b"as ever");
    drop(server);
    assert_eq!(proxy.wait(), Some(0));
}

#[test]
fn clients_that_are_turned_away_do_not_take_the_places_of_others() {
    let proxy = Proxy::start("[limits]\nconnections = 8\nconnections_per_client = 1\n");
    let (_server, _client) = server_and_client(&proxy, Tongue::Connect);
    // Two seconds each until they had heard why, eight at a time, would be fifty for these.
    let _greedy: Vec<_> = (0..200).map(|_| connected(proxy.address(Tongue::Connect))).collect();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&proxy.address(Tongue::Connect).into()).unwrap();
    let mut other = TcpStream::from(socket);
    other.set_read_timeout(Some(proxied::PATIENCE)).unwrap();
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    other.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"HTTP/1.1 400");
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    let mut proxy = Proxy::start("");
    for mistake in
        ["nonsense", "[limits]\nmemory = \"1B\"", "[[listen]]\naddress = \"127.0.0.1:1\"\nway = \"http\"\nx = 1"]
    {
        proxy.edit(|text| format!("{text}\n{mistake}\n"));
        proxy.signal("HUP");
        proxy.says("proxy.toml");
        proxy.says("Nothing has changed");
        proxy.edit(|text| text.replace(&format!("\n{mistake}\n"), ""));
    }
    let (mut server, mut client) = server_and_client(&proxy, Tongue::Socks5);
    client.write_all(b"as ever").unwrap();
    drop(client);
    assert_eq!(rest_of(&mut server), b"as ever");
}

#[test]
fn a_way_in_comes_and_goes_with_the_file() {
    let mut proxy = Proxy::start("");
    let before = proxy.address(Tongue::Socks5);
    proxy.edit(|text| text.replace("127.0.0.1:0\"\nway = \"socks5\"", "127.0.0.2:0\"\nway = \"socks5\""));
    proxy.signal("HUP");
    proxy.says("read again");
    let line = proxy.says("listening on 127.0.0.2:");
    let after = line.split_whitespace().nth(2).unwrap().parse().unwrap();
    let mut client = connected(after);
    client.write_all(&[5, 1, 0]).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0]);
    assert!(TcpStream::connect(before).is_err(), "nobody listens there any more");
    server_and_client(&proxy, Tongue::Connect);
}

#[test]
fn a_proxy_for_strangers_does_not_start() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
    let output = command.args(["proxy", "--listen", "0.0.0.0:0"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("clients = [\"10.0.0.0/8\"]"), "{message}");
}

#[test]
fn the_published_examples_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/proxy");
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headend"));
        let output = command.args(["proxy", "--check", "--config"]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        count += 1;
    }
    assert!(count >= 3, "{count} examples");
}
