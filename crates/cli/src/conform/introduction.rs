//! PROXY headers (proxy-protocol.txt of HAProxy, versions 1 and 2): what a client tells a proxy, and a proxy a server.
//!
//! Written and read here without the proxy's own code, which is what is judged.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::ValueEnum;
use headend_engine::rng::Rng;
use tokio::net::TcpStream;

use super::judge::Fault;
use super::way;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Version {
    /// A line of text
    V1,
    /// Binary
    V2,
}

impl Version {
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
}

/// Section 2.2: what a header of version 2 begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Section 2.1: the longest line, its end included.
const LINE_BYTES_MAX: usize = 107;

/// What a client says before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) header: Vec<u8>,
    /// Whom it names; nobody if the client speaks for itself.
    pub(super) client: Option<SocketAddr>,
    /// Places at which the header is cut into writes of their own. What is behind the last goes along with what follows.
    pub(super) cuts: Vec<usize>,
}

impl Introduction {
    /// That of a connection of a schedule: from an address for documentation (RFC 5737, RFC 3849), or from nobody. In one
    /// write unless it is to come in pieces: section 2 asks senders for that, and receivers only to be tolerant.
    pub(super) fn new(seed: u64, connection: usize, version: Version, in_pieces: bool) -> Introduction {
        let mut rng = Rng::named(seed, &format!("conform introduction {connection}"));
        let mut between = |from: u64, to: u64| from + rng.below(to - from + 1);
        let ports = (between(1, 65_535) as u16, between(1, 65_535) as u16);
        let host = between(1, 254);
        let (from, to): (IpAddr, IpAddr) = if between(0, 1) == 0 {
            (Ipv4Addr::new(192, 0, 2, host as u8).into(), Ipv4Addr::new(198, 51, 100, 1).into())
        } else {
            let v6 = |last: u64| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last as u16));
            (v6(host), v6(0xffff))
        };
        let client = (between(0, 7) > 0).then(|| SocketAddr::new(from, ports.0));
        let mut header = match (version, client) {
            (Version::V1, Some(from)) => line(from, SocketAddr::new(to, ports.1)),
            (Version::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
            (Version::V2, Some(from)) => binary(from, SocketAddr::new(to, ports.1)),
            // LOCAL.
            (Version::V2, None) => [SIGNATURE.as_slice(), &[0x20, 0, 0, 0]].concat(),
        };
        if version == Version::V2 && client.is_some() && between(0, 1) == 0 {
            // Section 2.2.4: an addition without a meaning (PP2_TYPE_NOOP), which is to be passed over.
            let len = between(0, 200) as u8;
            header.extend([4, 0, len]);
            header.extend(vec![0x5a; usize::from(len)]);
            let block = (header.len() - 16) as u16;
            header[14..16].copy_from_slice(&block.to_be_bytes());
        }
        let len = header.len() as u64;
        let mut cuts: Vec<usize> = match in_pieces {
            true => (0..between(1, 3)).map(|_| between(1, len - 1) as usize).collect(),
            false => Vec::new(),
        };
        cuts.sort_unstable();
        cuts.dedup();
        if between(0, 1) == 0 {
            // What follows comes apart.
            cuts.push(header.len());
        }
        Introduction { header, client, cuts }
    }
}

/// Section 2.1.
fn line(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

/// Section 2.2: version 2, command PROXY, over TCP.
fn binary(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let block =
        [octets(from.ip()), octets(to.ip()), from.port().to_be_bytes().to_vec(), to.port().to_be_bytes().to_vec()];
    let block = block.concat();
    let family = if from.is_ipv4() { 0x11 } else { 0x21 };
    [SIGNATURE.as_slice(), &[0x21, family], &(block.len() as u16).to_be_bytes(), &block].concat()
}

/// Beginnings that are no header: each is wrong by its last byte at the latest.
pub(super) fn wrong(seed: u64) -> Vec<u8> {
    let v2 = |after: &[u8]| [SIGNATURE.as_slice(), after].concat();
    let wrong = [
        b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n".to_vec(),
        [b"PROXY TCP4 ".as_slice(), &[b'1'; 2 * LINE_BYTES_MAX]].concat(),
        b"SSH-2.0-none\r\n none\r\n".to_vec(),
        v2(&[0x31, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2]),
        v2(&[0x2f, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2]),
        v2(&[0x21, 0x11, 0, 4, 192, 0, 2, 1]),
    ];
    let mut rng = Rng::named(seed, "conform wrong header");
    wrong[rng.below(wrong.len() as u64) as usize].clone()
}

/// What a server was told before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// This client.
    Client(SocketAddr),
    /// That the proxy speaks for itself, or does not know.
    Nobody,
    /// No header: why.
    Nothing(String),
}

/// Reads a header. Of one that is none, what was read of it stays in `came`: it is the client's own.
pub(super) async fn read(stream: &TcpStream, version: Version, came: &mut Vec<u8>) -> io::Result<Told> {
    let told = take(stream, version, came).await?;
    if !matches!(told, Told::Nothing(_)) {
        came.clear();
    }
    Ok(told)
}

async fn take(stream: &TcpStream, version: Version, came: &mut Vec<u8>) -> io::Result<Told> {
    let fill = async |came: &mut Vec<u8>, len: usize| {
        while came.len() < len {
            let left = len - came.len();
            if way::read_some(stream, came, left).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        io::Result::Ok(())
    };
    let nothing = |came: &[u8]| Ok(Told::Nothing(format!("it began with {:?}", String::from_utf8_lossy(came))));
    match version {
        Version::V1 => {
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
        Version::V2 => {
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
    /// What is wrong with it, if the client is `named` in its own header, or speaks for itself at `own` address.
    pub(super) fn judge(&self, named: Option<SocketAddr>, own: SocketAddr) -> Option<Fault> {
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

    #[test]
    fn the_text_is_that_of_the_specification_and_both_forms_are_read_as_they_are_written() {
        let ends = [("192.168.0.1:56324", "192.168.0.11:443"), ("[2001:db8::1]:1", "[2001:db8::2]:65535")];
        let [(from, to), _] = ends.map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()));
        assert_eq!(line(from, to), b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        for (from, to) in ends.map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap())) {
            assert_eq!(told_by_line(&line(from, to)), Told::Client(from));
            assert_eq!(told_by_block(&binary(from, to)), Told::Client(from));
        }
    }

    #[test]
    fn introductions_of_many_seeds_name_whom_they_say_and_are_cut_within_themselves() {
        for seed in 0..500 {
            for version in [Version::V1, Version::V2] {
                let introduction = Introduction::new(seed, 0, version, true);
                let told = match version {
                    Version::V1 => told_by_line(&introduction.header),
                    Version::V2 => told_by_block(&introduction.header),
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
