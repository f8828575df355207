//! The configuration of a proxy. Files are read elsewhere; here is what they come to, and what of it cannot be.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use headend_engine::units::{Bytes, Rate};

use super::access::{Destinations, Networks};
use super::field::fields;
use super::inbound::Destination;
use super::inbound::proxy_protocol::Version;
use super::side::SideOptions;
use super::tls::Tls;
use super::users::Users;

/// A whole proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Threads that move bytes.
    pub workers: NonZeroUsize,
    /// The user that this process becomes once it listens, if it began as root.
    pub user: Option<String>,
    /// Ways in.
    pub listeners: Vec<Listener>,
    /// The TCP towards clients.
    pub local: SideOptions,
    /// The TCP towards servers.
    pub remote: SideOptions,
    /// The model of the relay: how far one side may run ahead of the other.
    pub model: Model,
    /// The destinations that connections may have.
    pub destinations: Destinations,
    /// The bounds of what it takes from others.
    pub limits: Limits,
    /// A line for each connection.
    pub log: Log,
    /// The place at which whoever operates it looks at it.
    pub admin: Option<Admin>,
    /// The path at which a process that is to take the place of this one asks for its sockets.
    pub handover: Option<PathBuf>,
    /// The path at which whoever operates it may ask and change it while it runs.
    pub control: Option<PathBuf>,
    /// The socket of a syslog daemon, for lines and messages.
    pub syslog: Option<PathBuf>,
}

/// The place at which whoever operates a proxy looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The networks whose hosts may look; nobody else. Empty on a loopback address: whoever is on this machine.
    pub clients: Networks,
    /// Names under which browsers may reach it, besides addresses and `localhost`.
    pub names: Vec<String>,
}

/// A way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The protocol that clients speak.
    pub way: Way,
    /// The networks whose hosts may come; nobody else. Empty on a loopback address: whoever is on this machine.
    pub clients: Networks,
    /// The users, one of whom each client must say that it is; none is asked for if absent.
    pub users: Option<Users>,
    /// Senders whose PROXY header is believed; if any, nobody else may come and each must send one.
    pub proxy_senders: Networks,
    /// Tells the server who the client is.
    pub send_proxy: Option<Version>,
    /// Connects with the client's own address.
    pub keep_client_address: bool,
    /// When a client of the transparent way is answered.
    pub answer: Answer,
    /// Clients speak TLS, and inside of it what the way says.
    pub tls: Option<Tls>,
}

/// When a client whose connection is diverted is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Once its server has answered: its first segment is held until then, or answered as the server answers.
    #[default]
    Held,
    /// At once, whether or not the server lives.
    AtOnce,
}

/// The ways in which clients say where they want to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// An HTTP proxy: CONNECT and absolute targets.
    Http,
    /// SOCKS version 5.
    Socks5,
    /// Clients say nothing: the kernel diverts connections meant for others here (TPROXY).
    Transparent,
    /// Clients say nothing: all connections go to one place.
    Forward(Destination),
}

/// The model of a relay: how far one connection may run ahead of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// The connection that receives runs ahead by up to the memory of a connection.
    Buffer,
    /// Data beyond that memory waits in files.
    Store(Spool),
}

/// Files that data waits in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    /// A folder on a file system of its own, best.
    pub folder: PathBuf,
    /// Most bytes in all files together.
    pub quota: Bytes,
}

fields! {
    /// The bounds of what a proxy takes from others.
    pub struct Limits {
        // Twice as many descriptors, and some, fit into the 20,000 that systems commonly grant.
        connections: usize = 8_192, "8192",
            "open connections, 10,000,000 at most. Each takes two descriptors, by TLS four: with fewer than that takes the \
             proxy does not start. Beyond it the one on which nothing has moved for longest is ended, if that is 10 s or more; others wait \
             for 5 s, and are refused then";
        connections_per_client: Option<usize> = None, "1024; of a `forward` way in, all",
            "open connections of one client; further ones are refused. Unless this is given, a client has a quarter of the \
             places that are free at most, or 8";
        client_prefix: u32 = 56, "56",
            "the bits of an IPv6 address that tell clients apart: a /56 is what a subscriber commonly has (RFC 6177). Of \
             IPv4 each address is a client";
        rate_per_client: Option<Rate> = None, "none",
            "the bits of payload that one client may send in a second over all its connections, and have sent to it, such as \
             `\"50Mbit/s\"`; a quarter of a second's worth may come at once, and what is more waits at its sender. Behind a \
             balancer all are one client, unless PROXY headers tell them apart";
        requests_per_client: Option<usize> = None, "none",
            "the requests that one client may make in a second, five times as many at once: a connection through the proxy \
             is one, and each request for a URL. Further ones are refused";
        rate_per_user: Option<Rate> = None, "none",
            "the same of one user, wherever it comes from, where users are asked for";
        requests_per_user: Option<usize> = None, "none",
            "the requests of one user";
        half_closed: Duration = Duration::from_secs(60), "`\"60s\"`",
            "the time without a byte once one direction is closed; both sides are then reset";
        memory_per_connection: Bytes = Bytes::new(256_000), "`\"256KB\"`",
            "the memory in which one direction of a connection waits; at least 4096 bytes";
        memory: Bytes = Bytes::new(256_000_000), "`\"256MB\"`",
            "the memory of all connections together. What a client has said before its server is reached is a part \
             of it beyond the first 1024 bytes. When it is taken, bytes are left in the kernel until the other side \
             takes them, and longer requests wait, for `handshake` at most";
        socket_memory: Option<Bytes> = None, "three quarters of the first number of `net.ipv4.tcp_mem`",
            "the kernel's memory that TCP may have for the socket buffers of the whole machine. When it has more, \
             the proxy's are cut ([how](../explanation/proxy.md#on-the-wire)), but for those of a size that a side \
             asks for; if these alone may take more, the start says so";
        header: Bytes = Bytes::new(16_384), "`\"16384B\"`",
            "the longest head of an HTTP request; 512 bytes to 1 MiB";
        handshake: Duration = Duration::from_secs(10), "`\"10s\"`",
            "the time until a request is complete";
        keep_alive: Duration = Duration::from_secs(60), "`\"60s\"`",
            "the time that a client's connection waits for another request for a URL";
        pool: usize = 512, "512",
            "connections to servers that are kept for another request, of all clients; each takes a descriptor";
        pool_per_server: usize = 6, "6",
            "of those, the ones of one client to one server; no two clients share one";
        pool_idle: Duration = Duration::from_secs(15), "`\"15s\"`",
            "the time that such a connection is kept. Servers commonly close after 5 s and more";
        connect: Duration = Duration::from_secs(30), "`\"30s\"`",
            "the time for resolving and connecting, all attempts together";
        // RFC 5382 REQ-5: who keeps state of others' connections keeps it for two hours and four minutes.
        idle: Duration = Duration::from_secs(7_440), "`\"7440s\"`",
            "the time without a byte either way; both sides are then reset. The default is RFC 5382's";
        drain: Duration = Duration::from_secs(30), "`\"30s\"`",
            "the time for open connections to end after SIGTERM";
    }
}

/// A line for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// True if there are any.
    pub connections: bool,
    /// Their form.
    pub format: LogFormat,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`
    Logfmt,
    /// A JSON object.
    Json,
}

/// A mistake in a field of a listener or of the whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{field}: {what}", .listener.map_or(String::new(), |index| format!("listen {}: ", index + 1)))]
pub struct Wrong {
    /// Which listener, by its place.
    pub listener: Option<usize>,
    /// The field's name.
    pub field: &'static str,
    /// The mistake, and what would be right.
    pub what: String,
}

impl Default for Log {
    fn default() -> Log {
        Log { connections: false, format: LogFormat::Logfmt }
    }
}

impl Listener {
    /// One that asks for nothing special.
    pub fn new(address: SocketAddr, way: Way) -> Listener {
        Listener {
            address,
            way,
            clients: Networks::default(),
            users: None,
            proxy_senders: Networks::default(),
            send_proxy: None,
            keep_client_address: false,
            answer: Answer::default(),
            tls: None,
        }
    }

    /// True if a connection from `address` is to be served.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        admits(&self.clients, address)
    }
}

impl Limits {
    /// The connections that one client may have, of a way in, while so many are open. A quarter of what is free: few clients
    /// cannot take all, and many have less each (Choudhury and Hahne, "Dynamic queue length thresholds", 1998).
    pub(crate) fn share(&self, way: &Way, open: usize) -> usize {
        match (self.connections_per_client, way) {
            (Some(given), _) => given,
            // Behind a balancer all are one client's.
            (None, Way::Forward(_)) => self.connections,
            (None, _) => (self.connections.saturating_sub(open) / 4).clamp(SHARE_MIN, SHARE_MAX),
        }
    }
}

impl Admin {
    /// The fault of `clients`, if there is one.
    pub fn fault(&self) -> Option<&'static str> {
        let is_open = !self.address.ip().to_canonical().is_loopback() && self.clients.is_empty();
        is_open.then_some(
            "missing: beyond the loopback those may look who are listed, such as clients = [\"10.1.0.0/16\"]",
        )
    }

    /// True if `address` may look.
    pub fn admits(&self, address: IpAddr) -> bool {
        admits(&self.clients, address)
    }
}

/// True if `address` is listed, or is on this machine if nobody is listed.
fn admits(clients: &Networks, address: IpAddr) -> bool {
    if clients.is_empty() { address.to_canonical().is_loopback() } else { clients.contains(address) }
}

impl Way {
    /// Its name in files and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Way::Http => "http",
            Way::Socks5 => "socks5",
            Way::Transparent => "transparent",
            Way::Forward(_) => "forward",
        }
    }
}

/// The user that a proxy becomes unless it is told another; where there is none of that name, [`FALLBACK_USER`].
pub(crate) const OWN_USER: &str = "headend";
/// What every machine has, and shares with other daemons.
pub(crate) const FALLBACK_USER: &str = "nobody";
/// The connections that a client may have however many others there are, while any is free: those of a browser to a server.
const SHARE_MIN: usize = 8;
/// The connections that a client may have however few others there are.
const SHARE_MAX: usize = 1_024;
/// One in a nanosecond: rates are no finer.
const REQUESTS_MAX: usize = 1_000_000_000;
/// The most connections that can be counted.
pub(crate) const CONNECTIONS_MAX: usize = 10_000_000;

impl Config {
    /// A proxy with `listeners`, and everything else as it is when nothing is said.
    pub fn new(listeners: Vec<Listener>) -> Config {
        Config {
            workers: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            user: Some(OWN_USER.to_owned()),
            listeners,
            local: SideOptions::default(),
            remote: SideOptions::default(),
            model: Model::Buffer,
            destinations: Destinations::default(),
            limits: Limits::default(),
            log: Log::default(),
            admin: None,
            handover: None,
            control: None,
            syslog: None,
        }
    }

    /// Takes from `first` what a process cannot change once it has started, and names the fields that are other there.
    pub(crate) fn keep_back(&mut self, first: &Config) -> Vec<&'static str> {
        let address = |config: &Config| config.admin.as_ref().map(|admin| admin.address);
        let kept: Vec<&'static str> = [
            ("workers", self.workers != first.workers),
            ("user", self.user != first.user),
            ("handover", self.handover != first.handover),
            ("control", self.control != first.control),
            ("syslog", self.syslog != first.syslog),
            ("admin.listen", address(self) != address(first)),
        ]
        .into_iter()
        .filter_map(|(name, is_other)| is_other.then_some(name))
        .collect();
        self.workers = first.workers;
        self.user.clone_from(&first.user);
        self.handover.clone_from(&first.handover);
        self.control.clone_from(&first.control);
        self.syslog.clone_from(&first.syslog);
        // Without the table nobody may look any more; where one listens stays.
        if let (Some(admin), Some(address)) = (&mut self.admin, address(first)) {
            admin.address = address;
        }
        kept
    }

    /// Finds the first mistake, before anything is opened.
    pub fn check(&self) -> Result<(), Wrong> {
        for (index, listener) in self.listeners.iter().enumerate() {
            let wrong = |field, what: &str| Err(Wrong { listener: Some(index), field, what: what.to_owned() });
            let is_open = !listener.address.ip().to_canonical().is_loopback();
            if is_open && listener.clients.is_empty() {
                return wrong(
                    "clients",
                    "missing: beyond the loopback a proxy serves those whom it is told to, such as \
                     clients = [\"10.0.0.0/8\"]",
                );
            }
            if listener.users.is_some() && !matches!(listener.way, Way::Http | Way::Socks5) {
                return wrong("users", "only clients that speak http or socks5 can say who they are; leave it out");
            }
            if listener.tls.is_some() && !matches!(listener.way, Way::Http | Way::Socks5) {
                return wrong(
                    "certificate",
                    "only clients that speak http or socks5 know that this is a proxy; leave it out",
                );
            }
            if listener.tls.is_some() && !listener.proxy_senders.is_empty() {
                return wrong(
                    "certificate",
                    "a PROXY header would stand before TLS, which is not read here; leave out one",
                );
            }
            let is_twice = |other: &Listener| other.address == listener.address && listener.address.port() != 0;
            if self.listeners[..index].iter().any(is_twice) {
                return wrong("address", "another way in listens there");
            }
        }
        let wrong = |field, what: &str| Err(Wrong { listener: None, field, what: what.to_owned() });
        if let Some(admin) = &self.admin {
            if let Some(fault) = admin.fault() {
                return wrong("admin.clients", fault);
            }
            let is_there = |listener: &Listener| listener.address == admin.address && admin.address.port() != 0;
            if self.listeners.iter().any(is_there) {
                return wrong("admin.listen", "a way in listens there");
            }
        }
        let limits = &self.limits;
        if self.listeners.is_empty() {
            return wrong("listen", "missing: a proxy needs a way in");
        }
        if limits.memory_per_connection < Bytes::new(4_096) {
            return wrong("limits.memory_per_connection", "less than 4096 bytes: nothing would move");
        }
        if limits.memory < limits.memory_per_connection {
            return wrong("limits.memory", "less than limits.memory_per_connection");
        }
        if !(Bytes::new(512)..=Bytes::new(1 << 20)).contains(&limits.header) {
            return wrong("limits.header", "expected from 512B to 1MiB");
        }
        for (field, requests) in [
            ("limits.requests_per_client", limits.requests_per_client),
            ("limits.requests_per_user", limits.requests_per_user),
        ] {
            if requests.is_some_and(|requests| requests > REQUESTS_MAX) {
                return wrong(field, "expected from 1 to 1000000000");
            }
        }
        if limits.client_prefix == 0 || limits.client_prefix > 128 {
            return wrong("limits.client_prefix", "expected from 1 to 128");
        }
        if limits.connections == 0 || limits.connections_per_client == Some(0) {
            return wrong("limits.connections", "expected at least 1");
        }
        if limits.connections > CONNECTIONS_MAX {
            return wrong("limits.connections", "more than 10000000, and than any machine has descriptors for");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_beyond_the_loopback_must_be_told_whom_it_serves() {
        let mut config = Config::new(vec![Listener::new("192.0.2.1:3128".parse().unwrap(), Way::Http)]);
        let wrong = config.check().unwrap_err();
        assert_eq!((wrong.listener, wrong.field), (Some(0), "clients"));
        config.listeners[0].clients = Networks::new(vec!["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(config.check(), Ok(()));
        config.listeners[0].address = "0.0.0.0:3128".parse().unwrap();
        config.listeners[0].clients = Networks::default();
        assert!(config.check().is_err(), "every address of the machine is not the loopback");
    }

    #[test]
    fn those_who_look_at_a_proxy_from_beyond_the_loopback_are_listed() {
        let mut config = Config::new(vec![Listener::new("127.0.0.1:3128".parse().unwrap(), Way::Http)]);
        let admin = |address: &str| Admin {
            address: address.parse().unwrap(),
            clients: Networks::default(),
            names: Vec::new(),
        };
        config.admin = Some(admin("127.0.0.1:9080"));
        assert_eq!(config.check(), Ok(()));
        config.admin = Some(admin("192.0.2.1:9080"));
        assert_eq!(config.check().unwrap_err().field, "admin.clients");
        config.admin = Some(admin("127.0.0.1:3128"));
        assert_eq!(config.check().unwrap_err().field, "admin.listen");
    }

    #[test]
    fn a_few_clients_cannot_take_all_places() {
        let limits = Limits::default();
        let mut open = 0;
        for _client in 0..8 {
            let mut own = 0;
            while own < limits.share(&Way::Http, open) {
                (own, open) = (own + 1, open + 1);
            }
        }
        assert!(open < limits.connections * 7 / 8, "{open} are taken by eight clients");
        assert_eq!(limits.share(&Way::Http, limits.connections), SHARE_MIN);
        let forward = Way::Forward(Destination::read(b"192.0.2.1:80").unwrap());
        assert_eq!(limits.share(&forward, 8_000), limits.connections, "a balancer is one client");
    }

    #[test]
    fn more_connections_than_can_be_counted_are_a_mistake() {
        let mut config = Config::new(vec![Listener::new("127.0.0.1:3128".parse().unwrap(), Way::Http)]);
        config.limits.connections = usize::MAX;
        assert_eq!(config.check().unwrap_err().field, "limits.connections");
    }

    #[test]
    fn a_reload_keeps_and_names_the_fields_that_hold_until_the_end() {
        let listener = Listener::new("127.0.0.1:3128".parse().unwrap(), Way::Http);
        let mut first = Config::new(vec![listener]);
        first.handover = Some("one.sock".into());
        let mut other = first.clone();
        assert!(other.keep_back(&first).is_empty(), "nothing has changed");
        other.handover = Some("two.sock".into());
        other.user = Some("daemon".to_owned());
        other.workers = NonZeroUsize::new(77).unwrap();
        let address = "127.0.0.1:9080".parse().unwrap();
        other.admin = Some(Admin { address, clients: Networks::default(), names: Vec::new() });
        other.limits.connections = 5;
        assert_eq!(other.keep_back(&first), ["workers", "user", "handover", "admin.listen"]);
        assert_eq!((other.workers, &other.user, &other.handover), (first.workers, &first.user, &first.handover));
        assert_eq!(other.limits.connections, 5, "what may change does");
    }

    #[test]
    fn without_a_list_only_the_loopback_is_served() {
        let listener = Listener::new("[::1]:3128".parse().unwrap(), Way::Socks5);
        assert!(listener.admits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!listener.admits("192.0.2.1".parse().unwrap()));
    }
}
