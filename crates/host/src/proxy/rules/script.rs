//! The rule set as nft reads it.

use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::config::Answer;
use super::{ALIVE4, ALIVE6, DiversionRules, HOLD_MARK, Quic, SERVING, SERVING_TIME, TABLE_NAME, Verdict};

/// A first segment, an answer to one, and a refusal.
const SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";
const SYN_ACK: &str = "tcp flags & (fin | syn | rst | ack) == syn | ack";
const RST_ACK: &str = "tcp flags & (fin | syn | rst | ack) == rst | ack";
/// The time for which a server is known to be alive after an answer, and how many are known.
const ALIVE_SECONDS: u32 = 60;
const ALIVE_MAX: u32 = 65_536;

/// Lines with their indentation: nft 1.0.6 wants a line to end before each closing brace.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, indent: usize, words: &str) {
        let _ = writeln!(self.0, "{}{words}", "\t".repeat(indent));
    }
}

impl DiversionRules {
    /// The rule set as nft reads it; it replaces an earlier one in one step.
    pub fn script(&self) -> String {
        let mut text = Text::default();
        let table = format!("table inet {TABLE_NAME}");
        text.line(0, &table);
        text.line(0, &format!("delete {table}"));
        text.line(0, &format!("{table} {{"));
        let asks_whether_it_serves = self.answer == Answer::Held || self.quic == Quic::Reject;
        if asks_whether_it_serves {
            self.serving(&mut text);
        }
        if self.answer == Answer::Held {
            self.hold(&mut text);
        }
        let mark = format!("meta mark set {:#x}", self.mark);
        text.line(1, "chain divert {");
        text.line(2, "type filter hook prerouting priority mangle; policy accept;");
        // A SYN may meet a connection that is in TIME-WAIT at ours: `tproxy` hands it to the listener, a socket match
        // would hand it to nobody.
        text.line(2, &format!("{SYN} jump arrivals"));
        // Packets of connections that ours has: from clients, and from servers where ours took the client's address.
        text.line(2, &format!("meta l4proto tcp socket transparent 1 {mark} accept"));
        if self.quic == Quic::Reject {
            text.line(2, "udp dport 443 jump quic");
        }
        text.line(1, "}");
        text.line(1, "chain arrivals {");
        if self.answer == Answer::Held {
            let reject = |verdict: Verdict, how: &str| format!("meta mark {:#x} reject with {how}", verdict.mark());
            text.line(2, &reject(Verdict::Refused, "tcp reset"));
            text.line(2, &reject(Verdict::HostUnreachable, "icmpx type host-unreachable"));
            text.line(2, &reject(Verdict::NetworkUnreachable, "icmpx type no-route"));
            // Nobody was at the queue.
            text.line(2, &format!("meta mark {HOLD_MARK:#x} meta mark set 0x0"));
        }
        self.conditions(&mut text);
        if self.answer == Answer::Held {
            text.line(2, &format!("meta l4proto != @{SERVING} accept"));
        }
        if let Some(most) = self.connections_max {
            text.line(2, &format!("ct count over {most} accept"));
        }
        for listener in &self.listeners {
            let family = if listener.is_ipv4() { "ip" } else { "ip6" };
            let protocol = if listener.is_ipv4() { "ipv4" } else { "ipv6" };
            let to = match listener.ip() {
                ip if ip.is_unspecified() => format!(":{}", listener.port()),
                IpAddr::V4(ip) => format!("{ip}:{}", listener.port()),
                IpAddr::V6(ip) => format!("[{ip}]:{}", listener.port()),
            };
            text.line(2, &format!("meta nfproto {protocol} meta l4proto tcp tproxy {family} to {to} {mark} accept"));
        }
        text.line(1, "}");
        if self.quic == Quic::Reject {
            text.line(1, "chain quic {");
            self.whose(&mut text);
            text.line(2, &format!("meta l4proto != @{SERVING} accept"));
            text.line(2, "reject with icmpx type port-unreachable");
            text.line(1, "}");
        }
        text.line(0, "}");
        text.0
    }

    /// The set that has an element while the proxy serves: with these rules it begins as if it did.
    fn serving(&self, text: &mut Text) {
        let ms = SERVING_TIME.as_millis();
        text.line(1, &format!("set {SERVING} {{"));
        text.line(2, "type inet_proto; flags timeout;");
        text.line(2, &format!("elements = {{ tcp timeout {ms}ms, udp timeout {ms}ms }}"));
        text.line(1, "}");
    }

    /// The sets of servers that are alive, and the marks of first segments to others.
    fn hold(&self, text: &mut Text) {
        for (set, kind) in [(ALIVE4, "ipv4_addr"), (ALIVE6, "ipv6_addr")] {
            text.line(1, &format!("set {set} {{"));
            text.line(2, &format!("type {kind} . inet_service; flags dynamic,timeout;"));
            text.line(2, &format!("timeout {ALIVE_SECONDS}s; size {ALIVE_MAX};"));
            text.line(1, "}");
        }
        text.line(1, "chain look {");
        // Before iptables' raw, whose queue goes by the mark.
        text.line(2, "type filter hook prerouting priority -310; policy accept;");
        text.line(2, &format!("{SYN} jump hold"));
        text.line(2, &format!("{SYN_ACK} jump answered"));
        text.line(2, &format!("{RST_ACK} jump refused"));
        text.line(1, "}");
        text.line(1, "chain hold {");
        self.conditions(text);
        text.line(2, &format!("meta l4proto != @{SERVING} accept"));
        text.line(2, &format!("ip daddr . tcp dport @{ALIVE4} accept"));
        text.line(2, &format!("ip6 daddr . tcp dport @{ALIVE6} accept"));
        text.line(2, &format!("meta mark set {HOLD_MARK:#x}"));
        text.line(1, "}");
        for (chain, order) in [("answered", "update"), ("refused", "delete")] {
            text.line(1, &format!("chain {chain} {{"));
            if !self.interfaces.is_empty() {
                // What clients say of servers does not count.
                text.line(2, &format!("iifname {{ {} }} accept", self.interface_names()));
            }
            text.line(2, &format!("{order} @{ALIVE4} {{ ip saddr . tcp sport }}"));
            text.line(2, &format!("{order} @{ALIVE6} {{ ip6 saddr . tcp sport }}"));
            text.line(1, "}");
        }
    }

    /// Leaves the chain for whatever is not to be diverted.
    fn conditions(&self, text: &mut Text) {
        self.whose(text);
        if !self.ports.is_empty() {
            let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
            text.line(2, &format!("tcp dport != {{ {} }} accept", ports.join(", ")));
        }
    }

    /// Leaves the chain for whatever is not clients' or is meant for this machine.
    fn whose(&self, text: &mut Text) {
        text.line(2, "fib daddr type { local, broadcast, multicast } accept");
        if !self.interfaces.is_empty() {
            text.line(2, &format!("iifname != {{ {} }} accept", self.interface_names()));
        }
        for (family, is_v4) in [("ip", true), ("ip6", false)] {
            let its: Vec<&IpNet> = self.clients.iter().filter(|network| network.network().is_ipv4() == is_v4).collect();
            let protocol = if is_v4 { "ipv4" } else { "ipv6" };
            if !its.is_empty() {
                let networks: Vec<String> =
                    IpNet::aggregate(&its.into_iter().copied().collect()).iter().map(ToString::to_string).collect();
                text.line(2, &format!("{family} saddr != {{ {} }} accept", networks.join(", ")));
            } else if !self.clients.is_empty() {
                text.line(2, &format!("meta nfproto {protocol} accept"));
            }
            if self.answer == Answer::Held && !self.listeners.iter().any(|listener| listener.is_ipv4() == is_v4) {
                text.line(2, &format!("meta nfproto {protocol} accept"));
            }
        }
    }

    fn interface_names(&self) -> String {
        self.interfaces.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::rules;
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_diverted() {
        let expected = "\
table inet headend
delete table inet headend
table inet headend {
	chain divert {
		type filter hook prerouting priority mangle; policy accept;
		tcp flags & (fin | syn | rst | ack) == syn jump arrivals
		meta l4proto tcp socket transparent 1 meta mark set 0x6865 accept
	}
	chain arrivals {
		fib daddr type { local, broadcast, multicast } accept
		iifname != { \"lan0\" } accept
		ip saddr != { 10.0.0.0/8 } accept
		meta nfproto ipv6 accept
		tcp dport != { 80, 443 } accept
		ct count over 8000 accept
		meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:3129 meta mark set 0x6865 accept
		meta nfproto ipv6 meta l4proto tcp tproxy ip6 to :3130 meta mark set 0x6865 accept
	}
}
";
        assert_eq!(rules().script(), expected);
    }

    #[test]
    fn first_segments_are_held_unless_their_server_is_known_to_live() {
        let script = DiversionRules { answer: Answer::Held, ..rules() }.script();
        let hold = script.split("chain hold {").nth(1).and_then(|rest| rest.split('}').nth(2)).unwrap_or_default();
        assert!(script.contains("tcp timeout 900ms") && script.contains("update @alive4 { ip saddr . tcp sport }"));
        assert!(script.contains("meta mark 0x6870 reject with tcp reset"), "{script}");
        let before = script.find("@alive6 accept").unwrap();
        assert!(before < script.find("meta mark set 0x6868").unwrap(), "{hold}");
        assert!(!script.contains("udp dport"));
    }

    #[test]
    fn quic_is_rejected_only_where_asked_and_while_the_proxy_serves() {
        let script = DiversionRules { quic: Quic::Reject, ..rules() }.script();
        let chain = script.split("chain quic {").nth(1).unwrap();
        let (serving, reject) =
            (chain.find("!= @serving accept"), chain.find("reject with icmpx type port-unreachable"));
        assert!(serving.is_some() && serving < reject, "{chain}");
        assert!(chain.contains("iifname != { \"lan0\" } accept") && !chain.contains("tcp dport"), "{chain}");
    }
}
