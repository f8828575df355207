//! The hosts, proxies and circuits' ends of a lab: a network namespace each, set up as its personality says, with a TUN device into the
//! network. All of it goes when this does, and what a killed run has left goes with the next one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use headend_engine::cc::Algorithm;
use headend_engine::tcp::personality::Personality;
use headend_host::device::{Change, Device};
use headend_host::fast::{self, Instance, Parameters};
use headend_host::netns::{self, Namespace};
use headend_host::personality::{self, Settings, Unmapped};
use headend_host::route::{Metrics, Route};
use headend_host::socket::SocketOptions;
use headend_host::sysctl::KernelSetting;
use headend_host::tun::{self, Tun};
use headend_host::{Error, Netlink};
use headend_scenario::{NodeKind, Proxy, Scenario};
use headend_sim::network::Network;
use rustix::process::geteuid;

use crate::failure::Failure;

/// Every namespace of a lab is called `headend-lab-PID-START-SITE.NUMBER-NODE`: the process that made it, when that process
/// started (in the kernel's ticks since boot, so that another process with the same number is another owner), which of
/// its sites it belongs to, and which node it is.
const PREFIX: &str = "headend-lab-";
/// Bytes of a trunk's own around a user's packet at most, for which links between circuits' ends have room.
const AROUND: u32 = 100;
/// The name of a host's device.
const DEVICE: &str = "link0";

/// The namespaces of a scenario's hosts, and of the proxies that flows go through.
#[derive(Debug)]
pub(super) struct Site {
    /// The hosts by node; routers have none.
    hosts: Vec<Option<LabHost>>,
    /// The options of each proxy's sockets: those of its local side, then those of its remote one.
    sides: BTreeMap<usize, [Settings; 2]>,
    /// The instances of FAST that were put into the kernel for them. The kernel takes one out when it is dropped, or
    /// with this process.
    fast: Vec<(Parameters, Instance)>,
}

/// One host, or a proxy.
#[derive(Debug)]
pub(super) struct LabHost {
    pub(super) namespace: Namespace,
    pub(super) address: Ipv4Addr,
    /// The settings of the namespace and of its default route.
    pub(super) settings: Settings,
    /// Other routes: to these addresses TCP does what these metrics say.
    exceptions: Vec<(Ipv4Addr, Metrics)>,
}

impl Site {
    /// Makes a namespace for each host of `scenario`, and for each proxy that a flow goes through, and the devices that
    /// lead out of them, by node. What was made goes again if something fails.
    pub(super) fn build(scenario: &Scenario, network: &Network) -> Result<(Site, Vec<Option<Tun>>), Failure> {
        static SITES: AtomicU32 = AtomicU32::new(0);
        let serial = SITES.fetch_add(1, Ordering::Relaxed);
        let mut site = Site { hosts: Vec::new(), sides: BTreeMap::new(), fast: Vec::new() };
        let mut tuns = Vec::new();
        let edge_mtu = mtu(scenario) + AROUND;
        for (number, node) in scenario.nodes.iter().enumerate() {
            if !has_namespace(scenario, number) {
                site.hosts.push(None);
                tuns.push(None);
                continue;
            }
            let (settings, exceptions) = match &node.kind {
                NodeKind::Host { personality, .. } => (site.settings(personality)?, Vec::new()),
                NodeKind::Proxy(proxy) => site.settings_of_proxy(scenario, network, number, proxy)?,
                NodeKind::Router => (edge_settings(edge_mtu), Vec::new()),
            };
            let namespace = Namespace::create(&name(serial, number, &node.name))?;
            site.hosts.push(Some(LabHost { namespace, address: address(number), settings, exceptions }));
            tuns.push(Some(site.host(number).set_up()?));
        }
        Ok((site, tuns))
    }

    /// The settings of a proxy's namespace, and its routes to the hosts of its local side. Its sides share a namespace:
    /// where their settings differ, the local one's hold.
    fn settings_of_proxy(
        &mut self,
        scenario: &Scenario,
        network: &Network,
        number: usize,
        proxy: &Proxy,
    ) -> Result<(Settings, Vec<(Ipv4Addr, Metrics)>), Failure> {
        let local = self.settings(&proxy.local.personality)?;
        let remote = self.settings(&proxy.remote.personality)?;
        let is_local = |&node: &usize| {
            matches!(scenario.nodes[node].kind, NodeKind::Host { .. })
                && network.topology().leads_over(number, node, proxy.local_link)
        };
        let exceptions =
            (0..scenario.nodes.len()).filter(is_local).map(|node| (address(node), local.metrics.clone())).collect();
        let mtu = local.mtu.max(remote.mtu);
        let settings = Settings { sysctls: local.sysctls.clone(), mtu, ..remote.clone() };
        self.sides.insert(number, [local, remote]);
        Ok((settings, exceptions))
    }

    /// The options of the sockets of proxy `node`, on its local and on its remote side.
    pub(super) fn sides(&self, node: usize) -> &[Settings; 2] {
        &self.sides[&node]
    }

    /// The settings of a host with this personality; FAST is put into the kernel for it.
    fn settings(&mut self, personality: &Personality) -> Result<Settings, Failure> {
        let Some(wanted) = fast_of(personality) else { return Ok(personality::map_here(personality).0) };
        if !self.fast.iter().any(|(parameters, _)| *parameters == wanted) {
            self.fast.push((wanted, Instance::load_unnamed(wanted)?));
        }
        let (_, instance) = self.fast.iter().find(|(parameters, _)| *parameters == wanted).expect("it has just come");
        Ok(personality::map_here_as(personality, instance.name()).0)
    }

    /// The host in place of node `node`.
    pub(super) fn host(&self, node: usize) -> &LabHost {
        self.hosts[node].as_ref().expect("flows begin and end at hosts")
    }

    /// All hosts, and proxies that flows go through, with their numbers.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (usize, &LabHost)> {
        self.hosts.iter().enumerate().filter_map(|(node, host)| Some((node, host.as_ref()?)))
    }
}

/// The longest packet of a scenario's hosts.
pub(super) fn mtu(scenario: &Scenario) -> u32 {
    let hosts = scenario.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Host { personality, .. } => Some(personality::map_here(personality).0.mtu),
        NodeKind::Router | NodeKind::Proxy(_) => None,
    });
    hosts.max().unwrap_or(1_500)
}

/// The settings of a namespace at which a circuit begins or ends: it forwards, and says nobody that there is a shorter way.
fn edge_settings(mtu: u32) -> Settings {
    let sysctls = [
        ("net.ipv4.ip_forward", 1),
        ("net.ipv4.conf.all.send_redirects", 0),
        ("net.ipv4.conf.default.send_redirects", 0),
        ("net.ipv4.conf.all.rp_filter", 0),
        ("net.ipv4.conf.default.rp_filter", 0),
    ];
    Settings {
        sysctls: sysctls.map(|(name, value)| KernelSetting::new(name, value)).into(),
        metrics: Metrics::default(),
        socket: SocketOptions::new("reno"),
        mtu,
    }
}

/// True if a lab makes a namespace for node `number`: for hosts, for proxies that a flow goes through, and for routers at which a
/// circuit begins or ends.
pub(super) fn has_namespace(scenario: &Scenario, number: usize) -> bool {
    match &scenario.nodes[number].kind {
        NodeKind::Host { .. } => true,
        NodeKind::Proxy(_) => scenario.flows.iter().any(|flow| flow.via() == Some(number)),
        NodeKind::Router => scenario.is_edge(number),
    }
}

/// The parameters of the FAST that hosts with this personality have of their own, if they do; every run puts it in under
/// another name.
fn fast_of(personality: &Personality) -> Option<Parameters> {
    match personality.controller {
        Algorithm::Fast(parameters) => fast::missing_for_a_while().is_none().then_some(parameters),
        _ => None,
    }
}

/// The parts of a personality that the kernel cannot do.
pub(super) fn unmapped(personality: &Personality) -> Vec<Unmapped> {
    // The name does not matter here.
    let mapped = if fast_of(personality).is_some() {
        personality::map_here_as(personality, "fast")
    } else {
        personality::map_here(personality)
    };
    mapped.1
}

/// Settings of the namespace that a proxy's remote side would have otherwise than its local one has them.
pub(super) fn shared_settings(proxy: &Proxy) -> Vec<Unmapped> {
    let [local, remote] = [&proxy.local, &proxy.remote].map(|side| personality::map_here(&side.personality).0);
    let differs = |one: &KernelSetting| {
        // The proxy's sockets say this one themselves.
        let is_told = one.name == "net.ipv4.tcp_rto_min_us" && remote.socket.rto_min.is_some();
        let other = local.sysctls.iter().find(|other| other.name == one.name && other.value != one.value)?;
        (!is_told).then(|| Unmapped {
            option: one.name,
            why: format!("both sides have {}, the local one's: they share a namespace", other.value),
        })
    };
    remote.sysctls.iter().filter_map(differs).collect()
}

impl Drop for Site {
    fn drop(&mut self) {
        for (_, host) in self.hosts() {
            if let Err(error) = take_down(&host.namespace) {
                eprintln!("{error}; `headend lab clean` tries again");
            }
        }
    }
}

impl LabHost {
    /// Settings, device, address and routes.
    fn set_up(&self) -> Result<Tun, Error> {
        self.namespace.run(|| {
            // First of all: a device that comes up would send of its own accord.
            for family in ["all", "default"] {
                disable_ipv6(family)?;
            }
            for setting in &self.settings.sysctls {
                setting.apply()?;
            }
            // What a program that was killed has written is given up soon, for its memory is everybody's.
            KernelSetting::new("net.ipv4.tcp_orphan_retries", 1).apply()?;
            let mut netlink = Netlink::open()?;
            let up = Change { up: Some(true), ..Change::default() };
            Device::find(&mut netlink, "lo")?.change(&mut netlink, up)?;
            let tun = Tun::create(None, &tun::DeviceSetup::new(DEVICE, vec![(self.address, 32)], self.settings.mtu))?;
            Route::default_route(self.address, self.settings.metrics.clone()).add(&mut netlink, tun.device())?;
            for (to, metrics) in &self.exceptions {
                let route = Route { to: *to, prefix_len: 32, source: Some(self.address), metrics: metrics.clone() };
                route.add(&mut netlink, tun.device())?;
            }
            Ok(tun)
        })?
    }
}

/// A kernel without IPv6 has nothing to switch off.
fn disable_ipv6(family: &str) -> Result<(), Error> {
    let name = if family == "all" { "net.ipv6.conf.all.disable_ipv6" } else { "net.ipv6.conf.default.disable_ipv6" };
    match KernelSetting::new(name, 1).apply() {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The address of node `number`: in 10.77.0.0/16, from .1 on.
pub(super) fn address(number: usize) -> Ipv4Addr {
    let low = number as u16 + 1;
    Ipv4Addr::new(10, 77, (low >> 8) as u8, low as u8)
}

fn name(site: u32, number: usize, node: &str) -> String {
    let mut name = format!("{}{site}.{number}-", prefix());
    // A file name of at most 255 bytes, whatever the node is called.
    let plain = node.chars().take(32).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    for c in plain {
        let _ = write!(name, "{c}");
    }
    name
}

/// The beginning of the names of all that this process makes.
fn prefix() -> String {
    let pid = std::process::id();
    let start = start_of(pid).expect("this process is in /proc");
    format!("{PREFIX}{pid}-{start}-")
}

/// The path of a folder that nobody else has.
pub(super) fn folder() -> PathBuf {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    std::env::temp_dir().join(format!("{}{}", prefix(), FOLDERS.fetch_add(1, Ordering::Relaxed)))
}

/// The time at which process `pid` was started, in ticks since boot: field 22 of its `stat` (proc_pid_stat(5)). `None`
/// if there is no such process.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// The process that made the namespace called `name` and when it started; `None` if it is no lab's.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// True if something of this name was made by a lab whose process is gone.
fn is_orphan(name: &str) -> bool {
    owner(name).is_some_and(|(pid, start)| start_of(pid) != Some(start))
}

/// Takes down what labs have left whose processes are gone, and returns the names of it.
pub(super) fn clean() -> Result<Vec<String>, Failure> {
    let mut cleaned = Vec::new();
    for name in netns::names()?.into_iter().filter(|name| is_orphan(name)) {
        match Namespace::open(&name) {
            Ok(namespace) => take_down(&namespace)?,
            // Somebody else was faster, or there is a name without a namespace.
            Err(_) => netns::remove(&name)?,
        }
        cleaned.push(name);
    }
    let folders = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    // Anybody may put something of such a name there. What is no folder of ours is none of our business.
    let is_ours =
        |folder: &fs::DirEntry| folder.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw());
    for folder in folders.filter(|folder| folder.file_name().to_str().is_some_and(is_orphan) && is_ours(folder)) {
        fs::remove_dir_all(folder.path()).map_err(|error| Failure::io(&folder.path(), error))?;
        cleaned.push(folder.path().display().to_string());
    }
    Ok(cleaned)
}

/// Ends what runs in a namespace of a lab and removes it.
fn take_down(namespace: &Namespace) -> Result<(), Error> {
    const ENDING_MAX: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    let own = std::process::id();
    // A namespace lives as long as anybody in it, with its devices.
    loop {
        let others: Vec<u32> = namespace.processes()?.into_iter().filter(|&pid| pid != own).collect();
        if others.is_empty() || begun.elapsed() > ENDING_MAX {
            break;
        }
        for pid in others {
            netns::kill(pid)?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    netns::remove(namespace.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_s_name_tells_its_owner() {
        let name = name(7, 3, "pc / of Ann-Marie \u{fc}");
        assert!(name.ends_with("-7.3-pc___of_Ann_Marie__"), "{name}");
        assert_eq!(owner(&name), Some((std::process::id(), start_of(std::process::id()).unwrap())));
        for other in ["lab", "headend-lab-", "headend-lab-x-1-0-a", "headend-lab-12", "headend-labs-1-2-3-a"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn every_host_has_an_address_of_its_own() {
        let addresses: std::collections::BTreeSet<_> = (0..1_000).map(address).collect();
        assert_eq!(addresses.len(), 1_000);
        assert_eq!(address(0), Ipv4Addr::new(10, 77, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(10, 77, 1, 0));
    }

    #[test]
    fn a_process_that_is_gone_or_was_another_is_no_owner() {
        let own = std::process::id();
        assert!(start_of(own).is_some());
        // The largest number is beyond what Linux ever gives (proc_sys_kernel(5): pid_max is at most 2^22).
        assert_eq!(start_of(1 << 23), None);
    }
}
