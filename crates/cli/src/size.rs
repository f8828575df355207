//! `headend size`

use clap::{Args, ValueEnum};

use headend_engine::units::{Bytes, Rate};
use headend_sim::scenario::{QueueSpec, quantity};
use headend_sim::size::{Question, Window};

use crate::failure::Failure;
use crate::outputs;

/// Work out the largest socket buffer that overflows no modem (tuning paper, section 5.2)
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headend size --modem-buffer 10KB --down 25M --lan 10M --connections 1\n  \
    headend size --modem-buffer '7 packets' --down 25M --lan 10M --connections 3 --format json")]
pub(crate) struct Arguments {
    /// The modem's buffer, the packet in transmission included: a size, "7 packets" or "unlimited"
    #[arg(long, value_name = "SIZE", value_parser = modem_buffer)]
    modem_buffer: QueueSpec,

    /// Rate at which packets arrive at the modem, such as 25M or 25Mbit/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    down: Rate,

    /// Rate at which they leave it
    #[arg(long, value_name = "RATE", value_parser = rate)]
    lan: Rate,

    /// Connections that share the modem
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    connections: u64,

    /// Payload of a full segment in bytes
    #[arg(long, value_name = "BYTES", value_parser = mss, default_value = "1460")]
    mss: Bytes,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// The derivation with the numbers in it
    Text,
    /// For programs
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let &Arguments { modem_buffer, down, lan, connections, mss, format } = arguments;
    let question = Question { modem_buffer, down, lan, connections, mss };
    match format {
        Format::Text => outputs::print(|out| out.write_all(question.derivation().as_bytes())),
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
            outputs::print(|out| writeln!(out, "{json:#}"))
        }
    }
}

/// Far more than any modem has, and little enough that the answer is a number.
const BUFFER_MAX: u64 = 1_000_000_000_000;

fn modem_buffer(text: &str) -> Result<QueueSpec, String> {
    let packets = || quantity::packets(text).filter(|n| (1..=BUFFER_MAX).contains(n)).map(QueueSpec::Packets);
    let bytes = || quantity::size(text).filter(|n| (1..=BUFFER_MAX).contains(&n.get())).map(QueueSpec::Bytes);
    let unlimited = (text == "unlimited").then_some(QueueSpec::Unlimited);
    unlimited
        .or_else(packets)
        .or_else(bytes)
        .ok_or_else(|| "expected a size such as 10KB, a number of packets such as '7 packets', or unlimited".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let known = quantity::short_rate(text).filter(|rate| (1..=1_000_000_000_000).contains(&rate.get()));
    known.ok_or_else(|| "expected a rate such as 25M or 25Mbit/s, up to 1Tbit/s".to_owned())
}

fn mss(text: &str) -> Result<Bytes, String> {
    let bytes = text.parse().ok().map(Bytes::new).or_else(|| quantity::size(text));
    bytes.filter(|mss| (64..=65_495).contains(&mss.get())).ok_or_else(|| "expected 64 to 65495 bytes".to_owned())
}
