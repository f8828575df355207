//! The PROXY protocol, versions 1 and 2: who the client behind another proxy is (proxy-protocol.txt of HAProxy).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The reader's verdict on the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// It is not complete.
    More,
    /// A header of so many bytes.
    Complete {
        /// Its length; the client's own bytes follow.
        consumed: usize,
        /// The connection that the sender speaks for; `None` where it speaks for itself or does not know.
        connection: Option<HeaderConnection>,
    },
    /// The bytes are no header.
    Refused(&'static str),
}

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderConnection {
    /// The client.
    pub from: SocketAddr,
    /// The address that the client connected to.
    pub to: SocketAddr,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// s2.2: what no other protocol begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// s2.1: the longest line of version 1, its end included.
const LINE_BYTES_MAX: usize = 107;
/// Addresses and more than all the additions that are defined: a bound on what a sender can make us hold.
const BLOCK_BYTES_MAX: usize = 4_096;

impl ProxyHeader {
    /// Reads a header of either version.
    pub fn read(bytes: &[u8]) -> ProxyHeader {
        let begins = |signature: &[u8]| bytes.iter().zip(signature).all(|(byte, expected)| byte == expected);
        if begins(SIGNATURE) {
            return binary(bytes);
        }
        if begins(b"PROXY ") {
            return line(bytes);
        }
        ProxyHeader::Refused("the connection does not begin with a header of the PROXY protocol")
    }
}

/// s2.1: `PROXY TCP4 from to port port`, with single spaces.
fn line(bytes: &[u8]) -> ProxyHeader {
    let within = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return match bytes.len() < LINE_BYTES_MAX {
            true => ProxyHeader::More,
            false => ProxyHeader::Refused("the PROXY line has no end within 107 bytes"),
        };
    };
    let consumed = end + 2;
    let Ok(text) = std::str::from_utf8(&bytes[..end]) else {
        return ProxyHeader::Refused("the PROXY line is not text");
    };
    let words: Vec<&str> = text.split(' ').collect();
    let connection = match words.as_slice() {
        // What follows UNKNOWN is to be ignored.
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family @ ("TCP4" | "TCP6"), from, to, from_port, to_port] => {
            let end = |address: &str, port: &str| -> Option<SocketAddr> {
                let address = match *family {
                    "TCP4" => IpAddr::V4(address.parse::<Ipv4Addr>().ok()?),
                    _ => IpAddr::V6(address.parse::<Ipv6Addr>().ok()?),
                };
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = if is_number { port.parse().ok()? } else { return None };
                Some(SocketAddr::new(address.to_canonical(), port))
            };
            match (end(from, from_port), end(to, to_port)) {
                (Some(from), Some(to)) => Some(HeaderConnection { from, to }),
                _ => return ProxyHeader::Refused("the PROXY line has no valid addresses and ports"),
            }
        }
        _ => return ProxyHeader::Refused("the PROXY line is none of TCP4, TCP6 and UNKNOWN"),
    };
    ProxyHeader::Complete { consumed, connection }
}

/// s2.2: signature, version and command, family and protocol, length, addresses, additions.
fn binary(bytes: &[u8]) -> ProxyHeader {
    let Some(&version_command) = bytes.get(12) else { return ProxyHeader::More };
    if version_command >> 4 != 2 {
        return ProxyHeader::Refused("the binary PROXY header is not of version 2");
    }
    let Some(&[family, high, low]) = bytes.get(13..16) else { return ProxyHeader::More };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > BLOCK_BYTES_MAX {
        return ProxyHeader::Refused("the binary PROXY header has more than 4096 bytes");
    }
    let Some(block) = bytes.get(16..16 + length) else { return ProxyHeader::More };
    let consumed = 16 + length;
    let connection = match (version_command & 0xf, family) {
        // LOCAL: the sender's own, a health check for instance.
        (0, _) => None,
        // Not TCP over IPv4 or IPv6: a receiver takes what it does not know for the sender's own (s2.2).
        (1, 0x11) => match addresses::<4>(block) {
            Some(connection) => Some(connection),
            None => return ProxyHeader::Refused("the binary PROXY header is too short for IPv4 addresses"),
        },
        (1, 0x21) => match addresses::<16>(block) {
            Some(connection) => Some(connection),
            None => return ProxyHeader::Refused("the binary PROXY header is too short for IPv6 addresses"),
        },
        (1, 0x00) => None,
        (1, _) => return ProxyHeader::Refused("the binary PROXY header is for something else than TCP"),
        _ => return ProxyHeader::Refused("the binary PROXY header's command is neither LOCAL nor PROXY"),
    };
    ProxyHeader::Complete { consumed, connection }
}

fn addresses<const LENGTH: usize>(block: &[u8]) -> Option<HeaderConnection>
where
    IpAddr: From<[u8; LENGTH]>,
{
    let (from, rest) = block.split_first_chunk::<LENGTH>()?;
    let (to, rest) = rest.split_first_chunk::<LENGTH>()?;
    let (from_port, rest) = rest.split_first_chunk::<2>()?;
    let (to_port, _) = rest.split_first_chunk::<2>()?;
    let end = |address: &[u8; LENGTH], port: &[u8; 2]| {
        SocketAddr::new(IpAddr::from(*address).to_canonical(), u16::from_be_bytes(*port))
    };
    Some(HeaderConnection { from: end(from, from_port), to: end(to, to_port) })
}

impl HeaderConnection {
    /// The header that tells of this connection.
    pub fn header(&self, version: Version) -> Vec<u8> {
        // Ends of two families cannot be written but as the wider one.
        let (from, to) = match (self.from.ip().to_canonical(), self.to.ip().to_canonical()) {
            (from @ IpAddr::V4(_), to @ IpAddr::V4(_)) => (from, to),
            (from, to) => (IpAddr::V6(widen(from)), IpAddr::V6(widen(to))),
        };
        match version {
            Version::V1 => {
                let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
                let (from, to) = (text(from), text(to));
                format!("PROXY {family} {from} {to} {} {}\r\n", self.from.port(), self.to.port()).into_bytes()
            }
            Version::V2 => {
                let octets = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.octets().to_vec(),
                    IpAddr::V6(address) => address.octets().to_vec(),
                };
                let ports = [self.from.port().to_be_bytes(), self.to.port().to_be_bytes()].concat();
                let block = [octets(from), octets(to), ports].concat();
                let family = if from.is_ipv4() { 0x11 } else { 0x21 };
                [SIGNATURE.as_slice(), &[0x21, family], &(block.len() as u16).to_be_bytes(), &block].concat()
            }
        }
    }
}

/// s2.1: IPv6 in hexadecimal alone, also what is IPv4 in it.
fn text(address: IpAddr) -> String {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            let [.., high, low] = v6.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        address => address.to_string(),
    }
}

fn widen(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(from: &str, to: &str) -> HeaderConnection {
        HeaderConnection { from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    #[test]
    fn a_written_header_is_read_and_every_prefix_needs_more() {
        for told in [
            connection("192.0.2.1:56324", "198.51.100.7:443"),
            connection("[2001:db8::1]:1", "[2001:db8::2]:65535"),
            connection("192.0.2.1:56324", "[2001:db8::2]:80"),
        ] {
            for version in [Version::V1, Version::V2] {
                let header = told.header(version);
                for len in 0..header.len() {
                    assert_eq!(ProxyHeader::read(&header[..len]), ProxyHeader::More, "{len} bytes of {header:?}");
                }
                let longer = [header.as_slice(), b"GET /"].concat();
                let expected = ProxyHeader::Complete { consumed: header.len(), connection: Some(told) };
                assert_eq!(ProxyHeader::read(&longer), expected);
            }
        }
    }

    #[test]
    fn the_text_is_that_of_the_specification() {
        let header = connection("192.168.0.1:56324", "192.168.0.11:443").header(Version::V1);
        assert_eq!(header, b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        let header = connection("192.0.2.1:1", "[2001:db8::2]:2").header(Version::V1);
        assert_eq!(header, b"PROXY TCP6 ::ffff:c000:201 2001:db8::2 1 2\r\n");
    }

    #[test]
    fn a_sender_may_speak_for_itself() {
        let local = [SIGNATURE.as_slice(), &[0x20, 0, 0, 0]].concat();
        assert_eq!(ProxyHeader::read(&local), ProxyHeader::Complete { consumed: 16, connection: None });
        let unknown = b"PROXY UNKNOWN ffff::1 whatever\r\n";
        assert_eq!(ProxyHeader::read(unknown), ProxyHeader::Complete { consumed: unknown.len(), connection: None });
    }

    #[test]
    fn additions_after_the_addresses_are_passed_over() {
        let mut header = connection("192.0.2.1:1", "192.0.2.2:2").header(Version::V2);
        header.extend_from_slice(&[4, 0, 1, 7]);
        header[15] += 4;
        assert!(matches!(ProxyHeader::read(&header), ProxyHeader::Complete { consumed: 32, connection: Some(_) }));
    }

    #[test]
    fn a_beginning_that_is_no_header_is_refused() {
        let too_long = [b"PROXY TCP4 ".as_slice(), &[b'1'; 120]].concat();
        let binary = |after: &[u8]| [SIGNATURE.as_slice(), after].concat();
        for bytes in [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n".to_vec(),
            b"PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
            b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
            too_long,
            binary(&[0x11, 0x11, 0, 0]),
            binary(&[0x21, 0x11, 0, 4, 1, 2, 3, 4]),
            binary(&[0x21, 0x12, 0, 0]),
            binary(&[0x22, 0x11, 0, 0]),
            binary(&[0x21, 0x11, 0xff, 0xff]),
        ] {
            assert!(matches!(ProxyHeader::read(&bytes), ProxyHeader::Refused(_)), "{bytes:?}");
        }
    }
}
