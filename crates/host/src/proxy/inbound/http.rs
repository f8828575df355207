//! The head of a request to an HTTP proxy: CONNECT (RFC 9110 s9.3.6) and the absolute form (RFC 9112 s3.2.2).
//!
//! A head decides what becomes of the connection: a tunnel, or requests for whole URLs one after the other (`fetch`).
//! Of each of those [`Fetch::read`] says where it goes, in what form, and which of its fields concern this connection
//! alone. Where a body ends must be told in one way only; the bodies themselves have one reader, hyper's, and are framed
//! anew for the server, so that both mean the same by them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Credentials, Destination, Host};

/// The reader's verdict on the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The head is not complete.
    More,
    /// A request.
    Request(Request),
    /// The bytes are no request that can be served.
    Refused(Refusal),
}

/// A request that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the head; what follows is a tunnel's, or the request's body.
    pub consumed: usize,
    /// What the client wants.
    pub wants: Wants,
    /// The name and password of the client, if it gave them.
    pub credentials: Option<Credentials>,
}

/// The two things that a client can want of an HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// CONNECT: from here on all that either end says.
    Tunnel(Destination),
    /// The answer to a request for a whole URL.
    Fetch(Fetch),
}

/// A request for a whole URL, as it is to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The server.
    pub destination: Destination,
    /// What `Host` says to the server: the target's authority as it was given (RFC 9112 s3.2.2).
    pub host: String,
    /// The target in origin form, or `*`.
    pub target: String,
    /// The end of the body.
    pub body: Body,
    /// Names, in small letters, of the fields that go no further.
    pub dropped: Vec<String>,
    /// The protocol that the client would rather speak (RFC 9110 s7.8), if it may have it.
    pub upgrade: Option<String>,
    /// How many more proxies a TRACE or an OPTIONS may pass (RFC 9110 s7.6.2).
    pub forwards: Option<u64>,
}

/// The way in which the end of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, or so many bytes.
    Length(u64),
    /// It is in chunks (RFC 9112 s7.1).
    Chunked,
}

/// An answer in place of the request's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status and its phrase.
    pub status: Status,
    /// The mistake, for a person.
    pub why: String,
}

/// Statuses of answers that are the proxy's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 400
    BadRequest,
    /// 403
    Forbidden,
    /// 407
    AuthenticationRequired,
    /// 408
    Timeout,
    /// 429 (RFC 6585 s4)
    TooManyRequests,
    /// 431
    HeadTooLarge,
    /// 501
    NotImplemented,
    /// 502
    BadGateway,
    /// 503
    Unavailable,
    /// 504
    GatewayTimeout,
    /// 505
    VersionNotSupported,
    /// 508 (RFC 5842 s7.2)
    LoopDetected,
}

/// The answer to a CONNECT that got through.
pub const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What a client that must say who it is hears with 407.
pub(crate) const CHALLENGE: &str = "Basic realm=\"headend\", charset=\"UTF-8\"";
/// More fields than a browser sends, and a bound on what a request costs to read.
pub(crate) const FIELDS_MAX: usize = 100;
/// Fields that concern one connection and go no further (RFC 9110 s7.6.1), whether a `Connection` names them or not.
pub(crate) const HOP_BY_HOP: &[&str] = &[
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-authentication-info",
    "http2-settings",
];
/// Fields that no `Connection` may take away: they say where the request goes and ends.
const NEVER_NOMINATED: &[&str] = &["content-length", "transfer-encoding", "host"];

impl Head {
    /// Reads the head of a request of at most `bytes_max` bytes.
    pub fn read(bytes: &[u8], bytes_max: usize) -> Head {
        let end = end_of_head(bytes);
        if end.unwrap_or(bytes.len()) > bytes_max {
            let why = format!("the head of the request has more than {bytes_max} bytes");
            return Head::Refused(Refusal::new(Status::HeadTooLarge, why));
        }
        if end.is_none() {
            // So that who speaks TLS or SSH to this port hears of it before its patience ends.
            let first = bytes.iter().find(|byte| !matches!(byte, b'\r' | b'\n'));
            return match first {
                Some(byte) if !begins_method(*byte) => Head::Refused(Refusal::new(
                    Status::BadRequest,
                    "this is an HTTP proxy, and that is no HTTP request",
                )),
                _ => Head::More,
            };
        }
        match read_whole(bytes) {
            Ok(Some(request)) => Head::Request(request),
            Ok(None) => Head::More,
            Err(refusal) => Head::Refused(refusal),
        }
    }
}

/// True if a method may begin with this byte: any letter of a token (RFC 9110 s5.6.2), or the verdict on a head would
/// depend on the pieces in which it comes.
fn begins_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The place behind the empty line that ends the head. Lines may end without a carriage return (RFC 9112 s2.2); the
/// reader below has the last word on what is a head, this spares it from reading half of one again and again.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let mut at = start;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        at += found + 1;
        match bytes.get(at..) {
            Some([b'\n', ..]) => return Some(at + 1),
            Some([b'\r', b'\n', ..]) => return Some(at + 2),
            _ => {}
        }
    }
    None
}

fn read_whole(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let consumed = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(Status::HeadTooLarge, format!("the request has more than {FIELDS_MAX} fields")));
        }
        Err(httparse::Error::Version) => {
            return Err(Refusal::new(Status::VersionNotSupported, "the version is not HTTP/1.0 or HTTP/1.1"));
        }
        Err(error) => return Err(Refusal::bad(format!("the head of the request is malformed: {error}"))),
    };
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Refusal::bad("the request line is incomplete"));
    };
    let credentials = credentials(parsed.headers)?;
    let wants = match method {
        "CONNECT" => Wants::Tunnel(tunnel(target, parsed.headers)?),
        _ => Wants::Fetch(Fetch::read(method, target, minor, parsed.headers)?),
    };
    Ok(Some(Request { consumed, wants, credentials }))
}

/// Where a CONNECT leads (RFC 9110 s9.3.6).
pub(crate) fn tunnel(target: &str, fields: &[httparse::Header<'_>]) -> Result<Destination, Refusal> {
    let destination = Destination::read(target.as_bytes()).map_err(|why| Refusal::bad(format!("CONNECT: {why}")))?;
    let has_coding = field(fields, "transfer-encoding").next().is_some();
    if has_coding || content_length(fields)?.is_some_and(|length| length > 0) {
        // Whoever sends one means something else by the bytes that follow.
        return Err(Refusal::bad("a CONNECT has no body, and this one says that it has"));
    }
    if field(fields, "host").count() > 1 {
        return Err(Refusal::bad("the request has two Host"));
    }
    Ok(destination)
}

impl Fetch {
    /// Reads a request's head, of HTTP/1.`minor`, that is no CONNECT.
    pub fn read(method: &str, target: &str, minor: u8, fields: &[httparse::Header<'_>]) -> Result<Fetch, Refusal> {
        let absolute = Absolute::read(target)?;
        one_host(minor, fields)?;
        let body = body(fields)?;
        if method == "TRACE" && body != Body::Length(0) {
            return Err(Refusal::bad("a TRACE has no body, and this one says that it has"));
        }
        let mut dropped = nominated(fields)?;
        if let Some(name) = dropped.iter().find(|name| NEVER_NOMINATED.contains(&name.as_str())) {
            return Err(Refusal::bad(format!("Connection names {name}, which is not of this connection alone")));
        }
        let upgrade = dropped.iter().any(|name| name == "upgrade").then(|| upgrade(fields)).flatten();
        dropped.extend(HOP_BY_HOP.iter().map(|name| (*name).to_owned()));
        let target = match absolute.rest {
            // RFC 9112 s3.2.4: OPTIONS for the server as a whole.
            "" if method == "OPTIONS" => "*".to_owned(),
            rest if rest.starts_with('/') => rest.to_owned(),
            rest => format!("/{rest}"),
        };
        let forwards = if matches!(method, "TRACE" | "OPTIONS") { forwards(fields)? } else { None };
        let host = absolute.authority.to_owned();
        Ok(Fetch { destination: absolute.destination, host, target, body, dropped, upgrade, forwards })
    }
}

/// RFC 9112 s3.2: exactly one Host, which may be missing in HTTP/1.0; the target says more, but who sends two means to be
/// read in two ways.
fn one_host(minor: u8, fields: &[httparse::Header<'_>]) -> Result<(), Refusal> {
    let mut hosts = field(fields, "host");
    match (hosts.next().map(<[u8]>::trim_ascii), hosts.next()) {
        (None, _) if minor == 0 => Ok(()),
        (None, _) => Err(Refusal::bad("the request has no Host")),
        (Some(_), Some(_)) => Err(Refusal::bad("the request has two Host")),
        (Some(host), None) if host.is_empty() || Host::read(host).is_ok() || Destination::read(host).is_ok() => Ok(()),
        (Some(_), None) => Err(Refusal::bad("Host is no host")),
    }
}

/// The names, in small letters, that `Connection` lists.
pub(crate) fn nominated(fields: &[httparse::Header<'_>]) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    for value in field(fields, "connection").chain(field(fields, "proxy-connection")) {
        let value = std::str::from_utf8(value).map_err(|_| Refusal::bad("Connection is not text"))?;
        names.extend(value.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    Ok(names)
}

/// The protocol of an `Upgrade`. Not `h2c`: what speaks HTTP/2 behind a reader of HTTP/1 is seen by nobody.
fn upgrade(fields: &[httparse::Header<'_>]) -> Option<String> {
    let mut values = field(fields, "upgrade");
    let value = std::str::from_utf8(values.next()?.trim_ascii()).ok()?;
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let has_h2c = value.split(',').any(|name| name.trim().eq_ignore_ascii_case("h2c"));
    (values.next().is_none() && is_plain && !value.is_empty() && !has_h2c).then(|| value.to_owned())
}

/// `Max-Forwards` (RFC 9110 s7.6.2).
fn forwards(fields: &[httparse::Header<'_>]) -> Result<Option<u64>, Refusal> {
    let mut values = field(fields, "max-forwards");
    let Some(value) = values.next() else { return Ok(None) };
    let number = std::str::from_utf8(value.trim_ascii()).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    match (number.and_then(|text| text.parse().ok()), values.next()) {
        (Some(number), None) => Ok(Some(number)),
        _ => Err(Refusal::bad("Max-Forwards is not one number")),
    }
}

/// A target such as `http://example.org/a?b`.
struct Absolute<'a> {
    destination: Destination,
    /// The authority, with the port as it was given.
    authority: &'a str,
    /// Path and query; may be empty.
    rest: &'a str,
}

impl<'a> Absolute<'a> {
    fn read(target: &'a str) -> Result<Absolute<'a>, Refusal> {
        let Some((scheme, after)) = target.split_once("://") else {
            let why = "this is a proxy: it serves CONNECT, and targets such as http://example.org/path";
            return Err(Refusal::bad(why));
        };
        if !scheme.eq_ignore_ascii_case("http") {
            let why = "only http is fetched; for anything else use CONNECT";
            return Err(Refusal::new(Status::NotImplemented, why));
        }
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        if rest.contains('#') {
            return Err(Refusal::bad("the target has a fragment, which is the client's own"));
        }
        if authority.contains('@') {
            // RFC 9110 s4.2.4: a trick of phishers; nothing needs it.
            return Err(Refusal::bad("the target has a user in its authority"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let destination = if has_port {
            Destination::read(authority.as_bytes())
        } else {
            Host::read(authority.as_bytes()).map(|host| Destination { host, port: 80 })
        };
        let destination = destination.map_err(|why| Refusal::bad(format!("the target's authority: {why}")))?;
        Ok(Absolute { destination, authority, rest })
    }
}

/// The end of the request's body (RFC 9112 s6.3).
fn body(fields: &[httparse::Header<'_>]) -> Result<Body, Refusal> {
    let mut codings = field(fields, "transfer-encoding");
    let length = content_length(fields)?;
    let Some(coding) = codings.next() else { return Ok(Body::Length(length.unwrap_or(0))) };
    if length.is_some() {
        return Err(Refusal::bad("the request has both Content-Length and Transfer-Encoding"));
    }
    if codings.next().is_some() || !coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Err(Refusal::new(Status::NotImplemented, "of the transfer codings only chunked is known"));
    }
    Ok(Body::Chunked)
}

/// The one length that all `Content-Length` fields name; a list or a sign is nothing that we understand.
fn content_length(fields: &[httparse::Header<'_>]) -> Result<Option<u64>, Refusal> {
    let mut length = None;
    for value in field(fields, "content-length") {
        let digits = value.trim_ascii();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let read = is_number.then(|| std::str::from_utf8(digits).ok()?.parse::<u64>().ok()).flatten();
        let read = read.ok_or_else(|| Refusal::bad("Content-Length is not a number of bytes"))?;
        if length.is_some_and(|length| length != read) {
            return Err(Refusal::bad("the request has two different Content-Length"));
        }
        length = Some(read);
    }
    Ok(length)
}

pub(crate) fn credentials(fields: &[httparse::Header<'_>]) -> Result<Option<Credentials>, Refusal> {
    let mut values = field(fields, "proxy-authorization");
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::bad("the request has two Proxy-Authorization"));
    }
    // RFC 7617 s2. What is not Basic is as good as none: the answer names what is known.
    let value = value.trim_ascii();
    let Some((scheme, token)) = value.split_at_checked(6) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return Ok(None);
    }
    let Ok(decoded) = STANDARD.decode(token.trim_ascii()) else {
        return Err(Refusal::bad("Proxy-Authorization: Basic is not followed by base64"));
    };
    let Some(colon) = decoded.iter().position(|byte| *byte == b':') else {
        return Err(Refusal::bad("Proxy-Authorization: there is no ':' between user and password"));
    };
    Ok(Some(Credentials { user: decoded[..colon].to_vec(), password: decoded[colon + 1..].to_vec() }))
}

pub(crate) fn field<'a>(fields: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

impl Refusal {
    /// An answer with `status` that tells `why`.
    pub fn new(status: Status, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Refusal {
        Refusal::new(Status::BadRequest, why)
    }

    /// The line for a person.
    pub(crate) fn body(&self) -> String {
        format!("headend: {}\n", self.why)
    }

    /// The whole answer, after which the connection is closed.
    pub fn answer(&self) -> Vec<u8> {
        let (code, phrase) = self.status.words();
        let body = self.body();
        let challenge = match self.status {
            Status::AuthenticationRequired => format!("Proxy-Authenticate: {CHALLENGE}\r\n"),
            _ => String::new(),
        };
        format!(
            "HTTP/1.1 {code} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{challenge}\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

impl Status {
    /// The code, and its phrase.
    pub(crate) fn words(self) -> (u16, &'static str) {
        match self {
            Status::BadRequest => (400, "Bad Request"),
            Status::Forbidden => (403, "Forbidden"),
            Status::AuthenticationRequired => (407, "Proxy Authentication Required"),
            Status::Timeout => (408, "Request Timeout"),
            Status::HeadTooLarge => (431, "Request Header Fields Too Large"),
            Status::NotImplemented => (501, "Not Implemented"),
            Status::BadGateway => (502, "Bad Gateway"),
            Status::TooManyRequests => (429, "Too Many Requests"),
            Status::Unavailable => (503, "Service Unavailable"),
            Status::GatewayTimeout => (504, "Gateway Timeout"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
            Status::LoopDetected => (508, "Loop Detected"),
        }
    }
}

#[cfg(test)]
mod tests;
