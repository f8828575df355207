//! The head of a request to an HTTP proxy: CONNECT (RFC 9110 s9.3.6) and the absolute form (RFC 9112 s3.2.2).
//!
//! One request a connection. A request in absolute form is sent on in origin form with `Connection: close`, so that
//! nothing after its answer can be taken for another one, and no two clients ever share a connection to a server: what
//! request smuggling lives on. Where a body ends must be told in one way only.

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
    /// Bytes of the head; what follows goes to the server as it is.
    pub consumed: usize,
    /// The destination.
    pub destination: Destination,
    /// The bytes that are sent to the server before anything else: empty for CONNECT.
    pub head: Vec<u8>,
    /// The part of the client's bytes after the head that belongs to the request.
    pub body: Body,
    /// The name and password of the client, if it gave them.
    pub credentials: Option<Credentials>,
}

/// The way in which the end of a request's body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, or so many bytes.
    Length(u64),
    /// It is in chunks (RFC 9112 s7.1); all that the client sends goes to this one server.
    Chunked,
    /// No body but a tunnel: all that the client sends.
    Tunnel,
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
}

/// The answer to a CONNECT that got through.
pub const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// More fields than a browser sends, and a bound on what a request costs to read.
const FIELDS_MAX: usize = 100;
/// Fields that concern one connection and go no further (RFC 9110 s7.6.1). Transfer-Encoding does, as the body passes
/// untouched.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "proxy-authorization",
    "proxy-authenticate",
    "host",
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
    if method == "CONNECT" {
        let destination =
            Destination::read(target.as_bytes()).map_err(|why| Refusal::bad(format!("CONNECT: {why}")))?;
        if field(parsed.headers, "transfer-encoding").next().is_some() {
            // RFC 9110 s9.3.6: a CONNECT has no body; whoever sends one means something else by the bytes that follow.
            return Err(Refusal::bad("a CONNECT has no body, and this one says that it has"));
        }
        if content_length(parsed.headers)?.is_some_and(|length| length > 0) {
            return Err(Refusal::bad("a CONNECT has no body, and this one says that it has"));
        }
        return Ok(Some(Request { consumed, destination, head: Vec::new(), body: Body::Tunnel, credentials }));
    }
    let absolute = Absolute::read(target)?;
    let body = body(parsed.headers)?;
    let head = origin_form(method, &absolute, minor, parsed.headers)?;
    Ok(Some(Request { consumed, destination: absolute.destination, head, body, credentials }))
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

fn origin_form(
    method: &str,
    target: &Absolute<'_>,
    minor: u8,
    fields: &[httparse::Header<'_>],
) -> Result<Vec<u8>, Refusal> {
    let mut nominated: Vec<String> = Vec::new();
    for value in field(fields, "connection").chain(field(fields, "proxy-connection")) {
        let value = std::str::from_utf8(value).map_err(|_| Refusal::bad("Connection is not text"))?;
        nominated.extend(value.split(',').map(|name| name.trim().to_ascii_lowercase()));
    }
    if let Some(name) = nominated.iter().find(|name| NEVER_NOMINATED.contains(&name.as_str())) {
        return Err(Refusal::bad(format!("Connection names {name}, which is not of this connection alone")));
    }
    let path = match target.rest {
        // RFC 9112 s3.2.4: OPTIONS for the server as a whole.
        "" if method == "OPTIONS" => "*".to_owned(),
        rest if rest.starts_with('/') => rest.to_owned(),
        rest => format!("/{rest}"),
    };
    // RFC 9112 s3.2.2: Host is what the target says, whatever the client's Host was.
    let mut head = format!("{method} {path} HTTP/1.{minor}\r\nHost: {}\r\n", target.authority).into_bytes();
    for httparse::Header { name, value } in fields {
        let lower = name.to_ascii_lowercase();
        if HOP_BY_HOP.contains(&lower.as_str()) || nominated.contains(&lower) {
            continue;
        }
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    // RFC 9110 s7.6.3: a proxy says that it was there.
    head.extend_from_slice(format!("Via: 1.{minor} headend\r\nConnection: close\r\n\r\n").as_bytes());
    Ok(head)
}

fn credentials(fields: &[httparse::Header<'_>]) -> Result<Option<Credentials>, Refusal> {
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

fn field<'a>(fields: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

impl Refusal {
    /// An answer with `status` that tells `why`.
    pub fn new(status: Status, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    fn bad(why: impl Into<String>) -> Refusal {
        Refusal::new(Status::BadRequest, why)
    }

    /// The whole answer, after which the connection is closed.
    pub fn answer(&self) -> Vec<u8> {
        let (code, phrase) = self.status.words();
        let body = format!("headend: {}\n", self.why);
        let challenge = match self.status {
            Status::AuthenticationRequired => "Proxy-Authenticate: Basic realm=\"headend\", charset=\"UTF-8\"\r\n",
            _ => "",
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
    fn words(self) -> (u16, &'static str) {
        match self {
            Status::BadRequest => (400, "Bad Request"),
            Status::Forbidden => (403, "Forbidden"),
            Status::AuthenticationRequired => (407, "Proxy Authentication Required"),
            Status::Timeout => (408, "Request Timeout"),
            Status::HeadTooLarge => (431, "Request Header Fields Too Large"),
            Status::NotImplemented => (501, "Not Implemented"),
            Status::BadGateway => (502, "Bad Gateway"),
            Status::Unavailable => (503, "Service Unavailable"),
            Status::GatewayTimeout => (504, "Gateway Timeout"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

#[cfg(test)]
mod tests;
