//! The hand-shake with a client, from a connection accepted to a request understood.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::books::{Books, FlowPage};
use super::config::{Listener, Way};
use super::inbound::http::{self, Head, Refusal, Status, Wants};
use super::inbound::proxy_protocol::{HeaderConnection, ProxyHeader};
use super::inbound::socks5::{self, Conversation, Step};
use super::inbound::{Credentials, Destination};

/// The bytes that every client may say, whatever else waits: most requests are shorter, and readers that stall keep out
/// nobody.
const OWN_BYTES: usize = 1_024;
/// The longest user's name in the books: RFC 1929 has no longer ones.
const USER_BYTES_MAX: usize = 255;
/// The pause until memory that was all taken is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// A client that has not said yet what it wants.
pub(crate) struct Client<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) listener: &'a Listener,
    pub(crate) flow: &'a FlowPage,
    pub(crate) header_bytes_max: usize,
    /// The bytes that have arrived and were not consumed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Room,
}

/// Memory in which what a client says waits until its server is reached; of all connections' together.
#[derive(Debug)]
pub(crate) struct Room {
    books: Arc<Books>,
    taken: u64,
}

/// What a client wants.
#[derive(Debug)]
pub(crate) enum Understood {
    /// A connection to relay.
    Relay(ClientRequest),
    /// Answers to requests for whole URLs: these bytes begin with the first.
    Fetches(Vec<u8>),
}

/// A client's request for a connection.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) destination: Destination,
    pub(crate) tongue: Tongue,
    /// The bytes that go to the server first: those that came with the request.
    pub(crate) first: Vec<u8>,
    /// The memory of `first`, given back with it.
    _room: Room,
}

/// The protocol in which a client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    /// An HTTP CONNECT.
    Connect,
    Socks5,
    /// The client is not answered at all.
    Mute,
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum HandshakeRefused {
    /// An answer for the client, which may still be sending, and the reason for the log.
    Answer(Vec<u8>, String),
    /// No answer, because the client would understand none; the reason for the log.
    Silent(String),
    /// It went away.
    Gone(io::Error),
}

impl From<io::Error> for HandshakeRefused {
    fn from(error: io::Error) -> HandshakeRefused {
        HandshakeRefused::Gone(error)
    }
}

impl Client<'_> {
    /// Reads the PROXY header with which a sender begins.
    pub(crate) async fn proxy_header(&mut self) -> Result<Option<HeaderConnection>, HandshakeRefused> {
        loop {
            match ProxyHeader::read(&self.bytes) {
                ProxyHeader::Complete { consumed, connection } => {
                    self.bytes.drain(..consumed);
                    return Ok(connection);
                }
                ProxyHeader::Refused(why) => return Err(HandshakeRefused::Silent(why.to_owned())),
                ProxyHeader::More => self.receive().await?,
            }
        }
    }

    /// Reads the request. `original` is where the client believes that it is connected to.
    pub(crate) async fn request(self, original: SocketAddr) -> Result<Understood, HandshakeRefused> {
        let mute = |destination: Destination, client: Client<'_>| {
            let Client { bytes: first, room, .. } = client;
            Ok(Understood::Relay(ClientRequest { destination, tongue: Tongue::Mute, first, _room: room }))
        };
        match &self.listener.way {
            Way::Http => self.http().await,
            Way::Socks5 => self.socks5().await,
            Way::Transparent => mute(original.into(), self),
            Way::Forward(to) => mute(to.clone(), self),
        }
    }

    async fn http(mut self) -> Result<Understood, HandshakeRefused> {
        let refuse = |refusal: Refusal| Err(HandshakeRefused::Answer(refusal.answer(), refusal.why));
        let request = loop {
            match Head::read(&self.bytes, self.header_bytes_max) {
                Head::Request(request) => break request,
                Head::Refused(refusal) => return refuse(refusal),
                Head::More => self.receive().await?,
            }
        };
        let destination = match request.wants {
            Wants::Tunnel(destination) => destination,
            // Whoever serves this one, and those that follow it, reads it once more from its begin.
            Wants::Fetch(_) => return Ok(Understood::Fetches(self.bytes)),
        };
        if let Err(refusal) = admit(self.listener, self.flow, request.credentials.as_ref()).await {
            return refuse(refusal);
        }
        let first = self.bytes.split_off(request.consumed);
        Ok(Understood::Relay(ClientRequest { destination, tongue: Tongue::Connect, first, _room: self.room }))
    }

    async fn socks5(mut self) -> Result<Understood, HandshakeRefused> {
        let mut conversation = Conversation::new(self.listener.users.is_some());
        loop {
            match conversation.step(&self.bytes) {
                Step::More => {
                    if self.bytes.len() > self.header_bytes_max {
                        return Err(HandshakeRefused::Silent("the SOCKS message does not end".to_owned()));
                    }
                    self.receive().await?;
                }
                Step::Reply { consumed, reply } => {
                    self.bytes.drain(..consumed);
                    say(self.stream, reply).await?;
                }
                Step::Authenticate { consumed, credentials } => {
                    self.bytes.drain(..consumed);
                    if let Err(refusal) = admit(self.listener, self.flow, Some(&credentials)).await {
                        return Err(HandshakeRefused::Answer(socks5::CREDENTIALS_REFUSED.to_vec(), refusal.why));
                    }
                    say(self.stream, socks5::CREDENTIALS_ACCEPTED).await?;
                }
                Step::Request { consumed, destination } => {
                    let first = self.bytes.split_off(consumed);
                    let tongue = Tongue::Socks5;
                    return Ok(Understood::Relay(ClientRequest { destination, tongue, first, _room: self.room }));
                }
                Step::Refused { reply, why } if reply.is_empty() => {
                    return Err(HandshakeRefused::Silent(why.to_owned()));
                }
                Step::Refused { reply, why } => return Err(HandshakeRefused::Answer(reply, why.to_owned())),
            }
        }
    }

    /// Waits for more bytes.
    async fn receive(&mut self) -> Result<(), HandshakeRefused> {
        if self.bytes.len() == self.bytes.capacity() {
            let capacity = (2 * self.bytes.len()).max(OWN_BYTES);
            self.room.grow_to(capacity).await;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        loop {
            self.stream.readable().await?;
            match self.stream.try_read_buf(&mut self.bytes) {
                Ok(0) => return Err(HandshakeRefused::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Writes all of it.
pub(crate) async fn say(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Admits a client that says who it is, or need not.
pub(crate) async fn admit(
    listener: &Listener,
    flow: &FlowPage,
    credentials: Option<&Credentials>,
) -> Result<(), Refusal> {
    let Some(users) = &listener.users else { return Ok(()) };
    let refused = |why: &str| Err(Refusal::new(Status::AuthenticationRequired, why));
    let Some(credentials) = credentials else { return refused("say who you are: user and password") };
    let user = &credentials.user[..credentials.user.len().min(USER_BYTES_MAX)];
    flow.set_user(&String::from_utf8_lossy(user));
    if users.know(credentials).await { Ok(()) } else { refused("the user or the password is wrong") }
}

impl Room {
    pub(crate) fn new(books: &Arc<Books>) -> Room {
        Room { books: books.clone(), taken: 0 }
    }

    /// Takes room for so many bytes in all; while there is none the client waits, and no longer than for its hand-shake.
    async fn grow_to(&mut self, bytes: usize) {
        let more = (bytes.saturating_sub(OWN_BYTES) as u64).saturating_sub(self.taken);
        while !self.books.memory.take(more) {
            tokio::time::sleep(PAUSE).await;
        }
        self.taken += more;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.books.memory.give(self.taken);
    }
}

impl Tongue {
    /// The answer to the client once the server is reached, from the address `bound`.
    pub(crate) fn success(self, bound: Option<SocketAddr>) -> Vec<u8> {
        match self {
            Tongue::Connect => http::ESTABLISHED.to_vec(),
            Tongue::Socks5 => socks5::reply(socks5::Code::Succeeded, bound),
            Tongue::Mute => Vec::new(),
        }
    }

    /// The answer to the client when no server is reached.
    pub(crate) fn failure(self, failure: &super::connect::Failure) -> Vec<u8> {
        match self {
            Tongue::Connect => failure.http().answer(),
            Tongue::Socks5 => socks5::reply(failure.socks5(), None),
            Tongue::Mute => Vec::new(),
        }
    }
}

/// The connection that a server is told of: the ends that it would see if the client had come itself (proxy-protocol.txt
/// s2). Who spoke to the proxy as such meant the server that was reached; who did not know of it, what it connected to.
pub(crate) fn introduced(way: &Way, from: SocketAddr, original: SocketAddr, server: SocketAddr) -> HeaderConnection {
    let to = match way {
        Way::Http | Way::Socks5 => server,
        Way::Transparent | Way::Forward(_) => original,
    };
    HeaderConnection { from, to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_of_the_connection_that_the_client_meant() {
        let [from, original, server] =
            ["192.0.2.7:5555", "192.0.2.1:3128", "198.51.100.9:80"].map(|text| text.parse::<SocketAddr>().unwrap());
        let to = |way: Way| introduced(&way, from, original, server).to;
        assert_eq!((to(Way::Http), to(Way::Socks5)), (server, server));
        assert_eq!((to(Way::Transparent), to(Way::Forward(server.into()))), (original, original));
    }
}
