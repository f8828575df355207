//! What a client may have in a second, and which names it may ask for, with the real binary on the loopback.

#![cfg(target_os = "linux")]

#[path = "support/operated.rs"]
mod operated;
#[path = "support/proxied.rs"]
mod proxied;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use operated::{ADMIN, admin, ask};
use proxied::{Proxy, Tongue, connected, noise, rest_of, server_and_client};

const LEN: usize = 3 << 20;

/// The begin of the answer to a CONNECT, over a connection of its own.
fn status_of_connect(proxy: &Proxy, to: &str) -> String {
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).unwrap();
    let mut status = [0; 12];
    client.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

#[test]
fn a_client_has_its_rate_over_all_of_its_connections() {
    let mut proxy = Proxy::start(&format!("[limits]\nrate_per_client = \"80Mbit/s\"\n{ADMIN}"));
    let look = admin(&mut proxy);
    let began = Instant::now();
    let readers: Vec<_> = [Tongue::Forward, Tongue::Connect]
        .into_iter()
        .map(|tongue| {
            let (mut server, mut client) = server_and_client(&proxy, tongue);
            thread::spawn(move || server.write_all(&noise(1, LEN)).unwrap());
            thread::spawn(move || assert!(rest_of(&mut client) == noise(1, LEN), "{tongue:?}: every byte"))
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    // 6.3 MB at 10 MB/s, a quarter of a second of them at once.
    assert!(began.elapsed() > Duration::from_millis(370), "{:?}", began.elapsed());
    let metrics = ask(look, "/metrics").1;
    let delayed = metrics.lines().find_map(|line| line.strip_prefix("headend_proxy_delayed_total ")).expect("counted");
    assert!(delayed.parse::<f64>().unwrap() >= 1.0, "{delayed}");
}

#[test]
fn requests_beyond_a_clients_rate_are_refused_in_its_tongue() {
    let mut proxy = Proxy::start(&format!("[limits]\nrequests_per_client = 1\n{ADMIN}"));
    let look = admin(&mut proxy);
    let nowhere = "127.0.0.1:9";
    // Five come at once, and one more when a second was slow to pass.
    let refused = (0..20).find(|_| status_of_connect(&proxy, nowhere) == "HTTP/1.1 429").expect("never refused");
    assert!(refused >= 5, "as many as come in five seconds: {refused}");
    let mut socks = connected(proxy.address(Tongue::Socks5));
    socks.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 9]).unwrap();
    let answer = rest_of(&mut socks);
    assert_eq!(answer[..4], [5, 0, 5, 1], "a general failure, in any way in");
    let mut client = connected(proxy.address(Tongue::Connect));
    let request = format!("GET http://{nowhere}/ HTTP/1.1\r\nHost: {nowhere}\r\n\r\n");
    client.write_all(request.repeat(3).as_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = String::from_utf8_lossy(&rest_of(&mut client)).into_owned();
    assert!(answers.contains("HTTP/1.1 429") && answers.contains("more requests in a second"), "{answers}");
    let metrics = ask(look, "/metrics").1;
    assert!(metrics.contains("headend_proxy_requests_over_rate_total"), "{metrics}");
}

#[test]
fn lines_and_messages_go_to_the_syslog_socket_that_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("log");
    let daemon = UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    daemon.set_read_timeout(Some(proxied::PATIENCE)).unwrap();
    let before = format!("log = \"connections\"\nsyslog = \"{}\"", path.display());
    let proxy = Proxy::start_with(&before, "[limits]\nconnections_per_client = 1\n");
    let first = server_and_client(&proxy, Tongue::Forward);
    assert_eq!(status_of_connect(&proxy, "127.0.0.1:9"), "HTTP/1.1 503");
    drop(first);
    let mut lines = std::iter::repeat_with(|| {
        let mut bytes = [0; 2_000];
        let len = daemon.recv(&mut bytes).expect("a line");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    });
    let own = format!("headend-proxy[{}]: ", proxy.process_id());
    let message = lines.find(|line| line.contains("as many as it may")).unwrap();
    assert!(message.starts_with(&format!("<29>{own}")), "{message}");
    let line = lines.find(|line| line.contains("way=forward")).unwrap();
    assert!(line.starts_with(&format!("<30>{own}")), "{line}");
}

#[test]
fn a_name_that_is_denied_is_not_even_looked_up() {
    let proxy = Proxy::start_edited(|text| {
        text.replace("[destinations]", "[destinations]\ndeny_names = [\"localhost\", \"*.example.org\"]")
    });
    for name in ["localhost:9", "LocalHost.:9", "www.EXAMPLE.org:443"] {
        assert_eq!(status_of_connect(&proxy, name), "HTTP/1.1 403", "{name}");
    }
    assert_ne!(status_of_connect(&proxy, "127.0.0.1:9"), "HTTP/1.1 403", "an address is no name");
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(b"GET http://LOCALHOST:9/ HTTP/1.1\r\nHost: LOCALHOST:9\r\nConnection: close\r\n\r\n").unwrap();
    assert!(rest_of(&mut client).starts_with(b"HTTP/1.1 403"));
}
