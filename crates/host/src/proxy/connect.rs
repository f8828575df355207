//! The way to a server: names resolved without blocking, addresses tried in the manner of happy eyeballs (RFC 8305).

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::access::{Denied, Destinations};
use super::inbound::http::{self, Refusal};
use super::inbound::{Destination, Host, socks5};
use super::listen;
use super::lookups::Lookups;
use super::side::SideOptions;

/// RFC 8305 s5: the next attempt begins when the one before has had this long.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// A name with more addresses than this is tried at these.
const ADDRESSES_MAX: usize = 16;

/// Why no server was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The reason in words, for the log.
    pub why: String,
    /// The words for the client, who is not to learn what names that it tries lead to; the same as `why` if `None`.
    told: Option<String>,
}

/// The kinds of failure that an answer can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The rules do not let it go there.
    Denied,
    /// The name has no address.
    NoAddress,
    /// The server has refused it.
    Refused,
    /// There is no way to the network.
    NetworkUnreachable,
    /// There is no way to the host.
    HostUnreachable,
    /// The server, or the name's, has not answered.
    TimedOut,
    /// It asks for more than it may in a second.
    TooManyRequests,
    /// Something failed here.
    Own,
}

/// The means of getting to a server.
pub(crate) struct Dialer<'a> {
    /// The TCP towards it.
    pub(crate) side: &'a SideOptions,
    /// The address to come from, if not this machine's.
    pub(crate) source: Option<SocketAddr>,
    /// The look-ups of names, and the client for whom they are made.
    pub(crate) lookups: &'a Lookups,
    pub(crate) client: IpAddr,
    /// The rules about names, unless the place is not the client's choice.
    pub(crate) names: Option<&'a Destinations>,
    /// The check whether a connection may go to an address that was asked for as this host.
    pub(crate) check: &'a (dyn Fn(&Host, SocketAddr) -> Result<(), Denied> + Send + Sync),
    /// A connection to the server that was made before the client's was accepted, and is to be used if it may be.
    pub(crate) made: Option<std::net::TcpStream>,
}

impl Dialer<'_> {
    /// Connects within `limit`.
    pub(crate) async fn connect(mut self, to: &Destination, limit: Duration) -> Result<TcpStream, Failure> {
        let deadline = Instant::now() + limit;
        let late =
            || Failure::new(FailureKind::TimedOut, format!("{to} did not answer within {} s", limit.as_secs_f64()));
        let allowed = self.allowed(to, limit).await?;
        if let Some(made) = self.made.take() {
            return TcpStream::from_std(made).map_err(|error| Failure::of(to, &error));
        }
        tokio::time::timeout_at(deadline, self.race(to, &allowed)).await.map_err(|_| late())?
    }

    /// The addresses of a server to which a connection may go, found within `limit`, in the order in which they are to be tried.
    pub(crate) async fn allowed(&self, to: &Destination, limit: Duration) -> Result<Vec<SocketAddr>, Failure> {
        if let Some(Err(why)) = self.names.map(|rules| rules.check_name(&to.host)) {
            return Err(Failure::new(FailureKind::Denied, format!("{to} is not allowed: {why}")));
        }
        let addresses = tokio::time::timeout(limit, self.resolve(to)).await.map_err(|_| {
            Failure::new(FailureKind::TimedOut, format!("{to} was not resolved within {} s", limit.as_secs_f64()))
        })??;
        let mut denied = None;
        let mut allowed = Vec::new();
        for address in addresses {
            if self.source.is_some_and(|source| source.is_ipv4() != address.is_ipv4()) {
                continue;
            }
            match (self.check)(&to.host, address) {
                Ok(()) => allowed.push(address),
                Err(why) => denied = Some((address, why)),
            }
        }
        if allowed.is_empty() {
            return Err(match denied {
                Some((address, why)) => Failure::denied(to, address, &why),
                None => Failure::new(FailureKind::NoAddress, format!("{to} has no address of the client's family")),
            });
        }
        Ok(interleave(allowed))
    }

    /// Tries one address after the other, each [`ATTEMPT_DELAY`] after the one before or when that has failed; the first
    /// connection wins.
    async fn race(&self, to: &Destination, addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
        if let [only] = addresses {
            return self.attempt(*only).await.map_err(|error| Failure::of(to, &error));
        }
        type Attempt<'f> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'f>>;
        let mut waiting = addresses.iter();
        let mut running: Vec<Attempt<'_>> = Vec::new();
        let mut last = None;
        let mut next_start = Box::pin(sleep_until(Instant::now()));
        poll_fn(|cx| {
            loop {
                let mut at = 0;
                let mut has_failed = false;
                while at < running.len() {
                    match running[at].as_mut().poll(cx) {
                        Poll::Ready(Ok(stream)) => return Poll::Ready(Ok(stream)),
                        Poll::Ready(Err(error)) => {
                            last = Some(error);
                            has_failed = true;
                            drop(running.swap_remove(at));
                        }
                        Poll::Pending => at += 1,
                    }
                }
                let is_time = has_failed || running.is_empty() || next_start.as_mut().poll(cx).is_ready();
                match waiting.as_slice().first() {
                    Some(address) if is_time => {
                        waiting.next();
                        running.push(Box::pin(self.attempt(*address)));
                        next_start.as_mut().reset(Instant::now() + ATTEMPT_DELAY);
                    }
                    Some(_) => return Poll::Pending,
                    None if running.is_empty() => {
                        let error = last.take().unwrap_or_else(|| io::ErrorKind::HostUnreachable.into());
                        return Poll::Ready(Err(Failure::of(to, &error)));
                    }
                    None => return Poll::Pending,
                }
            }
        })
        .await
    }

    async fn attempt(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = listen::towards(address, self.side, self.source)?;
        // One that is given up while the server's answer is on its way is reset, as all are that did not end.
        TcpSocket::from_std_stream(socket.into()).connect(address).await
    }

    async fn resolve(&self, to: &Destination) -> Result<Vec<SocketAddr>, Failure> {
        match &to.host {
            Host::Address(address) => Ok(vec![SocketAddr::new(*address, to.port)]),
            Host::Name(name) => {
                let no = |why: String| Failure::new(FailureKind::NoAddress, format!("{name} has no address: {why}"));
                let found =
                    self.lookups.find(self.client, name, to.port).await.map_err(|error| match error.kind() {
                        io::ErrorKind::TimedOut => Failure::new(FailureKind::TimedOut, format!("{name}: {error}")),
                        _ => no(error.to_string()),
                    })?;
                let mut addresses: Vec<SocketAddr> = Vec::new();
                for address in found {
                    let address = SocketAddr::new(address.ip().to_canonical(), to.port);
                    if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                        addresses.push(address);
                    }
                }
                if addresses.is_empty() { Err(no("the name exists".to_owned())) } else { Ok(addresses) }
            }
        }
    }
}

/// RFC 8305 s4: the resolver's order (RFC 6724), with the families taking turns from that of the first on.
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_ipv4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == first_is_ipv4);
    let mut second = second.into_iter();
    let mut order: Vec<SocketAddr> =
        first.into_iter().flat_map(|address| [Some(address), second.next()]).flatten().collect();
    order.extend(second);
    order
}

impl Failure {
    /// A failure of this kind, and the reason in words.
    pub fn new(kind: FailureKind, why: impl Into<String>) -> Failure {
        Failure { kind, why: why.into(), told: None }
    }

    /// The failure of a destination that is denied. Who asked for an address knows it; who asked for a name learns of
    /// its address neither what it is nor of what kind, or could have a network that is not theirs listed name by name.
    fn denied(to: &Destination, address: SocketAddr, why: &Denied) -> Failure {
        let told = match to.host {
            Host::Address(_) => None,
            Host::Name(_) => Some(format!("{to} is not allowed")),
        };
        let reached = if told.is_some() { format!("{to}, {address},") } else { address.to_string() };
        Failure { kind: FailureKind::Denied, why: format!("{reached} is not allowed: {why}"), told }
    }

    pub(crate) fn of(to: &Destination, error: &io::Error) -> Failure {
        let kind = match error.kind() {
            io::ErrorKind::ConnectionRefused => FailureKind::Refused,
            io::ErrorKind::NetworkUnreachable => FailureKind::NetworkUnreachable,
            io::ErrorKind::HostUnreachable => FailureKind::HostUnreachable,
            io::ErrorKind::TimedOut => FailureKind::TimedOut,
            _ => FailureKind::Own,
        };
        Failure::new(kind, format!("{to}: {error}"))
    }

    /// The words for the client.
    pub fn told(&self) -> &str {
        self.told.as_ref().unwrap_or(&self.why)
    }

    /// The failure as an HTTP proxy reports it.
    pub fn http(&self) -> Refusal {
        let status = match self.kind {
            FailureKind::Denied => http::Status::Forbidden,
            FailureKind::TimedOut => http::Status::GatewayTimeout,
            FailureKind::TooManyRequests => http::Status::TooManyRequests,
            FailureKind::Own => http::Status::Unavailable,
            FailureKind::NoAddress
            | FailureKind::Refused
            | FailureKind::NetworkUnreachable
            | FailureKind::HostUnreachable => http::Status::BadGateway,
        };
        Refusal::new(status, self.told())
    }

    /// The failure as a SOCKS proxy reports it.
    pub fn socks5(&self) -> socks5::Code {
        match self.kind {
            FailureKind::Denied => socks5::Code::NotAllowed,
            FailureKind::NoAddress | FailureKind::HostUnreachable | FailureKind::TimedOut => {
                socks5::Code::HostUnreachable
            }
            FailureKind::Refused => socks5::Code::ConnectionRefused,
            FailureKind::NetworkUnreachable => socks5::Code::NetworkUnreachable,
            FailureKind::TooManyRequests | FailureKind::Own => socks5::Code::GeneralFailure,
        }
    }
}

/// Addresses of this machine's interfaces, in the namespace of the calling thread.
pub(crate) fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the call stores a list in `list`, or fails and leaves it.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: `at` is an element of the list, which lives until it is freed below.
        let entry = unsafe { &*at };
        if !entry.ifa_addr.is_null() {
            // SAFETY: an address that is there has a family, and is as long as its family's.
            let address = unsafe {
                match i32::from((*entry.ifa_addr).sa_family) {
                    libc::AF_INET => {
                        let address = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                        Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
                    }
                    libc::AF_INET6 => {
                        let address = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                        Some(IpAddr::from(address.sin6_addr.s6_addr))
                    }
                    _ => None,
                }
            };
            addresses.extend(address);
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list is from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_from_that_of_the_first_address() {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let resolved = read(&["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        let expected = read(&["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "192.0.2.2:1", "[2001:db8::3]:1"]);
        assert_eq!(interleave(resolved), expected);
        let resolved = read(&["192.0.2.1:1", "[2001:db8::1]:1", "[2001:db8::2]:1"]);
        assert_eq!(interleave(resolved.clone()), resolved);
    }

    #[tokio::test]
    async fn an_address_without_an_answer_does_not_hold_up_the_others() {
        // Nobody accepts, and there is room for nobody: the kernel leaves whoever comes then without an answer.
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let silent_address = silent.local_addr().unwrap().as_socket().unwrap();
        let attempt = || std::net::TcpStream::connect_timeout(&silent_address, Duration::from_millis(200));
        let waiting: Vec<_> = std::iter::from_fn(|| attempt().ok()).take(100).collect();
        assert!(waiting.len() < 100, "it is full");
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listening.local_addr().unwrap();
        let (side, lookups) = (SideOptions::default(), Lookups::start().unwrap());
        let route = Dialer {
            side: &side,
            source: None,
            lookups: &lookups,
            client: address.ip(),
            names: None,
            check: &|_: &Host, _: SocketAddr| Ok(()),
            made: None,
        };
        let to = Destination::from(address);
        let both = [silent_address, address];
        // No patience of its own: without the second attempt it would wait for minutes.
        let patient = tokio::time::timeout(Duration::from_secs(30), route.race(&to, &both));
        let stream = patient.await.expect("the second is tried meanwhile").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        // One that refuses is followed at once, and the last failure is told.
        drop(listening);
        let failed = route.race(&to, &[address, address]).await.unwrap_err();
        assert_eq!(failed.kind, FailureKind::Refused);
    }

    #[test]
    fn a_client_that_is_refused_a_name_does_not_learn_its_address() {
        let denied = |to: &str| {
            let to = Destination::read(to.as_bytes()).unwrap();
            Failure::denied(&to, "10.1.2.3:80".parse().unwrap(), &Denied::Special("an address of this machine"))
        };
        let of_name = denied("inner.example:80");
        assert_eq!(of_name.why, "inner.example:80, 10.1.2.3:80, is not allowed: it is an address of this machine");
        let answer = String::from_utf8(of_name.http().answer()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("inner.example:80 is not allowed"), "{answer}");
        assert!(!answer.contains("10.1.2.3") && !answer.contains("machine"), "{answer}");
        let of_address = String::from_utf8(denied("10.1.2.3:80").http().answer()).unwrap();
        assert!(of_address.contains("10.1.2.3:80 is not allowed: it is an address of this machine"), "{of_address}");
    }

    #[test]
    fn the_loopback_is_among_the_addresses_of_this_machine() {
        assert!(own_addresses().unwrap().contains(&"127.0.0.1".parse().unwrap()));
    }
}
