//! The proxy's file.

use std::fmt::Display;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _};

use headend_engine::time::Duration;
use headend_engine::units::Bytes;
use headend_engine::units::quantity;
use headend_host::proxy::access::{Destinations, Networks, Rule};
use headend_host::proxy::config::{Admin, Config, Limits, Listener, Log, LogFormat, Model, Spool, Way};
use headend_host::proxy::inbound::Destination;
use headend_host::proxy::inbound::proxy_protocol::Version;
use headend_host::proxy::side::SideOptions;
use headend_host::proxy::users::Users;

use crate::failure::Failure;

/// Reads the file of a proxy.
pub(super) fn read(path: &Path) -> Result<Config, Failure> {
    let text = fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => {
            Failure::Wrong(format!("{}: {error}", path.display()))
        }
        _ => Failure::io(path, error),
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&path.display().to_string(), &text, folder).map_err(Failure::Wrong)
}

/// Reads `text`, whose errors begin with `name`; relative paths in it begin in `folder`.
fn parse(name: &str, text: &str, folder: &Path) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let message = error.message().trim_end();
        match error.span() {
            Some(span) if !span.is_empty() || span.start > 0 => {
                let before = &text[..span.start.min(text.len())];
                let line = before.matches('\n').count();
                let shown = text.lines().nth(line).unwrap_or_default().trim();
                format!("{name}:{}: {shown}: {message}", line + 1)
            }
            _ => format!("{name}: {message}"),
        }
    })?;
    file.config(folder).map_err(|(field, why)| format!("{name}: {field}: {why}"))
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workers: Option<NonZeroUsize>,
    user: Option<String>,
    #[serde(default)]
    relay: RelayName,
    #[serde(default)]
    log: LogName,
    #[serde(default)]
    log_format: LogFormatName,
    #[serde(default)]
    listen: Vec<ListenTable>,
    #[serde(default)]
    local: SideTable,
    #[serde(default)]
    remote: SideTable,
    #[serde(default)]
    destinations: DestinationsTable,
    #[serde(default)]
    limits: LimitsTable,
    spool: Option<SpoolTable>,
    admin: Option<AdminTable>,
    handover: Option<PathBuf>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RelayName {
    #[default]
    Buffer,
    Store,
}

#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LogName {
    #[default]
    None,
    Connections,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LogFormatName {
    #[default]
    Logfmt,
    Json,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenTable {
    address: SocketAddr,
    way: WayName,
    to: Option<To>,
    #[serde(default)]
    clients: Vec<Network>,
    users: Option<PathBuf>,
    proxy_protocol: Option<ProxyProtocolName>,
    #[serde(default)]
    proxy_senders: Vec<Network>,
    send_proxy: Option<VersionName>,
    #[serde(default)]
    keep_client_address: bool,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WayName {
    Http,
    Socks5,
    Transparent,
    Forward,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProxyProtocolName {
    Accept,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VersionName {
    V1,
    V2,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SideTable {
    personality: Option<Personality>,
    congestion_control: Option<String>,
    rto_min: Option<Span>,
    delayed_ack_max: Option<Span>,
    quick_acks: Option<bool>,
    dupack_threshold: Option<u32>,
    initial_window: Option<u32>,
    mss: Option<Size>,
    send_buffer: Option<Size>,
    receive_buffer: Option<Size>,
    unsent_low_water: Option<Size>,
    user_timeout: Option<Span>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DestinationsTable {
    allow: Vec<RuleText>,
    deny: Vec<RuleText>,
    only: Vec<RuleText>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    connections: Option<NonZeroUsize>,
    connections_per_client: Option<NonZeroUsize>,
    memory_per_connection: Option<Size>,
    memory: Option<Size>,
    socket_memory: Option<Size>,
    header: Option<Size>,
    handshake: Option<Span>,
    connect: Option<Span>,
    idle: Option<Span>,
    drain: Option<Span>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SpoolTable {
    folder: PathBuf,
    quota: Size,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminTable {
    listen: SocketAddr,
    #[serde(default)]
    clients: Vec<Network>,
    #[serde(default)]
    names: Vec<String>,
}

/// A value that is written as text; what it is not is said where it is.
macro_rules! from_text {
    ($name:ident, $inner:ty, $read:expr) => {
        #[derive(Debug)]
        struct $name($inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let read: Result<$inner, String> = $read(text.as_str());
                read.map($name).map_err(|expected| D::Error::custom(found(&text, expected)))
            }
        }
    };
}

fn found(text: &str, expected: impl Display) -> String {
    format!("found {text:?}, expected {expected}")
}

from_text!(Size, Bytes, |text| quantity::size(text).ok_or_else(|| quantity::SIZE.to_owned()));
from_text!(Span, Duration, |text| {
    quantity::span(text)
        .filter(|span| *span > Duration::ZERO)
        .ok_or_else(|| format!("{} longer than none", quantity::SPAN))
});
from_text!(RuleText, Rule, |text| Rule::read(text).map_err(str::to_owned));
from_text!(Network, ipnet::IpNet, |text| {
    Networks::read(text).ok_or_else(|| "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned())
});
from_text!(To, Destination, |text: &str| {
    Destination::read(text.as_bytes()).map_err(|why| format!("\"host:port\"; {why}"))
});
from_text!(Personality, SideOptions, |text| {
    SideOptions::named(text).ok_or_else(|| format!("one of {}", SideOptions::names().collect::<Vec<_>>().join(", ")))
});

/// A field, and what is wrong with it.
type Wrong = (String, String);

impl File {
    fn config(self, folder: &Path) -> Result<Config, Wrong> {
        let listeners: Result<Vec<Listener>, Wrong> =
            (1..).zip(self.listen).map(|(number, table)| table.listener(number, folder)).collect();
        let mut config = Config::new(listeners?);
        config.workers = self.workers.unwrap_or(config.workers);
        config.user = self.user.or(config.user);
        config.local = self.local.side();
        config.remote = self.remote.side();
        config.destinations = self.destinations.destinations();
        config.limits = self.limits.limits();
        config.model = match (self.relay, self.spool) {
            (RelayName::Buffer, None) => Model::Buffer,
            (RelayName::Store, Some(spool)) => {
                Model::Store(Spool { folder: folder.join(spool.folder), quota: spool.quota.0 })
            }
            (RelayName::Buffer, Some(_)) => {
                return Err((
                    "spool".to_owned(),
                    "nothing is spooled unless relay = \"store\"; leave it out".to_owned(),
                ));
            }
            (RelayName::Store, None) => {
                let why = "relay = \"store\" needs to know where: [spool] with folder and quota";
                return Err(("spool".to_owned(), why.to_owned()));
            }
        };
        config.log = Log {
            connections: self.log == LogName::Connections,
            format: match self.log_format {
                LogFormatName::Logfmt => LogFormat::Logfmt,
                LogFormatName::Json => LogFormat::Json,
            },
        };
        config.handover = self.handover.map(|path| folder.join(path));
        config.admin = self.admin.map(|table| Admin {
            address: table.listen,
            clients: Networks::new(table.clients.into_iter().map(|network| network.0).collect()),
            names: table.names,
        });
        Ok(config)
    }
}

impl ListenTable {
    fn listener(self, number: usize, folder: &Path) -> Result<Listener, Wrong> {
        let wrong = |field: &str, why: &str| Err((format!("listen {number}: {field}"), why.to_owned()));
        let way = match (self.way, self.to) {
            (WayName::Forward, Some(To(to))) => Way::Forward(to),
            (WayName::Forward, None) => return wrong("to", "missing: where to forward, \"host:port\""),
            (_, Some(_)) => return wrong("to", "only way = \"forward\" goes to one place; leave it out"),
            (WayName::Http, None) => Way::Http,
            (WayName::Socks5, None) => Way::Socks5,
            (WayName::Transparent, None) => Way::Transparent,
        };
        match (&self.proxy_protocol, self.proxy_senders.is_empty()) {
            (Some(ProxyProtocolName::Accept), true) => {
                return wrong("proxy_senders", "missing: whose PROXY headers to believe, such as [\"10.0.0.5\"]");
            }
            (None, false) => {
                return wrong("proxy_senders", "they have nothing to send unless proxy_protocol = \"accept\"");
            }
            _ => {}
        }
        let networks = |networks: Vec<Network>| Networks::new(networks.into_iter().map(|network| network.0).collect());
        let users = self.users.map(|path| Users::load(&folder.join(path))).transpose();
        Ok(Listener {
            address: self.address,
            way,
            clients: networks(self.clients),
            users: users.map_err(|why| (format!("listen {number}: users"), why.to_string()))?,
            proxy_senders: networks(self.proxy_senders),
            send_proxy: self.send_proxy.map(|version| match version {
                VersionName::V1 => Version::V1,
                VersionName::V2 => Version::V2,
            }),
            keep_client_address: self.keep_client_address,
        })
    }
}

impl SideTable {
    /// The personality, and what is spelt out beside it.
    fn side(self) -> SideOptions {
        let base = self.personality.map(|personality| personality.0).unwrap_or_default();
        let span = |span: Option<Span>| span.map(|span| span.0);
        let size = |size: Option<Size>| size.map(|size| size.0);
        SideOptions {
            congestion_control: self.congestion_control.or(base.congestion_control),
            rto_min: span(self.rto_min).or(base.rto_min),
            delayed_ack_max: span(self.delayed_ack_max).or(base.delayed_ack_max),
            quick_acks: self.quick_acks.unwrap_or(base.quick_acks),
            dupack_threshold: self.dupack_threshold.or(base.dupack_threshold),
            initial_window: self.initial_window.or(base.initial_window),
            mss: size(self.mss).or(base.mss),
            send_buffer: size(self.send_buffer).or(base.send_buffer),
            receive_buffer: size(self.receive_buffer).or(base.receive_buffer),
            unsent_low_water: size(self.unsent_low_water).or(base.unsent_low_water),
            user_timeout: span(self.user_timeout).or(base.user_timeout),
            name: base.name,
            unmapped: base.unmapped,
        }
    }
}

impl DestinationsTable {
    fn destinations(self) -> Destinations {
        let rules = |rules: Vec<RuleText>| rules.into_iter().map(|rule| rule.0).collect();
        Destinations { deny: rules(self.deny), allow: rules(self.allow), only: rules(self.only) }
    }
}

impl LimitsTable {
    fn limits(self) -> Limits {
        let default = Limits::default();
        let span = |span: Option<Span>, default| span.map_or(default, |span| std_duration(span.0));
        Limits {
            connections: self.connections.map_or(default.connections, NonZeroUsize::get),
            connections_per_client: self
                .connections_per_client
                .map_or(default.connections_per_client, NonZeroUsize::get),
            memory_per_connection: self.memory_per_connection.map_or(default.memory_per_connection, |size| size.0),
            memory: self.memory.map_or(default.memory, |size| size.0),
            socket_memory: self.socket_memory.map(|size| size.0).or(default.socket_memory),
            header: self.header.map_or(default.header, |size| size.0),
            handshake: span(self.handshake, default.handshake),
            connect: span(self.connect, default.connect),
            idle: span(self.idle, default.idle),
            drain: span(self.drain, default.drain),
        }
    }
}

fn std_duration(span: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = "[[listen]]\naddress = \"127.0.0.1:3128\"\nway = \"http\"\n";

    fn parsed(text: &str) -> Result<Config, String> {
        parse("proxy.toml", text, Path::new("."))
    }

    #[test]
    fn a_file_without_an_option_has_the_documented_default() {
        let config = parsed(SMALLEST).unwrap();
        assert_eq!(config, Config::new(vec![Listener::new("127.0.0.1:3128".parse().unwrap(), Way::Http)]));
    }

    #[test]
    fn a_personality_is_what_its_name_says_and_what_is_spelt_out_beside_it() {
        let config = parsed(&format!("{SMALLEST}[local]\npersonality = \"hfc-local\"\nrto_min = \"30ms\"\n")).unwrap();
        let expected = SideOptions { rto_min: Some(Duration::from_millis(30)), ..SideOptions::hfc_local() };
        assert_eq!(config.local, expected);
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_what_would_be_right() {
        for (text, expected) in [
            ("[[listen]]\naddress = \"127.0.0.1\"\nway = \"http\"\n".to_owned(), "proxy.toml:2: "),
            (format!("{SMALLEST}wey = 1\n"), "proxy.toml:4: wey = 1: unknown field `wey`, expected one of"),
            (
                SMALLEST.replace("http", "ftp"),
                "proxy.toml:3: way = \"ftp\": unknown variant `ftp`, expected one of `http`",
            ),
            (
                format!("{SMALLEST}[limits]\nmemory = \"64MBit\"\n"),
                "proxy.toml:5: memory = \"64MBit\": found \"64MBit\", expected a size",
            ),
            (format!("{SMALLEST}[limits]\nidle = \"0s\"\n"), "expected a time such as"),
            (format!("{SMALLEST}[local]\npersonality = \"hfc\"\n"), "expected one of hfc-local, internet, tahoe-1988"),
            (format!("{SMALLEST}[destinations]\ndeny = [\"x\"]\n"), "expected an address, a network"),
            (format!("{SMALLEST}to = \"a:1\"\n"), "listen 1: to: only way = \"forward\""),
            (format!("{SMALLEST}proxy_protocol = \"accept\"\n"), "listen 1: proxy_senders: missing"),
            (format!("{SMALLEST}users = \"/none/such\"\n"), "listen 1: users: /none/such: No such file"),
            (format!("relay = \"store\"\n{SMALLEST}"), "[spool] with folder and quota"),
            ("[[listen]]\nway = \"http\"\n".to_owned(), "missing field `address`"),
            ("listen = 1 2\n".to_owned(), "proxy.toml:1: "),
        ] {
            let message = parsed(&text).unwrap_err();
            assert!(message.starts_with("proxy.toml") && message.contains(expected), "{text}\nsaid: {message}");
        }
    }
}
