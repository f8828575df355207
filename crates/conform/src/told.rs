//! The reader of PROXY headers for the server: which client it was told of.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

use super::fault::Fault;
use super::introduction::{HeaderVersion, LINE_BYTES_MAX, SIGNATURE};
use super::socket;

/// The client that a server was told of before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// This client.
    Client(SocketAddr),
    /// The proxy speaks for itself, or does not know.
    Nobody,
    /// No header: why.
    Nothing(String),
}

/// Reads a header. Of one that is none, what was read of it stays in `came`: it is the client's own.
pub(crate) async fn read(stream: &TcpStream, version: HeaderVersion, came: &mut Vec<u8>) -> io::Result<Told> {
    let told = take(stream, version, came).await?;
    if !matches!(told, Told::Nothing(_)) {
        came.clear();
    }
    Ok(told)
}

async fn take(stream: &TcpStream, version: HeaderVersion, came: &mut Vec<u8>) -> io::Result<Told> {
    let fill = async |came: &mut Vec<u8>, len: usize| {
        while came.len() < len {
            let left = len - came.len();
            if socket::read_some(stream, came, left).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        io::Result::Ok(())
    };
    let nothing = |came: &[u8]| Ok(Told::Nothing(format!("it began with {:?}", String::from_utf8_lossy(came))));
    match version {
        HeaderVersion::V1 => {
            // Byte by byte: what follows the line is the client's.
            while !came.ends_with(b"\r\n") {
                fill(came, came.len() + 1).await?;
                let begin = came.len().min(6);
                if came[..begin] != b"PROXY "[..begin] || came.len() > LINE_BYTES_MAX {
                    return nothing(came);
                }
            }
            Ok(told_by_line(came))
        }
        HeaderVersion::V2 => {
            for len in 1..=SIGNATURE.len() {
                fill(came, len).await?;
                if came[..] != SIGNATURE[..len] {
                    return nothing(came);
                }
            }
            fill(came, 16).await?;
            let len = usize::from(u16::from_be_bytes([came[14], came[15]]));
            fill(came, 16 + len).await?;
            Ok(told_by_block(came))
        }
    }
}

fn told_by_line(line: &[u8]) -> Told {
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.trim_end_matches("\r\n").split(' ').collect();
    let client = match words.as_slice() {
        ["PROXY", "UNKNOWN", ..] => return Told::Nobody,
        ["PROXY", family @ ("TCP4" | "TCP6"), from, to, from_port, to_port] => {
            let end = |ip: &str, port: &str| Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?));
            let fits = |end: &SocketAddr| end.is_ipv4() == (*family == "TCP4");
            end(to, to_port).filter(fits).and_then(|_| end(from, from_port).filter(fits))
        }
        _ => None,
    };
    client.map_or_else(|| Told::Nothing(format!("{text:?} is no header")), Told::Client)
}

fn told_by_block(header: &[u8]) -> Told {
    let block = &header[16..];
    let at = |range: std::ops::Range<usize>| block.get(range).unwrap_or_default();
    let port = |bytes: &[u8]| bytes.try_into().map(u16::from_be_bytes).ok();
    let v4 = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    let v6 = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok();
    let client = match (header[12], header[13]) {
        (0x20, _) => return Told::Nobody,
        (0x21, 0x11) => v4(at(0..4)).zip(v4(at(4..8))).zip(port(at(8..10)).zip(port(at(10..12)))),
        (0x21, 0x21) => v6(at(0..16)).zip(v6(at(16..32))).zip(port(at(32..34)).zip(port(at(34..36)))),
        _ => None,
    };
    match client {
        Some(((ip, _), (port, _))) => Told::Client(SocketAddr::new(ip, port)),
        None => Told::Nothing(format!("{header:?} is no header")),
    }
}

impl Told {
    /// The fault in it, if the client is `named` in its own header, or speaks for itself at `own` address.
    pub(crate) fn judge(&self, named: Option<SocketAddr>, own: SocketAddr) -> Option<Fault> {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        match self {
            Told::Nothing(why) => Some(Fault::new("client-not-told", why.clone())),
            // Who speaks for nobody may be passed on as that.
            Told::Nobody if named.is_none() => None,
            Told::Nobody => Some(Fault::new("client-not-told", "the header names nobody")),
            Told::Client(told) => {
                let expected = canonical(named.unwrap_or(own));
                (canonical(*told) != expected)
                    .then(|| Fault::new("client-wrong", format!("the header names {told}, and it is {expected}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::introduction::{Introduction, binary, line};

    #[test]
    fn both_forms_of_the_header_are_read_as_they_are_written() {
        let ends = [("192.168.0.1:56324", "192.168.0.11:443"), ("[2001:db8::1]:1", "[2001:db8::2]:65535")];
        let [(from, to), _] = ends.map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()));
        assert_eq!(line(from, to), b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        for (from, to) in ends.map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap())) {
            assert_eq!(told_by_line(&line(from, to)), Told::Client(from));
            assert_eq!(told_by_block(&binary(from, to)), Told::Client(from));
        }
    }

    #[test]
    fn introductions_name_their_client_and_are_cut_within_themselves() {
        for seed in 0..500 {
            for version in [HeaderVersion::V1, HeaderVersion::V2] {
                let introduction = Introduction::new(seed, 0, version, true);
                let told = match version {
                    HeaderVersion::V1 => told_by_line(&introduction.header),
                    HeaderVersion::V2 => told_by_block(&introduction.header),
                };
                let expected = introduction.client.map_or(Told::Nobody, Told::Client);
                assert_eq!(told, expected, "seed {seed}, {version:?}");
                assert!(
                    introduction.cuts.iter().all(|cut| (1..=introduction.header.len()).contains(cut)),
                    "seed {seed}"
                );
                assert_eq!(introduction, Introduction::new(seed, 0, version, true), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_server_that_is_told_nothing_or_another_client_shows_a_fault() {
        let (own, named): (SocketAddr, SocketAddr) = ("127.0.0.1:5".parse().unwrap(), "192.0.2.1:7".parse().unwrap());
        let name = |told: Told, named| told.judge(named, own).map(|fault| fault.name);
        assert_eq!(name(Told::Client(named), Some(named)), None);
        assert_eq!(name(Told::Client(own), None), None);
        assert_eq!(name(Told::Client("[::ffff:127.0.0.1]:5".parse().unwrap()), None), None);
        assert_eq!(name(Told::Nobody, None), None);
        assert_eq!(name(Told::Client(own), Some(named)), Some("client-wrong"));
        assert_eq!(name(Told::Nobody, Some(named)), Some("client-not-told"));
        assert_eq!(name(Told::Nothing(String::new()), None), Some("client-not-told"));
    }
}
