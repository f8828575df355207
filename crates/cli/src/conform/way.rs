//! The ways into a proxy, from the client's side.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use tokio::net::TcpStream;
use tokio::time;

use super::introduction::{Introduction, Version};
use super::message::{self, Decoder, Dialogue, Framing, HEAD_BYTES_MAX, Of};

/// How a client tells the proxy where it wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// HTTP CONNECT (RFC 9110 section 9.3.6)
    Http,
    /// HTTP requests for whole URLs (RFC 9112 section 3.2.2)
    Absolute,
    /// SOCKS5 CONNECT (RFC 1928)
    Socks5,
    /// Not at all: the proxy connects to one server, that of --origin-address
    Forward,
    /// Not at all: the client connects to the server, and the proxy stands between
    Transparent,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Http => "http",
            Way::Absolute => "absolute",
            Way::Socks5 => "socks5",
            Way::Forward => "forward",
            Way::Transparent => "transparent",
        }
    }
}

/// Where clients connect, and as whom.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    pub(super) way: Way,
    /// None in the transparent way.
    pub(super) proxy: Option<SocketAddr>,
    /// Name and password, if the proxy wants them.
    pub(super) user: Option<(String, String)>,
    /// They say who they are with a PROXY header of this version.
    pub(super) introduces: Option<Version>,
}

/// A connection through the proxy.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) stream: TcpStream,
    /// Bytes that followed the proxy's answer: the server's first.
    pub(super) came: Vec<u8>,
    /// Goes along with what the client says first.
    pub(super) first: Vec<u8>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The proxy said so, in its protocol.
    Answered(String),
    /// The connection was reset.
    Reset,
    /// There was no answer, or none that the protocol knows.
    Failed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Refusal::Reset,
            _ => Refusal::Failed(error.to_string()),
        }
    }
}

/// So much of an answer that makes no sense is shown.
const BEGINNING_BYTES: usize = 40;
/// Between two pieces of a PROXY header.
const BETWEEN_PIECES: Duration = Duration::from_millis(2);

impl Entrance {
    /// Connects to `server` through the proxy, and sends `early` along with the request. In the way `absolute` the request
    /// itself is left to whoever speaks on the connection.
    pub(super) async fn connect(
        &self,
        server: SocketAddr,
        early: &[u8],
        introduction: Option<&Introduction>,
    ) -> Result<Connected, Refusal> {
        let (stream, first) = self.open(server, introduction).await?;
        let came = match self.way {
            Way::Absolute => return Ok(Connected { stream, came: Vec::new(), first }),
            Way::Forward | Way::Transparent => {
                write_all(&stream, &[&first, early].concat()).await?;
                Vec::new()
            }
            Way::Http => self.ask_http(&stream, first, server, early).await?,
            Way::Socks5 => {
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
    ) -> Result<(TcpStream, Vec<u8>), Refusal> {
        let at = self.proxy.unwrap_or(server);
        let stream = TcpStream::connect(at).await.map_err(|error| match Refusal::from(error) {
            Refusal::Failed(reason) => Refusal::Failed(format!("connect to {at}: {reason}")),
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

    /// What a request for a whole URL of `server` is answered with, for a server that refuses.
    pub(super) async fn ask_absolute(&self, server: SocketAddr, introduction: Option<&Introduction>) -> Refusal {
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
                Some((Some(400..=599), line)) => Ok(Refusal::Answered(line)),
                Some((_, line)) => Ok(Refusal::Failed(format!("it was answered with {line:?}"))),
                None => Ok(Refusal::Failed(decoder.broken().unwrap_or_default().to_owned())),
            }
        };
        ask.await.unwrap_or_else(|refusal| refusal)
    }

    /// The field that says who asks.
    pub(super) fn authorization(&self) -> String {
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
    ) -> Result<Vec<u8>, Refusal> {
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
                return Err(Refusal::Failed(format!("the answer's head is longer than {HEAD_BYTES_MAX} bytes")));
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
            Some(400..=599) => Err(Refusal::Answered(line.to_owned())),
            _ => Err(Refusal::Failed(format!("expected an HTTP status line, got {line:?}"))),
        }
    }

    async fn ask_socks5(
        &self,
        stream: &TcpStream,
        first: Vec<u8>,
        server: SocketAddr,
        early: &[u8],
    ) -> Result<(), Refusal> {
        let method = if self.user.is_some() { 2 } else { 0 };
        write_all(stream, &[first, vec![5, 1, method]].concat()).await?;
        let chosen = read_exactly(stream, 2).await?;
        match (chosen[0], chosen[1]) {
            (5, chosen) if chosen == method => {}
            // RFC 1928 section 3.
            (5, 0xff) => return Err(Refusal::Answered(format!("it takes no clients by method {method}"))),
            (5, other) => return Err(Refusal::Failed(format!("method {method} was offered, and {other} chosen"))),
            _ => return Err(Refusal::Failed(format!("expected an answer of SOCKS5, got {chosen:?}"))),
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
                return Err(Refusal::Answered("name and password were refused".to_owned()));
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
            _ => return Err(Refusal::Failed(format!("expected an answer of SOCKS5, got {head:?}"))),
        };
        // After a refusal the proxy may close before all of the answer has come; its code has.
        if head[1] != 0 {
            return Err(Refusal::Answered(format!("SOCKS5 reply {}", head[1])));
        }
        read_exactly(stream, rest).await?;
        Ok(())
    }
}

pub(super) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Appends what has come, at most `most` bytes, and says how many they are: none at the end.
pub(super) async fn read_some(stream: &TcpStream, into: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let mut buffer = vec![0; most];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut buffer) {
            Ok(bytes) => {
                into.extend_from_slice(&buffer[..bytes]);
                return Ok(bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn read_exactly(stream: &TcpStream, bytes: usize) -> Result<Vec<u8>, Refusal> {
    let mut read = Vec::new();
    while read.len() < bytes {
        let left = bytes - read.len();
        if read_some(stream, &mut read, left).await? == 0 {
            return Err(cut_off(&read));
        }
    }
    Ok(read)
}

/// Of an answer no more than its beginning came.
fn cut_off(answer: &[u8]) -> Refusal {
    let beginning = String::from_utf8_lossy(&answer[..answer.len().min(BEGINNING_BYTES)]);
    Refusal::Failed(match answer.len() {
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
