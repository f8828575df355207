//! A proxy under test as whoever operates it sees it, asked over HTTP.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::proxied::{PATIENCE, Proxy, connected, rest_of};

/// The table that makes a proxy answer.
pub(crate) const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// The address at which its admin server answers.
pub(crate) fn admin(proxy: &mut Proxy) -> SocketAddr {
    let line = proxy.says("to look at");
    line.rsplit('/').nth(1).and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address in {line:?}"))
}

pub(crate) fn ask_as(address: SocketAddr, method: &str, path: &str, host: &str) -> (String, String) {
    let mut stream = connected(address);
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let answer = String::from_utf8(rest_of(&mut stream)).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {path}: {answer:?}"));
    (head.to_owned(), body.to_owned())
}

pub(crate) fn ask(address: SocketAddr, path: &str) -> (String, String) {
    ask_as(address, "GET", path, &address.to_string())
}

pub(crate) fn status(address: SocketAddr, query: &str) -> Value {
    let (head, body) = ask(address, &format!("/status?{query}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
    serde_json::from_str(&body).unwrap()
}

/// Asks until the answer is as wanted.
pub(crate) fn status_when(address: SocketAddr, query: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let status = status(address, query);
        if is_wanted(&status) {
            return status;
        }
        assert!(Instant::now() < end, "never as wanted: {status:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
