//! Readers of what a client says before its bytes are relayed. They read byte slices and know no sockets.
//!
//! Each reader is shown all that has arrived and was not consumed, and says that it needs more, what was asked for and
//! how many bytes said so, or why it refuses. What follows the consumed bytes is the client's own and goes on to the
//! server.

pub mod http;
pub mod proxy_protocol;
pub mod socks5;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The destination of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The TCP port, never 0.
    pub port: u16,
}

/// A host, by name or by address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name to resolve: letters, digits, `.`, `-` and `_`, 253 bytes at most (RFC 1123 s2.1, and the underscore that is in
    /// use). Nothing else, so that it can be written into a header or a log as it is.
    Name(Box<str>),
    /// An address; never an IPv4 address in IPv6 clothes.
    Address(IpAddr),
}

/// A user and its password, as they came.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

/// Longest name that DNS can carry, in text (RFC 1035 s2.3.4).
const NAME_BYTES_MAX: usize = 253;

impl Host {
    /// Reads a name or an address; IPv6 with or without brackets. The error says what is wrong with it.
    pub fn read(text: &[u8]) -> Result<Host, &'static str> {
        let inner = match text {
            [b'[', inner @ .., b']'] => {
                let address = std::str::from_utf8(inner).ok().and_then(|inner| inner.parse::<Ipv6Addr>().ok());
                return address.map(|address| Host::from(IpAddr::V6(address))).ok_or("no IPv6 address in brackets");
            }
            _ => std::str::from_utf8(text).map_err(|_| "a host name has letters that are not ASCII")?,
        };
        if let Ok(address) = inner.parse::<IpAddr>() {
            return Ok(Host::from(address));
        }
        match inner.len() {
            0 => return Err("the host is missing"),
            len if len > NAME_BYTES_MAX => return Err("the host name has more than 253 bytes"),
            _ => {}
        }
        let may_be = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !inner.bytes().all(may_be) {
            return Err("a host name has letters, digits, '.', '-' and '_' only");
        }
        Ok(Host::Name(inner.into()))
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Host {
        Host::Address(address.to_canonical())
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Destination {
        Destination { host: address.ip().into(), port: address.port() }
    }
}

impl Destination {
    /// Reads `host:port`; a host that is an IPv6 address is in brackets. The error says what is wrong with it.
    pub fn read(text: &[u8]) -> Result<Destination, &'static str> {
        let colon = text.iter().rposition(|byte| *byte == b':').ok_or("the port is missing: host:port")?;
        let (host, port) = (&text[..colon], &text[colon + 1..]);
        if host.contains(&b':') && host.first() != Some(&b'[') {
            return Err("an IPv6 address is in brackets: [::1]:80");
        }
        Ok(Destination { host: Host::read(host)?, port: read_port(port)? })
    }
}

/// A port from 1 to 65535, in digits alone.
fn read_port(text: &[u8]) -> Result<u16, &'static str> {
    let is_number = !text.is_empty() && text.len() <= 5 && text.iter().all(u8::is_ascii_digit);
    let port = is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten();
    port.filter(|port| *port != 0).ok_or("the port is not a number from 1 to 65535")
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The password never gets into a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials {{ user: {:?}, .. }}", String::from_utf8_lossy(&self.user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_and_written_alike() {
        for text in ["example.org:443", "192.0.2.7:80", "[2001:db8::1]:65535", "_dmarc.example-1.org.:1"] {
            assert_eq!(Destination::read(text.as_bytes()).map(|there| there.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn an_ipv4_address_in_ipv6_is_an_ipv4_address() {
        let there = Destination::read(b"[::ffff:127.0.0.1]:80").unwrap();
        assert_eq!(there.host, Host::Address([127, 0, 0, 1].into()));
    }

    #[test]
    fn a_text_that_is_no_host_with_a_port_is_refused() {
        for text in [
            "example.org",
            "example.org:",
            "example.org:0",
            "example.org:65536",
            "example.org:+80",
            ":80",
            "::1:80",
            "[::1:80",
            "[example.org]:80",
            "a b:80",
            "a\r\nX: y:80",
            "a/b:80",
            "us\u{e9}r.org:80",
            "a@b:80",
            "a%41:80",
        ] {
            assert!(Destination::read(text.as_bytes()).is_err(), "{text:?} is not a destination");
        }
        assert!(Host::read("a".repeat(254).as_bytes()).is_err());
        assert!(Host::read("a".repeat(253).as_bytes()).is_ok());
    }
}
