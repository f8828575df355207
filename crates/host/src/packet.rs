//! Interfaces of the machine as they are, by packet sockets (packet(7)): each frame that came in is taken whole, with the
//! time at which the kernel saw it, and each `write` sends one.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use headend_engine::time::Duration;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};

use crate::device::Device;
use crate::error::{During, Error};
use crate::netlink::Netlink;
use crate::offload::{self, Offload, Segment};

/// Bytes of a frame before the packet: two addresses and a type (IEEE 802.3).
pub const HEADER_BYTES: usize = 14;

/// Room for frames that wait for us.
const BUFFER_BYTES: libc::c_int = 64 << 20;

/// An interface whose frames all come to us, whoever they are for, besides going where they go anyway. It takes
/// CAP_NET_RAW, and CAP_NET_ADMIN for its buffer.
#[derive(Debug)]
pub struct Interface {
    socket: OwnedFd,
    device: Device,
    /// The tables of the interface's namespace.
    netlink: Netlink,
    /// The kernel forgets what it has told.
    dropped: u64,
    /// A large segment whose packets have not all been taken, and how long it had waited.
    segment: Segment,
    segment_waited: Option<Duration>,
    /// Room for the part of a large segment that a buffer has no room for.
    spill: Vec<u8>,
}

impl Interface {
    /// Opens the interface called `name` of the calling thread's namespace. It must be up.
    pub fn open(name: &str) -> Result<Interface, Error> {
        let mut netlink = Netlink::open()?;
        let device = Device::find(&mut netlink, name)?;
        if !device.up {
            return Err(Error::new(format!("interface {name}"), io::Error::from(io::ErrorKind::NetworkDown)));
        }
        let socket = open(&device).during(|| format!("open interface {name}"))?;
        let spill = vec![0; offload::PACKET_BYTES_MAX + HEADER_BYTES];
        Ok(Interface { socket, device, netlink, dropped: 0, segment: Segment::default(), segment_waited: None, spill })
    }

    /// The interface, as it was when it was opened.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Fails if the interface is gone for good. One that is down may come up again, and its frames then come to us as
    /// before; one that was removed or moved away has left its sockets without an interface.
    pub fn is_there(&self) -> Result<(), Error> {
        // SAFETY: all zeros are a value of this structure of integers and arrays.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        let (fd, address_at, len_at) = (self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len);
        // SAFETY: the kernel writes no more than `len` bytes to the structure, which is a packet socket's own.
        if unsafe { libc::getsockname(fd, address_at, len_at) } < 0 {
            return Err(Error::new(format!("interface {}", self.device.name), io::Error::last_os_error()));
        }
        if u32::try_from(address.sll_ifindex) == Ok(self.device.index) {
            return Ok(());
        }
        let what = format!("interface {} is gone: it was removed, or moved to another namespace", self.device.name);
        Err(Error::new(what, io::Error::from_raw_os_error(libc::ENXIO)))
    }

    /// True if somebody has taken the interface down.
    pub fn is_down(&mut self) -> Result<bool, Error> {
        Ok(!Device::find(&mut self.netlink, &self.device.name)?.up)
    }

    /// Frames that the kernel has dropped so far because we did not read them in time.
    pub fn dropped(&mut self) -> Result<u64, Error> {
        // SAFETY: all zeros are a value of this structure of two integers.
        let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        let (fd, stats_at, len_at) = (self.socket.as_raw_fd(), (&raw mut stats).cast(), &raw mut len);
        // SAFETY: the kernel writes no more than `len` bytes to the structure.
        let asked = unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, stats_at, len_at) };
        if asked < 0 {
            return Err(Error::new(format!("counters of {}", self.device.name), io::Error::last_os_error()));
        }
        self.dropped += u64::from(stats.tp_drops);
        Ok(self.dropped)
    }
}

impl Interface {
    /// Takes a frame that came in; its length, and how long ago it came, as the kernel has noted it. A checksum that was left
    /// open is completed, and of a large segment the packets are taken one by one.
    ///
    /// # Errors
    /// That of recvmsg(2); `WouldBlock` if there is no frame now.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        loop {
            if let Some((len, open)) = self.segment.cut(buffer) {
                let len = len.min(buffer.len());
                open.complete(&mut buffer[..len]);
                return Ok((len, self.segment_waited));
            }
            let (offload, len, waited) = match self.receive_whole(buffer) {
                // A segment of a kind that the kernel has no header for; it has been thrown away.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => continue,
                received => received?,
            };
            let (here, spilled) = (len.min(buffer.len()), len.saturating_sub(buffer.len()));
            if !offload.is_large() {
                if let Some(open) = offload.open {
                    open.complete(&mut buffer[..here]);
                }
                return Ok((here, waited));
            }
            self.segment.begin(offload, [&buffer[..here], &self.spill[..spilled]], HEADER_BYTES);
            self.segment_waited = waited;
        }
    }

    /// True if there are packets that no wait tells of.
    pub fn has_more(&self) -> bool {
        self.segment.has_more()
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// That of writev(2).
    pub fn send(&self, frame: &[u8]) -> rustix::io::Result<()> {
        let nothing_left_to_do = [0; offload::HEADER_BYTES];
        rustix::io::writev(&self.socket, &[io::IoSlice::new(&nothing_left_to_do), io::IoSlice::new(frame)]).map(drop)
    }

    /// Takes a frame as it came: what is left to do on it, its length, of which `buffer` has the beginning and `spill` the rest,
    /// and how long it had waited.
    fn receive_whole(&mut self, buffer: &mut [u8]) -> io::Result<(Offload, usize, Option<Duration>)> {
        let mut header = [0_u8; offload::HEADER_BYTES];
        let part = |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut parts = [part(&mut header), part(buffer), part(&mut self.spill)];
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: all zeros are a value of this structure of integers and pointers.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the kernel writes no more than the lengths given to the parts and `control`, which outlive the call.
        let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
        // SAFETY: `message` was filled by the kernel, and what it points to is still here.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let stamp = first
            .filter(|header| (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS))
            // SAFETY: a message of this type holds a `timespec`; the buffer is aligned for nothing, so it is copied.
            .map(|header| unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() });
        let waited = stamp.map(|stamp| {
            let now = clock_gettime(ClockId::Realtime);
            let ns = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
            let waited = ns(now.tv_sec, now.tv_nsec).saturating_sub(ns(stamp.tv_sec, stamp.tv_nsec));
            // Negative if the clock was set meanwhile.
            Duration::from_nanos(u64::try_from(waited).unwrap_or(0))
        });
        let len = len.saturating_sub(offload::HEADER_BYTES);
        Ok((Offload::read(&header), len, waited))
    }
}

/// Room for a header of a control message and a `timespec`.
const CONTROL_WORDS: usize = 8;

impl AsFd for Interface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(device: &Device) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // For no protocol at first: nothing is to come from interfaces that we do not want.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let index = libc::c_int::try_from(device.index).map_err(|_| io::ErrorKind::InvalidInput)?;
    // What we and others send there is not what comes in.
    set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    // Before each frame comes, and goes, what is left to do on it.
    set(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
    // SAFETY: all zeros are a value of this structure of integers and arrays.
    let mut membership: libc::packet_mreq = unsafe { mem::zeroed() };
    membership.mr_ifindex = index;
    membership.mr_type = libc::PACKET_MR_PROMISC as _;
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    // SAFETY: as above.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as _;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address and its length are a packet socket's own, and are read before the call returns.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(socket),
    }
}

/// Linux `include/uapi/linux/if_packet.h`.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_VNET_HDR: libc::c_int = 15;

fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of_val(value) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`, which the option takes, before the call returns.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
