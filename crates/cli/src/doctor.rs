//! `headend doctor`: what this machine can do.

use std::io::Write as _;
use std::process::Stdio;

use clap::Args;
use headend_host::netns::Namespace;
use headend_host::trunk::Carriage;
use headend_host::tun::{DeviceSetup, Tun};
use headend_host::{backfill, clock, fast, privilege, process, sysctl, user_namespace};

use crate::failure::Failure;
use crate::printing::{self, Format};

/// Say what this machine can do, what is missing, and how to get it
///
/// Each line is tried, in a network namespace that goes again with the command; nothing on the machine changes. Simulating (sim, check,
/// size) takes nothing of this.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sudo headend doctor\n  headend doctor --format json")]
pub(crate) struct Arguments {
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Something that commands take, and whether it is here.
struct Finding {
    name: &'static str,
    /// The commands that take it.
    for_: &'static str,
    /// Why it is not here and how to get it; `Ok` may have something to say as well.
    state: Result<String, String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let findings = findings();
    match arguments.format {
        Format::Table => printing::print(|out| {
            writeln!(out, "headend {}, {}\n", env!("HEADEND_VERSION"), machine())?;
            for Finding { name, for_, state } in &findings {
                let (mark, more) = match state {
                    Ok(more) => ("yes", more),
                    Err(why) => ("no", why),
                };
                writeln!(out, "{mark:<5}{name:<28}{for_}")?;
                for line in wrapped(more) {
                    writeln!(out, "     {line}")?;
                }
            }
            Ok(())
        }),
        Format::Json => {
            let all: Vec<serde_json::Value> = findings.iter().map(json).collect();
            let whole =
                serde_json::json!({ "version": env!("HEADEND_VERSION"), "machine": machine(), "findings": all });
            printing::print(|out| writeln!(out, "{whole:#}"))
        }
    }
}

fn json(finding: &Finding) -> serde_json::Value {
    let Finding { name, for_, state } = finding;
    let more = match state {
        Ok(more) | Err(more) => more,
    };
    serde_json::json!({ "name": name, "for": for_, "here": state.is_ok(), "more": more })
}

/// The lines of a text, each so long that it stands in a terminal of 100 columns behind five.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 95 => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The kernel and the processors.
fn machine() -> String {
    let release = sysctl::read("kernel.osrelease").unwrap_or_else(|_| "of unknown version".to_owned());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("Linux {release}, {processors} processor{}", if processors == 1 { "" } else { "s" })
}

fn findings() -> Vec<Finding> {
    let finding = |name, for_, state| Finding { name, for_, state };
    let namespace = Namespace::unnamed("doctor");
    let within = |what: &dyn Fn(&Namespace) -> Result<String, String>| match &namespace {
        Ok(namespace) => what(namespace),
        Err(_) => Err("not tried, for want of a network namespace: run it as root".to_owned()),
    };
    vec![
        finding("network namespaces", "emulate, lab, compare", none_missing(privilege::missing())),
        finding("TUN devices", "emulate, lab, trunk (sealed)", within(&device)),
        finding("namespaces without root", "emulate FILE -- COMMAND", without_root()),
        finding("network cards", "emulate --interfaces", none_missing(privilege::missing_for_interfaces())),
        finding("real-time priority", "emulate, lab, compare", real_time()),
        finding("FAST in the kernel", "cc install fast", fast::missing().map_or(Ok(String::new()), Err)),
        finding("Backfill in the kernel", "cc install backfill", backfill::missing().map_or(Ok(String::new()), Err)),
        finding("nftables with TPROXY", "proxy rules (transparent)", within(&diverts)),
        finding("NFQUEUE", "trunk (native), held SYNs", within(&queues)),
        finding("VXLAN", "trunk (tunnelled)", within(&vxlan)),
        finding("congestion controls", "personalities of hosts", controls()),
    ]
}

fn none_missing(missing: Vec<String>) -> Result<String, String> {
    if missing.is_empty() {
        Ok(String::new())
    } else {
        Err(format!("run it as root: it lacks {}", missing.join(", and ")))
    }
}

/// Whether a device can be made.
fn device(namespace: &Namespace) -> Result<String, String> {
    let setup = DeviceSetup::new::<std::net::Ipv4Addr>("doctor0", Vec::new(), 1500);
    Tun::create(Some(namespace), &setup).map(|_| String::new()).map_err(|error| error.to_string())
}

fn without_root() -> Result<String, String> {
    if user_namespace::are_allowed() {
        return Ok(String::new());
    }
    Err("users may not make user namespaces here: sysctl kernel.unprivileged_userns_clone=1 on Debian's older kernels, \
         kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu's"
        .to_owned())
}

/// Whether a thread may be woken before others.
fn real_time() -> Result<String, String> {
    let tried = std::thread::spawn(clock::wake_on_time).join().expect("asking for a priority does not panic");
    tried
        .map(|()| String::new())
        .map_err(|error| format!("{error}: delays are less exact while the machine is busy; run it as root"))
}

/// Whether nft takes a rule that diverts.
fn diverts(namespace: &Namespace) -> Result<String, String> {
    const RULES: &str = "table ip doctor { chain c { type filter hook prerouting priority -150; \
                         meta l4proto tcp tproxy to 127.0.0.1:1 accept; }; }\n";
    let try_it = || {
        let mut nft = process::command("nft").args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        nft.stdin.take().expect("it is piped").write_all(RULES.as_bytes())?;
        nft.wait_with_output()
    };
    match namespace.run(try_it).map_err(|error| error.to_string())? {
        Ok(output) if output.status.success() => Ok(String::new()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "the kernel does not take the rule (is nft_tproxy there?): {}",
                said.lines().next().unwrap_or("")
            ))
        }
        Err(error) => Err(format!("nft: {error}: install the package nftables")),
    }
}

/// Whether packets can be held for a program.
fn queues(namespace: &Namespace) -> Result<String, String> {
    match namespace.run(Carriage::of_machine).map_err(|error| error.to_string())? {
        (Carriage::Native, _) => Ok(String::new()),
        (_, why) => Err(format!("{why}: a trunk is sealed, and a transparent proxy answers at once")),
    }
}

/// Whether a device of VXLAN can be made.
fn vxlan(namespace: &Namespace) -> Result<String, String> {
    let tried = namespace.run(headend_host::trunk::try_vxlan).map_err(|error| error.to_string())?;
    tried
        .map(|()| String::new())
        .map_err(|error| format!("{error}: the kernel's module vxlan is wanted (modprobe vxlan)"))
}

/// The congestion controls that sockets may choose.
fn controls() -> Result<String, String> {
    let read = |name| sysctl::read(name).map_err(|error| error.to_string());
    let all = read("net.ipv4.tcp_available_congestion_control")?;
    let default = read("net.ipv4.tcp_congestion_control")?;
    Ok(format!("{all} (default {default}); what is a module of this kernel and not loaded is not among them"))
}
