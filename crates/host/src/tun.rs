//! TUN devices: the kernel's end is an interface in a namespace, ours a descriptor from which each `read` takes one IP
//! packet and to which each `write` gives one (Linux `Documentation/networking/tuntap.rst`), with what is left to do on it before it.
//! The descriptor works wherever it is used; the device goes with it, so a driver that is killed leaves none behind.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::arrivals::Arrivals;
use crate::device::{Change, Device, DeviceCounters};
use crate::error::{During, Error};
use crate::netlink::Netlink;
use crate::netns::Namespace;
use crate::offload::{self, Joined, Offload, OpenChecksum, Segment};

/// The properties of a device that is to be made.
#[derive(Clone, Debug)]
pub struct DeviceSetup {
    /// The interface's name; a `%d` in it becomes the first free number.
    pub name: String,
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Changes to it once it is there, such as that it comes up.
    pub change: Change,
    /// True if senders may leave checksums, and the cutting of large segments, to us.
    pub offloads: bool,
}

/// Packets that wait for us in a device. At 1.5 Gbit/s these are 80 ms of full packets: longer than the pauses that a
/// virtual machine is given.
pub const QUEUE_PACKETS: u32 = 10_000;

impl DeviceSetup {
    /// A device that comes up with this longest packet, and room for [`QUEUE_PACKETS`]. A packet is what leaves TCP at
    /// once: its bundles are cut up before.
    pub fn new<A: Into<IpAddr>>(name: &str, addresses: Vec<(A, u8)>, mtu: u32) -> DeviceSetup {
        let addresses = addresses.into_iter().map(|(address, prefix_len)| (address.into(), prefix_len)).collect();
        let change =
            Change { up: Some(true), mtu: Some(mtu), tx_queue_len: Some(QUEUE_PACKETS), gso_max_segs: Some(1) };
        DeviceSetup { name: name.to_owned(), addresses, change, offloads: false }
    }

    /// The same whose packets come with open checksums, and up to `segments` of a connection's at once, which are cut up here:
    /// it takes the machine less time.
    pub fn with_offloads(mut self, segments: u32) -> DeviceSetup {
        self.offloads = true;
        self.change.gso_max_segs = Some(segments);
        self
    }
}

/// A TUN device. It ends when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    device: Device,
    /// The tables of the device's namespace.
    netlink: Netlink,
    /// A large segment whose packets have not all been taken.
    segment: Segment,
    /// Room for the part of a large segment that a buffer has no room for.
    spill: Vec<u8>,
    /// Packets that leave together.
    joined: Joined,
    takes_udp: bool,
    /// The times at which packets came, if the kernel notes them, and that of the last one taken.
    arrivals: Option<Arrivals>,
    came_ns: Option<u64>,
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

    /// True if datagrams of UDP may come, and be given, several as one packet.
    pub fn takes_udp(&self) -> bool {
        self.takes_udp
    }

    /// Has the kernel note from now on when packets come.
    ///
    /// # Errors
    /// Where this process may not load programs into the kernel.
    pub fn note_arrivals(&mut self) -> io::Result<()> {
        self.arrivals = Some(Arrivals::watch(self.file.as_fd())?);
        Ok(())
    }

    /// The time at which the packet came that was received last, in nanoseconds of CLOCK_MONOTONIC, if it was noted.
    pub fn came_ns(&self) -> Option<u64> {
        self.came_ns
    }

    /// Packets that wait for [`flush`](Tun::flush).
    pub fn kept(&self) -> usize {
        self.joined.count()
    }

    /// Takes a packet that has come, or the next of a large segment; its length, and its checksum if it is open.
    ///
    /// # Errors
    /// That of readv(2); `AGAIN` if there is no packet now.
    pub fn receive(&mut self, buffer: &mut [u8]) -> rustix::io::Result<(usize, Option<OpenChecksum>)> {
        loop {
            if let Some((len, open)) = self.segment.cut(buffer) {
                return Ok((len.min(buffer.len()), Some(open)));
            }
            let mut header = [0; offload::HEADER_BYTES];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(buffer), IoSliceMut::new(&mut self.spill)];
            let come = self.arrivals.as_ref().map(Arrivals::come);
            let read = rustix::io::readv(&self.file, &mut parts);
            if let Some((arrivals, come)) = self.arrivals.as_mut().zip(come) {
                match read {
                    Ok(_) => self.came_ns = arrivals.take(),
                    Err(_) => arrivals.was_empty(come),
                }
            }
            let len = read?.saturating_sub(offload::HEADER_BYTES);
            let offload = Offload::read(&header);
            let (here, spilled) = (len.min(buffer.len()), len.saturating_sub(buffer.len()));
            if !offload.is_large() {
                return Ok((here, offload.open));
            }
            self.segment.begin(offload, [&buffer[..here], &self.spill[..spilled]], 0);
        }
    }

    /// True if there are packets that no wait tells of.
    pub fn has_more(&self) -> bool {
        self.segment.has_more()
    }

    /// Sends a packet. One of several that can leave together may wait for [`flush`](Tun::flush).
    ///
    /// # Errors
    /// That of writev(2), and the number of packets that it concerns.
    pub fn send(&mut self, packet: &[u8], open: Option<OpenChecksum>) -> Result<(), Unsent> {
        if open.is_some_and(|open| self.joined.take(packet, open)) {
            return Ok(());
        }
        let flushed = self.flush();
        if open.is_some_and(|open| self.joined.take(packet, open)) {
            return flushed;
        }
        let header = open.map_or([0; offload::HEADER_BYTES], OpenChecksum::header);
        match (flushed, write(&self.file, header, packet)) {
            (flushed, Ok(())) => flushed,
            (Ok(()), Err(why)) => Err(Unsent { packets: 1, why }),
            (Err(unsent), Err(why)) => Err(Unsent { packets: unsent.packets + 1, why }),
        }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// As [`send`](Tun::send).
    pub fn flush(&mut self) -> Result<(), Unsent> {
        if self.joined.is_empty() {
            return Ok(());
        }
        let packets = self.joined.count() as u64;
        let (header, packet) = self.joined.send();
        write(&self.file, header, packet).map_err(|why| Unsent { packets, why })
    }

    /// The kernel's counts at its end so far: packets that it sent are those that we read, and packets of these that it
    /// dropped are those that we did not read in time.
    pub fn counters(&mut self) -> Result<DeviceCounters, Error> {
        Ok(self.device_now()?.counters)
    }

    /// The interface, as it is now.
    pub fn device_now(&mut self) -> Result<Device, Error> {
        Device::find(&mut self.netlink, &self.device.name)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Packets that a device would not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Their number.
    pub packets: u64,
    /// The system's answer to the last of them.
    pub why: rustix::io::Errno,
}

fn write(file: &File, header: [u8; offload::HEADER_BYTES], packet: &[u8]) -> rustix::io::Result<()> {
    rustix::io::writev(file, &[IoSlice::new(&header), IoSlice::new(packet)]).map(drop)
}

fn create(setup: &DeviceSetup) -> Result<Tun, Error> {
    let open = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let file = open.during(|| "/dev/net/tun")?;
    let name = attach(&file, &setup.name).during(|| format!("make TUN device {}", setup.name))?;
    let takes_udp = setup.offloads && take_offloads(&file).during(|| format!("offloads of TUN device {name}"))?;
    let mut netlink = Netlink::open()?;
    let device = Device::find(&mut netlink, &name)?;
    device.change(&mut netlink, setup.change)?;
    for &(address, prefix_len) in &setup.addresses {
        device.add_address(&mut netlink, address, prefix_len)?;
    }
    let device = Device::find(&mut netlink, &name)?;
    let (segment, joined, spill) = (Segment::default(), Joined::new(takes_udp), vec![0; offload::PACKET_BYTES_MAX]);
    Ok(Tun { file, device, netlink, segment, spill, joined, takes_udp, arrivals: None, came_ns: None })
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
    // One queue, and before the packets only what is left to do on them: nothing, unless offloads are asked for.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: TUNSETIFF takes a `struct ifreq`, of which the kernel reads and writes no more than its size and to which
    // it keeps no pointer.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request.ifr_name.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect())
}

/// Lets senders leave checksums and cutting to us (linux/if_tun.h). False if not those of UDP, which kernels before 6.2 cut themselves.
fn take_offloads(file: &File) -> io::Result<bool> {
    const CHECKSUM: u64 = 0x01;
    const TCP: u64 = 0x02 | 0x04 | 0x08;
    const UDP: u64 = 0x20 | 0x40;
    let set = |offloads: u64| {
        // SAFETY: TUNSETOFFLOAD takes a number, not a pointer.
        match unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, offloads) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    set(CHECKSUM | TCP | UDP).map(|()| true).or_else(|_| set(CHECKSUM | TCP).map(|()| false))
}

/// `_IOW('T', 208, unsigned int)` (linux/if_tun.h).
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
