//! The proxy's file.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};

use headend_engine::units::Bytes;
use headend_engine::units::quantity;
use headend_host::proxy::access::{Destinations, NameRule, Networks, Rule};
use headend_host::proxy::config::{Answer, Config, Limits, Listener, Log, LogFormat, Model, Spool, Way};
use headend_host::proxy::field::{Field, Table, Written};
use headend_host::proxy::inbound::Destination;
use headend_host::proxy::inbound::proxy_protocol::Version;
use headend_host::proxy::side::SideOptions;
use headend_host::proxy::tls::Tls;
use headend_host::proxy::users::Users;

use super::WayName;
use crate::failure::Failure;
use crate::from_text::from_text;
use crate::input;
use crate::visitors::AdminTable;

/// Reads the file of a proxy.
pub(super) fn read(path: &Path) -> Result<Config, Failure> {
    let (name, text) = input::read(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    parse(&name, &text, folder).map_err(|message| Failure::wrong_in(&name, &text, message))
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
    local: TableOf<SideOptions>,
    #[serde(default)]
    remote: TableOf<SideOptions>,
    #[serde(default)]
    destinations: DestinationsTable,
    #[serde(default)]
    limits: TableOf<Limits>,
    spool: Option<SpoolTable>,
    admin: Option<AdminTable>,
    handover: Option<PathBuf>,
    control: Option<PathBuf>,
    syslog: Option<PathBuf>,
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
    answer: Option<AnswerName>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

#[derive(Debug, serde::Deserialize)]
enum AnswerName {
    #[serde(rename = "held")]
    Held,
    #[serde(rename = "at once")]
    AtOnce,
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
#[serde(deny_unknown_fields, default)]
struct DestinationsTable {
    allow: Vec<RuleText>,
    deny: Vec<RuleText>,
    only: Vec<RuleText>,
    deny_names: Vec<NameText>,
    only_names: Vec<NameText>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SpoolTable {
    folder: PathBuf,
    quota: Size,
}

from_text!(Size, Bytes, |text| quantity::size(text).ok_or_else(|| quantity::SIZE.to_owned()));
from_text!(RuleText, Rule, |text| Rule::read(text).map_err(str::to_owned));
from_text!(NameText, NameRule, |text| NameRule::read(text).map_err(str::to_owned));
from_text!(Network, ipnet::IpNet, |text| {
    Networks::read(text).ok_or_else(|| "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned())
});
from_text!(To, Destination, |text: &str| {
    Destination::read(text.as_bytes()).map_err(|why| format!("\"host:port\"; {why}"))
});
/// A table whose fields describe themselves.
#[derive(Debug, Default)]
struct TableOf<T>(T);

impl<'de, T: Table> Deserialize<'de> for TableOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TableVisitor(PhantomData))
    }
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Table> Visitor<'de> for TableVisitor<T> {
    type Value = TableOf<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TableOf<T>, A::Error> {
        let mut found: Vec<(usize, Written)> = Vec::new();
        while let Some(index) = map.next_key_seed(KeyOf::<T>(PhantomData))? {
            found.push((index, map.next_value_seed(ValueOf(&T::FIELDS[index]))?));
        }
        // One field may begin what others change, whatever their order in the file.
        found.sort_by_key(|(index, _)| *index);
        let mut table = T::default();
        for (index, written) in found {
            (T::FIELDS[index].read)(&mut table, written).map_err(A::Error::custom)?;
        }
        Ok(TableOf(table))
    }
}

/// The name of a field, which is read as its place in [`Table::FIELDS`].
struct KeyOf<T>(PhantomData<T>);

impl<'de, T: Table> DeserializeSeed<'de> for KeyOf<T> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        let name = String::deserialize(deserializer)?;
        T::FIELDS.iter().position(|field| field.name == name).ok_or_else(|| {
            let names: Vec<String> = T::FIELDS.iter().map(|field| format!("`{}`", field.name)).collect();
            D::Error::custom(format!("unknown field `{name}`, expected one of {}", names.join(", ")))
        })
    }
}

/// The value of a field, tried where it stands, so that a mistake is told with its line.
struct ValueOf<T: 'static>(&'static Field<T>);

impl<'de, T: Table> DeserializeSeed<'de> for ValueOf<T> {
    type Value = Written;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Written, D::Error> {
        let written = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Written::Text(text),
            toml::Value::Integer(number) => Written::Number(number),
            toml::Value::Boolean(truth) => Written::Truth(truth),
            other => return Err(D::Error::custom(format!("found {}, expected one value", other.type_str()))),
        };
        (self.0.read)(&mut T::default(), written.clone()).map_err(D::Error::custom)?;
        Ok(written)
    }
}

/// A field, and what is wrong with it.
type Mistake = (String, String);

impl File {
    fn config(self, folder: &Path) -> Result<Config, Mistake> {
        let listeners: Result<Vec<Listener>, Mistake> =
            (1..).zip(self.listen).map(|(number, table)| table.listener(number, folder)).collect();
        let mut config = Config::new(listeners?);
        config.workers = self.workers.unwrap_or(config.workers);
        config.user = self.user.or(config.user);
        config.local = self.local.0;
        config.remote = self.remote.0;
        config.destinations = self.destinations.destinations();
        config.limits = self.limits.0;
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
        config.control = self.control.map(|path| folder.join(path));
        config.syslog = self.syslog.map(|path| folder.join(path));
        config.handover = self.handover.map(|path| folder.join(path));
        config.admin = self.admin.map(AdminTable::admin);
        Ok(config)
    }
}

impl ListenTable {
    fn listener(self, number: usize, folder: &Path) -> Result<Listener, Mistake> {
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
        if self.answer.is_some() && way != Way::Transparent {
            return wrong(
                "answer",
                "only clients of way = \"transparent\" wait for an answer of their server; leave it out",
            );
        }
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let tls = Tls::load(&folder.join(certificate), &folder.join(key), &way);
                Some(tls.map_err(|why| (format!("listen {number}: certificate"), why))?)
            }
            (Some(_), None) => return wrong("key", "missing: the certificate's key, a file in PEM"),
            (None, Some(_)) => return wrong("certificate", "missing: the key's certificate, a file in PEM"),
            (None, None) => None,
        };
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
            answer: match self.answer {
                None | Some(AnswerName::Held) => Answer::Held,
                Some(AnswerName::AtOnce) => Answer::AtOnce,
            },
            tls,
        })
    }
}

impl DestinationsTable {
    fn destinations(self) -> Destinations {
        let rules = |rules: Vec<RuleText>| rules.into_iter().map(|rule| rule.0).collect();
        let names = |names: Vec<NameText>| names.into_iter().map(|name| name.0).collect();
        Destinations {
            deny: rules(self.deny),
            allow: rules(self.allow),
            only: rules(self.only),
            deny_names: names(self.deny_names),
            only_names: names(self.only_names),
        }
    }
}

#[cfg(test)]
mod tests {
    use headend_engine::time::Duration;

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
