//! What is said at the beginning of a stream: where it is to go, and whether it got there.
//!
//! The client says a length of two bytes and the destination as text, with `udp ` before it for datagrams. The server answers with a byte: 0, and bytes flow; or the
//! kind of a failure, and a length of two bytes and the reason in words.

use std::io;

use headend_host::proxy::inbound::Destination;
use headend_host::proxy::{Failure, FailureKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest destination: what is before it, a name of 253 bytes, a colon, and a port.
const DESTINATION_MAX: usize = 264;
/// What is said before a destination of datagrams.
const DATAGRAMS: &str = "udp ";
/// The longest reason.
const REASON_MAX: usize = 500;

/// Kinds of failure, by their numbers less one.
const KINDS: [FailureKind; 8] = [
    FailureKind::Denied,
    FailureKind::NoAddress,
    FailureKind::Refused,
    FailureKind::NetworkUnreachable,
    FailureKind::HostUnreachable,
    FailureKind::TimedOut,
    FailureKind::Own,
    FailureKind::TooManyRequests,
];

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The bytes of a TCP connection.
    Bytes,
    /// A flow of UDP, whose datagrams are frames beside the stream.
    Datagrams,
}

/// What a client says.
pub(super) fn request(kind: Kind, to: &Destination) -> Vec<u8> {
    let before = if kind == Kind::Datagrams { DATAGRAMS } else { "" };
    let text = format!("{before}{to}");
    let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Reads what a client says.
pub(super) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Kind, Destination)> {
    let len = usize::from(stream.read_u16().await?);
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if len > DESTINATION_MAX {
        return Err(wrong("a destination of more than 264 bytes"));
    }
    let mut text = vec![0; len];
    stream.read_exact(&mut text).await?;
    let (kind, to) = match text.strip_prefix(DATAGRAMS.as_bytes()) {
        Some(to) => (Kind::Datagrams, to),
        None => (Kind::Bytes, &text[..]),
    };
    Ok((kind, Destination::read(to).map_err(wrong)?))
}

/// Tells a client that the server is reached, or why not.
pub(super) async fn answer(stream: &mut (impl AsyncWrite + Unpin), failure: Option<&Failure>) -> io::Result<()> {
    let Some(failure) = failure else { return stream.write_all(&[0]).await };
    let number = 1 + KINDS.iter().position(|kind| *kind == failure.kind).expect("every kind has a number");
    let reason = failure.told();
    let cut = (0..=reason.len().min(REASON_MAX)).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
    let mut bytes = vec![number as u8];
    bytes.extend_from_slice(&(cut as u16).to_be_bytes());
    bytes.extend_from_slice(&reason.as_bytes()[..cut]);
    stream.write_all(&bytes).await
}

/// Reads a server's answer: nothing if the destination is reached.
pub(super) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Failure>> {
    let number = stream.read_u8().await?;
    let Some(at) = usize::from(number).checked_sub(1) else { return Ok(None) };
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "an answer of another version of the tunnel");
    let kind = *KINDS.get(at).ok_or_else(wrong)?;
    let len = usize::from(stream.read_u16().await?);
    if len > REASON_MAX {
        return Err(wrong());
    }
    let mut reason = vec![0; len];
    stream.read_exact(&mut reason).await?;
    // Nothing that a log or an answer would take for something else.
    let reason = String::from_utf8_lossy(&reason).replace(char::is_control, " ");
    Ok(Some(Failure::new(kind, reason)))
}
