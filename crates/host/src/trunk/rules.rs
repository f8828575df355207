//! The rules that lead users' packets into the queues: a chain of our own at the end of mangle's POSTROUTING, for each version of
//! IP that is wanted. In tunnelled carriage also those that drop what a stranger puts into the tunnel: a chain at the beginning of raw's
//! PREROUTING. Those of a table are set all at once or not at all, by iptables.
//!
//! The first chain is last because a packet that comes out of the queue goes on behind the table: rules after ours would not see it. The
//! second is first because what rules before it accept would not come to it.

use std::fmt::Write as _;
use std::io;

use headend_engine::packet::Class;
use ipnet::IpNet;

use crate::error::Error;
use crate::iptables::{FAMILIES, Family};

/// A table with a chain of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Leads packets into queues.
    Mangle,
    /// Drops packets that come in by a tunnel and are not the peer's.
    Raw,
}

pub(super) const TABLES: [Table; 2] = [Table::Mangle, Table::Raw];

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Mangle => "mangle",
            Table::Raw => "raw",
        }
    }

    /// The chain of the kernel's from which the jump to ours leads.
    fn hook(self) -> &'static str {
        match self {
            Table::Mangle => "POSTROUTING",
            Table::Raw => "PREROUTING",
        }
    }

    /// The order that puts the jump in its place there.
    fn place(self) -> &'static str {
        match self {
            Table::Mangle => "-A",
            Table::Raw => "-I",
        }
    }
}

/// The longest name of a trunk: a chain's name takes 28 characters, and ours begins with `headend-`.
pub(super) const NAME_MAX: usize = 20;

/// The rules of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The trunk's name, of which the chain's is made.
    pub(super) name: String,
    /// Networks, each with the number of the queue to which packets for it go.
    pub(super) queues: Vec<(IpNet, u16)>,
    /// True if packets pass when nobody is at the queue; otherwise they are dropped.
    pub(super) bypass: bool,
    /// True if packets get the mark of a circuit's.
    pub(super) marks: bool,
    /// Devices of tunnels, each with the networks from which packets may come in by it.
    pub(super) sources: Vec<(String, Vec<IpNet>)>,
}

impl Rules {
    /// The chain's name.
    pub(super) fn chain(&self) -> String {
        format!("headend-{}", self.name)
    }

    /// The rules as iptables writes them, for people.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (family, table) in FAMILIES.into_iter().flat_map(|family| TABLES.map(|table| (family, table))) {
            let rules = self.of(family, table);
            if rules.is_empty() {
                continue;
            }
            let before = format!("{} -t {}", family.list, table.name());
            lines.push(format!("{before} -N {}", self.chain()));
            lines.extend(rules.iter().map(|rule| format!("{before} {rule}")));
            lines.push(format!("{before} {}", self.jump(table.place(), table)));
        }
        lines
    }

    /// Puts the rules of a table in force, in the place of those of a trunk of this name. Returns lines for the operator about what it
    /// found. Where that fails those of one version of IP may be in force, and of the other still those of before.
    pub(super) fn set(&self, table: Table) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for family in FAMILIES {
            let rules = self.of(family, table);
            let Some(found) = self.find(family, table)? else {
                if rules.is_empty() {
                    continue;
                }
                let why = format!("there is no {} on this machine: install the package iptables", family.list);
                return Err(Error::new("set the rules of a trunk", io::Error::new(io::ErrorKind::NotFound, why)));
            };
            if found.chain {
                said.push(format!(
                    "{}: replaced the chain {} that a trunk of this name left in the table {}",
                    family.list,
                    self.chain(),
                    table.name()
                ));
            }
            let mut order = self.removal(&found, table);
            if !rules.is_empty() {
                if found.others > 0 && table == Table::Mangle {
                    said.push(format!(
                        "{}: {} other rules in mangle's POSTROUTING come first; what they accept does not come to the trunk",
                        family.list, found.others
                    ));
                }
                order.push_str(&format!(":{} - [0:0]\n", self.chain()));
                for rule in rules.iter().chain([&self.jump(table.place(), table)]) {
                    let _ = writeln!(order, "{rule}");
                }
            }
            family.restore(table.name(), &order)?;
        }
        Ok(said)
    }

    /// The rules of this name that are in force in a table, for [`put_back`](Rules::put_back).
    pub(super) fn in_force(&self, table: Table) -> Result<InForce, Error> {
        let found = FAMILIES.into_iter().map(|family| Ok((family, self.find(family, table)?)));
        let found: Result<Vec<_>, Error> = found.collect();
        Ok(InForce { table, found: found?.into_iter().filter_map(|(family, found)| Some((family, found?))).collect() })
    }

    /// Puts rules that were in force in the place of those that are.
    pub(super) fn put_back(&self, before: &InForce) -> Result<(), Error> {
        let mut outcome = Ok(());
        for (family, was) in &before.found {
            let put = self.find(*family, before.table).and_then(|found| {
                let mut order = found.map(|found| self.removal(&found, before.table)).unwrap_or_default();
                if was.chain {
                    let _ = writeln!(order, ":{} - [0:0]", self.chain());
                    was.rules.iter().for_each(|rule| order.extend([rule, "\n"]));
                }
                if was.jumps > 0 {
                    let _ = writeln!(order, "{}", self.jump(before.table.place(), before.table));
                }
                family.restore(before.table.name(), &order)
            });
            outcome = outcome.and(put);
        }
        outcome
    }

    /// Takes away all that there is of this name in a table. Returns true if there was something.
    pub(super) fn remove(&self, table: Table) -> Result<bool, Error> {
        let mut outcome = Ok(false);
        for family in FAMILIES {
            let removed = self.find(family, table).and_then(|found| match found {
                Some(found) if found.chain || found.jumps > 0 => {
                    family.restore(table.name(), &self.removal(&found, table)).map(|()| true)
                }
                _ => Ok(false),
            });
            outcome = outcome.and_then(|was_there| Ok(was_there | removed?));
        }
        outcome
    }

    fn of(&self, family: Family, table: Table) -> Vec<String> {
        match table {
            Table::Mangle => self.to_queues(family),
            Table::Raw => self.against_strangers(family),
        }
    }

    fn to_queues(&self, family: Family) -> Vec<String> {
        let bypass = if self.bypass { " --queue-bypass" } else { "" };
        let chain = self.chain();
        let rules = |(network, queue): &(IpNet, u16)| {
            // First the mark: behind the queue there is nothing.
            let mark = format!("-A {chain} -d {network} -j DSCP --set-dscp {:#04x}", Class::User.code_point());
            let rule = format!("-A {chain} -d {network} -j NFQUEUE --queue-num {queue}{bypass}");
            [Some(mark).filter(|_| self.marks), Some(rule)].into_iter().flatten().collect::<Vec<_>>()
        };
        self.queues.iter().filter(|(network, _)| family.has(network)).flat_map(rules).collect()
    }

    /// VXLAN takes a packet from anybody: what comes in by a tunnel must at least be from one of its peer's addresses.
    fn against_strangers(&self, family: Family) -> Vec<String> {
        let chain = self.chain();
        let of_device = |(device, networks): &(String, Vec<IpNet>)| {
            let known = networks.iter().filter(|network| family.has(network));
            let pass = known.map(|network| format!("-A {chain} -s {network} -i {device} -j RETURN"));
            pass.chain([format!("-A {chain} -i {device} -j DROP")]).collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(of_device).collect()
    }

    fn jump(&self, order: &str, table: Table) -> String {
        format!("{order} {} -j {}", table.hook(), self.chain())
    }

    fn removal(&self, found: &Found, table: Table) -> String {
        let mut order = String::new();
        for _ in 0..found.jumps {
            let _ = writeln!(order, "{}", self.jump("-D", table));
        }
        if found.chain {
            let _ = writeln!(order, "-F {0}\n-X {0}", self.chain());
        }
        order
    }

    /// Looks for the rules of a trunk of this name; `None` without the command.
    fn find(&self, family: Family, table: Table) -> Result<Option<Found>, Error> {
        let text = match family.rules(table.name()) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // A kernel without IPv6, or without the table, has nothing of ours in it.
            Err(_) if self.of(family, table).is_empty() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (chain, jump) = (format!("-N {}", self.chain()), self.jump("-A", table));
        let others = format!("-A {} ", table.hook());
        let lines = || text.lines().map(str::trim);
        let jumps = lines().filter(|line| *line == jump).count();
        let ours = format!("-A {} ", self.chain());
        Ok(Some(Found {
            rules: lines().filter(|line| line.starts_with(&ours)).map(str::to_owned).collect(),
            chain: lines().any(|line| line == chain),
            jumps,
            others: lines().filter(|line| line.starts_with(&others)).count() - jumps,
        }))
    }
}

/// Rules of a trunk as they were found in a table, for each version of IP.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    table: Table,
    found: Vec<(Family, Found)>,
}

impl InForce {
    /// True if packets are stopped by them when nobody is at the queue.
    pub(super) fn stop(&self) -> bool {
        let stops = |rule: &String| rule.contains("-j NFQUEUE") && !rule.contains("--queue-bypass");
        self.found.iter().any(|(_, found)| found.jumps > 0 && found.rules.iter().any(stops))
    }
}

/// The chain with its rules, the jumps to it and the other rules that were found in a table.
#[derive(Clone, Debug)]
struct Found {
    rules: Vec<String>,
    chain: bool,
    jumps: usize,
    others: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_listed_for_each_version_of_ip_that_is_wanted() {
        let mut rules = Rules {
            name: "west".to_owned(),
            queues: vec![("10.2.0.0/16".parse().unwrap(), 4_700)],
            bypass: true,
            marks: false,
            sources: Vec::new(),
        };
        assert_eq!(
            rules.shown(),
            [
                "iptables -t mangle -N headend-west",
                "iptables -t mangle -A headend-west -d 10.2.0.0/16 -j NFQUEUE --queue-num 4700 --queue-bypass",
                "iptables -t mangle -A POSTROUTING -j headend-west",
            ]
        );
        rules.queues.push(("2001:db8::/32".parse().unwrap(), 4_700));
        rules.bypass = false;
        let six = "ip6tables -t mangle -A headend-west -d 2001:db8::/32 -j NFQUEUE --queue-num 4700";
        assert!(rules.shown().iter().any(|line| line == six), "{:?}", rules.shown());
        rules.marks = true;
        let marked: Vec<String> = rules.shown().into_iter().filter(|line| line.contains(" -d 10.2")).collect();
        assert!(
            marked.len() == 2 && marked[0].ends_with("-j DSCP --set-dscp 0x07"),
            "the mark comes first: {marked:?}"
        );
    }

    #[test]
    fn a_tunnel_passes_what_is_from_its_peer_and_nothing_else() {
        let rules = Rules {
            name: "west".to_owned(),
            queues: Vec::new(),
            bypass: true,
            marks: false,
            sources: vec![("hd-west".to_owned(), vec!["10.2.0.0/16".parse().unwrap(), "fd01::2/128".parse().unwrap()])],
        };
        assert_eq!(
            rules.shown(),
            [
                "iptables -t raw -N headend-west",
                "iptables -t raw -A headend-west -s 10.2.0.0/16 -i hd-west -j RETURN",
                "iptables -t raw -A headend-west -i hd-west -j DROP",
                "iptables -t raw -I PREROUTING -j headend-west",
                "ip6tables -t raw -N headend-west",
                "ip6tables -t raw -A headend-west -s fd01::2/128 -i hd-west -j RETURN",
                "ip6tables -t raw -A headend-west -i hd-west -j DROP",
                "ip6tables -t raw -I PREROUTING -j headend-west",
            ]
        );
    }
}
