//! A command behind the emulated network: in a namespace of its own, which goes with it.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use headend_host::device::{self, Change, Device};
use headend_host::netns::Namespace;
use headend_host::reactor::Gate;
use headend_host::route::{Metrics, Route};
use headend_host::tun::{DeviceSetup, Tun};
use headend_host::{Error, Netlink, privilege, process};

use super::Emulation;
use super::ends::{self, Opened};
use crate::failure::Failure;

/// The namespace of a command, with a device and a default route into the emulated network. At the other end of that is the
/// namespace from which headend was started.
pub(super) struct Inside {
    namespace: Namespace,
    /// The addresses of the other end and of this one.
    addresses: [Ipv4Addr; 2],
}

/// A command that runs.
pub(super) struct Running(Receiver<Result<ExitStatus, Failure>>);

impl Inside {
    /// Makes the namespace, and a device here and one there.
    pub(super) fn open(arguments: &Emulation, segments: u32) -> Result<(Inside, Vec<Opened>), Failure> {
        ends::check_privilege(arguments, "makes a namespace and devices", &privilege::missing())?;
        let mut netlink = Netlink::open()?;
        let addresses = free_pair(&device::addresses(&mut netlink)?)?;
        // Another emulator may run here, or this one be started by a command of another.
        let known = Device::all(&mut netlink)?;
        let is_free = |name: &String| known.iter().all(|device| device.name != *name);
        let name = (0..).map(|n| format!("{}{n}", arguments.device)).find(is_free).expect("numbers do not end");
        let namespace = Namespace::unnamed("of the command")?;
        let setup = |name: &str, address: Ipv4Addr| {
            DeviceSetup::new(name, vec![(address, 24)], arguments.mtu).with_offloads(segments)
        };
        let here = Tun::create(None, &setup(&name, addresses[0]))?;
        let there = namespace.run(|| {
            let mut netlink = Netlink::open()?;
            let up = Change { up: Some(true), ..Change::default() };
            Device::find(&mut netlink, "lo")?.change(&mut netlink, up)?;
            let tun = Tun::create(None, &setup(&arguments.device, addresses[1]))?;
            Route::default_route(addresses[1], Metrics::default()).add(&mut netlink, tun.device())?;
            Ok::<_, Error>(tun)
        })??;
        let opened = |tun: Tun, place: String, address: Ipv4Addr| (Gate::from(tun), place, vec![IpAddr::V4(address)]);
        let opened = vec![
            opened(here, format!("here, device {name}, {}", addresses[0]), addresses[0]),
            opened(there, format!("the command, {}", addresses[1]), addresses[1]),
        ];
        Ok((Inside { namespace, addresses }, opened))
    }

    /// Starts a command inside, with our input and output. Its environment says where it is: `HEADEND_HERE` and `HEADEND_INSIDE` are
    /// the addresses of the two ends.
    pub(super) fn start(self, words: &[String]) -> Running {
        let (sender, receiver) = mpsc::channel();
        let words = words.to_vec();
        // The command ends with the thread that starts it, which therefore waits for it.
        thread::spawn(move || {
            let run = || {
                self.namespace.enter().map_err(|error| Failure::Failed(format!("the command's namespace: {error}")))?;
                let mut command = process::command(&words[0]);
                command.args(&words[1..]).stdin(Stdio::inherit());
                command.env("HEADEND_HERE", self.addresses[0].to_string());
                command.env("HEADEND_INSIDE", self.addresses[1].to_string());
                let status = command.status();
                status.map_err(|error| Failure::Wrong(format!("{}: {error}", words[0])))
            };
            // Whoever waits may have gone.
            let _ = sender.send(run());
        });
        Running(receiver)
    }
}

impl Running {
    /// How the command ended, if it has.
    pub(super) fn ended(&self) -> Option<Result<ExitStatus, Failure>> {
        self.0.try_recv().ok()
    }
}

/// Two addresses of the first network 10.83.N.0/24 of which nobody here has one.
fn free_pair(taken: &[IpAddr]) -> Result<[Ipv4Addr; 2], Failure> {
    let is_free = |n: &u8| !taken.iter().any(|it| matches!(it, IpAddr::V4(v4) if v4.octets()[..3] == [10, 83, *n]));
    let network = (0..=255).find(is_free);
    let network = network
        .ok_or_else(|| Failure::Wrong("all networks 10.83.0.0/24 to 10.83.255.0/24 are in use here".to_owned()))?;
    Ok([1, 2].map(|host| Ipv4Addr::new(10, 83, network, host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_a_network_that_nobody_here_has() {
        let taken: Vec<IpAddr> = ["10.83.0.2", "10.83.1.1", "10.84.2.1", "::1"].map(|it| it.parse().unwrap()).into();
        assert_eq!(free_pair(&taken).ok(), Some([Ipv4Addr::new(10, 83, 2, 1), Ipv4Addr::new(10, 83, 2, 2)]));
    }
}
