//! The proxies of a lab: `headend proxy` itself, in the namespace of each proxy that a flow goes through.
//!
//! Each flow instance has a port of its own at the proxy, which forwards what comes there to the listening end, as the
//! simulator's proxy knows the server from the flow: nobody speaks a hand-shake with it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use headend_engine::relay::RelayModel;
use headend_engine::units::Bytes;
use headend_host::personality::Settings;
use headend_host::process;
use headend_scenario::{NodeKind, Scenario};
use headend_sim::network::Network;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::program::{self, ProgramFolder};
use super::site::Site;
use super::traffic::Transfer;
use crate::failure::Failure;

/// A proxy is given so long to end its connections when it is told to.
const ENDING_MAX: Duration = Duration::from_secs(2);
/// The least that a proxy which buffers can hold: less than a page moves nothing.
const BUFFER_MIN: Bytes = Bytes::new(4_096);
/// All of a spool: a run's transfers are far from it.
const QUOTA: &str = "1TB";

/// The counts of a proxy for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relayed {
    /// The flow and its instance.
    pub(crate) flow: String,
    pub(crate) instance: u32,
    /// Bytes read from the remote side, and from the local one.
    pub(crate) down: Bytes,
    pub(crate) up: Bytes,
    /// Segments that the proxy sent again, by side.
    pub(crate) local_retransmits: u64,
    pub(crate) remote_retransmits: u64,
    /// The connection's end, in the proxy's words.
    pub(crate) end: String,
}

impl Relayed {
    /// The counts as JSON, for results.
    pub(crate) fn json(&self) -> Value {
        let Relayed { flow, instance, down, up, local_retransmits, remote_retransmits, end } = self;
        json!({
            "flow": flow, "instance": instance, "down_bytes": down.get(), "up_bytes": up.get(),
            "local_retransmits": local_retransmits, "remote_retransmits": remote_retransmits, "end": end,
        })
    }
}

/// A process that is to run, for flows through a proxy whose connecting ends are on the same side of it.
#[derive(Debug)]
pub(super) struct ProxyPlan {
    /// The proxy's node and its name.
    node: usize,
    name: String,
    /// True if the end that connects is on the local side.
    from_local: bool,
    config: String,
    /// The connections that it relays, by the port that each connects to.
    relays: Vec<(u16, String, u32)>,
    listens_at: u16,
    relay: RelayModel,
}

/// The processes that the transfers of a run need.
pub(super) fn plans(scenario: &Scenario, network: &Network, site: &Site, transfers: &[Transfer]) -> Vec<ProxyPlan> {
    let mut plans: Vec<ProxyPlan> = Vec::new();
    for transfer in transfers {
        let flow = &transfer.flow;
        let (Some(node), Some(port)) = (flow.via(), transfer.near_port) else { continue };
        let NodeKind::Proxy(spec) = &scenario.nodes[node].kind else {
            unreachable!("the reader checked what `via` names")
        };
        let name = &scenario.nodes[node].name;
        let is_local = |host: usize| network.topology().leads_over(node, host, spec.local_link);
        let (connects, listens) = transfer.ends();
        let from_local = is_local(connects);
        let known = plans.iter().position(|plan| (plan.node, plan.from_local) == (node, from_local));
        let index = known.unwrap_or_else(|| {
            plans.push(ProxyPlan {
                node,
                name: name.clone(),
                from_local,
                config: config(spec.model, site.sides(node), from_local),
                relays: Vec::new(),
                listens_at: port,
                relay: spec.model,
            });
            plans.len() - 1
        });
        let plan = &mut plans[index];
        plan.config += &way_in(site.host(node).address, port, site.host(listens).address, transfer.port);
        plan.relays.push((transfer.port, flow.name.clone(), transfer.instance));
    }
    plans
}

/// The proxy's file, without its ways in. The side of who connects is its `local` one, whatever the scenario calls it.
fn config(model: RelayModel, [local, remote]: &[Settings; 2], from_local: bool) -> String {
    let (accepted, connected) = if from_local { (local, remote) } else { (remote, local) };
    let mut text = "user = \"root\"\nworkers = 1\nlog = \"connections\"\nlog_format = \"json\"\n".to_owned();
    let memory = match model {
        RelayModel::BufferAndForward { limit } => Some(limit.max(BUFFER_MIN)),
        RelayModel::StoreAndForward => {
            text += "relay = \"store\"\n";
            None
        }
    };
    if let Some(memory) = memory {
        let all = Bytes::new(256_000_000).max(memory * 1_000);
        let _ = writeln!(text, "limits = {{ memory_per_connection = \"{memory}\", memory = \"{all}\" }}");
    } else {
        let _ = writeln!(text, "spool = {{ folder = \"spool\", quota = \"{QUOTA}\" }}");
    }
    for (name, settings) in [("local", accepted), ("remote", connected)] {
        let _ = write!(text, "[{name}]\n{}", side(settings));
    }
    text
}

/// The table of a proxy's file with the options of a side's sockets.
fn side(settings: &Settings) -> String {
    let options = &settings.socket;
    let mut text = format!("congestion_control = \"{}\"\n", options.congestion_control);
    let mut say = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{name} = \"{value}\"");
        }
    };
    say("rto_min", options.rto_min.map(|time| time.to_string()));
    say("delayed_ack_max", options.delayed_ack_max.map(|time| time.to_string()));
    say("mss", options.mss.map(|size| size.to_string()));
    say("send_buffer", options.send_buffer.map(|size| size.to_string()));
    say("receive_buffer", options.receive_buffer.map(|size| size.to_string()));
    if settings.metrics.quick_ack {
        text += "quick_acks = true\n";
    }
    text
}

fn way_in(proxy: Ipv4Addr, port: u16, to: Ipv4Addr, to_port: u16) -> String {
    format!(
        "[[listen]]\naddress = \"{proxy}:{port}\"\nway = \"forward\"\nto = \"{to}:{to_port}\"\n\
         clients = [\"10.77.0.0/16\"]\n"
    )
}

/// Processes that run, each with a thread inside its proxy's namespace. All are told to end when this is dropped.
#[derive(Debug)]
pub(super) struct RunningProxies<'scope> {
    threads: Vec<Thread<'scope>>,
}

/// Told to end by hanging up on it.
#[derive(Debug)]
struct Thread<'scope> {
    end: Sender<()>,
    handle: ScopedJoinHandle<'scope, io::Result<Vec<Relayed>>>,
}

impl<'scope> RunningProxies<'scope> {
    /// Starts all of `plans` and waits until they listen.
    pub(super) fn start<'env>(
        scope: &'scope thread::Scope<'scope, 'env>,
        plans: &'env [ProxyPlan],
        site: &'env Site,
    ) -> Result<RunningProxies<'scope>, Failure> {
        let mut running = RunningProxies { threads: Vec::new() };
        for plan in plans {
            let (ready, is_ready) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            let handle = scope.spawn(move || {
                site.host(plan.node).namespace.enter()?;
                run(plan, &ready, &ended)
            });
            // It hangs up if it fails.
            let listens = is_ready.recv().is_ok();
            if !listens {
                let why = handle.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
                let why = why.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
                return Err(Failure::Failed(format!("nodes.{}: headend proxy does not start: {why}", plan.name)));
            }
            running.threads.push(Thread { end, handle });
        }
        Ok(running)
    }

    /// Ends all of them; what they have counted.
    pub(super) fn end(self) -> Result<Vec<Relayed>, Failure> {
        let mut relayed = Vec::new();
        for Thread { end, handle } in self.threads {
            drop(end);
            let counted = handle.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked));
            relayed.extend(counted.map_err(|error| Failure::Failed(format!("headend proxy: {error}")))?);
        }
        Ok(relayed)
    }
}

/// Runs a proxy in this thread's namespace until `ended` hangs up.
fn run(plan: &ProxyPlan, ready: &Sender<()>, ended: &Receiver<()>) -> io::Result<Vec<Relayed>> {
    let folder = ProgramFolder::new()?;
    let [file, lines, words] = ["proxy.toml", "lines", "words"].map(|name| folder.0.join(name));
    fs::write(&file, &plan.config)?;
    if plan.relay == RelayModel::StoreAndForward {
        fs::create_dir(folder.0.join("spool"))?;
    }
    let mut command = process::command(std::env::current_exe()?);
    command.arg("proxy").arg("--config").arg(&file);
    // Files and no pipes: nobody has to read while it runs.
    command.stdout(Stdio::from(File::create(&lines)?)).stderr(Stdio::from(File::create(&words)?));
    let mut child = command.spawn()?;
    program::await_listening(&mut child, plan.listens_at, "headend proxy").map_err(|error| {
        let said = fs::read_to_string(&words).unwrap_or_default();
        said.lines().last().map_or(error, |last| io::Error::other(last.to_owned()))
    })?;
    let _ = ready.send(());
    // Only ever hangs up.
    let _ = ended.recv();
    end(&mut child)?;
    Ok(relayed(plan, &lines))
}

/// Lets a proxy close its connections and end.
fn end(child: &mut Child) -> io::Result<()> {
    let begun = Instant::now();
    let pid = Pid::from_child(child);
    // The second one does not wait for connections.
    for patience in [ENDING_MAX / 2, ENDING_MAX] {
        let _ = kill_process(pid, Signal::TERM);
        while begun.elapsed() < patience {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    program::end(child);
    Ok(())
}

/// The connections of which a proxy has written lines, if they are those of flows.
fn relayed(plan: &ProxyPlan, lines: &Path) -> Vec<Relayed> {
    let text = fs::read_to_string(lines).unwrap_or_default();
    text.lines().filter_map(|line| one(plan, &serde_json::from_str(line).ok()?)).collect()
}

fn one(plan: &ProxyPlan, line: &Value) -> Option<Relayed> {
    let port: u16 = line["destination"].as_str()?.rsplit_once(':')?.1.parse().ok()?;
    let (_, flow, instance) = plan.relays.iter().find(|(known, ..)| *known == port)?;
    let number = |name: &str| line[name].as_u64().unwrap_or_default();
    // The proxy calls the side of who connects local.
    let by_side = |local: &str, remote: &str| {
        let [accepted, connected] = [number(local), number(remote)];
        if plan.from_local { [accepted, connected] } else { [connected, accepted] }
    };
    let [up, down] = by_side("up_bytes", "down_bytes");
    let [local_retransmits, remote_retransmits] = by_side("local_retransmits", "remote_retransmits");
    Some(Relayed {
        flow: flow.clone(),
        instance: *instance,
        down: Bytes::new(down),
        up: Bytes::new(up),
        local_retransmits,
        remote_retransmits,
        end: line["end"].as_str().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(from_local: bool) -> ProxyPlan {
        ProxyPlan {
            node: 1,
            name: "proxy".to_owned(),
            from_local,
            config: String::new(),
            relays: vec![(5_001, "get".to_owned(), 0)],
            listens_at: 5_002,
            relay: RelayModel::StoreAndForward,
        }
    }

    #[test]
    fn the_proxy_s_local_side_is_that_of_the_connecting_end() {
        let line = json!({
            "destination": "10.77.0.1:5001", "up_bytes": 300, "down_bytes": 3_000_000,
            "local_retransmits": 40, "remote_retransmits": 2, "end": "closed",
        });
        let from_local = one(&plan(true), &line).expect("a flow's");
        assert_eq!((from_local.down, from_local.local_retransmits), (Bytes::new(3_000_000), 40));
        let from_remote = one(&plan(false), &line).expect("a flow's");
        assert_eq!((from_remote.down, from_remote.local_retransmits), (Bytes::new(300), 2));
    }

    #[test]
    fn a_line_of_no_flow_is_left_out() {
        assert_eq!(one(&plan(true), &json!({ "destination": "10.77.0.1:80", "end": "closed" })), None);
        assert_eq!(one(&plan(true), &json!({ "way": "http", "end": "refused" })), None);
    }
}
