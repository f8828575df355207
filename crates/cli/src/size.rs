//! `headend size`

mod trunk;

use clap::Args;

use headend_engine::circuit::size::Trunks;
use headend_engine::time::Duration;
use headend_engine::units::quantity;
use headend_engine::units::{Bytes, Capacity, Rate};
use headend_scenario::size::{Question, Window};

use crate::failure::Failure;
use crate::printing::{self, Format};

/// Work out the largest socket buffer that overflows no modem (tuning paper, section 5.2), or with --trunk the smallest
/// router buffer that drops no user's packet (TCP decoupling thesis, section 2.2.7)
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend size --modem-buffer 10KB --down 25M --lan 10M --connections 1\n  \
    headend size --modem-buffer '7 packets' --down 25M --lan 10M --connections 3 --format json\n    \
    headend size --trunk --link 9600kbit/s --gmb 4800kbit/s --connections 8")]
pub(crate) struct Arguments {
    /// The modem's buffer, the packet in transmission included: a size, "7 packets" or "unlimited"
    #[arg(long, value_name = "SIZE", value_parser = modem_buffer, required_unless_present = "trunk")]
    modem_buffer: Option<Capacity>,

    /// Rate at which packets arrive at the modem, such as 25M or 25Mbit/s
    #[arg(long, value_name = "RATE", value_parser = rate, required_unless_present = "trunk")]
    down: Option<Rate>,

    /// Rate at which they leave it
    #[arg(long, value_name = "RATE", value_parser = rate, required_unless_present = "trunk")]
    lan: Option<Rate>,

    /// Connections that share the modem, or with --trunk control TCPs that share the router's buffer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: u64,

    /// Payload of a full segment in bytes
    #[arg(long, value_name = "BYTES", value_parser = mss, default_value = "1460")]
    mss: Bytes,

    /// The buffer of a router that trunks pass, in place of a modem's
    #[arg(long, conflicts_with_all = ["modem_buffer", "down", "lan", "mss"], requires = "link")]
    trunk: bool,

    /// With --trunk: the rate of the link behind the buffer
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "trunk")]
    link: Option<Rate>,

    /// With --trunk: all that is guaranteed to the trunks together, below the link's rate
    #[arg(long, value_name = "RATE", value_parser = rate_or_none, default_value = "0", requires = "trunk")]
    gmb: Rate,

    /// With --trunk: the largest VMSS, the bytes of users' packets for each header packet
    #[arg(long, value_name = "BYTES", value_parser = mss, default_value = "1500", requires = "trunk")]
    vmss: Bytes,

    /// With --trunk: the length of a header packet in bytes, 52 with timestamps
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(40..=100), default_value = "52",
        requires = "trunk")]
    header: u64,

    /// With --trunk: the window in packets that a control TCP needs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), default_value = "8",
        requires = "trunk")]
    alpha: u64,

    /// With --trunk: the longest round trip of a trunk's users, for the buffer at its sender as well (section 3.6)
    #[arg(long, value_name = "TIME", value_parser = user_rtt, requires = "trunk")]
    user_rtt: Option<Duration>,

    /// With --user-rtt: the most that the trunk is to send, the link's rate unless given
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "user_rtt")]
    peak: Option<Rate>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let &Arguments { connections, mss, format, .. } = arguments;
    let (Some(modem_buffer), Some(down), Some(lan)) = (arguments.modem_buffer, arguments.down, arguments.lan) else {
        return run_trunk(arguments);
    };
    let question = Question { modem_buffer, down, lan, connections, mss };
    match format {
        Format::Table => printing::print(|out| out.write_all(question.derivation().as_bytes())),
        Format::Json => {
            let answer = question.answer();
            let window = |window: Window| {
                serde_json::json!({
                    "window_packets": window.packets,
                    "wire_bytes": window.wire.get(),
                    "segments": window.segments,
                    "socket_buffer_bytes": window.socket_buffer.get(),
                })
            };
            let json = serde_json::json!({
                "packet_bytes": answer.packet.get(),
                "modem_buffer_packets": answer.modem_packets,
                "connections": connections,
                "one_drop": answer.one_drop.map(window),
                "no_drop": answer.no_drop.map(window),
            });
            printing::print(|out| writeln!(out, "{json:#}"))
        }
    }
}

/// Prints the sizes for trunks. The parser has seen to it that there is a link.
fn run_trunk(arguments: &Arguments) -> Result<(), Failure> {
    let &Arguments { connections, gmb, vmss, alpha, format, link, .. } = arguments;
    let link = link.ok_or_else(|| Failure::Wrong("--trunk needs the rate of the --link".to_owned()))?;
    if gmb >= link {
        return Err(Failure::Wrong(format!("--gmb {gmb}: less than the link's rate, {link}, can be guaranteed")));
    }
    let trunks = Trunks { alpha, connections, vmss, header: Bytes::new(arguments.header), gmb, link };
    let sender = arguments.user_rtt.map(|user_rtt| trunk::Sender { user_rtt, peak: arguments.peak.unwrap_or(link) });
    match format {
        Format::Table => printing::print(|out| out.write_all(trunk::derivation(&trunks, sender).as_bytes())),
        Format::Json => printing::print(|out| writeln!(out, "{:#}", trunk::numbers(&trunks, sender))),
    }
}

/// Far more than any modem has, and little enough that the answer is a number.
const BUFFER_MAX: u64 = 1_000_000_000_000;

fn modem_buffer(text: &str) -> Result<Capacity, String> {
    let packets = || quantity::packets(text).filter(|n| (1..=BUFFER_MAX).contains(n)).map(Capacity::Packets);
    let bytes = || quantity::size(text).filter(|n| (1..=BUFFER_MAX).contains(&n.get())).map(Capacity::Bytes);
    let unlimited = (text == "unlimited").then_some(Capacity::Unlimited);
    unlimited
        .or_else(packets)
        .or_else(bytes)
        .ok_or_else(|| "expected a size such as 10KB, a number of packets such as '7 packets', or unlimited".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let known = quantity::short_rate(text).filter(|rate| (1..=1_000_000_000_000).contains(&rate.get()));
    known.ok_or_else(|| "expected a rate such as 25M or 25Mbit/s, up to 1Tbit/s".to_owned())
}

fn rate_or_none(text: &str) -> Result<Rate, String> {
    if text == "0" { Ok(Rate::bit(0)) } else { rate(text) }
}

fn user_rtt(text: &str) -> Result<Duration, String> {
    let span = quantity::span(text).filter(|span| (1..=3_600_000_000_000).contains(&span.as_nanos()));
    span.ok_or_else(|| "expected a time such as 200ms, up to 3600s".to_owned())
}

fn mss(text: &str) -> Result<Bytes, String> {
    let bytes = text.parse().ok().map(Bytes::new).or_else(|| quantity::size(text));
    bytes.filter(|mss| (64..=65_495).contains(&mss.get())).ok_or_else(|| "expected 64 to 65495 bytes".to_owned())
}
