//! Packets with a beat, and what comes of them. All with plain UDP sockets of the two namespaces.

use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Wall, Instant};

use headend_host::clock;

pub(crate) const PORT: u16 = 9_000;
/// A full packet of 1500 bytes, less IP's and UDP's headers.
const PAYLOAD: usize = 1_472;
/// Packets received in one system call at most.
const BATCH: usize = 64;

/// The lateness of something, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) count: usize,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Late {
    pub(crate) fn of(mut nanos: Vec<u64>) -> Late {
        assert!(!nanos.is_empty(), "something was measured");
        nanos.sort_unstable();
        let quantile = |percent: usize| nanos[(nanos.len() * percent / 100).min(nanos.len() - 1)];
        Late { count: nanos.len(), p50: quantile(50), p99: quantile(99), max: nanos[nanos.len() - 1] }
    }
}

/// The outcome of a steady load.
#[derive(Debug)]
pub(crate) struct Load {
    /// Packets sent.
    pub(crate) sent: u64,
    /// The length of the load.
    pub(crate) took: Wall,
    /// Packets that the far kernel had for the receiver.
    pub(crate) arrived: u64,
    /// Packets that were dropped because the driver did not read them in time.
    pub(crate) not_read: u64,
    /// The share of a core that the driver used.
    pub(crate) core: Option<f64>,
}

impl Load {
    pub(crate) fn sent_mbit(&self) -> f64 {
        self.sent as f64 * 1_500.0 * 8.0 / self.took.as_secs_f64() / 1e6
    }
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps of 1 to 3 ms, none in step with anything.
fn spans() -> impl Iterator<Item = Wall> {
    (0_u64..).map(|n| Wall::from_nanos(1_000_000 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 2_000_000))
}

/// The lateness of a thread that asks to be woken as a reactor's does, and does nothing else.
pub(crate) fn sleep_lateness(seconds: Wall) -> Late {
    let _ = clock::wake_on_time();
    let start = Instant::now();
    let mut late = Vec::new();
    for span in spans() {
        if start.elapsed() > seconds {
            break;
        }
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: span.subsec_nanos().into() };
        let due = now_ns(libc::CLOCK_MONOTONIC) + span.as_nanos() as u64;
        // SAFETY: no descriptors, and a time-out that is read before the call returns: the reactor's own way to sleep.
        unsafe { libc::ppoll(ptr::null_mut(), 0, &raw const timeout, ptr::null()) };
        late.push(now_ns(libc::CLOCK_MONOTONIC).saturating_sub(due));
    }
    Late::of(late)
}

/// Asks that the calling thread go before other programs, which are not what is measured, and after a reactor's.
pub(crate) fn go_first() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: thread 0 is the calling one, and the parameters are read before the call returns.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameters) };
}

/// Sends a small packet with the time in it, now and then.
pub(crate) fn send_probes(socket: &UdpSocket, to: Ipv4Addr, seconds: Wall) {
    go_first();
    let start = Instant::now();
    for span in spans() {
        if start.elapsed() > seconds {
            break;
        }
        std::thread::sleep(span);
        let now = now_ns(libc::CLOCK_REALTIME).to_le_bytes();
        socket.send_to(&now, (to, PORT)).expect("the path takes a small packet");
    }
}

/// IP and UDP headers and the time.
pub(crate) const PROBE_BYTES: u64 = 20 + 8 + 8;

/// Receives probes until none has come for a second: the kernel's time stamp of each less the time in it.
pub(crate) fn receive_probes(socket: &UdpSocket) -> Vec<u64> {
    socket.set_read_timeout(Some(Wall::from_secs(1))).expect("a time-out is allowed");
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    let mut took = Vec::new();
    loop {
        let mut payload = [0_u8; 8];
        let mut control = [0_u64; 8];
        let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
        // SAFETY: all zeros are a value of this structure of pointers and lengths.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        // SAFETY: the message points to buffers of this block with their lengths.
        if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } < 0 {
            return took;
        }
        // SAFETY: the kernel has set the control buffer's length, and this looks no further.
        let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
        assert!(!header.is_null(), "the kernel stamps what it receives, as it was asked to");
        // SAFETY: the one message in the control buffer is a `timespec`.
        let stamp: libc::timespec = unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
        let arrived = stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64;
        took.push(arrived.saturating_sub(u64::from_le_bytes(payload)));
    }
}

/// Packets that the kernel cuts out of one call's payload, before the device: sending costs the machine less than what
/// is measured.
const CUT: usize = 8;

fn set(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    let len = mem::size_of_val(&value) as libc::socklen_t;
    // SAFETY: the option takes an int, which is read before the call returns.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    assert_eq!(set, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// Sends full packets at a steady rate, as far as the machine lets it; how many, and in what time.
pub(crate) fn send_steadily(socket: &UdpSocket, to: Ipv4Addr, rate_mbit: u64, seconds: Wall) -> (u64, Wall) {
    socket.connect((to, PORT)).expect("UDP connects to any address");
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, PAYLOAD as libc::c_int);
    let payload = vec![0x5a_u8; PAYLOAD * CUT];
    go_first();
    let (start, mut sent) = (Instant::now(), 0_u64);
    loop {
        let elapsed = start.elapsed();
        if elapsed >= seconds {
            return (sent, elapsed);
        }
        let due = elapsed.as_nanos() as u64 * rate_mbit / (1_500 * 8 * 1_000);
        if due < sent + CUT as u64 {
            std::thread::sleep(Wall::from_micros(20));
            continue;
        }
        socket.send(&payload).expect("the sender's device is up");
        sent += CUT as u64;
    }
}

/// Throws away what arrives until told to stop.
pub(crate) fn discard(socket: &UdpSocket, stop: &AtomicBool) {
    go_first();
    socket.set_read_timeout(Some(Wall::from_millis(100))).expect("a time-out is allowed");
    // SAFETY: all zeros are a value of this structure of pointers and lengths: messages without room for any byte.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    while !stop.load(Ordering::Relaxed) {
        let (socket, messages) = (socket.as_raw_fd(), messages.as_mut_ptr());
        // SAFETY: the messages live until the call returns and have no buffers that it could write to.
        unsafe { libc::recvmmsg(socket, messages, BATCH as u32, libc::MSG_WAITFORONE, ptr::null_mut()) };
    }
}
