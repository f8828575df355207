//! TUN devices: the kernel's end is an interface in a namespace, ours a descriptor from which each `read` takes one IP
//! packet and to which each `write` gives one (Linux `Documentation/networking/tuntap.rst`). The descriptor works
//! wherever it is used; the device goes with it, so a driver that is killed leaves none behind.

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::device::{Change, Device, DeviceCounters};
use crate::error::{During, Error};
use crate::netlink::Netlink;
use crate::netns::Namespace;

/// The properties of a device that is to be made.
#[derive(Clone, Debug)]
pub struct DeviceSetup {
    /// The interface's name; a `%d` in it becomes the first free number.
    pub name: String,
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<(Ipv4Addr, u8)>,
    /// Changes to it once it is there, such as that it comes up.
    pub change: Change,
}

/// Packets that wait for us in a device. At 1.5 Gbit/s these are 80 ms of full packets: longer than the pauses that a
/// virtual machine is given.
pub const QUEUE_PACKETS: u32 = 10_000;

impl DeviceSetup {
    /// A device that comes up with this longest packet, and room for [`QUEUE_PACKETS`]. A packet is what leaves TCP at
    /// once: its bundles are cut up before.
    pub fn new(name: &str, addresses: Vec<(Ipv4Addr, u8)>, mtu: u32) -> DeviceSetup {
        let change =
            Change { up: Some(true), mtu: Some(mtu), tx_queue_len: Some(QUEUE_PACKETS), gso_max_segs: Some(1) };
        DeviceSetup { name: name.to_owned(), addresses, change }
    }
}

/// A TUN device. It ends when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    device: Device,
    /// The tables of the device's namespace.
    netlink: Netlink,
}

impl Tun {
    /// Makes a device in `namespace`, or in the calling thread's own without one.
    pub fn create(namespace: Option<&Namespace>, setup: &DeviceSetup) -> Result<Tun, Error> {
        match namespace {
            Some(namespace) => namespace.run(|| create(setup))?,
            None => create(setup),
        }
    }

    /// The interface, as it was when it was made.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// The kernel's counts at its end so far: packets that it sent are those that we read, and packets of these that it
    /// dropped are those that we did not read in time.
    pub fn counters(&mut self) -> Result<DeviceCounters, Error> {
        Ok(Device::find(&mut self.netlink, &self.device.name)?.counters)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn create(setup: &DeviceSetup) -> Result<Tun, Error> {
    let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let file = open.during(|| "/dev/net/tun")?;
    let name = attach(&file, &setup.name).during(|| format!("make TUN device {}", setup.name))?;
    let mut netlink = Netlink::open()?;
    let device = Device::find(&mut netlink, &name)?;
    device.change(&mut netlink, setup.change)?;
    for &(address, prefix_len) in &setup.addresses {
        device.add_address(&mut netlink, address, prefix_len)?;
    }
    let device = Device::find(&mut netlink, &name)?;
    Ok(Tun { file, device, netlink })
}

/// Makes the interface and returns its whole name.
fn attach(file: &File, name: &str) -> io::Result<String> {
    // SAFETY: all zeros are a value of this structure of integers and arrays.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte of the array must stay zero.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(['\0', '/']) {
        let text = format!("{name:?} is no interface's name: expected 1 to 15 bytes without a slash");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    // No header before the packets, one queue, and no offloads: a packet is what a link would carry.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: TUNSETIFF takes a `struct ifreq`, of which the kernel reads and writes no more than its size and to which
    // it keeps no pointer.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect())
}
