//! `headend proxy rules`

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;

use headend_host::proxy::access::Networks;
use headend_host::proxy::config::Answer;
use headend_host::proxy::rules::{self, DiversionRules, Quic};
use headend_host::sysctl;

use crate::failure::Failure;
use crate::printing;

/// Divert connections of others to a transparent listener: nftables and routing rules of this machine
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend proxy rules show --listener 127.0.0.1:3129 --interface lan0\n  \
    sudo headend proxy rules apply --listener 127.0.0.1:3129 --listener '[::1]:3129' --interface lan0 --ports 80,443\n  \
    sudo headend proxy rules remove\n\n\
    They are of the network namespace in which the command runs, and end with it or with the next boot.\n\
    Where nothing listens, nothing is diverted: connections are forwarded untouched.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what would be applied
    Show(Wanted),
    /// Tell the kernel, in place of what was applied before
    Apply(Wanted),
    /// Take back all that was ever applied
    Remove,
}

#[derive(Args, Debug)]
struct Wanted {
    /// A transparent listener of the proxy, one for each family that is to be diverted
    #[arg(long = "listener", value_name = "ADDRESS:PORT", required = true)]
    listeners: Vec<SocketAddr>,

    /// Interfaces that clients are behind [default: all]
    #[arg(long = "interface", value_name = "NAME", value_delimiter = ',')]
    interfaces: Vec<String>,

    /// Networks that clients are in, such as 10.0.0.0/8 [default: all]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    clients: Vec<IpNet>,

    /// Ports of servers [default: all]
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,

    /// Forward further connections untouched once so many are diverted; takes connection tracking
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: Option<u32>,

    /// When clients are answered
    #[arg(long, value_enum, default_value_t = AnswerName::Held)]
    answer: AnswerName,

    /// What becomes of QUIC, datagrams to port 443, which passes the proxy by
    #[arg(long, value_enum, default_value_t = QuicName::Leave)]
    quic: QuicName,

    /// The mark of diverted packets
    #[arg(long, value_name = "N", default_value_t = rules::MARK)]
    mark: u32,

    /// The routing table of marked packets
    #[arg(long, value_name = "N", default_value_t = rules::TABLE)]
    table: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AnswerName {
    /// Once their server has answered: the proxy holds first segments in a queue (NFQUEUE) until then
    Held,
    /// At once, whether their server lives or not
    AtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QuicName {
    /// Forward it
    Leave,
    /// Reject it while the proxy serves, so that browsers come over TCP at once
    Reject,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.action {
        Action::Show(wanted) => {
            let rules = read(wanted)?;
            printing::print(|out| {
                for command in rules.routing() {
                    writeln!(out, "# {command}")?;
                }
                for command in rules.holding() {
                    writeln!(out, "# {command}")?;
                }
                out.write_all(rules.script().as_bytes())
            })
        }
        Action::Apply(wanted) => {
            let rules = read(wanted)?;
            rules.apply()?;
            for note in forwarding(&rules) {
                eprintln!("{note}");
            }
            Ok(())
        }
        Action::Remove => Ok(rules::remove()?),
    }
}

fn read(wanted: &Wanted) -> Result<DiversionRules, Failure> {
    let rules = DiversionRules {
        listeners: wanted.listeners.clone(),
        interfaces: wanted.interfaces.clone(),
        clients: wanted.clients.clone(),
        ports: wanted.ports.clone(),
        connections_max: wanted.connections_max,
        answer: match wanted.answer {
            AnswerName::Held => Answer::Held,
            AnswerName::AtOnce => Answer::AtOnce,
        },
        quic: match wanted.quic {
            QuicName::Leave => Quic::Leave,
            QuicName::Reject => Quic::Reject,
        },
        mark: wanted.mark,
        table: wanted.table,
    };
    rules.check().map_err(Failure::Wrong)?;
    Ok(rules)
}

/// A machine that does not forward cannot fail open.
fn forwarding(rules: &DiversionRules) -> Vec<String> {
    let settings = [(true, "net.ipv4.ip_forward"), (false, "net.ipv6.conf.all.forwarding")];
    let is_off = |name: &str| sysctl::read(name).is_ok_and(|value| value.trim() == "0");
    settings
        .into_iter()
        .filter(|(is_v4, name)| rules.listeners.iter().any(|listener| listener.is_ipv4() == *is_v4) && is_off(name))
        .map(|(_, name)| format!("{name} is 0: while the proxy is down, nothing is forwarded"))
        .collect()
}

fn network(text: &str) -> Result<IpNet, String> {
    Networks::read(text)
        .ok_or_else(|| "expected a network or an address, such as 10.0.0.0/8 or 2001:db8::/32".to_owned())
}
