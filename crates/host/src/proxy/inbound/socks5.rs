//! SOCKS version 5 (RFC 1928) as a server: CONNECT, without authentication or with user and password (RFC 1929).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Credentials, Destination, Host};

/// The state of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    expects: Expects,
    wants_credentials: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Greeting,
    Credentials,
    Request,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message is not complete.
    More,
    /// Send `reply`, and go on after `consumed` bytes.
    Reply {
        /// Bytes of the message that was answered.
        consumed: usize,
        /// The answer.
        reply: &'static [u8],
    },
    /// Look whether these are known, send [`CREDENTIALS_ACCEPTED`] or [`CREDENTIALS_REFUSED`], and go on or close.
    Authenticate {
        /// Bytes of the message.
        consumed: usize,
        /// The name and password of the client, if it gave them.
        credentials: Credentials,
    },
    /// A request to connect: to be answered with [`reply`].
    Request {
        /// Bytes of the message; what follows goes to the server as it is.
        consumed: usize,
        /// The destination.
        destination: Destination,
    },
    /// The bytes are nothing that can be served: send `reply`, which may be empty, and close.
    Refused {
        /// The answer.
        reply: Vec<u8>,
        /// The mistake, for a log.
        why: &'static str,
    },
}

/// The choice of the method in which a client need not say who it is (RFC 1928 s3).
pub const NOT_ASKED: &[u8] = &[5, 0];
/// The answer to user and password that are right.
pub const CREDENTIALS_ACCEPTED: &[u8] = &[1, 0];
/// The answer to those that are not.
pub const CREDENTIALS_REFUSED: &[u8] = &[1, 1];

/// Replies to a request (RFC 1928 s6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The connection stands.
    Succeeded = 0,
    /// Anything that has no code of its own.
    GeneralFailure = 1,
    /// The rules of this proxy do not let it go there.
    NotAllowed = 2,
    /// There is no way to the network.
    NetworkUnreachable = 3,
    /// There is no way to the host; here also: it has no address, or does not answer.
    HostUnreachable = 4,
    /// The server has refused it.
    ConnectionRefused = 5,
    /// Something else than CONNECT was asked for.
    CommandNotSupported = 7,
    /// The address is of a kind that is not known.
    AddressNotSupported = 8,
}

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;

impl Conversation {
    /// One that expects the greeting. With `wants_credentials` no request is read before user and password.
    pub fn new(wants_credentials: bool) -> Conversation {
        Conversation { expects: Expects::Greeting, wants_credentials }
    }

    /// Reads the next message.
    pub fn step(&mut self, bytes: &[u8]) -> Step {
        match self.expects {
            Expects::Greeting => self.greeting(bytes),
            Expects::Credentials => self.credentials(bytes),
            Expects::Request => request(bytes),
        }
    }

    fn greeting(&mut self, bytes: &[u8]) -> Step {
        match bytes {
            [] => return Step::More,
            [VERSION, ..] => {}
            [4, ..] => return refused(&[0, 91, 0, 0, 0, 0, 0, 0], "SOCKS version 4; only 5 is served"),
            // No reply that it would understand.
            _ => return refused(&[], "this is a SOCKS 5 proxy, and that is no SOCKS 5 greeting"),
        }
        let Some(&count) = bytes.get(1) else { return Step::More };
        let consumed = 2 + usize::from(count);
        let Some(methods) = bytes.get(2..consumed) else { return Step::More };
        let (method, reply, next): (_, &'static [u8], _) = if self.wants_credentials {
            (USER_AND_PASSWORD, &[VERSION, USER_AND_PASSWORD], Expects::Credentials)
        } else {
            (NO_AUTHENTICATION, &[VERSION, NO_AUTHENTICATION], Expects::Request)
        };
        if !methods.contains(&method) {
            let why = match self.wants_credentials {
                true => "the client offers no authentication by user and password, which is required",
                false => "the client insists on authentication, and there is none",
            };
            return refused(&[VERSION, NO_METHOD], why);
        }
        self.expects = next;
        Step::Reply { consumed, reply }
    }

    /// RFC 1929 s2: version 1, user and password with their lengths.
    fn credentials(&mut self, bytes: &[u8]) -> Step {
        match bytes.first() {
            None => return Step::More,
            Some(1) => {}
            Some(_) => return refused(CREDENTIALS_REFUSED, "the version of the authentication is not 1"),
        }
        let Some((user, rest)) = with_length(&bytes[1..]) else { return Step::More };
        let Some((password, rest)) = with_length(rest) else { return Step::More };
        if user.is_empty() {
            return refused(CREDENTIALS_REFUSED, "the user's name is empty");
        }
        self.expects = Expects::Request;
        let credentials = Credentials { user: user.to_vec(), password: password.to_vec() };
        Step::Authenticate { consumed: bytes.len() - rest.len(), credentials }
    }
}

/// RFC 1928 s4.
fn request(bytes: &[u8]) -> Step {
    let no = |code, why| Step::Refused { reply: reply(code, None), why };
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return no(Code::GeneralFailure, "the version of the request is not 5");
    }
    match bytes.get(1) {
        None | Some(1) => {}
        Some(2) => return no(Code::CommandNotSupported, "BIND is not served"),
        Some(3) => return no(Code::CommandNotSupported, "UDP ASSOCIATE is not served"),
        Some(_) => return no(Code::CommandNotSupported, "the command is not CONNECT"),
    }
    let Some(&kind) = bytes.get(3) else { return Step::More };
    let after = &bytes[4..];
    let (host, rest) = match kind {
        1 => match after.split_first_chunk::<4>() {
            Some((octets, rest)) => (Ok(Host::from(IpAddr::V4(Ipv4Addr::from(*octets)))), rest),
            None => return Step::More,
        },
        3 => match with_length(after) {
            Some((name, rest)) => (Host::read(name), rest),
            None => return Step::More,
        },
        4 => match after.split_first_chunk::<16>() {
            Some((octets, rest)) => (Ok(Host::from(IpAddr::V6(Ipv6Addr::from(*octets)))), rest),
            None => return Step::More,
        },
        _ => return no(Code::AddressNotSupported, "the address is no IPv4 or IPv6 address and no name"),
    };
    let Some((port, rest)) = rest.split_first_chunk::<2>() else { return Step::More };
    let port = u16::from_be_bytes(*port);
    match host {
        Err(why) => no(Code::AddressNotSupported, why),
        Ok(_) if port == 0 => no(Code::GeneralFailure, "the port is 0"),
        Ok(host) => Step::Request { consumed: bytes.len() - rest.len(), destination: Destination { host, port } },
    }
}

/// The answer to a request, with the address that the proxy connected from.
pub fn reply(code: Code, bound: Option<SocketAddr>) -> Vec<u8> {
    let mut reply = vec![VERSION, code as u8, 0];
    let bound = bound.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    match bound.ip().to_canonical() {
        IpAddr::V4(address) => {
            reply.push(1);
            reply.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            reply.push(4);
            reply.extend_from_slice(&address.octets());
        }
    }
    reply.extend_from_slice(&bound.port().to_be_bytes());
    reply
}

/// Bytes that have their length before them, and what follows.
fn with_length(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

fn refused(reply: &[u8], why: &'static str) -> Step {
    Step::Refused { reply: reply.to_vec(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_request() -> Conversation {
        let mut conversation = Conversation::new(false);
        assert_eq!(conversation.step(&[5, 2, 2, 0]), Step::Reply { consumed: 4, reply: &[5, 0] });
        conversation
    }

    fn request(kind: u8, address: &[u8]) -> Vec<u8> {
        [&[5, 1, 0, kind], address, &[0x01, 0xbb]].concat()
    }

    #[test]
    fn names_and_both_kinds_of_addresses_are_read_and_what_follows_is_left() {
        let v6: Vec<u8> = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets().to_vec();
        for (message, expected) in [
            (request(1, &[192, 0, 2, 1]), "192.0.2.1:443"),
            (request(3, b"\x0bexample.org"), "example.org:443"),
            (request(3, b"\x09127.0.0.1"), "127.0.0.1:443"),
            (request(4, &v6), "[2001:db8::1]:443"),
            (request(4, &Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets()), "10.0.0.1:443"),
        ] {
            for len in 0..message.len() {
                assert_eq!(at_request().step(&message[..len]), Step::More, "{len} bytes of {message:?}");
            }
            let longer = [message.as_slice(), b"GET"].concat();
            let Step::Request { consumed, destination } = at_request().step(&longer) else { panic!("{message:?}") };
            assert_eq!((consumed, destination.to_string()), (message.len(), expected.to_owned()));
        }
    }

    #[test]
    fn with_credentials_wanted_no_request_is_read_before_them() {
        let mut conversation = Conversation::new(true);
        assert_eq!(conversation.step(&[5, 2, 0, 2]), Step::Reply { consumed: 4, reply: &[5, 2] });
        let message = b"\x01\x04user\x06secret";
        for len in 0..message.len() {
            assert_eq!(conversation.step(&message[..len]), Step::More);
        }
        let credentials = Credentials { user: b"user".to_vec(), password: b"secret".to_vec() };
        assert_eq!(conversation.step(message), Step::Authenticate { consumed: message.len(), credentials });
        assert!(matches!(conversation.step(&request(1, &[1, 2, 3, 4])), Step::Request { .. }));
        let mut without = Conversation::new(true);
        assert!(matches!(without.step(&[5, 1, 0]), Step::Refused { reply, .. } if reply == [5, 0xff]));
    }

    #[test]
    fn an_unserved_request_is_answered_with_its_code() {
        for (message, code) in [
            (vec![5, 2, 0, 1, 1, 2, 3, 4, 0, 80], Code::CommandNotSupported),
            (vec![5, 3, 0, 1, 1, 2, 3, 4, 0, 80], Code::CommandNotSupported),
            (vec![5, 1, 0, 9, 1, 2, 3, 4, 0, 80], Code::AddressNotSupported),
            (request(3, b"\x00"), Code::AddressNotSupported),
            (request(3, b"\x0ba\r\nX: y.org"), Code::AddressNotSupported),
            (request(3, b"\x03\xff\xfe\xfd"), Code::AddressNotSupported),
            (vec![5, 1, 0, 1, 1, 2, 3, 4, 0, 0], Code::GeneralFailure),
            (vec![4, 1, 0, 80], Code::GeneralFailure),
        ] {
            let Step::Refused { reply, why } = at_request().step(&message) else { panic!("{message:?}") };
            assert_eq!(reply[..2], [5, code as u8], "{message:?}: {why}");
        }
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_byte() {
        for byte in [0x16, b'G', b'S'] {
            assert!(matches!(Conversation::new(false).step(&[byte]), Step::Refused { reply, .. } if reply.is_empty()));
        }
        assert!(matches!(Conversation::new(false).step(&[4, 1]), Step::Refused { reply, .. } if reply[1] == 91));
    }

    #[test]
    fn a_reply_has_the_address_of_the_connection() {
        let bound = "[2001:db8::5]:4660".parse().unwrap();
        let told = reply(Code::Succeeded, Some(bound));
        assert_eq!((&told[..4], &told[20..]), (&[5, 0, 0, 4][..], &[0x12, 0x34][..]));
        assert_eq!(reply(Code::ConnectionRefused, None), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
