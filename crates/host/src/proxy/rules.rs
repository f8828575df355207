//! The kernel's rules that bring connections of others to a transparent listener, and how they are taken back.
//!
//! Three parts, each of which is ours by a name: an nftables table of its own, which diverts packets and marks them; a
//! rule of the routing policy, which sends what is marked to a table of its own; a route in that table, which delivers
//! everything there to this machine. Rules and routes are known by the protocol number that says who made them.
//!
//! Where the proxy is to reach the server before the client is answered there are two parts more: sets in that table, of
//! servers known to be alive and of whether the proxy serves, and a chain of iptables, whose NFQUEUE hands first segments to
//! the proxy. It is iptables' because nft's own `queue` is not in every kernel that has the other.
//!
//! Fail open: nft's `tproxy` ends its rule where no transparent socket listens (nft(8), TPROXY STATEMENT), so that the
//! mark is not set, and the packet is forwarded as if there were no rule. A proxy that is there and does nothing, because it
//! was stopped or is stuck, ceases to say that it serves, and nothing is diverted either.

mod hold;
mod script;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::config::Answer;
use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;

/// The connections that are diverted, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiversionRules {
    /// Transparent listeners: at most one for each family, and only that family is diverted. An unspecified address
    /// stands for a listener on all addresses.
    pub listeners: Vec<SocketAddr>,
    /// The interfaces that clients are behind; none stands for all.
    pub interfaces: Vec<String>,
    /// The networks that clients are in; none stands for all.
    pub clients: Vec<IpNet>,
    /// The ports of servers; none stands for all.
    pub ports: Vec<u16>,
    /// The most connections that are diverted at a time; further ones are forwarded. It takes the kernel's connection
    /// tracking.
    pub connections_max: Option<u32>,
    /// When the client is answered: once its server has, or at once.
    pub answer: Answer,
    /// What becomes of QUIC, which passes a proxy of TCP by.
    pub quic: Quic,
    /// The mark of diverted packets.
    pub mark: u32,
    /// The routing table of marked packets.
    pub table: u32,
}

/// What becomes of clients' datagrams to port 443 (QUIC, RFC 9000, RFC 9114 s3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quic {
    /// They are forwarded.
    Leave,
    /// They are rejected with ICMP while the proxy serves, so that clients come over TCP at once.
    Reject,
}

/// What is said of a first segment that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on to the proxy.
    Divert,
    /// The server has refused the connection.
    Refused,
    /// A router knows no host of that address, or no network.
    HostUnreachable,
    NetworkUnreachable,
}

impl Verdict {
    /// The verdict when the server was not reached; `None` if the client is to hear nothing, because nothing was heard. What
    /// has failed here is for the proxy itself to say.
    pub(crate) fn of(error: &io::Error) -> Option<Verdict> {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Some(Verdict::Refused),
            io::ErrorKind::HostUnreachable => Some(Verdict::HostUnreachable),
            io::ErrorKind::NetworkUnreachable => Some(Verdict::NetworkUnreachable),
            io::ErrorKind::TimedOut => None,
            _ => Some(Verdict::Divert),
        }
    }

    /// The mark with which the segment goes on, by which the rules know it.
    pub(crate) fn mark(self) -> u32 {
        match self {
            Verdict::Divert => 0,
            Verdict::Refused => 0x6870,
            Verdict::HostUnreachable => 0x6871,
            Verdict::NetworkUnreachable => 0x6872,
        }
    }
}

/// The mark if nobody asks for another: "he" in ASCII.
pub const MARK: u32 = 0x6865;
/// The routing table if nobody asks for another.
pub const TABLE: u32 = 0x6865;
/// The rule's place among those of the routing policy: before the main table's, at 32766. Named, because the kernel
/// would give the same rule another place each time.
const PRIORITY: u32 = 0x6865;
/// The nftables table, and in it the set of protocols whose connections the proxy serves, and those of servers that have
/// answered lately.
pub(super) const TABLE_NAME: &str = "headend";
pub(super) const SERVING: &str = "serving";
pub(super) const ALIVE4: &str = "alive4";
pub(super) const ALIVE6: &str = "alive6";
/// The proxy serves for so long after it has said so.
pub(super) const SERVING_TIME: Duration = Duration::from_millis(900);
/// The queue of first segments.
pub(super) const QUEUE: u16 = 0x6867;
/// The mark of first segments that are to be held.
const HOLD_MARK: u32 = 0x6868;
/// The mark of who made a rule or a route. None of the numbers that rtnetlink(7) and iproute2's rt_protos assign.
const PROTOCOL: u8 = 0x68;

impl DiversionRules {
    /// Checks what can be checked without the kernel; the error says what would be right.
    pub fn check(&self) -> Result<(), String> {
        if self.listeners.is_empty() {
            return Err("no listener: name the transparent listener's address".to_owned());
        }
        for v4 in [true, false] {
            if self.listeners.iter().filter(|listener| listener.is_ipv4() == v4).count() > 1 {
                return Err("two listeners of a family: all connections of a family go to one".to_owned());
            }
        }
        if let Some(listener) = self.listeners.iter().find(|listener| listener.port() == 0) {
            return Err(format!("{listener}: expected the port that the proxy listens at"));
        }
        let has_clients = |listener: &SocketAddr| {
            self.clients.is_empty() || self.clients.iter().any(|one| one.network().is_ipv4() == listener.is_ipv4())
        };
        if !self.listeners.iter().any(has_clients) {
            return Err(
                "clients in networks of one family and listeners of the other: nothing would be diverted".to_owned()
            );
        }
        for name in &self.interfaces {
            // As dev_valid_name of the kernel, and nothing that nft would read as syntax.
            let is_name = |c: char| !c.is_control() && !c.is_whitespace() && !"/:\"\\".contains(c);
            if name.is_empty() || name.len() > 15 || !name.chars().all(is_name) {
                return Err(format!("{name:?}: expected an interface's name, such as eth0"));
            }
        }
        let other =
            [HOLD_MARK, Verdict::Refused.mark(), Verdict::HostUnreachable.mark(), Verdict::NetworkUnreachable.mark()];
        if other.contains(&self.mark) {
            return Err(format!("{:#x}: expected another mark; first segments that are held have this one", self.mark));
        }
        if self.mark == 0 || self.table == 0 || (253..=255).contains(&self.table) {
            return Err(
                "expected a mark other than 0, and a table other than 0 and 253 to 255, the system's".to_owned()
            );
        }
        Ok(())
    }

    /// The routing part in the words of ip(8), one command a line.
    pub fn routing(&self) -> Vec<String> {
        let mut commands = Vec::new();
        for family in self.families() {
            let (flag, all) = if family == AddressFamily::Inet { ("-4", "0.0.0.0/0") } else { ("-6", "::/0") };
            let (mark, table) = (self.mark, self.table);
            let rule = format!("priority {PRIORITY} fwmark {mark:#x} lookup {table} protocol {PROTOCOL}");
            commands.push(format!("ip {flag} rule add {rule}"));
            commands.push(format!("ip {flag} route add local {all} dev lo table {table} proto {PROTOCOL}"));
        }
        commands
    }

    /// Tells the kernel, in the calling thread's namespace. What an earlier call told is replaced; the same again
    /// changes nothing.
    pub fn apply(&self) -> Result<(), Error> {
        self.check().map_err(|text| Error::new("rules", io::Error::new(io::ErrorKind::InvalidInput, text)))?;
        let mut netlink = Netlink::open()?;
        let loopback = Device::find(&mut netlink, "lo")?;
        // The routes first: what is marked before they are there would go astray.
        for family in self.families() {
            let made = netlink.create(RouteNetlinkMessage::NewRoute(self.route(family, &loopback)));
            unless(io::ErrorKind::AlreadyExists, made).during(|| format!("add a route to table {}", self.table))?;
            let made = netlink.create(RouteNetlinkMessage::NewRule(self.rule(family)));
            unless(io::ErrorKind::AlreadyExists, made).during(|| format!("add a rule for mark {:#x}", self.mark))?;
        }
        nft(&self.script())?;
        // What is marked to be held and finds no queue goes on at once.
        match self.answer {
            Answer::Held => hold::set(&self.families().collect::<Vec<_>>())?,
            Answer::AtOnce => hold::remove()?,
        }
        take_down(&mut netlink, Some(self))
    }

    /// The part of iptables, one command a line.
    pub fn holding(&self) -> Vec<String> {
        match self.answer {
            Answer::Held => hold::shown(&self.families().collect::<Vec<_>>()),
            Answer::AtOnce => Vec::new(),
        }
    }

    fn families(&self) -> impl Iterator<Item = AddressFamily> {
        let family = |listener: &SocketAddr| {
            if listener.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
        };
        self.listeners.iter().map(family)
    }

    fn rule(&self, family: AddressFamily) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = family;
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::FwMark(self.mark),
            RuleAttribute::Table(self.table),
            RuleAttribute::Priority(PRIORITY),
            RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
        ];
        message
    }

    fn route(&self, family: AddressFamily, loopback: &Device) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family,
            protocol: RouteProtocol::Other(PROTOCOL),
            scope: RouteScope::Host,
            kind: RouteType::Local,
            ..RouteHeader::default()
        };
        message.attributes = vec![RouteAttribute::Table(self.table), RouteAttribute::Oif(loopback.index)];
        message
    }

    fn has_rule(&self, rule: &RuleMessage) -> bool {
        let has = |attribute| rule.attributes.contains(&attribute);
        self.families().any(|family| family == rule.header.family)
            && has(RuleAttribute::FwMark(self.mark))
            && has(RuleAttribute::Table(self.table))
    }

    fn has_route(&self, route: &RouteMessage) -> bool {
        self.families().any(|family| family == route.header.address_family)
            && route.attributes.contains(&RouteAttribute::Table(self.table))
    }
}

/// Takes back all that [`DiversionRules::apply`] ever told the kernel in the calling thread's namespace. That there is nothing is
/// no error.
pub fn remove() -> Result<(), Error> {
    // Nothing is marked any more before the routes go.
    hold::remove()?;
    nft(&format!("table inet {TABLE_NAME}\ndelete table inet {TABLE_NAME}\n"))?;
    take_down(&mut Netlink::open()?, None)
}

/// Removes rules and routes of ours that are not `wanted`.
fn take_down(netlink: &mut Netlink, wanted: Option<&DiversionRules>) -> Result<(), Error> {
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut which = RuleMessage::default();
        which.header.family = family;
        // A kernel without IPv6 has no rules of it.
        let rules = netlink.list(RouteNetlinkMessage::GetRule(which)).unwrap_or_default();
        for answer in rules {
            let RouteNetlinkMessage::NewRule(rule) = answer else { continue };
            let is_ours = rule.attributes.contains(&RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
            if is_ours && !wanted.is_some_and(|wanted| wanted.has_rule(&rule)) {
                let gone = netlink.change(RouteNetlinkMessage::DelRule(rule));
                unless(io::ErrorKind::NotFound, gone).during(|| "remove a rule for marked packets")?;
            }
        }
        let mut which = RouteMessage::default();
        which.header.address_family = family;
        let routes = netlink.list(RouteNetlinkMessage::GetRoute(which)).unwrap_or_default();
        for answer in routes {
            let RouteNetlinkMessage::NewRoute(route) = answer else { continue };
            let is_ours = route.header.protocol == RouteProtocol::Other(PROTOCOL);
            if is_ours && !wanted.is_some_and(|wanted| wanted.has_route(&route)) {
                let gone = netlink.change(RouteNetlinkMessage::DelRoute(route));
                unless(io::ErrorKind::NotFound, gone).during(|| "remove the route of marked packets")?;
            }
        }
    }
    Ok(())
}

/// Has nft read `script`, in the calling thread's namespace.
fn nft(script: &str) -> Result<(), Error> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().during(|| "run nft (Debian's package nftables)")?;
    let mut input = child.stdin.take().expect("it was asked for");
    // An nft that reads no further says why on its stderr.
    let _ = input.write_all(script.as_bytes());
    drop(input);
    let output = child.wait_with_output().during(|| "wait for nft")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let kind = match said.contains("Operation not permitted") {
        true => io::ErrorKind::PermissionDenied,
        false => io::ErrorKind::Other,
    };
    Err(Error::new("nft", io::Error::new(kind, said.trim().to_owned())))
}

/// Takes an error of the kind `fine` for success: what was asked for is so already.
fn unless(fine: io::ErrorKind, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == fine || (fine == io::ErrorKind::NotFound && is_gone(&error)) => Ok(()),
        other => other,
    }
}

/// A route that is not there is ESRCH to the kernel (`fib_table_delete`).
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn rules() -> DiversionRules {
        DiversionRules {
            listeners: vec!["127.0.0.1:3129".parse().unwrap(), "[::]:3130".parse().unwrap()],
            interfaces: vec!["lan0".to_owned()],
            clients: vec!["10.0.0.0/9".parse().unwrap(), "10.128.0.0/9".parse().unwrap()],
            ports: vec![80, 443],
            connections_max: Some(8_000),
            answer: Answer::AtOnce,
            quic: Quic::Leave,
            mark: MARK,
            table: TABLE,
        }
    }

    #[test]
    fn a_rule_and_a_route_are_there_for_each_family() {
        assert_eq!(rules().routing().len(), 4);
    }

    #[test]
    fn rules_that_cannot_be_are_refused_with_what_can() {
        let wrong = [
            (DiversionRules { listeners: Vec::new(), ..rules() }, "no listener"),
            (DiversionRules { listeners: vec!["127.0.0.1:0".parse().unwrap()], ..rules() }, "the port"),
            (DiversionRules { listeners: vec![rules().listeners[0]; 2], ..rules() }, "two listeners"),
            (DiversionRules { interfaces: vec!["a\" accept; }".to_owned()], ..rules() }, "an interface's name"),
            (DiversionRules { table: 254, ..rules() }, "253 to 255"),
            (DiversionRules { mark: HOLD_MARK, ..rules() }, "another mark"),
            (DiversionRules { listeners: vec!["[::]:3130".parse().unwrap()], ..rules() }, "nothing would be diverted"),
        ];
        for (rules, expected) in wrong {
            let error = rules.check().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(rules().check(), Ok(()));
    }
}
