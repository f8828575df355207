//! The rules that lead users' packets into the queues: a chain of our own at the end of mangle's POSTROUTING, for each version of
//! IP that is wanted. They are set all at once or not at all, by iptables.
//!
//! The chain is last because a packet that comes out of the queue goes on behind the table: rules after ours would not see it.

use std::fmt::Write as _;
use std::io;

use headend_engine::packet::Class;
use ipnet::IpNet;

use crate::error::Error;
use crate::iptables::{FAMILIES, Family};

/// The table in which the chain is.
const TABLE: &str = "mangle";

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
}

impl Rules {
    /// The chain's name.
    pub(super) fn chain(&self) -> String {
        format!("headend-{}", self.name)
    }

    /// The rules as iptables writes them, for people.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for family in FAMILIES {
            let rules = self.of(family);
            if rules.is_empty() {
                continue;
            }
            let before = format!("{} -t {TABLE}", family.list);
            lines.push(format!("{before} -N {}", self.chain()));
            lines.extend(rules.iter().map(|rule| format!("{before} {rule}")));
            lines.push(format!("{before} {}", self.jump("-A")));
        }
        lines
    }

    /// Puts the rules in force, in the place of those of a trunk of this name that was killed. Returns lines for the operator
    /// about what it found.
    pub(super) fn set(&self) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for family in FAMILIES {
            let Some(found) = self.find(family)? else {
                if self.of(family).is_empty() {
                    continue;
                }
                let why = format!("there is no {} on this machine: install the package iptables", family.list);
                self.remove()?;
                return Err(Error::new("set the rules of a trunk", io::Error::new(io::ErrorKind::NotFound, why)));
            };
            if found.chain {
                said.push(format!(
                    "{}: replaced the chain {} that a trunk of this name left",
                    family.list,
                    self.chain()
                ));
            }
            let rules = self.of(family);
            let mut order = self.removal(found);
            if !rules.is_empty() {
                if found.others > 0 {
                    said.push(format!(
                        "{}: {} other rules in mangle's POSTROUTING come first; what they accept does not come to the trunk",
                        family.list, found.others
                    ));
                }
                order.push_str(&format!(":{} - [0:0]\n", self.chain()));
                for rule in rules.iter().chain([&self.jump("-A")]) {
                    let _ = writeln!(order, "{rule}");
                }
            }
            if let Err(error) = family.restore(TABLE, &order) {
                // Nothing half set: what went before goes too.
                let _ = self.remove();
                return Err(error);
            }
        }
        Ok(said)
    }

    /// Takes away all that there is of this name. Returns true if there was something.
    pub(super) fn remove(&self) -> Result<bool, Error> {
        let mut outcome = Ok(false);
        for family in FAMILIES {
            let removed = self.find(family).and_then(|found| match found {
                Some(found) if found.chain || found.jumps > 0 => {
                    family.restore(TABLE, &self.removal(found)).map(|()| true)
                }
                _ => Ok(false),
            });
            outcome = outcome.and_then(|was_there| Ok(was_there | removed?));
        }
        outcome
    }

    fn of(&self, family: Family) -> Vec<String> {
        let bypass = if self.bypass { " --queue-bypass" } else { "" };
        let chain = self.chain();
        let rules = |(network, queue): &(IpNet, u16)| {
            // First the mark: behind the queue there is nothing.
            let mark = format!("-A {chain} -d {network} -j DSCP --set-dscp {:#04x}", Class::User.code_point());
            let rule = format!("-A {chain} -d {network} -j NFQUEUE --queue-num {queue}{bypass}");
            [Some(mark).filter(|_| self.marks), Some(rule)].into_iter().flatten().collect::<Vec<_>>()
        };
        let is_of = |(network, _): &&(IpNet, u16)| matches!(network, IpNet::V6(_)) == family.is_ipv6;
        self.queues.iter().filter(is_of).flat_map(rules).collect()
    }

    fn jump(&self, order: &str) -> String {
        format!("{order} POSTROUTING -j {}", self.chain())
    }

    fn removal(&self, found: Found) -> String {
        let mut order = String::new();
        for _ in 0..found.jumps {
            let _ = writeln!(order, "{}", self.jump("-D"));
        }
        if found.chain {
            let _ = writeln!(order, "-F {0}\n-X {0}", self.chain());
        }
        order
    }

    /// Looks for the rules of a trunk of this name; `None` without the command.
    fn find(&self, family: Family) -> Result<Option<Found>, Error> {
        let text = match family.rules(TABLE) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // A kernel without IPv6 has no tables for it, and so nothing of ours in them.
            Err(_) if self.of(family).is_empty() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (chain, jump) = (format!("-N {}", self.chain()), self.jump("-A"));
        let lines = || text.lines().map(str::trim);
        let jumps = lines().filter(|line| *line == jump).count();
        Ok(Some(Found {
            chain: lines().any(|line| line == chain),
            jumps,
            others: lines().filter(|line| line.starts_with("-A POSTROUTING ")).count() - jumps,
        }))
    }
}

/// The chain, the jumps to it and the other rules that were found in a table.
#[derive(Clone, Copy, Debug)]
struct Found {
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
}
