//! The chain of iptables by which first segments come to the proxy's queue: one rule, because nftables has marked them.

use std::fmt::Write as _;
use std::io;

use netlink_packet_route::AddressFamily;

use super::{HOLD_MARK, QUEUE};
use crate::error::Error;
use crate::iptables::{FAMILIES, Family};

/// The table; its PREROUTING comes after ours of nftables that marks, and before the one that diverts.
const TABLE: &str = "raw";
const CHAIN: &str = "headend-hold";

fn rule() -> String {
    format!("-A {CHAIN} -m mark --mark {HOLD_MARK:#x} -j NFQUEUE --queue-num {QUEUE} --queue-bypass")
}

fn jump(order: &str) -> String {
    format!("{order} PREROUTING -j {CHAIN}")
}

fn is_wanted(families: &[AddressFamily], family: Family) -> bool {
    let version = if family.is_ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    families.contains(&version)
}

/// The commands, for people.
pub(super) fn shown(families: &[AddressFamily]) -> Vec<String> {
    let commands = |family: Family| {
        [format!("-N {CHAIN}"), rule(), jump("-A")].map(|words| format!("{} -t {TABLE} {words}", family.list))
    };
    FAMILIES.into_iter().filter(|family| is_wanted(families, *family)).flat_map(commands).collect()
}

/// Sets the rule for these families, and takes it from the others.
pub(super) fn set(families: &[AddressFamily]) -> Result<(), Error> {
    for family in FAMILIES {
        if !is_wanted(families, family) {
            take(family)?;
            continue;
        }
        let what = "hold first segments in a queue (NFQUEUE); without it apply the rules with --answer at-once";
        let Some(rules) = family.rules(TABLE).map_err(|error| Error::new(what, io::Error::other(error)))? else {
            let why = format!("there is no {} on this machine: install the package iptables", family.list);
            return Err(Error::new(what, io::Error::new(io::ErrorKind::NotFound, why)));
        };
        // A chain that is there already is emptied by being named.
        let mut order = format!(":{CHAIN} - [0:0]\n{}\n", rule());
        if !rules.lines().any(|line| line == jump("-A")) {
            let _ = writeln!(order, "{}", jump("-A"));
        }
        family.restore(TABLE, &order).map_err(|error| Error::new(what, io::Error::other(error)))?;
    }
    Ok(())
}

/// Takes the chain away from all families.
pub(super) fn remove() -> Result<(), Error> {
    FAMILIES.into_iter().try_for_each(take)
}

fn take(family: Family) -> Result<(), Error> {
    // A machine without the command, or a kernel without the table, has no such rule.
    let Ok(Some(rules)) = family.rules(TABLE) else { return Ok(()) };
    let mut order = String::new();
    for _ in rules.lines().filter(|line| *line == jump("-A")) {
        let _ = writeln!(order, "{}", jump("-D"));
    }
    if rules.lines().any(|line| line == format!("-N {CHAIN}")) {
        let _ = writeln!(order, "-F {CHAIN}\n-X {CHAIN}");
    }
    family.restore(TABLE, &order)
}
