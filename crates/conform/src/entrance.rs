//! The ways into a proxy, from the client's side.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time;

use super::introduction::{HeaderVersion, Introduction};
use super::message::{self, Decoder, Dialogue, Framing, HEAD_BYTES_MAX, Of};
use super::socket::{read_some, write_all};

/// The ways in which a client tells the proxy where it wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayIn {
    /// HTTP CONNECT (RFC 9110 section 9.3.6).
    Http,
    /// HTTP requests for whole URLs (RFC 9112 section 3.2.2).
    Absolute,
    /// SOCKS5 CONNECT (RFC 1928).
    Socks5,
    /// Clients say nothing: the proxy connects to one server.
    Forward,
    /// Clients connect to the server itself, and the proxy stands between.
    Transparent,
}

impl WayIn {
    /// Every way in.
    pub const ALL: [WayIn; 5] = [WayIn::Http, WayIn::Absolute, WayIn::Socks5, WayIn::Forward, WayIn::Transparent];

    /// The name of this way, as command lines have it.
    pub fn name(self) -> &'static str {
        match self {
            WayIn::Http => "http",
            WayIn::Absolute => "absolute",
            WayIn::Socks5 => "socks5",
            WayIn::Forward => "forward",
            WayIn::Transparent => "transparent",
        }
    }

    /// This way in a line, for people who choose one.
    pub fn meaning(self) -> &'static str {
        match self {
            WayIn::Http => "HTTP CONNECT (RFC 9110 section 9.3.6)",
            WayIn::Absolute => "HTTP requests for whole URLs (RFC 9112 section 3.2.2)",
            WayIn::Socks5 => "SOCKS5 CONNECT (RFC 1928)",
            WayIn::Forward => "Not at all: the proxy connects to one server, that of --origin-address",
            WayIn::Transparent => "Not at all: the client connects to the server, and the proxy stands between",
        }
    }
}

/// The address at which clients connect, and the names that they give.
#[derive(Clone, Debug)]
pub struct Entrance {
    /// The way in which they tell the proxy where they want to go.
    pub way: WayIn,
    /// The proxy's address; none in the transparent way.
    pub proxy: Option<SocketAddr>,
    /// Name and password, if the proxy wants them.
    pub user: Option<(String, String)>,
    /// The version of the PROXY header with which they say who they are, if they do.
    pub introduces: Option<HeaderVersion>,
}

/// A connection through the proxy.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    /// Bytes that followed the proxy's answer: the server's first.
    pub(crate) came: Vec<u8>,
    /// Goes along with what the client says first.
    pub(crate) first: Vec<u8>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// The proxy said so, in its protocol.
    Answered(String),
    /// The connection was reset.
    Reset,
    /// There was no answer, or none that the protocol knows.
    Failed(String),
}

impl From<io::Error> for NoConnection {
    fn from(error: io::Error) -> NoConnection {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => NoConnection::Reset,
            _ => NoConnection::Failed(error.to_string()),
        }
    }
}

/// The bytes that are shown of an answer that makes no sense.
const BEGINNING_BYTES: usize = 40;
/// The pause between two pieces of a PROXY header.
const BETWEEN_PIECES: Duration = Duration::from_millis(2);

impl Entrance {
    /// Connects to `server` through the proxy, and sends `early` along with the request. In the way `absolute` the request
    /// itself is left to whoever speaks on the connection.
    pub(crate) async fn connect(
        &self,
        server: SocketAddr,
        early: &[u8],
        introduction: Option<&Introduction>,
    ) -> Result<Connected, NoConnection> {
        let (stream, first) = self.open(server, introduction).await?;
        let came = match self.way {
            WayIn::Absolute => return Ok(Connected { stream, came: Vec::new(), first }),
            WayIn::Forward | WayIn::Transparent => {
                write_all(&stream, &[&first, early].concat()).await?;
                Vec::new()
            }
            WayIn::Http => self.ask_http(&stream, first, server, early).await?,
            WayIn::Socks5 => {
                self.ask_socks5(&stream, first, server, early).await?;
                Vec::new()
            }
        };
        Ok(Connected { stream, came, first: Vec::new() })
    }

    /// Connects to the proxy. What is left of the introduction goes along with what is said first.
    async fn open(
        &self,
        server: SocketAddr,
        introduction: Option<&Introduction>,
    ) -> Result<(TcpStream, Vec<u8>), NoConnection> {
        let at = self.proxy.unwrap_or(server);
        let stream = TcpStream::connect(at).await.map_err(|error| match NoConnection::from(error) {
            NoConnection::Failed(reason) => NoConnection::Failed(format!("connect to {at}: {reason}")),
            other => other,
        })?;
        // A small write is a segment of its own, as in many programs.
        stream.set_nodelay(true)?;
        let Some(introduction) = introduction else { return Ok((stream, Vec::new())) };
        let mut said = 0;
        for &cut in &introduction.cuts {
            write_all(&stream, &introduction.header[said..cut]).await?;
            said = cut;
            time::sleep(BETWEEN_PIECES).await;
        }
        Ok((stream, introduction.header[said..].to_vec()))
    }

    /// Asks for a whole URL of `server`, which refuses, and returns the answer.
    pub(crate) async fn ask_absolute(&self, server: SocketAddr, introduction: Option<&Introduction>) -> NoConnection {
        let ask = async {
            let (stream, first) = self.open(server, introduction).await?;
            let get =
                Dialogue { method: "GET", request: Framing::Empty, answer: Framing::Empty, fields: 0, has_hop: false };
            let request = get.request_head(&server.to_string(), &message::path(0, 0), &self.authorization());
            write_all(&stream, &[first, request].concat()).await?;
            let mut decoder = Decoder::new(Of::Answer { to_head: false });
            let mut came = Vec::new();
            while decoder.head().is_none() && decoder.broken().is_none() {
                let before = came.len();
                if read_some(&stream, &mut came, 4_096).await? == 0 {
                    return Err(cut_off(&came));
                }
                decoder.take(&came[before..], &mut |_| {});
            }
            let line = decoder.head().map(|head| (head.status(), head.line.clone()));
            match line {
                Some((Some(400..=599), line)) => Ok(NoConnection::Answered(line)),
                Some((_, line)) => Ok(NoConnection::Failed(format!("it was answered with {line:?}"))),
                None => Ok(NoConnection::Failed(decoder.broken().unwrap_or_default().to_owned())),
            }
        };
        ask.await.unwrap_or_else(|refusal| refusal)
    }

    /// The field that says who asks.
    pub(crate) fn authorization(&self) -> String {
        self.user.as_ref().map_or_else(String::new, |(name, password)| {
            format!("Proxy-Authorization: Basic {}\r\n", base64(format!("{name}:{password}").as_bytes()))
        })
    }

    async fn ask_http(
        &self,
        stream: &TcpStream,
        first: Vec<u8>,
        server: SocketAddr,
        early: &[u8],
    ) -> Result<Vec<u8>, NoConnection> {
        let authorization = self.authorization();
        let mut request = first;
        request.extend(format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n{authorization}\r\n").into_bytes());
        request.extend_from_slice(early);
        write_all(stream, &request).await?;
        let mut answer = Vec::new();
        let end = loop {
            if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if answer.len() > HEAD_BYTES_MAX {
                return Err(NoConnection::Failed(format!("the answer's head is longer than {HEAD_BYTES_MAX} bytes")));
            }
            if read_some(stream, &mut answer, 4_096).await? == 0 {
                return Err(cut_off(&answer));
            }
        };
        let came = answer.split_off(end);
        let head = String::from_utf8_lossy(&answer);
        let line = head.lines().next().unwrap_or_default();
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|code| code.parse().ok());
        match status {
            Some(200..=299_u16) => Ok(came),
            Some(400..=599) => Err(NoConnection::Answered(line.to_owned())),
            _ => Err(NoConnection::Failed(format!("expected an HTTP status line, got {line:?}"))),
        }
    }

    async fn ask_socks5(
        &self,
        stream: &TcpStream,
        first: Vec<u8>,
        server: SocketAddr,
        early: &[u8],
    ) -> Result<(), NoConnection> {
        let method = if self.user.is_some() { 2 } else { 0 };
        write_all(stream, &[first, vec![5, 1, method]].concat()).await?;
        let chosen = read_exactly(stream, 2).await?;
        match (chosen[0], chosen[1]) {
            (5, chosen) if chosen == method => {}
            // RFC 1928 section 3.
            (5, 0xff) => return Err(NoConnection::Answered(format!("it takes no clients by method {method}"))),
            (5, other) => return Err(NoConnection::Failed(format!("method {method} was offered, and {other} chosen"))),
            _ => return Err(NoConnection::Failed(format!("expected an answer of SOCKS5, got {chosen:?}"))),
        }
        if let Some((name, password)) = &self.user {
            // RFC 1929 section 2.
            let mut request = vec![1, name.len() as u8];
            request.extend_from_slice(name.as_bytes());
            request.push(password.len() as u8);
            request.extend_from_slice(password.as_bytes());
            write_all(stream, &request).await?;
            let answer = read_exactly(stream, 2).await?;
            if answer[1] != 0 {
                return Err(NoConnection::Answered("name and password were refused".to_owned()));
            }
        }
        let mut request = vec![5, 1, 0];
        match server.ip() {
            IpAddr::V4(ip) => {
                request.push(1);
                request.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                request.push(4);
                request.extend_from_slice(&ip.octets());
            }
        }
        request.extend_from_slice(&server.port().to_be_bytes());
        request.extend_from_slice(early);
        write_all(stream, &request).await?;
        // Exactly the answer: what follows is the server's.
        let head = read_exactly(stream, 4).await?;
        let rest = match (head[0], head[3]) {
            (5, 1) => 4 + 2,
            (5, 4) => 16 + 2,
            (5, 3) => usize::from(read_exactly(stream, 1).await?[0]) + 2,
            _ => return Err(NoConnection::Failed(format!("expected an answer of SOCKS5, got {head:?}"))),
        };
        // After a refusal the proxy may close before all of the answer has come; its code has.
        if head[1] != 0 {
            return Err(NoConnection::Answered(format!("SOCKS5 reply {}", head[1])));
        }
        read_exactly(stream, rest).await?;
        Ok(())
    }
}

async fn read_exactly(stream: &TcpStream, bytes: usize) -> Result<Vec<u8>, NoConnection> {
    let mut read = Vec::new();
    while read.len() < bytes {
        let left = bytes - read.len();
        if read_some(stream, &mut read, left).await? == 0 {
            return Err(cut_off(&read));
        }
    }
    Ok(read)
}

/// The failure of an answer of which no more than its beginning came.
fn cut_off(answer: &[u8]) -> NoConnection {
    let beginning = String::from_utf8_lossy(&answer[..answer.len().min(BEGINNING_BYTES)]);
    NoConnection::Failed(match answer.len() {
        0 => "the proxy closed without an answer".to_owned(),
        _ => format!("the proxy closed before its answer ended, after {beginning:?}"),
    })
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let sextet = (word >> (18 - 6 * i)) & 63;
            text.push(if i <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648_section_10() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
