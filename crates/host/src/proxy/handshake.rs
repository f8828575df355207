//! From a connection accepted to a request understood.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::config::{Listener, Way};
use super::inbound::http::{self, Body, Head, Refusal, Status};
use super::inbound::proxy_protocol::{self, Connection, Header};
use super::inbound::socks5::{self, Conversation, Step};
use super::inbound::{Credentials, Destination};

/// A client that has not said yet what it wants.
pub(crate) struct Client<'a> {
    pub(crate) stream: &'a mut TcpStream,
    pub(crate) listener: &'a Listener,
    pub(crate) header_bytes_max: usize,
    /// What has arrived and was not consumed.
    pub(crate) bytes: Vec<u8>,
}

/// What a client wants.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) destination: Destination,
    pub(crate) tongue: Tongue,
    /// What goes to the server first: a rewritten head, and what came with the request.
    pub(crate) first: Vec<u8>,
    /// How much more of the client's bytes is of the request; `None` for all.
    pub(crate) allowance: Option<u64>,
}

/// How a client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    /// An HTTP CONNECT.
    Connect,
    /// An HTTP request that the server answers.
    Fetch,
    Socks5,
    /// Not at all.
    Mute,
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Refused {
    /// To be told to the client, which may still be sending.
    Answer(Vec<u8>, String),
    /// Nothing that it would understand.
    Silent(String),
    /// It went away.
    Gone(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Gone(error)
    }
}

impl Client<'_> {
    /// Reads the PROXY header with which a sender begins.
    pub(crate) async fn proxy_header(&mut self) -> Result<Option<Connection>, Refused> {
        loop {
            match Header::read(&self.bytes) {
                Header::Complete { consumed, connection } => {
                    self.bytes.drain(..consumed);
                    return Ok(connection);
                }
                Header::Refused(why) => return Err(Refused::Silent(why.to_owned())),
                Header::More => self.receive().await?,
            }
        }
    }

    /// Reads the request. `original` is where the client believes that it is connected to.
    pub(crate) async fn request(&mut self, original: SocketAddr) -> Result<Request, Refused> {
        let mute = |destination: Destination, first: Vec<u8>| {
            Ok(Request { destination, tongue: Tongue::Mute, first, allowance: None })
        };
        match &self.listener.way {
            Way::Http => self.http().await,
            Way::Socks5 => self.socks5().await,
            Way::Transparent => mute(original.into(), std::mem::take(&mut self.bytes)),
            Way::Forward(to) => mute(to.clone(), std::mem::take(&mut self.bytes)),
        }
    }

    async fn http(&mut self) -> Result<Request, Refused> {
        let refuse = |refusal: Refusal| Err(Refused::Answer(refusal.answer(), refusal.why));
        let request = loop {
            match Head::read(&self.bytes, self.header_bytes_max) {
                Head::Request(request) => break request,
                Head::Refused(refusal) => return refuse(refusal),
                Head::More => self.receive().await?,
            }
        };
        if !self.is_known(request.credentials.as_ref()) {
            let why = match request.credentials {
                Some(_) => "the user or the password is wrong",
                None => "say who you are: user and password",
            };
            return refuse(Refusal::new(Status::AuthenticationRequired, why));
        }
        let mut rest = self.bytes.split_off(request.consumed);
        let (tongue, allowance) = match request.body {
            Body::Tunnel => (Tongue::Connect, None),
            Body::Chunked => (Tongue::Fetch, None),
            Body::Length(length) => {
                rest.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                (Tongue::Fetch, Some(length - rest.len() as u64))
            }
        };
        let mut first = request.head;
        first.append(&mut rest);
        self.bytes = Vec::new();
        Ok(Request { destination: request.destination, tongue, first, allowance })
    }

    async fn socks5(&mut self) -> Result<Request, Refused> {
        let mut conversation = Conversation::new(self.listener.users.is_some());
        loop {
            match conversation.step(&self.bytes) {
                Step::More => {
                    if self.bytes.len() > self.header_bytes_max {
                        return Err(Refused::Silent("the SOCKS message does not end".to_owned()));
                    }
                    self.receive().await?;
                }
                Step::Reply { consumed, reply } => {
                    self.bytes.drain(..consumed);
                    self.stream.write_all(reply).await?;
                }
                Step::Authenticate { consumed, credentials } => {
                    self.bytes.drain(..consumed);
                    if !self.is_known(Some(&credentials)) {
                        let why = "the user or the password is wrong".to_owned();
                        return Err(Refused::Answer(socks5::CREDENTIALS_REFUSED.to_vec(), why));
                    }
                    self.stream.write_all(socks5::CREDENTIALS_ACCEPTED).await?;
                }
                Step::Request { consumed, destination } => {
                    let first = self.bytes.split_off(consumed);
                    self.bytes = Vec::new();
                    return Ok(Request { destination, tongue: Tongue::Socks5, first, allowance: None });
                }
                Step::Refused { reply, why } if reply.is_empty() => return Err(Refused::Silent(why.to_owned())),
                Step::Refused { reply, why } => return Err(Refused::Answer(reply, why.to_owned())),
            }
        }
    }

    fn is_known(&self, credentials: Option<&Credentials>) -> bool {
        match (&self.listener.users, credentials) {
            (None, _) => true,
            (Some(users), Some(credentials)) => users.know(credentials),
            (Some(_), None) => false,
        }
    }

    /// Waits for more bytes.
    async fn receive(&mut self) -> Result<(), Refused> {
        self.bytes.reserve(1_024);
        loop {
            self.stream.readable().await?;
            match self.stream.try_read_buf(&mut self.bytes) {
                Ok(0) => return Err(Refused::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Tongue {
    /// What the client is told once the server is reached, from the address `bound`.
    pub(crate) fn success(self, bound: Option<SocketAddr>) -> Vec<u8> {
        match self {
            Tongue::Connect => http::ESTABLISHED.to_vec(),
            Tongue::Socks5 => socks5::reply(socks5::Code::Succeeded, bound),
            Tongue::Fetch | Tongue::Mute => Vec::new(),
        }
    }

    /// What it is told when no server is reached.
    pub(crate) fn failure(self, failure: &super::connect::Failure) -> Vec<u8> {
        match self {
            Tongue::Connect | Tongue::Fetch => failure.http().answer(),
            Tongue::Socks5 => socks5::reply(failure.socks5(), None),
            Tongue::Mute => Vec::new(),
        }
    }
}

/// What the server is told of the client.
pub(crate) fn introduction(listener: &Listener, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let told = |version: proxy_protocol::Version| Connection { from, to }.header(version);
    listener.send_proxy.map(told).unwrap_or_default()
}
