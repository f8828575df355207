//! The fields of messages that go on: what concerns one connection is left out, and the proxy says that it was there.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Version};

use super::super::inbound::http::{self, Fetch, Refusal, Status};

/// The fields of `headers`, as the reader of heads takes them.
pub(super) fn fields(headers: &HeaderMap) -> Vec<httparse::Header<'_>> {
    headers.iter().map(|(name, value)| httparse::Header { name: name.as_str(), value: value.as_bytes() }).collect()
}

/// The minor version of HTTP/1 that a message is in.
pub(super) fn minor(version: Version) -> u8 {
    u8::from(version != Version::HTTP_10)
}

/// The name under which this process is in `Via` (RFC 9110 s7.6.3): a pseudonym, and different from that of any other, so
/// that a message that comes by again is told from one that another headend has passed on.
pub(super) fn own_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("headend-{:08x}", RandomState::new().build_hasher().finish() as u32))
}

/// True if the message has been here before.
pub(super) fn has_been_here(headers: &HeaderMap) -> bool {
    let vias = headers.get_all(header::VIA).iter().filter_map(|value| value.to_str().ok());
    vias.flat_map(|value| value.split(',')).any(|via| via.split_whitespace().nth(1) == Some(own_name()))
}

/// Makes of a client's request the one that goes to the server.
pub(super) fn request<B>(request: &mut Request<B>, fetch: &Fetch, minor: u8) -> Result<(), Refusal> {
    let unusable = |what: &str| Refusal::new(Status::BadRequest, format!("the {what} cannot be passed on"));
    *request.uri_mut() = fetch.target.parse().map_err(|_| unusable("target"))?;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    drop_fields(headers, &fetch.dropped);
    let host = HeaderValue::from_str(&fetch.host).map_err(|_| unusable("target's authority"))?;
    headers.insert(header::HOST, host);
    if let Some(forwards) = fetch.forwards {
        headers.insert(header::MAX_FORWARDS, HeaderValue::from(forwards.saturating_sub(1)));
    }
    if let Some(upgrade) = &fetch.upgrade {
        let upgrade = HeaderValue::from_str(upgrade).map_err(|_| unusable("Upgrade"))?;
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    say_via(headers, minor);
    Ok(())
}

/// Makes of a server's answer the one that goes to the client; refuses one that can be read in two ways.
pub(super) fn answer(headers: &mut HeaderMap, version: Version, is_upgrade: bool) -> Result<(), Refusal> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        let codings: Vec<&HeaderValue> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
        let is_plain = codings.len() == 1 && codings[0].as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if headers.contains_key(header::CONTENT_LENGTH) || !is_plain {
            return Err(Refusal::new(Status::BadGateway, "the server's answer does not say in one way where it ends"));
        }
    }
    let mut dropped = http::nominated(&fields(headers))
        .map_err(|_| Refusal::new(Status::BadGateway, "the server's answer has a Connection that is not text"))?;
    dropped.retain(|name| !matches!(name.as_str(), "content-length" | "content-type" | "location" | "set-cookie"));
    dropped.extend(http::HOP_BY_HOP.iter().map(|name| (*name).to_owned()));
    let upgrade = headers.get(header::UPGRADE).filter(|_| is_upgrade).cloned();
    drop_fields(headers, &dropped);
    if let Some(upgrade) = upgrade {
        headers.insert(header::UPGRADE, upgrade);
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    say_via(headers, minor(version));
    Ok(())
}

/// True if a server takes a connection for its client's from here on: such a connection is nobody's next.
pub(super) fn authenticates_connection(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::AUTHORIZATION).iter().chain(headers.get_all(header::WWW_AUTHENTICATE));
    values.into_iter().any(|value| {
        let value = value.as_bytes().trim_ascii_start().to_ascii_lowercase();
        [b"ntlm".as_slice(), b"negotiate"].iter().any(|scheme| value.starts_with(scheme))
    })
}

fn drop_fields(headers: &mut HeaderMap, names: &[String]) {
    for name in names {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            headers.remove(name);
        }
    }
}

fn say_via(headers: &mut HeaderMap, minor: u8) {
    if let Ok(via) = HeaderValue::from_str(&format!("1.{minor} {}", own_name())) {
        headers.append(header::VIA, via);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn an_answer_that_ends_in_two_ways_goes_no_further() {
        for lines in [
            [("content-length", "7"), ("transfer-encoding", "chunked")],
            [("x", "y"), ("transfer-encoding", "gzip, chunked")],
            [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
        ] {
            let mut two: HeaderMap = HeaderMap::new();
            for (name, value) in lines {
                two.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert!(answer(&mut two, Version::HTTP_11, false).is_err(), "{lines:?}");
        }
    }

    #[test]
    fn what_concerns_the_server_s_connection_alone_does_not_reach_the_client() {
        let lines = [("connection", "close, x-hop"), ("x-hop", "1"), ("keep-alive", "timeout=5"), ("etag", "7")];
        let mut headers = headers(&lines);
        answer(&mut headers, Version::HTTP_10, false).unwrap();
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["etag", "via"]);
        assert_eq!(headers["via"], format!("1.0 {}", own_name()).as_str());
    }

    #[test]
    fn a_message_that_was_here_is_known_by_its_via() {
        assert!(!has_been_here(&headers(&[("via", "1.1 headend, 1.0 fred, 1.1 headend-x (y)")])));
        let mut again = headers(&[("via", "1.0 fred")]);
        again.append(header::VIA, HeaderValue::from_str(&format!("1.1 {} (x), 1.1 p", own_name())).unwrap());
        assert!(has_been_here(&again));
    }
}
