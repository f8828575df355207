//! PROXY headers (proxy-protocol.txt of HAProxy, versions 1 and 2): what a client tells a proxy, and a proxy a server.
//!
//! Written and read here without the proxy's own code, which is what is judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use headend_engine::rng::Rng;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl HeaderVersion {
    /// Every version.
    pub const ALL: [HeaderVersion; 2] = [HeaderVersion::V1, HeaderVersion::V2];

    /// This version in a line, for people who choose one.
    pub fn meaning(self) -> &'static str {
        match self {
            HeaderVersion::V1 => "A line of text",
            HeaderVersion::V2 => "Binary",
        }
    }

    /// The name of this version, as command lines have it.
    pub fn name(self) -> &'static str {
        match self {
            HeaderVersion::V1 => "v1",
            HeaderVersion::V2 => "v2",
        }
    }
}

/// Section 2.2: what a header of version 2 begins with.
pub(crate) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Section 2.1: the longest line, its end included.
pub(crate) const LINE_BYTES_MAX: usize = 107;

/// The header that a client says before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) header: Vec<u8>,
    /// The client that it names; nobody if the client speaks for itself.
    pub(crate) client: Option<SocketAddr>,
    /// Places at which the header is cut into writes of their own. What is behind the last goes along with what follows.
    pub(crate) cuts: Vec<usize>,
}

impl Introduction {
    /// The introduction on a connection of a schedule: from an address for documentation (RFC 5737, RFC 3849), or from
    /// nobody. In one write unless it is to come in pieces: section 2 asks senders for that, and receivers only to be
    /// tolerant.
    pub(crate) fn new(seed: u64, connection: usize, version: HeaderVersion, in_pieces: bool) -> Introduction {
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
            (HeaderVersion::V1, Some(from)) => line(from, SocketAddr::new(to, ports.1)),
            (HeaderVersion::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
            (HeaderVersion::V2, Some(from)) => binary(from, SocketAddr::new(to, ports.1)),
            // LOCAL.
            (HeaderVersion::V2, None) => [SIGNATURE.as_slice(), &[0x20, 0, 0, 0]].concat(),
        };
        if version == HeaderVersion::V2 && client.is_some() && between(0, 1) == 0 {
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
pub(crate) fn line(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

/// Section 2.2: version 2, command PROXY, over TCP.
pub(crate) fn binary(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
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
pub(crate) fn wrong(seed: u64) -> Vec<u8> {
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
