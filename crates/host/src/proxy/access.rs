//! Access: the clients that may use the proxy, and the destinations that they may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::inbound::Host;
pub use names::NameRule;

mod names;

/// Networks that clients or senders are in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// Addresses, and ports of them: `192.0.2.0/24`, `192.0.2.7:443`, `[2001:db8::/32]:8000-8999`, `*:25`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `None` for all addresses.
    network: Option<IpNet>,
    ports: RangeInclusive<u16>,
}

/// The destinations that connections may have. The address that is connected to decides, after all resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Never, whatever else says so.
    pub deny: Vec<Rule>,
    /// Although they are special addresses, see [`special`].
    pub allow: Vec<Rule>,
    /// The only destinations besides those that `allow` lists, if there are any here.
    pub only: Vec<Rule>,
    /// Never, if a client asks for it by such a name.
    pub deny_names: Vec<NameRule>,
    /// The only destinations besides those of `allow` and `only`, if there are any here.
    pub only_names: Vec<NameRule>,
}

/// Why a destination is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A rule denies it.
    #[error("the rules deny it")]
    Listed,
    /// Rules say where connections may go, and this is elsewhere.
    #[error("it is not among the destinations that the rules list")]
    Unlisted,
    /// An address that nobody outside has business with.
    #[error("it is {0}")]
    Special(&'static str),
    /// Mail: a proxy that carries it for others is found by spammers within hours.
    #[error("mail (port 25) takes a rule that allows it")]
    Mail,
}

impl Networks {
    /// These networks.
    pub fn new(networks: Vec<IpNet>) -> Networks {
        Networks(networks)
    }

    /// Reads `10.0.0.0/8`, `2001:db8::/32`, or an address for itself alone. What is IPv4 in IPv6 is IPv4.
    pub fn read(text: &str) -> Option<IpNet> {
        let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        network.map(|network: IpNet| canonical(network.trunc()))
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `address` is in one of them; an IPv4 address in IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl Rule {
    /// Reads a rule; the error says what would be right.
    pub fn read(text: &str) -> Result<Rule, &'static str> {
        const EXPECTED: &str = "an address, a network, or either with ports, such as \"192.0.2.0/24\", \"192.0.2.7:443\", \
                                \"[2001:db8::/32]:8000-8999\" or \"*:25\"";
        let all = 1..=u16::MAX;
        if let Some(network) = Networks::read(text) {
            return Ok(Rule { network: Some(network), ports: all });
        }
        let (network, ports) = match text.strip_prefix('[') {
            Some(inner) => {
                let (network, after) = inner.split_once(']').ok_or(EXPECTED)?;
                let ports = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(EXPECTED)?) };
                (network, ports)
            }
            None => {
                let (network, ports) = text.split_once(':').unwrap_or((text, ""));
                (network, Some(ports).filter(|_| text.contains(':')))
            }
        };
        let network = match network {
            "*" => None,
            text => Some(Networks::read(text).ok_or(EXPECTED)?),
        };
        let ports = match ports {
            None => all,
            Some(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let read = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or(EXPECTED);
                let ports = read(first)?..=read(last)?;
                if ports.is_empty() { return Err(EXPECTED) } else { ports }
            }
        };
        Ok(Rule { network, ports })
    }

    fn covers(&self, address: SocketAddr) -> bool {
        self.ports.contains(&address.port()) && self.network.is_none_or(|network| network.contains(&address.ip()))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.network {
            None => f.write_str("*")?,
            Some(network @ IpNet::V4(_)) => write!(f, "{network}")?,
            Some(network @ IpNet::V6(_)) => write!(f, "[{network}]")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

impl Destinations {
    /// Checks that a client may ask for `host`, whatever addresses that has.
    pub fn check_name(&self, host: &Host) -> Result<(), Denied> {
        let Host::Name(name) = host else { return Ok(()) };
        if self.deny_names.iter().any(|rule| rule.covers(name)) { Err(Denied::Listed) } else { Ok(()) }
    }

    /// Checks that a connection may go to `address`, which a client asked for as `host`. `own` are the addresses of this
    /// machine.
    pub fn check(&self, host: &Host, address: SocketAddr, own: &[IpAddr]) -> Result<(), Denied> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let covered = |rules: &[Rule]| rules.iter().any(|rule| rule.covers(address));
        // What is forbidden stays so behind a gateway.
        let behind = embedded(address.ip()).map(|v4| SocketAddr::new(v4.into(), address.port()));
        let is_denied = |address| self.deny.iter().any(|rule| rule.covers(address));
        if is_denied(address) || behind.is_some_and(is_denied) {
            return Err(Denied::Listed);
        }
        if covered(&self.allow) {
            return Ok(());
        }
        if let Some(what) = special(address.ip()) {
            return Err(Denied::Special(what));
        }
        if own.contains(&address.ip()) || behind.is_some_and(|behind| own.contains(&behind.ip())) {
            return Err(Denied::Special("an address of this machine"));
        }
        if covered(&self.only) {
            return Ok(());
        }
        let is_named = matches!(host, Host::Name(name) if self.only_names.iter().any(|rule| rule.covers(name)));
        let is_all = self.only.is_empty() && self.only_names.is_empty();
        if !is_all && !is_named {
            return Err(Denied::Unlisted);
        }
        if address.port() == 25 { Err(Denied::Mail) } else { Ok(()) }
    }
}

/// Addresses are compared without IPv6 clothes: a network must not wear them either, or it would hold none of its own.
fn canonical(network: IpNet) -> IpNet {
    let v4 = |v6: Ipv6Net| {
        let length = v6.prefix_len().checked_sub(96)?;
        Ipv4Net::new(v6.addr().to_ipv4_mapped()?, length).ok()
    };
    match network {
        IpNet::V6(v6) => v4(v6).map_or(network, IpNet::V4),
        IpNet::V4(_) => network,
    }
}

/// The reason why no client has business with an address (IANA's special-purpose registries, RFC 6890), if there is
/// one. Private networks are among them: what an operator has there is for the operator, unless it says otherwise.
pub fn special(address: IpAddr) -> Option<&'static str> {
    const METADATA: &[IpAddr] = &[
        IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
        IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
        IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
        IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
    ];
    let address = address.to_canonical();
    if METADATA.contains(&address) {
        return Some("a cloud's metadata service");
    }
    match address {
        IpAddr::V4(v4) => {
            let within = |octets: [u8; 4], len| Ipv4Net::new_assert(octets.into(), len).contains(&v4);
            match v4 {
                _ if v4.is_loopback() => Some("a loopback address"),
                _ if v4.is_link_local() => Some("a link-local address"),
                _ if v4.is_multicast() => Some("a multicast address"),
                _ if v4.is_private() => Some("a private address"),
                _ if within([100, 64, 0, 0], 10) => Some("an address of a carrier's own network"),
                _ if within([0, 0, 0, 0], 8) => Some("an unspecified address"),
                _ if within([240, 0, 0, 0], 4) => Some("a reserved or broadcast address"),
                _ => None,
            }
        }
        IpAddr::V6(v6) => {
            let within = |prefix: [u16; 8], len| Ipv6Net::new_assert(prefix.into(), len).contains(&v6);
            match v6 {
                _ if v6.is_loopback() => Some("a loopback address"),
                _ if v6.is_unspecified() => Some("an unspecified address"),
                _ if v6.is_multicast() => Some("a multicast address"),
                _ if v6.is_unique_local() => Some("a private address"),
                // fe80::/10 and the site-local fec0::/10 before it.
                _ if within([0xfe80, 0, 0, 0, 0, 0, 0, 0], 9) => Some("a link-local address"),
                // RFC 8215: a network's own gateways, which lead to its private addresses as well.
                _ if within([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48) => Some("an address of a gateway to IPv4"),
                _ => {
                    let behind = embedded(address).and_then(|v4| special(v4.into()));
                    behind.or(within([0; 8], 96).then_some("an IPv4-compatible address"))
                }
            }
        }
    }
}

/// The IPv4 address that a gateway would make of an IPv6 address.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let octets = v6.octets();
    let at = match v6.segments() {
        // IPv4-compatible (RFC 4291 s2.5.5.1), translated (RFC 2765 s2.1), and NAT64's well-known prefix (RFC 6052 s2.1).
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => 12,
        // 6to4 (RFC 3056 s2).
        [0x2002, ..] => 2,
        _ => return None,
    };
    Some(Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]))
}

/// The address by which limits count a client: its own, or the first of its IPv6 network of `prefix` bits, of which a
/// subscriber has every address (RFC 6177).
pub(crate) fn subscriber(address: IpAddr, prefix: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| Rule::read(text).unwrap()).collect()
    }

    fn check(rules: &Destinations, address: &str) -> Result<(), Denied> {
        let address: SocketAddr = address.parse().unwrap();
        rules.check(&address.ip().into(), address, &["203.0.113.9".parse().unwrap()])
    }

    #[test]
    fn special_addresses_are_denied_unless_a_rule_allows_them() {
        let none = Destinations::default();
        for address in [
            "127.0.0.1:80",
            "127.255.255.254:80",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "169.254.169.254:80",
            "169.254.0.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "[64:ff9b::7f00:1]:80",
            "[2002:7f00:1::]:80",
            "[::127.0.0.1]:80",
            "[::ffff:0:127.0.0.1]:80",
            "[64:ff9b:1::8.8.8.8]:80",
            "[2002:cb00:7109::1]:80",
            "[64:ff9b::203.0.113.9]:80",
            "[fd00:ec2::254]:80",
            "[fd20:ce::254]:80",
            "203.0.113.9:80",
            "[::ffff:203.0.113.9]:80",
            "192.0.2.1:25",
            "10.0.0.1:22",
            "172.16.0.1:80",
            "172.31.255.255:80",
            "192.168.1.1:80",
            "100.64.0.1:80",
            "100.127.255.255:80",
            "[fc00::1]:80",
            "[fd12:3456::1]:80",
            "[::ffff:192.168.1.1]:80",
            "[64:ff9b::10.0.0.1]:80",
        ] {
            assert!(check(&none, address).is_err(), "{address}");
        }
        for address in [
            "192.0.2.1:80",
            "172.32.0.1:80",
            "100.128.0.1:80",
            "[2001:db8::1]:443",
            "[64:ff9b::808:808]:80",
            "203.0.113.8:80",
        ] {
            assert_eq!(check(&none, address), Ok(()), "{address}");
        }
        let some =
            Destinations { allow: rules(&["127.0.0.1:8080", "::1", "*:25", "10.1.0.0/16"]), ..Destinations::default() };
        assert_eq!(check(&some, "127.0.0.1:8080"), Ok(()));
        assert_eq!(check(&some, "[::ffff:127.0.0.1]:8080"), Ok(()));
        assert_eq!(check(&some, "[::1]:1"), Ok(()));
        assert_eq!(check(&some, "10.1.2.3:22"), Ok(()));
        assert!(check(&some, "10.2.2.3:22").is_err());
        assert_eq!(check(&some, "192.0.2.1:25"), Ok(()));
        assert!(check(&some, "127.0.0.1:8081").is_err());
    }

    #[test]
    fn a_denied_place_stays_denied_and_only_leaves_nothing_else() {
        let some = Destinations {
            deny: rules(&["10.0.0.0/8:1-1023", "[2001:db8::/32]"]),
            allow: rules(&["10.0.0.0/8"]),
            only: rules(&["192.0.2.0/24:443"]),
            ..Destinations::default()
        };
        assert_eq!(check(&some, "10.1.2.3:80"), Err(Denied::Listed));
        assert_eq!(check(&some, "10.1.2.3:8080"), Ok(()));
        assert_eq!(check(&some, "[2001:db8::1]:443"), Err(Denied::Listed));
        assert_eq!(check(&some, "192.0.2.5:443"), Ok(()));
        assert_eq!(check(&some, "192.0.2.5:80"), Err(Denied::Unlisted));
        assert_eq!(check(&some, "198.51.100.1:443"), Err(Denied::Unlisted));
    }

    #[test]
    fn only_names_lead_to_public_addresses_and_nowhere_else() {
        let name = |text: &str| NameRule::read(text).unwrap();
        let some = Destinations {
            only: rules(&["192.0.2.0/24:443"]),
            only_names: vec![name("*.example.org")],
            deny_names: vec![name("bad.example.org")],
            ..Destinations::default()
        };
        let of = |host: &str, address: &str| {
            let host = Host::read(host.as_bytes()).unwrap();
            some.check_name(&host).and_then(|()| some.check(&host, address.parse().unwrap(), &[]))
        };
        assert_eq!(of("www.example.org", "198.51.100.1:80"), Ok(()));
        assert_eq!(of("bad.EXAMPLE.org.", "198.51.100.1:80"), Err(Denied::Listed));
        assert_eq!(of("example.com", "198.51.100.1:80"), Err(Denied::Unlisted));
        assert_eq!(of("example.com", "192.0.2.1:443"), Ok(()), "an address that is listed");
        assert_eq!(of("198.51.100.1", "198.51.100.1:80"), Err(Denied::Unlisted));
        assert!(of("www.example.org", "10.0.0.1:80").is_err(), "a name does not open what is private");
        assert_eq!(of("www.example.org", "198.51.100.1:25"), Err(Denied::Mail));
    }

    #[test]
    fn a_denied_address_stays_denied_in_any_ipv6_form() {
        for text in ["10.0.0.0/8", "::ffff:10.0.0.0/104", "[::ffff:10.0.0.0/104]:80"] {
            let some = Destinations { deny: rules(&[text]), ..Destinations::default() };
            for address in ["10.1.2.3", "[::ffff:10.1.2.3]", "[64:ff9b::10.1.2.3]", "[2002:a01:203::1]"] {
                assert_eq!(check(&some, &format!("{address}:80")), Err(Denied::Listed), "{address}, denied {text}");
            }
            assert_eq!(check(&some, "[64:ff9b::11.1.2.3]:80"), Ok(()));
        }
    }

    #[test]
    fn rules_are_read_and_written_alike_and_mistakes_told() {
        for text in ["192.0.2.0/24", "192.0.2.7/32:443", "[2001:db8::/32]:8000-8999", "[2001:db8::1/128]", "*:25", "*"]
        {
            assert_eq!(Rule::read(text).map(|rule| rule.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["", "192.0.2.0/33", "192.0.2.7:", "192.0.2.7:0", "192.0.2.7:9-8", "[::1", "[::1]80", "host:80", "*:x"]
        {
            assert!(Rule::read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_client_in_ipv6_clothes_is_known() {
        let networks = Networks::new(vec![Networks::read("10.1.2.3/8").unwrap()]);
        assert!(networks.contains("::ffff:10.9.9.9".parse().unwrap()));
        assert!(!networks.contains("11.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_subscriber_is_one_ipv4_address_or_a_56_of_ipv6() {
        let with = |address: &str, prefix| subscriber(address.parse().expect("an address"), prefix).to_string();
        let of = |address: &str| with(address, 56);
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2::7"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_eq!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:102::7"));
        assert_ne!(with("2001:db8:1:2::7", 64), with("2001:db8:1:3::7", 64));
        assert_eq!(with("2001:db8::7", 128), "2001:db8::7");
    }
}
