//! `--live`: a page for the browser that draws what crosses the links, second by second. The page asks for what is new; nothing can be
//! changed over it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::Failure;

const PAGE: &str = include_str!("live.html");
/// Seconds that are kept for whoever opens the page later.
const KEPT: usize = 600;
/// A request has to be here, and its answer gone, within this time: others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 8_192;

/// The place of the page: of the namespace in which this is called.
pub(super) fn listen(at: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(at).map_err(|error| Failure::Wrong(format!("--live {at}: {error}")))
}

/// The page, for as long as the process lives.
#[derive(Debug)]
pub(super) struct Live {
    seconds: Arc<Mutex<Seconds>>,
}

#[derive(Debug, Default)]
struct Seconds {
    /// The number of the first that is kept.
    first: usize,
    kept: VecDeque<Value>,
}

impl Live {
    /// Serves the page there.
    pub(super) fn start(listener: TcpListener) -> Live {
        if let Ok(at) = listener.local_addr() {
            eprintln!("live: http://{at}/");
        }
        let seconds = Arc::new(Mutex::new(Seconds::default()));
        let shared = seconds.clone();
        thread::spawn(move || {
            for connection in listener.incoming() {
                match connection {
                    // Whoever leaves before the answer has missed it.
                    Ok(stream) => drop(answer(stream, &shared)),
                    // Without a descriptor to spare: not at full speed.
                    Err(_) => thread::sleep(PATIENCE / 10),
                }
            }
        });
        Live { seconds }
    }

    /// Adds a second.
    pub(super) fn tell(&self, second: Value) {
        let mut seconds = self.seconds.lock().expect("nobody panics with it");
        if seconds.kept.len() == KEPT {
            seconds.kept.pop_front();
            seconds.first += 1;
        }
        seconds.kept.push_back(second);
    }
}

impl Seconds {
    /// The seconds from number `from` on, as JSON.
    fn since(&self, from: usize) -> String {
        let next = self.first + self.kept.len();
        let seconds: Vec<&Value> = self.kept.iter().skip(from.saturating_sub(self.first)).collect();
        serde_json::json!({ "next": next, "seconds": seconds }).to_string()
    }
}

/// Answers one request, and closes.
fn answer(mut stream: TcpStream, seconds: &Mutex<Seconds>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 1_024];
        let len = stream.read(&mut piece)?;
        if len == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..len]);
    }
    let (status, kind, body) = respond(&String::from_utf8_lossy(&request), seconds);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; connect-src 'self'; script-src \
         'unsafe-inline'; style-src 'unsafe-inline'\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Status, type and body for a request.
fn respond(request: &str, seconds: &Mutex<Seconds>) -> (&'static str, &'static str, String) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut fields = request.lines().skip(1).filter_map(|line| line.split_once(':'));
    let host = fields.find(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.trim());
    if !host.is_some_and(is_own_name) {
        // A page of somebody else's, whose name leads here, is not to read what this one says.
        return ("421 Misdirected Request", TEXT, "ask for this place by its address\n".to_owned());
    }
    if method != "GET" {
        return ("405 Method Not Allowed", TEXT, "only GET\n".to_owned());
    }
    match target.split_once("?from=").map_or((target, Some(0)), |(path, from)| (path, from.parse().ok())) {
        ("/", _) => ("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
        ("/seconds", Some(from)) => {
            ("200 OK", "application/json", seconds.lock().expect("nobody panics with it").since(from))
        }
        _ => ("404 Not Found", TEXT, "there are / and /seconds?from=N\n".to_owned()),
    }
}

/// True for addresses and localhost.
fn is_own_name(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_what_is_new_are_had_by_address_alone() {
        let seconds = Mutex::new(Seconds { first: 3, kept: (3..6).map(Value::from).collect() });
        let ask = |target: &str, host: &str| {
            let (status, _, body) = respond(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"), &seconds);
            (status[..3].parse::<u16>().unwrap(), body)
        };
        assert_eq!(ask("/", "127.0.0.1:8000").0, 200);
        assert_eq!(ask("/seconds?from=4", "localhost"), (200, r#"{"next":6,"seconds":[4,5]}"#.to_owned()));
        assert_eq!(ask("/seconds?from=0", "[::1]:80").1, r#"{"next":6,"seconds":[3,4,5]}"#);
        assert_eq!([ask("/seconds?from=x", "[::1]").0, ask("/other", "10.0.0.1").0], [404, 404]);
        assert_eq!(ask("/", "evil.example").0, 421);
        assert_eq!(respond("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", &seconds).0, "405 Method Not Allowed");
        assert_eq!(respond("\r\n\r\n", &seconds).0, "421 Misdirected Request");
    }
}
